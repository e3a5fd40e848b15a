//! Two nodes, the shortest way: every message is delivered at once, every plane answers at once.
//!
//! The stories with faults are told in the workspace's `tests` crate; these only show the main job.

use std::collections::VecDeque;

use kvpeer_core::wire::{
    Decoded, Key, KeysBuf, Limits as WireLimits, Msg, PeerName, RegionInfo, RequestName, Supply,
};
use kvpeer_core::{
    Action, BlockIdx, Command, Compatibility, Config, ConnId, Destination, Endpoint, Epoch, Event, Identity,
    Input, JobId, KeyAt, LoadOutcome, LookupState, Origin, Part, PeerId, ProbeId, Role, Sink, StoreOutcome,
    Time, TransferEnd, XferId,
};

/// What a node asks for, to be answered after the call.
enum Ask {
    Dial(Epoch),
    Close,
    Frame(Vec<u8>),
    Admit(Epoch),
    Open(Epoch),
    Register(Epoch),
    CloseRight(Epoch),
    Write(XferId, Vec<BlockIdx>, Vec<BlockIdx>),
    Probe(ProbeId, Vec<KeyAt>),
}

#[derive(Default)]
struct Outlet {
    asks: VecDeque<Ask>,
    news: Vec<String>,
}

impl Sink for Outlet {
    fn act(&mut self, action: Action<'_>) {
        let ask = match action {
            Action::Dial { epoch, .. } => Ask::Dial(epoch),
            Action::Close { .. } => Ask::Close,
            Action::Send { msg, .. } => {
                let mut frame = Vec::new();
                msg.encode(&mut frame).unwrap();
                Ask::Frame(frame)
            }
            Action::Admit { epoch, .. } => Ask::Admit(epoch),
            Action::OpenRight { epoch } => Ask::Open(epoch),
            Action::Register { epoch, .. } => Ask::Register(epoch),
            Action::CloseRight { epoch } => Ask::CloseRight(epoch),
            Action::Write { xfer, src, dst } => Ask::Write(xfer, src.to_vec(), dst.to_vec()),
            Action::Probe { probe, open, .. } => Ask::Probe(probe, open.to_vec()),
            Action::CancelDial { .. } | Action::Cancel { .. } | Action::EndProbe { .. } => return,
        };
        self.asks.push_back(ask);
    }

    fn tell(&mut self, event: Event<'_>) {
        let line = match event {
            Event::LoadFinished { job, outcome, destination, .. } => {
                let how = match outcome {
                    LoadOutcome::Loaded => "loaded".to_owned(),
                    LoadOutcome::Failed { why, .. } => format!("{why:?}"),
                };
                let held = if destination == Destination::Reusable { "reusable" } else { "quarantined" };
                format!("load {} {how} {held}", job.0)
            }
            Event::DestinationReleased { job } => format!("released {}", job.0),
            Event::StoreFinished { job, outcome } => match outcome {
                StoreOutcome::Delivered => format!("store {} delivered", job.0),
                StoreOutcome::Partly { delivered } => format!("store {} partly {delivered}", job.0),
                StoreOutcome::Unclaimed => format!("store {} unclaimed", job.0),
                StoreOutcome::Failed(why) => format!("store {} {why:?}", job.0),
            },
            Event::PeerDown { peer, reason, .. } => format!("{peer} down {reason:?}"),
            Event::RequestFailed { request, .. } => format!("{request} failed"),
            Event::PeerRefused { .. }
            | Event::LookupAnswered { .. }
            | Event::FetchArrived { .. }
            | Event::PeerUp { .. } => return,
        };
        self.news.push(line);
    }
}

struct Pair {
    nodes: [Endpoint; 2],
    outlets: [Outlet; 2],
    /// WRITEs are answered only while this holds.
    writes_end: bool,
    /// Whether the planes can fence.
    fenced: bool,
    pending: Vec<(usize, XferId)>,
    /// Rights that a plane without a fence has been asked to close.
    closing: Vec<(usize, Epoch)>,
    next_pin: u64,
}

const NOW: Time = Time::from_micros(1);

impl Pair {
    fn new() -> Self {
        Self {
            nodes: ["a:1", "b:1"].map(node),
            outlets: Default::default(),
            writes_end: true,
            fenced: true,
            pending: Vec::new(),
            closing: Vec::new(),
            next_pin: 1000,
        }
    }

    fn command(&mut self, at: usize, command: Command<'_>) {
        self.nodes[at].command(NOW, command, &mut self.outlets[at]).unwrap();
        self.settle();
    }

    fn handle(&mut self, at: usize, input: Input<'_>) {
        self.nodes[at].handle(NOW, input, &mut self.outlets[at]);
        self.nodes[at].check().unwrap();
    }

