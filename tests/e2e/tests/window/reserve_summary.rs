//! `memory_reserve_tokens(summarize => true)`: the LLM stands in for what has to leave.

use crate::{load, say, with_llm};
use memory_agent_e2e::llm::{Call, Fault, FaultPlan, LlmStub, Purpose, SummaryKind};
use memory_agent_e2e::memory::{run, value, values};
use memory_agent_e2e::{Client, Cluster, Uuid, expect_error};

/// Tokens of the window as a prompt, counted from what is loaded.
fn prompt_tokens(client: &mut Client) -> i64 {
    value(client, "SELECT sum(memory_count_tokens(content) + 4) FROM memory_load('s')", &[])
}

/// Twelve turns of some twenty tokens.
fn conversation(client: &mut Client) -> Vec<Uuid> {
    (0..12)
        .map(|at| {
            let content =
                format!("On day {at} the ferry left the harbour of Lisbon and came back at night.");
            say(client, "s", if at % 2 == 0 { "user" } else { "assistant" }, &content)
        })
        .collect()
}

fn reserve(client: &mut Client, arguments: &str) -> (i64, i32, i32) {
    let query =
        format!("SELECT tokens_after, summarized, dropped FROM memory_reserve_tokens({arguments})");
    let row = client.query_one(&query, &[]).unwrap_or_else(|error| panic!("{query}: {error:?}"));
    (row.get(0), row.get(1), row.get(2))
}

fn start(model: impl memory_agent_e2e::llm::Model) -> (LlmStub, Cluster) {
    with_llm(model, &[("memory_agent.extraction", "off"), ("memory_agent.summarization", "off")])
}

/// What a summary of the window is asked about.
fn asked(call: &Call) -> (SummaryKind, usize, Option<String>) {
    let kind = match call.purpose() {
        Purpose::Summary(summary) => summary.kind,
        other => panic!("{other:?}"),
    };
    let data = call.data();
    let previous = data["previous_summary"].as_str().map(str::to_owned);
    (kind, data["turns"].as_array().map_or(0, Vec::len), previous)
}

#[test]
fn what_leaves_is_summarised_first() {
    let (stub, cluster) = start(|call: &Call| format!("Summary {}.", call.number));
    let mut client = cluster.database("reserve_summary").connect();
    let ids = conversation(&mut client);
    let (after, summarized, dropped) = reserve(&mut client, "'s', 160, true");
    assert_eq!(dropped, 0);
    assert!((4..=9).contains(&summarized), "{summarized}");
    assert_eq!(after, prompt_tokens(&mut client));
    assert!(after <= 160);
    assert_eq!(stub.call_count(), 1);
    let first = asked(&stub.calls()[0]);
    assert!(first.1 >= summarized as usize && first.2.is_none(), "{first:?}");
    assert_eq!(load(&mut client, "s")[0], ("system".into(), "Summary 0.".into()));
    let row: String = value(
        &mut client,
        "SELECT concat_ws('|', method, source_ids[1] = $1, cardinality(source_ids) = message_count, \
                          output_tokens = memory_count_tokens(content), model) \
           FROM memory_agent.session_summaries WHERE is_active",
        &[&ids[0]],
    );
    assert_eq!(row, "window|t|t|t|stub-1");
    let states: Vec<String> = values(
        &mut client,
        "SELECT DISTINCT concat_ws('|', state, state_reason) FROM memory_agent.entries ORDER BY 1",
        &[],
    );
    assert_eq!(states, ["active", "archived|compressed"]);

    // Nothing has to leave: nobody is asked.
    assert_eq!(reserve(&mut client, "'s', 160, true"), (after, 0, 0));
    assert_eq!(stub.call_count(), 1);
    // The next one goes on from it.
    let (_, summarized, dropped) = reserve(&mut client, "'s', 110, true");
    assert!(summarized > 0 && dropped == 0);
    let calls = stub.calls();
    let (kind, _, previous) = asked(&calls[calls.len() - 1]);
    assert_eq!((kind, previous.as_deref()), (SummaryKind::Rolling, Some("Summary 0.")));
    let summaries: Vec<bool> = values(
        &mut client,
        "SELECT is_active FROM memory_agent.session_summaries ORDER BY created_at",
        &[],
    );
    assert_eq!(summaries, [false, true]);
    let covered: bool = value(
        &mut client,
        "SELECT unsummarized_tokens = (SELECT coalesce(sum(e.token_count), 0) FROM memory_agent.entries e \
                  WHERE NOT EXISTS (SELECT FROM memory_agent.session_summaries u WHERE e.id = ANY (u.source_ids))) \
           FROM memory_agent.sessions",
        &[],
    );
    assert!(covered);
}

#[test]
fn a_summary_gets_a_quarter_of_the_budget_and_the_window_fits() {
    let long = |_: &Call| "The ferry left the harbour and came back. ".repeat(40);
    let (stub, cluster) = start(long);
    let mut client = cluster.database("reserve_summary_share").connect();
    conversation(&mut client);
    let (after, _, dropped) = reserve(&mut client, "'s', 160, true");
    assert!(after <= 160 && after == prompt_tokens(&mut client));
    assert_eq!(dropped, 0);
    assert_eq!(stub.call_count(), 3, "asked twice to be shorter");
    let tokens: i32 =
        value(&mut client, "SELECT token_count FROM memory_load('s') WHERE role = 'system'", &[]);
    assert!((1..=40).contains(&tokens), "{tokens}");
}

#[test]
fn when_the_llm_fails_the_window_fits_all_the_same() {
    let (stub, cluster) = start(|_: &Call| "Never said.");
    let mut client = cluster.database("reserve_summary_fails").connect();
    conversation(&mut client);
    stub.faults(FaultPlan::questions(Fault::Status(400)));
    let (after, summarized, dropped) = reserve(&mut client, "'s', 160, true");
    assert!(after <= 160 && summarized == 0 && dropped > 0);
    assert_eq!(stub.call_count(), 1);
    // The next summary has those that left without.
    stub.faults(FaultPlan::none());
    let (_, summarized, again) = reserve(&mut client, "'s', 100, true");
    assert_eq!(again, 0);
    let calls = stub.calls();
    assert!(asked(&calls[calls.len() - 1]).1 >= (dropped + summarized) as usize);
    // Without room for a summary nobody is asked.
    let before = stub.call_count();
    reserve(&mut client, "'s', 30, true");
    assert_eq!(stub.call_count(), before);
    run(&mut client, "SELECT memory_clear('s')");
}

#[test]
fn a_read_only_transaction_asks_nobody() {
    let (stub, cluster) = start(|_: &Call| "Never said.");
    let mut client = cluster.database("reserve_summary_read_only").connect();
    conversation(&mut client);
    run(&mut client, "BEGIN READ ONLY");
    expect_error(client.query("SELECT memory_reserve_tokens('s', 160, true)", &[]), "25006");
    run(&mut client, "ROLLBACK");
    assert_eq!(stub.call_count(), 0);
}
