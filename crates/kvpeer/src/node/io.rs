//! Where the endpoint's effects go: the planes, the cache, the engine.

use std::collections::{BTreeMap, VecDeque};

use kvpeer_core::{Action, ConnId, Count, Epoch, Input, Origin, PeerId, ProbeId, Sink};
use kvpeer_wire::PeerName;

use crate::admission::{Admission, Candidate, Verdict};
use crate::cache::{Answer, BlockCache, Probe};
use crate::event::{Event, EventQueue, Trouble, TroubleKind};
use crate::plane::{ControlFact, DataFact, Planes};

/// The endpoint's sink. Effects are carried out during the call that hands them out, while what they borrow is
/// there; what the cache and the admission answer cannot go back into the endpoint before that call is over, so
/// it is put down in `answers`.
pub(super) struct Io {
    pub(super) planes: Planes,
    pub(super) cache: Box<dyn BlockCache>,
    pub(super) admission: Box<dyn Admission>,
    pub(super) answers: VecDeque<Answered>,
    pub(super) events: EventQueue,
    pub(super) counts: BTreeMap<Count, u64>,
    /// Lookups of peers that were answered with misses, because the engine left too many results untaken.
    pub(super) probes_shed: u64,
    pub(super) skipped_messages: u64,
    names: Names,
}

/// An answer for the endpoint, to be given after the call that asked.
#[derive(Debug)]
pub(super) enum Answered {
    Admission { epoch: Epoch, verdict: Verdict },
    Probe { probe: ProbeId, answer: Answer },
}

impl Answered {
    pub(super) fn as_input(&self) -> Input<'_> {
        match self {
            Self::Admission { epoch, verdict } => {
                Input::Admitted { epoch: *epoch, admit: *verdict == Verdict::Admit }
            }
            Self::Probe { probe, answer } => {
                let Answer { pin, hits, misses } = answer;
                Input::Probed { probe: *probe, pin: *pin, hits, misses }
            }
        }
    }
}

impl Io {
    pub(super) fn new(
        planes: Planes,
        cache: Box<dyn BlockCache>,
        admission: Box<dyn Admission>,
        events: EventQueue,
    ) -> Self {
        Self {
            planes,
            cache,
            admission,
            answers: VecDeque::new(),
            events,
            counts: BTreeMap::new(),
            probes_shed: 0,
            skipped_messages: 0,
            names: Names::default(),
        }
    }

    fn probe(&mut self, probe: &Probe<'_>) {
        let mut answer = Answer::default();
        if self.events.is_backlogged() {
            self.probes_shed = self.probes_shed.saturating_add(1);
            answer.miss_all(probe);
        } else {
            self.cache.probe(probe, &mut answer);
        }
        self.answers.push_back(Answered::Probe { probe: probe.id, answer });
    }

    fn admit(&mut self, epoch: Epoch, conn: ConnId, peer: PeerName<'_>) {
        self.names.of_epochs.put(epoch, peer.into());
        self.names.of_conns.put(conn, peer.into());
        let info = self.planes.control.conn_info(conn);
        let verdict = self.admission.admit(&Candidate { peer, conn: &info });
        self.answers.push_back(Answered::Admission { epoch, verdict });
    }

    /// Tells the engine's log what a control-plane fact says to people only.
    pub(super) fn note_control(&mut self, fact: &ControlFact<'_>) {
        match fact {
            ControlFact::Connected { conn, origin: Origin::Dialed(epoch) } => {
                if let Some(peer) = self.names.of_epochs.get(*epoch) {
                    self.names.of_conns.put(*conn, peer);
                }
            }
            ControlFact::DialFailed { epoch, detail } => {
                self.trouble(self.names.of_epochs.get(*epoch), TroubleKind::Dial, detail);
            }
            ControlFact::Disconnected { conn, detail } => {
                self.trouble(self.names.of_conns.get(*conn), TroubleKind::Connection, detail);
                self.names.of_conns.forget(*conn);
            }
            ControlFact::Malformed { conn, detail } => {
                self.trouble(self.names.of_conns.get(*conn), TroubleKind::Malformed, detail);
            }
            // FR-8: skipped and counted.
            ControlFact::Skipped { .. } => self.skipped_messages = self.skipped_messages.saturating_add(1),
            ControlFact::Connected { origin: Origin::Accepted, .. }
            | ControlFact::Heard { .. }
            | ControlFact::Message { .. }
            | ControlFact::NoCommonVersion { .. } => {}
        }
    }

