//! One node: an endpoint, and what its planes and its engine are busy with.

use std::collections::BTreeMap;

use kvpeer_core::wire::RegionInfo;
use kvpeer_core::{Compatibility, Config, Count, Deadline, Endpoint, Epoch, Identity};
use kvpeer_wire::RequestName;

use crate::cache::Cache;
use crate::judge::books::Books;
use crate::names::EMPTY;
use crate::rma::Right;
use crate::{BLOCK_LEN, Block, NUM_BLOCKS, News, Who};

#[derive(Clone)]
pub(crate) struct Node {
    pub(crate) who: Who,
    /// `None` after a crash.
    pub(crate) endpoint: Option<Endpoint>,
    pub(crate) config: Config,
    /// Counts its processes.
    pub(crate) life: u32,
    pub(crate) memory: Vec<Block>,
    /// Whether closing an endpoint proves that nothing lands through it any more.
    pub(crate) fences: bool,
    pub(crate) rights: BTreeMap<Epoch, Right>,
    pub(crate) dials: BTreeMap<Epoch, Dial>,
    pub(crate) admits: BTreeMap<Epoch, String>,
    pub(crate) registrations: BTreeMap<Epoch, Registration>,
    pub(crate) cache: Cache,
    pub(crate) books: Books,
    /// What the engine was told and no expectation has taken yet.
    pub(crate) news: Vec<News>,
    pub(crate) counts: BTreeMap<Count, u64>,
    /// How many of its dials have come to something, or to nothing.
    pub(crate) dialled: usize,
    /// How often it has wished for a WRITE to be cancelled.
    pub(crate) cancels: usize,
}

#[derive(Clone)]
pub(crate) struct Dial {
    pub(crate) peer: String,
    pub(crate) address: String,
}

#[derive(Clone)]
pub(crate) struct Registration {
    pub(crate) region: RegionInfo,
    pub(crate) metadata: Vec<u8>,
    pub(crate) state: Registered,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Registered {
    Pending,
    Yes,
    No,
}

impl Node {
    pub(crate) fn new(who: Who, config: Config) -> Self {
        let endpoint = Endpoint::new(config.clone()).expect("a usable configuration");
        Self {
            who,
            endpoint: Some(endpoint),
            memory: vec![EMPTY; config.region.num_blocks as usize],
            config,
            life: 1,
            fences: true,
            rights: BTreeMap::new(),
            dials: BTreeMap::new(),
            admits: BTreeMap::new(),
            registrations: BTreeMap::new(),
            cache: Cache::default(),
            books: Books::default(),
            news: Vec::new(),
            counts: BTreeMap::new(),
            dialled: 0,
            cancels: 0,
        }
    }

    /// Its process is gone, with all that hung on it.
    pub(crate) fn die(&mut self) {
        self.endpoint = None;
        self.rights.clear();
        self.dials.clear();
        self.admits.clear();
        self.registrations.clear();
        self.cache = Cache::default();
        self.books = Books::default();
        self.news.clear();
    }

    /// A new process of the same name, newer than the last.
    pub(crate) fn live_again(&mut self) {
        let mut config = self.config.clone();
        config.identity.incarnation += 1;
        let (life, fences) = (self.life + 1, self.fences);
        *self = Self { life, fences, ..Self::new(self.who, config) };
    }

    pub(crate) fn deadline(&self) -> Option<Deadline> {
        self.endpoint.as_ref().and_then(Endpoint::next_deadline)
    }
}

/// The configuration of a node of the world, before a story changes it.
pub(crate) fn config(who: Who) -> Config {
    let identity = Identity { peer_id: who.peer().into(), incarnation: 1, loopback: false };
    let region = RegionInfo {
        base_addr: 0x1_0000 * (who.0 as u64 + 1),
        num_blocks: NUM_BLOCKS,
        block_len: BLOCK_LEN as u64,
    };
    Config::new(identity, region, Compatibility { hash_seed: "seed".into(), ..Compatibility::default() })
}

pub(crate) fn request(name: &str) -> RequestName<'_> {
    RequestName::new(name).expect("a legal request name")
}
