//! Facts of a user's sessions: what one says is compared with what the others know, as far as it is about the same.

use crate::scene::Scene;
use memory_agent_e2e::llm::{Call, Document, Purpose, ScriptedModel};
use memory_agent_e2e::memory::{recalled_texts, run, trust_llm, value, values};
use memory_agent_e2e::{Json, Uuid, json};

const CITIES: [&str; 8] = ["Rome", "Oslo", "Quito", "Lima", "Turin", "Porto", "Ghent", "Basel"];

fn lives_in(city: &str) -> String {
    format!("User lives in {city}.")
}

/// People who move, and databases.
fn model() -> ScriptedModel {
    let model = ScriptedModel::new()
        .knows("The database is PostgreSQL.", "db", "pg", "The database is PostgreSQL.")
        .knows("The database is MySQL.", "db", "my", "The database is MySQL.");
    CITIES.iter().fold(model, |model, city| {
        let said = format!("I moved to {city}.");
        model.knows(&said, "home", city, &lives_in(city))
    })
}

/// Says something in a session, and waits for what becomes of it.
fn say(scene: &mut Scene, session: &str, content: &str) -> Uuid {
    let id =
        value(&mut scene.client, "SELECT memory_ingest($1, 'user', $2)", &[&session, &content]);
    scene.drain();
    id
}

fn moved(scene: &mut Scene, session: &str, city: &str) -> Uuid {
    say(scene, session, &format!("I moved to {city}."))
}

/// What each session's counter says and what is in its window differ in these sessions.
#[track_caller]
fn assert_counted(scene: &mut Scene) {
    let wrong: Vec<String> = values(
        &mut scene.client,
        "SELECT concat_ws(' ', s.session_id, s.active_entries, n.entries) FROM memory_agent.sessions s \
          CROSS JOIN LATERAL (SELECT count(*) AS entries FROM memory_agent.entries e \
                               WHERE e.session_id = s.session_id AND e.state = 'active' \
                                 AND e.kind IN ('turn', 'fact')) n \
          WHERE s.active_entries <> n.entries",
        &[],
    );
    assert_eq!(wrong, [""; 0], "session, counted, there");
}

/// What prompts of a new session are told of where the user lives.
fn prompts(scene: &mut Scene) -> [String; 2] {
    let question = "Where do I live now?";
    let context: Json =
        value(&mut scene.client, "SELECT memory_context('new', $1) -> 'messages'", &[&question]);
    let augmented: Json = value(
        &mut scene.client,
        "SELECT memory_augment(jsonb_build_array(jsonb_build_object('role', 'user', 'content', $1::text)), \
                               session_id => 'new') -> 'messages'",
        &[&question],
    );
    [context.to_string(), augmented.to_string()]
}

#[test]
fn what_changed_in_one_session_has_changed_in_all() {
    let mut scene = Scene::start(model());
    let turn = moved(&mut scene, "monday", "Rome");
    let later = moved(&mut scene, "tuesday", "Oslo");
    assert_eq!(scene.facts(), [lives_in("Oslo")]);
    let (old, new) = (scene.fact(&lives_in("Rome")), scene.fact(&lives_in("Oslo")));
    assert_eq!((old.session.as_deref(), old.sources), (Some("monday"), vec![turn]));
    assert_eq!((new.session.as_deref(), new.sources), (Some("tuesday"), vec![later]));
    assert_eq!(old.replaced_by, Some(new.id));
    assert_eq!(scene.history(old.id), ["add", "supersede"]);
    assert_counted(&mut scene);
    for prompt in prompts(&mut scene) {
        assert!(prompt.contains(&lives_in("Oslo")), "{prompt}");
        assert!(!prompt.contains(&format!(": {}", lives_in("Rome"))), "as if it held: {prompt}");
    }
    // The recall of a session is of that session.
    let monday = recalled_texts(
        &mut scene.client,
        "'Where does the user live?', 'monday', kinds => '{fact}'",
    );
    assert_eq!(monday, [""; 0]);
}

