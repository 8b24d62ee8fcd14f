//! What can go wrong with an LLM's endpoint, and the plan by which it does.

use super::dice::mixed;
use super::http::Response;
use super::{Call, Reply};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;

/// Bytes of [`Fault::HugeBody`].
pub const HUGE: usize = 10_000_000;

/// One thing that goes wrong with one answer. Faults of the content leave answers alone that are not
/// content, embeddings say; those of JSON leave alone what is no JSON, summaries say: nobody could
/// tell that such a text is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The answer comes this much later.
    Delay(Duration),
    /// The body comes in pieces over this time.
    Drip(Duration),
    /// 429, with `Retry-After` in seconds if given.
    TooManyRequests { retry_after: Option<u32> },
    /// This status, with an error in OpenAI's format.
    Status(u16),
    /// The connection is reset instead of an answer.
    ResetBeforeHeaders,
    /// The connection is reset in the middle of the body.
    ResetInBody,
    /// The connection ends in order in the middle of the body.
    HalfBody,
    /// The content ends in the middle, `finish_reason` is `length`.
    HalfContent,
    /// Status 200, but the body is no JSON.
    GarbageBody,
    /// The content is no JSON.
    GarbageContent,
    /// The content is JSON of another shape.
    WrongSchema,
    /// The ids in the content are none that were sent.
    InventedIds,
    /// The answer is good but has [`HUGE`] bytes.
    HugeBody,
    /// The JSON has prose around it.
    Prose,
    /// The JSON is in a fence, with a reasoning block before it.
    Fenced,
    /// 400 to every request with `response_format`, as from a server that does not know it.
    NoResponseFormat,
    /// The content is an empty text.
    EmptyContent,
    /// Status 200, with an error of this code in the body.
    ErrorInside(u16),
    /// Status 200, with an error of this code in the first choice.
    ErrorInChoice(u16),
    /// The content is empty and `finish_reason` is `length` unless the answer may have so many tokens: before that, the
    /// model thinks.
    Thinks(u32),
    /// The answer is good, but does not say how many tokens it took.
    NoUsage,
}

impl Fault {
    /// One of every kind; delays are `short`.
    pub fn every_kind(short: Duration) -> Vec<Self> {
        vec![
            Self::Delay(short),
            Self::Drip(short),
            Self::TooManyRequests { retry_after: Some(1) },
            Self::TooManyRequests { retry_after: None },
            Self::Status(500),
            Self::Status(503),
            Self::ResetBeforeHeaders,
            Self::ResetInBody,
            Self::HalfBody,
            Self::HalfContent,
            Self::GarbageBody,
            Self::GarbageContent,
            Self::WrongSchema,
            Self::InventedIds,
            Self::HugeBody,
            Self::Prose,
            Self::Fenced,
            Self::NoResponseFormat,
            Self::EmptyContent,
            Self::ErrorInside(429),
            Self::ErrorInChoice(502),
            Self::NoUsage,
        ]
    }

    /// How long the answer is held back before anything is sent.
    pub(super) fn delay(self) -> Duration {
        match self {
            Self::Delay(delay) => delay,
            _ => Duration::ZERO,
        }
    }

    /// An answer that is sent instead of asking the model.
    pub(super) fn refusal(self, call: &Call) -> Option<Reply> {
        match self {
            Self::TooManyRequests { retry_after } => {
                let reply = Reply::error(429, "too many requests");
                Some(match retry_after {
                    Some(seconds) => reply.with_header("Retry-After", &seconds.to_string()),
                    None => reply,
                })
            }
            Self::ErrorInside(code) => Some(Reply::document(
                &json!({"error": {"message": "it was told to fail", "code": code}}),
            )),
            Self::ErrorInChoice(code) => Some(Reply::document(&json!({"choices": [{
                "finish_reason": "error",
                "error": {"message": "it was told to fail", "code": code},
                "message": {"role": "assistant", "content": ""},
            }]}))),
            Self::Thinks(tokens) if call.max_tokens() < tokens => Some(Reply::document(&json!({
                "choices": [{"finish_reason": "length", "message": {
                    "role": "assistant", "content": "", "reasoning_content": "Hm, let me think.",
                }}],
                "usage": {"prompt_tokens": 9, "completion_tokens": call.max_tokens()},
            }))),
            Self::Status(status) => Some(Reply::error(status, "the stub was told to fail")),
            Self::NoResponseFormat if call.response_format().is_some() => {
                Some(Reply::error(400, "unknown field: response_format"))
            }
            _ => None,
        }
    }

