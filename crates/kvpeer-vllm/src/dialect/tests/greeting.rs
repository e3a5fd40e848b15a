//! The handshake.

use super::*;
use crate::dialect::{FINGERPRINT_NAME, fingerprint};

#[test]
fn both_sides_introduce_themselves() {
    let mut story = Story::new();
    let pairs = fingerprint("ff7ca337e6b4182e");
    story.core(&connect_with(b"md", "seed", pairs.as_fingerprint())).is(&Message::Connect(wire::Connect {
        peer_id: PeerName::new(US).unwrap(),
        agent_metadata: b"md",
        base_addr: 0x10_0000,
        num_blocks: 64,
        block_len: 4096,
        config_fingerprint: Text::new("ff7ca337e6b4182e").unwrap(),
        hash_seed: Text::new("seed").unwrap(),
    }));
    story.vllm(&vllm_connect(PEER, "ff7ca337e6b4182e")).are(&[Msg::Connect(Connect {
        peer_id: PeerName::new(PEER).unwrap(),
        incarnation: THEIRS,
        region: RegionInfo { base_addr: 0x20_0000, num_blocks: 32, block_len: 4096 },
        metadata: b"nixl",
        compat: Compat { hash_seed: Text::new("seed").unwrap(), fingerprint: pairs.as_fingerprint() },
        capabilities: 0,
        heartbeat_ms: 2_000,
    })]);
    // An ack names its sender, and no incarnation.
    story.core(&Msg::ConnectAck(ConnectAck { incarnation: THEIRS })).is(&vllm_ack(US));
    story.vllm(&vllm_ack(PEER)).are(&[Msg::ConnectAck(ConnectAck { incarnation: OURS })]);
}

#[test]
fn no_digest_is_no_pair_and_so_no_wildcard() {
    assert_eq!(fingerprint("").as_fingerprint().iter().count(), 0);
    let digest = fingerprint("abc");
    assert_eq!(digest.as_fingerprint().iter().collect::<Vec<_>>(), [(FINGERPRINT_NAME, "abc")]);
    assert_eq!(fingerprint(&"x".repeat(256)), fingerprint(""), "no message could carry it");
}

#[test]
fn a_peer_goes_by_the_name_of_its_connection() {
    let foreign = payload(&vllm_connect("10.0.0.9:5710", ""));
    assert_eq!(Story::new().hear(&foreign), Err(Violation::ForeignId));
    assert_eq!(Story::up().hear(&payload(&vllm_ack("10.0.0.9:5710"))), Err(Violation::ForeignId));
}

/// vLLM sends work as soon as it has our ack; the core wants both acks first. Held, in order.
#[test]
fn work_before_the_peers_ack_is_held() {
    let mut story = Story::new();
    let (k, hits) = (keys(&["k"]), bits("1"));
    story.core(&connect(b"md"));
    story.vllm(&vllm_connect(PEER, ""));
    story.core(&Msg::ConnectAck(ConnectAck { incarnation: THEIRS }));
    for message in [vllm_lookup("q", 0, &k), vllm_fetch("p", 0, &k, &[3])] {
        let (heard, told) = story.hear(&payload(&message)).unwrap();
        assert_eq!((heard, told), (Heard::Held, Told(vec![])));
    }
    story.vllm(&vllm_ack(PEER)).are(&[
        Msg::ConnectAck(ConnectAck { incarnation: OURS }),
        lookup(0, "q", 0, &k),
        fetch("p", 1, Supply::Await, &k, &[3], u32::MAX),
    ]);
    story.core(&resp(0, 0, &hits, 30_000)).is(&vllm_resp("q", &k, &hits));
}

#[test]
fn held_work_is_bounded() {
    let terms = Terms { early_messages: 2, ..Terms::default() };
    let mut story = Story::with(terms);
    let k = keys(&["k"]);
    story.core(&connect(b"md"));
    story.core(&Msg::ConnectAck(ConnectAck { incarnation: THEIRS }));
    let work = payload(&vllm_lookup("q", 0, &k));
    for _ in 0..2 {
        assert_eq!(story.hear(&work), Ok((Heard::Held, Told(vec![]))));
    }
    assert_eq!(story.hear(&work), Err(Violation::TooMuchEarlyWork));
    let terms = Terms { early_bytes: work.len() - 1, ..Terms::default() };
    let mut story = Story::with(terms);
    story.core(&connect(b"md"));
    story.core(&Msg::ConnectAck(ConnectAck { incarnation: THEIRS }));
    assert_eq!(story.hear(&work), Err(Violation::TooMuchEarlyWork));
}

/// Work before our own ack breaks the protocol, and the core is the one that says so.
#[test]
fn work_before_our_ack_is_the_cores_verdict() {
    let k = keys(&["k"]);
    Story::new().vllm(&vllm_lookup("q", 0, &k)).are(&[lookup(0, "q", 0, &k)]);
    // So is an ack of a `connect` that never left.
    Story::new().vllm(&vllm_ack(PEER)).are(&[Msg::ConnectAck(ConnectAck { incarnation: 0 })]);
}

#[test]
fn a_stranger_gets_little_memory() {
    let mut story = Story::new();
    let long = payload(&vllm_lookup("q", 0, &keys(&["x".repeat(64).as_str(); 1_000])));
    assert!(matches!(story.hear(&long), Err(Violation::Malformed(_))));
    assert!(Story::up().hear(&long).is_ok());
}

#[test]
fn every_refusal_and_goodbye_is_a_disconnect() {
    let mut story = Story::up();
    let reject = kvpeer_wire::Reject {
        code: kvpeer_wire::RejectCode::HashSeed,
        field: Text::default(),
        ours: Text::default(),
        theirs: Text::default(),
        retry_after_ms: 0,
    };
    story.core(&Msg::Reject(reject)).is(&Message::Disconnect);
    let goodbye =
        kvpeer_wire::Disconnect { reason: kvpeer_wire::DisconnectReason::Shutdown, detail: Text::default() };
    story.core(&Msg::Disconnect(goodbye)).is(&Message::Disconnect);
}

#[test]
fn nothing_is_heard_after_goodbye() {
    let mut story = Story::up();
    let told = story.vllm(&Message::Disconnect);
    assert!(format!("{told:?}").contains("reason: Closed"), "{told:?}");
    assert_eq!(story.ignored(&vllm_done("q", 0, wire::Success::Yes)), Ignored::AfterDisconnect);
}

#[test]
fn heartbeats_and_progress_are_not_vllms() {
    let mut story = Story::up();
    story.core(&Msg::Ping(kvpeer_wire::Nonce(1))).nothing();
    story.core(&Msg::Pong(kvpeer_wire::Nonce(1))).nothing();
    let progress = kvpeer_wire::FetchProgress {
        request: request("q"),
        round: Round(0),
        matched: 1,
        parked: 0,
        landed: 0,
    };
    story.core(&Msg::FetchProgress(progress)).nothing();
}

#[test]
fn types_of_a_later_vllm_are_passed_over() {
    let mut story = Story::up();
    let gossip = [&[0x81, 0xa4][..], b"type", &[0xa6], b"gossip"].concat();
    assert_eq!(story.hear(&gossip).unwrap().0, Heard::Ignored(Ignored::UnknownType));
}
