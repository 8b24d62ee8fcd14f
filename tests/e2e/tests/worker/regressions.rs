//! What once went wrong between jobs, sweeps and other people's transactions: a turn, a sweep or a
//! lock that cost others their facts or their money, and a message that told others of them.

use crate::models::echo;
use crate::scene::{DATABASE, PATIENCE, Scene};
use memory_agent_e2e::llm::{Call, Document, Purpose, Reply, ScriptedModel};
use memory_agent_e2e::memory::{recall, recalled_texts, run, value};
use memory_agent_e2e::{Uuid, wait_until};

/// Somebody who moves, and eats.
fn model() -> ScriptedModel {
    ScriptedModel::new()
        .knows("I live in Rome.", "home", "Rome", "User lives in Rome.")
        .knows("I moved to Oslo.", "home", "Oslo", "User lives in Oslo.")
        .knows("I moved to Quito.", "home", "Quito", "User lives in Quito.")
        .knows("I eat meat.", "meat", "yes", "User eats meat.")
}

fn calls_for(scene: &Scene, purpose: Purpose) -> usize {
    scene.stub.calls().iter().filter(|call| call.purpose() == purpose).count()
}

/// Eight turns go in one request, which the endpoint refuses because of one of them.
#[test]
fn a_turn_that_is_refused_costs_no_other_turn_its_facts() {
    const REFUSED: usize = 2;
    let said = [
        "I play the violin.",
        "Jupiter has many moons.",
        "How do I pick a lock?",
        "Bread needs salt.",
        "My train leaves at nine.",
        "Anna is my sister.",
        "The roof leaks in winter.",
        "Seven hens live in our garden.",
    ];
    let refuses = move |call: &Call| -> Reply {
        let turns = Document::of(call).turns;
        if turns.iter().any(|(_, text)| text == said[REFUSED]) {
            Reply::error(400, "The prompt was filtered.")
        } else {
            echo(call).into()
        }
    };
    // Enough for halving eight turns down to one.
    let mut scene = Scene::with_settings(refuses, &[("memory_agent.llm_max_attempts", "4")]);
    let turns = scene.say_all(&said);
    scene.drain();
    let mut expected: Vec<String> =
        said.iter().enumerate().filter(|(n, _)| *n != REFUSED).map(|(_, t)| noted(t)).collect();
    expected.sort();
    assert_eq!(scene.facts(), expected, "{:#?}", scene.jobs());
    let dead: Vec<_> = scene.jobs().into_iter().filter(|job| job.status == "dead").collect();
    assert_eq!(dead.len(), 1, "{dead:#?}");
    assert!(dead[0].error.as_deref().is_some_and(|error| error.contains("filtered")), "{dead:?}");
    let entries: String = value(
        &mut scene.client,
        "SELECT (payload->'entries')::text FROM memory_agent.jobs WHERE id = $1",
        &[&dead[0].id],
    );
    assert_eq!(entries, format!("[\"{}\"]", turns[REFUSED]));
    // Once the endpoint has become less strict, it is asked about that turn only.
    scene.stub.set_model(echo);
    assert!(value::<bool>(&mut scene.client, "SELECT memory_retry($1)", &[&dead[0].id]));
    scene.drain();
    assert_eq!(scene.fact(&noted(said[REFUSED])).sources, [turns[REFUSED]]);
    let last = scene.stub.calls().into_iter().rfind(|call| call.purpose() == Purpose::Extract);
    assert_eq!(Document::of(&last.expect("a call")).turns.len(), 1);
}

fn noted(text: &str) -> String {
    format!("Noted: {text}")
}

#[test]
fn what_sweeps_take_does_not_take_what_holds() {
    let settings = [("memory_agent.sweep_interval", "1s"), ("memory_agent.purge_after", "1d")];
    let mut scene = Scene::with_settings(model(), &settings);
    a_repeated_fact_outlives_the_turn_that_expires(&mut scene);
    an_expired_fact_is_no_duplicate(&mut scene);
    purged_facts_still_tell_which_turns_are_stale(&mut scene);
}

fn a_repeated_fact_outlives_the_turn_that_expires(scene: &mut Scene) {
    let first: Uuid = value(
        &mut scene.client,
        "SELECT memory_ingest('meals', 'user', 'I eat meat.', ttl => '1 hour')",
        &[],
    );
    scene.drain();
    run(&mut scene.client, "SELECT memory_ingest('meals', 'user', 'I eat meat.')");
    scene.drain();
    assert_eq!(scene.fact("User eats meat.").sources.len(), 2);
    // The hour passes for everything that was given one.
    run(
        &mut scene.client,
        "UPDATE memory_agent.entries SET expires_at = now() - interval '1 minute' \
          WHERE expires_at IS NOT NULL",
    );
    wait_until(PATIENCE, "the turn to expire", || {
        let state: String = value(
            &mut scene.client,
            "SELECT state FROM memory_agent.entries WHERE id = $1",
            &[&first],
        );
        state == "inactive"
    });
    assert_eq!(scene.fact("User eats meat.").state, "active");
    let found =
        recalled_texts(&mut scene.client, "'What does the user eat?', 'meals', kinds => '{fact}'");
    assert_eq!(found, ["User eats meat."]);
}

