//! Files of block keys, as `serve --write-keys` and `keys` write and `fetch --keys` reads.
//!
//! ```text
//! # kvpeer keys 1
//! # block-len 368640          bytes in every block
//! # bytes 1843200             bytes in all blocks; fewer than blocks × block-len when the last one is filled up
//! # names content             what the keys are made of: `content` or `tokens`
//! 142a9333…                   one key a line, in the order of the blocks
//! ```
//!
//! Keys may be removed from a list; `bytes` then speaks of more than is in it and is not used. Other lines that start
//! with `#` are comments.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::num::NonZeroU64;

use crate::keys::{BlockKey, CHAIN_NAME, FILE_KEYS_NAME, KeyError};

/// Keys, and what is known about their blocks.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct KeyList {
    /// Bytes in a block, if the list says so.
    pub(crate) block_len: Option<NonZeroU64>,
    /// Bytes in all blocks of the source.
    pub(crate) bytes: Option<u64>,
    pub(crate) names: Names,
    pub(crate) keys: Vec<BlockKey>,
}

/// What the keys are made of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Names {
    /// The tokens up to the block's end.
    Tokens,
    /// The block's own bytes, so that it can be checked.
    Content,
}

impl Names {
    /// What peers compare before they exchange blocks: nodes whose keys are made in another way would only miss.
    pub(crate) fn scheme(self, seed: &str) -> String {
        match self {
            Self::Tokens => format!("{CHAIN_NAME} {seed}"),
            Self::Content => FILE_KEYS_NAME.to_owned(),
        }
    }
}

/// Why a text is no key list.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub(crate) enum KeyListError {
    #[error("no key list: the first line is not `{FIRST_LINE}`")]
    NoHeader,
    #[error("line {line}: {why}")]
    Key { line: usize, why: KeyError },
    #[error("line {line}: the same key as in line {first}")]
    Doubled { line: usize, first: usize },
    #[error("line {line}: `{what}` has no valid value")]
    Value { line: usize, what: &'static str },
    #[error("there are no keys in it")]
    Empty,
}

const FIRST_LINE: &str = "# kvpeer keys 1";

impl KeyList {
    pub(crate) fn to_text(&self) -> String {
        let mut text = format!("{FIRST_LINE}\n");
        // Writing to a string cannot fail.
        if let Some(block_len) = self.block_len {
            let _ = writeln!(text, "# block-len {block_len}");
        }
        if let Some(bytes) = self.bytes {
            let _ = writeln!(text, "# bytes {bytes}");
        }
        let _ = match self.names {
            Names::Tokens => writeln!(text, "# names tokens"),
            Names::Content => writeln!(text, "# names content"),
        };
        for key in &self.keys {
            let _ = writeln!(text, "{key}");
        }
        text
    }

    pub(crate) fn parse(text: &str) -> Result<Self, KeyListError> {
        let mut lines = (1..).zip(text.lines().map(str::trim));
        if lines.next().is_none_or(|(_, first)| first != FIRST_LINE) {
            return Err(KeyListError::NoHeader);
        }
        let mut list = Self { block_len: None, bytes: None, names: Names::Tokens, keys: Vec::new() };
        let mut seen = HashMap::new();
        for (line, text) in lines.filter(|(_, text)| !text.is_empty()) {
            if let Some(comment) = text.strip_prefix('#') {
                list.take_comment(comment).map_err(|what| KeyListError::Value { line, what })?;
                continue;
            }
            let key: BlockKey = text.parse().map_err(|why| KeyListError::Key { line, why })?;
            if let Some(first) = seen.insert(key, line) {
                return Err(KeyListError::Doubled { line, first });
            }
            list.keys.push(key);
        }
        if list.keys.is_empty() { Err(KeyListError::Empty) } else { Ok(list) }
    }

    /// Takes a header line, or fails with its name when its value makes no sense.
    fn take_comment(&mut self, comment: &str) -> Result<(), &'static str> {
        let mut words = comment.split_whitespace();
        match (words.next(), words.next()) {
            (Some("block-len"), value) => {
                self.block_len = Some(value.and_then(|text| text.parse().ok()).ok_or("block-len")?);
            }
            (Some("bytes"), value) => {
                self.bytes = Some(value.and_then(|text| text.parse().ok()).ok_or("bytes")?);
            }
            (Some("names"), Some("tokens")) => self.names = Names::Tokens,
            (Some("names"), Some("content")) => self.names = Names::Content,
            (Some("names"), _) => return Err("names"),
            (Some(_) | None, _) => {}
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(index: u32) -> BlockKey {
        BlockKey::of_content(index, b"x")
    }

    #[test]
    fn a_written_list_reads_the_same() {
        let list = KeyList {
            block_len: NonZeroU64::new(4096),
            bytes: Some(5000),
            names: Names::Content,
            keys: vec![key(0), key(1)],
        };
        assert_eq!(KeyList::parse(&list.to_text()), Ok(list));
    }

    #[test]
    fn comments_and_empty_lines_are_skipped() {
        let list = KeyList::parse(&format!("{FIRST_LINE}\n# mine\n#\n\n  {}  \n", key(3))).expect("a list");
        assert_eq!((list.keys, list.block_len, list.names), (vec![key(3)], None, Names::Tokens));
    }

    #[test]
    fn mistakes_are_named_with_their_line() {
        let refusal =
            |rest: &str| KeyList::parse(&format!("{FIRST_LINE}\n{rest}")).expect_err("refused").to_string();
        assert_eq!(KeyList::parse("hello"), Err(KeyListError::NoHeader));
        assert_eq!(KeyList::parse(""), Err(KeyListError::NoHeader));
        assert_eq!(refusal("abc\n"), "line 2: a key has 72 hexadecimal digits, this has 3 characters");
        assert_eq!(refusal(&format!("{}\n\n{}\n", key(0), key(0))), "line 4: the same key as in line 2");
        assert_eq!(refusal("# block-len 0\n"), "line 2: `block-len` has no valid value");
        assert_eq!(refusal("# bytes many\n"), "line 2: `bytes` has no valid value");
        assert_eq!(refusal("# names colours\n"), "line 2: `names` has no valid value");
        assert_eq!(refusal("# nothing\n"), "there are no keys in it");
    }
}
