//! A node among vLLM's: messages over ZeroMQ, blocks over NIXL.

use std::net::SocketAddr;

use kvpeer::core::{Compatibility, FingerprintCheck};
use kvpeer::wire::PeerName;
use kvpeer::{BlockCache, NodeConfig, Planes};
use kvpeer_nixl::{NixlConfig, NixlData, Transports};
use kvpeer_vllm::control::{ZmqConfig, ZmqControl};
use kvpeer_vllm::dialect::fingerprint;

use super::{Plan, Running, beyond_loopback, refused, spawn};
use crate::args::NodeArgs;
use crate::say;
use crate::stopped::{Exit, Stopped};

/// What stands for a digest that is not compared.
const ANY: &str = "any";

pub(super) fn start(
    args: &NodeArgs,
    listen: SocketAddr,
    plan: Plan,
    cache: impl BlockCache + 'static,
) -> Result<Running, Stopped> {
    let vllm = &args.vllm;
    let local =
        |error: String| Stopped::new(Exit::Local, format!("cannot start a node on {listen}: {error}"));
    let transports = vllm.ucx.clone().map_or(Transports::Tcp, Transports::Ucx);
    let nixl = NixlConfig { library: vllm.nixl.clone(), transports };
    let data = NixlData::open(&nixl, &plan.region).map_err(|error| local(error.to_string()))?;
    beyond_loopback(listen).iter().for_each(say::warning);
    if !data.fences() {
        say::warning(
            "these UCX transports cannot fence a peer: after a broken session its blocks stay quarantined; use them \
             only between processes that trust each other",
        );
    }

    let mut zmq = ZmqConfig::new(listen.to_string());
    if let Some(name) = &args.advertise {
        let name =
            PeerName::new(name).map_err(|error| Stopped::usage(format!("--advertise {name}: {error}")))?;
        zmq.advertised = Some(name.into());
    }
    let control = ZmqControl::bind(zmq).map_err(|error| local(error.to_string()))?;

    let mut config = NodeConfig::new(plan.region);
    config.timing = plan.timing;
    let digest = vllm.vllm_digest.as_deref().unwrap_or_default();
    config.compat = Compatibility {
        // vLLM compares its own seed; how our keys are made has no place in its messages.
        hash_seed: vllm.vllm_seed.clone(),
        fingerprint: fingerprint(if digest == ANY { "" } else { digest }),
        check: if digest == ANY { FingerprintCheck::AcceptAny } else { FingerprintCheck::Exact },
    };
    let node = kvpeer::Node::new(&config, Planes::new(control, data), cache);
    spawn(node.map_err(|error| refused(listen, &error))?, listen)
}
