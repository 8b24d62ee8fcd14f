//! `memory_restore`: whatever ended it, an entry comes back, unless something else is in its place.

use crate::{
    expect_counters, fact, forget, moment, quiet, restore, say, state, summarise, update, window,
};
use memory_agent_e2e::memory::{recalled_texts, run, value, values};
use memory_agent_e2e::{Client, Uuid, expect_error, shared};

/// The refusal of a restore, with its hint.
#[track_caller]
fn refused(client: &mut Client, id: Uuid) -> String {
    expect_error(client.query("SELECT memory_restore($1)", &[&id]), "55000")
}

#[test]
fn what_was_forgotten_holds_again_as_if_nothing_had_happened() {
    let mut client = quiet("restore_forgotten");
    let turn = say(&mut client, "s", "The ferry leaves at nine.");
    let known = fact(&mut client, Some("s"), "Takes the ferry.");
    let global = fact(&mut client, None, "Is afraid of ferries.");
    assert!(!restore(&mut client, turn), "there is nothing to bring back");
    let held = moment(&mut client);
    for id in [turn, known, global] {
        forget(&mut client, id);
    }
    let gone = moment(&mut client);
    let at = |client: &mut Client, when: &str| {
        recalled_texts(client, &format!("'ferry ferries', 's'{when}")).len()
    };
    assert_eq!(at(&mut client, ""), 0);
    assert_eq!(at(&mut client, &format!(", as_of => '{gone}'")), 0);
    for id in [turn, known, global] {
        assert!(restore(&mut client, id));
        assert_eq!(state(&mut client, id), "active");
        assert!(!restore(&mut client, id));
    }
    // One interval a row: the time in which it was forgotten is not told apart.
    for when in [held, gone] {
        assert_eq!(at(&mut client, &format!(", as_of => '{when}'")), 3);
    }
    assert_eq!(at(&mut client, ""), 3);
    assert_eq!(window(&mut client, "s"), ["The ferry leaves at nine."]);
    expect_counters(&mut client, "s");
}

#[test]
fn a_cleared_session_comes_back() {
    let mut client = quiet("restore_cleared");
    for text in ["One.", "Two.", "Three."] {
        say(&mut client, "s", text);
    }
    fact(&mut client, Some("s"), "Counts.");
    run(&mut client, "SELECT memory_clear('s')");
    let back: Vec<bool> = values(
        &mut client,
        "SELECT memory_restore(id) FROM memory_agent.entries \
          WHERE session_id = 's' AND state_reason = 'deleted' ORDER BY created_at, id",
        &[],
    );
    assert_eq!(back, [true; 4]);
    assert_eq!(window(&mut client, "s"), ["One.", "Two.", "Three."]);
    expect_counters(&mut client, "s");
}

#[test]
fn what_left_the_window_returns_to_it() {
    let mut client = quiet("restore_archived");
    let turns: Vec<Uuid> =
        ["One.", "Two.", "Three."].iter().map(|text| say(&mut client, "s", text)).collect();
    summarise(&mut client, "s", &turns[..1]);
    run(&mut client, "SELECT memory_reserve_tokens('s', 12)");
    assert!(!window(&mut client, "s").contains(&"One.".to_owned()));
    expect_counters(&mut client, "s");
    assert!(restore(&mut client, turns[0]));
    assert!(window(&mut client, "s").contains(&"One.".to_owned()));
    expect_counters(&mut client, "s");
    // Forgotten and restored, it is covered by the summary all the time.
    forget(&mut client, turns[0]);
    expect_counters(&mut client, "s");
    restore(&mut client, turns[0]);
    expect_counters(&mut client, "s");
}

/// Swept or not: what was only for a time stays for good from now on.
#[test]
fn what_expired_stays_for_good() {
    let mut client = quiet("restore_expired");
    let turn = say(&mut client, "s", "Today only.");
    let sql = "UPDATE memory_agent.entries SET expires_at = now() - interval '1 s' WHERE id = $1";
    client.execute(sql, &[&turn]).unwrap();
    assert!(window(&mut client, "s").is_empty());
    assert!(restore(&mut client, turn));
    let forever: bool =
        value(&mut client, "SELECT expires_at IS NULL FROM memory_agent.entries", &[]);
    assert!(forever);
    assert_eq!(window(&mut client, "s"), ["Today only."]);
    expect_counters(&mut client, "s");
    // As the sweep leaves it.
    run(
        &mut client,
        "UPDATE memory_agent.entries SET state = 'inactive', state_reason = 'expired', state_at = now(), \
                expires_at = now() - interval '1 s', valid_to = now() - interval '1 s'; \
         UPDATE memory_agent.sessions SET active_entries = 0, active_tokens = 0",
    );
    assert!(restore(&mut client, turn));
    assert_eq!(window(&mut client, "s"), ["Today only."]);
    expect_counters(&mut client, "s");
}

