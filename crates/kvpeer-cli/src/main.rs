//! The `kvpeer` program.
fn main() {}
