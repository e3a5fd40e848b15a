//! `cargo xtask check`: what a change must not break beside the tests.

use clap::Args;

use crate::cargo::{self, cargo};
use crate::system::{self, Need};
use crate::{Failure, Setup};

#[derive(Args)]
pub(crate) struct CheckArgs {
    #[command(flatten)]
    setup: Setup,
}

/// Feature sets of the facade that are shipped beside the default one.
pub(crate) const FACADE_FEATURES: &[&[&str]] = &[&["--no-default-features"], &["--all-features"]];

/// Workspaces of their own.
const APART: &[&str] = &["fuzz/Cargo.toml", "tests/no_std/Cargo.toml"];

pub(crate) fn run(args: &CheckArgs) -> Result<(), Failure> {
    system::provide(&[Need::Libfabric], args.setup.policy())?;
    cargo::run(cargo(&["fmt", "--all", "--check"]))?;
    for apart in APART {
        cargo::run(cargo(&["fmt", "--manifest-path", apart, "--check"]))?;
    }
    let clippy = ["clippy", "--workspace", "--all-targets"];
    cargo::run(cargo(&[&clippy[..], &["--", "-D", "warnings"]].concat()))?;
    for features in FACADE_FEATURES {
        let clippy = ["clippy", "--package", "kvpeer", "--all-targets"];
        cargo::run(cargo(&[&clippy[..], features, &["--", "-D", "warnings"]].concat()))?;
    }
    for of in [&["--workspace"][..], &["--package", "kvpeer", "--all-features"]] {
        let mut doc = cargo(&[&["doc", "--no-deps"], of].concat());
        doc.env("RUSTDOCFLAGS", "-D warnings");
        cargo::run(doc)?;
    }
    println!("xtask: check ok");
    Ok(())
}
