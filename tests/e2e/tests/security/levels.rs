//! memory_grant and memory_revoke: what a level is worth, whom it reaches, and how it ends.

use crate::{create_roles, grant};
use memory_agent_e2e::{Client, expect_error, shared};

const READ: &str = "SELECT public.memory_stats()";
const WRITE: &str = "SELECT public.memory_close_episode('none')";
const COUNT: &str = "SELECT public.memory_token_user(sha256('x'))";
const ADMINISTER: &str = "SELECT public.memory_stats(user_id => 'somebody else')";

/// The level a session has, found by trying.
fn level(client: &mut Client) -> &'static str {
    client.batch_execute("SET memory_agent.user_id = 'somebody'").unwrap();
    let mut can = |call: &str| match client.batch_execute(call) {
        Ok(()) => true,
        Err(error) => {
            assert_eq!(memory_agent_e2e::sqlstate(&error), "42501", "{call}: {error:?}");
            false
        }
    };
    match (can(READ), can(WRITE), can(COUNT), can(ADMINISTER)) {
        (false, false, false, false) => "nothing",
        (true, false, false, false) => "reader",
        (true, true, false, false) => "user",
        (true, true, true, false) => "gateway",
        (true, true, true, true) => "admin",
        other => panic!("no level allows this: {other:?}"),
    }
}

fn level_of(database: &str, role: &str) -> &'static str {
    level(&mut shared().connect_as(database, role))
}

fn recorded(superuser: &mut Client) -> Vec<(String, String)> {
    superuser
        .query("SELECT role_name::text, level FROM memory_agent.grants ORDER BY 1", &[])
        .unwrap()
        .iter()
        .map(|row| (row.get(0), row.get(1)))
        .collect()
}

#[test]
fn a_level_is_given_raised_lowered_and_taken() {
    let database = shared().database("levels_life");
    let mut superuser = database.connect();
    create_roles(&mut superuser, &["life"]);
    assert_eq!(level_of(database.name(), "life"), "nothing");
    for level in ["reader", "admin", "gateway", "user", "user", "gateway", "reader"] {
        grant(&mut superuser, "life", level);
        assert_eq!(level_of(database.name(), "life"), level);
        assert_eq!(recorded(&mut superuser), [("life".to_owned(), level.to_owned())]);
    }
    superuser.batch_execute("SELECT memory_grant('life')").unwrap();
    assert_eq!(level_of(database.name(), "life"), "user", "the default");
    let had: bool = superuser.query_one("SELECT memory_revoke('life')", &[]).unwrap().get(0);
    assert!(had);
    assert_eq!(level_of(database.name(), "life"), "nothing");
    assert_eq!(recorded(&mut superuser), []);
    let had: bool = superuser.query_one("SELECT memory_revoke('life')", &[]).unwrap().get(0);
    assert!(!had);
    // Nothing of it is left behind that would keep the role from being dropped.
    superuser.batch_execute("DROP ROLE life").unwrap();
}

#[test]
fn role_names_that_need_quoting() {
    let database = shared().database("levels_names");
    let mut superuser = database.connect();
    let names = [
        "Mixed Case",
        "select",
        "with\"\"quote",
        "with'quote",
        "semi; DROP TABLE x; --",
        "ünïcödé",
        "%s",
        "a.b",
    ];
    create_roles(&mut superuser, &names);
    for name in names {
        grant(&mut superuser, name, "user");
        let plain = name.replace("\"\"", "\"");
        assert_eq!(level_of(database.name(), &plain), "user", "{plain}");
        assert_eq!(recorded(&mut superuser), [(plain.clone(), "user".to_owned())]);
        let quoted = format!("\"{name}\"");
        superuser.execute("SELECT memory_revoke($1::text::regrole)", &[&quoted]).unwrap();
        assert_eq!(level_of(database.name(), &plain), "nothing", "{plain}");
    }
}

