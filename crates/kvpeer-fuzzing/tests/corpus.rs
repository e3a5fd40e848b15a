//! Replays what fuzzing has found.

use std::fs;
use std::path::PathBuf;

#[test]
fn endpoint() {
    replay("endpoint", kvpeer_fuzzing::endpoint);
}

#[test]
fn session() {
    replay("session", kvpeer_fuzzing::session);
}

#[test]
fn world() {
    replay("world", kvpeer_fuzzing::world);
}

fn replay(target: &str, run: fn(&[u8])) {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(target);
    let files = fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut count = 0;
    for file in files {
        let path = file.expect("a readable folder").path();
        println!("{}", path.display()); // Shown when it panics.
        run(&fs::read(&path).expect("a readable file"));
        count += 1;
    }
    assert!(count > 0, "{} is empty", folder.display());
}
