#![no_main]

use kvpeer_vllm::fuzzing;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| fuzzing::decode(bytes));
