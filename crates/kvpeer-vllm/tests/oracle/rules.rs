//! The deliberate differences. `docs/vllm.md` has a row for each, with what it serves and how often it was met.

use kvpeer_core::wire::Supply;
use kvpeer_core::{CloseReason, Count, Misuse, StoreFailure, StoreOutcome};
use serde_json::json;

use crate::item::Item;
use crate::recorded::Step;
use crate::replay::Note;

macro_rules! rules {
    ($($rule:ident,)+) => {
        /// One rule, by the name of its row.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
        pub(crate) enum Rule {
            $($rule,)+
        }

        impl Rule {
            pub(crate) const ALL: &'static [Self] = &[$(Self::$rule),+];
        }
    };
}

rules! {
    MalformedEnds,
    WorkWaitsForBothAcks,
    SecondAckEnds,
    UnackedAbortEnds,
    LookupTimeoutIsTheRequests,
    DeadlineFromTheStart,
    OneDestination,
    EmptyLoadIsDone,
    SupplyIsTheRequests,
    BadFetchFailsAlone,
    FetchFromPinsNeedsThem,
    FetchedRoundsAreClosed,
    SecondFetchIsIgnored,
    SupplyOverIsRemembered,
    FetchForgetsKeys,
    FinishIsOurs,
    ReleaseIsSaid,
    HeldEndsAtOnce,
    UnclaimedWaitsLonger,
    ProbeDeadlineIsATimer,
    AnswersComeInParts,
    AbortOfNothingIsAcked,
}

impl Rule {
    /// Whether it can be the reason for this, once its request has met it.
    pub(crate) fn is_about(self, item: &Item) -> bool {
        match self {
            Self::OneDestination | Self::EmptyLoadIsDone => is_consumers(item),
            Self::FetchForgetsKeys => matches!(item, Item::Asked { .. } | Item::Answer { .. }),
            Self::BadFetchFailsAlone
            | Self::SupplyIsTheRequests
            | Self::SecondFetchIsIgnored
            | Self::SupplyOverIsRemembered => is_producers(item) && !matches!(item, Item::Told { .. }),
            Self::FetchFromPinsNeedsThem => is_producers(item),
            // The peer's lookups, and what they pinned.
            Self::FinishIsOurs
            | Self::AnswersComeInParts
            | Self::ProbeDeadlineIsATimer
            | Self::FetchedRoundsAreClosed => {
                matches!(item, Item::Told { .. })
                    || matches!(item, Item::Store { job, .. } if *job >= FIRST_PIN)
            }
            Self::MalformedEnds
            | Self::WorkWaitsForBothAcks
            | Self::SecondAckEnds
            | Self::UnackedAbortEnds
            | Self::LookupTimeoutIsTheRequests
            | Self::DeadlineFromTheStart
            | Self::ReleaseIsSaid
            | Self::HeldEndsAtOnce
            | Self::UnclaimedWaitsLonger => false,
            Self::AbortOfNothingIsAcked => matches!(item, Item::Store { .. }),
        }
    }
}

/// The recorded cache numbers its pins from here.
const FIRST_PIN: u64 = 1_000_000;

/// What a node does for a request whose blocks it gets.
fn is_consumers(item: &Item) -> bool {
    match item {
        Item::Sent { kind, .. } => matches!(kind.as_str(), "fetch" | "abort_fetch"),
        Item::Asked { .. } | Item::Answer { .. } | Item::Load { .. } => true,
        Item::Told { .. } | Item::Register | Item::Write { .. } | Item::Store { .. } => false,
    }
}

/// What a node does for a request whose blocks it gives.
fn is_producers(item: &Item) -> bool {
    match item {
        Item::Sent { kind, .. } => matches!(kind.as_str(), "transfer_done" | "abort_ack"),
        Item::Told { .. } | Item::Write { .. } | Item::Store { .. } => true,
        Item::Asked { .. } | Item::Register | Item::Load { .. } | Item::Answer { .. } => false,
    }
}

/// What a note says is different for its request from here on.
pub(crate) fn of_note(note: &Note) -> Option<Rule> {
    Some(match note {
        Note::Misuse(Misuse::Reserved(_) | Misuse::DoubledBlock(_)) => Rule::OneDestination,
        Note::EmptyLoad => Rule::EmptyLoadIsDone,
        Note::Counted(Count::MalformedFetch) => Rule::BadFetchFailsAlone,
        Note::Counted(Count::DuplicateFetch) => Rule::SecondFetchIsIgnored,
        Note::Fetch(Supply::Pinned) => Rule::FetchFromPinsNeedsThem,
        Note::ProbeDeadline => Rule::ProbeDeadlineIsATimer,
        Note::AbortOfNothing => Rule::AbortOfNothingIsAcked,
        Note::StillOpen => Rule::AnswersComeInParts,
        Note::AnsweredAtOnce => Rule::FetchedRoundsAreClosed,
        Note::FetchForgets => Rule::FetchForgetsKeys,
        Note::Outcome(StoreOutcome::Failed(StoreFailure::SupplyOver)) => Rule::SupplyOverIsRemembered,
        Note::Down(_)
        | Note::Broke(_)
        | Note::Violation(_)
        | Note::Ignored(_)
        | Note::StrayAck
        | Note::Refused
        | Note::Held
        | Note::Counted(_)
        | Note::Misuse(_)
        | Note::Fetch(Supply::Await)
        | Note::Finish
        | Note::Outcome(_)
        | Note::LoadFailed(_) => return None,
    })
}

