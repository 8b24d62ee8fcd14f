//! The history of a memory in mem0's words.

use serde_json::{Value, json};
use uuid::Uuid;

/// What happened: mem0 knows a text that was added, that became another one, and that was deleted.
pub fn told(id: Uuid, user_id: &str, events: &[Value]) -> Vec<Value> {
    let mut told = Vec::new();
    let mut replaced: Option<Value> = None;
    for event in events {
        let content = event["content"].clone();
        let (word, old, new) = match event["op"].as_str().unwrap_or_default() {
            // The next event is about what took its place.
            "update" | "supersede" => {
                replaced = Some(content);
                continue;
            }
            "delete" | "expire" => ("DELETE", content, Value::Null),
            _ => match replaced.take() {
                Some(old) => ("UPDATE", old, content),
                None => ("ADD", Value::Null, content),
            },
        };
        told.push(entry(id, user_id, told.len(), event, (word, old, new)));
    }
    if let (Some(old), Some(last)) = (replaced, events.last()) {
        told.push(entry(id, user_id, told.len(), last, ("DELETE", old, Value::Null)));
    }
    told
}

fn entry(
    id: Uuid,
    user_id: &str,
    number: usize,
    event: &Value,
    (word, old, new): (&str, Value, Value),
) -> Value {
    json!({
        "id": format!("{id}-{}", number + 1),
        "memory_id": id.to_string(),
        "user_id": user_id,
        "event": word,
        "old_memory": old,
        "new_memory": new,
        "is_deleted": word == "DELETE",
        "created_at": event["at"],
        "updated_at": event["at"],
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(events: &[(&str, &str)]) -> Vec<String> {
        let events: Vec<Value> =
            events.iter().map(|(op, content)| json!({"op": op, "content": content})).collect();
        let told = told(Uuid::nil(), "ann", &events);
        told.iter()
            .map(|event| {
                format!("{} {} {}", event["event"], event["old_memory"], event["new_memory"])
            })
            .collect()
    }

    #[test]
    fn events_are_told_in_mem0s_words() {
        assert_eq!(
            words(&[
                ("add", "a"),
                ("update", "a"),
                ("add", "b"),
                ("delete", "b"),
                ("restore", "b")
            ]),
            [
                r#""ADD" null "a""#,
                r#""UPDATE" "a" "b""#,
                r#""DELETE" "b" null"#,
                r#""ADD" null "b""#
            ]
        );
        assert_eq!(
            words(&[("import", "a"), ("supersede", "a")]),
            [r#""ADD" null "a""#, r#""DELETE" "a" null"#]
        );
        assert!(words(&[]).is_empty());
    }
}