#[test]
fn whoever_holds_the_place_is_named() {
    let mut client = quiet("restore_refused");
    let keyed = "SELECT memory_add($1, 's', infer => false, fact_key => 'home')";
    let old: Uuid = value(&mut client, keyed, &[&"Lives in Oslo."]);
    let new: Uuid = value(&mut client, keyed, &[&"Lives in Rome."]);
    assert!(refused(&mut client, old).contains(&format!("memory_forget('{new}')")));
    forget(&mut client, new);
    assert!(restore(&mut client, old));
    assert!(refused(&mut client, new).contains("key \"home\""));
    assert_eq!(recalled_texts(&mut client, "'lives', 's'"), ["Lives in Oslo."]);
    expect_counters(&mut client, "s");

    let said = fact(&mut client, Some("s"), "Likes tea.");
    forget(&mut client, said);
    let again = fact(&mut client, Some("s"), "Likes tea.");
    assert!(refused(&mut client, said).contains(&again.to_string()));

    let row = say(&mut client, "s", "A row.");
    let other = say(&mut client, "s", "The row as it is now.");
    forget(&mut client, row);
    let sql = "UPDATE memory_agent.entries SET source_relation = 'public.notes', source_key = '1' WHERE id = $1";
    for id in [row, other] {
        client.execute(sql, &[&id]).unwrap();
    }
    assert!(refused(&mut client, row).contains("row of its table"));

    client.execute("UPDATE memory_agent.entries SET content = '' WHERE id = $1", &[&said]).unwrap();
    forget(&mut client, again);
    assert!(refused(&mut client, said).contains("deleted for good"));
    expect_error(client.query("SELECT memory_restore(NULL)", &[]), "22004");
    assert!(!restore(&mut client, Uuid::from_u128(7)));
}

/// A fact that was replaced by what was learned later is not a version of it: both may hold.
#[test]
fn a_fact_that_was_replaced_without_a_key_comes_back_beside_the_new_one() {
    let mut client = quiet("restore_superseded");
    let old = fact(&mut client, None, "Works in Bonn.");
    let new = fact(&mut client, None, "Works in Bern.");
    for reason in ["superseded", "contradicted"] {
        client
            .execute(
                "UPDATE memory_agent.entries SET state = 'inactive', state_reason = $3, state_at = now(), \
                        valid_to = now(), replaced_by = $2 WHERE id = $1",
                &[&old, &new, &reason],
            )
            .unwrap();
        assert!(restore(&mut client, old));
        assert_eq!(recalled_texts(&mut client, "'works'").len(), 2);
    }
}

/// An update is undone by forgetting the new version and restoring the old one; then the new one never
/// held. And back again.
#[test]
fn an_update_is_undone() {
    let mut client = quiet("restore_version");
    for (session, kind) in [(Some("s"), "turn"), (Some("s"), "fact"), (None, "fact")] {
        run(
            &mut client,
            "SELECT memory_forget(id) FROM memory_agent.entries WHERE state = 'active'",
        );
        let old = match (kind, session) {
            ("turn", Some(session)) => say(&mut client, session, "The colour is red."),
            _ => fact(&mut client, session, "The colour is red."),
        };
        let first = moment(&mut client);
        let newer = update(&mut client, old, "The colour is blue.");
        let second = moment(&mut client);
        let newest = update(&mut client, newer, "The colour is black.");
        let third = moment(&mut client);
        let at = |client: &mut Client| -> Vec<String> {
            [first, second, third]
                .iter()
                .flat_map(|when| {
                    recalled_texts(
                        client,
                        &format!("'colour', kinds => '{{{kind}}}', as_of => '{when}'"),
                    )
                })
                .map(|text| text.trim_start_matches("The colour is ").to_owned())
                .collect()
        };
        for version in [old, newer] {
            assert!(refused(&mut client, version).contains(&format!("memory_forget('{newest}')")));
        }
        forget(&mut client, newest);
        assert!(restore(&mut client, old));
        assert_eq!(at(&mut client), ["red.", "red.", "red."], "{kind}");
        assert!(refused(&mut client, newest).contains(&format!("memory_forget('{old}')")));
        forget(&mut client, old);
        assert!(restore(&mut client, newer));
        // A fact held from its update on; of a turn the text that was said is there from the beginning,
        // now that no other version was.
        let held: &[&str] =
            if kind == "turn" { &["blue.", "blue.", "blue."] } else { &["blue.", "blue."] };
        assert_eq!(at(&mut client), held, "{kind}");
        let last = update(&mut client, newer, "The colour is green.");
        assert!(![old, newer, newest].contains(&last));
        assert_eq!(
            recalled_texts(&mut client, "'colour', recency_weight => 0"),
            ["The colour is green."]
        );
        let seen = format!("SELECT count(DISTINCT content) FROM memory_history('{old}')");
        assert_eq!(value::<i64>(&mut client, &seen, &[]), 4, "all versions are one memory");
        expect_counters(&mut client, "s");
    }
}

/// Vectors of another model cannot be compared: the embed job makes new ones.
#[test]
fn an_embedding_of_another_model_is_made_anew() {
    let mut client = shared().database("restore_model").connect();
    let turn = say(&mut client, "s", "The piano is out of tune.");
    forget(&mut client, turn);
    run(
        &mut client,
        "UPDATE memory_agent.entries SET embedding_model = 'another', embedding = '[1,2]'",
    );
    assert!(restore(&mut client, turn));
    assert!(value::<bool>(&mut client, "SELECT memory_wait('90 s')", &[]));
    let fits: bool = value(
        &mut client,
        "SELECT embedding_model <> 'another' AND vector_dims(embedding) > 100 FROM memory_agent.entries",
        &[],
    );
    assert!(fits);
}
