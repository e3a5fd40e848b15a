//! One descriptor that stands for all completion queues of a plane.
//!
//! Rights come and go, and the kernel gives the descriptor numbers of closed queues to new ones. A caller that
//! registered the queues' own descriptors with its poller would have to follow every change; so it gets one
//! epoll descriptor that stays the same for the life of the plane.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

/// An epoll instance over the queues' descriptors, level-triggered.
pub(crate) struct WaitSet {
    epoll: OwnedFd,
}

impl WaitSet {
    pub(crate) fn new() -> io::Result<Self> {
        // SAFETY: the call has no preconditions.
        let fd = check(unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) })?;
        // SAFETY: the descriptor was just made and nothing else owns it.
        Ok(Self { epoll: unsafe { OwnedFd::from_raw_fd(fd) } })
    }

    pub(crate) fn fd(&self) -> RawFd {
        self.epoll.as_raw_fd()
    }

    pub(crate) fn add(&self, fd: RawFd) -> io::Result<()> {
        let mut interest = libc::epoll_event { events: libc::EPOLLIN.cast_unsigned(), u64: 0 };
        // SAFETY: the epoll descriptor is ours and open; the kernel checks `fd` and copies `interest`.
        check(unsafe { libc::epoll_ctl(self.fd(), libc::EPOLL_CTL_ADD, fd, &raw mut interest) }).map(drop)
    }

    /// Call before `fd` is closed. A descriptor that is not in the set is left alone.
    pub(crate) fn remove(&self, fd: RawFd) {
        // SAFETY: the epoll descriptor is ours and open; deletion takes no event.
        unsafe { libc::epoll_ctl(self.fd(), libc::EPOLL_CTL_DEL, fd, std::ptr::null_mut()) };
    }
}

fn check(answer: i32) -> io::Result<i32> {
    if answer < 0 { Err(io::Error::last_os_error()) } else { Ok(answer) }
}
