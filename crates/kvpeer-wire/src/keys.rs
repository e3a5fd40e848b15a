//! Block keys and runs of them.

use alloc::vec::Vec;
use core::fmt;

use crate::DecodeError;

/// The longest key, in bytes.
pub const MAX_KEY_LEN: usize = 64;

/// Names a block's content: 1 to [`MAX_KEY_LEN`] opaque bytes (FR-14), typically a 32-byte hash and a 4-byte group
/// index.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key<'a>(&'a [u8]);

/// Why bytes are not a key.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("a key of {len} bytes; keys have 1 to 64")]
pub struct KeyError {
    /// The length found, in bytes.
    pub len: usize,
}

impl<'a> Key<'a> {
    /// Checks the length.
    #[inline]
    pub fn new(bytes: &'a [u8]) -> Result<Self, KeyError> {
        match bytes.len() {
            1..=MAX_KEY_LEN => Ok(Self(bytes)),
            len => Err(KeyError { len }),
        }
    }

    /// The key's bytes.
    #[inline]
    pub fn as_bytes(self) -> &'a [u8] {
        self.0
    }
}

impl fmt::Debug for Key<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// An owned key, without an allocation of its own.
#[derive(Clone, Copy)]
pub struct KeyBuf {
    len: u8,
    /// Zero past `len`.
    bytes: [u8; MAX_KEY_LEN],
}

impl KeyBuf {
    /// The key as a view.
    #[inline]
    pub fn as_key(&self) -> Key<'_> {
        Key(&self.bytes[..usize::from(self.len)])
    }
}

impl From<Key<'_>> for KeyBuf {
    fn from(key: Key<'_>) -> Self {
        let mut bytes = [0; MAX_KEY_LEN];
        bytes[..key.0.len()].copy_from_slice(key.0);
        Self { len: key.0.len() as u8, bytes }
    }
}

impl PartialEq for KeyBuf {
    fn eq(&self, other: &Self) -> bool {
        self.as_key() == other.as_key()
    }
}

impl Eq for KeyBuf {}

impl PartialOrd for KeyBuf {
    fn partial_cmp(&self, other: &Self) -> Option<core::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for KeyBuf {
    fn cmp(&self, other: &Self) -> core::cmp::Ordering {
        self.as_key().cmp(&other.as_key())
    }
}

impl core::hash::Hash for KeyBuf {
    fn hash<H: core::hash::Hasher>(&self, state: &mut H) {
        self.as_key().hash(state);
    }
}

impl fmt::Debug for KeyBuf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_key().fmt(f)
    }
}

/// The keys of one message, borrowed; any key is reached in constant time.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Keys<'a>(Layout<'a>);

/// Equal runs of keys have equal layouts, so that layouts can be compared and hashed.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Layout<'a> {
    /// All keys have one length, `bytes.len()` is a multiple of it; it is 1 when there are none.
    Uniform { key_len: u8, bytes: &'a [u8] },
    /// Not all keys have one length; `ends[i]` (little-endian) is where key `i` stops in `bytes`.
    Mixed { ends: &'a [[u8; 4]], bytes: &'a [u8] },
}

impl<'a> Keys<'a> {
    /// No keys.
    pub const EMPTY: Keys<'static> = Keys(Layout::Uniform { key_len: 1, bytes: &[] });

    /// Keys as they stand in a frame: all of length `key_len` and no ends, or, when that is 0, with an end for
    /// each. No key may be longer than `limit` or [`MAX_KEY_LEN`] bytes.
    pub(crate) fn from_runs(
        key_len: u8,
        ends: &'a [u8],
        bytes: &'a [u8],
        limit: u32,
    ) -> Result<Self, DecodeError> {
        let limit = MAX_KEY_LEN.min(limit as usize);
        if key_len == 0 {
            return Self::mixed(ends, bytes, limit);
        }
        let len = usize::from(key_len);
        if len > limit {
            return Err(DecodeError::KeyLength { len, limit });
        }
        if !ends.is_empty() {
            return Err(DecodeError::KeyEndsUnneeded { bytes: ends.len() });
        }
        if !bytes.len().is_multiple_of(len) {
            return Err(DecodeError::KeysRagged { key_len, bytes: bytes.len() });
        }
        Ok(Self::of_one_length(key_len, bytes))
    }

