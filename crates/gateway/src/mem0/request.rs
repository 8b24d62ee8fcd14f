//! What a request says: fields that are mapped, fields that are known to change nothing here, and others, which
//! are refused.

use crate::refusal::Refusal;
use reqwest::Url;
use serde_json::{Map, Value, json};

/// Fields that are passed over: what they ask for is always so, or is about mem0's platform.
const IGNORED: [&str; 11] = [
    "async_mode",
    "delete_linked",
    "enable_graph",
    "fields",
    "keyword_search",
    "latest_only",
    "org_id",
    "output_format",
    "project_id",
    "source",
    "version",
];

/// Whether a text says nothing.
pub fn blank(text: &str) -> bool {
    text.trim().is_empty()
}

/// The fields of query and body that were not read yet.
#[derive(Debug)]
pub struct Fields {
    left: Map<String, Value>,
    /// Whose memory it is about.
    pub user_id: String,
}

/// Something that was said.
#[derive(Debug, PartialEq)]
pub struct Message {
    pub role: String,
    pub content: String,
}

/// Which of the user's memories a request is about.
#[derive(Debug, Default, PartialEq)]
pub struct Scope {
    pub agent_id: Option<String>,
    pub run_id: Option<String>,
    pub metadata: Option<Value>,
    pub created_after: Option<String>,
    pub created_before: Option<String>,
    /// Whether user, agent or run were named.
    pub is_named: bool,
}

impl Fields {
    /// Reads the query and the body. What the body says counts.
    pub fn read(query: Option<&str>, body: &[u8]) -> Result<Self, Refusal> {
        let mut left = Map::new();
        let url = Url::parse(&format!("http://query/?{}", query.unwrap_or_default()));
        for (name, value) in url.iter().flat_map(Url::query_pairs) {
            left.insert(name.into_owned(), Value::from(value.into_owned()));
        }
        if !body.trim_ascii().is_empty() {
            let body: Result<Map<String, Value>, _> = serde_json::from_slice(body);
            left.extend(body.map_err(|_| Refusal::invalid("the body is not a JSON object"))?);
        }
        left.retain(|name, value| !value.is_null() && !IGNORED.contains(&name.as_str()));
        Ok(Self { left, user_id: String::new() })
    }

    /// The user that is named first, by itself or among filters.
    pub fn named_user(&self) -> Option<&str> {
        fn among(fields: &Map<String, Value>) -> Option<&str> {
            let of_all = fields.get("AND").and_then(Value::as_array).into_iter().flatten();
            let named = fields.get("user_id").and_then(Value::as_str);
            named.or_else(|| of_all.filter_map(Value::as_object).find_map(among))
        }
        among(&self.left).or_else(|| among(self.left.get("filters")?.as_object()?))
    }

    /// Refuses what was not read.
    pub fn end(&self) -> Result<(), Refusal> {
        match self.left.keys().next() {
            None => Ok(()),
            Some(name) => Err(Refusal::invalid(format!("unsupported field: {name}"))),
        }
    }

    /// A text.
    pub fn text(&mut self, name: &str) -> Result<Option<String>, Refusal> {
        match self.left.remove(name) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(_) => Err(Refusal::invalid(format!("{name} is not a text"))),
        }
    }

    /// A number, which a query has as a text.
    pub fn number(&mut self, name: &str) -> Result<Option<f64>, Refusal> {
        let Some(value) = self.left.remove(name) else { return Ok(None) };
        let number = value.as_f64().or_else(|| value.as_str()?.parse().ok());
        let number = number.filter(|number| number.is_finite());
        number.map(Some).ok_or_else(|| Refusal::invalid(format!("{name} is not a number")))
    }

    /// A whole number.
    pub fn whole(&mut self, name: &str) -> Result<Option<i64>, Refusal> {
        let Some(number) = self.number(name)? else { return Ok(None) };
        let is_whole = number.fract() == 0.0 && (0.0..=1e9).contains(&number);
        let whole = is_whole.then_some(number as i64);
        whole.map(Some).ok_or_else(|| Refusal::invalid(format!("{name} is not a whole number")))
    }

    /// Yes or no.
    pub fn boolean(&mut self, name: &str) -> Result<Option<bool>, Refusal> {
        match self.left.remove(name) {
            None => Ok(None),
            Some(Value::Bool(value)) => Ok(Some(value)),
            Some(_) => Err(Refusal::invalid(format!("{name} is not true or false"))),
        }
    }

    /// What was said. A content of several parts is the texts among them; other parts are refused, for they
    /// would be lost.
    pub fn messages(&mut self) -> Result<Vec<Message>, Refusal> {
        let problem = || Refusal::invalid("messages is not a list of messages with role and text");
        let Some(Value::Array(messages)) = self.left.remove("messages") else {
            return Err(problem());
        };
        let read = |message: Value| {
            let role = message.get("role").and_then(Value::as_str).unwrap_or("user").to_owned();
            let content = match message.get("content")? {
                Value::String(text) => text.clone(),
                Value::Array(parts) => {
                    let texts = parts.iter().map(|part| part.get("text")?.as_str());
                    texts.collect::<Option<Vec<&str>>>()?.join("\n\n")
                }
                _ => return None,
            };
            Some(Message { role, content })
        };
        messages.into_iter().map(|message| read(message).ok_or_else(problem)).collect()
    }
}

