//! The memory whose blocks travel: one region for each node.

// The region is the one place of this crate that touches raw memory; each block of it says why it may.
#![allow(unsafe_code)]

mod cells;

use std::any::Any;
use std::fmt;
use std::io;
use std::ptr::NonNull;
use std::sync::Arc;

use kvpeer_core::BlockIdx;
use kvpeer_wire::RegionInfo;

/// `num_blocks` blocks of `block_len` bytes each, one after the other.
///
/// Peers write into it at any time, so there is never a Rust reference to its bytes: blocks are copied in and
/// out. Which blocks are stable is for the protocol to say: one's own, one's store's until its result, and a
/// load's once it is finished and `Reusable`. Reading another one gives bytes that may be torn, and no more harm.
///
/// A node's data plane shares the region (it is an [`Arc`]) and lets go of it only after it has closed every way
/// into it. The memory is given back when the last of them is gone.
pub struct Region {
    base: NonNull<u8>,
    num_blocks: u32,
    /// A block's bytes; all blocks together fit `isize`.
    block_len: usize,
    memory: Memory,
}

/// Who gives the memory back.
enum Memory {
    /// We do: mapped pages, this many bytes.
    Mapped { len: usize },
    /// The engine does, by whatever this does when it is dropped.
    Foreign { _keep: Box<dyn Any + Send + Sync> },
}

// SAFETY: the memory belongs to no thread, and all access to its bytes through `Region` is atomic.
unsafe impl Send for Region {}
// SAFETY: as above; nothing else in it changes after it was made.
unsafe impl Sync for Region {}

/// Why there is no region.
#[derive(Debug, thiserror::Error)]
pub enum RegionError {
    /// A region has at least one block of at least one byte.
    #[error("a region needs at least one block of at least one byte")]
    Empty,
    /// More bytes than an address space has.
    #[error("{num_blocks} blocks of {block_len} bytes do not fit the address space")]
    TooLarge {
        /// As asked for.
        num_blocks: u32,
        /// As asked for, in bytes.
        block_len: u64,
    },
    /// The system has no such memory.
    #[error("cannot map {bytes} bytes: {source}; use fewer blocks, or raise the memory limit")]
    Map {
        /// The region's length.
        bytes: usize,
        /// What the system says.
        source: io::Error,
    },
}

/// Why a block was not copied.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum BlockError {
    /// No such block.
    #[error("block {block} is outside the region of {num_blocks} blocks")]
    OutOfRange {
        /// The index as given.
        block: BlockIdx,
        /// The region's.
        num_blocks: u32,
    },
    /// Blocks are copied whole.
    #[error("a buffer of {len} bytes for a block of {block_len}")]
    Length {
        /// The buffer's, in bytes.
        len: usize,
        /// A block's, in bytes.
        block_len: usize,
    },
}

impl Region {
    /// Own memory: page-aligned, zeroed, and taken from the system only as blocks are first touched.
    pub fn new(num_blocks: u32, block_len: u64) -> Result<Arc<Self>, RegionError> {
        let (len, block_len) = geometry(num_blocks, block_len)?;
        let base = map(len).map_err(|source| RegionError::Map { bytes: len, source })?;
        Ok(Arc::new(Self { base, num_blocks, block_len, memory: Memory::Mapped { len } }))
    }

    /// The engine's own memory, from `base` on, of any alignment. `keep` is dropped when nothing can reach the
    /// memory through this region any more, so let it own the memory, or tell its owner.
    ///
    /// # Safety
    ///
    /// From this call until `keep` is dropped, all `num_blocks * block_len` bytes
    /// - stay mapped, readable and writable, at this address;
    /// - have no other writer and no Rust reference (`&` or `&mut`) to any byte that a peer may be writing: that
    ///   is every block of a load from its command on until it is finished and reusable (or released). The
    ///   engine may use raw pointers to the blocks that the protocol leaves to it;
    /// - are not written, by anyone, while a store or a lookup's pin holds their block.
    pub unsafe fn from_raw(
        base: NonNull<u8>,
        num_blocks: u32,
        block_len: u64,
        keep: impl Any + Send + Sync,
    ) -> Result<Arc<Self>, RegionError> {
        let (_, block_len) = geometry(num_blocks, block_len)?;
        let memory = Memory::Foreign { _keep: Box::new(keep) };
        Ok(Arc::new(Self { base, num_blocks, block_len, memory }))
    }

