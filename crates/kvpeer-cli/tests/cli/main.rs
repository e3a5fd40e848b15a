//! The program as its users run it.

mod bad_input;
mod demo;
mod keys_and_info;
mod serve_and_fetch;
mod support;
