//! From a connection to a session: admission, rights, `connect` both ways, registration, acknowledgement.

use alloc::format;
use alloc::string::{String, ToString};
use core::time::Duration;

use kvpeer_wire::{Compat, Connect, ConnectAck, Msg, Reject, RejectCode, Text};

use super::link::{Announced, Dialler, Link, Ours, Phase, Right, Theirs};
use super::{Conn, Endpoint, Life};
use crate::config::FingerprintCheck;
use crate::cx::Line;
use crate::deadlines::Due;
use crate::faults::{Fault, seeded};
use crate::{Action, CloseReason, ConnId, Count, Epoch, Event, Misbehaved, Origin, PeerId, Sink};

/// Why a `connect` is refused, with both sides' values for people.
pub(super) struct Refused {
    pub(super) code: RejectCode,
    field: String,
    ours: String,
    theirs: String,
    retry_after: Duration,
}

impl Refused {
    pub(super) fn new(code: RejectCode) -> Self {
        Self {
            code,
            field: String::new(),
            ours: String::new(),
            theirs: String::new(),
            retry_after: Duration::ZERO,
        }
    }

    pub(super) fn field(code: RejectCode, field: &str, ours: impl ToString, theirs: impl ToString) -> Self {
        Self {
            field: field.to_string(),
            ours: ours.to_string(),
            theirs: theirs.to_string(),
            ..Self::new(code)
        }
    }

    pub(super) fn retry_after(mut self, wait: Duration) -> Self {
        self.retry_after = wait;
        self
    }

    fn as_msg(&self) -> Msg<'_> {
        Msg::Reject(Reject {
            code: self.code,
            field: Text::truncated(&self.field),
            ours: Text::truncated(&self.ours),
            theirs: Text::truncated(&self.theirs),
            retry_after_ms: crate::time::wire_millis(self.retry_after),
        })
    }
}

impl Endpoint {
    pub(super) fn connected(&mut self, conn: ConnId, origin: Origin, out: &mut dyn Sink) {
        let now = self.now;
        match origin {
            Origin::Dialed(epoch) => {
                let due = match self.link_or_count(epoch, out).map(|link| &mut link.phase) {
                    Some(Phase::Dialing { due }) => due.take(),
                    Some(Phase::Handshaking { .. } | Phase::Up | Phase::Draining { .. } | Phase::Down)
                    | None => {
                        // HS-1: the dial was cancelled, but its connection came all the same.
                        return out.act(Action::Close { conn });
                    }
                };
                self.conns.insert(conn, Conn::Link(epoch));
                if let Some(link) = self.links.get_mut(&epoch) {
                    link.line = Line::new(Some(conn), now);
                    link.phase = Phase::Handshaking { ours: Ours::Admitting, theirs: Theirs::Awaited, due };
                }
                self.begin_handshake(epoch, conn, out);
            }
            Origin::Accepted => {
                if self.life != Life::Running || self.inbound_handshakes() >= self.config.limits.handshakes {
                    out.count(Count::TooManyHandshakes);
                    return out.act(Action::Close { conn });
                }
                // HS-4: all that a stranger costs. HS-21: and not for long.
                let due = self.deadlines.arm(now + self.config.timing.handshake, Due::Stranger(conn));
                self.conns.insert(conn, Conn::Stranger { due: Some(due) });
            }
        }
    }

    fn inbound_handshakes(&self) -> usize {
        let strangers = self.conns.values().filter(|conn| matches!(conn, Conn::Stranger { .. })).count();
        let named = self
            .links
            .values()
            .filter(|link| link.dialler == Dialler::Them && matches!(link.phase, Phase::Handshaking { .. }));
        strangers + named.count()
    }

