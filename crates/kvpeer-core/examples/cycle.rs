//! Runs whole lookup → fetch → done cycles between two nodes, both ends and the codec included, on planes that
//! answer at once: what is left is the cost of the core and of the wire format.
//!
//! `cargo run --release -p kvpeer-core --example cycle -- KEYS CYCLES` prints one line of JSON. Under
//! `valgrind --tool=callgrind`, the difference of two runs with different numbers of cycles is the exact number of
//! instructions for the cycles between them.

#![allow(clippy::disallowed_types, reason = "the core reads no clock; who measures it does")]

use std::collections::VecDeque;
use std::time::Instant;

use kvpeer_core::wire::{
    Decoded, Key, KeysBuf, Limits as WireLimits, Msg, PeerName, RegionInfo, RequestName, Supply,
};
use kvpeer_core::{
    Action, BlockIdx, Command, Compatibility, Config, ConnId, Endpoint, Epoch, Event, Identity, Input, JobId,
    KeyAt, LookupState, Origin, Part, PeerId, ProbeId, Role, Sink, Time, TransferEnd, XferId,
};

enum Ask {
    Dial(Epoch),
    Frame(Vec<u8>),
    Admit(Epoch),
    Open(Epoch),
    Register(Epoch),
    Write(XferId),
    Probe(ProbeId, usize),
}

#[derive(Default)]
struct Outlet {
    asks: VecDeque<Ask>,
    spare: Vec<Vec<u8>>,
    loaded: u64,
}

impl Sink for Outlet {
    fn act(&mut self, action: Action<'_>) {
        let ask = match action {
            Action::Dial { epoch, .. } => Ask::Dial(epoch),
            Action::Send { msg, .. } => {
                let mut frame = self.spare.pop().unwrap_or_default();
                frame.clear();
                msg.encode(&mut frame).expect("the message fits a frame");
                Ask::Frame(frame)
            }
            Action::Admit { epoch, .. } => Ask::Admit(epoch),
            Action::OpenRight { epoch } => Ask::Open(epoch),
            Action::Register { epoch, .. } => Ask::Register(epoch),
            Action::Write { xfer, .. } => Ask::Write(xfer),
            Action::Probe { probe, open, .. } => Ask::Probe(probe, open.len()),
            Action::CancelDial { .. }
            | Action::Cancel { .. }
            | Action::EndProbe { .. }
            | Action::Close { .. }
            | Action::CloseRight { .. } => return,
        };
        self.asks.push_back(ask);
    }

    fn tell(&mut self, event: Event<'_>) {
        if let Event::LoadFinished { .. } = event {
            self.loaded += 1;
        }
    }
}

struct Pair {
    nodes: [Endpoint; 2],
    outlets: [Outlet; 2],
    hits: Vec<(KeyAt, BlockIdx)>,
    next_pin: u64,
    now: u64,
}

impl Pair {
    fn time(&mut self) -> Time {
        self.now += 1;
        Time::from_micros(self.now)
    }

    fn command(&mut self, at: usize, command: Command<'_>) {
        let now = self.time();
        self.nodes[at].command(now, command, &mut self.outlets[at]).expect("a sound command");
        while let Some(at) = (0..2).find(|at| !self.outlets[*at].asks.is_empty()) {
            if let Some(ask) = self.outlets[at].asks.pop_front() {
                self.answer(at, ask);
            }
        }
    }

