//! What a node is made with.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use kvpeer_core::{Compatibility, Config, ConfigError, Identity, Limits, PeerId, Timing};
use kvpeer_wire::{NameError, PeerName, RegionInfo};

use crate::plane::Planes;
use crate::region::Region;

/// What a node is made with. [`NodeConfig::new`] has a default for all but the region.
#[derive(Clone, Debug)]
pub struct NodeConfig {
    /// The blocks. The data plane must be made with the same region.
    pub region: Arc<Region>,
    /// The advertised identity, by which peers know this node. `None`: the control plane's own address.
    pub peer_id: Option<PeerId>,
    /// Larger is newer: tells this process from an earlier one of the same identity. `None`: the wall clock in
    /// microseconds, now (ID-4).
    pub incarnation: Option<u64>,
    /// From where this node can be reached.
    pub reach: Reach,
    /// What must agree with a peer for blocks to mean the same on both sides.
    pub compat: Compatibility,
    /// How long things may take.
    pub timing: Timing,
    /// How much may be kept.
    pub limits: Limits,
    /// How many results may wait to be taken before lookups of peers are answered with misses only, so that no
    /// new pins make more; and how many notices are kept. See [`Event`](crate::Event).
    pub event_backlog: usize,
}

/// From where a node can be reached; decides whether loopback identities are of use.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Reach {
    /// As the control plane's address says: from this host only if that is a loopback address.
    #[default]
    Auto,
    /// From this host only.
    Loopback,
    /// From other hosts.
    Network,
}

impl NodeConfig {
    /// The defaults.
    pub fn new(region: Arc<Region>) -> Self {
        Self {
            region,
            peer_id: None,
            incarnation: None,
            reach: Reach::Auto,
            compat: Compatibility::default(),
            timing: Timing::default(),
            limits: Limits::default(),
            event_backlog: 65_536,
        }
    }

    /// The same with this identity: 1 to 255 bytes, for example `10.0.0.7:5710`.
    pub fn named(mut self, peer_id: &str) -> Result<Self, NameError> {
        self.peer_id = Some(PeerName::new(peer_id)?.into());
        Ok(self)
    }

    /// The endpoint's configuration on these planes.
    pub(crate) fn for_planes(&self, planes: &Planes) -> Result<Config, NodeError> {
        let address = planes.control.address();
        let peer_id = match (&self.peer_id, &address) {
            (Some(peer_id), _) => peer_id.clone(),
            (None, Some(address)) if !ip_of(address).is_some_and(|ip| ip.is_unspecified()) => {
                PeerName::new(address)?.into()
            }
            (None, Some(_) | None) => return Err(NodeError::NoIdentity),
        };
        let loopback = match self.reach {
            Reach::Auto => address.and_then(|address| ip_of(&address)).is_some_and(|ip| ip.is_loopback()),
            Reach::Loopback => true,
            Reach::Network => false,
        };
        let identity =
            Identity { peer_id, incarnation: self.incarnation.unwrap_or_else(wall_micros), loopback };
        let region = RegionInfo { base_addr: planes.data.base_addr(), ..self.region.info() };
        let config = Config::new(identity, region, self.compat.clone());
        Ok(Config { timing: self.timing.clone(), limits: self.limits.clone(), ..config })
    }
}

fn ip_of(address: &str) -> Option<IpAddr> {
    address.parse::<SocketAddr>().ok().map(|address| address.ip().to_canonical())
}

fn wall_micros() -> u64 {
    // Before 1970 every clock is wrong: 0 then, the oldest.
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_micros()).unwrap_or(u64::MAX)
}

/// Why there is no node.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NodeError {
    /// Nothing says who this node is.
    #[error(
        "the node has no identity: set `NodeConfig::peer_id`, since its control plane listens nowhere or everywhere"
    )]
    NoIdentity,
    /// The identity is no name.
    #[error("the node's identity cannot be used: {0}")]
    Name(#[from] NameError),
    /// The configuration contradicts itself.
    #[error("{0}")]
    Config(#[from] ConfigError),
    /// The control plane cannot be set up.
    #[cfg(feature = "tcp")]
    #[error("{0}")]
    Tcp(#[from] kvpeer_tcp::TcpError),
    /// The data plane cannot be set up.
    #[cfg(feature = "fabric")]
    #[error("{0}")]
    Fabric(#[from] kvpeer_fabric::FabricError),
    /// The system gives no thread.
    #[error("cannot start the node's thread: {0}")]
    Thread(#[source] std::io::Error),
}
