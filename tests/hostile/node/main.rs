//! A whole node alone in its process, with an engine that does what it is told: the node under attack, and the honest
//! peer of it.
//!
//! Each line on its input is answered by one line on its output:
//! `connect PEER`, `pull PEER` (looks blocks up at a peer, loads them, looks at every byte), `offer` (stores blocks for
//! whoever loads them), `load PEER` (loads what a peer has offered, looks at every byte), `offered` (waits until all is
//! delivered), `memory` (resident now, and at most since `mark`, in KiB) and `mark`. The end of its input
//! ends it.

mod engine;
mod memory;

use std::io::{self, BufRead, Write};

pub(crate) type Fallible<T> = Result<T, Box<dyn std::error::Error>>;

fn main() -> Fallible<()> {
    let (mut engine, address) = engine::Engine::start()?;
    let mut out = io::stdout();
    writeln!(out, "{address}")?;
    for line in io::stdin().lock().lines() {
        let line = line?;
        let (word, rest) = line.split_once(' ').unwrap_or((&line, ""));
        let answer = match word {
            "connect" => engine.connect(rest)?,
            "pull" => engine.pull(rest)?,
            "offer" => engine.offer()?,
            "load" => engine.load(rest)?,
            "offered" => engine.offered()?,
            "memory" => memory::now_and_most()?,
            "mark" => memory::mark()?,
            other => return Err(format!("{other:?} is no command").into()),
        };
        writeln!(out, "{answer}")?;
    }
    engine.end();
    Ok(())
}
