//! Session, global and shared memory have candidates of their own: however much there is of one, it keeps
//! none of the others out.

use memory_agent_e2e::memory::{explain, ingest, recalled_texts, run, value};
use memory_agent_e2e::{Client, Json, shared};
use std::collections::BTreeMap;

/// Two turns of a session, `global` and `shared` facts. A fact has more of the question's words than a turn.
fn fill(name: &str, global: i32, shared_facts: i32) -> Client {
    let mut client = shared().database(name).connect();
    run(&mut client, "SET memory_agent.embed_on_ingest = off; SET memory_agent.rerank = off");
    ingest(&mut client, "s", "Our pie burned.");
    ingest(&mut client, "s", "The pie was for Eve.");
    for (user, facts) in [("alice", global), ("*", shared_facts)] {
        client
            .execute(
                "SELECT memory_add(format('Apple pie recipe, page %s: cinnamon.', n), infer => false, user_id => $2) \
                   FROM generate_series(1, $1::int) n",
                &[&facts, &user],
            )
            .unwrap();
    }
    client
}

const QUESTION: &str = "'apple pie recipe with cinnamon'";

/// How many candidates of each scope there are, and how many of them came into the pool.
fn candidates(explained: &Json) -> BTreeMap<String, (usize, usize)> {
    let mut counts = BTreeMap::new();
    for candidate in explained["candidates"].as_array().unwrap() {
        let scope = candidate["scope"].as_str().unwrap().to_owned();
        let (all, pool): &mut (usize, usize) = counts.entry(scope).or_default();
        *all += 1;
        *pool += usize::from(candidate["dropped"] != "pool");
    }
    counts
}

#[track_caller]
fn assert_candidates(client: &mut Client, arguments: &str, expected: &[(&str, (usize, usize))]) {
    let explained = explain(client, &format!("{QUESTION}{arguments}"));
    let expected: BTreeMap<String, (usize, usize)> =
        expected.iter().map(|(scope, counts)| ((*scope).to_owned(), *counts)).collect();
    assert_eq!(candidates(&explained), expected, "{arguments}");
}

#[test]
fn a_large_scope_keeps_no_other_out() {
    let mut client = fill("candidates_shared", 0, 60);
    // The best 30 of shared memory, and the session.
    let both = [("session", (2, 2)), ("shared", (30, 30))];
    assert_candidates(&mut client, ", session_id => 's'", &both);
    assert_candidates(&mut client, "", &both);
    // top_k * 3 where that is more.
    let more = [("session", (2, 2)), ("shared", (36, 36))];
    assert_candidates(&mut client, ", session_id => 's', top_k => 12", &more);
    let found = recalled_texts(&mut client, &format!("{QUESTION}, session_id => 's', top_k => 62"));
    assert!(found.contains(&"Our pie burned.".to_owned()), "{found:?}");
}

#[test]
fn the_pool_is_bounded_and_each_scope_is_sure_of_a_part() {
    let mut client = fill("candidates_pool", 60, 60);
    let explained = explain(&mut client, &format!("{QUESTION}, session_id => 's'"));
    assert_eq!(explained["rows"]["pool"], 50);
    let pools = candidates(&explained);
    assert_eq!(pools["session"], (2, 2));
    assert!(pools["global"].1 >= 16 && pools["shared"].1 >= 16, "{pools:?}");
    // Also where no session is named.
    let pools = candidates(&explain(&mut client, QUESTION));
    assert_eq!(pools["session"], (2, 2));
    assert!(pools["global"].1 >= 16 && pools["shared"].1 >= 16, "{pools:?}");
    // Without rows of a session its places go to the others.
    let explained = explain(&mut client, &format!("{QUESTION}, session_id => 'new', top_k => 2"));
    let pools = candidates(&explained);
    assert_eq!(pools["global"].1 + pools["shared"].1, 50, "{pools:?}");
}

#[test]
fn large_scopes_are_searched_alike() {
    let mut client = fill("candidates_index", 40, 60);
    let questions = [", session_id => 's'", "", ", session_id => 's', top_k => 20"];
    let exact: Vec<_> = questions
        .iter()
        .map(|arguments| candidates(&explain(&mut client, &format!("{QUESTION}{arguments}"))))
        .collect();
    assert_eq!(exact[0]["session"], (2, 2));
    run(&mut client, "ANALYZE memory_agent.entries; SET memory_agent.exact_scan_rows = 0");
    for (arguments, exact) in questions.iter().zip(exact) {
        let explained = explain(&mut client, &format!("{QUESTION}{arguments}"));
        assert_ne!(explained["mode"], "exact");
        assert_eq!(candidates(&explained), exact, "{arguments}");
    }
}

/// Also by meaning: the dense arm has its candidates of each scope, through a vector index too.
#[test]
fn the_dense_arm_has_candidates_of_each_scope() {
    let mut client = shared().database("candidates_dense").connect();
    run(&mut client, "SET memory_agent.rerank = off");
    ingest(&mut client, "s", "We burned it in the oven.");
    client
        .execute(
            "SELECT memory_add(format('How to bake a cake, step %s', n), infer => false, user_id => '*') \
               FROM generate_series(1, 40) n",
            &[],
        )
        .unwrap();
    let question = "'the baking of cakes', session_id => 's'";
    let of_session = |client: &mut Client| candidates(&explain(client, question))["session"];
    assert_eq!(of_session(&mut client), (1, 1));
    run(&mut client, "ANALYZE memory_agent.entries; SET memory_agent.exact_scan_rows = 0");
    assert_eq!(of_session(&mut client), (1, 1));
    let _: String = value(&mut client, "SELECT memory_create_vector_index()", &[]);
    assert_eq!(of_session(&mut client), (1, 1));
    run(&mut client, "SET memory_agent.exact_scan_rows = 10");
    assert_eq!(of_session(&mut client), (1, 1), "a small part of a large scope is read");
}

/// Scores are those of one list: rows in three scopes have the scores that they have in one.
#[test]
fn scores_do_not_depend_on_the_scopes_of_the_rows() {
    let texts =
        ["Apple pie recipe with cinnamon.", "A recipe of apple pie.", "An apple pie.", "An apple."];
    let scores = |name: &str, scopes: [(&str, Option<&str>); 4]| -> Vec<[f64; 3]> {
        let mut client = shared().database(name).connect();
        run(
            &mut client,
            "SET memory_agent.embed_on_ingest = off; SET memory_agent.rerank = off; \
             SET memory_agent.ranking = weighted",
        );
        let add =
            "SELECT memory_add($1, $2, user_id => $3, infer => false, created_at => '2024-01-01')";
        for (text, (user, session)) in texts.iter().zip(scopes) {
            client.execute(add, &[text, &session, &user]).expect("a fact");
        }
        let explained = explain(&mut client, &format!("{QUESTION}, session_id => 's'"));
        let candidates = explained["candidates"].as_array().unwrap().iter();
        let mut scores: Vec<[f64; 3]> = candidates
            .map(|row| ["lexical", "fused", "relevance"].map(|part| row[part].as_f64().unwrap()))
            .collect();
        scores.sort_by(|left, right| left.partial_cmp(right).unwrap());
        scores
    };
    let (session, global, everybody) = (("alice", Some("s")), ("alice", None), ("*", None));
    let one = scores("candidates_one", [session; 4]);
    let three = scores("candidates_three", [session, global, everybody, global]);
    assert_eq!(one, three);
    // The worst of all has 0, wherever it is, and no other row has.
    assert_eq!(one.iter().filter(|[.., relevance]| *relevance == 0.0).count(), 1, "{one:?}");
    assert_eq!(one.len(), texts.len());
}
