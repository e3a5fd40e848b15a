//! Who may get a memory key.

use kvpeer_wire::PeerName;

use crate::plane::ConnInfo;

/// Decides about a peer before it gets a memory key, with which it could write anywhere in the region.
///
/// Any `FnMut(&Candidate<'_>) -> Verdict` is one. It runs on the node's thread and must not block.
pub trait Admission: Send {
    /// Decides.
    fn admit(&mut self, candidate: &Candidate<'_>) -> Verdict;
}

/// A peer that passed all other checks.
#[derive(Clone, Copy, Debug)]
pub struct Candidate<'a> {
    /// Who it says it is, or was dialled to be.
    pub peer: PeerName<'a>,
    /// What the control plane knows about it.
    pub conn: &'a ConnInfo,
}

/// The decision.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// It gets a key.
    Admit,
    /// It is told `unauthorized`.
    Refuse,
}

impl<F> Admission for F
where
    F: FnMut(&Candidate<'_>) -> Verdict + Send,
{
    fn admit(&mut self, candidate: &Candidate<'_>) -> Verdict {
        self(candidate)
    }
}

/// Takes every peer: for networks in which only trusted hosts can connect.
#[derive(Clone, Copy, Default, Debug)]
pub struct AdmitAll;

impl Admission for AdmitAll {
    fn admit(&mut self, _: &Candidate<'_>) -> Verdict {
        Verdict::Admit
    }
}
