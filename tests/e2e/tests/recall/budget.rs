//! How many rows: top_k and the token budget.

use super::relevance_only;
use memory_agent_e2e::memory::{
    explain, ingest, ingest_all, recall, recalled_texts, run, try_recall,
};
use memory_agent_e2e::{Client, expect_error, shared};

#[test]
fn top_k_rows_are_returned() {
    let mut client = shared().database("top_k").connect();
    run(&mut client, "SET memory_agent.embed_on_ingest = off; SET memory_agent.rerank = off");
    let turns: Vec<String> = (0..40).map(|n| format!("apple {n}")).collect();
    ingest_all(&mut client, "s", &turns.iter().map(String::as_str).collect::<Vec<_>>());
    let count =
        |client: &mut Client, arguments: &str| recall(client, &format!("'apple'{arguments}")).len();
    assert_eq!(count(&mut client, ""), 5);
    assert_eq!(count(&mut client, ", top_k => NULL"), 5);
    assert_eq!(count(&mut client, ", top_k => 1"), 1);
    assert_eq!(count(&mut client, ", top_k => 40"), 40);
    assert_eq!(count(&mut client, ", top_k => 1000"), 40);
    assert_eq!(count(&mut client, ", top_k => 0"), 0);
    for negative in ["-1", "-2147483648"] {
        let refused = try_recall(&mut client, &format!("'apple', top_k => {negative}"));
        assert!(expect_error(refused, "22023").starts_with("top_k is negative\n0 returns nothing"));
    }
    assert_eq!(
        explain(&mut client, "'apple', top_k => 0")["candidates"].as_array().unwrap().len(),
        0
    );
}

/// Turns of very different lengths about the same thing.
fn uneven(client: &mut Client) -> Vec<String> {
    let turns: Vec<String> = (1..=30)
        .map(|n| {
            format!("Apple harvest report {n}: {}", "crates were filled, ".repeat((n * 7) % 23))
        })
        .collect();
    ingest_all(client, "s", &turns.iter().map(String::as_str).collect::<Vec<_>>());
    turns
}

#[test]
fn a_token_budget_is_never_exceeded_and_well_used() {
    let mut client = shared().database("token_budget").connect();
    uneven(&mut client);
    // The newest turns of an open episode would have a share of their own.
    run(&mut client, "SET memory_agent.rerank = off; SELECT memory_close_episode('s')");
    let everything = recall(&mut client, "'apple harvest', token_budget => 1000000");
    assert_eq!(everything.len(), 30, "without top_k the budget alone cuts");
    for budget in (0..60).map(|step| step * step) {
        for arguments in ["", ", session_id => 's'", ", top_k => 4"] {
            let rows = recall(
                &mut client,
                &format!("'apple harvest', token_budget => {budget}{arguments}"),
            );
            let used: i32 = rows.iter().map(|row| row.token_count).sum();
            assert!(used <= budget, "{used} of {budget} tokens{arguments}");
            assert!(rows.len() <= if arguments.contains("top_k") { 4 } else { 30 });
            if arguments.is_empty() {
                let left_out =
                    everything.iter().filter(|row| !rows.iter().any(|kept| kept.id == row.id));
                for row in left_out {
                    assert!(
                        used + row.token_count > budget,
                        "{} still fits into {budget}",
                        row.content
                    );
                }
            }
        }
    }
}

#[test]
fn a_row_too_long_is_skipped_and_the_lowest_scores_go_first() {
    let mut client = shared().database("budget_skips").connect();
    let long = format!("The apple harvest: {}", "apple harvest ".repeat(100));
    ingest_all(
        &mut client,
        "s",
        &[&long, "The apple harvest was good.", "An apple harvest needs many hands.", "Rain fell."],
    );
    relevance_only(&mut client);
    run(&mut client, "SET memory_agent.dense_weight = 0");
    let best = recalled_texts(&mut client, "'apple harvest', token_budget => 100000");
    assert_eq!(best[0], long, "the longest is the best by its words");
    let fitting = recalled_texts(&mut client, "'apple harvest', token_budget => 14");
    assert_eq!(fitting.len(), 2, "{fitting:?}");
    assert!(!fitting.contains(&long) && !fitting.contains(&"Rain fell.".to_owned()));
    let document = explain(&mut client, "'apple harvest', token_budget => 14");
    let dropped = document["candidates"]
        .as_array()
        .unwrap()
        .iter()
        .find(|row| row["token_count"].as_i64() > Some(100));
    assert_eq!(dropped.unwrap()["dropped"], "budget");
}

#[test]
fn a_negative_budget_is_refused() {
    let mut client = shared().database("budget_negative").connect();
    expect_error(try_recall(&mut client, "'apple', token_budget => -1"), "22023");
}

#[test]
fn the_newest_turns_of_the_open_episode_have_their_share() {
    let mut client = shared().database("episode_share").connect();
    run(&mut client, "SET memory_agent.episode_max_turns = 0");
    // Old apples in a closed episode; then an open one about something else.
    let apples: Vec<String> =
        (0..12).map(|n| format!("Apple variety number {n} tastes sweet.")).collect();
    ingest_all(&mut client, "s", &apples.iter().map(String::as_str).collect::<Vec<_>>());
    run(&mut client, "SELECT memory_close_episode('s')");
    for n in 0..8 {
        ingest(&mut client, "s", &format!("Step {n}: tighten the screw."));
    }
    run(&mut client, "SET memory_agent.rerank = off; SET memory_agent.recency_weight = 0");
    let question = "'Which apple tastes sweet?', session_id => 's', token_budget => 60";
    let rows = recall(&mut client, question);
    assert!(rows.iter().map(|row| row.token_count).sum::<i32>() <= 60, "{rows:?}");
    let mut half: Vec<(String, i32)> = rows
        .into_iter()
        .filter(|row| row.content.starts_with("Step"))
        .map(|row| (row.content, row.token_count))
        .collect();
    half.sort();
    assert!(half.iter().map(|step| step.1).sum::<i32>() <= 30);
    assert!(half.len() >= 2 && half.last().unwrap().0.starts_with("Step 7"), "{half:?}");
    let numbers: Vec<String> = half.iter().map(|step| step.0[5..6].to_owned()).collect();
    let newest: Vec<String> = (8 - half.len()..8).map(|n| n.to_string()).collect();
    assert_eq!(numbers, newest, "the newest, without holes");

    // What the episode does not need returns to the others.
    run(&mut client, "SELECT memory_close_episode('s')");
    let rows = recall(&mut client, question);
    assert!(
        rows.iter().all(|row| !row.content.starts_with("Step")),
        "no episode is open: {rows:?}"
    );
    assert!(rows.iter().map(|row| row.token_count).sum::<i32>() > 45);
    let other = recall(
        &mut client,
        "'Which apple tastes sweet?', session_id => 'other', token_budget => 60",
    );
    assert!(other.is_empty());
}