    /// Starts the pulse of a link that has a connection, and asks for admission, before any right (HS-11).
    fn begin_handshake(&mut self, epoch: Epoch, conn: ConnId, out: &mut dyn Sink) {
        let (now, timing) = (self.now, &self.config.timing);
        let heartbeat = self.deadlines.arm(now + timing.heartbeat, Due::Heartbeat(epoch));
        let dead = self.deadlines.arm(now + timing.dead, Due::Dead(epoch));
        let Some(link) = self.links.get_mut(&epoch) else { return };
        link.pulse.heartbeat_due = Some(heartbeat);
        link.pulse.dead_due = Some(dead);
        out.act(Action::Admit { epoch, conn, peer: link.peer.as_name() });
    }

    /// The first message of a stranger.
    pub(super) fn introduced(&mut self, conn: ConnId, msg: &Connect<'_>, out: &mut dyn Sink) {
        let peer = PeerId::from(msg.peer_id);
        let checked = self.check_stranger(&peer, msg);
        let epoch = match checked {
            Ok(()) => self.mint_epoch(),
            Err(refused) => return self.reject_stranger(conn, &peer, &refused, out),
        };
        let Some(epoch) = epoch else { return self.drop_stranger(conn, out) };
        if seeded(Fault::ConnectEndsLink) {
            self.end_older_links(epoch, &peer, out);
        }
        self.forget_stranger(conn);
        self.conns.insert(conn, Conn::Link(epoch));
        let due = Some(self.deadlines.arm(self.now + self.config.timing.handshake, Due::Handshake(epoch)));
        let theirs = Theirs::Announced { metadata: msg.metadata.to_vec() };
        let phase = Phase::Handshaking { ours: Ours::Admitting, theirs, due };
        let mut link = Link::new(peer.clone(), Dialler::Them, phase, Line::new(Some(conn), self.now));
        link.announced = Some(self.announced(msg));
        self.links.insert(epoch, link);
        self.peers.entry(peer).or_default();
        self.begin_handshake(epoch, conn, out);
    }

    /// The acceptor's checks, in the order of HS-5.
    fn check_stranger(&self, peer: &PeerId, msg: &Connect<'_>) -> Result<(), Refused> {
        self.check_connect(msg)?;
        self.check_incarnation(peer, msg.incarnation, None)?;
        if let Some(record) = self.peers.get(peer)
            && record.patience.refusal.is_none()
            && self.now < record.patience.until
            && record.last_end.is_some_and(CloseReason::is_fault)
        {
            // HS-22
            let wait = record.patience.until.since(self.now);
            return Err(Refused::new(RejectCode::Backoff).retry_after(wait));
        }
        if !self.has_live_link(peer) && self.live_peers() >= self.config.limits.peers {
            return Err(Refused::new(RejectCode::TooManyPeers).retry_after(self.config.timing.redial.1));
        }
        self.check_crossing(peer, msg.incarnation)
    }

    fn announced(&self, msg: &Connect<'_>) -> Announced {
        let heartbeat = Duration::from_millis(u64::from(msg.heartbeat_ms));
        // FR-15: what a peer names is bounded by what we allow.
        let heartbeat = heartbeat.min(self.config.timing.max_peer_heartbeat);
        Announced { incarnation: msg.incarnation, region: msg.region, heartbeat }
    }

    /// Whether the peer can be told from us, and its blocks mean the same as ours.
    fn check_connect(&self, msg: &Connect<'_>) -> Result<(), Refused> {
        let identity = &self.config.identity;
        if let Err(why) = identity.check_peer(msg.peer_id) {
            return Err(Refused::field(RejectCode::UnexpectedPeer, "peer_id", why, msg.peer_id));
        }
        let ours = self.config.region.block_len;
        let theirs = msg.region.block_len;
        if ours != theirs {
            return Err(Refused::field(RejectCode::BlockLen, "block_len", ours, theirs));
        }
        let end = theirs.checked_mul(u64::from(msg.region.num_blocks));
        if end.and_then(|len| msg.region.base_addr.checked_add(len)).is_none() {
            return Err(Refused::field(
                RejectCode::RegistrationFailed,
                "region",
                "",
                "beyond the address space",
            ));
        }
        check_compat(self.config.compat.as_compat(), self.config.compat.check, msg.compat)
    }

