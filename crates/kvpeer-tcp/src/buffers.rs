//! Memory that connections share.

/// The most that one kept buffer may hold; a larger one goes back to the allocator.
const KEPT_BYTES: usize = 512 << 10;

/// How many buffers are kept.
const KEPT: usize = 16;

/// Empty buffers for whoever needs one next, so that idle connections hold none and busy ones do not allocate.
#[derive(Default)]
pub(crate) struct Buffers(Vec<Vec<u8>>);

impl Buffers {
    /// An empty buffer, with whatever capacity it had in its last use.
    pub(crate) fn take(&mut self) -> Vec<u8> {
        self.0.pop().unwrap_or_default()
    }

    pub(crate) fn give(&mut self, mut buffer: Vec<u8>) {
        if (1..=KEPT_BYTES).contains(&buffer.capacity()) && self.0.len() < KEPT {
            buffer.clear();
            self.0.push(buffer);
        }
    }
}
