//! Turns that a client took back: it sends a conversation with another text in the place of the last message, or has
//! that message answered again. The old versions end when the new ones are stored.

use crate::memory::changes::lifecycle;
use crate::memory::prelude::*;
use crate::store::rows::forms::content_hashes;
use crate::store::rows::repeated_turns::{self, Said};
use memory_agent_core::llm::json_answer;
use memory_agent_core::llm::taken_back::{Speaker, TakenBack, taken_back};
use memory_agent_core::prompt::augment::original_message;
use memory_agent_core::text::secrets::stored_forms;

/// Answers to one message, of a loop of tools say, that are looked at.
const MOST_ANSWERS: usize = 64;

/// A conversation as a client sends it, up to the user's last message: each message with the hashes of what its text
/// may be stored as.
pub struct Sent(Vec<(Speaker, Vec<Vec<u8>>)>);

impl Sent {
    /// * `before`: what the user and the assistant said before.
    /// * `said`: the user's last message, as it is stored.
    pub fn of(before: &[(&str, String)], said: &str) -> Self {
        let mut sent: Vec<_> = before.iter().map(|(role, text)| message(role, text)).collect();
        sent.push(message("user", said));
        Self(sent)
    }
}

/// A message as far as it is compared. What memories, reasoning and secrets were in it is not stored.
fn message(role: &str, text: &str) -> (Speaker, Vec<Vec<u8>>) {
    let (speaker, said) = match role {
        "user" => (Speaker::User, original_message(text)),
        _ => (Speaker::Assistant, json_answer::said(text)),
    };
    (speaker, stored_forms(said).iter().flat_map(|form| content_hashes(form)).collect())
}

/// What is taken back.
#[derive(Default)]
pub struct Back {
    /// The message that another one takes the place of, and its answers.
    pub message: Vec<Uuid>,
    /// The answers that another one takes the place of.
    pub answers: Vec<Uuid>,
}

/// What a client takes back that sends this.
pub fn find(key: &SessionKey, sent: &Sent) -> PgResult<Back> {
    let most = sent.0.len() + MOST_ANSWERS;
    let turns =
        roles::as_owner(|| repeated_turns::conversation(&Spi::read_latest()?, key, most as i64))?;
    if turns.len() == most {
        return Ok(Back::default());
    }
    let is_alone = sent.0.len() == 1;
    let (mut ids, mut stored) = (Vec::new(), Vec::new());
    for Said { id, role, hash, is_recent } in turns {
        // Other conversations may begin with the same words.
        if is_alone && !is_recent {
            return Ok(Back::default());
        }
        let speaker = if role == "user" { Speaker::User } else { Speaker::Assistant };
        ids.push(id);
        stored.push((speaker, hash.unwrap_or_default()));
    }
    let as_stored = |(speaker, forms): &(Speaker, Vec<Vec<u8>>)| {
        let is_stored = |form: &&Vec<u8>| stored.iter().any(|(_, hash)| hash == *form);
        let form = match forms.as_slice() {
            [form] => Some(form),
            forms => forms.iter().find(is_stored).or(forms.first()),
        };
        (*speaker, form.cloned().unwrap_or_default())
    };
    let sent: Vec<(Speaker, Vec<u8>)> = sent.0.iter().map(as_stored).collect();
    let mut back = Back::default();
    match taken_back(&stored, &sent) {
        TakenBack::Nothing => {}
        TakenBack::Message(from) => back.message = ids.split_off(from),
        TakenBack::Answers(from) => back.answers = ids.split_off(from),
    }
    Ok(back)
}

/// Ends turns of a session that were taken back, the first because of the turn `by` in its place. Returns those that
/// ended.
pub fn end(key: &SessionKey, turns: &[Uuid], by: Uuid) -> PgResult<Vec<Uuid>> {
    if turns.is_empty() {
        return Ok(Vec::new());
    }
    roles::write_as_owner(|spi| {
        let mut ended = Vec::new();
        for (place, id) in turns.iter().enumerate() {
            let by = (place == 0).then_some(by);
            if lifecycle::take_back(spi, key, *id, by)? {
                ended.push(*id);
            }
        }
        Ok(ended)
    })
}