    fn settle(&mut self) {
        while let Some(at) = (0..2).find(|at| !self.outlets[*at].asks.is_empty()) {
            let ask = self.outlets[at].asks.pop_front().unwrap();
            self.answer(at, ask);
        }
    }

    fn answer(&mut self, at: usize, ask: Ask) {
        let conn = ConnId(7);
        match ask {
            Ask::Dial(epoch) => {
                self.handle(1 - at, Input::Connected { conn, origin: Origin::Accepted });
                self.handle(at, Input::Connected { conn, origin: Origin::Dialed(epoch) });
            }
            Ask::Close => self.handle(1 - at, Input::Disconnected { conn }),
            Ask::Frame(frame) => match Msg::decode(frame[4], &frame[5..], &WireLimits::DEFAULT).unwrap() {
                Decoded::Msg(msg) => self.handle(1 - at, Input::Message { conn, msg }),
                Decoded::Skipped { .. } => panic!("a kind of our own was skipped"),
            },
            Ask::Admit(epoch) => self.handle(at, Input::Admitted { epoch, admit: true }),
            Ask::Open(epoch) => self.handle(at, Input::RightOpened { epoch, metadata: Some(b"md") }),
            Ask::Register(epoch) => self.handle(at, Input::Registered { epoch, ok: true }),
            Ask::CloseRight(epoch) => {
                if self.fenced {
                    self.close_right(at, epoch);
                } else {
                    self.closing.push((at, epoch));
                }
            }
            Ask::Write(xfer, src, dst) => {
                assert_eq!(src.len(), dst.len());
                if self.writes_end {
                    self.handle(at, Input::Transfer { xfer, end: TransferEnd::Done });
                } else {
                    self.pending.push((at, xfer));
                }
            }
            Ask::Probe(probe, open) => {
                // Even keys are held.
                let hits: Vec<_> = open.iter().filter(|k| k.0 % 2 == 0).map(|k| (*k, k.0)).collect();
                let misses: Vec<_> = open.iter().filter(|k| k.0 % 2 == 1).copied().collect();
                let pin = JobId(self.next_pin);
                self.next_pin += 1;
                self.handle(at, Input::Probed { probe, pin: Some(pin), hits: &hits, misses: &misses });
            }
        }
    }

    fn close_right(&mut self, at: usize, epoch: Epoch) {
        let mine = self.pending.extract_if(.., |(owner, xfer)| *owner == at && xfer.epoch == epoch);
        for (_, xfer) in mine.collect::<Vec<_>>() {
            self.handle(at, Input::Transfer { xfer, end: TransferEnd::Fenced });
        }
        self.handle(at, Input::RightClosed { epoch, fenced: self.fenced });
    }

    fn news(&mut self, at: usize) -> Vec<String> {
        std::mem::take(&mut self.outlets[at].news)
    }
}

fn node(name: &str) -> Endpoint {
    let peer_id = PeerId::from(PeerName::new(name).unwrap());
    let identity = Identity { peer_id, incarnation: 1, loopback: false };
    let region = RegionInfo { base_addr: 0, num_blocks: 64, block_len: 1 << 16 };
    let mut config = Config::new(identity, region, Compatibility::default());
    config.limits.write_bytes = region.block_len;
    Endpoint::new(config).unwrap()
}

fn request() -> RequestName<'static> {
    RequestName::new("r").unwrap()
}

fn keys(range: std::ops::Range<u8>) -> KeysBuf {
    let mut keys = KeysBuf::new();
    range.for_each(|n| keys.push(Key::new(&[n; 36]).unwrap()));
    keys
}

fn consume(supply: Supply) -> Command<'static> {
    let source = PeerName::new("b:1").unwrap();
    Command::Open { request: request(), part: Part::Consume { source, address: "b:1", supply } }
}

fn load<'k>(keys: &'k KeysBuf, job: u64, blocks: &'static [BlockIdx]) -> Command<'k> {
    Command::Load { job: JobId(job), request: request(), keys: keys.as_keys(), blocks }
}

fn store<'k>(keys: &'k KeysBuf, job: u64, blocks: &'static [BlockIdx]) -> Command<'k> {
    Command::Store { job: JobId(job), request: request(), keys: keys.as_keys(), blocks, consumer: None }
}

#[test]
fn looks_up_and_fetches_what_is_held() {
    let mut pair = Pair::new();
    pair.command(0, consume(Supply::Pinned));
    let all = keys(0..4);
    let states = |pair: &mut Pair| -> Vec<LookupState> {
        all.as_keys().iter().map(|key| pair.nodes[0].lookup(NOW, request(), key)).collect()
    };
    assert_eq!(states(&mut pair), [LookupState::Pending; 4]);
    pair.command(0, Command::FlushLookups);
    let (hit, miss) = (LookupState::Hit, LookupState::Miss);
    assert_eq!(states(&mut pair), [hit, miss, hit, miss]);
    let held: KeysBuf = [0, 2].iter().filter_map(|at| all.as_keys().get(*at)).collect();
    pair.command(0, load(&held, 1, &[8, 9]));
    assert_eq!(pair.news(0), ["load 1 loaded reusable"]);
    assert_eq!(pair.news(1), ["store 1000 delivered"]);
}

