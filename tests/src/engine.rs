//! What the engines wish.

use std::time::Duration;

use kvpeer_core::{Command, JobId, LookupState, Misuse, Part, Role};
use kvpeer_wire::{Key, Supply};

use crate::node::request;
use crate::states;
use crate::{Job, Who, World, key, keys};

impl World {
    /// Gives a node a command that it must accept.
    #[track_caller]
    pub fn command(&mut self, who: Who, command: Command<'_>) {
        if let Err(misuse) = self.try_command(who, command) {
            self.fail(&format!("{who} refuses {command:?}: {misuse}"));
        }
    }

    /// Gives a node a command. One that is refused must change nothing (CMD-1).
    #[track_caller]
    pub fn try_command(&mut self, who: Who, command: Command<'_>) -> Result<(), Misuse> {
        self.log(format!("{who}: {}", show(&command)));
        let before = self.endpoint(who).clone();
        let effects = self.effects;
        let states = states::before_command(self.endpoint(who), &command);
        let result = self.call(who, |endpoint, now, out| endpoint.command(now, command, out));
        states.after(self.endpoint(who));
        if let Err(misuse) = result {
            self.log(format!("{who}: refused: {misuse}"));
            if *self.endpoint(who) != before || self.effects != effects {
                self.fail(&format!("{who} refuses {command:?}, but is not as it was before"));
            }
        }
        result
    }

    /// The node must refuse a command.
    #[track_caller]
    pub fn refuses(&mut self, who: Who, command: Command<'_>, misuse: Misuse) {
        let result = self.try_command(who, command);
        if result != Err(misuse) {
            self.fail(&format!("{who} should refuse {command:?} with {misuse:?}, not {result:?}"));
        }
    }

    /// Brings up a session before there is work for it.
    #[track_caller]
    pub fn connect(&mut self, who: Who, whom: Who) {
        self.command(who, Command::Connect { peer: whom.peer(), address: whom.name() });
    }

    /// Opens a request as consumer, prefill/decode.
    #[track_caller]
    pub fn open_pd(&mut self, who: Who, name: &str, source: Who) {
        self.open(who, name, source, Supply::Await);
    }

    /// Opens a request as consumer, symmetric.
    #[track_caller]
    pub fn open_symmetric(&mut self, who: Who, name: &str, source: Who) {
        self.open(who, name, source, Supply::Pinned);
    }

    #[track_caller]
    fn open(&mut self, who: Who, name: &str, source: Who, supply: Supply) {
        let part = Part::Consume { source: source.peer(), address: source.name(), supply };
        self.command(who, Command::Open { request: request(name), part });
    }

    /// Opens a request as producer.
    #[track_caller]
    pub fn open_producer(&mut self, who: Who, name: &str, consumer: Option<Who>) {
        let part = Part::Produce { consumer: consumer.map(|consumer| consumer.peer()) };
        self.command(who, Command::Open { request: request(name), part });
    }

    /// Loads keys into blocks.
    #[track_caller]
    pub fn load(&mut self, who: Who, name: &str, numbers: &[u32], blocks: &[u32]) -> Job {
        match self.try_load(who, name, numbers, blocks) {
            Ok(job) => job,
            Err(misuse) => self.fail(&format!("{who} refuses to load {numbers:?} of {name}: {misuse}")),
        }
    }

    /// Loads keys into blocks, if the node takes it.
    #[track_caller]
    pub fn try_load(&mut self, who: Who, name: &str, numbers: &[u32], blocks: &[u32]) -> Result<Job, Misuse> {
        let job = self.next_job();
        let taken = blocks.iter().find_map(|block| self.node(who).books.holder(*block));
        // The result may come within the call.
        self.node_mut(who).books.load(job, name, bytes(numbers), blocks.into());
        let keys = keys(numbers);
        let load = Command::Load { job, request: request(name), keys: keys.as_keys(), blocks };
        match self.try_command(who, load) {
            Ok(()) if taken.is_some() => {
                self.fail(&format!(
                    "I1: {who} loads into {blocks:?}, of which some belong to {taken:?} still"
                ));
            }
            Ok(()) => self.clear(who, blocks),
            Err(misuse) => {
                self.node_mut(who).books.loads.remove(&job);
                return Err(misuse);
            }
        }
        Ok(Job { who, id: job })
    }

    /// Stores keys that stand in blocks.
    #[track_caller]
    pub fn store(&mut self, who: Who, name: &str, numbers: &[u32], blocks: &[u32]) -> Job {
        match self.try_store(who, name, numbers, blocks, None) {
            Ok(job) => job,
            Err(misuse) => self.fail(&format!("{who} refuses to store {numbers:?} for {name}: {misuse}")),
        }
    }

    /// Stores keys that only one peer may have.
    #[track_caller]
    pub fn store_for(&mut self, who: Who, name: &str, numbers: &[u32], blocks: &[u32], consumer: Who) -> Job {
        match self.try_store(who, name, numbers, blocks, Some(consumer)) {
            Ok(job) => job,
            Err(misuse) => self.fail(&format!("{who} refuses to store {numbers:?} for {name}: {misuse}")),
        }
    }

    /// Stores keys that stand in blocks, if the node takes it.
    #[track_caller]
    pub fn try_store(
        &mut self,
        who: Who,
        name: &str,
        numbers: &[u32],
        blocks: &[u32],
        consumer: Option<Who>,
    ) -> Result<Job, Misuse> {
        let job = self.next_job();
        let since = self.writes.len();
        self.fill(who, numbers, blocks);
        self.node_mut(who).books.store(job, blocks.into(), since);
        let keys = keys(numbers);
        let consumer = consumer.map(|consumer| consumer.peer());
        let store = Command::Store { job, request: request(name), keys: keys.as_keys(), blocks, consumer };
        if let Err(misuse) = self.try_command(who, store) {
            self.node_mut(who).books.stores.remove(&job);
            return Err(misuse);
        }
        Ok(Job { who, id: job })
    }

