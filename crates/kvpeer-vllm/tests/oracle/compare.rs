//! Each recorded session against its replay, op by op, until one of the two sessions is over.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::PathBuf;

use crate::item::Item;
use crate::recorded::{Step, sessions};
use crate::replay::{Done, Note, Replay};
use crate::rules::{self, End, OurEnd, Rule, Seen, Side};

/// What all sessions together have shown.
#[derive(Default)]
struct Tally {
    sessions: usize,
    steps: usize,
    /// Things that both sides did: messages, keys asked and told, blocks written, results.
    alike: usize,
    ended_alike: usize,
    different: BTreeMap<Rule, usize>,
    odd: Vec<String>,
}

#[test]
fn every_difference_has_a_rule() {
    let mut tally = Tally::default();
    for (name, steps) in sessions() {
        compare(&name, &steps, &mut tally);
    }
    assert_eq!(tally.odd, Vec::<String>::new());
    assert_eq!(tally.sessions, 100);
    let met: Vec<Rule> = tally.different.keys().copied().collect();
    assert_eq!(met, Rule::ALL, "every rule was met");
    let page = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/vllm.md");
    let page = fs::read_to_string(page).unwrap();
    let mut rows: Vec<String> =
        tally.different.iter().map(|(rule, count)| format!("| {rule:?} | {count} |")).collect();
    rows.push(format!(
        "{} sessions, {} operations: {} things done alike, {} endings alike",
        tally.sessions, tally.steps, tally.alike, tally.ended_alike
    ));
    let missing: Vec<&String> = rows.iter().filter(|row| !page.contains(row.as_str())).collect();
    assert!(missing.is_empty(), "docs/vllm.md must say {missing:#?}");
}

/// Things of one side, with the step in which it did them.
type Dones = Vec<(usize, Item)>;

fn compare(name: &str, steps: &[Step], tally: &mut Tally) {
    tally.sessions += 1;
    let mut replay = Replay::new(&steps[0].op);
    let mut story = Story::default();
    let (mut theirs, mut ours) = (Dones::new(), Dones::new());
    for (at, step) in steps.iter().enumerate() {
        if at > 0 {
            replay.step(step);
        }
        let done = std::mem::take(&mut replay.done);
        if step.name() == "close" || step.death().is_some() || our_end(&done).is_some() {
            match rules::of_end(step.death(), our_end(&done), story.up.is_some()) {
                Some(End::Same) => tally.ended_alike += 1,
                Some(End::Different(rule)) => *tally.different.entry(rule).or_default() += 1,
                None => tally.odd.push(format!("{name} {at}: {:?} {:?}", step.death(), our_end(&done))),
            }
            break;
        }
        tally.steps += 1;
        story.learn(at, step, &done);
        theirs.extend(step.items().0.into_iter().map(|item| (at, item)));
        ours.extend(done.items.0.into_iter().map(|item| (at, item)));
    }
    story.jobs.extend(replay.jobs.clone());
    tally.alike += match_up(&mut theirs, &mut ours);
    for (side, dones) in [(Side::Vllm, theirs), (Side::Ours, ours)] {
        for (at, item) in dones {
            match story.rule(side, at, &item, &steps[at]) {
                Some(rule) => *tally.different.entry(rule).or_default() += 1,
                None => tally.odd.push(format!("{name} {at}: {side:?} {item:?}")),
            }
        }
    }
    replay.end();
    let results = replay.results();
    let twice: BTreeSet<u64> =
        results.iter().filter(|(_, count)| **count != 1).map(|(job, _)| *job).collect();
    assert_eq!(twice, BTreeSet::new(), "{name}: every job has one result");
}

/// How our session ended, if it did: by the first thing that went wrong.
fn our_end(done: &Done) -> Option<OurEnd> {
    done.notes.iter().find_map(|noted| {
        if let Note::Broke(kind) = &noted.note {
            return Some(OurEnd::Broke(kind));
        }
        let Note::Down(reason) = &noted.note else { return None };
        Some(OurEnd::Down(*reason))
    })
}

/// Takes out what both sides did, in whatever step. Returns how much that was.
fn match_up(theirs: &mut Dones, ours: &mut Dones) -> usize {
    let before = theirs.len();
    theirs.retain(|(_, item)| match ours.iter().position(|(_, other)| other == item) {
        Some(at) => {
            ours.remove(at);
            false
        }
        None => true,
    });
    before - theirs.len()
}

/// What explains differences later on.
#[derive(Default)]
struct Story {
    /// Rules that a request has met, and from which step on.
    met: BTreeMap<String, Vec<(usize, Rule)>>,
    jobs: BTreeMap<u64, String>,
    /// When a store was made.
    made: BTreeMap<u64, f64>,
    /// Destinations that a request's fetches have named.
    demands: Vec<(u32, String)>,
    /// The step in which our side came up.
    up: Option<usize>,
}

impl Story {
    fn learn(&mut self, at: usize, step: &Step, done: &Done) {
        let request = step.op["kv_request_id"].as_str().or(step.op["msg"]["kv_request_id"].as_str());
        if let Some(job) = step.op["job_id"].as_u64() {
            self.made.insert(job, step.now());
        }
        for (pin, request) in step.pin_requests() {
            self.jobs.insert(pin, request);
        }
        for (_, pin) in step.pins() {
            self.made.insert(pin, step.now());
        }
        let demanded = step.op["msg"]["block_indexes"].as_array();
        if let (Some(request), Some(demanded)) = (request, demanded) {
            let blocks = demanded.iter().filter_map(|block| block.as_u64());
            self.demands.extend(blocks.map(|block| (block as u32, request.to_owned())));
        }
        if let (Some(rule), Some(request)) = (rules::of_step(step), request) {
            self.meet(request, at, rule);
        }
        for noted in &done.notes {
            if let (Some(rule), Some(request)) = (rules::of_note(&noted.note), &noted.request) {
                self.meet(request, at, rule);
            }
        }
        let acked = |item: &Item| matches!(item, Item::Sent { kind, .. } if kind == "connect_ack");
        if self.up.is_none() && done.items.0.iter().any(acked) {
            self.up = Some(at);
        }
    }

    fn meet(&mut self, request: &str, at: usize, rule: Rule) {
        self.met.entry(request.to_owned()).or_default().push((at, rule));
    }

    /// The rule of the item itself, or the last one that its request has met.
    fn rule(&self, side: Side, at: usize, item: &Item, step: &Step) -> Option<Rule> {
        let made = if let Item::Store { job, .. } = item { self.made.get(job).copied() } else { None };
        let seen = Seen {
            step,
            up: self.up.is_some_and(|up| up <= at),
            age: made.map_or(0.0, |made| step.now() - made),
        };
        let met = |request: &String| {
            self.met
                .get(request)?
                .iter()
                .rfind(|(from, rule)| *from <= at && rule.is_about(item))
                .map(|(_, rule)| *rule)
        };
        rules::of_item(side, item, &seen).or_else(|| self.requests(item).iter().find_map(met))
    }

    fn requests(&self, item: &Item) -> Vec<String> {
        match item {
            Item::Load { job, .. } | Item::Store { job, .. } => {
                self.jobs.get(job).cloned().into_iter().collect()
            }
            Item::Write { dst, .. } => {
                let named = self.demands.iter().filter(|(block, _)| block == dst);
                named.map(|(_, request)| request.clone()).collect()
            }
            Item::Sent { .. }
            | Item::Asked { .. }
            | Item::Told { .. }
            | Item::Register
            | Item::Answer { .. } => item.request().map(str::to_owned).into_iter().collect(),
        }
    }
}
