//! A recorded session again: the same operations, on the dialect and the core.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use kvpeer_core::wire::{Decoded, Key, KeysBuf, Limits, Msg, PeerName, RegionInfo, RequestName, Supply};
use kvpeer_core::{
    Command, Compatibility, Config, ConnId, Count, Endpoint, Epoch, Identity, Input, JobId, KeyAt,
    LookupState, Misuse, Origin, Part, PeerId, ProbeId, Role, StoreOutcome, Time, TransferEnd, XferId,
};
use kvpeer_vllm::dialect::{Answer, Dialect, Heard, Ignored, Said, StopWord, Terms, Violation};
use kvpeer_vllm::wire::{self, Message};
use serde_json::{Value, json};

use crate::item::{Item, Items};
use crate::msgpack::{pack, unpack_bytes};
use crate::recorded::{Step, numbers};
use crate::sink::{Effect, Effects};

/// Something on our side that a rule may refer to.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Note {
    /// A message of this type broke a rule, and so ended the session.
    Broke(&'static str),
    /// The session is over.
    Down(kvpeer_core::CloseReason),
    Violation(Violation),
    Ignored(Ignored),
    /// An ack of a fetch that nobody has aborted.
    StrayAck,
    Held,
    Counted(Count),
    Misuse(Misuse),
    /// The core succeeds at once.
    EmptyLoad,
    /// The dialect refused a second waiting fetch.
    Refused,
    /// A fetch from pins, or one that waits, as the dialect took it.
    Fetch(Supply),
    /// Keys that the cache did not answer in time.
    ProbeDeadline,
    /// An abort of a round that is not fetched.
    AbortOfNothing,
    /// A lookup of which some keys are pending.
    StillOpen,
    /// A lookup that the core answers without asking the cache.
    AnsweredAtOnce,
    /// The engine's `finish`.
    Finish,
    /// A lookup or a load that a fetch has made obsolete before it was sent.
    FetchForgets,
    Outcome(StoreOutcome),
    LoadFailed(kvpeer_core::LoadFailure),
}

/// A note, and the request that was being worked for.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Noted {
    pub(crate) note: Note,
    pub(crate) request: Option<String>,
}

/// What our side did in one step.
#[derive(Default, Debug)]
pub(crate) struct Done {
    pub(crate) items: Items,
    pub(crate) notes: Vec<Noted>,
}

const CONN: ConnId = ConnId(1);
const PEER: &str = "p:1";

pub(crate) struct Replay {
    endpoint: Endpoint,
    dialect: Dialect,
    now: Time,
    effects: Effects,
    metadata: Vec<u8>,
    connection: Connection,
    epoch: Option<Epoch>,
    registration: Registration,
    inbox: Vec<Vec<u8>>,
    /// Facts that vLLM sees at its next poll.
    late: VecDeque<Late>,
    posts: Posts,
    probes: BTreeMap<ProbeId, Probing>,
    /// By what they copy: vLLM's numbers of WRITEs, and ours.
    vllm_writes: BTreeMap<u64, Vec<Item>>,
    our_writes: BTreeMap<XferId, Vec<Item>>,
    /// Blocks whose WRITE has ended at vLLM, and whether well.
    ended: Vec<(Item, bool)>,
    probed: Vec<String>,
    /// Requests with keys that were looked up and not flushed.
    unflushed: Vec<String>,
    fetches: Rounds,
    request: Option<String>,
    /// The type of the message that is being heard.
    hearing: &'static str,
    /// Whether it is of a fetch that both sides have made.
    known_round: bool,
    spare_pin: u64,
    /// The request of each job.
    pub(crate) jobs: BTreeMap<u64, String>,
    /// How many results each job that the core took has got.
    results: BTreeMap<u64, usize>,
    pub(crate) done: Done,
}

#[derive(PartialEq)]
enum Connection {
    /// Nobody is there yet; the core may have asked for it already.
    None,
    Up,
    Broken,
    Gone,
}

enum Registration {
    Answered(bool),
    Manual,
    Asked,
}

#[derive(PartialEq)]
enum Posts {
    Taken,
    Refused,
}

enum Late {
    Registered(bool),
    Transfer(XferId, bool),
    Fault,
    Killed,
}

struct Probing {
    request: String,
    keys: Vec<Vec<u8>>,
    open: Vec<KeyAt>,
}

