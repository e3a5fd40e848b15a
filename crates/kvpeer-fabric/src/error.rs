//! Why something on the data plane failed, split by what the reader can do about it.

use crate::metadata::MetadataError;
use crate::provider::Provider;
use crate::right::RightId;

/// A failure of the data plane. None of them leaves a write that may still be in flight unaccounted for: the
/// write's own terminal event says how it ended.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FabricError {
    /// A libfabric call, or the write that a completion reports on, failed.
    #[error("{call} failed on provider {provider}: {text} (code {code}, provider's own {detail}){}", tail(*.advice))]
    Call {
        /// The libfabric function.
        call: &'static str,
        /// The provider it was called on.
        provider: Provider,
        /// libfabric's code, positive (`errno` numbers, and its own from 256 up).
        code: i32,
        /// The provider's detail code, 0 if it gave none.
        detail: i32,
        /// libfabric's text for the code.
        text: String,
        /// What to do about it, where that is known.
        advice: Option<&'static str>,
    },
    /// The provider's name is not one that kvpeer knows.
    #[error("unknown libfabric provider `{name}`; kvpeer is tested with `tcp` and, by choice, `shm`")]
    UnknownProvider {
        /// The name as given.
        name: String,
    },
    /// The provider is known, and known to be unfit.
    #[error("libfabric provider `{name}` is refused: {reason}")]
    RefusedProvider {
        /// The name as given.
        name: String,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// The configuration contradicts itself or the memory.
    #[error("invalid fabric configuration: {reason}")]
    Config {
        /// What is wrong.
        reason: String,
    },
    /// The write-then-verify test of the opened provider failed: it must not carry data.
    #[error("self-test of provider {provider} failed: {reason}")]
    SelfTest {
        /// The provider under test.
        provider: Provider,
        /// What went wrong.
        reason: String,
    },
    /// The system's random source failed, so no memory key can be made.
    #[error("no random memory key can be made: {reason}")]
    Random {
        /// The source's own words.
        reason: String,
    },
    /// The peer's data-plane metadata is not acceptable.
    #[error("the peer's data-plane metadata is refused: {0}")]
    Metadata(#[from] MetadataError),
    /// The peer's region is not one we can write to.
    #[error("the peer's region is refused: {reason}")]
    PeerRegion {
        /// What is wrong.
        reason: String,
    },
    /// The right is not in the state that the call needs.
    #[error("right {right} {reason}")]
    RightState {
        /// The right named in the call.
        right: RightId,
        /// What it is or is not.
        reason: &'static str,
    },
}

fn tail(advice: Option<&'static str>) -> String {
    advice.map_or_else(String::new, |advice| format!("; {advice}"))
}

/// What is known to help, by call and `errno`.
pub(crate) fn advice(call: &str, code: i32) -> Option<&'static str> {
    match (call, code) {
        ("fi_getinfo", libc::ENODATA) => Some(
            "this libfabric has no such provider for the bind address: check that the address belongs to this \
             host and that the provider is listed by `kvpeer info`",
        ),
        ("fi_mr_reg", libc::ENOMEM) => {
            Some("raise the locked-memory limit (`ulimit -l`), or use a smaller region")
        }
        ("fi_endpoint" | "fi_enable" | "fi_cq_open", libc::EMFILE) => {
            Some("raise the limit of open files (`ulimit -n`)")
        }
        ("fi_writemsg", libc::ECANCELED | libc::ENOTCONN | libc::ECONNRESET | libc::EPIPE) => Some(
            "the connection to the peer broke, or the peer refused the key: this right cannot write any more, \
             close it and open a new one",
        ),
        ("fi_writemsg", libc::ECONNREFUSED) => Some("the peer's endpoint is closed"),
        _ => None,
    }
}
