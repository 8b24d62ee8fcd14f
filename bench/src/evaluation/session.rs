//! One conversation through SQL, as an application would hold it: every message is stored, the worker
//! makes facts of it, and then every fact is asked for.

use crate::arguments::{Arguments, Extraction};
use crate::conversation::{Conversation, Probe, Recipe};
use crate::scenario::Scenario;
use crate::verdict::{PromptVerdict, Row, Verdict};
use memory_agent_bench::Result;
use memory_agent_bench::samples::Samples;
use memory_agent_e2e::llm::LlmStub;
use memory_agent_e2e::{Client, Json};
use serde::Serialize;

/// Seconds between two messages of a conversation.
const PACE: f64 = 45.0;
/// Longest wait for facts. A scripted LLM needs no time; a real one on a small machine does.
const PATIENCE: &str = "15 min";
const SESSION: &str = "evaluation";
/// Where questions are asked that other sessions have to answer.
const ASKED: &str = "asked";
/// Of memory_recall's `kinds`.
const ALL_KINDS: Option<&[&str]> = None;
const FACTS: Option<&[&str]> = Some(&["fact"]);

/// A session to play.
#[derive(Debug, Clone, Copy)]
pub struct Task {
    pub scenario: &'static Scenario,
    pub turns: usize,
    pub iteration: usize,
}

/// What became of a probe.
#[derive(Debug, Clone, Serialize)]
pub struct Probed {
    pub topic: &'static str,
    pub question: &'static str,
    pub current: &'static str,
    pub superseded: Vec<&'static str>,
    /// Of memory_recall with the settings as shipped.
    pub recall: Verdict,
    /// The same with `stale_sources = hide`.
    pub hidden: Verdict,
    /// Of facts alone, with `kinds => '{fact}'`.
    pub facts: Verdict,
    /// Of the messages of memory_context.
    pub context: PromptVerdict,
    /// Of the message that memory_augment makes.
    pub augment: PromptVerdict,
    /// Of the messages that memory_chat sends; only the scripted LLM tells what it was sent.
    pub chat: Option<PromptVerdict>,
    pub context_tokens: i64,
    pub context_over_budget: bool,
    /// Whether it was asked in a session that knows nothing of the others.
    pub is_apart: bool,
}

impl Probed {
    /// Whether the fact was found within the budget, also in prompts, and none that no longer holds was offered as true.
    pub fn passes(&self) -> bool {
        if self.is_apart {
            return self.prompts().all(|prompt| !prompt.is_told) && !self.is_over_budget();
        }
        self.recall.is_found()
            && !self.recall.misleads()
            && self.hidden.is_found()
            && self.hidden.stale == 0
            && self.prompts().all(|prompt| prompt.is_found && prompt.stale_unmarked == 0)
            && !self.is_over_budget()
    }

    fn prompts(&self) -> impl Iterator<Item = &PromptVerdict> {
        [&self.context, &self.augment].into_iter().chain(&self.chat)
    }

    pub fn is_over_budget(&self) -> bool {
        self.recall.over_budget || self.hidden.over_budget || self.context_over_budget
    }
}

/// What became of a session.
#[derive(Debug, Clone)]
pub struct Played {
    pub scenario: &'static str,
    pub turns: usize,
    pub iteration: usize,
    pub probes: Vec<Probed>,
    pub ingest: Samples,
    pub recall: Samples,
    pub context: Samples,
    /// From the last message until nothing was left to do.
    pub drained: Samples,
    /// Facts that hold.
    pub facts: i64,
    /// Jobs that were given up.
    pub dead_jobs: i64,
}

/// Plays a session as a user of its own.
pub fn play(
    client: &mut Client,
    stub: Option<&LlmStub>,
    task: Task,
    arguments: &Arguments,
) -> Result<Played> {
    let Task { scenario, turns, iteration } = task;
    // The same seed for each length would begin all conversations alike.
    let seed = arguments.seed * 1_000_000 + (turns * 1000 + iteration) as u64;
    let conversation = Conversation::of(scenario, Recipe { turns, seed, echo: arguments.echo });
    let user = format!("{} {turns} {iteration}", scenario.name);
    client.execute("SELECT set_config('memory_agent.user_id', $1, false)", &[&user])?;
    set(client, "extraction", arguments.extraction.as_str())?;
    set(client, "session_recall", arguments.session_recall.as_str())?;
    let sessions: Vec<String> = match arguments.sessions {
        1 => vec![SESSION.to_owned()],
        several => (1..=several).map(|number| format!("{SESSION} {number}")).collect(),
    };

    let mut ingest = Samples::default();
    let store = client.prepare(
        "SELECT memory_ingest($1, $2, $3, created_at => now() - make_interval(secs => $4))",
    )?;
    for (at, message) in conversation.messages.iter().enumerate() {
        let ago = (turns - at) as f64 * PACE;
        let session = &sessions[at * sessions.len() / turns];
        ingest.time(|| client.query_one(&store, &[session, &message.role, &message.text, &ago]))?;
    }
    let mut drained = Samples::default();
    let wait = format!("SELECT memory_wait('{PATIENCE}', session_id => $1)");
    for session in &sessions {
        if arguments.extraction == Extraction::Episode {
            client.execute("SELECT memory_close_episode($1)", &[session])?;
        }
        let is_done: bool = drained.time(|| client.query_one(&wait, &[session]))?.get(0);
        if !is_done {
            return Err(format!("{user}: background work is not done after {PATIENCE}").into());
        }
    }

    let mut played = Played {
        scenario: scenario.name,
        turns,
        iteration,
        probes: Vec::with_capacity(conversation.probes.len()),
        ingest,
        recall: Samples::default(),
        context: Samples::default(),
        drained,
        facts: count(
            client,
            "SELECT count(*) FROM memory_agent.entries \
              WHERE user_id = $1 AND kind = 'fact' AND state = 'active'",
            &user,
        )?,
        dead_jobs: count(
            client,
            "SELECT count(*) FROM memory_agent.jobs WHERE user_id = $1 AND status = 'dead'",
            &user,
        )?,
    };
    for (number, probe) in conversation.probes.iter().enumerate() {
        let mut probed = ask(client, probe, number % 2 == 0, arguments, &mut played)?;
        if let Some(stub) = stub {
            let tag = format!("{user} {number}");
            let sent = chat(client, stub, &tag, arguments, probe.question)?;
            probed.chat = Some(PromptVerdict::of(&told(&sent, probe.question), probe));
        }
        played.probes.push(probed);
    }
    Ok(played)
}