/// Rounds of fetches: vLLM's and ours, matched by what they fetch.
#[derive(Default)]
struct Rounds {
    vllm: Vec<(Item, u64)>,
    ours: Vec<(Item, u64)>,
    known: BTreeMap<(String, u64), u64>,
}

impl Rounds {
    fn meet(&mut self) {
        while let Some((at, which)) =
            self.vllm.iter().enumerate().find_map(|(at, (item, _))| {
                Some((at, self.ours.iter().position(|(other, _)| other == item)?))
            })
        {
            let (item, vllm) = self.vllm.remove(at);
            let (_, ours) = self.ours.remove(which);
            if let Item::Sent { request, .. } = item {
                self.known.insert((request, vllm), ours);
            }
        }
    }
}

impl Replay {
    pub(crate) fn new(op: &Value) -> Self {
        let name = |name: &str| PeerId::from(PeerName::new(name).unwrap());
        let region = RegionInfo { base_addr: 0x10000, num_blocks: 64, block_len: 4096 };
        let identity = Identity { peer_id: name("l:1"), incarnation: 7, loopback: false };
        let compat = Compatibility { hash_seed: "seed".into(), ..Compatibility::default() };
        let terms = Terms { stop_word: StopWord::Taken, ..Terms::default() };
        let mut replay = Self {
            endpoint: Endpoint::new(Config::new(identity, region, compat)).unwrap(),
            dialect: Dialect::new(name(PEER), 1, Limits::DEFAULT, terms),
            now: Time::from_micros(1_000_000_000),
            effects: Effects::default(),
            metadata: b"md".to_vec(),
            connection: Connection::None,
            epoch: None,
            registration: match op["registration"].as_str() {
                Some("ok") => Registration::Answered(true),
                Some("fail" | "raise") => Registration::Answered(false),
                _ => Registration::Manual,
            },
            inbox: Vec::new(),
            late: VecDeque::new(),
            posts: Posts::Taken,
            probes: BTreeMap::new(),
            vllm_writes: BTreeMap::new(),
            our_writes: BTreeMap::new(),
            ended: Vec::new(),
            probed: Vec::new(),
            unflushed: Vec::new(),
            fetches: Rounds::default(),
            request: None,
            hearing: "",
            known_round: false,
            spare_pin: 2_000_000,
            jobs: BTreeMap::new(),
            results: BTreeMap::new(),
            done: Done::default(),
        };
        if op["connected"] == json!(true) {
            replay.connect();
        }
        replay
    }

    /// Does what vLLM was made to do.
    pub(crate) fn step(&mut self, step: &Step) {
        for (tid, write) in step.writes() {
            self.vllm_writes.insert(tid, write);
        }
        for msg in step.result["sent"].as_array().unwrap() {
            if msg["type"] == "fetch" && msg["keys"] != json!([]) {
                self.fetches.vllm.push((Item::sent(msg).remove(0), msg["round_seq"].as_u64().unwrap()));
            }
        }
        let op = &step.op;
        self.request = op["kv_request_id"].as_str().map(str::to_owned);
        match step.name() {
            "attach" if self.connection == Connection::None => self.connect(),
            "recv" => {
                let payload = pack(&op["msg"]);
                self.inbox.push(payload);
            }
            "request_blocks" => self.load(op),
            "add_stored_blocks" => self.store(op),
            "finish_request" => {
                let request = name(op);
                self.note(Note::Finish);
                let _ = self.command(Command::Finish { request, role: Role::Both });
                self.probed.retain(|probed| probed != request.as_str());
            }
            "register_lookup" => self.look_up(op),
            "flush_lookups" => {
                self.unflushed.clear();
                let _ = self.command(Command::FlushLookups);
            }
            "serve" => self.serve(op, step.pins()),
            "complete" => self.complete(op, &step.result),
            "registration" => {
                if let Registration::Asked = self.registration {
                    self.late.push_back(Late::Registered(op["ok"] != json!(false)));
                }
            }
            "advance" => {
                let span = Duration::from_secs_f64(op["seconds"].as_f64().unwrap());
                self.now = self.now + span;
            }
            "set" => self.set(op),
            "kill" => self.late.push_back(Late::Killed),
            "poll" => self.poll(),
            "close" => {
                let peer = PeerName::new(PEER).unwrap();
                let _ = self.command(Command::ClosePeer { peer });
                self.pump();
                // vLLM's session is over at once: nobody answers any more.
                self.connection = Connection::Gone;
                self.tell(Input::Disconnected { conn: CONN });
            }
            _ => {}
        }
        self.pump();
        self.fetches.meet();
    }

