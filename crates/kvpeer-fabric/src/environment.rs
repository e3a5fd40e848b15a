//! Environment variables that libfabric reads, for programs to set. This library never sets one.

use crate::provider::version;

/// What a program should put into its environment, unless its user did, before it starts any thread and before
/// the first call into this crate.
///
/// libfabric reads them once, in its first `fi_getinfo`. Measured with 1.17: 128 `tcp` rights cost 18.9 s and
/// 8.9 GB with the defaults, and 0.2-0.3 s and 138 to 634 MB (two machines) with the first two set (libfabric 2.x
/// needs neither). Peers on 1.17 must agree on these two: one with and one without can shake hands, but their
/// WRITEs do not arrive. The third makes it look after connection requests every millisecond instead of every ten,
/// during which a waiting request keeps [`prepare_wait`](crate::Fabric::prepare_wait) answering "not now". The last
/// two keep the psm libraries, which some distributions' libfabric pulls in, from replacing the program's SIGSEGV
/// handling.
pub const RECOMMENDED_ENV: &[(&str, &str)] = &[
    ("FI_OFI_RXM_BUFFER_SIZE", "256"),
    ("FI_OFI_RXM_MSG_RX_SIZE", "16"),
    ("FI_OFI_RXM_CM_PROGRESS_INTERVAL", "1000"),
    ("IPATH_NO_BACKTRACE", "1"),
    ("HFI_NO_BACKTRACE", "1"),
];

/// The entries of [`RECOMMENDED_ENV`] that matter for the loaded libfabric and are not set, for a warning.
/// Only reads the environment. Empty on libfabric 2.x, which does not need them.
#[must_use]
pub fn missing_env() -> Vec<(&'static str, &'static str)> {
    if version() >= (2, 0) {
        return Vec::new();
    }
    RECOMMENDED_ENV.iter().copied().filter(|(name, _)| std::env::var_os(name).is_none()).collect()
}
