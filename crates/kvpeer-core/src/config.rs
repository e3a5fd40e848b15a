//! What a node is, and every bound it keeps.

use alloc::string::String;
use core::time::Duration;

use kvpeer_wire::{Compat, FingerprintBuf, MAX_NAME_LEN, PeerName, RegionInfo, Text};

use crate::{PeerId, Refusal};

/// Everything an [`Endpoint`](crate::Endpoint) has to know beforehand.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Config {
    /// Who we are.
    pub identity: Identity,
    /// Where our blocks lie.
    pub region: RegionInfo,
    /// What must agree with a peer.
    pub compat: Compatibility,
    /// How long things may take.
    pub timing: Timing,
    /// How much may be kept.
    pub limits: Limits,
}

/// Who a node is.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Identity {
    /// The advertised identity; it need not be the bind address.
    pub peer_id: PeerId,
    /// Larger is newer: tells this process from an earlier one of the same name.
    pub incarnation: u64,
    /// Whether the control plane is bound to loopback, so that loopback ids are of use.
    pub loopback: bool,
}

/// What must agree for blocks to mean the same on both sides; the block length must, too.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Compatibility {
    /// Names the hash chain's seed; at most 255 bytes.
    pub hash_seed: String,
    /// What a block holds: model, revision, layout, ….
    pub fingerprint: FingerprintBuf,
    /// Whether fingerprints are compared.
    pub check: FingerprintCheck,
}

/// Whether fingerprints are compared.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum FingerprintCheck {
    /// Name by name, in order.
    #[default]
    Exact,
    /// Not at all: peers with any fingerprint are taken. Wrong blocks are then the operator's problem.
    AcceptAny,
}

impl Compatibility {
    pub(crate) fn as_compat(&self) -> Compat<'_> {
        Compat { hash_seed: Text::truncated(&self.hash_seed), fingerprint: self.fingerprint.as_fingerprint() }
    }
}

/// How long things may take. The variants of [`Timer`](crate::Timer) say which of these passed.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
#[allow(missing_docs, reason = "each is described by the Timer variant of its name, and in docs/protocol.md")]
pub struct Timing {
    pub handshake: Duration,
    pub load: Duration,
    /// Largest and default `wait_ms` of a fetch.
    pub parked: Duration,
    /// Added to `wait_ms` by the consumer.
    pub parked_slack: Duration,
    /// Shortest time between two `fetch_progress` of a round.
    pub progress: Duration,
    pub write: Duration,
    pub cancel_retry: Duration,
    pub abort_ack: Duration,
    pub close_right: Duration,
    pub lookup: Duration,
    pub probe: Duration,
    pub probe_retry: Duration,
    pub store: Duration,
    pub unbound: Duration,
    pub remembered: Duration,
    pub pin: Duration,
    pub drain: Duration,
    pub heartbeat: Duration,
    /// Silence after which a peer is dead; at least five of its heartbeats are waited for.
    pub dead: Duration,
    /// The longest heartbeat interval that a peer can make us believe.
    pub max_peer_heartbeat: Duration,
    pub idle: Duration,
    /// First and longest wait between refused dials.
    pub redial: (Duration, Duration),
    /// First (after an immediate one) and longest wait after faults and refusals.
    pub backoff: (Duration, Duration),
}

impl Default for Timing {
    fn default() -> Self {
        let s = Duration::from_secs;
        let ms = Duration::from_millis;
        Self {
            handshake: s(30),
            load: s(30),
            parked: s(60),
            parked_slack: s(5),
            progress: s(1),
            write: s(30),
            cancel_retry: ms(100),
            abort_ack: s(10),
            close_right: s(10),
            lookup: s(30),
            probe: s(5),
            probe_retry: ms(100),
            store: s(30),
            unbound: s(60),
            remembered: s(60),
            pin: s(30),
            drain: s(10),
            heartbeat: s(2),
            dead: s(10),
            max_peer_heartbeat: s(10),
            idle: s(300),
            redial: (ms(100), s(5)),
            backoff: (s(1), s(60)),
        }
    }
}

