//! `memory_update`: a new version takes the place of the old one.

use crate::{
    expect_counters, fact, forget, moment, quiet, restore, say, state, summarise, update, window,
};
use memory_agent_e2e::memory::{recall, recalled_texts, run, value, values};
use memory_agent_e2e::{Client, Uuid, expect_error, shared, shared_without_worker, sqlstate};

#[test]
fn a_turn_keeps_its_place_and_what_was_known_about_it() {
    let mut client = quiet("update_turn");
    let turns: Vec<Uuid> = values(
        &mut client,
        r#"SELECT memory_ingest_batch('[
            {"role": "user", "content": "I fly to Rom on Friday.", "metadata": {"trip": 7.10}, "markers": ["custom:trip"]},
            {"role": "assistant", "content": "Noted."},
            {"role": "user", "content": "At nine."}]', 's')"#,
        &[],
    );
    let new = update(&mut client, turns[0], "I fly to Rome on Friday.");
    assert_ne!(new, turns[0]);
    assert_eq!(window(&mut client, "s"), ["I fly to Rome on Friday.", "Noted.", "At nine."]);
    // Once more: behind a version that has its id next to the first one.
    let newest = update(&mut client, new, "I fly to Rome on Saturday.");
    assert_eq!(window(&mut client, "s"), ["I fly to Rome on Saturday.", "Noted.", "At nine."]);
    let same: bool = value(
        &mut client,
        "SELECT count(DISTINCT (created_at, agent_id, session_id, kind, role, metadata::text, markers, \
                                episode_id, source_ids, expires_at)) = 1 AND count(*) = 3 \
           FROM memory_agent.entries WHERE id = ANY ($1)",
        &[&vec![turns[0], new, newest]],
    );
    assert!(same);
    let chain: Vec<String> = values(
        &mut client,
        "SELECT concat_ws(' ', state, state_reason, (replaced_by = $2)::text, (valid_to = state_at)::text) \
           FROM memory_agent.entries WHERE id = $1",
        &[&turns[0], &new],
    );
    assert_eq!(chain, ["inactive superseded true true"]);
    expect_counters(&mut client, "s");
    let count: i64 = value(
        &mut client,
        "SELECT turn_count FROM memory_agent.sessions WHERE session_id = 's'",
        &[],
    );
    assert_eq!(count, 3, "nothing more was said");
}

#[test]
fn recall_finds_each_version_in_its_time() {
    let mut client = quiet("update_as_of");
    let turn: Uuid = value(
        &mut client,
        "SELECT memory_ingest('s', 'user', 'The boat is blue.', created_at => '2025-03-01')",
        &[],
    );
    let known = fact(&mut client, Some("s"), "The boat is called Mary.");
    let before = moment(&mut client);
    update(&mut client, turn, "The boat is green.");
    let renamed = update(&mut client, known, "The boat is called Ann.");
    let between = moment(&mut client);
    let newest = update(&mut client, renamed, "The boat is called Eve.");

    let mut at = |when: &str| {
        let mut texts = recalled_texts(&mut client, &format!("'boat', 's'{when}"));
        texts.sort();
        texts
    };
    assert_eq!(at(""), ["The boat is called Eve.", "The boat is green."]);
    assert_eq!(at(", as_of => '2025-04-01'"), ["The boat is blue."]);
    assert_eq!(
        at(&format!(", as_of => '{before}'")),
        ["The boat is blue.", "The boat is called Mary."]
    );
    assert_eq!(
        at(&format!(", as_of => '{between}'")),
        ["The boat is called Ann.", "The boat is green."]
    );
    let holds_from_now: bool = value(
        &mut client,
        "SELECT created_at > $2 AND state = 'active' FROM memory_agent.entries WHERE id = $1",
        &[&newest, &between],
    );
    assert!(holds_from_now, "a fact holds from its update on");
}

#[test]
fn a_fact_keeps_its_key() {
    let mut client = quiet("update_key");
    let old: Uuid = value(
        &mut client,
        "SELECT memory_add('Lives in Oslo.', infer => false, fact_key => 'home', ttl => '1 day')",
        &[],
    );
    let new = update(&mut client, old, "Lives in Bergen.");
    let kept: bool = value(
        &mut client,
        "SELECT n.fact_key = 'home' AND n.expires_at = o.expires_at AND n.session_id IS NULL \
           FROM memory_agent.entries n, memory_agent.entries o WHERE n.id = $1 AND o.id = $2",
        &[&new, &old],
    );
    assert!(kept);
    let next: Uuid = value(
        &mut client,
        "SELECT memory_add('Lives in Rome.', infer => false, fact_key => 'home')",
        &[],
    );
    assert_eq!(state(&mut client, new), "inactive superseded ended");
    assert_eq!(recalled_texts(&mut client, "'lives'"), ["Lives in Rome."]);
    assert_ne!(next, new);
}

