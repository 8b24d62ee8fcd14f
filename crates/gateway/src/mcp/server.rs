//! The server that speaks MCP: it lists the tools, and answers calls of them for one user. What a tool cannot
//! do is an answer for the model, which says what to do instead; only a request that names no tool is an error
//! of the protocol.

use super::arguments::fitted;
use super::queries;
use super::shapes::{
    AddMemory, ById, DeleteMemory, Deleted, Document, Found, GetMemory, Hits, ListMemories,
    Results, SearchMemories, Stored, SummarizeText, UpdateMemory, Whole,
};
use super::tools::{self, TOOLS};
use crate::db::cause::Cause;
use crate::db::memory::{Memory, MemoryError};
use crate::db::place::Place;
use crate::log;
use crate::metrics::Metrics;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, ErrorData,
    Implementation, JsonObject, ListToolsResult, PaginatedRequestParams, ServerCapabilities,
    ServerConfig, Tool,
};
use rmcp::service::RequestContext;
use rmcp::{RoleServer, ServerHandler};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Instant;
use uuid::Uuid;

/// How many memories may be asked for.
const LIMITS: RangeInclusive<i32> = 1..=100;

/// Most bytes of a text in one answer, which has it twice: clients refuse answers of a hundred kilobytes.
const MAX_PIECE_BYTES: usize = 40_000;

/// Whose memory it is.
#[derive(Clone, Debug)]
pub enum Who {
    /// This user's.
    User(String),
    /// That of the token with this SHA-256, which is looked up with each call: it may be revoked.
    Token([u8; 32]),
}

/// Answers one client.
#[derive(Clone)]
pub struct Server {
    pub memory: Memory,
    pub metrics: Arc<Metrics>,
    pub who: Who,
}

/// Why a tool did not do what it was asked.
#[derive(Debug)]
enum Problem {
    /// What the model said makes no sense.
    Arguments(String),
    /// There is no such memory.
    NotFound,
    /// The token is not known any more.
    Revoked,
    Memory(MemoryError),
}

impl From<MemoryError> for Problem {
    fn from(error: MemoryError) -> Self {
        Self::Memory(error)
    }
}

impl ServerHandler for Server {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
            .with_server_info(Implementation::new("memory-agent", env!("CARGO_PKG_VERSION")))
            .with_instructions(tools::INSTRUCTIONS)
    }

    async fn list_tools(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(TOOLS.clone()))
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        TOOLS.iter().find(|tool| tool.name == name).cloned()
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let Some(tool) = TOOLS.iter().find(|tool| tool.name == request.name) else {
            let message = format!("there is no tool {}: tools/list names them", request.name);
            return Err(ErrorData::invalid_params(message, None));
        };
        let started = Instant::now();
        let arguments = fitted(request.arguments.unwrap_or_default(), &tool.input_schema);
        let outcome = tokio::select! {
            outcome = self.call(&tool.name, arguments) => outcome,
            // No client waits for the answer, and rmcp sends none.
            () = context.ct.cancelled() => return Err(ErrorData::internal_error("cancelled", None)),
        };
        log::write(
            "tool",
            json!({
                "tool": tool.name,
                "failed": outcome.is_err(),
                "milliseconds": started.elapsed().as_millis() as u64,
            }),
        );
        let result = match outcome {
            Ok(answer) => CallToolResult::structured(answer),
            Err(problem) => {
                if let Problem::Memory(error) = &problem {
                    self.metrics.memory_failures.add("tool", 1);
                    log::write(
                        "memory_failed",
                        json!({"step": "tool", "reason": error.to_string()}),
                    );
                }
                CallToolResult::error(vec![ContentBlock::text(advice(&tool.name, &problem))])
            }
        };
        Ok(result.into())
    }
}

impl Server {
    async fn user(&self) -> Result<String, Problem> {
        match &self.who {
            Who::User(user_id) => Ok(user_id.clone()),
            Who::Token(hash) => self.memory.token_user(hash).await?.ok_or(Problem::Revoked),
        }
    }

