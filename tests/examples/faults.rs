//! Lists the faults that can be seeded: name, what it breaks and what goes wrong, with tabs in between. For
//! `cargo xtask seeded-faults`.

use kvpeer_core::faults::Fault;

fn main() {
    for fault in Fault::ALL {
        println!("{}\t{}\t{}", fault.name(), fault.breaks(), fault.text().trim());
    }
}
