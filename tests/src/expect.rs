//! What a story demands to have seen.

use kvpeer_core::{CloseReason, Count, Destination, LinkStatus, LoadFailure, StoreOutcome, Timer, Totals};

use crate::{Job, LoadEnd, News, Who, World};

impl World {
    /// Exactly these messages were said since the last look, apart from heartbeats and `fetch_progress`.
    #[track_caller]
    pub fn expect(&mut self, from: Who, to: Who, messages: &[&str]) {
        let mut said = self.said.remove(&(from, to)).unwrap_or_default();
        said.retain(|text| !text.starts_with("fetch_progress"));
        if said != messages {
            self.fail(&format!("{from} said to {to}\n  {said:?}, not\n  {messages:?}"));
        }
    }

    /// Exactly these `fetch_progress` were said since the last look.
    #[track_caller]
    pub fn expect_progress(&mut self, from: Who, to: Who, messages: &[&str]) {
        let said = self.said.remove(&(from, to)).unwrap_or_default();
        let progress = said.iter().filter_map(|text| text.strip_prefix("fetch_progress "));
        let progress: Vec<&str> = progress.collect();
        if progress != messages {
            self.fail(&format!("{from} told {to} the progress\n  {progress:?}, not\n  {messages:?}"));
        }
    }

    /// Nothing but heartbeats was said since the last look.
    #[track_caller]
    pub fn expect_silence(&mut self, from: Who, to: Who) {
        self.expect(from, to, &[]);
    }

    /// What was said since the last look, apart from heartbeats.
    pub fn said(&mut self, from: Who, to: Who) -> Vec<String> {
        self.said.remove(&(from, to)).unwrap_or_default()
    }

    /// Whether the load has no result.
    pub fn is_open(&self, job: Job) -> bool {
        self.load_of(job).end.is_none()
    }

    /// The load is not finished.
    #[track_caller]
    pub fn expect_open(&self, job: Job) {
        if let Some(end) = &self.load_of(job).end {
            self.fail(&format!("{job} should be open, but ended {end:?}"));
        }
    }

    /// The load succeeded. (That its bytes are right, the judge has seen.)
    #[track_caller]
    pub fn expect_loaded(&self, job: Job) {
        let end = &self.load_of(job).end;
        if *end != Some((LoadEnd::Loaded, Destination::Reusable)) {
            self.fail(&format!("{job} should be loaded, but: {end:?}"));
        }
    }

    /// The load failed, for this reason, and its blocks are in this state.
    #[track_caller]
    pub fn expect_failed(&self, job: Job, why: LoadFailure, destination: Destination) {
        match &self.load_of(job).end {
            Some((LoadEnd::Failed { why: found, .. }, state)) if *found == why && *state == destination => {}
            end => self.fail(&format!("{job} should have failed: {why:?}, {destination:?}; but: {end:?}")),
        }
    }

    /// Which blocks of a failed load are said to be there, `1` or `0` for each.
    #[track_caller]
    pub fn expect_landed(&self, job: Job, bits: &str) {
        match &self.load_of(job).end {
            Some((LoadEnd::Failed { landed, .. }, _)) => {
                let found: String = landed.iter().map(|bit| if *bit { '1' } else { '0' }).collect();
                if found != bits {
                    self.fail(&format!("{job} should have landed {bits}, not {found}"));
                }
            }
            end => self.fail(&format!("{job} should have failed, but: {end:?}")),
        }
    }

    /// A failed load lists no block as landed.
    #[track_caller]
    pub fn expect_nothing_landed(&self, job: Job) {
        match &self.load_of(job).end {
            Some((LoadEnd::Failed { landed, .. }, _)) if !landed.contains(&true) => {}
            end => self.fail(&format!("{job} should have failed and list nothing as landed, but: {end:?}")),
        }
    }

    /// The load's blocks are quarantined.
    #[track_caller]
    pub fn expect_quarantined(&self, job: Job) {
        let load = self.load_of(job);
        if load.end.is_none() || !load.holds {
            self.fail(&format!("the blocks of {job} should be quarantined: {load:?}"));
        }
    }

    /// The load's blocks were quarantined and are not any more.
    #[track_caller]
    pub fn expect_released(&self, job: Job) {
        let load = self.load_of(job);
        if load.holds || !matches!(load.end, Some((_, Destination::Quarantined))) {
            self.fail(&format!("the blocks of {job} should have been released from quarantine: {load:?}"));
        }
    }