/// How much may be kept (I7, LIM-1), and how much is done in one call (LIM-5).
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Limits {
    /// Peers with a link.
    pub peers: usize,
    /// Inbound connections that have not finished their handshake.
    pub handshakes: usize,
    /// Keys in one lookup, fetch, load or store.
    pub keys: usize,
    /// Held pieces of work for one peer.
    pub held: usize,
    /// Bytes of held work for one peer.
    pub held_bytes: usize,
    /// Requests with live rounds or lookups, for one peer; and requests open on this node.
    pub requests: usize,
    /// Live rounds of one request.
    pub rounds: usize,
    /// Demanded blocks that wait for supply, for one peer.
    pub parked_blocks: usize,
    /// Blocks pinned by lookups, for one peer.
    pub pinned_blocks: usize,
    /// Lookups that wait for the block cache, for one peer.
    pub lookups: usize,
    /// Ids remembered after their supply was over.
    pub remembered: usize,
    /// Bytes that one peer can make us keep.
    pub peer_bytes: usize,
    /// Bytes that all peers together can make us keep.
    pub total_bytes: usize,
    /// Free peer slots below which idle peers are evicted.
    pub spare_peers: usize,
    /// Bytes in one WRITE; at least one block.
    pub write_bytes: u64,
    /// Bytes in flight to one peer; at least one WRITE.
    pub window_bytes: u64,
    /// Deadlines handled in one `Tick`; the rest stay due.
    pub timers_per_tick: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            peers: 128,
            handshakes: 32,
            keys: 16_384,
            held: 1_024,
            held_bytes: 8 << 20,
            requests: 65_536,
            rounds: 64,
            parked_blocks: 1 << 20,
            pinned_blocks: 65_536,
            lookups: 1_024,
            remembered: 65_536,
            peer_bytes: 32 << 20,
            total_bytes: 256 << 20,
            spare_peers: 8,
            write_bytes: 1 << 20,
            window_bytes: 16 << 20,
            timers_per_tick: 256,
        }
    }
}

impl Limits {
    /// Blocks in one WRITE.
    pub(crate) fn write_blocks(&self, block_len: u64) -> usize {
        usize::try_from(self.write_bytes / block_len.max(1)).unwrap_or(usize::MAX).max(1)
    }

    /// Blocks in flight to one peer.
    pub(crate) fn window_blocks(&self, block_len: u64) -> usize {
        let window = usize::try_from(self.window_bytes / block_len.max(1)).unwrap_or(usize::MAX);
        window.max(self.write_blocks(block_len))
    }
}

/// What a message can carry, whatever a node is configured to.
const MAX_KEYS: usize = 16_384;
const MAX_FINGERPRINT: usize = 32 << 10;

impl Timing {
    /// TMR-5: what is repeated at once is repeated for ever.
    fn validate(&self) -> Result<(), ConfigError> {
        let repeated = [
            ("heartbeat", self.heartbeat),
            ("cancel-retry", self.cancel_retry),
            ("probe-retry", self.probe_retry),
            ("redial", self.redial.0),
        ];
        match repeated.iter().find(|(_, interval)| interval.is_zero()) {
            Some((name, _)) => Err(ConfigError::Interval(name)),
            None => Ok(()),
        }
    }
}

/// Why a configuration cannot be used.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ConfigError {
    /// Our own id would be refused by every peer.
    #[error("the advertised id cannot be used: {0}")]
    Identity(Refusal),
    /// Blocks have at least one byte, and a region at least one block.
    #[error("a region needs at least one block of at least one byte")]
    EmptyRegion,
    /// The region does not fit the address space.
    #[error("the region does not fit the address space")]
    RegionTooLarge,
    /// The hash seed is too long.
    #[error("the hash seed has {0} bytes, at most 255 are allowed")]
    HashSeed(usize),
    /// The fingerprint is too long: a `connect` must fit into a frame of 64 KiB.
    #[error("the fingerprint takes {0} bytes, at most 32768 are allowed")]
    Fingerprint(usize),
    /// Jobs of more keys than a message can carry, or of none.
    #[error("{0} keys in a message, 1 to 16384 are allowed")]
    Keys(usize),
    /// A timer that would fire without end.
    #[error("the {0} interval must not be zero")]
    Interval(&'static str),
}

impl Config {
    /// A node with default timing and limits.
    pub fn new(identity: Identity, region: RegionInfo, compat: Compatibility) -> Self {
        Self { identity, region, compat, timing: Timing::default(), limits: Limits::default() }
    }

    pub(crate) fn validate(&self) -> Result<(), ConfigError> {
        let RegionInfo { base_addr, num_blocks, block_len } = self.region;
        if num_blocks == 0 || block_len == 0 {
            return Err(ConfigError::EmptyRegion);
        }
        let end = block_len.checked_mul(u64::from(num_blocks)).and_then(|len| base_addr.checked_add(len));
        if end.is_none() {
            return Err(ConfigError::RegionTooLarge);
        }
        if self.compat.hash_seed.len() > MAX_NAME_LEN {
            return Err(ConfigError::HashSeed(self.compat.hash_seed.len()));
        }
        let fingerprint = self.compat.fingerprint.as_fingerprint().as_bytes().len();
        if fingerprint > MAX_FINGERPRINT {
            return Err(ConfigError::Fingerprint(fingerprint));
        }
        if !(1..=MAX_KEYS).contains(&self.limits.keys) {
            return Err(ConfigError::Keys(self.limits.keys));
        }
        self.timing.validate()?;
        // ID-2, ID-3: nobody could dial us.
        match Host::of(self.identity.peer_id.as_name()) {
            Host::Any => Err(ConfigError::Identity(Refusal::AnyAddress)),
            Host::Loopback if !self.identity.loopback => Err(ConfigError::Identity(Refusal::Loopback)),
            Host::Loopback | Host::Other => Ok(()),
        }
    }
}

