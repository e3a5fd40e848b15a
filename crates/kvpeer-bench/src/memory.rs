//! The memory that all measurements of one process use: mapped, touched, and filled with a known pattern.

#![allow(
    unsafe_code,
    reason = "the memory is written by sockets, by libfabric and by peers, so no reference to it is kept"
)]

use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::NonNull;
use std::sync::Arc;
use std::{io, ptr};

use kvpeer::Region;

use crate::cut::Cut;
use crate::stop::{Outcome, stop};

const WORD: usize = size_of::<u64>();

/// Anonymous pages; every one of them was written before anything is measured.
///
/// Its bytes are only reached through raw pointers. Measurements follow one another, so what one of them moves is
/// at rest before the next touches it.
pub(crate) struct Memory {
    base: NonNull<u64>,
    len: usize,
}

// SAFETY: the memory belongs to no thread; who touches which bytes when is said above.
unsafe impl Send for Memory {}
// SAFETY: as above.
unsafe impl Sync for Memory {}

/// What the memory holds at first.
#[derive(Clone, Copy, PartialEq, Eq, Debug, serde::Serialize, serde::Deserialize)]
pub(crate) enum Content {
    /// The pattern: each word a function of its place.
    Pattern,
    /// Zeros, which the pattern never has.
    Zeros,
}

