//! The director's end of one process.

use std::collections::{BTreeMap, VecDeque};
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use super::order::{Line, News, Order, Reply, Stats};
use super::wrong;
use crate::stopped::{Exit, Stopped};

/// Nothing in the demo takes so long; a process that does is stuck.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// A process, ended with this value.
pub(crate) struct Process {
    name: &'static str,
    child: Child,
    orders: Option<ChildStdin>,
    lines: Receiver<Line>,
    /// News that nobody has asked for yet.
    news: VecDeque<News>,
    /// How many results each job has had.
    results: BTreeMap<u64, u32>,
    pub(crate) peer: String,
    pub(crate) address: String,
}

impl Process {
    /// Starts this program again as a node of the demo, and waits until it is one.
    ///
    /// To be called from the main thread: the kernel ends a child with the thread that started it.
    pub(crate) fn start(name: &'static str, args: &[String]) -> Result<Self, Stopped> {
        let failed = |error: &dyn std::fmt::Display| {
            Stopped::new(Exit::Local, format!("the {name} process cannot be started: {error}"))
        };
        let program = std::env::current_exe().map_err(|error| failed(&error))?;
        let mut child = Command::new(program)
            .arg("demo-node")
            .args(args)
            .arg(format!("--parent={}", std::process::id()))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| failed(&error))?;
        let (Some(orders), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(failed(&"it has no pipes"));
        };
        let (sender, lines) = channel();
        let reader = thread::Builder::new().name(name.to_owned()).spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                // A line that is none, or a director that listens no more, ends it.
                let passed_on = serde_json::from_str(&line).is_ok_and(|line| sender.send(line).is_ok());
                if !passed_on {
                    return;
                }
            }
        });
        let mut process = Self {
            name,
            child,
            orders: Some(orders),
            lines,
            news: VecDeque::new(),
            results: BTreeMap::new(),
            peer: String::new(),
            address: String::new(),
        };
        reader.map_err(|error| failed(&error))?;
        let (peer, address) = process.wait_for("its start", |news| {
            let News::Ready { peer, address } = news else { return None };
            Some((peer.clone(), address.clone()))
        })?;
        (process.peer, process.address) = (peer, address);
        Ok(process)
    }

    /// Gives an order that is answered with `Done`.
    pub(crate) fn order(&mut self, order: &Order) -> Result<(), Stopped> {
        let reply = self.ask(order)?;
        let Reply::Done = reply else { return Err(self.unexpected(order, &reply)) };
        Ok(())
    }

    /// Gives an order that begins a job.
    pub(crate) fn begin(&mut self, order: &Order) -> Result<u64, Stopped> {
        let reply = self.ask(order)?;
        let Reply::Job(job) = reply else { return Err(self.unexpected(order, &reply)) };
        self.results.entry(job).or_default();
        Ok(job)
    }

    pub(crate) fn hits(&mut self, order: &Order) -> Result<Vec<bool>, Stopped> {
        let reply = self.ask(order)?;
        let Reply::Hits(hits) = reply else { return Err(self.unexpected(order, &reply)) };
        Ok(hits)
    }

    pub(crate) fn stats(&mut self) -> Result<Stats, Stopped> {
        let reply = self.ask(&Order::Stats)?;
        let Reply::Stats(stats) = reply else { return Err(self.unexpected(&Order::Stats, &reply)) };
        Ok(stats)
    }

    pub(crate) fn digests(&mut self, first: u32, count: u32) -> Result<Vec<String>, Stopped> {
        let order = Order::Digests { first, count };
        let reply = self.ask(&order)?;
        let Reply::Digests(digests) = reply else { return Err(self.unexpected(&order, &reply)) };
        Ok(digests)
    }

    fn ask(&mut self, order: &Order) -> Result<Reply, Stopped> {
        let name = self.name;
        let gone = |error: &dyn std::fmt::Display| wrong(format!("the {name} takes no more orders: {error}"));
        let mut line = serde_json::to_string(order).map_err(|error| gone(&error))?;
        line.push('\n');
        let orders = self.orders.as_mut().ok_or_else(|| gone(&"it was told to end"))?;
        orders.write_all(line.as_bytes()).and_then(|()| orders.flush()).map_err(|error| gone(&error))?;
        let by = Instant::now() + PATIENCE;
        loop {
            match self.line("an answer", by)? {
                Line::Reply(reply) => return Ok(reply),
                Line::News(news) => self.news.push_back(news),
            }
        }
    }

    /// The first news that `find` takes, waited for.
    pub(crate) fn wait_for<T>(
        &mut self,
        what: &str,
        mut find: impl FnMut(&News) -> Option<T>,
    ) -> Result<T, Stopped> {
        let by = Instant::now() + PATIENCE;
        let mut looked_at = 0;
        loop {
            while let Some(news) = self.news.get(looked_at) {
                if let Some(found) = find(news) {
                    self.news.remove(looked_at);
                    return Ok(found);
                }
                looked_at += 1;
            }
            match self.line(what, by)? {
                Line::News(news) => self.news.push_back(news),
                Line::Reply(_) => return Err(wrong(format!("the {} answers what nobody asked", self.name))),
            }
        }
    }

    /// Whether a job is over, as far as we have heard.
    pub(crate) fn has_result(&self, job: u64) -> bool {
        self.results.get(&job).is_some_and(|results| *results > 0)
    }

    fn line(&mut self, what: &str, by: Instant) -> Result<Line, Stopped> {
        let name = self.name;
        let line = self.lines.recv_timeout(by.saturating_duration_since(Instant::now())).map_err(
            |error| match error {
                RecvTimeoutError::Timeout => {
                    wrong(format!("the {name} let us wait for {what} longer than {PATIENCE:?}"))
                }
                RecvTimeoutError::Disconnected => {
                    wrong(format!("the {name} ended while we waited for {what}"))
                }
            },
        )?;
        self.count(&line);
        Ok(line)
    }

    fn count(&mut self, line: &Line) {
        match line {
            Line::News(News::LoadFinished { job, .. } | News::StoreFinished { job, .. }) => {
                *self.results.entry(*job).or_default() += 1;
            }
            Line::News(
                News::Ready { .. }
                | News::Released { .. }
                | News::Reused { .. }
                | News::FetchArrived { .. }
                | News::PeerDown { .. },
            )
            | Line::Reply(_) => {}
        }
    }

    /// Stops it where it stands, or lets it go on.
    pub(crate) fn signal(&self, signal: Signal) -> Result<(), Stopped> {
        kill_process(Pid::from_child(&self.child), signal)
            .map_err(|error| wrong(format!("the {} takes no signal: {error}", self.name)))
    }

    /// SIGKILL, and nothing left of the process when this returns.
    pub(crate) fn kill(&mut self) -> Result<(), Stopped> {
        let name = self.name;
        let killed = self.child.kill().and_then(|()| self.child.wait());
        killed.map(drop).map_err(|error| wrong(format!("the {name} cannot be killed: {error}")))
    }

    /// Ends it in order; answers how many jobs it had. Each must have had exactly one result.
    pub(crate) fn end(mut self) -> Result<usize, Stopped> {
        // No more orders.
        self.orders = None;
        let by = Instant::now() + PATIENCE;
        loop {
            match self.lines.recv_timeout(by.saturating_duration_since(Instant::now())) {
                Ok(line) => self.count(&line),
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => {
                    return Err(wrong(format!("the {} does not end", self.name)));
                }
            }
        }
        let status = self.child.wait().map_err(|error| wrong(error.to_string()))?;
        if !status.success() {
            return Err(wrong(format!("the {} ended with {status}", self.name)));
        }
        match self.results.iter().find(|(_, results)| **results != 1) {
            None => Ok(self.results.len()),
            Some((job, results)) => {
                Err(wrong(format!("job {job} of the {} had {results} results", self.name)))
            }
        }
    }

    fn unexpected(&self, order: &Order, reply: &Reply) -> Stopped {
        let name = self.name;
        if let Reply::Refused(why) = reply {
            wrong(format!("the {name} refuses: {why} (order {order:.200?})"))
        } else {
            wrong(format!("the {name} answers {reply:.200?} to {order:.200?}"))
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Also after a step has failed: nothing of the demo outlives it.
        self.child.kill().ok();
        self.child.wait().ok();
    }
}
