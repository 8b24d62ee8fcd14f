//! After a call that failed in the middle, in every way it can fail, the session is who it was: the
//! extension's owner, its search_path and its powers are gone.

use crate::{create_roles, grant};
use memory_agent_e2e::{Client, Database, expect_error, shared, wait_until};
use std::time::Duration;

/// A call that waits for the session's row in the section that runs as the owner, because another
/// transaction has locked it.
const BLOCKED: &str = "SELECT public.memory_ingest('s', 'user', 'waits', user_id => 'alice')";

/// A call that fails there without PostgreSQL's error machinery: the dimension is wrong.
const REFUSED: &str = "SELECT public.memory_recall('x', query_embedding => '[1,2,3]')";

fn prepare(name: &'static str, role: &str) -> (Database<'static>, Client) {
    let database = shared().database(name);
    let mut superuser = database.connect();
    create_roles(&mut superuser, &[role]);
    let member = format!("{role}_member");
    create_roles(&mut superuser, &[&member]);
    superuser.batch_execute(&format!("GRANT {member} TO {role}")).unwrap();
    grant(&mut superuser, role, "user");
    superuser.batch_execute("SELECT memory_ingest('s', 'user', 'there')").unwrap();
    let mut client = database.connect_as(role);
    client.batch_execute("SET search_path = public, pg_temp").unwrap();
    (database, client)
}

/// Holds the session's row until it is dropped.
fn lock_session(database: &Database<'_>) -> Client {
    let mut blocker = database.connect();
    blocker.batch_execute("BEGIN; SELECT FROM memory_agent.sessions FOR UPDATE").unwrap();
    blocker
}

/// The session has its own role, search_path and rights.
#[track_caller]
fn assert_restored(client: &mut Client, role: &str, member: &str) {
    let row = client
        .query_one(
            "SELECT current_user::text, session_user::text, current_setting('search_path')",
            &[],
        )
        .unwrap();
    let found: [String; 3] = [row.get(0), row.get(1), row.get(2)];
    assert_eq!(found, [role, role, "public, pg_temp"].map(str::to_owned));
    // Forbidden while the section is open.
    client.batch_execute(&format!("SET ROLE {member}")).unwrap();
    expect_error(client.batch_execute("SELECT FROM memory_agent.history"), "42501");
    client.batch_execute("RESET ROLE").unwrap();
    expect_error(client.batch_execute("DELETE FROM memory_agent.entries"), "42501");
    expect_error(client.batch_execute("SELECT FROM pg_authid"), "42501");
    client.batch_execute("SELECT count(*) FROM memory_entries").unwrap();
}

#[test]
fn after_errors_of_statements() {
    let (database, mut client) = prepare("restoration_errors", "restoration_a");
    let restored =
        |client: &mut Client| assert_restored(client, "restoration_a", "restoration_a_member");
    expect_error(client.batch_execute(REFUSED), "22023");
    restored(&mut client);
    let blocker = lock_session(&database);
    client.batch_execute("SET lock_timeout = '50ms'").unwrap();
    expect_error(client.batch_execute(BLOCKED), "55P03");
    restored(&mut client);
    client.batch_execute("SET lock_timeout = 0; SET statement_timeout = '300ms'").unwrap();
    expect_error(client.batch_execute(BLOCKED), "57014");
    client.batch_execute("SET statement_timeout = 0").unwrap();
    restored(&mut client);
    drop(blocker);
    client.batch_execute(BLOCKED).unwrap();
    restored(&mut client);
}

