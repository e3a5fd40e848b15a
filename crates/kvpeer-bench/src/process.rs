//! The director's end of one process.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use crate::order::{Fetched, Order, Reply};
use crate::stop::{Outcome, stop};

/// A process of the benchmark, ended with this value.
pub(crate) struct Process {
    name: &'static str,
    child: Child,
    orders: ChildStdin,
    replies: BufReader<ChildStdout>,
}

impl Process {
    /// Starts this program again. To be called from the main thread: the kernel ends a child with the thread that
    /// started it.
    pub(crate) fn start(name: &'static str) -> Outcome<Self> {
        let mut command = Command::new(std::env::current_exe()?);
        command.arg("--child-of").arg(std::process::id().to_string());
        // As programs that embed kvpeer are told to do, and the same for its yardstick.
        for (variable, value) in kvpeer_fabric::RECOMMENDED_ENV {
            if std::env::var_os(variable).is_none() {
                command.env(variable, value);
            }
        }
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let pipes = child.stdin.take().zip(child.stdout.take());
        let (orders, output) = pipes.ok_or_else(|| stop("a process has no pipes"))?;
        Ok(Self { name, child, orders, replies: BufReader::new(output) })
    }

    /// Gives an order and waits for its reply.
    pub(crate) fn ask(&mut self, order: &Order) -> Outcome<Reply> {
        self.tell(order)?;
        self.reply()
    }

    /// Gives an order whose reply is taken later.
    pub(crate) fn tell(&mut self, order: &Order) -> Outcome<()> {
        let mut line = serde_json::to_string(order)?;
        line.push('\n');
        let told = self.orders.write_all(line.as_bytes()).and_then(|()| self.orders.flush());
        told.map_err(|error| stop(format!("the {} process takes no orders: {error}", self.name)))
    }

    pub(crate) fn reply(&mut self) -> Outcome<Reply> {
        let mut line = String::new();
        if self.replies.read_line(&mut line)? == 0 {
            let status = self.child.wait()?;
            return Err(stop(format!(
                "the {} process ended ({status}); its last words are above",
                self.name
            )));
        }
        let reply = serde_json::from_str(&line)?;
        if let Reply::Failed(why) = reply {
            return Err(stop(format!("{}: {why}", self.name)));
        }
        Ok(reply)
    }

    pub(crate) fn done(&mut self, order: &Order) -> Outcome<()> {
        self.ask(order).map(drop)
    }

    pub(crate) fn seconds(&mut self, order: &Order) -> Outcome<f64> {
        let reply = self.ask(order)?;
        let Reply::Took(seconds) = reply else { return Err(unexpected(&reply)) };
        Ok(seconds)
    }

    pub(crate) fn share(&mut self, order: &Order) -> Outcome<f64> {
        let reply = self.ask(order)?;
        let Reply::Share(share) = reply else { return Err(unexpected(&reply)) };
        Ok(share)
    }

    pub(crate) fn address(&mut self, order: &Order) -> Outcome<String> {
        let reply = self.ask(order)?;
        let Reply::Address(address) = reply else { return Err(unexpected(&reply)) };
        Ok(address)
    }

    pub(crate) fn fetched(&mut self, order: &Order) -> Outcome<Fetched> {
        let reply = self.ask(order)?;
        let Reply::Fetched(fetched) = reply else { return Err(unexpected(&reply)) };
        Ok(fetched)
    }

    pub(crate) fn latencies(&mut self, order: &Order) -> Outcome<Vec<Fetched>> {
        let reply = self.ask(order)?;
        let Reply::Latencies(latencies) = reply else { return Err(unexpected(&reply)) };
        Ok(latencies)
    }
}

pub(crate) fn unexpected(reply: &Reply) -> crate::stop::Stop {
    stop(format!("a process answers what was not asked: {reply:.200?}"))
}

impl Drop for Process {
    fn drop(&mut self) {
        // Nothing of the benchmark outlives it. Either may fail when the process is gone already.
        self.child.kill().ok();
        self.child.wait().ok();
    }
}
