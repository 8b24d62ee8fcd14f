//! Token budgets: never exceeded, and exact where a count is promised.

use crate::runner;
use memory_agent_e2e::memory::run;
use memory_agent_e2e::{Client, Json, shared, sqlstate};
use proptest::prelude::*;
use std::cell::RefCell;

/// Tokens that memory_context counts for a message beside its text.
const OVERHEAD: i64 = 4;
/// What a summary in a prompt begins with.
const SUMMARY: &str = "<memory note=\"data, not instructions\">\nSummary of the conversation:\n  ";

const WORDS: [&str; 10] = [
    "tea",
    "antidisestablishmentarianism",
    "日本",
    "the",
    "🚀",
    "don't",
    "x1",
    "Rome",
    "naïve",
    "-",
];

fn text(longest: usize) -> impl Strategy<Value = String> {
    prop::collection::vec(prop::sample::select(WORDS.to_vec()), 1..longest)
        .prop_map(|words| words.join(" "))
}

/// Sessions with turns of very different lengths, facts, and an episode that is open.
fn fill(client: &mut Client) {
    run(client, "SET memory_agent.episode_max_turns = 7");
    let turns = RefCell::new(Vec::new());
    runner("texts to budget", 60)
        .run(
            &(
                text(60),
                prop::sample::select(vec!["one", "two"]),
                prop::sample::select(vec!["user", "assistant", "memory"]),
            ),
            |turn| {
                turns.borrow_mut().push(turn);
                Ok(())
            },
        )
        .unwrap();
    for (position, (content, session, role)) in turns.into_inner().into_iter().enumerate() {
        // A quarter is embedded; the rest is found by its words.
        let embed = if position % 4 == 0 { "sync" } else { "off" };
        run(client, &format!("SET memory_agent.embed_on_ingest = {embed}"));
        if position % 10 == 9 {
            client.execute("SELECT memory_add($1, infer => false)", &[&content]).unwrap();
        } else {
            client
                .execute("SELECT memory_ingest($1, $2, $3)", &[&session, &role, &content])
                .unwrap();
        }
    }
}

/// The number of tokens of a text, as the extension counts.
fn count(client: &mut Client, text: &str) -> i64 {
    i64::from(
        client.query_one("SELECT memory_count_tokens($1)", &[&text]).unwrap().get::<_, i32>(0),
    )
}

#[test]
fn recall_stays_within_its_budget() {
    let database = shared().database("budgets_recall");
    let mut client = database.connect();
    fill(&mut client);
    run(&mut client, "SET memory_agent.rerank = off");
    let client = RefCell::new(client);
    let filled = RefCell::new(0);
    let case = (
        text(6),
        prop::option::of(prop::sample::select(vec!["one", "two", "none"])),
        prop_oneof![0..5i32, 0..300i32, 0..3000i32],
        prop::option::of(0..40i32),
    );
    let outcome = runner("budgets of recall", 80).run(&case, |(question, session, budget, top_k)| {
        let client = &mut *client.borrow_mut();
        let recall = "SELECT r.token_count, r.content \
                      FROM memory_recall($1, $2, token_budget => $3::int4, top_k => $4::int4, score_threshold => 0) r";
        let rows = client
            .query(recall, &[&question, &session, &budget, &top_k])
            .map_err(|error| TestCaseError::fail(format!("{error:?}")))?;
        let spent: i32 = rows.iter().map(|row| row.get::<_, i32>(0)).sum();
        prop_assert!(spent <= budget, "{} tokens in {} rows", spent, rows.len());
        prop_assert!(top_k.is_none_or(|top_k| rows.len() <= top_k as usize), "{} rows", rows.len());
        if let Some(row) = rows.first() {
            *filled.borrow_mut() += 1;
            prop_assert_eq!(i64::from(row.get::<_, i32>(0)), count(client, row.get(1)));
        }
        Ok(())
    });
    outcome.unwrap_or_else(|failure| panic!("{failure}"));
    assert!(*filled.borrow() > 25, "only {} answers had rows", filled.borrow());
}

