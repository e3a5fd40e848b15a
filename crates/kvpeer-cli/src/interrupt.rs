//! Ctrl-C and SIGTERM end the node in order; a second one ends the program at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use kvpeer::NodeHandle;

use crate::stopped::{Exit, Stopped};

/// How long posted WRITEs may take to finish.
const DRAIN: Duration = Duration::from_secs(5);

/// Whether the user wants the program to end.
#[derive(Clone)]
pub(crate) struct Interrupted(Arc<AtomicBool>);

impl Interrupted {
    pub(crate) fn is_set(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }
}

/// From now on an interrupt shuts this node down: its last events come, then there are no more.
pub(crate) fn ends(handle: &NodeHandle) -> Result<Interrupted, Stopped> {
    let interrupted = Interrupted(Arc::default());
    let (flag, handle) = (interrupted.clone(), handle.clone());
    let set = ctrlc::set_handler(move || {
        if flag.0.swap(true, Ordering::SeqCst) {
            std::process::exit(i32::from(Exit::Interrupted.code()));
        }
        // Its end is seen where the events are taken.
        drop(handle.begin_shutdown(DRAIN));
    });
    set.map_err(|error| Stopped::new(Exit::Failed, format!("signals cannot be handled: {error}")))?;
    Ok(interrupted)
}
