//! A payload as a map of fields, each an unread value.

use super::cursor::{Cursor, Head};
use super::{DecodeError, Field};

/// The bytes of each field's value. Whole msgpack values: their claims are true.
#[derive(Debug)]
pub(super) struct Fields<'a>([Option<&'a [u8]>; Field::ALL.len()]);

impl<'a> Fields<'a> {
    pub(super) fn read(payload: &'a [u8]) -> Result<Self, DecodeError> {
        let mut cursor = Cursor::new(payload);
        let head = cursor.head()?;
        let Head::Map(count) = head else { return Err(DecodeError::NotAMap { found: head.shape() }) };
        let mut fields = Self([None; Field::ALL.len()]);
        for _ in 0..count {
            let head = cursor.head()?;
            let Head::Str(len) = head else { return Err(DecodeError::FieldName { found: head.shape() }) };
            let name = cursor.take(len as usize)?;
            let value = cursor.skip()?;
            if let Some(field) = Field::from_name(name)
                && fields.slot(field).replace(value).is_some()
            {
                return Err(DecodeError::Doubled { field });
            }
        }
        match cursor.rest().len() {
            0 => Ok(fields),
            bytes => Err(DecodeError::Trailing { bytes }),
        }
    }

    fn slot(&mut self, field: Field) -> &mut Option<&'a [u8]> {
        // Field numbers are the positions in Field::ALL.
        &mut self.0[field as usize]
    }

    pub(super) fn get(&self, field: Field) -> Option<&'a [u8]> {
        self.0.get(field as usize).copied().flatten()
    }

    pub(super) fn required(&self, field: Field) -> Result<&'a [u8], DecodeError> {
        self.get(field).ok_or(DecodeError::Missing { field })
    }
}
