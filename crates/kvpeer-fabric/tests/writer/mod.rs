//! The writer of the fence tests: a child process, and the hand that holds it.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, TryRecvError, channel};
use std::time::Duration;
use std::{env, thread};

use kvpeer_fabric::{FabricEvent, PeerRegion, RightId, TransferEnd};

use crate::support::{Node, xfer};

/// Carries the writer's orders: block length, number of blocks, the target's base address, its metadata in hex.
const ORDERS: &str = "KVPEER_TEST_WRITER";
const RIGHT: RightId = RightId(1);

/// The child process. Killed when dropped, and by the kernel when this thread ends.
pub(crate) struct Writer {
    child: Child,
    stdin: ChildStdin,
    failed: Receiver<()>,
    attempts: Arc<AtomicU64>,
}

impl Writer {
    /// Starts a process that writes blocks of ones into the target without end.
    pub(crate) fn start(block_len: usize, blocks: u32, target: &PeerRegion, metadata: &[u8]) -> Self {
        let metadata: String = metadata.iter().map(|byte| format!("{byte:02x}")).collect();
        let mut command = Command::new(env::current_exe().expect("own path"));
        command
            .args(["--exact", "writer_process", "--nocapture", "--test-threads=1"])
            .env(
                ORDERS,
                format!("{block_len} {blocks} {} {} {metadata}", target.num_blocks, target.base_addr),
            )
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        // SAFETY: the function only makes one async-signal-safe call.
        unsafe { command.pre_exec(die_with_parent) };
        let mut child = command.spawn().expect("spawn");
        let stdin = child.stdin.take().expect("piped");
        let attempts = Arc::new(AtomicU64::new(0));
        let failed = listen(child.stdout.take().expect("piped"), Arc::clone(&attempts));
        Self { child, stdin, failed, attempts }
    }

    /// How often it has begun to write so far.
    pub(crate) fn attempts(&self) -> u64 {
        self.attempts.load(Ordering::SeqCst)
    }

    /// Kills and reaps it.
    pub(crate) fn kill(&mut self) {
        self.child.kill().expect("kill");
        self.child.wait().expect("reap");
    }

    /// Makes it shut all its connections down.
    pub(crate) fn cut_connections(&mut self) {
        writeln!(self.stdin, "cut").expect("the writer lives");
    }

