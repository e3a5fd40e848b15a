//! Replays what fuzzing has found.

use std::fs;
use std::path::PathBuf;

use kvpeer_wire::fuzzing;

#[test]
fn decode() {
    replay("decode", fuzzing::decode);
}

#[test]
fn frame() {
    replay("frame", fuzzing::frame);
}

fn replay(target: &str, run: fn(&[u8])) {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(target);
    let files = fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut count = 0;
    for file in files {
        let path = file.unwrap().path();
        println!("{}", path.display()); // Shown when it panics.
        run(&fs::read(&path).unwrap());
        count += 1;
    }
    assert!(count > 0, "{} is empty", folder.display());
}
