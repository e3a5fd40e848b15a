//! Reads msgpack values out of a slice, one after the other.

use rmp::Marker;

use super::{DecodeError, Shape};

/// What has not been read yet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cursor<'a>(&'a [u8]);

/// The beginning of a value: the value itself, or how much follows.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum Head {
    Nil,
    Bool(bool),
    Uint(u64),
    Negative,
    Float,
    Str(u32),
    Bin(u32),
    Array(u32),
    Map(u32),
    Ext(u32),
}

impl Head {
    pub(super) fn shape(self) -> Shape {
        match self {
            Self::Nil => Shape::Nil,
            Self::Bool(_) => Shape::Bool,
            Self::Uint(_) => Shape::Integer,
            Self::Negative => Shape::NegativeInteger,
            Self::Float => Shape::Float,
            Self::Str(_) => Shape::Str,
            Self::Bin(_) => Shape::Bin,
            Self::Array(_) => Shape::Array,
            Self::Map(_) => Shape::Map,
            Self::Ext(_) => Shape::Ext,
        }
    }
}

impl<'a> Cursor<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    pub(super) fn rest(&self) -> &'a [u8] {
        self.0
    }

    pub(super) fn take(&mut self, len: usize) -> Result<&'a [u8], DecodeError> {
        let (taken, rest) = self.0.split_at_checked(len).ok_or(DecodeError::CutOff)?;
        self.0 = rest;
        Ok(taken)
    }

    /// A big-endian number of `N` bytes.
    fn number<const N: usize>(&mut self) -> Result<[u8; N], DecodeError> {
        let (number, rest) = self.0.split_first_chunk().ok_or(DecodeError::CutOff)?;
        self.0 = rest;
        Ok(*number)
    }

    fn u8(&mut self) -> Result<u32, DecodeError> {
        self.number().map(|be: [u8; 1]| u32::from(u8::from_be_bytes(be)))
    }

    fn u16(&mut self) -> Result<u32, DecodeError> {
        self.number().map(|be| u32::from(u16::from_be_bytes(be)))
    }

    fn u32(&mut self) -> Result<u32, DecodeError> {
        self.number().map(u32::from_be_bytes)
    }

    fn u64(&mut self) -> Result<u64, DecodeError> {
        self.number().map(u64::from_be_bytes)
    }

    /// The beginning of the next value. What it says about lengths is only a claim.
    pub(super) fn head(&mut self) -> Result<Head, DecodeError> {
        let [marker] = self.number()?;
        Ok(match Marker::from_u8(marker) {
            Marker::Null => Head::Nil,
            Marker::False => Head::Bool(false),
            Marker::True => Head::Bool(true),
            Marker::FixPos(value) => Head::Uint(u64::from(value)),
            Marker::U8 => Head::Uint(u64::from(self.u8()?)),
            Marker::U16 => Head::Uint(u64::from(self.u16()?)),
            Marker::U32 => Head::Uint(u64::from(self.u32()?)),
            Marker::U64 => Head::Uint(self.u64()?),
            Marker::FixNeg(_) => Head::Negative,
            Marker::I8 => signed(i64::from(self.number().map(i8::from_be_bytes)?)),
            Marker::I16 => signed(i64::from(self.number().map(i16::from_be_bytes)?)),
            Marker::I32 => signed(i64::from(self.number().map(i32::from_be_bytes)?)),
            Marker::I64 => signed(self.number().map(i64::from_be_bytes)?),
            Marker::F32 => self.take(4).map(|_| Head::Float)?,
            Marker::F64 => self.take(8).map(|_| Head::Float)?,
            Marker::FixStr(len) => Head::Str(u32::from(len)),
            Marker::Str8 => Head::Str(self.u8()?),
            Marker::Str16 => Head::Str(self.u16()?),
            Marker::Str32 => Head::Str(self.u32()?),
            Marker::Bin8 => Head::Bin(self.u8()?),
            Marker::Bin16 => Head::Bin(self.u16()?),
            Marker::Bin32 => Head::Bin(self.u32()?),
            Marker::FixArray(len) => Head::Array(u32::from(len)),
            Marker::Array16 => Head::Array(self.u16()?),
            Marker::Array32 => Head::Array(self.u32()?),
            Marker::FixMap(len) => Head::Map(u32::from(len)),
            Marker::Map16 => Head::Map(self.u16()?),
            Marker::Map32 => Head::Map(self.u32()?),
            // An extension has a type byte in front of its data.
            Marker::FixExt1 => Head::Ext(2),
            Marker::FixExt2 => Head::Ext(3),
            Marker::FixExt4 => Head::Ext(5),
            Marker::FixExt8 => Head::Ext(9),
            Marker::FixExt16 => Head::Ext(17),
            Marker::Ext8 => Head::Ext(self.u8()?.saturating_add(1)),
            Marker::Ext16 => Head::Ext(self.u16()?.saturating_add(1)),
            Marker::Ext32 => Head::Ext(self.u32()?.saturating_add(1)),
            Marker::Reserved => return Err(DecodeError::ReservedMarker),
        })
    }

    /// Passes over one value, however deep it is, and returns its bytes.
    ///
    /// [`rmp::decode::MessageLen`] cannot be used for this: of version 0.8.15 it panics at an extension.
    pub(super) fn skip(&mut self) -> Result<&'a [u8], DecodeError> {
        let before = self.0;
        let mut values = 1u64;
        while let Some(left) = values.checked_sub(1) {
            values = match self.head()? {
                Head::Nil | Head::Bool(_) | Head::Uint(_) | Head::Negative | Head::Float => left,
                Head::Str(len) | Head::Bin(len) | Head::Ext(len) => self.take(len as usize).map(|_| left)?,
                // Each value takes a byte at least: the sum of claims cannot be more than fits, or it is cut off.
                Head::Array(len) => left.saturating_add(u64::from(len)),
                Head::Map(len) => left.saturating_add(2 * u64::from(len)),
            };
        }
        Ok(before.get(..before.len() - self.0.len()).unwrap_or(before))
    }
}

/// Signed forms may hold numbers that are not negative, though nobody writes them so.
fn signed(value: i64) -> Head {
    u64::try_from(value).map_or(Head::Negative, Head::Uint)
}
