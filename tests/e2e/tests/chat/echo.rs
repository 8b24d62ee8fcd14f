//! What stands in a request is no memory: its places go to others. With the settings that ship.

use crate::scene::{Session, said};
use memory_agent_e2e::memory::{ingest, replace_fact_of, value};
use memory_agent_e2e::{Cluster, Json, Uuid, keep};
use serde_json::json;
use std::sync::OnceLock;

/// Facts of the user that have to do with cakes.
const FACTS: [&str; 6] = [
    "Ann is allergic to all nuts, hazelnuts too.",
    "Ann bakes with spelt flour.",
    "Ann likes cakes that are not too sweet.",
    "Ann has an oven without a fan.",
    "Ann has a cake tin of 26 centimetres.",
    "Ann invites eight guests to her birthday.",
];

pub fn cluster() -> &'static Cluster {
    static CLUSTER: OnceLock<&'static Cluster> = OnceLock::new();
    CLUSTER.get_or_init(|| {
        let cluster = Cluster::builder().preload(true);
        keep(cluster.setting("memory_agent.worker", "off").start())
    })
}

/// A session of a user with these facts.
fn session(database: &str, facts: &[&str]) -> Session {
    let mut session = Session::open(cluster(), database);
    for fact in facts {
        value::<Uuid>(&mut session.client, "SELECT memory_add($1, infer => false)", &[fact]);
    }
    session
}

pub fn texts(document: &Json) -> Vec<String> {
    let hits = document["memory_hits"].as_array().unwrap();
    hits.iter().map(|hit| hit["content"].as_str().unwrap().to_owned()).collect()
}

/// Ids of what is left out for this reason.
pub fn left_out(document: &Json, why: &str) -> Vec<String> {
    let all = document["left_out"].as_array().unwrap();
    let of_reason = all.iter().filter(|row| row["why"] == why);
    of_reason.map(|row| row["id"].as_str().unwrap().to_owned()).collect()
}

fn store(session: &mut Session, role: &str, text: &str) -> String {
    value(&mut session.client, "SELECT memory_ingest('s', $1, $2)::text", &[&role, &text])
}

#[test]
fn a_conversation_takes_no_place_of_facts() {
    let mut session = session("echo_conversation", &FACTS[..5]);
    let mut messages = json!([]);
    let mut stored = Vec::new();
    for turn in 1..=8 {
        let question = format!("Which cake number {turn} can I bake for Ann, and how sweet is it?");
        let latest = json!({"role": "user", "content": question});
        messages.as_array_mut().unwrap().push(latest);
        let document = session.augment(&messages, "'s'");
        let found = texts(&document);
        assert_eq!(found.len(), 5, "turn {turn}: {found:?}");
        assert!(found.iter().all(|text| FACTS.contains(&text.as_str())), "turn {turn}: {found:?}");
        let mut echoes = left_out(&document, "echo");
        echoes.sort();
        stored.sort();
        assert_eq!(echoes, stored, "turn {turn}");
        let answer = format!("Cake number {turn} for Ann is a plain cake, and not sweet.");
        stored.push(store(&mut session, "user", &question));
        stored.push(store(&mut session, "assistant", &answer));
        messages.as_array_mut().unwrap().push(json!({"role": "assistant", "content": answer}));
    }
}

#[test]
fn the_same_question_again_finds_as_much() {
    let mut session = session("echo_again", &FACTS);
    let question = "Which cake can I bake for Ann?";
    for time in 0..9 {
        let document = session.augment(&said(question), "'s'");
        assert_eq!(texts(&document).len(), 5, "time {time}: {document}");
        assert!(!texts(&document).iter().any(|text| text == question));
        store(&mut session, "user", question);
    }
}

#[test]
fn a_long_conversation_hides_nothing_that_was_said_elsewhere() {
    let mut session = session("echo_long", &[]);
    let mut messages = Vec::new();
    for number in 0..120 {
        let text = format!("Cake {number} for Ann has {} eggs and some butter.", number % 7);
        ingest(&mut session.client, "s", &text);
        messages.push(json!({"role": "user", "content": text}));
    }
    for text in ["The bus to Kiel leaves at six.", "Our printer is out of paper."] {
        ingest(&mut session.client, "s", text);
    }
    messages.push(json!({"role": "user", "content": "Which cake for Ann has eggs and butter?"}));
    let document = session.augment(&Json::from(messages), "'s'");
    let mut found = texts(&document);
    found.sort();
    assert_eq!(found, ["Our printer is out of paper.", "The bus to Kiel leaves at six."]);
    assert!(left_out(&document, "echo").len() <= 50, "as many as are read closely");
}

