//! Nodes and raw sockets on loopback, pumped in one thread.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use kvpeer_tcp::{ConnToken, DialToken, Origin, Tcp, TcpConfig, TcpEvent};
use kvpeer_wire::{Decoded, Limits, Msg};

/// A guard against tests that hang; nothing waits for it to pass.
const GUARD: Duration = Duration::from_secs(30);

/// A control plane and what it has reported.
pub(crate) struct Node {
    pub(crate) tcp: Tcp,
    pub(crate) seen: Vec<Seen>,
}

/// A report, as text where that reads best.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Seen {
    Accepted(ConnToken),
    Dialed(ConnToken, DialToken),
    DialFailed(DialToken, String),
    Msg(ConnToken, String),
    Heard(ConnToken),
    Malformed(ConnToken, String),
    NoCommonVersion(ConnToken, (u8, u8), (u8, u8)),
    Disconnected(ConnToken, String),
    FdReady(i32),
}

impl Node {
    pub(crate) fn new(config: TcpConfig) -> Self {
        Self { tcp: Tcp::bind(config).expect("loopback has a free port"), seen: Vec::new() }
    }

    pub(crate) fn listening() -> Self {
        Self::new(listening())
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.tcp.local_addr().expect("it listens")
    }

    pub(crate) fn dial(&mut self, dial: u32, to: &Node) {
        self.tcp.dial(DialToken(dial), &to.address().to_string());
    }

    pub(crate) fn send(&mut self, conn: ConnToken, msgs: &[Msg<'_>]) {
        msgs.iter().for_each(|msg| self.tcp.send(conn, msg));
    }

    /// One turn: waits at most `timeout` for something to happen.
    pub(crate) fn turn(&mut self, timeout: Duration) {
        self.tcp.poll(Some(timeout)).expect("the poller works");
        while let Some(event) = self.tcp.next_event() {
            let seen = self.see(event);
            self.seen.push(seen);
        }
        self.tcp.flush();
    }

    /// One turn that something ends long before `limit`, which would be a sleep too long.
    pub(crate) fn turn_before(&mut self, limit: Duration) {
        let begun = Instant::now();
        self.turn(limit);
        assert!(begun.elapsed() < limit, "nothing woke the poller");
    }

    pub(crate) fn turn_until(&mut self, what: &str, mut done: impl FnMut(&Self) -> bool) {
        pump(what, &mut [self], |nodes| done(nodes[0]));
    }

    fn see(&mut self, event: TcpEvent) -> Seen {
        match event {
            TcpEvent::Connected { conn, origin: Origin::Accepted } => Seen::Accepted(conn),
            TcpEvent::Connected { conn, origin: Origin::Dialed(dial) } => Seen::Dialed(conn, dial),
            TcpEvent::DialFailed { dial, error } => Seen::DialFailed(dial, error.to_string()),
            TcpEvent::Frame { conn, frame } => {
                let text = match frame.decode(&Limits::DEFAULT) {
                    Ok(Decoded::Msg(msg)) => format!("{msg:?}"),
                    Ok(Decoded::Skipped { kind }) => format!("skipped: {kind}"),
                    Err(error) => format!("undecodable: {error}"),
                };
                self.tcp.recycle(frame);
                Seen::Msg(conn, text)
            }
            TcpEvent::Heard { conn } => Seen::Heard(conn),
            TcpEvent::Malformed { conn, error } => Seen::Malformed(conn, error.to_string()),
            TcpEvent::NoCommonVersion { conn, ours, theirs } => Seen::NoCommonVersion(conn, ours, theirs),
            TcpEvent::Disconnected { conn, reason } => Seen::Disconnected(conn, reason.to_string()),
            TcpEvent::FdReady { fd } => Seen::FdReady(fd),
        }
    }

    pub(crate) fn msgs(&self, of: ConnToken) -> Vec<&str> {
        let msg =
            |seen| if let &Seen::Msg(conn, ref text) = seen { (conn == of).then_some(&**text) } else { None };
        self.seen.iter().filter_map(msg).collect()
    }

    pub(crate) fn accepted(&self) -> Vec<ConnToken> {
        self.seen
            .iter()
            .filter_map(|seen| if let Seen::Accepted(conn) = seen { Some(*conn) } else { None })
            .collect()
    }

    pub(crate) fn dialed(&self, of: u32) -> Option<ConnToken> {
        self.seen.iter().find_map(|seen| {
            if let Seen::Dialed(conn, dial) = seen
                && *dial == DialToken(of)
            {
                Some(*conn)
            } else {
                None
            }
        })
    }

    pub(crate) fn dial_failed(&self, of: u32) -> Option<&str> {
        self.seen.iter().find_map(|seen| {
            if let Seen::DialFailed(dial, why) = seen
                && *dial == DialToken(of)
            {
                Some(&**why)
            } else {
                None
            }
        })
    }

    pub(crate) fn disconnected(&self, of: ConnToken) -> Option<&str> {
        self.seen.iter().find_map(|seen| {
            if let Seen::Disconnected(conn, why) = seen
                && *conn == of
            {
                Some(&**why)
            } else {
                None
            }
        })
    }

    pub(crate) fn malformed(&self, of: ConnToken) -> Option<&str> {
        self.seen.iter().find_map(|seen| {
            if let Seen::Malformed(conn, why) = seen
                && *conn == of
            {
                Some(&**why)
            } else {
                None
            }
        })
    }

    pub(crate) fn heard(&self, of: ConnToken) -> usize {
        self.seen.iter().filter(|seen| **seen == Seen::Heard(of)).count()
    }
}

pub(crate) fn listening() -> TcpConfig {
    TcpConfig::listening("127.0.0.1:0".parse().expect("an address"))
}

/// Turns all nodes until `done`.
pub(crate) fn pump(what: &str, nodes: &mut [&mut Node], mut done: impl FnMut(&mut [&mut Node]) -> bool) {
    let begun = Instant::now();
    while !done(nodes) {
        assert!(
            begun.elapsed() < GUARD,
            "no {what}; seen: {:?}",
            nodes.iter().map(|n| &n.seen).collect::<Vec<_>>()
        );
        nodes.iter_mut().for_each(|node| node.turn(Duration::from_millis(1)));
    }
}

/// Two nodes with a connection: (dialler, its end, listener, its end).
pub(crate) fn pair() -> (Node, ConnToken, Node, ConnToken) {
    pair_of(TcpConfig::default(), listening())
}

pub(crate) fn pair_of(dialler: TcpConfig, listener: TcpConfig) -> (Node, ConnToken, Node, ConnToken) {
    let (mut a, mut b) = (Node::new(dialler), Node::new(listener));
    a.dial(1, &b);
    pump("connection", &mut [&mut a, &mut b], |n| n[0].dialed(1).is_some() && !n[1].accepted().is_empty());
    let (at_a, at_b) = (a.dialed(1).expect("dialed"), b.accepted()[0]);
    (a, at_a, b, at_b)
}

/// A socket that speaks no protocol but what a test makes it say.
pub(crate) struct Raw {
    stream: TcpStream,
    pub(crate) got: Vec<u8>,
    pub(crate) end: Option<End>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum End {
    Closed,
    Reset,
}

impl Raw {
    pub(crate) fn connect(to: &Node) -> Self {
        let stream = TcpStream::connect(to.address()).expect("it listens");
        stream.set_nodelay(true).expect("a socket");
        stream.set_nonblocking(true).expect("a socket");
        Self { stream, got: Vec::new(), end: None }
    }

