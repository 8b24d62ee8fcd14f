//! Memories as mem0 lists them: facts, which may be of several users.

use super::{Item, Told};
use crate::terminal::record::{Clock, Line, Time};
use chrono::{DateTime, Utc};
use serde::Deserialize;
use serde_json::{Map, Value};

const OF_OTHERS: &str = "memories of other users";

#[derive(Deserialize)]
struct Mem0 {
    id: String,
    memory: String,
    user_id: Option<String>,
    agent_id: Option<String>,
    run_id: Option<String>,
    created_at: Option<Time>,
    #[serde(default)]
    metadata: Option<Map<String, Value>>,
}

/// A memory. Those of several users are not mixed: `from_user` is whose to take, or the first one's.
///
/// # Errors
/// What is wrong with it.
pub fn read(
    value: Value,
    now: DateTime<Utc>,
    from_user: &mut Option<String>,
    is_given: bool,
) -> Result<Item, String> {
    let memory: Mem0 = serde_json::from_value(value).map_err(|error| error.to_string())?;
    if let Some(user) = memory.user_id {
        let wanted = from_user.get_or_insert_with(|| user.clone());
        if *wanted != user && is_given {
            return Ok(Item::LeftOut(OF_OTHERS));
        }
        if *wanted != user {
            return Err(format!(
                "it is a memory of \"{user}\", others in the file are of \"{wanted}\": say with --from-user \
                 whose to take"
            ));
        }
    }
    let mut metadata = memory.metadata.unwrap_or_default();
    metadata.insert("mem0_id".to_owned(), Value::from(memory.id.as_str()));
    let created_at = Clock::new(now).next(None, memory.created_at.as_ref(), now)?;
    let line = Line {
        role: "memory".to_owned(),
        content: memory.memory,
        session_id: memory.run_id,
        agent_id: memory.agent_id,
        metadata,
        ..Line::default()
    };
    let told = Told { line, created_at, id: format!("mem0:{}", memory.id) };
    Ok(Item::Told(Box::new(told)))
}
