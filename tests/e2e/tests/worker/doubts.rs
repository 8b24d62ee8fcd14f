//! Facts that an LLM chose to replace or to end that has not passed the probe: they stay, rank below what was said later
//! and are labelled, until a second statement decides.

use crate::scene::Scene;
use memory_agent_e2e::llm::{Call, Document, Purpose};
use memory_agent_e2e::memory::{recalled_texts, run, trust_llm, value};
use memory_agent_e2e::{Json, Uuid, json};

const HOME: &str = "The user lives in Rome.";
const WORK: &str = "The user works in Rome.";
const OSTIA: &str = "The user works in Ostia.";
const LABEL: &str = "(perhaps out of date; later: The user works in Rome.)";

/// Whatever it is shown, it chooses to replace: small models choose a memory although none is meant.
fn replaces_all(call: &Call) -> Json {
    let document = Document::of(call);
    if call.purpose() != Purpose::Extract {
        return json!({"choice": "replaces 1"});
    }
    let facts = document.turns.iter().map(|(turn, text)| {
        let fact = text.replace("I live", "The user lives").replace("I work", "The user works");
        json!({"turn": turn, "text": fact, "confidence": 1})
    });
    json!({"facts": facts.collect::<Vec<_>>()})
}

/// `HOME` is known, and `WORK` was to replace it.
fn doubted_home() -> Scene {
    let mut scene = Scene::start(replaces_all);
    assert_eq!(doubts(&mut scene), "doubted: 0 facts were doubted, of which 0 still are");
    scene.say_and_wait("I live in Rome.");
    scene.say_and_wait("I work in Rome.");
    assert_eq!(scene.facts(), [HOME, WORK]);
    scene
}

/// What `memory_status()` says of replacements.
fn doubts(scene: &mut Scene) -> String {
    let sql =
        "SELECT concat(state, ': ', detail) FROM memory_status() WHERE component = 'replacements'";
    value(&mut scene.client, sql, &[])
}

fn doubted_by(scene: &mut Scene, fact: &str) -> Option<Uuid> {
    let sql = "SELECT e.doubted_by FROM memory_agent.entries e \
                WHERE e.content = $1 AND e.kind = 'fact' AND e.state <> 'inactive'";
    value(&mut scene.client, sql, &[&fact])
}

/// The memories of a prompt of another session.
fn prompt(scene: &mut Scene) -> String {
    let sql = "SELECT memory_augment('[{\"role\": \"user\", \"content\": \"Where in Rome does the user live?\"}]', \
                      'another')::text";
    value(&mut scene.client, sql, &[])
}

#[test]
fn a_doubted_fact_stays_below_what_was_said_later() {
    let mut scene = doubted_home();
    let work = scene.fact(WORK).id;
    assert_eq!(doubted_by(&mut scene, HOME), Some(work));
    assert_eq!(
        doubts(&mut scene),
        "doubted: 1 facts were doubted, of which 1 still are; probe of stub-1: 0 of 16 right"
    );
    let question = "'Where does the user live?', kinds => '{fact}'";
    assert_eq!(recalled_texts(&mut scene.client, question), [WORK, HOME]);
    let label = "SELECT metadata ->> 'doubted_by' FROM memory_recall('Where does the user live?') \
                  WHERE content = $1";
    // The turn that it was made of says the same.
    for doubted in [HOME, "I live in Rome."] {
        let by: String = value(&mut scene.client, label, &[&doubted]);
        assert_eq!(by, work.to_string(), "{doubted}");
    }
    for holding in [WORK, "I work in Rome."] {
        assert_eq!(value::<Option<String>>(&mut scene.client, label, &[&holding]), None);
    }
    let told = "SELECT array_agg(DISTINCT row ->> 'doubted_by') \
                  FROM jsonb_array_elements(memory_explain('Where does the user live?') -> 'candidates') row \
                 WHERE row ? 'doubted_by'";
    assert_eq!(value::<Vec<String>>(&mut scene.client, told, &[]), [work.to_string()]);
    let prompt = prompt(&mut scene);
    assert!(prompt.contains(LABEL), "{prompt}");
    // Before it was said, nothing was doubted.
    let then = "'Where does the user live?', kinds => '{fact}', \
                as_of => (SELECT created_at FROM memory_agent.entries WHERE content = 'The user lives in Rome.')";
    assert_eq!(recalled_texts(&mut scene.client, then), [HOME]);
}

#[test]
fn said_again_the_later_fact_replaces_the_doubted_one() {
    let mut scene = doubted_home();
    let work = scene.fact(WORK).id;
    scene.say_and_wait("I work in Rome.");
    assert_eq!(scene.facts(), [WORK]);
    let home = scene.fact(HOME);
    assert_eq!((home.reason.as_deref(), home.replaced_by), (Some("superseded"), Some(work)));
    assert_eq!(scene.history(home.id), ["add", "supersede"]);
}

#[test]
fn stated_by_a_caller_the_later_fact_replaces_the_doubted_one() {
    let mut scene = doubted_home();
    run(&mut scene.client, "SELECT memory_add('The user works in Rome.', 's', infer => false)");
    assert_eq!(scene.facts(), [WORK]);
}

#[test]
fn said_again_the_doubted_fact_is_doubted_no_longer() {
    let mut scene = doubted_home();
    scene.say_and_wait("I live in Rome.");
    assert_eq!(scene.facts(), [HOME, WORK]);
    assert_eq!(doubted_by(&mut scene, HOME), None);
    let prompt = prompt(&mut scene);
    assert!(prompt.contains(HOME) && !prompt.contains("perhaps out of date"), "{prompt}");
    scene.say_and_wait("I work in Rome.");
    assert_eq!(scene.facts(), [HOME, WORK], "nothing is left to decide");
}

#[test]
fn what_takes_the_place_of_the_later_fact_takes_up_its_doubt() {
    let mut scene = doubted_home();
    let work = scene.fact(WORK).id;
    let update = format!("SELECT memory_update('{work}', '{OSTIA}')");
    run(&mut scene.client, &update);
    let ostia = scene.fact(OSTIA).id;
    assert_eq!(doubted_by(&mut scene, HOME), Some(ostia));
    // Who takes it back takes its doubt back.
    run(&mut scene.client, &format!("SELECT memory_forget('{ostia}')"));
    let question = "'Where does the user live?', kinds => '{fact}'";
    assert_eq!(recalled_texts(&mut scene.client, question), [HOME]);
    let prompt = prompt(&mut scene);
    assert!(prompt.contains(HOME) && !prompt.contains("perhaps out of date"), "{prompt}");
}

#[test]
fn a_doubt_is_exported_and_imported() {
    let mut scene = doubted_home();
    let work = scene.fact(WORK).id;
    run(&mut scene.client, "CREATE TABLE records AS SELECT r FROM memory_export_json() r");
    run(&mut scene.client, "SELECT memory_erase(user_id => session_user::text)");
    run(&mut scene.client, "SELECT memory_import_json(r) FROM records");
    assert_eq!(doubted_by(&mut scene, HOME), Some(work));
}

#[test]
fn an_llm_that_has_passed_the_probe_is_believed() {
    let mut scene = Scene::start(replaces_all);
    scene.say_and_wait("I live in Rome.");
    trust_llm(&mut scene.client);
    assert!(doubts(&mut scene).starts_with("believed: 0 "));
    scene.say_and_wait("I work in Rome.");
    assert_eq!(scene.facts(), [WORK], "the LLM is believed");
    assert_eq!(scene.fact(HOME).replaced_by, Some(scene.fact(WORK).id));
}
