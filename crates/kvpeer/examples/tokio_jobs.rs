//! On tokio: each job is a future. The node still has a thread of its own, so a busy runtime costs no heartbeats.

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use kvpeer::aio::{Client, Freed};
use kvpeer::mem::MemNet;
use kvpeer::{
    BlockTable, Event, Events, Key, KeysBuf, LoadOutcome, Node, NodeConfig, Part, PeerName, Region,
    RequestId, RequestName, StoreOutcome, Supply,
};

const BLOCK: usize = 4096;

fn start(net: &MemNet, address: &str) -> Result<(Client, Events, Arc<Region>), Box<dyn Error>> {
    let region = Region::new(64, BLOCK as u64)?;
    let cache = BlockTable::new();
    let planes = net.join(address, &region)?;
    let node = Node::new(&NodeConfig::new(region.clone()), planes, cache.clone())?;
    let (client, events) = Client::spawn(node, move || cache.mint())?;
    Ok((client, events, region))
}

/// Takes the news that no future waits for.
async fn log(mut events: Events) {
    while let Some(event) = events.next_async().await {
        if let Event::Trouble(trouble) = event {
            eprintln!("{trouble}");
        }
    }
}

async fn decode(client: &Client, request: &RequestId, keys: KeysBuf) -> Result<(), Box<dyn Error>> {
    let source = PeerName::new("prefiller")?.into();
    let part = Part::Consume { source, address: "prefiller".into(), supply: Supply::Await };
    client.open(request, part).await?;
    let end = client.load(request, keys, vec![40, 41]).await?;
    if let Freed::Later(release) = end.destination {
        // Computing it goes on at once, into other blocks; these are free when nothing can land in them any more.
        tokio::spawn(release.released());
    }
    match end.outcome {
        LoadOutcome::Loaded => Ok(()),
        LoadOutcome::Failed { why, .. } => Err(format!("compute it instead: {why:?}").into()),
    }
}

#[tokio::main(flavor = "current_thread")]
pub(crate) async fn main() -> Result<(), Box<dyn Error>> {
    let net = MemNet::new();
    let (decoder, decoder_events, here) = start(&net, "decoder")?;
    let (prefiller, prefiller_events, there) = start(&net, "prefiller")?;
    let logs = [decoder_events, prefiller_events].map(|events| tokio::spawn(log(events)));

    let request: RequestId = RequestName::new("prompt-1")?.into();
    let keys: KeysBuf = [Key::new(b"block 0")?, Key::new(b"block 1")?].into_iter().collect();
    for (block, content) in [(7, 70), (8, 80)] {
        there.write_block(block, &[content; BLOCK])?;
    }
    let (decoded, stored) = tokio::join!(
        decode(&decoder, &request, keys.clone()),
        prefiller.store(&request, keys, vec![7, 8], None)
    );
    decoded?;
    assert_eq!(stored?, StoreOutcome::Delivered);
    let mut block = vec![0; BLOCK];
    here.read_block(41, &mut block)?;
    assert_eq!(block, [80; BLOCK]);

    for client in [decoder, prefiller] {
        client.shutdown(Duration::from_secs(1)).await?;
    }
    for log in logs {
        log.await?;
    }
    Ok(())
}
