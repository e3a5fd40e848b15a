//! The driver for a scheduler that owns its loop: one `tick` a step, no thread, no waiting.
//!
//! A decoder and its prefiller (prefill/decode). They stand for two processes here: each is ticked by its own loop.

use std::error::Error;

use kvpeer::core::Part;
use kvpeer::mem::MemNet;
use kvpeer::{
    Command, Event, JobId, Key, KeysBuf, LoadOutcome, Next, NoBlocks, Node, NodeConfig, PeerName, Region,
    RequestName, StoreOutcome, Supply,
};

const BLOCK: usize = 4096;

fn node(net: &MemNet, address: &str) -> Result<Node, Box<dyn Error>> {
    let region = Region::new(64, BLOCK as u64)?;
    let planes = net.join(address, &region)?;
    Ok(Node::new(&NodeConfig::new(region), planes, NoBlocks)?)
}

/// One step of a scheduler: its wishes, the tick, the news.
///
/// The tick never waits and does a bounded amount of work. Its limit: heartbeats leave, and blocks land, only in it. A
/// step that takes longer than peers wait for a sign of life (10 s by default) loses them.
fn step(node: &mut Node, wishes: &[Command<'_>]) -> Result<(Next, Vec<Event>), Box<dyn Error>> {
    for wish in wishes {
        node.command(*wish)?;
    }
    let next = node.tick();
    let news = std::iter::from_fn(|| node.poll_event()).collect();
    Ok((next, news))
}

pub(crate) fn main() -> Result<(), Box<dyn Error>> {
    let net = MemNet::new();
    let (mut decoder, mut prefiller) = (node(&net, "decoder")?, node(&net, "prefiller")?);

    let request = RequestName::new("prompt-1")?;
    let keys: KeysBuf = [Key::new(b"block 0")?, Key::new(b"block 1")?].into_iter().collect();
    let source = PeerName::new("prefiller")?;
    let part = Part::Consume { source, address: "prefiller", supply: Supply::Await };
    let load = Command::Load { job: JobId(1), request, keys: keys.as_keys(), blocks: &[40, 41] };
    step(&mut decoder, &[Command::Open { request, part }, load])?;

    for (block, content) in [(7, 70), (8, 80)] {
        prefiller.region().write_block(block, &[content; BLOCK])?;
    }
    let store =
        Command::Store { job: JobId(1), request, keys: keys.as_keys(), blocks: &[7, 8], consumer: None };
    step(&mut prefiller, &[store])?;

    let (mut loaded, mut stored) = (false, false);
    while !(loaded && stored) {
        let (_, news) = step(&mut decoder, &[])?;
        loaded |= news.iter().any(|event| {
            matches!(event, Event::LoadFinished { job: JobId(1), outcome: LoadOutcome::Loaded, .. })
        });
        let (next, news) = step(&mut prefiller, &[])?;
        stored |= news.contains(&Event::StoreFinished { job: JobId(1), outcome: StoreOutcome::Delivered });
        // An engine with nothing else to do may sleep for as long as `next` says, unless something arrives.
        assert_ne!(next, Next::Idle, "there are heartbeats to send");
    }
    let mut block = vec![0; BLOCK];
    decoder.region().read_block(41, &mut block)?;
    assert_eq!(block, [80; BLOCK]);
    Ok(())
}
