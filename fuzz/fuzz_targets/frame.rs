#![no_main]

use kvpeer_wire::fuzzing;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| fuzzing::frame(bytes));
