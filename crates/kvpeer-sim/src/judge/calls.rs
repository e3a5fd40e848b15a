//! What one call of an endpoint must bring, and must not: its effects, seen together.

use kvpeer_core::{CloseReason, Input};
use kvpeer_wire::{Connect, Kind, Msg, PeerName};

use super::Promise;
use crate::control::EndState;
use crate::effects::{Effect, Effects, News};
use crate::lie::CALLS;
use crate::names::{ConnKey, Side, Who};
use crate::world::{World, decode};

/// What brought a call about, as far as it decides what may follow.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cause {
    Wish,
    Tick,
    /// Something that may end a session at once: a message of the handshake, a goodbye, a lost connection, admission.
    Ending,
    /// The rest.
    Other,
}

impl Cause {
    pub(crate) fn of(input: &Input<'_>) -> Self {
        match input {
            Input::Tick => Self::Tick,
            Input::Disconnected { .. } | Input::Admitted { .. } => Self::Ending,
            Input::Message { msg, .. } => match msg.kind() {
                Kind::Connect | Kind::ConnectAck | Kind::Reject | Kind::Disconnect => Self::Ending,
                Kind::Ping
                | Kind::Pong
                | Kind::Lookup
                | Kind::LookupResp
                | Kind::Fetch
                | Kind::FetchProgress
                | Kind::TransferDone
                | Kind::AbortFetch
                | Kind::AbortAck
                | Kind::Release => Self::Other,
            },
            Input::Connected { .. }
            | Input::DialFailed { .. }
            | Input::Heard { .. }
            | Input::Malformed { .. }
            | Input::NoCommonVersion { .. }
            | Input::RightOpened { .. }
            | Input::RightClosed { .. }
            | Input::Registered { .. }
            | Input::PeerFault { .. }
            | Input::Transfer { .. }
            | Input::Probed { .. } => Self::Other,
        }
    }
}

impl World {
    /// Looks at what a call asks for, before any of it is done.
    pub(crate) fn judge_call(&mut self, who: Who, cause: Cause, effects: &Effects) {
        let mut rejected = false;
        for effect in &effects.list {
            match effect {
                Effect::Send { conn, frame } => match decode(frame) {
                    Some(Msg::Reject(_)) => rejected = true,
                    // END-1, END-2: a goodbye waits for WRITEs, unless its time is up or its session is lost.
                    Some(Msg::Disconnect(_)) if matches!(cause, Cause::Wish | Cause::Other) => {
                        let (conn, side) = ConnKey::of(*conn);
                        if self.writes_on(conn, side) {
                            let how =
                                format!("{who} says goodbye on {conn} over a live WRITE, before its time");
                            self.blame(who, Promise::Gate, how);
                        }
                    }
                    Some(_) | None => {}
                },
                Effect::News(
                    News::PeerRefused | News::PeerDown { reason: CloseReason::RejectedByUs(_), .. },
                ) if !rejected && matches!(cause, Cause::Ending | Cause::Other) => {
                    self.blame(who, Promise::Law, format!("{who} refuses a peer without a word (HS-23)"));
                }
                Effect::News(_)
                | Effect::Dial { .. }
                | Effect::CancelDial(_)
                | Effect::Close(_)
                | Effect::Admit { .. }
                | Effect::Open(_)
                | Effect::Register { .. }
                | Effect::CloseRight(_)
                | Effect::Write { .. }
                | Effect::Cancel(_)
                | Effect::Probe { .. }
                | Effect::EndProbe(_) => {}
            }
        }
    }

    fn writes_on(&self, conn: ConnKey, side: Side) -> bool {
        self.writes.values().any(|write| (write.conn, write.side) == (conn, side) && write.is_outstanding())
    }

    /// What a `connect` on an accepted connection brings at once: it ends no other connection, for it may be stale
    /// (DUP-5), and one of an older process is refused (DUP-1).
    pub(crate) fn judge_introduction(
        &mut self,
        who: Who,
        conn: ConnKey,
        connect: &Connect<'_>,
        effects: &Effects,
    ) {
        let own = conn.id(Side::Acceptor);
        let ends_another =
            effects.list.iter().any(|effect| matches!(effect, Effect::Close(other) if *other != own));
        if ends_another {
            self.blame(
                who,
                Promise::BlastRadius,
                format!("{who} ends another connection for a connect on {conn}"),
            );
        }
        let admits = effects.list.iter().any(|effect| matches!(effect, Effect::Admit { .. }));
        if admits && self.knows_newer(who, connect.peer_id, connect.incarnation) {
            self.blame(
                who,
                Promise::Law,
                format!("{who} takes an older process of {} (DUP-1)", connect.peer_id),
            );
        }
    }

    /// Whether a node has a session with a newer process of a peer.
    fn knows_newer(&self, who: Who, peer: PeerName<'_>, life: u64) -> bool {
        let process = self.node(who).process;
        // What a rogue has said on connections of its own is not looked at.
        self.conns.values().filter(|conn| conn.key.epoch.0 < CALLS).any(|conn| {
            Side::BOTH.into_iter().any(|side| {
                let other = conn.process(side.other());
                conn.process(side) == process
                    && conn.is_up(side)
                    && Some(other.who) == Who::of_peer(peer)
                    && u64::from(other.life) > life
            })
        })
    }

    /// A node's deadlines have been handled: it does not wait for a peer that has been silent for too long (LIV-2).
    pub(crate) fn judge_silence(&mut self, who: Who) {
        let node = self.node(who);
        if node.next_deadline().is_some_and(|next| next.at <= self.now) {
            return;
        }
        let ours = &node.endpoint.config().timing;
        let silent = self.conns.iter().find(|(key, conn)| {
            Side::BOTH.into_iter().any(|side| {
                let peer = &self.node(conn.process(side.other()).who).endpoint.config().timing;
                let patience = ours.dead.max(peer.heartbeat.min(ours.max_peer_heartbeat).saturating_mul(5));
                let end = conn.end(side);
                conn.process(side) == node.process
                    && end.state == EndState::Open
                    && node.right(**key, side).is_some()
                    && self.now > end.heard_at + patience
            })
        });
        if let Some((conn, _)) = silent {
            let how = format!("{who} has heard nothing on {conn} for too long, and waits (LIV-2)");
            self.blame(who, Promise::Bounded, how);
        }
    }
}