#[test]
fn a_fetch_waits_for_its_store() {
    let mut pair = Pair::new();
    let all = keys(0..3);
    pair.command(0, consume(Supply::Await));
    pair.command(0, load(&all, 1, &[8, 9, 10]));
    assert!(pair.news(0).is_empty());
    pair.command(1, store(&all, 50, &[0, 1, 2]));
    assert_eq!(pair.news(0), ["load 1 loaded reusable"]);
    assert_eq!(pair.news(1), ["store 50 delivered"]);
}

#[test]
fn a_store_waits_for_its_fetch() {
    let mut pair = Pair::new();
    let all = keys(0..3);
    pair.command(1, store(&all, 50, &[0, 1, 2]));
    pair.command(1, Command::Finish { request: request(), role: Role::Producer });
    pair.command(0, consume(Supply::Await));
    pair.command(0, load(&all, 1, &[8, 9, 10]));
    assert_eq!(pair.news(0), ["load 1 loaded reusable"]);
    assert_eq!(pair.news(1), ["store 50 delivered"]);
}

#[test]
fn an_abort_is_answered_when_its_write_has_ended() {
    let mut pair = Pair::new();
    let all = keys(0..1);
    pair.writes_end = false;
    pair.command(1, store(&all, 50, &[0]));
    pair.command(0, consume(Supply::Await));
    pair.command(0, load(&all, 1, &[8]));
    pair.command(0, Command::Abort { job: JobId(1) });
    assert!(pair.news(0).is_empty());
    let (at, xfer) = pair.pending.pop().unwrap();
    pair.handle(at, Input::Transfer { xfer, end: TransferEnd::Done });
    pair.settle();
    assert_eq!(pair.news(0), ["load 1 Aborted reusable"]);
    assert!(pair.news(1).is_empty(), "the block is back in the pool");
}

#[test]
fn shutdown_answers_everything() {
    let mut pair = Pair::new();
    let all = keys(0..2);
    pair.writes_end = false;
    pair.command(1, store(&all, 50, &[0, 1]));
    pair.command(0, consume(Supply::Await));
    pair.command(0, load(&all, 1, &[8, 9]));
    pair.command(0, Command::Shutdown { within: std::time::Duration::from_secs(1) });
    let by = Time::from_micros(2_000_000);
    let [a, _] = &mut pair.nodes;
    a.handle(by, Input::Tick, &mut pair.outlets[0]);
    pair.settle();
    assert_eq!(
        pair.news(0),
        ["load 1 Session(Shutdown) quarantined", "r failed", "b:1 down Shutdown", "released 1"]
    );
    assert_eq!(pair.news(1), ["a:1 down Goodbye(Shutdown)", "store 50 Session(Goodbye(Shutdown))"]);
    assert!(pair.nodes[0].is_idle());
    assert!(pair.nodes[1].is_idle());
}

/// Rules SUP-15, CMD-11 · guards I3, I7: without a fence a store is held only while a WRITE reads it. One whose WRITE
/// still ends, after its session, has its result at once; the others wait for the engine.
#[test]
fn a_write_that_ends_after_its_session_frees_its_store() {
    for end in [TransferEnd::Done, TransferEnd::NotPosted, TransferEnd::Errored] {
        let mut pair = Pair::new();
        pair.writes_end = false;
        pair.fenced = false;
        let (all, first, second) = (keys(0..2), keys(0..1), keys(1..2));
        pair.command(1, store(&first, 50, &[0]));
        pair.command(1, store(&second, 51, &[1]));
        pair.command(0, consume(Supply::Await));
        pair.command(0, load(&all, 1, &[8, 9]));
        assert_eq!(pair.pending.len(), 2, "a WRITE for each block");
        pair.handle(1, Input::Disconnected { conn: ConnId(7) });
        pair.settle();
        assert_eq!(pair.news(1), ["a:1 down Lost"]);

        let (at, xfer) = pair.pending.remove(0);
        pair.handle(at, Input::Transfer { xfer, end });
        let news = pair.news(1);
        assert!(news.len() == 1 && news[0].starts_with("store 50 "), "{end:?}: {news:?}");

        let (at, epoch) = *pair.closing.iter().find(|(at, _)| *at == 1).unwrap();
        pair.close_right(at, epoch);
        assert!(pair.news(1).is_empty(), "store 51 is held");
        pair.command(1, Command::ReleaseQuarantine { job: JobId(51) });
        assert_eq!(pair.news(1), ["store 51 Session(Lost)"]);
        assert!(pair.nodes[1].is_idle());
    }
}