    /// Everything ends: every job has its result after this.
    pub(crate) fn end(&mut self) {
        self.request = None;
        let _ = self.command(Command::Shutdown { within: Duration::ZERO });
        self.pump();
        for _ in 0..100 {
            let Some(deadline) = self.endpoint.next_deadline() else { break };
            self.now = self.now.max(deadline.at);
            self.endpoint.handle(self.now, Input::Tick, &mut self.effects);
            self.pump();
        }
    }

    /// How many results each job has got that the core took.
    pub(crate) fn results(&self) -> &BTreeMap<u64, usize> {
        &self.results
    }

    fn connect(&mut self) {
        let peer = PeerName::new(PEER).unwrap();
        let _ = self.command(Command::Connect { peer, address: PEER });
        if let Some(epoch) = self.epoch {
            self.connection = Connection::Up;
            self.tell(Input::Connected { conn: CONN, origin: Origin::Dialed(epoch) });
        }
        self.pump();
    }

    fn load(&mut self, op: &Value) {
        let (request, keys, blocks) = (name(op), keys(op), numbers(&op["block_ids"]));
        let probed = self.probed.iter().any(|probed| probed == request.as_str());
        let supply = if probed { Supply::Pinned } else { Supply::Await };
        self.open(request, supply);
        if blocks.is_empty() {
            self.note(Note::EmptyLoad);
        }
        if self.unflushed.iter().any(|unflushed| unflushed == request.as_str()) {
            self.note(Note::FetchForgets);
        }
        let job = self.job(op);
        let load = Command::Load { job, request, keys: keys.as_keys(), blocks: &blocks };
        if self.command(load).is_ok() {
            self.results.entry(job.0).or_default();
        }
    }

    fn job(&mut self, op: &Value) -> JobId {
        let job = op["job_id"].as_u64().unwrap();
        self.jobs.insert(job, op["kv_request_id"].as_str().unwrap().to_owned());
        JobId(job)
    }

    fn open(&mut self, request: RequestName<'_>, supply: Supply) {
        let source = PeerName::new(PEER).unwrap();
        let _ =
            self.command(Command::Open { request, part: Part::Consume { source, address: PEER, supply } });
    }

    fn store(&mut self, op: &Value) {
        let (keys, blocks) = (keys(op), numbers(&op["block_ids"]));
        let job = self.job(op);
        let request = name(op);
        let store = Command::Store { job, request, keys: keys.as_keys(), blocks: &blocks, consumer: None };
        if self.command(store).is_ok() {
            self.results.entry(job.0).or_default();
        }
    }

    fn look_up(&mut self, op: &Value) {
        let (request, key) = (name(op), unpack_bytes(&op["key"]));
        self.open(request, Supply::Pinned);
        if !self.probed.iter().any(|probed| probed == request.as_str()) {
            self.probed.push(request.as_str().to_owned());
        }
        let held = match self.endpoint.lookup(self.now, request, Key::new(&key).unwrap()) {
            LookupState::Hit => Some(true),
            LookupState::Miss => Some(false),
            LookupState::Pending => None,
        };
        if held.is_none() {
            self.unflushed.push(request.as_str().to_owned());
        }
        self.done.items.push(Item::Answer { request: request.as_str().to_owned(), key, held });
    }

    fn serve(&mut self, op: &Value, mut pins: Vec<(Vec<Vec<u8>>, u64)>) {
        for (probe, asked) in std::mem::take(&mut self.probes) {
            let answer = |at: &KeyAt| {
                let hex: String =
                    asked.keys[at.0 as usize].iter().map(|byte| format!("{byte:02x}")).collect();
                op["answers"].get(&hex).cloned().unwrap_or_else(|| json!("MISS"))
            };
            let hits: Vec<(KeyAt, u32)> =
                asked.open.iter().filter_map(|at| Some((*at, answer(at).as_u64()? as u32))).collect();
            let misses: Vec<KeyAt> =
                asked.open.iter().copied().filter(|at| answer(at) == json!("MISS")).collect();
            let hit_keys: Vec<Vec<u8>> =
                hits.iter().map(|(at, _)| asked.keys[at.0 as usize].clone()).collect();
            let pin = (!hits.is_empty()).then(|| match pins.iter().position(|(keys, _)| *keys == hit_keys) {
                Some(at) => JobId(pins.remove(at).1),
                None => {
                    self.spare_pin += 1;
                    JobId(self.spare_pin)
                }
            });
            let answered = |at: &KeyAt| hits.iter().any(|(hit, _)| hit == at) || misses.contains(at);
            let open: Vec<KeyAt> = asked.open.iter().copied().filter(|at| !answered(at)).collect();
            if !open.is_empty() {
                let (request, keys) = (asked.request.clone(), asked.keys.clone());
                self.probes.insert(probe, Probing { request, keys, open });
            }
            if let Some(JobId(pin)) = pin {
                self.results.entry(pin).or_default();
                self.jobs.insert(pin, asked.request.clone());
            }
            self.request = Some(asked.request.clone());
            if self.probes.contains_key(&probe) {
                self.note(Note::StillOpen);
            }
            let probed = Input::Probed { probe, pin, hits: &hits, misses: &misses };
            self.endpoint.handle(self.now, probed, &mut self.effects);
            self.pump();
        }
        self.tick();
    }