    /// A raw socket and the node's name for it.
    pub(crate) fn accepted_by(node: &mut Node) -> (Self, ConnToken) {
        let before = node.accepted().len();
        let raw = Self::connect(node);
        node.turn_until("accepted connection", |node| node.accepted().len() > before);
        (raw, node.accepted()[before])
    }

    /// Says all of `bytes` while the node goes on.
    pub(crate) fn say(&mut self, bytes: &[u8], to: &mut Node) {
        let mut rest = bytes;
        while !rest.is_empty() {
            match self.stream.write(rest) {
                Ok(said) => rest = &rest[said..],
                Err(error) if error.kind() == ErrorKind::WouldBlock => to.turn(Duration::from_millis(1)),
                Err(error) => panic!("the node does not listen: {error}"),
            }
        }
    }

    /// Says as much of `bytes` as the system takes without the node doing anything.
    pub(crate) fn say_some(&mut self, bytes: &[u8]) -> usize {
        let mut said = 0;
        while let Ok(more @ 1..) = self.stream.write(&bytes[said..]) {
            said += more;
        }
        said
    }

    /// Hears what has come.
    pub(crate) fn hear(&mut self) {
        let mut buffer = [0; 64 << 10];
        while self.end.is_none() {
            match self.stream.read(&mut buffer) {
                Ok(0) => self.end = Some(End::Closed),
                Ok(read) => self.got.extend_from_slice(&buffer[..read]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(_) => self.end = Some(End::Reset),
            }
        }
    }

    pub(crate) fn hear_end(&mut self, from: &mut Node) -> End {
        from.turn_until("end of stream", |_| {
            self.hear();
            self.end.is_some()
        });
        self.end.expect("it has ended")
    }

    pub(crate) fn stop_talking(&self) {
        self.stream.shutdown(std::net::Shutdown::Write).expect("it is open");
    }
}

/// The bytes of messages, as they stand in a stream.
pub(crate) fn bytes_of(msgs: &[Msg<'_>]) -> Vec<u8> {
    let mut bytes = Vec::new();
    msgs.iter().for_each(|msg| msg.encode(&mut bytes).expect("a legal message"));
    bytes
}

/// A preamble and messages.
pub(crate) fn stream_of(msgs: &[Msg<'_>]) -> Vec<u8> {
    [&kvpeer_wire::Preamble::OURS.to_bytes()[..], &bytes_of(msgs)].concat()
}

pub(crate) fn debug(msgs: &[Msg<'_>]) -> Vec<String> {
    msgs.iter().map(|msg| format!("{msg:?}")).collect()
}