    /// A `connect` on a link of ours: dialled, so this is the answer.
    pub(super) fn answered(&mut self, epoch: Epoch, msg: &Connect<'_>, out: &mut dyn Sink) {
        let Some(link) = self.links.get(&epoch) else { return };
        let peer = link.peer.clone();
        let awaited = matches!(&link.phase, Phase::Handshaking { theirs: Theirs::Awaited, .. });
        if !awaited {
            return self.end(epoch, CloseReason::Misbehaved(Misbehaved::SecondConnect), out);
        }
        // HS-6: another id than the one that was dialled fails before all else.
        let checked = if peer.as_name() == msg.peer_id {
            self.check_connect(msg).and_then(|()| self.check_incarnation(&peer, msg.incarnation, Some(epoch)))
        } else {
            Err(Refused::field(RejectCode::UnexpectedPeer, "peer_id", &peer, msg.peer_id))
        };
        if let Err(refused) = checked {
            return self.reject(epoch, &refused, out);
        }
        self.supersede(epoch, &peer, msg.incarnation, out);
        let announced = self.announced(msg);
        let Some(link) = self.links.get_mut(&epoch) else { return };
        link.announced = Some(announced);
        if let Phase::Handshaking { theirs, .. } = &mut link.phase {
            *theirs = Theirs::Announced { metadata: msg.metadata.to_vec() };
        }
        self.register(epoch, out);
    }

    pub(super) fn admitted(&mut self, epoch: Epoch, admit: bool, out: &mut dyn Sink) {
        let Some(link) = self.link_or_count(epoch, out) else { return };
        let Phase::Handshaking { ours: Ours::Admitting, .. } = &link.phase else {
            return out.count(Count::StaleEpoch);
        };
        if !admit {
            return self.reject(epoch, &Refused::new(RejectCode::Unauthorized), out);
        }
        let (peer, incarnation) = (link.peer.clone(), link.announced.as_ref().map(|it| it.incarnation));
        if let (Dialler::Them, Some(incarnation)) = (link.dialler, incarnation) {
            // Much may have happened while admission was decided (HS-5).
            let still = self.check_incarnation(&peer, incarnation, Some(epoch));
            if let Err(refused) = still.and_then(|()| self.check_crossing(&peer, incarnation)) {
                return self.reject(epoch, &refused, out);
            }
            self.supersede(epoch, &peer, incarnation, out);
            self.yield_dial(&peer, incarnation, out);
        }
        if let Some(link) = self.links.get_mut(&epoch)
            && let Phase::Handshaking { ours, .. } = &mut link.phase
        {
            // HS-3: the dialler comes here without having heard a word; the acceptor has checked a `connect`.
            *ours = Ours::OpeningRight;
            link.right = Right::Opening;
            out.act(Action::OpenRight { epoch });
        }
    }

    pub(super) fn right_opened(&mut self, epoch: Epoch, metadata: Option<&[u8]>, out: &mut dyn Sink) {
        let Some(link) = self.links.get_mut(&epoch) else {
            out.count(Count::StaleEpoch);
            if metadata.is_some() {
                out.act(Action::CloseRight { epoch });
            }
            return;
        };
        if link.right != Right::Opening {
            // `CloseRight` was asked for meanwhile, and covers a right that was still opening (END-9).
            return out.count(Count::StaleEpoch);
        }
        // What is open must be closed and fenced, even if it is of no use.
        link.right = if metadata.is_some() { Right::Open } else { Right::None };
        let Some(metadata) = metadata.filter(|metadata| metadata.len() <= kvpeer_wire::MAX_METADATA_LEN)
        else {
            // HS-9
            let refused = Refused::field(RejectCode::RegistrationFailed, "right", "could not be opened", "");
            return self.reject(epoch, &refused, out);
        };
        let Phase::Handshaking { ours, .. } = &mut link.phase else { return };
        // HS-2: only now there is what a `connect` carries.
        *ours = Ours::ConnectSent;
        let config = &self.config;
        let connect = Connect {
            peer_id: config.identity.peer_id.as_name(),
            incarnation: config.identity.incarnation,
            region: config.region,
            metadata,
            compat: config.compat.as_compat(),
            capabilities: 0,
            heartbeat_ms: crate::time::wire_millis(config.timing.heartbeat),
        };
        let mut cx = super::Cx { now: self.now, config, deadlines: &mut self.deadlines, out };
        link.line.send(&mut cx, Msg::Connect(connect));
        self.register(epoch, out);
    }

