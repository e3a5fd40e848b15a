//! Knows the promises (docs/protocol.md, I1-I9), not how an endpoint keeps them.

pub(crate) mod books;
pub(crate) mod talk;

use kvpeer_core::{ConnId, Destination, Epoch, JobId, TransferEnd, XferId};
use kvpeer_wire::Msg;

use crate::control::other;
use crate::names::{REUSED, content};
use crate::node::Registered;
use crate::rma::{Right, Target, Write};
use crate::{LoadEnd, News, Who, World, WriteId};

/// A promise that was not kept, and how.
pub(crate) type Verdict<T = ()> = Result<T, String>;

/// The round of a WRITE, and the load that each of its blocks belongs to.
type Posted = ((ConnId, String, u64), Vec<Option<JobId>>);

fn demand(holds: bool, promise: impl FnOnce() -> String) -> Verdict {
    if holds { Ok(()) } else { Err(promise()) }
}

impl World {
    #[track_caller]
    pub(crate) fn uphold<T>(&self, who: Who, verdict: Verdict<T>) -> T {
        match verdict {
            Ok(value) => value,
            Err(broken) => self.fail(&format!("{who}: {broken}")),
        }
    }

    /// A node has sent a message.
    pub(crate) fn judge_sent(&mut self, who: Who, conn: ConnId, msg: &Msg<'_>) {
        let verdict = self.may_send(conn, msg);
        self.uphold(who, verdict);
        if let Some(end) = self.wires.end_mut(conn) {
            end.said_goodbye |= matches!(msg, Msg::Disconnect(_) | Msg::Reject(_));
            end.said_ack |= matches!(msg, Msg::ConnectAck(_));
        }
        let asked = self.talks.entry(conn).or_default().asked(msg);
        let answered = self.talks.entry(other(conn)).or_default().answered(msg);
        self.uphold(who, asked.and(answered));
    }

    fn may_send(&self, conn: ConnId, msg: &Msg<'_>) -> Verdict {
        let end = self.wires.end(conn).ok_or("sends on a connection that never was")?;
        demand(!end.closed, || "sends on a connection that it has closed".into())?;
        demand(!end.said_goodbye, || "sends after its goodbye".into())?;
        let live = self.writes.iter().any(|write| write.round.0 == conn && write.end.is_none());
        // After the peer's goodbye there is nothing to wait for (END-4).
        let drains = live && !self.ticking && !end.heard_goodbye;
        let early = matches!(msg, Msg::Disconnect(_)) && drains;
        demand(!early, || "says goodbye over live WRITEs before its drain has had its time (END-2)".into())?;
        let work = matches!(msg, Msg::Lookup(_) | Msg::Fetch(_) | Msg::AbortFetch(_) | Msg::Release(_));
        demand(!work || end.said_ack && end.heard_ack, || "sends work before both acks are through".into())
    }

    /// A message reaches the end `at`; it came from the end `from`.
    pub(crate) fn judge_arrived(&mut self, at: ConnId, from: ConnId, msg: &Msg<'_>) {
        if let Some(end) = self.wires.end_mut(at) {
            end.heard_goodbye |= matches!(msg, Msg::Disconnect(_) | Msg::Reject(_));
            end.heard_ack |= matches!(msg, Msg::ConnectAck(_));
        }
        self.talks.entry(from).or_default().arrived(msg);
    }

    pub(crate) fn judge_open_right(&self, who: Who, epoch: Epoch) {
        let fresh = !self.node(who).rights.contains_key(&epoch);
        self.uphold(who, demand(fresh, || format!("opens right {} twice", epoch.0)));
    }

    pub(crate) fn judge_close_right(&self, who: Who, epoch: Epoch) {
        let verdict = match self.node(who).rights.get(&epoch) {
            Some(Right::Opening | Right::Open) => Ok(()),
            Some(Right::Closing | Right::Closed { .. } | Right::Failed) | None => {
                Err(format!("closes right {}, which is not open", epoch.0))
            }
        };
        self.uphold(who, verdict);
    }

