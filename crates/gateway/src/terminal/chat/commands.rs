//! What a line of the conversation asks for, and the commands that read and change memory.

use super::{Conversation, plain, print, say};
use crate::db::memory::{End, MemoryError, Param, column};
use crate::screen;
use serde_json::Value;
use std::fmt::Write;
use tokio_postgres::Row;
use tokio_postgres::types::Type;
use uuid::Uuid;

/// Facts that `/facts` shows.
const FACTS: i32 = 20;
/// Letters of a memory in a list.
const SHOWN: usize = 200;
const HELP: &str = "\
/stats          what memory has of you, and of this session
/recall QUERY   what is remembered for a question
/facts          your latest facts
/episode        close the running episode: facts can be made of it then
/context QUERY  what memory_context would put into a prompt
/debug          what went into the last prompt, and why; /debug on and off: after each answer
/forget N       forget a memory of the last list, or /forget ID
/help           this list
/quit           end; so does Ctrl-D. Ctrl-C stops an answer
//TEXT          say something that begins with a slash";

/// What a line asks for.
#[derive(Debug, PartialEq, Eq)]
pub enum Command {
    Say(String),
    Stats,
    Recall(String),
    Facts,
    Episode,
    Context(Option<String>),
    /// `None` for the last prompt.
    Debug(Option<bool>),
    Forget(String),
    Help,
    Quit,
}

impl Command {
    /// Reads a line; `None` for a blank one.
    pub fn read(line: &str) -> Option<Result<Self, String>> {
        let line = line.trim();
        if line.is_empty() {
            return None;
        }
        let Some(command) = line.strip_prefix('/') else {
            return Some(Ok(Self::Say(line.to_owned())));
        };
        if command.starts_with('/') {
            return Some(Ok(Self::Say(command.to_owned())));
        }
        let (name, rest) = command.split_once(char::is_whitespace).unwrap_or((command, ""));
        let rest = rest.trim();
        let needed = |what: &str| match rest {
            "" => Err(format!("/{name} needs {what}.")),
            rest => Ok(rest.to_owned()),
        };
        Some(match (name, rest) {
            ("stats", "") => Ok(Self::Stats),
            ("recall", _) => needed("a question").map(Self::Recall),
            ("facts", "") => Ok(Self::Facts),
            ("episode", "") => Ok(Self::Episode),
            ("context", "") => Ok(Self::Context(None)),
            ("context", query) => Ok(Self::Context(Some(query.to_owned()))),
            ("debug", "") => Ok(Self::Debug(None)),
            ("debug", "on") => Ok(Self::Debug(Some(true))),
            ("debug", "off") => Ok(Self::Debug(Some(false))),
            ("forget", _) => {
                needed("the number of a memory in the last list, or its id").map(Self::Forget)
            }
            ("help", "") => Ok(Self::Help),
            ("quit" | "exit", "") => Ok(Self::Quit),
            _ => Err(format!(
                "/{name} is not a command, or does not take this argument. /help lists them."
            )),
        })
    }
}

impl Conversation {
    /// Does what was asked for.
    pub(super) async fn command(&mut self, command: Command) -> Result<(), String> {
        match command {
            Command::Stats => self.stats().await,
            Command::Recall(query) => self.recall(&query).await,
            Command::Facts => self.facts().await,
            Command::Episode => self.close_episode().await,
            Command::Context(query) => self.context(query).await,
            Command::Debug(None) => self.tell_why().await,
            Command::Debug(Some(debug)) => {
                self.debug = debug;
                Ok(())
            }
            Command::Forget(which) => self.forget(&which).await,
            Command::Help => {
                print(&format!("{HELP}\n"));
                Ok(())
            }
            Command::Say(_) | Command::Quit => Ok(()),
        }
    }

