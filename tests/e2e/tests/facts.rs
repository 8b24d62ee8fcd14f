//! `memory_add`: facts are stored once, superseded by key, and remembered as they were.

use memory_agent_e2e::memory::{ingest, recall, recalled_texts, run, value, values};
use memory_agent_e2e::{Client, Uuid, expect_error, shared, shared_without_worker};
use std::sync::Barrier;

fn add(client: &mut Client, content: &str) -> Uuid {
    value(client, "SELECT memory_add($1, infer => false)", &[&content])
}

fn add_with_key(client: &mut Client, content: &str, key: &str) -> Uuid {
    value(client, "SELECT memory_add($1, infer => false, fact_key => $2)", &[&content, &key])
}

fn facts(client: &mut Client) -> i64 {
    value(client, "SELECT count(*) FROM memory_agent.entries WHERE state = 'active'", &[])
}

#[test]
fn defaults() {
    let mut client = shared().database("fact_defaults").connect();
    let id = add(&mut client, "Anna was born in Lyon.");
    let row: String = value(
        &mut client,
        "SELECT concat_ws('|', user_id, agent_id, coalesce(session_id, 'global'), kind, role, state, \
                          token_count = memory_count_tokens(content), embedding_model, episode_id IS NULL, \
                          fact_key IS NULL, created_at = recorded_at, expires_at IS NULL) \
           FROM memory_agent.entries WHERE id = $1",
        &[&id],
    );
    assert_eq!(row, "alice|default|global|fact|memory|active|t|memory-embed-small|t|t|t|t");
    let sessions: i64 = value(&mut client, "SELECT count(*) FROM memory_agent.sessions", &[]);
    assert_eq!(sessions, 0, "global memory belongs to no session");
}

