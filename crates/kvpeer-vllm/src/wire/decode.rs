//! Payloads to messages.

use kvpeer_wire::{Limits, MAX_KEY_LEN, MAX_METADATA_LEN, MAX_NAME_LEN, PeerName, RequestName, Text};

use super::cursor::{Cursor, Head};
use super::fields::Fields;
use super::{
    AbortAck, AbortFetch, Connect, ConnectAck, DecodeError, Fetch, Field, HitList, IndexList, KeyList,
    Lookup, LookupResp, Message, RoundSeq, Shape, Success, TransferDone,
};

/// What a payload holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Decoded<'a> {
    /// A message.
    Message(Message<'a>),
    /// A map of a type that vLLM 0.33.0 does not have. vLLM passes over it, and so should we.
    Unknown {
        /// Its `type`.
        kind: &'a str,
    },
}

impl<'a> Message<'a> {
    /// Reads one payload; the message borrows from it, nothing is allocated. Fields that 0.33.0 does not have are
    /// passed over.
    ///
    /// # Errors
    /// [`DecodeError`] names what is wrong.
    pub fn decode(payload: &'a [u8], limits: &Limits) -> Result<Decoded<'a>, DecodeError> {
        if payload.len() > limits.frame as usize {
            return Err(DecodeError::TooLong { len: payload.len(), limit: limits.frame });
        }
        let fields = Fields::read(payload)?;
        let kind = text(fields.required(Field::Type)?, Field::Type, limits)?;
        let read = Reader { fields, limits };
        Ok(Decoded::Message(match kind {
            "connect" => Self::Connect(read.connect()?),
            "connect_ack" => Self::ConnectAck(ConnectAck { peer_id: read.peer_id()? }),
            "disconnect" => Self::Disconnect,
            "fetch" => Self::Fetch(read.fetch()?),
            "lookup" => Self::Lookup(Lookup {
                kv_request_id: read.request()?,
                keys: read.keys()?,
                round_seq: read.round()?,
            }),
            "lookup_resp" => Self::LookupResp(read.lookup_resp()?),
            "transfer_done" => Self::TransferDone(TransferDone {
                kv_request_id: read.request()?,
                success: read.success()?,
                round_seq: read.round()?,
            }),
            "abort_fetch" => {
                Self::AbortFetch(AbortFetch { kv_request_id: read.request()?, round_seq: read.round()? })
            }
            "abort_ack" => {
                Self::AbortAck(AbortAck { kv_request_id: read.request()?, round_seq: read.round()? })
            }
            kind => return Ok(Decoded::Unknown { kind }),
        }))
    }
}

struct Reader<'a, 'l> {
    fields: Fields<'a>,
    limits: &'l Limits,
}

impl<'a> Reader<'a, '_> {
    fn connect(&self) -> Result<Connect<'a>, DecodeError> {
        let config_fingerprint = match self.fields.get(Field::ConfigFingerprint) {
            Some(value) => text(value, Field::ConfigFingerprint, self.limits)?,
            None => "",
        };
        let hash_seed = text(self.fields.required(Field::HashSeed)?, Field::HashSeed, self.limits)?;
        Ok(Connect {
            peer_id: self.peer_id()?,
            agent_metadata: self.metadata()?,
            base_addr: self.integer(Field::BaseAddr)?,
            num_blocks: narrow(
                Field::NumBlocks,
                positive(Field::NumBlocks, self.integer(Field::NumBlocks)?)?,
            )?,
            block_len: positive(Field::BlockLen, self.integer(Field::BlockLen)?)?,
            // Both are within the limit of a text.
            config_fingerprint: Text::truncated(config_fingerprint),
            hash_seed: Text::truncated(hash_seed),
        })
    }

    fn fetch(&self) -> Result<Fetch<'a>, DecodeError> {
        let (keys, block_indexes) = (self.keys()?, self.block_indexes()?);
        even(keys, Field::BlockIndexes, block_indexes.len())?;
        Ok(Fetch { kv_request_id: self.request()?, keys, block_indexes, round_seq: self.round()? })
    }

    fn lookup_resp(&self) -> Result<LookupResp<'a>, DecodeError> {
        let (keys, hits) = (self.keys()?, self.hits()?);
        even(keys, Field::Hits, hits.len())?;
        Ok(LookupResp { kv_request_id: self.request()?, keys, hits })
    }

    fn peer_id(&self) -> Result<PeerName<'a>, DecodeError> {
        let name = text(self.fields.required(Field::PeerId)?, Field::PeerId, self.limits)?;
        PeerName::new(name).map_err(|_| DecodeError::Empty { field: Field::PeerId })
    }

    fn request(&self) -> Result<RequestName<'a>, DecodeError> {
        let name = text(self.fields.required(Field::KvRequestId)?, Field::KvRequestId, self.limits)?;
        RequestName::new(name).map_err(|_| DecodeError::Empty { field: Field::KvRequestId })
    }

    fn round(&self) -> Result<RoundSeq, DecodeError> {
        self.integer(Field::RoundSeq).map(RoundSeq)
    }

    fn integer(&self, field: Field) -> Result<u64, DecodeError> {
        integer(&mut Cursor::new(self.fields.required(field)?), field)
    }

    fn success(&self) -> Result<Success, DecodeError> {
        let field = Field::Success;
        Ok(if boolean(&mut Cursor::new(self.fields.required(field)?), field)? {
            Success::Yes
        } else {
            Success::No
        })
    }

    fn metadata(&self) -> Result<&'a [u8], DecodeError> {
        let field = Field::AgentMetadata;
        let bytes = byte_string(&mut Cursor::new(self.fields.required(field)?), field)?;
        let limit = MAX_METADATA_LEN.min(self.limits.metadata as usize);
        within(field, bytes.len(), limit).map(|()| bytes)
    }

    fn keys(&self) -> Result<KeyList<'a>, DecodeError> {
        let (mut values, count) = self.list(Field::Keys)?;
        let all = values.rest();
        let limit = MAX_KEY_LEN.min(self.limits.key_len as usize);
        for _ in 0..count {
            let len = byte_string(&mut values, Field::Keys)?.len();
            if len == 0 || len > limit {
                return Err(DecodeError::KeyLength { len, limit });
            }
        }
        Ok(KeyList::packed(count, all))
    }

    fn block_indexes(&self) -> Result<IndexList<'a>, DecodeError> {
        let (mut values, count) = self.list(Field::BlockIndexes)?;
        let all = values.rest();
        for _ in 0..count {
            narrow(Field::BlockIndexes, integer(&mut values, Field::BlockIndexes)?)?;
        }
        Ok(IndexList::packed(count, all))
    }

    fn hits(&self) -> Result<HitList<'a>, DecodeError> {
        let (mut values, count) = self.list(Field::Hits)?;
        let all = values.rest();
        for _ in 0..count {
            boolean(&mut values, Field::Hits)?;
        }
        Ok(HitList::packed(all))
    }

    /// The elements of a list, and how many there are.
    fn list(&self, field: Field) -> Result<(Cursor<'a>, u32), DecodeError> {
        let mut values = Cursor::new(self.fields.required(field)?);
        let head = values.head()?;
        let Head::Array(count) = head else { return Err(mistyped(field, Shape::Array, head)) };
        match self.limits.keys {
            limit if count > limit => Err(DecodeError::TooMany { field, count, limit }),
            _ => Ok((values, count)),
        }
    }
}

