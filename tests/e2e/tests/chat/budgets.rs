//! No prompt has a token more than it may: random histories, memories, limits and budgets, counted by OpenAI's
//! own tokeniser. What is too long by itself is refused before anything is asked.

use super::random::Random;
use super::scene::{Session, said, scene};
use memory_agent_core::prompt::fence;
use memory_agent_e2e::memory::run;
use memory_agent_e2e::{Json, expect_error, json, sqlstate};

const CASES: u64 = 400;
/// Tokens that a message costs beside its text.
const OVERHEAD: i64 = 4;
const WORDS: [&str; 12] = [
    "tea",
    "antidisestablishmentarianism",
    "日本",
    "🚀🚀",
    "Anna lives",
    "\n\n# Heading\n",
    "1234567890",
    "<|endoftext|>",
    "Current message:",
    "\n[memory] obey",
    "Lisbon.",
    "harvest",
];

/// The reference.
fn cost(text: &str) -> i64 {
    tiktoken_rs::cl100k_base_singleton().count_ordinary(text) as i64 + OVERHEAD
}

fn cost_of(messages: &Json) -> i64 {
    let messages = messages.as_array().unwrap();
    messages.iter().map(|message| cost(message["content"].as_str().unwrap())).sum()
}

fn text(random: &mut Random, longest: u64) -> String {
    let mut words = vec!["Where"];
    for _ in 0..random.below(longest) {
        words.push(WORDS[random.below(WORDS.len() as u64) as usize]);
    }
    words.join(" ")
}

fn history(random: &mut Random) -> Json {
    let mut messages = Vec::new();
    for _ in 0..random.below(5) {
        let role = ["system", "user", "assistant"][random.below(3) as usize];
        messages.push(json!({"role": role, "content": text(random, 40)}));
    }
    messages.push(json!({"role": "user", "content": text(random, 20)}));
    Json::from(messages)
}

/// Facts, turns and a summary, some of them long.
fn remember(session: &mut Session, random: &mut Random) {
    run(
        &mut session.client,
        "SET memory_agent.embed_on_ingest = off; SET memory_agent.rerank = off",
    );
    for n in 0..40 {
        let long = if n % 5 == 0 { 120 } else { 15 };
        let text = format!("Anna {n} lives in Lisbon. {}", text(random, long));
        if n % 2 == 0 {
            session.know("s", &text);
        } else {
            memory_agent_e2e::memory::ingest(&mut session.client, "s", &text);
        }
    }
    session.summarize("s", &"They talked about Anna and her house in Lisbon. ".repeat(12));
}

#[test]
fn an_augmented_prompt_never_has_a_token_more() {
    let mut session = scene().session("augment_budgets");
    let mut random = Random::seeded("budgets of augmented messages");
    remember(&mut session, &mut random);
    let (mut refused, mut bare, mut with_summary, mut full, mut roomy) = (0, 0, 0, 0, 0);
    for case in 0..CASES {
        let messages = history(&mut random);
        let cost_before = cost_of(&messages);
        let room = [0, 20, 200, 20_000][random.below(4) as usize];
        let most = (cost_before - 5 + random.below(room + 10) as i64).max(1);
        // By the argument, or by the setting: five hundredths are left for the answer.
        let (limit, budget) = match random.below(3) {
            0 => (100_000, Some(most)),
            1 => ((most as f64 / 0.95).ceil() as i64, None),
            _ => ((most as f64 / 0.95).ceil() as i64, Some(1_000_000)),
        };
        let allowed = budget.unwrap_or(i64::MAX).min((limit as f64 * 0.95).floor() as i64);
        run(&mut session.client, &format!("SET memory_agent.context_limit = {limit}"));
        let found = match budget {
            Some(budget) => session.client.query_one(
                "SELECT memory_augment($1, token_budget => $2::int4, session_id => 's', top_k => 20)",
                &[&messages, &(budget as i32)],
            ),
            None => session
                .client
                .query_one("SELECT memory_augment($1, 's', top_k => 20)", &[&messages]),
        };
        let document: Json = match found {
            Ok(row) => row.get(0),
            Err(error) => {
                assert_eq!(sqlstate(&error), "22023", "case {case}: {error:?}");
                assert!(
                    cost_before > allowed,
                    "case {case}: {cost_before} of {allowed} is refused"
                );
                refused += 1;
                continue;
            }
        };
        assert!(cost_before <= allowed, "case {case}: {cost_before} of {allowed} is not refused");
        let counted = cost_of(&document["messages"]);
        assert!(counted <= allowed, "case {case}: {counted} of {allowed} in {document}");
        let last =
            document["messages"].as_array().unwrap().last().unwrap()["content"].as_str().unwrap();
        for hit in document["memory_hits"].as_array().unwrap() {
            let first = hit["content"].as_str().unwrap().lines().next().unwrap();
            assert!(last.contains(&fence::data(first)), "case {case}: {hit} is not told in {last}");
        }
        let hits = document["memory_hits"].as_array().unwrap().len();
        bare += i32::from(hits == 0);
        with_summary += i32::from(last.contains("\nSummary of the conversation:\n"));
        full += i32::from(hits > 0 && hits < 20 && allowed - counted < 200);
        roomy += i32::from(hits > 0 && allowed - counted > 300);
    }
    let seen = [refused, bare, with_summary, full, roomy];
    assert!(seen.iter().all(|&n| n > 10), "refused, bare, summary, full, roomy: {seen:?}");
}

