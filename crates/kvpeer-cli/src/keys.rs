//! How blocks get their keys.
//!
//! A key has 36 bytes: a SHA-256 hash (32 bytes), then a group index (4 bytes, big-endian).
//!
//! **Blocks of a prompt** are named by the tokens up to their end, so two prompts with a common prefix share the
//! keys of its full blocks. With `T` tokens in a block and `++` for concatenation:
//!
//! ```text
//! hash(-1) = SHA-256("kvpeer block chain 1" ++ 0x00 ++ seed)
//! hash(i)  = SHA-256(hash(i-1) ++ token[i*T] ++ … ++ token[i*T + T-1])     each token as u32, little-endian
//! key(i)   = hash(i) ++ group
//! ```
//!
//! Only full blocks have a key: the tokens after the last full block are computed by whoever needs them. `seed` is a
//! text that all nodes must agree on (empty by default); the group is 0 unless a model's layers are kept in several
//! groups.
//!
//! **Blocks of any other file** are named by what they hold and where, so a receiver can check them:
//!
//! ```text
//! key(i) = SHA-256(bytes of block i) ++ i
//! ```

use std::fmt;
use std::num::NonZeroUsize;
use std::str::FromStr;

use kvpeer::wire::{Key, KeysBuf};
use sha2::{Digest, Sha256};

/// Bytes in a key.
pub const KEY_LEN: usize = 36;

const HASH_LEN: usize = 32;

/// The name of the chain and its version. Peers compare it, with the seed, before they exchange blocks.
pub const CHAIN_NAME: &str = "kvpeer block chain 1";

/// The name of the way in which blocks of other files are named, for the same comparison.
pub const FILE_KEYS_NAME: &str = "kvpeer file keys 1";

/// One block's name. Shown and parsed as 72 hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BlockKey([u8; KEY_LEN]);

impl BlockKey {
    fn new(hash: [u8; HASH_LEN], group: u32) -> Self {
        let mut key = [0; KEY_LEN];
        let (head, tail) = key.split_at_mut(HASH_LEN);
        head.copy_from_slice(&hash);
        tail.copy_from_slice(&group.to_be_bytes());
        Self(key)
    }

    /// The key of block `index` of a file that is no KV dump.
    #[must_use]
    pub fn of_content(index: u32, bytes: &[u8]) -> Self {
        Self::new(Sha256::digest(bytes).into(), index)
    }

    /// Whether a block of a file holds what this key names.
    #[must_use]
    pub fn names_content(&self, bytes: &[u8]) -> bool {
        self.0.split_at(HASH_LEN).0 == Sha256::digest(bytes).as_slice()
    }

    /// The group index, which for a block of a file is its position.
    #[must_use]
    pub fn group(&self) -> u32 {
        let [.., a, b, c, d] = self.0;
        u32::from_be_bytes([a, b, c, d])
    }

    /// The bytes that go on the wire.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Display for BlockKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for BlockKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "BlockKey({self})")
    }
}

/// Why a text is no key.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum KeyError {
    /// It is too short or too long.
    #[error("a key has 72 hexadecimal digits, this has {0} characters")]
    Length(usize),
    /// It has another character.
    #[error("a key has only hexadecimal digits")]
    Digit,
}

impl FromStr for BlockKey {
    type Err = KeyError;

    fn from_str(text: &str) -> Result<Self, KeyError> {
        if text.len() != 2 * KEY_LEN {
            return Err(KeyError::Length(text.chars().count()));
        }
        let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|value| u8::try_from(value).ok());
        let mut key = [0; KEY_LEN];
        for (byte, pair) in key.iter_mut().zip(text.as_bytes().chunks_exact(2)) {
            let &[high, low] = pair else { return Err(KeyError::Digit) };
            let (Some(high), Some(low)) = (digit(high), digit(low)) else { return Err(KeyError::Digit) };
            *byte = high << 4 | low;
        }
        Ok(Self(key))
    }
}

/// What, beside the tokens, decides a prompt's keys.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Chain {
    /// Tokens in a block.
    pub block_tokens: NonZeroUsize,
    /// A text that all nodes must agree on.
    pub seed: String,
    /// The group index in every key.
    pub group: u32,
}

impl Chain {
    /// The chain without seed, for group 0.
    #[must_use]
    pub fn new(block_tokens: NonZeroUsize) -> Self {
        Self { block_tokens, seed: String::new(), group: 0 }
    }

