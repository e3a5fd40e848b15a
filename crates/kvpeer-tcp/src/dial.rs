//! Dials under way: from an address as text to a connected socket.

use std::collections::BTreeMap;
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};
use std::vec;

use mio::net::TcpStream;
use mio::{Interest, Registry, Token};

use crate::DialError;
use crate::deadline::after;
use crate::event::DialToken;
use crate::resolve::{Answer, AskId, Resolver};
use crate::source::{SourceId, SourceIds};
use crate::watch::Watched;

/// All dials under way. Each ends in exactly one [`Dialed`], or is cancelled.
pub(crate) struct Dials {
    dials: BTreeMap<DialToken, Dial>,
    /// Whose attempt a socket is.
    sockets: BTreeMap<SourceId, DialToken>,
    resolver: Resolver,
    timeout: Duration,
}

struct Dial {
    deadline: Instant,
    stage: Stage,
}

enum Stage {
    Resolving { ask: AskId, host: String },
    Connecting { attempt: Attempt, untried: vec::IntoIter<SocketAddr> },
}

struct Attempt {
    id: SourceId,
    stream: TcpStream,
    address: SocketAddr,
    /// When the next address gets its turn; the dial's deadline for the last one.
    until: Instant,
}

/// How a dial ended.
pub(crate) struct Dialed {
    pub(crate) dial: DialToken,
    pub(crate) end: Result<Link, DialError>,
}

/// A connected socket, registered under its id.
pub(crate) struct Link {
    pub(crate) id: SourceId,
    pub(crate) stream: TcpStream,
    pub(crate) peer: SocketAddr,
}

/// What a dial needs of the poller to go on.
pub(crate) struct Sockets<'a> {
    pub(crate) registry: &'a Registry,
    pub(crate) ids: &'a mut SourceIds,
    pub(crate) watched: &'a mut Watched,
    pub(crate) now: Instant,
}

impl Dials {
    pub(crate) fn new(timeout: Duration, resolver: Resolver) -> Self {
        Self { dials: BTreeMap::new(), sockets: BTreeMap::new(), resolver, timeout }
    }

    /// Starts a dial. Returns its end when it is over already.
    pub(crate) fn start(&mut self, dial: DialToken, address: &str, on: &mut Sockets<'_>) -> Option<Dialed> {
        self.cancel(dial, on.registry);
        let deadline = after(on.now, self.timeout);
        if let Ok(literal) = address.parse::<SocketAddr>() {
            return self.try_addresses(dial, deadline, vec![literal].into_iter(), None, on);
        }
        let Some((host, port)) = split_host_port(address) else {
            return Some(Dialed { dial, end: Err(DialError::BadAddress { address: address.to_owned() }) });
        };
        let ask = self.resolver.ask(host, port);
        let stage = Stage::Resolving { ask, host: host.to_owned() };
        self.dials.insert(dial, Dial { deadline, stage });
        None
    }

    /// Nothing more is wanted of this dial. Unknown ones are ignored.
    pub(crate) fn cancel(&mut self, dial: DialToken, registry: &Registry) {
        match self.dials.remove(&dial).map(|dial| dial.stage) {
            Some(Stage::Resolving { ask, .. }) => self.resolver.forget(ask),
            Some(Stage::Connecting { attempt, .. }) => self.give_up(attempt, registry),
            None => {}
        }
    }

    pub(crate) fn owns(&self, id: SourceId) -> bool {
        self.sockets.contains_key(&id)
    }