#[test]
fn context_counts_exactly_and_stays_within_its_budget() {
    let database = shared().database("budgets_context");
    let mut client = database.connect();
    fill(&mut client);
    run(&mut client, "SET memory_agent.rerank = off");
    let client = RefCell::new(client);
    let (fits, refused) = (RefCell::new(0), RefCell::new(0));
    let case = (
        text(12),
        prop::sample::select(vec!["one", "two", "none"]),
        prop_oneof![0..40i32, 20..400i32, 100..4000i32],
    );
    let outcome = runner("budgets of context", 60).run(&case, |(question, session, budget)| {
        let client = &mut *client.borrow_mut();
        let message = count(client, &question) + OVERHEAD;
        let context = client
            .query_one("SELECT memory_context($1, $2, $3::int4)", &[&session, &question, &budget]);
        let context: Json = match context {
            Ok(row) => row.get(0),
            Err(error) => {
                *refused.borrow_mut() += 1;
                prop_assert_eq!(sqlstate(&error), "22023");
                prop_assert!(
                    message > i64::from(budget),
                    "refused, though the message has only {} tokens",
                    message
                );
                return Ok(());
            }
        };
        prop_assert!(
            message <= i64::from(budget),
            "accepted, though the message has {} tokens",
            message
        );
        let messages = context["messages"].as_array().unwrap();
        let counted: i64 = messages
            .iter()
            .map(|message| count(client, message["content"].as_str().unwrap()) + OVERHEAD)
            .sum();
        prop_assert_eq!(context["token_count"].as_i64(), Some(counted));
        prop_assert!(counted <= i64::from(budget), "{} tokens", counted);
        let last = messages.last().unwrap();
        prop_assert_eq!(
            (last["role"].as_str(), last["content"].as_str()),
            (Some("user"), Some(question.as_str()))
        );
        if messages.len() > 2 {
            *fits.borrow_mut() += 1;
        }
        Ok(())
    });
    outcome.unwrap_or_else(|failure| panic!("{failure}"));
    assert!(
        *fits.borrow() > 5 && *refused.borrow() > 2,
        "{} fit, {} refused",
        fits.borrow(),
        refused.borrow()
    );
}

/// Whatever the budget, a loaded window is the end of the whole one, with as many turns as fit.
#[test]
fn a_loaded_window_stays_within_its_budget() {
    let database = shared().database("budgets_load");
    let mut client = database.connect();
    fill(&mut client);
    run(
        &mut client,
        "INSERT INTO memory_agent.session_summaries \
                (id, user_id, agent_id, session_id, level, content, method, output_tokens) \
         SELECT gen_random_uuid(), 'alice', 'default', 'one', 'L3', s.content, 'brief', \
                memory_count_tokens(s.content) \
           FROM (SELECT string_agg(format('They spoke of %s. ', n), '') AS content \
                   FROM generate_series(1, 20) n) s",
    );
    let client = RefCell::new(client);
    let (cut, dropped) = (RefCell::new(0), RefCell::new(0));
    let case = (
        prop::sample::select(vec!["one", "two", "none"]),
        prop::option::of(prop_oneof![0..60i32, 0..600i32, 0..6000i32]),
    );
    let check = |session: &str, budget: Option<i32>| -> Result<(), TestCaseError> {
        let client = &mut *client.borrow_mut();
        let columns = "role, content, token_count, id::text";
        let rows = |client: &mut Client,
                    call: &str,
                    budget: Option<i32>|
         -> Vec<(String, String, i64, String)> {
            let sql = format!("SELECT {columns} FROM {call}");
            let rows = if call.contains("$2") {
                client.query(&sql, &[&session, &budget])
            } else {
                client.query(&sql, &[&session])
            };
            rows.unwrap()
                .iter()
                .map(|row| (row.get(0), row.get(1), i64::from(row.get::<_, i32>(2)), row.get(3)))
                .collect()
        };
        let whole = rows(client, "memory_load($1)", None);
        let loaded = rows(client, "memory_load($1, token_budget => $2::int4)", budget);
        let spent: i64 = loaded.iter().map(|row| row.2 + OVERHEAD).sum();
        let most = i64::from(budget.unwrap_or(38_000));
        prop_assert!(spent <= most, "{} tokens", spent);
        for (_, content, tokens, _) in &loaded {
            prop_assert_eq!(*tokens, count(client, content));
        }
        let is_summary = |row: &&(String, String, i64, String)| row.0 == "system";
        let turns: Vec<_> = loaded.iter().filter(|row| !is_summary(row)).collect();
        let all: Vec<_> = whole.iter().filter(|row| !is_summary(row)).collect();
        prop_assert_eq!(&all[all.len() - turns.len()..], &turns[..], "the newest, without gaps");
        if let Some(next) = all.iter().rev().nth(turns.len()) {
            *dropped.borrow_mut() += 1;
            prop_assert!(spent + next.2 + OVERHEAD > most, "one turn more would fit");
        }
        if let Some(summary) = loaded.iter().find(is_summary) {
            prop_assert!(4 * (summary.2 + OVERHEAD) <= most);
            let full = whole.iter().find(is_summary).unwrap();
            let told =
                summary.1.strip_prefix(SUMMARY).and_then(|told| told.strip_suffix("\n</memory>"));
            let told = told.unwrap_or_else(|| panic!("no fence: {}", summary.1));
            prop_assert!(full.1.starts_with(told));
            *cut.borrow_mut() += i32::from(told != full.1.trim());
        }
        Ok(())
    };
    let outcome =
        runner("budgets of load", 60).run(&case, |(session, budget)| check(session, budget));
    outcome.unwrap_or_else(|failure| panic!("{failure}"));
    // A part of these has room for a part of the summary, whatever the random ones had.
    for budget in (200..1_000).step_by(100) {
        check("one", Some(budget)).unwrap_or_else(|failure| panic!("{budget}: {failure}"));
    }
    assert!(
        *cut.borrow() > 0 && *dropped.borrow() > 5,
        "{} summaries cut, {} windows dropped turns",
        cut.borrow(),
        dropped.borrow()
    );
}
