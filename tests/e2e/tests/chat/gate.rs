//! What has next to nothing to do with a message stands in no prompt. With the settings that ship.

use crate::echo::{cluster, left_out, texts};
use crate::scene::{Session, said};
use memory_agent_e2e::Json;
use memory_agent_e2e::memory::value;

const ASKED: &str = "Which size of shoes does my daughter Ida wear?";
const RIGHT: &str = "The user's daughter Ida wears shoes of size 31.";

/// A user with one fact that answers, and sixty that have nothing to do with it.
fn session(database: &str) -> Session {
    let mut session = Session::open(cluster(), database);
    let facts = "SELECT count(memory_add(t, infer => false)) FROM (
                     SELECT 'Fern number ' || n || ' stands in row ' || n % 7 || ' of the greenhouse.'
                     FROM generate_series(1, 60) n UNION ALL SELECT $1) f (t)";
    value::<i64>(&mut session.client, facts, &[&RIGHT]);
    session
}

#[test]
fn memories_that_have_nothing_to_do_with_the_message_are_left_out() {
    let mut session = session("gate_augment");
    let document = session.augment(&said(ASKED), "top_k => 20");
    assert_eq!(texts(&document), [RIGHT], "{document}");
    assert_eq!(left_out(&document, "gate").len(), 19, "{document}");
    // Who names a threshold has that one.
    let document = session.augment(&said(ASKED), "top_k => 20, score_threshold => 0");
    assert_eq!(texts(&document).len(), 20, "{document}");
    assert_eq!(left_out(&document, "gate").len(), 0, "{document}");
    // Recall itself returns as many as were asked for.
    let rows = "SELECT count(*) FROM memory_recall($1, top_k => 20)";
    assert_eq!(value::<i64>(&mut session.client, rows, &[&ASKED]), 20);
}

#[test]
fn contexts_leave_them_out_too() {
    let mut session = session("gate_context");
    let context = "SELECT memory_context('s', $1)";
    let document: Json = value(&mut session.client, context, &[&ASKED]);
    let told = document["memories"].as_array().unwrap();
    assert_eq!(told.len(), 1, "{document}");
    assert_eq!(told[0]["content"], RIGHT);
    assert!(!left_out(&document, "gate").is_empty(), "{document}");
}
