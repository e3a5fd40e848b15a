//! What one consumer and its producer said to each other on one connection (I5, I6, and one end for each fetch).

use std::collections::{BTreeMap, BTreeSet};

use kvpeer_core::TransferEnd;
use kvpeer_wire::{AbortAck, Msg, Outcome, RequestName, Round, TransferDone};

use crate::WriteId;
use crate::judge::{Verdict, demand};

/// A request and a round of it.
type At = (String, u64);

#[derive(Clone, Default)]
pub(crate) struct Talk {
    /// Rounds that the consumer has named, and whether it has fetched them.
    named: BTreeMap<u64, (String, Fetched)>,
    aborted: BTreeSet<At>,
    last_lookup: Option<u64>,
    /// Fetches that have reached the producer.
    served: BTreeMap<At, Served>,
    /// Aborts that have reached the producer, less the acks that it gave.
    unacked: BTreeMap<At, u32>,
    /// How each WRITE has ended, if it has.
    writes: BTreeMap<WriteId, Option<TransferEnd>>,
    /// A WRITE of this connection has failed.
    errored: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Fetched {
    No,
    Yes,
}

#[derive(Clone, Default)]
struct Served {
    keys: Vec<Vec<u8>>,
    blocks: Vec<u32>,
    aborted: bool,
    over: bool,
    /// It ended with `transfer_done(ok)`.
    ok: bool,
    /// The WRITE that brings each block.
    writes: Vec<Option<WriteId>>,
}

fn at(request: RequestName<'_>, round: Round) -> At {
    (request.as_str().into(), round.0)
}

impl Talk {
    /// The consumer says something.
    pub(crate) fn asked(&mut self, msg: &Msg<'_>) -> Verdict {
        match msg {
            Msg::Lookup(lookup) => {
                let id = lookup.lookup_id.0;
                demand(self.last_lookup < Some(id), || {
                    format!("I6: lookup {id} is not larger than the last")
                })?;
                self.last_lookup = Some(id);
                self.name(at(lookup.request, lookup.round), Fetched::No)
            }
            Msg::Fetch(fetch) => self.name(at(fetch.request, fetch.round), Fetched::Yes),
            Msg::AbortFetch(abort) => {
                let at = at(abort.request, abort.round);
                let fetched = matches!(self.named.get(&at.1), Some((name, Fetched::Yes)) if *name == at.0);
                demand(fetched, || format!("aborts {at:?}, which it has not fetched"))?;
                demand(self.aborted.insert(at.clone()), || format!("aborts {at:?} twice"))
            }
            Msg::Connect(_)
            | Msg::ConnectAck(_)
            | Msg::Reject(_)
            | Msg::Disconnect(_)
            | Msg::Ping(_)
            | Msg::Pong(_)
            | Msg::LookupResp(_)
            | Msg::FetchProgress(_)
            | Msg::TransferDone(_)
            | Msg::AbortAck(_)
            | Msg::Release(_) => Ok(()),
        }
    }

    fn name(&mut self, (request, round): At, fetched: Fetched) -> Verdict {
        match self.named.get_mut(&round) {
            None => {
                let last = self.named.last_key_value().map(|(last, _)| *last);
                demand(last < Some(round), || format!("I6: round {round} after round {last:?}"))?;
                self.named.insert(round, (request, fetched));
                Ok(())
            }
            Some((name, had)) => {
                demand(*name == request, || format!("I6: round {round} is of {name} and of {request}"))?;
                demand(*had == Fetched::No, || format!("I6: round {round} was closed by its fetch"))?;
                *had = fetched;
                Ok(())
            }
        }
    }

    /// Something of the consumer reaches the producer.
    pub(crate) fn arrived(&mut self, msg: &Msg<'_>) {
        match msg {
            Msg::Fetch(fetch) => {
                let at = at(fetch.request, fetch.round);
                // The second of two equal live fetches is ignored.
                if self.served.get(&at).is_none_or(|served| served.over) {
                    let keys: Vec<Vec<u8>> =
                        fetch.demand.keys().iter().map(|key| key.as_bytes().into()).collect();
                    let blocks: Vec<u32> = fetch.demand.blocks().iter().collect();
                    let writes = vec![None; blocks.len()];
                    self.served.insert(at, Served { keys, blocks, writes, ..Served::default() });
                }
            }
            Msg::AbortFetch(abort) => {
                let at = at(abort.request, abort.round);
                if let Some(served) = self.served.get_mut(&at).filter(|served| !served.over) {
                    served.aborted = true;
                }
                *self.unacked.entry(at).or_default() += 1;
            }
            Msg::Connect(_)
            | Msg::ConnectAck(_)
            | Msg::Reject(_)
            | Msg::Disconnect(_)
            | Msg::Ping(_)
            | Msg::Pong(_)
            | Msg::Lookup(_)
            | Msg::LookupResp(_)
            | Msg::FetchProgress(_)
            | Msg::TransferDone(_)
            | Msg::AbortAck(_)
            | Msg::Release(_) => {}
        }
    }