    /// Asks memory.
    pub(super) async fn ask(&self, sql: &str, params: &[Param<'_>]) -> Result<Vec<Row>, String> {
        let rows = self.memory.ask(&self.user, sql, params, End::Commit).await;
        rows.map_err(|error| plain(&error))
    }

    async fn stats(&self) -> Result<(), String> {
        let sql = "SELECT memory_stats(user_id => $1), memory_stats($2, user_id => $1)";
        let params: [Param<'_>; 2] = [(&self.user, Type::TEXT), (&self.session, Type::TEXT)];
        let rows = self.ask(sql, &params).await?;
        let row = rows.first().ok_or("memory says nothing")?;
        let (all, session): (Value, Value) = (read(row, 0)?, read(row, 1)?);
        let mut text = format!("{:18} {:>8} {:>8}\n", "", "all", "session");
        for (name, count) in all.as_object().into_iter().flatten() {
            if let Some(count) = count.as_u64() {
                let of_session = session[name].as_u64().unwrap_or(0);
                let name = name.replace('_', " ");
                // Writing to a text cannot fail.
                let _ = writeln!(text, "{name:18} {count:>8} {of_session:>8}");
            }
        }
        print(&text);
        Ok(())
    }

    async fn recall(&mut self, query: &str) -> Result<(), String> {
        let sql = "SELECT r.id, r.role, r.created_at::date::text, r.content, r.score \
                     FROM memory_recall($1, session_id => $2, user_id => $3) r";
        let params: [Param<'_>; 3] =
            [(&query, Type::TEXT), (&self.session, Type::TEXT), (&self.user, Type::TEXT)];
        let rows = self.ask(sql, &params).await?;
        self.list(&rows, "Nothing is remembered for that.")
    }

    async fn facts(&mut self) -> Result<(), String> {
        let sql = "SELECT e.id, e.role, e.created_at::date::text, e.content, NULL::float4 \
                     FROM memory_list(kind => 'fact', user_id => $1, \"limit\" => $2::int4) e \
                    ORDER BY e.created_at DESC, e.id DESC";
        let params: [Param<'_>; 2] = [(&self.user, Type::TEXT), (&FACTS, Type::INT4)];
        let rows = self.ask(sql, &params).await?;
        self.list(&rows, "There are no facts yet.")
    }

    /// Shows memories with numbers.
    fn list(&mut self, rows: &[Row], none: &str) -> Result<(), String> {
        self.shown.clear();
        let mut text = String::new();
        for row in rows {
            let (id, role): (Uuid, String) = (read(row, 0)?, read(row, 1)?);
            let (day, content): (String, String) = (read(row, 2)?, read(row, 3)?);
            let score: Option<f32> = read(row, 4)?;
            self.shown.push(id);
            let score = score.map(|score| format!("{score:.2}  ")).unwrap_or_default();
            let number = self.shown.len();
            let _ = writeln!(text, "{number:>2}  {score}{role}, {day}: {}", beginning(&content));
        }
        if rows.is_empty() {
            let _ = writeln!(text, "{none}");
        }
        print(&text);
        Ok(())
    }

    async fn close_episode(&self) -> Result<(), String> {
        let sql = "SELECT memory_close_episode($1, user_id => $2)";
        let params: [Param<'_>; 2] = [(&self.session, Type::TEXT), (&self.user, Type::TEXT)];
        let rows = self.ask(sql, &params).await?;
        let closed: Option<Uuid> = rows.first().map(|row| read(row, 0)).transpose()?.flatten();
        print(match closed {
            Some(_) => "The episode is closed.\n",
            None => "No episode is open.\n",
        });
        Ok(())
    }

    async fn context(&self, query: Option<String>) -> Result<(), String> {
        let asked = query.or_else(|| self.last.as_ref().map(|last| last.question.clone()));
        let query = asked.ok_or("/context needs a question, as nothing was asked yet.")?;
        let sql = "SELECT memory_context($1, $2, user_id => $3)";
        let params: [Param<'_>; 3] =
            [(&self.session, Type::TEXT), (&query, Type::TEXT), (&self.user, Type::TEXT)];
        let rows = self.ask(sql, &params).await?;
        let context: Value = read(rows.first().ok_or("memory says nothing")?, 0)?;
        print(&messages(&context["messages"]));
        print(&format!("{} tokens\n", context["token_count"]));
        Ok(())
    }

    async fn forget(&mut self, which: &str) -> Result<(), String> {
        let by_number = which.parse::<usize>().ok().and_then(|number| number.checked_sub(1));
        let id = match by_number {
            Some(place) => self.shown.get(place).copied(),
            None => Uuid::parse_str(which).ok(),
        };
        let id = id.ok_or_else(|| {
            format!(
                "{which} is neither a number of the last list nor an id. /facts and /recall show lists."
            )
        })?;
        let params: [Param<'_>; 2] = [(&id, Type::UUID), (&self.user, Type::TEXT)];
        let sql = "SELECT memory_forget($1, 'in the terminal', user_id => $2)";
        let rows = self.ask(sql, &params).await?;
        let had_one: bool = read(rows.first().ok_or("memory says nothing")?, 0)?;
        if !had_one {
            return Err("There is no such memory any more.".to_owned());
        }
        say(&format!("Forgotten. SELECT memory_restore('{id}') brings it back."));
        Ok(())
    }
}

/// A column, for the person.
pub fn read<'a, T: tokio_postgres::types::FromSql<'a>>(
    row: &'a Row,
    at: usize,
) -> Result<T, String> {
    column(row, at).map_err(|error: MemoryError| plain(&error))
}

/// Messages of a chat, each from its own line on.
pub fn messages(list: &Value) -> String {
    let mut text = String::new();
    for message in list.as_array().into_iter().flatten() {
        let role = message["role"].as_str().unwrap_or_default();
        let content = message["content"]
            .as_str()
            .map_or_else(|| message["content"].to_string(), str::to_owned);
        let _ = writeln!(text, "[{role}] {content}");
    }
    text
}

/// The beginning of a text, in one line.
pub fn beginning(text: &str) -> String {
    let text = screen::lines(text).split_whitespace().collect::<Vec<_>>().join(" ");
    match text.char_indices().nth(SHOWN) {
        None => text,
        Some((end, _)) => format!("{}…", text[..end].trim_end()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> Option<Command> {
        Command::read(line)?.ok()
    }

    #[test]
    fn lines_are_commands_or_said() {
        let say = |text: &str| Some(Command::Say(text.to_owned()));
        for (line, expected) in [
            ("Hello.", say("Hello.")),
            ("  Hello.\n", say("Hello.")),
            ("//etc is a path", say("/etc is a path")),
            ("/stats", Some(Command::Stats)),
            ("/recall  who is Lena? ", Some(Command::Recall("who is Lena?".to_owned()))),
            ("/facts", Some(Command::Facts)),
            ("/episode", Some(Command::Episode)),
            ("/context", Some(Command::Context(None))),
            ("/context a", Some(Command::Context(Some("a".to_owned())))),
            ("/debug", Some(Command::Debug(None))),
            ("/debug on", Some(Command::Debug(Some(true)))),
            ("/debug off", Some(Command::Debug(Some(false)))),
            ("/forget 2", Some(Command::Forget("2".to_owned()))),
            ("/help", Some(Command::Help)),
            ("/quit", Some(Command::Quit)),
            ("/exit", Some(Command::Quit)),
        ] {
            assert_eq!(read(line), expected, "{line}");
        }
        assert!(Command::read(" \n").is_none());
        for wrong in ["/recall", "/forget", "/nothing", "/debug maybe", "/stats now", "/"] {
            assert!(matches!(Command::read(wrong), Some(Err(_))), "{wrong}");
        }
    }

    #[test]
    fn long_texts_begin_in_one_line() {
        assert_eq!(beginning("a\u{1b}[2J\n b"), "a[2J b");
        assert_eq!(beginning(&"ä".repeat(201)).chars().count(), 201);
    }
}
