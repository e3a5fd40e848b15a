//! The real input, and the long prompt that is made of it.

use std::sync::Arc;

use kvpeer::Region;
use sha2::{Digest, Sha256};

use super::wrong;
use crate::args::DemoArgs;
use crate::layout::Blocks;
use crate::stopped::Stopped;
use crate::{read_text, tokens};

/// The real prompt, and as many repetitions of it as fill the region.
///
/// The long prompt begins with the real one, so its first blocks are the file's, under the same keys.
pub(crate) struct Prompt {
    /// The real prompt's tokens, as far as they fill blocks.
    pub(crate) tokens: Vec<u32>,
    /// The blocks of the real prompt.
    pub(crate) real: u32,
    /// The blocks of the long one.
    pub(crate) long: u32,
    block_tokens: usize,
    block_len: u64,
    /// What each block of the long prompt must hold.
    digests: Vec<String>,
}

impl Prompt {
    pub(crate) fn open(args: &DemoArgs) -> Result<Self, Stopped> {
        let blocks = Blocks::of_kv_dump(&args.kv, args.block_tokens);
        let blocks = blocks.map_err(|error| Stopped::file(&args.kv, error))?;
        let ring = Ring::read(&blocks).map_err(|error| Stopped::file(&args.kv, error))?;
        let mut tokens =
            tokens::parse(&read_text(&args.tokens)?).map_err(|error| Stopped::file(&args.tokens, error))?;
        let real = blocks.num_blocks();
        tokens.truncate(real as usize * args.block_tokens.get());
        if blocks.tokens().is_some_and(|cached| !cached.starts_with(&tokens))
            || tokens.len() % args.block_tokens != 0
        {
            let why = format!("these are not the tokens whose cache is in {}", args.kv.display());
            return Err(Stopped::file(&args.tokens, why));
        }
        if real < 3 {
            return Err(Stopped::file(&args.kv, "the demo needs a prompt of at least three blocks"));
        }
        let wanted = (u64::from(args.region_mib) << 20).div_ceil(blocks.block_len());
        let long = u32::try_from(wanted)
            .map_err(|_| Stopped::usage("--region-mib has too many blocks"))?
            .max(2 * real);
        let mut content = vec![0; ring.block_len];
        let digests = (0..long).map(|block| {
            ring.copy(block, &mut content);
            digest(&content)
        });
        let digests = digests.collect();
        Ok(Self {
            tokens,
            real,
            long,
            block_tokens: args.block_tokens.get(),
            block_len: blocks.block_len(),
            digests,
        })
    }

    pub(crate) fn block_len(&self) -> u64 {
        self.block_len
    }

    /// The long prompt's tokens.
    pub(crate) fn long_tokens(&self) -> Vec<u32> {
        self.tokens.iter().copied().cycle().take(self.long as usize * self.block_tokens).collect()
    }

    /// The real prompt's tokens, but another text from block `block` on.
    pub(crate) fn forked_at(&self, block: u32) -> Vec<u32> {
        let mut tokens = self.tokens.clone();
        if let Some(token) = tokens.get_mut(block as usize * self.block_tokens) {
            *token = token.wrapping_add(1);
        }
        tokens
    }

    /// What block `block` must hold.
    pub(crate) fn digest(&self, block: u32) -> Option<&String> {
        self.digests.get(block as usize)
    }
}

/// The KV cache of the whole file, read round and round: block `i` of every repetition starts a little later than
/// in the one before, so that no two blocks of a long prompt are equal and a misplaced one is seen.
pub(crate) struct Ring {
    bytes: Vec<u8>,
    block_len: usize,
    blocks: u32,
}

/// How much later: one head's vector of one token, with the committed data.
const STEP: usize = 128;

impl Ring {
    pub(crate) fn read(blocks: &Blocks) -> Result<Self, crate::layout::LayoutError> {
        let block_len = usize::try_from(blocks.block_len()).unwrap_or(usize::MAX);
        let mut bytes = Vec::new();
        let mut block = vec![0; block_len];
        for index in 0..blocks.num_blocks() {
            blocks.read(index, &mut block)?;
            bytes.extend_from_slice(&block);
        }
        Ok(Self { bytes, block_len, blocks: blocks.num_blocks() })
    }

    /// Fills a region, block by block.
    pub(crate) fn fill(&self, region: &Arc<Region>) -> Result<(), Stopped> {
        let mut content = vec![0; self.block_len];
        for block in 0..region.num_blocks() {
            self.copy(block, &mut content);
            region.write_block(block, &content).map_err(|error| wrong(error.to_string()))?;
        }
        Ok(())
    }

    fn copy(&self, block: u32, content: &mut [u8]) {
        let (repetition, place) = ((block / self.blocks) as usize, (block % self.blocks) as usize);
        let start = (place * self.block_len + repetition * STEP) % self.bytes.len();
        let (before, after) = self.bytes.split_at(start);
        let (head, tail) = content.split_at_mut(after.len().min(self.block_len));
        // A block is no longer than the ring.
        head.copy_from_slice(after.split_at(head.len()).0);
        tail.copy_from_slice(before.split_at(tail.len()).0);
    }
}

/// A block's bytes as they are compared between processes.
pub(crate) fn digest(content: &[u8]) -> String {
    Sha256::digest(content).iter().map(|byte| format!("{byte:02x}")).collect()
}
