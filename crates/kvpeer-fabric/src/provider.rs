//! Which libfabric providers may carry data, and which are refused.

use std::ffi::{CStr, c_char, c_void};
use std::fmt;
use std::str::FromStr;

use kvpeer_fabric_sys as sys;

use crate::error::FabricError;

/// A provider that kvpeer can use. Parsed from its libfabric name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Provider {
    /// `tcp` (on libfabric 1.x: `tcp;ofi_rxm`). Delivery-complete is honest, closing an endpoint fences.
    #[default]
    Tcp,
    /// `shm`, same host and same trust domain only: the kernel copies between processes without asking the
    /// target (CMA), keys are not checked and **nothing fences**. Every right closes with `fenced: false`, and
    /// memory once exposed is never unmapped by the plane.
    Shm,
}

impl Provider {
    /// Its libfabric name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Tcp => "tcp",
            Self::Shm => "shm",
        }
    }

    /// Whether a closed endpoint proves that no write of the peer can land any more.
    #[must_use]
    pub const fn fences(self) -> bool {
        match self {
            Self::Tcp => true,
            Self::Shm => false,
        }
    }

    /// Whether writes ask for `FI_DELIVERY_COMPLETE`. On shm such writes can hang for ever when the peer dies,
    /// while its default completion already means "copied".
    pub(crate) const fn delivery_complete(self) -> bool {
        match self {
            Self::Tcp => true,
            Self::Shm => false,
        }
    }

    /// Whether endpoints listen on an IP address.
    pub(crate) const fn has_addresses(self) -> bool {
        match self {
            Self::Tcp => true,
            Self::Shm => false,
        }
    }

    /// The tag in the metadata.
    pub(crate) const fn tag(self) -> u8 {
        match self {
            Self::Tcp => 1,
            Self::Shm => 2,
        }
    }
}

impl fmt::Display for Provider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Provider {
    type Err = FabricError;

    fn from_str(name: &str) -> Result<Self, FabricError> {
        if let Some(reason) = refusal(name) {
            return Err(FabricError::RefusedProvider { name: name.to_owned(), reason });
        }
        match name {
            // The layered name is what libfabric 1.x reports for `tcp`.
            "tcp" | "tcp;ofi_rxm" => Ok(Self::Tcp),
            "shm" => Ok(Self::Shm),
            _ => Err(FabricError::UnknownProvider { name: name.to_owned() }),
        }
    }
}

/// Why a provider known to libfabric must not carry data (all measured with libfabric 1.17).
fn refusal(name: &str) -> Option<&'static str> {
    // Layered names (`net;ofi_rxm`) share the fate of what they are layered on.
    match name.split(';').next()? {
        "net" => Some(
            "its delivery-complete completions fire before the data is visible at the target, so success would \
             be a lie; use `tcp`",
        ),
        "udp" => Some("it moves about a hundredth of what `tcp` does; use `tcp`"),
        "sockets" => Some("it is deprecated by its authors and several times slower than `tcp`; use `tcp`"),
        _ => None,
    }
}

/// A provider of the libfabric that is loaded, as it introduces itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProviderInfo {
    /// Its name, with layers (`tcp;ofi_rxm`).
    pub name: String,
    /// Its own version.
    pub version: (u16, u16),
    /// What kvpeer makes of it, with the reason if it is refused.
    pub usable: Result<Provider, FabricError>,
}

/// The providers of the loaded libfabric that offer reliable datagram endpoints with RMA, each once.
///
/// # Errors
/// When libfabric cannot list them; that there is none is not an error.
pub fn providers() -> Result<Vec<ProviderInfo>, FabricError> {
    let mut found: Vec<ProviderInfo> = Vec::new();
    // SAFETY: `collect` is given the vector it expects, borrowed mutably for the duration of the call only.
    let code = unsafe { sys::kvf_visit_providers(collect, (&raw mut found).cast()) };
    if code != 0 && -code != libc::ENODATA {
        return Err(crate::domain::failed("fi_getinfo", Provider::default(), code, 0));
    }
    Ok(found)
}

unsafe extern "C" fn collect(found: *mut c_void, name: *const c_char, version: u32) {
    // SAFETY: `providers` passes a pointer to its vector, and nothing else touches it during the visit.
    let found = unsafe { &mut *found.cast::<Vec<ProviderInfo>>() };
    // SAFETY: libfabric's provider names are NUL-terminated strings that live as long as the listing.
    let name = unsafe { CStr::from_ptr(name) }.to_string_lossy().into_owned();
    if found.iter().all(|known| known.name != name) {
        let usable = name.parse();
        found.push(ProviderInfo { name, version: split(version), usable });
    }
}

/// The version of the loaded libfabric, major and minor. It may be newer than the one built against.
#[must_use]
pub fn version() -> (u16, u16) {
    // SAFETY: the call has no preconditions.
    split(unsafe { sys::kvf_version() })
}

#[expect(clippy::cast_possible_truncation, reason = "each half is 16 bits wide by definition")]
const fn split(version: u32) -> (u16, u16) {
    ((version >> 16) as u16, version as u16)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_parse_or_say_why_not() {
        assert_eq!("tcp".parse(), Ok(Provider::Tcp));
        assert_eq!("shm".parse(), Ok(Provider::Shm));
        for refused in ["net", "net;ofi_rxm", "udp", "udp;ofi_rxd", "sockets"] {
            let error = refused.parse::<Provider>().expect_err("refused");
            assert!(matches!(error, FabricError::RefusedProvider { .. }), "{error}");
        }
        assert!(matches!("verbs".parse::<Provider>(), Err(FabricError::UnknownProvider { .. })));
    }

    #[test]
    fn the_loaded_library_offers_tcp() {
        assert!(version() >= (1, 17));
        let list = providers().expect("list");
        assert!(list.iter().any(|p| p.usable == Ok(Provider::Tcp)), "{list:?}");
    }
}
