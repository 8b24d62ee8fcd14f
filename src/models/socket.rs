//! The model server's socket, without PostgreSQL's latches: connecting, and one question that the
//! supervisor asks to learn whether its server still answers.

use super::paths;
use memory_agent_model_server::BlockingClient;
use memory_agent_model_server::protocol::{Request, Response, ServerStatus};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};
use std::os::unix::net::UnixStream;
use std::time::Duration;

/// Connects without ever blocking: a stopped server with a full backlog is an error, not a wait.
pub fn connect_now() -> std::io::Result<UnixStream> {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    connect(&socket, &SocketAddrUnix::new(paths::SOCKET)?)?;
    Ok(UnixStream::from(socket))
}

/// The server's status, if it answers in time. Blocks for at most `timeout` a step.
pub fn status_within(timeout: Duration) -> Option<ServerStatus> {
    let mut client = BlockingClient::over(connect_now().ok()?, timeout).ok()?;
    match client.call(&Request::Status).ok()? {
        Response::Status(status) => Some(status),
        _ => None,
    }
}