    fn answer(&mut self, at: usize, ask: Ask) {
        let (conn, now) = (ConnId(7), self.time());
        let [a, b] = &mut self.nodes;
        let [out_a, out_b] = &mut self.outlets;
        let (me, my_out, you, your_out) = if at == 0 { (a, out_a, b, out_b) } else { (b, out_b, a, out_a) };
        match ask {
            Ask::Dial(epoch) => {
                you.handle(now, Input::Connected { conn, origin: Origin::Accepted }, your_out);
                me.handle(now, Input::Connected { conn, origin: Origin::Dialed(epoch) }, my_out);
            }
            Ask::Frame(frame) => {
                match Msg::decode(frame[4], &frame[5..], &WireLimits::DEFAULT) {
                    Ok(Decoded::Msg(msg)) => you.handle(now, Input::Message { conn, msg }, your_out),
                    Ok(Decoded::Skipped { .. }) | Err(_) => unreachable!("our own frames decode"),
                }
                my_out.spare.push(frame);
            }
            Ask::Admit(epoch) => me.handle(now, Input::Admitted { epoch, admit: true }, my_out),
            Ask::Open(epoch) => me.handle(now, Input::RightOpened { epoch, metadata: Some(b"md") }, my_out),
            Ask::Register(epoch) => me.handle(now, Input::Registered { epoch, ok: true }, my_out),
            Ask::Write(xfer) => me.handle(now, Input::Transfer { xfer, end: TransferEnd::Done }, my_out),
            Ask::Probe(probe, count) => {
                self.next_pin += 1;
                let (pin, hits) = (Some(JobId(self.next_pin)), &self.hits[..count]);
                me.handle(now, Input::Probed { probe, pin, hits, misses: &[] }, my_out);
            }
        }
    }
}

fn node(name: &str, blocks: u32) -> Endpoint {
    let peer_id = PeerId::from(PeerName::new(name).expect("a name"));
    let identity = Identity { peer_id, incarnation: 1, loopback: false };
    let region = RegionInfo { base_addr: 0, num_blocks: blocks, block_len: 1 << 16 };
    Endpoint::new(Config::new(identity, region, Compatibility::default())).expect("a sound configuration")
}

/// Keys as engines make them: a 32-byte hash (here a mixed counter) and a group index.
fn keys(count: u32) -> KeysBuf {
    let mut run = KeysBuf::new();
    let mut state = 0x9E37_79B9_7F4A_7C15_u64;
    for _ in 0..count {
        let mut key = [0; 36];
        for chunk in key[..32].chunks_exact_mut(8) {
            state = (state ^ (state >> 29))
                .wrapping_mul(0xBF58_476D_1CE4_E5B9)
                .wrapping_add(0x94D0_49BB_1331_11EB);
            chunk.copy_from_slice(&state.to_le_bytes());
        }
        run.push(Key::new(&key).expect("a key"));
    }
    run
}

fn main() {
    let mut args = std::env::args().skip(1).map(|arg| arg.parse::<u32>().expect("usage: cycle KEYS CYCLES"));
    let (count, cycles) = (args.next().unwrap_or(8192), args.next().unwrap_or(20));
    let keys = keys(count);
    let blocks: Vec<BlockIdx> = (0..count).collect();
    let mut pair = Pair {
        nodes: [node("a:1", count), node("b:1", count)],
        outlets: Default::default(),
        hits: (0..count).map(|at| (KeyAt(at), at)).collect(),
        next_pin: 1 << 32,
        now: 0,
    };
    let request = RequestName::new("r").expect("a name");
    let source = PeerName::new("b:1").expect("a name");
    let part = Part::Consume { source, address: "b:1", supply: Supply::Pinned };
    let mut known = Vec::new();
    let begun = Instant::now();
    for cycle in 0..cycles {
        pair.command(0, Command::Open { request, part });
        let now = pair.time();
        known.clear();
        pair.nodes[0].lookup_many(now, request, keys.as_keys(), &mut known);
        pair.command(0, Command::FlushLookups);
        known.clear();
        pair.nodes[0].lookup_many(now, request, keys.as_keys(), &mut known);
        assert!(known.iter().all(|state| *state == LookupState::Hit), "every key is a hit");
        let job = JobId(u64::from(cycle));
        pair.command(0, Command::Load { job, request, keys: keys.as_keys(), blocks: &blocks });
        pair.command(0, Command::Finish { request, role: Role::Consumer });
    }
    let micros = begun.elapsed().as_micros() as f64 / f64::from(cycles);
    assert_eq!(pair.outlets[0].loaded, u64::from(cycles), "every load has its result");
    println!("{{\"keys\":{count},\"cycles\":{cycles},\"micros_per_cycle\":{micros:.1}}}");
}
