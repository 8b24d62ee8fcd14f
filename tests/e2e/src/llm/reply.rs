//! What a model behind the stub answers, and its way into OpenAI's format.

use super::Call;
use super::http::Response;
use serde_json::{Value, json};

/// What answers the stub's requests: a closure from a [`Call`] to a [`Reply`], or a
/// [`ScriptedModel`](super::ScriptedModel). It may block.
pub trait Model: Send + Sync + 'static {
    /// The answer to a chat request.
    fn answer(&self, call: &Call) -> Reply;

    /// The embedding of one text.
    fn embed(&self, text: &str) -> Vec<f32> {
        hashed_words(text, 64)
    }
}

impl<F, R> Model for F
where
    F: Fn(&Call) -> R + Send + Sync + 'static,
    R: Into<Reply>,
{
    fn answer(&self, call: &Call) -> Reply {
        self(call).into()
    }
}

/// A model's answer.
#[derive(Clone, Debug)]
pub enum Reply {
    /// The text of the assistant's message in a well-formed answer.
    Content(String),
    /// A whole HTTP answer.
    Http { status: u16, headers: Vec<(String, String)>, body: String },
}

impl Reply {
    /// An answer whose body is this document, with status 200.
    pub fn body(document: &Value) -> Self {
        Self::Http { status: 200, headers: Vec::new(), body: document.to_string() }
    }

    /// An error in OpenAI's format.
    pub fn error(status: u16, message: &str) -> Self {
        let body = json!({"error": {"message": message, "type": "error", "code": null}});
        Self::Http { status, headers: Vec::new(), body: body.to_string() }
    }

    /// A whole body, with status 200.
    pub fn document(body: &Value) -> Self {
        Self::Http { status: 200, headers: Vec::new(), body: body.to_string() }
    }

    /// Adds a header to an answer that is not plain content.
    ///
    /// # Panics
    /// If it is.
    #[must_use]
    pub fn with_header(mut self, name: &str, value: &str) -> Self {
        match &mut self {
            Self::Http { headers, .. } => headers.push((name.to_owned(), value.to_owned())),
            Self::Content(_) => panic!("content has no headers"),
        }
        self
    }

    pub(super) fn into_response(self, call: &Call, finish_reason: &str) -> Response {
        let (status, mut headers, body) = match self {
            Self::Content(content) => {
                (200, Vec::new(), completion(call, &content, finish_reason).to_string())
            }
            Self::Http { status, headers, body } => (status, headers, body),
        };
        headers.push(("Content-Type".to_owned(), "application/json".to_owned()));
        Response { status, headers, body: body.into_bytes() }
    }
}

impl From<String> for Reply {
    fn from(content: String) -> Self {
        Self::Content(content)
    }
}

impl From<&str> for Reply {
    fn from(content: &str) -> Self {
        Self::Content(content.to_owned())
    }
}

impl From<Value> for Reply {
    /// The document as the message's text.
    fn from(content: Value) -> Self {
        Self::Content(content.to_string())
    }
}

/// The stub's tokens of a text: a quarter of its bytes, as a rule of thumb has it.
pub fn tokens(text: &str) -> usize {
    text.len().div_ceil(4)
}

fn completion(call: &Call, content: &str, finish_reason: &str) -> Value {
    let prompt = tokens(&call.body["messages"].to_string());
    let answer = tokens(content);
    json!({
        "id": format!("chatcmpl-{}", call.number),
        "object": "chat.completion",
        "created": 1_700_000_000,
        "model": call.model(),
        "choices": [{
            "index": 0,
            "message": {"role": "assistant", "content": content},
            "finish_reason": finish_reason,
        }],
        "usage": {
            "prompt_tokens": prompt,
            "completion_tokens": answer,
            "total_tokens": prompt + answer,
        },
    })
}

/// The answer to an embeddings request.
pub(super) fn embeddings(call: &Call, model: &dyn Model) -> Reply {
    let input = &call.body["input"];
    let texts = match input {
        Value::String(text) => vec![text.as_str()],
        Value::Array(texts) => texts.iter().filter_map(Value::as_str).collect(),
        _ => return Reply::error(400, "input is neither a text nor a list of texts"),
    };
    let tokens: usize = texts.iter().map(|text| tokens(text)).sum();
    let data: Vec<Value> = texts
        .iter()
        .enumerate()
        .map(|(index, text)| {
            json!({"object": "embedding", "index": index, "embedding": model.embed(text)})
        })
        .collect();
    Reply::body(&json!({
        "object": "list",
        "model": call.model(),
        "data": data,
        "usage": {"prompt_tokens": tokens, "total_tokens": tokens},
    }))
}

/// A unit vector in which texts that share words are near each other: every word is hashed into one
/// of `dimension` places.
pub fn hashed_words(text: &str, dimension: usize) -> Vec<f32> {
    let mut vector = vec![0.0f32; dimension];
    for word in text.to_lowercase().split(|c: char| !c.is_alphanumeric()).filter(|w| !w.is_empty())
    {
        // FNV-1a.
        let hash = word.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
        });
        vector[(hash % dimension as u64) as usize] += 1.0;
    }
    // A text without words has a direction too.
    if vector.iter().all(|value| *value == 0.0) {
        vector[0] = 1.0;
    }
    let length = vector.iter().map(|value| value * value).sum::<f32>().sqrt();
    vector.iter_mut().for_each(|value| *value /= length);
    vector
}
