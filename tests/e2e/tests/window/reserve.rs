//! `memory_reserve_tokens`: the window fits, and nothing is lost for it.

use crate::random::Random;
use crate::{load, say, summarised};
use memory_agent_e2e::memory::{recalled_texts, run, value, values};
use memory_agent_e2e::{Client, Uuid, expect_error, shared, shared_without_worker};

/// Tokens that a message counts beside its text.
const OVERHEAD: i64 = 4;

/// tokens_before, tokens_after, summarized, dropped.
#[track_caller]
fn reserve(client: &mut Client, arguments: &str) -> (i64, i64, i32, i32) {
    let query = format!("SELECT * FROM memory_reserve_tokens({arguments})");
    let row = client.query_one(&query, &[]).unwrap_or_else(|error| panic!("{query}: {error:?}"));
    (row.get(0), row.get(1), row.get(2), row.get(3))
}

/// Tokens of the window as a prompt, counted from what is loaded.
fn prompt_tokens(client: &mut Client, session: &str) -> i64 {
    value(
        client,
        "SELECT coalesce(sum(memory_count_tokens(content) + 4), 0) FROM memory_load($1)",
        &[&session],
    )
}

/// Turns of ten tokens or so.
fn turns(client: &mut Client, session: &str, count: usize) -> Vec<Uuid> {
    (0..count)
        .map(|at| {
            let role = if at % 2 == 0 { "user" } else { "assistant" };
            say(client, session, role, &format!("Message number {at} about the harbour office."))
        })
        .collect()
}

fn states(client: &mut Client) -> Vec<String> {
    values(
        client,
        "SELECT concat_ws('|', state, state_reason) FROM memory_agent.entries \
          WHERE kind = 'turn' ORDER BY created_at, id",
        &[],
    )
}

#[test]
fn covered_turns_leave_first_and_only_as_many_as_needed() {
    let mut client = shared_without_worker().database("reserve_order").connect();
    let ids = turns(&mut client, "s", 6);
    summarised(&mut client, "s", "Older still.", &ids[..1]);
    run(&mut client, "UPDATE memory_agent.session_summaries SET is_active = false");
    summarised(&mut client, "s", "Two messages about an office.", &ids[1..2]);
    let whole = prompt_tokens(&mut client, "s");
    assert_eq!(reserve(&mut client, &format!("'s', {whole}")), (whole, whole, 0, 0));
    assert!(states(&mut client).iter().all(|state| state == "active"));

    let message: i64 = value(
        &mut client,
        "SELECT memory_count_tokens(content)::int8 + 4 FROM memory_agent.entries ORDER BY id LIMIT 1",
        &[],
    );
    let (before, after, summarized, dropped) = reserve(&mut client, &format!("'s', {}", whole - 1));
    assert_eq!((before, after, summarized, dropped), (whole, whole - message, 1, 0));
    let three_less = whole - 2 * message - 1;
    let (_, after, summarized, dropped) = reserve(&mut client, &format!("'s', {three_less}"));
    assert_eq!(
        (summarized, dropped),
        (1, 1),
        "one that the summary before covers, one that none does"
    );
    assert_eq!(after, prompt_tokens(&mut client, "s"));
    assert!(after <= three_less);
    assert_eq!(
        states(&mut client),
        [
            "archived|compressed",
            "archived|compressed",
            "archived|evicted",
            "active",
            "active",
            "active"
        ]
    );
    assert_eq!(
        load(&mut client, "s")[0],
        ("system".into(), "Two messages about an office.".into())
    );
    let counted: bool = value(
        &mut client,
        "SELECT s.active_entries = 3 AND s.turn_count = 6 AND s.active_tokens = \
                (SELECT sum(token_count) FROM memory_load('s') WHERE role <> 'system') \
           FROM memory_agent.sessions s",
        &[],
    );
    assert!(counted);
    let (_, after, summarized, dropped) = reserve(&mut client, "'s', 0");
    assert_eq!((summarized, dropped), (0, 3));
    assert_eq!(after, prompt_tokens(&mut client, "s"), "the summary alone is over the budget");
    assert_eq!(load(&mut client, "s").len(), 1);
}

#[test]
fn what_left_is_still_recalled_and_facts_stay() {
    let mut client = shared().database("reserve_recall").connect();
    run(
        &mut client,
        "SET memory_agent.rerank = off; SET memory_agent.embed_on_ingest = off;
         SELECT memory_ingest('s', 'user', 'My locker is number 41.');
         SELECT memory_add('The gym closes at ten.', 's', infer => false)",
    );
    let (_, after, _, dropped) = reserve(&mut client, "'s', 0");
    assert_eq!((after, dropped), (0, 1));
    assert_eq!(recalled_texts(&mut client, "'locker', 's'"), ["My locker is number 41."]);
    let entries: i64 = value(&mut client, "SELECT active_entries FROM memory_agent.sessions", &[]);
    assert_eq!(entries, 1, "the fact");
}

