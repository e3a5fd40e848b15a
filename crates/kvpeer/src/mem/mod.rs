//! Planes inside one process, without sockets and libfabric.
//!
//! Real ones, for several nodes in one process: messages are encoded and decoded, WRITEs copy between regions a
//! few blocks at a time, and a closed right is a proven fence. For examples, tests, and engines that share a
//! process. Tests can break links ([`MemNet::cut`]), refuse dials, and stop WRITEs half-way
//! ([`MemNet::allow_blocks`]).

mod control;
mod data;
mod doors;
mod hub;

use std::sync::Arc;

use crate::plane::Planes;
use crate::region::Region;

use self::control::MemControl;
use self::data::MemData;
use self::doors::Doors;
use self::hub::Hub;

/// A network inside of this process. Cheap to clone; clones are one network.
#[derive(Clone, Debug)]
pub struct MemNet {
    hub: Arc<Hub>,
    doors: Arc<Doors>,
}

/// Why a node cannot join.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum JoinError {
    /// Each node needs an address of its own.
    #[error("another node of this network has the address {address:?}")]
    AddressInUse {
        /// The address.
        address: String,
    },
}

/// Whether a node can be dialled.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Dials {
    /// It can.
    Accepted,
    /// Dials to it fail.
    Refused,
}

impl MemNet {
    /// A network without nodes.
    pub fn new() -> Self {
        Self { hub: Arc::new(Hub::new()), doors: Arc::new(Doors::new()) }
    }

    /// The planes of a new node, which others dial as `address`. It leaves when they are dropped.
    ///
    /// # Errors
    /// When another node has that address.
    pub fn join(&self, address: &str, region: &Arc<Region>) -> Result<Planes, JoinError> {
        let control = MemControl::join(&self.hub, address)?;
        Ok(Planes::new(control, MemData::new(&self.doors, region)))
    }

    /// Breaks all connections between two nodes. What was sent and not yet received is lost.
    pub fn cut(&self, a: &str, b: &str) {
        self.hub.cut(a, b);
    }

    /// Whether dials to this node succeed from now on; at first they do. Connections stay.
    pub fn set_dials(&self, address: &str, dials: Dials) {
        self.hub.set_dials(address, dials);
    }

    /// WRITEs of all nodes stop after this many more blocks; `None`: they do not stop. Stopped ones go on when
    /// more is allowed.
    pub fn allow_blocks(&self, blocks: Option<u64>) {
        self.doors.allow(blocks);
        self.hub.wake_all();
    }
}

impl Default for MemNet {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests;