/// Nobody keeps two facts that say the same.
#[test]
fn a_fact_that_says_so_already_takes_the_place() {
    let mut client = quiet("update_join");
    let old: Uuid = value(
        &mut client,
        "SELECT memory_add('Has a dog.', 's', infer => false, fact_key => 'pet')",
        &[],
    );
    let known = fact(&mut client, Some("s"), "Has a cat.");
    assert_eq!(update(&mut client, old, "Has a cat."), known);
    let key: String =
        value(&mut client, "SELECT fact_key FROM memory_agent.entries WHERE id = $1", &[&known]);
    assert_eq!(key, "pet");
    assert_eq!(recalled_texts(&mut client, "'dog cat', 's'"), ["Has a cat."]);
    expect_counters(&mut client, "s");

    // With keys of their own they stay two, and another session's fact is another fact.
    let other: Uuid = value(
        &mut client,
        "SELECT memory_add('Had a hamster.', 's', infer => false, fact_key => 'former pet')",
        &[],
    );
    let kept = update(&mut client, other, "Has a cat.");
    assert!(kept != known && kept != other);
    let elsewhere = fact(&mut client, Some("t"), "Has a cow.");
    assert_ne!(update(&mut client, elsewhere, "Has a cat."), known);
    expect_counters(&mut client, "s");
}

/// A fact that the user corrected is no longer what its turn says.
#[test]
fn the_turn_of_a_corrected_fact_is_stale() {
    let mut client = quiet("update_stale");
    let turn = say(&mut client, "s", "I live in Lisbon, near the river.");
    let old = fact(&mut client, Some("s"), "Lives in Lisbon.");
    client
        .execute(
            "UPDATE memory_agent.entries SET source_ids = ARRAY[$2::uuid], confidence = 0.9, \
                    metadata = '{\"job_id\": \"0\", \"x\": 1}' WHERE id = $1",
            &[&old, &turn],
        )
        .unwrap();
    let new = update(&mut client, old, "Lives in Porto.");
    let rows = recall(&mut client, "'lives Lisbon Porto', 's'");
    assert_eq!(rows.iter().map(|row| row.id).collect::<Vec<_>>(), [new, turn], "{rows:?}");
    assert_eq!(rows[1].metadata["superseded_by"], new.to_string());
    let kept: bool = value(
        &mut client,
        "SELECT source_ids = ARRAY[$2::uuid] AND confidence IS NULL AND metadata = '{\"x\": 1}' \
           FROM memory_agent.entries WHERE id = $1",
        &[&new, &turn],
    );
    assert!(kept);
}

#[test]
fn the_same_text_changes_nothing() {
    let mut client = quiet("update_same");
    let turn = say(&mut client, "s", "Hello.");
    assert_eq!(update(&mut client, turn, "Hello."), turn);
    let rows: i64 = value(
        &mut client,
        "SELECT (SELECT count(*) FROM memory_agent.entries) + (SELECT count(*) FROM memory_agent.history)",
        &[],
    );
    assert_eq!(rows, 1);
}

#[test]
fn markers_that_the_old_text_showed_are_looked_for_anew() {
    let mut client = quiet("update_markers");
    let turn: Uuid =
        value(&mut client, "SELECT memory_ingest('s', 'user', 'Decision: we use Rust.')", &[]);
    client
        .execute(
            "UPDATE memory_agent.entries SET markers = markers || '{custom:team}' WHERE id = $1",
            &[&turn],
        )
        .unwrap();
    let markers = |client: &mut Client, id: Uuid| -> Vec<String> {
        value(client, "SELECT markers FROM memory_agent.entries WHERE id = $1", &[&id])
    };
    assert_eq!(markers(&mut client, turn), ["decision", "custom:team"]);
    let new = update(&mut client, turn, "You must not use Perl.");
    assert_eq!(markers(&mut client, new), ["custom:team", "constraint"]);
    run(&mut client, "SET memory_agent.auto_detect_markers = off");
    let newest = update(&mut client, new, "We use what we like.");
    assert_eq!(markers(&mut client, newest), ["custom:team", "constraint"]);
}

#[test]
fn what_left_the_window_stays_out_of_it_and_is_summarised_again() {
    let mut client = quiet("update_archived");
    let old = say(&mut client, "s", "The meeting is on Monday.");
    let kept = say(&mut client, "s", "It is in room four.");
    client
        .execute(
            "UPDATE memory_agent.entries SET state = 'archived', state_reason = 'compressed' WHERE id = $1",
            &[&old],
        )
        .unwrap();
    run(
        &mut client,
        "UPDATE memory_agent.sessions s SET active_entries = 1, \
            active_tokens = (SELECT sum(token_count) FROM memory_agent.entries WHERE state = 'active')",
    );
    summarise(&mut client, "s", &[old, kept]);
    expect_counters(&mut client, "s");
    let new = update(&mut client, old, "The meeting is on Tuesday, not on Monday.");
    assert_eq!(state(&mut client, new), "archived compressed");
    assert_eq!(window(&mut client, "s"), ["So they said.", "It is in room four."]);
    assert_eq!(
        recalled_texts(&mut client, "'meeting', 's'"),
        ["The meeting is on Tuesday, not on Monday."]
    );
    expect_counters(&mut client, "s");
    // One that is in the window and that the summary covers.
    update(&mut client, kept, "It is in room five, on the left.");
    expect_counters(&mut client, "s");
}

