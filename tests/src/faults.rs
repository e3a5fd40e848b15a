//! What can go wrong around the nodes.

use kvpeer_core::{ConnId, Epoch, Input};

use crate::control::{Item, other};
use crate::node::Registered;
use crate::rma::{Right, Write};
use crate::{Step, Who, World, WriteId, X};

impl World {
    /// All connections between two nodes break; what was on its way is lost, both notice.
    pub fn cut(&mut self, one: Who, two: Who) {
        self.log(format!("--- the connections between {one} and {two} break"));
        for conn in self.wires.between(one, two) {
            for end in [conn, other(conn)] {
                if let Some(end) = self.wires.end_mut(end) {
                    end.inbox.clear();
                    end.inbox.push_back(Item::Eof);
                }
            }
        }
    }

    /// All connections between two nodes break; what was on its way still arrives, before both notice.
    pub fn cut_after_delivery(&mut self, one: Who, two: Who) {
        self.log(format!("--- the connections between {one} and {two} break after delivery"));
        for conn in self.wires.between(one, two) {
            self.put(conn, Item::Eof);
            self.put(other(conn), Item::Eof);
        }
    }

    /// From here on, nothing that one says reaches the other, and nobody notices.
    pub fn vanish(&mut self, from: Who, to: Who) {
        self.log(format!("--- from here on, nothing gets from {from} to {to}"));
        self.vanishing.insert((from, to));
    }

    /// Messages get through again; what vanished stays lost.
    pub fn heal(&mut self, from: Who, to: Who) {
        self.log(format!("--- messages get from {from} to {to} again"));
        self.vanishing.remove(&(from, to));
        self.unreachable.remove(&(from, to));
    }

    /// From here on, dials in this direction are refused.
    pub fn unreachable(&mut self, from: Who, to: Who) {
        self.log(format!("--- from here on, {from} cannot dial {to}"));
        self.unreachable.insert((from, to));
    }

    /// The process of a node dies; its peers notice when their connections break.
    pub fn crash(&mut self, who: Who) {
        let ends = self.dies(who);
        for conn in ends {
            self.put(conn, Item::Eof);
        }
    }

    /// The machine of a node vanishes; nothing tells its peers.
    pub fn vanish_from_the_earth(&mut self, who: Who) {
        self.dies(who);
    }

    fn dies(&mut self, who: Who) -> Vec<ConnId> {
        self.log(format!("--- {who} dies"));
        // What it has posted is on its way all the same, and its memory is not read any more.
        let life = self.node(who).life;
        let of_it = |write: &&Write| write.writer == who && write.life == life && write.captured.is_none();
        let posted = self.writes.iter().enumerate().filter(|(_, write)| of_it(write));
        for write in posted.map(|(at, _)| WriteId(at)).collect::<Vec<_>>() {
            self.capture(write);
        }
        self.node_mut(who).die();
        let ends: Vec<ConnId> =
            self.wires.ends().filter(|end| end.who == who && end.open).map(|end| end.conn).collect();
        for conn in &ends {
            if let Some(end) = self.wires.end_mut(*conn) {
                end.open = false;
                end.inbox.clear();
            }
        }
        ends
    }

    /// A new process takes the name of a dead one.
    pub fn restart(&mut self, who: Who) {
        self.log(format!("--- {who} starts again"));
        self.node_mut(who).live_again();
    }

    /// The data plane of a node loses a peer.
    pub fn peer_fault(&mut self, who: Who, whom: Who) {
        let epoch = self.epoch(who, whom);
        self.log(format!("--- the data plane of {who} loses {whom}"));
        self.feed(who, Input::PeerFault { epoch });
    }

    /// Closing an endpoint of this node proves nothing from here on.
    pub fn without_fence(&mut self, who: Who) {
        self.node_mut(who).fences = false;
    }

    /// Whether a node has, or has had, a link with a peer.
    pub fn has_link(&self, who: Who, whom: Who) -> bool {
        let life = self.node(who).life;
        let with_peer = |conn: &ConnId| self.wires.peer_of(*conn).is_some_and(|peer| peer.who == whom);
        self.links.iter().any(|((node, l, _), conn)| *node == who && *l == life && with_peer(conn))
    }

    /// A node's last link with a peer.
    pub fn epoch(&self, who: Who, whom: Who) -> Epoch {
        let life = self.node(who).life;
        let with_peer = |conn: &ConnId| self.wires.peer_of(*conn).is_some_and(|peer| peer.who == whom);
        let links =
            self.links.iter().filter(|((node, l, _), conn)| *node == who && *l == life && with_peer(conn));
        links.map(|((_, _, epoch), _)| *epoch).max().expect("a link between them")
    }

    /// How many of a node's dials have come to something, or to nothing.
    pub fn dials(&self, who: Who) -> usize {
        self.node(who).dialled
    }

    /// Rights that a node has ever asked for.
    pub fn rights(&self, who: Who) -> Vec<Epoch> {
        self.node(who).rights.keys().copied().collect()
    }

    /// The rights that a node is opening cannot be opened.
    pub fn fail_rights(&mut self, who: Who) {
        let opening = self.node(who).rights.iter().filter(|(_, right)| **right == Right::Opening);
        for epoch in opening.map(|(epoch, _)| *epoch).collect::<Vec<_>>() {
            self.open_right(who, epoch, false);
        }
    }

    /// The peers that a node is registering cannot be registered.
    pub fn fail_registrations(&mut self, who: Who) {
        let pending = self.node(who).registrations.iter().filter(|(_, r)| r.state == Registered::Pending);
        for epoch in pending.map(|(epoch, _)| *epoch).collect::<Vec<_>>() {
            self.register(who, epoch, false);
        }
    }

    /// The embedder of a node turns away those that it is asked about.
    pub fn turn_away(&mut self, who: Who) {
        for epoch in self.node(who).admits.keys().copied().collect::<Vec<_>>() {
            self.admit(who, epoch, false);
        }
    }

    /// Bytes from one node reach the other without completing a message.
    pub fn trickle(&mut self, from: Who, to: Who) {
        for conn in self.wires.between(from, to) {
            self.put(conn, Item::Trickle);
        }
    }

    /// Bytes from one node reach the other that are no message.
    pub fn garbage(&mut self, from: Who, to: Who) {
        self.log(format!("--- {from} sends garbage to {to}"));
        for conn in self.wires.between(from, to) {
            self.put(conn, Item::Garbage("not a message".into()));
        }
    }

    /// Rights that wait to be closed, as steps to take.
    pub fn fences(&self, who: Who) -> Vec<Step> {
        self.steps()
            .into_iter()
            .filter(|step| matches!(step, Step::CloseRight(node, _) if *node == who))
            .collect()
    }

    /// Every fault is over: what was held back happens, dials and messages get through.
    pub(crate) fn calm(&mut self) {
        self.log("--- no more faults");
        self.holds.clear();
        self.vanishing.clear();
        self.unreachable.clear();
        let lines: Vec<ConnId> =
            self.wires.ends().filter(|end| end.who == X && end.open).map(|end| end.conn).collect();
        for conn in lines {
            self.put(conn, Item::Eof);
            if let Some(end) = self.wires.end_mut(conn) {
                end.open = false;
            }
        }
        for node in &mut self.nodes {
            node.cache.coming.clear();
        }
    }
}
