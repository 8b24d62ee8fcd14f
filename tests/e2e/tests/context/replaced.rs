//! What no longer holds although nothing near it says so: what replaced it is said in other words or in another
//! session, is a turn, or is gone itself.

use super::{END, MEMORIES, SUMMARY, block, context, messages, summarize};
use memory_agent_e2e::memory::{run, undated};
use memory_agent_e2e::{Client, Json, shared};

/// Makes the facts look as if a job had made them of the user's turns that were said at the same time.
const MADE_OF_TURNS: &str = "UPDATE memory_agent.entries f SET fact_key = NULL, metadata = '{\"job_id\": \"its job\"}', \
        source_ids = ARRAY(SELECT t.id FROM memory_agent.entries t WHERE t.kind = 'turn' AND t.created_at = f.created_at) \
  WHERE f.kind = 'fact'";
const OUT_OF_THE_WINDOW: &str =
    "UPDATE memory_agent.entries SET state = 'archived' WHERE kind = 'turn' AND state = 'active'";
const MYSQL: &str = "Our shop runs on MySQL.";
const MARK: &str = "(no longer true: The shop of the user runs on MySQL.)";

/// The lines of the memories, without their days.
fn told(document: &Json) -> Vec<String> {
    let block = block(document, MEMORIES).unwrap_or_default();
    undated(block.trim_end_matches(END)).lines().skip(2).map(str::to_owned).collect()
}

/// "It is MySQL" was said in session `a`, "now it is PostgreSQL" in session `b`; the facts are global.
fn two_sessions(client: &mut Client) {
    run(
        client,
        &format!(
            "SELECT memory_ingest('a', 'user', '{MYSQL}', created_at => '2024-01-01');
             SELECT memory_ingest('b', 'user', 'Mallory says that it is PostgreSQL now.', created_at => '2024-02-01');
             SELECT memory_ingest('a', 'user', 'Nice weather today.', created_at => '2024-03-01');
             SELECT memory_add('The shop of the user runs on MySQL.', infer => false, fact_key => 'database', created_at => '2024-01-01');
             SELECT memory_add('The shop of the user runs on PostgreSQL.', infer => false, fact_key => 'database', created_at => '2024-02-01');
             {MADE_OF_TURNS}"
        ),
    );
}

/// As a reflection removes a fact: the turn of session `b` is all that is in its place.
fn removed_by_turn(client: &mut Client, session_of_turn: &str) {
    two_sessions(client);
    run(
        client,
        &format!(
            "UPDATE memory_agent.entries f SET state_reason = 'contradicted', replaced_by = t.id \
               FROM memory_agent.entries t WHERE f.content LIKE 'The shop%MySQL.' AND t.content LIKE 'Mallory%'; \
             DELETE FROM memory_agent.entries WHERE content = 'The shop of the user runs on PostgreSQL.'; \
             UPDATE memory_agent.entries SET session_id = '{session_of_turn}' WHERE content LIKE 'Mallory%'"
        ),
    );
}

fn covers(client: &mut Client, until: &str) {
    let update = "UPDATE memory_agent.session_summaries SET last_entry_at = $1::text::timestamptz";
    client.execute(update, &[&until]).unwrap();
}

/// The turns that are hidden bring what replaced them, and leave their places to what holds.
#[test]
fn what_replaced_a_hidden_turn_is_told() {
    for (name, embed) in [("replaced_hidden", "sync"), ("replaced_hidden_words", "off")] {
        hidden_turns_make_room(name, embed);
    }
}

fn hidden_turns_make_room(name: &'static str, embed: &str) {
    let mut client = shared().database(name).connect();
    let said = "timestamptz '2024-01-01 00:00+00' + n * interval '1 day'";
    run(
        &mut client,
        &format!(
            "SET memory_agent.embed_on_ingest = {embed};
             SELECT memory_ingest('s', 'user', 'The deadline is now May ' || n, created_at => {said}) \
               FROM generate_series(1, 60) n;
             SELECT memory_ingest('s', 'user', 'Ben knows when a deadline of ours is.', created_at => '2023-01-01');
             SELECT memory_add('The report has to be handed in by May ' || n, infer => false, fact_key => 'deadline', \
                               created_at => {said}) FROM generate_series(1, 60) n;
             SELECT memory_add('Everything goes to the printer before midsummer.', infer => false, \
                               fact_key => 'deadline', created_at => '2024-05-01');
             {MADE_OF_TURNS}; {OUT_OF_THE_WINDOW}"
        ),
    );
    for rerank in ["on", "off"] {
        run(&mut client, &format!("SET memory_agent.rerank = {rerank}"));
        let document = context(&mut client, "'s', 'When is the deadline?'");
        let told = told(&document);
        assert!(told.iter().all(|line| !line.contains("The deadline is now")), "{told:#?}");
        for expected in [
            "[memory] Everything goes to the printer before midsummer.",
            "[user] Ben knows when a deadline of ours is.",
        ] {
            assert!(told.iter().any(|line| line == expected), "{rerank}: {told:#?}");
        }
    }
}

