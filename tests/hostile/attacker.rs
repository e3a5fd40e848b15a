//! A hostile peer on a real socket: writes what it likes, and reads only if it likes.

use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Shutdown, SocketAddr, TcpStream};

use kvpeer::wire::{
    Compat, Connect, ConnectAck, Decoded, Fingerprint, FrameReader, Incoming, Limits, Msg, PeerName,
    Preamble, RegionInfo, Text,
};
use rustix::net::sockopt::set_socket_recv_buffer_size;
use rustix::net::{AddressFamily, SocketType, bind, connect, socket};

use crate::PATIENCE;

/// From where those come that nobody admits.
pub(crate) const ELSEWHERE: IpAddr = IpAddr::V4(Ipv4Addr::new(127, 0, 0, 66));
pub(crate) const HERE: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

pub(crate) struct Attacker {
    stream: TcpStream,
    reader: FrameReader,
}

impl Attacker {
    /// Connects and says nothing.
    pub(crate) fn silent(to: SocketAddr) -> Self {
        Self::silent_from(HERE, to)
    }

    pub(crate) fn silent_from(from: IpAddr, to: SocketAddr) -> Self {
        let socket = socket(AddressFamily::INET, SocketType::STREAM, None).expect("a socket");
        // Else the system would take megabytes of what is not read.
        set_socket_recv_buffer_size(&socket, 4 << 10).expect("a socket");
        bind(&socket, &SocketAddr::new(from, 0)).expect("every 127.x.y.z is ours");
        connect(&socket, &to).expect("somebody listens");
        let stream = TcpStream::from(socket);
        // A failure guard only: what the tests wait for comes, or the connection ends.
        stream.set_read_timeout(Some(PATIENCE)).expect("a socket");
        stream.set_write_timeout(Some(PATIENCE)).expect("a socket");
        Self { stream, reader: FrameReader::new(Limits::DEFAULT.frame) }
    }

    /// Connects and says that it speaks the protocol.
    pub(crate) fn polite(to: SocketAddr) -> Self {
        Self::polite_from(HERE, to)
    }

    pub(crate) fn polite_from(from: IpAddr, to: SocketAddr) -> Self {
        let mut attacker = Self::silent_from(from, to);
        attacker.try_write(&Preamble::OURS.to_bytes());
        attacker
    }

    /// A session, as whoever it says it is.
    pub(crate) fn admitted(name: &str, to: SocketAddr) -> Self {
        let mut attacker = Self::polite(to);
        let metadata = metadata();
        attacker.say(&Msg::Connect(connect_of(name, 1, &metadata)));
        let incarnation = attacker
            .hear(|msg| if let Msg::Connect(connect) = msg { Some(connect.incarnation) } else { None });
        let incarnation = incarnation.expect("the node answers");
        attacker.say(&Msg::ConnectAck(ConnectAck { incarnation }));
        attacker.hear(|msg| matches!(msg, Msg::ConnectAck(_)).then_some(())).expect("the node acknowledges");
        attacker
    }

    pub(crate) fn say(&mut self, msg: &Msg<'_>) -> bool {
        self.try_write(&frame(msg))
    }

    /// Writes all, or as much as the node takes before it ends the connection; says whether all was taken.
    pub(crate) fn try_write(&mut self, bytes: &[u8]) -> bool {
        match self.stream.write_all(bytes) {
            Ok(()) => true,
            Err(error) if is_end(&error) => false,
            Err(error) => panic!("the node neither reads nor closes: {error}"),
        }
    }

    /// Reads until a message is what is wanted; `None` when the connection ends first.
    pub(crate) fn hear<T>(&mut self, wanted: impl Fn(&Msg<'_>) -> Option<T>) -> Option<T> {
        loop {
            match self.reader.next(Vec::new).expect("the node speaks the protocol") {
                Some(Incoming::Preamble(_)) => {}
                Some(Incoming::Frame(frame)) => {
                    let decoded = frame.decode(&Limits::DEFAULT).expect("the node speaks the protocol");
                    if let Decoded::Msg(msg) = decoded
                        && let Some(found) = wanted(&msg)
                    {
                        return Some(found);
                    }
                }
                None => {
                    let room = self.reader.spare(4096);
                    match self.stream.read(room) {
                        Ok(0) => return None,
                        Ok(read) => self.reader.advance(read),
                        Err(error) if is_end(&error) => return None,
                        Err(error) => panic!("the node neither answers nor closes: {error}"),
                    }
                }
            }
        }
    }

    /// Waits until the node has ended the connection.
    pub(crate) fn wait_closed(mut self) {
        let _ = self.stream.shutdown(Shutdown::Write);
        assert!(self.hear(|_| None::<()>).is_none());
    }

    /// Waits until the node has heard all that was said before.
    pub(crate) fn wait_heard(&mut self) {
        let nonce = kvpeer::wire::Nonce(0x5eed);
        self.say(&Msg::Ping(nonce));
        self.hear(|msg| (*msg == Msg::Pong(nonce)).then_some(())).expect("the node answers a ping");
    }
}

pub(crate) fn frame(msg: &Msg<'_>) -> Vec<u8> {
    let mut frame = Vec::new();
    msg.encode(&mut frame).expect("a message");
    frame
}

pub(crate) fn connect_of<'a>(name: &'a str, incarnation: u64, metadata: &'a [u8]) -> Connect<'a> {
    Connect {
        peer_id: PeerName::new(name).expect("a name"),
        incarnation,
        region: RegionInfo { base_addr: 0, num_blocks: 1 << 20, block_len: crate::process::BLOCK_LEN },
        metadata,
        compat: Compat { hash_seed: Text::default(), fingerprint: Fingerprint::default() },
        capabilities: 0,
        heartbeat_ms: 10_000,
    }
}

/// What libfabric's `tcp` provider takes for the address of an endpoint; nobody is there.
fn metadata() -> Vec<u8> {
    let mut metadata = vec![1, 1, 0, 16];
    metadata.extend([0xaa; 8]); // A key.
    metadata.extend([0; 8]);
    metadata.extend([2, 0]); // AF_INET
    metadata.extend(1u16.to_be_bytes());
    metadata.extend([127, 0, 0, 1]);
    metadata.extend([0; 8]);
    metadata
}

fn is_end(error: &io::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset};
    matches!(error.kind(), BrokenPipe | ConnectionReset | ConnectionAborted)
}
