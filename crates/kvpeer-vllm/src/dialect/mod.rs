//! Between one vLLM node's payloads and the messages of kvpeer's core.
//!
//! A [`Dialect`] belongs to one connection. It does no I/O: [`hear`](Dialect::hear) takes a payload of vLLM's and
//! tells the core's messages, [`say`](Dialect::say) takes a message of the core's and writes vLLM's payload. What
//! vLLM 0.33.0 has no words for is held here, so that nothing of vLLM is in the core. Each part says which invariant
//! the other side cannot guarantee, and how it is kept on ours:
//!
//! | vLLM 0.33.0 | here |
//! |---|---|
//! | `connect` has no incarnation, `connect_ack` echoes none | each connection is a newer incarnation; an ack is of our `connect` on it |
//! | may send work before it has acknowledged us | held until its `connect_ack`, within bounds |
//! | rounds count from 0 for each request, and anew when an id comes back | each life of a (request, round) gets a round of its own: I6 |
//! | `fetch` does not say where its blocks come from | `Pinned` when its round was told a hit or is still being looked up, else `Await` |
//! | `fetch` says no `wait_ms` | our own longest: its consumer gives up by itself |
//! | prefill/decode supply is always round 0 | one `Await` fetch of a request at a time; another is refused here |
//! | `lookup_resp` names neither lookup nor round | matched with the oldest lookup that owes it; an answer for a closed round is dropped: I6 |
//! | no `fetch_progress` | a fetch that may park is taken to be parked, so that it gets the patience for parked demand |
//! | `transfer_done(false)` and `abort_ack` do not say whether all WRITEs are settled | not settled, unless [`StopWord::Taken`]: I1, I5 |
//! | frees its destinations at any failure | it is not told of a failure, nor an ack, that is not settled; the goodbye that follows says so |
//! | the empty `fetch` ends a request | `release` |
//! | no `reject` | `disconnect`, which is all that vLLM understands |
//! | no `ping`: ZeroMQ keeps the connection alive | nothing is sent; who owns the connection tells the core that it lives |

mod answer;
mod asked;
mod asked_lookups;
mod greeting;
mod served;
mod terms;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;

use kvpeer_wire::{DisconnectReason, Limits, Msg, PeerId, Text};

pub use answer::{Answer, Said};
pub use greeting::{FINGERPRINT_NAME, fingerprint};
pub use terms::{StopWord, Terms};

use crate::wire::{DecodeError, Decoded, Message};
use asked::Asked;
use greeting::Greeting;
use served::Served;

/// The state of one connection to a vLLM node that the core's messages have and vLLM's have not.
#[derive(Clone, Debug)]
pub struct Dialect {
    limits: Limits,
    terms: Terms,
    greeting: Greeting,
    /// Work of the peer that came before its `connect_ack`, in order.
    early: VecDeque<Vec<u8>>,
    early_bytes: usize,
    /// Where the peer is the consumer.
    served: Served,
    /// Where we are.
    asked: Asked,
}

/// What became of a payload.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Heard {
    /// The core was told.
    Told,
    /// It waits for the peer's `connect_ack`.
    Held,
    /// It means nothing here.
    Ignored(Ignored),
}

/// Why a legal payload was ignored. For statistics.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ignored {
    /// A type of message that 0.33.0 does not have.
    UnknownType,
    /// It came after `disconnect`.
    AfterDisconnect,
    /// A round that is not live here, or whose abort was not asked for.
    UnknownRound,
    /// Nobody waits for these answers.
    UnknownLookup,
    /// A lookup of no keys, which vLLM does not answer either.
    EmptyLookup,
}

/// A rule that the peer broke. It costs the session.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Violation {
    /// Its bytes are no message.
    #[error(transparent)]
    Malformed(#[from] DecodeError),
    /// It gives itself another name than its connection has.
    #[error("the peer's message names another peer than its connection")]
    ForeignId,
    /// Too much work before its `connect_ack`.
    #[error("more work before connect_ack than is held")]
    TooMuchEarlyWork,
}

impl Dialect {
    /// For a new connection to `peer`, the identity under which the control plane knows it.
    ///
    /// `incarnation` stands for the one that vLLM does not say: larger for every connection to the same peer.
    pub fn new(peer: PeerId, incarnation: u64, limits: Limits, terms: Terms) -> Self {
        Self {
            limits,
            terms,
            greeting: Greeting::new(peer, incarnation),
            early: VecDeque::new(),
            early_bytes: 0,
            served: Served::default(),
            asked: Asked::default(),
        }
    }

