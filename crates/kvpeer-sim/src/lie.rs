//! What a rogue says beside what its endpoint says, as one line of text each.

use std::fmt;
use std::str::FromStr;

use kvpeer_core::BlockIdx;
use kvpeer_wire::{
    AbortAck, AbortFetch, BitsBuf, Blocks, Compat, Connect, ConnectAck, Demand, Disconnect, DisconnectReason,
    Failure, Fetch, FetchProgress, Lookup, LookupId, LookupResp, Msg, Outcome, RegionInfo, Reject,
    RejectCode, Release, Round, Supply, Text, TransferDone,
};

use crate::control::{Flow, Item};
use crate::names::{BadName, ConnKey, Side, Who, keys_buf, request_id};
use crate::node::Node;
use crate::seen::Log;
use crate::wish::{List, Words, supply_of, supply_text};
use crate::world::World;

/// Connections that a rogue opens behind its endpoint's back have epochs from here on.
pub(crate) const CALLS: u32 = 1 << 20;

/// One thing that a rogue puts on a connection.
#[derive(Clone, PartialEq, Eq, Debug)]
#[allow(missing_docs, reason = "the messages of kvpeer-wire, with numbers for names")]
pub enum Lie {
    /// Under any node's name, as any of its processes.
    Connect {
        name: Who,
        life: u8,
    },
    Ack {
        life: u8,
    },
    Reject,
    Disconnect,
    Lookup {
        id: u64,
        request: u8,
        round: u64,
        keys: Vec<u8>,
    },
    /// A hit for each 1, a miss for each 0.
    Answer {
        id: u64,
        offset: u32,
        hits: Vec<u8>,
    },
    Fetch {
        request: u8,
        round: u64,
        supply: Supply,
        keys: Vec<u8>,
        blocks: Vec<BlockIdx>,
    },
    Progress {
        request: u8,
        round: u64,
        landed: u32,
    },
    /// A success, or a failure with nothing landed.
    Done {
        request: u8,
        round: u64,
        ok: bool,
    },
    Abort {
        request: u8,
        round: u64,
    },
    AbortAck {
        request: u8,
        round: u64,
        settled: bool,
    },
    Release {
        request: u8,
    },
    /// Bytes that complete nothing.
    Trickle,
    /// Bytes that are no message.
    Garbage,
    /// Nothing more, for ever.
    Hush,
}

