//! Something at the model server's socket that is no model server.

use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

/// Length, version, request id.
const HEADER_BYTES: usize = 13;

/// What it does with a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Behaviour {
    /// Closes it at once.
    Closes,
    /// Takes everything and says nothing.
    Silent,
    /// Answers with bytes that are no frame.
    Garbage,
    /// Answers in another version of the protocol.
    OtherVersion,
    /// Begins an answer and leaves it unfinished.
    Unfinished,
    /// Announces an answer longer than any may be.
    TooLong,
    /// Answers with another kind of answer than was asked for.
    WrongKind,
    /// Answers every request with scores, none of them.
    NoScores,
}

impl Behaviour {
    pub const ALL: [Self; 8] = [
        Self::Closes,
        Self::Silent,
        Self::Garbage,
        Self::OtherVersion,
        Self::Unfinished,
        Self::TooLong,
        Self::WrongKind,
        Self::NoScores,
    ];

    /// The answer to the request with this id, which came in that version of the protocol.
    fn answer(self, version: u8, id: [u8; 8]) -> Vec<u8> {
        let frame = |length: u32, version: u8, body: &[u8]| {
            [&length.to_le_bytes(), &[version][..], &id, body].concat()
        };
        match self {
            Self::Closes | Self::Silent => Vec::new(),
            Self::Garbage => (0..4096u32).map(|n| (n * 7 + 250) as u8).collect(),
            Self::OtherVersion => frame(1, 99, &[4]),
            Self::Unfinished => frame(64, version, &[0; 5]),
            Self::TooLong => frame(u32::MAX, version, &[0; 5]),
            // The bodies are Response::Flushed and Response::Scores of nothing.
            Self::WrongKind => frame(1, version, &[4]),
            Self::NoScores => frame(3, version, &[1, 0, 0]),
        }
    }
}

/// Listens in place of the model server until it is dropped.
pub struct FakeServer {
    path: PathBuf,
    ends: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl FakeServer {
    /// Removes the socket at `path`, which its owner keeps serving unseen, and listens there.
    pub fn replace(path: &Path, behaviour: Behaviour) -> Self {
        std::fs::remove_file(path).unwrap();
        let listener = UnixListener::bind(path).unwrap();
        // The test may run as another user than the server.
        std::fs::set_permissions(path, PermissionsExt::from_mode(0o666)).unwrap();
        let ends = Arc::new(AtomicBool::new(false));
        let ended = Arc::clone(&ends);
        let thread = std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                if ended.load(Ordering::Relaxed) {
                    break;
                }
                if behaviour != Behaviour::Closes {
                    std::thread::spawn(move || serve(stream, behaviour));
                }
            }
        });
        Self { path: path.to_owned(), ends, thread: Some(thread) }
    }
}

/// Answers every request until the client leaves.
fn serve(mut stream: UnixStream, behaviour: Behaviour) {
    let mut header = [0; HEADER_BYTES];
    while stream.read_exact(&mut header).is_ok() {
        let [l0, l1, l2, l3, version, id @ ..] = header;
        let length = u32::from_le_bytes([l0, l1, l2, l3]);
        let mut body = (&mut stream).take(length.into());
        if std::io::copy(&mut body, &mut std::io::sink()).is_err() {
            return;
        }
        if stream.write_all(&behaviour.answer(version, id)).is_err() {
            return;
        }
    }
}

impl Drop for FakeServer {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Relaxed);
        // Wakes the thread out of its wait for connections.
        let _ = UnixStream::connect(&self.path);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        let _ = std::fs::remove_file(&self.path);
    }
}
