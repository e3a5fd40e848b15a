//! What rights, WRITEs, caches and engines do when a step concerns them.

use kvpeer_core::{
    BlockIdx, Command, Epoch, Input, JobId, KeyAt, LookupState, Part, ProbeId, TransferEnd, XferId,
};
use kvpeer_wire::Key;

use crate::control::EndState;
use crate::effects::Effects;
use crate::judge::{Cause, Promise};
use crate::names::{RightKey, Who, WriteKey, keys_buf, request_id};
use crate::node::{Cell, Load, LoadState, Probe, Purpose, RightState, Target};
use crate::observe::Before;
use crate::rma::{Write, WriteState};
use crate::seen::{Log, Seen};
use crate::setup::{Ask, Choice};
use crate::step::ProbeAnswer;
use crate::wish::Wish;
use crate::world::World;

impl World {
    pub(crate) fn ask(&mut self, who: Who, epoch: Epoch, ask: Ask) {
        let known = match self.edit(who).rights.get_mut(&epoch) {
            Some(right) => right.asked.insert(ask),
            None => false,
        };
        if !known {
            self.blame(who, Promise::Law, format!("{who} asks for {ask:?} of epoch {} in vain", epoch.0));
        }
    }

    pub(crate) fn register(&mut self, who: Who, epoch: Epoch, num_blocks: u32, metadata: &[u8]) {
        let right = std::str::from_utf8(metadata).ok().and_then(|text| text.parse::<RightKey>().ok());
        let Some(right) = right else {
            return self.fail(Promise::Law, format!("{who} registers a peer with other metadata"));
        };
        if let Some(found) = self.edit(who).rights.get_mut(&epoch) {
            found.target = Some(Target { right, num_blocks, registered: false });
        }
        self.ask(who, epoch, Ask::Register);
    }

    pub(crate) fn close_right(&mut self, who: Who, epoch: Epoch) {
        let stale = self.setup.choices.contains(&Choice::StaleAnswers);
        let Some(right) = self.edit(who).rights.get_mut(&epoch) else {
            return self.blame(who, Promise::Law, format!("{who} closes right {}, which is none", epoch.0));
        };
        if !stale {
            // The plane and the embedder drop what nobody waits for.
            right.asked.clear();
        }
        right.asked.insert(Ask::Close);
    }

    pub(crate) fn answer(&mut self, key: RightKey, ask: Ask, ok: bool, log: &mut Log) {
        let who = key.owner.who;
        let epoch = key.epoch;
        let Some(right) = self.edit(who).rights.get_mut(&epoch) else { return };
        right.asked.remove(&ask);
        right.late.remove(&ask);
        match ask {
            Ask::Admit => {
                self.handle(who, Input::Admitted { epoch, admit: ok }, log);
            }
            Ask::Open => {
                let metadata = key.to_string();
                if ok {
                    right.state = RightState::Open;
                }
                let metadata = ok.then_some(metadata.as_bytes());
                self.handle(who, Input::RightOpened { epoch, metadata }, log);
            }
            Ask::Register => {
                if let Some(target) = &mut right.target {
                    target.registered = ok;
                }
                self.handle(who, Input::Registered { epoch, ok }, log);
            }
            Ask::Close => self.closed(key, ok, log),
            Ask::Probe | Ask::Accept => {}
        }
    }

    /// The endpoint of a right is closed; whether that proves anything is another matter.
    fn closed(&mut self, key: RightKey, fenced: bool, log: &mut Log) {
        let (who, epoch) = (key.owner.who, key.epoch);
        log.see(Seen::Closed(fenced));
        let mine = |write: &WriteKey| write.writer == key.owner && write.xfer.epoch == epoch;
        let out: Vec<WriteKey> = self
            .writes
            .iter()
            .filter(|(write, state)| mine(write) && state.is_outstanding())
            .map(|(write, _)| *write)
            .collect();
        for write in &out {
            log.see(Seen::Transfer(TransferEnd::Fenced));
            self.handle(who, Input::Transfer { xfer: write.xfer, end: TransferEnd::Fenced }, log);
        }
        for write in out {
            if let Some(write) = self.writes.get_mut(&write) {
                write.edit().state = if fenced { WriteState::Loose } else { WriteState::Held };
            }
        }
        if let Some(right) = self.edit(who).rights.get_mut(&epoch) {
            right.asked.remove(&Ask::Open);
            right.state = RightState::Closed { fenced };
        }
        self.handle(who, Input::RightClosed { epoch, fenced }, log);
    }

