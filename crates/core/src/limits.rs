//! How large each argument of the SQL surface may be: one table, from which docs/limits.md is written and
//! which every call is held to before its arguments are read. Limits are far above honest use. They keep
//! one statement from taking minutes or gigabytes, and the tables from holding what no reader can use.

use std::fmt::Write as _;

/// Longest user, agent or session id, in bytes: they are index keys.
pub const ID_BYTES: usize = 512;
/// Longest address of an endpoint, in bytes.
pub const URL_BYTES: usize = 2_000;
/// Longest name of a column, in bytes: PostgreSQL's own.
pub const COLUMN_BYTES: usize = 63;
/// Longest argument that is one of a few words.
pub const WORD_BYTES: usize = 100;
pub const QUERY_BYTES: usize = 1 << 20;
pub const MAX_REWRITES: usize = 4;
pub const MAX_MARKERS: usize = 100;
pub const TITLE_BYTES: usize = 1_000;
pub const DOC_TYPE_BYTES: usize = 100;
pub const FACT_KEY_BYTES: usize = 512;
pub const REASON_BYTES: usize = 1_000;
/// Longest reason for which an episode is closed.
pub const EPISODE_REASON_BYTES: usize = 200;
pub const MODEL_BYTES: usize = 200;
pub const MAX_TEXTS: usize = 10_000;
pub const MAX_TURNS: usize = 10_000;
pub const MAX_MESSAGES: usize = 10_000;
/// Most turns that one takes the place of.
pub const MAX_REPLACED: usize = 1_000;
pub const MAX_METADATA_COLUMNS: usize = 48;
/// Most columns whose texts follow that of the content column.
pub const MAX_CONTENT_COLUMNS: usize = 8;
/// Longest condition on rows of an attached table, and longest path in their JSON.
pub const CONDITION_BYTES: usize = 4_096;
pub const PATH_BYTES: usize = 1_000;
/// Most entries of a list in a filter, and deepest nesting of its metadata.
pub const MAX_FILTER_LIST: usize = 1_000;
pub const MAX_FILTER_DEPTH: usize = 64;
/// Longest value of a setting that every role may set: lists of phrases, names.
pub const SETTING_BYTES: usize = 10_000;
/// Most phrases that a message is searched for.
pub const MAX_PHRASES: usize = 200;
pub const MAX_FRONT_MATTER_KEYS: usize = 1_000;
/// Most entries of a list in a front matter: the sources of a fact or summary above all.
pub const MAX_FRONT_MATTER_LIST: usize = 10_000;
pub const MAX_TOP_K: i32 = 1_000;
/// Most rows that the cross-encoder reads in one recall.
pub const MAX_RERANK_ROWS: i32 = 100;
pub const MAX_LISTED: i32 = 1_000;
pub const MAX_SUMMARY_TOKENS: i32 = 100_000;
/// Longest statement that is compared with its sources, and most bytes of those: no more is read.
pub const GROUNDED_BYTES: usize = 8_192;
pub const GROUNDING_BYTES: usize = 256 * 1024;

const MIB: usize = 1 << 20;

/// How large something may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// Bytes of a text, of jsonb as PostgreSQL prints it, or of bytea.
    Bytes(usize),
    /// As many bytes as `memory_agent.max_content_bytes` says.
    Content,
    /// A file: its text and its metadata, each as long as content may be, with escapes, and 1 MiB.
    File,
    /// Elements of an array, and bytes of all of them together.
    List { most: usize, bytes: usize },
    /// Numbers of a vector: pgvector's own limit.
    Numbers(usize),
    /// A number that is at most this.
    Most(i32),
}

/// An argument of a function, or of all functions that have one of that name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Argument {
    pub name: &'static str,
    /// Empty for every function that has no row of its own for this name.
    pub functions: &'static [&'static str],
    pub limit: Limit,
}

/// Something inside of an argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    pub functions: &'static [&'static str],
    pub what: &'static str,
    pub most: usize,
}

const fn every(name: &'static str, limit: Limit) -> Argument {
    Argument { name, functions: &[], limit }
}

const fn of(functions: &'static [&'static str], name: &'static str, limit: Limit) -> Argument {
    Argument { name, functions, limit }
}

