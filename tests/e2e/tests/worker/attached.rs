//! Facts from rows of attached tables, where that is wanted.

use crate::scene::{PATIENCE, Scene};
use memory_agent_e2e::llm::ScriptedModel;
use memory_agent_e2e::memory::{run, value};
use memory_agent_e2e::{sqlstate, wait_until};

const ROME: &str = "User lives in Rome.";
const OSLO: &str = "User lives in Oslo.";

fn scene() -> Scene {
    let model = ScriptedModel::new().knows("I moved to Rome.", "home", "Rome", ROME).knows(
        "I moved to Oslo.",
        "home",
        "Oslo",
        OSLO,
    );
    let mut scene = Scene::with_settings(model, &[("memory_agent.sweep_interval", "1")]);
    run(
        &mut scene.client,
        "CREATE TABLE notes (id int PRIMARY KEY, who text, talk text, role text, body text)",
    );
    scene
}

fn wait_for_facts(scene: &mut Scene, facts: &[&str]) {
    wait_until(PATIENCE, "facts of the rows", || scene.facts() == facts);
}

#[test]
fn facts_are_extracted_from_rows_where_that_is_wanted() {
    let mut scene = scene();
    run(
        &mut scene.client,
        "SELECT memory_attach('notes', 'body', extract_facts => true, user_id_column => 'who', \
                              session_id_column => 'talk', role_column => 'role');
         INSERT INTO notes VALUES (1, 'alice', 'monday', 'user', 'I moved to Rome.'), \
                                  (2, 'alice', 'monday', 'assistant', 'I moved to Oslo.')",
    );
    wait_for_facts(&mut scene, &[ROME]);
    let fact = scene.fact(ROME);
    let place: String = value(
        &mut scene.client,
        "SELECT concat_ws(' ', f.user_id, f.session_id, t.source_key, s.active_entries) \
           FROM memory_agent.entries f JOIN memory_agent.entries t ON t.id = f.source_ids[1] \
           JOIN memory_agent.sessions s ON s.session_id = f.session_id \
          WHERE f.id = $1",
        &[&fact.id],
    );
    assert_eq!(place, "alice monday [1] 1", "rows of tables do not count");
    // What changes is read again, in another session too.
    run(&mut scene.client, "UPDATE notes SET body = 'Nothing.' WHERE id = 2");
    run(
        &mut scene.client,
        "INSERT INTO notes VALUES (3, 'alice', 'tuesday', 'user', 'I moved to Oslo.')",
    );
    wait_for_facts(&mut scene, &[OSLO]);
    assert_eq!(scene.fact(ROME).replaced_by, Some(scene.fact(OSLO).id));
    run(&mut scene.client, "UPDATE notes SET body = 'I moved to Rome.' WHERE id = 3");
    wait_for_facts(&mut scene, &[ROME]);
    // Facts are memories of their own.
    run(&mut scene.client, "DELETE FROM notes");
    scene.drain();
    assert_eq!(scene.facts(), [ROME]);
}

#[test]
fn by_default_none_are() {
    let mut scene = scene();
    run(
        &mut scene.client,
        "SELECT memory_attach('notes', 'body', user_id_column => 'who', session_id_column => 'talk');
         INSERT INTO notes VALUES (1, 'alice', 'monday', 'user', 'I moved to Rome.')",
    );
    scene.drain();
    // A sweep has looked at everything by the time that this turn is done.
    run(&mut scene.client, "SELECT memory_ingest('s', 'user', 'I moved to Oslo.')");
    wait_for_facts(&mut scene, &[OSLO]);
    let waiting: i64 = value(
        &mut scene.client,
        "SELECT count(*) FROM memory_agent.entries WHERE kind = 'turn' AND extracted_at IS NULL",
        &[],
    );
    assert_eq!((waiting, scene.facts()), (0, vec![OSLO.to_owned()]));
    let nobodys = "SELECT memory_attach('notes', 'body', extract_facts => true)";
    let refused = scene.client.batch_execute(nobodys).expect_err("nobody's facts");
    assert_eq!(sqlstate(&refused), "22023");
}
