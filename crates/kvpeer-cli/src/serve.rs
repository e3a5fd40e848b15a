//! `kvpeer serve`: the blocks of a file, for peers to fetch.

use std::collections::BTreeMap;
use std::num::NonZeroU64;
use std::sync::Arc;
use std::time::Duration;

use indicatif::{HumanBytes, ProgressBar, ProgressStyle};
use kvpeer::core::{JobId, RequestId, StoreOutcome, Timing};
use kvpeer::wire::{Key, RequestName};
use kvpeer::{BlockTable, Event, Region};
use serde_json::json;

use crate::args::ServeArgs;
use crate::key_list::{KeyList, Names};
use crate::keys::BlockKey;
use crate::layout::Blocks;
use crate::node::{self, Running};
use crate::stopped::{Exit, Stopped};
use crate::table::Facts;
use crate::{interrupt, keys, reasons, say};

/// The port when `--listen` is not given.
const PORT: u16 = 5710;

/// Bytes in a block of a file that is no KV dump, when `--block-len` is not given.
const PLAIN_BLOCK: NonZeroU64 = NonZeroU64::MIN.saturating_add((1 << 20) - 1);

/// Stored blocks wait for their consumer as long as the program runs.
const STORED_FOR: Duration = Duration::from_secs(365 * 24 * 3600);

/// How often the status line is renewed.
const STATUS_EVERY: Duration = Duration::from_millis(500);

pub(crate) fn run(args: &ServeArgs) -> Result<(), Stopped> {
    let (blocks, names) = open(args)?;
    let region = Region::new(blocks.num_blocks(), blocks.block_len());
    let region = region.map_err(|error| Stopped::new(Exit::Local, error.to_string()))?;
    let keys = fill(args, &blocks, names, &region)?;
    if let Some(path) = &args.write_keys {
        let block_len = NonZeroU64::new(blocks.block_len());
        let list = KeyList { block_len, bytes: Some(blocks.bytes()), names, keys: keys.clone() };
        let written = std::fs::write(path, list.to_text());
        written.map_err(|error| Stopped::file(path, format!("cannot be written: {error}")))?;
    }
    let requests: Vec<RequestId> = args.pd.iter().map(|name| request(name)).collect::<Result<_, _>>()?;

    let table = BlockTable::new();
    for (block, key) in (0..).zip(&keys) {
        let key = Key::new(key.as_bytes()).map_err(|error| Stopped::new(Exit::Failed, error.to_string()))?;
        // Nothing is pinned yet, so nothing is refused.
        table.insert(key, block).map_err(|error| Stopped::new(Exit::Failed, error.to_string()))?;
    }
    let timing = Timing { unbound: STORED_FOR, ..Timing::default() };
    let key_scheme = names.scheme(&args.chain.hash_seed);
    let plan = node::Plan { region, default_port: PORT, key_scheme, timing };
    let node = node::start(&args.node, plan, table.clone())?;
    interrupt::ends(&node.handle)?;

    let block_len = blocks.block_len();
    let mut service =
        Service { args, node, table, stores: BTreeMap::new(), block_len, tally: Tally::default() };
    for request in requests {
        service.store(request, &keys)?;
    }
    service.say_ready(&blocks);
    service.run()
}

/// The file as blocks, and how they are named.
fn open(args: &ServeArgs) -> Result<(Blocks, Names), Stopped> {
    let is_dump = args.file.extension().is_some_and(|it| it.eq_ignore_ascii_case("safetensors"));
    let opened = match (args.block_len, is_dump) {
        (None, true) => {
            Blocks::of_kv_dump(&args.file, args.chain.block_tokens).map(|blocks| (blocks, Names::Tokens))
        }
        (len, _) => {
            Blocks::of_file(&args.file, len.unwrap_or(PLAIN_BLOCK)).map(|blocks| (blocks, Names::Content))
        }
    };
    opened.map_err(|error| Stopped::file(&args.file, error))
}

