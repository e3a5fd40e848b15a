//! A node that has many peers and nothing to do, and the many.

use std::time::{Duration, Instant};

use kvpeer::{Event, Events, NoBlocks, Node, NodeConfig, NodeHandle, PeerId, PeerName, Region, TcpFabric};

use crate::stop::{Outcome, stop};

/// Only a run that hangs waits so long.
const PATIENCE: Duration = Duration::from_secs(60);

/// The nodes of this process.
#[derive(Default)]
pub(super) struct Crowd(Vec<(NodeHandle, Events)>);

impl Crowd {
    /// Adds a node; answers its address.
    pub(super) fn join(&mut self) -> Outcome<String> {
        let region = Region::new(16, 64 << 10)?;
        let network = TcpFabric::listening("127.0.0.1:0".parse()?);
        let node = Node::tcp_fabric(&NodeConfig::new(region), network, NoBlocks)?;
        let address = node.address().ok_or_else(|| stop("the node listens nowhere"))?;
        self.0.push(node.spawn()?);
        Ok(address)
    }

    /// Adds nodes, and returns when each of them has a session with the peer.
    pub(super) fn connect(&mut self, count: usize, peer: &str) -> Outcome<()> {
        let source: PeerId = PeerName::new(peer)?.into();
        for _ in 0..count {
            self.join()?;
            let Some((handle, events)) = self.0.last_mut() else { continue };
            handle.connect(&source, peer).wait()?;
            wait_up(events)?;
        }
        Ok(())
    }
}

fn wait_up(events: &mut Events) -> Outcome<()> {
    let late = Instant::now() + PATIENCE;
    while let Some(event) = events.next_within(late.saturating_duration_since(Instant::now())) {
        match event {
            Event::PeerUp { .. } => return Ok(()),
            Event::PeerDown { .. } | Event::PeerRefused { .. } | Event::Trouble(_) => {
                return Err(stop(format!("an idle peer does not connect: {event:?}")));
            }
            Event::LookupAnswered { .. }
            | Event::RequestFailed { .. }
            | Event::LoadFinished { .. }
            | Event::DestinationReleased { .. }
            | Event::StoreFinished { .. }
            | Event::FetchArrived { .. }
            | Event::Lagged { .. } => {}
        }
    }
    Err(stop("an idle peer did not connect within a minute"))
}
