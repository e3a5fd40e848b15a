//! The switchboard: who is there, who is connected, what waits to be received.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use kvpeer_core::{ConnId, Epoch, Origin};

use super::{Dials, JoinError};

/// Bytes that may wait to be received on one connection; over it the connection breaks.
const QUEUE_BYTES: usize = 8 << 20;

/// All stations and links, under one lock that is held for moments only.
pub(super) struct Hub {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    stations: BTreeMap<Arc<str>, Station>,
    links: BTreeMap<u64, Link>,
    next_link: u64,
}

struct Station {
    inbox: VecDeque<Item>,
    woken: Woken,
    arrived: Arc<Condvar>,
    dials: Dials,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Woken {
    Yes,
    No,
}

/// A connection. It is taken out when one end closes it; the other learns that by an item.
struct Link {
    dialer: Arc<str>,
    acceptor: Arc<str>,
    /// Bytes that wait to be received by each.
    to_dialer: usize,
    to_acceptor: usize,
}

/// What a station receives.
#[derive(Debug)]
pub(super) enum Item {
    Connected { conn: ConnId, origin: Origin },
    DialFailed { epoch: Epoch, detail: String },
    Disconnected { conn: ConnId, detail: &'static str },
    Frame { conn: ConnId, bytes: Vec<u8> },
}

/// The two ends of a link, in its connection ids: even numbers dialled.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    Dialer,
    Acceptor,
}

fn conn_of(link: u64, end: End) -> ConnId {
    match end {
        End::Dialer => ConnId(link * 2),
        End::Acceptor => ConnId(link * 2 + 1),
    }
}

fn link_of(conn: ConnId) -> (u64, End) {
    (conn.0 / 2, if conn.0.is_multiple_of(2) { End::Dialer } else { End::Acceptor })
}

impl End {
    fn other(self) -> Self {
        match self {
            End::Dialer => End::Acceptor,
            End::Acceptor => End::Dialer,
        }
    }
}

impl Link {
    fn station(&self, end: End) -> &Arc<str> {
        match end {
            End::Dialer => &self.dialer,
            End::Acceptor => &self.acceptor,
        }
    }

    fn waiting(&mut self, end: End) -> &mut usize {
        match end {
            End::Dialer => &mut self.to_dialer,
            End::Acceptor => &mut self.to_acceptor,
        }
    }
}

impl Hub {
    pub(super) fn new() -> Self {
        Self { state: Mutex::default() }
    }

    pub(super) fn join(&self, address: &str) -> Result<Arc<str>, JoinError> {
        let mut state = self.lock();
        if state.stations.contains_key(address) {
            return Err(JoinError::AddressInUse { address: address.to_owned() });
        }
        let address: Arc<str> = address.into();
        let station = Station {
            inbox: VecDeque::new(),
            woken: Woken::No,
            arrived: Arc::default(),
            dials: Dials::Accepted,
        };
        state.stations.insert(Arc::clone(&address), station);
        Ok(address)
    }

    pub(super) fn leave(&self, address: &str) {
        let mut state = self.lock();
        state.stations.remove(address);
        let touches = |link: &Link| &*link.dialer == address || &*link.acceptor == address;
        for id in state.links_that(touches) {
            state.break_link(id, "the other node is gone");
        }
    }

    pub(super) fn dial(&self, from: &Arc<str>, epoch: Epoch, to: &str) {
        let mut state = self.lock();
        let acceptor = match state.stations.get_key_value(to) {
            Some((to, station)) if station.dials == Dials::Accepted => Ok(Arc::clone(to)),
            Some(_) => Err(format!("{to:?} refuses connections")),
            None => Err(format!("no node of this network has the address {to:?}")),
        };
        let acceptor = match acceptor {
            Ok(acceptor) => acceptor,
            Err(detail) => return state.deliver(from, Item::DialFailed { epoch, detail }),
        };
        let link = state.next_link;
        state.next_link += 1;
        let accepted = Item::Connected { conn: conn_of(link, End::Acceptor), origin: Origin::Accepted };
        let dialed = Item::Connected { conn: conn_of(link, End::Dialer), origin: Origin::Dialed(epoch) };
        state.deliver(&acceptor, accepted);
        state.deliver(from, dialed);
        let link_state = Link { dialer: Arc::clone(from), acceptor, to_dialer: 0, to_acceptor: 0 };
        state.links.insert(link, link_state);
    }

    /// Takes back what a dial has brought and nobody has seen yet.
    pub(super) fn cancel_dial(&self, from: &str, epoch: Epoch) {
        let mut state = self.lock();
        let Some(station) = state.stations.get_mut(from) else { return };
        let mut unseen = None;
        station.inbox.retain(|item| match item {
            Item::Connected { conn, origin: Origin::Dialed(of) } if *of == epoch => {
                unseen = Some(*conn);
                false
            }
            Item::DialFailed { epoch: of, .. } => *of != epoch,
            Item::Connected { .. } | Item::Disconnected { .. } | Item::Frame { .. } => true,
        });
        if let Some(conn) = unseen {
            state.close(conn);
        }
    }