#[test]
fn what_a_message_quotes_is_no_memory_and_what_it_asks_for_is() {
    let mut session = session("echo_quoted", &FACTS[..1]);
    let quoted = "I would rather have a lemon cake with almonds.";
    for text in [quoted, "ok", "yes", "Lemon cakes are on page 9."] {
        ingest(&mut session.client, "s", text);
    }
    let messages = json!([
        {"role": "system", "content": [{"type": "text", "text": "ok? yes! Be brief."}]},
        {"role": "tool", "tool_call_id": "1",
         "content": format!("A note from May:\n  \"{}\" (Ann)", quoted.replace(" a ", "  a\n"))},
        {"role": "user", "content": "Is Ann allergic to hazelnuts? Is lemon cake ok, yes or no?"},
    ]);
    let document = session.augment(&messages, "'s'");
    let mut found = texts(&document);
    found.sort();
    assert_eq!(found, [FACTS[0], "Lemon cakes are on page 9.", "ok", "yes"]);
    assert_eq!(left_out(&document, "echo").len(), 1, "{document}");

    // Who quotes a fact may ask about it; the application's own instructions state it.
    let asked = said(&format!("Why do you think \"{}\"?", FACTS[0]));
    let document = session.augment(&asked, "'s'");
    assert_eq!(texts(&document)[0], FACTS[0], "{document}");
    let told = json!([
        {"role": "system", "content": format!("Mind: {}", FACTS[0])},
        {"role": "user", "content": "Is Ann allergic to hazelnuts?"},
    ]);
    let document = session.augment(&told, "'s'");
    assert!(!texts(&document).contains(&FACTS[0].to_owned()), "{document}");
    assert_eq!(document["left_out"][0]["layer"], "global");
}

#[test]
fn one_text_takes_one_place() {
    let mut session = session("echo_repeated", &FACTS);
    for _ in 0..8 {
        store(&mut session, "assistant", "Ann bakes a plain cake.");
    }
    store(&mut session, "user", "Ann  likes cakes that are\nnot too sweet.");
    let document = session.augment(&said("Which cake does Ann bake?"), "'s'");
    let found = texts(&document);
    let mut once: Vec<String> =
        found.iter().map(|text| text.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
    once.sort();
    once.dedup();
    assert_eq!((once.len(), found.len()), (5, 5), "{found:?}");
    assert!(left_out(&document, "repeated").len() >= 7, "{document}");
    // What has no room is told too.
    let document = session
        .augment(&said("Which cake does Ann bake?"), "token_budget => 70, session_id => 's'");
    let (kept, without_room) = (texts(&document).len(), left_out(&document, "budget").len());
    assert!(kept < 5 && kept + without_room == 5, "{document}");
}

#[test]
fn what_replaced_an_echo_is_told() {
    let mut session = session("echo_replaced", &[]);
    let was = "Our shop runs on the database MySQL.";
    let turn = ingest(&mut session.client, "s", was);
    let others = "SELECT count(memory_add('Shop ' || n || ' has a database of customers, and a till.', \
                                          infer => false)) FROM generate_series(1, 60) n";
    value::<i64>(&mut session.client, others, &[]);
    let (old, new) = ("The user's shop runs on MySQL.", "It is PostgreSQL since June.");
    replace_fact_of(&mut session.client, turn, old, new, "The user has a shop.");
    let messages = json!([
        {"role": "user", "content": was},
        {"role": "user", "content": "Which database does our shop run on at the moment?"},
    ]);
    let document = session.augment(&messages, "'s'");
    let found = texts(&document);
    assert!(found.contains(&new.to_owned()) && !found.contains(&was.to_owned()), "{found:?}");
    assert_eq!(found.len(), 5);
}
