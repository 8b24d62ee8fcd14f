//! Whose rows a direct SELECT shows, in each mode of `memory_agent.identity`, from sessions that did
//! everything a hostile client can do before the library is loaded. Every case runs on a server with
//! the library preloaded and on one without, where the first SELECT loads it.

use crate::{create_roles, grant, remember, set, users};
use memory_agent_e2e::memory::run;
use memory_agent_e2e::{Client, Cluster, Error, expect_error, sqlstate};
use std::collections::BTreeSet;

const MODES: [&str; 3] = ["setting", "required", "role"];

/// A view, and the table behind it, whose policy stands where SELECT was granted by hand.
const TABLE: &str = "SELECT DISTINCT user_id FROM memory_agent.entries";
const VIEW: &str = "SELECT DISTINCT user_id FROM public.memory_entries";

/// What a session of the role `mallory` should see.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sees {
    /// The rows of this user and the shared ones.
    User(&'static str),
    /// Nothing: an ERROR with this SQLSTATE.
    Error(&'static str),
}
use Sees::{Error as Fails, User};

/// What a client does first, and what it sees then in modes `setting`, `required` and `role`.
const SESSIONS: &[(&str, [Sees; 3])] = &[
    ("SELECT 1", [User("mallory"), Fails("42501"), User("mallory")]),
    // In modes that take the setting, the role is trusted to name its users.
    ("SET memory_agent.user_id = 'alice'", [User("alice"), User("alice"), User("mallory")]),
    (
        "SELECT pg_catalog.set_config('memory_agent.user_id', 'alice', false)",
        [User("alice"), User("alice"), User("mallory")],
    ),
    ("SET memory_agent.user_id = '*'", [Fails("42501"), Fails("42501"), User("mallory")]),
    ("SET memory_agent.user_id = ''", [User("mallory"), Fails("42501"), User("mallory")]),
    ("SET memory_agent.user_id = ' '", [Fails("22023"), Fails("22023"), User("mallory")]),
    (
        "SET memory_agent.user_id = 'alice'; RESET memory_agent.user_id",
        [User("mallory"), Fails("42501"), User("mallory")],
    ),
    (
        "SET memory_agent.user_id = 'alice'; RESET ALL",
        [User("mallory"), Fails("42501"), User("mallory")],
    ),
    (
        "SET memory_agent.user_id = 'alice'; DISCARD ALL",
        [User("mallory"), Fails("42501"), User("mallory")],
    ),
    (
        "BEGIN; SET LOCAL memory_agent.user_id = 'alice'; COMMIT",
        [User("mallory"), Fails("42501"), User("mallory")],
    ),
    (
        "BEGIN; SET memory_agent.user_id = 'alice'; ROLLBACK",
        [User("mallory"), Fails("42501"), User("mallory")],
    ),
    (
        "BEGIN; SET LOCAL memory_agent.user_id = 'alice'",
        [User("alice"), User("alice"), User("mallory")],
    ),
    ("SET session_replication_role = replica", [User("mallory"), Fails("42501"), User("mallory")]),
    ("SET ROLE alice", [User("mallory"), Fails("42501"), User("mallory")]),
    ("SET SESSION AUTHORIZATION alice", [User("mallory"), Fails("42501"), User("mallory")]),
    ("SET memory_agent.identity = 'setting'", [User("mallory"), Fails("42501"), User("mallory")]),
    (
        "SET memory_agent.identity = 'setting'; SET memory_agent.user_id = 'alice'",
        [User("alice"), User("alice"), User("mallory")],
    ),
    (
        "BEGIN; SET LOCAL memory_agent.identity = 'setting'; SET LOCAL memory_agent.user_id = 'alice'",
        [User("alice"), User("alice"), User("mallory")],
    ),
    (
        "ALTER ROLE mallory SET memory_agent.identity = 'setting'",
        [User("mallory"), Fails("42501"), User("mallory")],
    ),
    ("LOAD 'memory_agent'", [User("mallory"), Fails("42501"), User("mallory")]),
];

#[test]
fn sessions_with_the_library_preloaded() {
    every_mode(true);
}

#[test]
fn sessions_that_load_the_library_themselves() {
    every_mode(false);
}

fn every_mode(preload: bool) {
    let cluster = Cluster::builder().preload(preload).start();
    prepare(&mut cluster.database("db").connect());
    for (position, mode) in MODES.into_iter().enumerate() {
        cluster.alter_system("memory_agent.identity", Some(mode));
        for (first, expected) in SESSIONS {
            for query in [TABLE, VIEW] {
                let mut client = cluster.connect_as("db", "mallory");
                do_first(&mut client, first);
                let seen = users(&mut client, query);
                check(
                    seen,
                    expected[position],
                    &format!("mode {mode}, preload {preload}, {first}: {query}"),
                );
            }
        }
        // Row-level security cannot be switched off by those it is for.
        let mut client = cluster.connect_as("db", "mallory");
        run(&mut client, "SET row_security = off");
        expect_error(users(&mut client, TABLE), "42501");
        check(users(&mut client, VIEW), SESSIONS[0].1[position], "row_security = off");
        // Those it is not for need no identity.
        for role in ["postgres", "auditor"] {
            let mut client = cluster.connect_as("db", role);
            let everybody = set(&["*", "alice", "bob", "mallory"]);
            assert_eq!(users(&mut client, VIEW).unwrap(), everybody, "{role}, mode {mode}");
        }
        connection_options(&cluster, mode);
        roles_that_may_be_taken(&cluster, mode);
    }
}

fn prepare(superuser: &mut Client) {
    create_roles(superuser, &["alice", "bob", "mallory", "pool"]);
    superuser.batch_execute("GRANT alice, bob TO pool").unwrap();
    for role in ["alice", "bob", "mallory", "pool"] {
        grant(superuser, role, "user");
        run(superuser, &format!("GRANT SELECT ON memory_agent.entries TO {role}"));
    }
    run(
        superuser,
        "CREATE ROLE auditor LOGIN BYPASSRLS; GRANT SELECT ON public.memory_entries TO auditor; \
         GRANT EXECUTE ON FUNCTION memory_agent.visible_users() TO auditor",
    );
    superuser.batch_execute("SET memory_agent.embed_on_ingest = off").unwrap();
    for user in ["alice", "bob", "mallory", "*"] {
        remember(superuser, user, &format!("a memory of {user}"));
    }
}

/// Runs the statements one by one, each whether or not those before it were refused.
fn do_first(client: &mut Client, statements: &str) {
    for statement in statements.split("; ") {
        // Whether it is refused differs with the library loaded; what counts is what is seen then.
        let _ = client.batch_execute(statement);
    }
}

fn check(seen: Result<BTreeSet<String>, Error>, expected: Sees, case: &str) {
    match (seen, expected) {
        (Ok(seen), User(user)) => assert_eq!(seen, set(&["*", user]), "{case}"),
        (Err(error), Fails(state)) => {
            // A refused statement leaves its transaction in the failed state: nothing is seen.
            assert!([state, "25P02"].contains(&sqlstate(&error)), "{case}: {error:?}");
        }
        (seen, expected) => {
            let is_aborted = matches!(&seen, Err(error) if sqlstate(error) == "25P02");
            assert!(is_aborted, "{case}: expected {expected:?}, saw {seen:?}");
        }
    }
}

/// Options sent with the connection arrive before anything else, and outrank postgresql.conf for
/// settings whose library is not loaded yet.
fn connection_options(cluster: &Cluster, mode: &str) {
    let options = "-c memory_agent.identity=setting -c memory_agent.user_id=alice";
    let connected = cluster.config("db").user("mallory").options(options).connect(postgres::NoTls);
    let Ok(mut client) = connected else { return }; // with the library preloaded it is refused here
    match users(&mut client, TABLE) {
        Ok(seen) if mode == "role" => {
            assert_eq!(seen, set(&["*", "mallory"]), "options in mode {mode}")
        }
        Ok(seen) => assert_eq!(seen, set(&["*", "alice"]), "options in mode {mode}"),
        Err(error) => assert_eq!(sqlstate(&error), "42501", "{error:?}"),
    }
    let options = "-c memory_agent.identity=setting";
    let connected = cluster.config("db").user("mallory").options(options).connect(postgres::NoTls);
    let Ok(mut client) = connected else { return };
    match users(&mut client, TABLE) {
        Ok(seen) => {
            assert_ne!(mode, "required", "an option made the identity optional: {seen:?}");
            assert_eq!(seen, set(&["*", "mallory"]), "options in mode {mode}");
        }
        Err(error) => assert_eq!(sqlstate(&error), "42501", "{error:?}"),
    }
}

/// A pooler's role that may become others sees what the role sees that it has become.
fn roles_that_may_be_taken(cluster: &Cluster, mode: &str) {
    let mut client = cluster.connect_as("db", "pool");
    if mode == "required" {
        expect_error(users(&mut client, TABLE), "42501");
        return;
    }
    for role in ["alice", "bob"] {
        client.batch_execute(&format!("SET ROLE {role}")).unwrap();
        assert_eq!(
            users(&mut client, TABLE).unwrap(),
            set(&["*", role]),
            "SET ROLE {role}, mode {mode}"
        );
        client.batch_execute("RESET ROLE").unwrap();
        assert_eq!(users(&mut client, TABLE).unwrap(), set(&["*"]), "RESET ROLE, mode {mode}");
    }
    // A prepared statement belongs to the session, its identity to the moment.
    let statement = client.prepare(TABLE).unwrap();
    for role in ["alice", "bob", "alice"] {
        client.batch_execute(&format!("SET ROLE {role}")).unwrap();
        let rows = client.query(&statement, &[]).unwrap();
        let seen: BTreeSet<String> = rows.iter().map(|row| row.get(0)).collect();
        assert_eq!(seen, set(&["*", role]), "a prepared statement as {role}, mode {mode}");
    }
}

/// Functions follow the same rules as SELECT, and refuse a user_id that contradicts them.
#[test]
fn the_user_argument_never_widens_an_identity() {
    let cluster = Cluster::builder().preload(true).start();
    let mut superuser = cluster.database("db").connect();
    prepare(&mut superuser);
    create_roles(&mut superuser, &["chief"]);
    grant(&mut superuser, "chief", "admin");
    for mode in MODES {
        cluster.alter_system("memory_agent.identity", Some(mode));
        let mut mallory = cluster.connect_as("db", "mallory");
        let mut chief = cluster.connect_as("db", "chief");
        for call in calls("alice") {
            // Without a set identity the argument names the user, except where the role is the user.
            let result = mallory.execute(&call, &[]);
            match mode {
                "role" => drop(expect_error(result, "42501")),
                _ => drop(result.unwrap_or_else(|error| panic!("mode {mode}, {call}: {error:?}"))),
            }
            chief
                .execute(&call, &[])
                .unwrap_or_else(|error| panic!("admin, mode {mode}, {call}: {error:?}"));
        }
        mallory.batch_execute("SET memory_agent.user_id = 'mallory'").unwrap();
        chief.batch_execute("SET memory_agent.user_id = 'chief'").unwrap();
        for call in calls("alice").into_iter().chain(calls("*")) {
            let message = expect_error(mallory.execute(&call, &[]), "42501");
            assert!(!message.contains("a memory of"), "{message}");
            // What to do is no way to read what others remember.
            let is_shared = call.contains("'*'");
            let is_named = message.contains("is \"mallory\", the argument is \"alice\"");
            assert!(is_shared || (is_named && !message.contains("memory_grant")), "{message}");
            chief
                .execute(&call, &[])
                .unwrap_or_else(|error| panic!("admin, mode {mode}, {call}: {error:?}"));
        }
        for call in calls("mallory") {
            mallory
                .execute(&call, &[])
                .unwrap_or_else(|error| panic!("mode {mode}, {call}: {error:?}"));
        }
        mallory.batch_execute("RESET memory_agent.user_id").unwrap();
        for call in calls("*") {
            expect_error(mallory.execute(&call, &[]), "42501");
        }
        for call in calls(" ").into_iter().chain(calls("")) {
            expect_error(mallory.execute(&call, &[]), "22023");
        }
        // The setting cannot make a user of '*', not even for those who may name it.
        chief.batch_execute("SET memory_agent.user_id = '*'").unwrap();
        if mode != "role" {
            expect_error(chief.execute("SELECT public.memory_stats()", &[]), "42501");
        }
    }
}

/// One call of every function with the argument user_id.
fn calls(user: &str) -> [String; 8] {
    [
        format!("SELECT public.memory_ingest('s', 'user', 'said', user_id => '{user}')"),
        format!("SELECT public.memory_ingest_batch('[]', 's', '{user}')"),
        format!("SELECT public.memory_add('a fact', user_id => '{user}', infer => false)"),
        format!("SELECT public.memory_close_episode('s', user_id => '{user}')"),
        format!("SELECT public.memory_recall('memory', user_id => '{user}', rerank => false)"),
        format!("SELECT public.memory_explain('memory', user_id => '{user}', rerank => false)"),
        format!("SELECT public.memory_context('s', 'memory', user_id => '{user}')"),
        format!("SELECT public.memory_stats(user_id => '{user}')"),
    ]
}

/// A role may be called '*' and still is nobody's shared memory.
#[test]
fn a_role_is_not_the_shared_user_by_its_name() {
    let cluster = Cluster::builder().preload(true).start();
    let mut superuser = cluster.database("db").connect();
    create_roles(&mut superuser, &["*"]);
    grant(&mut superuser, "*", "user");
    remember(&mut superuser, "alice", "a memory of alice");
    for mode in MODES {
        cluster.alter_system("memory_agent.identity", Some(mode));
        let mut client = cluster.connect_as("db", "*");
        expect_error(
            client.execute("SELECT public.memory_ingest('s', 'user', 'for all')", &[]),
            "42501",
        );
        expect_error(users(&mut client, VIEW), "42501");
    }
}