#[test]
fn things_of_one_conversation_stay_its_own() {
    let mut scene = Scene::start(model());
    say(&mut scene, "shop", "The database is PostgreSQL.");
    say(&mut scene, "blog", "The database is MySQL.");
    say(&mut scene, "wiki", "The database is MySQL.");
    let facts = ["The database is MySQL.", "The database is MySQL.", "The database is PostgreSQL."];
    assert_eq!(scene.facts(), facts);
    assert_counted(&mut scene);
}

/// Asked about several facts at once, the LLM ends for one of them what is shown because of another one.
#[test]
fn what_concerns_another_fact_is_not_changed() {
    const RENT: &str = "The rent is 950 euros.";
    let model = |call: &Call| {
        let document = Document::of(call);
        if call.purpose() != Purpose::Extract {
            return document.decide(|fact, existing| match existing {
                [(id, _)] if fact == RENT => format!("ends {id}"),
                _ => "new".to_owned(),
            });
        }
        let facts = document.turns.iter().flat_map(|(turn, text)| {
            let facts: &[&str] = match text.contains("900") {
                true => &["Anne's rent is 900 euros."],
                false => &["Anne's rent is 950 euros.", RENT],
            };
            facts.iter().map(move |fact| json!({"turn": turn, "text": fact, "confidence": 1}))
        });
        json!({"facts": facts.collect::<Vec<_>>()})
    };
    let settings = [("memory_agent.ungrounded_facts", "accept")];
    let mut scene = Scene::with_settings(model, &settings);
    // So that both facts of a turn are compared in one call.
    trust_llm(&mut scene.client);
    say(&mut scene, "monday", "Anne pays 900 euros.");
    say(&mut scene, "tuesday", "Anne pays 950 euros, that is the rent.");
    let reconciled = |call: &&Call| call.purpose() == Purpose::Reconcile;
    let calls = scene.stub.calls();
    let shown = calls.iter().find(reconciled).map(Document::of).expect("it is asked");
    assert!(shown.existing.iter().any(|(_, known)| known.contains("900")), "{shown:?}");
    assert_eq!(scene.facts().len(), 3, "{:#?}", scene.all_facts());
}

#[test]
fn a_session_by_itself_is_not_compared() {
    let mut scene = Scene::start(model());
    run(
        &mut scene.client,
        "SELECT memory_configure(session_id => 'diary', settings => '{\"session_recall\": \"session\"}')",
    );
    moved(&mut scene, "monday", "Rome");
    moved(&mut scene, "diary", "Oslo");
    assert_eq!(scene.facts(), [lives_in("Oslo"), lives_in("Rome")]);
    moved(&mut scene, "tuesday", "Quito");
    assert_eq!(scene.facts(), [lives_in("Oslo"), lives_in("Quito")]);
    run(&mut scene.client, "SET memory_agent.session_recall = 'session'");
    moved(&mut scene, "wednesday", "Lima");
    assert_eq!(scene.facts(), [lives_in("Lima"), lives_in("Oslo"), lives_in("Quito")]);
    // Neither another agent's nor another user's.
    run(
        &mut scene.client,
        "RESET memory_agent.session_recall; SET memory_agent.agent_id = 'other'",
    );
    moved(&mut scene, "monday", "Turin");
    assert_eq!(scene.facts().len(), 4);
    run(&mut scene.client, "RESET memory_agent.agent_id; SET memory_agent.user_id = 'bob'");
    moved(&mut scene, "monday", "Porto");
    assert_eq!(scene.facts().len(), 5);
}

#[test]
fn global_memory_is_compared_too() {
    let mut scene = Scene::start(model());
    let stated: Uuid =
        value(&mut scene.client, "SELECT memory_add($1, infer => false)", &[&lives_in("Rome")]);
    let turn = moved(&mut scene, "monday", "Rome");
    let fact = scene.fact(&lives_in("Rome"));
    assert_eq!(fact.id, stated, "monday says the same");
    assert!(fact.sources.contains(&turn));
    moved(&mut scene, "tuesday", "Oslo");
    assert_eq!(scene.facts(), [lives_in("Oslo")]);
    // What becomes global memory is compared with what sessions know, whichever agent says it.
    run(&mut scene.client, "SET memory_agent.fact_scope = 'global'");
    moved(&mut scene, "wednesday", "Quito");
    assert_eq!(scene.facts(), [lives_in("Quito")]);
    run(&mut scene.client, "SET memory_agent.agent_id = 'other'");
    moved(&mut scene, "thursday", "Lima");
    assert_eq!(scene.facts(), [lives_in("Lima")]);
    assert_counted(&mut scene);
}