impl Memory {
    /// `len` bytes, a multiple of 8.
    pub(crate) fn new(len: usize, content: Content) -> Outcome<Arc<Self>> {
        // SAFETY: a new anonymous mapping changes no memory that is in use.
        let base = unsafe {
            libc::mmap(
                ptr::null_mut(),
                len,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                -1,
                0,
            )
        };
        if base == libc::MAP_FAILED {
            let error = io::Error::last_os_error();
            return Err(stop(format!(
                "cannot map {} MiB: {error}; free some memory and try again",
                len >> 20
            )));
        }
        let base = NonNull::new(base.cast()).ok_or_else(|| stop("mapped at address 0"))?;
        let memory = Self { base, len };
        for word in 0..len / WORD {
            let value = match content {
                Content::Pattern => pattern(word as u64),
                Content::Zeros => 0,
            };
            // SAFETY: the word is inside the mapping.
            let place = unsafe { base.add(word) };
            // SAFETY: mapped for writing, and nobody else knows it yet.
            unsafe { place.write(value) };
        }
        Ok(Arc::new(memory))
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn base(&self) -> NonNull<u8> {
        self.base.cast()
    }

    /// The same memory as blocks for a node or a plane.
    pub(crate) fn region(self: &Arc<Self>, block_len: u64) -> Outcome<Arc<Region>> {
        let blocks = u32::try_from(self.len as u64 / block_len)?;
        // SAFETY: the `Arc` keeps the pages mapped; nobody holds references into them, and measurements touch them
        // one after the other.
        Ok(unsafe { Region::from_raw(self.base(), blocks, block_len, Arc::clone(self)) }?)
    }

    /// Overwrites a cut's destination blocks, so that a block that did not arrive cannot look as if it had.
    pub(crate) fn wipe(&self, cut: &Cut) -> Outcome<()> {
        for (_, to) in cut.pairs() {
            let start = self.block(to, cut.block_len)?;
            // SAFETY: the block is inside the mapping, and at rest.
            unsafe { start.write_bytes(0, cut.block_len) };
        }
        Ok(())
    }

    /// Compares each destination block with the pattern of its source.
    pub(crate) fn verify(&self, cut: &Cut) -> Outcome<()> {
        for (from, to) in cut.pairs() {
            let start = self.block(to, cut.block_len)?.cast::<u64>();
            let first = (from as usize * cut.block_len / WORD) as u64;
            let wrong = (0..cut.block_len / WORD).position(|at| {
                // SAFETY: the word is inside the block, which is a multiple of words.
                let place = unsafe { start.add(at) };
                // SAFETY: mapped, aligned as blocks are, and at rest.
                let word = unsafe { place.read_volatile() };
                word != pattern(first + at as u64)
            });
            if let Some(at) = wrong {
                return Err(stop(format!(
                    "block {from}, moved to {to}, differs from byte {} on ({} bytes a block): what was measured is \
                     worth nothing",
                    at * WORD,
                    cut.block_len
                )));
            }
        }
        Ok(())
    }

    /// `memcpy`, block by block, from another memory.
    pub(crate) fn copy_from(&self, other: &Self, cut: &Cut) -> Outcome<()> {
        for (from, to) in cut.pairs() {
            let (from, to) = (other.block(from, cut.block_len)?, self.block(to, cut.block_len)?);
            // SAFETY: both blocks are inside their mappings, which are two, and at rest.
            unsafe { ptr::copy_nonoverlapping(from.as_ptr(), to.as_ptr(), cut.block_len) };
        }
        Ok(())
    }

    /// Writes a block to a socket.
    pub(crate) fn send(&self, socket: BorrowedFd<'_>, block: u32, block_len: usize) -> Outcome<()> {
        let (start, mut sent) = (self.block(block, block_len)?, 0);
        while sent < block_len {
            // SAFETY: the range is inside the block.
            let from = unsafe { start.add(sent) };
            // SAFETY: the kernel reads inside the block, which is at rest.
            let n = unsafe {
                libc::send(socket.as_raw_fd(), from.as_ptr().cast(), block_len - sent, libc::MSG_NOSIGNAL)
            };
            sent += usize::try_from(n).map_err(|_| io::Error::last_os_error())?;
        }
        Ok(())
    }

    /// Reads a block from a socket.
    pub(crate) fn receive(&self, socket: BorrowedFd<'_>, block: u32, block_len: usize) -> Outcome<()> {
        let (start, mut got) = (self.block(block, block_len)?, 0);
        while got < block_len {
            // SAFETY: the range is inside the block.
            let to = unsafe { start.add(got) };
            // SAFETY: the kernel writes inside the block, which nobody else touches now.
            let n = unsafe {
                libc::recv(socket.as_raw_fd(), to.as_ptr().cast(), block_len - got, libc::MSG_WAITALL)
            };
            match usize::try_from(n) {
                Ok(0) => return Err(stop("the raw TCP stream ended too early")),
                Ok(n) => got += n,
                Err(_) => return Err(io::Error::last_os_error().into()),
            }
        }
        Ok(())
    }

    fn block(&self, block: u32, block_len: usize) -> Outcome<NonNull<u8>> {
        let start = block as usize * block_len;
        if start + block_len > self.len {
            return Err(stop(format!("block {block} of {block_len} bytes is outside the memory")));
        }
        // SAFETY: checked to be inside the mapping.
        Ok(unsafe { self.base().add(start) })
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: mapped in `new` with this length; whoever moves bytes here holds an `Arc` of it.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.len) };
    }
}

/// Never 0 for memory of any size that there is.
fn pattern(word: u64) -> u64 {
    (word + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cut::Layout;

    const CUT: Cut = Cut { block_len: 4096, first: 4, count: 16, layout: Layout::Scattered };

    #[test]
    fn what_was_copied_verifies_and_nothing_else_does() {
        let from = Memory::new(1 << 17, Content::Pattern).expect("mapped");
        let to = Memory::new(1 << 17, Content::Zeros).expect("mapped");
        assert!(to.verify(&CUT).is_err());
        to.copy_from(&from, &CUT).expect("copied");
        to.verify(&CUT).expect("the same");
        let (_, last) = CUT.pairs().last().expect("blocks");
        to.wipe(&Cut { first: last, count: 1, layout: Layout::Contiguous, ..CUT }).expect("wiped");
        assert!(to.verify(&CUT).is_err());
    }

    #[test]
    fn blocks_outside_are_refused() {
        let memory = Memory::new(1 << 16, Content::Zeros).expect("mapped");
        assert!(memory.wipe(&Cut { first: 12, ..CUT }).is_err());
    }
}