impl Identity {
    /// Whether a peer of this name can be told from us and be dialled (ID-2, ID-3).
    pub(crate) fn check_peer(&self, peer: PeerName<'_>) -> Result<(), Refusal> {
        if peer == self.peer_id.as_name() {
            return Err(Refusal::OwnId);
        }
        match Host::of(peer) {
            Host::Any => Err(Refusal::AnyAddress),
            Host::Loopback if !self.loopback => Err(Refusal::Loopback),
            Host::Loopback | Host::Other => Ok(()),
        }
    }
}

/// What the host part of an id says.
enum Host {
    Any,
    Loopback,
    Other,
}

impl Host {
    fn of(peer: PeerName<'_>) -> Self {
        let name = peer.as_str();
        let host = match name.strip_prefix('[') {
            Some(v6) => v6.split(']').next().unwrap_or(v6),
            None => match name.rsplit_once(':') {
                // A second colon: an IPv6 address without brackets and port.
                Some((host, _)) if !host.contains(':') => host,
                Some(_) | None => name,
            },
        };
        let ip = host.parse::<core::net::IpAddr>().map(|ip| ip.to_canonical());
        match ip {
            Ok(ip) if ip.is_unspecified() => Self::Any,
            Ok(ip) if ip.is_loopback() => Self::Loopback,
            Ok(_) => Self::Other,
            Err(_) if host == "*" || host.is_empty() => Self::Any,
            Err(_) if host.eq_ignore_ascii_case("localhost") => Self::Loopback,
            Err(_) => Self::Other,
        }
    }
}

#[cfg(test)]
mod tests {
    use kvpeer_wire::{PeerName, RegionInfo};

    use super::{Compatibility, Config, ConfigError, Identity};
    use crate::{PeerId, Refusal};

    fn config(name: &str, loopback: bool) -> Config {
        let peer_id = PeerId::from(PeerName::new(name).unwrap());
        let region = RegionInfo { base_addr: 0, num_blocks: 4, block_len: 4096 };
        Config::new(Identity { peer_id, incarnation: 1, loopback }, region, Compatibility::default())
    }

    // ID-2, ID-3
    #[test]
    fn ids_that_nobody_can_dial_are_refused() {
        let any = ["0.0.0.0:5710", "[::]:5710", "*:5710", ":5710", "::", "[::ffff:0.0.0.0]:1"];
        for name in any {
            assert_eq!(
                config(name, true).validate(),
                Err(ConfigError::Identity(Refusal::AnyAddress)),
                "{name}"
            );
        }
        for name in ["127.0.0.1:5710", "localhost:5710", "[::1]:5710", "::1", "127.9.9.9"] {
            assert_eq!(
                config(name, false).validate(),
                Err(ConfigError::Identity(Refusal::Loopback)),
                "{name}"
            );
            assert_eq!(config(name, true).validate(), Ok(()), "{name}");
        }
        for name in ["10.0.0.7:5710", "node-7", "node-7:5710", "[fd00::7]:5710", "fd00::7"] {
            assert_eq!(config(name, false).validate(), Ok(()), "{name}");
        }
    }

    // TMR-5
    #[test]
    fn regions_and_intervals_that_make_no_sense_are_refused() {
        let mut empty = config("n:1", false);
        empty.region.num_blocks = 0;
        assert_eq!(empty.validate(), Err(ConfigError::EmptyRegion));
        let mut beyond = config("n:1", false);
        beyond.region.base_addr = u64::MAX - 4096;
        assert_eq!(beyond.validate(), Err(ConfigError::RegionTooLarge));
        let mut restless = config("n:1", false);
        restless.timing.heartbeat = core::time::Duration::ZERO;
        assert_eq!(restless.validate(), Err(ConfigError::Interval("heartbeat")));
        let mut greedy = config("n:1", false);
        greedy.limits.keys = 16_385;
        assert_eq!(greedy.validate(), Err(ConfigError::Keys(16_385)));
    }
}