    fn complete(&mut self, op: &Value, result: &Value) {
        if result["ret"] != json!(true) {
            return;
        }
        let tid = op["tid"].as_u64().unwrap();
        let Some(blocks) = self.vllm_writes.get(&tid) else { return };
        let ok = op["ok"] != json!(false);
        self.ended.extend(blocks.iter().map(|block| (block.clone(), ok)));
        // A WRITE of ours is over when all of its blocks are: the core may have cut them otherwise.
        let ends = |blocks: &[Item]| {
            let ends: Option<Vec<bool>> = blocks
                .iter()
                .map(|block| Some(self.ended.iter().find(|(ended, _)| ended == block)?.1))
                .collect();
            Some(ends?.into_iter().all(|ok| ok))
        };
        let over: Vec<(XferId, bool)> =
            self.our_writes.iter().filter_map(|(xfer, blocks)| Some((*xfer, ends(blocks)?))).collect();
        for (xfer, ok) in over {
            if let Some(blocks) = self.our_writes.remove(&xfer) {
                self.ended.retain(|(ended, _)| !blocks.contains(ended));
            }
            self.late.push_back(Late::Transfer(xfer, ok));
        }
    }

    fn set(&mut self, op: &Value) {
        match op["write_ok"].as_bool() {
            Some(true) => self.posts = Posts::Taken,
            Some(false) => self.posts = Posts::Refused,
            None => {}
        }
        if op["fault"].is_string() {
            self.late.push_back(Late::Fault);
        }
        if op["send_ok"] == json!(false) && self.connection == Connection::Up {
            self.connection = Connection::Broken;
        }
        if op["send_ok"] == json!(true) && self.connection == Connection::Broken {
            self.connection = Connection::Up;
        }
        match op["reg_mode"].as_str() {
            Some("ok") => self.registration = Registration::Answered(true),
            Some("fail" | "raise") => self.registration = Registration::Answered(false),
            Some(_) => self.registration = Registration::Manual,
            None => {}
        }
    }

    /// Messages, then what else has happened, then the time: deadlines see everything that had arrived.
    fn poll(&mut self) {
        if self.connection == Connection::None {
            self.tick();
            return;
        }
        for payload in std::mem::take(&mut self.inbox) {
            self.hear(&payload);
        }
        for late in std::mem::take(&mut self.late) {
            self.request = None;
            let Some(epoch) = self.epoch else { continue };
            let input = match late {
                Late::Registered(ok) => Input::Registered { epoch, ok },
                Late::Transfer(xfer, true) => Input::Transfer { xfer, end: TransferEnd::Done },
                Late::Transfer(xfer, false) => Input::Transfer { xfer, end: TransferEnd::Errored },
                Late::Fault => Input::PeerFault { epoch },
                Late::Killed => {
                    self.connection = Connection::Gone;
                    Input::Disconnected { conn: CONN }
                }
            };
            self.endpoint.handle(self.now, input, &mut self.effects);
            self.pump();
        }
        self.tick();
    }

    fn tick(&mut self) {
        self.request = None;
        // ZeroMQ says that the connection lives.
        if self.connection == Connection::Up {
            self.endpoint.handle(self.now, Input::Heard { conn: CONN }, &mut self.effects);
        }
        let before = self.done.items.0.len();
        while self.endpoint.next_deadline().is_some_and(|deadline| deadline.at <= self.now) {
            self.endpoint.handle(self.now, Input::Tick, &mut self.effects);
            self.pump();
        }
        for item in self.done.items.0.split_off(before) {
            if let Item::Told { request, .. } = &item {
                self.request = Some(request.clone());
                self.note(Note::ProbeDeadline);
            }
            self.done.items.push(item);
        }
    }

