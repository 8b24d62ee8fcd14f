//! Reconciliation: what new facts do to those that are known, and when the LLM is asked at all.

use crate::scene::Scene;
use memory_agent_e2e::llm::{Call, Document, Fault, FaultPlan, Model, Purpose, ScriptedModel};
use memory_agent_e2e::memory::{run, trust_llm, value, values};
use memory_agent_e2e::{Uuid, json, wait_until};
use std::time::Duration;

/// People who move and change their minds.
fn model() -> ScriptedModel {
    ScriptedModel::new()
        .knows("I live in Rome.", "home", "Rome", "User lives in Rome.")
        .knows("My home is Rome.", "home", "Rome", "The user lives in Rome.")
        .knows("I moved to Oslo.", "home", "Oslo", "User lives in Oslo.")
        .knows("I moved to Quito.", "home", "Quito", "User lives in Quito.")
        .knows("My rent is 900 euros.", "rent", "900", "User's rent is 900 euros a month.")
        .knows("My rent is 950 euros.", "rent", "950", "User's rent is 950 euros a month.")
        .knows("I eat meat.", "meat", "yes", "User eats meat.")
        .knows_the_end("I stopped eating meat.", "meat", "no", "User no longer eats meat.")
        .knows("Jupiter is huge.", "jupiter", "huge", "Jupiter is the largest planet.")
}

fn reconciliations(scene: &Scene) -> usize {
    scene.stub.calls().iter().filter(|call| call.purpose() == Purpose::Reconcile).count()
}

/// Faults for reconcile requests only.
fn when_reconciling(fault: Fault) -> FaultPlan {
    FaultPlan::when(move |call| (call.purpose() == Purpose::Reconcile).then_some(fault))
}

#[test]
fn what_is_clear_costs_no_call() {
    let mut scene = Scene::start(model());
    scene.say_and_wait("I live in Rome.");
    // Nothing like it is known.
    scene.say_and_wait("Jupiter is huge.");
    // The same text, and the same in other words.
    scene.say_and_wait("I live in Rome.");
    let turn = scene.say_and_wait("My home is Rome.");
    assert_eq!(reconciliations(&scene), 0);
    assert_eq!(scene.facts(), ["Jupiter is the largest planet.", "User lives in Rome."]);
    let fact = scene.fact("User lives in Rome.");
    assert_eq!(fact.sources.len(), 3, "every turn that says so is a source");
    assert!(fact.sources.contains(&turn));
}

#[test]
fn another_number_is_no_duplicate() {
    let mut scene = Scene::start(model());
    scene.say_and_wait("My rent is 900 euros.");
    scene.say_and_wait("My rent is 950 euros.");
    assert_eq!(reconciliations(&scene), 1);
    assert_eq!(scene.facts(), ["User's rent is 950 euros a month."]);
}

#[test]
fn an_update_replaces_and_explains() {
    let mut scene = Scene::start(model());
    scene.say_and_wait("I live in Rome.");
    let turn = scene.say_and_wait("I moved to Oslo.");
    assert_eq!(scene.facts(), ["User lives in Oslo."]);
    let (old, new) = (scene.fact("User lives in Rome."), scene.fact("User lives in Oslo."));
    assert_eq!((old.state.as_str(), old.reason.as_deref()), ("inactive", Some("superseded")));
    assert_eq!(old.replaced_by, Some(new.id));
    assert_eq!(new.sources, [turn]);
    assert_eq!(scene.history(old.id), ["add", "supersede"]);
    assert_eq!(scene.history(new.id), ["add"]);
    let valid_to: bool = value(
        &mut scene.client,
        "SELECT o.valid_to = n.created_at FROM memory_agent.entries o \
           JOIN memory_agent.entries n ON n.id = o.replaced_by WHERE o.id = $1",
        &[&old.id],
    );
    assert!(valid_to, "valid until the newer one was said");
    // The past is not forgotten.
    let before: String = value(
        &mut scene.client,
        "SELECT content FROM memory_recall('Where does the user live?', 's', kinds => '{fact}', \
                as_of => (SELECT created_at FROM memory_agent.entries WHERE content = 'User lives in Rome.'))",
        &[],
    );
    assert_eq!(before, "User lives in Rome.");
}

#[test]
fn a_contradiction_ends_one_fact_and_keeps_the_other() {
    let mut scene = Scene::start(model());
    scene.say_and_wait("I eat meat.");
    scene.say_and_wait("I stopped eating meat.");
    assert_eq!(scene.facts(), ["User no longer eats meat."]);
    let (old, new) = (scene.fact("User eats meat."), scene.fact("User no longer eats meat."));
    assert_eq!((old.state.as_str(), old.reason.as_deref()), ("inactive", Some("contradicted")));
    assert_eq!(old.replaced_by, Some(new.id));
    assert_eq!(scene.history(old.id), ["add", "delete"]);
}