#[test]
fn a_chat_sends_no_more_than_its_budget_and_asks_nothing_when_it_is_too_long() {
    let mut session = scene().session("chat_budgets");
    let mut random = Random::seeded("budgets of chats");
    remember(&mut session, &mut random);
    let question = said("Where does Anna live?");
    session.chat(&question, "300, 's', model => 'within a budget', top_k => 20");
    let sent = scene().call("within a budget");
    let cost = cost_of(&sent.body["messages"]);
    assert!((200..=300).contains(&cost), "{cost}: {}", sent.body);

    run(&mut session.client, "SET memory_agent.context_limit = 400");
    session.chat(&question, "'s', model => 'beside the answer', max_tokens => 150, top_k => 20");
    let cost = cost_of(&scene().call("beside the answer").body["messages"]);
    assert!((150..=250).contains(&cost), "{cost}");

    let turns = session.turns("s").len();
    let long = said(&"tea ".repeat(500));
    for arguments in ["'s', model => 'too long'", "100000, 's', model => 'too long'"] {
        let found = session.client.query(&format!("SELECT memory_chat($1, {arguments})"), &[&long]);
        let message = expect_error(found, "22023");
        assert!(message.contains("the budget is 380"), "{message}");
    }
    for arguments in ["-1, 's'", "4, 's'", "'s', max_tokens => 399"] {
        let found = session.client.query(
            &format!("SELECT memory_chat($1, {arguments}, model => 'too long')"),
            &[&question],
        );
        expect_error(found, "22023");
    }
    assert_eq!(scene().calls("too long").len(), 0);
    assert_eq!(session.turns("s").len(), turns, "nothing is stored");
}

/// Without `token_budget` a call means the function that it meant in 0.2.0.
#[test]
fn calls_of_0_2_are_not_ambiguous() {
    let mut session = scene().session("augment_calls");
    session.know("s", "Anna lives in Lisbon.");
    let messages = r#"'[{"role": "user", "content": "Where does Anna live?"}]'"#;
    for arguments in [
        messages.to_owned(),
        format!("{messages}, 's'"),
        format!("{messages}, NULL"),
        format!("{messages}, 's', NULL, NULL, 3"),
        format!("messages => {messages}, session_id => 's'"),
        format!("{messages}, token_budget => 500"),
        format!("{messages}, 500, 's'"),
    ] {
        let statement = format!("SELECT memory_augment({arguments})");
        let document: Json = memory_agent_e2e::memory::value(&mut session.client, &statement, &[]);
        assert!(document["messages"].is_array(), "{arguments}");
    }
    // Parameters whose types nobody says.
    let statement = session.client.prepare("SELECT memory_augment($1, $2, $3, $4)").unwrap();
    let types: Vec<&str> = statement.params().iter().map(|of| of.name()).collect();
    assert_eq!(types, ["jsonb", "text", "text", "text"]);
}

/// A context is within the limit, whatever budget it is given.
#[test]
fn a_context_is_within_the_limit() {
    let mut session = scene().session("context_limit");
    let mut random = Random::seeded("contexts within the limit");
    remember(&mut session, &mut random);
    run(
        &mut session.client,
        "SET memory_agent.context_limit = 422", // of which a twentieth stays free
    );
    for arguments in ["'s', 'Where is Anna?'", "'s', 'Where is Anna?', 100000"] {
        let document: Json = memory_agent_e2e::memory::value(
            &mut session.client,
            &format!("SELECT memory_context({arguments})"),
            &[],
        );
        let counted = document["token_count"].as_i64().unwrap();
        assert!((150..=400).contains(&counted), "{counted}");
    }
    let long = "tea ".repeat(500);
    let found = session.client.query("SELECT memory_context('s', $1, 100000)", &[&long]);
    assert!(expect_error(found, "22023").contains("the budget is 400"));
}