#[test]
fn after_a_cancel() {
    let (database, mut client) = prepare("restoration_cancel", "restoration_b");
    let _blocker = lock_session(&database);
    let pid: i32 = client.query_one("SELECT pg_backend_pid()", &[]).unwrap().get(0);
    let mut superuser = database.connect();
    std::thread::scope(|scope| {
        let blocked = scope.spawn(|| {
            expect_error(client.batch_execute(BLOCKED), "57014");
            client
        });
        let waits = "SELECT count(*) FROM pg_locks WHERE pid = $1 AND NOT granted";
        wait_until(Duration::from_secs(30), "the call to wait for the lock", || {
            superuser.query_one(waits, &[&pid]).unwrap().get::<_, i64>(0) > 0
        });
        superuser.execute("SELECT pg_cancel_backend($1)", &[&pid]).unwrap();
        let mut client = blocked.join().unwrap();
        assert_restored(&mut client, "restoration_b", "restoration_b_member");
    });
}

/// Inside a transaction that goes on: in an EXCEPTION block, and after ROLLBACK TO.
#[test]
fn after_errors_that_are_caught() {
    let (database, mut client) = prepare("restoration_caught", "restoration_c");
    let blocker = lock_session(&database);
    client
        .batch_execute(
            "CREATE FUNCTION pg_temp.attempt(call text) RETURNS text LANGUAGE plpgsql AS $$ \
             BEGIN EXECUTE call; RETURN 'it succeeded'; \
             EXCEPTION WHEN OTHERS OR query_canceled THEN \
                 RETURN concat_ws(' ', SQLSTATE, current_user, current_setting('search_path')); \
             END $$",
        )
        .unwrap();
    for (settings, call, state) in [
        ("SET LOCAL lock_timeout = '50ms'", BLOCKED, "55P03"),
        ("SET LOCAL statement_timeout = '300ms'", BLOCKED, "57014"),
        ("", REFUSED, "22023"),
    ] {
        client.batch_execute(&format!("BEGIN; {settings}")).unwrap();
        let outcome: String =
            client.query_one("SELECT pg_temp.attempt($1)", &[&call]).unwrap().get(0);
        assert_eq!(outcome, format!("{state} restoration_c public, pg_temp"));
        client.batch_execute("SET LOCAL statement_timeout = 0; SAVEPOINT before").unwrap();
        client.batch_execute("SET LOCAL lock_timeout = '50ms'").unwrap();
        expect_error(client.batch_execute(BLOCKED), "55P03");
        client.batch_execute("ROLLBACK TO before").unwrap();
        let user: String = client.query_one("SELECT current_user::text", &[]).unwrap().get(0);
        assert_eq!(user, "restoration_c");
        client.batch_execute("SET LOCAL ROLE restoration_c_member; COMMIT").unwrap();
        assert_restored(&mut client, "restoration_c", "restoration_c_member");
    }
    drop(blocker);
}

/// A role that was taken with SET ROLE, or by a SECURITY DEFINER function, is what comes back.
#[test]
fn to_the_role_that_was_current() {
    let (database, mut client) = prepare("restoration_nested", "restoration_d");
    let mut superuser = database.connect();
    grant(&mut superuser, "restoration_d_member", "reader");
    client.batch_execute("SET ROLE restoration_d_member").unwrap();
    client.batch_execute("SELECT memory_stats()").unwrap();
    expect_error(client.batch_execute(BLOCKED), "42501");
    let user: String = client.query_one("SELECT current_user::text", &[]).unwrap().get(0);
    assert_eq!(user, "restoration_d_member");
    // The level is that of the function's owner while it runs, and the session's own afterwards.
    superuser
        .batch_execute(
            "CREATE FUNCTION public.store(content text) RETURNS text SECURITY DEFINER LANGUAGE plpgsql \
                 SET search_path = pg_catalog, pg_temp \
             AS $$ BEGIN PERFORM public.memory_ingest('s', 'user', content); RETURN current_user; END $$; \
             ALTER FUNCTION public.store(text) OWNER TO restoration_d",
        )
        .unwrap();
    let user: String = client.query_one("SELECT public.store('by proxy')", &[]).unwrap().get(0);
    assert_eq!(user, "restoration_d");
    expect_error(client.batch_execute(BLOCKED), "42501");
    client.batch_execute("RESET ROLE").unwrap();
    assert_restored(&mut client, "restoration_d", "restoration_d_member");
}