/// Copies the blocks into the region, and names them.
fn fill(
    args: &ServeArgs,
    blocks: &Blocks,
    names: Names,
    region: &Arc<Region>,
) -> Result<Vec<BlockKey>, Stopped> {
    let mut keys = match (names, blocks.tokens()) {
        (Names::Tokens, Some(tokens)) => args.chain.chain().keys(tokens),
        (Names::Tokens, None) => {
            let why = "has no tensor token_ids, so its blocks have no names; serve it as any file, with --block-len";
            return Err(Stopped::file(&args.file, why));
        }
        (Names::Content, _) => Vec::with_capacity(blocks.num_blocks() as usize),
    };
    let bar = ProgressBar::new(blocks.bytes());
    bar.set_style(
        ProgressStyle::with_template("reading {bar:30} {bytes}/{total_bytes}")
            .unwrap_or_else(|_| ProgressStyle::default_bar()),
    );
    let mut buffer = vec![0; region.block_len()];
    for block in 0..blocks.num_blocks() {
        blocks.read(block, &mut buffer).map_err(|error| Stopped::file(&args.file, error))?;
        let written = region.write_block(block, &buffer);
        written.map_err(|error| Stopped::new(Exit::Failed, error.to_string()))?;
        if names == Names::Content {
            keys.push(BlockKey::of_content(block, &buffer));
        }
        bar.inc(blocks.block_len());
    }
    bar.finish_and_clear();
    Ok(keys)
}

fn request(name: &str) -> Result<RequestId, Stopped> {
    let name = RequestName::new(name).map_err(|error| Stopped::usage(format!("--pd {name}: {error}")))?;
    Ok(name.into())
}

struct Service<'a> {
    args: &'a ServeArgs,
    node: Running,
    table: BlockTable,
    stores: BTreeMap<JobId, RequestId>,
    block_len: u64,
    tally: Tally,
}

/// What has happened so far.
#[derive(Default)]
struct Tally {
    sessions: u64,
    /// Lookups with hits, and how their pins ended.
    fetched: u64,
    unclaimed: u64,
    failed: u64,
}

