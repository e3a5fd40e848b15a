//! The demo, on a small region; the whole of it is a task of its own.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open};
use serde_json::json;

use crate::support::{KV, Running, TOKENS};

const SMALL: [&str; 8] = ["demo", "--json", "--kv", KV, "--tokens", TOKENS, "--region-mib", "32"];

#[test]
fn every_step_is_shown() {
    let mut demo = Running::start(SMALL);
    let mut steps = Vec::new();
    let last = loop {
        let line = demo.json_line();
        if line.get("demo").is_some() {
            break line;
        }
        // A cut that was not in mid-transfer is tried again, as often as it takes.
        if line.get("missed").is_none() {
            steps.push(line);
        }
    };
    let names: Vec<&str> = steps.iter().filter_map(|step| step["step"].as_str()).collect();
    let expected = [
        "input",
        "symmetric, round 1",
        "symmetric, round 2",
        "symmetric, common prefix",
        "symmetric, foreign prompt",
        "fetch before store",
        "store before fetch",
        "abort",
        "kill",
    ];
    assert_eq!(names, expected, "{last}");
    assert_eq!(last["demo"], "ok");
    let [.., abort, kill] = &steps[..] else { panic!("{steps:?}") };
    assert!(abort["writes_in_flight"].as_u64() > Some(0) && kill["writes_in_flight"].as_u64() > Some(0));
    assert_eq!((&kill["jobs"], &kill["overwritten"]), (&json!(3), &json!(0)));
    let ended = demo.end();
    assert_eq!((ended.code, ended.out.as_str(), ended.err.as_str()), (0, "", ""));
}

#[test]
fn its_processes_die_with_it() {
    let mut demo = Running::start(SMALL);
    // Both processes are there once they have exchanged blocks.
    while demo.json_line()["step"] != "symmetric, round 1" {}
    let children = children(demo.pid());
    assert_eq!(children.len(), 2);
    // A process that is gone between these two lines is what we want.
    let watched: Vec<_> =
        children.into_iter().filter_map(|pid| pidfd_open(pid, PidfdFlags::empty()).ok()).collect();
    demo.signal(Signal::KILL);
    for process in &watched {
        let mut fds = [PollFd::new(process, PollFlags::IN)];
        let patience = Timespec { tv_sec: 20, tv_nsec: 0 };
        assert_eq!(poll(&mut fds, Some(&patience)), Ok(1), "a process outlives the demo");
    }
}

fn children(of: Pid) -> Vec<Pid> {
    let of = of.as_raw_nonzero();
    let list = std::fs::read_to_string(format!("/proc/{of}/task/{of}/children")).expect("a list");
    list.split_whitespace().filter_map(|pid| Pid::from_raw(pid.parse().expect("a number"))).collect()
}
