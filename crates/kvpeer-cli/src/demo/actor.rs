//! One of the demo's processes: a node that follows orders from standard input.

use std::collections::{BTreeSet, HashMap};
use std::io::{self, BufRead};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use kvpeer::core::{Destination, JobId, LookupState, PeerId, RequestId, Role, StoreOutcome, Timing};
use kvpeer::wire::{Key, KeysBuf, PeerName, RequestName, Supply};
use kvpeer::{BlockError, BlockTable, Event, Events, LoadOutcome, NodeHandle, Part, Region};
use rustix::process::{Pid, Signal, getppid, set_parent_process_death_signal};

use super::order::{Line, LoadResult, News, Order, Reply, Stats, Taken};
use super::prompt::{Ring, digest};
use super::reuse::{Reuse, mark};
use super::wrong;
use crate::args::{DemoNodeArgs, NodeArgs};
use crate::key_list::Names;
use crate::keys::{self, BlockKey, Chain};
use crate::layout::Blocks;
use crate::stopped::{Exit, Stopped};
use crate::{node, reasons, say};

pub(crate) fn run(args: &DemoNodeArgs) -> Result<(), Stopped> {
    die_with_parent(args.parent)?;
    let region = Region::new(args.num_blocks, args.block_len.get());
    let region = region.map_err(|error| Stopped::new(Exit::Local, error.to_string()))?;
    if let Some(kv) = &args.kv {
        let blocks = Blocks::of_kv_dump(kv, args.block_tokens).map_err(|error| Stopped::file(kv, error))?;
        Ring::read(&blocks).map_err(|error| Stopped::file(kv, error))?.fill(&region)?;
    }
    let table = BlockTable::new();
    let key_scheme = Names::Tokens.scheme("");
    let plan = node::Plan { region: region.clone(), default_port: 0, key_scheme, timing: Timing::default() };
    let node = node::start(&loopback(args), plan, table.clone())?;
    tell(Line::News(News::Ready { peer: node.peer_id, address: node.address }));

    let (answered, lookups) = channel();
    let reuse = SharedReuse::default();
    let pump = thread::Builder::new().name("news".to_owned()).spawn({
        let (table, reuse) = (table.clone(), Arc::clone(&reuse));
        move || pump(node.events, &table, &reuse, &answered)
    });
    let pump = pump.map_err(|error| Stopped::new(Exit::Local, error.to_string()))?;
    let chain = Chain::new(args.block_tokens);
    let mut actor =
        Actor { handle: node.handle, region, table, lookups, chain, prompts: HashMap::new(), reuse };
    // The end of the orders is the end of the show, or of the director.
    for line in io::stdin().lock().lines().map_while(Result::ok) {
        let reply = match serde_json::from_str(&line) {
            Ok(order) => actor.follow(order).unwrap_or_else(Reply::Refused),
            Err(error) => Reply::Refused(error.to_string()),
        };
        tell(Line::Reply(reply));
    }
    actor.handle.shutdown(Duration::from_secs(5));
    pump.join().map_err(|_| wrong("the news ended early"))
}

/// The kernel ends this process with the director, however that ends.
fn die_with_parent(parent: u32) -> Result<(), Stopped> {
    set_parent_process_death_signal(Some(Signal::KILL))
        .map_err(|error| Stopped::new(Exit::Local, format!("PR_SET_PDEATHSIG: {error}")))?;
    // It may have ended before this was set.
    let now = getppid().map(Pid::as_raw_nonzero).and_then(|pid| u32::try_from(pid.get()).ok());
    if now == Some(parent) { Ok(()) } else { Err(wrong("the demo that started this process is gone")) }
}

fn loopback(args: &DemoNodeArgs) -> NodeArgs {
    NodeArgs {
        listen: None,
        advertise: None,
        provider: args.provider,
        fabric_bind: None,
        fingerprint: Vec::new(),
        #[cfg(feature = "vllm")]
        vllm: crate::args::VllmArgs::default(),
    }
}

