//! A chat as an application hands it over: its messages alone, or the body of a request for a chat
//! completion in OpenAI's format, whose other fields stay as they are.

use serde_json::{Map, Value};

use crate::llm::chat_messages::{ChatMessages, MessagesError};
use crate::text::tokens::estimate_tokens;

/// What a model reads beside the messages, for counting its tokens.
const READ_FIELDS: [&str; 3] = ["tools", "functions", "response_format"];

/// The field of [`ChatBody::take_seen`].
pub const SEEN: &str = "memory_seen";

/// A body that was checked.
#[derive(Debug, Clone, PartialEq)]
pub struct ChatBody {
    pub messages: ChatMessages,
    /// Every field but `messages`; empty for messages alone.
    pub fields: Map<String, Value>,
}

/// The fields of a body that are also arguments of functions; null is as good as none.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Options {
    pub model: Option<String>,
    pub temperature: Option<f32>,
    /// `max_completion_tokens`, or its older name `max_tokens`.
    pub max_tokens: Option<i32>,
}

impl ChatBody {
    /// Reads a JSON array of messages, or an object with one as `messages`.
    ///
    /// # Errors
    ///
    /// Those of [`ChatMessages::parse`].
    pub fn parse(body: Value) -> Result<Self, MessagesError> {
        let (messages, fields) = match body {
            Value::Object(mut fields) => {
                (fields.shift_remove("messages").unwrap_or_default(), fields)
            }
            messages => (messages, Map::new()),
        };
        Ok(Self { messages: ChatMessages::parse(messages)?, fields })
    }

    /// The fields that are also arguments.
    ///
    /// # Errors
    ///
    /// A field of another type, or a number outside of what the type of its argument holds.
    pub fn options(&self) -> Result<Options, MessagesError> {
        let field = |name: &str| self.fields.get(name).filter(|value| !value.is_null());
        let wrong = |name: &str, expected: &str| {
            MessagesError::new(format!("the field {name} of the body is not {expected}"))
        };
        let model = field("model")
            .map(|model| model.as_str().ok_or_else(|| wrong("model", "a text")))
            .transpose()?;
        let temperature = field("temperature")
            .map(|value| value.as_f64().ok_or_else(|| wrong("temperature", "a number")))
            .transpose()?;
        let mut max_tokens = None;
        for name in ["max_tokens", "max_completion_tokens"] {
            if let Some(value) = field(name) {
                let tokens = value.as_i64().and_then(|tokens| i32::try_from(tokens).ok());
                max_tokens = Some(tokens.ok_or_else(|| wrong(name, "a number of tokens"))?);
            }
        }
        Ok(Options {
            model: model.map(str::to_owned),
            temperature: temperature.map(|value| value as f32),
            max_tokens,
        })
    }

    /// Takes out the fields that are also arguments, and `stream`: what is left is passed on.
    pub fn take_options(&mut self) {
        for name in ["model", "temperature", "max_tokens", "max_completion_tokens", "stream"] {
            self.fields.shift_remove(name);
        }
    }

    /// Takes out what the model reads beside the messages, as messages: the gateway does not send all of a long
    /// chat as such. It is not counted and not returned.
    pub fn take_seen(&mut self) -> Value {
        self.fields.shift_remove(SEEN).unwrap_or_default()
    }

    /// Whether the answer is wanted as a stream of events.
    #[must_use]
    pub fn wants_stream(&self) -> bool {
        self.fields.get("stream").and_then(Value::as_bool).unwrap_or(false)
    }

    /// What the model reads of each message, and of the tools and the schema of its answer.
    #[must_use]
    pub fn read_texts(&self) -> Vec<String> {
        let fields = READ_FIELDS.iter().filter_map(|name| self.fields.get(*name));
        let mut texts = self.messages.read_texts();
        texts.extend(fields.filter(|value| !value.is_null()).map(Value::to_string));
        texts
    }

    /// The tokens of all that, as [`estimate_tokens`] counts them.
    #[must_use]
    pub fn estimated_tokens(&self) -> u32 {
        let tokens = self.read_texts().into_iter().map(|text| estimate_tokens(&text));
        tokens.fold(0, u32::saturating_add)
    }

