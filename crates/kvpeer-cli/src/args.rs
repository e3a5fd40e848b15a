//! The command line.

use std::net::{IpAddr, SocketAddr};
use std::num::{NonZeroU64, NonZeroUsize};
use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgAction, Args, Parser, Subcommand};

/// Shown at the end of every `--help`.
const EXIT_CODES: &str = "\
Exit codes:
  0    done
  1    something else went wrong, or the demo failed
  2    a wrong option, or a file that cannot be used
  3    the peer does not hold all blocks
  4    the peer cannot be reached, or it refused
  5    a transfer failed
  6    this machine: the address, the provider or the memory cannot be used
  130  interrupted";

/// Moves KV-cache blocks between LLM inference nodes.
#[derive(Parser, Debug)]
#[command(name = "kvpeer", version, after_help = EXIT_CODES)]
pub(crate) struct Cli {
    /// Log more to stderr (twice: everything); the variable RUST_LOG overrides it
    #[arg(short, long, global = true, action = ArgAction::Count)]
    pub(crate) verbose: u8,
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Subcommand, Debug)]
pub(crate) enum Command {
    Serve(ServeArgs),
    Fetch(FetchArgs),
    Keys(KeysArgs),
    Info(InfoArgs),
    Demo(DemoArgs),
    /// One of the demo's two processes; it takes orders on standard input
    #[command(hide = true)]
    DemoNode(DemoNodeArgs),
}

/// Hold the blocks of a KV dump, or of any file, for peers to fetch, until Ctrl-C
#[derive(Args, Debug)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct ServeArgs {
    /// A KV dump (`.safetensors`), or any file
    pub(crate) file: PathBuf,
    #[command(flatten)]
    pub(crate) chain: ChainArgs,
    /// Cut the file every so many bytes, whatever it holds (as in 4096, 64K, 1M); for files that are no KV dump, 1M if
    /// not given
    #[arg(long, value_name = "BYTES", value_parser = parse_size)]
    pub(crate) block_len: Option<NonZeroU64>,
    /// Write the blocks' keys to a file, for `fetch --keys`
    #[arg(long, value_name = "FILE")]
    pub(crate) write_keys: Option<PathBuf>,
    /// Store the blocks for this request of a decoder (prefill/decode); may be repeated
    #[arg(long, value_name = "REQUEST")]
    pub(crate) pd: Vec<String>,
    #[command(flatten)]
    pub(crate) node: NodeArgs,
    /// One JSON object per line on standard output
    #[arg(long)]
    pub(crate) json: bool,
}

/// Get blocks from a peer, by token ids or by keys
#[derive(Args, Debug)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct FetchArgs {
    /// The peer's control address, as its `kvpeer serve` prints it
    #[arg(long, value_name = "HOST:PORT", value_parser = parse_peer_address)]
    pub(crate) peer: String,
    /// The peer's advertised id, when that is not its address
    #[arg(long, value_name = "ID")]
    pub(crate) peer_id: Option<String>,
    #[command(flatten)]
    pub(crate) wanted: Wanted,
    #[command(flatten)]
    pub(crate) chain: ChainArgs,
    /// Bytes in a block (as in 4096, 64K, 1M); a key list may say it
    #[arg(long, value_name = "BYTES", value_parser = parse_size)]
    pub(crate) block_len: Option<NonZeroU64>,
    /// Take what the peer stores for this request, now or later (prefill/decode), and do not ask what it holds
    #[arg(long, value_name = "REQUEST")]
    pub(crate) pd: Option<String>,
    /// Where the blocks go, one after the other; a block that the peer does not hold is left as zeros
    #[arg(long, value_name = "FILE")]
    pub(crate) out: PathBuf,
    /// Wait so long for the peer to be there
    #[arg(long, value_name = "SECONDS", default_value = "30", value_parser = parse_seconds)]
    pub(crate) connect_timeout: Duration,
    /// With --pd: wait so long for blocks that are not stored yet
    #[arg(long, value_name = "SECONDS", default_value = "60", value_parser = parse_seconds)]
    pub(crate) supply_timeout: Duration,
    #[command(flatten)]
    pub(crate) node: NodeArgs,
    /// One JSON object on standard output
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args, Debug)]
#[group(required = true, multiple = false)]
pub(crate) struct Wanted {
    /// The prompt's token ids: JSON (an array, or an object with `token_ids` or `prompt_ids`) or plain numbers
    #[arg(long, value_name = "FILE")]
    pub(crate) tokens: Option<PathBuf>,
    /// A key list, as `kvpeer serve --write-keys` makes it
    #[arg(long, value_name = "FILE")]
    pub(crate) keys: Option<PathBuf>,
}

