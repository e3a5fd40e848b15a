//! Messages to bytes.

use alloc::vec::Vec;

use serde::Serialize;

use super::EncodeError;
use super::body;
use super::fields::{Run, append};
use crate::{Bits, Blocks, Connect, Fetch, Keys, MAX_METADATA_LEN, Msg, Outcome, Text, TransferDone};

/// The bytes of a frame's length field.
const LENGTH_LEN: usize = 4;

impl Msg<'_> {
    /// Appends this message as a frame: the length of what follows (`u32`, little-endian), the kind, the body.
    ///
    /// # Errors
    /// [`EncodeError`]; `out` is then as it was.
    pub fn encode(&self, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        let start = out.len();
        let framed = encode_at(self, start, out);
        if framed.is_err() {
            out.truncate(start);
        }
        framed
    }
}

fn encode_at(msg: &Msg<'_>, start: usize, out: &mut Vec<u8>) -> Result<(), EncodeError> {
    out.extend_from_slice(&[0; LENGTH_LEN]);
    out.push(msg.kind().number());
    encode_body(msg, out)?;
    let len = out.len() - start - LENGTH_LEN;
    let length = u32::try_from(len).map_err(|_| EncodeError::FrameTooLong { len })?;
    out[start..start + LENGTH_LEN].copy_from_slice(&length.to_le_bytes());
    Ok(())
}

fn encode_body(msg: &Msg<'_>, out: &mut Vec<u8>) -> Result<(), EncodeError> {
    let mut write = Writer { msg, out };
    match msg {
        Msg::Connect(connect) => write.body(&connect_body(connect)?),
        Msg::ConnectAck(ack) => write.body(&body::ConnectAck { incarnation: ack.incarnation }),
        Msg::Reject(reject) => write.body(&body::Reject {
            code: reject.code.code().get(),
            field: text(reject.field),
            ours: text(reject.ours),
            theirs: text(reject.theirs),
            retry_after_ms: reject.retry_after_ms,
        }),
        Msg::Disconnect(goodbye) => write
            .body(&body::Disconnect { reason: goodbye.reason.code().get(), detail: text(goodbye.detail) }),
        Msg::Ping(nonce) | Msg::Pong(nonce) => write.body(&body::Nonce { nonce: nonce.0 }),
        Msg::Lookup(lookup) => write.body(&body::Lookup {
            lookup_id: lookup.lookup_id.0,
            request: Run(lookup.request.as_str().as_bytes()),
            round: lookup.round.0,
            keys: keys(lookup.keys),
        }),
        Msg::LookupResp(resp) => write.body(&body::LookupResp {
            lookup_id: resp.lookup_id.0,
            offset: resp.offset,
            hits: bits(resp.hits),
            pin_ms: resp.pin_ms,
        }),
        Msg::Fetch(fetch) => {
            write.body(&fetch_body(fetch))?;
            write.blocks(fetch.demand.blocks())?;
            write.body(&body::FetchEnd { wait_ms: fetch.wait_ms })
        }
        Msg::FetchProgress(progress) => write.body(&body::FetchProgress {
            request: Run(progress.request.as_str().as_bytes()),
            round: progress.round.0,
            matched: progress.matched,
            parked: progress.parked,
            landed: progress.landed,
        }),
        Msg::TransferDone(done) => write.body(&done_body(done)),
        Msg::AbortFetch(abort) => write.body(&body::AbortFetch {
            request: Run(abort.request.as_str().as_bytes()),
            round: abort.round.0,
        }),
        Msg::AbortAck(ack) => write.body(&body::AbortAck {
            request: Run(ack.request.as_str().as_bytes()),
            round: ack.round.0,
            settled: ack.settled,
        }),
        Msg::Release(release) => {
            write.body(&body::Release { request: Run(release.request.as_str().as_bytes()) })
        }
    }
}

struct Writer<'m, 'o> {
    msg: &'m Msg<'m>,
    out: &'o mut Vec<u8>,
}

impl Writer<'_, '_> {
    fn body<T: Serialize>(&mut self, body: &T) -> Result<(), EncodeError> {
        append(body, self.out).map_err(|_| EncodeError::Body { kind: self.msg.kind() })
    }

    /// Block indexes as a run of bytes, four each, little-endian.
    fn blocks(&mut self, blocks: Blocks<'_>) -> Result<(), EncodeError> {
        if let Some(bytes) = blocks.as_le_bytes() {
            return self.body(&Run(bytes));
        }
        let len = blocks.len() * 4;
        self.body(&len)?;
        let start = self.out.len();
        self.out.resize(start + len, 0);
        let (places, _) = self.out[start..].as_chunks_mut();
        places.iter_mut().zip(blocks.iter()).for_each(|(place, index)| *place = index.to_le_bytes());
        Ok(())
    }
}

fn connect_body<'a>(connect: &Connect<'a>) -> Result<body::Connect<'a>, EncodeError> {
    let len = connect.metadata.len();
    if len > MAX_METADATA_LEN {
        return Err(EncodeError::MetadataTooLong { len });
    }
    Ok(body::Connect {
        peer_id: Run(connect.peer_id.as_str().as_bytes()),
        incarnation: connect.incarnation,
        base_addr: connect.region.base_addr,
        num_blocks: connect.region.num_blocks,
        block_len: connect.region.block_len,
        metadata: Run(connect.metadata),
        hash_seed: text(connect.compat.hash_seed),
        fingerprint: Run(connect.compat.fingerprint.as_bytes()),
        capabilities: connect.capabilities,
        heartbeat_ms: connect.heartbeat_ms,
    })
}

fn fetch_body<'a>(fetch: &Fetch<'a>) -> body::Fetch<'a> {
    body::Fetch {
        request: Run(fetch.request.as_str().as_bytes()),
        round: fetch.round.0,
        supply: fetch.supply.code(),
        keys: keys(fetch.demand.keys()),
    }
}

fn done_body<'a>(done: &TransferDone<'a>) -> body::TransferDone<'a> {
    let (outcome, settled, landed) = match done.outcome {
        Outcome::Ok => (0, true, Bits::default()),
        Outcome::Failed { why, settled, landed } => (why.code().get(), settled, landed),
    };
    body::TransferDone {
        request: Run(done.request.as_str().as_bytes()),
        round: done.round.0,
        outcome,
        settled,
        landed: bits(landed),
    }
}

fn text(text: Text<'_>) -> Run<'_> {
    Run(text.as_str().as_bytes())
}

fn keys(keys: Keys<'_>) -> body::Keys<'_> {
    let (key_len, ends, bytes) = keys.runs();
    body::Keys { key_len, ends: Run(ends), bytes: Run(bytes) }
}

fn bits(bits: Bits<'_>) -> body::Bits<'_> {
    body::Bits { count: bits.len(), bytes: Run(bits.as_bytes()) }
}
