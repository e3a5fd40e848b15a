//! Lists of one message: as they stand in a payload, or as kvpeer holds them.

use std::fmt;

use kvpeer_wire::{Bits, Blocks, Key, Keys, KeysBuf};

use super::cursor::{Cursor, Head};

/// A message's block keys.
#[derive(Clone, Copy)]
pub struct KeyList<'a>(List<'a, Keys<'a>>);

/// A message's block indexes.
#[derive(Clone, Copy)]
pub struct IndexList<'a>(List<'a, Blocks<'a>>);

/// A message's answers, one for each key: held, or not.
#[derive(Clone, Copy)]
pub struct HitList<'a>(List<'a, Bits<'a>>);

#[derive(Clone, Copy)]
enum List<'a, T> {
    /// `count` msgpack values, each checked when it was read.
    Packed {
        count: u32,
        values: &'a [u8],
    },
    Native(T),
}

impl<'a> KeyList<'a> {
    /// No keys.
    pub const EMPTY: KeyList<'static> = KeyList(List::Packed { count: 0, values: &[] });

    /// `values` are `count` byte strings of legal lengths.
    pub(super) fn packed(count: u32, values: &'a [u8]) -> Self {
        Self(List::Packed { count, values })
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        match self.0 {
            List::Packed { count, .. } => count as usize,
            List::Native(keys) => keys.len(),
        }
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The keys in order.
    pub fn iter(&self) -> impl Iterator<Item = Key<'a>> + use<'a> {
        let (mut packed, native) = match self.0 {
            List::Packed { values, .. } => (Cursor::new(values), Keys::EMPTY),
            List::Native(keys) => (Cursor::new(&[]), keys),
        };
        std::iter::from_fn(move || next_key(&mut packed)).chain(native.iter())
    }

    /// The keys as one run.
    pub fn to_buf(&self) -> KeysBuf {
        match self.0 {
            List::Packed { .. } => self.iter().collect(),
            List::Native(keys) => keys.to_buf(),
        }
    }
}

fn next_key<'a>(values: &mut Cursor<'a>) -> Option<Key<'a>> {
    let Head::Bin(len) = values.head().ok()? else { return None };
    Key::new(values.take(len as usize).ok()?).ok()
}

impl<'a> From<Keys<'a>> for KeyList<'a> {
    fn from(keys: Keys<'a>) -> Self {
        Self(List::Native(keys))
    }
}

impl<'a> IndexList<'a> {
    /// No indexes.
    pub const EMPTY: IndexList<'static> = IndexList(List::Packed { count: 0, values: &[] });

    /// `values` are `count` integers that fit a `u32`.
    pub(super) fn packed(count: u32, values: &'a [u8]) -> Self {
        Self(List::Packed { count, values })
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        match self.0 {
            List::Packed { count, .. } => count as usize,
            List::Native(blocks) => blocks.len(),
        }
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The indexes in order.
    pub fn iter(&self) -> impl Iterator<Item = u32> + use<'a> {
        let (mut packed, native) = match self.0 {
            List::Packed { values, .. } => (Cursor::new(values), Blocks::new(&[])),
            List::Native(blocks) => (Cursor::new(&[]), blocks),
        };
        std::iter::from_fn(move || next_index(&mut packed)).chain(native.iter())
    }
}

fn next_index(values: &mut Cursor<'_>) -> Option<u32> {
    let Head::Uint(index) = values.head().ok()? else { return None };
    u32::try_from(index).ok()
}

impl<'a> From<Blocks<'a>> for IndexList<'a> {
    fn from(blocks: Blocks<'a>) -> Self {
        Self(List::Native(blocks))
    }
}

impl<'a> HitList<'a> {
    /// `values` are booleans, a byte each.
    pub(super) fn packed(values: &'a [u8]) -> Self {
        Self(List::Packed { count: u32::try_from(values.len()).unwrap_or(u32::MAX), values })
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        match self.0 {
            List::Packed { count, .. } => count as usize,
            List::Native(bits) => bits.len() as usize,
        }
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The answers in order.
    pub fn iter(&self) -> impl Iterator<Item = bool> + use<'a> {
        let (packed, native): (&[u8], _) = match self.0 {
            List::Packed { values, .. } => (values, Bits::default()),
            List::Native(bits) => (&[], bits),
        };
        packed.iter().map(|marker| *marker == TRUE).chain(native.iter())
    }
}

/// How msgpack writes a hit.
pub(super) const TRUE: u8 = 0xc3;

impl<'a> From<Bits<'a>> for HitList<'a> {
    fn from(bits: Bits<'a>) -> Self {
        Self(List::Native(bits))
    }
}

macro_rules! lists_are_their_elements {
    ($($list:ident),+) => {$(
        impl PartialEq for $list<'_> {
            fn eq(&self, other: &Self) -> bool {
                self.iter().eq(other.iter())
            }
        }

        impl Eq for $list<'_> {}

        impl fmt::Debug for $list<'_> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_list().entries(self.iter()).finish()
            }
        }
    )+};
}

lists_are_their_elements!(KeyList, IndexList, HitList);
