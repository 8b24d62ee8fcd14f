//! What an endpoint understands. "OpenAI-compatible" servers differ in how an answer's shape can
//! be enforced and in what the limits are called, and say so only by refusing a request. The
//! dialect that worked is remembered per endpoint, so each refusal is paid for once.

use super::providers::ApiError;
use super::text_windows;

/// How an answer's shape is enforced, from the strictest on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AnswerMode {
    /// `response_format` with a JSON schema.
    JsonSchema,
    /// `response_format` that asks for any JSON.
    JsonObject,
    /// Only the prompt says what the answer must look like.
    Plain,
}

impl AnswerMode {
    pub fn name(self) -> &'static str {
        match self {
            Self::JsonSchema => "json_schema",
            Self::JsonObject => "json_object",
            Self::Plain => "plain",
        }
    }

    fn weaker(self) -> Option<Self> {
        match self {
            Self::JsonSchema => Some(Self::JsonObject),
            Self::JsonObject => Some(Self::Plain),
            Self::Plain => None,
        }
    }
}

/// The optional parts of a request that an endpoint accepts, as far as is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Dialect {
    pub mode: AnswerMode,
    /// The limit is called `max_completion_tokens`, as OpenAI's reasoning models want it, and
    /// not `max_tokens`.
    pub completion_tokens: bool,
    pub temperature: bool,
    /// Embeddings of a chosen length can be asked for.
    pub dimensions: bool,
    /// Longest text to embed, in bytes.
    pub window_bytes: usize,
}

impl Default for Dialect {
    fn default() -> Self {
        Self {
            mode: AnswerMode::JsonSchema,
            completion_tokens: false,
            temperature: true,
            dimensions: true,
            window_bytes: text_windows::LONGEST,
        }
    }
}

/// Which optional parts a refused request had.
#[derive(Debug, Clone, Copy, Default)]
pub struct Sent {
    pub response_format: bool,
    pub token_limit: bool,
    pub temperature: bool,
    pub dimensions: bool,
}

impl Dialect {
    /// The dialect to try after a chat was refused with 400 or 422, or `None` if the refusal has
    /// another reason. Each step gives something up, so the steps come to an end.
    #[must_use]
    pub fn after_refused_chat(self, sent: Sent, error: &ApiError) -> Option<Self> {
        if sent.token_limit && !self.completion_tokens && error.concerns("max_completion_tokens") {
            return Some(Self { completion_tokens: true, ..self });
        }
        if sent.temperature && error.concerns("temperature") {
            return Some(Self { temperature: false, ..self });
        }
        if sent.response_format && !error.concerns_content() {
            return Some(Self { mode: self.mode.weaker()?, ..self });
        }
        None
    }

    /// The same after texts to embed were refused. An endpoint that does not explain itself is
    /// thought to find them too long first.
    #[must_use]
    pub fn after_refused_texts(
        self,
        sent: Sent,
        texts: &[String],
        error: &ApiError,
    ) -> Option<Self> {
        let without_dimensions =
            Self { dimensions: false, window_bytes: text_windows::LONGEST, ..self };
        if sent.dimensions && error.concerns("dimensions") {
            return Some(without_dimensions);
        }
        match text_windows::shorter(self.window_bytes, texts) {
            Some(window_bytes) => Some(Self { window_bytes, ..self }),
            None => sent.dimensions.then_some(without_dimensions),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(message: &str) -> ApiError {
        ApiError { message: message.to_owned(), ..ApiError::default() }
    }

    const CHAT: Sent =
        Sent { response_format: true, token_limit: true, temperature: true, dimensions: false };

    #[test]
    fn unexplained_refusals_step_through_the_modes() {
        let mut dialect = Dialect::default();
        let mut modes = vec![dialect.mode.name()];
        let mut sent = CHAT;
        while let Some(next) = dialect.after_refused_chat(sent, &error("bad request")) {
            dialect = next;
            modes.push(dialect.mode.name());
            sent.response_format = dialect.mode != AnswerMode::Plain;
        }
        assert_eq!(modes, ["json_schema", "json_object", "plain"]);
    }

    #[test]
    fn named_parameters_are_given_up_alone() {
        let start = Dialect::default();
        let limit = "Unsupported parameter: 'max_tokens' is not supported with this model. \
                     Use 'max_completion_tokens' instead.";
        let next = start.after_refused_chat(CHAT, &error(limit)).unwrap();
        assert_eq!(next, Dialect { completion_tokens: true, ..start });
        let temperature = ApiError { param: Some("temperature".to_owned()), ..error("no") };
        let next = start.after_refused_chat(CHAT, &temperature).unwrap();
        assert_eq!(next, Dialect { temperature: false, ..start });
    }

    #[test]
    fn refused_texts_are_cut_before_their_length_is_left_to_the_endpoint() {
        let sent = Sent { dimensions: true, ..Sent::default() };
        let long = ["x".repeat(10_000)];
        let mut dialect = Dialect::default();
        let mut steps = Vec::new();
        let mut sent_now = sent;
        let mut texts = long.to_vec();
        while let Some(next) = dialect.after_refused_texts(sent_now, &texts, &error("no")) {
            dialect = next;
            steps.push((dialect.window_bytes, dialect.dimensions));
            sent_now.dimensions = dialect.dimensions;
            texts = vec!["x".repeat(dialect.window_bytes.min(10_000))];
        }
        assert_eq!(
            steps,
            [(6_000, true), (1_500, true), (16_000, false), (6_000, false), (1_500, false)]
        );
        let named = Dialect::default().after_refused_texts(sent, &long, &error("dimensions: no"));
        assert_eq!(named, Some(Dialect { dimensions: false, ..Dialect::default() }));
    }

    #[test]
    fn refusals_of_the_content_change_nothing() {
        let too_long =
            ApiError { code: Some("context_length_exceeded".to_owned()), ..error("too long") };
        assert_eq!(Dialect::default().after_refused_chat(CHAT, &too_long), None);
        assert_eq!(Dialect::default().after_refused_chat(Sent::default(), &error("no")), None);
    }
}
