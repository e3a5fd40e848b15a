//! What happened, line by line.

use kvpeer_core::Time;

/// Everything that happened in a world, readable.
#[derive(Clone, Default)]
pub(crate) struct Trace {
    lines: Vec<String>,
    routine: usize,
}

impl Trace {
    pub(crate) fn line(&mut self, now: Time, text: &str) {
        self.flush();
        let micros = now.as_micros();
        self.lines.push(format!("{:>5}.{:03}s  {text}", micros / 1_000_000, micros / 1_000 % 1_000));
    }

    /// Something that happens all the time: heartbeats, cancels that are repeated. Only counted.
    pub(crate) fn routine(&mut self) {
        self.routine += 1;
    }

    fn flush(&mut self) {
        if self.routine > 0 {
            self.lines.push(format!("       ...  {} lines of heartbeats and repeated cancels", self.routine));
            self.routine = 0;
        }
    }

    pub(crate) fn print(&self) -> String {
        self.lines.join("\n")
    }
}
