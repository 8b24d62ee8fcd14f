//! `memory-agent chat`: a conversation in the terminal with a language model that remembers. The gateway is in
//! this process, and each line goes the way that a client's request goes through it.

mod commands;
mod debug;
mod input;
mod queries;
mod talk;

use super::{plain, say, user_of};
use crate::args::Chat;
use crate::db::memory::Memory;
use crate::gateway::Gateway;
use crate::http_server;
use crate::log;
use crate::metrics::Metrics;
use crate::screen;
use crate::upstream::{KeyIn, Upstream};
use commands::Command;
use input::{Input, Line};
use serde_json::{Value, json};
use std::io::Write;
use std::sync::Arc;
use std::time::Duration;
use talk::{Said, Talk};

/// So many that a recall, and what is stored behind a chat's back, have two: see `lending.rs`.
const CONNECTIONS: usize = 5;
/// Longest silence of the upstream.
const SILENCE: Duration = Duration::from_secs(600);
/// How long what is being stored may take at the end.
const LAST_MOMENT: Duration = Duration::from_secs(60);
/// Messages of the conversation that go with each request. What is older comes back by memory.
const MESSAGES: usize = 40;

/// The conversation, and what its commands ask.
pub struct Conversation {
    memory: Memory,
    user: String,
    session: String,
    talk: Talk,
    /// What was said, as messages of a chat.
    messages: Vec<Value>,
    /// The last request, and what was remembered for it.
    last: Option<Said>,
    /// Memories that the last list showed, for `/forget` by their number.
    shown: Vec<uuid::Uuid>,
    /// Whether each answer is followed by what went into its prompt.
    debug: bool,
}

/// Talks until the person has enough; whether every message was answered.
///
/// # Errors
/// Why it does not begin.
pub async fn chat(options: Chat) -> Result<bool, String> {
    // The person who talks reads standard error here.
    log::silence();
    let metrics = Arc::new(Metrics::default());
    let patience = Duration::from_millis(options.patience);
    let memory =
        Memory::new(&options.person.database, CONNECTIONS, patience, Arc::clone(&metrics))?;
    let user = user_of(&options.person, &memory).await?;
    if let Err(error) = memory.status().await {
        say(&format!("{}: the conversation goes on without memory.", plain(&error)));
    }
    let key = options.upstream_key_file.as_ref().map(std::fs::read_to_string).transpose();
    let key = key.map_err(|error| format!("the key file: {error}"))?;
    let upstream =
        |key: Option<&str>| Upstream::new(&options.upstream, key, KeyIn::Authorization, SILENCE);
    let upstreams = (upstream(key.as_deref())?, upstream(None)?);
    let gateway =
        Arc::new(Gateway::for_one(user.clone(), memory.clone(), upstreams, metrics, patience));
    let mut talk = Talk::new(http_server::router(Arc::clone(&gateway))?);
    talk.choose_model(options.model).await?;
    let mut conversation = Conversation {
        memory,
        user,
        session: options.session,
        talk,
        messages: Vec::new(),
        last: None,
        shown: Vec::new(),
        debug: options.debug,
    };
    conversation.take_up().await;
    let mut input = Input::new(options.history)?;
    if input.is_terminal() {
        let Conversation { user, session, .. } = &conversation;
        say(&format!("You are {user}, in the session {session}. /help lists the commands."));
    }
    let all_answered = conversation.go_on(&mut input).await;
    input.end();
    // What the last answer says is being stored, perhaps.
    if tokio::time::timeout(LAST_MOMENT, gateway.until_idle()).await.is_err() {
        say("What was said last is not stored: memory took too long.");
        return Ok(false);
    }
    Ok(all_answered)
}

impl Conversation {
    /// Goes on with what the session has in memory.
    async fn take_up(&mut self) {
        // Without memory it begins anew, which was said before.
        for (role, content) in self.loaded().await.unwrap_or_default() {
            self.messages.push(json!({"role": role, "content": content}));
        }
        self.forget_oldest();
    }

    /// Keeps the latest messages, from one of the user's on.
    fn forget_oldest(&mut self) {
        let too_many = self.messages.len().saturating_sub(MESSAGES);
        self.messages.drain(..too_many);
        let first = self.messages.iter().position(|message| message["role"] == "user");
        self.messages.drain(..first.unwrap_or(self.messages.len()));
    }

    async fn go_on(&mut self, input: &mut Input) -> bool {
        let mut all_answered = true;
        loop {
            let line = tokio::select! {
                line = input.next() => line,
                // The editor of a terminal sees it as a key.
                _ = tokio::signal::ctrl_c(), if !input.is_terminal() => Line::End,
            };
            let line = match line {
                Line::Said(line) => line,
                Line::Nothing => continue,
                Line::End => return all_answered,
                Line::Broken(problem) => {
                    say(&problem);
                    return false;
                }
            };
            match Command::read(&line) {
                None => {}
                Some(Ok(Command::Quit)) => return all_answered,
                Some(Ok(Command::Say(text))) => all_answered &= self.say(&text).await,
                Some(Ok(command)) => {
                    if let Err(problem) = self.command(command).await {
                        say(&problem);
                        all_answered &= input.is_terminal();
                    }
                }
                Some(Err(problem)) => {
                    say(&problem);
                    all_answered &= input.is_terminal();
                }
            }
        }
    }

    /// Says something and shows the answer as it comes; whether there was one.
    async fn say(&mut self, text: &str) -> bool {
        self.messages.push(json!({"role": "user", "content": text}));
        self.forget_oldest();
        let outcome = self.talk.say(&self.session, &self.messages, print).await;
        print("\n");
        let said = match outcome {
            Ok(said) => said,
            Err(problem) => {
                // It is sent again with what is said next, if the person says it again.
                self.messages.pop();
                say(&problem);
                return false;
            }
        };
        if !said.answer.is_empty() {
            self.messages.push(json!({"role": "assistant", "content": said.answer}));
        }
        for notice in said.notices() {
            say(notice);
        }
        self.last = Some(said);
        if self.debug
            && let Err(problem) = self.tell_why().await
        {
            say(&problem);
        }
        true
    }
}

/// Shows a piece of a text as soon as it is there.
fn print(text: &str) {
    let mut to = std::io::stdout().lock();
    // A terminal that is gone shows nothing, and the answer is stored all the same.
    let _ = to.write_all(screen::lines(text).as_bytes()).and_then(|()| to.flush());
}
