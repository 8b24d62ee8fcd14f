//! The options that ask an LLM before the message is answered: further wordings of the query, and a
//! look at what contradicts what. Whatever the LLM does, the memories are there.

use crate::scene::{ANSWER, CONFIGURED, Scene, Session, said, scene};
use memory_agent_e2e::Json;
use memory_agent_e2e::llm::{Call, Reply};
use memory_agent_e2e::memory::{run, value};
use serde_json::json;

const REWRITES: &str = "You turn what a user says to an assistant into queries";
const CONTRADICTIONS: &str = "You check memories that were recalled for an assistant";

/// The configured model of the shared stub. Words in capitals say what goes wrong.
pub fn answer(call: &Call) -> Reply {
    let data = call.data();
    let asked = data.to_string();
    if asked.contains("REFUSED") {
        return Reply::error(400, "context_length_exceeded");
    }
    if asked.contains("GARBAGE") {
        return "I do not know.".into();
    }
    if call.system().starts_with(REWRITES) {
        return json!({"rewrites": ["Odalys home town", "Odalys address", "one too many"]}).into();
    }
    if call.system().starts_with(CONTRADICTIONS) {
        let verdict = |memory: &Json| {
            let text = memory["text"].as_str().unwrap_or_default();
            let verdict = match text {
                _ if asked.contains("NOTHING STANDS") || text.contains("Rome") => "DELETE",
                _ if text.contains("Oslo") => "UPDATE",
                _ => "KEEP",
            };
            json!({"id": memory["id"], "verdict": verdict})
        };
        let memories = data["memories"].as_array().map_or(&[][..], Vec::as_slice);
        return json!({"verdicts": memories.iter().map(verdict).collect::<Vec<_>>()}).into();
    }
    ANSWER.into()
}

/// The questions of a kind that are about a word.
fn questions(scene: &Scene, kind: &str, word: &str) -> Vec<Call> {
    scene
        .calls(CONFIGURED)
        .into_iter()
        .filter(|call| call.system().starts_with(kind) && call.data().to_string().contains(word))
        .collect()
}

fn contents(document: &Json) -> Vec<String> {
    let hits = document["memory_hits"].as_array().unwrap();
    let mut contents: Vec<String> =
        hits.iter().map(|hit| hit["content"].as_str().unwrap().to_owned()).collect();
    contents.sort();
    contents
}

/// A memory that only its own words find.
fn knows_by_words(session: &mut Session, fact: &str) {
    run(
        &mut session.client,
        "SET memory_agent.embed_on_ingest = off; SET memory_agent.rerank = off",
    );
    session.know("s", fact);
}

#[test]
fn rewrites_find_what_the_message_does_not() {
    let mut session = scene().session("options_rewrite");
    knows_by_words(&mut session, "Odalys moved. Her home town is Bergen.");
    let messages = json!([
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Tell me about my sister."},
        {"role": "assistant", "content": "Which one?"},
        {"role": "user", "content": "Where does she sleep (rewritten)?"},
    ]);
    assert!(contents(&session.augment(&messages, "'s'")).is_empty());
    assert!(questions(scene(), REWRITES, "(rewritten)").is_empty(), "it is off by default");

    run(&mut session.client, "SET memory_agent.query_rewrite = on");
    let document = session.augment(&messages, "'s'");
    assert_eq!(contents(&document), ["Odalys moved. Her home town is Bergen."]);
    let asked = questions(scene(), REWRITES, "(rewritten)");
    assert_eq!(asked.len(), 1);
    assert_eq!(
        asked[0].data(),
        json!({
            "earlier": [
                {"role": "user", "text": "Tell me about my sister."},
                {"role": "assistant", "text": "Which one?"},
            ],
            "message": "Where does she sleep (rewritten)?",
        })
    );
    assert_eq!(session.recorded(), ["rewrite ok"]);
    let document = session.chat(&messages, "'s', model => 'rewriting'");
    assert_eq!(contents(&document).len(), 1);
    assert_eq!(session.recorded(), ["rewrite ok", "rewrite ok", "chat ok"]);
    // Nothing is asked when nothing is wanted.
    session.augment(&messages, "'s', top_k => 0");
    assert_eq!(questions(scene(), REWRITES, "(rewritten)").len(), 2);
    // Recall itself asks nobody.
    run(
        &mut session.client,
        "SELECT count(*) FROM memory_recall('Where (rewritten)?', session_id => 's')",
    );
    assert_eq!(questions(scene(), REWRITES, "(rewritten)").len(), 2);
    assert!(session.take_warnings().is_empty());
}

#[test]
fn without_a_rewrite_the_message_is_searched_for_as_it_is() {
    let mut session = scene().session("options_rewrite_fails");
    knows_by_words(&mut session, "The REFUSED one and the GARBAGE one live in Oslo.");
    run(&mut session.client, "SET memory_agent.query_rewrite = on");
    for word in ["REFUSED", "GARBAGE"] {
        let document = session.augment(&said(&format!("Where is the {word} one?")), "'s'");
        assert_eq!(contents(&document).len(), 1, "{word}");
        let warnings = session.take_warnings();
        assert_eq!(warnings.len(), 1, "{word}: {warnings:?}");
        assert!(warnings[0].starts_with("the message is searched for as it is: "), "{warnings:?}");
        assert!(warnings[0].lines().nth(1).is_some(), "no hint: {warnings:?}");
    }
    assert!(session.recorded().iter().all(|call| call != "rewrite ok"), "{:?}", session.recorded());
}