    pub(crate) fn answer_probe(&mut self, who: Who, id: ProbeId, answer: ProbeAnswer, log: &mut Log) {
        let right = self.node(who).rights.get(&id.epoch).map(|right| (right.conn, right.side));
        let conn = right.and_then(|(conn, side)| Some((self.conns.get(&conn)?, side)));
        let peer = conn.map(|(conn, side)| conn.process(side.other()).who);
        let node = self.edit(who);
        let Some(Probe { keys, open, over }) = node.probes.remove(&id) else { return };
        let answered = match answer {
            ProbeAnswer::All => open.len(),
            ProbeAnswer::First => 1,
            ProbeAnswer::None => 0,
        };
        let (mut hits, mut misses, mut pinned) = (Vec::new(), Vec::new(), Vec::new());
        for at in open.into_iter().take(answered) {
            let key = keys.get(at as usize).copied().unwrap_or_default();
            match node.cache.get(&key) {
                Some(block) => {
                    hits.push((KeyAt(at), *block));
                    pinned.push(key);
                }
                None => misses.push(KeyAt(at)),
            }
        }
        let pin = (!hits.is_empty()).then(|| {
            let job = JobId(node.next_pin);
            node.next_pin += 1;
            let blocks = hits.iter().map(|(_, block)| *block).collect();
            node.book.store(job, Purpose::Lookup(peer), pinned, blocks);
            job
        });
        self.handle(who, Input::Probed { probe: id, pin, hits: &hits, misses: &misses }, log);
        if let Some(job) = pin.filter(|_| over)
            && self.node(who).book.stores.contains_key(&job)
        {
            self.blame(who, Promise::OneResult, format!("a late pin, {}, gets no result", job.0));
        }
    }

    pub(crate) fn post(
        &mut self,
        who: Who,
        xfer: XferId,
        src: Vec<BlockIdx>,
        dst: Vec<BlockIdx>,
        log: &mut Log,
    ) {
        log.say(|| format!("{:>13}{who} writes {src:?} to {dst:?}", ""));
        let posted = if self.is_rogue(who) {
            self.rogue_write(who, xfer, src, dst)
        } else {
            self.judge_post(who, xfer, src, dst)
        };
        match posted {
            Ok(write) => {
                let key = WriteKey { writer: self.node(who).process, xfer };
                self.writes.insert(key, crate::shared::Shared::new(write));
            }
            Err((promise, how)) => self.blame(who, promise, format!("{who} {how}")),
        }
    }

    pub(crate) fn land(&mut self, key: WriteKey, at: usize) {
        let Some(write) = self.writes.get(&key) else { return };
        let (block, content, target) = (write.dst[at], write.keys[at], write.target.owner.who);
        let reads = write.reads() && !write.absolved[at];
        if reads && self.node(key.writer.who).book.pins(write.src[at]) == 0 {
            self.blame(key.writer.who, Promise::Pin, format!("{key} reads a block that nothing pins"));
        }
        let Some(write) = self.writes.get(&key) else { return };
        let holder = self.node(target).book.holder(block);
        if holder.is_none() || holder != write.loads[at] {
            if self.is_rogue(key.writer.who) || self.is_rogue(target) {
                // A rogue lies about its WRITEs, and about its memory: what comes of it is nobody else's fault.
                return self.landed(key, at);
            }
            let owner = write.loads[at];
            let how =
                format!("{key} for {owner:?} lands in block {block} of {target}, which {holder:?} holds");
            self.fail(Promise::NoLateWrite, how);
        }
        self.landed(key, at);
        if let Some(cell) = self.edit(target).cells.get_mut(block as usize) {
            *cell = Cell::Of(content);
        }
    }

    fn landed(&mut self, key: WriteKey, at: usize) {
        if let Some(write) = self.writes.get_mut(&key) {
            write.edit().landed[at] = true;
        }
    }

    pub(crate) fn complete(&mut self, key: WriteKey, end: TransferEnd, log: &mut Log) {
        log.see(Seen::Transfer(end));
        let blocks = self.writes.get(&key).map_or(0, |write| write.dst.len());
        match end {
            TransferEnd::Done => {
                for at in 0..blocks {
                    if self.writes.get(&key).is_some_and(|write| !write.landed[at]) {
                        self.land(key, at);
                    }
                }
                self.writes.remove(&key);
            }
            TransferEnd::NotPosted => {
                self.writes.remove(&key);
            }
            TransferEnd::Errored | TransferEnd::Fenced => {
                log.see(Seen::Loose);
                self.errored(key);
            }
        }
        self.handle(key.writer.who, Input::Transfer { xfer: key.xfer, end }, log);
    }

    fn errored(&mut self, key: WriteKey) {
        let Some(write) = self.writes.get_mut(&key) else { return };
        write.edit().state = WriteState::Loose;
        let (conn, side, round) = (write.conn, write.side, write.round);
        self.edit_conn(conn, |conn| conn.end_mut(side.other()).talk.errored(round));
        if let Some(right) = self.edit(key.writer.who).rights.get_mut(&key.xfer.epoch) {
            right.errored = true;
        }
    }

