//! An answer that streams: events go on as they come, the first with what is remembered. The event that
//! ends the stream waits until the answer is stored, and an event before it says so.

use crate::answer::Answer;
use crate::chat::{Chat, Said};
use crate::refusal::Refusal;
use crate::sse::{self, Event, Splitter};
use axum::body::{Body, Bytes};
use futures_util::stream;
use serde_json::Value;
use std::io;
use std::time::Duration;
use tokio::sync::mpsc;

/// Pieces of an answer that wait for a client that reads slowly.
const WAITING: usize = 8;
/// What comes after the end of an answer is read this long, so that the connection can be used again.
const DRAIN: Duration = Duration::from_secs(1);

/// Who ended an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// Nobody: it came to its end.
    Whole,
    /// The client left.
    ByClient,
    /// The upstream broke off.
    ByUpstream,
}

impl Ended {
    /// For logs.
    pub fn as_str(self) -> &'static str {
        self.by().unwrap_or("whole")
    }

    /// Who left, if somebody did.
    pub fn by(self) -> Option<&'static str> {
        match self {
            Self::Whole => None,
            Self::ByClient => Some("client"),
            Self::ByUpstream => Some("upstream"),
        }
    }
}

/// Where the pieces of an answer go; the receiver is gone when the client is.
pub type Sender = mpsc::Sender<Result<Bytes, io::Error>>;

/// A body, and what fills it.
pub fn body() -> (Body, Sender) {
    let (sender, mut receiver) = mpsc::channel(WAITING);
    (Body::from_stream(stream::poll_fn(move |context| receiver.poll_recv(context))), sender)
}

/// Hands an answer on and stores it.
pub async fn pass_on(
    chat: &mut Chat,
    mut answer: reqwest::Response,
    hits: Option<Value>,
    said: &mut Said,
    client: Sender,
) -> Ended {
    let mut passing = Passing {
        splitter: Splitter::default(),
        spoken: Answer::default(),
        hits: hits.map(|hits| hits.to_string()),
        done: None,
    };
    let ended = loop {
        let chunk = tokio::select! {
            () = client.closed() => break Ended::ByClient,
            chunk = chat.gateway.upstream.next(&mut answer) => chunk,
        };
        let (piece, is_over) = match chunk {
            Ok(Some(bytes)) => passing.take(&bytes),
            Ok(None) => (passing.last(), true),
            Err(_) => break Ended::ByUpstream,
        };
        if !piece.is_empty() && client.send(Ok(piece.into())).await.is_err() {
            break Ended::ByClient;
        }
        if is_over {
            break Ended::Whole;
        }
    };
    if ended == Ended::Whole {
        drain(answer);
    }
    let stored = chat.keep(&passing.spoken, ended, said).await;
    // From here on nobody has to listen.
    if ended == Ended::ByUpstream {
        let _ = client.send(Err(io::Error::other("the upstream broke off"))).await;
    } else if ended == Ended::Whole && chat.fails_without_memory() {
        let refusal = Refusal::no_memory("the answer could not be stored");
        let _ = client.send(Ok(sse::event(&refusal.to_json()).into())).await;
        let _ = client.send(Err(io::Error::other("memory failed"))).await;
    } else if ended == Ended::Whole {
        let mut end = match stored {
            Some(stored) => sse::event(&passing.spoken.stored_chunk(stored.id)),
            None => Vec::new(),
        };
        end.extend(passing.done.unwrap_or_default());
        let _ = client.send(Ok(end.into())).await;
    }
    ended
}

/// Reads the end of an answer in the background.
fn drain(mut answer: reqwest::Response) {
    tokio::spawn(async move {
        let rest = async { while let Ok(Some(_)) = answer.chunk().await {} };
        let _ = tokio::time::timeout(DRAIN, rest).await;
    });
}

/// What is known while an answer passes by.
struct Passing {
    splitter: Splitter,
    spoken: Answer,
    /// Until they are in an event.
    hits: Option<String>,
    /// The event that ends the stream.
    done: Option<Vec<u8>>,
}

impl Passing {
    /// What goes on to the client of what came, and whether that is all.
    fn take(&mut self, bytes: &[u8]) -> (Vec<u8>, bool) {
        self.splitter.feed(bytes);
        let mut piece = Vec::with_capacity(bytes.len());
        while let Some(event) = self.splitter.next_event() {
            self.add(event, &mut piece);
            if self.done.is_some() {
                return (piece, true);
            }
        }
        (piece, false)
    }

    /// What came last, though no blank line ends it.
    fn last(&mut self) -> Vec<u8> {
        let mut piece = Vec::new();
        let rest = self.splitter.rest();
        if !rest.is_empty() {
            self.add(Event(rest), &mut piece);
        }
        piece
    }

    fn add(&mut self, event: Event, piece: &mut Vec<u8>) {
        if event.is_done() {
            self.spoken.is_whole = true;
            self.done = Some(event.0);
            return;
        }
        let mut event = event;
        if let Some(data) = event.data() {
            self.spoken.take(&data);
            if data.trim_start().starts_with('{')
                && let Some(hits) = self.hits.take()
            {
                event = event.with_member("memory_hits", &hits);
            }
        }
        piece.extend_from_slice(&event.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn passing() -> Passing {
        Passing {
            splitter: Splitter::default(),
            spoken: Answer::default(),
            hits: Some("[1]".to_owned()),
            done: None,
        }
    }

    #[test]
    fn the_first_event_has_the_memories_and_the_last_waits() {
        let mut passing = passing();
        let (piece, is_over) = passing.take(b": hi\n\ndata: {\"a\":1.0}\n\ndata: {\"b\"");
        assert_eq!(piece, b": hi\n\ndata: {\"a\":1.0,\"memory_hits\":[1]}\n\n");
        assert!(!is_over);
        let (piece, is_over) = passing.take(b":2}\n\ndata: [DONE]\n\n");
        assert_eq!(piece, b"data: {\"b\":2}\n\n");
        assert!(is_over);
        assert_eq!(passing.done.as_deref(), Some(&b"data: [DONE]\n\n"[..]));
    }

    #[test]
    fn an_end_without_a_blank_line_is_an_end() {
        let mut passing = passing();
        let (piece, _) = passing.take(b"data: {}\n\ndata: [DONE]\n");
        assert_eq!(piece, b"data: {\"memory_hits\":[1]}\n\n");
        assert!(passing.last().is_empty());
        assert!(passing.done.is_some());
    }
}