impl Lie {
    /// What is put on the wire; nothing for silence.
    fn item(&self, node: &Node) -> Option<Item> {
        let framed = |msg: Msg<'_>| {
            let mut frame = Vec::new();
            msg.encode(&mut frame).ok()?;
            Some(Item::Frame(frame.into()))
        };
        match self {
            Lie::Connect { name, life } => {
                let (name, config) = (name.peer(), node.endpoint.config());
                let heartbeat = config.timing.heartbeat.as_millis();
                framed(Msg::Connect(Connect {
                    peer_id: name.as_name(),
                    incarnation: u64::from(*life),
                    region: RegionInfo { ..config.region },
                    metadata: format!("{}.{CALLS}", node.process).as_bytes(),
                    compat: Compat {
                        hash_seed: Text::truncated(&config.compat.hash_seed),
                        fingerprint: config.compat.fingerprint.as_fingerprint(),
                    },
                    capabilities: 0,
                    heartbeat_ms: u32::try_from(heartbeat).unwrap_or(u32::MAX),
                }))
            }
            Lie::Ack { life } => framed(Msg::ConnectAck(ConnectAck { incarnation: u64::from(*life) })),
            Lie::Reject => {
                let none = Text::truncated("");
                let code = RejectCode::Unauthorized;
                framed(Msg::Reject(Reject { code, field: none, ours: none, theirs: none, retry_after_ms: 0 }))
            }
            Lie::Disconnect => {
                let detail = Text::truncated("");
                framed(Msg::Disconnect(Disconnect { reason: DisconnectReason::Closed, detail }))
            }
            Lie::Lookup { id, request, round, keys } => {
                let (name, keys) = (request_id(*request), keys_buf(keys));
                let (lookup_id, request, round) = (LookupId(*id), name.as_name(), Round(*round));
                framed(Msg::Lookup(Lookup { lookup_id, request, round, keys: keys.as_keys() }))
            }
            Lie::Answer { id, offset, hits } => {
                let mut bits = BitsBuf::zeros(u32::try_from(hits.len()).unwrap_or(0));
                (0u32..).zip(hits).filter(|(_, hit)| **hit > 0).for_each(|(at, _)| bits.set(at));
                let (lookup_id, hits) = (LookupId(*id), bits.as_bits());
                framed(Msg::LookupResp(LookupResp { lookup_id, offset: *offset, hits, pin_ms: 2_000 }))
            }
            Lie::Fetch { request, round, supply, keys, blocks } => {
                let (name, keys) = (request_id(*request), keys_buf(keys));
                let demand = Demand::new(keys.as_keys(), Blocks::new(blocks)).ok()?;
                let (request, round) = (name.as_name(), Round(*round));
                framed(Msg::Fetch(Fetch { request, round, supply: *supply, demand, wait_ms: 3_000 }))
            }
            Lie::Progress { request, round, landed } => {
                let (name, landed) = (request_id(*request), *landed);
                let (request, round) = (name.as_name(), Round(*round));
                framed(Msg::FetchProgress(FetchProgress {
                    request,
                    round,
                    matched: landed,
                    parked: 0,
                    landed,
                }))
            }
            Lie::Done { request, round, ok } => {
                let (name, none) = (request_id(*request), BitsBuf::zeros(0));
                let (why, landed) = (Failure::NoSupply, none.as_bits());
                let outcome = if *ok { Outcome::Ok } else { Outcome::Failed { why, settled: true, landed } };
                let (request, round) = (name.as_name(), Round(*round));
                framed(Msg::TransferDone(TransferDone { request, round, outcome }))
            }
            Lie::Abort { request, round } => {
                let name = request_id(*request);
                framed(Msg::AbortFetch(AbortFetch { request: name.as_name(), round: Round(*round) }))
            }
            Lie::AbortAck { request, round, settled } => {
                let name = request_id(*request);
                let (request, round, settled) = (name.as_name(), Round(*round), *settled);
                framed(Msg::AbortAck(AbortAck { request, round, settled }))
            }
            Lie::Release { request } => {
                let name = request_id(*request);
                framed(Msg::Release(Release { request: name.as_name() }))
            }
            Lie::Trickle => Some(Item::Part),
            Lie::Garbage => Some(Item::Garbage),
            Lie::Hush => None,
        }
    }
}

impl World {
    pub(crate) fn is_rogue(&self, who: Who) -> bool {
        self.setup.rogue == Some(who)
    }

    /// Whether a rogue can say something from this end.
    pub(crate) fn can_lie(&self, conn: ConnKey, from: Side) -> bool {
        self.conns.get(&conn).is_some_and(|found| {
            let process = found.process(from);
            let open = found.end(from).state == crate::control::EndState::Open && !found.cut;
            self.is_rogue(process.who) && self.is_alive(process.who) && open
        })
    }

    /// Whether an end belongs to a rogue, and its endpoint does not know of it.
    pub(crate) fn is_called(&self, conn: ConnKey, side: Side) -> bool {
        side == Side::Dialler && conn.epoch.0 >= CALLS
    }

    pub(crate) fn lie(&mut self, conn: ConnKey, from: Side, lie: &Lie, log: &mut Log) {
        let Some(rogue) = self.setup.rogue else { return };
        let item = lie.item(self.node(rogue));
        log.say(|| format!("{:>13}{rogue} lies on {conn}", ""));
        let connect = matches!(lie, Lie::Connect { .. });
        self.edit_conn(conn, |conn| match item {
            Some(item) => {
                conn.end_mut(from).said.connect |= connect;
                conn.put(from, item);
            }
            None => conn.end_mut(from.other()).flow = Flow::Muted,
        });
    }