/// Every argument that can be too large.
pub const ARGUMENTS: [Argument; 65] = [
    every("user_id", Limit::Bytes(ID_BYTES)),
    every("agent_id", Limit::Bytes(ID_BYTES)),
    every("session_id", Limit::Bytes(ID_BYTES)),
    every("exclude_session", Limit::Bytes(ID_BYTES)),
    every("role", Limit::Bytes(WORD_BYTES)),
    every("content", Limit::Content),
    of(&["memory_import_markdown"], "content", Limit::File),
    every("record", Limit::File),
    every("path", Limit::Bytes(4_096)),
    every("metadata", Limit::Content),
    every("markers", Limit::List { most: MAX_MARKERS, bytes: 16_384 }),
    every("turns", Limit::Bytes(32 * MIB)),
    every("messages", Limit::Bytes(32 * MIB)),
    every("memories", Limit::Bytes(32 * MIB)),
    every("fact_key", Limit::Bytes(FACT_KEY_BYTES)),
    every("title", Limit::Bytes(TITLE_BYTES)),
    every("doc_type", Limit::Bytes(DOC_TYPE_BYTES)),
    every("reason", Limit::Bytes(REASON_BYTES)),
    of(&["memory_close_episode"], "reason", Limit::Bytes(EPISODE_REASON_BYTES)),
    every("query", Limit::Bytes(QUERY_BYTES)),
    every("query_embedding", Limit::Numbers(16_000)),
    every("rewrites", Limit::List { most: MAX_REWRITES, bytes: QUERY_BYTES }),
    every("kinds", Limit::List { most: 16, bytes: 1_024 }),
    every("filter", Limit::Bytes(256 * 1024)),
    every("top_k", Limit::Most(MAX_TOP_K)),
    every("limit", Limit::Most(MAX_LISTED)),
    of(&["memory_summarize"], "max_tokens", Limit::Most(MAX_SUMMARY_TOKENS)),
    every("text", Limit::Content),
    of(&["memory_count_tokens"], "text", Limit::Bytes(16 * MIB)),
    of(&["memory_count_tokens"], "encoding", Limit::Bytes(WORD_BYTES)),
    every("texts", Limit::List { most: MAX_TEXTS, bytes: 32 * MIB }),
    every("documents", Limit::List { most: MAX_TEXTS, bytes: 32 * MIB }),
    every("purpose", Limit::Bytes(WORD_BYTES)),
    every("content_type", Limit::Bytes(WORD_BYTES)),
    every("post_process", Limit::Bytes(WORD_BYTES)),
    every("embed", Limit::Bytes(WORD_BYTES)),
    every("kind", Limit::Bytes(WORD_BYTES)),
    every("method", Limit::Bytes(WORD_BYTES)),
    every("settings", Limit::Bytes(65_536)),
    every("model", Limit::Bytes(MODEL_BYTES)),
    every("name", Limit::Bytes(WORD_BYTES)),
    every("base_url", Limit::Bytes(URL_BYTES)),
    every("provider", Limit::Bytes(WORD_BYTES)),
    every("key_name", Limit::Bytes(WORD_BYTES)),
    every("api_version", Limit::Bytes(WORD_BYTES)),
    every("location", Limit::Bytes(4_096)),
    every("relation", Limit::Bytes(1_000)),
    every("content_column", Limit::Bytes(COLUMN_BYTES)),
    every("user_id_column", Limit::Bytes(COLUMN_BYTES)),
    every("session_id_column", Limit::Bytes(COLUMN_BYTES)),
    every("created_at_column", Limit::Bytes(COLUMN_BYTES)),
    every("role_column", Limit::Bytes(COLUMN_BYTES)),
    every("metadata_columns", Limit::List { most: MAX_METADATA_COLUMNS, bytes: 8_192 }),
    every("more_content_columns", Limit::List { most: MAX_CONTENT_COLUMNS, bytes: 2_048 }),
    every("condition", Limit::Bytes(CONDITION_BYTES)),
    every("content_path", Limit::Bytes(PATH_BYTES)),
    every("role_path", Limit::Bytes(PATH_BYTES)),
    every("role_map", Limit::Bytes(8_192)),
    every("hash", Limit::Bytes(64)),
    every("level", Limit::Bytes(WORD_BYTES)),
    every("request_key", Limit::Bytes(ID_BYTES)),
    every("history", Limit::Bytes(32 * MIB)),
    every("replaces", Limit::List { most: MAX_REPLACED, bytes: 32_768 }),
    every("token_hash", Limit::Bytes(64)),
    of(&["memory_wait"], "timeout", Limit::Bytes(WORD_BYTES)),
];

