//! The fault that `cargo xtask seeded-faults` wants in the core, in the special build.

use kvpeer_core::faults::{Fault, seed};

/// Seeds the fault that `KVPEER_FAULT` names. An unknown name is a mistake of the caller's, not a caught fault.
pub(crate) fn from_environment() {
    let Ok(name) = std::env::var("KVPEER_FAULT") else { return };
    match Fault::from_name(&name) {
        Some(fault) => seed(Some(fault)),
        None => {
            eprintln!("KVPEER_FAULT: no fault is called {name}");
            std::process::exit(3);
        }
    }
}
