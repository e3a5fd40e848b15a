use crate::buffers::Buffers;
use crate::wire_stub::{FrameError, Limits};
use crate::Frame;
pub(crate) enum Inbound { Open, Deaf }
pub(crate) enum Step { Frame(Frame), Skipped, Dry, Malformed(FrameError), NoCommonVersion { ours: (u8, u8), theirs: (u8, u8) } }
pub(crate) fn our_preamble() -> [u8; 8] { *b"KVPEER\x01\x01" }
impl Inbound {
    pub(crate) fn new(_: &Limits) -> Self { Inbound::Open }
    pub(crate) fn is_deaf(&self) -> bool { matches!(self, Inbound::Deaf) }
    pub(crate) fn is_between_frames(&self) -> bool { true }
    pub(crate) fn deafen(&mut self) { *self = Inbound::Deaf; }
    pub(crate) fn trust(&mut self, _: &Limits) {}
    pub(crate) fn step(&mut self, bytes: &[u8], _: &mut Buffers) -> (usize, Step) { (bytes.len(), Step::Dry) }
}