/// What is counted inside of arguments.
pub const PARTS: [Part; 9] = [
    Part { functions: &["memory_ingest_batch"], what: "turns", most: MAX_TURNS },
    Part {
        functions: &["memory_augment", "memory_augment_block", "memory_chat", "memory_ingest_once"],
        what: "messages",
        most: MAX_MESSAGES,
    },
    Part {
        functions: &["memory_recall", "memory_explain"],
        what: "entries of a list in the filter",
        most: MAX_FILTER_LIST,
    },
    Part {
        functions: &["memory_recall", "memory_explain"],
        what: "levels of nesting in the filter's metadata",
        most: MAX_FILTER_DEPTH,
    },
    Part {
        functions: &["memory_configure"],
        what: "bytes of a setting's value, as in every SET of a setting for users",
        most: SETTING_BYTES,
    },
    Part {
        functions: &["memory_context"],
        what: "phrases of `memory_agent.cross_session_triggers`; further ones are passed over",
        most: MAX_PHRASES,
    },
    Part {
        functions: &["memory_import_markdown", "memory_import_json"],
        what: "keys of the front matter",
        most: MAX_FRONT_MATTER_KEYS,
    },
    Part {
        functions: &["memory_import_markdown", "memory_import_json"],
        what: "entries of a list in the front matter",
        most: MAX_FRONT_MATTER_LIST,
    },
    Part {
        functions: &["memory_import_markdown", "memory_import_json"],
        what: "markers in the front matter",
        most: MAX_MARKERS,
    },
];

/// The row of an argument: the function's own, or that of the name.
#[must_use]
pub fn of_argument(function: &str, name: &str) -> Option<&'static Argument> {
    let named = || ARGUMENTS.iter().filter(|argument| argument.name == name);
    let own = named().find(|argument| argument.functions.contains(&function));
    own.or_else(|| named().find(|argument| argument.functions.is_empty()))
}

/// The bytes that a file may have where content may have so many: what JSON escapes grows.
#[must_use]
pub const fn file_bytes(content_bytes: usize) -> usize {
    content_bytes.saturating_mul(7).saturating_add(MIB)
}

impl Limit {
    /// The most bytes and, of a list, elements; `content_bytes` is the setting's value. `None` for
    /// what has no bytes of its own.
    #[must_use]
    pub const fn most(self, content_bytes: usize) -> (Option<usize>, Option<usize>) {
        match self {
            Self::Bytes(bytes) => (Some(bytes), None),
            Self::Content => (Some(content_bytes), None),
            Self::File => (Some(file_bytes(content_bytes)), None),
            Self::List { most, bytes } => (Some(bytes), Some(most)),
            Self::Numbers(_) | Self::Most(_) => (None, None),
        }
    }

    fn words(self) -> String {
        match self {
            Self::Bytes(bytes) => format!("{} bytes", grouped(bytes)),
            Self::Content => "`memory_agent.max_content_bytes`".to_owned(),
            Self::File => "7 times `memory_agent.max_content_bytes`, and 1 MiB".to_owned(),
            Self::List { most, bytes } => {
                format!("{} elements, {} bytes together", grouped(most), grouped(bytes))
            }
            Self::Numbers(numbers) => format!("{} numbers, pgvector's limit", grouped(numbers)),
            Self::Most(most) => format!("the number {}", grouped(most.unsigned_abs() as usize)),
        }
    }
}

/// The two tables of docs/limits.md.
#[must_use]
pub fn markdown() -> String {
    let names = |functions: &[&str]| {
        functions.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
    };
    let mut text = String::from("| Argument | Of | At most |\n|---|---|---|\n");
    for Argument { name, functions, limit } in ARGUMENTS {
        let of = if functions.is_empty() { "every function".to_owned() } else { names(functions) };
        // Writing to a String cannot fail.
        let _ = writeln!(text, "| `{name}` | {of} | {} |", limit.words());
    }
    text.push_str("\n| In the arguments of | At most |\n|---|---|\n");
    for Part { functions, what, most } in PARTS {
        let _ = writeln!(text, "| {} | {} {what} |", names(functions), grouped(most));
    }
    text
}

/// A number with commas between thousands.
fn grouped(number: usize) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_documentation_is_this_table() {
        let page = include_str!("../../../docs/limits.md");
        assert!(page.contains(&markdown()), "docs/limits.md must hold:\n{}", markdown());
    }

    #[test]
    fn each_argument_has_one_row() {
        for (at, argument) in ARGUMENTS.iter().enumerate() {
            let same = |other: &Argument| {
                other.name == argument.name
                    && (other.functions == argument.functions
                        || other.functions.iter().any(|name| argument.functions.contains(name)))
            };
            assert!(!ARGUMENTS[at + 1..].iter().any(same), "{argument:?} is there twice");
        }
        let own = of_argument("memory_close_episode", "reason").unwrap();
        assert_eq!(own.limit, Limit::Bytes(EPISODE_REASON_BYTES));
        let general = of_argument("memory_erase", "reason").unwrap();
        assert_eq!(general.limit, Limit::Bytes(REASON_BYTES));
        assert_eq!(of_argument("memory_erase", "nothing"), None);
    }

    #[test]
    fn numbers_are_readable() {
        assert_eq!([0, 100, 1_000, 33_554_432].map(grouped), ["0", "100", "1,000", "33,554,432"]);
    }
}
