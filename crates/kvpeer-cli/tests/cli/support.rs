//! Runs the program, and ends it with the test.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::process::{Pid, Signal, kill_process};

pub(crate) const KV: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/data/smollm2-135m-prompt.kv.safetensors");
pub(crate) const TOKENS: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/data/smollm2-135m-prompt.tokens.json");

pub(crate) fn kvpeer<S: AsRef<std::ffi::OsStr>>(args: impl IntoIterator<Item = S>) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kvpeer"));
    command.args(args).stdin(Stdio::null()).env_remove("RUST_LOG");
    command
}

/// How a run that has ended went.
pub(crate) struct Outcome {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Outcome {
    /// The one JSON object on standard output.
    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.out).unwrap_or_else(|error| panic!("{error}: {}", self.out))
    }
}

/// Runs to the end.
pub(crate) fn run<S: AsRef<std::ffi::OsStr>>(args: impl IntoIterator<Item = S>) -> Outcome {
    let output = kvpeer(args).output().expect("the program starts");
    Outcome {
        code: output.status.code().expect("an exit code"),
        out: String::from_utf8(output.stdout).expect("text"),
        err: String::from_utf8(output.stderr).expect("text"),
    }
}

/// A directory of one test, gone with it.
pub(crate) struct Dir(PathBuf);

impl Dir {
    pub(crate) fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("kvpeer-cli-{}-{number}", std::process::id()));
        fs::create_dir(&path).expect("a directory");
        Self(path)
    }

    pub(crate) fn path(&self, name: &str) -> String {
        self.0.join(name).to_str().expect("a path of text").to_owned()
    }

    pub(crate) fn write(&self, name: &str, content: impl AsRef<[u8]>) -> String {
        let path = self.path(name);
        fs::write(&path, content).expect("a file");
        path
    }

    pub(crate) fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = fs::read_dir(&self.0)
            .expect("a directory")
            .map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned())
            .collect();
        names.sort();
        names
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).ok();
    }
}

/// A run that goes on until it is told to end, or dropped.
pub(crate) struct Running {
    pub(crate) child: Child,
    pub(crate) lines: std::io::Lines<BufReader<ChildStdout>>,
}

impl Running {
    pub(crate) fn start<S: AsRef<std::ffi::OsStr>>(args: impl IntoIterator<Item = S>) -> Self {
        let mut child =
            kvpeer(args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the program starts");
        let lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
        Self { child, lines }
    }

    pub(crate) fn line(&mut self) -> String {
        match self.lines.next() {
            Some(line) => line.expect("text"),
            None => {
                let mut err = String::new();
                self.child.stderr.take().expect("a pipe").read_to_string(&mut err).expect("text");
                panic!("the program ended: {err}")
            }
        }
    }

    pub(crate) fn json_line(&mut self) -> serde_json::Value {
        let line = self.line();
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"))
    }

    pub(crate) fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(self.pid(), signal).expect("it runs");
    }

    /// Waits for the end; answers the exit code and what else came on the two streams.
    pub(crate) fn end(mut self) -> Outcome {
        let out: Vec<String> = self.lines.by_ref().map(|line| line.expect("text")).collect();
        let mut err = String::new();
        self.child.stderr.take().expect("a pipe").read_to_string(&mut err).expect("text");
        let code = self.child.wait().expect("an end").code().expect("an exit code");
        Outcome { code, out: out.join("\n"), err }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

/// A `serve` that listens.
pub(crate) struct Server {
    pub(crate) running: Running,
    pub(crate) address: String,
    pub(crate) block_len: String,
}

impl Server {
    pub(crate) fn start(file: &str, more: &[&str]) -> Self {
        let args = [&["serve", file, "--json", "--listen", "127.0.0.1:0"], more].concat();
        let mut running = Running::start(args);
        let ready = running.json_line();
        assert_eq!(ready["event"], "listening", "{ready}");
        let address = ready["address"].as_str().expect("an address").to_owned();
        let block_len = ready["block_len"].to_string();
        Self { running, address, block_len }
    }

    /// Ctrl-C, and what it printed since.
    pub(crate) fn stop(self) -> Outcome {
        self.running.signal(Signal::INT);
        self.running.end()
    }
}

pub(crate) fn read(path: impl AsRef<Path>) -> Vec<u8> {
    fs::read(path).expect("a file")
}
