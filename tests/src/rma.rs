//! Rights and WRITEs: memory that is written block by block, in time or late.

use kvpeer_core::{ConnId, Epoch, JobId, TransferEnd, XferId};

use crate::names::content;
use crate::node::Registered;
use crate::text::name;
use crate::{Block, Who, World};

/// A right's endpoint. What was sent to it lands until it is closed, whatever became of the sender.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Right {
    Opening,
    Open,
    Closing,
    Closed { fenced: bool },
    Failed,
}

impl Right {
    /// Whether a WRITE that is still on its way can land through it.
    pub(crate) fn lets_land(self) -> bool {
        match self {
            Right::Open | Right::Closing | Right::Closed { fenced: false } => true,
            Right::Opening | Right::Failed | Right::Closed { fenced: true } => false,
        }
    }
}

/// One WRITE of the world.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct WriteId(pub(crate) usize);

/// What became of a block that was on its way.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Landing {
    /// It stands in the target's memory.
    Landed,
    /// The target had closed the endpoint.
    Fenced,
}

#[derive(Clone, Debug)]
pub(crate) struct Write {
    pub(crate) writer: Who,
    /// The writer's process.
    pub(crate) life: u32,
    pub(crate) xfer: XferId,
    pub(crate) src: Vec<u32>,
    pub(crate) dst: Vec<u32>,
    /// `None` when the peer is no node of the world.
    pub(crate) target: Option<Target>,
    /// The loads whose blocks these were when the WRITE was posted.
    pub(crate) loads: Vec<Option<JobId>>,
    /// The round it belongs to: the writer's end of its connection, the request, the number.
    pub(crate) round: (ConnId, String, u64),
    pub(crate) landed: Vec<bool>,
    /// What is on its way without the source, after the WRITE has ended at the writer.
    pub(crate) captured: Option<Vec<Block>>,
    pub(crate) end: Option<TransferEnd>,
    /// The engine said that it knows the source to be free.
    pub(crate) absolved: bool,
}

impl Write {
    /// Whether the writer's memory may still be read.
    pub(crate) fn reads(&self, block: u32) -> bool {
        let over = self.end.is_some() && self.captured.is_some() || self.end == Some(TransferEnd::Done);
        !over && !self.absolved && self.src.contains(&block)
    }

    /// Whether nothing of it can land any more, whatever the target does.
    pub(crate) fn is_over(&self) -> bool {
        match self.end {
            Some(TransferEnd::Done | TransferEnd::NotPosted) => true,
            Some(TransferEnd::Errored | TransferEnd::Fenced) | None => {
                self.landed.iter().all(|landed| *landed)
            }
        }
    }
}

/// The right that a WRITE lands through.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Target {
    pub(crate) who: Who,
    pub(crate) life: u32,
    pub(crate) epoch: Epoch,
}

impl Target {
    /// The data plane's metadata of a right, as `connect` carries it.
    pub(crate) fn metadata(self) -> Vec<u8> {
        format!("right {} {} {}", self.who.0, self.life, self.epoch.0).into_bytes()
    }

    pub(crate) fn parse(metadata: &[u8]) -> Option<Self> {
        let mut words = core::str::from_utf8(metadata).ok()?.strip_prefix("right ")?.split(' ');
        let who = Who(words.next()?.parse().ok()?);
        Some(Self { who, life: words.next()?.parse().ok()?, epoch: Epoch(words.next()?.parse().ok()?) })
    }
}

impl World {
    /// Whether a WRITE towards this right can still land.
    pub(crate) fn lets_land(&self, target: Target) -> bool {
        let node = self.node(target.who);
        node.life == target.life && node.rights.get(&target.epoch).is_some_and(|right| right.lets_land())
    }

    /// The right that a node's link writes through, as the peer's metadata names it.
    pub(crate) fn target_of(&self, who: Who, epoch: Epoch) -> Option<Target> {
        let registration = self.node(who).registrations.get(&epoch)?;
        (registration.state == Registered::Yes).then(|| Target::parse(&registration.metadata)).flatten()
    }

    /// Lets everything of a WRITE that is on its way land, also after it has ended at the writer.
    pub fn land(&mut self, write: WriteId) -> Landing {
        let blocks = self.writes[write.0].landed.len();
        let landings: Vec<Landing> = (0..blocks).map(|at| self.land_block(write, at)).collect();
        let all = landings.iter().all(|landing| *landing == Landing::Landed);
        if all { Landing::Landed } else { Landing::Fenced }
    }

