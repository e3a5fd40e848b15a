//! `kvpeer info`: what this program and the libfabric below it can do.

use std::time::Duration;

use kvpeer::core::{Limits, Timing};
use kvpeer::wire::Preamble;
use kvpeer_fabric::{self as fabric, FabricError};
use serde_json::{Map, Value, json};

use crate::args::InfoArgs;
use crate::say;
use crate::stopped::{Exit, Stopped};
use crate::table::{self, Facts};

pub(crate) fn run(args: &InfoArgs) -> Result<(), Stopped> {
    let providers = fabric::providers();
    let providers = providers.map_err(|error| Stopped::new(Exit::Local, format!("libfabric: {error}")))?;
    let (major, minor) = fabric::version();
    let libfabric = format!("{major}.{minor}");
    let protocol = (Preamble::OURS.min().0, Preamble::OURS.max().0);
    let (limits, timers) = (limits(&Limits::default()), timers(&Timing::default()));
    if args.json {
        let providers: Vec<Value> = providers
            .iter()
            .map(|it| {
                let refused = it.usable.as_ref().err().map(ToString::to_string);
                json!({
                    "name": it.name, "version": format!("{}.{}", it.version.0, it.version.1),
                    "usable": refused.is_none(), "fences": it.usable.as_ref().is_ok_and(|it| it.fences()),
                    "refused": refused,
                })
            })
            .collect();
        let numbers =
            |of: &[(&str, u64)]| of.iter().map(|&(name, value)| (name.to_owned(), value.into())).collect();
        let (limits, timers): (Map<_, _>, Map<_, _>) = (numbers(&limits), numbers(&timers));
        let info = json!({
            "kvpeer": env!("CARGO_PKG_VERSION"), "protocol": { "min": protocol.0, "max": protocol.1 },
            "libfabric": libfabric, "providers": providers, "limits": limits, "timers_ms": timers,
        });
        say::line(info);
        return Ok(());
    }
    Facts::default()
        .add("kvpeer", env!("CARGO_PKG_VERSION"))
        .add("protocol versions", format!("{} to {}", protocol.0, protocol.1))
        .add("libfabric", libfabric)
        .print();
    say::line("");
    table::columns(
        ["provider", "version", "use"],
        providers.iter().map(|it| {
            let usable = match &it.usable {
                Ok(provider) if provider.fences() => "yes".to_owned(),
                Ok(_) => "only when asked for: it cannot fence a peer".to_owned(),
                Err(FabricError::RefusedProvider { reason, .. }) => format!("no: {reason}"),
                Err(FabricError::UnknownProvider { .. }) => "no: never tested with kvpeer".to_owned(),
                Err(why) => format!("no: {why}"),
            };
            [it.name.clone(), format!("{}.{}", it.version.0, it.version.1), usable]
        }),
    );
    say::line("");
    table::columns(["limit", "default"], limits.map(|(name, value)| [name.to_owned(), value.to_string()]));
    say::line("");
    table::columns(
        ["timer", "default"],
        timers.map(|(name, ms)| [name.to_owned(), format!("{:?}", Duration::from_millis(ms))]),
    );
    Ok(())
}

fn limits(of: &Limits) -> [(&'static str, u64); 18] {
    let n = |count: usize| count as u64;
    [
        ("peers", n(of.peers)),
        ("handshakes", n(of.handshakes)),
        ("keys per message", n(of.keys)),
        ("held pieces of work per peer", n(of.held)),
        ("held bytes per peer", n(of.held_bytes)),
        ("requests per peer", n(of.requests)),
        ("rounds per request", n(of.rounds)),
        ("parked blocks per peer", n(of.parked_blocks)),
        ("pinned blocks per peer", n(of.pinned_blocks)),
        ("queued lookups per peer", n(of.lookups)),
        ("remembered ids", n(of.remembered)),
        ("bytes kept per peer", n(of.peer_bytes)),
        ("bytes kept for all peers", n(of.total_bytes)),
        ("spare peer slots", n(of.spare_peers)),
        ("bytes per WRITE", of.write_bytes),
        ("bytes in flight per peer", of.window_bytes),
        ("timers per tick", n(of.timers_per_tick)),
        ("key length in bytes", n(kvpeer::wire::MAX_KEY_LEN)),
    ]
}

fn timers(of: &Timing) -> [(&'static str, u64); 25] {
    let ms = |span: Duration| u64::try_from(span.as_millis()).unwrap_or(u64::MAX);
    [
        ("handshake", ms(of.handshake)),
        ("load", ms(of.load)),
        ("parked", ms(of.parked)),
        ("parked slack", ms(of.parked_slack)),
        ("progress", ms(of.progress)),
        ("write", ms(of.write)),
        ("cancel retry", ms(of.cancel_retry)),
        ("abort ack", ms(of.abort_ack)),
        ("close right", ms(of.close_right)),
        ("lookup", ms(of.lookup)),
        ("probe", ms(of.probe)),
        ("probe retry", ms(of.probe_retry)),
        ("store", ms(of.store)),
        ("unbound", ms(of.unbound)),
        ("remembered", ms(of.remembered)),
        ("pin", ms(of.pin)),
        ("drain", ms(of.drain)),
        ("heartbeat", ms(of.heartbeat)),
        ("dead", ms(of.dead)),
        ("longest heartbeat of a peer", ms(of.max_peer_heartbeat)),
        ("idle", ms(of.idle)),
        ("first redial", ms(of.redial.0)),
        ("longest redial", ms(of.redial.1)),
        ("first back-off", ms(of.backoff.0)),
        ("longest back-off", ms(of.backoff.1)),
    ]
}
