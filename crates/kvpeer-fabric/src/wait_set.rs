//! One descriptor that stands for all completion queues of a plane.
//!
//! Rights come and go, and the kernel gives the descriptor numbers of closed queues to new ones. A caller that
//! registered the queues' own descriptors with its poller would have to follow every change; so it gets one
//! epoll descriptor that stays the same for the life of the plane.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

/// An epoll instance over queues' descriptors, level-triggered.
pub(crate) struct WaitSet {
    epoll: OwnedFd,
    watched: Vec<RawFd>,
    /// One watched descriptor is enough, since each wakes for all.
    one_for_all: bool,
}

impl WaitSet {
    /// `one_for_all`: the queues share their wake-ups, so only one of them is watched at a time. Watching all would
    /// run into a limit of the kernel: no descriptor may reach an epoll instance over more than 100 paths (50 if
    /// that is nested in another one).
    pub(crate) fn new(one_for_all: bool) -> io::Result<Self> {
        // SAFETY: the call has no preconditions.
        let fd = check(unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) })?;
        // SAFETY: the descriptor was just made and nothing else owns it.
        let epoll = unsafe { OwnedFd::from_raw_fd(fd) };
        Ok(Self { epoll, watched: Vec::new(), one_for_all })
    }

    pub(crate) fn fd(&self) -> RawFd {
        self.epoll.as_raw_fd()
    }

    /// Whether the one descriptor that was watched for all is gone, and another must be added.
    pub(crate) fn is_blind(&self) -> bool {
        self.one_for_all && self.watched.is_empty()
    }

    /// Whether a watched descriptor is readable right now. What is readable already makes no new edge, so someone
    /// who sleeps on edges must not sleep then: libfabric's own check does not cover data that waits in sockets.
    pub(crate) fn is_readable(&self) -> bool {
        let mut event = libc::epoll_event { events: 0, u64: 0 };
        // SAFETY: the epoll descriptor is ours and open, and there is room for one event.
        unsafe { libc::epoll_wait(self.fd(), &raw mut event, 1, 0) > 0 }
    }

    /// Watches a queue's descriptor, if that is needed.
    pub(crate) fn add(&mut self, fd: RawFd) -> io::Result<()> {
        if !self.one_for_all || self.watched.is_empty() {
            let mut interest = libc::epoll_event { events: libc::EPOLLIN.cast_unsigned(), u64: 0 };
            // SAFETY: the epoll descriptor is ours and open; the kernel checks `fd` and copies `interest`.
            check(unsafe { libc::epoll_ctl(self.fd(), libc::EPOLL_CTL_ADD, fd, &raw mut interest) })?;
            self.watched.push(fd);
        }
        Ok(())
    }

    /// Call before `fd` is closed. See `is_blind`.
    pub(crate) fn remove(&mut self, fd: RawFd) {
        if let Some(at) = self.watched.iter().position(|watched| *watched == fd) {
            self.watched.swap_remove(at);
            // SAFETY: the epoll descriptor is ours and open; deletion takes no event.
            unsafe { libc::epoll_ctl(self.fd(), libc::EPOLL_CTL_DEL, fd, std::ptr::null_mut()) };
        }
    }
}

fn check(answer: i32) -> io::Result<i32> {
    if answer < 0 { Err(io::Error::last_os_error()) } else { Ok(answer) }
}
