//! One byte a second, on a clock that the test moves: it is not endless.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use kvpeer::core::Count;
use kvpeer::mem::MemNet;
use kvpeer::wire::{Msg, Preamble};
use kvpeer::{Clock, NoBlocks, Node, NodeConfig, Planes, Region, TcpConfig, TcpControl};

use crate::attacker::{HERE, connect_of, frame};
use crate::process::BLOCK_LEN;

const SECOND: Duration = Duration::from_secs(1);

/// HS-21: whatever comes, and however slowly, a stranger has 30 s to introduce itself.
#[test]
fn a_stranger_that_sends_a_byte_a_second() {
    let clock = Clock::manual();
    let mut node = node(&clock);
    let introduction =
        [&Preamble::OURS.to_bytes()[..], &frame(&Msg::Connect(connect_of(&"slow".repeat(20), 1, &[0; 8])))]
            .concat();
    assert!(introduction.len() > 60, "longer than it has time for");
    let mut stranger = TcpStream::connect(node.address().expect("it listens")).expect("it listens");
    stranger.set_nodelay(true).expect("a socket");
    let mut said = 0;
    while is_open(&mut stranger) {
        assert!(said < 40, "it is listened to for ever");
        stranger.write_all(&introduction[said..=said]).expect("it is open");
        said += 1;
        let heard = said as u64;
        // Until the byte has been read, and what follows from it and from the time has been done.
        while bytes_in(&node) < heard && is_open(&mut stranger) {
            node.sleep_and_tick(Some(SECOND));
        }
        clock.advance(SECOND);
        node.tick();
    }
    assert!((29..=31).contains(&said), "{said} s");
    assert_eq!(node.totals().kept_bytes, 0);
    assert!(!node.stats().counts.contains_key(&Count::Misbehaved), "slow is no fault");
}

fn node(clock: &Clock) -> Node {
    let region = Region::new(4, BLOCK_LEN).expect("memory");
    let control = TcpControl::bind(TcpConfig::listening((HERE, 0).into())).expect("a free port");
    let data = MemNet::new().join("node", &region).expect("a new name").data;
    let planes = Planes { control: Box::new(control), data };
    let node = Node::new(&NodeConfig::new(region), planes, NoBlocks).expect("a good configuration");
    node.with_clock(clock.clone())
}

fn bytes_in(node: &Node) -> u64 {
    node.stats().control.iter().find(|(what, _)| *what == "bytes in").map_or(0, |(_, count)| *count)
}

fn is_open(stranger: &mut TcpStream) -> bool {
    stranger.set_nonblocking(true).expect("a socket");
    let mut bin = [0; 64];
    let open = loop {
        match stranger.read(&mut bin) {
            Ok(0) => break false,
            Ok(_) => {}
            Err(error) => break error.kind() == std::io::ErrorKind::WouldBlock,
        }
    };
    stranger.set_nonblocking(false).expect("a socket");
    open
}
