//! What a person does with memory in a terminal: talk with it, ask it once, take it along, and bring it. It speaks to the
//! person who called it, so it writes sentences where the rest of the program writes a log.

mod chat;
mod export;
pub mod formats;
mod import;
mod progress;
mod record;
mod single;
mod sources;
mod unpacked;

pub use chat::chat;
pub use export::export;
pub use import::{STORE, cost, import};
pub use single::{add, forget, recall};
pub use unpacked::is_conversations;

use crate::args::Person;
use crate::db::memory::{Memory, MemoryError};
use crate::metrics::Metrics;
use crate::screen;
use sha2::{Digest, Sha256};
use std::io::Write;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

/// How long a connection may take, and what is asked once.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long one statement with many memories may take.
const PATIENCE_WITH_MANY: Duration = Duration::from_secs(300);

/// Says something to the person, beside what is asked for on standard output.
fn say(text: &str) {
    // Where standard error is gone, there is no place to say so.
    let _ = writeln!(std::io::stderr().lock(), "{}", screen::line(text));
}

/// How a command ends: whether nothing was wrong, or why it stopped.
pub fn ended(outcome: Result<bool, String>) -> ExitCode {
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(problem) => {
            say(&format!("memory-agent: {problem}"));
            ExitCode::FAILURE
        }
    }
}

/// The memory, and whose.
async fn memory_of(person: &Person) -> Result<(Memory, String), String> {
    let memory = Memory::new(&person.database, 1, PATIENCE, Arc::new(Metrics::default()))?;
    let user = user_of(person, &memory).await?;
    Ok((memory, user))
}

/// Whose memory it is: the user who was named, or who has the token.
async fn user_of(person: &Person, memory: &Memory) -> Result<String, String> {
    let user = match (&person.user, &person.token) {
        (Some(user), _) => user.clone(),
        (None, token) => {
            let hash = Sha256::digest(token.as_deref().unwrap_or_default().as_bytes());
            let user = memory.token_user(&hash).await.map_err(|error| plain(&error))?;
            user.ok_or("this memory token is unknown, or has expired")?
        }
    };
    Ok(user)
}

/// An error for the person whose memory it is, who may read what the database says.
fn plain(error: &MemoryError) -> String {
    match error {
        MemoryError::Refused(said) => match said.advice() {
            Some(hint) => format!("{} ({}). {hint}", said.message, said.code),
            None => format!("{} ({})", said.message, said.code),
        },
        other => other.for_operator(),
    }
}
