//! What a block holds, as ordered pairs of strings.

use alloc::vec::Vec;
use core::fmt;

use crate::{MAX_NAME_LEN, NameError};

/// Ordered (name, value) pairs that describe what a block holds.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Fingerprint<'a> {
    /// Checked: for every string a length byte, then that much UTF-8; an even number of strings.
    pairs: &'a [u8],
}

impl<'a> Fingerprint<'a> {
    /// `pairs` as they stand in a frame.
    pub(crate) fn from_bytes(pairs: &'a [u8]) -> Result<Self, FingerprintError> {
        let mut count = 0usize;
        for string in Strings(pairs) {
            string?;
            count += 1;
        }
        if count.is_multiple_of(2) { Ok(Self { pairs }) } else { Err(FingerprintError::Unpaired) }
    }

    /// The pairs in order.
    pub fn iter(&self) -> impl Iterator<Item = (&'a str, &'a str)> + use<'a> {
        let mut strings = Strings(self.pairs);
        core::iter::from_fn(move || Some((strings.next()?.ok()?, strings.next()?.ok()?)))
    }

    /// The pairs as they stand in a frame.
    pub fn as_bytes(&self) -> &'a [u8] {
        self.pairs
    }
}

impl fmt::Debug for Fingerprint<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

/// Why bytes are no fingerprint.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum FingerprintError {
    /// The last string ends after the bytes do.
    CutOff,
    NotUtf8,
    /// The last name has no value.
    Unpaired,
}

/// Walks length-prefixed strings; stays at one that is cut off.
struct Strings<'a>(&'a [u8]);

impl<'a> Iterator for Strings<'a> {
    type Item = Result<&'a str, FingerprintError>;

    fn next(&mut self) -> Option<Self::Item> {
        let (len, rest) = self.0.split_first()?;
        let Some((string, rest)) = rest.split_at_checked(usize::from(*len)) else {
            return Some(Err(FingerprintError::CutOff));
        };
        self.0 = rest;
        Some(core::str::from_utf8(string).map_err(|_| FingerprintError::NotUtf8))
    }
}

/// An owned fingerprint.
#[derive(Clone, PartialEq, Eq, Hash, Default, Debug)]
pub struct FingerprintBuf(Vec<u8>);

impl FingerprintBuf {
    /// No pairs.
    pub fn new() -> Self {
        Self::default()
    }

    /// Appends a pair; each string has at most [`MAX_NAME_LEN`] bytes.
    pub fn push(&mut self, name: &str, value: &str) -> Result<(), NameError> {
        for string in [name, value] {
            if string.len() > MAX_NAME_LEN {
                return Err(NameError::TooLong { len: string.len() });
            }
        }
        for string in [name, value] {
            self.0.push(string.len() as u8);
            self.0.extend_from_slice(string.as_bytes());
        }
        Ok(())
    }

    /// The fingerprint as a view.
    pub fn as_fingerprint(&self) -> Fingerprint<'_> {
        Fingerprint { pairs: &self.0 }
    }
}
