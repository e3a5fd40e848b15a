//! The two processes between which blocks move, and one sample of each measurement.

use crate::cut::Cut;
use crate::memory::Content;
use crate::order::{Fetched, Order, Reply, Wait};
use crate::plan::{FETCHED_LENS, IN_FLIGHT, LENS, Series, depth};
use crate::process::{Process, unexpected};
use crate::stop::Outcome;

/// Producer and consumer, connected in every way that is measured.
pub(crate) struct Pair {
    producer: Process,
    consumer: Process,
    /// The producer's nodes, as [`FETCHED_LENS`].
    peers: Vec<String>,
}

impl Pair {
    /// Starts both, with so much memory each.
    pub(crate) fn start(bytes: usize) -> Outcome<Self> {
        let (mut producer, mut consumer) = (Process::start("producer")?, Process::start("consumer")?);
        producer.tell(&Order::Memory { bytes, content: Content::Pattern, copy_source: false })?;
        consumer.tell(&Order::Memory { bytes, content: Content::Zeros, copy_source: true })?;
        producer.reply()?;
        consumer.reply()?;
        let mut pair = Self { producer, consumer, peers: Vec::new() };
        pair.connect_tcp()?;
        pair.connect_bare()?;
        for block_len in LENS {
            pair.connect_planes(block_len)?;
        }
        for block_len in FETCHED_LENS {
            pair.peers.push(pair.producer.address(&Order::NodeOpen { block_len, holds: true })?);
            pair.consumer.address(&Order::NodeOpen { block_len, holds: false })?;
        }
        Ok(pair)
    }

    /// GB/s of one cut, which is verified and wiped afterwards.
    pub(crate) fn sample(&mut self, series: Series, cut: &Cut) -> Outcome<f64> {
        let seconds = match series {
            Series::Memcpy => self.consumer.seconds(&Order::Copy(*cut))?,
            Series::RawTcp => self.raw_tcp(cut)?,
            Series::BareSpin => self.bare(cut, Wait::Spin)?,
            Series::BareSleep => self.bare(cut, Wait::Sleep)?,
            Series::PlaneContiguous | Series::PlaneScattered => self.plane(cut)?,
        };
        self.verify_and_wipe(cut)?;
        Ok(cut.bytes() as f64 / seconds / 1e9)
    }

    /// One fetch of a whole cut.
    pub(crate) fn fetch(&mut self, cut: &Cut) -> Outcome<Fetched> {
        let peer = self.peer(cut)?;
        let fetched = self.consumer.fetched(&Order::NodeFetch { cut: *cut, peer })?;
        self.verify_and_wipe(cut)?;
        Ok(fetched)
    }

    /// One fetch for each block; the consumer itself verifies each.
    pub(crate) fn fetch_each(&mut self, cut: &Cut) -> Outcome<Vec<Fetched>> {
        let peer = self.peer(cut)?;
        self.consumer.latencies(&Order::NodeFetchEach { cut: *cut, peer })
    }

    pub(crate) fn fetch_beside(&mut self, large: &Cut, small: &Cut) -> Outcome<Vec<Fetched>> {
        let peer = self.peer(large)?;
        let order = Order::NodeFetchBeside { large: *large, small: *small, peer };
        let latencies = self.consumer.latencies(&order)?;
        self.verify_and_wipe(large)?;
        Ok(latencies)
    }

    fn verify_and_wipe(&mut self, cut: &Cut) -> Outcome<()> {
        self.consumer.done(&Order::Verify(*cut))?;
        self.consumer.done(&Order::Wipe(*cut))
    }

    fn raw_tcp(&mut self, cut: &Cut) -> Outcome<f64> {
        self.consumer.tell(&Order::TcpReceive(*cut))?;
        let seconds = self.producer.seconds(&Order::TcpSend(*cut))?;
        self.consumer.reply()?;
        Ok(seconds)
    }

    fn bare(&mut self, cut: &Cut, wait: Wait) -> Outcome<f64> {
        let depth = depth(cut.block_len);
        self.while_served(&Order::ServeBare { wait }, &Order::BareWrite { cut: *cut, depth, wait })
    }

    fn plane(&mut self, cut: &Cut) -> Outcome<f64> {
        let serve = Order::ServePlane { block_len: cut.block_len };
        self.while_served(&serve, &Order::PlaneWrite { cut: *cut, in_flight: IN_FLIGHT })
    }

    fn while_served(&mut self, serve: &Order, write: &Order) -> Outcome<f64> {
        self.consumer.tell(serve)?;
        let seconds = self.producer.seconds(write)?;
        self.consumer.tell(&Order::Enough)?;
        // Of the serving, and of its end.
        self.consumer.reply()?;
        self.consumer.reply()?;
        Ok(seconds)
    }

    fn peer(&self, cut: &Cut) -> Outcome<String> {
        let at = FETCHED_LENS.iter().position(|len| *len == cut.block_len);
        let peer = at.and_then(|at| self.peers.get(at)).cloned();
        peer.ok_or_else(|| crate::stop::stop("there is no node of this block length"))
    }

    fn connect_tcp(&mut self) -> Outcome<()> {
        let port = self.consumer.ask(&Order::TcpListen)?;
        let Reply::Port(port) = port else { return Err(unexpected(&port)) };
        self.producer.done(&Order::TcpConnect { port })?;
        self.consumer.done(&Order::TcpAccept)
    }

    fn connect_bare(&mut self) -> Outcome<()> {
        let door_of = |process: &mut Process| {
            let reply = process.ask(&Order::BareOpen)?;
            let Reply::Door(door) = reply else { return Err(unexpected(&reply)) };
            Ok(door)
        };
        let (from, to) = (door_of(&mut self.producer)?, door_of(&mut self.consumer)?);
        self.producer.done(&Order::BareConnect(to))?;
        self.consumer.done(&Order::BareConnect(from))
    }

    fn connect_planes(&mut self, block_len: usize) -> Outcome<()> {
        let open = Order::PlaneOpen { block_len };
        let metadata_of = |process: &mut Process| {
            let reply = process.ask(&open)?;
            let Reply::Metadata(metadata) = reply else { return Err(unexpected(&reply)) };
            Ok(metadata)
        };
        let (from, to) = (metadata_of(&mut self.producer)?, metadata_of(&mut self.consumer)?);
        self.producer.done(&Order::PlaneConnect { block_len, metadata: to })?;
        self.consumer.done(&Order::PlaneConnect { block_len, metadata: from })
    }
}
