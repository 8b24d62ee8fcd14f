//! Frames between PostgreSQL's processes and the model server, in pieces as a socket gives them. What
//! can be read is written as a frame that is read as the same.

use memory_agent_core::wire::frame::FrameReader;
use memory_agent_core::wire::protocol::{Frame, PROTOCOL_VERSION, Request, Response, encode};

pub fn check(data: &[u8]) {
    let Some((first, rest)) = data.split_first() else { return };
    crate::linear(rest.len(), || {
        // The body alone, so that the length before it need not be guessed.
        let frame = Frame { id: 7, body: rest.to_vec() };
        if let Ok(request) = frame.decode::<Request>() {
            again(&request);
        }
        if let Ok(response) = frame.decode::<Response>() {
            again(&response);
        }

        let mut reader = FrameReader::new();
        for piece in rest.chunks(usize::from(*first).max(1)) {
            reader.push(piece);
            while let Ok(Some(frame)) = reader.pop() {
                let _ = frame.decode::<Request>();
                let _ = frame.decode::<Response>();
            }
        }
        assert!(reader.buffered_bytes() <= rest.len());

        // The same bytes as the body of a frame that is whole.
        let mut whole = u32::try_from(rest.len()).unwrap().to_le_bytes().to_vec();
        whole.push(PROTOCOL_VERSION);
        whole.extend(7_u64.to_le_bytes());
        whole.extend(rest);
        let mut reader = FrameReader::new();
        reader.push(&whole);
        assert_eq!(reader.pop().unwrap(), Some(frame));
        assert_eq!(reader.buffered_bytes(), 0);
    });
}

/// Bytes are compared, for a vector may hold what is not equal to itself.
fn again<T: serde::Serialize + serde::de::DeserializeOwned>(message: &T) {
    let bytes = encode(7, message).expect("what was read is not too long to be written");
    let mut reader = FrameReader::new();
    reader.push(&bytes);
    let frame = reader.pop().unwrap().expect("a whole frame");
    let read: T = frame.decode().expect("what was written can be read");
    assert_eq!(encode(7, &read).unwrap(), bytes);
}
