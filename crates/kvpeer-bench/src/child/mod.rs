//! One process of the benchmark: does what its director says, until it hears no more.

mod bare;
mod crowd;
mod fetch;
mod plane;
mod tcp;

use std::io::{BufRead, StdinLock, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Signal, getppid, set_parent_process_death_signal};
use rustix::time::{ClockId, Timespec, clock_gettime};

use crate::memory::{Content, Memory};
use crate::order::{Order, Reply};
use crate::stop::{Outcome, stop};

/// Longest sleep of a loop that also has timers of libfabric to serve.
const NAP: Timespec = Timespec { tv_sec: 0, tv_nsec: 5_000_000 };

/// Serves orders from standard input.
pub(crate) fn run(parent: i32) -> Outcome<()> {
    // Dies with its director, even if that is killed; or now, if it is gone already.
    set_parent_process_death_signal(Some(Signal::KILL))?;
    if getppid().is_none_or(|pid| pid.as_raw_nonzero().get() != parent) {
        return Err(stop("the director is gone"));
    }
    let mut orders = std::io::stdin().lock();
    let mut child = Child::default();
    let mut line = String::new();
    loop {
        line.clear();
        if orders.read_line(&mut line)? == 0 {
            return Ok(());
        }
        let order = serde_json::from_str(&line)?;
        let reply = child.obey(order, &mut orders).unwrap_or_else(|why| Reply::Failed(why.to_string()));
        let mut answer = serde_json::to_string(&reply)?;
        answer.push('\n');
        let mut output = std::io::stdout().lock();
        output.write_all(answer.as_bytes())?;
        output.flush()?;
    }
}

#[derive(Default)]
struct Child {
    // In the order in which they must end: the memory last.
    bare: Option<bare::Bare>,
    planes: plane::Planes,
    nodes: fetch::Nodes,
    crowd: crowd::Crowd,
    tcp: tcp::Tcp,
    memory: Option<Arc<Memory>>,
    copy_source: Option<Arc<Memory>>,
}

impl Child {
    fn obey(&mut self, order: Order, orders: &mut StdinLock<'_>) -> Outcome<Reply> {
        let until = Until { orders: orders.as_fd() };
        Ok(match order {
            Order::Memory { bytes, content, copy_source } => {
                self.memory = Some(Memory::new(bytes, content)?);
                self.copy_source = copy_source.then(|| Memory::new(bytes, Content::Pattern)).transpose()?;
                Reply::Done
            }
            Order::Wipe(cut) => done(self.memory()?.wipe(&cut)?),
            Order::Verify(cut) => done(self.memory()?.verify(&cut)?),
            Order::Enough => Reply::Done,
            Order::Copy(cut) => {
                let source =
                    self.copy_source.as_ref().ok_or_else(|| stop("there is nothing to copy from"))?;
                let begun = Instant::now();
                self.memory()?.copy_from(source, &cut)?;
                took(begun)
            }

            Order::TcpListen => Reply::Port(self.tcp.listen()?),
            Order::TcpConnect { port } => done(self.tcp.connect(port)?),
            Order::TcpAccept => done(self.tcp.accept()?),
            Order::TcpSend(cut) => {
                let memory = Arc::clone(self.memory()?);
                Reply::Took(self.tcp.send(&memory, &cut)?)
            }
            Order::TcpReceive(cut) => {
                let memory = Arc::clone(self.memory()?);
                done(self.tcp.receive(&memory, &cut)?)
            }

            Order::BareOpen => {
                let bare = bare::Bare::open(Arc::clone(self.memory()?))?;
                Reply::Door(self.bare.insert(bare).door()?)
            }
            Order::BareConnect(door) => done(self.bare()?.connect(&door)?),
            Order::BareWrite { cut, depth, wait } => Reply::Took(self.bare()?.write(&cut, depth, wait)?),
            Order::ServeBare { wait } => done(self.bare()?.serve(wait, until)?),

            Order::PlaneOpen { block_len } => {
                let memory = Arc::clone(self.memory()?);
                Reply::Metadata(self.planes.open(&memory, block_len)?)
            }
            Order::PlaneConnect { block_len, metadata } => done(self.planes.connect(block_len, &metadata)?),
            Order::PlaneWrite { cut, in_flight } => Reply::Took(self.planes.write(&cut, in_flight)?),
            Order::ServePlane { block_len } => done(self.planes.serve(block_len, until)?),

            Order::NodeOpen { block_len, holds } => {
                let memory = Arc::clone(self.memory()?);
                Reply::Address(self.nodes.open(&memory, block_len, holds)?)
            }
            Order::NodeFetch { cut, peer } => Reply::Fetched(self.nodes.fetch(&cut, &peer)?),
            Order::NodeFetchEach { cut, peer } => Reply::Latencies(self.nodes.fetch_each(&cut, &peer)?),
            Order::NodeFetchBeside { large, small, peer } => {
                Reply::Latencies(self.nodes.fetch_beside(&large, &small, &peer)?)
            }

            Order::IdleNode => Reply::Address(self.crowd.join()?),
            Order::Crowd { count, peer } => done(self.crowd.connect(count, &peer)?),
            Order::CpuShare { seconds } => Reply::Share(cpu_share(seconds)?),
        })
    }

    fn memory(&self) -> Outcome<&Arc<Memory>> {
        self.memory.as_ref().ok_or_else(|| stop("there is no memory yet"))
    }

    fn bare(&mut self) -> Outcome<&mut bare::Bare> {
        self.bare.as_mut().ok_or_else(|| stop("there is no bare endpoint yet"))
    }
}

/// When a process that serves stops: as soon as another order is there.
#[derive(Clone, Copy)]
struct Until<'a> {
    orders: BorrowedFd<'a>,
}

impl Until<'_> {
    fn is_over(self) -> Outcome<bool> {
        let mut fds = [PollFd::from_borrowed_fd(self.orders, PollFlags::IN)];
        Ok(poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 0 }))? > 0)
    }

    /// Sleeps until one of these is readable, or an order is there, or not for long.
    fn nap(self, fds: &[BorrowedFd<'_>]) -> Outcome<()> {
        let with_orders = fds.iter().copied().chain([self.orders]);
        nap(with_orders)
    }
}

fn nap<'a>(fds: impl Iterator<Item = BorrowedFd<'a>>) -> Outcome<()> {
    let mut fds: Vec<_> = fds.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)).collect();
    poll(&mut fds, Some(&NAP))?;
    Ok(())
}

fn done((): ()) -> Reply {
    Reply::Done
}

fn took(begun: Instant) -> Reply {
    Reply::Took(begun.elapsed().as_secs_f64())
}

fn cpu_share(seconds: f64) -> Outcome<f64> {
    let used = || -> f64 {
        let time = clock_gettime(ClockId::ProcessCPUTime);
        time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
    };
    let (begun, before) = (Instant::now(), used());
    std::thread::sleep(Duration::try_from_secs_f64(seconds)?);
    Ok((used() - before) / begun.elapsed().as_secs_f64())
}
