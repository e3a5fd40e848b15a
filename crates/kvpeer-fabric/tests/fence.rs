//! The proof that a closed right is a fence: whatever the writer does, once `RightClosed { fenced: true }` is
//! reported, not one byte of its writes lands any more.
//!
//! The writer is a process of its own (this test binary, started again). It writes block after block into the
//! target; once the first has begun to land, the target stops reading, so that the rest is under way in sockets
//! and queues; then it closes the right, gives the memory a new owner, and goes on serving other rights.

#![allow(unsafe_code, reason = "test memory, poll(2), and cutting the writer's sockets")]

mod support;
mod writer;

use kvpeer_fabric::RightId;
use support::{Node, link, pump, xfer};
use writer::Writer;

const BLOCK_LEN: usize = 4 << 20;
/// Blocks that the writer writes: 32 MiB, several times what socket buffers hold, each as one RMA write.
const CONTESTED: u32 = 8;
/// One block more, which the bystander writes.
const BLOCKS: u32 = CONTESTED + 1;
const CONTESTED_LEN: usize = CONTESTED as usize * BLOCK_LEN;
const WRITERS_BYTE: u8 = 1;
const NEW_OWNERS_BYTE: u8 = 9;

const CONTESTED_RIGHT: RightId = RightId(1);
const BYSTANDER_RIGHT: RightId = RightId(2);
/// Transfers of the bystander that must get through after the fence.
const BYSTANDER_ROUNDS: u64 = 30;
/// How often a set-up is repeated when the cut did not come in mid-transfer.
const SETUPS: usize = 20;

/// What happens to the writer before the right is closed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fate {
    /// Nothing: it goes on writing, and starts again with the old name and key after each failure.
    KeepsTrying,
    /// It is killed, and reaped.
    Killed,
    /// Its connections break and it has seen the error completions of its writes.
    SawItsErrors,
}

/// Sets up a writer, a target and a bystander, and stops in mid-transfer: the first block has begun to land and
/// the last has not.
fn in_mid_transfer() -> (Node, Node, Writer) {
    let mut target = Node::new(BLOCK_LEN, BLOCKS);
    let mut bystander = Node::new(BLOCK_LEN, 1);
    link(&mut bystander, BYSTANDER_RIGHT, &mut target, BYSTANDER_RIGHT);
    bystander.fabric.write(xfer(BYSTANDER_RIGHT, 0), &[0], &[CONTESTED]);
    pump(&mut [&mut target, &mut bystander], |nodes| nodes[1].end_of(xfer(BYSTANDER_RIGHT, 0)).is_some());

    let metadata = target.open_right(CONTESTED_RIGHT);
    let writer = Writer::start(BLOCK_LEN, CONTESTED, &target.peer_region(), &metadata);
    pump(&mut [&mut target], |nodes| nodes[0].region.byte(0) == WRITERS_BYTE);
    (target, bystander, writer)
}

fn has_landed_whole(target: &Node) -> bool {
    target.region.byte(CONTESTED_LEN - 1) == WRITERS_BYTE
}

/// Serves the bystander's right until `also`, and for a good number of transfers, and answers how many of the new
/// owner's bytes were overwritten meanwhile.
fn overwritten_while_serving_others(
    target: &mut Node,
    bystander: &mut Node,
    also: impl Fn() -> bool,
) -> usize {
    for round in 1..=BYSTANDER_ROUNDS {
        bystander.fabric.write(xfer(BYSTANDER_RIGHT, round), &[0], &[CONTESTED]);
        pump(&mut [target, bystander], |nodes| {
            let all_tried = round < BYSTANDER_ROUNDS / 2 || also();
            all_tried && nodes[1].end_of(xfer(BYSTANDER_RIGHT, round)).is_some()
        });
    }
    target.region.count_other(0, CONTESTED_LEN, NEW_OWNERS_BYTE)
}

fn prove(fate: Fate) {
    for _ in 0..SETUPS {
        let (mut target, mut bystander, mut writer) = in_mid_transfer();
        match fate {
            Fate::KeepsTrying => {}
            Fate::Killed => writer.kill(),
            Fate::SawItsErrors => {
                writer.cut_connections();
                writer.await_failure();
            }
        }
        target.fabric.close_right(CONTESTED_RIGHT);
        pump(&mut [&mut target], |nodes| nodes[0].closed(CONTESTED_RIGHT).is_some());
        assert_eq!(target.closed(CONTESTED_RIGHT), Some(true));
        if has_landed_whole(&target) {
            continue;
        }
        target.region.fill(0, CONTESTED_LEN, NEW_OWNERS_BYTE);
        // The same memory is opened to somebody else, as a session's next epoch would.
        target.open_right(RightId(3));
        let attempts_before = writer.attempts();
        let overwritten = overwritten_while_serving_others(&mut target, &mut bystander, || {
            fate != Fate::KeepsTrying || writer.attempts() >= attempts_before + 3
        });
        assert_eq!(overwritten, 0, "bytes landed behind the fence");
        return;
    }
    panic!("the cut never came in mid-transfer in {SETUPS} set-ups");
}

// END-11, I1
#[test]
fn nothing_lands_behind_the_fence_while_the_writer_keeps_trying() {
    prove(Fate::KeepsTrying);
}

#[test]
fn nothing_lands_behind_the_fence_of_a_writer_that_was_killed() {
    prove(Fate::Killed);
}

#[test]
fn nothing_lands_behind_the_fence_of_a_writer_that_saw_its_errors() {
    prove(Fate::SawItsErrors);
}

/// END-11: the control: the same without the fence. It shows that the proofs above would notice.
#[test]
fn without_the_fence_a_dead_writers_bytes_do_land() {
    for _ in 0..SETUPS {
        let (mut target, mut bystander, mut writer) = in_mid_transfer();
        writer.kill();
        target.region.fill(0, CONTESTED_LEN, NEW_OWNERS_BYTE);
        if overwritten_while_serving_others(&mut target, &mut bystander, || true) > 0 {
            return;
        }
    }
    panic!("no byte of a killed writer landed in {SETUPS} set-ups: these tests prove nothing");
}

/// The writer's process. Does nothing when run as a test.
#[test]
fn writer_process() {
    writer::run_if_asked();
}
