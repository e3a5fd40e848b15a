//! Effects: what the core wants the planes and the block cache to do.

use kvpeer_wire::{Keys, Msg, PeerName, RegionInfo, Round};

use crate::{BlockIdx, ConnId, Count, Epoch, Event, KeyAt, PeerId, ProbeId, RequestId, XferId};

/// One effect, valid during the call that hands it out. They come in causal order.
#[derive(Clone, Copy, Debug)]
pub enum Action<'a> {
    /// Open a connection; answered by `Connected{origin: Dialed(epoch)}` or `DialFailed`.
    Dial {
        /// Names this attempt.
        epoch: Epoch,
        /// Whom.
        peer: &'a PeerId,
        /// Where, as the engine gave it.
        address: &'a str,
    },
    /// Give up a dial; a connection that it still brings is closed when it is reported.
    CancelDial {
        /// Which.
        epoch: Epoch,
    },
    /// Send a message.
    Send {
        /// On which connection.
        conn: ConnId,
        /// What.
        msg: Msg<'a>,
    },
    /// Close a connection once what was sent on it has left. Nothing more is read from it.
    Close {
        /// Which.
        conn: ConnId,
    },
    /// Decide whether this peer may get a memory key (HS-12); answered by `Admitted`.
    Admit {
        /// Names the link attempt.
        epoch: Epoch,
        /// What the control plane has proved about the peer belongs to this connection.
        conn: ConnId,
        /// Who it says, or was dialled to be.
        peer: PeerName<'a>,
    },
    /// Open an endpoint, queue and memory key for one link; answered by `RightOpened`.
    OpenRight {
        /// Names the right.
        epoch: Epoch,
    },
    /// Get ready to write to the peer; answered by `Registered`.
    Register {
        /// Whose right is used.
        epoch: Epoch,
        /// Where the peer's blocks lie.
        region: RegionInfo,
        /// From the peer's `connect`, as hostile as any byte of it.
        metadata: &'a [u8],
    },
    /// Close the endpoint, then the queue and the key, also of a right that is still opening. Every outstanding
    /// transfer is reported as `Fenced`, then comes `RightClosed`.
    CloseRight {
        /// Which.
        epoch: Epoch,
    },
    /// Write blocks into the peer's region: `src[i]` to `dst[i]`. Answered by exactly one `Transfer`.
    Write {
        /// Names the WRITE.
        xfer: XferId,
        /// Blocks of our region.
        src: &'a [BlockIdx],
        /// Blocks of the peer's region, as many.
        dst: &'a [BlockIdx],
    },
    /// A wish only: what of the WRITE has not left yet need not leave any more.
    Cancel {
        /// Which.
        xfer: XferId,
    },
    /// Look up keys and pin what is there, in one step; answered by `Probed`, in parts if need be.
    Probe {
        /// Names the lookup.
        probe: ProbeId,
        /// Who asks.
        peer: &'a PeerId,
        /// For which request.
        request: &'a RequestId,
        /// In which of its rounds.
        round: Round,
        /// All keys of the lookup; [`KeyAt`] counts in these.
        keys: Keys<'a>,
        /// Those that have no answer yet, in increasing order.
        open: &'a [KeyAt],
    },
    /// The lookup needs no more answers.
    EndProbe {
        /// Which.
        probe: ProbeId,
    },
}

/// Where effects go. Called in causal order (CMD-12), during `handle` and `command` only.
///
/// An implementation must not call back into the endpoint: it carries the action out, or puts it down for later.
pub trait Sink {
    /// An effect to bring about.
    fn act(&mut self, action: Action<'_>);
    /// News for the engine.
    fn tell(&mut self, event: Event<'_>);
    /// Something that was ignored or refused; for statistics (CMD-14).
    fn count(&mut self, what: Count) {
        let _ = what;
    }
}
