//! Starts this process's node.

#[cfg(feature = "vllm")]
mod among_vllm;

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;

use kvpeer::core::{Compatibility, FingerprintCheck, Timing};
use kvpeer::wire::FingerprintBuf;
use kvpeer::{BlockCache, Events, NodeConfig, NodeError, NodeHandle, Region, TcpFabric};
use kvpeer_fabric::{FabricError, Provider};

use crate::args::NodeArgs;
use crate::say;
use crate::stopped::{Exit, Stopped};

/// What a command adds to the options.
pub(crate) struct Plan {
    pub(crate) region: Arc<Region>,
    /// The port on loopback when `--listen` is not given; 0 takes a free one.
    pub(crate) default_port: u16,
    /// Says how the keys are made; peers compare it.
    pub(crate) key_scheme: String,
    pub(crate) timing: Timing,
}

/// A node at work on its own thread.
pub(crate) struct Running {
    pub(crate) handle: NodeHandle,
    pub(crate) events: Events,
    /// The control address that it listens on.
    pub(crate) address: String,
    /// What peers know it by.
    pub(crate) peer_id: String,
}

/// Starts the node, and warns of what its options mean.
pub(crate) fn start(
    args: &NodeArgs,
    plan: Plan,
    cache: impl BlockCache + 'static,
) -> Result<Running, Stopped> {
    let listen = args.listen.unwrap_or(SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), plan.default_port));
    #[cfg(feature = "vllm")]
    if args.vllm.vllm {
        return among_vllm::start(args, listen, plan, cache);
    }
    let mut config = NodeConfig::new(plan.region);
    config.timing = plan.timing;
    config.compat = Compatibility {
        hash_seed: plan.key_scheme,
        fingerprint: fingerprint(&args.fingerprint)?,
        check: FingerprintCheck::Exact,
    };
    if let Some(name) = &args.advertise {
        config =
            config.named(name).map_err(|error| Stopped::usage(format!("--advertise {name}: {error}")))?;
    }
    let fabric_bind = data_address(args, listen)?;
    warnings(listen, args.provider).iter().for_each(say::warning);
    let mut network = TcpFabric::listening(listen);
    network.fabric.provider = args.provider;
    network.fabric.bind = fabric_bind.unwrap_or(listen.ip());
    let node = kvpeer::Node::tcp_fabric(&config, network, cache).map_err(|error| refused(listen, &error))?;
    spawn(node, listen)
}

fn spawn(node: kvpeer::Node, listen: SocketAddr) -> Result<Running, Stopped> {
    let address = node.address().unwrap_or_default();
    let peer_id = node.peer_id().as_str().to_owned();
    let (handle, events) = node.spawn().map_err(|error| refused(listen, &error))?;
    Ok(Running { handle, events, address, peer_id })
}

/// The address that blocks come in on; peers are told it, so it must be one of this host's own.
fn data_address(args: &NodeArgs, listen: SocketAddr) -> Result<Option<IpAddr>, Stopped> {
    if args.fabric_bind.is_some() || !listen.ip().is_unspecified() {
        return Ok(args.fabric_bind);
    }
    let Some(advertised) = &args.advertise else {
        return Err(Stopped::usage(format!(
            "--listen {listen} is every address of this host and none that a peer could use: add --advertise \
             HOST:PORT, the address that peers reach this host by"
        )));
    };
    match advertised.parse::<SocketAddr>() {
        Ok(address) => Ok(Some(address.ip())),
        Err(_) => Err(Stopped::usage(format!(
            "--listen {listen} with a host name as --advertise: add --fabric-bind IP, the address of this host that \
             block data comes in on"
        ))),
    }
}

fn fingerprint(pairs: &[(String, String)]) -> Result<FingerprintBuf, Stopped> {
    let mut fingerprint = FingerprintBuf::new();
    for (name, value) in pairs {
        let pushed = fingerprint.push(name, value);
        pushed.map_err(|error| Stopped::usage(format!("--fingerprint {name}={value}: {error}")))?;
    }
    Ok(fingerprint)
}

/// What the user should know about these options.
fn warnings(listen: SocketAddr, provider: Provider) -> Vec<String> {
    let mut warnings = Vec::from_iter(beyond_loopback(listen));
    match provider {
        Provider::Tcp => {}
        Provider::Shm => warnings.push(
            "provider shm cannot fence a peer: after a broken session its blocks stay quarantined; use it only between \
             processes that trust each other"
                .to_owned(),
        ),
    }
    warnings
}

/// HS-14: who is not on loopback hears what that means.
fn beyond_loopback(listen: SocketAddr) -> Option<String> {
    (!listen.ip().to_canonical().is_loopback()).then(|| {
        format!(
            "listening on {listen}, beyond loopback: the control plane is not authenticated, so anybody who reaches it \
             can take blocks and be given a key to this node's region; use it in a trusted network only"
        )
    })
}

fn refused(listen: SocketAddr, error: &NodeError) -> Stopped {
    let option = matches!(
        error,
        NodeError::NoIdentity
            | NodeError::Name(_)
            | NodeError::Config(_)
            | NodeError::Fabric(FabricError::RefusedProvider { .. } | FabricError::UnknownProvider { .. })
    );
    let exit = if option { Exit::Usage } else { Exit::Local };
    Stopped::new(exit, format!("cannot start a node on {listen}: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_goes_beyond_loopback_is_said() {
        for quiet in ["127.0.0.1:5710", "[::1]:0", "[::ffff:127.0.0.1]:1"] {
            assert_eq!(warnings(quiet.parse().expect("an address"), Provider::Tcp), [""; 0], "{quiet}");
        }
        for open in ["0.0.0.0:5710", "10.0.0.7:5710", "[::]:0"] {
            let said = warnings(open.parse().expect("an address"), Provider::Tcp);
            assert!(matches!(&said[..], [one] if one.contains("not authenticated")), "{open}: {said:?}");
        }
    }

    #[test]
    fn a_provider_that_cannot_fence_is_warned_of() {
        let said = warnings("127.0.0.1:0".parse().expect("an address"), Provider::Shm);
        assert!(matches!(&said[..], [one] if one.contains("cannot fence")), "{said:?}");
    }
}
