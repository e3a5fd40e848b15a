//! The run: everything once in each round, so that what is compared was measured at about the same time.

use std::collections::BTreeMap;

use indicatif::{ProgressBar, ProgressStyle};

use crate::figures::Figures;
use crate::order::{Fetched, Order};
use crate::pair::Pair;
use crate::plan::{CROWD, LARGE, LENS, Plan, SMALL, Series};
use crate::process::Process;
use crate::stop::Outcome;
use crate::{core, vllm};

/// Blocks of the two large fetches: 64 MiB and 1 GiB.
const MANY_SMALL: usize = 1024;
const MANY_LARGE: usize = 512;
/// Blocks of the fetch beside which others are measured: 1 GiB.
const BESIDE: usize = 16_384;

/// Steps of the bar for what is not done in rounds.
const OTHER_STEPS: usize = 7;

pub(crate) fn run(plan: &Plan) -> Outcome<Figures> {
    let samples = LENS.len() * Series::ALL.len();
    let steps = (plan.rounds + 1) * (samples + 4) + OTHER_STEPS;
    let bar = ProgressBar::new(steps as u64);
    bar.set_style(ProgressStyle::with_template("{elapsed_precise} [{bar:40}] {pos}/{len} {msg}")?);
    let say = |what: String| {
        bar.set_message(what);
        bar.inc(1);
    };

    say("processes, memory and connections".to_owned());
    let mut pair = Pair::start(plan.memory())?;
    let mut rounds = Rounds::default();
    // The first round only warms up.
    rounds.go(plan, &mut pair, 0, &|what| say(format!("warming up: {what}")))?;
    let mut rounds = Rounds { turns: rounds.turns, ..Rounds::default() };
    for round in 1..=plan.rounds {
        rounds.go(plan, &mut pair, round, &|what| say(format!("round {round}/{}: {what}", plan.rounds)))?;
    }
    drop(pair);

    say(format!("an idle node with {CROWD} peers"));
    let idle_share = idle_share(plan)?;
    let core = core::measure(core::cycle(), || say("the core".to_owned()));
    say("vLLM + NIXL".to_owned());
    let vllm = vllm::measure();
    bar.finish_and_clear();
    let Rounds { turns: _, moved, single, beside, many_small, many_large } = rounds;
    Ok(Figures { moved, single, beside, many_small, many_large, idle_share, core, vllm })
}

#[derive(Default)]
struct Rounds {
    /// Samples so far, which move the parts of the working set in turns.
    turns: usize,
    moved: BTreeMap<(Series, usize), Vec<f64>>,
    single: Vec<Fetched>,
    beside: Vec<Fetched>,
    many_small: Vec<f64>,
    many_large: Vec<f64>,
}

impl Rounds {
    fn go(&mut self, plan: &Plan, pair: &mut Pair, round: usize, say: &dyn Fn(String)) -> Outcome<()> {
        for block_len in LENS {
            for series in Series::ALL {
                say(format!("{series}, {} KiB", block_len >> 10));
                let rate = pair.sample(series, &plan.cut(series, block_len, self.turns))?;
                self.moved.entry((series, block_len)).or_default().push(rate);
                self.turns += 1;
            }
        }
        say("fetches of one block".to_owned());
        let singles = plan.run(SMALL, plan.singles as usize, round);
        self.single.extend(pair.fetch_each(&singles)?);
        say("fetches of 1,024 x 64 KiB".to_owned());
        for batch in 0..plan.batches as usize {
            let cut = plan.run(SMALL, MANY_SMALL, round * plan.batches as usize + batch);
            self.many_small.push(rate(cut.bytes(), pair.fetch(&cut)?));
        }
        say("a fetch of 512 x 2 MiB".to_owned());
        let cut = plan.run(LARGE, MANY_LARGE, round);
        self.many_large.push(rate(cut.bytes(), pair.fetch(&cut)?));
        say("fetches of one block beside one of 1 GiB".to_owned());
        let large = plan.run(SMALL, BESIDE, round);
        self.beside.extend(pair.fetch_beside(&large, &plan.tail())?);
        Ok(())
    }
}

fn rate(bytes: u64, fetched: Fetched) -> f64 {
    bytes as f64 / fetched.load / 1e9
}

fn idle_share(plan: &Plan) -> Outcome<f64> {
    let (mut idle, mut crowd) = (Process::start("idle")?, Process::start("crowd")?);
    let peer = idle.address(&Order::IdleNode)?;
    crowd.done(&Order::Crowd { count: CROWD, peer })?;
    idle.share(&Order::CpuShare { seconds: plan.idle })
}
