//! `cargo xtask interop`: kvpeer and vLLM's own nodes, both ways, every byte compared.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use clap::Args;

use crate::cargo::{self, cargo, root};
use crate::system::{self, Need};
use crate::{Failure, Setup};

#[derive(Args)]
pub(crate) struct InteropArgs {
    #[command(flatten)]
    setup: Setup,
    /// Fewer scenarios and fetches
    #[arg(long)]
    short: bool,
    /// Install nothing from the network; without what an earlier run installed, nothing runs, and the last line says so
    #[arg(long)]
    offline: bool,
}

pub(crate) fn run(args: &InteropArgs) -> Result<(), Failure> {
    let cache = cache()?;
    let ready = cache.join("ready").is_file();
    if args.offline && !ready {
        println!(
            "interop skipped: --offline was given, and vLLM's code and NIXL are not in {}; nothing was installed, \
             nothing was run",
            cache.display()
        );
        return Ok(());
    }
    system::provide(&[Need::Libfabric, Need::CppCompiler], args.setup.policy())?;
    if !ready {
        install(args, &cache)?;
    }
    let example = ["--package", "kvpeer-vllm", "--features", "zmq", "--example", "interop_node"];
    let program = ["--package", "kvpeer-cli", "--features", "vllm", "--bin", "kvpeer"];
    for what in [&example[..], &program[..]] {
        cargo::run(cargo(&[&["build"], what].concat()))?;
    }
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from);
    let mut tests = Command::new(cache.join("venv/bin/python"));
    tests.arg(script("interop.py")).arg(target.join("debug/examples/interop_node"));
    tests.arg(target.join("debug/kvpeer")).env("KVPEER_VLLM_CACHE", &cache).current_dir(root());
    if args.short {
        tests.arg("--short");
    }
    done("tests/interop/interop.py", &mut tests)
}

/// vLLM's own P2P code and NIXL, as their packages have them.
fn install(args: &InteropArgs, cache: &Path) -> Result<(), Failure> {
    let setup = script("setup.sh");
    if args.setup.no_install {
        return Err(Failure::Told(format!(
            "missing: vLLM's P2P code and NIXL; --no-install was given, so run KVPEER_VLLM_CACHE={} {}",
            cache.display(),
            setup.display()
        )));
    }
    eprintln!("xtask: missing: vLLM's P2P code and NIXL; to be installed with pip into {}", cache.display());
    done("tests/interop/setup.sh", Command::new("bash").arg(setup).env("KVPEER_VLLM_CACHE", cache))
}

fn script(name: &str) -> PathBuf {
    root().join("tests/interop").join(name)
}

fn cache() -> Result<PathBuf, Failure> {
    if let Some(cache) = std::env::var_os("KVPEER_VLLM_CACHE") {
        return Ok(cache.into());
    }
    let home = std::env::var_os("HOME").ok_or_else(|| {
        Failure::Told("neither KVPEER_VLLM_CACHE nor HOME says where to install".to_owned())
    })?;
    Ok(PathBuf::from(home).join(".cache/kvpeer-vllm"))
}

fn done(what: &str, command: &mut Command) -> Result<(), Failure> {
    let status = command.stdin(Stdio::null()).status();
    match status {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(Failure::Told(format!("{what} failed ({status})"))),
        Err(error) => Err(Failure::Told(format!("{what} cannot be run: {error}"))),
    }
}
