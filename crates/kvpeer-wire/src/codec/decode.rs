//! Bytes to messages.

use core::num::NonZeroU8;

use super::fields::{Fields, Run};
use super::{DecodeError, Field, body};
use crate::{
    AbortAck, AbortFetch, Bits, Blocks, Compat, Connect, ConnectAck, Demand, DemandError, Disconnect,
    DisconnectReason, FIRST_SKIPPABLE_KIND, Failure, Fetch, FetchProgress, Fingerprint, FingerprintError,
    Keys, Kind, Limits, Lookup, LookupId, LookupResp, MAX_METADATA_LEN, MAX_NAME_LEN, Msg, Nonce, Outcome,
    PeerName, RegionInfo, Reject, RejectCode, Release, RequestName, Round, Supply, Text, TransferDone,
};

/// What a frame holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Decoded<'a> {
    /// A message.
    Msg(Msg<'a>),
    /// A message of a newer version that may be skipped: its kind is [`FIRST_SKIPPABLE_KIND`] or higher.
    Skipped {
        /// The number of its kind.
        kind: u8,
    },
}

impl<'a> Msg<'a> {
    /// Reads the message of kind `kind` whose body is `body` (FR-10); it borrows from `body`, nothing is allocated
    /// (FR-11).
    /// Bytes after the last field that this version knows are ignored.
    ///
    /// # Errors
    /// [`DecodeError`] names what is wrong.
    pub fn decode(kind: u8, body: &'a [u8], limits: &Limits) -> Result<Decoded<'a>, DecodeError> {
        let len = body.len() + 1;
        if len > limits.frame as usize {
            return Err(DecodeError::FrameTooLong { len, limit: limits.frame });
        }
        match Kind::from_number(kind) {
            Some(kind) => Decoder { fields: Fields::new(kind, body), limits }.msg(kind).map(Decoded::Msg),
            None if kind >= FIRST_SKIPPABLE_KIND => Ok(Decoded::Skipped { kind }), // FR-8
            None => Err(DecodeError::UnknownKind { kind }),
        }
    }
}

struct Decoder<'a, 'l> {
    fields: Fields<'a>,
    limits: &'l Limits,
}

impl<'a> Decoder<'a, '_> {
    fn msg(mut self, kind: Kind) -> Result<Msg<'a>, DecodeError> {
        Ok(match kind {
            Kind::Connect => Msg::Connect(self.connect()?),
            Kind::ConnectAck => {
                let body::ConnectAck { incarnation } = self.fields.required()?;
                Msg::ConnectAck(ConnectAck { incarnation })
            }
            Kind::Reject => Msg::Reject(self.reject()?),
            Kind::Disconnect => Msg::Disconnect(self.disconnect()?),
            Kind::Ping => Msg::Ping(self.nonce()?),
            Kind::Pong => Msg::Pong(self.nonce()?),
            Kind::Lookup => Msg::Lookup(self.lookup()?),
            Kind::LookupResp => Msg::LookupResp(self.lookup_resp()?),
            Kind::Fetch => Msg::Fetch(self.fetch()?),
            Kind::FetchProgress => Msg::FetchProgress(self.fetch_progress()?),
            Kind::TransferDone => Msg::TransferDone(self.transfer_done()?),
            Kind::AbortFetch => {
                let body::AbortFetch { request, round } = self.fields.required()?;
                Msg::AbortFetch(AbortFetch { request: self.request(request)?, round: Round(round) })
            }
            Kind::AbortAck => {
                let body::AbortAck { request, round, settled } = self.fields.required()?;
                Msg::AbortAck(AbortAck { request: self.request(request)?, round: Round(round), settled })
            }
            Kind::Release => {
                let body::Release { request } = self.fields.required()?;
                Msg::Release(Release { request: self.request(request)? })
            }
        })
    }

    fn connect(&mut self) -> Result<Connect<'a>, DecodeError> {
        let body: body::Connect<'a> = self.fields.required()?;
        Ok(Connect {
            peer_id: PeerName::new(self.name(body.peer_id, Field::PeerId)?)
                .map_err(|_| DecodeError::Empty { field: Field::PeerId })?,
            incarnation: body.incarnation,
            region: RegionInfo {
                base_addr: body.base_addr,
                num_blocks: body.num_blocks,
                block_len: body.block_len,
            },
            metadata: bounded(body.metadata, Field::Metadata, self.limits.metadata, MAX_METADATA_LEN)?,
            compat: Compat {
                hash_seed: self.text(body.hash_seed, Field::HashSeed)?,
                fingerprint: fingerprint(body.fingerprint)?,
            },
            capabilities: body.capabilities,
            heartbeat_ms: body.heartbeat_ms,
        })
    }

    fn reject(&mut self) -> Result<Reject<'a>, DecodeError> {
        let body: body::Reject<'a> = self.fields.required()?;
        Ok(Reject {
            code: RejectCode::from_code(reason(body.code, Field::RejectCode)?),
            field: self.text(body.field, Field::RejectField)?,
            ours: self.text(body.ours, Field::RejectOurs)?,
            theirs: self.text(body.theirs, Field::RejectTheirs)?,
            retry_after_ms: body.retry_after_ms,
        })
    }

    fn disconnect(&mut self) -> Result<Disconnect<'a>, DecodeError> {
        let body: body::Disconnect<'a> = self.fields.required()?;
        Ok(Disconnect {
            reason: DisconnectReason::from_code(reason(body.reason, Field::DisconnectReason)?),
            detail: self.text(body.detail, Field::DisconnectDetail)?,
        })
    }

    fn nonce(&mut self) -> Result<Nonce, DecodeError> {
        let body::Nonce { nonce } = self.fields.required()?;
        Ok(Nonce(nonce))
    }

    fn lookup(&mut self) -> Result<Lookup<'a>, DecodeError> {
        let body: body::Lookup<'a> = self.fields.required()?;
        Ok(Lookup {
            lookup_id: LookupId(body.lookup_id),
            request: self.request(body.request)?,
            round: Round(body.round),
            keys: self.keys(&body.keys)?,
        })
    }

    fn lookup_resp(&mut self) -> Result<LookupResp<'a>, DecodeError> {
        let body: body::LookupResp<'a> = self.fields.required()?;
        // The lookup that this answers had no more keys than are allowed.
        self.count(u64::from(body.offset) + u64::from(body.hits.count))?;
        Ok(LookupResp {
            lookup_id: LookupId(body.lookup_id),
            offset: body.offset,
            hits: self.bits(&body.hits)?,
            pin_ms: body.pin_ms,
        })
    }

    fn fetch(&mut self) -> Result<Fetch<'a>, DecodeError> {
        let body: body::Fetch<'a> = self.fields.required()?;
        let Run(run) = self.fields.required()?;
        let body::FetchEnd { wait_ms } = self.fields.required()?;
        let keys = self.keys(&body.keys)?;
        let blocks = Blocks::from_le_bytes(run).ok_or(DecodeError::BlocksRagged { bytes: run.len() })?;
        Ok(Fetch {
            request: self.request(body.request)?,
            round: Round(body.round),
            supply: Supply::from_code(body.supply).ok_or(DecodeError::UnknownSupply { code: body.supply })?,
            demand: Demand::new(keys, blocks)
                .map_err(|DemandError { keys, blocks }| DecodeError::DemandUneven { keys, blocks })?,
            wait_ms,
        })
    }

    fn fetch_progress(&mut self) -> Result<FetchProgress<'a>, DecodeError> {
        let body: body::FetchProgress<'a> = self.fields.required()?;
        Ok(FetchProgress {
            request: self.request(body.request)?,
            round: Round(body.round),
            matched: body.matched,
            parked: body.parked,
            landed: body.landed,
        })
    }

    fn transfer_done(&mut self) -> Result<TransferDone<'a>, DecodeError> {
        let body: body::TransferDone<'a> = self.fields.required()?;
        let landed = self.bits(&body.landed)?;
        let outcome = match NonZeroU8::new(body.outcome) {
            Some(code) => Outcome::Failed { why: Failure::from_code(code), settled: body.settled, landed },
            None if !body.settled => return Err(DecodeError::OkUnsettled),
            None if !landed.is_empty() => return Err(DecodeError::OkWithBits),
            None => Outcome::Ok,
        };
        Ok(TransferDone { request: self.request(body.request)?, round: Round(body.round), outcome })
    }

    fn request(&self, run: Run<'a>) -> Result<RequestName<'a>, DecodeError> {
        let field = Field::Request;
        RequestName::new(self.name(run, field)?).map_err(|_| DecodeError::Empty { field })
    }

    fn text(&self, run: Run<'a>, field: Field) -> Result<Text<'a>, DecodeError> {
        // Its length was checked: nothing is cut off.
        self.name(run, field).map(Text::truncated)
    }

    fn name(&self, run: Run<'a>, field: Field) -> Result<&'a str, DecodeError> {
        let bytes = bounded(run, field, self.limits.name, MAX_NAME_LEN)?;
        core::str::from_utf8(bytes).map_err(|_| DecodeError::NotUtf8 { field })
    }

    fn keys(&self, body: &body::Keys<'a>) -> Result<Keys<'a>, DecodeError> {
        let (ends, bytes) = (body.ends.0, body.bytes.0);
        let count = match usize::from(body.key_len) {
            0 => ends.len() / 4,
            len => bytes.len() / len,
        };
        self.count(count as u64)?;
        Keys::from_runs(body.key_len, ends, bytes, self.limits.key_len)
    }

    fn bits(&self, body: &body::Bits<'a>) -> Result<Bits<'a>, DecodeError> {
        let (count, bytes) = (body.count, body.bytes.0);
        self.count(u64::from(count))?;
        Bits::new(count, bytes).ok_or(match Bits::bytes_for(count) == bytes.len() {
            true => DecodeError::BitsPastEnd { count },
            false => DecodeError::BitsLength { count, bytes: bytes.len() },
        })
    }

    fn count(&self, count: u64) -> Result<(), DecodeError> {
        let limit = self.limits.keys;
        if count > u64::from(limit) {
            return Err(DecodeError::TooManyKeys { count, limit });
        }
        Ok(())
    }
}

fn bounded<'a>(run: Run<'a>, field: Field, limit: u32, ever: usize) -> Result<&'a [u8], DecodeError> {
    let (len, limit) = (run.0.len(), ever.min(limit as usize));
    if len > limit {
        return Err(DecodeError::TooLong { field, len, limit });
    }
    Ok(run.0)
}

fn fingerprint(run: Run<'_>) -> Result<Fingerprint<'_>, DecodeError> {
    Fingerprint::from_bytes(run.0).map_err(|error| match error {
        FingerprintError::CutOff => DecodeError::FingerprintCutOff,
        FingerprintError::NotUtf8 => DecodeError::NotUtf8 { field: Field::Fingerprint },
        FingerprintError::Unpaired => DecodeError::FingerprintUnpaired,
    })
}

fn reason(code: u8, field: Field) -> Result<NonZeroU8, DecodeError> {
    NonZeroU8::new(code).ok_or(DecodeError::NoReason { field })
}