    /// The store, or the pin, has no result.
    #[track_caller]
    pub fn expect_pinned(&self, job: Job) {
        if let Some(outcome) = self.outcome(job) {
            self.fail(&format!("{job} should have no result, but has {outcome:?}"));
        }
    }

    /// Whether the store, or the pin, has its result.
    pub fn is_over(&self, job: Job) -> bool {
        self.outcome(job).is_some()
    }

    /// What a node waits for next: in which second of the world, and why.
    #[track_caller]
    pub fn expect_timer(&self, who: Who, timer: Option<(u64, Timer)>) {
        let next = self.endpoint(who).next_deadline();
        let found = next.map(|deadline| (deadline.at.as_micros() / 1_000_000, deadline.why));
        if found != timer {
            self.fail(&format!("{who} should wait for {timer:?}, not {found:?}"));
        }
    }

    /// The store, or the pin, ended so.
    #[track_caller]
    pub fn expect_store(&self, job: Job, outcome: StoreOutcome) {
        let found = self.outcome(job);
        if found != Some(outcome) {
            self.fail(&format!("{job} should have ended {outcome:?}, but: {found:?}"));
        }
    }

    fn outcome(&self, job: Job) -> Option<StoreOutcome> {
        self.node(job.who).books.stores.get(&job.id).expect("a store of this story").outcome
    }

    pub(crate) fn load_of(&self, job: Job) -> &crate::judge::books::Load {
        self.node(job.who).books.loads.get(&job.id).expect("a load of this story")
    }

    /// How far a node's link to a peer is.
    #[track_caller]
    pub fn expect_link(&self, who: Who, whom: Who, link: LinkStatus) {
        let found = self.status(who, whom).map_or(LinkStatus::Absent, |status| status.link);
        if found != link {
            self.fail(&format!("{who}'s link to {whom} should be {link:?}, not {found:?}"));
        }
    }

    /// A node's session with a peer, or an attempt at one, ended for this reason since the last look.
    #[track_caller]
    pub fn expect_down(&mut self, who: Who, whom: Who, why: CloseReason) {
        let is_it = |news: &News| matches!(news, News::PeerDown { peer, reason, .. } if *peer == whom.name() && *reason == why);
        self.expect_news(who, &format!("PeerDown {whom} {why:?}"), is_it);
    }

    /// A node was told this since the last look, once or more; one of them is taken.
    #[track_caller]
    pub fn expect_news(&mut self, who: Who, what: &str, is_it: impl Fn(&News) -> bool) {
        match self.node(who).news.iter().position(is_it) {
            Some(at) => {
                self.node_mut(who).news.remove(at);
            }
            None => self.fail(&format!("{who} should have been told {what}")),
        }
    }

    /// What a node was told since the last look.
    pub fn news(&mut self, who: Who) -> Vec<News> {
        std::mem::take(&mut self.node_mut(who).news)
    }

    /// How often a node has been told so since the last look.
    pub fn told(&self, who: Who, is_it: impl Fn(&News) -> bool) -> usize {
        self.node(who).news.iter().filter(|news| is_it(news)).count()
    }

    /// How often a node has counted something.
    pub fn counted(&self, who: Who, what: Count) -> u64 {
        self.node(who).counts.get(&what).copied().unwrap_or_default()
    }

    /// A node has counted something so often.
    #[track_caller]
    pub fn expect_count(&self, who: Who, what: Count, times: u64) {
        let found = self.counted(who, what);
        if found != times {
            self.fail(&format!("{who} should have counted {what:?} {times} times, not {found}"));
        }
    }

    /// A node's work, of all peers together.
    pub fn totals(&self, who: Who) -> Totals {
        self.endpoint(who).totals()
    }

    /// A node has no work of any kind and keeps nothing for a peer.
    #[track_caller]
    pub fn expect_no_work(&self, who: Who) {
        let totals = self.totals(who);
        if totals != Totals::default() {
            self.fail(&format!("{who} should have no work: {totals:?}"));
        }
    }

    /// A node has WRITEs in flight, with these blocks (source -> destination).
    #[track_caller]
    pub fn expect_writes(&self, who: Who, writes: &[&str]) {
        let found: Vec<String> =
            self.writes_of(who).into_iter().map(|write| self.show_write(write)).collect();
        if found != writes {
            self.fail(&format!("{who} should have WRITEs {writes:?} in flight, not {found:?}"));
        }
    }
}
