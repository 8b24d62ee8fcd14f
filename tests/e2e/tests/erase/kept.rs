//! What an erasure leaves alone: memories that only say otherwise, work on other people's rows, and
//! counts of what was not erased.

use crate::erase;
use crate::parts::{contents, fact_of};
use memory_agent_e2e::memory::{ingest, run, value, values};
use memory_agent_e2e::{Client, Cluster, Uuid, shared_without_worker, wait_until};
use std::time::Duration;

/// Ends a fact as the worker does: for this reason, by what took its place or what was said against it.
fn end(client: &mut Client, fact: Uuid, reason: &str, by: Uuid) {
    let ended = client.execute(
        "UPDATE memory_agent.entries SET state = 'inactive', state_reason = $2, replaced_by = $3, \
                state_at = now(), valid_to = now() \
          WHERE id = $1",
        &[&fact, &reason, &by],
    );
    assert_eq!(ended.expect("the end of a fact"), 1);
    let op = if reason == "superseded" { "supersede" } else { "delete" };
    client
        .execute(
            "INSERT INTO memory_agent.history (id, user_id, entry_id, op, body, salt, commitment) \
             VALUES (gen_random_uuid(), 'alice', $1, $2, '{}', '\\x00', sha256('\\x00' || '{}'::bytea))",
            &[&fact, &op],
        )
        .expect("an event");
}

#[test]
fn what_contradicts_it_stays() {
    let mut client = shared_without_worker().database("erase_contradicted").connect();
    let turns = ["I am in Paris.", "I am at Acme.", "I left Acme and Paris."]
        .map(|text| ingest(&mut client, "s", text));
    let paris = fact_of(&mut client, "Lives in Paris.", Some("s"), &turns[..1]);
    let acme = fact_of(&mut client, "Works at Acme.", Some("s"), &turns[1..2]);
    fact_of(&mut client, "Is on the move.", Some("s"), &turns[2..]);
    for fact in [paris, acme] {
        end(&mut client, fact, "contradicted", turns[2]);
    }
    let counts = erase(&mut client, &format!("id => '{paris}'"));
    assert_eq!((&counts["entries"], &counts["history"]), (&1.into(), &2.into()), "{counts}");
    assert_eq!(
        contents(&mut client),
        [
            "I am at Acme.",
            "I am in Paris.",
            "I left Acme and Paris.",
            "Is on the move.",
            "Works at Acme."
        ]
    );
    // Nor does what it contradicts go with the turn.
    erase(&mut client, &format!("id => '{}'", turns[2]));
    assert_eq!(contents(&mut client), ["I am at Acme.", "I am in Paris.", "Works at Acme."]);
}

#[test]
fn facts_learned_of_one_after_the_other_are_memories_of_their_own() {
    let mut client = shared_without_worker().database("erase_independent").connect();
    let turns = ["I drink tea.", "I have a boat.", "I drink it there.", "I sold the boat."]
        .map(|text| ingest(&mut client, "s", text));
    let [tea, boat, both, sold] = [
        "Prefers green tea.",
        "Owns a boat.",
        "Spends Sundays with tea afloat.",
        "Lives on land now.",
    ];
    let facts: Vec<Uuid> = [tea, boat, both, sold]
        .iter()
        .zip(turns)
        .map(|(text, turn)| fact_of(&mut client, text, Some("s"), &[turn]))
        .collect();
    // Two become one, which is contradicted. The key goes on, without making versions of them.
    end(&mut client, facts[0], "superseded", facts[2]);
    end(&mut client, facts[1], "superseded", facts[2]);
    end(&mut client, facts[2], "contradicted", facts[3]);
    run(
        &mut client,
        "UPDATE memory_agent.entries SET fact_key = 'boat' \
          WHERE kind = 'fact' AND content ~ 'afloat|on land'",
    );
    run(&mut client, &format!("SELECT memory_forget('{}')", facts[2]));
    let mut facts_left = |erased: Uuid| -> Vec<String> {
        assert_eq!(erase(&mut client, &format!("id => '{erased}'"))["entries"], 1);
        values(
            &mut client,
            "SELECT content FROM memory_agent.entries WHERE kind = 'fact' ORDER BY recorded_at",
            &[],
        )
    };
    assert_eq!(facts_left(facts[2]), [tea, boat, sold]);
    assert_eq!(facts_left(facts[0]), [boat, sold]);
    assert_eq!(facts_left(facts[3]), [boat]);
}

