//! The pieces that bodies are made of.

use alloc::vec::Vec;
use core::fmt;

use serde::de::{Deserialize, Deserializer, Error, Visitor};
use serde::ser::{Serialize, Serializer};

use super::DecodeError;
use crate::Kind;

/// A body's fields, read front to back.
///
/// A later minor version appends fields: it puts those of each version into one struct and reads the structs in
/// the order of their versions, first the [`required`](Self::required) ones of version 1, then the
/// [`appended`](Self::appended) ones. What remains at the end are fields of a newer version; nobody looks at them
/// (FR-9).
pub(super) struct Fields<'a> {
    kind: Kind,
    rest: &'a [u8],
}

impl<'a> Fields<'a> {
    pub(super) fn new(kind: Kind, body: &'a [u8]) -> Self {
        Self { kind, rest: body }
    }

    /// Fields that every version sends.
    pub(super) fn required<T: Deserialize<'a>>(&mut self) -> Result<T, DecodeError> {
        let (fields, rest) = postcard::take_from_bytes(self.rest).map_err(|error| self.name(&error))?;
        self.rest = rest;
        Ok(fields)
    }

    /// Fields that one later version appended, all of them or, from an older sender, none: then the defaults.
    #[cfg_attr(not(test), expect(dead_code, reason = "no version has appended fields yet"))]
    pub(super) fn appended<T: Deserialize<'a> + Default>(&mut self) -> Result<T, DecodeError> {
        if self.rest.is_empty() { Ok(T::default()) } else { self.required() }
    }

    fn name(&self, error: &postcard::Error) -> DecodeError {
        let kind = self.kind;
        if *error == postcard::Error::DeserializeUnexpectedEnd {
            DecodeError::CutOff { kind }
        } else if *error == postcard::Error::DeserializeBadBool {
            DecodeError::Boolean { kind }
        } else {
            // Bodies hold integers, booleans and byte runs only: integers and the runs' lengths are left.
            DecodeError::Integer { kind }
        }
    }
}

/// Appends the fields of a body, or those that a later version appended to it.
pub(super) fn append<T: Serialize>(fields: &T, out: &mut Vec<u8>) -> Result<(), postcard::Error> {
    postcard::serialize_with_flavor(fields, Append(out))
}

struct Append<'v>(&'v mut Vec<u8>);

impl postcard::ser_flavors::Flavor for Append<'_> {
    type Output = ();

    fn try_push(&mut self, byte: u8) -> postcard::Result<()> {
        self.0.push(byte);
        Ok(())
    }

    fn try_extend(&mut self, bytes: &[u8]) -> postcard::Result<()> {
        self.0.extend_from_slice(bytes);
        Ok(())
    }

    fn finalize(self) -> postcard::Result<()> {
        Ok(())
    }
}

/// A length and that many bytes, borrowed from the frame. Strings travel like this, too: so their lengths can be
/// checked before their bytes are.
#[derive(Clone, Copy)]
pub(super) struct Run<'a>(pub(super) &'a [u8]);

impl Serialize for Run<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_bytes(self.0)
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Run<'a> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_bytes(RunVisitor).map(Run)
    }
}

struct RunVisitor;

impl<'de> Visitor<'de> for RunVisitor {
    type Value = &'de [u8];

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("bytes")
    }

    fn visit_borrowed_bytes<E: Error>(self, bytes: &'de [u8]) -> Result<Self::Value, E> {
        Ok(bytes)
    }
}