/// Print the keys of a prompt's blocks
#[derive(Args, Debug)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct KeysArgs {
    /// The prompt's token ids: JSON (an array, or an object with `token_ids` or `prompt_ids`) or plain numbers
    #[arg(long, value_name = "FILE")]
    pub(crate) tokens: PathBuf,
    #[command(flatten)]
    pub(crate) chain: ChainArgs,
    /// Bytes in a block, to be noted in the list
    #[arg(long, value_name = "BYTES", value_parser = parse_size)]
    pub(crate) block_len: Option<NonZeroU64>,
}

/// Show libfabric's providers, and kvpeer's limits, timers and versions
#[derive(Args, Debug)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct InfoArgs {
    /// One JSON object on standard output
    #[arg(long)]
    pub(crate) json: bool,
}

/// Show the main job on real input: two processes, every byte verified, and what happens when things break
#[derive(Args, Debug)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct DemoArgs {
    /// The KV dump that the producer holds
    #[arg(long, value_name = "FILE")]
    pub(crate) kv: PathBuf,
    /// The prompt's token ids, all that the consumer gets to know beside the block length
    #[arg(long, value_name = "FILE")]
    pub(crate) tokens: PathBuf,
    /// Tokens in a block
    #[arg(long, value_name = "N", default_value = "16")]
    pub(crate) block_tokens: NonZeroUsize,
    /// The size of the region that is cut in mid-transfer
    #[arg(long, value_name = "MIB", default_value = "512", value_parser = clap::value_parser!(u32).range(1..=65_536))]
    pub(crate) region_mib: u32,
    /// The libfabric provider
    #[arg(long, value_name = "NAME", default_value = "tcp")]
    pub(crate) provider: kvpeer_fabric::Provider,
    /// One JSON object per line on standard output
    #[arg(long)]
    pub(crate) json: bool,
}

/// What a demo process is told at its start; all else comes as orders.
#[derive(Args, Debug)]
pub(crate) struct DemoNodeArgs {
    #[arg(long)]
    pub(crate) block_tokens: NonZeroUsize,
    #[arg(long)]
    pub(crate) block_len: NonZeroU64,
    #[arg(long)]
    pub(crate) num_blocks: u32,
    #[arg(long)]
    pub(crate) provider: kvpeer_fabric::Provider,
    /// The KV dump that fills the region, in the producer only
    #[arg(long)]
    pub(crate) kv: Option<PathBuf>,
    /// The process that must stay alive for this one to go on
    #[arg(long)]
    pub(crate) parent: u32,
}

/// How token ids become keys.
#[derive(Args, Debug)]
pub(crate) struct ChainArgs {
    /// Tokens in a block
    #[arg(long, value_name = "N", default_value = "16")]
    pub(crate) block_tokens: NonZeroUsize,
    /// A text that goes into every key; peers with another one are refused
    #[arg(long, value_name = "TEXT", default_value = "")]
    pub(crate) hash_seed: String,
    /// The group index in every key of a prompt
    #[arg(long, value_name = "N", default_value = "0")]
    pub(crate) group: u32,
}

/// This node.
#[derive(Args, Debug)]
pub(crate) struct NodeArgs {
    /// The address of this host to listen on; beyond loopback, anybody who reaches it can take part
    #[arg(long, value_name = "IP:PORT")]
    pub(crate) listen: Option<SocketAddr>,
    /// The id and address that peers know this node by; needed when it is not the one listened on
    #[arg(long, value_name = "HOST:PORT", value_parser = parse_peer_address)]
    pub(crate) advertise: Option<String>,
    /// The libfabric provider; `kvpeer info` lists them
    #[arg(long, value_name = "NAME", default_value = "tcp")]
    pub(crate) provider: kvpeer_fabric::Provider,
    /// The address that block data comes in on, when it is another one than --listen's
    #[arg(long, value_name = "IP")]
    pub(crate) fabric_bind: Option<IpAddr>,
    /// What the blocks hold, as in model=x; peers must say the same. May be repeated
    #[arg(long, value_name = "NAME=VALUE", value_parser = parse_pair)]
    pub(crate) fingerprint: Vec<(String, String)>,
    #[cfg(feature = "vllm")]
    #[command(flatten)]
    pub(crate) vllm: VllmArgs,
}

