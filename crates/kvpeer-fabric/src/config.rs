//! How a plane is set up.

use std::net::IpAddr;
use std::time::Duration;

use crate::domain::Domain;
use crate::error::FabricError;
use crate::memory::Memory;
use crate::provider::Provider;
use crate::right::Rules;
use crate::runs::Shape;

/// Bytes of one RMA write at most. Merging beyond this gains nothing (measured: `tcp` is at its best from
/// 256 KiB on), and shorter writes let other rights have their turn.
const MAX_PART: u64 = 4 << 20;

/// Set up of a plane. [`FabricConfig::new`] fills in the defaults.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FabricConfig {
    /// The libfabric provider. Default `tcp`.
    pub provider: Provider,
    /// The address that endpoints listen on, and that is told to peers in the metadata: so neither unspecified
    /// nor unreachable for them. Ignored by `shm`.
    pub bind: IpAddr,
    /// Bytes per block.
    pub block_len: u64,
    /// Blocks in our region; `block_len * num_blocks` bytes from the memory's base on are exposed.
    pub num_blocks: u32,
    /// A transfer that has not ended so long after its `write` is reported as `Stalled`. Default 30 s.
    pub write_deadline: Duration,
    /// RMA writes in flight per right at most (lower if the provider's own limit is). Default 128.
    pub window: u32,
    /// RMA writes that may wait per right; a transfer that does not fit is refused. About 100 bytes each.
    /// Default 65,536.
    pub queue_limit: usize,
}

impl FabricConfig {
    /// Provider `tcp`, default limits.
    #[must_use]
    pub const fn new(bind: IpAddr, block_len: u64, num_blocks: u32) -> Self {
        Self {
            provider: Provider::Tcp,
            bind,
            block_len,
            num_blocks,
            write_deadline: Duration::from_secs(30),
            window: 128,
            queue_limit: 65_536,
        }
    }

    /// Refuses what cannot work, before anything is opened. Answers how many bytes of the memory to expose.
    pub(crate) fn check(&self, memory: &dyn Memory) -> Result<usize, FabricError> {
        let refuse = |reason: String| Err(FabricError::Config { reason });
        if self.provider.has_addresses() && self.bind.is_unspecified() {
            return refuse(format!(
                "the bind address is {}, which peers cannot connect to: name an address of this host",
                self.bind
            ));
        }
        if self.window == 0 || self.queue_limit == 0 {
            return refuse("window and queue_limit must be at least 1".to_owned());
        }
        let bytes =
            self.block_len.checked_mul(self.num_blocks.into()).and_then(|bytes| usize::try_from(bytes).ok());
        match bytes {
            None | Some(0) => refuse(format!(
                "{} blocks of {} bytes are no region that can be addressed",
                self.num_blocks, self.block_len
            )),
            Some(bytes) if bytes > memory.len() => refuse(format!(
                "{} blocks of {} bytes need {bytes} bytes, the memory has {}",
                self.num_blocks,
                self.block_len,
                memory.len()
            )),
            Some(bytes) => Ok(bytes),
        }
    }

    /// What the configuration and the provider make together.
    pub(crate) fn rules(&self, domain: &Domain) -> Rules {
        Rules {
            shape: Shape {
                block_len: self.block_len,
                max_part: domain.max_message().clamp(1, MAX_PART),
                max_pieces: domain.max_pieces(),
            },
            num_blocks: self.num_blocks,
            queue_limit: self.queue_limit,
        }
    }

    pub(crate) fn window(&self, domain: &Domain) -> u32 {
        u32::try_from(domain.transmit_depth()).unwrap_or(u32::MAX).clamp(1, self.window)
    }
}
