//! Lists the faults that can be seeded into the plane: name, what it breaks and what goes wrong, with tabs in between.
//! For `cargo xtask seeded-faults`.

fn main() {
    for (_, name, breaks, text) in kvpeer_fabric::faults::ALL {
        println!("{name}\t{breaks}\t{text}");
    }
}