/// Among vLLM's nodes.
#[cfg(feature = "vllm")]
#[derive(Args, Default, Debug)]
pub(crate) struct VllmArgs {
    /// Work with vLLM 0.33 nodes, over ZeroMQ and NIXL; keys are what they and you agree on
    #[arg(long, requires = "vllm_digest", conflicts_with_all = ["provider", "fabric_bind", "fingerprint"])]
    pub(crate) vllm: bool,
    /// The vLLM nodes' configuration digest, or `any`: no comparison, at your risk
    #[arg(long, value_name = "DIGEST", requires = "vllm")]
    pub(crate) vllm_digest: Option<String>,
    /// The vLLM nodes' hash seed, as they compare it
    #[arg(long, value_name = "TEXT", requires = "vllm", default_value = "vllm-none-hash")]
    pub(crate) vllm_seed: String,
    /// NIXL's `libnixl_capi.so`, as a path or as a name for the dynamic loader
    #[arg(long, value_name = "FILE", requires = "vllm", default_value = kvpeer_nixl::DEFAULT_LIBRARY)]
    pub(crate) nixl: String,
    /// UCX's transports, as in UCX_TLS, instead of `tcp`; no other one can fence a peer
    #[arg(long, value_name = "LIST", requires = "vllm")]
    pub(crate) ucx: Option<String>,
}

fn parse_size(text: &str) -> Result<NonZeroU64, String> {
    let (digits, unit) = text.split_at(text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len()));
    let shift = match unit.to_ascii_lowercase().as_str() {
        "" | "b" => 0,
        "k" | "kib" => 10,
        "m" | "mib" => 20,
        "g" | "gib" => 30,
        _ => return Err("write a number of bytes, or one with K, M or G".to_owned()),
    };
    let number: u64 = digits.parse().map_err(|_| "write a number of bytes, as in 4096 or 64K".to_owned())?;
    let bytes = number.checked_mul(1 << shift).ok_or("that is more than 64 bits can hold")?;
    NonZeroU64::new(bytes).ok_or_else(|| "a block has at least one byte".to_owned())
}

fn parse_seconds(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text.parse().map_err(|_| "write a number of seconds".to_owned())?;
    let allowed = 0.001..=86_400.0;
    if !allowed.contains(&seconds) {
        return Err("write a number of seconds between 0.001 and 86400".to_owned());
    }
    Ok(Duration::from_secs_f64(seconds))
}

fn parse_peer_address(text: &str) -> Result<String, String> {
    let (host, port) = text.rsplit_once(':').ok_or("write HOST:PORT, as in 127.0.0.1:5710")?;
    match port.parse::<u16>() {
        Ok(1..)
            if !host.is_empty() && (!host.contains(':') || host.starts_with('[') && host.ends_with(']')) =>
        {
            Ok(text.to_owned())
        }
        Ok(0) => Err("port 0 is nobody's address".to_owned()),
        Ok(_) if host.contains(':') => Err("write an IPv6 address in brackets, as in [::1]:5710".to_owned()),
        Ok(_) => Err("the host is missing: write HOST:PORT, as in 127.0.0.1:5710".to_owned()),
        Err(_) => Err("the port is no number between 1 and 65535".to_owned()),
    }
}

fn parse_pair(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        Some(_) | None => Err("write NAME=VALUE".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_definition_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn sizes() {
        let size = |text| parse_size(text).map(NonZeroU64::get);
        assert_eq!(size("368640"), Ok(368_640));
        assert_eq!(size("64K"), Ok(65_536));
        assert_eq!(size("1MiB"), Ok(1 << 20));
        for wrong in ["", "0", "K", "1T", "-1", "1.5M", "99999999999999999999", "18446744073709551615G"] {
            assert!(size(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn peer_addresses() {
        for right in ["127.0.0.1:5710", "node-7.cluster:1", "[::1]:5710"] {
            assert_eq!(parse_peer_address(right).as_deref(), Ok(right));
        }
        for wrong in ["", "host", ":5710", "host:", "host:0", "host:65536", "::1:5710"] {
            assert!(parse_peer_address(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn seconds() {
        assert_eq!(parse_seconds("0.5"), Ok(Duration::from_millis(500)));
        for wrong in ["", "x", "0", "-1", "NaN", "inf", "1e9"] {
            assert!(parse_seconds(wrong).is_err(), "{wrong}");
        }
    }
}