    /// A recorded payload, its round as we have numbered it.
    fn hear(&mut self, recorded: &[u8]) {
        let renumbered = self.renumber(recorded);
        let renumbered_known = self.known_round;
        let payload = renumbered.as_deref().unwrap_or(recorded);
        let mut frames = Vec::new();
        let heard = self.dialect.hear(payload, &mut |msg| {
            let mut frame = Vec::new();
            msg.encode(&mut frame).unwrap();
            frames.push(frame);
        });
        match heard {
            Ok(Heard::Told) => {}
            Ok(Heard::Held) => self.note(Note::Held),
            Ok(Heard::Ignored(Ignored::UnknownRound)) if self.hearing == "abort_ack" && renumbered_known => {
                self.note(Note::StrayAck);
            }
            Ok(Heard::Ignored(why)) => self.note(Note::Ignored(why)),
            Err(violation) => {
                self.note(Note::Violation(violation));
                let detail = violation.to_string();
                let malformed = Input::Malformed { conn: CONN, detail: &detail };
                self.endpoint.handle(self.now, malformed, &mut self.effects);
                self.pump();
            }
        }
        for frame in frames {
            self.message(&frame);
        }
    }

    fn renumber(&mut self, recorded: &[u8]) -> Option<Vec<u8>> {
        let Ok(wire::Decoded::Message(message)) = Message::decode(recorded, &Limits::DEFAULT) else {
            self.request = None;
            self.hearing = "malformed";
            return None;
        };
        self.hearing = message.kind();
        let (request, round) = match message {
            Message::TransferDone(done) => (done.kv_request_id, Some(done.round_seq)),
            Message::AbortAck(ack) => (ack.kv_request_id, Some(ack.round_seq)),
            Message::Fetch(fetch) => (fetch.kv_request_id, None),
            Message::Lookup(lookup) => (lookup.kv_request_id, None),
            Message::LookupResp(resp) => (resp.kv_request_id, None),
            Message::AbortFetch(abort) => (abort.kv_request_id, None),
            Message::Connect(_) | Message::ConnectAck(_) | Message::Disconnect => {
                self.request = None;
                return None;
            }
        };
        self.request = Some(request.as_str().to_owned());
        let known = self.fetches.known.get(&(request.as_str().to_owned(), round?.0)).copied();
        self.known_round = known.is_some();
        // A round that vLLM never had is one that we never had.
        let round_seq = wire::RoundSeq(known.unwrap_or(1 << 40));
        let renumbered = if let Message::TransferDone(done) = message {
            Message::TransferDone(wire::TransferDone { round_seq, ..done })
        } else {
            Message::AbortAck(wire::AbortAck { kv_request_id: request, round_seq })
        };
        let mut payload = Vec::new();
        renumbered.encode(&mut payload);
        Some(payload)
    }

    fn message(&mut self, frame: &[u8]) {
        let Ok(Decoded::Msg(msg)) = Msg::decode(frame[4], &frame[5..], &Limits::DEFAULT) else {
            panic!("ours")
        };
        if let Msg::Fetch(fetch) = &msg {
            self.note(Note::Fetch(fetch.supply));
        }
        let told = |done: &Done| done.items.0.iter().filter(|item| matches!(item, Item::Told { .. })).count();
        let before = told(&self.done);
        self.endpoint.handle(self.now, Input::Message { conn: CONN, msg }, &mut self.effects);
        self.pump();
        if matches!(msg, Msg::Lookup(_)) && told(&self.done) > before {
            self.note(Note::AnsweredAtOnce);
        }
    }

    fn command(&mut self, command: Command<'_>) -> Result<(), Misuse> {
        let result = self.endpoint.command(self.now, command, &mut self.effects);
        if let Err(misuse) = result {
            self.note(Note::Misuse(misuse));
        }
        self.pump();
        result
    }

    fn note(&mut self, note: Note) {
        self.done.notes.push(Noted { note, request: self.request.clone() });
    }

