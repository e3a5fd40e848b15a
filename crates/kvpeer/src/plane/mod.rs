//! What a node needs from the outside to move messages and blocks, as traits.

mod control;
mod data;

pub use control::{ConnInfo, ControlFact, ControlPlane, Scratch};
pub use data::{DataFact, DataPlane, Progress, Rest};

/// The two planes of one node.
pub struct Planes {
    /// Carries messages.
    pub control: Box<dyn ControlPlane>,
    /// Carries blocks.
    pub data: Box<dyn DataPlane>,
}

impl Planes {
    /// Puts two planes together.
    pub fn new(control: impl ControlPlane + 'static, data: impl DataPlane + 'static) -> Self {
        Self { control: Box::new(control), data: Box::new(data) }
    }
}

impl std::fmt::Debug for Planes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Planes").field("address", &self.control.address()).finish_non_exhaustive()
    }
}
