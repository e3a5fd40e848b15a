//! `cargo xtask test`: the whole suite with plain cargo, and the memory checkers.

use clap::Args;

use crate::cargo::{self, Tally, cargo};
use crate::check::FACADE_FEATURES;
use crate::model;
use crate::system::{self, Need};
use crate::{Failure, Setup};

#[derive(Args)]
pub(crate) struct TestArgs {
    #[command(flatten)]
    setup: Setup,
    /// Only the tests of crates with unsafe code, with AddressSanitizer and LeakSanitizer
    #[arg(long, conflicts_with = "valgrind")]
    asan: bool,
    /// Only the tests of crates with unsafe code, under valgrind
    #[arg(long)]
    valgrind: bool,
}

/// The tests of the crates that unsafe code may live in: the data plane's, and the facade's region.
const UNSAFE_CODE: &[&[&str]] = &[
    &["--package", "kvpeer-fabric-sys", "--package", "kvpeer-fabric", "--lib", "--tests"],
    &["--package", "kvpeer", "--lib"],
];

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

/// Unit, integration and documentation tests of every crate; then the facade's other feature sets, and the model's
/// quick cases.
fn suite(tally: &mut Tally) -> Result<(), Failure> {
    cargo::test(cargo(&["test", "--workspace"]), tally)?;
    for features in FACADE_FEATURES {
        cargo::test(cargo(&[&["test", "--package", "kvpeer"], *features].concat()), tally)?;
    }
    model::quick()
}

fn asan(tally: &mut Tally) -> Result<(), Failure> {
    // The sanitizers are in every stable toolchain; only the switch is called unstable.
    let env = [("RUSTC_BOOTSTRAP", "1"), ("RUSTFLAGS", "-Zsanitizer=address")];
    unsafe_code(tally, |_| env.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec())
}

fn valgrind(tally: &mut Tally) -> Result<(), Failure> {
    // Tests run in their package's directory; an absolute path could have spaces in it, at which cargo would cut.
    let runner = "valgrind --quiet --error-exitcode=99 --leak-check=full --show-leak-kinds=definite \
                  --errors-for-leak-kinds=definite --suppressions=../xtask/valgrind.supp";
    unsafe_code(tally, |target| {
        let variable = format!("CARGO_TARGET_{}_RUNNER", target.replace(['-', '.'], "_").to_uppercase());
        vec![(variable, runner.to_owned())]
    })
}

/// Runs the tests of unsafe code for a named target, so that build scripts and macros are built as ever.
fn unsafe_code(tally: &mut Tally, env: impl Fn(&str) -> Vec<(String, String)>) -> Result<(), Failure> {
    let target = cargo::host_target()?;
    for tests in UNSAFE_CODE {
        let mut command = cargo(&["test", "--target", &target]);
        command.args(*tests).envs(env(&target));
        cargo::test(command, tally)?;
    }
    Ok(())
}
