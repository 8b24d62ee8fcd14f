//! The model server's socket, without PostgreSQL's latches: connecting, and one question that the
//! supervisor asks to learn whether its server still answers.
#![allow(unsafe_code)]

use super::paths;
use memory_agent_model_server::frame::FrameReader;
use memory_agent_model_server::protocol::{self, Request, Response, ServerStatus};
use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

/// Connects without ever blocking: a stopped server with a full backlog is an error, not a wait.
pub fn connect() -> std::io::Result<UnixStream> {
    use std::os::fd::{FromRawFd, OwnedFd};
    // SAFETY: a fresh descriptor is owned from here on; the address fits (checked below) and is
    // zero-padded.
    unsafe {
        let raw = libc::socket(
            libc::AF_UNIX,
            libc::SOCK_STREAM | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC,
            0,
        );
        if raw < 0 {
            return Err(std::io::Error::last_os_error());
        }
        let descriptor = OwnedFd::from_raw_fd(raw);
        let mut address: libc::sockaddr_un = std::mem::zeroed();
        address.sun_family = libc::AF_UNIX as libc::sa_family_t;
        for (target, byte) in address.sun_path.iter_mut().zip(paths::SOCKET.bytes()) {
            *target = byte as libc::c_char;
        }
        let length = size_of::<libc::sockaddr_un>() as libc::socklen_t;
        if libc::connect(descriptor.as_raw_fd(), (&raw const address).cast(), length) != 0 {
            return Err(std::io::Error::last_os_error());
        }
        Ok(UnixStream::from(descriptor))
    }
}

/// The server's status, if it answers in time. Blocks for at most about `timeout`.
pub fn status_within(timeout: Duration) -> Option<ServerStatus> {
    let deadline = Instant::now() + timeout;
    let mut stream = connect().ok()?;
    stream.set_nonblocking(false).ok()?;
    stream.set_write_timeout(Some(timeout)).ok()?;
    stream.write_all(&protocol::encode(1, &Request::Status).ok()?).ok()?;
    let mut reader = FrameReader::new();
    let mut buffer = [0u8; 4096];
    loop {
        if let Some(frame) = reader.pop().ok()? {
            return match frame.decode().ok()? {
                Response::Status(status) => Some(status),
                _ => None,
            };
        }
        let left =
            deadline.checked_duration_since(Instant::now()).filter(|left| !left.is_zero())?;
        stream.set_read_timeout(Some(left)).ok()?;
        match stream.read(&mut buffer) {
            Ok(count) if count > 0 => reader.push(&buffer[..count]),
            _ => return None,
        }
    }
}