    /// How many blocks there are.
    pub fn num_blocks(&self) -> u32 {
        self.num_blocks
    }

    /// The length of each, in bytes.
    pub fn block_len(&self) -> usize {
        self.block_len
    }

    /// The length of all, in bytes.
    pub fn len(&self) -> usize {
        // Cannot overflow: checked when the region was made.
        self.block_len * self.num_blocks as usize
    }

    /// Never: a region has at least one byte.
    pub fn is_empty(&self) -> bool {
        false
    }

    /// What peers are told about it. `base_addr` is for the data plane to fill in; most count from the region's
    /// start and need none.
    pub fn info(&self) -> RegionInfo {
        RegionInfo { base_addr: 0, num_blocks: self.num_blocks, block_len: self.block_len as u64 }
    }

    /// Where the region starts.
    pub fn base(&self) -> NonNull<u8> {
        self.base
    }

    /// Where a block starts, for engines that work in place. What holds for [`Region::from_raw`] holds for it.
    pub fn block_ptr(&self, block: BlockIdx) -> Option<NonNull<u8>> {
        if block >= self.num_blocks {
            return None;
        }
        // SAFETY: the block is inside the region, whose length fits `isize`.
        Some(unsafe { self.base.add(block as usize * self.block_len) })
    }

    /// Copies a block out; `out` has its length.
    pub fn read_block(&self, block: BlockIdx, out: &mut [u8]) -> Result<(), BlockError> {
        let start = self.whole_block(block, out.len())?;
        // SAFETY: `start` has a block's bytes, as many as `out`; it lives as long as the region, and all access
        // to it is by the same atomic cells.
        unsafe { cells::load(start, out) };
        Ok(())
    }

    /// Copies a block in; `data` has its length. For blocks that are the engine's at this time: never one that
    /// a load is under way to, nor one that a store offers.
    pub fn write_block(&self, block: BlockIdx, data: &[u8]) -> Result<(), BlockError> {
        let start = self.whole_block(block, data.len())?;
        // SAFETY: as in `read_block`.
        unsafe { cells::store(start, data) };
        Ok(())
    }

    fn whole_block(&self, block: BlockIdx, len: usize) -> Result<NonNull<u8>, BlockError> {
        if len != self.block_len {
            return Err(BlockError::Length { len, block_len: self.block_len });
        }
        self.block_ptr(block).ok_or(BlockError::OutOfRange { block, num_blocks: self.num_blocks })
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        match &self.memory {
            Memory::Mapped { len } => {
                // SAFETY: these pages were mapped by `map` with this length, and this was their last user.
                unsafe { libc::munmap(self.base.as_ptr().cast(), *len) };
            }
            // Dropped with the field.
            Memory::Foreign { .. } => {}
        }
    }
}

impl fmt::Debug for Region {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { base, num_blocks, block_len, memory: _ } = self;
        f.debug_struct("Region")
            .field("base", base)
            .field("num_blocks", num_blocks)
            .field("block_len", block_len)
            .finish_non_exhaustive()
    }
}

// SAFETY: `base` and `len` never change; the memory stays mapped while the region lives, which every `Arc` of it
// guarantees; and this crate hands out no reference to it.
#[cfg(feature = "fabric")]
unsafe impl kvpeer_fabric::Memory for Region {
    fn base(&self) -> NonNull<u8> {
        self.base
    }

    fn len(&self) -> usize {
        Region::len(self)
    }
}

/// The length of all blocks and of one.
fn geometry(num_blocks: u32, block_len: u64) -> Result<(usize, usize), RegionError> {
    if num_blocks == 0 || block_len == 0 {
        return Err(RegionError::Empty);
    }
    let too_large = RegionError::TooLarge { num_blocks, block_len };
    let Ok(block) = usize::try_from(block_len) else { return Err(too_large) };
    match block.checked_mul(num_blocks as usize) {
        Some(len) if isize::try_from(len).is_ok() => Ok((len, block)),
        Some(_) | None => Err(too_large),
    }
}

fn map(len: usize) -> io::Result<NonNull<u8>> {
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    // SAFETY: a new anonymous mapping, at an address that the system chooses, changes no memory that is in use.
    let base = unsafe { libc::mmap(std::ptr::null_mut(), len, protection, flags, -1, 0) };
    if base == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    NonNull::new(base.cast()).ok_or_else(|| io::Error::other("mapped at address 0"))
}

#[cfg(test)]
mod tests;