    /// The same for the data plane.
    pub(super) fn note_data(&mut self, fact: &DataFact) {
        let (epoch, what, detail) = match fact {
            DataFact::RightOpened { epoch, metadata: Err(detail) } => {
                (*epoch, TroubleKind::OpenRight, detail.as_str())
            }
            DataFact::Registered { epoch, result: Err(detail) } => {
                (*epoch, TroubleKind::Register, detail.as_str())
            }
            DataFact::PeerFault { epoch, detail } => (*epoch, TroubleKind::DataPlane, detail.as_str()),
            DataFact::Transfer { xfer, end: _, detail } if !detail.is_empty() => {
                (xfer.epoch, TroubleKind::Write, detail.as_str())
            }
            DataFact::RightClosed { epoch, fenced: false } => {
                let detail =
                    "its right is closed, but the data plane cannot prove that nothing lands any more";
                (*epoch, TroubleKind::NotFenced, detail)
            }
            DataFact::RightOpened { metadata: Ok(_), .. }
            | DataFact::Registered { result: Ok(()), .. }
            | DataFact::Transfer { .. }
            | DataFact::RightClosed { fenced: true, .. } => return,
        };
        self.trouble(self.names.of_epochs.get(epoch), what, detail);
    }

    pub(super) fn trouble(&self, peer: Option<PeerId>, what: TroubleKind, detail: &str) {
        self.events.push(Event::Trouble(Trouble { peer, what, detail: detail.to_owned() }));
    }
}

impl Sink for Io {
    fn act(&mut self, action: Action<'_>) {
        let Planes { control, data } = &mut self.planes;
        match action {
            Action::Dial { epoch, peer, address } => {
                self.names.of_epochs.put(epoch, peer.clone());
                control.dial(epoch, peer.as_name(), address);
            }
            Action::CancelDial { epoch } => control.cancel_dial(epoch),
            Action::Send { conn, msg } => control.send(conn, &msg),
            Action::Close { conn } => {
                control.close(conn);
                self.names.of_conns.forget(conn);
            }
            Action::Admit { epoch, conn, peer } => self.admit(epoch, conn, peer),
            Action::OpenRight { epoch } => data.open_right(epoch),
            Action::Register { epoch, region, metadata } => data.register(epoch, region, metadata),
            Action::CloseRight { epoch } => data.close_right(epoch),
            Action::Write { xfer, src, dst } => data.write(xfer, src, dst),
            Action::Cancel { xfer } => data.cancel(xfer),
            Action::Probe { probe, peer, request, round, keys, open } => {
                self.probe(&Probe { id: probe, peer, request, round, keys, open });
            }
            Action::EndProbe { probe } => self.cache.end_probe(probe),
        }
    }

    fn tell(&mut self, event: kvpeer_core::Event<'_>) {
        self.events.push(event.into());
    }

    fn count(&mut self, what: Count) {
        let count = self.counts.entry(what).or_default();
        *count = count.saturating_add(1);
    }
}

/// Which peer a link or a connection belongs to, for [`Trouble`] only: so it may forget the oldest.
#[derive(Default)]
struct Names {
    of_epochs: NameMap<Epoch>,
    of_conns: NameMap<ConnId>,
}

struct NameMap<K>(BTreeMap<K, PeerId>);

impl<K> Default for NameMap<K> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<K: Ord> NameMap<K> {
    const MOST: usize = 1024;

    fn put(&mut self, key: K, peer: PeerId) {
        self.0.insert(key, peer);
        if self.0.len() > Self::MOST {
            self.0.pop_first();
        }
    }

    fn get(&self, key: K) -> Option<PeerId> {
        self.0.get(&key).cloned()
    }

    fn forget(&mut self, key: K) {
        self.0.remove(&key);
    }
}
