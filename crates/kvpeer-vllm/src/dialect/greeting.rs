//! The handshake.

use kvpeer_wire::{Compat, FingerprintBuf, Msg, PeerId, RegionInfo, Text};

use super::{Said, Terms, Violation};
use crate::wire::{Connect, ConnectAck, Message};

/// The name under which vLLM's configuration digest is compared. An empty digest is no pair at all: to accept
/// anything must be asked for by name.
pub const FINGERPRINT_NAME: &str = "config_fingerprint";

/// The fingerprint of a node that wants to work with vLLM nodes of this configuration digest.
///
/// Of digests longer than a message may carry nothing is taken.
pub fn fingerprint(digest: &str) -> FingerprintBuf {
    let mut pairs = FingerprintBuf::new();
    if !digest.is_empty() {
        // Too long a digest: no pair, so that it matches no vLLM node's.
        let _ = pairs.push(FINGERPRINT_NAME, digest);
    }
    pairs
}

/// Who has said what.
#[derive(Clone, Debug)]
pub(super) struct Greeting {
    peer: PeerId,
    incarnation: u64,
    ours: Ours,
    acked: Acked,
    their_ack: TheirAck,
}

/// Our `connect`.
#[derive(Clone, Debug)]
enum Ours {
    Unsaid,
    Said { peer_id: PeerId, incarnation: u64 },
}

/// Our `connect_ack`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Acked {
    No,
    Yes,
}

/// The peer's `connect_ack`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum TheirAck {
    Awaited,
    Heard,
    /// It has said goodbye.
    Over,
}

impl Greeting {
    pub(super) fn new(peer: PeerId, incarnation: u64) -> Self {
        Self { peer, incarnation, ours: Ours::Unsaid, acked: Acked::No, their_ack: TheirAck::Awaited }
    }

    /// vLLM takes our ack as leave to send work, whether it has acknowledged us or not. The core wants both.
    /// Work before our own ack is not early but wrong, and the core says so.
    pub(super) fn work_is_early(&self) -> bool {
        self.acked == Acked::Yes && self.their_ack == TheirAck::Awaited
    }

    pub(super) fn may_send_work(&self) -> bool {
        self.acked == Acked::Yes
    }

    pub(super) fn is_over(&self) -> bool {
        self.their_ack == TheirAck::Over
    }

    pub(super) fn end(&mut self) {
        self.their_ack = TheirAck::Over;
    }

    pub(super) fn hear_connect(
        &self,
        connect: &Connect<'_>,
        terms: &Terms,
        core: &mut dyn FnMut(Msg<'_>),
    ) -> Result<(), Violation> {
        if connect.peer_id != self.peer.as_name() {
            return Err(Violation::ForeignId);
        }
        let digest = fingerprint(connect.config_fingerprint.as_str());
        core(Msg::Connect(kvpeer_wire::Connect {
            peer_id: connect.peer_id,
            incarnation: self.incarnation,
            region: RegionInfo {
                base_addr: connect.base_addr,
                num_blocks: connect.num_blocks,
                block_len: connect.block_len,
            },
            metadata: connect.agent_metadata,
            compat: Compat { hash_seed: connect.hash_seed, fingerprint: digest.as_fingerprint() },
            capabilities: 0,
            heartbeat_ms: terms.heartbeat_ms,
        }));
        Ok(())
    }

    pub(super) fn hear_ack(
        &mut self,
        ack: &ConnectAck<'_>,
        core: &mut dyn FnMut(Msg<'_>),
    ) -> Result<(), Violation> {
        if ack.peer_id != self.peer.as_name() {
            return Err(Violation::ForeignId);
        }
        self.their_ack = TheirAck::Heard;
        let incarnation = match &self.ours {
            Ours::Said { incarnation, .. } => *incarnation,
            // Nothing was there to be acknowledged, and the core says so whatever stands here.
            Ours::Unsaid => 0,
        };
        core(Msg::ConnectAck(kvpeer_wire::ConnectAck { incarnation }));
        Ok(())
    }

    pub(super) fn say_connect(&mut self, connect: &kvpeer_wire::Connect<'_>, out: &mut Vec<u8>) -> Said {
        self.ours = Ours::Said { peer_id: connect.peer_id.into(), incarnation: connect.incarnation };
        let digest = connect.compat.fingerprint.iter().find(|(name, _)| *name == FINGERPRINT_NAME);
        Message::Connect(Connect {
            peer_id: connect.peer_id,
            agent_metadata: connect.metadata,
            base_addr: connect.region.base_addr,
            num_blocks: connect.region.num_blocks,
            block_len: connect.region.block_len,
            config_fingerprint: digest.map_or(Text::default(), |(_, digest)| Text::truncated(digest)),
            hash_seed: connect.compat.hash_seed,
        })
        .encode(out);
        Said::Payload
    }

    pub(super) fn say_ack(&mut self, out: &mut Vec<u8>) -> Said {
        let Ours::Said { peer_id, .. } = &self.ours else { return Said::Nothing };
        self.acked = Acked::Yes;
        Message::ConnectAck(ConnectAck { peer_id: peer_id.as_name() }).encode(out);
        Said::Payload
    }
}
