//! A client of HTTP that hides nothing: the bytes of an answer, as they come.

use memory_agent_e2e::{Gateway, Json};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};

/// An answer whose head was read.
pub struct Reply {
    pub status: u16,
    /// Names in lower case.
    pub headers: Vec<(String, String)>,
    reader: BufReader<TcpStream>,
}

impl Reply {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|header| header.0 == name).map(|header| header.1.as_str())
    }

    /// The next piece of a chunked body; `None` at its end.
    ///
    /// # Errors
    /// That it broke off.
    pub fn piece(&mut self) -> std::io::Result<Option<String>> {
        Ok(self.next_piece()?.map(|bytes| String::from_utf8(bytes).unwrap()))
    }

    fn next_piece(&mut self) -> std::io::Result<Option<Vec<u8>>> {
        let broken = || std::io::Error::other("the body broke off");
        let mut line = String::new();
        self.reader.read_line(&mut line)?;
        let length = usize::from_str_radix(line.trim(), 16).map_err(|_| broken())?;
        let mut bytes = vec![0; length + 2];
        self.reader.read_exact(&mut bytes)?;
        bytes.truncate(length);
        Ok((length > 0).then_some(bytes))
    }

    /// Reads until what was read contains a text.
    #[track_caller]
    pub fn read_until(&mut self, wanted: &str) -> String {
        let mut read = String::new();
        while !read.contains(wanted) {
            match self.piece() {
                Ok(Some(piece)) => read.push_str(&piece),
                other => panic!("{other:?} after {read}"),
            }
        }
        read
    }

    /// The rest of the body; what came of it when it breaks off.
    pub fn rest(&mut self) -> Result<String, String> {
        let mut read = String::new();
        if let Some(length) = self.header("content-length") {
            let mut bytes = vec![0; length.parse().unwrap()];
            self.reader.read_exact(&mut bytes).map_err(|_| read)?;
            return Ok(String::from_utf8(bytes).unwrap());
        }
        loop {
            match self.piece() {
                Ok(Some(piece)) => read.push_str(&piece),
                Ok(None) => return Ok(read),
                Err(_) => return Err(read),
            }
        }
    }

    /// The whole of a chunked body that may be no text.
    pub fn bytes(&mut self) -> Vec<u8> {
        let mut read = Vec::new();
        while let Some(piece) = self.next_piece().unwrap() {
            read.extend(piece);
        }
        read
    }

    /// The whole body as JSON.
    #[track_caller]
    pub fn json(&mut self) -> Json {
        let body = self.rest().unwrap();
        serde_json::from_str(&body).unwrap_or_else(|error| panic!("{error}: {body}"))
    }
}

/// Sends a request and reads the head of its answer.
pub fn send(
    address: SocketAddr,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: &str,
) -> Reply {
    try_send(address, method, path, headers, body).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// The same, where the gateway may be gone.
///
/// # Errors
/// That there is no answer.
pub fn try_send(
    address: SocketAddr,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: &str,
) -> std::io::Result<Reply> {
    send_bytes(address, method, path, headers, body.as_bytes())
}

/// The same with a body that may be no text.
///
/// # Errors
/// That there is no answer.
pub fn send_bytes(
    address: SocketAddr,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: &[u8],
) -> std::io::Result<Reply> {
    let mut connection = TcpStream::connect(address)?;
    let mut head = format!("{method} {path} HTTP/1.1\r\nconnection: close\r\n");
    for (name, value) in headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    if !headers.iter().any(|header| header.0 == "host") {
        head.push_str(&format!("host: {address}\r\n"));
    }
    if !headers.iter().any(|header| header.0 == "content-length") {
        head.push_str(&format!("content-length: {}\r\n", body.len()));
    }
    // It may answer before it has read everything.
    let _ = connection.write_all(&[format!("{head}\r\n").as_bytes(), body].concat());
    let mut reader = BufReader::new(connection);
    let mut line = String::new();
    reader.read_line(&mut line)?;
    let broken = || std::io::Error::other("no answer");
    let status = line.split_whitespace().nth(1).and_then(|status| status.parse().ok());
    let status = status.ok_or_else(broken)?;
    let mut headers = Vec::new();
    loop {
        line.clear();
        reader.read_line(&mut line)?;
        let Some((name, value)) = line.trim_end().split_once(':') else { break };
        headers.push((name.to_lowercase(), value.trim().to_owned()));
    }
    Ok(Reply { status, headers, reader })
}

/// Sends a chat.
pub fn chat(gateway: &Gateway, headers: &[(&str, &str)], body: &str) -> Reply {
    send(gateway.address(), "POST", "/v1/chat/completions", headers, body)
}

/// The body of a chat in which the user says something, in a session.
pub fn says(session: &str, text: &str) -> String {
    memory_agent_e2e::json!({
        "model": "m",
        "messages": [{"role": "user", "content": text}],
        "memory_id": session,
    })
    .to_string()
}

/// The same, with an answer that streams.
pub fn says_streaming(session: &str, text: &str) -> String {
    let mut body: Json = serde_json::from_str(&says(session, text)).unwrap();
    body["stream"] = true.into();
    body.to_string()
}
