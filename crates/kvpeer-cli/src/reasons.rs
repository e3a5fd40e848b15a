//! What the node's reasons mean for people, and which exit code they are.

use kvpeer::core::{CloseReason, LoadFailure, StoreFailure, StoreOutcome};
use kvpeer::wire::{DisconnectReason, Failure, RejectCode};

use crate::stopped::{Exit, Stopped};

/// Why blocks did not come from `peer`.
pub(crate) fn load_failure(peer: &str, why: LoadFailure) -> Stopped {
    let transfer = |what: &str| Stopped::new(Exit::Transfer, format!("{peer}: {what}"));
    match why {
        LoadFailure::Producer(failure) => producer_failure(peer, failure),
        LoadFailure::Aborted => transfer("the transfer was aborted"),
        LoadFailure::Timeout => transfer("the transfer made no progress in time"),
        LoadFailure::Overloaded => transfer("too much work waits for the peer"),
        LoadFailure::Session(reason) => close_reason(peer, reason),
    }
}

fn producer_failure(peer: &str, failure: Failure) -> Stopped {
    let (exit, what) = match failure {
        Failure::NoSupply => {
            (Exit::Missing, "it does not hold a block any more that it said it had; try again")
        }
        Failure::SupplyTimeout => {
            (Exit::Missing, "the blocks were not stored in time, or are no longer kept")
        }
        Failure::ProducerFinished => (Exit::Missing, "it finished the request without storing all blocks"),
        Failure::WriteFailed => (Exit::Transfer, "a WRITE failed; its log says why"),
        Failure::Overloaded => (Exit::Transfer, "it has too much to do; try again later"),
        Failure::Closing => (Exit::Transfer, "it is ending the session"),
        Failure::NotYours => (Exit::Peer, "the request's blocks belong to another node"),
        Failure::Malformed => {
            (Exit::Transfer, "it found the fetch malformed, which is a bug: please report it")
        }
        Failure::Other(_) => (Exit::Transfer, "it failed for a reason that this version has no name for"),
    };
    Stopped::new(exit, format!("{peer}: {what}"))
}

/// Why the session with `peer` ended, or never came up.
pub(crate) fn close_reason(peer: &str, reason: CloseReason) -> Stopped {
    let (exit, what): (Exit, &str) = match reason {
        CloseReason::Lost => (Exit::Transfer, "the connection broke"),
        CloseReason::Silent => (Exit::Transfer, "nothing was heard from it for too long"),
        CloseReason::Superseded => (Exit::Transfer, "it was restarted"),
        CloseReason::Goodbye(why) => (Exit::Transfer, goodbye(why)),
        CloseReason::RejectedByPeer(code) => (Exit::Peer, rejected_by_peer(code)),
        CloseReason::RejectedByUs(code) => (Exit::Peer, rejected_by_us(code)),
        CloseReason::Misbehaved(why) => {
            return Stopped::new(
                Exit::Peer,
                format!("{peer}: it broke the protocol ({why}); is it a kvpeer node?"),
            );
        }
        CloseReason::DataPlane => (Exit::Transfer, "the data plane lost it, or a WRITE failed"),
        CloseReason::WriteStalled => (Exit::Transfer, "a WRITE did not end in time"),
        CloseReason::Unsettled => (Exit::Transfer, "a transfer ended without proof that it is over"),
        CloseReason::AbortUnacked => (Exit::Transfer, "it did not acknowledge an abort in time"),
        CloseReason::Idle => (Exit::Transfer, "the session was idle for too long"),
        CloseReason::Closed | CloseReason::Shutdown => (Exit::Transfer, "this node closed the session"),
        CloseReason::HandshakeTimeout => {
            (Exit::Peer, "it accepted the connection but did not finish the handshake; is it a kvpeer node?")
        }
        CloseReason::Unreachable => {
            (Exit::Peer, "cannot be reached; check the address, and that `kvpeer serve` runs there")
        }
        CloseReason::TooManyPeers => (Exit::Peer, "this node has as many peers as it may"),
        CloseReason::Duplicate => (Exit::Peer, "another link to the same node is in use"),
    };
    Stopped::new(exit, format!("{peer}: {what}"))
}