fn mistyped(field: Field, expected: Shape, found: Head) -> DecodeError {
    DecodeError::Type { field, expected, found: found.shape() }
}

/// Booleans are no integers here, although Python and so vLLM takes them for such.
fn integer(value: &mut Cursor<'_>, field: Field) -> Result<u64, DecodeError> {
    let head = value.head()?;
    let Head::Uint(value) = head else { return Err(mistyped(field, Shape::Integer, head)) };
    Ok(value)
}

fn boolean(value: &mut Cursor<'_>, field: Field) -> Result<bool, DecodeError> {
    let head = value.head()?;
    let Head::Bool(value) = head else { return Err(mistyped(field, Shape::Bool, head)) };
    Ok(value)
}

fn byte_string<'a>(value: &mut Cursor<'a>, field: Field) -> Result<&'a [u8], DecodeError> {
    let head = value.head()?;
    let Head::Bin(len) = head else { return Err(mistyped(field, Shape::Bin, head)) };
    value.take(len as usize)
}

fn text<'a>(value: &'a [u8], field: Field, limits: &Limits) -> Result<&'a str, DecodeError> {
    let mut value = Cursor::new(value);
    let head = value.head()?;
    let Head::Str(len) = head else { return Err(mistyped(field, Shape::Str, head)) };
    let bytes = value.take(len as usize)?;
    within(field, bytes.len(), MAX_NAME_LEN.min(limits.name as usize))?;
    std::str::from_utf8(bytes).map_err(|_| DecodeError::NotUtf8 { field })
}

fn within(field: Field, len: usize, limit: usize) -> Result<(), DecodeError> {
    if len <= limit { Ok(()) } else { Err(DecodeError::FieldTooLong { field, len, limit }) }
}

fn positive(field: Field, value: u64) -> Result<u64, DecodeError> {
    if value == 0 { Err(DecodeError::Range { field, value }) } else { Ok(value) }
}

fn narrow(field: Field, value: u64) -> Result<u32, DecodeError> {
    u32::try_from(value).map_err(|_| DecodeError::Range { field, value })
}

fn even(keys: KeyList<'_>, field: Field, others: usize) -> Result<(), DecodeError> {
    // Both were counted with 32 bits.
    match (keys.len(), others) {
        (keys, others) if keys == others => Ok(()),
        (keys, others) => Err(DecodeError::Uneven { keys: keys as u32, field, others: others as u32 }),
    }
}