    /// Lets one block of a WRITE land, also after it has ended at the writer.
    pub fn land_block(&mut self, write: WriteId, at: usize) -> Landing {
        let posted = self.writes[write.0].clone();
        assert_ne!(posted.end, Some(TransferEnd::NotPosted), "a WRITE that was never posted cannot land");
        if posted.landed[at] {
            return Landing::Landed;
        }
        let (src, dst, xfer) = (posted.src[at], posted.dst[at], crate::text::xfer(posted.xfer));
        let bytes = match &posted.captured {
            Some(captured) => captured[at],
            None => {
                self.judge_source(&posted, src);
                self.node(posted.writer).memory[src as usize]
            }
        };
        if let Some(target) = posted.target {
            if !self.lets_land(target) {
                self.log(format!("{}: block {dst} comes too late, {xfer} is fenced off", target.who));
                self.see("a late block is fenced off".into());
                return Landing::Fenced;
            }
            self.judge_landing(&posted, at, target);
            self.node_mut(target.who).memory[dst as usize] = bytes;
            self.log(format!("{}: block {dst} is written by {xfer} of {}", target.who, posted.writer));
            if posted.end.is_some() {
                self.see("a block lands after the end of its WRITE".into());
            }
        }
        self.writes[write.0].landed[at] = true;
        Landing::Landed
    }

    /// The WRITE completes: everything has landed, and the writer is told so.
    pub fn done(&mut self, write: WriteId) {
        assert_eq!(self.land(write), Landing::Landed, "a WRITE that was fenced off cannot complete");
        self.end_write(write, TransferEnd::Done);
    }

    /// The WRITE is refused before anything leaves the writer.
    pub fn not_posted(&mut self, write: WriteId) {
        assert!(!self.writes[write.0].landed.contains(&true), "it was posted");
        self.end_write(write, TransferEnd::NotPosted);
    }

    /// The writer sees an error. What has not landed yet may still land.
    pub fn error(&mut self, write: WriteId) {
        self.end_write(write, TransferEnd::Errored);
    }

    /// Completes a WRITE as the state of the target allows.
    pub(crate) fn finish_write(&mut self, write: WriteId) {
        let open = self.writes[write.0].target.is_none_or(|target| {
            self.lets_land(target) && self.node(target.who).rights.get(&target.epoch) == Some(&Right::Open)
        });
        if open { self.done(write) } else { self.error(write) }
    }

    pub(crate) fn end_write(&mut self, write: WriteId, end: TransferEnd) {
        let posted = &self.writes[write.0];
        assert_eq!(posted.end, None, "a WRITE ends once");
        let (writer, xfer) = (posted.writer, posted.xfer);
        self.writes[write.0].end = Some(end);
        // A fenced one may read its source until the endpoint is closed for certain.
        if end != TransferEnd::Fenced {
            self.capture(write);
        }
        self.judge_write_end(write, end);
        self.see(format!("write {end:?}"));
        self.log(format!("{writer}: WRITE {} ends {end:?}", crate::text::xfer(xfer)));
        self.feed(writer, kvpeer_core::Input::Transfer { xfer, end });
    }

    /// What is still on its way has left the writer's memory.
    pub(crate) fn capture(&mut self, write: WriteId) {
        let posted = &self.writes[write.0];
        let memory = &self.node(posted.writer).memory;
        let captured = posted.src.iter().map(|src| memory[*src as usize]).collect();
        self.writes[write.0].captured = Some(captured);
    }

    /// WRITEs of a node that have not ended, oldest first.
    pub fn writes_of(&self, who: Who) -> Vec<WriteId> {
        let life = self.node(who).life;
        let live = |write: &Write| write.writer == who && write.life == life && write.end.is_none();
        self.writes.iter().enumerate().filter(|(_, write)| live(write)).map(|(at, _)| WriteId(at)).collect()
    }

    /// The one WRITE of a node that has not ended.
    #[track_caller]
    pub fn write_of(&self, who: Who) -> WriteId {
        match self.writes_of(who).as_slice() {
            [write] => *write,
            writes => self.fail(&format!("{who} should have one WRITE in flight, not {}", writes.len())),
        }
    }

    /// WRITEs of which something may still land although they have ended at their writer, or it is dead.
    pub fn late_writes(&self) -> Vec<WriteId> {
        let ended = |write: &Write| write.end.is_some() || self.node(write.writer).life != write.life;
        let late = self.writes.iter().enumerate().filter(|(_, write)| ended(write) && !write.is_over());
        late.map(|(at, _)| WriteId(at)).collect()
    }

    /// Whether a block of a WRITE has landed.
    pub fn has_landed(&self, write: WriteId) -> bool {
        self.writes[write.0].landed.contains(&true)
    }

    /// How often a node has wished for a WRITE to be cancelled.
    pub fn cancels(&self, who: Who) -> usize {
        self.node(who).cancels
    }

    /// How the writer's endpoint names a WRITE.
    pub fn xfer(&self, write: WriteId) -> XferId {
        self.writes[write.0].xfer
    }

    /// What a WRITE moves: `k1@3->9` for each block.
    pub fn show_write(&self, write: WriteId) -> String {
        let posted = &self.writes[write.0];
        let pairs = posted.src.iter().zip(&posted.dst);
        pairs.map(|(src, dst)| format!("{src}->{dst}")).collect::<Vec<_>>().join(" ")
    }

    /// Whether a node's block holds a key's content.
    pub(crate) fn holds(&self, who: Who, block: u32, key: &[u8]) -> Result<(), String> {
        let found = self.node(who).memory.get(block as usize);
        match found == Some(&content(key)) {
            true => Ok(()),
            false => Err(format!("block {block} of {who} does not hold {}", name(key))),
        }
    }
}