fn rejected_by_peer(code: RejectCode) -> &'static str {
    match code {
        RejectCode::Version => {
            "refused: it speaks another version of the protocol; use the same kvpeer on both sides"
        }
        RejectCode::BlockLen => "refused: its blocks have another length; give the right --block-len",
        RejectCode::HashSeed => {
            "refused: its keys are made in another way; give the same --hash-seed on both sides, and do not mix token \
             keys and file keys"
        }
        RejectCode::Fingerprint => {
            "refused: it holds something else; give the same --fingerprint on both sides"
        }
        RejectCode::UnexpectedPeer => {
            "refused: it has another id; give the one that it advertises as --peer-id"
        }
        RejectCode::Duplicate => "refused: another connection from this node is in use",
        RejectCode::StaleIncarnation => "refused: a newer process of this node's id is connected to it",
        RejectCode::TooManyPeers => "refused: it has as many peers as it takes; try again later",
        RejectCode::Backoff => "refused for now, after a fault; try again later",
        RejectCode::Unauthorized => "refused: this node is not authorised there",
        RejectCode::RegistrationFailed => {
            "refused: its data plane cannot use this node's memory; check that both sides use the same --provider"
        }
        RejectCode::Other(_) => "refused, for a reason that this version has no name for",
    }
}

/// Why somebody who asked to be this peer was turned away.
pub(crate) fn refused(peer: &str, code: RejectCode) -> String {
    format!("{peer} was refused: {}", rejected_by_us(code))
}

fn rejected_by_us(code: RejectCode) -> &'static str {
    match code {
        RejectCode::Version => "speaks another version of the protocol; use the same kvpeer on both sides",
        RejectCode::BlockLen => "its blocks have another length; give the right --block-len",
        RejectCode::HashSeed => {
            "its keys are made in another way; give the same --hash-seed on both sides, and do not mix token keys and \
             file keys"
        }
        RejectCode::Fingerprint => "it holds something else; give the same --fingerprint on both sides",
        RejectCode::UnexpectedPeer => {
            "it has another id than expected; give the one that it advertises as --peer-id"
        }
        RejectCode::Duplicate => "another connection to it is in use",
        RejectCode::StaleIncarnation => "an older process of the same id answered",
        RejectCode::TooManyPeers => "this node has as many peers as it may",
        RejectCode::Backoff => "not tried again yet after a fault",
        RejectCode::Unauthorized => "it is not admitted by this node",
        RejectCode::RegistrationFailed => {
            "this node's data plane cannot use its memory; check that both sides use the same --provider"
        }
        RejectCode::Other(_) => "not accepted",
    }
}

fn goodbye(why: DisconnectReason) -> &'static str {
    match why {
        DisconnectReason::Shutdown => "it shuts down",
        DisconnectReason::Closed => "it closed the session",
        DisconnectReason::Idle => "it ended the session, which was idle",
        DisconnectReason::Protocol => {
            "it says that this node broke the protocol, which is a bug: please report it"
        }
        DisconnectReason::DataPlane => "its data plane to this node failed",
        DisconnectReason::WriteStalled => "its WRITEs to this node did not end in time",
        DisconnectReason::Unsettled => "it ended the session: a transfer ended without proof that it is over",
        DisconnectReason::AbortUnacked => "it ended the session: an abort was not acknowledged in time",
        DisconnectReason::Other(_) => "it ended the session",
    }
}

/// How a store ended.
pub(crate) fn store_outcome(outcome: StoreOutcome) -> String {
    match outcome {
        StoreOutcome::Delivered => "delivered".to_owned(),
        StoreOutcome::Partly { delivered } => format!("{delivered} blocks delivered, the others not"),
        StoreOutcome::Unclaimed => "not claimed".to_owned(),
        StoreOutcome::Failed(StoreFailure::WriteFailed) => "failed: a WRITE failed".to_owned(),
        StoreOutcome::Failed(StoreFailure::Aborted) => "failed: the consumer aborted its fetch".to_owned(),
        StoreOutcome::Failed(StoreFailure::Timeout) => "failed: not all of it was read in time".to_owned(),
        StoreOutcome::Failed(StoreFailure::SupplyOver) => "failed: the request is over".to_owned(),
        StoreOutcome::Failed(StoreFailure::Session(reason)) => {
            format!("failed: {}", close_reason("the consumer", reason))
        }
    }
}
