//! Runs that once broke a promise, kept as scripts.

use std::path::Path;
use std::sync::Arc;

use kvpeer_model::cases;
use kvpeer_sim::{Log, Tale, replay, setup_of};

#[test]
fn what_was_broken_once_stays_whole() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/tales");
    let mut told = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let tale: Tale = std::fs::read_to_string(&path).unwrap().parse().unwrap();
        let setup = cases::named(&tale.world).map(|case| case.setup).or_else(|| setup_of(&tale.world));
        let telling = replay(&Arc::new(setup.unwrap()), &tale.steps, Log::told());
        assert_eq!(telling.taken, tale.steps, "{} does not fit the world any more", path.display());
        let story = telling.log.lines.iter().flatten().cloned().collect::<Vec<_>>().join("\n");
        assert!(telling.broken().is_none(), "{}: {:?}\n{story}", path.display(), telling.broken());
        told += 1;
    }
    assert!(told > 0);
}
