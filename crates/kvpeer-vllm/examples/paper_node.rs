//! A kvpeer node among vLLM's, on their control plane. Its data plane moves nothing: WRITEs are said and count as done.
//!
//! `paper_node serve LISTEN SEED DIGEST FIRST LAST [PD_ID]` holds the keys FIRST..LAST until stdin closes;
//! `paper_node fetch LISTEN SEED DIGEST PEER FIRST LAST [PD_ID]` asks PEER for them and fetches what it holds.

use std::error::Error;
use std::io::Read as _;
use std::ops::Range;
use std::time::{Duration, Instant};

use kvpeer::plane::{DataFact, DataPlane, Planes, Progress, Rest};
use kvpeer::{
    BlockIdx, BlockTable, Compatibility, Event, JobId, Key, KeysBuf, LookupState, Node, NodeConfig, Part,
    PeerId, PeerName, Region, RequestId, RequestName, Role, Supply,
};
use kvpeer_core::{Epoch, TransferEnd, XferId};
use kvpeer_vllm::control::{ZmqConfig, ZmqControl};
use kvpeer_vllm::dialect::fingerprint;
use kvpeer_wire::RegionInfo;

const BLOCKS: u32 = 256;
const BLOCK_LEN: u64 = 4096;
/// Where fetched blocks go.
const INTO: u32 = 100;
const PATIENCE: Duration = Duration::from_secs(30);

/// WRITEs that are said, not done.
#[derive(Default)]
struct Paper(Vec<DataFact>);

impl DataPlane for Paper {
    fn open_right(&mut self, epoch: Epoch) {
        self.0.push(DataFact::RightOpened { epoch, metadata: Ok(b"paper".to_vec()) });
    }

    fn register(&mut self, epoch: Epoch, region: RegionInfo, metadata: &[u8]) {
        println!("registered {} blocks {}", region.num_blocks, String::from_utf8_lossy(metadata));
        self.0.push(DataFact::Registered { epoch, result: Ok(()) });
    }

    fn write(&mut self, xfer: XferId, src: &[BlockIdx], dst: &[BlockIdx]) {
        println!("write {src:?} {dst:?}");
        self.0.push(DataFact::Transfer { xfer, end: TransferEnd::Done, detail: String::new() });
    }

    fn cancel(&mut self, _: XferId) {}

    fn close_right(&mut self, epoch: Epoch) {
        self.0.push(DataFact::RightClosed { epoch, fenced: true });
    }

    fn progress(&mut self, _: usize, facts: &mut Vec<DataFact>) -> Progress {
        facts.append(&mut self.0);
        Progress::Quiet
    }

    fn prepare_wait(&mut self) -> Rest {
        if self.0.is_empty() { Rest::MaySleep } else { Rest::Busy }
    }

    fn next_deadline(&self) -> Option<Instant> {
        None
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [command, listen, seed, digest, rest @ ..] = args.as_slice() else { return Err("usage".into()) };
    let control = ZmqControl::bind(ZmqConfig::new(listen.as_str()))?;
    let region = Region::new(BLOCKS, BLOCK_LEN)?;
    let mut config = NodeConfig::new(region);
    config.compat = Compatibility {
        hash_seed: seed.clone(),
        fingerprint: fingerprint(digest),
        ..Compatibility::default()
    };
    let table = BlockTable::new();
    let node = Node::new(&config, Planes::new(control, Paper::default()), table.clone())?;
    let (node, mut events) = node.spawn()?;
    match (command.as_str(), rest) {
        ("serve", [first, last, pd @ ..]) => {
            let held = first.parse()?..last.parse()?;
            for at in held.clone() {
                table.insert(Key::new(&key_of(at))?, at)?;
            }
            if let [id] = pd {
                let request = RequestId::from(RequestName::new(id)?);
                node.store(table.mint(), &request, keys(held.clone())?, held.collect(), None).wait()?;
            }
            println!("ready {listen}");
            std::io::stdin().read_to_end(&mut Vec::new())?;
        }
        ("fetch", [peer, first, last, pd @ ..]) => {
            let (wanted, supply) = (first.parse()?..last.parse()?, supply(pd));
            let id = pd.first().map_or("kvpeer-1", String::as_str);
            let request = RequestId::from(RequestName::new(id)?);
            let source = PeerId::from(PeerName::new(peer)?);
            node.open(&request, Part::Consume { source, address: peer.clone(), supply }).wait()?;
            let hits = match supply {
                Supply::Await => wanted.collect(),
                Supply::Pinned => look_up(&node, &request, wanted)?,
            };
            let job = JobId(1_000_000);
            let into = (INTO..).take(hits.len()).collect();
            node.load(job, &request, keys(hits.iter().copied())?, into).wait()?;
            let outcome = loop {
                match events.next_within(PATIENCE) {
                    Some(Event::LoadFinished { outcome, destination, .. }) => break (outcome, destination),
                    Some(other) => eprintln!("{other:?}"),
                    None => return Err("the load has no result".into()),
                }
            };
            node.finish(&request, Role::Consumer).wait()?;
            println!("fetched {} hits: {:?} {:?}", hits.len(), outcome.0, outcome.1);
        }
        _ => return Err("usage".into()),
    }
    node.shutdown(Duration::from_secs(1));
    while let Some(event) = events.try_next() {
        println!("{event:?}");
    }
    Ok(())
}

fn supply(pd: &[String]) -> Supply {
    if pd.is_empty() { Supply::Pinned } else { Supply::Await }
}

fn look_up(
    node: &kvpeer::NodeHandle,
    request: &RequestId,
    wanted: Range<u32>,
) -> Result<Vec<u32>, Box<dyn Error>> {
    let end = Instant::now() + PATIENCE;
    loop {
        let states = node.lookup_many(request, keys(wanted.clone())?).wait()?;
        if !states.contains(&LookupState::Pending) {
            let held = wanted.zip(states).filter(|(_, state)| *state == LookupState::Hit);
            return Ok(held.map(|(at, _)| at).collect());
        }
        if Instant::now() > end {
            return Err("lookups have no answer".into());
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// 36 bytes, as vLLM's keys have.
fn key_of(at: u32) -> [u8; 36] {
    let mut key = [0; 36];
    let text = format!("kvpeer-block-{at}");
    key[..text.len()].copy_from_slice(text.as_bytes());
    key
}

fn keys(wanted: impl IntoIterator<Item = u32>) -> Result<KeysBuf, Box<dyn Error>> {
    let mut all = KeysBuf::new();
    for at in wanted {
        all.push(Key::new(&key_of(at))?);
    }
    Ok(all)
}