#[test]
fn what_somebody_changed_it_to_goes_with_it() {
    let mut client = shared_without_worker().database("erase_updated").connect();
    let update = "SELECT memory_update($1, $2)";
    let add = "SELECT memory_add($1, infer => false, fact_key => 'home')";
    for erased in 0..3 {
        let first: Uuid = value(&mut client, "SELECT memory_add('A', infer => false)", &[]);
        let second: Uuid = value(&mut client, update, &[&first, &"B"]);
        let third: Uuid = value(&mut client, update, &[&second, &"C"]);
        // Forgotten versions are versions.
        run(&mut client, &format!("SELECT memory_forget('{first}'), memory_forget('{third}')"));
        let counts = erase(&mut client, &format!("id => '{}'", [first, second, third][erased]));
        assert_eq!(counts["entries"], 3, "{erased}: {counts}");
        let keyed = ["D", "E", "F"].map(|text| value::<Uuid>(&mut client, add, &[&text]));
        run(&mut client, &format!("SELECT memory_forget('{}')", keyed[1]));
        let counts = erase(&mut client, &format!("id => '{}'", keyed[erased]));
        assert_eq!(counts["entries"], 3, "{erased}: {counts}");
    }
    // Brought back, it took the place of what it had been changed to.
    let first: Uuid = value(&mut client, "SELECT memory_add('A', infer => false)", &[]);
    let second: Uuid = value(&mut client, update, &[&first, &"B"]);
    run(&mut client, &format!("SELECT memory_forget('{second}')"));
    assert!(value::<bool>(&mut client, "SELECT memory_restore($1)", &[&first]));
    assert_eq!(erase(&mut client, &format!("id => '{first}'"))["entries"], 2);
    // What it was before it was brought back does not bind it to what contradicts it now.
    let first: Uuid = value(&mut client, "SELECT memory_add('A', infer => false)", &[]);
    let second: Uuid = value(&mut client, update, &[&first, &"B"]);
    run(&mut client, &format!("SELECT memory_forget('{second}')"));
    assert!(value::<bool>(&mut client, "SELECT memory_restore($1)", &[&first]));
    let other: Uuid = value(&mut client, "SELECT memory_add('Z', infer => false)", &[]);
    end(&mut client, first, "contradicted", other);
    assert_eq!(erase(&mut client, &format!("id => '{first}'"))["entries"], 2);
    assert_eq!(contents(&mut client), ["Z"]);
}

#[test]
fn tables_are_taken_in_for_everybody_else() {
    let cluster = Cluster::builder().preload(true).setting("memory_agent.worker", "off").start();
    let mut client = cluster.database("db").connect();
    run(
        &mut client,
        "CREATE TABLE notes (id int PRIMARY KEY, body text, owner text); \
         INSERT INTO notes SELECT i, 'Note ' || i, 'bob' FROM generate_series(1, 50) i; \
         SELECT memory_attach('notes', 'body', user_id_column => 'owner'); \
         INSERT INTO memory_agent.jobs (id, kind, user_id, agent_id, status) \
             VALUES (gen_random_uuid(), 'reembed', 'alice', 'default', 'dead'); \
         INSERT INTO memory_agent.jobs (id, kind, user_id, agent_id, entry_id, status, payload) \
             VALUES (gen_random_uuid(), 'attach', 'alice', 'default', gen_random_uuid(), 'dead', \
                     '{\"attachment\": \"00000000-0000-0000-0000-000000000000\", \"keys\": [[\"alice@example.com\"]]}')",
    );
    let jobs =
        "SELECT concat_ws(' ', kind, status, payload ? 'keys') FROM memory_agent.jobs ORDER BY 1";
    let all = ["attach dead t", "attach pending f", "reembed dead f"];
    assert_eq!(values::<String>(&mut client, jobs, &[]), all);
    let fact: Uuid = value(&mut client, "SELECT memory_add('A fact.', infer => false)", &[]);
    assert_eq!(erase(&mut client, &format!("id => '{fact}'"))["entries"], 1);
    run(&mut client, "DELETE FROM memory_agent.jobs WHERE kind = 'embed'");
    assert_eq!(values::<String>(&mut client, jobs, &[]), all);
    // Rows of this user that were refused are this user's; their keys may say who that is.
    assert_eq!(erase(&mut client, "user_id => 'alice'")["jobs"], 1);
    assert_eq!(values::<String>(&mut client, jobs, &[]), all[1..]);
    cluster.alter_system("memory_agent.worker", Some("on"));
    wait_until(Duration::from_secs(90), "the rows of bob", || {
        value::<i64>(
            &mut client,
            "SELECT count(*) FROM memory_agent.entries WHERE user_id = 'bob'",
            &[],
        ) == 50
    });
}

#[test]
fn turns_that_were_counted_are_discounted_once() {
    let mut client = shared_without_worker().database("erase_counts").connect();
    ingest(&mut client, "s", "I like tea.");
    let first = ingest(&mut client, "s", "I live in Rome.");
    let second: Uuid = value(&mut client, "SELECT memory_update($1, 'I live in Oslo.')", &[&first]);
    let counts = "SELECT concat_ws(' ', s.turn_count, p.turn_count) \
                    FROM memory_agent.sessions s JOIN memory_agent.episodes p USING (session_id)";
    assert_eq!(value::<String>(&mut client, counts, &[]), "2 2");
    // A source of memory_add, and a row of an attached table: neither was counted.
    let copy = "INSERT INTO memory_agent.entries \
                SELECT (jsonb_populate_record(e, jsonb_build_object('id', gen_random_uuid(), \
                            'content', 'A copy.', 'episode_id', NULL) || $2)).* \
                  FROM memory_agent.entries e WHERE e.id = $1 RETURNING id";
    let at: String = value(
        &mut client,
        "SELECT to_jsonb(created_at) #>> '{}' FROM memory_agent.entries WHERE id = $1",
        &[&second],
    );
    let source = memory_agent_e2e::json!({"state": "inactive", "valid_to": at});
    let row = memory_agent_e2e::json!({"source_relation": "public.notes", "source_key": [1]});
    for uncounted in [source, row] {
        let id: Uuid = value(&mut client, copy, &[&second, &uncounted]);
        assert_eq!(erase(&mut client, &format!("id => '{id}'"))["entries"], 1);
        assert_eq!(value::<String>(&mut client, counts, &[]), "2 2", "{uncounted}");
    }
    assert_eq!(erase(&mut client, &format!("id => '{first}'"))["entries"], 2);
    assert_eq!(value::<String>(&mut client, counts, &[]), "1 1");
}