    /// The content that is sent in place of the good one.
    pub(super) fn spoil(self, content: String) -> String {
        let is_json = serde_json::from_str::<Value>(&content).is_ok();
        match self {
            Self::GarbageContent | Self::WrongSchema | Self::InventedIds if !is_json => content,
            Self::HalfContent => {
                let half = content.chars().count() / 2;
                content.chars().take(half).collect()
            }
            Self::GarbageContent => "{facts: [} \u{fffd}\u{1}\\ <xml>&&&".to_owned(),
            Self::WrongSchema => json!({"answer": 42, "list": [1, "two", null]}).to_string(),
            Self::InventedIds => invented(&content),
            Self::Prose => {
                format!(
                    "Sure, here is what you asked for:\n\n{content}\n\nLet me know if {{that}} helps!"
                )
            }
            Self::Fenced => {
                format!(
                    "<think>The user wants {{JSON}}, so [maybe] this.</think>\n```json\n{content}\n```\n"
                )
            }
            Self::EmptyContent => String::new(),
            _ => content,
        }
    }

    /// What the model's last word is said to be.
    pub(super) fn finish_reason(self) -> &'static str {
        if self == Self::HalfContent { "length" } else { "stop" }
    }

    /// The HTTP answer that is sent in place of the good one.
    pub(super) fn spoil_response(self, mut response: Response) -> Response {
        match self {
            Self::GarbageBody => {
                response.body = b"<html><body>It works!</body></html>\xff\xfe".to_vec()
            }
            // JSON may have any number of blanks before its end.
            Self::HugeBody => {
                let end = response.body.pop();
                response.body.resize(HUGE, b' ');
                response.body.extend(end);
            }
            Self::NoUsage => {
                let mut answer: Value = serde_json::from_slice(&response.body).unwrap();
                answer.as_object_mut().unwrap().remove("usage");
                response.body = answer.to_string().into_bytes();
            }
            _ => {}
        }
        response
    }
}

/// The same answer about other things: every id that was sent becomes one that was not.
fn invented(content: &str) -> String {
    const INVENTED: u32 = 4711;
    fn replace(name: &str, value: &mut Value) {
        match value {
            Value::Object(fields) => {
                fields.iter_mut().for_each(|(name, field)| replace(name, field));
            }
            Value::Array(values) => values.iter_mut().for_each(|value| replace(name, value)),
            Value::Number(_) if ["id", "turn", "turns"].contains(&name) => {
                *value = json!(INVENTED);
            }
            Value::String(choice) if name == "choice" => *choice = format!("replaces {INVENTED}"),
            _ => {}
        }
    }
    let Ok(mut value) = serde_json::from_str::<Value>(content) else { return content.to_owned() };
    replace("", &mut value);
    // An answer without ids invents a whole entry.
    let submarine =
        json!({"turn": INVENTED, "text": "The user owns a submarine.", "confidence": 1});
    let entries = [("facts", submarine), ("actions", json!({"action": "keep", "id": INVENTED}))];
    for (list, entry) in entries {
        if let Some(items) = value.get_mut(list).and_then(Value::as_array_mut) {
            items.push(entry);
        }
    }
    value.to_string()
}

type Choice = dyn Fn(&Call) -> Option<Fault> + Send + Sync;

/// Which call gets which fault.
#[derive(Clone)]
pub struct FaultPlan(Arc<Choice>);

impl FaultPlan {
    /// Everything works.
    pub fn none() -> Self {
        Self::when(|_| None)
    }

    /// Every call gets this fault.
    pub fn always(fault: Fault) -> Self {
        Self::when(move |_| Some(fault))
    }

    /// Every question gets this fault, while [tests](Call::is_test) of the endpoint go well: the questions are to
    /// blame.
    pub fn questions(fault: Fault) -> Self {
        Self::when(move |call| (!call.is_test()).then_some(fault))
    }

    /// The questions from now on get these faults in turn, and those after the last none.
    pub fn script(faults: impl IntoIterator<Item = Option<Fault>>) -> Self {
        let faults = std::sync::Mutex::new(faults.into_iter().collect::<Vec<_>>().into_iter());
        Self::when(
            move |call| {
                if call.is_test() { None } else { faults.lock().unwrap().next().flatten() }
            },
        )
    }

    /// A `share` (0 to 1) of the calls get one of `kinds`. The choice depends on nothing but the
    /// seed and the call's number.
    pub fn random(seed: u64, share: f64, kinds: Vec<Fault>) -> Self {
        Self::when(move |call| {
            let dice = mixed(seed ^ mixed(call.number as u64 + 1));
            let unit = (dice >> 11) as f64 / (1u64 << 53) as f64;
            (unit < share).then(|| kinds[(mixed(dice) % kinds.len() as u64) as usize])
        })
    }

    /// The same, but corrections work: after two bad answers a rule decides in place of the LLM, or a job gives
    /// up, and what is stored is not what it would have said.
    pub fn sparing_last_words(self) -> Self {
        Self::when(move |call| self.fault(call).filter(|_| !call.is_repair()))
    }

    /// Decides from the request, for faults of one purpose say.
    pub fn when(choice: impl Fn(&Call) -> Option<Fault> + Send + Sync + 'static) -> Self {
        Self(Arc::new(choice))
    }

    pub(super) fn fault(&self, call: &Call) -> Option<Fault> {
        (self.0)(call)
    }
}