#[test]
fn members_have_the_level_of_their_groups() {
    let database = shared().database("levels_members");
    let mut superuser = database.connect();
    create_roles(&mut superuser, &["readers", "admins", "member"]);
    grant(&mut superuser, "readers", "reader");
    grant(&mut superuser, "admins", "admin");
    superuser.batch_execute("GRANT readers TO member").unwrap();
    assert_eq!(level_of(database.name(), "member"), "reader");
    superuser.batch_execute("GRANT admins TO member").unwrap();
    assert_eq!(level_of(database.name(), "member"), "admin", "the highest counts");
    // Who does not inherit has the level only as the group.
    superuser.batch_execute("ALTER ROLE member NOINHERIT").unwrap();
    let mut client = shared().connect_as(database.name(), "member");
    let decided_by_the_role = "SELECT current_setting('server_version_num')::int < 160000";
    if superuser.query_one(decided_by_the_role, &[]).unwrap().get(0) {
        // Since PostgreSQL 16 this is decided when membership is granted.
        assert_eq!(level(&mut client), "nothing");
    }
    client.batch_execute("SET ROLE admins").unwrap();
    assert_eq!(level(&mut client), "admin");
    superuser.batch_execute("ALTER ROLE member INHERIT; REVOKE admins FROM member").unwrap();
    assert_eq!(level_of(database.name(), "member"), "reader");
    superuser.batch_execute("REVOKE readers FROM member").unwrap();
    assert_eq!(level_of(database.name(), "member"), "nothing");
}

#[test]
fn only_the_owner_gives_levels() {
    let database = shared().database("levels_owner");
    let mut superuser = database.connect();
    create_roles(&mut superuser, &["chief", "friend"]);
    grant(&mut superuser, "chief", "admin");
    let mut chief = database.connect_as("chief");
    expect_error(chief.batch_execute("SELECT memory_grant('friend')"), "42501");
    expect_error(chief.batch_execute("SELECT memory_grant('chief', 'admin')"), "42501");
    expect_error(chief.batch_execute("SELECT memory_revoke('chief')"), "42501");
    // An admin cannot pass on what they have either: PostgreSQL warns and grants nothing.
    chief.batch_execute("GRANT EXECUTE ON FUNCTION memory_stats TO friend").unwrap();
    assert_eq!(level_of(database.name(), "friend"), "nothing");
    // EXECUTE by hand does not help: the function looks for itself.
    superuser
        .batch_execute("GRANT EXECUTE ON FUNCTION memory_grant, memory_revoke TO chief")
        .unwrap();
    expect_error(chief.batch_execute("SELECT memory_grant('friend')"), "42501");
    expect_error(chief.batch_execute("SELECT memory_revoke('chief')"), "42501");
}

#[test]
fn unknown_levels_and_roles_are_refused() {
    let mut superuser = shared().database("levels_unknown").connect();
    create_roles(&mut superuser, &["somebody"]);
    for level in ["'owner'", "''", "'USER'", "NULL"] {
        expect_error(
            superuser.batch_execute(&format!("SELECT memory_grant('somebody', {level})")),
            "22023",
        );
    }
    expect_error(superuser.batch_execute("SELECT memory_grant('nobody there')"), "42602");
    expect_error(superuser.batch_execute("SELECT memory_grant('nobody_there')"), "42704");
    for role in ["99999::oid::regrole", "'-'::regrole", "NULL"] {
        expect_error(superuser.batch_execute(&format!("SELECT memory_grant({role})")), "42704");
        expect_error(superuser.batch_execute(&format!("SELECT memory_revoke({role})")), "42704");
    }
    assert_eq!(recorded(&mut superuser), []);
}

/// State and detail of the rows of `memory_status()` about levels.
fn told(client: &mut Client) -> Vec<(String, String)> {
    client
        .query("SELECT state, detail FROM memory_status() WHERE component = 'levels'", &[])
        .unwrap()
        .iter()
        .map(|row| (row.get(0), row.get(1)))
        .collect()
}

fn pairs(expected: &[(&str, &str)]) -> Vec<(String, String)> {
    expected.iter().map(|(left, right)| ((*left).to_owned(), (*right).to_owned())).collect()
}