    /// Takes the answers of the resolver that have come.
    pub(crate) fn take_answer(&mut self, on: &mut Sockets<'_>) -> Option<Dialed> {
        while let Some(Answer { ask, addresses }) = self.resolver.next_answer() {
            let asked = |dial: &Dial| matches!(&dial.stage, Stage::Resolving { ask: of, .. } if *of == ask);
            let Some(token) = self.dials.iter().find(|(_, dial)| asked(dial)).map(|(token, _)| *token) else {
                continue;
            };
            let Some(Dial { deadline, stage: Stage::Resolving { host, .. } }) = self.dials.remove(&token)
            else {
                continue;
            };
            let ended = match addresses {
                Ok(addresses) if !addresses.is_empty() => {
                    self.try_addresses(token, deadline, addresses.into_iter(), None, on)
                }
                Ok(_) => {
                    let source = io::Error::new(ErrorKind::NotFound, "the name has no address");
                    Some(Dialed { dial: token, end: Err(DialError::Resolve { host, source }) })
                }
                Err(source) => Some(Dialed { dial: token, end: Err(DialError::Resolve { host, source }) }),
            };
            if ended.is_some() {
                return ended;
            }
        }
        None
    }

    /// The poller saw something at a socket: connected, failed, or nothing yet.
    pub(crate) fn look(&mut self, id: SourceId, on: &mut Sockets<'_>) -> Option<Dialed> {
        let dial = *self.sockets.get(&id)?;
        let Some(Dial { stage: Stage::Connecting { attempt, .. }, .. }) = self.dials.get(&dial) else {
            return None;
        };
        let state = connected(&attempt.stream);
        if matches!(state, Ok(Progress::Pending)) {
            return None;
        }
        let Some(Dial { deadline, stage: Stage::Connecting { attempt, untried } }) = self.dials.remove(&dial)
        else {
            return None;
        };
        let address = attempt.address;
        let error = match state {
            Ok(Progress::Connected { peer }) => {
                self.sockets.remove(&id);
                return Some(Dialed { dial, end: Ok(Link { id, stream: attempt.stream, peer }) });
            }
            Ok(Progress::Pending) => return None,
            Ok(Progress::ToItself) => DialError::SelfConnected { address },
            Err(source) => DialError::Connect { address, source },
        };
        self.give_up(attempt, on.registry);
        self.try_addresses(dial, deadline, untried, Some(error), on)
    }

    /// The next moment at which [`Dials::expire`] has something to do.
    pub(crate) fn next_deadline(&self) -> Option<Instant> {
        self.dials.values().map(Dial::wakes_at).min()
    }

    /// Gives up attempts whose time is over: the next address gets its turn, or the dial ends.
    pub(crate) fn expire(&mut self, on: &mut Sockets<'_>) -> Vec<Dialed> {
        let due = |dial: &Dial| dial.wakes_at() <= on.now;
        let over: Vec<DialToken> =
            self.dials.iter().filter(|(_, dial)| due(dial)).map(|(token, _)| *token).collect();
        over.into_iter().filter_map(|dial| self.expire_one(dial, on)).collect()
    }

    fn expire_one(&mut self, dial: DialToken, on: &mut Sockets<'_>) -> Option<Dialed> {
        let Dial { deadline, stage } = self.dials.remove(&dial)?;
        match stage {
            Stage::Resolving { ask, .. } => {
                self.resolver.forget(ask);
                Some(Dialed { dial, end: Err(DialError::TimedOut) })
            }
            Stage::Connecting { attempt, untried } => {
                self.give_up(attempt, on.registry);
                // The last address's share ends with the dial.
                let untried = if deadline <= on.now { Vec::new().into_iter() } else { untried };
                self.try_addresses(dial, deadline, untried, Some(DialError::TimedOut), on)
            }
        }
    }

