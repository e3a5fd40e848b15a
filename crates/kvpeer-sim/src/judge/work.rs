//! What a node may do to its peer's memory.

use kvpeer_core::{BlockIdx, XferId};

use super::Promise;
use super::talk::{Round, Stage};
use crate::control::EndState;
use crate::names::{RoundKey, Who};
use crate::node::{Cell, RightState};
use crate::rma::{Write, WriteState};
use crate::setup::Ask;
use crate::world::World;

fn demand(holds: bool, promise: Promise, how: &str) -> Result<(), (Promise, String)> {
    if holds { Ok(()) } else { Err((promise, how.to_owned())) }
}

impl World {
    /// A rogue posts a WRITE. It is real, and nothing is demanded of it.
    pub(crate) fn rogue_write(
        &self,
        who: Who,
        xfer: XferId,
        src: Vec<BlockIdx>,
        dst: Vec<BlockIdx>,
    ) -> Result<Write, (Promise, String)> {
        let node = self.node(who);
        let right = node.rights.get(&xfer.epoch).zip(node.rights.get(&xfer.epoch).and_then(|it| it.target));
        let Some((right, target)) = right else {
            return Err((Promise::Gate, "WRITEs without a right".to_owned()));
        };
        let reader = &self.node(target.right.owner.who).book;
        let content = |block: &BlockIdx| match node.cells.get(*block as usize) {
            Some(Cell::Of(key)) => *key,
            Some(Cell::Blank) | None => u8::MAX,
        };
        Ok(Write {
            conn: right.conn,
            side: right.side,
            round: RoundKey { request: u8::MAX, round: 0 },
            landed: vec![false; dst.len()],
            absolved: vec![false; dst.len()],
            keys: src.iter().map(content).collect(),
            loads: dst.iter().map(|block| reader.holder(*block)).collect(),
            src,
            dst,
            target: target.right,
            state: WriteState::Posted,
            late: false,
        })
    }

    /// A WRITE is posted (I8, and I1, I2, I4, I5 at that moment).
    pub(crate) fn judge_post(
        &mut self,
        who: Who,
        xfer: XferId,
        src: Vec<BlockIdx>,
        dst: Vec<BlockIdx>,
    ) -> Result<Write, (Promise, String)> {
        let node = self.node(who);
        let none = |what: &str| (Promise::Gate, format!("WRITEs without {what}"));
        let right = node.rights.get(&xfer.epoch).ok_or_else(|| none("a right"))?;
        let open = right.state == RightState::Open && !right.asked.contains(&Ask::Close);
        demand(open, Promise::Gate, "WRITEs without an open right")?;
        demand(!right.closing, Promise::Gate, "WRITEs although its session is ending (END-1)")?;
        demand(!right.errored, Promise::Gate, "WRITEs after a WRITE has failed")?;
        let target = right.target.ok_or_else(|| none("a registered peer"))?;
        demand(target.registered, Promise::Gate, "WRITEs to a peer that is not registered")?;
        let (key, side) = (right.conn, right.side);
        let conn = self.conns.get(&key).ok_or_else(|| none("a connection"))?;
        let end = conn.end(side);
        demand(end.state == EndState::Open, Promise::Gate, "WRITEs without a connection")?;
        demand(end.said.ack && end.heard.ack, Promise::Gate, "WRITEs before both acks are through")?;
        demand(!end.heard.goodbye, Promise::Gate, "WRITEs after the peer's goodbye")?;
        demand(!end.said.goodbye, Promise::Gate, "WRITEs after its own goodbye")?;
        demand(src.len() == dst.len() && !src.is_empty(), Promise::Law, "WRITEs unequal runs")?;
        let inside = dst.iter().all(|block| *block < target.num_blocks);
        demand(inside, Promise::Gate, "WRITEs outside the peer's region")?;

        let rounds = &conn.end(side.other()).talk.rounds;
        let live = || {
            rounds.iter().filter(|(_, round)| {
                round.stage == Stage::Live && dst.iter().all(|block| round.dst.contains(block))
            })
        };
        let wants = |round: &Round, block: &BlockIdx, from: &BlockIdx| {
            let at = round.dst.iter().position(|other| other == block);
            let key = at.and_then(|at| round.keys.get(at)).map(|key| Cell::Of(*key));
            key.is_some() && node.cells.get(*from as usize).copied() == key
        };
        // A rogue may want the same blocks for several rounds.
        let fits = |round: &Round| dst.iter().zip(&src).all(|(block, from)| wants(round, block, from));
        let found = live().find(|(_, round)| fits(round)).or_else(|| live().next());
        let Some((round_key, round)) = found else {
            return Err((Promise::AckMeansQuiesced, format!("WRITEs {dst:?}, which no live round wants")));
        };
        let twice = self.writes.values().any(|write| {
            let same = (write.conn, write.side, write.round) == (key, side, *round_key);
            same && write.dst.iter().any(|block| dst.contains(block))
        });
        demand(!twice, Promise::Law, "WRITEs a block twice")?;
        let keys: Vec<u8> = dst
            .iter()
            .filter_map(|block| round.dst.iter().position(|other| other == block))
            .filter_map(|at| round.keys.get(at).copied())
            .collect();
        for (block, key) in src.iter().zip(&keys) {
            let there = node.cells.get(*block as usize) == Some(&Cell::Of(*key));
            demand(there, Promise::Visible, "WRITEs a block that holds something else")?;
            demand(node.book.pins(*block) > 0, Promise::Pin, "WRITEs a block that nothing pins")?;
        }
        let reader = self.node(target.right.owner.who);
        let lands = reader.lets_land(target.right);
        let loads: Vec<_> = dst.iter().map(|block| reader.book.holder(*block).filter(|_| lands)).collect();
        let reserved =
            !lands || self.is_rogue(reader.process.who) || loads.iter().all(|load| *load == Some(round.job));
        demand(reserved, Promise::NoLateWrite, "WRITEs to a block that its load does not hold any more")?;
        let sources: Vec<_> = src.iter().map(|block| node.book.reader_of(*block)).collect();
        let round_key = *round_key;
        if let Some(round) = self.talk(key, side.other()).and_then(|talk| talk.rounds.get_mut(&round_key)) {
            for (block, source) in dst.iter().zip(sources) {
                let at = round.dst.iter().position(|other| other == block);
                if let Some(slot) = at.and_then(|at| round.sources.get_mut(at)) {
                    *slot = source;
                }
            }
        }
        Ok(Write {
            conn: key,
            side,
            round: round_key,
            landed: vec![false; dst.len()],
            absolved: vec![false; dst.len()],
            keys,
            src,
            dst,
            loads,
            target: target.right,
            state: WriteState::Posted,
            late: false,
        })
    }
}