/// Messages as one text. Who said what is only said where several did.
pub fn conversation(messages: &[Message]) -> String {
    match messages {
        [message] => message.content.clone(),
        _ => {
            let lines =
                messages.iter().map(|message| format!("{}: {}", message.role, message.content));
            lines.collect::<Vec<_>>().join("\n\n")
        }
    }
}

impl Scope {
    /// Reads who and what is named, by itself or among filters.
    pub fn read(fields: &mut Fields) -> Result<Self, Refusal> {
        let mut scope = Self::default();
        let user_id = fields.user_id.clone();
        for name in ["user_id", "agent_id", "run_id", "app_id", "metadata"] {
            if let Some(value) = fields.left.remove(name) {
                scope.narrow(name, &value, &user_id)?;
            }
        }
        match fields.left.remove("filters") {
            None => {}
            Some(Value::Object(filters)) => scope.filter(&filters, &user_id)?,
            Some(_) => return Err(Refusal::invalid("filters is not an object")),
        }
        Ok(scope)
    }

    fn filter(&mut self, filters: &Map<String, Value>, user_id: &str) -> Result<(), Refusal> {
        for (name, value) in filters {
            match (name.as_str(), value) {
                (_, Value::Null) => {}
                ("AND", Value::Array(all)) => {
                    for filters in all {
                        let filters = filters.as_object();
                        self.filter(filters.ok_or_else(|| unknown_filter(name))?, user_id)?;
                    }
                }
                _ => self.narrow(name, value, user_id)?,
            }
        }
        Ok(())
    }

    fn narrow(&mut self, name: &str, value: &Value, user_id: &str) -> Result<(), Refusal> {
        let text = value.as_str().filter(|text| !blank(text));
        let place = match (name, text) {
            ("user_id", Some(named)) if named == user_id => {
                self.is_named = true;
                return Ok(());
            }
            ("user_id", Some(_)) => {
                return Err(Refusal::forbidden("user_id is another user than the token's"));
            }
            ("agent_id", Some(_)) => &mut self.agent_id,
            ("run_id", Some(_)) => &mut self.run_id,
            ("metadata", None) if value.is_object() => {
                return set(&mut self.metadata, value.clone(), name);
            }
            ("created_at", None) => return self.created(value),
            _ => return Err(unknown_filter(name)),
        };
        self.is_named = true;
        set(place, text.unwrap_or_default().to_owned(), name)
    }

    fn created(&mut self, value: &Value) -> Result<(), Refusal> {
        let bounds = value.as_object().ok_or_else(|| unknown_filter("created_at"))?;
        for (operator, at) in bounds {
            let place = match operator.as_str() {
                "gte" => &mut self.created_after,
                "lt" => &mut self.created_before,
                _ => return Err(Refusal::invalid("of created_at, gte and lt can be asked")),
            };
            let at = at.as_str().ok_or_else(|| unknown_filter("created_at"))?;
            set(place, at.to_owned(), "created_at")?;
        }
        Ok(())
    }

    /// Refuses what only a question can say.
    pub fn without_times(&self) -> Result<(), Refusal> {
        match (&self.created_after, &self.created_before) {
            (None, None) => Ok(()),
            _ => Err(Refusal::invalid("unsupported field: created_at")),
        }
    }

