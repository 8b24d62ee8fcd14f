//! Erasing memory: nothing of it is left, in any table, while an LLM is asked, or in the files once they
//! were vacuumed; what was not meant stays; and history says that it happened.

mod beside;
mod chats;
mod complete;
mod global;
mod kept;
mod order;
mod outsiders;
mod parts;
mod rights;
#[path = "../worker/scene.rs"]
#[allow(dead_code, reason = "the suite `worker` uses the rest")]
mod scene;
mod with_llm;

use memory_agent_e2e::llm::{Call, Document, Purpose};
use memory_agent_e2e::memory::{value, values};
use memory_agent_e2e::{Client, Json, json};

/// A word that is in everything that is to be erased, and nowhere else.
const SECRET: &str = "zzqx77";

/// What `memory_erase(arguments)` returns.
#[track_caller]
fn erase(client: &mut Client, arguments: &str) -> Json {
    value(client, &format!("SELECT memory_erase({arguments})"), &[])
}

/// The tables of memory_agent in which somebody who reads everything finds a word.
fn tables_with(client: &mut Client, word: &str) -> Vec<String> {
    let tables: Vec<String> = values(
        client,
        "SELECT relname::text FROM pg_class WHERE relnamespace = 'memory_agent'::regnamespace \
            AND relkind = 'r' ORDER BY relname",
        &[],
    );
    let has_word = |table: &String| {
        let query =
            format!("SELECT count(*) FROM memory_agent.{table} t WHERE strpos(t::text, $1) > 0");
        value::<i64>(client, &query, &[&word]) > 0
    };
    tables.into_iter().filter(has_word).collect()
}

/// A digest of all that a condition holds for, in the tables that have a user.
fn digest(client: &mut Client, condition: &str) -> Vec<Option<String>> {
    ["sessions", "entries", "session_summaries", "episodes", "archives", "traces"]
        .iter()
        .map(|table| {
            let query = format!(
                "SELECT md5(string_agg(md5(t::text), '' ORDER BY t::text)) FROM memory_agent.{table} t \
                  WHERE {condition}"
            );
            value(client, &query, &[])
        })
        .collect()
}

/// The states of the lines of `memory_verify_history` about alice.
fn verified(client: &mut Client) -> Vec<String> {
    values(client, "SELECT state FROM memory_verify_history('alice')", &[])
}

/// An LLM that makes a fact of each turn and keeps the secret in what it condenses.
fn talkative(call: &Call) -> Json {
    let document = Document::of(call);
    match call.purpose() {
        Purpose::Extract => {
            let fact = |(turn, text): &(u64, String)| json!({"turn": turn, "text": format!("Noted: {text}"), "confidence": 1});
            json!({"facts": document.turns.iter().map(fact).collect::<Vec<_>>()})
        }
        Purpose::Summary(_) if call.body.to_string().contains(SECRET) => {
            json!(format!("A talk about {SECRET}."))
        }
        Purpose::Summary(_) => json!("A talk about other things."),
        _ => document.unrelated(),
    }
}
