//! Events that a task waits for by name, instead of by taking all of them.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use kvpeer_core::{JobId, RequestId};
use tokio::sync::{Notify, oneshot};

use super::Event;

/// Who waits for what. Events that nobody waits for go their ordinary way.
#[derive(Default, Debug)]
pub(crate) struct Claims(Mutex<State>);

#[derive(Default, Debug)]
struct State {
    jobs: BTreeMap<(JobId, Wanted), oneshot::Sender<Event>>,
    lookups: BTreeMap<RequestId, Arc<Notify>>,
    ended: bool,
}

/// What of a job.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Wanted {
    /// Its one result.
    Result,
    /// That its quarantined destination is free.
    Release,
}

impl Claims {
    /// Wants a job's event. The sender is dropped when the node ends.
    pub(crate) fn claim(&self, job: JobId, wanted: Wanted) -> oneshot::Receiver<Event> {
        let (sender, receiver) = oneshot::channel();
        let mut state = self.lock();
        if !state.ended {
            state.jobs.insert((job, wanted), sender);
        }
        receiver
    }

    /// Wants it no more.
    pub(crate) fn disclaim(&self, job: JobId, wanted: Wanted) {
        self.lock().jobs.remove(&(job, wanted));
    }

    /// Is notified at each answer to lookups of this request. Kept until nobody else holds it.
    pub(crate) fn lookups(&self, request: &RequestId) -> Arc<Notify> {
        let mut state = self.lock();
        state.lookups.retain(|_, notify| Arc::strong_count(notify) > 1);
        Arc::clone(state.lookups.entry(request.clone()).or_default())
    }

    /// Gives the event to who waits for it, or back.
    pub(super) fn offer(&self, event: Event) -> Option<Event> {
        let mut state = self.lock();
        let claim = match &event {
            Event::LoadFinished { job, .. } | Event::StoreFinished { job, .. } => (*job, Wanted::Result),
            Event::DestinationReleased { job } => (*job, Wanted::Release),
            Event::LookupAnswered { request } | Event::RequestFailed { request, .. } => {
                if let Some(notify) = state.lookups.get(request) {
                    notify.notify_waiters();
                }
                return Some(event);
            }
            Event::FetchArrived { .. }
            | Event::PeerUp { .. }
            | Event::PeerDown { .. }
            | Event::PeerRefused { .. }
            | Event::Trouble(_)
            | Event::Lagged { .. } => return Some(event),
        };
        match state.jobs.remove(&claim) {
            Some(sender) => sender.send(event).err(),
            None => Some(event),
        }
    }

    /// The node is gone.
    pub(super) fn end(&self) {
        let mut state = self.lock();
        state.ended = true;
        state.jobs.clear();
        for notify in std::mem::take(&mut state.lookups).into_values() {
            notify.notify_waiters();
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