#[test]
fn changes_within_one_job_happen_one_after_the_other() {
    let mut scene = Scene::start(model());
    scene.say_all(&[
        "I live in Rome.",
        "I moved to Oslo.",
        "I moved to Quito.",
        "Jupiter is huge.",
    ]);
    scene.drain();
    assert_eq!(scene.facts(), ["Jupiter is the largest planet.", "User lives in Quito."]);
    let quito = scene.fact("User lives in Quito.");
    let oslo = scene.fact("User lives in Oslo.");
    assert_eq!(oslo.replaced_by, Some(quito.id));
    assert_eq!(scene.fact("User lives in Rome.").replaced_by, Some(oslo.id));
}

/// The second fact of a turn is compared after the first one is stored.
#[test]
fn facts_of_one_turn_replace_each_other_never() {
    let model = |call: &Call| {
        let document = Document::of(call);
        if call.purpose() != Purpose::Extract {
            let last = |existing: &[(u64, String)]| existing.last().map_or(1, |(id, _)| *id);
            return document.decide(|_, existing| format!("replaces {}", last(existing)));
        }
        let facts = document.turns.iter().flat_map(|(turn, text)| {
            let said: &[&str] = match text.contains("Lisbon") {
                true => &["The user lives in Lisbon.", "The user lives on a boat."],
                false => &["The user lives in Hamburg."],
            };
            said.iter().map(move |fact| json!({"turn": turn, "text": fact, "confidence": 1}))
        });
        json!({"facts": facts.collect::<Vec<_>>()})
    };
    let mut scene = Scene::start(model);
    scene.say_and_wait("I live in Hamburg.");
    scene.say_and_wait("I moved to Lisbon, and I live on a boat there.");
    assert_eq!(reconciliations(&scene), 2, "the second is compared with the first");
    // It has not passed the probe, so what it replaces is doubted: Lisbon is not.
    let doubted: Vec<String> = values(
        &mut scene.client,
        "SELECT content FROM memory_agent.entries WHERE doubted_by IS NOT NULL",
        &[],
    );
    assert_eq!(doubted, ["The user lives in Hamburg."]);
    assert_eq!(scene.facts().len(), 3);
}

#[test]
fn a_repetition_within_one_job_is_stored_once() {
    let again = "As I said, I eat meat.";
    let model = model().knows(again, "meat", "yes", "User eats meat.").knows(
        "I eat fish.",
        "fish",
        "yes",
        "User eats fish.",
    );
    let mut scene = Scene::start(model);
    scene.say_and_wait("I eat fish.");
    let turns = scene.say_all(&["I eat meat.", again]);
    scene.drain();
    assert_eq!(scene.facts(), ["User eats fish.", "User eats meat."]);
    assert_eq!(scene.fact("User eats meat.").sources, turns);
}

#[test]
fn an_older_statement_learned_late_is_history() {
    let mut scene = Scene::start(model());
    let say_at = |scene: &mut Scene, text: &str, at: &str| {
        let sql = format!("SELECT memory_ingest('s', 'user', $1, created_at => '{at}')");
        let id: Uuid = value(&mut scene.client, &sql, &[&text]);
        scene.drain();
        id
    };
    say_at(&mut scene, "I moved to Oslo.", "2024-06-01 12:00+00");
    say_at(&mut scene, "I stopped eating meat.", "2024-06-01 12:01+00");
    say_at(&mut scene, "I live in Rome.", "2024-01-01 12:00+00");
    say_at(&mut scene, "I eat meat.", "2024-01-01 12:01+00");
    assert_eq!(scene.facts(), ["User lives in Oslo.", "User no longer eats meat."]);
    for (old, new) in [
        ("User lives in Rome.", "User lives in Oslo."),
        ("User eats meat.", "User no longer eats meat."),
    ] {
        let (old, new) = (scene.fact(old), scene.fact(new));
        assert_eq!((old.state.as_str(), old.replaced_by), ("inactive", Some(new.id)), "{old:?}");
    }
}

#[test]
fn invented_ids_are_refused_and_mended() {
    let mut scene = Scene::start(model());
    scene.say_and_wait("I live in Rome.");
    let once = std::sync::atomic::AtomicBool::new(true);
    scene.stub.faults(FaultPlan::when(move |call| {
        let is_first = call.purpose() == Purpose::Reconcile
            && once.swap(false, std::sync::atomic::Ordering::SeqCst);
        is_first.then_some(Fault::InventedIds)
    }));
    scene.say_and_wait("I moved to Oslo.");
    assert_eq!(scene.facts(), ["User lives in Oslo."]);
    let calls = scene.stub.calls();
    let repair = calls.last().expect("a call");
    assert!(repair.is_repair());
    assert!(repair.messages("assistant")[0].contains("4711"));
    assert!(repair.messages("user")[1].contains("4711"), "{:?}", repair.messages("user"));
    let job = scene.last_job();
    assert_eq!((job.status.as_str(), job.attempts), ("done", 0));
}