#[test]
fn a_level_follows_a_renamed_role() {
    let database = shared().database("levels_renamed");
    let mut superuser = database.connect();
    create_roles(&mut superuser, &["shop", "shop_watcher", "shop_boss"]);
    grant(&mut superuser, "shop", "user");
    grant(&mut superuser, "shop_watcher", "reader");
    grant(&mut superuser, "shop_boss", "admin");
    superuser.batch_execute("ALTER ROLE shop RENAME TO webshop").unwrap();
    assert_eq!(level_of(database.name(), "webshop"), "user");
    // The old name is another role now, which gets nothing, not even with the privileges of a level.
    create_roles(&mut superuser, &["shop"]);
    assert_eq!(level_of(database.name(), "shop"), "nothing");
    superuser
        .batch_execute(
            "GRANT USAGE ON SCHEMA memory_agent TO shop; \
             GRANT EXECUTE ON FUNCTION memory_ingest, memory_stats, memory_close_episode TO shop",
        )
        .unwrap();
    assert_eq!(level_of(database.name(), "shop"), "nothing");

    let renamed = pairs(&[("renamed", "roles that were renamed: \"shop\" to \"webshop\"")]);
    assert_eq!(told(&mut superuser), renamed);
    assert_eq!(told(&mut database.connect_as("shop_boss")), renamed);
    let mut watcher = database.connect_as("shop_watcher");
    assert_eq!(told(&mut watcher), pairs(&[("renamed", "roles that were renamed: 1")]));
    superuser.batch_execute("SELECT memory_agent.renew_levels()").unwrap();
    assert_eq!(told(&mut superuser), []);
    let expected = [("shop_boss", "admin"), ("shop_watcher", "reader"), ("webshop", "user")];
    assert_eq!(recorded(&mut superuser), pairs(&expected));
    assert_eq!(level_of(database.name(), "webshop"), "user");
    assert_eq!(level_of(database.name(), "shop"), "nothing");

    // A level for the role of the old name does not take the renamed role's.
    superuser.batch_execute("ALTER ROLE webshop RENAME TO market").unwrap();
    create_roles(&mut superuser, &["webshop"]);
    grant(&mut superuser, "webshop", "reader");
    assert_eq!(level_of(database.name(), "market"), "user");
    assert_eq!(level_of(database.name(), "webshop"), "reader");
    superuser.batch_execute("ALTER ROLE market RENAME TO bazaar").unwrap();
    let had: bool = superuser.query_one("SELECT memory_revoke('bazaar')", &[]).unwrap().get(0);
    assert!(had);
    assert_eq!(level_of(database.name(), "bazaar"), "nothing");
    let expected = [("shop_boss", "admin"), ("shop_watcher", "reader"), ("webshop", "reader")];
    assert_eq!(recorded(&mut superuser), pairs(&expected));
}

#[test]
fn levels_follow_roles_that_swap_their_names() {
    let database = shared().database("levels_swapped");
    let mut superuser = database.connect();
    create_roles(&mut superuser, &["swap_a", "swap_b", "swap_c"]);
    for (role, level) in [("swap_a", "reader"), ("swap_b", "user"), ("swap_c", "admin")] {
        grant(&mut superuser, role, level);
    }
    superuser
        .batch_execute(
            "ALTER ROLE swap_a RENAME TO swap_x; ALTER ROLE swap_c RENAME TO swap_a; \
             ALTER ROLE swap_b RENAME TO swap_c; ALTER ROLE swap_x RENAME TO swap_b",
        )
        .unwrap();
    let expected = [("swap_a", "admin"), ("swap_b", "reader"), ("swap_c", "user")];
    for _ in 0..2 {
        for (role, level) in expected {
            assert_eq!(level_of(database.name(), role), level, "{role}");
        }
        superuser.batch_execute("SELECT memory_agent.renew_levels()").unwrap();
        assert_eq!(recorded(&mut superuser), pairs(&expected));
    }
}

/// OIDs of roles are given again one day, and mean other roles in other clusters.
#[test]
fn an_oid_alone_is_worth_nothing() {
    let database = shared().database("levels_oids");
    let mut superuser = database.connect();
    create_roles(&mut superuser, &["oid_chief", "oid_other"]);
    grant(&mut superuser, "oid_chief", "admin");
    grant(&mut superuser, "oid_other", "reader");
    let other = "(SELECT oid FROM pg_roles WHERE rolname = 'oid_other')";
    // As in a dump of another cluster: its OID is another role's here, and the name counts.
    superuser
        .batch_execute(&format!(
            "UPDATE memory_agent.grants SET role_oid = {other}, cluster_id = cluster_id + 1 \
              WHERE role_name = 'oid_chief'"
        ))
        .unwrap();
    assert_eq!(level_of(database.name(), "oid_chief"), "admin");
    assert_eq!(level_of(database.name(), "oid_other"), "reader");
    // As if the chief had been dropped, and its OID given again.
    superuser
        .batch_execute(
            "UPDATE memory_agent.grants SET cluster_id = cluster_id - 1 WHERE role_name = 'oid_chief'",
        )
        .unwrap();
    assert_eq!(level_of(database.name(), "oid_other"), "reader");
    superuser.batch_execute("SELECT memory_agent.renew_levels()").unwrap();
    assert_eq!(level_of(database.name(), "oid_other"), "reader");
}

