//! The messages between PostgreSQL's processes and the model server, and how one message
//! becomes bytes. Both sides of the socket are built from this file, so they cannot disagree;
//! what moves the bytes is in `frame.rs` (incremental reader), `client.rs` and `server.rs`.
//! Messages about HTTP services are in `protocol/chat.rs`.
//!
//! A frame is
//!
//! | bytes | meaning                                                   |
//! |-------|-----------------------------------------------------------|
//! | 4     | length of the body in bytes, u32 little endian            |
//! | 1     | [`PROTOCOL_VERSION`]                                      |
//! | 8     | request id chosen by the client, u64 little endian        |
//! | n     | body: a [`Request`] or a [`Response`], encoded by postcard |
//!
//! A client may send further requests before the first is answered; answers carry the id of
//! their request and may come in any order. Closing the connection, also only its sending half,
//! cancels what is not answered yet.

use std::fmt;
use std::marker::PhantomData;

use serde::de::{DeserializeOwned, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use thiserror::Error;

use crate::words;

mod chat;

pub use crate::facts::answers::{AnswerFormat, ChatMessage, ChatRole};
pub use crate::llm::breaker::BreakerState;
pub use chat::{
    ApiKey, CallRecord, ChatAnswer, ChatFailure, ChatFailureKind, ChatOutcome, ChatRequest,
    Conversation, Endpoint, EndpointStatus, Provider, RemoteEmbedder,
};

/// Raised whenever a type of a message changes shape. A server answers a frame of another
/// version with [`ErrorCode::Version`] and closes the connection.
pub const PROTOCOL_VERSION: u8 = 8;

/// Longest body accepted or produced, in bytes.
pub const MAX_FRAME_BYTES: usize = 64 * 1024 * 1024;

/// Length of what precedes the body: length, version, request id.
pub const FRAME_HEADER_BYTES: usize = 4 + 1 + 8;

/// Most texts or messages in one list of a request. Without it 64 MiB of empty strings would
/// decode into gigabytes of `String`s.
pub const MAX_TEXTS_PER_REQUEST: usize = 16_384;

/// Names a model and where its files are.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ModelRef {
    /// Name for messages; must equal the name in the model's `config.json`.
    pub name: String,
    /// Absolute directory that holds `model.onnx`, `tokenizer.json` and `config.json`; empty
    /// for a remote model.
    pub directory: String,
    /// The HTTP service that runs the model, if no file here does. Then embeddings are the only
    /// thing it can be asked for.
    pub remote: Option<Box<RemoteEmbedder>>,
}

/// What an embedding is for; some models want another prefix for each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Purpose {
    /// A question. Longer than the model's limit, it is cut.
    Query,
    /// Something to be found. Longer than the model's limit, it gets several windows.
    Document,
}

/// How a text is divided into tokens: OpenAI's `cl100k_base`, or `o200k_base` of its later models.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Encoding {
    #[default]
    Cl100k,
    O200k,
}

impl Encoding {
    /// The encodings by their names.
    pub const ALL: [(&'static str, Self); 2] =
        [("cl100k_base", Self::Cl100k), ("o200k_base", Self::O200k)];

    /// The encoding of a name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|(known, _)| *known == name).map(|(_, encoding)| encoding)
    }
}

/// What a client can ask for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Request {
    /// Embeds `texts` and counts the cl100k tokens of `token_texts`: everything an ingest needs
    /// in one round trip. Either list may be empty; `texts` must be when there is no model.
    Prepare {
        model: Option<ModelRef>,
        purpose: Purpose,
        #[serde(deserialize_with = "bounded")]
        texts: Vec<String>,
        #[serde(deserialize_with = "bounded")]
        token_texts: Vec<String>,
    },
    /// Scores documents against the query with a cross-encoder.
    Rerank {
        model: ModelRef,
        query: String,
        #[serde(deserialize_with = "bounded")]
        documents: Vec<String>,
        /// Whether it waits however many others rerank; else it is refused at once if there are too many.
        waits: bool,
    },
    /// Loads the model if necessary, runs it once and says what it is: for registration.
    Describe { model: ModelRef },
    /// Counters and loaded models. Answered also when the queue of sequences is full.
    Status,
    /// Forgets every cached embedding and score, as erasing a user's memory requires.
    FlushCaches,
    /// Asks an LLM and checks its answer.
    Chat(Box<ChatRequest>),
    /// Goes on with a conversation that is an application's own.
    Converse(Box<Conversation>),
    /// Counts the tokens of texts; answered as [`Request::Prepare`] without texts to embed.
    Count {
        encoding: Encoding,
        #[serde(deserialize_with = "bounded")]
        texts: Vec<String>,
    },
}