    /// Registers the peer, once its `connect` is here and our right is open.
    fn register(&mut self, epoch: Epoch, out: &mut dyn Sink) {
        let Some(link) = self.links.get_mut(&epoch) else { return };
        let region = link.region();
        let Phase::Handshaking { ours: Ours::ConnectSent | Ours::Acked, theirs, .. } = &mut link.phase else {
            return;
        };
        if let Theirs::Announced { metadata } = theirs {
            let metadata = core::mem::take(metadata);
            *theirs = Theirs::Registering;
            out.act(Action::Register { epoch, region, metadata: &metadata });
        }
    }

    pub(super) fn registered(&mut self, epoch: Epoch, ok: bool, out: &mut dyn Sink) {
        let Some(link) = self.link_or_count(epoch, out) else { return };
        let Phase::Handshaking { theirs: theirs @ Theirs::Registering, .. } = &mut link.phase else {
            return out.count(Count::StaleEpoch);
        };
        if !ok {
            let refused =
                Refused::field(RejectCode::RegistrationFailed, "metadata", "", "could not be registered");
            return self.reject(epoch, &refused, out);
        }
        // HS-8: only a registration that has landed is acknowledged.
        *theirs = Theirs::Registered;
        let incarnation = link.announced.as_ref().map_or(0, |it| it.incarnation);
        let Some(link) = self.links.get_mut(&epoch) else { return };
        let mut cx = super::Cx { now: self.now, config: &self.config, deadlines: &mut self.deadlines, out };
        link.line.send(&mut cx, Msg::ConnectAck(ConnectAck { incarnation }));
        self.come_up(epoch, out);
    }

    pub(super) fn acknowledged(&mut self, epoch: Epoch, msg: ConnectAck, out: &mut dyn Sink) {
        let incarnation = self.config.identity.incarnation;
        let Some(link) = self.links.get_mut(&epoch) else { return };
        let peer = link.peer.clone();
        // MSG-4
        let verdict = match &mut link.phase {
            Phase::Handshaking { ours: Ours::Admitting | Ours::OpeningRight, .. } => {
                Err(Misbehaved::EarlyAck)
            }
            Phase::Handshaking { ours: Ours::ConnectSent, .. } if msg.incarnation != incarnation => {
                Err(Misbehaved::ForeignAck)
            }
            Phase::Handshaking { ours: ours @ Ours::ConnectSent, .. } => {
                *ours = Ours::Acked;
                Ok(())
            }
            Phase::Handshaking { ours: Ours::Acked, .. }
            | Phase::Dialing { .. }
            | Phase::Up
            | Phase::Draining { .. }
            | Phase::Down => Err(Misbehaved::SecondAck),
        };
        match verdict {
            Ok(()) => {
                self.end_older_links(epoch, &peer, out);
                self.come_up(epoch, out);
            }
            Err(how) => self.end(epoch, CloseReason::Misbehaved(how), out),
        }
    }

    /// Both halves are through: the link is the session, and held work goes out (HS-10).
    fn come_up(&mut self, epoch: Epoch, out: &mut dyn Sink) {
        let Some(link) = self.links.get_mut(&epoch) else { return };
        if seeded(Fault::WriteBeforeRegistered)
            && let Phase::Handshaking { theirs: theirs @ Theirs::Registering, .. } = &mut link.phase
        {
            *theirs = Theirs::Registered;
        }
        let Phase::Handshaking { ours: Ours::Acked, theirs: Theirs::Registered, due } = &mut link.phase
        else {
            return;
        };
        let due = due.take();
        let peer = link.peer.clone();
        if let Some(at) = due {
            self.deadlines.disarm(at, Due::Handshake(epoch));
        }
        if self.newer_is_up(epoch, &peer) {
            return self.end(epoch, CloseReason::Duplicate, out);
        }
        let idle = self.deadlines.arm(self.now + self.config.timing.idle, Due::Idle(epoch));
        if let Some(link) = self.links.get_mut(&epoch) {
            link.phase = Phase::Up;
            link.pulse.idle_due = Some(idle);
        }
        out.tell(Event::PeerUp { peer: &peer });
        self.send_held(&peer, epoch, out);
    }

