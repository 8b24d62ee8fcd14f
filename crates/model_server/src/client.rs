//! A client that blocks, for tests, benchmarks and command-line tools. PostgreSQL's processes
//! do not use it: they must stay responsive to signals while they wait.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use thiserror::Error;

use crate::frame::FrameReader;
use crate::protocol::{ProtocolError, Request, Response, encode};

/// How long to wait for the next byte of an answer, unless set otherwise.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(60);

/// Why there is no answer.
#[derive(Debug, Error)]
pub enum ClientError {
    #[error("model server: {0}")]
    Io(#[from] io::Error),
    #[error("model server: {0}")]
    Protocol(#[from] ProtocolError),
    #[error("the model server closed the connection")]
    Closed,
    #[error("the model server answered request {answered} instead of {asked}")]
    WrongId { asked: u64, answered: u64 },
}

/// One connection to a model server.
#[derive(Debug)]
pub struct BlockingClient {
    stream: UnixStream,
    reader: FrameReader,
    last_id: u64,
}

impl BlockingClient {
    /// Connects to the socket at `path`.
    ///
    /// # Errors
    /// The operating system's.
    pub fn connect(path: impl AsRef<Path>) -> io::Result<Self> {
        let stream = UnixStream::connect(path)?;
        stream.set_read_timeout(Some(DEFAULT_TIMEOUT))?;
        stream.set_write_timeout(Some(DEFAULT_TIMEOUT))?;
        Ok(Self { stream, reader: FrameReader::new(), last_id: 0 })
    }

    /// Sets how long [`Self::receive`] waits for the next byte.
    ///
    /// # Errors
    /// If `timeout` is zero.
    pub fn set_timeout(&self, timeout: Duration) -> io::Result<()> {
        self.stream.set_read_timeout(Some(timeout))
    }

    /// Sends a request and waits for its answer.
    ///
    /// # Errors
    /// [`ClientError`]; the connection is of no further use then.
    pub fn call(&mut self, request: &Request) -> Result<Response, ClientError> {
        let asked = self.send(request)?;
        let (answered, response) = self.receive()?;
        if answered == asked { Ok(response) } else { Err(ClientError::WrongId { asked, answered }) }
    }

    /// Sends a request without waiting and returns its id.
    ///
    /// # Errors
    /// [`ClientError::Io`] or [`ClientError::Protocol`].
    pub fn send(&mut self, request: &Request) -> Result<u64, ClientError> {
        self.last_id += 1;
        self.stream.write_all(&encode(self.last_id, request)?)?;
        Ok(self.last_id)
    }

    /// Waits for the next answer and returns it with its request's id.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn receive(&mut self) -> Result<(u64, Response), ClientError> {
        let mut buffer = [0; 64 * 1024];
        loop {
            if let Some(frame) = self.reader.pop()? {
                return Ok((frame.id, frame.decode()?));
            }
            match self.stream.read(&mut buffer) {
                Ok(0) => return Err(ClientError::Closed),
                Ok(count) => self.reader.push(&buffer[..count]),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}