#[test]
fn the_default_budget_is_the_context_less_its_margin() {
    let mut client = shared_without_worker().database("reserve_default").connect();
    turns(&mut client, "s", 10);
    let whole = prompt_tokens(&mut client, "s");
    assert_eq!(reserve(&mut client, "'s'"), (whole, whole, 0, 0), "38,000 is more than enough");
    // A twentieth stays free.
    let limit = |budget: i64| budget * 20 / 19 + 1;
    run(&mut client, &format!("SET memory_agent.context_limit = {}", limit(whole)));
    assert_eq!(reserve(&mut client, "'s'"), (whole, whole, 0, 0));
    run(&mut client, &format!("SET memory_agent.context_limit = {}", limit(whole / 2)));
    let (_, after, _, dropped) = reserve(&mut client, "'s', summarize => NULL");
    assert!(after <= whole / 2 && after > whole / 2 - 2 * (whole / 10), "{after} of {whole}");
    assert_eq!(dropped, 5);
    crate::configure(&mut client, "session_id => 's', settings => '{\"context_limit\": 1}'");
    assert_eq!(reserve(&mut client, "'s'").1, 0, "a session's own limit");
}

#[test]
fn overhead_counts_and_bad_arguments_do_not() {
    let mut client = shared_without_worker().database("reserve_arguments").connect();
    turns(&mut client, "s", 2);
    let whole = prompt_tokens(&mut client, "s");
    assert_eq!(reserve(&mut client, "'s'").0, whole);
    assert_eq!(reserve(&mut client, "'nowhere', 5"), (0, 0, 0, 0));
    let sessions: i64 = value(&mut client, "SELECT count(*) FROM memory_agent.sessions", &[]);
    assert_eq!(sessions, 1);
    for call in ["'s', -1", "''", "NULL"] {
        let query = format!("SELECT * FROM memory_reserve_tokens({call})");
        expect_error(client.query(&query, &[]), "22023");
    }
    run(&mut client, "BEGIN READ ONLY");
    expect_error(client.query("SELECT * FROM memory_reserve_tokens('s', 0)", &[]), "25006");
    run(&mut client, "ROLLBACK");
    let without_llm = client.query("SELECT * FROM memory_reserve_tokens('s', 0, true)", &[]);
    expect_error(without_llm, "55000");
    assert_eq!(load(&mut client, "s").len(), 2);
}

/// Whatever the turns, the summary and the budget: what is loaded afterwards fits, and with one turn
/// more it would not have.
#[test]
fn the_window_fits_any_budget() {
    let mut client = shared_without_worker().database("reserve_any").connect();
    run(&mut client, "SET memory_agent.embed_on_ingest = off");
    let mut random = Random::seeded("the_window_fits_any_budget");
    for round in 0..60 {
        let session = format!("s{round}");
        let turns: Vec<Uuid> = (0..1 + random.below(12))
            .map(|at| {
                let content = format!("{at} {}", "word über ".repeat(random.below(40) as usize));
                say(&mut client, &session, "user", &content)
            })
            .collect();
        let covered = random.below(turns.len() as u64 + 1) as usize;
        if covered > 0 {
            let words = "summary ".repeat(1 + random.below(20) as usize);
            summarised(&mut client, &session, words.trim(), &turns[..covered]);
        }
        let whole = prompt_tokens(&mut client, &session);
        let budget = random.below(whole as u64 + 20) as i64;
        let (before, after, summarized, dropped) =
            reserve(&mut client, &format!("'{session}', {budget}"));
        let left = load(&mut client, &session);
        let turns_left = left.iter().filter(|(role, _)| role == "user").count();
        assert_eq!((before, after), (whole, prompt_tokens(&mut client, &session)), "round {round}");
        assert_eq!((summarized + dropped) as usize, turns.len() - turns_left, "round {round}");
        assert!(summarized as usize <= covered && (dropped == 0 || summarized as usize == covered));
        assert!(after <= budget || turns_left == 0, "round {round}: {after} over {budget}");
        if turns_left < turns.len() {
            let last: i32 = value(
                &mut client,
                "SELECT token_count FROM memory_agent.entries WHERE id = $1",
                &[&turns[turns.len() - turns_left - 1]],
            );
            assert!(
                after + i64::from(last) + OVERHEAD > budget,
                "round {round}: one too many left"
            );
        }
    }
}

/// Turns that were stored while the model server was away are counted before they are relied on.
#[test]
fn an_estimate_that_is_too_low_does_not_break_the_budget() {
    let mut client = shared_without_worker().database("reserve_estimates").connect();
    run(&mut client, "SET memory_agent.embed_on_ingest = off");
    turns(&mut client, "s", 40);
    run(
        &mut client,
        "UPDATE memory_agent.entries SET token_count = 1, token_count_exact = false; \
         UPDATE memory_agent.sessions SET active_tokens = 40",
    );
    let whole = prompt_tokens(&mut client, "s");
    let budget = whole / 2;
    let (before, after, _, dropped) = reserve(&mut client, &format!("'s', {budget}"));
    assert_eq!(before, whole);
    assert!(dropped > 0);
    assert!(after <= budget && after > budget - 30, "{after} of {budget}");
    assert_eq!(after, prompt_tokens(&mut client, "s"));
}
