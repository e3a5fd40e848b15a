//! Without planes: a bare endpoint behind a queue, for those whose messages and WRITEs go their own ways.
//!
//! Two endpoints whose "network" is this loop: what one sends is handed to the other, and what one writes is copied.

use std::collections::VecDeque;
use std::error::Error;

use kvpeer::core::{Config, ConnId, Endpoint, Epoch, Identity, Input, Origin, Part, TransferEnd};
use kvpeer::wire::{Decoded, Limits, Msg};
use kvpeer::{
    Command, Compatibility, Event, JobId, Key, KeysBuf, LoadOutcome, Output, OwnedAction, PeerName, Polled,
    Region, RequestName, Supply, Time,
};

/// What is under way to an endpoint. A loop of one's own has sockets and completion queues in its place.
enum Arriving {
    Connection(Origin),
    Frame(Vec<u8>),
    Right(Epoch),
    Registered(Epoch),
    Admitted(Epoch),
    Written(kvpeer::core::XferId),
    Closed(Epoch),
}

struct Side {
    polled: Polled,
    region: std::sync::Arc<Region>,
    arriving: VecDeque<Arriving>,
}

/// There is one connection.
const CONN: ConnId = ConnId(1);

fn side(name: &str) -> Result<Side, Box<dyn Error>> {
    let region = Region::new(16, 4096)?;
    let identity = Identity { peer_id: PeerName::new(name)?.into(), incarnation: 1, loopback: true };
    let endpoint = Endpoint::new(Config::new(identity, region.info(), Compatibility::default()))?;
    Ok(Side { polled: Polled::new(endpoint), region, arriving: VecDeque::new() })
}

impl Side {
    /// Hands in one fact.
    fn take_in(&mut self, now: Time, arriving: Arriving) -> Result<(), Box<dyn Error>> {
        let input = match &arriving {
            Arriving::Connection(origin) => Input::Connected { conn: CONN, origin: *origin },
            Arriving::Frame(frame) => {
                let [_, _, _, _, kind, body @ ..] = frame.as_slice() else { return Err("cut short".into()) };
                match Msg::decode(*kind, body, &Limits::DEFAULT)? {
                    Decoded::Msg(msg) => Input::Message { conn: CONN, msg },
                    Decoded::Skipped { .. } => Input::Heard { conn: CONN },
                }
            }
            Arriving::Right(epoch) => Input::RightOpened { epoch: *epoch, metadata: Some(b"none needed") },
            Arriving::Registered(epoch) => Input::Registered { epoch: *epoch, ok: true },
            Arriving::Admitted(epoch) => Input::Admitted { epoch: *epoch, admit: true },
            Arriving::Written(xfer) => Input::Transfer { xfer: *xfer, end: TransferEnd::Done },
            Arriving::Closed(epoch) => Input::RightClosed { epoch: *epoch, fenced: true },
        };
        self.polled.handle(now, input);
        Ok(())
    }

    /// Carries out what the endpoint wants, until it only wants to wait.
    fn carry_out(&mut self, other: &mut Side) -> Result<Vec<Event>, Box<dyn Error>> {
        let mut news = Vec::new();
        loop {
            let action = match self.polled.poll_output() {
                Output::Action(action) => action,
                Output::Event(event) => {
                    news.push(event);
                    continue;
                }
                Output::Timeout(_) => return Ok(news),
            };
            match action {
                OwnedAction::Dial { epoch, .. } => {
                    self.arriving.push_back(Arriving::Connection(Origin::Dialed(epoch)));
                    other.arriving.push_back(Arriving::Connection(Origin::Accepted));
                }
                OwnedAction::Send { frame, .. } => other.arriving.push_back(Arriving::Frame(frame)),
                OwnedAction::Admit { epoch, .. } => self.arriving.push_back(Arriving::Admitted(epoch)),
                OwnedAction::OpenRight { epoch } => self.arriving.push_back(Arriving::Right(epoch)),
                OwnedAction::Register { epoch, .. } => self.arriving.push_back(Arriving::Registered(epoch)),
                OwnedAction::CloseRight { epoch } => self.arriving.push_back(Arriving::Closed(epoch)),
                OwnedAction::Write { xfer, src, dst } => {
                    let mut block = vec![0; self.region.block_len()];
                    for (src, dst) in src.into_iter().zip(dst) {
                        self.region.read_block(src, &mut block)?;
                        other.region.write_block(dst, &block)?;
                    }
                    self.arriving.push_back(Arriving::Written(xfer));
                }
                OwnedAction::Unsendable { error, .. } => return Err(error.into()),
                // This network's connection and WRITEs are over before anybody can want that, and nobody asks by key.
                OwnedAction::CancelDial { .. }
                | OwnedAction::Close { .. }
                | OwnedAction::Cancel { .. }
                | OwnedAction::Probe { .. }
                | OwnedAction::EndProbe { .. } => {}
            }
        }
    }
}

pub(crate) fn main() -> Result<(), Box<dyn Error>> {
    let (mut decoder, mut prefiller) = (side("decoder")?, side("prefiller")?);
    // A loop of one's own reads a monotonic clock, and hands in `Input::Tick` when a `Timeout`'s deadline has passed.
    let now = Time::ZERO;

    let request = RequestName::new("prompt-1")?;
    let keys: KeysBuf = [Key::new(b"block 0")?].into_iter().collect();
    let part = Part::Consume { source: PeerName::new("prefiller")?, address: "", supply: Supply::Await };
    decoder.polled.command(now, Command::Open { request, part })?;
    decoder
        .polled
        .command(now, Command::Load { job: JobId(1), request, keys: keys.as_keys(), blocks: &[5] })?;
    prefiller.region.write_block(2, &[7; 4096])?;
    let store = Command::Store { job: JobId(1), request, keys: keys.as_keys(), blocks: &[2], consumer: None };
    prefiller.polled.command(now, store)?;

    let mut news = Vec::new();
    loop {
        news.extend(decoder.carry_out(&mut prefiller)?);
        news.extend(prefiller.carry_out(&mut decoder)?);
        match (decoder.arriving.pop_front(), prefiller.arriving.pop_front()) {
            (None, None) => break,
            (to_decoder, to_prefiller) => {
                to_decoder.map_or(Ok(()), |fact| decoder.take_in(now, fact))?;
                to_prefiller.map_or(Ok(()), |fact| prefiller.take_in(now, fact))?;
            }
        }
    }
    let loaded = |event: &Event| {
        matches!(event, Event::LoadFinished { outcome: LoadOutcome::Loaded, job: JobId(1), .. })
    };
    assert!(news.iter().any(loaded), "{news:?}");
    let mut block = vec![0; 4096];
    decoder.region.read_block(5, &mut block)?;
    assert_eq!(block, [7; 4096]);
    Ok(())
}
