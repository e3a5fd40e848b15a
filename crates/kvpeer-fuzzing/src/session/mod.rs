//! `session`: hostile peers against one endpoint whose planes, cache and engine keep their contracts.
//!
//! The peers say anything at any time. The endpoint must keep its promises to the engine all the same, as far as
//! they do not rest on a peer's word, and come to rest when the peers fall silent.

mod engine;
mod planes;
mod rules;

use std::time::Duration;

use kvpeer_core::{Command, ConnId, Endpoint, Input, Origin, Time};
use kvpeer_wire::{Connect, ConnectAck, Disconnect, DisconnectReason, Msg, Text};

use crate::dice::Dice;
use crate::messages::{self, PEERS};
use planes::Planes;

/// Runs the bytes' world until its peers fall silent, and then until it is at rest.
pub fn session(bytes: &[u8]) {
    let mut dice = Dice::new(bytes);
    let mut world = World::new(&mut dice);
    while !dice.is_over() {
        match dice.below(16) {
            0..7 => world.peers_act(&mut dice),
            7..11 => world.planes_answer(&mut dice),
            11..14 => world.engine_wishes(&mut dice),
            _ => world.time_passes(&mut dice),
        }
    }
    world.come_to_rest();
}

struct World {
    endpoint: Endpoint,
    now: Time,
    planes: Planes,
    next_conn: u64,
    next_job: u64,
}

/// How many deadlines and answers a world may take to come to rest.
const PATIENCE: usize = 5_000;

impl World {
    fn new(dice: &mut Dice<'_>) -> Self {
        let endpoint = Endpoint::new(crate::endpoint::config(dice)).expect("a sound configuration");
        Self { endpoint, now: Time::ZERO, planes: Planes::default(), next_conn: 0, next_job: 0 }
    }

    fn handle(&mut self, input: Input<'_>) {
        self.planes.hears(&input);
        self.endpoint.handle(self.now, input, &mut self.planes);
        self.look();
    }

    /// Wishes; says whether it was taken.
    fn command(&mut self, command: Command<'_>) -> bool {
        self.planes.hears_nothing();
        let before = self.endpoint.clone();
        let taken = self.endpoint.command(self.now, command, &mut self.planes).is_ok();
        assert!(taken || self.endpoint == before, "CMD-1: {command:?} is refused and changes the endpoint");
        self.look();
        taken
    }

    fn look(&mut self) {
        if let Err(violation) = self.endpoint.check() {
            panic!("{violation}\n{:#?}", self.endpoint);
        }
        let limits = &self.endpoint.config().limits;
        assert!(self.endpoint.totals().kept_bytes <= limits.total_bytes, "LIM-1: too much is kept");
        for peer in self.endpoint.peers() {
            assert!(peer.totals.kept_bytes <= limits.peer_bytes, "LIM-1: {} keeps too much", peer.peer);
        }
    }

    fn connected(&mut self, origin: Origin) -> ConnId {
        self.next_conn += 1;
        let conn = ConnId(self.next_conn);
        self.planes.open.insert(conn);
        self.handle(Input::Connected { conn, origin });
        conn
    }

    fn peers_act(&mut self, dice: &mut Dice<'_>) {
        let name = dice.pick(&PEERS).unwrap_or("b");
        match dice.below(16) {
            0 => drop(self.connected(Origin::Accepted)),
            1 => self.handshake(dice, name),
            2 => self.hang_up(dice),
            3 => self.blurt(dice),
            _ => {
                let Some(conn) = self.planes.some_conn(dice) else { return self.handshake(dice, name) };
                messages::any(dice, name, |msg| self.handle(Input::Message { conn, msg }));
            }
        }
    }

    /// A peer dials and goes through the whole handshake, the planes answering at once.
    fn handshake(&mut self, dice: &mut Dice<'_>, name: &str) {
        let conn = self.connected(Origin::Accepted);
        let connect: Connect<'_> = messages::fitting(name, 1 + u64::from(dice.number(3)), 40);
        self.handle(Input::Message { conn, msg: Msg::Connect(connect) });
        self.answer_all(Time::ZERO);
        if self.planes.open.contains(&conn) {
            let incarnation = self.endpoint.config().identity.incarnation;
            self.handle(Input::Message { conn, msg: Msg::ConnectAck(ConnectAck { incarnation }) });
        }
    }

    fn hang_up(&mut self, dice: &mut Dice<'_>) {
        let Some(conn) = self.planes.some_conn(dice) else { return };
        if dice.one_in(2) {
            let goodbye = Disconnect { reason: DisconnectReason::Closed, detail: Text::default() };
            self.handle(Input::Message { conn, msg: Msg::Disconnect(goodbye) });
        }
        if self.planes.open.remove(&conn) {
            self.handle(Input::Disconnected { conn });
        }
    }

    /// Bytes that are no message.
    fn blurt(&mut self, dice: &mut Dice<'_>) {
        let Some(conn) = self.planes.some_conn(dice) else { return };
        match dice.below(3) {
            0 => self.handle(Input::Heard { conn }),
            1 => self.handle(Input::Malformed { conn, detail: "no message" }),
            _ => self.handle(Input::NoCommonVersion { conn, ours: (1, 1), theirs: (2, 2) }),
        }
    }

    fn time_passes(&mut self, dice: &mut Dice<'_>) {
        let next = self.endpoint.next_deadline().map_or(self.now, |next| self.now.max(next.at));
        self.now = match dice.below(4) {
            0 => self.now + Duration::from_millis(dice.wild(200)),
            _ => next,
        };
        self.handle(Input::Tick);
    }

    /// Nobody says anything any more, and the node shuts down: all that was owed is paid.
    fn come_to_rest(&mut self) {
        self.command(Command::Shutdown { within: Duration::from_secs(3) });
        for _ in 0..PATIENCE {
            self.answer_all(Time::NEVER);
            if self.endpoint.is_idle() && self.planes.is_quiet() {
                let ledger = &self.planes.ledger;
                let (loads, stores) = (ledger.loads.keys(), ledger.stores.keys());
                let owed: Vec<_> = loads.chain(stores).collect();
                assert!(owed.is_empty(), "I3: {owed:?} have no result");
                return;
            }
            match self.endpoint.next_deadline() {
                Some(next) => {
                    self.now = self.now.max(next.at);
                    self.handle(Input::Tick);
                }
                None => self.release_all(),
            }
        }
        panic!("I7: it does not come to rest\n{:#?}", self.endpoint);
    }

    /// Only what could not be fenced is left: nothing reads or writes it here.
    fn release_all(&mut self) {
        let ledger = &self.planes.ledger;
        let jobs: Vec<_> = ledger.loads.keys().chain(ledger.stores.keys()).copied().collect();
        jobs.into_iter().for_each(|job| self.release(job));
    }
}
