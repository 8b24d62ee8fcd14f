//! People who speak while processes are killed: each stores one act after the other. When a connection
//! is lost, the database knows whether the act was committed.

use crate::scene::{DATABASE, PATIENCE};
use memory_agent_e2e::llm::{Act, Dice, Manner, Saying, Speaker, Way};
use memory_agent_e2e::{Client, Cluster, DateTime, Error, Json, Utc, json, wait_until};
use postgres::{GenericClient, NoTls};
use std::sync::atomic::{AtomicI32, Ordering};
use std::time::Duration;

/// Longest pause before an act, and between the statements of one.
const PAUSE: usize = 150;
const PAUSE_WITHIN: usize = 25;
/// What statements may fail with: the server stops, crashed, or starts.
const LOST: [&str; 3] = ["57P01", "57P02", "57P03"];

/// When a saying was said.
pub fn time(began: DateTime<Utc>, number: usize) -> DateTime<Utc> {
    began + Duration::from_secs(number as u64)
}

/// A session of a speaker; its backend's id is left where the killer finds it.
pub struct Voice<'a> {
    pub cluster: &'a Cluster,
    pub speaker: &'a Speaker,
    pub began: DateTime<Utc>,
    pub backend: &'a AtomicI32,
}

impl Voice<'_> {
    /// Says everything.
    pub fn speak(&self, mut dice: Dice) {
        let mut client = None;
        for act in &self.speaker.acts {
            pause(&mut dice, PAUSE);
            wait_until(PATIENCE, "an act to be stored", || {
                let Some(mut session) = client.take().or_else(|| self.open()) else { return false };
                match self.perform(&mut session, act, &mut dice) {
                    Ok(()) => client = Some(session),
                    // Nothing but the kills may stop it.
                    Err(error) => {
                        let lost = |code: &str| LOST.contains(&code);
                        let is_lost = error.code().is_none_or(|code| lost(code.code()));
                        assert!(is_lost, "{act:?}: {error:?}");
                    }
                }
                client.is_some()
            });
        }
        self.backend.store(0, Ordering::SeqCst);
    }

    fn open(&self) -> Option<Client> {
        let mut client = self.cluster.config(DATABASE).connect(NoTls).ok()?;
        let settings = match self.speaker.way {
            Way::Session | Way::Alone => "",
            Way::Global => "SET memory_agent.fact_scope = global",
            Way::Episodes => {
                "SET memory_agent.extraction = episode; SET memory_agent.min_episode_turns = 1"
            }
        };
        client
            .batch_execute(&format!(
                "SET memory_agent.user_id = '{}'; {settings}",
                self.speaker.user
            ))
            .ok()?;
        let pid = client.query_one("SELECT pg_backend_pid()", &[]).ok()?.get(0);
        self.backend.store(pid, Ordering::SeqCst);
        Some(client)
    }

    /// Stores an act, unless it is stored already.
    fn perform(&self, client: &mut Client, act: &Act, dice: &mut Dice) -> Result<(), Error> {
        let numbers: Vec<i32> = act.sayings.iter().map(|saying| saying.number as i32).collect();
        let stored: i64 = client
            .query_one(
                "SELECT count(*) FROM memory_agent.entries \
                  WHERE user_id = $1 AND kind = 'turn' AND (metadata->>'n')::int = ANY ($2)",
                &[&self.speaker.user, &numbers],
            )?
            .get(0);
        assert!(
            stored == 0 || stored == numbers.len() as i64 && act.manner != Manner::RolledBack,
            "{stored} of an act are stored: {act:?}"
        );
        if stored == 0 {
            match act.manner {
                Manner::Call => self.say(client, &act.sayings[0])?,
                Manner::Batch => self.say_all(client, &act.sayings)?,
                Manner::Transaction | Manner::RolledBack => {
                    let mut transaction = client.transaction()?;
                    for saying in &act.sayings {
                        self.say(&mut transaction, saying)?;
                        pause(dice, PAUSE_WITHIN);
                    }
                    self.whisper(&mut transaction)?;
                    match act.manner {
                        Manner::RolledBack => transaction.rollback()?,
                        _ => transaction.commit()?,
                    }
                }
            }
        }
        if act.ends_episode {
            client.execute("SELECT memory_close_episode($1)", &[&self.speaker.session])?;
        }
        Ok(())
    }

    fn say(&self, client: &mut impl GenericClient, saying: &Saying) -> Result<(), Error> {
        let (metadata, at) = (json!({"n": saying.number}), time(self.began, saying.number));
        match &self.speaker.session {
            Some(session) => client.execute(
                "SELECT memory_ingest($1, 'user', $2, metadata => $3, created_at => $4)",
                &[session, &saying.text, &metadata, &at],
            )?,
            None => client.execute(
                "SELECT memory_add($1, metadata => $2, created_at => $3)",
                &[&saying.text, &metadata, &at],
            )?,
        };
        Ok(())
    }

    fn say_all(&self, client: &mut Client, sayings: &[Saying]) -> Result<(), Error> {
        let turn = |saying: &Saying| {
            json!({
                "role": "user", "content": saying.text, "metadata": {"n": saying.number},
                "created_at": time(self.began, saying.number).to_rfc3339(),
            })
        };
        let turns = Json::from(sayings.iter().map(turn).collect::<Vec<_>>());
        let sql = "SELECT memory_ingest_batch($1, $2)";
        client.execute(sql, &[&turns, &self.speaker.session]).map(drop)
    }

    /// Something of an assistant that sweeps will find expired.
    fn whisper(&self, client: &mut impl GenericClient) -> Result<(), Error> {
        let sql = "SELECT memory_ingest($1, 'assistant', 'Let me see.', ttl => '200 ms')";
        match &self.speaker.session {
            Some(session) => client.execute(sql, &[session]).map(drop),
            None => Ok(()),
        }
    }
}

fn pause(dice: &mut Dice, below: usize) {
    std::thread::sleep(Duration::from_millis(dice.below(below) as u64));
}
