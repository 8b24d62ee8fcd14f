//! A session whose every word to its client is kept, and what came of one call.

use memory_agent_e2e::{Client, Cluster, sqlstate};
use postgres::SimpleQueryMessage;
use std::sync::{Arc, Mutex, PoisonError};

/// How PL/pgSQL tells what it caught; see `draw::Form`.
pub const CAUGHT: &str = "caught SQLSTATE ";

/// A role's session.
pub struct Session {
    client: Client,
    messages: Arc<Mutex<Vec<String>>>,
}

/// All that a client learns from a call.
#[derive(Debug)]
pub struct Answer {
    /// All values of all rows, as texts.
    pub values: Vec<String>,
    /// The SQLSTATE of its error, also of one that PL/pgSQL caught.
    pub error: Option<String>,
    /// The whole error with detail, hint and context, and the messages of every severity.
    pub told: Vec<String>,
}

impl Answer {
    pub fn texts(&self) -> impl Iterator<Item = &String> {
        self.values.iter().chain(&self.told)
    }
}

impl Session {
    pub fn open(cluster: &Cluster, database: &str, role: &str) -> Self {
        let messages = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&messages);
        let mut config = cluster.config(database);
        config.user(role).notice_callback(move |notice| {
            kept.lock().unwrap_or_else(PoisonError::into_inner).push(format!("{notice:?}"));
        });
        let mut client = config.connect(postgres::NoTls).expect("a session");
        client
            .batch_execute(
                "SET client_min_messages = debug1; SET memory_agent.rerank = off; \
                 SET statement_timeout = '60s'; \
                 CREATE FUNCTION pg_temp.peek(seen text) RETURNS boolean LANGUAGE plpgsql \
                     COST 0.0000001 AS $$ BEGIN RAISE NOTICE '%', seen; RETURN true; END $$",
            )
            .expect("a session's settings");
        Self { client, messages }
    }

    /// Runs statements; a transaction that they leave open is rolled back.
    pub fn call(&mut self, statements: &str) -> Answer {
        let mut answer = Answer { values: Vec::new(), error: None, told: Vec::new() };
        match self.client.simple_query(statements) {
            Ok(messages) => {
                for message in messages {
                    if let SimpleQueryMessage::Row(row) = message {
                        let values = (0..row.len()).filter_map(|at| row.get(at));
                        answer.values.extend(values.map(str::to_owned));
                    }
                }
            }
            Err(error) => {
                answer.error = Some(sqlstate(&error).to_owned());
                answer.told.push(format!("{error:?}"));
                self.client.batch_execute("ROLLBACK; DEALLOCATE ALL").expect("a live session");
            }
        }
        let messages =
            std::mem::take(&mut *self.messages.lock().unwrap_or_else(PoisonError::into_inner));
        let caught = messages.iter().find_map(|message| message.split_once(CAUGHT));
        if let Some((_, state)) = caught {
            answer.error = state.get(..5).map(str::to_owned);
        }
        answer.told.extend(messages);
        answer
    }

    /// The role and the search_path, which no call may leave behind changed.
    pub fn surroundings(&mut self) -> (String, String) {
        let row = self
            .client
            .query_one("SELECT current_user::text, current_setting('search_path')", &[])
            .expect("the surroundings");
        (row.get(0), row.get(1))
    }
}
