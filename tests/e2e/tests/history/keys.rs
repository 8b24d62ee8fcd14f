//! The key of the chain: from a file, replaced by another one, lost, or unreadable.

use crate::{head, problems, remember, tamper, verify, wait_for_seals};
use memory_agent_e2e::memory::{run, value, values};
use memory_agent_e2e::{Client, Cluster, expect_error, wait_until};

#[test]
fn keys_are_replaced_and_their_loss_shows() {
    let cluster = Cluster::builder().preload(true).start();
    let file = cluster.socket_directory().join("audit.key");
    let mut client = cluster.database("history_keys").connect();
    run(
        &mut client,
        "CREATE EXTENSION pgcrypto; \
         CREATE FUNCTION field(bytes bytea) RETURNS bytea LANGUAGE sql AS $$ \
            SELECT coalesce(int4send(length(bytes)) || bytes, '\\xffffffff') $$",
    );
    remember(&mut client, 1..3);
    wait_for_seals(&mut client);
    assert_eq!(keys(&mut client), [None, None]);

    // A key: what was sealed before stays as it was.
    std::fs::write(&file, "first key\n").unwrap();
    let mut client = restarted(&cluster, file.to_str());
    remember(&mut client, 3..5);
    wait_for_seals(&mut client);
    assert_eq!(head(&mut client).detail.as_deref(), Some("2 rows sealed without a key"));
    let first: Option<String> = value(
        &mut client,
        "SELECT left(encode(hmac('memory_agent audit key', 'first key', 'sha256'), 'hex'), 16)",
        &[],
    );
    assert_eq!(keys(&mut client), [None, None, first.clone(), first.clone()]);
    let as_documented: bool = value(
        &mut client,
        &format!("SELECT hash = {HASH} FROM memory_agent.history WHERE seq = 4"),
        &[],
    );
    assert!(as_documented, "the hash is not what docs/history.md says");

    // Another one in front of it, without a reload.
    std::fs::write(&file, "second key\n\n  first key  \n").unwrap();
    remember(&mut client, 5..7);
    wait_for_seals(&mut client);
    let second = keys(&mut client)[5].clone();
    assert!(second.is_some() && second != first);
    assert_eq!(problems(&mut client), Vec::<String>::new());

    // The old one is gone: what it sealed cannot be checked, and that is said once.
    std::fs::write(&file, "second key\n").unwrap();
    assert_eq!(problems(&mut client), ["unknown key 3"]);
    let detail = verify(&mut client, "'alice'")[1].detail.clone();
    assert_eq!(detail, first.map(|key| format!("rows 3 to 4 were sealed with key {key}")));
    std::fs::write(&file, "second key\nfirst key").unwrap();

    // Unreadable: nothing is sealed in its place, and memory_status says so.
    std::fs::remove_file(&file).unwrap();
    remember(&mut client, 7..8);
    expect_error(client.query("SELECT * FROM memory_verify_history()", &[]), "F0000");
    assert_eq!(status(&mut client), "stopped");
    wait_until(crate::PATIENCE, "the worker to notice", || {
        let told: Vec<String> = values(
            &mut client,
            "SELECT detail FROM memory_status() WHERE component = 'worker' AND detail LIKE '%last error%'",
            &[],
        );
        !told.is_empty()
    });
    let unsealed = "SELECT count(*) FROM memory_agent.history WHERE seq IS NULL";
    assert_eq!(value::<i64>(&mut client, unsealed, &[]), 1);
    std::fs::write(&file, "second key\nfirst key").unwrap();
    wait_for_seals(&mut client);
    assert_eq!(keys(&mut client)[6], second);
    assert_eq!(status(&mut client), "sealed");

    // Somebody takes the key out of the settings: what is sealed then is a downgrade.
    let mut client = restarted(&cluster, None);
    remember(&mut client, 8..9);
    wait_for_seals(&mut client);
    cluster.alter_system("memory_agent.audit_key_file", file.to_str());
    let mut client = cluster.connect("history_keys");
    assert_eq!(problems(&mut client), ["downgrade 8"]);

    // Who has no key cannot make a chain that passes.
    tamper(
        &mut client,
        "UPDATE memory_agent.history SET op = 'delete', hash = sha256('forged') WHERE seq = 6",
    );
    let found = problems(&mut client);
    assert!(found.contains(&"edited 6".to_owned()), "{found:?}");
    assert!(!cluster.log().contains("first key") && !cluster.log().contains("second key"));
}

/// A session of alice after the setting was changed, for sure also in the worker.
fn restarted(cluster: &Cluster, file: Option<&str>) -> Client {
    cluster.alter_system("memory_agent.audit_key_file", file);
    cluster.restart();
    let mut client = cluster.connect("history_keys");
    run(&mut client, "SET memory_agent.user_id = 'alice'");
    client
}

/// The keys of alice's rows, in order.
fn keys(client: &mut Client) -> Vec<Option<String>> {
    values(
        client,
        "SELECT key_id FROM memory_agent.history WHERE user_id = 'alice' ORDER BY seq",
        &[],
    )
}

fn status(client: &mut Client) -> String {
    value(client, "SELECT state FROM memory_status() WHERE component = 'history'", &[])
}

/// The hash of a row with a key, as docs/history.md describes it, in SQL.
const HASH: &str = "hmac( \
    field('memory_agent history 1') || field(convert_to(key_id, 'UTF8')) || field(int8send(seq)) || field(prev_hash) \
    || field(uuid_send(id)) || field(convert_to(user_id, 'UTF8')) || field(uuid_send(entry_id)) \
    || field(convert_to(op, 'UTF8')) || field(int8send((extract(epoch FROM at) * 1000000)::int8)) \
    || field(convert_to(actor, 'UTF8')) || field(uuid_send(job_id)) || field(commitment), 'first key', 'sha256')";
