//! The recommended driver: the node has a thread of its own, the engine's scheduler never waits for it.
//!
//! Two engines in this process share what they hold (symmetric): one asks the other for a prompt's prefix, and loads
//! the hits while it would compute the rest. For nodes on different hosts replace `MemNet` by
//! `Node::tcp_fabric(&config, TcpFabric::listening("10.0.0.7:5710".parse()?), cache)`.

use std::error::Error;
use std::sync::Arc;

use kvpeer::mem::MemNet;
use kvpeer::{
    BlockIdx, BlockTable, Destination, Event, Events, JobId, Key, KeysBuf, LoadOutcome, LookupState, Node,
    NodeConfig, NodeHandle, Part, PeerId, Region, RequestId, RequestName, Role, Supply, Ticket,
};

const BLOCK: usize = 4096;

/// The parts of an engine that deal with its node.
struct Engine {
    region: Arc<Region>,
    /// Answers peers' lookups. An engine with a cache of its own implements `BlockCache` for it.
    cache: BlockTable,
    node: NodeHandle,
    events: Events,
}

impl Engine {
    fn start(net: &MemNet, address: &str) -> Result<Self, Box<dyn Error>> {
        let region = Region::new(64, BLOCK as u64)?;
        let cache = BlockTable::new();
        let planes = net.join(address, &region)?;
        let node = Node::new(&NodeConfig::new(region.clone()), planes, cache.clone())?;
        let (node, events) = node.spawn()?;
        Ok(Self { region, cache, node, events })
    }

    /// What was computed can be had by peers.
    fn computed(&self, key: &[u8], block: BlockIdx, content: u8) -> Result<(), Box<dyn Error>> {
        self.region.write_block(block, &[content; BLOCK])?;
        self.cache.insert(Key::new(key)?, block)?;
        Ok(())
    }
}

/// A prompt on its way through the scheduler.
struct Prompt {
    request: RequestId,
    keys: Vec<&'static [u8]>,
    stage: Stage,
}

enum Stage {
    Asking(Ticket<Vec<LookupState>>),
    Loading { job: JobId, accepted: Ticket<()> },
    Done,
}

impl Prompt {
    fn run_of_keys(&self) -> Result<KeysBuf, Box<dyn Error>> {
        Ok(self.keys.iter().map(|key| Key::new(key)).collect::<Result<_, _>>()?)
    }
}

/// One step of the scheduler: looks at what is there, waits for nothing.
fn step(engine: &mut Engine, prompt: &mut Prompt) -> Result<(), Box<dyn Error>> {
    while let Some(event) = engine.events.try_next() {
        match event {
            Event::LoadFinished { job, outcome, destination, .. } => {
                if let Stage::Loading { job: ours, .. } = prompt.stage
                    && ours == job
                {
                    match (outcome, destination) {
                        (LoadOutcome::Loaded, _) => println!("the prefix is here"),
                        (LoadOutcome::Failed { why, .. }, Destination::Reusable) => {
                            println!("compute it: {why:?}");
                        }
                        (LoadOutcome::Failed { why, .. }, Destination::Quarantined) => {
                            println!("compute it into other blocks: {why:?}");
                        }
                    }
                    prompt.stage = Stage::Done;
                }
            }
            // Blocks that were quarantined may go back to the allocator.
            Event::DestinationReleased { .. } => {}
            // A peer has read what it looked up.
            Event::StoreFinished { job, .. } => engine.cache.finished(job),
            Event::Trouble(trouble) => eprintln!("{trouble}"),
            // `RequestFailed` comes with its loads' results; the rest is of use to some engines only.
            Event::RequestFailed { .. }
            | Event::LookupAnswered { .. }
            | Event::FetchArrived { .. }
            | Event::PeerUp { .. }
            | Event::PeerDown { .. }
            | Event::PeerRefused { .. }
            | Event::Lagged { .. } => {}
        }
    }
    prompt.stage = match std::mem::replace(&mut prompt.stage, Stage::Done) {
        Stage::Asking(mut answer) => match answer.try_take() {
            None => Stage::Asking(answer),
            Some(states) => ask_or_load(engine, prompt, &states?)?,
        },
        Stage::Loading { job, mut accepted } => match accepted.try_take() {
            Some(Err(refused)) if refused != kvpeer::CallError::Gone => return Err(refused.into()),
            Some(_) | None => Stage::Loading { job, accepted },
        },
        Stage::Done => Stage::Done,
    };
    Ok(())
}

/// Loads the hits up to the first miss, once nothing before it is pending.
fn ask_or_load(engine: &Engine, prompt: &Prompt, states: &[LookupState]) -> Result<Stage, Box<dyn Error>> {
    let hits = states.iter().take_while(|state| **state == LookupState::Hit).count();
    if states.get(hits) == Some(&LookupState::Pending) {
        return Ok(Stage::Asking(engine.node.lookup_many(&prompt.request, prompt.run_of_keys()?)));
    }
    println!("{hits} of {} blocks are at the peer", states.len());
    let keys: KeysBuf = prompt.run_of_keys()?.as_keys().iter().take(hits).collect();
    // Where the engine's allocator has room.
    let blocks = (32..).take(hits).collect();
    let job = engine.cache.mint();
    Ok(Stage::Loading { job, accepted: engine.node.load(job, &prompt.request, keys, blocks) })
}

pub(crate) fn main() -> Result<(), Box<dyn Error>> {
    let net = MemNet::new();
    let (mut ours, theirs) = (Engine::start(&net, "ours")?, Engine::start(&net, "theirs")?);
    theirs.computed(b"block 0 of the prompt", 5, 50)?;
    theirs.computed(b"block 1 of the prompt", 9, 90)?;

    let request: RequestId = RequestName::new("prompt-1")?.into();
    let source: PeerId = kvpeer::PeerName::new("theirs")?.into();
    let part = Part::Consume { source, address: "theirs".into(), supply: Supply::Pinned };
    ours.node.open(&request, part).wait()?;
    let keys: Vec<&[u8]> = vec![b"block 0 of the prompt", b"block 1 of the prompt", b"block 2 of the prompt"];
    let mut prompt = Prompt { request, keys, stage: Stage::Done };
    prompt.stage = Stage::Asking(ours.node.lookup_many(&prompt.request, prompt.run_of_keys()?));

    while !matches!(prompt.stage, Stage::Done) {
        step(&mut ours, &mut prompt)?;
        // Here an engine runs its model for one step.
        std::thread::yield_now();
    }
    let mut block = vec![0; BLOCK];
    ours.region.read_block(33, &mut block)?;
    assert_eq!(block, [90; BLOCK]);

    ours.node.finish(&prompt.request, Role::Both).wait()?;
    ours.node.shutdown(std::time::Duration::from_secs(1));
    Ok(())
}
