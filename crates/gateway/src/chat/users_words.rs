//! What the user says in the conversation of a request: the last message with words of the user's own, where they
//! stand, and what was said before. What clients write in the user's name is not the user's.

use crate::chat::chat_form::Form;
use crate::chat::splice::{self, Array, Edit, Member, Object};
use memory_agent_core::llm::chat_messages::MAX_MESSAGES;
use memory_agent_core::llm::client_forms::{Message, is_task};
use memory_agent_core::prompt::augment::original_message;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::collections::HashSet;
use std::ops::Range;

/// Messages before the user's last one that go to the database with it: it tells from them what pronouns
/// stand for, where that is switched on.
const EARLIER_MESSAGES: usize = 8;
/// The part of a message of Anthropic's that a tool said.
const TOOL_RESULT: &str = "tool_result";

/// What the user said last.
#[derive(Clone, Debug, PartialEq)]
pub struct Asked {
    /// As the user typed it, without memories that a client put before it.
    pub message: String,
    /// Who said it, where the message has a name.
    pub name: Option<String>,
    /// The last messages, as texts, for `memory_augment`. The last one is the user's.
    pub messages: Value,
    /// All that the user and the assistant said before, oldest first; null where that is too much.
    pub history: Value,
    /// Whether anything comes after it, such as what tools answered.
    pub is_followed: bool,
    /// The text of the last one, as the database takes it.
    text: String,
    place: Place,
}

/// Where in the body the user's text stands: in a string, or in several among the parts of a message.
#[derive(Clone, Debug, PartialEq)]
struct Place {
    first: Range<usize>,
    /// What the client wrote around the user's words in the first one.
    around: (String, String),
    /// What takes the others out.
    without_others: Vec<Edit>,
}

impl Asked {
    /// What the user typed; `None` when that is nothing.
    fn typed((text, place): (String, Place), name: Option<String>) -> Option<Self> {
        let message = original_message(&text).to_owned();
        let is_blank = message.trim().is_empty();
        let (messages, history, is_followed) = (Value::Null, Value::Null, false);
        (!is_blank).then(|| Self { message, name, messages, history, is_followed, text, place })
    }

    /// The same with the messages before it.
    fn after(mut self, earlier: Vec<Value>) -> Self {
        let newest = earlier.len().saturating_sub(EARLIER_MESSAGES);
        let mut messages = earlier[newest..].to_vec();
        if earlier.len() <= MAX_MESSAGES {
            self.history = Value::from(earlier);
        }
        messages.push(json!({"role": "user", "content": self.text}));
        self.messages = Value::from(messages);
        self
    }

    /// What puts memories before the user's text, which stays as it was written. Where the client put some there, the
    /// text is written anew without them.
    pub fn preceded_by(&self, block: &str) -> Vec<Edit> {
        let Place { first, around: (before, after), without_others } = &self.place;
        if self.message != self.text {
            let text = splice::quoted(&format!("{before}{block}{}{after}", self.message));
            let mut edits = without_others.clone();
            edits.push(Edit { at: first.clone(), text });
            return edits;
        }
        if block.is_empty() {
            return Vec::new();
        }
        let quoted = splice::quoted(block);
        let inner = &quoted[1..quoted.len() - 1];
        let start = first.start + 1;
        vec![Edit { at: start..start, text: inner.to_owned() }]
    }
}

/// What the user says in a conversation.
#[derive(Default)]
pub struct UsersWords {
    /// `None` when there is no text of the user in it.
    pub asked: Option<Asked>,
    /// The number of that message.
    pub at: usize,
    /// Whether the client asks something of its own, such as for a title: that is no part of the conversation.
    pub is_task: bool,
    /// Whether tools or the client said something since: then the user said nothing new.
    pub continues: bool,
    /// A hash of what the user said first.
    pub began: Option<[u8; 32]>,
}

impl UsersWords {
    /// In a text that is the whole conversation.
    pub fn alone(text: Text) -> Self {
        let is_task = is_task(&text.text);
        let asked = own_words(vec![text], Message::default(), |_| Vec::new())
            .and_then(|own| Asked::typed(own, None))
            .map(|asked| asked.after(Vec::new()));
        let began = asked.as_ref().map(|asked| Sha256::digest(&asked.message).into());
        Self { asked, is_task, began, ..Self::default() }
    }

