//! `kvpeer keys`: the keys of a prompt's blocks.

use std::io::Write;

use crate::args::{ChainArgs, KeysArgs};
use crate::key_list::{KeyList, Names};
use crate::keys::{BlockKey, Chain};
use crate::stopped::{Exit, Stopped};
use crate::{read_text, tokens};

pub(crate) fn run(args: &KeysArgs) -> Result<(), Stopped> {
    let keys = of_token_file(&args.tokens, &args.chain)?;
    let bytes = args.block_len.map(|len| len.get().saturating_mul(keys.len() as u64));
    let list = KeyList { block_len: args.block_len, bytes, names: Names::Tokens, keys };
    let written = std::io::stdout().write_all(list.to_text().as_bytes());
    written.map_err(|error| Stopped::new(Exit::Failed, format!("the keys cannot be written: {error}")))
}

/// The keys of a prompt's full blocks; at least one.
pub(crate) fn of_token_file(path: &std::path::Path, args: &ChainArgs) -> Result<Vec<BlockKey>, Stopped> {
    let tokens = tokens::parse(&read_text(path)?).map_err(|error| Stopped::file(path, error))?;
    let keys = args.chain().keys(&tokens);
    if keys.is_empty() {
        let why = format!(
            "{} tokens do not fill one block of {}; use a smaller --block-tokens",
            tokens.len(),
            args.block_tokens
        );
        return Err(Stopped::file(path, why));
    }
    Ok(keys)
}

impl ChainArgs {
    pub(crate) fn chain(&self) -> Chain {
        Chain { block_tokens: self.block_tokens, seed: self.hash_seed.clone(), group: self.group }
    }
}
