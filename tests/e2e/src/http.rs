//! A small client of HTTP: one connection a request, and the whole answer.

use serde_json::Value;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// No answer takes longer.
const PATIENCE: Duration = Duration::from_secs(120);

/// A whole answer.
#[derive(Debug)]
pub struct Reply {
    pub status: u16,
    /// Names in lower case.
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Reply {
    /// The first header of this name.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|header| header.0 == name).map(|header| header.1.as_str())
    }

    /// The body as text.
    ///
    /// # Panics
    /// If it is none.
    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.body).expect("text")
    }

    /// The body as JSON.
    ///
    /// # Panics
    /// If it is none.
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}

/// Sends a request and reads its answer.
///
/// # Panics
/// If there is none, or it breaks off.
pub fn request(
    address: SocketAddr,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: &[u8],
) -> Reply {
    let mut connection = TcpStream::connect(address).expect("a server");
    connection.set_read_timeout(Some(PATIENCE)).expect("a socket");
    let mut head = format!("{method} {path} HTTP/1.1\r\nconnection: close\r\n");
    for (name, value) in headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    if !headers.iter().any(|header| header.0 == "host") {
        head.push_str(&format!("host: {address}\r\n"));
    }
    head.push_str(&format!("content-length: {}\r\n\r\n", body.len()));
    // It may answer before it has read everything.
    let _ = connection.write_all(&[head.as_bytes(), body].concat());
    let (mut bytes, mut piece) = (Vec::new(), [0; 65_536]);
    loop {
        // A server that did not read everything resets the connection behind its answer.
        let count = connection.read(&mut piece).unwrap_or(0);
        bytes.extend_from_slice(&piece[..count]);
        // Some servers keep the connection all the same.
        if let Some(reply) = read(&bytes) {
            return reply;
        }
        assert!(count > 0, "{method} {path}: {}", String::from_utf8_lossy(&bytes));
    }
}

/// An answer; `None` while it is not whole.
fn read(bytes: &[u8]) -> Option<Reply> {
    let end = bytes.windows(4).position(|window| window == b"\r\n\r\n")?;
    let mut lines = std::str::from_utf8(&bytes[..end]).ok()?.split("\r\n");
    let status = lines.next()?.split(' ').nth(1)?.parse().ok()?;
    let pair = |line: &str| {
        line.split_once(':').map(|(name, value)| (name.to_lowercase(), value.trim().to_owned()))
    };
    let headers: Vec<(String, String)> = lines.filter_map(pair).collect();
    let mut reply = Reply { status, headers, body: bytes[end + 4..].to_vec() };
    if reply.header("transfer-encoding") == Some("chunked") {
        reply.body = unchunked(&reply.body)?;
    } else {
        let length = reply.header("content-length")?.parse().ok()?;
        reply.body.get(..length)?;
        reply.body.truncate(length);
    }
    Some(reply)
}

/// A body without what tells its chunks apart; `None` when it broke off.
fn unchunked(mut rest: &[u8]) -> Option<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        let line = rest.windows(2).position(|window| window == b"\r\n")?;
        let length = std::str::from_utf8(&rest[..line]).ok()?;
        let length = usize::from_str_radix(length.split(';').next()?.trim(), 16).ok()?;
        if length == 0 {
            return Some(body);
        }
        body.extend_from_slice(rest.get(line + 2..line + 2 + length)?);
        rest = rest.get(line + 4 + length..)?;
    }
}

/// A text as it stands in an address or a form.
pub fn encoded(text: &str) -> String {
    text.bytes()
        .map(|byte| match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                char::from(byte).to_string()
            }
            other => format!("%{other:02X}"),
        })
        .collect()
}
