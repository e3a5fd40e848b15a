//! What is fetched, and in which portions.

use std::sync::Arc;

use kvpeer::Region;
use kvpeer::core::Timing;

use crate::args::FetchArgs;
use crate::key_list::{KeyList, Names};
use crate::keys::BlockKey;
use crate::stopped::Stopped;
use crate::{keys_command, node, read_text};

/// Bytes in a portion, about: large enough for full speed, small enough for a bar that moves and a small region.
const PORTION_BYTES: u64 = 16 << 20;

/// Keys in a portion; one message takes more, but a peer pins them all.
const PORTION_BLOCKS: u64 = 4096;

/// Portions under way at a time.
const PORTIONS: u32 = 3;

pub(crate) struct Plan {
    pub(crate) keys: Vec<BlockKey>,
    pub(crate) block_len: u64,
    pub(crate) names: Names,
    /// Bytes of the source when the list has all its blocks: the last of them is cut there.
    bytes: Option<u64>,
    /// Blocks in a portion.
    pub(crate) portion: u32,
}

impl Plan {
    pub(crate) fn new(args: &FetchArgs) -> Result<Self, Stopped> {
        check_reach(args)?;
        let list = match (&args.wanted.tokens, &args.wanted.keys) {
            (Some(path), _) => {
                let keys = keys_command::of_token_file(path, &args.chain)?;
                KeyList { block_len: None, bytes: None, names: Names::Tokens, keys }
            }
            (None, Some(path)) => {
                KeyList::parse(&read_text(path)?).map_err(|error| Stopped::file(path, error))?
            }
            (None, None) => return Err(Stopped::usage("give --tokens FILE or --keys FILE")),
        };
        let block_len = match (args.block_len, list.block_len) {
            (Some(asked), Some(listed)) if asked != listed => {
                return Err(Stopped::usage(format!(
                    "--block-len {asked}, but the key list is about blocks of {listed} bytes"
                )));
            }
            (Some(len), _) | (None, Some(len)) => len.get(),
            (None, None) => {
                return Err(Stopped::usage("--block-len is needed: the peer's `kvpeer serve` prints it"));
            }
        };
        let whole = |bytes: &u64| bytes.div_ceil(block_len) == list.keys.len() as u64;
        let portion = (PORTION_BYTES / block_len).clamp(1, PORTION_BLOCKS).min(list.keys.len() as u64);
        Ok(Self {
            bytes: list.bytes.filter(whole),
            keys: list.keys,
            block_len,
            names: list.names,
            portion: u32::try_from(portion).unwrap_or(1),
        })
    }

    /// Blocks that the region needs.
    pub(crate) fn region_blocks(&self) -> u32 {
        let portions = self.keys.len().div_ceil(self.portion as usize);
        self.portion * u32::try_from(portions).map_or(PORTIONS, |portions| portions.min(PORTIONS))
    }

    /// The length of the file that is written.
    pub(crate) fn out_len(&self) -> u64 {
        self.bytes.unwrap_or(self.keys.len() as u64 * self.block_len)
    }

    pub(crate) fn node(&self, args: &FetchArgs, region: Arc<Region>) -> node::Plan {
        let mut timing =
            Timing { handshake: args.connect_timeout, parked: args.supply_timeout, ..Timing::default() };
        timing.lookup = timing.lookup.max(args.connect_timeout);
        let key_scheme = self.names.scheme(&args.chain.hash_seed);
        node::Plan { region, default_port: 0, key_scheme, timing }
    }
}

/// The peer writes into this node's memory, so it must be able to reach it.
fn check_reach(args: &FetchArgs) -> Result<(), Stopped> {
    let host = args.peer.rsplit_once(':').map_or(args.peer.as_str(), |(host, _)| host);
    let ip = host.trim_matches(['[', ']']).parse::<std::net::IpAddr>();
    let here = ip.map_or(host.eq_ignore_ascii_case("localhost"), |ip| ip.to_canonical().is_loopback());
    if here || args.node.listen.is_some() {
        return Ok(());
    }
    Err(Stopped::usage(format!(
        "{host} is not this host, and it must be able to reach this one: add --listen IP:0 with an address of this \
         host that it can reach"
    )))
}
