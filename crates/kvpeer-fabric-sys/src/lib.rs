//! A flat C shim over libfabric (`shim/kvf.c`), declared for Rust.
//!
//! Most of libfabric's API is `static inline` functions over vtables. The shim makes the few that kvpeer needs
//! ordinary functions with opaque handles, so that neither libclang nor any libfabric struct layout is needed
//! here. It holds no policy; `kvpeer-fabric` is the safe face. What each function does is said in `shim/kvf.h`.
//!
//! Built against the system's headers, found by pkg-config: 1.17 or newer. A binary built against 1.17 also
//! runs on 2.x libraries; one built against 2.x is refused by the 1.17 loader (symbol version `FABRIC_1.9`).
//! So distributors build against the oldest libfabric they mean to support.

#![allow(unsafe_code, reason = "this crate is the foreign-function boundary")]
#![allow(missing_docs, reason = "the names and their meaning are documented in shim/kvf.h")]
#![allow(non_camel_case_types, non_upper_case_globals, reason = "the names of the C shim")]

use std::ffi::{c_char, c_int, c_void};
use std::marker::{PhantomData, PhantomPinned};

/// An opened provider: description, fabric and domain.
#[repr(C)]
pub struct kvf_fabric {
    _opaque: [u8; 0],
    _not_send: PhantomData<(*mut u8, PhantomPinned)>,
}

/// Endpoint, completion queue, address table and memory registration of one peer.
#[repr(C)]
pub struct kvf_right {
    _opaque: [u8; 0],
    _not_send: PhantomData<(*mut u8, PhantomPinned)>,
}

#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct kvf_traits {
    pub max_message: u64,
    pub transmit_depth: u64,
    pub iov_limit: u64,
    pub key_bytes: u64,
    pub address_format: u32,
    pub virtual_addresses: u8,
    pub provider_keys: u8,
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct kvf_completion {
    pub context: *mut c_void,
    pub error: i32,
    pub provider_error: i32,
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct kvf_piece {
    pub base: *mut c_void,
    pub len: usize,
}

// shim/kvf.c asserts the same sizes.
const _: () = assert!(size_of::<kvf_traits>() == 40);
const _: () = assert!(size_of::<kvf_completion>() == 16);
const _: () = assert!(size_of::<kvf_piece>() == 16);

pub const KVF_MAX_PIECES: usize = 4;
pub const KVF_CONTEXT_BYTES: usize = 64;
pub const KVF_NAME_MAX: usize = 255;

unsafe extern "C" {
    pub static kvf_eagain: i32;
    pub static kvf_ekey_taken: i32;
    pub static kvf_format_in: u32;
    pub static kvf_format_in6: u32;
    pub static kvf_format_str: u32;

    pub fn kvf_version() -> u32;
    pub fn kvf_strerror(code: i32) -> *const c_char;
    pub fn kvf_visit_providers(
        visit: unsafe extern "C" fn(arg: *mut c_void, name: *const c_char, version: u32),
        arg: *mut c_void,
    ) -> i32;

    pub fn kvf_fabric_open(
        provider: *const c_char,
        node: *const c_char,
        delivery_complete: c_int,
        out: *mut *mut kvf_fabric,
        call: *mut *const c_char,
    ) -> i32;
    pub fn kvf_fabric_traits(fabric: *const kvf_fabric, out: *mut kvf_traits);
    pub fn kvf_fabric_name(fabric: *const kvf_fabric) -> *const c_char;
    pub fn kvf_fabric_close(fabric: *mut kvf_fabric) -> i32;

    pub fn kvf_right_open(
        fabric: *mut kvf_fabric,
        base: *mut c_void,
        len: usize,
        key: u64,
        queue_depth: usize,
        out: *mut *mut kvf_right,
        call: *mut *const c_char,
    ) -> i32;
    pub fn kvf_right_fence(right: *mut kvf_right) -> i32;
    pub fn kvf_right_close(right: *mut kvf_right, call: *mut *const c_char) -> i32;

    pub fn kvf_right_name(right: *const kvf_right, name: *mut c_void, len: *mut usize) -> i32;
    pub fn kvf_right_key(right: *const kvf_right) -> u64;
    pub fn kvf_right_fd(right: *const kvf_right) -> c_int;
    pub fn kvf_right_trywait(right: *const kvf_right) -> i32;
    pub fn kvf_right_insert(right: *mut kvf_right, name: *const c_void, address: *mut u64) -> i32;

    pub fn kvf_right_write(
        right: *mut kvf_right,
        pieces: *const kvf_piece,
        count: usize,
        address: u64,
        remote: u64,
        key: u64,
        context: *mut c_void,
        more: c_int,
    ) -> i32;
    pub fn kvf_right_poll(right: *mut kvf_right, out: *mut kvf_completion, max: usize) -> i64;
}
