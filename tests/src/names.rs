//! Who is who, keys, and what stands in the block of a key.

use core::fmt;
use core::time::Duration;

use kvpeer_core::JobId;
use kvpeer_wire::{Key, KeysBuf, PeerName};

/// One node of the world; also its name and its address.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Who(pub(crate) usize);

/// The first node.
pub const A: Who = Who(0);
/// The second.
pub const B: Who = Who(1);
/// The third.
pub const C: Who = Who(2);
/// The fourth.
pub const D: Who = Who(3);
/// Nobody's node: a peer whose every word the story writes.
pub const X: Who = Who(4);

impl Who {
    /// Its peer id and its address.
    pub fn name(self) -> &'static str {
        ["a", "b", "c", "d", "x"][self.0]
    }

    /// Its peer id.
    pub fn peer(self) -> PeerName<'static> {
        PeerName::new(self.name()).expect("a legal name")
    }
}

impl fmt::Display for Who {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name().to_uppercase())
    }
}

impl fmt::Debug for Who {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A load, a store or a lookup's pin, and whose it is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Job {
    /// On which node.
    pub who: Who,
    /// Its id there.
    pub id: JobId,
}

impl fmt::Display for Job {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "job {} of {}", self.id.0, self.who)
    }
}

/// Bytes in a block.
pub const BLOCK_LEN: usize = 16;
/// Blocks in a node's region.
pub const NUM_BLOCKS: u32 = 64;
/// A block's bytes.
pub type Block = [u8; BLOCK_LEN];

/// The name of key `n`: `k1`, `k2`, ….
pub fn key(n: u32) -> String {
    format!("k{n}")
}

/// A run of keys by number.
pub fn keys(numbers: &[u32]) -> KeysBuf {
    let names: Vec<String> = numbers.iter().map(|n| key(*n)).collect();
    names.iter().map(|name| Key::new(name.as_bytes()).expect("a short name")).collect()
}

/// The only right bytes for a key's block.
pub fn content(key: &[u8]) -> Block {
    let mut block = [0; BLOCK_LEN];
    let mut state = 0xcbf2_9ce4_8422_2325_u64;
    for (at, byte) in block.iter_mut().enumerate() {
        for part in key.iter().chain([&(at as u8)]) {
            state = (state ^ u64::from(*part)).wrapping_mul(0x0000_0100_0000_01b3);
        }
        *byte = (state >> 32) as u8;
    }
    block
}

/// What stands in a block that the engine has taken for something else.
pub(crate) const REUSED: Block = [0xEE; BLOCK_LEN];
/// What stands in a block that waits for a load.
pub(crate) const EMPTY: Block = [0xDD; BLOCK_LEN];

/// Durations that read well: `30.s()`.
pub trait Span {
    /// So many seconds.
    fn s(self) -> Duration;
    /// So many milliseconds.
    fn ms(self) -> Duration;
}

impl Span for u64 {
    fn s(self) -> Duration {
        Duration::from_secs(self)
    }

    fn ms(self) -> Duration {
        Duration::from_millis(self)
    }
}
