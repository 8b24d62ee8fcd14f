//! What conversations are called: by the title that came with an import, by the name that a program gave them, or,
//! where that is only a number, by how they begin.

use super::parts::beginning;
use super::request::{Asked, Trouble};
use super::rows;
use crate::db::memory::Param;
use serde::Deserialize;
use std::collections::HashMap;
use tokio_postgres::types::Type;

/// Letters of a first line that is a name.
const NAME: usize = 60;
/// An id that is so long and has so many digits is a number rather than a name.
const NUMBER: usize = 16;
const DIGITS: usize = 4;

/// How a conversation begins.
#[derive(Debug, Deserialize)]
pub struct Opening {
    session_id: String,
    agent_id: String,
    pub title: Option<String>,
    pub first: String,
    /// The program that it was imported from.
    pub source: Option<String>,
}

/// Those of several conversations.
#[derive(Debug, Default)]
pub struct Openings(HashMap<(String, String), Opening>);

impl Openings {
    /// That of a conversation. A recall does not say of which agent it is.
    pub fn of(&self, session_id: &str, agent_id: &str) -> Option<&Opening> {
        self.0.get(&(session_id.to_owned(), agent_id.to_owned()))
    }

    /// The title of a conversation, if it has one.
    pub fn title(&self, session_id: &str, agent_id: &str) -> Option<&str> {
        self.of(session_id, agent_id)?.title.as_deref()
    }
}

/// What a conversation is called.
pub fn name_of(session_id: &str, agent_id: &str, openings: &Openings) -> String {
    let opening = openings.of(session_id, agent_id);
    let title = opening.and_then(|opening| opening.title.as_deref());
    let title = title.map(str::trim).filter(|title| !title.is_empty());
    match (title, opening) {
        (Some(title), _) => title.to_owned(),
        (None, Some(opening)) if is_number(session_id) && !opening.first.trim().is_empty() => {
            beginning(opening.first.lines().next().unwrap_or_default(), NAME)
        }
        _ => session_id.to_owned(),
    }
}

fn is_number(session_id: &str) -> bool {
    session_id.len() >= NUMBER
        && !session_id.contains(' ')
        && session_id.bytes().filter(u8::is_ascii_digit).count() >= DIGITS
}

impl Asked {
    /// How conversations begin: each its session and its agent, which may be unknown.
    ///
    /// # Errors
    /// What memory says.
    pub async fn openings<'a>(
        &self,
        sessions: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> Result<Openings, Trouble> {
        let mut wanted: Vec<(&str, &str)> = sessions.into_iter().collect();
        wanted.sort_unstable();
        wanted.dedup();
        if wanted.is_empty() {
            return Ok(Openings::default());
        }
        let (sessions, agents): (Vec<&str>, Vec<&str>) = wanted.into_iter().unzip();
        let sql = "SELECT jsonb_build_object('session_id', s.session_id, 'agent_id', s.agent_id, \
                          'title', o.entry_metadata ->> 'title', 'first', left(o.content, 300), \
                          'source', o.entry_metadata ->> 'imported_from') \
                     FROM unnest($2, $3) s (session_id, agent_id), \
                          LATERAL memory_list(s.session_id, 'turn', user_id => $1, agent_id => nullif(s.agent_id, ''), \
                                              oldest_first => true, \"limit\" => 1) o";
        let user = self.user_id();
        let params: [Param<'_>; 3] =
            [(&user, Type::TEXT), (&sessions, Type::TEXT_ARRAY), (&agents, Type::TEXT_ARRAY)];
        let found: Vec<Opening> = rows::read(&self.rows(sql, &params).await?)?;
        let keyed =
            found.into_iter().map(|one| ((one.session_id.clone(), one.agent_id.clone()), one));
        Ok(Openings(keyed.collect()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(session_id: &str, title: Option<&str>, first: &str) -> String {
        let opening = Opening {
            session_id: session_id.to_owned(),
            agent_id: "default".to_owned(),
            title: title.map(str::to_owned),
            first: first.to_owned(),
            source: None,
        };
        let key = (session_id.to_owned(), "default".to_owned());
        name_of(session_id, "default", &Openings(HashMap::from([(key, opening)])))
    }

    #[test]
    fn conversations_have_names_and_no_numbers() {
        let number = "chatgpt-7e032a40-52a4-4d0c-9a35-0123456789ab";
        assert_eq!(named(number, Some("Bees"), "Hello"), "Bees");
        assert_eq!(named(number, Some(" "), "Hello\nthere"), "Hello");
        assert_eq!(named(number, None, ""), number);
        assert_eq!(
            named("chat-0f3a9b7c12345678", None, "How do bees sleep?"),
            "How do bees sleep?"
        );
        assert_eq!(named("kitchen", None, "Hello"), "kitchen");
        assert_eq!(named("plan for 2026 and 2027", None, "Hello"), "plan for 2026 and 2027");
        assert_eq!(name_of("kitchen", "default", &Openings::default()), "kitchen");
    }
}