    /// Blocks of a node that nothing uses: no load's destination, no source, not cached.
    pub fn free_blocks(&self, who: Who) -> Vec<u32> {
        let node = self.node(who);
        let cached = |block: u32| node.cache.held.values().any(|held| *held == block);
        let used =
            |block: u32| node.books.holder(block).is_some() || node.books.pins(block) > 0 || cached(block);
        (0..node.memory.len() as u32).filter(|block| !used(*block)).collect()
    }

    /// Blocks of a node that loads hold: reserved or quarantined.
    pub fn held_blocks(&self, who: Who) -> Vec<u32> {
        let node = self.node(who);
        (0..node.memory.len() as u32).filter(|block| node.books.holder(*block).is_some()).collect()
    }

    /// Jobs of a node that a command could name: loads that are not over, stores without a result.
    pub fn jobs(&self, who: Who) -> Vec<Job> {
        let books = &self.node(who).books;
        let loads = books.loads.iter().filter(|(_, load)| load.holds).map(|(id, _)| *id);
        loads.chain(books.unfinished_stores()).map(|id| Job { who, id }).collect()
    }

    /// The request is over on this node.
    #[track_caller]
    pub fn finish(&mut self, who: Who, name: &str) {
        self.finish_as(who, name, Role::Both);
    }

    /// Whether a node can be asked for anything.
    pub fn lives(&self, who: Who) -> bool {
        self.node(who).endpoint.is_some()
    }

    /// One part of the request is over on this node.
    #[track_caller]
    pub fn finish_as(&mut self, who: Who, name: &str, role: Role) {
        self.command(who, Command::Finish { request: request(name), role });
    }

    /// Stops a load.
    #[track_caller]
    pub fn abort(&mut self, job: Job) {
        self.command(job.who, Command::Abort { job: job.id });
    }

    /// Takes back what of a store nobody has claimed.
    #[track_caller]
    pub fn withdraw(&mut self, job: Job) {
        self.command(job.who, Command::Withdraw { job: job.id });
    }

    /// The engine has a proof of its own that nothing lands in, or reads, the job's blocks any more.
    #[track_caller]
    pub fn release_quarantine(&mut self, job: Job) {
        let node = self.node_mut(job.who);
        let sources = node.books.stores.get(&job.id).map(|store| store.blocks.clone()).unwrap_or_default();
        for write in self.writes.iter_mut().filter(|write| write.writer == job.who) {
            // Nothing lands any more either: the proof is the engine's, the world takes it.
            let lands_here = write.loads.contains(&Some(job.id));
            write.absolved |= write.src.iter().any(|block| sources.contains(block)) || lands_here;
        }
        for write in self.writes.iter_mut().filter(|write| write.target.is_some_and(|t| t.who == job.who)) {
            if write.loads.contains(&Some(job.id)) {
                write.landed.fill(true);
            }
        }
        self.command(job.who, Command::ReleaseQuarantine { job: job.id });
    }

    /// Ends the session with a peer.
    #[track_caller]
    pub fn close_peer(&mut self, who: Who, whom: Who) {
        self.command(who, Command::ClosePeer { peer: whom.peer() });
    }

    /// Ends all sessions of a node.
    #[track_caller]
    pub fn shutdown(&mut self, who: Who, within: Duration) {
        self.command(who, Command::Shutdown { within });
    }

    /// What the node knows of these keys: `H`it, `M`iss or `P`ending for each.
    pub fn lookup(&mut self, who: Who, name: &str, numbers: &[u32]) -> String {
        let mut states = String::new();
        for number in numbers {
            let name_of_key = key(*number);
            let key = Key::new(name_of_key.as_bytes()).expect("a short name");
            let state = self.call(who, |endpoint, now, _| endpoint.lookup(now, request(name), key));
            states.push(match state {
                LookupState::Hit => 'H',
                LookupState::Miss => 'M',
                LookupState::Pending => 'P',
            });
        }
        self.log(format!("{who}: lookup {name} {numbers:?}: {states}"));
        states
    }

    /// Asks the source for these keys.
    #[track_caller]
    pub fn ask(&mut self, who: Who, name: &str, numbers: &[u32]) {
        self.lookup(who, name, numbers);
        self.command(who, Command::FlushLookups);
    }

    fn next_job(&mut self) -> JobId {
        self.jobs += 1;
        JobId(self.jobs)
    }
}

fn bytes(numbers: &[u32]) -> Vec<Vec<u8>> {
    numbers.iter().map(|number| key(*number).into_bytes()).collect()
}

fn show(command: &Command<'_>) -> String {
    match command {
        Command::Open { request, part: Part::Consume { source, supply, .. } } => {
            format!("opens {request} at {source}, {supply:?}")
        }
        Command::Open { request, part: Part::Produce { consumer } } => {
            format!("opens {request} for {consumer:?}")
        }
        Command::Load { job, request, keys, blocks } => {
            format!("load {} of {request}: {keys:?} into {blocks:?}", job.0)
        }
        Command::Store { job, request, keys, blocks, .. } => {
            format!("store {} for {request}: {keys:?} in {blocks:?}", job.0)
        }
        Command::Finish { .. }
        | Command::Abort { .. }
        | Command::Withdraw { .. }
        | Command::FlushLookups
        | Command::ReleaseQuarantine { .. }
        | Command::Connect { .. }
        | Command::ClosePeer { .. }
        | Command::Shutdown { .. } => format!("{command:?}"),
    }
}