#[test]
fn what_the_answer_forgets_is_added() {
    let model = |call: &Call| match call.purpose() {
        Purpose::Reconcile => json!({"decisions": []}).into(),
        _ => model().answer(call),
    };
    let mut scene = Scene::start(model);
    scene.say_and_wait("I live in Rome.");
    scene.say_and_wait("I moved to Oslo.");
    assert_eq!(reconciliations(&scene), 1);
    assert_eq!(scene.facts(), ["User lives in Oslo.", "User lives in Rome."]);
}

/// One decision costs two calls at most; after that a rule decides, and loses nothing.
#[test]
fn bad_answers_cost_two_calls_and_lose_nothing() {
    let mut scene = Scene::start(model());
    scene.say_and_wait("I live in Rome.");
    scene.stub.faults(when_reconciling(Fault::WrongSchema));
    scene.say_and_wait("I moved to Oslo.");
    let job = scene.last_job();
    assert_eq!((job.status.as_str(), job.attempts), ("done", 0));
    assert!(
        job.error.is_some_and(|error| error.contains("decisions")),
        "the job says what was wrong"
    );
    scene.say_and_wait("Jupiter is huge.");
    let facts = ["Jupiter is the largest planet.", "User lives in Oslo.", "User lives in Rome."];
    assert_eq!(scene.facts(), facts);
    assert_eq!(scene.fact("User lives in Oslo.").metadata.get("unreconciled"), None);
    let calls = scene.stub.calls();
    let asked: Vec<&Call> =
        calls.iter().filter(|call| call.purpose() == Purpose::Reconcile).collect();
    assert_eq!(asked.len(), 2);
    // The second asks in another way.
    assert!(asked[1].is_repair());
    let temperature = |call: &Call| call.body["temperature"].as_f64();
    assert_eq!((temperature(asked[0]), temperature(asked[1])), (Some(0.0), Some(0.5)));
}

const MOVES: &str = "I moved to Oslo, and my rent is 950 euros.";

#[test]
fn an_llm_that_has_passed_the_probe_compares_several_facts_in_a_call() {
    let model = model().knows(MOVES, "home", "Oslo", "User lives in Oslo.").knows(
        MOVES,
        "rent",
        "950",
        "User's rent is 950 euros a month.",
    );
    let mut scene = Scene::start(move |call: &Call| match call.purpose() {
        Purpose::Probe => Document::of(call).unrelated().into(),
        _ => model.answer(call),
    });
    assert_eq!(calls_for_two(&mut scene, "one by one"), 2);
    trust_llm(&mut scene.client);
    run(&mut scene.client, "SELECT memory_clear('one by one')");
    assert_eq!(calls_for_two(&mut scene, "in one"), 1);
}

/// Calls that compare the two facts of a turn with two that are known.
fn calls_for_two(scene: &mut Scene, session: &str) -> usize {
    let mut say = |text: &str| {
        let ingest = "SELECT memory_ingest($1, 'user', $2)";
        scene.client.execute(ingest, &[&session, &text]).expect("ingest");
        scene.drain();
        reconciliations(scene)
    };
    say("I live in Rome.");
    let calls = say("My rent is 900 euros.");
    let calls = say(MOVES) - calls;
    let facts: Vec<String> = values(
        &mut scene.client,
        "SELECT content FROM memory_agent.entries \
          WHERE kind = 'fact' AND state = 'active' AND session_id = $1 ORDER BY content",
        &[&session],
    );
    for new in ["User lives in Oslo.", "User's rent is 950 euros a month."] {
        assert!(facts.iter().any(|fact| fact == new), "{facts:?}");
    }
    calls
}

#[test]
fn facts_that_could_not_be_compared_are_kept_and_compared_later() {
    let mut scene = Scene::with_settings(model(), &[("memory_agent.llm_max_attempts", "2")]);
    scene.say_and_wait("I live in Rome.");
    scene.stub.faults(when_reconciling(Fault::GarbageBody));
    scene.say_and_wait("I moved to Oslo.");
    assert_eq!(scene.facts(), ["User lives in Oslo.", "User lives in Rome."]);
    assert_eq!(scene.fact("User lives in Oslo.").metadata["unreconciled"], json!(true));
    let extractions = |scene: &Scene| {
        scene.stub.calls().iter().filter(|call| call.purpose() == Purpose::Extract).count()
    };
    assert_eq!(extractions(&scene), 2, "a failed comparison does not cost another extraction");
    scene.stub.faults(FaultPlan::none());
    scene.say_and_wait("Jupiter is huge.");
    assert_eq!(scene.facts(), ["Jupiter is the largest planet.", "User lives in Oslo."]);
    let (old, new) = (scene.fact("User lives in Rome."), scene.fact("User lives in Oslo."));
    assert_eq!(old.replaced_by, Some(new.id));
    assert_eq!(new.metadata.get("unreconciled"), None, "{new:?}");
}