    /// The body, its messages as they are now.
    #[must_use]
    pub fn into_fields(mut self) -> Map<String, Value> {
        self.fields.insert("messages".to_owned(), self.messages.into_values().into());
        self.fields
    }
}

/// Whether a body with these fields offers tools to the model.
#[must_use]
pub fn offers_tools(fields: &Map<String, Value>) -> bool {
    ["tools", "functions"]
        .iter()
        .any(|name| fields.get(*name).is_some_and(|tools| !tools.is_null()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn body(value: Value) -> ChatBody {
        ChatBody::parse(value).unwrap()
    }

    #[test]
    fn messages_alone_are_a_body_without_fields() {
        let messages = json!([{"role": "user", "content": "Hi"}]);
        let alone = body(messages.clone());
        assert!(alone.fields.is_empty());
        assert_eq!(alone.options().unwrap(), Options::default());
        assert_eq!(Value::from(alone.into_fields()), json!({"messages": messages}));
    }

    #[test]
    fn unknown_fields_stay() {
        let whole = json!({
            "messages": [{"role": "user", "content": "Hi"}],
            "tools": [{"type": "function", "function": {"name": "f"}}],
            "seed": 7, "stop": ["\n"], "new": {"field": null}, "stream": false,
        });
        let mut read = body(whole.clone());
        assert_eq!(Value::from(read.clone().into_fields()), whole);
        assert!(offers_tools(&read.fields));
        let tools = r#"[{"type":"function","function":{"name":"f"}}]"#;
        assert_eq!(read.read_texts(), ["Hi", tools]);
        assert_eq!(read.estimated_tokens(), estimate_tokens("Hi") + estimate_tokens(tools));
        read.take_options();
        assert_eq!(read.fields.keys().collect::<Vec<_>>(), ["tools", "seed", "stop", "new"]);
    }

    #[test]
    fn what_else_is_read_is_taken_out() {
        let seen = json!([{"role": "system", "content": "Be brief."}]);
        let messages = json!([{"role": "user", "content": "Hi"}]);
        let mut with = body(json!({"messages": messages, SEEN: seen}));
        assert_eq!(with.read_texts(), ["Hi"]);
        assert_eq!(with.take_seen(), seen);
        assert_eq!(with.take_seen(), Value::Null);
        assert_eq!(Value::from(with.into_fields()), json!({"messages": messages}));
    }

    #[test]
    fn options_are_read() {
        let options = |fields: Value| {
            let mut whole = json!({"messages": [{"role": "user", "content": "Hi"}]});
            whole.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
            body(whole).options().map_err(|error| error.to_string())
        };
        assert_eq!(
            options(json!({"model": "m", "temperature": 0.7, "max_tokens": 5})).unwrap(),
            Options { model: Some("m".into()), temperature: Some(0.7), max_tokens: Some(5) }
        );
        let nulls = json!({"model": null, "temperature": null, "max_completion_tokens": null});
        assert_eq!(options(nulls).unwrap(), Options::default());
        let both = json!({"max_tokens": 5, "max_completion_tokens": 6});
        assert_eq!(options(both).unwrap().max_tokens, Some(6));
        for (fields, expected) in [
            (json!({"model": 1}), "the field model of the body is not a text"),
            (json!({"temperature": "hot"}), "temperature of the body is not a number"),
            (json!({"max_tokens": 1.5}), "max_tokens of the body is not a number of tokens"),
            (json!({"max_completion_tokens": 1u64 << 40}), "not a number of tokens"),
        ] {
            let error = options(fields).unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
    }

    #[test]
    fn what_is_no_body_is_refused() {
        for wrong in [json!({}), json!("hi"), json!(null), json!({"messages": {}})] {
            let error = ChatBody::parse(wrong.clone()).unwrap_err().to_string();
            assert!(error.contains("must be a JSON array"), "{wrong}: {error}");
        }
    }

    #[test]
    fn streams_are_told() {
        let messages = json!([{"role": "user", "content": "Hi"}]);
        assert!(body(json!({"messages": messages, "stream": true})).wants_stream());
        assert!(!body(json!({"messages": messages, "stream": null})).wants_stream());
        assert!(!body(messages).wants_stream());
    }
}