/// Asks one question in all ways. The model server remembers what it was asked, so only the first way
/// is timed: memory_recall, or memory_context.
fn ask(
    client: &mut Client,
    probe: &Probe,
    recall_first: bool,
    arguments: &Arguments,
    played: &mut Played,
) -> Result<Probed> {
    let budget = arguments.recall_budget;
    let (rows, context) = if recall_first {
        let rows = played.recall.time(|| recall(client, probe.question, arguments, ALL_KINDS))?;
        (rows, context(client, probe.question, arguments)?)
    } else {
        let context = played.context.time(|| context(client, probe.question, arguments))?;
        (recall(client, probe.question, arguments, ALL_KINDS)?, context)
    };
    set(client, "stale_sources", "hide")?;
    let hidden = recall(client, probe.question, arguments, ALL_KINDS)?;
    client.batch_execute("RESET memory_agent.stale_sources")?;
    let facts = recall(client, probe.question, arguments, FACTS)?;
    let augmented = client.query_one(
        "SELECT memory_augment(jsonb_build_array(jsonb_build_object('role', 'user', 'content', $1::text)), $2)",
        &[&probe.question, &asked(arguments)],
    )?;
    let context_tokens = context["token_count"].as_i64().ok_or("memory_context has no count")?;
    Ok(Probed {
        topic: probe.topic,
        question: probe.question,
        current: probe.current,
        superseded: probe.superseded.clone(),
        recall: Verdict::of(&rows, probe, budget),
        hidden: Verdict::of(&hidden, probe, budget),
        facts: Verdict::of(&facts, probe, budget),
        context: PromptVerdict::of(&told(&context, probe.question), probe),
        augment: PromptVerdict::of(&told(&augmented.get(0), probe.question), probe),
        chat: None,
        context_tokens,
        context_over_budget: context_tokens > i64::from(arguments.context_budget),
        is_apart: arguments.is_apart(),
    })
}

/// What the messages of a prompt say, without the question.
fn told(prompt: &Json, question: &str) -> Vec<String> {
    let messages = prompt["messages"].as_array().map_or(&[][..], Vec::as_slice);
    let texts = messages.iter().filter_map(|message| message["content"].as_str());
    texts.filter(|text| *text != question).map(|text| text.replace(question, "")).collect()
}

/// What memory_chat sends. `tag` is passed on, and tells it from what other sessions send. What the chat
/// stores is taken back: the next probe finds the conversation as it was.
fn chat(
    client: &mut Client,
    stub: &LlmStub,
    tag: &str,
    arguments: &Arguments,
    question: &str,
) -> Result<Json> {
    client.batch_execute("BEGIN")?;
    let answer: Json = client
        .query_one(
            "SELECT memory_chat(jsonb_build_object('user', $1::text, 'messages', \
                    jsonb_build_array(jsonb_build_object('role', 'user', 'content', $2::text))), $3)",
            &[&tag, &question, &asked(arguments)],
        )?
        .get(0);
    client.batch_execute("ROLLBACK")?;
    if answer.get("choices").is_none() {
        return Err(format!("the LLM did not answer memory_chat: {}", answer["error"]).into());
    }
    let sent = stub.last_call(|call| call.body["user"] == tag);
    Ok(sent.ok_or("memory_chat was answered without a call of the LLM")?.body)
}

fn context(client: &mut Client, question: &str, arguments: &Arguments) -> Result<Json> {
    let row = client.query_one(
        "SELECT memory_context($1, $2, token_budget => $3::int4)",
        &[&asked(arguments), &question, &arguments.context_budget],
    )?;
    Ok(row.get(0))
}

fn recall(
    client: &mut Client,
    question: &str,
    arguments: &Arguments,
    kinds: Option<&[&str]>,
) -> Result<Vec<Row>> {
    // Of several sessions, all of the user's.
    let session = (arguments.sessions == 1).then_some(SESSION);
    let rows = client.query(
        "SELECT content, token_count, metadata ? 'superseded_by' \
           FROM memory_recall($1, session_id => $2, token_budget => $3::int4, kinds => $4)",
        &[&question, &session, &arguments.recall_budget, &kinds],
    )?;
    let row = |row: &memory_agent_e2e::Row| Row {
        content: row.get(0),
        token_count: row.get(1),
        is_marked: row.get(2),
    };
    Ok(rows.iter().map(row).collect())
}

/// The session in which questions are asked.
fn asked(arguments: &Arguments) -> &'static str {
    if arguments.sessions == 1 { SESSION } else { ASKED }
}

fn set(client: &mut Client, name: &str, value: &str) -> Result<()> {
    client.execute("SELECT set_config('memory_agent.' || $1, $2, false)", &[&name, &value])?;
    Ok(())
}

fn count(client: &mut Client, query: &str, user: &str) -> Result<i64> {
    Ok(client.query_one(query, &[&user])?.get(0))
}
