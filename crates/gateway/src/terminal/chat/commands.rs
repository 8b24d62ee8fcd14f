//! What a line of the conversation asks for, and the commands that read and change memory.

use super::queries::Listed;
use super::{Conversation, print, say};
use crate::screen;
use serde_json::Value;
use std::fmt::Write;
use uuid::Uuid;

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
            Command::Recall(query) => {
                let found = self.recalled(&query).await?;
                self.list(&found, "Nothing is remembered for that.");
                Ok(())
            }
            Command::Facts => {
                let facts = self.latest_facts().await?;
                self.list(&facts, "There are no facts yet.");
                Ok(())
            }
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

    async fn stats(&self) -> Result<(), String> {
        let (all, session) = self.counts().await?;
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

    /// Shows memories with numbers.
    fn list(&mut self, memories: &[Listed], none: &str) {
        self.shown = memories.iter().map(|memory| memory.id).collect();
        let mut text = String::new();
        for (place, Listed { role, day, content, score, .. }) in memories.iter().enumerate() {
            let score = score.map(|score| format!("{score:.2}  ")).unwrap_or_default();
            let number = place + 1;
            let _ = writeln!(text, "{number:>2}  {score}{role}, {day}: {}", beginning(content));
        }
        if memories.is_empty() {
            let _ = writeln!(text, "{none}");
        }
        print(&text);
    }

    async fn close_episode(&self) -> Result<(), String> {
        print(match self.closed_episode().await? {
            Some(_) => "The episode is closed.\n",
            None => "No episode is open.\n",
        });
        Ok(())
    }

    async fn context(&self, query: Option<String>) -> Result<(), String> {
        let asked = query.or_else(|| self.last.as_ref().map(|last| last.question.clone()));
        let query = asked.ok_or("/context needs a question, as nothing was asked yet.")?;
        let context = self.context_for(&query).await?;
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
        if !self.forgotten(id).await? {
            return Err("There is no such memory any more.".to_owned());
        }
        say(&format!("Forgotten. SELECT memory_restore('{id}') brings it back."));
        Ok(())
    }
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