/// What the server answers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Response {
    /// Answer to [`Request::Prepare`] and [`Request::Count`].
    Prepared {
        /// Per text of the request its windows, at least one, in reading order; each is a
        /// normalised vector of the model's dimension.
        embeddings: Vec<Vec<Vec<f32>>>,
        /// Per token text of the request its number of cl100k tokens, or of those that were asked for.
        token_counts: Vec<u32>,
    },
    /// Answer to [`Request::Rerank`]: per document of the request an unbounded score, higher is better. `None` if too
    /// many others rerank.
    Logits(Option<Vec<f32>>),
    /// Answer to [`Request::Describe`].
    Description(ModelDescription),
    /// Answer to [`Request::Status`].
    Status(ServerStatus),
    /// Answer to [`Request::FlushCaches`].
    Flushed,
    /// The request failed; nothing of it was kept.
    Error { code: ErrorCode, message: String },
    /// Answer to [`Request::Chat`] and [`Request::Converse`], whether the endpoint gave one or not.
    Chat(ChatOutcome),
}

/// Why a request failed, for the client to decide what to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum ErrorCode {
    /// The queue is full: try again later.
    Busy,
    /// A file of the model is not there.
    ModelMissing,
    /// The model's files are there but do not fit what was asked or each other.
    ModelInvalid,
    /// libonnxruntime cannot be loaded.
    RuntimeMissing,
    /// The request makes no sense or is too large; trying again does not help.
    InvalidRequest,
    /// A bug, or the machine ran out of something.
    Internal,
    /// The client speaks another protocol version.
    Version,
    /// The service that runs a remote model is down, misconfigured or over a limit: try again
    /// later.
    RemoteUnavailable,
    /// The service that runs a remote model is well otherwise, but did not answer this request in time: a
    /// smaller one may succeed.
    Timeout,
}

words! {
    /// What a model computes.
    #[derive(Hash, Serialize, Deserialize)]
    #[serde(rename_all = "lowercase")]
    pub enum ModelKind {
        /// Text to vector.
        Embedder = "embedder",
        /// Query and document to one score.
        Reranker = "reranker",
    }
}

impl fmt::Display for ModelKind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}

/// A model that was loaded and checked.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ModelDescription {
    pub name: String,
    pub kind: ModelKind,
    /// Length of the embeddings, as the graph returned it; `None` for a reranker.
    pub dimension: Option<u32>,
    /// Longest input of one sequence in the model's own tokens, special tokens included; 0 if
    /// unknown, as with remote models.
    pub max_tokens: u32,
    /// How long loading took when it happened, in milliseconds; of a remote model, how long one
    /// embedding took.
    pub load_milliseconds: u32,
}

/// Counters since the server's start, and its present load.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ServerStatus {
    /// Version of the server's package.
    pub version: String,
    pub pid: u32,
    pub uptime_seconds: u64,
    /// Threads that run models.
    pub threads: u32,
    pub models: Vec<LoadedModel>,
    /// Sequences waiting for a model.
    pub queue_items: u64,
    /// Bytes of requests that were received and not answered yet.
    pub queue_bytes: u64,
    /// Requests received, answered or not.
    pub requests: u64,
    /// Requests answered with [`ErrorCode::Busy`].
    pub rejected: u64,
    /// Sequences that were run through a model.
    pub sequences: u64,
    pub query_cache_hits: u64,
    pub query_cache_misses: u64,
    pub pair_cache_hits: u64,
    pub pair_cache_misses: u64,
    /// Resident memory of the server in bytes.
    pub resident_bytes: u64,
    /// Reranks that were refused because of others; not among those above.
    pub reranks_refused: u64,
    /// HTTP services that were used.
    pub endpoints: Vec<EndpointStatus>,
}

/// One model held in memory.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LoadedModel {
    pub name: String,
    pub directory: String,
    pub kind: ModelKind,
    pub loaded_seconds_ago: u64,
    pub load_milliseconds: u32,
}