fn an_expired_fact_is_no_duplicate(scene: &mut Scene) {
    let adding =
        |ttl: &str| format!("SELECT memory_add('User has a cat.', infer => false, ttl => {ttl})");
    let mut add = |ttl: &str| value::<Uuid>(&mut scene.client, &adding(ttl), &[]);
    let first = add("'1 hour'");
    assert_eq!(add("'1 minute'"), first);
    assert_eq!(add("'3 hours'"), first);
    let lasts = "SELECT (expires_at > now() + interval '2 hours') IS NOT FALSE \
                   FROM memory_agent.entries WHERE id = $1";
    assert!(value::<bool>(&mut scene.client, lasts, &[&first]), "the longest time counts");
    // Within one transaction, so that no sweep sees the expired fact before it is said again.
    let mut transaction = scene.client.transaction().expect("a transaction");
    transaction
        .execute(
            "UPDATE memory_agent.entries SET expires_at = now() - interval '1 second' WHERE id = $1",
            &[&first],
        )
        .expect("the fact expires");
    let again: Uuid = transaction.query_one(&adding("NULL"), &[]).expect("memory_add").get(0);
    transaction.commit().expect("commit");
    assert_ne!(again, first);
    let found = recall(&mut scene.client, "'Which pet has the user?', kinds => '{fact}'");
    assert!(found.iter().any(|row| row.id == again), "{found:#?}");
    assert!(found.iter().all(|row| row.id != first), "{found:#?}");
}

fn purged_facts_still_tell_which_turns_are_stale(scene: &mut Scene) {
    let mut turns = Vec::new();
    for (text, year) in
        [("I live in Rome.", 2022), ("I moved to Oslo.", 2023), ("I moved to Quito.", 2024)]
    {
        let sql =
            format!("SELECT memory_ingest('s', 'user', $1, created_at => '{year}-05-03 10:00+00')");
        turns.push(value::<Uuid>(&mut scene.client, &sql, &[&text]));
        scene.drain();
    }
    let quito = scene.fact("User lives in Quito.");
    let (rome, oslo) = (scene.fact("User lives in Rome."), scene.fact("User lives in Oslo."));
    assert_eq!((rome.replaced_by, oslo.replaced_by), (Some(oslo.id), Some(quito.id)));
    run(
        &mut scene.client,
        "UPDATE memory_agent.entries SET state_at = now() - interval '25 hours' \
          WHERE session_id = 's' AND kind = 'fact' AND state = 'inactive'",
    );
    wait_until(PATIENCE, "the replaced facts to be purged", || {
        let kept = "SELECT count(*) FROM memory_agent.entries \
                     WHERE content IN ('User lives in Rome.', 'User lives in Oslo.')";
        value::<i64>(&mut scene.client, kept, &[]) == 0
    });
    for (stale, words) in [(turns[0], "I live in Rome."), (turns[1], "I moved to Oslo.")] {
        let rows = recall(&mut scene.client, &format!("'{words}', 's'"));
        let place = |id: Uuid| rows.iter().position(|row| row.id == id);
        assert!(place(quito.id).is_some(), "{rows:#?}");
        assert!(place(stale).is_none_or(|stale| place(quito.id) < Some(stale)), "{rows:#?}");
    }
    // What held in those days is gone, so nothing is said in its place.
    let rows = recall(&mut scene.client, "'I live in Rome.', 's', as_of => '2023-07-01'");
    assert!(rows.iter().all(|row| !row.content.is_empty()), "{rows:#?}");
    assert!(rows.iter().any(|row| row.id == turns[1]), "{rows:#?}");
}

/// Facts that left the window stay in recall, so they have to be kept up to date there.
#[test]
fn facts_that_left_the_window_are_still_compared() {
    let mut scene = Scene::with_settings(model(), &[("memory_agent.max_entries", "6")]);
    scene.say_all(&["I live in Rome.", "I eat meat."]);
    scene.drain();
    for number in 1..=6 {
        scene.say(&format!("Good morning number {number}!"));
    }
    scene.drain();
    for fact in ["User lives in Rome.", "User eats meat."] {
        let fact = scene.fact(fact);
        assert_eq!((fact.state.as_str(), fact.reason.as_deref()), ("archived", Some("evicted")));
    }
    // From here on nothing leaves the window, so that its counters are not counted anew.
    scene.cluster.alter_system("memory_agent.max_entries", Some("500"));
    scene.say_and_wait("I moved to Oslo.");
    let (rome, oslo) = (scene.fact("User lives in Rome."), scene.fact("User lives in Oslo."));
    assert_eq!((rome.state.as_str(), rome.replaced_by), ("inactive", Some(oslo.id)));
    let calls = scene.stub.call_count();
    let turn = scene.say_and_wait("I eat meat.");
    assert_eq!(scene.stub.call_count(), calls + 1, "a repetition needs no comparison");
    let meat = scene.fact("User eats meat.");
    assert_eq!((meat.state.as_str(), meat.reason.as_deref()), ("active", None));
    assert!(meat.sources.contains(&turn), "{meat:?}");
    let counters: String = value(
        &mut scene.client,
        "SELECT concat_ws(' of ', s.active_entries, \
                (SELECT count(*) FROM memory_agent.entries e WHERE e.session_id = 's' AND e.state = 'active')) \
           FROM memory_agent.sessions s WHERE s.session_id = 's'",
        &[],
    );
    assert_eq!(counters, "10 of 10");
}

