//! Generated worlds and generated facts: what no story has thought of.

mod facts;
mod words;
mod worlds;
