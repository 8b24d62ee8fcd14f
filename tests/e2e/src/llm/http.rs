//! HTTP/1.1 as far as the stub speaks it: requests with a `Content-Length`, answers on a connection
//! that stays open, and connections that end as badly as a fault wants.
#![allow(unsafe_code)] // SO_LINGER has no safe setter yet

use std::io::{BufRead, BufReader, Error, ErrorKind, Read, Result, Write};
use std::net::TcpStream;
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

const MAX_HEADERS: usize = 100;
const MAX_BODY: usize = 64 << 20;
/// How often a waiting connection looks whether its client is still there.
const LOOK: Duration = Duration::from_millis(20);
const DRIPS: u32 = 20;

/// A request as it was sent.
#[derive(Debug)]
pub struct Request {
    pub path: String,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

/// What goes back, before it is written to the connection.
#[derive(Debug)]
pub struct Response {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

/// The next request of a connection; `None` when the client is done with it.
pub fn read_request(reader: &mut BufReader<TcpStream>) -> Result<Option<Request>> {
    let mut line = String::new();
    if reader.read_line(&mut line)? == 0 {
        return Ok(None);
    }
    let path = line.split_whitespace().nth(1).ok_or_else(|| invalid("request line"))?.to_owned();
    let mut headers = Vec::new();
    loop {
        line.clear();
        reader.read_line(&mut line)?;
        let Some((name, value)) = line.trim_end().split_once(':') else { break };
        headers.push((name.to_owned(), value.trim().to_owned()));
        if headers.len() > MAX_HEADERS {
            return Err(invalid("too many headers"));
        }
    }
    let length = headers
        .iter()
        .find(|(name, _)| name.eq_ignore_ascii_case("content-length"))
        .map_or(Some(0), |(_, value)| value.parse().ok())
        .filter(|length| *length <= MAX_BODY)
        .ok_or_else(|| invalid("Content-Length"))?;
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    Ok(Some(Request { path, headers, body }))
}

fn invalid(what: &str) -> Error {
    Error::new(ErrorKind::InvalidData, what)
}

/// The whole answer; the connection stays open.
pub fn write_response(stream: &mut TcpStream, response: &Response) -> Result<()> {
    stream.write_all(&head(response))?;
    stream.write_all(&response.body)
}

/// The answer in small pieces over about `total`.
pub fn drip(stream: &mut TcpStream, response: &Response, total: Duration) -> Result<()> {
    stream.write_all(&head(response))?;
    let piece = response.body.len().div_ceil(DRIPS as usize).max(1);
    for piece in response.body.chunks(piece) {
        stream.write_all(piece)?;
        if !wait_while(stream, total / DRIPS, || true) {
            return Err(ErrorKind::ConnectionAborted.into());
        }
    }
    Ok(())
}

/// The head of the answer, which promises all of the body, and half of it.
pub fn write_half(stream: &mut TcpStream, response: &Response) -> Result<()> {
    stream.write_all(&head(response))?;
    stream.write_all(&response.body[..response.body.len() / 2])
}

/// Ends the connection so that the client reads "connection reset by peer", not an end of file.
pub fn reset(stream: &TcpStream) {
    let linger = libc::linger { l_onoff: 1, l_linger: 0 };
    // SAFETY: the descriptor is open, and the option's value is a `linger` of the length given.
    unsafe {
        libc::setsockopt(
            stream.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_LINGER,
            (&raw const linger).cast(),
            size_of::<libc::linger>() as libc::socklen_t,
        );
    }
    // The reset is sent when the last copy of the descriptor is closed.
}

/// Waits for at most `limit` while `condition` holds. False when the client left meanwhile.
pub fn wait_while(stream: &TcpStream, limit: Duration, condition: impl Fn() -> bool) -> bool {
    let start = Instant::now();
    let mut byte = [0];
    while let Some(rest) = limit.checked_sub(start.elapsed())
        && !rest.is_zero()
        && condition()
    {
        let _ = stream.set_read_timeout(Some(rest.min(LOOK)));
        match stream.peek(&mut byte) {
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
            // A client that sends before it was answered is served later.
            Ok(1..) => std::thread::sleep(rest.min(LOOK)),
            _ => return false,
        }
    }
    stream.set_read_timeout(None).is_ok()
}

fn head(response: &Response) -> Vec<u8> {
    let mut head = format!("HTTP/1.1 {} {}\r\n", response.status, reason(response.status));
    for (name, value) in &response.headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    head.push_str(&format!("Content-Length: {}\r\n\r\n", response.body.len()));
    head.into_bytes()
}

fn reason(status: u16) -> &'static str {
    match status {
        200 => "OK",
        400 => "Bad Request",
        401 => "Unauthorized",
        404 => "Not Found",
        429 => "Too Many Requests",
        500 => "Internal Server Error",
        503 => "Service Unavailable",
        _ => "Other",
    }
}
