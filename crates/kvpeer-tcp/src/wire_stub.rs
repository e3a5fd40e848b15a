#[derive(Clone, Copy, Debug, Default)]
pub struct Limits {}
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("x")]
pub struct EncodeError;
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("x")]
pub struct FrameError;
pub fn encode(_: &kvpeer_wire::Msg<'_>, _: &mut Vec<u8>) -> Result<(), EncodeError> { Ok(()) }