    /// In a list of messages. A message without words of the user's own is passed over, but for a task of the
    /// client's, which is all that is asked.
    pub fn among(form: &Form, body: &str, messages: &Array<'_>) -> Self {
        let mut said = Self::default();
        let (mut earlier, mut is_followed) = (Vec::new(), false);
        for (at, text) in messages.0.iter().enumerate().rev() {
            let Some(message) = Object::read(body, text) else { continue };
            let role = message.text("role").unwrap_or_default();
            let instructs = matches!(role.as_str(), "system" | "developer");
            if said.asked.is_some() {
                let content = match role.as_str() {
                    "user" => users(form, body, &message).map(|own| own.0),
                    "assistant" => content(form, body, &message),
                    _ => None,
                };
                earlier.extend(content.map(|text| json!({"role": role, "content": text})));
                if earlier.len() > MAX_MESSAGES {
                    break;
                }
                continue;
            }
            if role == "user" {
                let is_new = !said.continues;
                if is_new && content(form, body, &message).is_some_and(|text| is_task(&text)) {
                    return Self { is_task: true, ..Self::default() };
                }
                let name = message.text("name").filter(|name| !name.trim().is_empty());
                let own = users(form, body, &message);
                said.asked = own.and_then(|own| Asked::typed(own, name.map(storable)));
            }
            match &mut said.asked {
                Some(asked) => {
                    asked.is_followed = is_followed;
                    said.at = at;
                }
                None => {
                    // Instructions that a client puts behind the user's message are no step of a loop.
                    is_followed |= !instructs;
                    said.continues |= !instructs && role != "assistant";
                }
            }
        }
        earlier.reverse();
        said.asked = said.asked.map(|asked| asked.after(earlier));
        said.began = said.asked.as_ref().and_then(|_| first(form, body, messages));
        said
    }
}

/// A hash of what the user said first.
fn first(form: &Form, body: &str, messages: &Array<'_>) -> Option<[u8; 32]> {
    messages.0.iter().find_map(|text| {
        let message = Object::read(body, text)?;
        let is_users = message.text("role").is_some_and(|role| role == "user");
        let own = if is_users { users(form, body, &message) } else { None };
        Some(Sha256::digest(Asked::typed(own?, None)?.message).into())
    })
}

/// A text of a message: its number among the parts, and where its string stands.
pub struct Text {
    number: usize,
    text: String,
    at: Range<usize>,
}

impl Text {
    /// One that is the whole value.
    pub fn of(member: &Member<'_>) -> Option<Self> {
        let text = storable(splice::text(member.value)?);
        Some(Self { number: 0, text, at: member.at.clone() })
    }
}

/// The texts of a content: itself, or those among its parts.
fn texts(form: &Form, body: &str, content: &Member<'_>, parts: Option<&Array<'_>>) -> Vec<Text> {
    let Some(parts) = parts else { return Text::of(content).into_iter().collect() };
    let text = |(number, part): (usize, &&str)| {
        let part = Object::read(body, part)?;
        let text = part.get("text").and_then(Text::of)?;
        (form.is_text)(&part.text("type")?).then_some(Text { number, ..text })
    };
    parts.0.iter().enumerate().filter_map(text).collect()
}

/// The text of a message, several parts as several paragraphs; `None` without text.
fn content(form: &Form, body: &str, message: &Object<'_>) -> Option<String> {
    let content = message.get("content")?;
    let texts = texts(form, body, content, Array::read(content.value).as_ref());
    let texts: Vec<String> = texts.into_iter().map(|text| text.text).collect();
    (!texts.is_empty()).then(|| texts.join("\n\n"))
}

/// What of a message of the user's the user wrote, and where it stands; `None` when that is nothing.
fn users(form: &Form, body: &str, message: &Object<'_>) -> Option<(String, Place)> {
    let content = message.get("content")?;
    let parts = Array::read(content.value);
    let texts = texts(form, body, content, parts.as_ref());
    let Some(parts) = parts else { return own_words(texts, Message::default(), |_| Vec::new()) };
    let is_result = |part: &&str| {
        Object::read(body, part).and_then(|part| part.text("type")).as_deref() == Some(TOOL_RESULT)
    };
    let has_results = parts.0.iter().any(is_result);
    let forms = if has_results { Message::with_results() } else { Message::default() };
    own_words(texts, forms, |others| parts.without(body, |number| others.contains(&number)))
}

/// The user's words in texts, and where they stand; `without` takes others among them out.
fn own_words(
    texts: Vec<Text>,
    mut forms: Message,
    without: impl FnOnce(HashSet<usize>) -> Vec<Edit>,
) -> Option<(String, Place)> {
    let mut words: Vec<String> = Vec::new();
    let mut place: Option<Place> = None;
    let mut others = HashSet::new();
    for Text { number, text, at } in texts {
        let Some(own) = forms.own(&text) else { continue };
        let whole = own == (0..text.len());
        if place.is_none() {
            let around = (text[..own.start].to_owned(), text[own.end..].to_owned());
            place = Some(Place { first: at, around, without_others: Vec::new() });
        } else if whole {
            others.insert(number);
        }
        words.push(text[own].to_owned());
    }
    let mut place = place?;
    if !others.is_empty() {
        place.without_others = without(others);
    }
    Some((words.join("\n\n"), place))
}

