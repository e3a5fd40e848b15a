//! NIXL's C interface, as far as it is used here, found at run time.
//!
//! The declarations follow `wrapper.h` of the crate nixl-sys 1.5.2 (Apache-2.0), which the library implements.

#![allow(unsafe_code)]

use std::ffi::{CStr, CString, c_char, c_int, c_uint, c_void};
use std::io::Write as _;
use std::sync::atomic::{AtomicBool, Ordering};

/// The name by which the dynamic loader looks for the library.
pub const DEFAULT_LIBRARY: &str = "libnixl_capi.so";

/// Why something of NIXL's does not work.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum NixlError {
    /// It is not on this machine, or not where it was looked for.
    #[error(
        "NIXL cannot be used ({why}): `pip install nixl`, and name its libnixl_capi.so (in site-packages, \
         .nixl_cu12.mesonpy.libs or the like)"
    )]
    Library {
        /// What the dynamic loader says.
        why: String,
    },
    /// A call failed.
    #[error("NIXL: {call} failed with status {status}")]
    Call {
        /// Which, without its prefix.
        call: &'static str,
        /// As in NIXL's C interface.
        status: i32,
    },
    /// A peer's region lies where no memory can be.
    #[error("the peer's region does not fit an address space")]
    Region,
}

/// An object of NIXL's.
pub(crate) type Handle = *mut c_void;

/// 0 is success, 1 is "in progress", the rest are errors.
pub(crate) type Status = c_int;

pub(crate) const IN_PROGRESS: Status = 1;
/// Host memory.
pub(crate) const DRAM: c_int = 0;
pub(crate) const WRITE: c_int = 1;
/// Every call of an agent takes its lock.
pub(crate) const SYNC_STRICT: c_int = 1;

#[repr(C)]
pub(crate) struct AgentConfig {
    pub(crate) enable_prog_thread: bool,
    pub(crate) enable_listen_thread: bool,
    pub(crate) listen_port: c_int,
    pub(crate) thread_sync: c_int,
    pub(crate) num_workers: c_uint,
    pub(crate) pthr_delay_us: u64,
    pub(crate) lthr_delay_us: u64,
    pub(crate) capture_telemetry: bool,
}

macro_rules! functions {
    ($($name:ident($($arg:ty),*);)*) => {
        /// The functions, each of the library's name without `nixl_capi_`.
        pub(crate) struct Api {
            $(pub(crate) $name: unsafe extern "C" fn($($arg),*) -> Status,)*
        }

        impl Api {
            /// Loads the library for good: it starts threads of its own, so it is never unloaded.
            pub(crate) fn load(path: &str) -> Result<Self, NixlError> {
                let library = open(path)?;
                Ok(Self {
                    $($name: {
                        let found = symbol(library, concat!("nixl_capi_", stringify!($name)))?;
                        // SAFETY: the library's function of this name has this type.
                        unsafe { std::mem::transmute::<*mut c_void, unsafe extern "C" fn($($arg),*) -> Status>(found) }
                    },)*
                })
            }
        }
    };
}

functions! {
    create_configured_agent(*const c_char, *const AgentConfig, *mut Handle);
    destroy_agent(Handle);
    create_params(*mut Handle);
    params_add(Handle, *const c_char, *const c_char);
    destroy_params(Handle);
    create_backend(Handle, *const c_char, Handle, *mut Handle);
    destroy_backend(Handle);
    create_reg_dlist(c_int, *mut Handle);
    reg_dlist_add_desc(Handle, usize, usize, u64, *const c_void, usize);
    destroy_reg_dlist(Handle);
    register_mem(Handle, Handle, Handle);
    deregister_mem(Handle, Handle, Handle);
    get_local_md(Handle, *mut *mut c_void, *mut usize);
    load_remote_md(Handle, *const c_void, usize, *mut *mut c_char);
    agent_make_connection(Handle, *const c_char, Handle);
    create_xfer_dlist(c_int, *mut Handle);
    xfer_dlist_add_desc(Handle, usize, usize, u64);
    destroy_xfer_dlist(Handle);
    create_xfer_req(Handle, c_int, Handle, Handle, *const c_char, *mut Handle, Handle);
    post_xfer_req(Handle, Handle, Handle);
    get_xfer_status(Handle, Handle);
    release_xfer_req(Handle, Handle);
    destroy_xfer_req(Handle);
}

static LOADED: AtomicBool = AtomicBool::new(false);

/// Ends the process at once if the library was loaded: destructors of nixl-cu12 1.5.1's UCX plugin crash in an orderly
/// end. For programs, as the last thing that they do.
pub fn leave_if_loaded(code: u8) {
    if LOADED.load(Ordering::Relaxed) {
        let _ = std::io::stdout().flush();
        // SAFETY: ends the process; nothing runs after it.
        unsafe { libc::_exit(c_int::from(code)) };
    }
}

fn open(path: &str) -> Result<Handle, NixlError> {
    let name =
        CString::new(path).map_err(|_| NixlError::Library { why: "its path has a zero byte".into() })?;
    // SAFETY: the name is a C string. The library's initialisers run; it is the operator who says which it is.
    let library = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
    if library.is_null() {
        return Err(NixlError::Library { why: last_error() });
    }
    LOADED.store(true, Ordering::Relaxed);
    Ok(library)
}

fn symbol(library: Handle, name: &str) -> Result<Handle, NixlError> {
    let text = CString::new(name).map_err(|_| NixlError::Library { why: name.to_owned() })?;
    // SAFETY: `library` was opened and is never closed; the name is a C string.
    let found = unsafe { libc::dlsym(library, text.as_ptr()) };
    if found.is_null() {
        return Err(NixlError::Library { why: format!("it has no {name}; 1.5 is tested") });
    }
    Ok(found)
}

fn last_error() -> String {
    // SAFETY: has no preconditions.
    let text = unsafe { libc::dlerror() };
    if text.is_null() {
        return "it cannot be loaded".into();
    }
    // SAFETY: a C string that is this thread's until its next call of the dynamic loader.
    unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
}

/// A status that must be success.
pub(crate) fn check(call: &'static str, status: Status) -> Result<(), NixlError> {
    if status == 0 { Ok(()) } else { Err(NixlError::Call { call, status }) }
}

/// Copies and frees a C string that the library made.
pub(crate) fn take_string(text: *mut c_char) -> CString {
    if text.is_null() {
        return CString::default();
    }
    // SAFETY: not null, so it is a C string that the library has given us.
    let copy = unsafe { CStr::from_ptr(text) }.to_owned();
    // SAFETY: made by the library with `strdup`, and used no more.
    unsafe { libc::free(text.cast()) };
    copy
}

/// Copies and frees bytes that the library made.
pub(crate) fn take_bytes(bytes: *mut c_void, len: usize) -> Vec<u8> {
    if bytes.is_null() {
        return Vec::new();
    }
    // SAFETY: the library has given us that many bytes, and nobody else has them.
    let copy = unsafe { std::slice::from_raw_parts(bytes.cast::<u8>(), len) }.to_vec();
    // SAFETY: made by the library with `malloc`, and used no more.
    unsafe { libc::free(bytes) };
    copy
}