/// Why bytes are no frame, or a value cannot become one.
#[derive(Debug, Error)]
pub enum ProtocolError {
    #[error("message of {0} bytes is longer than the limit of {MAX_FRAME_BYTES}")]
    TooLong(usize),
    #[error("protocol version {0} is not the supported {PROTOCOL_VERSION}")]
    Version(u8),
    #[error("malformed message: {0}")]
    Malformed(#[from] postcard::Error),
    #[error("malformed message: {0} bytes follow its end")]
    TrailingBytes(usize),
}

/// One message as it travels: the id of its request and the encoded body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame {
    pub id: u64,
    pub body: Vec<u8>,
}

impl Frame {
    /// Decodes the body, a [`Request`] or a [`Response`].
    ///
    /// # Errors
    /// [`ProtocolError::Malformed`] or [`ProtocolError::TrailingBytes`] if the body is not
    /// exactly one `T`.
    pub fn decode<T: DeserializeOwned>(&self) -> Result<T, ProtocolError> {
        let (value, rest) = postcard::take_from_bytes(&self.body)?;
        if rest.is_empty() { Ok(value) } else { Err(ProtocolError::TrailingBytes(rest.len())) }
    }

    /// Whether the body is a [`Request::Prepare`], [`Request::Rerank`] or [`Request::Count`]: its answer
    /// follows from its bytes alone, and asking twice is the same as asking once.
    #[must_use]
    pub fn is_pure(&self) -> bool {
        // The encoding begins with the place of the variant.
        matches!(self.body.first(), Some(0 | 1 | 7))
    }
}

/// The frame around a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FrameHeader {
    /// Length of the body in bytes.
    pub body_bytes: usize,
    pub id: u64,
}

impl FrameHeader {
    /// Reads the bytes before a body.
    ///
    /// # Errors
    /// [`ProtocolError::Version`] or [`ProtocolError::TooLong`]. Either means that the place of
    /// the next frame is unknown: the connection is of no further use.
    pub fn parse(bytes: &[u8; FRAME_HEADER_BYTES]) -> Result<Self, ProtocolError> {
        let [l0, l1, l2, l3, version, id @ ..] = *bytes;
        if version != PROTOCOL_VERSION {
            return Err(ProtocolError::Version(version));
        }
        let body_bytes = u32::from_le_bytes([l0, l1, l2, l3]) as usize;
        if body_bytes > MAX_FRAME_BYTES {
            return Err(ProtocolError::TooLong(body_bytes));
        }
        Ok(Self { body_bytes, id: u64::from_le_bytes(id) })
    }
}

/// Turns a message into the bytes of its frame.
///
/// # Errors
/// [`ProtocolError::TooLong`] if the body exceeds [`MAX_FRAME_BYTES`].
pub fn encode<T: Serialize>(id: u64, body: &T) -> Result<Vec<u8>, ProtocolError> {
    let mut frame = vec![0; FRAME_HEADER_BYTES];
    frame[4] = PROTOCOL_VERSION;
    frame[5..].copy_from_slice(&id.to_le_bytes());
    let mut frame = postcard::to_extend(body, frame)?;
    let body_bytes = frame.len() - FRAME_HEADER_BYTES;
    match u32::try_from(body_bytes) {
        Ok(length) if body_bytes <= MAX_FRAME_BYTES => {
            frame[..4].copy_from_slice(&length.to_le_bytes());
            Ok(frame)
        }
        _ => Err(ProtocolError::TooLong(body_bytes)),
    }
}

/// Deserializes a list and refuses it once it is longer than [`MAX_TEXTS_PER_REQUEST`].
fn bounded<'de, D, T>(deserializer: D) -> Result<Vec<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    struct Items<T>(PhantomData<T>);

    impl<'de, T: Deserialize<'de>> Visitor<'de> for Items<T> {
        type Value = Vec<T>;

        fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
            write!(formatter, "a list of at most {MAX_TEXTS_PER_REQUEST}")
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut sequence: A) -> Result<Self::Value, A::Error> {
            let mut items = Vec::with_capacity(sequence.size_hint().unwrap_or(0).min(1024));
            while let Some(item) = sequence.next_element()? {
                if items.len() == MAX_TEXTS_PER_REQUEST {
                    return Err(serde::de::Error::invalid_length(items.len() + 1, &self));
                }
                items.push(item);
            }
            Ok(items)
        }
    }

    deserializer.deserialize_seq(Items(PhantomData))
}