struct Actor {
    handle: NodeHandle,
    region: Arc<Region>,
    table: BlockTable,
    /// Requests whose lookups have new answers.
    lookups: Receiver<RequestId>,
    chain: Chain,
    prompts: HashMap<String, Vec<BlockKey>>,
    reuse: SharedReuse,
}

/// Set by an order, used by the news.
type SharedReuse = Arc<Mutex<Releases>>;

/// Loads that have given their blocks back, and what is to happen then.
#[derive(Default)]
struct Releases {
    loads: BTreeSet<u64>,
    reuse: Option<Reuse>,
}

impl Releases {
    /// A load has given its blocks back.
    fn add(&mut self, load: u64) {
        self.loads.insert(load);
        tell_reuse(self.reuse.as_mut().and_then(|reuse| reuse.given_back(load)));
    }

    /// From now on; loads that are over already count.
    fn arm(&mut self, mut reuse: Reuse) {
        for load in &self.loads {
            tell_reuse(reuse.given_back(*load));
        }
        self.reuse = Some(reuse);
    }
}

fn lock(releases: &SharedReuse) -> MutexGuard<'_, Releases> {
    releases.lock().unwrap_or_else(PoisonError::into_inner)
}

fn tell_reuse(used: Option<Result<u32, BlockError>>) {
    match used {
        Some(Ok(blocks)) => tell(Line::News(News::Reused { blocks })),
        Some(Err(error)) => say::complaint(error),
        None => {}
    }
}

impl Actor {
    fn follow(&mut self, order: Order) -> Result<Reply, String> {
        match order {
            Order::Learn { prompt, tokens } => {
                self.prompts.insert(prompt, self.chain.keys(&tokens));
                Ok(Reply::Done)
            }
            Order::Publish { prompt, blocks } => {
                for (key, block) in self.named(&prompt, &blocks)?.iter().zip(blocks) {
                    let key = Key::new(key.as_bytes()).map_err(text)?;
                    self.table.insert(key, block).map_err(text)?;
                }
                Ok(Reply::Done)
            }
            Order::Store { request, prompt, blocks } => {
                let job = self.table.mint();
                let keys = self.keys(&prompt, &blocks)?;
                self.handle.store(job, &request_id(&request)?, keys, blocks, None).wait().map_err(text)?;
                Ok(Reply::Job(job.0))
            }
            Order::Open { request, peer, address, supply } => {
                let source: PeerId = PeerName::new(&peer).map_err(text)?.into();
                let supply = match supply {
                    Taken::Symmetric => Supply::Pinned,
                    Taken::PrefillDecode => Supply::Await,
                };
                let part = Part::Consume { source, address, supply };
                self.handle.open(&request_id(&request)?, part).wait().map_err(text)?;
                Ok(Reply::Done)
            }
            Order::Lookup { request, prompt, blocks } => {
                let keys = self.keys(&prompt, &blocks)?;
                self.lookup(&request_id(&request)?, &keys).map(Reply::Hits)
            }
            Order::Load { request, prompt, blocks, at } => {
                let job = self.table.mint();
                let keys = self.keys(&prompt, &blocks)?;
                let places = (at..).take(blocks.len()).collect();
                self.handle.load(job, &request_id(&request)?, keys, places).wait().map_err(text)?;
                Ok(Reply::Job(job.0))
            }
            Order::Abort { job } => {
                self.handle.abort(JobId(job)).wait().map_err(text)?;
                Ok(Reply::Done)
            }
            Order::Finish { request } => {
                self.handle.finish(&request_id(&request)?, Role::Both).wait().map_err(text)?;
                Ok(Reply::Done)
            }
            Order::Stats => {
                let totals = self.handle.stats().wait().map_err(text)?.totals;
                Ok(Reply::Stats(Stats {
                    writes: totals.writes,
                    blocks_in_flight: totals.blocks_in_flight,
                    parked: totals.parked,
                    quarantined: totals.quarantined,
                }))
            }
            Order::Digests { first, count } => {
                let mut content = vec![0; self.region.block_len()];
                let digests = (first..first + count).map(|block| {
                    self.region.read_block(block, &mut content).map_err(text)?;
                    Ok(digest(&content))
                });
                digests.collect::<Result<_, String>>().map(Reply::Digests)
            }
            Order::Fill { first, count, with } => {
                let mut content = vec![0; self.region.block_len()];
                for block in first..first + count {
                    mark(block, with, &mut content);
                    self.region.write_block(block, &content).map_err(text)?;
                }
                Ok(Reply::Done)
            }
            Order::Reuse { loads, old, new } => {
                let loads = loads.iter().map(|it| (it.job, it.first..it.first + it.count)).collect();
                lock(&self.reuse).arm(Reuse::new(self.region.clone(), loads, old, new));
                Ok(Reply::Done)
            }
        }
    }

