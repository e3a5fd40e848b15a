//! Replays what fuzzing has found.

use std::fs;
use std::path::PathBuf;

use kvpeer_vllm::fuzzing;

#[test]
fn decode() {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/vllm_decode");
    let files = fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut count = 0;
    for file in files {
        let path = file.unwrap().path();
        println!("{}", path.display()); // Shown when it panics.
        fuzzing::decode(&fs::read(&path).unwrap());
        count += 1;
    }
    assert!(count > 0, "{} is empty", folder.display());
}