    pub(crate) fn wish(&mut self, who: Who, wish: &Wish, log: &mut Log) {
        match wish {
            Wish::Consume { request, source, supply } => {
                let source_of = *source;
                let (source, address) = (source.peer(), source.to_string());
                let part = Part::Consume { source: source.as_name(), address: &address, supply: *supply };
                let name = request_id(*request);
                let open = Command::Open { request: name.as_name(), part };
                if self.command(who, open, log) {
                    let known = &mut self.edit(who).book.known;
                    known.sources.entry(*request).or_insert(source_of);
                }
            }
            Wish::Produce { request, consumer } => {
                let consumer = consumer.map(Who::peer);
                let part = Part::Produce { consumer: consumer.as_ref().map(|peer| peer.as_name()) };
                self.command(who, Command::Open { request: request_id(*request).as_name(), part }, log);
            }
            Wish::Ask { request, keys } => {
                for key in keys {
                    self.look_up(who, *request, *key, log);
                }
                self.command(who, Command::FlushLookups, log);
            }
            Wish::Load { job, request, keys, blocks } => self.load(who, *job, *request, keys, blocks, log),
            Wish::LoadHits { job, request, keys, blocks } => {
                let hits = keys
                    .iter()
                    .zip(blocks)
                    .filter(|(key, _)| self.look_up(who, *request, **key, log) == LookupState::Hit);
                let (keys, blocks): (Vec<u8>, Vec<BlockIdx>) = hits.unzip();
                if !keys.is_empty() {
                    self.load(who, *job, *request, &keys, &blocks, log);
                }
            }
            Wish::Store { job, request, keys, blocks, consumer } => {
                let book = self.node(who).book.clone();
                if blocks.iter().any(|block| book.pins(*block) > 0 || book.holder(*block).is_some()) {
                    return;
                }
                let purpose = Purpose::Request(*request);
                self.edit(who).book.store(*job, purpose, keys.clone(), blocks.clone());
                for (key, block) in keys.iter().zip(blocks) {
                    self.set_cell(who, *block, Cell::Of(*key));
                }
                let (name, consumer, run) = (request_id(*request), consumer.map(Who::peer), keys_buf(keys));
                let command = Command::Store {
                    job: *job,
                    request: name.as_name(),
                    keys: run.as_keys(),
                    blocks,
                    consumer: consumer.as_ref().map(|peer| peer.as_name()),
                };
                if !self.command(who, command, log) {
                    self.edit(who).book = book;
                }
            }
            Wish::Finish { request, role } => {
                if *role != kvpeer_core::Role::Producer {
                    self.forget_answers(who, *request);
                    let book = &mut self.edit(who).book;
                    book.known.sources.remove(request);
                    book.failed.remove(request);
                    let loads = book.loads.values_mut();
                    loads.filter(|load| load.request == *request).for_each(|load| load.unwanted = true);
                }
                let name = request_id(*request);
                self.command(who, Command::Finish { request: name.as_name(), role: *role }, log);
                if *role != kvpeer_core::Role::Consumer {
                    self.judge_finished(who, *request);
                }
            }
            Wish::Abort { job } => {
                if let Some(load) = self.edit(who).book.loads.get_mut(job) {
                    load.unwanted = true;
                }
                self.command(who, Command::Abort { job: *job }, log);
            }
            Wish::Withdraw { job } => {
                self.command(who, Command::Withdraw { job: *job }, log);
            }
            Wish::Release { job } => self.release(who, *job, log),
            Wish::Connect { peer } => {
                let (peer, address) = (peer.peer(), peer.to_string());
                self.command(who, Command::Connect { peer: peer.as_name(), address: &address }, log);
            }
            Wish::Close { peer } => {
                self.disturbed = true;
                if self.command(who, Command::ClosePeer { peer: peer.peer().as_name() }, log) {
                    self.closing(who, |other| other == *peer);
                }
            }
            Wish::Shutdown { within } => {
                self.disturbed = true;
                let within = std::time::Duration::from_secs(*within);
                if self.command(who, Command::Shutdown { within }, log) {
                    self.closing(who, |_| true);
                }
            }
        }
    }

    /// The sessions with these peers end.
    fn closing(&mut self, who: Who, of: impl Fn(Who) -> bool) {
        let conns = &self.conns;
        let rights = self.nodes[usize::from(who.0)].edit().rights.values_mut();
        for right in rights {
            let conn = conns.get(&right.conn);
            let ends = conn.is_some_and(|conn| {
                of(conn.process(right.side.other()).who) && conn.end(right.side).state == EndState::Open
            });
            right.closing |= ends;
        }
    }