    /// Asks until the peer has said about every key whether it holds it.
    fn lookup(&self, request: &RequestId, keys: &KeysBuf) -> Result<Vec<bool>, String> {
        loop {
            let states = self.handle.lookup_many(request, keys.clone()).wait().map_err(text)?;
            if !states.contains(&LookupState::Pending) {
                return Ok(states.into_iter().map(|state| state == LookupState::Hit).collect());
            }
            self.lookups.recv().map_err(text)?;
        }
    }

    fn keys(&self, prompt: &str, blocks: &[u32]) -> Result<KeysBuf, String> {
        self.named(prompt, blocks).map(|named| keys::run(&named))
    }

    fn named(&self, prompt: &str, blocks: &[u32]) -> Result<Vec<BlockKey>, String> {
        let keys = self.prompts.get(prompt).ok_or_else(|| format!("no prompt {prompt} was learned"))?;
        let key = |block: &u32| {
            keys.get(*block as usize).copied().ok_or_else(|| format!("{prompt} has no block {block}"))
        };
        blocks.iter().map(key).collect()
    }
}

/// Passes the node's news on, until there is no more.
fn pump(events: Events, table: &BlockTable, reuse: &SharedReuse, answered: &Sender<RequestId>) {
    for event in events {
        let news = match event {
            Event::LoadFinished { job, outcome, destination, .. } => {
                if destination == Destination::Reusable {
                    lock(reuse).add(job.0);
                }
                let result = match outcome {
                    LoadOutcome::Loaded => LoadResult::Loaded,
                    LoadOutcome::Failed { why, landed } => LoadResult::Failed {
                        why: reasons::load_failure("the producer", why).line,
                        landed: landed.as_bits().ones(),
                    },
                };
                News::LoadFinished { job: job.0, result, reusable: destination == Destination::Reusable }
            }
            Event::DestinationReleased { job } => {
                // Before it is told: nothing may come between the release and the reuse.
                lock(reuse).add(job.0);
                News::Released { job: job.0 }
            }
            Event::StoreFinished { job, outcome } => {
                table.finished(job);
                let delivered = outcome == StoreOutcome::Delivered;
                News::StoreFinished { job: job.0, outcome: reasons::store_outcome(outcome), delivered }
            }
            Event::FetchArrived { request, .. } => {
                News::FetchArrived { request: request.as_str().to_owned() }
            }
            Event::PeerDown { reason, .. } => {
                News::PeerDown { reason: reasons::close_reason("the other process", reason).line }
            }
            Event::LookupAnswered { request } | Event::RequestFailed { request, .. } => {
                // Nobody asks any more when the orders have ended.
                answered.send(request).ok();
                continue;
            }
            Event::PeerUp { peer } => {
                tracing::info!("{}: session up", peer.as_str());
                continue;
            }
            Event::PeerRefused { peer, code } => {
                tracing::warn!("{} was refused: {code:?}", peer.as_str());
                continue;
            }
            Event::Trouble(trouble) => {
                tracing::info!("{trouble}");
                continue;
            }
            Event::Lagged { missed } => {
                tracing::warn!("{missed} events were lost");
                continue;
            }
        };
        tell(Line::News(news));
    }
}

fn tell(line: Line) {
    match serde_json::to_string(&line) {
        Ok(text) => say::line(text),
        Err(error) => say::complaint(error),
    }
}

fn request_id(name: &str) -> Result<RequestId, String> {
    RequestName::new(name).map(RequestId::from).map_err(text)
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}
