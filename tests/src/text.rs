//! Messages as a trace shows them.

use kvpeer_core::{ProbeId, XferId};
use kvpeer_wire::{
    AbortFetch, Bits, Demand, Keys, Msg, Outcome, Reject, RequestName, Round, Supply, TransferDone,
};

/// A message in a line: `fetch r#1 await k1->9`, `abort_ack r#1 settled`.
pub fn say(msg: &Msg<'_>) -> String {
    match msg {
        Msg::Connect(connect) => format!("connect {} {}", connect.peer_id, connect.incarnation),
        Msg::ConnectAck(ack) => format!("connect_ack {}", ack.incarnation),
        Msg::Reject(reject) => format!("reject {}", refusal(reject)),
        Msg::Disconnect(bye) => format!("disconnect {:?}", bye.reason),
        Msg::Ping(nonce) => format!("ping {}", nonce.0),
        Msg::Pong(nonce) => format!("pong {}", nonce.0),
        Msg::Lookup(lookup) => {
            let at = at(lookup.request, lookup.round);
            format!("lookup {at} L{} {}", lookup.lookup_id.0, names(lookup.keys))
        }
        Msg::LookupResp(resp) => {
            format!("lookup_resp L{} +{} {}", resp.lookup_id.0, resp.offset, bits(resp.hits))
        }
        Msg::Fetch(fetch) => {
            let supply = match fetch.supply {
                Supply::Pinned => "pinned",
                Supply::Await => "await",
            };
            format!("fetch {} {supply} {}", at(fetch.request, fetch.round), demand(&fetch.demand))
        }
        Msg::FetchProgress(p) => {
            let at = at(p.request, p.round);
            format!("fetch_progress {at} matched {} parked {} landed {}", p.matched, p.parked, p.landed)
        }
        Msg::TransferDone(done) => format!("transfer_done {}", outcome(done)),
        Msg::AbortFetch(AbortFetch { request, round }) => format!("abort_fetch {}", at(*request, *round)),
        Msg::AbortAck(ack) => format!("abort_ack {} {}", at(ack.request, ack.round), settled(ack.settled)),
        Msg::Release(release) => format!("release {}", release.request),
    }
}

pub(crate) fn is_heartbeat(msg: &Msg<'_>) -> bool {
    matches!(msg, Msg::Ping(_) | Msg::Pong(_))
}

/// A message's kind, and how it ends something.
pub(crate) fn label(msg: &Msg<'_>) -> String {
    match msg {
        Msg::TransferDone(TransferDone { outcome: Outcome::Failed { why, settled: quiet, .. }, .. }) => {
            format!("transfer_done {why:?} {}", settled(*quiet))
        }
        Msg::AbortAck(ack) => format!("abort_ack {}", settled(ack.settled)),
        Msg::Disconnect(bye) => format!("disconnect {:?}", bye.reason),
        Msg::Reject(reject) => format!("reject {:?}", reject.code),
        Msg::TransferDone(_)
        | Msg::Connect(_)
        | Msg::ConnectAck(_)
        | Msg::Ping(_)
        | Msg::Pong(_)
        | Msg::Lookup(_)
        | Msg::LookupResp(_)
        | Msg::Fetch(_)
        | Msg::FetchProgress(_)
        | Msg::AbortFetch(_)
        | Msg::Release(_) => format!("{:?}", msg.kind()),
    }
}

fn at(request: RequestName<'_>, round: Round) -> String {
    format!("{request}#{}", round.0)
}

fn settled(settled: bool) -> &'static str {
    if settled { "settled" } else { "unsettled" }
}

fn outcome(done: &TransferDone<'_>) -> String {
    let at = at(done.request, done.round);
    match done.outcome {
        Outcome::Ok => format!("{at} ok"),
        Outcome::Failed { why, settled: quiet, landed } => {
            format!("{at} {why:?} {} {}", settled(quiet), bits(landed)).trim_end().into()
        }
    }
}

fn refusal(reject: &Reject<'_>) -> String {
    let field = if reject.field.as_str().is_empty() { String::new() } else { format!("({})", reject.field) };
    let retry = match reject.retry_after_ms {
        0 => String::new(),
        ms => format!(" retry {ms} ms"),
    };
    let values = match (reject.ours.as_str(), reject.theirs.as_str()) {
        ("", "") => String::new(),
        (ours, theirs) => format!(" ours {ours:?} theirs {theirs:?}"),
    };
    format!("{:?}{field}{values}{retry}", reject.code)
}

pub(crate) fn name(key: &[u8]) -> String {
    key.escape_ascii().to_string()
}

fn names(keys: Keys<'_>) -> String {
    keys.iter().map(|key| name(key.as_bytes())).collect::<Vec<_>>().join(" ")
}

fn demand(demand: &Demand<'_>) -> String {
    let pairs = demand.keys().iter().zip(demand.blocks().iter());
    pairs.map(|(key, block)| format!("{}->{block}", name(key.as_bytes()))).collect::<Vec<_>>().join(" ")
}

fn bits(bits: Bits<'_>) -> String {
    bits.iter().map(|bit| if bit { '1' } else { '0' }).collect()
}

pub(crate) fn xfer(id: XferId) -> String {
    format!("w{}.{}", id.epoch.0, id.seq)
}

pub(crate) fn probe(id: ProbeId) -> String {
    format!("p{}.{}", id.epoch.0, id.seq)
}
