//! The data plane on NIXL, which vLLM's nodes use.
//!
//! [`NixlData`] is a [`DataPlane`](kvpeer::plane::DataPlane). NIXL is a C++ library with a C interface,
//! `libnixl_capi.so`; it is looked for when the plane is opened, so nothing of it is needed to build. Without it
//! there is [`NixlError::Library`], which says what to install.
//!
//! Each right is an *agent* of NIXL's own: a UCX worker, its sockets and its keys. So the end of one right ends one
//! peer's access and nobody else's. A thread for each right owns its agent, so that neither the registration of a
//! peer nor the end of an agent holds up the node.
//!
//! # What closes the door
//!
//! Measured (`docs/vllm.md`): with UCX's `tcp` transport a WRITE lands only while the *receiver's* worker runs, so
//! nothing lands once the agent is destroyed: [`Transports::Tcp`], the default, is fenced. With shared-memory
//! transports (`cma`) the writer's process writes by itself, and goes on after the receiver's agent is gone;
//! [`Transports::Ucx`] never claims a fence.

// The C interface is the one place of this crate that needs it.
#![deny(unsafe_code)]

mod agent;
mod capi;
mod plane;
mod right;

pub use capi::{DEFAULT_LIBRARY, NixlError, leave_if_loaded};
pub use plane::NixlData;

/// Environment variables that a program should set, where the user has not, before it starts threads: UCX writes its
/// log to standard output otherwise, and tells every broken connection, which is told as an error of ours.
pub const RECOMMENDED_ENV: [(&str, &str); 3] =
    [("UCX_LOG_FILE", "stderr"), ("UCX_LOG_LEVEL", "fatal"), ("NIXL_LOG_LEVEL", "FATAL")];

/// The entries of [`RECOMMENDED_ENV`] that are not set.
#[must_use]
pub fn missing_env() -> Vec<(&'static str, &'static str)> {
    RECOMMENDED_ENV.into_iter().filter(|(name, _)| std::env::var_os(name).is_none()).collect()
}

/// How the plane is set up.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NixlConfig {
    /// `libnixl_capi.so`: a name for the dynamic loader, or a path.
    pub library: String,
    /// What WRITEs travel over.
    pub transports: Transports,
}

impl Default for NixlConfig {
    fn default() -> Self {
        Self { library: DEFAULT_LIBRARY.to_owned(), transports: Transports::Tcp }
    }
}

/// What UCX may use. Peers write over what both sides allow, so ours decides for both.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub enum Transports {
    /// TCP: any network, and the end of a right is a proof that nothing lands any more.
    #[default]
    Tcp,
    /// As UCX names them in `UCX_TLS`. The end of a right proves nothing: blocks of a load that failed stay
    /// quarantined.
    Ucx(String),
}

impl Transports {
    /// UCX's list.
    fn as_str(&self) -> &str {
        match self {
            Self::Tcp => "tcp",
            Self::Ucx(list) => list,
        }
    }

    /// Whether nothing lands any more once an agent is gone. `UCX_TLS` in the environment wins over our list, so
    /// it decides when it is there.
    fn is_fenced(&self, environment: Option<&str>) -> bool {
        environment.unwrap_or(self.as_str()) == "tcp"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// END-11: only TCP has been seen to fence, and the environment's word counts.
    #[test]
    fn only_tcp_is_a_fence() {
        let ucx = Transports::Ucx("cma,tcp".into());
        assert!(Transports::Tcp.is_fenced(None));
        assert!(!ucx.is_fenced(None));
        assert!(!Transports::Tcp.is_fenced(Some("all")));
        assert!(ucx.is_fenced(Some("tcp")));
    }

    #[test]
    fn without_the_library_it_says_what_to_install() {
        let region = kvpeer::Region::new(1, 1).expect("a byte");
        let config = NixlConfig { library: "/nowhere/libnixl_capi.so".into(), ..NixlConfig::default() };
        let error = NixlData::open(&config, &region).expect_err("there is none").to_string();
        assert!(error.contains("pip install nixl") && !error.contains('\n'), "{error}");
    }
}