/// The agent's cap, which is less than the server's, holds for what the worker adds.
#[test]
fn facts_make_the_window_of_their_agent_no_larger_than_its_cap() {
    const WINDOW: &str = "SELECT active_entries FROM memory_agent.sessions";
    let mut scene = Scene::start(model());
    run(
        &mut scene.client,
        "SELECT memory_configure(settings => '{\"max_entries\": 2}', user_id => '*')",
    );
    scene.stub.hold(true);
    scene.say_all(&["I live in Rome.", "I eat meat.", "Good morning!"]);
    wait_until(PATIENCE, "the oldest turn to leave", || {
        value::<i64>(&mut scene.client, WINDOW, &[]) == 2
    });
    scene.stub.hold(false);
    scene.drain();
    assert_eq!(scene.all_facts().len(), 2);
    assert_eq!(value::<i64>(&mut scene.client, WINDOW, &[]), 2);
}

/// Endpoints that quote what they were sent exist. All users share what is known of an endpoint.
#[test]
fn nobody_reads_what_others_said_in_the_error_of_an_endpoint() {
    const SECRET: &str = "My PIN is 4711.";
    let quotes = |call: &Call| Reply::error(500, &format!("could not process {}", call.data()));
    let mut scene = Scene::start(quotes);
    for session in 0..8 {
        let session = format!("session {session}");
        scene
            .client
            .execute("SELECT memory_ingest($1, 'user', $2)", &[&session, &SECRET])
            .expect("ingest");
    }
    wait_until(PATIENCE, "an open breaker in memory_status()", || {
        scene.status("llm").to_lowercase().contains("open")
    });
    let quoted: i64 = value(
        &mut scene.client,
        "SELECT count(*) FROM memory_agent.llm_calls WHERE error LIKE '%4711%'",
        &[],
    );
    assert!(quoted > 0, "the endpoint does not quote");
    // A worker of another database does not know what this one's met with.
    let other = scene.cluster.database("other");
    run(&mut other.connect(), "CREATE ROLE app LOGIN; SELECT memory_grant('app', 'user')");
    let mut bob = other.connect_as("app");
    run(
        &mut bob,
        "SET memory_agent.user_id = 'bob'; SELECT memory_ingest('s', 'user', 'I have a cat.')",
    );
    wait_until(PATIENCE, "a job that was told to wait", || {
        let error: Option<String> = value(&mut bob, "SELECT max(last_error) FROM memory_jobs", &[]);
        let error = error.unwrap_or_default();
        assert!(!error.contains("4711"), "{error}");
        error.contains("is not called for now")
    });
}

/// A client may hold a session for as long as it likes; what the LLM said is not asked for again.
#[test]
fn a_session_in_use_costs_no_calls() {
    let mut scene = Scene::start(model());
    scene.say_and_wait("I live in Rome.");
    scene.stub.hold(true);
    scene.say("I moved to Oslo.");
    scene.wait_for_calls(2);
    let mut client = scene.cluster.connect(DATABASE);
    run(
        &mut client,
        "SET memory_agent.user_id = 'alice'; BEGIN; SELECT memory_ingest('s', 'user', 'Wait!')",
    );
    scene.stub.hold(false);
    // Two extractions, two of the probe, and the comparison.
    scene.wait_for_calls(5);
    wait_until(PATIENCE, "a worker that cannot store what was decided", || {
        scene.status("worker").contains("last error")
    });
    assert_eq!(calls_for(&scene, Purpose::Reconcile), 1);
    // Long enough for two more attempts to store what was decided.
    assert!(!value::<bool>(&mut scene.client, "SELECT memory_wait('4 s')", &[]));
    assert_eq!(scene.stub.call_count(), 5);
    assert_eq!(scene.facts(), ["User lives in Rome."]);
    run(&mut client, "COMMIT");
    scene.drain();
    assert_eq!(scene.facts(), ["User lives in Oslo."]);
    assert_eq!(calls_for(&scene, Purpose::Reconcile), 1);
    assert_eq!(scene.last_job().status, "done");
}