    /// The keys of the full blocks of a prompt, from its first token on.
    #[must_use]
    pub fn keys(&self, tokens: &[u32]) -> Vec<BlockKey> {
        let mut hash: [u8; HASH_LEN] = Sha256::new()
            .chain_update(CHAIN_NAME)
            .chain_update([0])
            .chain_update(&self.seed)
            .finalize()
            .into();
        let mut keys = Vec::with_capacity(tokens.len() / self.block_tokens);
        for block in tokens.chunks_exact(self.block_tokens.get()) {
            let mut next = Sha256::new().chain_update(hash);
            block.iter().for_each(|token| next.update(token.to_le_bytes()));
            hash = next.finalize().into();
            keys.push(BlockKey::new(hash, self.group));
        }
        keys
    }
}

/// Keys as a node takes them.
#[must_use]
pub fn run<'a>(keys: impl IntoIterator<Item = &'a BlockKey>) -> KeysBuf {
    let mut run = KeysBuf::new();
    // 36 bytes are a legal length.
    keys.into_iter().filter_map(|key| Key::new(key.as_bytes()).ok()).for_each(|key| run.push(key));
    run
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chain(block_tokens: usize) -> Chain {
        Chain::new(NonZeroUsize::new(block_tokens).expect("not zero"))
    }

    fn hex(keys: &[BlockKey]) -> Vec<String> {
        keys.iter().map(BlockKey::to_string).collect()
    }

    // The answers were computed with Python's hashlib from the formulas at the top of this file.
    #[test]
    fn known_answers() {
        assert_eq!(
            hex(&chain(2).keys(&[1, 2, 3, 4, 5])),
            [
                "3ed187d3e3bd172e32fb1f30da0c1515088fc39063e054069018d2c68c7ab4cc00000000",
                "db23128a22e13c0b3be3cda22960e1a90501d109686320687d3c12abfc9077ec00000000",
            ]
        );
        let seeded = Chain { seed: "s".to_owned(), group: 7, ..chain(2) };
        assert_eq!(
            hex(&seeded.keys(&[1, 2])),
            ["5edc783c67f133ed18343cf0cff702c95886cd5376802e18b8ea4099e740923100000007"]
        );
        assert_eq!(
            BlockKey::of_content(258, b"kv").to_string(),
            "379f1b10a1c750842d937eb3143098d3775d0b10bfad08e0aea86c892ef858df00000102"
        );
    }

    #[test]
    fn a_common_prefix_has_common_keys() {
        let ours = chain(4).keys(&(0..16).collect::<Vec<_>>());
        let theirs = chain(4).keys(&(0..8).chain([99, 98, 97, 96]).chain(12..16).collect::<Vec<_>>());
        assert_eq!(ours[..2], theirs[..2]);
        assert_ne!(ours[2], theirs[2]);
        assert_ne!(ours[3], theirs[3], "a block is named by everything before it, too");
    }

    #[test]
    fn only_full_blocks_have_keys() {
        assert_eq!(chain(16).keys(&[7; 15]).len(), 0);
        assert_eq!(chain(16).keys(&[7; 16]).len(), 1);
        assert_eq!(chain(16).keys(&[7; 47]).len(), 2);
    }

    #[test]
    fn the_seed_and_the_group_are_part_of_the_name() {
        let tokens = [5; 4];
        let plain = chain(4);
        let seeded = Chain { seed: "other".to_owned(), ..plain.clone() };
        let grouped = Chain { group: 1, ..plain.clone() };
        assert_ne!(plain.keys(&tokens), seeded.keys(&tokens));
        assert_ne!(plain.keys(&tokens), grouped.keys(&tokens));
    }

    #[test]
    fn shown_keys_parse() {
        let key = BlockKey::of_content(3, b"some bytes");
        assert_eq!(key.to_string().parse(), Ok(key));
        assert_eq!(key.group(), 3);
        assert!(key.names_content(b"some bytes") && !key.names_content(b"other bytes"));
    }

    #[test]
    fn other_texts_do_not() {
        assert_eq!("".parse::<BlockKey>(), Err(KeyError::Length(0)));
        assert_eq!("ab".parse::<BlockKey>(), Err(KeyError::Length(2)));
        assert_eq!("x".repeat(72).parse::<BlockKey>(), Err(KeyError::Digit));
        assert_eq!("é".repeat(36).parse::<BlockKey>(), Err(KeyError::Digit));
    }
}