    /// The filter of `memory_recall`.
    pub fn to_filter(&self) -> Value {
        let all = [
            ("agent_id", self.agent_id.as_ref().map(|text| json!(text))),
            ("session_id", self.run_id.as_ref().map(|text| json!(text))),
            ("metadata", self.metadata.clone()),
            ("created_after", self.created_after.as_ref().map(|text| json!(text))),
            ("created_before", self.created_before.as_ref().map(|text| json!(text))),
        ];
        let asked = all.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?)));
        Value::Object(asked.collect())
    }
}

/// Sets what was not set, or the same again: two values at once match nothing, which no client means.
fn set<T: PartialEq>(place: &mut Option<T>, value: T, name: &str) -> Result<(), Refusal> {
    if place.as_ref().is_some_and(|set| *set != value) {
        return Err(Refusal::invalid(format!("{name} is there twice")));
    }
    *place = Some(value);
    Ok(())
}

fn unknown_filter(name: &str) -> Refusal {
    Refusal::invalid(format!(
        "{name} cannot be asked for like this: user_id, agent_id and run_id take one text, metadata an object, \
         created_at gte and lt, and AND a list of these"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::StatusCode;
    use axum::response::IntoResponse;

    fn scope(body: &Value) -> Result<Scope, Refusal> {
        let mut fields = Fields::read(None, body.to_string().as_bytes())?;
        fields.user_id = "ann".to_owned();
        Scope::read(&mut fields)
    }

    #[test]
    fn a_scope_is_named_by_itself_or_among_filters() {
        let filters = json!({"AND": [{"user_id": "ann"}, {"run_id": "r"}], "agent_id": "a", "app_id": null,
                             "metadata": {"k": 1}, "created_at": {"gte": "2025-01-01", "lt": "2026-01-01"}});
        let found = scope(&json!({"filters": filters, "run_id": "r"})).unwrap();
        assert_eq!(
            found.to_filter(),
            json!({"agent_id": "a", "session_id": "r", "metadata": {"k": 1},
                   "created_after": "2025-01-01", "created_before": "2026-01-01"})
        );
        assert!(found.is_named);
        assert_eq!(scope(&json!({})).unwrap(), Scope::default());
    }

    #[test]
    fn what_cannot_be_mapped_is_refused() {
        for (body, status) in [
            (json!({"user_id": "bob"}), 403),
            (json!({"filters": {"user_id": "*"}}), 403),
            (json!({"filters": {"AND": [{"user_id": "ann"}, {"user_id": "bob"}]}}), 403),
            (json!({"user_id": ["ann"]}), 400),
            (json!({"app_id": "x"}), 400),
            (json!({"filters": {"OR": [{"user_id": "ann"}]}}), 400),
            (json!({"filters": {"categories": {"in": ["x"]}}}), 400),
            (json!({"filters": {"run_id": "a"}, "run_id": "b"}), 400),
            (json!({"filters": {"created_at": {"lte": "2025-01-01"}}}), 400),
            (json!({"filters": []}), 400),
        ] {
            let refused = scope(&body).unwrap_err().into_response().status();
            assert_eq!(refused, StatusCode::from_u16(status).unwrap(), "{body}");
        }
        let mut fields = Fields::read(Some("page=2&x=1&version=v2"), b"{\"y\":null}").unwrap();
        assert_eq!(fields.whole("page").unwrap(), Some(2));
        assert!(fields.end().is_err());
        assert!(Fields::read(None, b"[]").is_err());
    }

    #[test]
    fn messages_are_texts() {
        let read = |messages: Value| {
            let body = json!({"messages": messages}).to_string();
            Fields::read(None, body.as_bytes()).unwrap().messages()
        };
        let messages = read(json!([{"role": "user", "content": "a"},
            {"role": "assistant", "content": [{"type": "text", "text": "b"}, {"type": "text", "text": "c"}]}]));
        let messages = messages.unwrap();
        assert_eq!(conversation(&messages[..1]), "a");
        assert_eq!(conversation(&messages), "user: a\n\nassistant: b\n\nc");
        assert!(
            read(json!([{"content": [{"type": "image_url", "image_url": {"url": "x"}}]}])).is_err()
        );
        assert!(read(json!("a")).is_err());
    }
}
