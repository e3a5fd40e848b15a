//! What the machine must have beside Rust, and how it gets there.

use std::fmt;
use std::io;
use std::process::{Command, Stdio};

use crate::Failure;

/// Whether missing packages may be installed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Install {
    WithApt,
    Refuse,
}

/// Something that kvpeer's build or checks need from the system.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Need {
    /// Its headers, and pkg-config to find them.
    Libfabric,
    Valgrind,
    /// To read what instrumented tests have counted.
    LlvmTools,
    /// To draw graphs.
    Graphviz,
    /// Builds libzmq.
    CppCompiler,
}

/// The oldest libfabric that kvpeer is tested with.
const OLDEST_LIBFABRIC: &str = "1.17";

/// Where Debian and Ubuntu put the tools of the LLVM that the toolchain of CI is built on.
pub(crate) const LLVM_TOOLS: &str = "/usr/lib/llvm-22/bin";

impl Need {
    fn packages(self) -> &'static [&'static str] {
        match self {
            Self::Libfabric => &["libfabric-dev", "pkg-config"],
            Self::Valgrind => &["valgrind"],
            Self::LlvmTools => &["llvm-22"],
            Self::Graphviz => &["graphviz"],
            Self::CppCompiler => &["g++"],
        }
    }

    fn is_met(self) -> bool {
        match self {
            Self::Libfabric => {
                let oldest = format!("--atleast-version={OLDEST_LIBFABRIC}");
                succeeds(Command::new("pkg-config").args([&oldest, "libfabric"]))
            }
            Self::Valgrind => succeeds(Command::new("valgrind").arg("--version")),
            Self::Graphviz => succeeds(Command::new("dot").arg("-V")),
            Self::CppCompiler => succeeds(Command::new("c++").arg("--version")),
            Self::LlvmTools => {
                let tools = std::path::Path::new(LLVM_TOOLS);
                ["llvm-cov", "llvm-profdata"].iter().all(|tool| tools.join(tool).is_file())
            }
        }
    }
}

impl fmt::Display for Need {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Libfabric => {
                write!(f, "the headers of libfabric {OLDEST_LIBFABRIC} or newer, and pkg-config")
            }
            Self::Valgrind => f.write_str("valgrind"),
            Self::LlvmTools => f.write_str("llvm-cov and llvm-profdata of LLVM 22"),
            Self::Graphviz => f.write_str("Graphviz' dot"),
            Self::CppCompiler => f.write_str("a C++ compiler"),
        }
    }
}

/// Makes sure that every need is met, installing what is missing if that is allowed.
pub(crate) fn provide(needs: &[Need], install: Install) -> Result<(), Failure> {
    if !succeeds(Command::new("cc").arg("--version")) {
        return Err(Failure::Told(
            "there is no C compiler (`cc`): install one first, on Debian and Ubuntu with `apt-get install gcc \
             libc6-dev`"
                .to_owned(),
        ));
    }
    let missing: Vec<Need> = needs.iter().copied().filter(|need| !need.is_met()).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let plan = plan(&missing, install, &Machine::look()).map_err(Failure::Told)?;
    eprintln!("xtask: missing: {}; to be installed with", list(&missing));
    for step in &plan {
        eprintln!("xtask:   {}", step.join(" "));
    }
    for step in &plan {
        run(step)?;
    }
    match missing.iter().find(|need| !need.is_met()) {
        None => Ok(()),
        Some(need) => Err(Failure::Told(format!(
            "{need}: still missing after the installation; this distribution's packages may be too old (Debian \
             12 and Ubuntu 24.04 are new enough)"
        ))),
    }
}

/// What of the machine decides how to install.
struct Machine {
    apt: bool,
    root: bool,
    sudo: bool,
}

impl Machine {
    fn look() -> Self {
        let uid = Command::new("id").arg("-u").output().map(|out| out.stdout).unwrap_or_default();
        Self {
            apt: succeeds(Command::new("apt-get").arg("--version")),
            root: uid.trim_ascii() == b"0",
            sudo: succeeds(Command::new("sudo").arg("-V")),
        }
    }
}