#[test]
fn contradicted_memories_are_left_out_of_the_answer_only() {
    let mut session = scene().session("options_contradictions");
    for fact in ["Anna lives in Rome.", "Anna lives in Oslo.", "Anna has a cat."] {
        session.know("s", fact);
    }
    let question = said("Where does Anna live (checked)?");
    let all = ["Anna has a cat.", "Anna lives in Oslo.", "Anna lives in Rome."];
    assert_eq!(contents(&session.augment(&question, "'s'")), all);
    assert!(
        questions(scene(), CONTRADICTIONS, "Anna has a cat.").is_empty(),
        "it is off by default"
    );

    run(&mut session.client, "SET memory_agent.read_contradiction_check = on");
    let document = session.augment(&question, "'s'");
    assert_eq!(contents(&document), all[..2]);
    assert!(!document["messages"].to_string().contains("Rome"), "{document}");
    let asked = questions(scene(), CONTRADICTIONS, "Anna has a cat.");
    assert_eq!(asked.len(), 1);
    let memories = asked[0].data();
    let memories = memories["memories"].as_array().unwrap();
    assert_eq!(memories.len(), 3);
    let today: String =
        value(&mut session.client, "SELECT (now() AT TIME ZONE 'UTC')::date::text", &[]);
    assert!(memories.iter().all(|memory| memory["since"] == today.as_str()), "{memories:?}");
    assert_eq!(session.recorded(), ["contradictions ok"]);
    let active: i64 = value(
        &mut session.client,
        "SELECT count(*) FROM memory_agent.entries WHERE state = 'active'",
        &[],
    );
    assert_eq!(active, 3, "something was done to a memory");
    // One memory contradicts nothing.
    session.augment(&question, "'s', top_k => 1");
    assert_eq!(questions(scene(), CONTRADICTIONS, "Anna").len(), 1);
    assert!(session.take_warnings().is_empty());
}

#[test]
fn without_verdicts_all_memories_are_kept() {
    let mut session = scene().session("options_check_fails");
    run(&mut session.client, "SET memory_agent.read_contradiction_check = on");
    // Each place is alone in its session.
    run(&mut session.client, "SET memory_agent.session_recall = session");
    for (place, warnings) in [("REFUSED", 1), ("GARBAGE", 1), ("NOTHING STANDS", 0)] {
        session.know(place, &format!("Bert lives in {place}."));
        session.know(place, &format!("Bert has lived in the house of {place}."));
        let document = session.augment(&said("Where does Bert live?"), &format!("'{place}'"));
        assert_eq!(contents(&document).len(), 2, "{place}");
        let found = session.take_warnings();
        assert_eq!(found.len(), warnings, "{place}: {found:?}");
        let texts = "memories are not checked against each other: ";
        assert!(found.iter().all(|warning| warning.starts_with(texts)), "{found:?}");
    }
}

/// Questions to the LLM have as much as it can read, whatever is remembered or was said.
#[test]
fn questions_are_no_longer_than_the_context() {
    let mut session = scene().session("options_long");
    let long = |who: &str| format!("{who} is long. {}", "Lorem ipsum dolor sit amet. ".repeat(60));
    for n in 0..6 {
        session.know("s", &format!("Dora lives in house {n}. {}", long("It")));
    }
    run(
        &mut session.client,
        "SET memory_agent.query_rewrite = on; SET memory_agent.read_contradiction_check = on;
         SET memory_agent.context_limit = 2600; SET memory_agent.memory_message = system",
    );
    let said: Vec<Json> = (0..5)
        .map(|n| json!({"role": "user", "content": format!("Earlier {n}, bounded. {}", long("That"))}))
        .chain([json!({"role": "user", "content": "Where does Dora live (bounded)?"})])
        .collect();
    session.augment(&Json::from(said), "'s'");
    let rewrites = questions(scene(), REWRITES, "bounded");
    assert_eq!(rewrites.len(), 1);
    assert!(
        rewrites[0].data()["earlier"].as_array().unwrap().len() < 5,
        "{:?}",
        rewrites[0].data()
    );
    let checks = questions(scene(), CONTRADICTIONS, "Dora");
    assert_eq!(checks.len(), 1);
    let asked = checks[0].data()["memories"].as_array().unwrap().len();
    assert!((2..6).contains(&asked), "{asked} memories");
    for call in rewrites.iter().chain(&checks) {
        let texts: Vec<String> = call.body["messages"]
            .as_array()
            .unwrap()
            .iter()
            .map(|m| m["content"].as_str().unwrap().to_owned())
            .collect();
        let sum = "SELECT sum(memory_count_tokens(t)) FROM unnest($1::text[]) t";
        let tokens: i64 = value(&mut session.client, sum, &[&texts]);
        assert!(tokens <= 2600 * 95 / 100, "{tokens} tokens");
    }
    assert!(session.take_warnings().is_empty());

    // A message that is too long is searched for as it is.
    run(&mut session.client, "SET memory_agent.context_limit = 2000");
    let whole = json!([{"role": "user", "content": format!("Where does Dora live (unbounded)? {}", long("It").repeat(5))}]);
    session.augment(&whole, "'s'");
    assert!(questions(scene(), REWRITES, "(unbounded)").is_empty());
    let warnings = session.take_warnings();
    assert!(warnings[0].starts_with("the message is searched for as it is: "), "{warnings:?}");
}

#[test]
fn options_work_in_a_read_only_transaction_without_a_record() {
    let mut session = scene().session("options_read_only");
    session.know("s", "Carl lives in Rome.");
    session.know("s", "Carl lives in Oslo.");
    run(
        &mut session.client,
        "SET memory_agent.query_rewrite = on; SET memory_agent.read_contradiction_check = on;
         BEGIN READ ONLY",
    );
    let document = session.augment(&said("Where does Carl live?"), "'s'");
    assert_eq!(contents(&document), ["Carl lives in Oslo."]);
    run(&mut session.client, "COMMIT");
    assert!(session.recorded().is_empty());
    assert!(session.take_warnings().is_empty());
}