    async fn call(&self, name: &str, arguments: JsonObject) -> Result<Value, Problem> {
        let user_id = self.user().await?;
        let (memory, user) = (&self.memory, user_id.as_str());
        match name {
            tools::SEARCH_MEMORIES => {
                let asked: SearchMemories = read(arguments)?;
                let (mut memories, most) = self.find(user, &asked).await?;
                let entries = memories.iter_mut().map(|found| &mut found.entry);
                queries::shorten(entries, &asked.query, most);
                answer(Hits { memories })
            }
            tools::SEARCH => {
                let (found, _) = self.find(user, &read(arguments)?).await?;
                answer(Results { results: found.into_iter().map(|hit| hit.entry.into()).collect() })
            }
            tools::ADD_MEMORY => {
                let AddMemory { text } = read(arguments)?;
                answer(Stored { id: queries::add(memory, user, &text).await? })
            }
            tools::LIST_MEMORIES => {
                let ListMemories { kind, limit, cursor } = read(arguments)?;
                let after = cursor
                    .map(|cursor| Place::read(&cursor).ok_or(Problem::Arguments(BAD_CURSOR.into())))
                    .transpose()?;
                let kind = kind.unwrap_or_default();
                let limit = limited(limit.unwrap_or(20))?;
                answer(queries::list(memory, user, kind, limit, after.as_ref()).await?)
            }
            tools::GET_MEMORY => {
                let GetMemory { id, offset } = read(arguments)?;
                let (mut entry, metadata, history) = self.get(user, &id).await?;
                let offset = offset.unwrap_or_default();
                let (piece, next_offset) = piece(&entry.text, offset);
                entry.text = piece.to_owned();
                entry.shortened = offset > 0 || next_offset.is_some();
                answer(Whole { entry, next_offset, metadata, history })
            }
            tools::FETCH => {
                let ById { id } = read(arguments)?;
                let (entry, metadata, _) = self.get(user, &id).await?;
                answer(Document::new(entry, metadata))
            }
            tools::UPDATE_MEMORY => {
                let UpdateMemory { id, text } = read(arguments)?;
                answer(Stored { id: queries::update(memory, user, uuid(&id)?, &text).await? })
            }
            tools::DELETE_MEMORY => {
                let DeleteMemory { id, reason } = read(arguments)?;
                if !queries::forget(memory, user, uuid(&id)?, reason.as_deref()).await? {
                    return Err(Problem::NotFound);
                }
                answer(Deleted { id })
            }
            _ => {
                let SummarizeText { text, max_tokens, content_type } = read(arguments)?;
                let kind = content_type.as_deref();
                answer(queries::summarize(memory, user, &text, max_tokens, kind).await?)
            }
        }
    }

    async fn find(&self, user: &str, asked: &SearchMemories) -> Result<(Vec<Found>, u32), Problem> {
        let limit = limited(asked.limit.unwrap_or(10))?;
        Ok(queries::find(&self.memory, user, &asked.query, limit).await?)
    }

    async fn get(&self, user: &str, id: &str) -> Result<queries::Whole, Problem> {
        queries::get(&self.memory, user, uuid(id)?).await?.ok_or(Problem::NotFound)
    }
}

/// A piece of a text after so many characters, and after how many the next one begins.
fn piece(text: &str, offset: usize) -> (&str, Option<usize>) {
    let start = text.char_indices().nth(offset).map_or(text.len(), |(at, _)| at);
    let rest = &text[start..];
    let end = rest.floor_char_boundary(MAX_PIECE_BYTES);
    let piece = &rest[..end];
    (piece, (end < rest.len()).then(|| offset + piece.chars().count()))
}

/// The arguments of a tool.
fn read<T: DeserializeOwned>(arguments: JsonObject) -> Result<T, Problem> {
    serde_json::from_value(Value::Object(arguments))
        .map_err(|error| Problem::Arguments(format!("The arguments do not fit: {error}.")))
}

fn answer(answer: impl Serialize) -> Result<Value, Problem> {
    serde_json::to_value(answer).map_err(|_| MemoryError::Unexpected.into())
}

fn limited(limit: i32) -> Result<i32, Problem> {
    if LIMITS.contains(&limit) {
        return Ok(limit);
    }
    let (least, most) = LIMITS.into_inner();
    Err(Problem::Arguments(format!("limit must be from {least} to {most}.")))
}

fn uuid(id: &str) -> Result<Uuid, Problem> {
    Uuid::parse_str(id).map_err(|_| Problem::NotFound)
}

const BAD_CURSOR: &str = "unknown cursor: leave it out to begin with the newest memory.";

