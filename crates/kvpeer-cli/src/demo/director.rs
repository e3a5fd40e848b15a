//! Gives the orders, and compares with the file.

use std::time::Instant;

use super::order::{LoadResult, News, Order, Stats, Taken};
use super::process::{PATIENCE, Process};
use super::prompt::{Prompt, digest};
use super::reuse::mark;
use super::wrong;
use crate::args::DemoArgs;
use crate::stopped::{Exit, Stopped};

/// The names of the prompts that both processes learn.
pub(crate) const REAL: &str = "real";
pub(crate) const LONG: &str = "long";

pub(crate) struct Director<'a> {
    args: &'a DemoArgs,
    pub(crate) prompt: &'a Prompt,
    pub(crate) producer: Process,
    pub(crate) consumer: Process,
    /// Blocks that were compared with the file.
    pub(crate) verified: u64,
    requests: u32,
}

/// How a load ended.
pub(crate) struct Loaded {
    pub(crate) result: LoadResult,
    pub(crate) reusable: bool,
}

impl<'a> Director<'a> {
    pub(crate) fn start(args: &'a DemoArgs, prompt: &'a Prompt) -> Result<Self, Stopped> {
        let producer = Self::new_producer(args, prompt)?;
        // Room for the long prompt, and beside it for the real one.
        let blocks = prompt.long.checked_add(prompt.real);
        let blocks = blocks.ok_or_else(|| Stopped::usage("--region-mib has too many blocks"))?;
        let mut consumer = Process::start("consumer", &common(args, prompt, blocks))?;
        // All that the consumer ever gets to know.
        consumer.order(&learn(REAL, prompt.tokens.clone()))?;
        consumer.order(&learn(LONG, prompt.long_tokens()))?;
        Ok(Self { args, prompt, producer, consumer, verified: 0, requests: 0 })
    }

    fn new_producer(args: &DemoArgs, prompt: &Prompt) -> Result<Process, Stopped> {
        let kv = args.kv.to_str().ok_or_else(|| Stopped::file(&args.kv, "its name is no Unicode"))?;
        let mut options = common(args, prompt, prompt.long);
        options.push(format!("--kv={kv}"));
        let mut producer = Process::start("producer", &options)?;
        producer.order(&learn(REAL, prompt.tokens.clone()))?;
        producer.order(&learn(LONG, prompt.long_tokens()))?;
        Ok(producer)
    }

    /// Starts a producer in the place of one that was killed.
    pub(crate) fn replace_producer(&mut self) -> Result<(), Stopped> {
        self.producer = Self::new_producer(self.args, self.prompt)?;
        Ok(())
    }

    /// A request id that was never used.
    pub(crate) fn request(&mut self, what: &str) -> String {
        self.requests += 1;
        format!("{what}-{}", self.requests)
    }

    /// The consumer takes this request's blocks from the producer.
    pub(crate) fn open(&mut self, request: &str, supply: Taken) -> Result<(), Stopped> {
        let (peer, address) = (self.producer.peer.clone(), self.producer.address.clone());
        self.consumer.order(&Order::Open { request: request.to_owned(), peer, address, supply })
    }

    /// The producer offers blocks for a request.
    pub(crate) fn store(&mut self, request: &str, prompt: &str, blocks: Vec<u32>) -> Result<u64, Stopped> {
        self.producer.begin(&Order::Store { request: request.to_owned(), prompt: prompt.to_owned(), blocks })
    }

    pub(crate) fn stored(&mut self, job: u64) -> Result<(), Stopped> {
        let (outcome, delivered) = self.producer.wait_for("the result of a store", |news| {
            let News::StoreFinished { job: finished, outcome, delivered } = news else { return None };
            (*finished == job).then(|| (outcome.clone(), *delivered))
        })?;
        if delivered { Ok(()) } else { Err(wrong(format!("store {job} was not delivered: {outcome}"))) }
    }

    pub(crate) fn hits(
        &mut self,
        request: &str,
        prompt: &str,
        blocks: Vec<u32>,
    ) -> Result<Vec<bool>, Stopped> {
        let (request, prompt) = (request.to_owned(), prompt.to_owned());
        self.consumer.hits(&Order::Lookup { request, prompt, blocks })
    }

    /// The consumer asks for blocks, to be put one after the other from block `at` on.
    pub(crate) fn load(
        &mut self,
        request: &str,
        prompt: &str,
        blocks: Vec<u32>,
        at: u32,
    ) -> Result<u64, Stopped> {
        let (request, prompt) = (request.to_owned(), prompt.to_owned());
        self.consumer.begin(&Order::Load { request, prompt, blocks, at })
    }

