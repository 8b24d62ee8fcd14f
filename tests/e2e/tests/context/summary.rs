//! The summary in a context: where it stands, how much of the budget it takes, how it is cut.

use super::{END, SUMMARY, block, context, messages, recount, summarize};
use memory_agent_e2e::memory::{ingest_all, run, value};
use memory_agent_e2e::{Client, shared};

/// Thirty sentences, each with its number.
fn sentences() -> Vec<String> {
    (1..=30).map(|n| format!("In step {n} of the work the user tightened a screw.")).collect()
}

fn summarized(name: &'static str) -> Client {
    let mut client = shared().database(name).connect();
    run(&mut client, "SET memory_agent.rerank = off");
    ingest_all(&mut client, "s", &["Where were we?", "We were at the last screw."]);
    summarize(&mut client, "s", &sentences().join(" "));
    client
}

#[test]
fn the_summary_comes_first_and_once() {
    let mut client = summarized("summary_first");
    run(&mut client, "SELECT memory_add('The user owns a drill.', infer => false)");
    let document = context(&mut client, "'s', 'What is next?', 4000");
    let whole = sentences().join(" ");
    assert_eq!(document["summary"], whole.as_str());
    let messages = messages(&document);
    assert_eq!(messages[0], ("system", format!("{SUMMARY}{whole}{END}").as_str()));
    assert!(messages[1].1.contains("The user owns a drill."), "memories come next");
    assert_eq!(messages[2].1, "Where were we?");
    assert_eq!(document.to_string().matches("In step 7 of").count(), 2, "as message and by itself");
    assert_eq!(document["token_count"].as_i64().unwrap(), recount(&mut client, &document));
}

#[test]
fn a_long_summary_is_cut_at_a_sentence_within_a_quarter() {
    let mut client = summarized("summary_cut");
    let sentences = sentences();
    let mut shown = Vec::new();
    for budget in [150, 200, 300, 600, 1200] {
        let document = context(&mut client, &format!("'s', 'What is next?', {budget}"));
        let Some(text) = block(&document, SUMMARY) else {
            shown.push(0);
            continue;
        };
        let cost: i32 = value(&mut client, "SELECT memory_count_tokens($1) + 4", &[&text]);
        assert!(cost <= budget / 4, "{cost} of {budget}");
        let kept = text.strip_prefix(SUMMARY).unwrap().strip_suffix(END).unwrap();
        assert_eq!(document["summary"], kept);
        let count = kept.matches("tightened").count();
        assert_eq!(kept, sentences[..count].join(" "), "whole sentences from the beginning");
        let next = format!("{SUMMARY}{kept} {}{END}", sentences[count.min(29)]);
        let more: i32 = value(&mut client, "SELECT memory_count_tokens($1) + 4", &[&next]);
        assert!(count == 30 || more > budget / 4, "one more sentence fits into {budget}");
        shown.push(count);
    }
    assert!(shown.is_sorted() && shown[0] < 3 && shown[4] > shown[2], "{shown:?}");
}

#[test]
fn only_the_active_summary_of_this_session_is_told() {
    let mut client = shared().database("summary_active").connect();
    ingest_all(&mut client, "s", &["Hello."]);
    summarize(&mut client, "t", "They spoke about trees.");
    run(
        &mut client,
        "INSERT INTO memory_agent.session_summaries \
            (id, user_id, agent_id, session_id, level, content, method, is_active) VALUES \
            (gen_random_uuid(), 'alice', 'default', 's', 'L3', 'An old summary.', 'brief', false), \
            (gen_random_uuid(), 'alice', 'default', 's', 'L1', 'A part of it.', 'brief', true), \
            (gen_random_uuid(), 'alice', 'coder', 's', 'L3', 'Another agent''s.', 'brief', true), \
            (gen_random_uuid(), 'bob', 'default', 's', 'L3', 'Another user''s.', 'brief', true)",
    );
    let document = context(&mut client, "'s', 'Hi'");
    assert!(document["summary"].is_null() && block(&document, SUMMARY).is_none(), "{document}");
    let document = context(&mut client, "'t', 'Hi'");
    assert_eq!(document["summary"], "They spoke about trees.");
    let document = context(&mut client, "'s', 'Hi', agent_id => 'coder'");
    assert_eq!(document["summary"], "Another agent's.");
}