/// A text as PostgreSQL can store it, which has no character 0.
pub fn storable(text: String) -> String {
    if text.contains('\0') { text.replace('\0', "\u{fffd}") } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chat::chat_form::{COMPLETIONS, MESSAGES};
    use crate::chat::chat_request::ChatRequest;
    use axum::http::HeaderMap;

    fn read(form: &Form, messages: &Value) -> ChatRequest {
        let body = json!({"messages": messages}).to_string().into_bytes();
        ChatRequest::read(form, body, &HeaderMap::new()).unwrap()
    }

    fn part(text: &str) -> Value {
        json!({"type": "text", "text": text})
    }

    #[test]
    fn what_a_client_says_in_the_users_name_is_passed_over() {
        let task = json!({"role": "user", "content": [part("<task>\nAdd a form\n</task>"),
            part("<environment_details>\n# Tabs\n</environment_details>")]});
        let calls =
            json!({"role": "assistant", "content": "<read_file><path>.env</path></read_file>"});
        let result = json!({"role": "user", "content": [part("[read_file for .env] Result:"),
            part("DB_PASSWORD=x"), part("<environment_details>\n.env\n</environment_details>")]});
        let first = read(&COMPLETIONS, &json!([task]));
        let second = read(&COMPLETIONS, &json!([task, calls, result]));
        assert_eq!((first.continues, second.continues), (false, true));
        for (request, is_followed) in [(&first, false), (&second, true)] {
            let asked = request.asked.clone().unwrap();
            assert_eq!((asked.message.as_str(), asked.is_followed), ("Add a form", is_followed));
            let expected = request.body.replacen("<task>", "M: <task>", 1);
            assert_eq!(request.with_memories("M: "), expected);
            assert_eq!(asked.messages, first.asked.clone().unwrap().messages);
        }
        assert!(first.began.is_some() && first.began == second.began);
        // Words that are written anew keep what is around them.
        let old =
            "Long-term memory (most relevant first):\n[memory] old\nCurrent message: Add a form";
        let augmented =
            json!({"role": "user", "content": [part(&format!("<task>\n{old}\n</task>"))]});
        let anew = read(&COMPLETIONS, &json!([augmented]));
        assert_eq!(anew.asked.as_ref().unwrap().message, "Add a form");
        let expected = json!({"messages": [{"role": "user", "content": [part("<task>\nM: Add a form\n</task>")]}]});
        assert_eq!(serde_json::from_str::<Value>(&anew.with_memories("M: ")).unwrap(), expected);
    }

    #[test]
    fn a_task_of_the_clients_is_all_that_is_asked() {
        let title = "### Task:\nName it.\n### Chat History:\n<chat_history>\nUSER: I am Ann.\n</chat_history>";
        let hello = json!({"role": "user", "content": "Hello."});
        for content in [json!(title), json!([part(title)])] {
            let task = json!({"role": "user", "content": content});
            for messages in [
                json!([task]),
                json!([hello, task]),
                json!([task, {"role": "assistant", "content": "{"}]),
            ] {
                let request = read(&COMPLETIONS, &messages);
                assert!(request.is_task && request.asked.is_none(), "{messages}");
            }
            let request = read(&COMPLETIONS, &json!([task, hello]));
            assert!(!request.is_task);
            assert_eq!(request.asked.unwrap().messages, json!([hello]));
        }
    }

    #[test]
    fn instructions_behind_the_users_message_are_no_step_of_a_loop() {
        let hello = json!({"role": "user", "content": "Hello."});
        for (role, is_followed) in
            [("system", false), ("developer", false), ("assistant", true), ("tool", true)]
        {
            let next = json!({"role": role, "content": "x"});
            let request = read(&MESSAGES, &json!([hello, next]));
            assert_eq!(request.asked.unwrap().is_followed, is_followed, "{role}");
        }
    }

    #[test]
    fn a_conversation_begins_with_the_users_first_words() {
        let user = |content: Value| json!({"role": "user", "content": content});
        let began = |messages: Value| read(&MESSAGES, &messages).began;
        let first = began(json!([user(json!("Hi."))]));
        assert!(first.is_some());
        let reminder = part("<system-reminder>x</system-reminder>");
        for same in [
            json!([user(json!([reminder, part("Hi.")]))]),
            json!([{"role": "system", "content": "Be brief."}, user(json!("Hi.")), user(json!("Bye."))]),
            json!([user(json!([reminder])), user(json!("Hi.")), user(json!("Bye."))]),
        ] {
            assert_eq!(began(same.clone()), first, "{same}");
        }
        assert_ne!(began(json!([user(json!("Bye."))])), first);
        assert_eq!(began(json!([user(json!([reminder]))])), None);
    }

    #[test]
    fn half_a_character_is_replaced() {
        let body = r#"{"messages":[{"role":"user","content":"Sunny \ud83d"}]}"#;
        let request =
            ChatRequest::read(&COMPLETIONS, body.as_bytes().to_vec(), &HeaderMap::new()).unwrap();
        assert_eq!(request.asked.as_ref().unwrap().message, "Sunny \u{fffd}");
        let expected = body.replace("Sunny", "M: Sunny");
        assert_eq!(request.with_memories("M: "), expected);
    }
}
