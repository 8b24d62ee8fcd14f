//! The kinds of background jobs, what their rows keep, and the settings that travel with them.

pub mod blame;
pub mod payloads;
pub mod session_settings;

use crate::words;

words! {
    /// The kinds of work that there are handlers for, as `memory_agent.jobs` names them; the most urgent first:
    /// what recall waits for, then what becomes a memory, then what tidies up.
    #[derive(Hash)]
    pub enum JobKind {
        /// Rows of a scope that have no embedding, or only an estimated token count.
        Embed = "embed",
        /// Turns of a scope that no facts were extracted from.
        Extract = "extract",
        /// Episodes of a session that are over and that facts are to be made of.
        Reflect = "reflect",
        /// A session with more tokens in its window than `memory_agent.compression_threshold_tokens`.
        Compress = "compress",
        /// A session whose summary lacks turns.
        Summarize = "summarize",
        /// A session with more entries in its window than `memory_agent.max_entries`.
        Evict = "evict",
        /// All vectors, when another embedding model is to be used; of no session and no user.
        Reembed = "reembed",
        /// Rows of an attached table that are to be taken in.
        Attach = "attach",
        /// Rows that an older version stored, whose texts it hashed and indexed in other forms; of no session and no
        /// user.
        Reindex = "reindex",
    }
}

/// What jobs of a kind are about, which says when they end with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subject {
    /// A conversation, or a user's global memory: clearing and erasing it end them.
    Conversation,
    /// What a scope lacks, its documents among it: clearing a conversation leaves them.
    Embeddings,
    /// A table, the application's or all of memory's: the user is only who asked.
    Table,
}

impl JobKind {
    #[must_use]
    pub const fn subject(self) -> Subject {
        match self {
            Self::Extract | Self::Reflect | Self::Summarize | Self::Compress | Self::Evict => {
                Subject::Conversation
            }
            Self::Embed => Subject::Embeddings,
            Self::Reembed | Self::Attach | Self::Reindex => Subject::Table,
        }
    }

    /// The kinds that are about one of these, as `memory_agent.jobs` names them.
    #[must_use]
    pub fn about(subjects: &[Subject]) -> Vec<&'static str> {
        let kinds = Self::ALL.iter().filter(|kind| subjects.contains(&kind.subject()));
        kinds.map(|kind| kind.as_str()).collect()
    }

    /// The kinds that use the same, this one among them: jobs that ask an LLM wait for the others that do.
    #[must_use]
    pub const fn rivals(self) -> &'static [Self] {
        match self {
            Self::Extract | Self::Reflect | Self::Summarize | Self::Compress => {
                &[Self::Extract, Self::Reflect, Self::Summarize, Self::Compress]
            }
            Self::Embed | Self::Evict | Self::Reembed | Self::Attach | Self::Reindex => {
                self.exclusive()
            }
        }
    }

    /// The kinds of which only one job of a scope runs at a time, this one among them: a summary is
    /// renewed by one job after the other.
    #[must_use]
    pub const fn exclusive(self) -> &'static [Self] {
        match self {
            Self::Embed => &[Self::Embed],
            Self::Extract => &[Self::Extract],
            Self::Reflect => &[Self::Reflect],
            Self::Summarize | Self::Compress => &[Self::Summarize, Self::Compress],
            Self::Evict => &[Self::Evict],
            Self::Reembed => &[Self::Reembed],
            Self::Attach => &[Self::Attach],
            Self::Reindex => &[Self::Reindex],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_among_their_own_rivals_and_rivals_are_mutual() {
        for &kind in JobKind::ALL {
            for others in [kind.rivals(), kind.exclusive()] {
                assert!(others.contains(&kind));
            }
            assert!(kind.exclusive().iter().all(|other| kind.rivals().contains(other)));
            assert!(kind.rivals().iter().all(|other| other.rivals().contains(&kind)));
        }
    }
}
