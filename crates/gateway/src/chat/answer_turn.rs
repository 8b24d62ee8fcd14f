//! What is stored of an answer: what the assistant said to the user, without the reasoning before it.

use crate::chat::Chat;
use crate::chat::answer::Answer;
use crate::chat::stream::Ended;
use crate::chat::turn::Stored;
use crate::chat::user_turn::Said;
use crate::db::memory::MemoryError;
use memory_agent_core::llm::json_answer;
use serde_json::json;
use std::sync::Arc;

impl Chat {
    /// Stores what the assistant said, after what the user said. Waits as long as a chat may wait; `None`
    /// when there is nothing to store, or it is not stored by then.
    pub async fn keep(&mut self, spoken: &Answer, ended: Ended, said: &mut Said) -> Option<Stored> {
        if self.protocol.upstream(&self.gateway).has_key() {
            self.gateway.stored_ids.give(&self.person.caller, &spoken.ids);
        }
        if let Some(usage) = spoken.usage {
            self.gateway.metrics.tokens.add("prompt", usage.prompt);
            self.gateway.metrics.tokens.add("completion", usage.completion);
        }
        if self.request.is_task || self.request.extras.is_forgotten {
            return None;
        }
        let text = spoken.text();
        let text = json_answer::said(&text);
        if text.trim().is_empty() {
            if spoken.is_unread {
                self.note("store", &MemoryError::Unread);
            }
            return None;
        }
        let is_all = spoken.is_whole && !spoken.is_cut && !spoken.is_unread;
        let is_whole = ended == Ended::Whole && is_all;
        let metadata = if is_whole { json!({}) } else { json!({"interrupted": true}) };
        let mut turn = self.turn("assistant", text.to_owned(), self.request.key.clone(), metadata);
        let (gateway, permit) = (Arc::clone(&self.gateway), Arc::clone(&self.permit));
        let mut heard = std::mem::take(said);
        let storing = tokio::spawn(async move {
            let _permit = permit;
            if let Err(error) = heard.settle(&gateway).await {
                gateway.missed("store", &error);
            }
            if let Some(message) = heard.stored.filter(|_| is_whole) {
                turn.replaces = message.answers;
            }
            let stored = gateway.memory.store(&turn).await?;
            if stored.is_new || !is_whole {
                return Ok(stored);
            }
            // The request was repeated, and this is what the client has heard in the end.
            gateway.memory.replace(stored.id, &turn).await
        });
        let stored = match tokio::time::timeout(self.gateway.patience, storing).await {
            Ok(stored) => stored.unwrap_or(Err(MemoryError::Unexpected)),
            Err(_) => Err(MemoryError::Late),
        };
        if let Err(error) = &stored {
            self.note("store", error);
        }
        stored.ok()
    }
}