#[test]
fn a_key_stays_in_its_session() {
    let mut scene = Scene::start(model());
    let add = "SELECT memory_add($1, session_id => 'monday', fact_key => 'home')";
    let keyed: Uuid = value(&mut scene.client, add, &[&lives_in("Rome")]);
    moved(&mut scene, "tuesday", "Oslo");
    assert_eq!(scene.facts(), [lives_in("Oslo")]);
    let oslo = scene.fact(&lives_in("Oslo"));
    assert_eq!(
        (oslo.fact_key.as_deref(), scene.history(keyed)),
        (None, vec!["add".into(), "supersede".into()])
    );
    let _: Uuid = value(&mut scene.client, add, &[&lives_in("Quito")]);
    assert_eq!(scene.facts(), [lives_in("Oslo"), lives_in("Quito")]);
}

/// What both said stays with the other one, what one said goes with it.
#[test]
fn what_another_session_said_too_stays() {
    for how in ["memory_clear", "memory_erase"] {
        let mut scene = Scene::start(model());
        moved(&mut scene, "monday", "Rome");
        let again = moved(&mut scene, "tuesday", "Rome");
        say(&mut scene, "monday", "The database is MySQL.");
        let fact = scene.fact(&lives_in("Rome"));
        assert_eq!((fact.session.as_deref(), fact.sources.len()), (Some("monday"), 2));
        let end = |scene: &mut Scene, session: &str| {
            run(&mut scene.client, &format!("SELECT {how}(session_id => '{session}')"));
            scene.drain();
        };
        end(&mut scene, "monday");
        assert_eq!(scene.facts(), [lives_in("Rome")], "{how}");
        let fact = scene.fact(&lives_in("Rome"));
        assert_eq!(
            (fact.session.as_deref(), fact.sources),
            (Some("tuesday"), vec![again]),
            "{how}"
        );
        assert_counted(&mut scene);
        end(&mut scene, "tuesday");
        assert_eq!(scene.facts(), [""; 0], "{how}");
        assert_counted(&mut scene);
    }
}

/// What was stated in a session is not taken along by another one that repeated it.
#[test]
fn what_was_stated_rests_on_itself() {
    let mut scene = Scene::start(model());
    let stated: Uuid = value(
        &mut scene.client,
        "SELECT memory_add($1, session_id => 'monday', infer => false)",
        &[&lives_in("Rome")],
    );
    moved(&mut scene, "tuesday", "Rome");
    assert_eq!(scene.fact(&lives_in("Rome")).id, stated);
    run(&mut scene.client, "SELECT memory_erase(session_id => 'tuesday')");
    let fact = scene.fact(&lives_in("Rome"));
    assert_eq!((fact.session.as_deref(), fact.state.as_str()), (Some("monday"), "active"));
}

/// Sessions that say something at once compare it with each other, and what was said last holds.
#[test]
fn sessions_at_once_agree() {
    let mut scene = Scene::with_settings(model(), &[("memory_agent.job_workers", "4")]);
    for round in 0..4 {
        scene.stub.hold(true);
        for (number, city) in CITIES.iter().enumerate() {
            let (session, said) =
                (format!("{round} {}", 8 - number), format!("I moved to {city}."));
            let _: Uuid = value(
                &mut scene.client,
                "SELECT memory_ingest($1, 'user', $2)",
                &[&session, &said],
            );
        }
        scene.stub.hold(false);
        scene.drain();
        assert_eq!(scene.facts(), [lives_in("Basel")], "round {round}: {:#?}", scene.jobs());
        assert_counted(&mut scene);
    }
}
