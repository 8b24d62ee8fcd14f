//! An answer that streams: events go on as they come, the first with what is remembered. What ends the stream
//! waits until the answer is stored, and says so.

use crate::chat::Chat;
use crate::chat::answer::Answer;
use crate::chat::costs::bytes_said;
use crate::chat::protocol::{Protocol, Stage};
use crate::chat::reply::Reply;
use crate::chat::sse::{Event, Splitter};
use crate::chat::user_turn::Said;
use crate::refusal::Refusal;
use axum::body::{Body, Bytes};
use futures_util::stream;
use serde_json::Value;
use std::io;
use std::time::Duration;
use tokio::sync::mpsc;

/// Pieces of an answer that wait for a client that reads slowly.
const WAITING: usize = 8;
/// An event grows to so many bytes though answers have no room left.
const EVENT_WITHOUT_ROOM: usize = 64 << 10;
/// What comes after the end of an answer is read this long, so that the connection can be used again.
const DRAIN: Duration = Duration::from_secs(1);

/// Who ended an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// Neither side: it came to its end.
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

    /// Who left, if one of both did.
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
    mut answer: Reply,
    hits: Option<Value>,
    said: &mut Said,
    client: Sender,
) -> Ended {
    let mut passing = Passing {
        protocol: chat.protocol,
        splitter: Splitter::default(),
        spoken: Answer::default(),
        is_counted: chat.is_counted(),
        said: 0,
        hits: hits.map(|hits| hits.to_string()),
        hides_usage: chat.hides_usage,
        counted: None,
        waiting: Vec::new(),
    };
    let ended = loop {
        let chunk = tokio::select! {
            () = client.closed() => break Ended::ByClient,
            chunk = answer.next() => chunk,
        };
        let (mut piece, is_over) = match chunk {
            Ok(Some(bytes)) => passing.take(&bytes),
            Ok(None) => (passing.last(), true),
            Err(_) => {
                if let Some(counted) = passing.counted.take() {
                    // The client may be gone.
                    let _ = client.send(Ok(counted.0.into())).await;
                }
                break Ended::ByUpstream;
            }
        };
        let kept = passing.spoken.text.len() + passing.splitter.held();
        if !chat.gateway.answers.holds(kept, &chat.permit) {
            passing.spoken.is_cut = true;
            piece.extend(passing.without_room());
        }
        if !piece.is_empty() && client.send(Ok(piece.into())).await.is_err() {
            break Ended::ByClient;
        }
        if is_over {
            break Ended::Whole;
        }
    };
    let is_over = match ended {
        Ended::Whole => {
            drain(answer);
            passing.spoken.is_whole
        }
        // Everything was said, and what it took comes next.
        Ended::ByClient if passing.is_counted && passing.spoken.is_whole => {
            passing.end(answer).await
        }
        _ => false,
    };
    chat.count(&passing.spoken, || passing.said, is_over);
    let stored = chat.keep(&passing.spoken, ended, said).await;
    // From here on the client need not listen.
    if ended == Ended::ByUpstream {
        let _ = client.send(Err(io::Error::other("the upstream broke off"))).await;
    } else if ended == Ended::Whole && chat.fails_without_memory() {
        let refusal = Refusal::unstored();
        // The last event: were the connection broken off after it, the client might not get it.
        let _ = client.send(Ok(chat.protocol.error(&refusal).0.into())).await;
    } else if ended == Ended::Whole {
        let end = match stored {
            // Without an end, what came is no answer that could be acknowledged.
            Some(stored) if passing.spoken.is_whole => {
                chat.protocol.with_stored(passing.waiting, &passing.spoken, stored.id)
            }
            _ => passing.waiting,
        };
        let end: Vec<u8> = end.into_iter().flat_map(|event| event.0).collect();
        let _ = client.send(Ok(end.into())).await;
    }
    ended
}

/// Reads the end of an answer in the background.
fn drain(mut answer: Reply) {
    tokio::spawn(async move {
        let rest = async { while let Ok(Some(_)) = answer.next().await {} };
        let _ = tokio::time::timeout(DRAIN, rest).await;
    });
}

/// What is known while an answer passes by.
struct Passing {
    protocol: &'static dyn Protocol,
    splitter: Splitter,
    spoken: Answer,
    /// Whether it is counted what the answer takes, and how many bytes were said then, of whatever kind.
    is_counted: bool,
    said: usize,
    /// Until they are in an event.
    hits: Option<String>,
    /// Whether the event that only says what the answer took stays here.
    hides_usage: bool,
    /// An event that says what the answer took, until it is known whether it is among the last ones: then it stays
    /// the last that says something.
    counted: Option<Event>,
    /// The events that end the stream.
    waiting: Vec<Event>,
}

impl Passing {
    /// What goes on to the client of what came, and whether that is all.
    fn take(&mut self, bytes: &[u8]) -> (Vec<u8>, bool) {
        self.splitter.feed(bytes);
        let mut piece = Vec::with_capacity(bytes.len());
        while let Some(event) = self.splitter.next_event() {
            if self.add(event, &mut piece) == Stage::Over {
                return (piece, true);
            }
        }
        (piece, false)
    }

