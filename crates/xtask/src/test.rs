//! `cargo xtask test`: the whole suite with plain cargo, and the memory checkers.

use clap::Args;

use crate::cargo::{self, Tally, cargo};
use crate::check::FACADE_FEATURES;
use crate::system::{self, Need};
use crate::{Failure, Setup};

#[derive(Args)]
pub(crate) struct TestArgs {
    #[command(flatten)]
    setup: Setup,
    /// Only the tests of code behind the foreign-function boundary, with AddressSanitizer and LeakSanitizer
    #[arg(long, conflicts_with = "valgrind")]
    asan: bool,
    /// Only the tests of code behind the foreign-function boundary, under valgrind
    #[arg(long)]
    valgrind: bool,
}

/// Where unsafe code may live.
const FFI_CRATES: &[&str] = &["--package", "kvpeer-fabric-sys", "--package", "kvpeer-fabric"];

pub(crate) fn run(args: &TestArgs) -> Result<(), Failure> {
    let mut tally = Tally::default();
    let outcome = if args.asan {
        system::provide(&[Need::Libfabric], args.setup.policy())?;
        asan(&mut tally)
    } else if args.valgrind {
        system::provide(&[Need::Libfabric, Need::Valgrind], args.setup.policy())?;
        valgrind(&mut tally)
    } else {
        system::provide(&[Need::Libfabric], args.setup.policy())?;
        suite(&mut tally)
    };
    let Tally { passed, failed, ignored } = tally;
    println!("tests: {passed} passed, {failed} failed, {ignored} skipped");
    outcome?;
    // A suite that ran nothing proves nothing.
    if passed == 0 { Err(Failure::Told("no test ran".to_owned())) } else { Ok(()) }
}

/// Unit, integration and documentation tests of every crate; then the facade's other feature sets.
fn suite(tally: &mut Tally) -> Result<(), Failure> {
    cargo::test(cargo(&["test", "--workspace"]), tally)?;
    for features in FACADE_FEATURES {
        cargo::test(cargo(&[&["test", "--package", "kvpeer"], *features].concat()), tally)?;
    }
    Ok(())
}

fn asan(tally: &mut Tally) -> Result<(), Failure> {
    let target = cargo::host_target()?;
    let mut command = cargo(&["test", "--target", &target, "--lib", "--tests"]);
    command.args(FFI_CRATES);
    // The sanitizers are in every stable toolchain; only the switch is called unstable.
    command.env("RUSTC_BOOTSTRAP", "1").env("RUSTFLAGS", "-Zsanitizer=address");
    cargo::test(command, tally)
}

fn valgrind(tally: &mut Tally) -> Result<(), Failure> {
    let target = cargo::host_target()?;
    let mut command = cargo(&["test", "--target", &target, "--lib", "--tests"]);
    command.args(FFI_CRATES);
    let runner = "valgrind --quiet --error-exitcode=99 --leak-check=full --errors-for-leak-kinds=definite";
    let variable = format!("CARGO_TARGET_{}_RUNNER", target.replace(['-', '.'], "_").to_uppercase());
    command.env(variable, runner);
    cargo::test(command, tally)
}
