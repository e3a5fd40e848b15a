//! What must hold whatever peers say, seen from outside of the core.

use kvpeer_core::{BlockIdx, ConnId, Destination, Input, JobId, XferId};
use kvpeer_wire::{Fetch, Msg, Outcome, RequestId, Round};

use super::planes::{Planes, Right, Write};
use crate::endpoint::{NUM_BLOCKS, WINDOW_BLOCKS};
use crate::ledger::Told;

/// What the endpoint is hearing right now.
#[derive(Default)]
pub(super) enum Moment {
    #[default]
    Other,
    /// A producer's last word about a round.
    Ends(ConnId, RequestId, Round, Word),
    /// A right was closed with proof.
    Fenced,
    /// The engine releases a quarantine: it has a proof of its own.
    Released,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Word {
    Ok,
    Settled,
    Unsettled,
}

impl Moment {
    pub(super) fn of(input: &Input<'_>) -> Self {
        let word = |settled| if settled { Word::Settled } else { Word::Unsettled };
        match input {
            Input::Message { conn, msg: Msg::TransferDone(done) } => {
                let word = match done.outcome {
                    Outcome::Ok => Word::Ok,
                    Outcome::Failed { settled, .. } => word(settled),
                };
                Moment::Ends(*conn, done.request.into(), done.round, word)
            }
            Input::Message { conn, msg: Msg::AbortAck(ack) } => {
                Moment::Ends(*conn, ack.request.into(), ack.round, word(ack.settled))
            }
            Input::RightClosed { fenced: true, .. } => Moment::Fenced,
            Input::Connected { .. }
            | Input::DialFailed { .. }
            | Input::Disconnected { .. }
            | Input::Heard { .. }
            | Input::Message { .. }
            | Input::Malformed { .. }
            | Input::NoCommonVersion { .. }
            | Input::Admitted { .. }
            | Input::RightOpened { .. }
            | Input::RightClosed { fenced: false, .. }
            | Input::Registered { .. }
            | Input::PeerFault { .. }
            | Input::Transfer { .. }
            | Input::Probed { .. }
            | Input::Tick => Moment::Other,
        }
    }
}

impl Planes {
    pub(super) fn send(&mut self, conn: ConnId, msg: &Msg<'_>) {
        assert!(self.open.contains(&conn), "{msg:?} is sent on a connection that is closed");
        assert!(!self.parted.contains(&conn), "END-2: {msg:?} is sent after goodbye");
        msg.encode(&mut Vec::new()).expect("what the core sends can be written");
        if let Msg::Disconnect(_) = msg {
            self.parted.insert(conn);
        }
        if let Msg::Fetch(fetch) = msg {
            self.fetched(conn, fetch);
        }
    }

    /// A load went out: its destinations say which.
    fn fetched(&mut self, conn: ConnId, fetch: &Fetch<'_>) {
        let blocks: Vec<BlockIdx> = fetch.demand.blocks().iter().collect();
        let load = self.ledger.loads.iter().find(|(_, load)| load.blocks == blocks);
        let (job, _) = load.expect("a fetch has a load");
        let before = self.fetches.insert(*job, (conn, fetch.request.into(), fetch.round));
        assert_eq!(before, None, "DUP-7: {job:?} is sent twice");
        let rounds = self.fetches.iter().filter(|(_, (on, _, round))| *on == conn && *round == fetch.round);
        assert_eq!(rounds.count(), 1, "ID-9: a round is used twice");
    }

    pub(super) fn write(&mut self, xfer: XferId, src: &[BlockIdx], dst: &[BlockIdx]) {
        let link = self.links.get(&xfer.epoch).expect("I8: a WRITE needs a link");
        assert!(link.registered && link.right == Right::Open, "I8: {xfer:?} before registration");
        assert!(!link.left, "I8: {xfer:?} is posted after the peer's goodbye");
        assert!(!src.is_empty() && src.len() == dst.len(), "{xfer:?} moves nothing, or not one to one");
        assert!(dst.iter().all(|block| *block < link.blocks), "I8: {xfer:?} lies outside the peer's region");
        for block in src {
            assert!(*block < NUM_BLOCKS, "SUP-4: {xfer:?} reads outside our region");
            assert!(self.ledger.is_pinned(*block), "I2: {xfer:?} reads block {block}, which is not pinned");
        }
        self.writes.insert(xfer, Write { src: src.to_vec(), ended: false });
        let flying = self.writes.iter().filter(|(of, write)| of.epoch == xfer.epoch && !write.ended);
        let flying: usize = flying.map(|(_, write)| write.src.len()).sum();
        assert!(flying <= WINDOW_BLOCKS, "SUP-3: {flying} blocks are in flight");
    }

    pub(super) fn judge(&mut self, told: &Told) {
        match told {
            Told::Loaded(job) => {
                if let Some(word) = self.last_word(*job) {
                    assert_eq!(
                        word,
                        Some(Word::Ok),
                        "I4: {job:?} is loaded, and its producer did not say so"
                    );
                }
            }
            Told::LoadFailed(job, Destination::Reusable) => {
                if let Some(word) = self.last_word(*job) {
                    assert_eq!(
                        word,
                        Some(Word::Settled),
                        "I1: {job:?} was sent and is reusable without proof"
                    );
                }
            }
            Told::LoadFailed(job, Destination::Quarantined) => {
                assert!(self.fetches.remove(job).is_some(), "{job:?} is quarantined and was never sent");
            }
            Told::Released(job) => {
                let proven = matches!(self.moment, Moment::Fenced | Moment::Released);
                assert!(proven, "I1: {job:?} is released without proof");
            }
            Told::Stored(blocks) => self.unpinned(blocks),
        }
    }

    /// What a producer is saying about a load at this moment; nothing of a load that was never sent.
    fn last_word(&mut self, job: JobId) -> Option<Option<Word>> {
        let (conn, request, round) = self.fetches.remove(&job)?;
        Some(match &self.moment {
            Moment::Ends(on, of, number, word) if (on, of, number) == (&conn, &request, &round) => {
                Some(*word)
            }
            Moment::Ends(..) | Moment::Fenced | Moment::Released | Moment::Other => None,
        })
    }

    fn unpinned(&mut self, blocks: &[BlockIdx]) {
        let free =
            |planes: &Self, block: &BlockIdx| blocks.contains(block) && !planes.ledger.is_pinned(*block);
        if let Moment::Released = self.moment {
            return;
        }
        for (xfer, write) in &self.writes {
            let read = write.src.iter().find(|block| free(self, block));
            assert_eq!(read, None, "I2: the block is free while {xfer:?} reads it");
        }
    }
}
