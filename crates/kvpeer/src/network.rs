//! The common case: messages over TCP, blocks over libfabric.

use std::net::SocketAddr;

use kvpeer_fabric::FabricConfig;
use kvpeer_tcp::TcpConfig;

use crate::cache::BlockCache;
use crate::fabric::FabricData;
use crate::node::{Node, NodeConfig, NodeError};
use crate::plane::Planes;
use crate::tcp::TcpControl;

/// How both planes of the common case are set up.
#[derive(Clone, Debug)]
pub struct TcpFabric {
    /// The control plane.
    pub tcp: TcpConfig,
    /// The data plane. The number and length of its blocks come from the region.
    pub fabric: FabricConfig,
}

impl TcpFabric {
    /// Listens for both at this address; port 0 takes a free one.
    ///
    /// The data plane tells its address to peers, so it cannot be `0.0.0.0` or `[::]`: to listen on all interfaces,
    /// set `tcp.listen`, and leave an address of this host here.
    pub fn listening(address: SocketAddr) -> Self {
        Self { tcp: TcpConfig::listening(address), fabric: FabricConfig::new(address.ip(), 0, 0) }
    }

    /// Opens both planes for a node of this configuration.
    ///
    /// # Errors
    /// When one of them cannot be set up; says what to do about it.
    pub fn open(mut self, config: &NodeConfig) -> Result<Planes, NodeError> {
        // The endpoint refuses with a reason what is over its own limits; the plane only holds off the rest.
        self.tcp.handshaking = self.tcp.handshaking.max(config.limits.handshakes.saturating_mul(2));
        self.tcp.closing = self.tcp.closing.max(config.limits.peers.saturating_mul(2));
        // What connections hold is a part of what peers make the node keep.
        self.tcp.buffered_bytes = self.tcp.buffered_bytes.min(config.limits.total_bytes / 4);
        let keys = u32::try_from(config.limits.keys).unwrap_or(u32::MAX);
        self.tcp.limits.keys = self.tcp.limits.keys.max(keys);
        let control = TcpControl::bind(self.tcp)?;
        let data = FabricData::open(&self.fabric, &config.region)?;
        Ok(Planes::new(control, data))
    }
}

impl Node {
    /// A node with its messages over TCP and its blocks over libfabric.
    ///
    /// # Errors
    /// As [`TcpFabric::open`] and [`Node::new`].
    pub fn tcp_fabric(
        config: &NodeConfig,
        network: TcpFabric,
        cache: impl BlockCache + 'static,
    ) -> Result<Self, NodeError> {
        Self::new(config, network.open(config)?, cache)
    }
}
