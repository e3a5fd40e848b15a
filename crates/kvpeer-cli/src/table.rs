//! What a command prints at its end, for people.

use comfy_table::{Table, presets};

use crate::say;

/// Facts, one a line.
#[derive(Default)]
pub(crate) struct Facts(Vec<(String, String)>);

impl Facts {
    pub(crate) fn add(&mut self, name: impl Into<String>, value: impl ToString) -> &mut Self {
        self.0.push((name.into(), value.to_string()));
        self
    }

    pub(crate) fn print(&self) {
        let mut table = plain();
        for (name, value) in &self.0 {
            table.add_row([name, value]);
        }
        print(&table);
    }
}

/// A table with a heading.
pub(crate) fn columns<const N: usize>(heading: [&str; N], rows: impl IntoIterator<Item = [String; N]>) {
    let mut table = plain();
    table.set_header(heading);
    for row in rows {
        table.add_row(row);
    }
    print(&table);
}

fn plain() -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table
}

fn print(table: &Table) {
    for line in table.lines() {
        say::line(line.trim_end());
    }
}
