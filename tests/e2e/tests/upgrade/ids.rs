//! Ids that an older version took and 0.3.0 refuses: nothing more is stored under them, and an administrator exports
//! and erases what is there.

use crate::{RELEASED, older_database, update};
use memory_agent_e2e::memory::{run, value, values};
use memory_agent_e2e::{Client, Json, expect_error, shared_without_worker};

/// A user, an agent and a session, as SQL writes them.
const USER: &str = "E'zoe\\n'";
const AGENT: &str = "' a'";
const SESSION: &str = "E's\\t1 '";

/// Memory under such ids, and what a user with a usual id has.
fn filled(name: &str, version: &str) -> Client {
    let mut client = older_database(shared_without_worker(), name, version);
    run(
        &mut client,
        &format!(
            "SET memory_agent.embed_on_ingest = off; SET memory_agent.user_id = 'zoe'; \
             SELECT memory_ingest('s', 'user', 'I live in Oslo.', agent_id => 'a'); \
             SELECT memory_ingest('s', 'assistant', 'Noted.', agent_id => 'a'); \
             SELECT memory_add('She lives in Oslo.', infer => false, agent_id => 'a'); \
             SELECT memory_configure(agent_id => 'a', settings => '{{\"recency_weight\": 0.1}}'); \
             SET session_replication_role = replica; \
             DO $$ DECLARE t text; c text; BEGIN \
                 FOR t, c IN SELECT a.attrelid::regclass, a.attname FROM pg_attribute a JOIN pg_class r ON r.oid = a.attrelid \
                          WHERE r.relnamespace = 'memory_agent'::regnamespace AND r.relkind = 'r' \
                            AND a.attname IN ('user_id', 'agent_id', 'session_id') LOOP \
                     EXECUTE format('UPDATE %s SET %I = CASE %2$I WHEN ''zoe'' THEN %L WHEN ''a'' THEN %L WHEN ''s'' THEN %L \
                                                        ELSE %2$I END', t, c, {USER}, {AGENT}, {SESSION}); \
                 END LOOP; END $$; \
             RESET session_replication_role; \
             SELECT memory_ingest('s', 'user', 'I live in Rome.', agent_id => 'a'); \
             RESET memory_agent.user_id"
        ),
    );
    client
}

fn exported(client: &mut Client, user: &str) -> Vec<Json> {
    values(client, &format!("SELECT memory_export_json(user_id => {user})"), &[])
}

fn contents(client: &mut Client, user: &str) -> Vec<String> {
    let records = exported(client, user);
    let mut contents: Vec<String> = records
        .iter()
        .filter(|record| record["role"] != "history")
        .filter_map(|record| Some(record["content"].as_str()?.to_owned()))
        .collect();
    contents.sort();
    contents
}

#[test]
fn what_is_there_is_exported_and_erased() {
    for version in RELEASED {
        let name = format!("upgrade_ids_{}", version.replace('.', "_"));
        let mut client = filled(&name, version);
        update(&mut client);
        let role = format!("{name}_admin");
        run(
            &mut client,
            &format!("CREATE ROLE {role} LOGIN; SELECT memory_grant('{role}', 'admin')"),
        );
        let mut admin = shared_without_worker().connect_as(&name, &role);

        // Nothing more is stored, and nothing is changed.
        for refused in [
            format!("SELECT memory_ingest('s', 'user', 'x', user_id => {USER})"),
            format!(
                "SELECT memory_ingest('s', 'user', 'x', user_id => 'zoe', agent_id => {AGENT})"
            ),
            format!("SELECT memory_ingest({SESSION}, 'user', 'x', user_id => 'zoe')"),
            format!("SELECT memory_clear({SESSION}, user_id => {USER}, agent_id => {AGENT})"),
        ] {
            expect_error(admin.batch_execute(&refused), "22023");
        }

        assert_eq!(contents(&mut admin, USER), ["I live in Oslo.", "Noted.", "She lives in Oslo."]);
        let of_agent = format!("SELECT count(*) FROM memory_export_json({USER}, {AGENT})");
        assert!(value::<i64>(&mut admin, &of_agent, &[]) > 3);
        let files =
            format!("SELECT content FROM memory_export_markdown({SESSION}, {USER}, {AGENT})");
        let files: Vec<String> = values(&mut admin, &files, &[]);
        assert_eq!(files.len(), 2, "{files:?}");

        let erase = format!("SELECT memory_erase({USER}, {SESSION}, agent_id => {AGENT})");
        let counts: Json = value(&mut admin, &erase, &[]);
        assert_eq!((&counts["entries"], &counts["sessions"]), (&2.into(), &1.into()), "{counts}");
        assert_eq!(contents(&mut admin, USER), ["She lives in Oslo."]);
        let counts: Json =
            value(&mut admin, &format!("SELECT memory_erase(user_id => {USER})"), &[]);
        assert_eq!((&counts["entries"], &counts["agents"]), (&1.into(), &1.into()), "{counts}");
        assert!(exported(&mut admin, USER).iter().all(|record| record["role"] == "history"));
        assert_eq!(contents(&mut admin, "'zoe'"), ["I live in Rome."], "another user's stays");
    }
}
