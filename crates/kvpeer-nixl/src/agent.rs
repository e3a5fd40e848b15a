//! One agent of NIXL's: its worker, its key to our region, and its WRITEs.

#![allow(unsafe_code)]

use std::ffi::{CStr, CString, c_char};
use std::ptr::{null, null_mut};
use std::sync::Arc;

use kvpeer::Region;

use crate::capi::{self, AgentConfig, Api, Handle, NixlError, check};

/// Lives and dies on the thread that made it.
pub(crate) struct Agent {
    api: Arc<Api>,
    handle: Handle,
    /// NIXL's own names for what it owns; the agent owns what is behind them.
    backend: Handle,
    registered: Handle,
    /// Peers write into it until the agent is gone.
    _region: Arc<Region>,
}

/// A part of memory: from this address, that many bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Run {
    pub(crate) from: usize,
    pub(crate) to: usize,
    pub(crate) len: usize,
}

/// A WRITE.
pub(crate) struct Request(Handle);

/// How far a WRITE is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Progress {
    UnderWay,
    Done,
}

impl Agent {
    /// A new agent, by a name that no other one has, with the whole region registered.
    pub(crate) fn new(
        api: &Arc<Api>,
        name: &str,
        transports: &str,
        region: &Arc<Region>,
    ) -> Result<Self, NixlError> {
        let config = AgentConfig {
            // What peers write over TCP lands only when somebody looks after the sockets.
            enable_prog_thread: true,
            enable_listen_thread: false,
            listen_port: 0,
            thread_sync: capi::SYNC_STRICT,
            num_workers: 1,
            pthr_delay_us: 0,
            lthr_delay_us: 100_000,
            capture_telemetry: false,
        };
        let name = text(name);
        let mut handle = null_mut();
        // SAFETY: a C string, a configuration of the library's layout, and a place for the handle.
        let status =
            unsafe { (api.create_configured_agent)(name.as_ptr(), &raw const config, &raw mut handle) };
        check("create_agent", status)?;
        // From here on dropping it frees what there is.
        let mut agent = Self {
            api: Arc::clone(api),
            handle,
            backend: null_mut(),
            registered: null_mut(),
            _region: Arc::clone(region),
        };
        agent.start_ucx(transports)?;
        agent.register(region)?;
        Ok(agent)
    }

    fn start_ucx(&mut self, transports: &str) -> Result<(), NixlError> {
        let mut params = null_mut();
        // SAFETY: a place for the handle.
        check("create_params", unsafe { (self.api.create_params)(&raw mut params) })?;
        let (name, value) = (text("engine_config"), text(&format!("TLS={transports}")));
        // SAFETY: the handle just made, and two C strings, which are copied.
        let added = unsafe { (self.api.params_add)(params, name.as_ptr(), value.as_ptr()) };
        let plugin = text("UCX");
        let created = check("params_add", added).and_then(|()| {
            let backend = &raw mut self.backend;
            // SAFETY: live handles, a C string, and a place for the new handle.
            let status = unsafe { (self.api.create_backend)(self.handle, plugin.as_ptr(), params, backend) };
            check("create_backend(UCX)", status)
        });
        // SAFETY: made above, used no more.
        unsafe { (self.api.destroy_params)(params) };
        created
    }

    fn register(&mut self, region: &Region) -> Result<(), NixlError> {
        let list = &raw mut self.registered;
        // SAFETY: a place for the handle.
        check("create_reg_dlist", unsafe { (self.api.create_reg_dlist)(capi::DRAM, list) })?;
        let base = region.base().addr().get();
        // SAFETY: the list just made; no metadata.
        let status =
            unsafe { (self.api.reg_dlist_add_desc)(self.registered, base, region.len(), 0, null(), 0) };
        check("reg_dlist_add_desc", status)?;
        // SAFETY: live handles; the memory is the region's, which outlives the agent.
        let status = unsafe { (self.api.register_mem)(self.handle, self.registered, null_mut()) };
        check("register_mem", status)
    }

    /// What a peer's agent needs to write to us.
    pub(crate) fn metadata(&self) -> Result<Vec<u8>, NixlError> {
        let (mut bytes, mut len) = (null_mut(), 0);
        // SAFETY: a live agent, and places for the bytes and their number.
        let status = unsafe { (self.api.get_local_md)(self.handle, &raw mut bytes, &raw mut len) };
        check("get_local_md", status)?;
        Ok(capi::take_bytes(bytes, len))
    }