#[test]
fn every_argument_is_stored() {
    let mut client = shared().database("fact_arguments").connect();
    run(
        &mut client,
        "SELECT memory_add(content => 'Ferries leave at 8:15.', session_id => 'trip', user_id => 'bob', \
            agent_id => 'planner', metadata => '{\"name\": \"Port\"}', markers => '{constraint}', \
            created_at => '2024-05-01 10:00+00', ttl => '2 days', infer => false, fact_key => 'ferry')",
    );
    let row: String = value(
        &mut client,
        "SELECT concat_ws('|', user_id, agent_id, session_id, metadata, markers, fact_key, \
                          created_at = '2024-05-01 10:00+00', expires_at - recorded_at, \
                          lexemes @@ 'port') \
           FROM memory_agent.entries",
        &[],
    );
    assert_eq!(row, r#"bob|planner|trip|{"name": "Port"}|{constraint}|ferry|t|2 days|t"#);
    let session: String = value(
        &mut client,
        "SELECT concat_ws('/', user_id, agent_id, session_id, turn_count, active_tokens, active_entries) \
           FROM memory_agent.sessions",
        &[],
    );
    assert_eq!(session, "bob/planner/trip/0/0/1", "a fact is an entry of its window, no turn");
}

/// What nobody could keep is not promised.
#[test]
fn extraction_needs_an_llm() {
    let mut client = shared().database("fact_infer").connect();
    let result = client.query("SELECT memory_add('Anna likes tea', infer => true)", &[]);
    let message = expect_error(result, "55000");
    assert!(message.contains("infer => false") && message.contains("llm_base_url"), "{message}");
    let rows: i64 = value(
        &mut client,
        "SELECT (SELECT count(*) FROM memory_agent.entries) + (SELECT count(*) FROM memory_agent.jobs)",
        &[],
    );
    assert_eq!(rows, 0);
}

/// Who does not say is understood: what an LLM can make facts of is a source, all else is a fact.
#[test]
fn whether_facts_are_inferred_depends_on_what_there_is() {
    // Nothing is asked of the LLM: without the worker.
    let mut client = shared_without_worker().database("fact_infer_default").connect();
    let kind = |client: &mut Client, arguments: &str| -> String {
        let id: Uuid = value(client, &format!("SELECT memory_add({arguments})"), &[]);
        value(client, "SELECT kind FROM memory_agent.entries WHERE id = $1", &[&id])
    };
    assert_eq!(kind(&mut client, "'Anna likes tea'"), "fact");
    assert_eq!(kind(&mut client, "'Anna likes milk', infer => NULL"), "fact");
    run(
        &mut client,
        "SELECT memory_set_endpoint('none', 'http://127.0.0.1:9/v1', 'm'); \
         SELECT memory_use_endpoint('none', 'default')",
    );
    assert_eq!(kind(&mut client, "'Anna likes coffee'"), "turn");
    assert_eq!(kind(&mut client, "'Anna likes cocoa', infer => false"), "fact");
    assert_eq!(kind(&mut client, "'Anna likes soda', fact_key => 'drink'"), "fact");
    run(&mut client, "SET memory_agent.extraction = off");
    assert_eq!(kind(&mut client, "'Anna likes water'"), "fact");
    assert_eq!(kind(&mut client, "'Anna likes juice', infer => true"), "turn");
}

#[test]
fn bad_input_is_refused() {
    let mut client = shared().database("fact_bad_input").connect();
    for arguments in [
        "''",
        "NULL",
        "repeat('x', 1048577)",
        "'x', ''",
        "'x', fact_key => ' '",
        "'x', fact_key => repeat('k', 513)",
        "'x', metadata => '[]'",
        "'x', markers => '{nope}'",
        "'x', ttl => '-1 s'",
        "'x', created_at => 'infinity'",
        "'x', agent_id => ''",
    ] {
        let result = client.query(&format!("SELECT memory_add({arguments}, infer => false)"), &[]);
        let message = expect_error(result, "22023");
        assert!(
            message.lines().nth(1).is_some_and(|hint| !hint.is_empty()),
            "{arguments}: {message}"
        );
    }
    let rows: i64 = value(
        &mut client,
        "SELECT (SELECT count(*) FROM memory_agent.entries) + (SELECT count(*) FROM memory_agent.history) \
              + (SELECT count(*) FROM memory_agent.sessions)",
        &[],
    );
    assert_eq!(rows, 0);
}

#[test]
fn the_same_text_is_one_fact() {
    let mut client = shared().database("fact_same_text").connect();
    let first = add(&mut client, "Anna has two cats.");
    assert_eq!(add(&mut client, "Anna has two cats."), first);
    assert_eq!(add(&mut client, "  Anna has two cats.\n"), first);
    run(&mut client, "SET memory_agent.embed_on_ingest = off");
    assert_eq!(add(&mut client, "Anna has two cats."), first, "no embedding is needed for that");
    assert_eq!(facts(&mut client), 1);
}

#[test]
fn a_rewording_is_the_same_fact() {
    let mut client = shared().database("fact_rewording").connect();
    for (text, rewording) in [
        ("Bob lives in Rome.", "Bob is living in Rome"),
        ("Anna's dog is called Rex", "Anna has a dog called Rex"),
    ] {
        let first = add(&mut client, text);
        assert_eq!(add(&mut client, rewording), first, "{rewording}");
    }
    assert_eq!(facts(&mut client), 2);
}

#[test]
fn another_name_number_or_negation_is_another_fact() {
    let mut client = shared().database("fact_differences").connect();
    let statements = [
        "Bob lives in Rome.",
        "Bob lives in Paris.",
        "Clara lives in Rome.",
        "Bob does not live in Rome.",
        "The budget is 500 euros",
        "The budget is 700 euros",
        "The budget is 500 dollars",
        "Bob joined Google",
        "Bob joined Microsoft",
    ];
    for statement in statements {
        add(&mut client, statement);
    }
    assert_eq!(facts(&mut client), statements.len() as i64);
}

#[test]
fn the_same_text_elsewhere_is_another_fact() {
    let mut client = shared().database("fact_scopes").connect();
    let text = "'Anna likes tea'";
    let places = [
        "NULL",
        "'s'",
        "'t'",
        "'s', agent_id => 'coder'",
        "NULL, 'bob'",
        "NULL, agent_id => 'coder'",
    ];
    for place in places {
        for _ in 0..2 {
            run(&mut client, &format!("SELECT memory_add({text}, {place}, infer => false)"));
        }
    }
    assert_eq!(facts(&mut client), places.len() as i64);
    ingest(&mut client, "s", "Anna likes tea");
    assert_eq!(facts(&mut client), places.len() as i64 + 1, "turns are never duplicates");
}

#[test]
fn the_same_fact_added_at_once_is_one_row() {
    let database = shared().database("fact_concurrent");
    let start = Barrier::new(4);
    let ids: Vec<Vec<Uuid>> = std::thread::scope(|scope| {
        let writers: Vec<_> = (0..4)
            .map(|_| {
                let start = &start;
                scope.spawn(move || {
                    let mut client = database.connect();
                    (0..5)
                        .map(|n| {
                            start.wait();
                            add(&mut client, &format!("Locker {n} belongs to Anna."))
                        })
                        .collect()
                })
            })
            .collect();
        writers.into_iter().map(|writer| writer.join().unwrap()).collect()
    });
    assert!(ids.iter().all(|of_writer| *of_writer == ids[0]), "{ids:?}");
    assert_eq!(facts(&mut database.connect()), 5);
}

#[test]
fn a_key_supersedes() {
    let mut client = shared().database("fact_key").connect();
    run(&mut client, "SET memory_agent.user_id = 'bob'");
    let old: Uuid = value(
        &mut client,
        "SELECT memory_add('Bob lives in Rome.', fact_key => 'home', infer => false, \
                           created_at => '2023-01-01 00:00+00')",
        &[],
    );
    let new: Uuid = value(
        &mut client,
        "SELECT memory_add('Bob lives in Oslo.', fact_key => 'home', infer => false, \
                           created_at => '2024-01-01 00:00+00')",
        &[],
    );
    assert_ne!(old, new);
    let ended: bool = value(
        &mut client,
        "SELECT state = 'inactive' AND state_reason = 'superseded' AND state_at IS NOT NULL \
            AND valid_to = '2024-01-01 00:00+00' AND replaced_by = $2 \
           FROM memory_agent.entries WHERE id = $1",
        &[&old, &new],
    );
    assert!(ended);
    assert_eq!(recalled_texts(&mut client, "'Where does Bob live?'"), ["Bob lives in Oslo."]);
    let in_2023 = "'Where does Bob live?', as_of => '2023-06-01'";
    assert_eq!(recalled_texts(&mut client, in_2023), ["Bob lives in Rome."]);
    let on_the_day = "'Where does Bob live?', as_of => '2024-01-01 00:00+00'";
    assert_eq!(recalled_texts(&mut client, on_the_day), ["Bob lives in Oslo."]);
    assert!(recall(&mut client, "'Where does Bob live?', as_of => '2022-01-01'").is_empty());

    let history: Vec<String> = values(
        &mut client,
        "SELECT concat_ws(' ', op, CASE entry_id WHEN $1 THEN 'old' WHEN $2 THEN 'new' END, \
                          body->>'content', body->>'state', reason) \
           FROM memory_agent.history WHERE actor = session_user ORDER BY at, id",
        &[&old, &new],
    );
    assert_eq!(
        history,
        [
            "add old Bob lives in Rome. active",
            "supersede old Bob lives in Rome. inactive home",
            "add new Bob lives in Oslo. active",
        ]
    );
    let committed: bool = value(
        &mut client,
        "SELECT bool_and(commitment = sha256(salt || convert_to(body::text, 'UTF8') \
                                       || coalesce('\\x00'::bytea || convert_to(reason, 'UTF8'), ''))) \
            AND count(DISTINCT salt) = count(*) FROM memory_agent.history",
        &[],
    );
    assert!(committed);
}

#[test]
fn a_key_with_the_same_text_changes_nothing() {
    let mut client = shared().database("fact_key_same").connect();
    let first = add_with_key(&mut client, "Bob lives in Rome.", "home");
    assert_eq!(add_with_key(&mut client, "Bob lives in Rome.", "home"), first);
    // With a key, every other wording counts as news.
    let second = add_with_key(&mut client, "Bob is living in Rome", "home");
    assert_ne!(second, first);
    assert_eq!(facts(&mut client), 1);
}

#[test]
fn a_key_holds_in_its_scope_only() {
    let mut client = shared().database("fact_key_scope").connect();
    for (place, city) in [
        ("NULL", "Rome"),
        ("'s'", "Oslo"),
        ("NULL, 'bob'", "Bern"),
        ("NULL, agent_id => 'a'", "Kyiv"),
    ] {
        run(
            &mut client,
            &format!(
                "SELECT memory_add('Lives in {city}.', {place}, infer => false, fact_key => 'home')"
            ),
        );
    }
    assert_eq!(facts(&mut client), 4);
    let counts = "SELECT active_entries FROM memory_agent.sessions WHERE session_id = 's'";
    run(
        &mut client,
        "SELECT memory_add('Lives in Riga.', 's', infer => false, fact_key => 'home')",
    );
    assert_eq!(value::<i64>(&mut client, counts, &[]), 1, "the replaced fact has left the window");
}

#[test]
fn a_chain_of_keys_keeps_the_whole_past() {
    let mut client = shared().database("fact_key_chain").connect();
    let cities = ["Rome", "Oslo", "Bern", "Rome"];
    for (year, city) in (2020..).zip(cities) {
        run(
            &mut client,
            &format!(
                "SELECT memory_add('Bob lives in {city}.', infer => false, fact_key => 'home', \
                                   created_at => '{year}-01-01')"
            ),
        );
    }
    for (year, city) in (2020..).zip(cities) {
        let found = recalled_texts(
            &mut client,
            &format!("'Where does Bob live?', as_of => '{year}-07-01'"),
        );
        assert_eq!(found, [format!("Bob lives in {city}.")], "{year}");
    }
}

#[test]
fn keys_set_at_once_leave_one_holder() {
    let database = shared().database("fact_key_concurrent");
    let start = Barrier::new(4);
    std::thread::scope(|scope| {
        for writer in 0..4 {
            let start = &start;
            scope.spawn(move || {
                let mut client = database.connect();
                for n in 0..5 {
                    start.wait();
                    add_with_key(&mut client, &format!("Score {writer}.{n}"), "score");
                }
            });
        }
    });
    let mut client = database.connect();
    assert_eq!(facts(&mut client), 1);
    let consistent: bool = value(
        &mut client,
        "SELECT count(*) = 20 AND bool_and(state = 'active' OR (valid_to IS NOT NULL AND replaced_by IS NOT NULL)) \
           FROM memory_agent.entries",
        &[],
    );
    assert!(consistent);
}