    /// A rogue opens a connection behind its endpoint's back.
    pub(crate) fn call(&mut self, to: Who) {
        let Some(rogue) = self.setup.rogue else { return };
        let key =
            ConnKey { dialler: self.node(rogue).process, epoch: kvpeer_core::Epoch(CALLS + self.calls) };
        self.calls += 1;
        let conn = crate::control::Conn::new(key, self.node(to).process, self.now);
        self.conns.insert(key, crate::shared::Shared::new(conn));
    }
}

impl fmt::Display for Lie {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Lie::Connect { name, life } => write!(f, "connect {name} {life}"),
            Lie::Ack { life } => write!(f, "ack {life}"),
            Lie::Reject => write!(f, "reject"),
            Lie::Disconnect => write!(f, "disconnect"),
            Lie::Lookup { id, request, round, keys } => {
                write!(f, "lookup {id} {request} {round} {}", List(keys))
            }
            Lie::Answer { id, offset, hits } => write!(f, "answer {id} {offset} {}", List(hits)),
            Lie::Fetch { request, round, supply, keys, blocks } => {
                let supply = supply_text(*supply);
                write!(f, "fetch {request} {round} {supply} {} {}", List(keys), List(blocks))
            }
            Lie::Progress { request, round, landed } => write!(f, "progress {request} {round} {landed}"),
            Lie::Done { request, round, ok } => {
                write!(f, "done {request} {round} {}", if *ok { "ok" } else { "failed" })
            }
            Lie::Abort { request, round } => write!(f, "abort {request} {round}"),
            Lie::AbortAck { request, round, settled } => {
                write!(f, "abort-ack {request} {round} {}", if *settled { "settled" } else { "unsettled" })
            }
            Lie::Release { request } => write!(f, "release {request}"),
            Lie::Trickle => write!(f, "trickle"),
            Lie::Garbage => write!(f, "garbage"),
            Lie::Hush => write!(f, "hush"),
        }
    }
}

impl FromStr for Lie {
    type Err = BadName;

    fn from_str(line: &str) -> Result<Self, BadName> {
        let words = &mut Words::new(line);
        Ok(match words.next()? {
            "connect" => Lie::Connect { name: words.read()?, life: words.read()? },
            "ack" => Lie::Ack { life: words.read()? },
            "reject" => Lie::Reject,
            "disconnect" => Lie::Disconnect,
            "lookup" => {
                let (id, request, round) = (words.read()?, words.read()?, words.read()?);
                Lie::Lookup { id, request, round, keys: words.list()? }
            }
            "answer" => Lie::Answer { id: words.read()?, offset: words.read()?, hits: words.list()? },
            "fetch" => {
                let (request, round) = (words.read()?, words.read()?);
                let supply = supply_of(words.next()?)?;
                Lie::Fetch { request, round, supply, keys: words.list()?, blocks: words.list()? }
            }
            "progress" => {
                Lie::Progress { request: words.read()?, round: words.read()?, landed: words.read()? }
            }
            "done" => {
                let (request, round) = (words.read()?, words.read()?);
                Lie::Done { request, round, ok: words.flag("ok", "failed")? }
            }
            "abort" => Lie::Abort { request: words.read()?, round: words.read()? },
            "abort-ack" => {
                let (request, round) = (words.read()?, words.read()?);
                Lie::AbortAck { request, round, settled: words.flag("settled", "unsettled")? }
            }
            "release" => Lie::Release { request: words.read()? },
            "trickle" => Lie::Trickle,
            "garbage" => Lie::Garbage,
            "hush" => Lie::Hush,
            other => return Err(BadName(other.to_owned())),
        })
    }
}