    /// Waits until it has seen the error of a write.
    pub(crate) fn await_failure(&mut self) {
        self.failed.recv_timeout(Duration::from_secs(30)).expect("the writer sees its writes fail");
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Called in the child between fork and exec.
fn die_with_parent() -> std::io::Result<()> {
    // SAFETY: the request takes one number.
    unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
    Ok(())
}

/// Counts attempts, and passes the first failure on.
fn listen(stdout: ChildStdout, attempts: Arc<AtomicU64>) -> Receiver<()> {
    let (tell, failed) = channel();
    thread::spawn(move || {
        for line in BufReader::new(stdout).lines().map_while(Result::ok) {
            match line.as_str() {
                "@attempt" => {
                    attempts.fetch_add(1, Ordering::SeqCst);
                }
                "@failed" => drop(tell.send(())),
                // The test harness of the child also writes here.
                _ => {}
            }
        }
    });
    failed
}

/// The body of the writer's process.
pub(crate) fn run_if_asked() {
    let Ok(orders) = env::var(ORDERS) else { return };
    let mut orders = orders.split(' ');
    let mut number = || orders.next().expect("four numbers").parse::<u64>().expect("a number");
    let (block_len, blocks, num_blocks, base_addr) = (number(), number(), number(), number());
    let hex = orders.next().expect("metadata");
    let digits = |at: usize| u8::from_str_radix(&hex[at..at + 2], 16).expect("hex");
    let metadata: Vec<u8> = (0..hex.len()).step_by(2).map(digits).collect();

    let blocks = u32::try_from(blocks).expect("small");
    let num_blocks = u32::try_from(num_blocks).expect("small");
    let region = PeerRegion { num_blocks, block_len, base_addr };
    let mut node = Node::with(usize::try_from(block_len).expect("small"), blocks, |config| {
        // On libfabric 2.x writing to a peer that is gone is refused by flow control for ever.
        config.write_deadline = Duration::from_millis(300);
    });
    node.region.fill(0, node.block_len * node.num_blocks as usize, 1);
    let commands = commands();
    loop {
        write_until_failure(&mut node, region, &metadata, &commands);
        println!("@failed");
        node.fabric.close_right(RIGHT);
        drive(&mut node, &commands, |node| node.closed(RIGHT).is_some());
        node.events.clear();
    }
}

/// Opens a right to the target and writes all blocks, each on its own, again and again.
fn write_until_failure(node: &mut Node, region: PeerRegion, metadata: &[u8], commands: &Receiver<()>) {
    node.open_right(RIGHT);
    node.register(RIGHT, region, metadata);
    let mut seq = 0;
    loop {
        println!("@attempt");
        let first = seq;
        for block in 0..node.num_blocks {
            node.fabric.write(xfer(RIGHT, seq), &[block], &[block]);
            seq += 1;
        }
        let broken = |event: &FabricEvent| match event {
            FabricEvent::Transfer { end, .. } => *end != TransferEnd::Done,
            FabricEvent::Fault { .. } | FabricEvent::Stalled { .. } => true,
            FabricEvent::RightOpened { .. }
            | FabricEvent::Registered { .. }
            | FabricEvent::RightClosed { .. } => false,
        };
        let last = seq - 1;
        drive(node, commands, |node| {
            node.events.iter().any(broken) || node.end_of(xfer(RIGHT, last)).is_some()
        });
        if node.events.iter().any(broken) {
            // Seen as an error completion where the provider reports one, as a stalled write where it does not.
            return;
        }
        assert!(first < seq);
        node.events.clear();
    }
}

/// Drives the node for as long as it takes; the parent sets the limits.
fn drive(node: &mut Node, commands: &Receiver<()>, until: impl Fn(&Node) -> bool) {
    loop {
        let Node { fabric, events, .. } = &mut *node;
        fabric.progress(256, events);
        match commands.try_recv() {
            Ok(()) => shut_connections_down(),
            Err(TryRecvError::Empty) => {}
            // The parent is gone.
            Err(TryRecvError::Disconnected) => std::process::exit(0),
        }
        if until(node) {
            return;
        }
        if node.fabric.prepare_wait() {
            let mut fd = libc::pollfd { fd: node.fabric.wait_fds()[0], events: libc::POLLIN, revents: 0 };
            // SAFETY: one descriptor is given.
            unsafe { libc::poll(&raw mut fd, 1, 5) };
        }
    }
}

/// Each line of the parent is the command to cut; its end is the command to stop.
fn commands() -> Receiver<()> {
    let (tell, commands) = channel();
    thread::spawn(move || {
        for _ in std::io::stdin().lines().map_while(Result::ok) {
            let _ = tell.send(());
        }
    });
    commands
}

/// Shuts down every connected stream socket of this process.
fn shut_connections_down() {
    for fd in 3..1024 {
        if option(fd, libc::SO_TYPE) == Some(libc::SOCK_STREAM) && option(fd, libc::SO_ACCEPTCONN) == Some(0)
        {
            // SAFETY: the descriptor is a socket of this process; shutting it down touches no memory.
            unsafe { libc::shutdown(fd, libc::SHUT_RDWR) };
        }
    }
}

fn option(fd: i32, name: i32) -> Option<i32> {
    let mut value = 0i32;
    let mut len = size_of::<i32>() as libc::socklen_t;
    // SAFETY: value and length are valid for writes; a descriptor that is no socket is an error.
    let code = unsafe { libc::getsockopt(fd, libc::SOL_SOCKET, name, (&raw mut value).cast(), &raw mut len) };
    (code == 0).then_some(value)
}
