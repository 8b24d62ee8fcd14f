//! A client's side of one connection to the model server: requests that are on their way and answers as they
//! come, told apart by their ids. It never waits and knows no socket: the client hands it one when there is
//! something to be written or read, and decides how long to wait for that.

use std::io::{self, ErrorKind, Read, Write};
use std::time::Duration;

use thiserror::Error;

use crate::frame::FrameReader;
use crate::protocol::{ProtocolError, Request, Response, encode};

/// Why a connection is of no further use.
#[derive(Debug, Error)]
pub enum SessionError {
    #[error("the model server closed the connection")]
    Closed,
    #[error("the model server is gone: {0}")]
    Io(#[from] io::Error),
    #[error("the model server cannot be understood: {0}")]
    Protocol(#[from] ProtocolError),
}

/// How long a client waited for a sign of life, in time in which it could have seen one. A pause of the whole
/// machine stops client and server alike, and says nothing about the server: it counts as one wait.
#[derive(Debug, Clone, Copy, Default)]
pub struct Silence(Duration);

impl Silence {
    /// Counts a wait that ended without a sign.
    ///
    /// * `took`: how long it took.
    /// * `limit`: after how long it was to end; what it took beyond is the machine's.
    pub fn add(&mut self, took: Duration, limit: Duration) {
        self.0 += took.min(limit);
    }

    #[must_use]
    pub fn lasts(&self, patience: Duration) -> bool {
        self.0 >= patience
    }
}

/// What is under way on one connection.
#[derive(Debug, Default)]
pub struct Session {
    outgoing: Vec<u8>,
    /// How much of `outgoing` is sent.
    sent: usize,
    reader: FrameReader,
    last_id: u64,
}

impl Session {
    /// Takes a request to be sent; its answer will have the returned id.
    ///
    /// # Errors
    /// When the request is too long for a message. The session goes on.
    pub fn ask(&mut self, request: &Request) -> Result<u64, ProtocolError> {
        let bytes = encode(self.last_id + 1, request)?;
        self.last_id += 1;
        if self.is_sending() {
            self.outgoing.extend_from_slice(&bytes);
        } else {
            self.outgoing = bytes;
        }
        Ok(self.last_id)
    }

    /// Forgets what was under way on a connection that is lost. No id is given twice.
    pub fn reset(&mut self) {
        *self = Self { last_id: self.last_id, ..Self::default() };
    }

    /// Whether bytes of requests wait for room in the socket.
    #[must_use]
    pub fn is_sending(&self) -> bool {
        self.sent < self.outgoing.len()
    }

    /// Writes as much as the socket takes now; whether it took any.
    ///
    /// # Errors
    /// [`SessionError`].
    pub fn send(&mut self, socket: &mut impl Write) -> Result<bool, SessionError> {
        let before = self.sent;
        while self.is_sending() {
            match socket.write(&self.outgoing[self.sent..]) {
                Ok(0) => return Err(SessionError::Closed),
                Ok(count) => self.sent += count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    return Ok(self.sent > before);
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
        (self.outgoing, self.sent) = (Vec::new(), 0);
        Ok(true)
    }

    /// Reads once; whether anything was there.
    ///
    /// # Errors
    /// [`SessionError`]. Answers that came before can still be taken.
    pub fn receive(&mut self, socket: &mut impl Read) -> Result<bool, SessionError> {
        let mut buffer = [0; 64 * 1024];
        loop {
            match socket.read(&mut buffer) {
                Ok(0) => return Err(SessionError::Closed),
                Ok(count) => {
                    self.reader.push(&buffer[..count]);
                    return Ok(true);
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Takes the next answer that has come in full, with its request's id.
    ///
    /// # Errors
    /// [`SessionError::Protocol`].
    pub fn answer(&mut self) -> Result<Option<(u64, Response)>, SessionError> {
        let Some(frame) = self.reader.pop()? else { return Ok(None) };
        Ok(Some((frame.id, frame.decode()?)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::Frame;

    /// A socket that takes and gives a few bytes at a time, and is now and then interrupted.
    #[derive(Default)]
    struct Socket {
        written: Vec<u8>,
        room: usize,
        readable: Vec<u8>,
        turns: u32,
    }

    impl Socket {
        fn step(&mut self) -> io::Result<()> {
            self.turns += 1;
            if self.turns.is_multiple_of(3) { Err(ErrorKind::Interrupted.into()) } else { Ok(()) }
        }
    }

    impl Write for Socket {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.step()?;
            let count = bytes.len().min(self.room).min(5);
            if count == 0 {
                return Err(ErrorKind::WouldBlock.into());
            }
            self.room -= count;
            self.written.extend_from_slice(&bytes[..count]);
            Ok(count)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl Read for Socket {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            self.step()?;
            if self.readable.is_empty() {
                return Err(ErrorKind::WouldBlock.into());
            }
            let count = self.readable.len().min(7);
            buffer[..count].copy_from_slice(&self.readable[..count]);
            self.readable.drain(..count);
            Ok(count)
        }
    }

    fn frames(bytes: &[u8]) -> Vec<Frame> {
        let mut reader = FrameReader::new();
        reader.push(bytes);
        std::iter::from_fn(|| reader.pop().unwrap()).collect()
    }

    #[test]
    fn requests_leave_in_order_however_little_the_socket_takes() {
        let (mut session, mut socket) = (Session::default(), Socket::default());
        assert_eq!(session.ask(&Request::Status).unwrap(), 1);
        assert!(!session.send(&mut socket).unwrap(), "there was no room");
        socket.room = 8;
        assert!(session.send(&mut socket).unwrap());
        assert!(session.is_sending());
        assert_eq!(session.ask(&Request::FlushCaches).unwrap(), 2);
        socket.room = usize::MAX;
        assert!(session.send(&mut socket).unwrap());
        assert!(!session.is_sending());
        assert_eq!(session.ask(&Request::Status).unwrap(), 3);
        session.send(&mut socket).unwrap();
        let sent: Vec<(u64, Request)> = frames(&socket.written)
            .iter()
            .map(|frame| (frame.id, frame.decode().unwrap()))
            .collect();
        assert_eq!(sent, [(1, Request::Status), (2, Request::FlushCaches), (3, Request::Status)]);
    }

    #[test]
    fn answers_come_out_whole_and_outlive_the_end_of_the_connection() {
        let (mut session, mut socket) = (Session::default(), Socket::default());
        socket.readable = encode(7, &Response::Flushed).unwrap();
        socket.readable.extend(encode(4, &Response::Flushed).unwrap());
        assert!(session.receive(&mut socket).unwrap());
        assert!(session.answer().unwrap().is_none(), "only a part is there");
        while session.receive(&mut socket).unwrap() {}
        assert!(matches!(session.receive(&mut io::empty()), Err(SessionError::Closed)));
        assert_eq!(session.answer().unwrap(), Some((7, Response::Flushed)));
        assert_eq!(session.answer().unwrap(), Some((4, Response::Flushed)));
        assert_eq!(session.answer().unwrap(), None);
    }

    #[test]
    fn what_is_no_answer_is_an_error() {
        let mut session = Session::default();
        session.receive(&mut &[0xff; 64][..]).unwrap();
        assert!(matches!(session.answer(), Err(SessionError::Protocol(_))));
        let mut full = [0_u8; 0];
        session.ask(&Request::Status).unwrap();
        assert!(matches!(session.send(&mut &mut full[..]), Err(SessionError::Closed)));
        session.reset();
        assert!(!session.is_sending());
        assert!(session.answer().unwrap().is_none());
        assert_eq!(session.ask(&Request::Status).unwrap(), 2, "the id is not given again");
    }

    #[test]
    fn a_pause_counts_as_one_wait() {
        let (limit, patience) = (Duration::from_millis(250), Duration::from_secs(1));
        let mut silence = Silence::default();
        silence.add(Duration::from_secs(60), limit);
        assert!(!silence.lasts(patience));
        (0..3).for_each(|_| silence.add(Duration::from_millis(251), limit));
        assert!(silence.lasts(patience));
        // Waits that a signal ends count as what they are.
        let mut silence = Silence::default();
        (0..999).for_each(|_| silence.add(Duration::from_millis(1), limit));
        assert!(!silence.lasts(patience));
        silence.add(Duration::from_millis(1), limit);
        assert!(silence.lasts(patience));
    }
}