#[test]
fn the_new_text_is_embedded_as_by_ingest() {
    let mut client = shared().database("update_embedding").connect();
    let turn = say(&mut client, "s", "The key is under the mat.");
    let new = update(&mut client, turn, "My sister plays the violin.");
    let found = recall(&mut client, "'Who makes music in the family?', 's', rerank => false");
    assert_eq!(found[0].id, new);
    assert!(found[0].similarity.is_some_and(|similarity| similarity > 0.5), "{found:?}");
    run(&mut client, "SET memory_agent.embed_on_ingest = async");
    let later = update(&mut client, new, "My brother plays the flute.");
    assert!(value::<bool>(&mut client, "SELECT memory_wait('90 s')", &[]));
    let embedded: bool = value(
        &mut client,
        "SELECT embedding IS NOT NULL AND token_count_exact FROM memory_agent.entries WHERE id = $1",
        &[&later],
    );
    assert!(embedded);
}

#[test]
fn what_cannot_be_updated_is_refused() {
    let mut client = quiet("update_refused");
    let turn = say(&mut client, "s", "Hello.");
    let unknown = Uuid::from_u128(7);
    let bobs: Uuid =
        value(&mut client, "SELECT memory_ingest('s', 'user', 'Of Bob.', user_id => 'bob')", &[]);
    run(&mut client, "SELECT memory_add_document('A tale.\n\nThe end.')");
    let chunk: Uuid =
        value(&mut client, "SELECT id FROM memory_agent.entries WHERE kind = 'document'", &[]);
    let row = say(&mut client, "s", "A row.");
    client
        .execute(
            "UPDATE memory_agent.entries SET source_relation = 'public.notes', source_key = '1' WHERE id = $1",
            &[&row],
        )
        .unwrap();
    let mut refused = |id: Uuid, content: &str, code: &str| {
        expect_error(client.query("SELECT memory_update($1, $2)", &[&id, &content]), code)
    };
    for id in [unknown, bobs] {
        assert!(refused(id, "New.", "42704").contains("no entry"));
    }
    assert!(refused(chunk, "New.", "42809").contains("chunk of a document"));
    assert!(refused(row, "New.", "42809").contains("public.notes"));
    for content in ["", " \n", &"x".repeat(2 << 20)] {
        refused(turn, content, "22023");
    }
    for (call, code) in
        [("memory_update(NULL, 'x')", "22004"), ("memory_update(gen_random_uuid(), NULL)", "22023")]
    {
        expect_error(client.query(&format!("SELECT {call}"), &[]), code);
    }
    let by = update(&mut client, turn, "Good morning.");
    let stale = client.query("SELECT memory_update($1, 'Again.')", &[&turn]);
    assert!(expect_error(stale, "55000").contains(&format!("Update {by}")));
    forget(&mut client, by);
    let gone = client.query("SELECT memory_update($1, 'Again.')", &[&by]);
    assert!(expect_error(gone, "55000").contains("memory_restore"));
    restore(&mut client, by);
    client
        .execute(
            "UPDATE memory_agent.entries SET expires_at = now() - interval '1 s' WHERE id = $1",
            &[&by],
        )
        .unwrap();
    expect_error(client.query("SELECT memory_update($1, 'Again.')", &[&by]), "55000");
    run(&mut client, "BEGIN READ ONLY");
    expect_error(client.query("SELECT memory_forget($1)", &[&row]), "25006");
    run(&mut client, "ROLLBACK");
}

/// Two clients correct the same turn at once: one of them is told.
#[test]
fn of_two_updates_at_once_one_wins() {
    let database = shared_without_worker().database("update_race");
    let (mut first, mut second) = (database.connect(), database.connect());
    for session in [Some("s"), None] {
        let id = fact(&mut first, session, "The bus leaves at one.");
        run(&mut first, "BEGIN");
        update(&mut first, id, "The bus leaves at two.");
        let waiting = std::thread::spawn(move || {
            let result =
                second.query("SELECT memory_update($1, 'The bus leaves at three.')", &[&id]);
            (result.map(|_| ()), second)
        });
        memory_agent_e2e::wait_until(
            std::time::Duration::from_secs(60),
            "the second to wait",
            || {
                value::<i64>(
                    &mut first,
                    "SELECT count(*) FROM pg_locks l JOIN pg_stat_activity a USING (pid) \
                  WHERE NOT l.granted AND a.datname = current_database()",
                    &[],
                ) > 0
            },
        );
        run(&mut first, "COMMIT");
        let (result, back) = waiting.join().expect("the second client");
        second = back;
        let error = result.expect_err("the second was too late");
        assert_eq!(sqlstate(&error), "55000");
        let left: Vec<String> = values(
            &mut first,
            "SELECT content FROM memory_agent.entries WHERE state = 'active' AND session_id IS NOT DISTINCT FROM $1",
            &[&session],
        );
        assert_eq!(left, ["The bus leaves at two."]);
    }
}
