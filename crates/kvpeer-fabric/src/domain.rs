//! An opened libfabric provider, shared by all rights of a plane.

use std::ffi::{CStr, CString, c_char};
use std::net::IpAddr;
use std::ptr::{self, NonNull};

use kvpeer_fabric_sys as sys;

use crate::error::{FabricError, advice};
use crate::metadata::{AddressFormat, Addressing};
use crate::provider::Provider;

/// Fabric and domain. Closed when the last endpoint made from it is gone.
pub(crate) struct Domain {
    raw: NonNull<sys::kvf_fabric>,
    provider: Provider,
    traits: sys::kvf_traits,
}

// SAFETY: the domain is opened with FI_THREAD_SAFE, so libfabric serialises calls on it from any thread, and the
// handle itself is only read after `open`.
unsafe impl Send for Domain {}
// SAFETY: as above.
unsafe impl Sync for Domain {}

impl Domain {
    pub(crate) fn open(provider: Provider, bind: IpAddr) -> Result<Self, FabricError> {
        let name = c_string(provider.name())?;
        let node = if provider.has_addresses() { Some(c_string(&bind.to_string())?) } else { None };
        let (mut raw, mut call) = (ptr::null_mut(), ptr::null());
        // SAFETY: the strings are NUL-terminated and outlive the call (which copies them); both out-pointers are
        // valid for writes.
        let code = unsafe {
            sys::kvf_fabric_open(
                name.as_ptr(),
                node.as_ref().map_or(ptr::null(), |node| node.as_ptr()),
                provider.delivery_complete().into(),
                &raw mut raw,
                &raw mut call,
            )
        };
        let Some(raw) = NonNull::new(raw) else {
            return Err(failed(call_name(call), provider, code, 0));
        };
        let mut traits = sys::kvf_traits::default();
        // SAFETY: `raw` was just opened, and `traits` is valid for writes.
        unsafe { sys::kvf_fabric_traits(raw.as_ptr(), &raw mut traits) };
        Ok(Self { raw, provider, traits })
    }

    pub(crate) fn provider(&self) -> Provider {
        self.provider
    }

    /// For calls that make something from the domain; the handle lives as long as `self`.
    pub(crate) fn raw(&self) -> NonNull<sys::kvf_fabric> {
        self.raw
    }

    pub(crate) fn addressing(&self) -> Addressing {
        if self.traits.virtual_addresses == 0 { Addressing::Offset } else { Addressing::Virtual }
    }

    pub(crate) fn address_format(&self) -> AddressFormat {
        // SAFETY: these statics are constants of the shim, initialised at load time.
        let (v4, v6, text) = unsafe { (sys::kvf_format_in, sys::kvf_format_in6, sys::kvf_format_str) };
        match self.traits.address_format {
            format if format == v4 => AddressFormat::Ipv4,
            format if format == v6 => AddressFormat::Ipv6,
            format if format == text => AddressFormat::Text,
            _ => AddressFormat::Opaque,
        }
    }

    /// Whether any queue's descriptor wakes for what happens on any endpoint of the domain. So it is with the
    /// native `tcp` of libfabric 1.18 and later, where one epoll instance of the domain holds all sockets and
    /// every queue's descriptor contains it; the layered `tcp;ofi_rxm` of 1.17 has separate ones.
    pub(crate) fn shares_wake_ups(&self) -> bool {
        // SAFETY: the domain is open; the name is NUL-terminated and lives as long as the domain.
        let name = unsafe { sys::kvf_fabric_name(self.raw.as_ptr()) };
        // SAFETY: as said above.
        let name = unsafe { CStr::from_ptr(name) };
        self.provider == Provider::Tcp && name.to_bytes() == b"tcp"
    }

    /// Bytes one write may carry.
    pub(crate) fn max_message(&self) -> u64 {
        self.traits.max_message
    }

    /// Writes an endpoint can have in flight.
    pub(crate) fn transmit_depth(&self) -> usize {
        usize::try_from(self.traits.transmit_depth).unwrap_or(usize::MAX)
    }

    /// Local pieces one write may gather.
    pub(crate) fn max_pieces(&self) -> usize {
        usize::try_from(self.traits.iov_limit).unwrap_or(usize::MAX).clamp(1, sys::KVF_MAX_PIECES)
    }

    /// The bits a memory key may have; 0 when the provider chooses keys itself.
    pub(crate) fn key_mask(&self) -> u64 {
        match (self.traits.provider_keys, self.traits.key_bytes) {
            (0, bytes @ 1..8) => (1 << (bytes * 8)) - 1,
            (0, _) => u64::MAX,
            (_, _) => 0,
        }
    }
}

impl Drop for Domain {
    fn drop(&mut self) {
        // SAFETY: endpoints hold an `Arc` of their domain, so none is left; the handle is not used again. An
        // error leaves objects of libfabric behind, which nothing refers to.
        unsafe { sys::kvf_fabric_close(self.raw.as_ptr()) };
    }
}

/// The error of a libfabric call; `code` of either sign.
pub(crate) fn failed(call: &'static str, provider: Provider, code: i32, detail: i32) -> FabricError {
    let code = code.saturating_abs();
    // SAFETY: any code is accepted.
    let text = unsafe { sys::kvf_strerror(code) };
    // SAFETY: the answer is a NUL-terminated string (fi_errno(3)), copied before a later call could overwrite it.
    let text = unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned();
    FabricError::Call { call, provider, code, detail, text, advice: advice(call, code) }
}

/// The name that the shim left in a `call` out-pointer.
pub(crate) fn call_name(call: *const c_char) -> &'static str {
    if call.is_null() {
        return "libfabric";
    }
    // SAFETY: the shim only stores string literals there, which are NUL-terminated and live for ever.
    unsafe { CStr::from_ptr(call) }.to_str().unwrap_or("libfabric")
}

fn c_string(text: &str) -> Result<CString, FabricError> {
    CString::new(text).map_err(|_| FabricError::Config { reason: format!("{text:?} contains a NUL byte") })
}