    fn mixed(ends: &'a [u8], bytes: &'a [u8], limit: usize) -> Result<Self, DecodeError> {
        let (ends, []) = ends.as_chunks::<4>() else {
            return Err(DecodeError::KeyEndsRagged { bytes: ends.len() });
        };
        let (mut start, mut shortest, mut longest) = (0u32, u32::MAX, 0u32);
        for (at, end) in ends.iter().enumerate() {
            let end = u32::from_le_bytes(*end);
            let Some(len) = end.checked_sub(start) else { return Err(DecodeError::KeyEndsFall { at, end }) };
            if len == 0 || len as usize > limit {
                return Err(DecodeError::KeyLength { len: len as usize, limit });
            }
            (start, shortest, longest) = (end, shortest.min(len), longest.max(len));
        }
        if start as usize != bytes.len() {
            return Err(DecodeError::KeysEnd { end: start as usize, bytes: bytes.len() });
        }
        if shortest >= longest {
            // A key's length fits: it is not above the limit. No keys at all have none.
            return Ok(Self::of_one_length(longest as u8, bytes));
        }
        Ok(Self(Layout::Mixed { ends, bytes }))
    }

    fn of_one_length(key_len: u8, bytes: &'a [u8]) -> Self {
        if bytes.is_empty() { Keys::EMPTY } else { Self(Layout::Uniform { key_len, bytes }) }
    }

    /// The length of all keys (0 when lengths differ), their ends (none when they do not), their bytes.
    pub(crate) fn runs(&self) -> (u8, &'a [u8], &'a [u8]) {
        match self.0 {
            Layout::Uniform { key_len, bytes } => (key_len, &[], bytes),
            Layout::Mixed { ends, bytes } => (0, ends.as_flattened(), bytes),
        }
    }

    /// How many keys there are.
    #[inline]
    pub fn len(&self) -> usize {
        match self.0 {
            Layout::Uniform { key_len, bytes } => bytes.len() / usize::from(key_len),
            Layout::Mixed { ends, .. } => ends.len(),
        }
    }

    /// Whether there is none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The key at `at`, counted from 0.
    #[inline]
    pub fn get(&self, at: usize) -> Option<Key<'a>> {
        match self.0 {
            Layout::Uniform { key_len, bytes } => {
                let len = usize::from(key_len);
                let start = at.checked_mul(len)?;
                bytes.get(start..start.checked_add(len)?).map(Key)
            }
            Layout::Mixed { ends, bytes } => {
                let end = u32::from_le_bytes(*ends.get(at)?) as usize;
                let start = match at.checked_sub(1) {
                    Some(before) => u32::from_le_bytes(*ends.get(before)?) as usize,
                    None => 0,
                };
                bytes.get(start..end).map(Key)
            }
        }
    }

    /// The keys in order.
    #[inline]
    pub fn iter(&self) -> impl Iterator<Item = Key<'a>> + use<'a> {
        match self.0 {
            Layout::Uniform { key_len, bytes } => Iter::Uniform(bytes.chunks_exact(usize::from(key_len))),
            Layout::Mixed { .. } => Iter::Mixed { keys: *self, next: 0 },
        }
    }

    /// How many keys in a row, from `at` on, are the same as those of `other` from `other_at` on.
    pub fn common(&self, at: usize, other: Keys<'_>, other_at: usize) -> usize {
        let most = self.len().saturating_sub(at).min(other.len().saturating_sub(other_at));
        let (mine, theirs) = (self.bytes_of(at, most), other.bytes_of(other_at, most));
        if let (Some(mine), Some(theirs)) = (mine, theirs)
            && mine.0 == theirs.0
            && mine.1 == theirs.1
        {
            return most;
        }
        (0..most).take_while(|step| self.get(at + step) == other.get(other_at + step)).count()
    }

    /// The length of all keys, and the bytes of `count` keys from `at` on; `None` when lengths differ.
    fn bytes_of(&self, at: usize, count: usize) -> Option<(u8, &'a [u8])> {
        match self.0 {
            Layout::Uniform { key_len, bytes } => {
                let start = at.checked_mul(key_len.into())?;
                let len = count.checked_mul(key_len.into())?;
                Some((key_len, bytes.get(start..start.checked_add(len)?)?))
            }
            Layout::Mixed { .. } => None,
        }
    }

    /// An owned copy: one allocation, two when lengths differ.
    pub fn to_buf(&self) -> KeysBuf {
        match self.0 {
            Layout::Uniform { key_len, bytes } => KeysBuf(Owned::Uniform { key_len, bytes: bytes.to_vec() }),
            Layout::Mixed { ends, bytes } => {
                KeysBuf(Owned::Mixed { ends: ends.to_vec(), bytes: bytes.to_vec() })
            }
        }
    }

    /// The bytes that a copy of these keys takes.
    pub fn size(&self) -> usize {
        match self.0 {
            Layout::Uniform { bytes, .. } => bytes.len(),
            Layout::Mixed { ends, bytes } => ends.len() * 4 + bytes.len(),
        }
    }
}

