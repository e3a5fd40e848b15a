//! A kvpeer node among vLLM's, which takes orders: one JSON object a line on stdin, one answer a line on stdout.
//! `tests/interop` drives it, and one of vLLM's by the same orders.
//!
//! `interop_node LISTEN SEED DIGEST BLOCKS BLOCK_LEN LIBNIXL_CAPI`. Ends when stdin does.

use std::error::Error;
use std::io::BufRead as _;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver};
use std::time::{Duration, Instant};

use kvpeer::{
    BlockTable, Compatibility, Destination, Event, JobId, Key, KeysBuf, LoadOutcome, LookupState, Node,
    NodeConfig, NodeHandle, Part, PeerId, PeerName, Planes, Region, RequestId, RequestName, Role, Supply,
};
use kvpeer_nixl::{NixlConfig, NixlData};
use kvpeer_vllm::control::{ZmqConfig, ZmqControl};
use kvpeer_vllm::dialect::fingerprint;
use serde_json::{Value, json};

type Failed = Box<dyn Error>;

const PATIENCE: Duration = Duration::from_secs(30);

struct Actor {
    node: NodeHandle,
    region: Arc<Region>,
    table: BlockTable,
    events: Receiver<Event>,
    held: Vec<u32>,
    jobs: u64,
}

fn main() -> Result<(), Failed> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [listen, seed, digest, blocks, block_len, library] = args.as_slice() else {
        return Err("LISTEN SEED DIGEST BLOCKS BLOCK_LEN LIBNIXL_CAPI".into());
    };
    let region = Region::new(blocks.parse()?, block_len.parse()?)?;
    let data = NixlData::open(&NixlConfig { library: library.clone(), ..NixlConfig::default() }, &region)?;
    let control = ZmqControl::bind(ZmqConfig::new(listen.as_str()))?;
    let mut config = NodeConfig::new(region.clone());
    config.compat = Compatibility {
        hash_seed: seed.clone(),
        fingerprint: fingerprint(digest),
        ..Compatibility::default()
    };
    let table = BlockTable::new();
    let (node, incoming) = Node::new(&config, Planes::new(control, data), table.clone())?.spawn()?;
    let (forward, events) = mpsc::channel();
    let pins = table.clone();
    std::thread::spawn(move || {
        for event in incoming {
            if let Event::StoreFinished { job, .. } = event {
                pins.finished(job);
            }
            eprintln!("{event:?}");
            let _ = forward.send(event);
        }
    });
    let mut actor = Actor { node, region, table, events, held: Vec::new(), jobs: 1 << 40 };
    println!("{}", json!({ "event": "ready" }));
    for line in std::io::stdin().lock().lines() {
        let answer = actor.obey(&serde_json::from_str(&line?)?);
        println!("{}", answer.unwrap_or_else(|error| json!({ "error": error.to_string() })));
    }
    actor.node.shutdown(Duration::from_secs(5));
    kvpeer_nixl::leave_if_loaded(0);
    Ok(())
}

impl Actor {
    fn obey(&mut self, order: &Value) -> Result<Value, Failed> {
        match order["do"].as_str() {
            Some("hold") => self.hold(number(order, "first")?, number(order, "last")?),
            Some("store") => self.store(order["request"].as_str().unwrap_or_default()),
            Some("fetch") => self.fetch(order),
            Some("await_fetch") => self.await_fetch(order["request"].as_str().unwrap_or_default()),
            _ => Err("no such order".into()),
        }
    }

    /// Block i holds what key i names.
    fn hold(&mut self, first: u32, last: u32) -> Result<Value, Failed> {
        for at in first..last {
            self.region.write_block(at, &content(at, self.region.block_len()))?;
            self.table.insert(Key::new(&key_of(at))?, at)?;
            self.held.push(at);
        }
        Ok(json!({ "event": "held", "blocks": self.held.len() }))
    }

    fn store(&mut self, request: &str) -> Result<Value, Failed> {
        let keys = keys(&self.held)?;
        self.node.store(self.table.mint(), &id(request)?, keys, self.held.clone(), None).wait()?;
        Ok(json!({ "event": "stored" }))
    }

    /// Until a peer fetches what is stored, or not stored yet, for a request.
    fn await_fetch(&self, wanted: &str) -> Result<Value, Failed> {
        loop {
            if let Event::FetchArrived { request, .. } = self.events.recv_timeout(PATIENCE)?
                && request.as_str() == wanted
            {
                return Ok(json!({ "event": "asked" }));
            }
        }
    }

