//! What is answered here, because vLLM has no words for it.

use kvpeer_wire::{Bits, Failure, FetchProgress, Msg, Outcome, RequestId, Round, TransferDone};

/// What became of a message of the core's.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Said {
    /// A payload was appended: send it.
    Payload,
    /// vLLM needs not know.
    Nothing,
    /// A payload was appended; and the core is to be told this, as if the peer had said it.
    PayloadAnd(Answer),
    /// Nothing was appended; the core is to be told this instead.
    Instead(Answer),
}

/// A message in the peer's stead. To be given to the core after it has done what it is doing.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Answer {
    /// A fetch may have to wait for its supply.
    Parked {
        /// Of the fetch.
        request: RequestId,
        /// Of the fetch.
        round: Round,
        /// How many blocks it demands.
        blocks: u32,
    },
    /// A fetch that vLLM could not tell from another one was not sent.
    Refused {
        /// Of the fetch.
        request: RequestId,
        /// Of the fetch.
        round: Round,
    },
}

impl Answer {
    /// The message.
    pub fn as_msg(&self) -> Msg<'_> {
        match self {
            Self::Parked { request, round, blocks } => Msg::FetchProgress(FetchProgress {
                request: request.as_name(),
                round: *round,
                matched: 0,
                parked: *blocks,
                landed: 0,
            }),
            // It never left, so nothing can land: it is settled.
            Self::Refused { request, round } => Msg::TransferDone(TransferDone {
                request: request.as_name(),
                round: *round,
                outcome: Outcome::Failed { why: Failure::Overloaded, settled: true, landed: Bits::default() },
            }),
        }
    }
}