/// A dropped role leaves its row, until the role is made again or nobody wants it any more.
#[test]
fn a_level_without_a_role_is_told() {
    let database = shared().database("levels_lost");
    let mut superuser = database.connect();
    create_roles(&mut superuser, &["lost", "lost_reader"]);
    grant(&mut superuser, "lost", "user");
    grant(&mut superuser, "lost_reader", "reader");
    assert_eq!(told(&mut superuser), []);
    superuser.batch_execute("DROP OWNED BY lost; DROP ROLE lost").unwrap();
    let lost = pairs(&[("without a role", "levels that no role has: \"lost\" with \"user\"")]);
    assert_eq!(told(&mut superuser), lost);
    let mut reader = database.connect_as("lost_reader");
    assert_eq!(told(&mut reader), pairs(&[("without a role", "levels that no role has: 1")]));
    superuser.batch_execute("SELECT memory_agent.renew_levels()").unwrap();
    create_roles(&mut superuser, &["lost"]);
    assert_eq!(told(&mut superuser), lost, "a new role of the name has not the level");
    assert_eq!(level_of(database.name(), "lost"), "nothing");
    grant(&mut superuser, "lost", "user");
    assert_eq!(told(&mut superuser), []);
    superuser.batch_execute("DROP OWNED BY lost; DROP ROLE lost").unwrap();
    let hint: String = superuser
        .query_one("SELECT hint FROM memory_status() WHERE component = 'levels'", &[])
        .unwrap()
        .get(0);
    let (_, remedy) = hint.split_once("goes with ").unwrap();
    superuser.batch_execute(&remedy.trim_end_matches('.').replace("ROLE", "lost")).unwrap();
    assert_eq!(told(&mut superuser), []);
}

/// A name that comes back is another role.
#[test]
fn a_new_role_of_an_old_name_has_nothing() {
    let database = shared().database("levels_stale");
    let mut superuser = database.connect();
    create_roles(&mut superuser, &["stale_group", "stale_admin"]);
    grant(&mut superuser, "stale_group", "reader");
    grant(&mut superuser, "stale_admin", "admin");
    superuser.batch_execute("DROP OWNED BY stale_admin; DROP ROLE stale_admin").unwrap();
    create_roles(&mut superuser, &["stale_admin"]);
    assert_eq!(level_of(database.name(), "stale_admin"), "nothing");
    superuser.batch_execute("GRANT stale_group TO stale_admin").unwrap();
    assert_eq!(level_of(database.name(), "stale_admin"), "reader");
    // Nor does a function of its own count that has the name of the extension's.
    superuser.batch_execute("GRANT CREATE ON SCHEMA public TO stale_admin").unwrap();
    let mut stale = database.connect_as("stale_admin");
    stale
        .batch_execute(
            "CREATE FUNCTION public.memory_register_model() RETURNS int LANGUAGE sql AS 'SELECT 1'; \
             GRANT EXECUTE ON FUNCTION public.memory_register_model() TO stale_admin",
        )
        .unwrap();
    assert_eq!(level_of(database.name(), "stale_admin"), "reader");

    create_roles(&mut superuser, &["renamed_admin"]);
    grant(&mut superuser, "renamed_admin", "admin");
    superuser.batch_execute("ALTER ROLE renamed_admin RENAME TO renamed_elsewhere").unwrap();
    create_roles(&mut superuser, &["renamed_admin"]);
    superuser.batch_execute("GRANT stale_group TO renamed_admin").unwrap();
    assert_eq!(level_of(database.name(), "renamed_admin"), "reader");
}
