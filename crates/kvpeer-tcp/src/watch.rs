//! Descriptors of others (a data plane's, say) that wake the same poller.

use std::collections::BTreeMap;
use std::io::{self, ErrorKind};
use std::os::fd::RawFd;

use mio::unix::SourceFd;
use mio::{Interest, Registry, Token};

use crate::source::{SourceId, SourceIds};

/// The watched descriptors.
#[derive(Default)]
pub(crate) struct Watched(BTreeMap<RawFd, Watch>);

struct Watch {
    id: SourceId,
    state: State,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    /// The poller will say when it becomes readable.
    Armed,
    /// It was readable; it is armed again before the next poll.
    Fired,
}

impl Watched {
    /// Watches what `fd` names now. When it was closed and its number given to another that is to be watched, this
    /// is where that is noticed: closing took the old one out of the poller.
    pub(crate) fn watch(&mut self, fd: RawFd, registry: &Registry, ids: &mut SourceIds) -> io::Result<()> {
        let id = self.0.get(&fd).map_or_else(|| ids.mint(), |watch| watch.id);
        let (token, mut source) = (Token(id.0), SourceFd(&fd));
        // The kernel knows a descriptor by its number and by what that names. To arm it again is cheap; to find out
        // by adding it that it is there already is not, when it is a poller itself, which may hold many others.
        let armed = if self.0.contains_key(&fd) {
            registry.reregister(&mut source, token, Interest::READABLE)
        } else {
            Err(ErrorKind::NotFound.into())
        };
        let armed = armed.or_else(|error| match error.kind() == ErrorKind::NotFound {
            true => registry.register(&mut source, token, Interest::READABLE),
            false => Err(error),
        });
        if armed.is_ok() {
            self.0.insert(fd, Watch { id, state: State::Armed });
        } else {
            self.0.remove(&fd);
        }
        armed
    }

    pub(crate) fn unwatch(&mut self, fd: RawFd, registry: &Registry) {
        if self.0.remove(&fd).is_some() {
            // Fails when the descriptor was closed, which took it out of the poller.
            let _ = registry.deregister(&mut SourceFd(&fd));
        }
    }

    /// `fd` names a new socket of ours: what was watched under this number was closed. To unwatch it later must not
    /// take our socket out of the poller.
    pub(crate) fn forget(&mut self, fd: RawFd) {
        self.0.remove(&fd);
    }

    /// The poller is edge-triggered: it says once that a descriptor became readable. Its owner may read only
    /// a part, so arm it again, which reports it at once when it still is readable.
    pub(crate) fn rearm(&mut self, registry: &Registry) {
        self.0.retain(|fd, watch| {
            watch.state == State::Armed || {
                watch.state = State::Armed;
                registry.reregister(&mut SourceFd(fd), Token(watch.id.0), Interest::READABLE).is_ok()
            }
        });
    }

    /// The poller saw something at `id`; the descriptor, when it is one and this is new.
    pub(crate) fn saw(&mut self, id: SourceId) -> Option<RawFd> {
        let (fd, watch) = self.0.iter_mut().find(|(_, watch)| watch.id == id)?;
        let new = watch.state == State::Armed;
        watch.state = State::Fired;
        new.then_some(*fd)
    }
}
