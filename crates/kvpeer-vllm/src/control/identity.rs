//! The identity of a vLLM node: where its ROUTER can be dialled.

use kvpeer_wire::{PeerId, PeerName};

/// The peer of a ROUTER's identity frame: `host:port`, with a host that can stand in an address. Identities are a
/// peer's bytes, and are dialled.
pub(super) fn peer_of(identity: &[u8]) -> Option<PeerId> {
    let name = std::str::from_utf8(identity).ok()?;
    let (host, port) = name.rsplit_once(':')?;
    let port: u16 = port.parse().ok()?;
    let named = |host: &str| {
        !host.is_empty() && host.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._".contains(&byte))
    };
    let v6 = |host: &str| {
        let inner = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
        inner.is_some_and(|inner| inner.parse::<std::net::Ipv6Addr>().is_ok())
    };
    (port > 0 && (named(host) || v6(host))).then(|| PeerName::new(name).ok().map(PeerId::from)).flatten()
}

#[cfg(test)]
mod tests {
    use super::peer_of;

    #[test]
    fn only_what_can_be_dialled_is_a_peer() {
        for good in ["10.0.0.7:5710", "node-7.rack_2:1", "[fd00::7]:5710", "localhost:65535"] {
            assert_eq!(peer_of(good.as_bytes()).map(|peer| peer.as_str().to_owned()), Some(good.to_owned()));
        }
        let long = format!("{}:1", "h".repeat(255));
        let bad: [&[u8]; 12] = [
            b"",
            b"10.0.0.7",
            b":5710",
            b"10.0.0.7:",
            b"10.0.0.7:0",
            b"10.0.0.7:65536",
            b"10.0.0.7:+1 ",
            b"a b:1",
            b"host\0:1",
            b"\xff\xfe:1",
            b"tcp://10.0.0.7:1",
            long.as_bytes(),
        ];
        for bad in bad {
            assert_eq!(peer_of(bad), None, "{bad:?}");
        }
    }
}