    /// Delivers bytes; a receiver that lets too many wait loses the connection.
    pub(super) fn send(&self, conn: ConnId, bytes: Vec<u8>) {
        let mut state = self.lock();
        let (id, end) = link_of(conn);
        let Some(link) = state.links.get_mut(&id) else { return };
        let to = end.other();
        let waiting = link.waiting(to);
        *waiting = waiting.saturating_add(bytes.len());
        if *waiting > QUEUE_BYTES {
            return state.break_link(id, "the receiver does not read");
        }
        let station = Arc::clone(link.station(to));
        state.deliver(&station, Item::Frame { conn: conn_of(id, to), bytes });
    }

    /// Closes one end; what was sent before is still received at the other.
    pub(super) fn close(&self, conn: ConnId) {
        self.lock().close(conn);
    }

    pub(super) fn cut(&self, a: &str, b: &str) {
        let mut state = self.lock();
        let between = |link: &Link| {
            let ends = (&*link.dialer, &*link.acceptor);
            ends == (a, b) || ends == (b, a)
        };
        let cut = state.links_that(between);
        for station in state.stations.values_mut() {
            station.inbox.retain(|item| match item {
                Item::Frame { conn, .. } => !cut.contains(&link_of(*conn).0),
                Item::Connected { .. } | Item::DialFailed { .. } | Item::Disconnected { .. } => true,
            });
        }
        for link in cut {
            state.break_link(link, "cut");
        }
    }

    pub(super) fn set_dials(&self, address: &str, dials: Dials) {
        if let Some(station) = self.lock().stations.get_mut(address) {
            station.dials = dials;
        }
    }

    pub(super) fn wake(&self, address: &str) {
        if let Some(station) = self.lock().stations.get_mut(address) {
            station.woken = Woken::Yes;
            station.arrived.notify_all();
        }
    }

    pub(super) fn wake_all(&self) {
        for station in self.lock().stations.values_mut() {
            station.woken = Woken::Yes;
            station.arrived.notify_all();
        }
    }

    /// Who is at the other end.
    pub(super) fn other_end(&self, conn: ConnId) -> Option<Arc<str>> {
        let (id, end) = link_of(conn);
        self.lock().links.get(&id).map(|link| Arc::clone(link.station(end.other())))
    }

    /// Waits until there is something or somebody wakes the station, then moves all of it to `to`. Answers as of
    /// when.
    pub(super) fn receive(
        &self,
        address: &str,
        timeout: Option<Duration>,
        to: &mut VecDeque<Item>,
    ) -> Instant {
        let until = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        let mut state = self.lock();
        loop {
            let now = Instant::now();
            let Some(station) = state.stations.get_mut(address) else { return now };
            let over = until.is_some_and(|until| until <= now);
            if station.woken == Woken::Yes || !station.inbox.is_empty() || over {
                station.woken = Woken::No;
                let arrived = std::mem::take(&mut station.inbox);
                arrived.iter().for_each(|item| state.received(item));
                to.extend(arrived);
                return now;
            }
            let arrived = Arc::clone(&station.arrived);
            state = match until {
                Some(until) => {
                    let waited = arrived.wait_timeout(state, until.saturating_duration_since(now));
                    waited.unwrap_or_else(PoisonError::into_inner).0
                }
                None => arrived.wait(state).unwrap_or_else(PoisonError::into_inner),
            };
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn deliver(&mut self, to: &str, item: Item) {
        if let Some(station) = self.stations.get_mut(to) {
            station.inbox.push_back(item);
            station.arrived.notify_all();
        }
    }

    fn received(&mut self, item: &Item) {
        if let Item::Frame { conn, bytes } = item {
            let (id, end) = link_of(*conn);
            if let Some(link) = self.links.get_mut(&id) {
                let waiting = link.waiting(end);
                *waiting = waiting.saturating_sub(bytes.len());
            }
        }
    }

    fn close(&mut self, conn: ConnId) {
        let (id, end) = link_of(conn);
        let Some(link) = self.links.remove(&id) else { return };
        let to = end.other();
        let item = Item::Disconnected { conn: conn_of(id, to), detail: "the peer closed the connection" };
        self.deliver(link.station(to), item);
    }

    fn links_that(&self, fit: impl Fn(&Link) -> bool) -> Vec<u64> {
        self.links.iter().filter(|(_, link)| fit(link)).map(|(id, _)| *id).collect()
    }

    fn break_link(&mut self, id: u64, detail: &'static str) {
        let Some(link) = self.links.remove(&id) else { return };
        for end in [End::Dialer, End::Acceptor] {
            self.deliver(link.station(end), Item::Disconnected { conn: conn_of(id, end), detail });
        }
    }
}

impl fmt::Debug for Hub {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.lock();
        f.debug_struct("Hub")
            .field("stations", &state.stations.keys())
            .field("links", &state.links.len())
            .finish()
    }
}