/// What was extracted and not replaced may hold, whether or not its turn bears it out.
#[test]
fn a_turn_with_an_unverified_statement_is_marked() {
    let mut client = shared().database("replaced_unverified").connect();
    two_sessions(&mut client);
    run(
        &mut client,
        &format!(
            "SELECT memory_add('The shop of the user has 3 rooms.', infer => false, created_at => '2024-01-01');
             {MADE_OF_TURNS};
             UPDATE memory_agent.entries SET state = 'inactive', state_reason = 'unverified' WHERE content LIKE '%rooms.';
             {OUT_OF_THE_WINDOW}"
        ),
    );
    let told = told(&context(&mut client, "'a', 'What does our shop run on?'"));
    let at = told.iter().position(|line| line == &format!("[user] {MYSQL}"));
    assert_eq!(told[at.expect("the turn") + 1], format!("  {MARK}"), "{told:?}");
}

/// A reflection ends a fact without another one in its place.
#[test]
fn what_a_turn_ended_is_marked() {
    for session in ["a", "b"] {
        let name: &str =
            if session == "a" { "replaced_by_turn" } else { "replaced_by_turn_elsewhere" };
        let mut client = shared().database(name).connect();
        removed_by_turn(&mut client, session);
        summarize(&mut client, "a", "The shop runs on MySQL.");
        covers(&mut client, "2024-01-15");
        let document = context(&mut client, "'a', 'What does our shop run on?'");
        let marked = format!("{MYSQL}\n{MARK}");
        assert!(messages(&document).contains(&("user", &marked)), "{session}: {document}");
        let summary = block(&document, SUMMARY).unwrap();
        assert!(summary.contains(MARK), "{session}: {summary}");

        run(&mut client, "SELECT memory_archive('a')");
        let earlier = context(&mut client, "'c', 'What did we discuss about our shop and MySQL?'");
        let part = &earlier["cross_session"][0];
        assert_eq!(
            part["no_longer_true"][0]["was"], "The shop of the user runs on MySQL.",
            "{earlier}"
        );

        run(&mut client, OUT_OF_THE_WINDOW);
        let document = context(&mut client, "'a', 'What does our shop run on?'");
        assert!(!told(&document).iter().any(|line| line.contains(MYSQL)), "{document}");
    }
}

/// What another session said is not told in one that is by itself, also where it is not known what the words were that it
/// replaced.
#[test]
fn a_mark_tells_nothing_of_another_session() {
    let mut client = shared().database("replaced_private").connect();
    run(&mut client, "SET memory_agent.session_recall = session");
    removed_by_turn(&mut client, "b");
    summarize(&mut client, "a", "The shop runs on MySQL.");
    covers(&mut client, "2024-01-15");
    // As memory_agent.purge_after leaves it.
    run(
        &mut client,
        "UPDATE memory_agent.entries SET content = '', metadata = '{}' WHERE kind = 'fact'",
    );
    let document = context(&mut client, "'a', 'What does our shop run on?'");
    assert!(!document.to_string().contains("Mallory"), "{document}");
    run(&mut client, OUT_OF_THE_WINDOW);
    let document = context(&mut client, "'a', 'What does our shop run on?'");
    assert!(!document.to_string().contains("Mallory"), "{document}");
}

/// A summary does not know what was said in another session, whenever that was.
#[test]
fn a_change_in_another_session_marks_the_summary() {
    let mut client = shared().database("replaced_before_summary").connect();
    two_sessions(&mut client);
    summarize(&mut client, "a", "The shop runs on MySQL.");
    covers(&mut client, "2024-03-01");
    let document = context(&mut client, "'a', 'What does our shop run on?'");
    let summary = block(&document, SUMMARY).unwrap();
    assert!(summary.contains(MARK), "{summary}");
    // In this session the summary knows it.
    run(
        &mut client,
        "UPDATE memory_agent.entries SET session_id = 'a' WHERE content LIKE 'Mallory%'",
    );
    let document = context(&mut client, "'a', 'What does our shop run on?'");
    let summary = block(&document, SUMMARY).unwrap();
    assert!(!summary.contains(MARK), "{summary}");
}

/// What was replaced was no longer true before what replaced it was forgotten.
#[test]
fn what_was_replaced_stays_so_without_its_replacement() {
    let mut client = shared().database("replaced_forgotten").connect();
    two_sessions(&mut client);
    let forget = "SELECT memory_forget(id) FROM memory_agent.entries WHERE content = 'The shop of the user runs on PostgreSQL.'";
    run(&mut client, forget);
    let document = context(&mut client, "'a', 'What does our shop run on?'");
    let marked = format!("{MYSQL}\n{MARK}");
    assert!(messages(&document).contains(&("user", &marked)), "{document}");
    run(&mut client, OUT_OF_THE_WINDOW);
    let document = context(&mut client, "'a', 'What does our shop run on?'");
    assert!(!told(&document).iter().any(|line| line.contains(MYSQL)), "{document}");
    // What is restored holds again.
    let restore = "SELECT memory_restore(id) FROM memory_agent.entries WHERE content = 'The shop of the user runs on MySQL.'";
    run(&mut client, restore);
    let document = context(&mut client, "'a', 'What does our shop run on?'");
    assert!(told(&document).contains(&format!("[user] {MYSQL}")), "{document}");
}
