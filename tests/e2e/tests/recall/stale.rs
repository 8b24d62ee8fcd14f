//! Turns that say what no longer holds: a fact that was made from them has been replaced.

use crate::relevance_only;
use memory_agent_e2e::memory::{Recalled, explain, recall, run, value};
use memory_agent_e2e::{Client, Uuid, json, shared};

const QUESTION: &str = "'Is our yellow house in Hamburg?'";
const OLD: &str = "Our yellow house in Hamburg has a garden.";

/// What the worker leaves behind after "we moved": two turns, two facts, the older one replaced.
/// Returns the fact that holds.
fn moved_house(client: &mut Client) -> Uuid {
    run(
        client,
        "SELECT memory_ingest('s', 'user', 'Our yellow house in Hamburg has a garden.', created_at => '2024-01-01');
         SELECT memory_ingest('s', 'user', 'The boxes are unpacked at last.', created_at => '2024-06-01');
         SELECT memory_add('The user lives in Hamburg.', 's', infer => false, fact_key => 'home', created_at => '2024-01-01');
         SELECT memory_add('The user lives in Lisbon.', 's', infer => false, fact_key => 'home', created_at => '2024-06-01');
         UPDATE memory_agent.entries f SET source_ids = ARRAY[t.id], fact_key = NULL,
                metadata = '{\"job_id\": \"its job\"}' FROM memory_agent.entries t
          WHERE t.kind = 'turn' AND f.kind = 'fact' AND t.created_at = f.created_at",
    );
    value(
        client,
        "SELECT id FROM memory_agent.entries WHERE kind = 'fact' AND state = 'active'",
        &[],
    )
}

fn position(rows: &[Recalled], content: &str) -> Option<usize> {
    rows.iter().position(|row| row.content == content)
}

#[test]
fn a_turn_whose_fact_was_replaced_never_ranks_before_what_replaced_it() {
    let mut client = shared().database("stale_sources").connect();
    relevance_only(&mut client);
    let fact = moved_house(&mut client);
    let lisbon = "The user lives in Lisbon.";

    run(&mut client, "SET memory_agent.stale_sources = show");
    let rows = recall(&mut client, QUESTION);
    assert_eq!(position(&rows, OLD), Some(0), "the old turn has all the words");
    assert!(rows.iter().all(|row| row.metadata.get("superseded_by").is_none()));

    run(&mut client, "RESET memory_agent.stale_sources");
    for arguments in ["", ", rerank => true", ", top_k => 2", ", mmr_lambda => 0.2"] {
        let rows = recall(&mut client, &format!("{QUESTION}{arguments}"));
        let (new, old) = (position(&rows, lisbon), position(&rows, OLD));
        assert!(new.is_some() && old.is_none_or(|old| Some(old) > new), "{arguments}: {rows:#?}");
        if let Some(old) = old {
            assert_eq!(rows[old].metadata["superseded_by"], fact.to_string());
            assert!(rows[old].score <= rows[new.unwrap_or(0)].score);
        }
    }
    assert_eq!(recall(&mut client, &format!("{QUESTION}, top_k => 1"))[0].content, lisbon);

    // What is not searched for is not named; that there is something is said of the old turn alone.
    let rows = recall(&mut client, &format!("{QUESTION}, kinds => '{{turn}}'"));
    for row in &rows {
        let expected = (row.content == OLD).then_some(&serde_json::Value::Null);
        assert_eq!((row.kind.as_str(), row.metadata.get("superseded_by")), ("turn", expected));
    }
    assert!(position(&rows, OLD).is_some());

    // What moved it down is told with its score.
    for (arguments, by) in [("", Some(fact.to_string())), (", kinds => '{turn}'", None)] {
        let arguments = format!("{QUESTION}{arguments}");
        let rows = recall(&mut client, &format!("{arguments}, top_k => 20"));
        let old = rows[position(&rows, OLD).expect("the old turn")].id.to_string();
        let document = explain(&mut client, &arguments);
        let candidates = document["candidates"].as_array().unwrap();
        let told: Vec<_> =
            candidates.iter().filter(|row| row.get("superseded_by").is_some()).collect();
        let [told] = told[..] else { panic!("{candidates:#?}") };
        assert_eq!((&told["id"], &told["superseded_by"]), (&json!(old), &json!(by)));
    }

    run(&mut client, "SET memory_agent.stale_sources = hide");
    let rows = recall(&mut client, QUESTION);
    assert_eq!(position(&rows, OLD), None);
    assert!(position(&rows, "The boxes are unpacked at last.").is_some(), "nothing else is hidden");
}

/// What a forgotten fact had replaced does not hold again.
#[test]
fn a_turn_does_not_come_back_when_its_correction_is_forgotten() {
    let mut client = shared().database("stale_forgotten").connect();
    let fact = moved_house(&mut client);
    assert!(value::<bool>(&mut client, "SELECT memory_forget($1)", &[&fact]));
    let rows = recall(&mut client, QUESTION);
    assert_eq!(position(&rows, OLD), None, "{rows:#?}");
    assert!(position(&rows, "The boxes are unpacked at last.").is_some(), "nothing else is hidden");
    // It held then, and the past is not forgotten.
    let rows = recall(&mut client, &format!("{QUESTION}, as_of => '2024-03-01'"));
    assert!(position(&rows, OLD).is_some());
    // With the correction it comes back below it.
    assert!(value::<bool>(&mut client, "SELECT memory_restore($1)", &[&fact]));
    let rows = recall(&mut client, QUESTION);
    assert!(position(&rows, OLD) > position(&rows, "The user lives in Lisbon."), "{rows:#?}");
}

#[test]
fn a_turn_was_up_to_date_before_the_change() {
    let mut client = shared().database("stale_as_of").connect();
    relevance_only(&mut client);
    moved_house(&mut client);
    let rows = recall(&mut client, &format!("{QUESTION}, as_of => '2024-03-01'"));
    assert!(position(&rows, OLD).is_some());
    assert!(rows.iter().all(|row| row.metadata.get("superseded_by").is_none()), "{rows:#?}");
    let rows = recall(&mut client, &format!("{QUESTION}, as_of => '2024-07-01'"));
    let old = position(&rows, OLD).expect("demoted, not hidden");
    assert!(rows[old].metadata.get("superseded_by").is_some());
}

/// The same fact said again in the turn that replaced it is no reason to doubt that turn.
#[test]
fn a_turn_that_also_says_what_holds_is_up_to_date() {
    let mut client = shared().database("stale_both").connect();
    relevance_only(&mut client);
    moved_house(&mut client);
    run(
        &mut client,
        "UPDATE memory_agent.entries SET source_ids = ARRAY(SELECT id FROM memory_agent.entries WHERE kind = 'turn') \
          WHERE kind = 'fact' AND state = 'active'",
    );
    let rows = recall(&mut client, QUESTION);
    assert_eq!(position(&rows, OLD), Some(0));
    assert!(rows.iter().all(|row| row.metadata.get("superseded_by").is_none()), "{rows:#?}");
}