    /// The producer says something.
    pub(crate) fn answered(&mut self, msg: &Msg<'_>) -> Verdict {
        match msg {
            Msg::FetchProgress(progress) => {
                let at = at(progress.request, progress.round);
                let live = self.served.get(&at).is_some_and(|served| !served.over && !served.aborted);
                demand(live, || format!("tells the progress of {at:?}, which is not live"))
            }
            Msg::TransferDone(done) => self.done(done),
            Msg::AbortAck(ack) => self.acked(ack),
            Msg::Connect(_)
            | Msg::ConnectAck(_)
            | Msg::Reject(_)
            | Msg::Disconnect(_)
            | Msg::Ping(_)
            | Msg::Pong(_)
            | Msg::Lookup(_)
            | Msg::LookupResp(_)
            | Msg::Fetch(_)
            | Msg::AbortFetch(_)
            | Msg::Release(_) => Ok(()),
        }
    }

    fn done(&mut self, done: &TransferDone<'_>) -> Verdict {
        let at = at(done.request, done.round);
        let ends = self.ends(&at);
        let served = self.served.get_mut(&at).filter(|served| !served.over);
        let served = served.ok_or_else(|| format!("transfer_done for {at:?}, which is not live"))?;
        demand(!served.aborted, || format!("transfer_done for {at:?}, which was aborted"))?;
        served.over = true;
        let landed: Vec<bool> = ends.iter().map(|end| *end == Some(Some(TransferEnd::Done))).collect();
        demand(!ends.contains(&Some(None)), || {
            format!("transfer_done for {at:?}, which has WRITEs in flight")
        })?;
        match done.outcome {
            Outcome::Ok => {
                served.ok = true;
                demand(landed.iter().all(|bit| *bit), || format!("I4: {at:?} is ok, landed {landed:?}"))
            }
            Outcome::Failed { settled, landed: said, .. } => {
                let said: Vec<bool> = said.iter().collect();
                demand(said == landed, || format!("{at:?} has landed {landed:?}, not {said:?}"))?;
                let failed = ends.contains(&Some(Some(TransferEnd::Errored)));
                demand(settled != failed, || {
                    format!("I5: transfer_done of {at:?}: settled {settled}, failed {failed}")
                })
            }
        }
    }

    fn acked(&mut self, ack: &AbortAck<'_>) -> Verdict {
        let at = at(ack.request, ack.round);
        let in_flight = self.ends(&at).contains(&Some(None));
        demand(!in_flight, || format!("I5: abort_ack for {at:?}, which has WRITEs in flight"))?;
        let unacked = self.unacked.get_mut(&at).filter(|count| **count > 0);
        *unacked.ok_or_else(|| format!("abort_ack for {at:?}, which was not aborted"))? -= 1;
        if let Some(served) = self.served.get_mut(&at) {
            served.over = true;
        }
        let errored = self.errored;
        demand(ack.settled != errored, || {
            format!("I5: abort_ack of {at:?} settled although a WRITE has failed, or not although none has")
        })
    }

    /// Whether a round's blocks reached the consumer for good, and whether they perhaps did.
    pub(crate) fn reached(&self, request: &str, round: u64) -> (bool, bool) {
        let served = self.served.get(&(request.to_owned(), round));
        served.map_or((false, false), |served| (served.ok, !served.aborted))
    }

    /// How the WRITE of each block of a round has ended: no WRITE, in flight, ended.
    fn ends(&self, at: &At) -> Vec<Option<Option<TransferEnd>>> {
        let end = |id: &Option<WriteId>| id.map(|id| self.writes.get(&id).copied().flatten());
        self.served.get(at).map_or_else(Vec::new, |served| served.writes.iter().map(end).collect())
    }

    /// The producer posts a WRITE; says for which round it is, and for which keys.
    pub(crate) fn posted(&mut self, id: WriteId, dst: &[u32]) -> Verdict<(At, Vec<Vec<u8>>)> {
        demand(!self.errored, || "posts a WRITE after one has failed".into())?;
        let wants = |served: &Served, block: &u32| {
            let free = |at: usize| served.writes[at].is_none_or(|write| self.refused(write));
            served.blocks.iter().position(|wanted| wanted == block).is_some_and(free)
        };
        let live = self.served.iter().filter(|(_, served)| !served.over && !served.aborted);
        let mut found =
            live.filter(|(_, served)| dst.iter().all(|block| wants(served, block))).map(|(at, _)| at.clone());
        let at = found
            .next_back()
            .ok_or_else(|| format!("I5: posts a WRITE to {dst:?}, which no live round wants"))?;
        self.writes.insert(id, None);
        let mut keys = Vec::new();
        if let Some(served) = self.served.get_mut(&at) {
            for block in dst {
                let place = served.blocks.iter().position(|wanted| wanted == block).expect("it is wanted");
                served.writes[place] = Some(id);
                keys.push(served.keys[place].clone());
            }
        }
        Ok((at, keys))
    }

    fn refused(&self, write: WriteId) -> bool {
        self.writes.get(&write) == Some(&Some(TransferEnd::NotPosted))
    }

    pub(crate) fn write_ended(&mut self, id: WriteId, end: TransferEnd) {
        if let Some(ended) = self.writes.get_mut(&id) {
            *ended = Some(end);
            self.errored |= end == TransferEnd::Errored;
        }
    }
}