enum Iter<'a> {
    Uniform(core::slice::ChunksExact<'a, u8>),
    Mixed { keys: Keys<'a>, next: usize },
}

impl<'a> Iterator for Iter<'a> {
    type Item = Key<'a>;

    #[inline]
    fn next(&mut self) -> Option<Key<'a>> {
        match self {
            Iter::Uniform(chunks) => chunks.next().map(Key),
            Iter::Mixed { keys, next } => {
                let key = keys.get(*next)?;
                *next += 1;
                Some(key)
            }
        }
    }
}

/// A run of one key.
impl<'a> From<Key<'a>> for Keys<'a> {
    fn from(key: Key<'a>) -> Self {
        Self::of_one_length(key.0.len() as u8, key.0)
    }
}

impl fmt::Debug for Keys<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

/// An owned run of keys.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct KeysBuf(Owned);

/// As [`Layout`]: a run is `Mixed` from its first key of another length on, and no key is ever taken out.
#[derive(Clone, PartialEq, Eq, Hash)]
enum Owned {
    Uniform { key_len: u8, bytes: Vec<u8> },
    Mixed { ends: Vec<[u8; 4]>, bytes: Vec<u8> },
}

impl KeysBuf {
    /// An empty run.
    pub fn new() -> Self {
        Self(Owned::Uniform { key_len: 1, bytes: Vec::new() })
    }

    /// Appends `key`; a run may have at most `u32::MAX` bytes, what goes past that is left out.
    #[inline]
    pub fn push(&mut self, key: Key<'_>) {
        let key = key.as_bytes();
        let (Owned::Uniform { bytes, .. } | Owned::Mixed { bytes, .. }) = &self.0;
        if u32::try_from(bytes.len() + key.len()).is_err() {
            return;
        }
        match &mut self.0 {
            Owned::Uniform { key_len, bytes } if bytes.is_empty() || usize::from(*key_len) == key.len() => {
                *key_len = key.len() as u8;
                bytes.extend_from_slice(key);
            }
            Owned::Uniform { key_len, bytes } => {
                let step = u32::from(*key_len);
                let count = bytes.len() as u32 / step;
                let ends = (1..=count).map(|at| (at * step).to_le_bytes()).collect();
                self.0 = Owned::Mixed { ends, bytes: core::mem::take(bytes) };
                self.push_mixed(key);
            }
            Owned::Mixed { .. } => self.push_mixed(key),
        }
    }

    fn push_mixed(&mut self, key: &[u8]) {
        if let Owned::Mixed { ends, bytes } = &mut self.0
            && let Ok(end) = u32::try_from(bytes.len() + key.len())
        {
            bytes.extend_from_slice(key);
            ends.push(end.to_le_bytes());
        }
    }

    /// The keys as a view.
    #[inline]
    pub fn as_keys(&self) -> Keys<'_> {
        match &self.0 {
            Owned::Uniform { key_len, bytes } => Keys(Layout::Uniform { key_len: *key_len, bytes }),
            Owned::Mixed { ends, bytes } => Keys(Layout::Mixed { ends, bytes }),
        }
    }
}

impl Default for KeysBuf {
    fn default() -> Self {
        Self::new()
    }
}

impl<'k> FromIterator<Key<'k>> for KeysBuf {
    fn from_iter<I: IntoIterator<Item = Key<'k>>>(keys: I) -> Self {
        let mut run = Self::new();
        keys.into_iter().for_each(|key| run.push(key));
        run
    }
}

impl fmt::Debug for KeysBuf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_keys().fmt(f)
    }
}
