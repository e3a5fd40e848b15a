//! The append rule, both ways: a reader of version 1 and one of a later minor version understand each other's
//! writers.

use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use super::fields::{Fields, Run, append};
use super::{Decoded, body};
use crate::{AbortFetch, DecodeError, Kind, Limits, Msg, RequestName, Round};

/// Appended by an imagined version 1.1.
#[derive(Serialize, Deserialize, Default, PartialEq, Eq, Debug)]
struct Since1 {
    priority: u32,
    urgent: bool,
}

/// Appended by an imagined version 1.2.
#[derive(Serialize, Deserialize, PartialEq, Eq, Debug)]
struct Since2 {
    tenant: u64,
}

impl Default for Since2 {
    fn default() -> Self {
        Self { tenant: 77 }
    }
}

const SINCE_1: Since1 = Since1 { priority: 300, urgent: true };
const SINCE_2: Since2 = Since2 { tenant: 1 << 40 };

fn written_by(minor: u8) -> Vec<u8> {
    let mut out = Vec::new();
    append(&body::AbortFetch { request: Run(b"req"), round: 5 }, &mut out).unwrap();
    if minor >= 1 {
        append(&SINCE_1, &mut out).unwrap();
    }
    if minor >= 2 {
        append(&SINCE_2, &mut out).unwrap();
    }
    out
}

/// As version 1.2 would read it.
fn read(bytes: &[u8]) -> Result<(u64, Since1, Since2), DecodeError> {
    let mut fields = Fields::new(Kind::AbortFetch, bytes);
    let body::AbortFetch { round, .. } = fields.required()?;
    Ok((round, fields.appended()?, fields.appended()?))
}

// FR-9
#[test]
fn an_older_reader_ignores_appended_fields() {
    let msg = AbortFetch { request: RequestName::new("req").unwrap(), round: Round(5) };
    for minor in 0..=2 {
        let body = written_by(minor);
        let read = Msg::decode(Kind::AbortFetch.number(), &body, &Limits::DEFAULT);
        assert_eq!(read, Ok(Decoded::Msg(Msg::AbortFetch(msg))), "written by 1.{minor}");
    }
}

// FR-9
#[test]
fn a_newer_reader_defaults_fields_that_did_not_come() {
    assert_eq!(read(&written_by(0)), Ok((5, Since1::default(), Since2::default())));
    assert_eq!(read(&written_by(1)), Ok((5, SINCE_1, Since2::default())));
    assert_eq!(read(&written_by(2)), Ok((5, SINCE_1, SINCE_2)));
}

#[test]
fn a_newer_reader_ignores_what_comes_after_its_own_fields() {
    let mut body = written_by(2);
    body.extend_from_slice(&[0xff; 9]);
    assert_eq!(read(&body), Ok((5, SINCE_1, SINCE_2)));
}

#[test]
fn appended_fields_come_together_or_not_at_all() {
    let body = written_by(1);
    for end in written_by(0).len() + 1..body.len() {
        assert_eq!(read(&body[..end]), Err(DecodeError::CutOff { kind: Kind::AbortFetch }));
    }
}