#[test]
fn a_change_of_an_uncompared_fact() {
    let mut scene = Scene::with_settings(model(), &[("memory_agent.llm_max_attempts", "1")]);
    scene.say_and_wait("I live in Rome.");
    scene.stub.faults(when_reconciling(Fault::GarbageBody));
    scene.say_and_wait("I moved to Oslo.");
    scene.stub.faults(FaultPlan::none());
    scene.say_and_wait("I moved to Quito.");
    assert_eq!(scene.facts(), ["User lives in Quito."]);
    let (oslo, quito) = (scene.fact("User lives in Oslo."), scene.fact("User lives in Quito."));
    assert_eq!(oslo.replaced_by, Some(quito.id));
    assert_eq!(scene.fact("User lives in Rome.").replaced_by, Some(oslo.id));
}

#[test]
fn two_workers_do_not_add_the_same_fact_twice() {
    // Two calls each, so that four jobs take both workers.
    let settings = [("memory_agent.job_workers", "2"), ("memory_agent.llm_concurrency", "2")];
    let mut scene = Scene::with_settings(model(), &settings);
    run(&mut scene.client, "SET memory_agent.fact_scope = global");
    for round in 0..3 {
        scene.stub.hold(true);
        for session in ["a", "b", "c", "d"] {
            let session = format!("{session}{round}");
            scene
                .client
                .execute("SELECT memory_ingest($1, 'user', 'I live in Rome.')", &[&session])
                .expect("ingest");
        }
        wait_until(Duration::from_secs(60), "four calls at once", || scene.stub.in_flight() == 4);
        scene.stub.hold(false);
        scene.drain();
        assert_eq!(scene.all_facts().len(), 1, "{:#?}", scene.all_facts());
    }
    assert_eq!(scene.fact("User lives in Rome.").sources.len(), 12);
}

#[test]
fn two_workers_do_not_lose_each_others_changes() {
    let settings = [("memory_agent.job_workers", "2"), ("memory_agent.llm_concurrency", "1")];
    let mut scene = Scene::with_settings(model(), &settings);
    run(&mut scene.client, "SET memory_agent.fact_scope = global");
    scene.say_and_wait("I live in Rome.");
    scene.stub.hold(true);
    for (session, text) in [("a", "I moved to Oslo."), ("b", "I moved to Quito.")] {
        scene
            .client
            .execute("SELECT memory_ingest($1, 'user', $2)", &[&session, &text])
            .expect("ingest");
    }
    wait_until(Duration::from_secs(60), "two calls at once", || scene.stub.in_flight() == 2);
    scene.stub.hold(false);
    scene.drain();
    // Said last, so it holds, whichever job was faster.
    assert_eq!(scene.facts(), ["User lives in Quito."]);
    let quito = scene.fact("User lives in Quito.").id;
    let mut replaced = scene.fact("User lives in Rome.").replaced_by;
    let oslo = scene.fact("User lives in Oslo.");
    if replaced == Some(oslo.id) {
        replaced = oslo.replaced_by;
    }
    assert_eq!((replaced, oslo.state.as_str()), (Some(quito), "inactive"));
}

#[test]
fn a_fact_with_a_key_is_replaced_like_any_other() {
    let mut scene = Scene::start(model());
    let keyed: Uuid = value(
        &mut scene.client,
        "SELECT memory_add('User lives in Rome.', 's', infer => false, fact_key => 'home')",
        &[],
    );
    scene.say_and_wait("I moved to Oslo.");
    assert_eq!(scene.facts(), ["User lives in Oslo."]);
    assert_eq!(scene.fact("User lives in Rome.").id, keyed);
    // The key goes on to the successor, so that a client that uses it finds what holds now.
    assert_eq!(scene.fact("User lives in Oslo.").fact_key.as_deref(), Some("home"));
    let calls = reconciliations(&scene);
    run(
        &mut scene.client,
        "SELECT memory_add('User lives in Quito.', 's', infer => false, fact_key => 'home')",
    );
    scene.drain();
    assert_eq!(scene.facts(), ["User lives in Quito."]);
    assert_eq!(reconciliations(&scene), calls, "a key needs no LLM");
}