/// What an operation makes different for its request from here on.
pub(crate) fn of_step(step: &Step) -> Option<Rule> {
    let msg = &step.op["msg"];
    match (step.name(), msg["type"].as_str()) {
        // vLLM meets stores with round 0 only; so the others wait for ever.
        ("recv", Some("fetch")) if msg["round_seq"] != json!(0) => Some(Rule::SupplyIsTheRequests),
        ("finish_request", _) => Some(Rule::FinishIsOurs),
        _ => None,
    }
}

/// What is different by itself.
pub(crate) fn of_item(side: Side, item: &Item, seen: &Seen<'_>) -> Option<Rule> {
    let is_terminal_fetch =
        |item: &Item| matches!(item, Item::Sent { kind, detail, .. } if kind == "fetch" && detail == "[] []");
    match (side, item, seen.step.name()) {
        (Side::Ours, item, "finish_request") if is_terminal_fetch(item) => Some(Rule::ReleaseIsSaid),
        (Side::Ours, Item::Load { ok: false, .. }, "finish_request") => Some(Rule::HeldEndsAtOnce),
        (Side::Vllm, Item::Sent { .. }, _) if !seen.up => Some(Rule::WorkWaitsForBothAcks),
        (Side::Vllm, Item::Store { ok: false, .. }, "poll") if seen.age >= 30.0 => {
            Some(Rule::UnclaimedWaitsLonger)
        }
        _ => None,
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Side {
    Vllm,
    Ours,
}

/// What was known when an item came.
pub(crate) struct Seen<'s> {
    pub(crate) step: &'s Step,
    /// Whether our side was up.
    pub(crate) up: bool,
    /// Of a store: how many seconds ago it was made.
    pub(crate) age: f64,
}

/// How a session ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum End {
    /// Both sides for the same reason, or at the engine's wish.
    Same,
    Different(Rule),
}

/// Why our session is over.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum OurEnd {
    /// A message of this type broke a rule.
    Broke(&'static str),
    Down(CloseReason),
}

/// Why it is all right that vLLM's session ended so, and ours so, in the same step; `None` is: it did not end.
pub(crate) fn of_end(vllm: Option<&str>, ours: Option<OurEnd>, up: bool) -> Option<End> {
    let death = vllm.unwrap_or("");
    let malformed = death.starts_with("protocol error: malformed") && !death.contains("duplicate");
    let unregistered =
        death.starts_with("peer registration failed") || death.starts_with("rejected peer connect");
    Some(match (vllm, ours) {
        (None, None | Some(OurEnd::Down(CloseReason::Closed))) => End::Same,
        (Some("peer disconnected"), Some(OurEnd::Down(CloseReason::Goodbye(_)))) => End::Same,
        (Some(_), Some(OurEnd::Down(CloseReason::RejectedByUs(_)))) if unregistered => End::Same,
        (Some(_), Some(OurEnd::Down(CloseReason::Lost))) if death.starts_with("send of") => End::Same,
        (Some(_), Some(OurEnd::Broke("malformed"))) if malformed => End::Same,
        // In one batch with a `connect` whose region is not registered, which we look at first.
        (Some(_), Some(OurEnd::Down(CloseReason::RejectedByUs(_)))) if malformed => End::Same,
        (Some(_), None) if death.contains("duplicate fetch") => End::Different(Rule::SecondFetchIsIgnored),
        // It tried to send what we still hold.
        (Some(_), None) if death.starts_with("send of") && !up => End::Different(Rule::WorkWaitsForBothAcks),
        (Some("lookup response timed out"), None) => End::Different(Rule::LookupTimeoutIsTheRequests),
        (None, Some(OurEnd::Broke("malformed"))) => End::Different(Rule::MalformedEnds),
        (_, Some(OurEnd::Broke("connect_ack"))) => End::Different(Rule::SecondAckEnds),
        (_, Some(OurEnd::Broke(_))) => End::Different(Rule::WorkWaitsForBothAcks),
        (None, Some(OurEnd::Down(CloseReason::AbortUnacked))) => End::Different(Rule::UnackedAbortEnds),
        (None, Some(OurEnd::Down(CloseReason::Unreachable))) => End::Different(Rule::DeadlineFromTheStart),
        _ => return None,
    })
}
