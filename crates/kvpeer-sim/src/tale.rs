//! A run as text: which world, and what happened in it. It can be read, kept, and replayed.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use crate::judge::Broken;
use crate::names::BadName;
use crate::seen::Log;
use crate::setup::Setup;
use crate::step::Step;
use crate::world::World;

/// The name of a world and the steps in it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Tale {
    /// The name of the world's [`Setup`].
    pub world: String,
    /// In order.
    pub steps: Vec<Step>,
}

/// How a replay went.
#[derive(Debug)]
pub struct Telling {
    /// The world at the end.
    pub world: World,
    /// The steps that could happen; the others were left out.
    pub taken: Vec<Step>,
    /// What was seen.
    pub log: Log,
}

impl Telling {
    /// The promise that was broken, if one was.
    pub fn broken(&self) -> Option<&Broken> {
        self.world.broken()
    }
}

/// Replays steps. Those that cannot happen where they stand are left out, so that a shortened run still means
/// something.
pub fn replay(setup: &Arc<Setup>, steps: &[Step], mut log: Log) -> Telling {
    let mut world = World::new(Arc::clone(setup));
    let mut taken = Vec::new();
    for step in steps {
        if world.broken().is_some() {
            break;
        }
        if world.can(step) {
            world.apply(step, &mut log);
            taken.push(step.clone());
        }
    }
    Telling { world, taken, log }
}

/// Leaves out steps as long as the same promise is broken without them.
pub fn shrink(setup: &Arc<Setup>, steps: &[Step]) -> Vec<Step> {
    let first = replay(setup, steps, Log::default());
    let Some(promise) = first.broken().map(|broken| broken.promise) else { return first.taken };
    let mut best = first.taken;
    let mut chunk = best.len().div_ceil(2);
    while chunk > 0 {
        let mut from = 0;
        let mut shorter = false;
        while from < best.len() {
            let mut fewer = best.clone();
            fewer.drain(from..best.len().min(from + chunk));
            let again = replay(setup, &fewer, Log::default());
            if again.broken().is_some_and(|broken| broken.promise == promise)
                && again.taken.len() < best.len()
            {
                best = again.taken;
                shorter = true;
            } else {
                from += chunk;
            }
        }
        if !shorter || chunk > 1 {
            chunk /= 2;
        }
    }
    best
}

impl World {
    /// Whether a step can happen now. An engine can wish for anything, and time can always be waited for.
    pub fn can(&self, step: &Step) -> bool {
        match step {
            Step::Wish { who, script: None, .. } => self.is_alive(*who),
            Step::Lie { conn, from, .. } => self.can_lie(*conn, *from),
            Step::Call(to) => {
                self.setup().rogue.is_some_and(|rogue| rogue != *to && self.is_alive(rogue))
                    && self.is_alive(*to)
            }
            Step::Wait(_) => self.broken().is_none() && self.prompt_steps().is_empty(),
            Step::Wish { .. }
            | Step::Tick(_)
            | Step::Time
            | Step::Dial { .. }
            | Step::Accept(_)
            | Step::Deliver { .. }
            | Step::HangUp { .. }
            | Step::Answer { .. }
            | Step::Probe { .. }
            | Step::Land { .. }
            | Step::Complete { .. }
            | Step::Cut(_)
            | Step::Tear(..)
            | Step::Garble(..)
            | Step::Versions(_)
            | Step::Mute(..)
            | Step::DelayLink(..)
            | Step::DelayAnswer(..)
            | Step::DelayWrite(_)
            | Step::PeerFault(_)
            | Step::Crash(_)
            | Step::Restart(_) => self.steps().contains(step),
        }
    }
}

impl fmt::Display for Tale {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "world {}", self.world)?;
        self.steps.iter().try_for_each(|step| writeln!(f, "{step}"))
    }
}

impl FromStr for Tale {
    type Err = BadName;

    /// Empty lines, and what stands after a `#`, are for people.
    fn from_str(text: &str) -> Result<Self, BadName> {
        let lines = text.lines().map(|line| line.split('#').next().unwrap_or_default().trim());
        let mut lines = lines.filter(|line| !line.is_empty());
        let first = lines.next().unwrap_or_default();
        let world = first.strip_prefix("world ").ok_or_else(|| BadName(first.to_owned()))?;
        let steps = lines.map(str::parse).collect::<Result<_, _>>()?;
        Ok(Self { world: world.to_owned(), steps })
    }
}