    /// What goes on though it is no whole event, where there is no room for a long one. It is not looked into.
    fn without_room(&mut self) -> Vec<u8> {
        match self.splitter.held() > EVENT_WITHOUT_ROOM && self.waiting.is_empty() {
            true => {
                let rest = self.splitter.rest();
                self.said += rest.len();
                rest
            }
            false => Vec::new(),
        }
    }

    /// Reads to the end, though the client has left; whether that came soon.
    async fn end(&mut self, mut answer: Reply) -> bool {
        let read = async {
            loop {
                match answer.next().await {
                    Ok(Some(bytes)) if self.take(&bytes).1 => return true,
                    Ok(Some(_)) => {}
                    Ok(None) => {
                        self.last();
                        return true;
                    }
                    Err(_) => return false,
                }
            }
        };
        tokio::time::timeout(DRAIN, read).await.unwrap_or(false)
    }

    /// What came last, though no blank line ends it.
    fn last(&mut self) -> Vec<u8> {
        let mut piece = Vec::new();
        let rest = self.splitter.rest();
        if !rest.is_empty() {
            self.add(Event(rest), &mut piece);
        }
        self.waiting.extend(self.counted.take());
        piece
    }

    fn add(&mut self, mut event: Event, piece: &mut Vec<u8>) -> Stage {
        let mut stage = Stage::Open;
        let data = event.data();
        if self.is_counted {
            self.said += data.as_deref().map_or(event.0.len(), bytes_said);
        }
        if let Some(data) = data {
            stage = self.protocol.take(&mut self.spoken, &data);
            if stage == Stage::Counted && self.hides_usage {
                return stage;
            }
            if let Some(hits) = self.hits.take() {
                event = self.protocol.with_hits(event, &hits).unwrap_or_else(|event| {
                    self.hits = Some(hits);
                    event
                });
            }
        }
        let counted = self.counted.take();
        if matches!(stage, Stage::Closing | Stage::Over) || !self.waiting.is_empty() {
            self.waiting.extend(counted);
            self.waiting.push(event);
            return stage;
        }
        piece.extend(counted.into_iter().flat_map(|event| event.0));
        match stage == Stage::Counted && self.spoken.is_whole {
            true => self.counted = Some(event),
            false => piece.extend_from_slice(&event.0),
        }
        stage
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chat::protocol::Completions;

    fn passing() -> Passing {
        Passing {
            protocol: &Completions,
            splitter: Splitter::default(),
            spoken: Answer::default(),
            is_counted: true,
            said: 0,
            hits: Some("[1]".to_owned()),
            hides_usage: false,
            counted: None,
            waiting: Vec::new(),
        }
    }

    #[test]
    fn what_the_client_did_not_ask_for_stays_here() {
        let mut passing = Passing { hides_usage: true, ..passing() };
        let stream = b"data: {\"choices\":[{\"delta\":{}}],\"usage\":null}\n\n\
                       data: {\"choices\":[],\"usage\":{\"prompt_tokens\":1}}\n\n";
        let (piece, _) = passing.take(stream);
        let expected =
            "data: {\"choices\":[{\"delta\":{}}],\"usage\":null,\"memory_hits\":[1]}\n\n";
        assert_eq!(String::from_utf8(piece).unwrap(), expected);
        assert_eq!(passing.spoken.usage.map(|usage| usage.prompt), Some(1));
    }

    #[test]
    fn what_an_answer_took_is_said_last() {
        const SAID: &str = "data: {\"choices\":[{\"finish_reason\":\"stop\"}]}\n\n";
        const TOOK: &str = "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":1}}\n\n";
        const DONE: &str = "data: [DONE]\n\n";
        let passed = |stream: &[&str]| {
            let mut passing = Passing { hits: None, ..passing() };
            let (mut piece, is_over) = passing.take(stream.concat().as_bytes());
            if !is_over {
                piece.extend(passing.last());
            }
            let waiting = passing.waiting.into_iter().flat_map(|event| event.0).collect();
            [piece, waiting].map(|bytes: Vec<u8>| String::from_utf8(bytes).unwrap())
        };
        assert_eq!(passed(&[SAID, TOOK, DONE]), [SAID.to_owned(), format!("{TOOK}{DONE}")]);
        assert_eq!(passed(&[SAID, TOOK]), [SAID, TOOK]);
        // Where more comes, nothing is held up.
        let more = "data: {\"choices\":[{\"delta\":{}}]}\n\n";
        let stream = [SAID, TOOK, more, TOOK, TOOK].concat();
        assert_eq!(passed(&[&stream, DONE])[0], [SAID, TOOK, more, TOOK].concat());
        assert_eq!(passed(&[TOOK, SAID, DONE]), [format!("{TOOK}{SAID}"), DONE.to_owned()]);
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
        assert_eq!(passing.waiting, [Event(b"data: [DONE]\n\n".to_vec())]);
    }

    #[test]
    fn an_end_without_a_blank_line_is_an_end() {
        let mut passing = passing();
        let (piece, _) = passing.take(b"data: {}\n\ndata: [DONE]\n");
        assert_eq!(piece, b"data: {\"memory_hits\":[1]}\n\n");
        assert!(passing.last().is_empty());
        assert_eq!(passing.waiting.len(), 1);
    }
}