impl Service<'_> {
    fn store(&mut self, request: RequestId, keys: &[BlockKey]) -> Result<(), Stopped> {
        // One job takes as many keys as one message.
        for (first, part) in (0_u32..).step_by(STORE_KEYS).zip(keys.chunks(STORE_KEYS)) {
            let job = self.table.mint();
            let blocks = (first..).take(part.len()).collect();
            let stored = self.node.handle.store(job, &request, keys::run(part), blocks, None).wait();
            stored.map_err(|error| Stopped::usage(format!("--pd {}: {error}", request.as_str())))?;
            self.stores.insert(job, request.clone());
        }
        Ok(())
    }

    fn say_ready(&self, blocks: &Blocks) {
        let Running { address, peer_id, .. } = &self.node;
        if self.args.json {
            self.line(&json!({
                "event": "listening", "address": address, "peer_id": peer_id, "file": self.args.file,
                "blocks": blocks.num_blocks(), "block_len": blocks.block_len(), "bytes": blocks.bytes(),
                "pd": self.args.pd,
            }));
            return;
        }
        let mut facts = Facts::default();
        facts
            .add("serving", self.args.file.display())
            .add("blocks", blocks.num_blocks())
            .add("block length", blocks.block_len());
        if let Some(tokens) = blocks.tokens() {
            facts.add("tokens", format!("{} ({} in a block)", tokens.len(), self.args.chain.block_tokens));
        }
        if !self.args.pd.is_empty() {
            facts.add("stored for", self.args.pd.join(", "));
        }
        if let Some(path) = &self.args.write_keys {
            facts.add("keys in", path.display());
        }
        if address != peer_id {
            facts.add("known as", peer_id);
        }
        // Last: whoever waits for this line may begin.
        facts.add("listening on", address).print();
    }

    /// Until the node is shut down.
    fn run(mut self) -> Result<(), Stopped> {
        let status = ProgressBar::new_spinner();
        status.set_style(
            ProgressStyle::with_template("{msg}").unwrap_or_else(|_| ProgressStyle::default_spinner()),
        );
        loop {
            let event = if status.is_hidden() {
                self.node.events.next()
            } else {
                self.show_status(&status);
                match self.node.events.next_within(STATUS_EVERY) {
                    // Whether that was the time or the end is for the node to say.
                    None if self.node.handle.stats().wait().is_ok() => continue,
                    event => event,
                }
            };
            let Some(event) = event else { break };
            self.take(event);
        }
        status.finish_and_clear();
        self.say_end();
        Ok(())
    }

    fn show_status(&self, status: &ProgressBar) {
        let Ok(stats) = self.node.handle.stats().wait() else { return };
        let now = stats.totals;
        status.set_message(format!(
            "{} fetches under way, {} in {} WRITEs; {} lookups fetched, {} sessions so far",
            now.rounds,
            HumanBytes(now.blocks_in_flight as u64 * self.block_len),
            now.writes,
            self.tally.fetched,
            self.tally.sessions,
        ));
        status.tick();
    }

    fn take(&mut self, event: Event) {
        match event {
            Event::StoreFinished { job, outcome } => self.store_finished(job, outcome),
            Event::PeerUp { peer } => {
                self.tally.sessions += 1;
                self.line(&json!({ "event": "peer_up", "peer": peer.as_str() }));
                tracing::info!("{}: session up", peer.as_str());
            }
            Event::PeerDown { peer, reason, .. } => {
                let why = reasons::close_reason(peer.as_str(), reason).line;
                self.line(&json!({ "event": "peer_down", "peer": peer.as_str(), "reason": why }));
                tracing::info!("session down: {why}");
            }
            Event::FetchArrived { request, peer } => {
                tracing::info!("{} fetches for request {}", peer.as_str(), request.as_str());
            }
            Event::PeerRefused { peer, code } => {
                let why = reasons::refused(peer.as_str(), code);
                self.line(&json!({ "event": "peer_refused", "peer": peer.as_str(), "reason": why }));
                tracing::warn!("{why}");
            }
            Event::Trouble(trouble) => tracing::warn!("{trouble}"),
            Event::LoadFinished { .. }
            | Event::DestinationReleased { .. }
            | Event::RequestFailed { .. }
            | Event::LookupAnswered { .. }
            | Event::Lagged { .. } => {}
        }
    }

    fn store_finished(&mut self, job: JobId, outcome: StoreOutcome) {
        self.table.finished(job);
        match outcome {
            StoreOutcome::Delivered | StoreOutcome::Partly { .. } => self.tally.fetched += 1,
            StoreOutcome::Unclaimed => self.tally.unclaimed += 1,
            StoreOutcome::Failed(_) => self.tally.failed += 1,
        }
        if let Some(request) = self.stores.remove(&job) {
            let outcome = reasons::store_outcome(outcome);
            self.line(&json!({ "event": "store_finished", "request": request.as_str(), "outcome": outcome }));
            tracing::info!("request {}: {outcome}", request.as_str());
        }
    }

    fn say_end(&self) {
        let Tally { sessions, fetched, unclaimed, failed } = self.tally;
        self.line(&json!({
            "event": "stopped", "sessions": sessions, "fetched": fetched, "unclaimed": unclaimed, "failed": failed,
        }));
        if !self.args.json {
            Facts::default()
                .add("sessions", sessions)
                .add("fetched", format!("{fetched} lookups and stores"))
                .add("not claimed", unclaimed)
                .add("failed", failed)
                .print();
        }
    }

    /// For machines only.
    fn line(&self, line: &serde_json::Value) {
        if self.args.json {
            say::line(line);
        }
    }
}

/// Keys in one store.
const STORE_KEYS: usize = 16_384;