    /// Gets ready to write to the agent that this metadata describes; returns its name.
    pub(crate) fn meet(&self, metadata: &[u8]) -> Result<CString, NixlError> {
        let mut name: *mut c_char = null_mut();
        let (bytes, len) = (metadata.as_ptr().cast(), metadata.len());
        // SAFETY: a live agent, that many bytes, and a place for the name.
        let status = unsafe { (self.api.load_remote_md)(self.handle, bytes, len, &raw mut name) };
        check("load_remote_md", status)?;
        let name = capi::take_string(name);
        // SAFETY: a live agent and a C string.
        let status = unsafe { (self.api.agent_make_connection)(self.handle, name.as_ptr(), null_mut()) };
        check("make_connection", status)?;
        Ok(name)
    }

    /// A WRITE of these parts to the peer's memory, which does not begin before [`post`](Self::post).
    pub(crate) fn prepare(&self, peer: &CStr, runs: &[Run]) -> Result<Request, NixlError> {
        let source = List::new(&self.api, runs.iter().map(|run| (run.from, run.len)))?;
        let target = List::new(&self.api, runs.iter().map(|run| (run.to, run.len)))?;
        let (name, mut request) = (peer.as_ptr(), null_mut());
        // SAFETY: live handles, a C string, and a place for the request. NIXL checks that the parts are registered.
        let status = unsafe {
            (self.api.create_xfer_req)(
                self.handle,
                capi::WRITE,
                source.handle,
                target.handle,
                name,
                &raw mut request,
                null_mut(),
            )
        };
        check("create_xfer_req", status)?;
        Ok(Request(request))
    }

    pub(crate) fn post(&self, request: &Request) -> Result<Progress, NixlError> {
        // SAFETY: a live agent and its request.
        progress("post_xfer_req", unsafe { (self.api.post_xfer_req)(self.handle, request.0, null_mut()) })
    }

    pub(crate) fn progress(&self, request: &Request) -> Result<Progress, NixlError> {
        // SAFETY: a live agent and its request.
        progress("get_xfer_status", unsafe { (self.api.get_xfer_status)(self.handle, request.0) })
    }

    /// Forgets a request. One that is under way is not stopped by this; only the agent's end stops it.
    pub(crate) fn release(&self, request: Request) {
        // SAFETY: a live agent and its request. A refusal leaves the request to the agent's end.
        let released = unsafe { (self.api.release_xfer_req)(self.handle, request.0) };
        if released == 0 {
            // SAFETY: only its shell is left, and nobody else has it.
            unsafe { (self.api.destroy_xfer_req)(request.0) };
        }
    }
}

impl Drop for Agent {
    /// Closes every way into the region that this agent opened.
    fn drop(&mut self) {
        if !self.registered.is_null() {
            // SAFETY: live handles. What was not registered is refused.
            unsafe { (self.api.deregister_mem)(self.handle, self.registered, null_mut()) };
            // SAFETY: made by us, used no more.
            unsafe { (self.api.destroy_reg_dlist)(self.registered) };
        }
        if !self.backend.is_null() {
            // SAFETY: only the handle; the engine behind it is the agent's.
            unsafe { (self.api.destroy_backend)(self.backend) };
        }
        // SAFETY: made by us, used no more. Its worker and its sockets end here.
        unsafe { (self.api.destroy_agent)(self.handle) };
    }
}

/// A list of parts of memory.
struct List<'a> {
    api: &'a Api,
    handle: Handle,
}

impl<'a> List<'a> {
    fn new(api: &'a Api, parts: impl Iterator<Item = (usize, usize)>) -> Result<Self, NixlError> {
        let mut handle = null_mut();
        // SAFETY: a place for the handle.
        check("create_xfer_dlist", unsafe { (api.create_xfer_dlist)(capi::DRAM, &raw mut handle) })?;
        let list = Self { api, handle };
        for (at, len) in parts {
            // SAFETY: the list just made. Addresses are only noted down.
            check("xfer_dlist_add_desc", unsafe { (api.xfer_dlist_add_desc)(list.handle, at, len, 0) })?;
        }
        Ok(list)
    }
}

impl Drop for List<'_> {
    fn drop(&mut self) {
        // SAFETY: made by us, used no more.
        unsafe { (self.api.destroy_xfer_dlist)(self.handle) };
    }
}

fn progress(call: &'static str, status: capi::Status) -> Result<Progress, NixlError> {
    match status {
        0 => Ok(Progress::Done),
        capi::IN_PROGRESS => Ok(Progress::UnderWay),
        status => Err(NixlError::Call { call, status }),
    }
}

/// Our own texts have no zero bytes.
fn text(text: &str) -> CString {
    CString::new(text).unwrap_or_default()
}