    /// Refuses a link: says why, then ends it (HS-23).
    pub(super) fn reject(&mut self, epoch: Epoch, refused: &Refused, out: &mut dyn Sink) {
        out.count(Count::Rejected);
        if let Some(link) = self.links.get_mut(&epoch) {
            let mut cx =
                super::Cx { now: self.now, config: &self.config, deadlines: &mut self.deadlines, out };
            link.line.send(&mut cx, refused.as_msg());
        }
        self.end(epoch, CloseReason::RejectedByUs(refused.code), out);
    }

    fn reject_stranger(&mut self, conn: ConnId, peer: &PeerId, refused: &Refused, out: &mut dyn Sink) {
        out.count(Count::Rejected);
        if !seeded(Fault::SilentReject) {
            out.act(Action::Send { conn, msg: refused.as_msg() });
        }
        out.tell(Event::PeerRefused { peer, code: refused.code });
        self.drop_stranger(conn, out);
    }

    /// FR-2: every version can read a `reject`.
    pub(super) fn no_common_version(
        &mut self,
        conn: ConnId,
        ours: (u8, u8),
        theirs: (u8, u8),
        out: &mut dyn Sink,
    ) {
        let range = |(low, high): (u8, u8)| format!("{low}..={high}");
        let refused = Refused::field(RejectCode::Version, "version", range(ours), range(theirs));
        match self.conns.get(&conn) {
            None => out.count(Count::UnknownConn),
            Some(Conn::Link(epoch)) => {
                let epoch = *epoch;
                self.reject(epoch, &refused, out);
            }
            Some(Conn::Stranger { .. }) => {
                out.count(Count::Rejected);
                out.act(Action::Send { conn, msg: refused.as_msg() });
                self.drop_stranger(conn, out);
            }
        }
    }

    /// Closes a connection that never became a link.
    pub(super) fn drop_stranger(&mut self, conn: ConnId, out: &mut dyn Sink) {
        self.forget_stranger(conn);
        out.act(Action::Close { conn });
    }

    pub(super) fn forget_stranger(&mut self, conn: ConnId) {
        if let Some(Conn::Stranger { due: Some(at) }) = self.conns.remove(&conn) {
            self.deadlines.disarm(at, Due::Stranger(conn));
        }
    }
}

fn check_compat(ours: Compat<'_>, check: FingerprintCheck, theirs: Compat<'_>) -> Result<(), Refused> {
    if ours.hash_seed != theirs.hash_seed {
        let (ours, theirs) = (ours.hash_seed, theirs.hash_seed);
        return Err(Refused::field(RejectCode::HashSeed, "hash_seed", ours, theirs));
    }
    match check {
        // HS-7: this is asked for by name; an empty fingerprint is compared like any other.
        FingerprintCheck::AcceptAny => return Ok(()),
        FingerprintCheck::Exact => {}
    }
    let (mut mine, mut others) = (ours.fingerprint.iter(), theirs.fingerprint.iter());
    loop {
        let show = |pair: Option<(&str, &str)>| match pair {
            Some((name, value)) => format!("{name}={value}"),
            None => String::from("(absent)"),
        };
        match (mine.next(), others.next()) {
            (None, None) => return Ok(()),
            (ours, theirs) if ours == theirs => {}
            (ours, theirs) => {
                let (name, _) = ours.or(theirs).unwrap_or_default();
                return Err(Refused::field(RejectCode::Fingerprint, name, show(ours), show(theirs)));
            }
        }
    }
}