    /// Takes a payload of the peer's and tells the core what it means: one message mostly, none, or several.
    ///
    /// # Errors
    /// [`Violation`]: the session must end as if the peer had broken the protocol.
    pub fn hear(&mut self, payload: &[u8], core: &mut dyn FnMut(Msg<'_>)) -> Result<Heard, Violation> {
        if self.greeting.is_over() {
            return Ok(Heard::Ignored(Ignored::AfterDisconnect));
        }
        let message = match Message::decode(payload, &self.limits_now())? {
            Decoded::Message(message) => message,
            Decoded::Unknown { .. } => return Ok(Heard::Ignored(Ignored::UnknownType)),
        };
        match message {
            Message::Connect(connect) => {
                self.greeting.hear_connect(&connect, &self.terms, core)?;
                Ok(Heard::Told)
            }
            Message::ConnectAck(ack) => {
                self.greeting.hear_ack(&ack, core)?;
                self.tell_early(core);
                Ok(Heard::Told)
            }
            Message::Disconnect => {
                self.greeting.end();
                self.early.clear();
                let detail = Text::truncated("vLLM gives no reason");
                core(Msg::Disconnect(kvpeer_wire::Disconnect { reason: DisconnectReason::Closed, detail }));
                Ok(Heard::Told)
            }
            Message::Fetch(_)
            | Message::Lookup(_)
            | Message::LookupResp(_)
            | Message::TransferDone(_)
            | Message::AbortFetch(_)
            | Message::AbortAck(_) => {
                if self.greeting.work_is_early() {
                    return self.hold(payload);
                }
                Ok(self.hear_work(&message, core))
            }
        }
    }

    /// Until our `connect_ack` is said a stranger gets little memory.
    fn limits_now(&self) -> Limits {
        match self.greeting.may_send_work() {
            true => self.limits,
            false => Limits { frame: self.limits.early_frame, ..self.limits },
        }
    }

    fn hold(&mut self, payload: &[u8]) -> Result<Heard, Violation> {
        let bytes = self.early_bytes + payload.len();
        if self.early.len() >= self.terms.early_messages || bytes > self.terms.early_bytes {
            return Err(Violation::TooMuchEarlyWork);
        }
        self.early_bytes = bytes;
        self.early.push_back(payload.to_vec());
        Ok(Heard::Held)
    }

    /// The peer has acknowledged us: what it said before counts now.
    fn tell_early(&mut self, core: &mut dyn FnMut(Msg<'_>)) {
        self.early_bytes = 0;
        for payload in std::mem::take(&mut self.early) {
            if let Ok(Decoded::Message(message)) = Message::decode(&payload, &self.limits) {
                self.hear_work(&message, core);
            }
        }
    }

    fn hear_work(&mut self, message: &Message<'_>, core: &mut dyn FnMut(Msg<'_>)) -> Heard {
        let told = match message {
            Message::Lookup(lookup) => self.served.lookup(lookup, &self.terms, core),
            Message::Fetch(fetch) => self.served.fetch(fetch, &self.terms, core),
            Message::AbortFetch(abort) => self.served.abort(abort, &self.terms, core),
            Message::LookupResp(resp) => self.asked.lookup_resp(resp, &self.terms, core),
            Message::TransferDone(done) => self.asked.transfer_done(done, &self.terms, core),
            Message::AbortAck(ack) => self.asked.abort_ack(ack, &self.terms, core),
            Message::Connect(_) | Message::ConnectAck(_) | Message::Disconnect => Ok(()),
        };
        told.map_or_else(Heard::Ignored, |()| Heard::Told)
    }

    /// Takes a message of the core's and appends what vLLM is told to `out`.
    pub fn say(&mut self, msg: &Msg<'_>, out: &mut Vec<u8>) -> Said {
        let goodbye = |out: &mut Vec<u8>| {
            Message::Disconnect.encode(out);
            Said::Payload
        };
        match msg {
            Msg::Connect(connect) => self.greeting.say_connect(connect, out),
            Msg::ConnectAck(_) => self.greeting.say_ack(out),
            Msg::Reject(_) | Msg::Disconnect(_) => goodbye(out),
            Msg::Ping(_) | Msg::Pong(_) | Msg::FetchProgress(_) => Said::Nothing,
            Msg::Lookup(lookup) => self.asked.say_lookup(lookup, out),
            Msg::Fetch(fetch) => self.asked.say_fetch(fetch, out),
            Msg::AbortFetch(abort) => self.asked.say_abort(abort, out),
            Msg::Release(release) => self.asked.say_release(release, out),
            Msg::LookupResp(resp) => self.served.say_lookup_resp(resp, out),
            Msg::TransferDone(done) => self.served.say_done(done, out),
            Msg::AbortAck(ack) => self.served.say_ack(ack, out),
        }
    }
}