    /// Connects to the first address that lets itself be tried; `failed` says why the one before did not.
    fn try_addresses(
        &mut self,
        dial: DialToken,
        deadline: Instant,
        mut untried: vec::IntoIter<SocketAddr>,
        mut failed: Option<DialError>,
        on: &mut Sockets<'_>,
    ) -> Option<Dialed> {
        while let Some(address) = untried.next() {
            // Time is shared out among the addresses left: a black hole does not use up the others' chance.
            let share = deadline.saturating_duration_since(on.now) / (untried.len() as u32).saturating_add(1);
            match begin(address, on) {
                Ok((id, stream)) => {
                    let attempt = Attempt { id, stream, address, until: after(on.now, share) };
                    self.sockets.insert(id, dial);
                    self.dials.insert(dial, Dial { deadline, stage: Stage::Connecting { attempt, untried } });
                    return None;
                }
                Err(source) => failed = Some(DialError::Connect { address, source }),
            }
        }
        Some(Dialed { dial, end: Err(failed.unwrap_or(DialError::TimedOut)) })
    }

    fn give_up(&mut self, mut attempt: Attempt, registry: &Registry) {
        self.sockets.remove(&attempt.id);
        // Closing the socket takes it out of the poller in any case.
        let _ = registry.deregister(&mut attempt.stream);
    }
}

impl Dial {
    fn wakes_at(&self) -> Instant {
        match &self.stage {
            Stage::Resolving { .. } => self.deadline,
            Stage::Connecting { attempt, .. } => attempt.until.min(self.deadline),
        }
    }
}

fn begin(address: SocketAddr, on: &mut Sockets<'_>) -> io::Result<(SourceId, TcpStream)> {
    let mut stream = TcpStream::connect(address)?;
    on.watched.forget(stream.as_raw_fd());
    let id = on.ids.mint();
    on.registry.register(&mut stream, Token(id.0), Interest::READABLE | Interest::WRITABLE)?;
    Ok((id, stream))
}

enum Progress {
    Pending,
    Connected { peer: SocketAddr },
    ToItself,
}

fn connected(stream: &TcpStream) -> io::Result<Progress> {
    if let Some(error) = stream.take_error()? {
        return Err(error);
    }
    match stream.peer_addr() {
        Ok(peer) if stream.local_addr().is_ok_and(|local| local == peer) => Ok(Progress::ToItself),
        Ok(peer) => Ok(Progress::Connected { peer }),
        Err(error) if error.kind() == ErrorKind::NotConnected => Ok(Progress::Pending),
        Err(error) => Err(error),
    }
}