    /// The result of a load, waited for.
    pub(crate) fn loaded(&mut self, job: u64) -> Result<Loaded, Stopped> {
        self.consumer.wait_for("the result of a load", |news| result_of(news, job))
    }

    /// Loads, and compares every byte with the file.
    pub(crate) fn load_and_verify(
        &mut self,
        request: &str,
        prompt: &str,
        blocks: &[u32],
        at: u32,
    ) -> Result<(), Stopped> {
        let job = self.load(request, prompt, blocks.to_vec(), at)?;
        let loaded = self.loaded(job)?;
        check_loaded(job, &loaded)?;
        self.verify(blocks, at)
    }

    /// Whether the consumer's blocks from `at` on hold these blocks of the prompt, byte for byte.
    pub(crate) fn verify(&mut self, blocks: &[u32], at: u32) -> Result<(), Stopped> {
        let count = u32::try_from(blocks.len()).unwrap_or(u32::MAX);
        let found = self.consumer.digests(at, count)?;
        if found.len() != blocks.len() {
            return Err(wrong(format!("{} digests of {count} blocks", found.len())));
        }
        for ((block, place), found) in blocks.iter().zip(at..).zip(found) {
            if Some(&found) != self.prompt.digest(*block) {
                return Err(wrong(format!(
                    "block {place} of the consumer's region does not hold block {block} of the prompt"
                )));
            }
        }
        self.verified += u64::from(count);
        Ok(())
    }

    /// Whether the consumer's blocks from `first` on were used for something else, and still are what that made them.
    pub(crate) fn verify_marked(&mut self, first: u32, count: u32, with: u32) -> Result<(), Stopped> {
        let mut content = vec![0; usize::try_from(self.prompt.block_len()).unwrap_or(usize::MAX)];
        let found = self.consumer.digests(first, count)?;
        let overwritten = (first..).zip(&found).filter(|(block, found)| {
            mark(*block, with, &mut content);
            digest(&content) != **found
        });
        match overwritten.count() {
            0 => Ok(()),
            blocks => Err(wrong(format!("{blocks} blocks were overwritten after they were used again"))),
        }
    }

    /// Waits until the producer has posted WRITEs that are not terminal; `None` when the load ended before.
    pub(crate) fn producer_is_writing(&mut self, jobs: &[u64]) -> Result<Option<Stats>, Stopped> {
        let by = Instant::now() + PATIENCE;
        while Instant::now() < by {
            let stats = self.producer.stats()?;
            if stats.writes > 0 {
                return Ok(Some(stats));
            }
            // An order that changes nothing, so that the consumer's news are seen.
            self.consumer.stats()?;
            if jobs.iter().any(|job| self.consumer.has_result(*job)) {
                return Ok(None);
            }
        }
        Err(wrong(format!("the producer posted no WRITE within {PATIENCE:?}")))
    }

    /// Ends both processes in order; answers how many jobs had exactly one result.
    pub(crate) fn end(self) -> Result<usize, Stopped> {
        Ok(self.consumer.end()? + self.producer.end()?)
    }
}

pub(crate) fn check_loaded(job: u64, loaded: &Loaded) -> Result<(), Stopped> {
    match (&loaded.result, loaded.reusable) {
        (LoadResult::Loaded, true) => Ok(()),
        (LoadResult::Loaded, false) => {
            Err(wrong(format!("load {job} is done, but its blocks are quarantined")))
        }
        (LoadResult::Failed { why, landed }, _) => {
            Err(Stopped::new(Exit::Failed, format!("load {job} failed after {landed} blocks: {why}")))
        }
    }
}

fn result_of(news: &News, job: u64) -> Option<Loaded> {
    let News::LoadFinished { job: finished, result, reusable } = news else { return None };
    (*finished == job).then(|| Loaded { result: result.clone(), reusable: *reusable })
}

fn learn(prompt: &str, tokens: Vec<u32>) -> Order {
    Order::Learn { prompt: prompt.to_owned(), tokens }
}

fn common(args: &DemoArgs, prompt: &Prompt, num_blocks: u32) -> Vec<String> {
    vec![
        format!("--block-tokens={}", args.block_tokens),
        format!("--block-len={}", prompt.block_len()),
        format!("--num-blocks={num_blocks}"),
        format!("--provider={}", args.provider),
    ]
}
