//! Proof that nothing here needs std: a program that has none links and runs.

use std::path::Path;
use std::process::Command;

#[test]
fn a_program_without_std_links_and_runs() {
    let package = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/no_std");
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join("no_std");
    let mut build = Command::new(std::env::var_os("CARGO").unwrap_or("cargo".into()));
    build.args(["build", "--quiet", "--locked", "--manifest-path"]).arg(package.join("Cargo.toml"));
    build.arg("--target-dir").arg(&target);
    // Sanitizers and coverage need std, and a target moves what is built.
    for variable in [
        "RUSTFLAGS",
        "CARGO_ENCODED_RUSTFLAGS",
        "RUSTC_WRAPPER",
        "RUSTC_WORKSPACE_WRAPPER",
        "CARGO_BUILD_TARGET",
    ] {
        build.env_remove(variable);
    }
    let built = build.status().expect("cargo starts");
    assert!(
        built.success(),
        "tests/no_std does not build. Does a dependency need std? If only its Cargo.lock is old, run: \
         cargo update --workspace --manifest-path tests/no_std/Cargo.toml"
    );
    let run = Command::new(target.join("debug/kvpeer-no-std")).status().expect("it starts");
    assert!(run.success(), "a fetch does not come back as it went: {run}");
}
