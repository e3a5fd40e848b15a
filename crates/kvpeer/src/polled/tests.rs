use std::time::Duration;

use kvpeer_core::wire::{Decoded, Limits, Msg, PeerName, RegionInfo};
use kvpeer_core::{Compatibility, Config, Identity, Origin};

use super::*;

const NOW: Time = Time::ZERO;

fn polled() -> Polled {
    let peer_id = PeerName::new("a:1").unwrap().into();
    let identity = Identity { peer_id, incarnation: 7, loopback: false };
    let region = RegionInfo { base_addr: 0, num_blocks: 4, block_len: 8 };
    Polled::new(Endpoint::new(Config::new(identity, region, Compatibility::default())).unwrap())
}

fn outputs(polled: &mut Polled) -> (Vec<Output>, Option<Deadline>) {
    let mut outputs = Vec::new();
    loop {
        match polled.poll_output() {
            Output::Timeout(deadline) => return (outputs, deadline),
            output @ (Output::Action(_) | Output::Event(_)) => outputs.push(output),
        }
    }
}

#[test]
fn an_endpoint_at_rest_waits_for_nothing() {
    assert_eq!(polled().poll_output(), Output::Timeout(None));
}

#[test]
fn effects_come_out_in_order_with_their_messages_encoded() {
    let mut polled = polled();
    let peer = PeerName::new("b:1").unwrap();
    polled.command(NOW, Command::Connect { peer, address: "somewhere" }).unwrap();
    let (first, deadline) = outputs(&mut polled);
    let [Output::Action(OwnedAction::Dial { epoch, peer: whom, address })] = first.as_slice() else {
        panic!("expected a dial: {first:?}")
    };
    assert_eq!((whom.as_name(), address.as_str()), (peer, "somewhere"));
    let epoch = *epoch;
    assert!(deadline.is_some_and(|deadline| deadline.at <= NOW + Duration::from_secs(30)));

    let conn = ConnId(3);
    polled.handle(NOW, Input::Connected { conn, origin: Origin::Dialed(epoch) });
    let (second, _) = outputs(&mut polled);
    assert_eq!(second, [Output::Action(OwnedAction::Admit { epoch, conn, peer: peer.into() })]);

    polled.handle(NOW, Input::Admitted { epoch, admit: true });
    assert_eq!(outputs(&mut polled).0, [Output::Action(OwnedAction::OpenRight { epoch })]);
    polled.handle(NOW, Input::RightOpened { epoch, metadata: Some(b"key") });
    let (third, _) = outputs(&mut polled);
    let frame = third.iter().find_map(|output| match output {
        Output::Action(OwnedAction::Send { frame, .. }) => Some(frame),
        Output::Action(_) | Output::Event(_) | Output::Timeout(_) => None,
    });
    let frame = frame.unwrap_or_else(|| panic!("expected a message: {third:?}"));
    match Msg::decode(frame[4], &frame[5..], &Limits::DEFAULT) {
        Ok(Decoded::Msg(Msg::Connect(connect))) => {
            assert_eq!(
                (connect.peer_id.as_str(), connect.incarnation, connect.metadata),
                ("a:1", 7, &b"key"[..])
            );
        }
        other => panic!("expected connect: {other:?}"),
    }
}

#[test]
fn a_refused_command_leaves_no_output() {
    let mut polled = polled();
    let job = kvpeer_core::JobId(1);
    assert_eq!(polled.command(NOW, Command::Abort { job }), Err(Misuse::UnknownJob));
    assert_eq!(polled.poll_output(), Output::Timeout(None));
}

#[test]
fn what_is_ignored_is_counted() {
    let mut polled = polled();
    polled.handle(NOW, Input::Disconnected { conn: ConnId(9) });
    assert_eq!(polled.counts().get(&Count::UnknownConn), Some(&1));
}