    fn look_up(&mut self, who: Who, request: u8, number: u8, log: &mut Log) -> LookupState {
        let now = self.now;
        let name = request_id(request);
        let Ok(key) = Key::new(std::slice::from_ref(&number)) else { return LookupState::Miss };
        let found = self.edit(who).endpoint.lookup(now, name.as_name(), key);
        self.judge_lookup(who, request, number, found);
        if found == LookupState::Hit {
            log.see(Seen::Hit);
        }
        found
    }

    fn load(&mut self, who: Who, job: JobId, request: u8, keys: &[u8], blocks: &[BlockIdx], log: &mut Log) {
        let book = self.node(who).book.clone();
        if blocks.iter().any(|block| book.pins(*block) > 0) {
            return;
        }
        let fresh = Load {
            request,
            keys: keys.to_vec(),
            blocks: blocks.to_vec(),
            state: LoadState::Asked,
            epoch: None,
            source: self.node(who).book.known.sources.get(&request).copied(),
            unwanted: false,
        };
        let free = blocks.iter().all(|block| book.holder(*block).is_none()) && !book.loads.contains_key(&job);
        if free {
            self.edit(who).book.loads.insert(job, fresh);
            blocks.iter().for_each(|block| self.set_cell(who, *block, Cell::Blank));
        }
        let (name, keys) = (request_id(request), keys_buf(keys));
        let command = Command::Load { job, request: name.as_name(), keys: keys.as_keys(), blocks };
        let accepted = self.command(who, command, log);
        if accepted && !blocks.is_empty() {
            self.forget_answers(who, request);
        }
        if accepted && !free {
            let how = format!("{who} takes load {} into blocks {blocks:?}, which another load holds", job.0);
            self.blame(who, Promise::NoLateWrite, how);
        }
        if !accepted && free {
            self.edit(who).book.loads.remove(&job);
        }
    }

    /// The engine uses its own proof; the world makes it true.
    fn release(&mut self, who: Who, job: JobId, log: &mut Log) {
        let node = self.node(who);
        let process = node.process;
        let load = node.book.loads.get(&job).map(|load| load.blocks.clone()).unwrap_or_default();
        let store = node.book.stores.get(&job).map(|store| store.blocks.clone()).unwrap_or_default();
        let lands = |write: &Write| {
            write.target.owner == process && write.dst.iter().any(|block| load.contains(block))
        };
        if self.writes.values().any(|write| lands(write) && write.reads()) || self.may_still_post(who, job) {
            // There is no such proof while a process still writes, or may.
            return;
        }
        let still_read = self.writes.iter().any(|(key, write)| {
            let reads = write.is_outstanding() && write.src.iter().any(|block| store.contains(block));
            key.writer == process && reads
        });
        if still_read {
            // Nor while the node's own plane has not even answered.
            return;
        }
        self.writes.retain(|_, write| !lands(write));
        for (key, write) in &mut self.writes {
            if key.writer == process && write.state == WriteState::Held {
                let write = write.edit();
                for (block, absolved) in write.src.iter().zip(&mut write.absolved) {
                    *absolved |= store.contains(block);
                }
                if write.absolved.iter().all(|absolved| *absolved) {
                    write.state = WriteState::Loose;
                }
            }
        }
        self.command(who, Command::ReleaseQuarantine { job }, log);
    }

    /// Whether the peer still has the connection that a load's fetch went out on.
    fn may_still_post(&self, who: Who, job: JobId) -> bool {
        let node = self.node(who);
        let right = node.book.loads.get(&job).and_then(|load| node.rights.get(&load.epoch?));
        let conn = right.and_then(|right| Some((self.conns.get(&right.conn)?, right.side)));
        conn.is_some_and(|(conn, side)| conn.end(side.other()).state != EndState::Closed)
    }

    fn set_cell(&mut self, who: Who, block: BlockIdx, content: Cell) {
        if let Some(cell) = self.edit(who).cells.get_mut(block as usize) {
            *cell = content;
        }
    }

    /// Gives a command. Says whether it was accepted; one that is refused must change nothing.
    fn command(&mut self, who: Who, command: Command<'_>, log: &mut Log) -> bool {
        let now = self.now;
        let before = self.node(who).endpoint.clone();
        let mut effects = Effects::default();
        let result = self.edit(who).endpoint.command(now, command, &mut effects);
        if let Err(misuse) = result {
            log.say(|| format!("{:>13}{who} refuses: {misuse}", ""));
            if self.node(who).endpoint != before || !effects.list.is_empty() {
                self.fail(Promise::Law, format!("{who} refuses ({misuse}) but changes"));
            }
            return false;
        }
        Before::of(&before, log).after(&self.node(who).endpoint, log);
        self.judge_call(who, Cause::Wish, &effects);
        self.carry_out(who, effects, log);
        true
    }
}
