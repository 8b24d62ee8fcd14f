//! Messages of chats in OpenAI's format: a text that is put in is in the latest text, and nothing else
//! of the chat changes. Whole requests become requests of Anthropic's, or are refused.

use memory_agent_core::llm::anthropic;
use memory_agent_core::llm::chat_body::ChatBody;
use memory_agent_core::llm::chat_messages::ChatMessages;
use serde_json::Value;

pub fn check(data: &[u8]) {
    let text = crate::text(data);
    crate::linear(text.len(), || {
        let Ok(value) = serde_json::from_str::<Value>(&text) else { return };
        translate(value.clone());
        let mut messages = match ChatMessages::parse(value.clone()) {
            Ok(messages) => messages,
            Err(error) => return crate::short(error),
        };
        let given = messages.clone().into_values();
        assert_eq!(Value::from(given.clone()), value);
        assert!(messages.before_latest(3).len() <= 3);
        let _ = messages.latest_name();
        let has_text = messages.latest_text().is_some();
        messages.edit_latest(|first| format!("put in: {first}"));
        let is_in = messages.latest_text().is_some_and(|text| text.contains("put in: "));
        assert!(!has_text || is_in);
        let after = messages.into_values();
        assert_eq!(after.len(), given.len());
        assert!(after.iter().zip(&given).filter(|(after, given)| after != given).count() <= 1);
    });
}

/// Turns alternate, and what the call itself says is left to it.
fn translate(body: Value) {
    let Ok(body) = ChatBody::parse(body) else { return };
    let given = body.messages.clone().into_values().len();
    match anthropic::request(body.messages.into_values(), body.fields) {
        Ok(body) => {
            let turns = body["messages"].as_array().unwrap();
            assert!(turns.len() <= given);
            assert!(turns.windows(2).all(|pair| pair[0]["role"] != pair[1]["role"]));
            assert!(
                !["model", "max_tokens", "temperature"].iter().any(|name| body.contains_key(*name))
            );
        }
        Err(error) => crate::short(error),
    }
}
