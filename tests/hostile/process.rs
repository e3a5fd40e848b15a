//! Nodes in processes of their own: the one under attack, and an honest peer of it.

use std::io::{BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// Of the nodes' regions.
pub(crate) const BLOCK_LEN: u64 = 4096;

/// What a node may keep for all peers (`Limits::total_bytes`), and what it may grow by beside that.
const BUDGET: u64 = 64 << 20;
const SLACK: u64 = 32 << 20;

pub(crate) struct Process {
    child: Child,
    tell: ChildStdin,
    hear: BufReader<ChildStdout>,
    pub(crate) address: SocketAddr,
}

impl Process {
    pub(crate) fn start() -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_hostile-node"));
        command.envs(kvpeer_fabric::RECOMMENDED_ENV.iter().copied());
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("it was built");
        let tell = child.stdin.take().expect("piped");
        let mut hear = BufReader::new(child.stdout.take().expect("piped"));
        let address = read_line(&mut hear).parse().expect("it says where it listens");
        Self { child, tell, hear, address }
    }

    #[track_caller]
    fn must(&mut self, line: &str, answer: &str) {
        assert_eq!(self.ask(line), answer, "{line}");
    }

    fn ask(&mut self, line: &str) -> String {
        writeln!(self.tell, "{line}").expect("it lives");
        read_line(&mut self.hear)
    }
}

fn read_line(hear: &mut impl BufRead) -> String {
    let mut line = String::new();
    hear.read_line(&mut line).expect("it lives");
    assert!(!line.is_empty(), "the node has ended");
    line.trim_end().to_owned()
}

impl Drop for Process {
    fn drop(&mut self) {
        // It has ended already when a test has failed because of that.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A node under attack, and an honest peer with a session.
pub(crate) struct Pair {
    pub(crate) victim: Process,
    honest: Process,
    /// Resident memory of the node under attack before the attack.
    quiet: u64,
}

impl Pair {
    pub(crate) fn start() -> Self {
        let (victim, honest) = (Process::start(), Process::start());
        let mut pair = Self { victim, honest, quiet: 0 };
        pair.honest.must(&format!("connect {}", pair.victim.address), "up");
        pair.works();
        pair.victim.must("mark", "marked");
        pair.quiet = pair.memory().0;
        pair
    }

    /// Jobs in both directions and of both kinds are done, on the session that is there.
    #[track_caller]
    pub(crate) fn works(&mut self) {
        let pull = format!("pull {}", self.victim.address);
        self.honest.must(&pull, "loaded");
        self.honest.must("offer", "offered");
        let load = format!("load {}", self.honest.address);
        self.victim.must(&load, "loaded");
        self.honest.must("offered", "delivered");
    }

    /// Resident bytes now, and at most since the mark.
    fn memory(&mut self) -> (u64, u64) {
        let answer = self.victim.ask("memory");
        let (now, most) = answer.split_once(' ').expect("two numbers");
        let bytes = |kib: &str| kib.parse::<u64>().expect("a number") << 10;
        (bytes(now), bytes(most))
    }

    /// However hard it was attacked: it has not grown by more than it may.
    #[track_caller]
    pub(crate) fn has_kept_its_budget(&mut self) {
        let (now, most) = self.memory();
        let mib = |bytes: u64| bytes.saturating_sub(self.quiet) >> 20;
        println!("grown by {} MiB at most, {} MiB now", mib(most), mib(now));
        assert!(most <= self.quiet + BUDGET + SLACK, "the node has grown by {} MiB", mib(most));
    }
}