    /// Carries out what the core wants, until it wants nothing more.
    fn pump(&mut self) {
        self.endpoint.check().unwrap();
        while let Some(effect) = self.effects.0.pop_front() {
            match effect {
                // Answered when vLLM's session has its connection. It has one; another one never comes.
                Effect::Dial(epoch) if self.connection == Connection::None => self.epoch = Some(epoch),
                Effect::Dial(_) => {}
                Effect::Send(frame) => self.send(&frame),
                Effect::Close => self.connection = Connection::Gone,
                Effect::Admit(epoch) => self.tell(Input::Admitted { epoch, admit: true }),
                Effect::OpenRight(epoch) => {
                    let metadata = self.metadata.clone();
                    self.tell(Input::RightOpened { epoch, metadata: Some(&metadata) });
                }
                Effect::Register(epoch) => {
                    self.done.items.push(Item::Register);
                    match self.registration {
                        Registration::Answered(ok) => self.tell(Input::Registered { epoch, ok }),
                        Registration::Manual | Registration::Asked => {
                            self.registration = Registration::Asked;
                        }
                    }
                }
                Effect::CloseRight(epoch) => {
                    for (xfer, _) in std::mem::take(&mut self.our_writes) {
                        self.tell(Input::Transfer { xfer, end: TransferEnd::Fenced });
                    }
                    self.tell(Input::RightClosed { epoch, fenced: true });
                }
                Effect::Write { xfer, src, dst } => {
                    let write = Item::write(&src, &dst);
                    self.done.items.extend(write.clone());
                    if self.posts == Posts::Taken {
                        self.our_writes.insert(xfer, write);
                    } else {
                        self.tell(Input::Transfer { xfer, end: TransferEnd::NotPosted });
                    }
                }
                Effect::Cancel => {}
                Effect::Probe { probe, request, keys, open } => {
                    self.probes.insert(probe, Probing { request, keys, open });
                }
                Effect::EndProbe(probe) => drop(self.probes.remove(&probe)),
                Effect::Loaded { job, ok, why } => {
                    *self.results.entry(job).or_default() += 1;
                    self.done.items.push(Item::Load { job, ok });
                    if let Some(why) = why {
                        self.note(Note::LoadFailed(why));
                    }
                }
                Effect::Stored { job, outcome } => {
                    *self.results.entry(job).or_default() += 1;
                    self.note(Note::Outcome(outcome));
                    self.done.items.push(Item::Store { job, ok: outcome == StoreOutcome::Delivered });
                }
                Effect::Down(reason) => self.note(Note::Down(reason)),
                Effect::Counted(Count::Misbehaved) => self.note(Note::Broke(self.hearing)),
                Effect::Counted(Count::UnknownRound) if self.hearing == "abort_fetch" => {
                    self.note(Note::AbortOfNothing);
                }
                Effect::Counted(count) => self.note(Note::Counted(count)),
            }
        }
    }

    fn tell(&mut self, input: Input<'_>) {
        self.endpoint.handle(self.now, input, &mut self.effects);
    }

    fn send(&mut self, frame: &[u8]) {
        if self.connection == Connection::Broken {
            self.connection = Connection::Gone;
            return self.tell(Input::Disconnected { conn: CONN });
        }
        let Ok(Decoded::Msg(msg)) = Msg::decode(frame[4], &frame[5..], &Limits::DEFAULT) else {
            panic!("ours")
        };
        let mut payload = Vec::new();
        let answer = match self.dialect.say(&msg, &mut payload) {
            Said::Payload | Said::Nothing => None,
            Said::PayloadAnd(answer) => Some(answer),
            Said::Instead(answer) => {
                self.note(Note::Refused);
                Some(answer)
            }
        };
        if let Ok(wire::Decoded::Message(message)) = Message::decode(&payload, &Limits::DEFAULT) {
            self.sent(&message);
        }
        if let Some(answer) = answer {
            self.answer(&answer);
        }
    }

    fn answer(&mut self, answer: &Answer) {
        self.tell(Input::Message { conn: CONN, msg: answer.as_msg() });
    }

    fn sent(&mut self, message: &Message<'_>) {
        let value = crate::common::as_json(message);
        let items = Item::sent(&value);
        if let (Message::Fetch(fetch), false) = (message, value["keys"] == json!([])) {
            self.fetches.ours.push((items[0].clone(), fetch.round_seq.0));
        }
        self.done.items.extend(items);
    }
}

fn name(op: &Value) -> RequestName<'_> {
    RequestName::new(op["kv_request_id"].as_str().unwrap()).unwrap()
}

fn keys(op: &Value) -> KeysBuf {
    let keys = op["keys"].as_array().unwrap().iter().map(unpack_bytes);
    keys.fold(KeysBuf::new(), |mut all, key| {
        all.push(Key::new(&key).unwrap());
        all
    })
}
