//! The environment that libfabric and NIXL read.

use std::os::unix::process::CommandExt;
use std::process::Command;

use crate::say;

/// Replaces this process by itself, with the variables that they should find and the user did not set.
///
/// They must be there before they are loaded and before any thread runs, so this comes first. It returns when
/// there is nothing to add, or when it is not possible: libfabric then works with its defaults, at a price.
pub(crate) fn complete() {
    let missing = missing();
    if missing.is_empty() {
        return;
    }
    let Ok(program) = std::env::current_exe() else { return };
    let mut args = std::env::args_os();
    let mut again = Command::new(program);
    if let Some(name) = args.next() {
        again.arg0(name);
    }
    let error = again.args(args).envs(missing.iter().copied()).exec();
    say::warning(format_args!(
        "the recommended environment could not be set ({error}); peers may cost more memory and time"
    ));
}

fn missing() -> Vec<(&'static str, &'static str)> {
    let fabric = kvpeer_fabric::missing_env().into_iter();
    #[cfg(feature = "vllm")]
    let fabric = fabric.chain(kvpeer_nixl::missing_env());
    fabric.collect()
}
