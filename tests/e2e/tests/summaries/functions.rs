//! `memory_compress` and `memory_originals` as their callers see them.

use crate::condenser::condenser;
use crate::scene::DATABASE;
use crate::talk::{scene, talk, whole, window};
use memory_agent_e2e::memory::{run, value, values};
use memory_agent_e2e::{Uuid, expect_error};

#[test]
fn a_window_is_compressed_by_hand() {
    let settings = [("memory_agent.summarization", "off")];
    let mut scene = scene(condenser, &settings);
    let ids = talk(&mut scene.client, "s", 12, 30);
    scene.drain();
    assert_eq!(scene.stub.call_count(), 0, "the window is not full");
    let job: Uuid = value(&mut scene.client, "SELECT memory_compress('s')", &[]);
    scene.drain();
    assert_eq!(window(&mut scene.client, "s"), ids[2..]);
    let summary = whole(&mut scene.client, "s");
    assert_eq!(summary.topics, ["bikes", "trains"]);
    let row = scene
        .client
        .query_one("SELECT kind, status FROM memory_jobs WHERE id = $1", &[&job])
        .expect("the job");
    assert_eq!((row.get::<_, &str>(0), row.get::<_, &str>(1)), ("compress", "done"));
    // Nothing else is there to be compressed.
    let mut nothing = |arguments: &str| {
        let sql = format!("SELECT memory_compress({arguments})");
        value::<Option<Uuid>>(&mut scene.client, &sql, &[])
    };
    assert_eq!(nothing("'s'"), None);
    assert_eq!(nothing("'unknown'"), None);
    assert_eq!(nothing("'s', agent_id => 'another'"), None);
    let message = expect_error(scene.client.query("SELECT memory_compress('')", &[]), "22023");
    assert!(message.contains("session_id"), "{message}");
    scene.cluster.alter_system("memory_agent.llm_base_url", Some(""));
    let mut client = scene.cluster.connect(DATABASE);
    let message = expect_error(client.query("SELECT memory_compress('s')", &[]), "55000");
    assert!(message.contains("llm_base_url"), "{message}");
}

#[test]
fn originals_are_there_for_their_user_alone() {
    let mut scene = scene(condenser, &[]);
    let ids = talk(&mut scene.client, "s", 6, 100);
    scene.drain();
    let summary = whole(&mut scene.client, "s");
    let rows = scene
        .client
        .query("SELECT * FROM memory_originals($1)", &[&summary.id])
        .expect("memory_originals");
    let found: Vec<Uuid> = rows.iter().map(|row| row.get("id")).collect();
    assert_eq!(found, ids);
    assert_eq!(rows[1].get::<_, &str>("role"), "assistant");
    assert!(rows[1].get::<_, &str>("content").starts_with("Note 1."));
    assert_eq!(rows[1].get::<_, &str>("state"), "active");
    run(&mut scene.client, "SELECT memory_compress('s')");
    run(&mut scene.client, "CREATE ROLE app LOGIN; SELECT memory_grant('app', 'reader')");
    let mut app = scene.cluster.connect_as(DATABASE, "app");
    run(&mut app, "SET memory_agent.user_id = 'bob'");
    let sql = "SELECT id FROM memory_originals($1)";
    assert!(values::<Uuid>(&mut app, sql, &[&summary.id]).is_empty());
    let other = "SELECT id FROM memory_originals($1, 'alice')";
    expect_error(app.query(other, &[&summary.id]), "42501");
    expect_error(app.query("SELECT memory_compress('s')", &[]), "42501");
    run(&mut app, "SET memory_agent.user_id = 'alice'; SET default_transaction_read_only = on");
    assert_eq!(values::<Uuid>(&mut app, sql, &[&summary.id]), ids);
    assert!(
        values::<Uuid>(&mut app, "SELECT id FROM memory_originals(gen_random_uuid())", &[])
            .is_empty()
    );
    expect_error(app.query("SELECT memory_originals(NULL)", &[]), "22004");
}
