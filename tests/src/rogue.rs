//! X, the peer whose every word the story writes.

use kvpeer_core::ConnId;
use kvpeer_wire::{
    AbortFetch, BitsBuf, Blocks, Compat, Connect, ConnectAck, Demand, Fetch, FetchProgress, Fingerprint,
    Lookup, LookupId, LookupResp, Msg, PeerName, RegionInfo, Release, Round, Supply, Text,
};

use crate::control::{Item, encode};
use crate::node::request;
use crate::text::{is_heartbeat, say};
use crate::{BLOCK_LEN, NUM_BLOCKS, Who, World, X, keys};

/// X's end of a connection with a node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Line(ConnId);

/// A `connect` of X that fits the nodes of the world.
pub fn rogue_connect<'a>() -> Connect<'a> {
    Connect {
        peer_id: PeerName::new(X.name()).expect("a legal name"),
        incarnation: 1,
        region: RegionInfo { base_addr: 0x100_0000, num_blocks: NUM_BLOCKS, block_len: BLOCK_LEN as u64 },
        metadata: b"of no node",
        compat: Compat {
            hash_seed: Text::new("seed").expect("a short text"),
            fingerprint: Fingerprint::default(),
        },
        capabilities: 0,
        heartbeat_ms: 2_000,
    }
}

impl World {
    /// X dials a node.
    pub fn rogue_dials(&mut self, who: Who) -> Line {
        let conn = self.wires.connect(X, who);
        self.run();
        Line(conn)
    }

    /// X dials a node and brings up a session.
    #[track_caller]
    pub fn rogue_session(&mut self, who: Who) -> Line {
        let line = self.rogue_dials(who);
        self.rogue_says(line, &Msg::Connect(rogue_connect()));
        let incarnation = self.node(who).config.identity.incarnation;
        self.rogue_says(line, &Msg::ConnectAck(ConnectAck { incarnation }));
        self.expect_link(who, X, kvpeer_core::LinkStatus::Up);
        self.rogue_heard(line);
        line
    }

    /// The newest connection that a node has opened to X.
    #[track_caller]
    pub fn rogue_dialled(&mut self) -> Line {
        self.run();
        match self.wires.ends().filter(|end| end.who == X).last() {
            Some(end) => Line(end.conn),
            None => self.fail("nobody has dialled X"),
        }
    }

    /// X goes through the handshake of the newest connection that a node has opened to it.
    #[track_caller]
    pub fn rogue_accepts(&mut self, who: Who) -> Line {
        let line = self.rogue_dialled();
        let incarnation = self.node(who).config.identity.incarnation;
        self.expect_heard(line, &[&format!("connect {} {incarnation}", who.name())]);
        self.rogue_says(line, &Msg::Connect(rogue_connect()));
        self.expect_heard(line, &["connect_ack 1"]);
        self.rogue_says(line, &Msg::ConnectAck(ConnectAck { incarnation }));
        line
    }

    /// X says something, and all that follows happens.
    #[track_caller]
    pub fn rogue_says(&mut self, line: Line, msg: &Msg<'_>) {
        self.rogue_whispers(line, msg);
        self.run();
    }

    /// X fetches keys into blocks of its own region, as a consumer that waits for supply.
    #[track_caller]
    pub fn rogue_fetches(&mut self, line: Line, name: &str, round: u64, numbers: &[u32], blocks: &[u32]) {
        let keys = keys(numbers);
        let demand = Demand::new(keys.as_keys(), Blocks::new(blocks)).expect("as many keys as blocks");
        let (request, round) = (request(name), Round(round));
        self.rogue_says(
            line,
            &Msg::Fetch(Fetch { request, round, supply: Supply::Await, demand, wait_ms: 60_000 }),
        );
    }

    /// X aborts a fetch.
    #[track_caller]
    pub fn rogue_aborts(&mut self, line: Line, name: &str, round: u64) {
        self.rogue_says(line, &Msg::AbortFetch(AbortFetch { request: request(name), round: Round(round) }));
    }

    /// X says that no more lookups or fetches come for a request.
    #[track_caller]
    pub fn rogue_releases(&mut self, line: Line, name: &str) {
        self.rogue_says(line, &Msg::Release(Release { request: request(name) }));
    }

    /// X asks which of these keys the node holds.
    #[track_caller]
    pub fn rogue_asks(&mut self, line: Line, id: u64, name: &str, round: u64, numbers: &[u32]) {
        let keys = keys(numbers);
        let (lookup_id, request, round, keys) = (LookupId(id), request(name), Round(round), keys.as_keys());
        self.rogue_says(line, &Msg::Lookup(Lookup { lookup_id, request, round, keys }));
    }

