//! The names of the server role's states, for [`Endpoint::states`](crate::Endpoint::states).

use super::{Ending, Holder, Intake, Job, Offer, Origin, Pool, Serving};

impl Serving {
    pub(crate) fn state(&self) -> &'static str {
        match self {
            Serving::Probing(_) => "Probing",
            Serving::Fetching(fetching) => match fetching.ending {
                Ending::Going if fetching.waiting > 0 => "Fetching: parked",
                Ending::Going => "Fetching: serving",
                Ending::Failing(_) => "Fetching: Failing",
                Ending::Aborted => "Fetching: Aborted",
                Ending::Silent(_) => "Fetching: Silent",
            },
        }
    }
}

impl Pool {
    pub(crate) fn state(&self) -> &'static str {
        match (self.holder, self.intake) {
            (Holder::Unbound, Intake::Coming) => "Unbound, Coming",
            (Holder::Unbound, Intake::Finished) => "Unbound, Finished",
            (Holder::Unbound, Intake::Released) => "Unbound, Released",
            (Holder::Bound(_), Intake::Coming) => "Bound, Coming",
            (Holder::Bound(_), Intake::Finished) => "Bound, Finished",
            (Holder::Bound(_), Intake::Released) => "Bound, Released",
        }
    }
}

impl Job {
    pub(crate) fn state(&self) -> &'static str {
        match (self.origin, self.offered, self.claimed, self.offer) {
            (Origin::Store, _, 0, Offer::Open) => "Store: offered, open",
            (Origin::Store, 0, _, Offer::Open) => "Store: claimed, open",
            (Origin::Store, _, _, Offer::Open) => "Store: offered and claimed, open",
            (Origin::Store, _, 0, Offer::Closed) => "Store: offered, closed",
            (Origin::Store, 0, _, Offer::Closed) => "Store: claimed, closed",
            (Origin::Store, _, _, Offer::Closed) => "Store: offered and claimed, closed",
            (Origin::Pin(..), _, 0, Offer::Open) => "Pin: offered, open",
            (Origin::Pin(..), 0, _, Offer::Open) => "Pin: claimed, open",
            (Origin::Pin(..), _, _, Offer::Open) => "Pin: offered and claimed, open",
            (Origin::Pin(..), _, 0, Offer::Closed) => "Pin: offered, closed",
            (Origin::Pin(..), 0, _, Offer::Closed) => "Pin: claimed, closed",
            (Origin::Pin(..), _, _, Offer::Closed) => "Pin: offered and claimed, closed",
        }
    }
}