/// What the model is told: what went wrong, and what to do about it.
fn advice(tool: &str, problem: &Problem) -> String {
    let error = match problem {
        Problem::Arguments(said) => return said.clone(),
        Problem::NotFound => return NOT_FOUND.to_owned(),
        Problem::Revoked => {
            return "The memory token is unknown, or has expired: tell the user to get a new one. Go on \
                    without memory."
                .to_owned();
        }
        Problem::Memory(error) => error,
    };
    let cause = match error {
        MemoryError::Refused(said) => said.cause(),
        MemoryError::NoDatabase(_) | MemoryError::NoTls(_) | MemoryError::NoExtension(_) => {
            return "Memory cannot be reached. Go on without it, and tell the user that nothing was \
                    remembered or changed."
                .to_owned();
        }
        MemoryError::Late => {
            return "Memory took too long. Try once more, or go on without it.".to_owned();
        }
        MemoryError::Unexpected
        | MemoryError::ModeOfRoles
        | MemoryError::NoRoom
        | MemoryError::Unread => {
            return format!("Memory does not work: {error}. Tell the user, and go on without it.");
        }
    };
    let said = match (cause, tool) {
        (Cause::Unknown, _) => NOT_FOUND,
        (Cause::WrongKind, tools::UPDATE_MEMORY) => {
            "This memory is a passage of a document or a row of a table, which cannot be changed here. Add a \
             memory that says what holds now."
        }
        (Cause::WrongState, tools::UPDATE_MEMORY) => {
            "This memory was replaced or forgotten. Search for the memory that holds now, or add one."
        }
        (Cause::Invalid, tools::SUMMARIZE_TEXT) => {
            "text must not be empty, nor longer than about 1 MB; max_tokens is from 16 to 100000; content_type is \
             conversation, journal or document."
        }
        (Cause::Invalid, _) => {
            "A text is empty or too long. A memory is one statement of a sentence or two."
        }
        (Cause::Unreadable, tools::LIST_MEMORIES) => BAD_CURSOR,
        (Cause::Character, _) => {
            "A text has a character that no text in memory can have (U+0000): leave it out."
        }
        (Cause::WrongState, tools::SUMMARIZE_TEXT) => {
            "The memory server has no language model: condense the text yourself. An administrator configures \
             one with memory_agent.llm_base_url."
        }
        (Cause::System, tools::SUMMARIZE_TEXT) => {
            "The memory server's language model gave no answer: condense the text yourself, or try again later."
        }
        (Cause::OverQuota, _) => {
            "The user's quota of memory is used up: nothing was stored. Tell the user, who can forget what is not \
             needed any more, or ask an administrator for more."
        }
        (Cause::ReadOnly, _) => "Memory can only be read now: nothing was stored. Tell the user.",
        (Cause::Concurrent, _) => "Something else changed this memory at the same time: try again.",
        (Cause::NotPermitted, _) => {
            "The server may not do this: tell the user that the database role of memory-agent needs the level \
             user, which memory_grant gives."
        }
        _ => return format!("Memory refused this: {error}. Tell the user, and go on without it."),
    };
    said.to_owned()
}

const NOT_FOUND: &str = "No memory has this id; it may have been forgotten or replaced. Search again, and use an id \
                         of the result.";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::db::memory_error::DatabaseError;

    #[test]
    fn every_problem_says_what_to_do() {
        let refused = |code: &str| {
            let (code, message, hint) = (code.to_owned(), String::new(), None);
            Problem::Memory(MemoryError::Refused(Box::new(DatabaseError { code, message, hint })))
        };
        let said = advice(tools::SUMMARIZE_TEXT, &refused("55000"));
        assert!(said.contains("condense the text yourself"), "{said}");
        assert!(advice(tools::ADD_MEMORY, &refused("55000")).contains("SQLSTATE 55000"));
        assert!(advice(tools::ADD_MEMORY, &refused("53400")).contains("quota"));
        assert_eq!(advice(tools::UPDATE_MEMORY, &refused("42704")), NOT_FOUND);
        assert_eq!(advice(tools::LIST_MEMORIES, &refused("22007")), BAD_CURSOR);
        let said = advice(tools::ADD_MEMORY, &MemoryError::NoDatabase(String::new()).into());
        assert!(said.contains("Go on without it"), "{said}");
    }

    #[test]
    fn arguments_that_do_not_fit_are_named() {
        let Value::Object(arguments) = json!({"query": "x", "limit": "five"}) else { panic!() };
        let outcome = read::<SearchMemories>(arguments);
        let Err(Problem::Arguments(said)) = outcome else { panic!("{outcome:?}") };
        assert!(said.contains("invalid type: string \"five\", expected i32"), "{said}");
    }

    #[test]
    fn a_long_text_is_read_piece_by_piece() {
        let text = "ä".repeat(45_000);
        let (mut read, mut offset) = (String::new(), Some(0));
        while let Some(from) = offset {
            let (piece, next) = piece(&text, from);
            assert!(piece.len() <= MAX_PIECE_BYTES && !piece.is_empty());
            read.push_str(piece);
            offset = next;
        }
        assert_eq!(read, text);
        assert_eq!(piece("short", 0), ("short", None));
        assert_eq!(piece("short", 9), ("", None));
    }
}
