//! `/debug`: what went into the last prompt, and why each memory did. What went is what was sent; why is what
//! `memory_explain` says of the same question now.

use super::commands::{beginning, messages};
use super::{Conversation, print};
use serde_json::Value;
use std::collections::HashMap;
use std::fmt::Write;

/// The parts of a score, as `memory_explain` names them and as they are shown.
const PARTS: [(&str, &str); 5] = [
    ("relevance", "relevance"),
    ("similarity", "meaning"),
    ("lexical", "words"),
    ("logit", "reranker"),
    ("recency", "recency"),
];

impl Conversation {
    /// Shows the last request, and the reasons.
    pub(super) async fn tell_why(&self) -> Result<(), String> {
        let last = self.last.as_ref().ok_or("Nothing was asked yet.")?;
        let mut text = String::from("What was sent:\n");
        text.push_str(&messages(&last.request["messages"]));
        let Some(hits) = &last.hits else {
            text.push_str("Memory was not asked, or did not answer in time.\n");
            print(&text);
            return Ok(());
        };
        if hits.is_empty() {
            text.push_str("Nothing was remembered.\n");
            print(&text);
            return Ok(());
        }
        text.push_str("What was remembered, and why:\n");
        let (reasons, times) = self.reasons(&last.question).await?;
        for (place, hit) in hits.iter().enumerate() {
            let content = hit["content"].as_str().unwrap_or_default();
            let role = hit["role"].as_str().unwrap_or_default();
            let score = hit["score"].as_f64().unwrap_or(0.0);
            // Writing to a text cannot fail.
            let _ = writeln!(text, "{:>2}  {score:.2}  {role}: {}", place + 1, beginning(content));
            if let Some(parts) = reasons.get(content) {
                let _ = writeln!(text, "    {parts}");
            }
        }
        let _ = writeln!(text, "{times}");
        print(&text);
        Ok(())
    }

    /// The parts of the scores by what is remembered, and what a recall takes.
    async fn reasons(&self, question: &str) -> Result<(HashMap<String, String>, String), String> {
        let (candidates, times) = self.explained(question).await?;
        let mut reasons = HashMap::new();
        for one in candidates.as_ref().and_then(Value::as_array).into_iter().flatten() {
            if let Some(content) = one["content"].as_str() {
                reasons.entry(content.to_owned()).or_insert_with(|| parts(&one["parts"]));
            }
        }
        Ok((reasons, taken(&times.unwrap_or_default())))
    }
}

fn parts(candidate: &Value) -> String {
    let known = PARTS.iter().filter_map(|(name, shown)| {
        candidate[*name].as_f64().map(|value| format!("{shown} {value:.2}"))
    });
    known.collect::<Vec<_>>().join(", ")
}

fn taken(milliseconds: &Value) -> String {
    let parts = milliseconds.as_object().into_iter().flatten().filter_map(|(name, value)| {
        value.as_f64().map(|value| format!("{} {value:.1} ms", name.replace('_', " ")))
    });
    let parts = parts.collect::<Vec<_>>().join(", ");
    if parts.is_empty() { parts } else { format!("A recall takes: {parts}.") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn reasons_are_named() {
        let candidate = json!({"similarity": 0.5, "lexical": null, "logit": -1.25, "recency": 1});
        assert_eq!(parts(&candidate), "meaning 0.50, reranker -1.25, recency 1.00");
        assert_eq!(taken(&json!({"embed": 1.25})), "A recall takes: embed 1.2 ms.");
        assert_eq!(taken(&json!(null)), "");
    }
}
