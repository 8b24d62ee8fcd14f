//! The form in which a compressed conversation is kept in the knowledge base: its text and its
//! metadata.

use serde_json::{Value, json};

use crate::condense::summarize::Sections;

/// A conversation, or the older part of one, that goes into the archive.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Conversation<'a> {
    pub session_id: &'a str,
    pub agent_id: &'a str,
    /// The summary and what was found in the conversation.
    pub sections: &'a Sections,
    /// How many turns the summary stands for.
    pub message_count: u32,
    /// When the first of these turns was said, in ISO 8601.
    pub start: &'a str,
    /// When the last of these turns was said, in ISO 8601.
    pub end: &'a str,
}

impl Conversation<'_> {
    /// The text that is stored and searched.
    #[must_use]
    pub fn document(&self) -> String {
        let Self { start, end, .. } = self;
        let summary = self.sections.summary.trim();
        format!("# Conversation Summary\n## Date Range: {start} to {end}\n## Summary:\n{summary}")
    }

    /// The metadata. Its keys are fixed: filters of recall name them, and earlier versions stored them.
    #[must_use]
    pub fn metadata(&self) -> Value {
        json!({
            "session_id": self.session_id,
            "agent_id": self.agent_id,
            "conversation_topics": self.sections.topics,
            "entities_mentioned": self.sections.entities,
            "decisions_made": self.sections.decisions,
            "open_questions": self.sections.questions,
            "message_count": self.message_count,
            "date_range": {"start": self.start, "end": self.end},
        })
    }
}

/// The part of the knowledge base that holds a user's conversations.
#[must_use]
pub fn namespace(user_id: &str) -> String {
    format!("conversations:{user_id}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_and_metadata_have_a_fixed_form() {
        let sections = Sections {
            summary: " They chose JWT.\n".to_owned(),
            topics: vec!["authentication".to_owned(), "JWT".to_owned()],
            entities: vec!["UserService".to_owned()],
            decisions: vec!["Use JWT with 1-hour expiration".to_owned()],
            questions: vec!["Should we implement refresh tokens?".to_owned()],
        };
        let conversation = Conversation {
            session_id: "session_123",
            agent_id: "research_agent",
            sections: &sections,
            message_count: 25,
            start: "2024-01-15T10:00:00Z",
            end: "2024-01-15T11:30:00Z",
        };
        assert_eq!(
            conversation.document(),
            "# Conversation Summary\n\
             ## Date Range: 2024-01-15T10:00:00Z to 2024-01-15T11:30:00Z\n\
             ## Summary:\nThey chose JWT."
        );
        assert_eq!(
            conversation.metadata(),
            json!({
                "session_id": "session_123",
                "agent_id": "research_agent",
                "conversation_topics": ["authentication", "JWT"],
                "entities_mentioned": ["UserService"],
                "decisions_made": ["Use JWT with 1-hour expiration"],
                "open_questions": ["Should we implement refresh tokens?"],
                "message_count": 25,
                "date_range": {
                    "start": "2024-01-15T10:00:00Z",
                    "end": "2024-01-15T11:30:00Z",
                },
            })
        );
        assert_eq!(namespace("ann"), "conversations:ann");
    }

    #[test]
    fn what_was_not_found_is_an_empty_list() {
        let sections = Sections { summary: "They met.".to_owned(), ..Sections::default() };
        let conversation = Conversation {
            session_id: "s",
            agent_id: "a",
            sections: &sections,
            message_count: 1,
            start: "2024-01-15",
            end: "2024-01-15",
        };
        for key in ["conversation_topics", "entities_mentioned", "decisions_made", "open_questions"]
        {
            assert_eq!(conversation.metadata()[key], json!([]), "{key}");
        }
    }
}