    /// A node posts a WRITE (I8, I5, I2, I1 at the moment of posting).
    pub(crate) fn judge_post(
        &mut self,
        who: Who,
        xfer: XferId,
        src: &[u32],
        dst: &[u32],
        target: Option<Target>,
    ) -> Posted {
        let conn = self.uphold(who, self.may_write(who, xfer.epoch, src, dst));
        let id = WriteId(self.writes.len());
        let posted = self.talks.entry(other(conn)).or_default().posted(id, dst);
        let (round, keys) = self.uphold(who, posted);
        for (block, key) in src.iter().zip(&keys) {
            self.uphold(
                who,
                self.holds(who, *block, key).map_err(|why| format!("I4: posts a WRITE, but {why}")),
            );
            let pinned = self.node(who).books.pins(*block) > 0;
            self.uphold(who, demand(pinned, || format!("I2: reads block {block}, which nothing pins")));
        }
        let mut loads = Vec::new();
        for block in dst {
            let target = target.filter(|target| self.lets_land(*target));
            let load = target.and_then(|target| self.node(target.who).books.holder(*block));
            let promise =
                || format!("I1: posts a WRITE to block {block} of {target:?}, which no load holds any more");
            self.uphold(who, demand(target.is_none() || load.is_some(), promise));
            loads.push(load);
        }
        ((conn, round.0, round.1), loads)
    }

    fn may_write(&self, who: Who, epoch: Epoch, src: &[u32], dst: &[u32]) -> Verdict<ConnId> {
        let node = self.node(who);
        let registration = node.registrations.get(&epoch).ok_or("I8: WRITEs before it registers the peer")?;
        demand(registration.state == Registered::Yes, || "I8: WRITEs before the peer is registered".into())?;
        demand(node.rights.get(&epoch) == Some(&Right::Open), || "I8: WRITEs without an open right".into())?;
        let conn = self.conn_of(who, epoch).ok_or("I8: WRITEs without a connection")?;
        let end = self.wires.end(conn).ok_or("I8: WRITEs without a connection")?;
        demand(!end.heard_goodbye, || "I8: WRITEs after the peer's goodbye".into())?;
        demand(!end.said_goodbye, || "I8: WRITEs after its own goodbye".into())?;
        demand(src.len() == dst.len() && !src.is_empty(), || "posts a WRITE of unequal runs".into())?;
        let inside = dst.iter().all(|block| *block < registration.region.num_blocks);
        demand(inside, || format!("I8: WRITEs outside the peer's region: {dst:?}"))?;
        let own = src.iter().all(|block| (*block as usize) < node.memory.len());
        demand(own, || format!("WRITEs from outside its own region: {src:?}"))?;
        Ok(conn)
    }

    /// A block of a WRITE is read at its source (I2).
    pub(crate) fn judge_source(&self, write: &Write, block: u32) {
        let pinned = self.node(write.writer).books.pins(block) > 0 || write.absolved;
        self.uphold(
            write.writer,
            demand(pinned, || format!("I2: block {block} is read, but nothing pins it")),
        );
    }

    /// A block of a WRITE is about to land (I1).
    pub(crate) fn judge_landing(&self, write: &Write, at: usize, target: Target) {
        let block = write.dst[at];
        let holder = self.node(target.who).books.holder(block);
        let promise = || {
            let owner = write.loads[at];
            format!("I1: a WRITE for {owner:?} lands in block {block}, which {holder:?} holds now")
        };
        self.uphold(target.who, demand(holder.is_some() && holder == write.loads[at], promise));
    }

    /// A WRITE has ended at its writer.
    pub(crate) fn judge_write_end(&mut self, id: WriteId, end: TransferEnd) {
        let conn = self.writes[id.0].round.0;
        self.talks.entry(other(conn)).or_default().write_ended(id, end);
    }

    /// The engine of a node was told something (I1, I2, I3, I4).
    pub(crate) fn judge_news(&mut self, who: Who, news: &News) {
        match news {
            News::LoadFinished { job, request, end, destination } => {
                let booked = self.node_mut(who).books.load_finished(*job, request, end, *destination);
                let load = self.uphold(who, booked);
                self.judge_content(who, &load.keys, &load.blocks, end);
                if *destination == Destination::Reusable {
                    self.judge_reuse(who, *job, &load.blocks, end);
                }
            }
            News::DestinationReleased { job } => {
                let booked = self.node_mut(who).books.released(*job);
                let blocks = self.uphold(who, booked);
                let nothing = LoadEnd::Failed { why: kvpeer_core::LoadFailure::Aborted, landed: Vec::new() };
                self.judge_reuse(who, *job, &blocks, &nothing);
            }
            News::StoreFinished { job, outcome } => {
                let arrived = self.arrived(who, *job);
                let booked = self.node_mut(who).books.store_finished(*job, *outcome, arrived);
                let blocks = self.uphold(who, booked);
                self.judge_unpin(who, *job, &blocks);
            }
            News::LookupAnswered { .. }
            | News::FetchArrived { .. }
            | News::PeerUp { .. }
            | News::PeerDown { .. }
            | News::PeerRefused { .. }
            | News::RequestFailed { .. } => {}
        }
    }

