//! Copies between ordinary memory and memory that others may be writing at the same time.
//!
//! Each byte of a block is accessed as part of the same atomic cell by everybody: aligned words where a word
//! fits, single bytes before the first and after the last. So a copy that races with another is torn at worst,
//! never undefined.

use std::ptr::NonNull;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

const WORD: usize = size_of::<u64>();

/// How many bytes of a block come before its first aligned word.
fn head(block: NonNull<u8>, len: usize) -> usize {
    // Never `usize::MAX`: byte pointers can always be aligned.
    block.align_offset(WORD).min(len)
}

/// Copies the block at `block` to `out`.
///
/// # Safety
/// `out.len()` bytes from `block` on are mapped and readable, and one whole block: accessed at the same time by
/// `load` and `store` only, from the same `block` with the same length, or by something outside of this program.
pub(super) unsafe fn load(block: NonNull<u8>, out: &mut [u8]) {
    let byte = |at: usize| {
        // SAFETY: `at` is below the block's length.
        let cell = unsafe { AtomicU8::from_ptr(block.as_ptr().wrapping_add(at)) };
        cell.load(Ordering::Relaxed)
    };
    let head = head(block, out.len());
    let (first, rest) = out.split_at_mut(head);
    for (at, out) in first.iter_mut().enumerate() {
        *out = byte(at);
    }
    let (words, last) = rest.as_chunks_mut::<WORD>();
    let tail = head + words.len() * WORD;
    for (at, out) in words.iter_mut().enumerate() {
        // SAFETY: this word lies inside the block, and is aligned, since `head` is and words follow each other.
        let cell = unsafe { AtomicU64::from_ptr(block.as_ptr().wrapping_add(head + at * WORD).cast()) };
        *out = cell.load(Ordering::Relaxed).to_ne_bytes();
    }
    for (at, out) in last.iter_mut().enumerate() {
        *out = byte(tail + at);
    }
}

/// Copies `data` to the block at `block`.
///
/// # Safety
/// As [`load`], and the bytes are writable.
pub(super) unsafe fn store(block: NonNull<u8>, data: &[u8]) {
    let byte = |at: usize, value: u8| {
        // SAFETY: `at` is below the block's length.
        let cell = unsafe { AtomicU8::from_ptr(block.as_ptr().wrapping_add(at)) };
        cell.store(value, Ordering::Relaxed);
    };
    let head = head(block, data.len());
    let (first, rest) = data.split_at(head);
    for (at, value) in first.iter().enumerate() {
        byte(at, *value);
    }
    let (words, last) = rest.as_chunks::<WORD>();
    let tail = head + words.len() * WORD;
    for (at, value) in words.iter().enumerate() {
        // SAFETY: this word lies inside the block, and is aligned, since `head` is and words follow each other.
        let cell = unsafe { AtomicU64::from_ptr(block.as_ptr().wrapping_add(head + at * WORD).cast()) };
        cell.store(u64::from_ne_bytes(*value), Ordering::Relaxed);
    }
    for (at, value) in last.iter().enumerate() {
        byte(tail + at, *value);
    }
}
