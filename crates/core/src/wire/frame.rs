//! Takes frames out of a byte stream that arrives in arbitrary pieces, for readers that must
//! never block: a PostgreSQL backend waits on its latch and the socket, reads what is there and
//! asks here whether an answer is complete.

use crate::wire::protocol::{FRAME_HEADER_BYTES, Frame, FrameHeader, ProtocolError};

/// A spare buffer larger than this is given back once its frame was taken, so that one large
/// answer does not stay in memory for the life of a connection.
const KEPT_CAPACITY: usize = 64 * 1024;

/// Collects bytes and hands out whole frames. Never panics, whatever the bytes are.
#[derive(Debug, Default)]
pub struct FrameReader {
    buffer: Vec<u8>,
}

impl FrameReader {
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds bytes as they came from the socket.
    pub fn push(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }

    /// Takes the next complete frame, or `None` until more bytes come.
    ///
    /// # Errors
    /// [`ProtocolError::Version`] or [`ProtocolError::TooLong`] as soon as a header says so,
    /// before its body is read. The stream cannot be read any further then: every later call
    /// returns the same error, and the connection should be closed.
    pub fn pop(&mut self) -> Result<Option<Frame>, ProtocolError> {
        let Some((header, after_header)) = self.buffer.split_first_chunk::<FRAME_HEADER_BYTES>()
        else {
            return Ok(None);
        };
        let header = FrameHeader::parse(header)?;
        let Some(body) = after_header.get(..header.body_bytes) else {
            return Ok(None);
        };
        let frame = Frame { id: header.id, body: body.to_vec() };
        self.buffer.drain(..FRAME_HEADER_BYTES + header.body_bytes);
        if self.buffer.is_empty() && self.buffer.capacity() > KEPT_CAPACITY {
            self.buffer = Vec::new();
        }
        Ok(Some(frame))
    }

    /// Bytes that were pushed and not yet taken.
    #[must_use]
    pub fn buffered_bytes(&self) -> usize {
        self.buffer.len()
    }
}