    /// How many blocks of a store reached a consumer: for good, and perhaps.
    fn arrived(&self, who: Who, job: JobId) -> (usize, usize) {
        let Some(store) = self.node(who).books.stores.get(&job) else { return (0, 0) };
        let life = self.node(who).life;
        let (mut surely, mut perhaps) = (0, 0);
        for block in &store.blocks {
            let reads =
                |write: &&Write| write.writer == who && write.life == life && write.src.contains(block);
            let done = self.writes.iter().skip(store.since).filter(reads);
            let done = done.filter(|write| write.end == Some(TransferEnd::Done));
            let reached: Vec<(bool, bool)> = done
                .filter_map(|write| {
                    Some(self.talks.get(&other(write.round.0))?.reached(&write.round.1, write.round.2))
                })
                .collect();
            surely += usize::from(reached.iter().any(|(ok, _)| *ok));
            perhaps += usize::from(reached.iter().any(|(_, kept)| *kept));
        }
        (surely, perhaps)
    }

    /// What is said to be there is there.
    fn judge_content(&self, who: Who, keys: &[Vec<u8>], blocks: &[u32], end: &LoadEnd) {
        let there = |at: usize| match end {
            LoadEnd::Loaded => true,
            LoadEnd::Failed { landed, .. } => landed.get(at).copied().unwrap_or(false),
        };
        for (at, (key, block)) in keys.iter().zip(blocks).enumerate().filter(|(at, _)| there(*at)) {
            let verdict = self.holds(who, *block, key);
            self.uphold(
                who,
                verdict.map_err(|why| format!("I4: position {at} is said to be there, but {why}")),
            );
        }
    }

    /// Blocks are declared reusable: nothing may be able to land in them, and the engine does use them.
    fn judge_reuse(&mut self, who: Who, job: JobId, blocks: &[u32], end: &LoadEnd) {
        for write in self.writes.iter().filter(|write| !write.is_over()) {
            let Some(target) = write.target.filter(|target| target.who == who && self.lets_land(*target))
            else {
                continue;
            };
            let open =
                write.loads.iter().zip(&write.landed).any(|(load, landed)| *load == Some(job) && !landed);
            let xfer = crate::text::xfer(write.xfer);
            let promise = || format!("I1: {job:?} is reusable, but WRITE {xfer} can land through {target:?}");
            self.uphold(who, demand(!open, promise));
        }
        let kept = |at: usize| match end {
            LoadEnd::Loaded => true,
            LoadEnd::Failed { landed, .. } => landed.get(at).copied().unwrap_or(false),
        };
        for (_, block) in blocks.iter().enumerate().filter(|(at, _)| !kept(*at)) {
            self.reuse(who, *block, REUSED);
        }
    }

    /// Blocks are not pinned by this job any more: no WRITE may read them, and the engine does use them.
    fn judge_unpin(&mut self, who: Who, job: JobId, blocks: &[u32]) {
        let life = self.node(who).life;
        for block in blocks.iter().filter(|block| self.node(who).books.pins(**block) == 0) {
            let reads = |write: &&Write| write.writer == who && write.life == life && write.reads(*block);
            let reader = self.writes.iter().find(reads).map(|write| crate::text::xfer(write.xfer));
            let promise = || format!("I2: {job:?} is finished, but WRITE {reader:?} reads its block {block}");
            self.uphold(who, demand(reader.is_none(), promise));
        }
        let cached: Vec<u32> = self.node(who).cache.held.values().copied().collect();
        for block in blocks {
            let free = self.node(who).books.pins(*block) == 0 && !cached.contains(block);
            // A block that holds a load's result may be a source at the same time.
            if free && self.node(who).books.holder(*block).is_none() {
                self.reuse(who, *block, REUSED);
            }
        }
    }

    /// A source holds what its key says from the moment it is offered.
    pub(crate) fn fill(&mut self, who: Who, keys: &[u32], blocks: &[u32]) {
        for (number, block) in keys.iter().zip(blocks) {
            self.reuse(who, *block, content(crate::key(*number).as_bytes()));
        }
    }
}
