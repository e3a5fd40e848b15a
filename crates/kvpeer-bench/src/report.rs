//! What is written and printed.

use std::path::Path;

use comfy_table::Table;
use comfy_table::presets::UTF8_FULL_CONDENSED;
use serde_json::{Map, Value, json};

use crate::bars::{Aim, Bar, bars, yardsticks};
use crate::figures::Figures;
use crate::machine::Machine;
use crate::page;
use crate::stop::{Outcome, stop};

/// A run, judged.
pub(crate) struct Report {
    pub(crate) machine: String,
    pub(crate) bars: Vec<Bar>,
    /// Why the run does not count; empty if it does.
    pub(crate) suspicions: Vec<String>,
}

impl Report {
    pub(crate) fn new(figures: &Figures, machine: &Machine) -> Self {
        let below = |(name, ratio, least): (&str, Option<f64>, f64)| match ratio {
            Some(ratio) if ratio >= least => None,
            Some(ratio) => Some(format!("{name} is {ratio:.2}, expected at least {least}")),
            None => Some(format!("{name} was not measured")),
        };
        Self {
            machine: machine.describe(),
            bars: bars(figures, machine.libfabric()),
            suspicions: yardsticks(figures).into_iter().filter_map(below).collect(),
        }
    }

    /// In a run that does not count, none is met.
    pub(crate) fn is_met(&self, bar: &Bar) -> bool {
        self.suspicions.is_empty() && bar.is_met()
    }

    /// The last line.
    pub(crate) fn summary(&self) -> String {
        let met = self.bars.iter().filter(|bar| self.is_met(bar)).count();
        format!("bars met: {met} of {}", self.bars.len())
    }

    /// Writes `report.json` and `report.html` into a folder.
    pub(crate) fn write(&self, figures: &Figures, folder: &Path) -> Outcome<()> {
        let failed = |error: std::io::Error| {
            stop(format!("cannot write to {}: {error}; name another folder with --out", folder.display()))
        };
        std::fs::create_dir_all(folder).map_err(failed)?;
        std::fs::write(folder.join("report.json"), self.json()?).map_err(failed)?;
        std::fs::write(folder.join("report.html"), page::page(self, figures)?).map_err(failed)
    }

    /// Flat: each bar's name, with its figures.
    pub(crate) fn json(&self) -> Outcome<String> {
        let entries = self.bars.iter().map(|bar| (bar.name.clone(), self.entry(bar)));
        let mut text = serde_json::to_string_pretty(&Value::Object(entries.collect::<Map<_, _>>()))?;
        text.push('\n');
        Ok(text)
    }

    fn entry(&self, bar: &Bar) -> Value {
        let values = bar.measured.as_ref().ok();
        let mut entry = json!({
            "kvpeer": values.map(|values| values.kvpeer),
            "yardstick": values.and_then(|values| values.yardstick),
            "ratio": values.and_then(|values| values.ratio()),
            "bar": match bar.aim {
                Aim::AtLeast(value) | Aim::AtMost(value) => value,
            },
            "met": self.is_met(bar),
            "unit": bar.unit,
        });
        if let (Err(why), Some(entry)) = (&bar.measured, entry.as_object_mut()) {
            entry.insert("note".to_owned(), Value::String(format!("not measured: {why}")));
        }
        entry
    }

    pub(crate) fn table(&self) -> String {
        let mut table = Table::new();
        table.load_style(UTF8_FULL_CONDENSED).set_header(COLUMNS);
        for bar in &self.bars {
            table.add_row(self.row(bar));
        }
        table.to_string()
    }

    /// A bar in words, as [`COLUMNS`].
    pub(crate) fn row(&self, bar: &Bar) -> [String; 6] {
        let aim = match bar.aim {
            Aim::AtLeast(value) => format!("≥ {}", number(value)),
            Aim::AtMost(value) => format!("≤ {}", number(value)),
        };
        let met = if self.is_met(bar) { "yes" } else { "no" }.to_owned();
        match &bar.measured {
            Ok(values) => [
                bar.name.clone(),
                format!("{} {}", number(values.kvpeer), bar.unit),
                values
                    .yardstick
                    .map_or_else(|| "–".to_owned(), |value| format!("{} {}", number(value), bar.unit)),
                values.ratio().map_or_else(|| "–".to_owned(), number),
                aim,
                met,
            ],
            Err(why) => {
                [bar.name.clone(), format!("not measured: {why}"), String::new(), String::new(), aim, met]
            }
        }
    }
}

pub(crate) const COLUMNS: [&str; 6] = ["bar", "kvpeer", "yardstick", "ratio", "must be", "met"];

/// Three digits that matter.
fn number(value: f64) -> String {
    match value.abs() {
        v if v >= 100.0 => format!("{value:.0}"),
        v if v >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}