    fn fetch(&mut self, order: &Value) -> Result<Value, Failed> {
        let request = id(order["request"].as_str().unwrap_or_default())?;
        let peer = order["peer"].as_str().unwrap_or_default();
        let wanted: Vec<u32> = (number(order, "first")?..number(order, "last")?).collect();
        let (into, pd) = (number(order, "into")?, order["pd"] == true);
        if order["again"] != true {
            let supply = if pd { Supply::Await } else { Supply::Pinned };
            let source = PeerId::from(PeerName::new(peer)?);
            self.node.open(&request, Part::Consume { source, address: peer.to_owned(), supply }).wait()?;
        }
        let hits = if pd { wanted.clone() } else { self.look_up(&request, &wanted)? };
        let mut answer = json!({ "event": "fetched", "hits": hits.len(), "ok": null, "bytes": null });
        if !hits.is_empty() {
            let blocks: Vec<u32> = (into..).take(hits.len()).collect();
            for block in &blocks {
                self.region.write_block(*block, &vec![0; self.region.block_len()])?;
            }
            self.jobs += 1;
            let job = JobId(self.jobs);
            self.node.load(job, &request, keys(&hits)?, blocks.clone()).wait()?;
            if order["abort"] == true {
                self.wait_for_bytes(&blocks)?;
                self.node.abort(job).wait()?;
            }
            let (outcome, released) = self.end_of(job)?;
            let loaded = outcome == LoadOutcome::Loaded;
            answer["ok"] = loaded.into();
            answer["outcome"] = format!("{outcome:?}").into();
            answer["quarantined"] = released.is_some().into();
            answer["bytes"] = (loaded && self.are_right(&hits, into)?).into();
        }
        let mut why = self.events.try_iter().find_map(|event| failure(&event, &request));
        while order["refused"] == true && why.is_none() {
            why = failure(&self.events.recv_timeout(PATIENCE)?, &request);
        }
        answer["why"] = why.clone().into();
        if order["keep"] != true && why.is_none() {
            self.node.finish(&request, Role::Consumer).wait()?;
        }
        Ok(answer)
    }

    fn look_up(&self, request: &RequestId, wanted: &[u32]) -> Result<Vec<u32>, Failed> {
        let end = Instant::now() + PATIENCE;
        loop {
            let states = self.node.lookup_many(request, keys(wanted)?).wait()?;
            if !states.contains(&LookupState::Pending) {
                let held = wanted.iter().zip(states).filter(|(_, state)| *state == LookupState::Hit);
                return Ok(held.map(|(at, _)| *at).collect());
            }
            if Instant::now() > end {
                return Err("lookups have no answer".into());
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Until the first of these blocks is not empty any more.
    fn wait_for_bytes(&self, blocks: &[u32]) -> Result<(), Failed> {
        let (end, mut block) = (Instant::now() + PATIENCE, vec![0; self.region.block_len()]);
        while block.iter().all(|byte| *byte == 0) {
            self.region.read_block(blocks.first().copied().unwrap_or_default(), &mut block)?;
            if Instant::now() > end {
                return Err("nothing lands".into());
            }
        }
        Ok(())
    }

    /// How a load ended; and when its blocks were quarantined, after they are free again.
    fn end_of(&self, job: JobId) -> Result<(LoadOutcome, Option<()>), Failed> {
        let mut ended = None;
        loop {
            let event = self.events.recv_timeout(PATIENCE)?;
            if let Event::LoadFinished { job: of, outcome, destination, .. } = event {
                match destination {
                    Destination::Reusable if of == job => return Ok((outcome, None)),
                    Destination::Quarantined if of == job => ended = Some(outcome),
                    Destination::Reusable | Destination::Quarantined => {}
                }
            } else if event == (Event::DestinationReleased { job }) {
                return Ok((ended.ok_or("released before its end")?, Some(())));
            }
        }
    }

    fn are_right(&self, hits: &[u32], into: u32) -> Result<bool, Failed> {
        let mut block = vec![0; self.region.block_len()];
        for (at, place) in hits.iter().zip(into..) {
            self.region.read_block(place, &mut block)?;
            if block != content(*at, block.len()) {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// Why a request failed, if this says so.
fn failure(event: &Event, request: &RequestId) -> Option<String> {
    let Event::RequestFailed { request: failed, reason } = event else { return None };
    (failed == request).then(|| format!("{reason:?}"))
}

fn number(order: &Value, name: &str) -> Result<u32, Failed> {
    Ok(u32::try_from(order[name].as_u64().ok_or("a number is missing")?)?)
}

fn id(name: &str) -> Result<RequestId, Failed> {
    Ok(RequestName::new(name)?.into())
}

/// 36 bytes, as vLLM's keys have.
fn key_of(at: u32) -> [u8; 36] {
    let mut key = [0; 36];
    let text = format!("kvpeer-block-{at}");
    for (to, from) in key.iter_mut().zip(text.bytes()) {
        *to = from;
    }
    key
}

/// Byte j of block i is (131 i + 7 j + (j >> 8)) mod 256.
fn content(at: u32, len: usize) -> Vec<u8> {
    let low = |number: usize| number.to_le_bytes()[0];
    let first = at.wrapping_mul(131).to_le_bytes()[0];
    (0..len).map(|j| low(j.wrapping_mul(7) + (j >> 8)).wrapping_add(first)).collect()
}

fn keys(wanted: &[u32]) -> Result<KeysBuf, Failed> {
    let mut all = KeysBuf::new();
    for at in wanted {
        all.push(Key::new(&key_of(*at))?);
    }
    Ok(all)
}