/// The commands that install what is missing, or why they are not run.
fn plan(missing: &[Need], install: Install, machine: &Machine) -> Result<Vec<Vec<String>>, String> {
    let packages: Vec<&str> = missing.iter().flat_map(|need| need.packages()).copied().collect();
    let names = packages.join(" ");
    let list = list(missing);
    if !machine.apt {
        return Err(format!(
            "missing: {list}; this system has no apt-get, so install what corresponds to Debian's {names} with \
             your package manager, then try again"
        ));
    }
    if install == Install::Refuse {
        let sudo = if machine.root { "" } else { "sudo " };
        return Err(format!(
            "missing: {list}; --no-install was given, so run {sudo}apt-get update && {sudo}apt-get install {names}"
        ));
    }
    if !machine.root && !machine.sudo {
        return Err(format!(
            "missing: {list}; there is neither root nor sudo to install it, so run as root: apt-get update && \
             apt-get install {names}"
        ));
    }
    let apt = |rest: &[&str]| {
        let prefix: &[&str] = if machine.root { &[] } else { &["sudo"] };
        let quiet =
            ["env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "-q", "-o", "DPkg::Lock::Timeout=120"];
        prefix.iter().chain(&quiet).chain(rest).map(|&word| word.to_owned()).collect()
    };
    let wanted: Vec<&str> =
        ["install", "--yes", "--no-install-recommends"].into_iter().chain(packages).collect();
    Ok(vec![apt(&["update"]), apt(&wanted)])
}

fn list(missing: &[Need]) -> String {
    let names: Vec<String> = missing.iter().map(Need::to_string).collect();
    names.join("; ")
}

fn run(step: &[String]) -> Result<(), Failure> {
    let (program, args) = step.split_first().ok_or_else(|| Failure::Told("an empty command".to_owned()))?;
    let told = |why: String| Failure::Told(format!("`{}` {why}", step.join(" ")));
    // Standard output belongs to the task itself.
    let status = Command::new(program).args(args).stdout(io::stderr()).status();
    let status = status.map_err(|error| told(format!("cannot be started: {error}")))?;
    if status.success() { Ok(()) } else { Err(told(format!("failed ({status})"))) }
}

fn succeeds(command: &mut Command) -> bool {
    let quiet = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    quiet.status().is_ok_and(|status| status.success())
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROOT: Machine = Machine { apt: true, root: true, sudo: false };
    const USER: Machine = Machine { apt: true, root: false, sudo: true };

    fn lines(plan: &[Vec<String>]) -> Vec<String> {
        plan.iter().map(|step| step.join(" ")).collect()
    }

    #[test]
    fn root_installs_directly() {
        let plan = plan(&[Need::Libfabric], Install::WithApt, &ROOT).expect("allowed");
        let apt = "env DEBIAN_FRONTEND=noninteractive apt-get -q -o DPkg::Lock::Timeout=120";
        assert_eq!(
            lines(&plan),
            [
                format!("{apt} update"),
                format!("{apt} install --yes --no-install-recommends libfabric-dev pkg-config")
            ]
        );
    }

    #[test]
    fn others_use_sudo() {
        let plan = plan(&[Need::Libfabric, Need::Valgrind], Install::WithApt, &USER).expect("allowed");
        assert!(lines(&plan).iter().all(|line| line.starts_with("sudo env ")));
        assert!(lines(&plan)[1].ends_with("libfabric-dev pkg-config valgrind"));
    }

    #[test]
    fn a_refusal_names_the_command_to_run() {
        let refused = plan(&[Need::Libfabric], Install::Refuse, &USER).expect_err("refused");
        let command = "sudo apt-get update && sudo apt-get install libfabric-dev pkg-config";
        assert!(refused.ends_with(command), "{refused}");
        let refused = plan(&[Need::Valgrind], Install::Refuse, &ROOT).expect_err("refused");
        assert!(refused.ends_with("so run apt-get update && apt-get install valgrind"), "{refused}");
    }

    #[test]
    fn without_apt_the_packages_are_named() {
        let machine = Machine { apt: false, ..USER };
        for install in [Install::WithApt, Install::Refuse] {
            let refused = plan(&[Need::Libfabric], install, &machine).expect_err("refused");
            assert!(
                refused.contains("no apt-get") && refused.contains("libfabric-dev pkg-config"),
                "{refused}"
            );
        }
    }

    #[test]
    fn without_root_and_sudo_it_says_so() {
        let machine = Machine { sudo: false, ..USER };
        let refused = plan(&[Need::Libfabric], Install::WithApt, &machine).expect_err("refused");
        assert!(refused.contains("neither root nor sudo"), "{refused}");
    }
}
