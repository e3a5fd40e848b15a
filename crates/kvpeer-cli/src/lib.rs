//! The `kvpeer` program's parts that others can use: how blocks are named and cut.

mod key_list;
pub mod keys;
pub mod layout;
mod tokens;