/// `host:port` with a name as host: what looks like an IPv6 address without brackets is none.
fn split_host_port(address: &str) -> Option<(&str, u16)> {
    let (host, port) = address.rsplit_once(':')?;
    let named = (1..=253).contains(&host.len()) && !host.contains([':', '[', ']', '/', '\0']);
    let digits = !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
    (named && digits && !host.contains(char::is_whitespace))
        .then(|| port.parse().ok().map(|port| (host, port)))?
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use mio::{Events, Poll};

    use super::*;
    use crate::wake::Waker;

    #[test]
    fn host_and_port() {
        assert_eq!(split_host_port("node-7.example:5710"), Some(("node-7.example", 5710)));
        assert_eq!(split_host_port("localhost:0"), Some(("localhost", 0)));
        for bad in ["node", "node:", ":1", "node:+1", "node:1:2", "::1:1", "[::1]:x", "a b:1", "node:65536"] {
            assert_eq!(split_host_port(bad), None, "{bad}");
        }
    }

    /// With the right port chosen, TCP connects a socket to itself.
    #[test]
    fn a_socket_that_is_connected_to_itself_is_no_connection() {
        use rustix::net::{AddressFamily, SocketType, bind, connect, getsockname, socket};
        let alone = socket(AddressFamily::INET, SocketType::STREAM, None).expect("a socket");
        bind(&alone, &SocketAddr::from(([127, 0, 0, 1], 0))).expect("a port");
        let address: SocketAddr = getsockname(&alone).expect("bound").try_into().expect("an IP address");
        connect(&alone, &address).expect("nobody else is there");
        let stream = TcpStream::from_std(alone.into());
        assert!(matches!(connected(&stream), Ok(Progress::ToItself)));
    }

    struct World {
        poll: Poll,
        ids: SourceIds,
        watched: Watched,
        dials: Dials,
    }

    impl World {
        fn new(timeout: Duration) -> Self {
            let poll = Poll::new().expect("a poller");
            let ids = SourceIds::new();
            let waker = Waker::new(poll.registry(), Token(SourceIds::WAKER.0)).expect("a waker");
            Self {
                poll,
                ids,
                watched: Watched::default(),
                dials: Dials::new(timeout, Resolver::new(1, waker)),
            }
        }

        /// As if a name had these addresses; time passes only where a step says so.
        fn dial(&mut self, addresses: Vec<SocketAddr>, mut now: Instant, step: Duration) -> Dialed {
            let deadline = now + self.dials.timeout;
            let World { poll, ids, watched, dials } = self;
            let on = &mut Sockets { registry: poll.registry(), ids, watched, now };
            let mut ended = dials.try_addresses(DialToken(1), deadline, addresses.into_iter(), None, on);
            let mut events = Events::with_capacity(8);
            while ended.is_none() {
                self.poll.poll(&mut events, Some(Duration::from_millis(1))).expect("the poller works");
                let World { poll, ids, watched, dials } = self;
                let on = &mut Sockets { registry: poll.registry(), ids, watched, now };
                ended = events.iter().find_map(|event| dials.look(SourceId(event.token().0), on));
                now += step;
                let World { poll, ids, watched, dials } = self;
                let on = &mut Sockets { registry: poll.registry(), ids, watched, now };
                ended = ended.or_else(|| dials.expire(on).pop());
            }
            ended.expect("the loop ends with it")
        }
    }

    fn listener() -> (TcpListener, SocketAddr) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("bound");
        (listener, address)
    }

    #[test]
    fn addresses_that_refuse_give_way_to_the_next() {
        let refusing = listener().1;
        let (_listener, good) = listener();
        let mut world = World::new(Duration::from_secs(10));
        let ended = world.dial(vec![refusing, refusing, good], Instant::now(), Duration::ZERO);
        assert_eq!(ended.end.ok().map(|link| link.peer), Some(good));
        assert!(world.dials.dials.is_empty() && world.dials.sockets.is_empty());
    }

    #[test]
    fn the_last_refusal_is_the_dials() {
        let (first, second) = (listener().1, listener().1);
        let mut world = World::new(Duration::from_secs(10));
        let ended = world.dial(vec![first, second], Instant::now(), Duration::ZERO);
        assert!(matches!(ended.end, Err(DialError::Connect { address, .. }) if address == second));
    }

    /// Of ten seconds each of two addresses has five; the steps of the clock are one second.
    #[test]
    fn silent_addresses_share_the_time() {
        let (full, silent) = full_listener();
        let filler = std::net::TcpStream::connect(silent).expect("the first is taken");
        let (_listener, good) = listener();
        let start = Instant::now();
        let mut world = World::new(Duration::from_secs(10));
        let ended = world.dial(vec![silent, good], start, Duration::from_secs(1));
        assert_eq!(ended.end.ok().map(|link| link.peer), Some(good));

        let ended = world.dial(vec![silent, silent], start, Duration::from_secs(1));
        assert!(matches!(ended.end, Err(DialError::TimedOut)));
        drop((full, filler));
    }

    /// A listener with room for one connection that nobody accepts: it answers no further SYN.
    fn full_listener() -> (rustix::fd::OwnedFd, SocketAddr) {
        use rustix::net::{AddressFamily, SocketType, bind, getsockname, listen, socket};
        let full = socket(AddressFamily::INET, SocketType::STREAM, None).expect("a socket");
        bind(&full, &SocketAddr::from(([127, 0, 0, 1], 0))).expect("a port");
        listen(&full, 0).expect("a listener");
        let address = getsockname(&full).expect("bound").try_into().expect("an IP address");
        (full, address)
    }
}