    /// X answers a lookup, or a part of it, with hits that are good for a minute.
    #[track_caller]
    pub fn rogue_answers(&mut self, line: Line, id: u64, offset: u32, hits: &[bool]) {
        let mut bits = BitsBuf::zeros(hits.len() as u32);
        hits.iter().enumerate().filter(|(_, hit)| **hit).for_each(|(at, _)| bits.set(at as u32));
        let (lookup_id, hits) = (LookupId(id), bits.as_bits());
        self.rogue_says(line, &Msg::LookupResp(LookupResp { lookup_id, offset, hits, pin_ms: 60_000 }));
    }

    /// X says that a fetch's blocks wait for supply.
    #[track_caller]
    pub fn rogue_parks(&mut self, line: Line, name: &str, round: u64, parked: u32) {
        let (request, round) = (request(name), Round(round));
        let progress = FetchProgress { request, round, matched: 0, parked, landed: 0 };
        self.rogue_says(line, &Msg::FetchProgress(progress));
    }

    /// X says something; it is on its way.
    pub fn rogue_whispers(&mut self, line: Line, msg: &Msg<'_>) {
        self.log(format!("{X} -> {}  {}", self.listener(line), say(msg)));
        self.put(line.0, Item::Frame(encode(msg)));
    }

    /// X sends bytes that are no message.
    pub fn rogue_garbles(&mut self, line: Line) {
        self.put(line.0, Item::Garbage("not a message".into()));
        self.run();
    }

    /// X speaks other versions of the protocol only.
    pub fn rogue_speaks(&mut self, line: Line, theirs: (u8, u8)) {
        self.put(line.0, Item::Versions { theirs });
        self.run();
    }

    /// X sends bytes that complete nothing.
    pub fn rogue_trickles(&mut self, line: Line) {
        self.put(line.0, Item::Trickle);
        self.run();
    }

    /// X breaks the connection.
    pub fn rogue_leaves(&mut self, line: Line) {
        self.put(line.0, Item::Eof);
        if let Some(end) = self.wires.end_mut(line.0) {
            end.open = false;
        }
        self.run();
    }

    /// What X has heard since the last look, apart from heartbeats.
    pub fn rogue_heard(&mut self, line: Line) -> Vec<String> {
        self.wires.end_mut(line.0).map(|end| std::mem::take(&mut end.heard)).unwrap_or_default()
    }

    /// X has heard exactly this since the last look, apart from heartbeats; `closed` is the end of the connection.
    #[track_caller]
    pub fn expect_heard(&mut self, line: Line, messages: &[&str]) {
        let heard = self.rogue_heard(line);
        if heard != messages {
            self.fail(&format!("X heard\n  {heard:?}, not\n  {messages:?}"));
        }
    }

    fn listener(&self, line: Line) -> Who {
        self.wires.peer_of(line.0).map_or(X, |peer| peer.who)
    }

    /// From here on X does not answer pings.
    pub fn rogue_is_silent(&mut self) {
        self.rogue_silent = true;
    }

    /// The nonces of the pongs that X has heard since the last look.
    pub fn pongs(&mut self, line: Line) -> Vec<u64> {
        self.wires.end_mut(line.0).map(|end| std::mem::take(&mut end.pongs)).unwrap_or_default()
    }

    fn rogue_feels(&mut self, conn: ConnId, msg: &Msg<'_>) {
        match (msg, self.wires.end_mut(conn)) {
            (Msg::Ping(nonce), _) if !self.rogue_silent => {
                self.put(conn, Item::Frame(encode(&Msg::Pong(*nonce))));
            }
            (Msg::Pong(nonce), Some(end)) => end.pongs.push(nonce.0),
            (_, _) => {}
        }
    }

    /// Something reaches X. It answers pings, and nothing else by itself.
    pub(crate) fn rogue_hears(&mut self, conn: ConnId, item: Item) {
        let text = match &item {
            Item::Frame(frame) => {
                let msg = crate::control::decode(frame);
                self.rogue_feels(conn, &msg);
                if is_heartbeat(&msg) {
                    return;
                }
                say(&msg)
            }
            Item::Eof => "closed".into(),
            Item::Accept | Item::Trickle | Item::Garbage(_) | Item::Versions { .. } => return,
        };
        if let Some(end) = self.wires.end_mut(conn) {
            end.heard.push(text);
        }
    }
}
