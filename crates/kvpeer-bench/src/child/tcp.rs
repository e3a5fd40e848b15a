//! The yardstick of one plain TCP stream: blocks one after the other, each acknowledged with one byte, at most
//! eight unacknowledged.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::time::Instant;

use rustix::net::sockopt::{set_socket_recv_buffer_size, set_socket_send_buffer_size};

use crate::cut::Cut;
use crate::memory::Memory;
use crate::stop::{Outcome, stop};

/// Blocks under way.
const WINDOW: usize = 8;
/// Bytes.
const SOCKET_BUFFER: usize = 4 << 20;

#[derive(Default)]
pub(super) struct Tcp {
    listener: Option<TcpListener>,
    stream: Option<TcpStream>,
}

impl Tcp {
    pub(super) fn listen(&mut self) -> Outcome<u16> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        // Accepted sockets inherit it, and only then is the window scaled for it.
        enlarge(&listener)?;
        let port = listener.local_addr()?.port();
        self.listener = Some(listener);
        Ok(port)
    }

    pub(super) fn accept(&mut self) -> Outcome<()> {
        let listener = self.listener.as_ref().ok_or_else(|| stop("nobody listens for the raw stream"))?;
        self.stream = Some(prepared(listener.accept()?.0)?);
        Ok(())
    }

    pub(super) fn connect(&mut self, port: u16) -> Outcome<()> {
        self.stream = Some(prepared(TcpStream::connect((Ipv4Addr::LOCALHOST, port))?)?);
        Ok(())
    }

    /// Seconds from the first byte until the last acknowledgement.
    pub(super) fn send(&mut self, memory: &Memory, cut: &Cut) -> Outcome<f64> {
        let stream = self.stream()?;
        let begun = Instant::now();
        let mut open = 0;
        for (from, _) in cut.pairs() {
            if open == WINDOW {
                stream.read_exact(&mut [0])?;
                open -= 1;
            }
            memory.send(stream.as_fd(), from, cut.block_len)?;
            open += 1;
        }
        stream.read_exact(&mut [0; WINDOW][..open])?;
        Ok(begun.elapsed().as_secs_f64())
    }

    pub(super) fn receive(&mut self, memory: &Memory, cut: &Cut) -> Outcome<()> {
        let stream = self.stream()?;
        for (_, to) in cut.pairs() {
            memory.receive(stream.as_fd(), to, cut.block_len)?;
            stream.write_all(&[1])?;
        }
        Ok(())
    }

    fn stream(&mut self) -> Outcome<&mut TcpStream> {
        self.stream.as_mut().ok_or_else(|| stop("there is no raw stream yet"))
    }
}

fn prepared(stream: TcpStream) -> Outcome<TcpStream> {
    stream.set_nodelay(true)?;
    enlarge(&stream)?;
    Ok(stream)
}

/// Sets both buffers. Where the system's limit is lower it would give less, and less than its own tuning: then they
/// are left alone.
fn enlarge(socket: &impl AsFd) -> Outcome<()> {
    let allowed = |name: &str| {
        let limit = std::fs::read_to_string(format!("/proc/sys/net/core/{name}"));
        limit
            .ok()
            .and_then(|text| text.trim().parse().ok())
            .is_some_and(|limit: usize| limit >= SOCKET_BUFFER)
    };
    if allowed("wmem_max") {
        set_socket_send_buffer_size(socket, SOCKET_BUFFER)?;
    }
    if allowed("rmem_max") {
        set_socket_recv_buffer_size(socket, SOCKET_BUFFER)?;
    }
    Ok(())
}
