//! Who writes an attached table, and whose memory the rows get into. Roles belong to the cluster, so
//! each test names its own.

use crate::{PATIENCE, cluster, contents, notes, remembered};
use memory_agent_e2e::memory::{run, value, values};
use memory_agent_e2e::{Client, Cluster, expect_error, wait_until};

fn role(superuser: &mut Client, name: &str, level: Option<&str>) {
    run(superuser, &format!("CREATE ROLE {name} LOGIN"));
    if let Some(level) = level {
        run(superuser, &format!("SELECT memory_grant('{name}', '{level}')"));
    }
}

/// A role that knows nothing of memory writes a table; the column says whose rows they are.
#[test]
fn a_role_without_a_level_writes() {
    let mut superuser = notes("attach_level");
    role(&mut superuser, "attach_plain", None);
    run(
        &mut superuser,
        "GRANT INSERT, UPDATE, DELETE, TRUNCATE ON notes TO attach_plain; GRANT SELECT (id) ON notes TO attach_plain",
    );
    let mut client = cluster().connect_as("attach_level", "attach_plain");
    run(
        &mut client,
        "INSERT INTO notes (id, body, owner) VALUES (1, 'hers', 'alice'), (2, 'his', 'bob'); \
         UPDATE notes SET body = 'hers!' WHERE id = 1; DELETE FROM notes WHERE id = 2",
    );
    assert_eq!(remembered(&mut superuser), [("[1]".into(), "alice".into(), "hers!".into())]);
    expect_error(client.query("SELECT * FROM memory_agent.entries", &[]), "42501");
    run(&mut client, "TRUNCATE notes");
    assert_eq!(contents(&mut superuser), [""; 0]);
}

/// Without a column, rows are those of who writes them. Only roles that may store memory are believed
/// who they say they are.
#[test]
fn rows_of_their_writers() {
    let mut superuser = cluster().database("attach_own").connect();
    run(
        &mut superuser,
        "CREATE TABLE jottings (id int PRIMARY KEY, body text); \
         SELECT memory_attach('jottings', 'body', backfill => false)",
    );
    role(&mut superuser, "attach_trusted", Some("user"));
    role(&mut superuser, "attach_stranger", None);
    run(&mut superuser, "GRANT ALL ON jottings TO attach_trusted, attach_stranger");
    let mut trusted = cluster().connect_as("attach_own", "attach_trusted");
    run(&mut trusted, "INSERT INTO jottings VALUES (1, 'as herself')");
    run(
        &mut trusted,
        "SET memory_agent.user_id = 'ann'; INSERT INTO jottings VALUES (2, 'as ann')",
    );
    let mut stranger = cluster().connect_as("attach_own", "attach_stranger");
    run(
        &mut stranger,
        "SET memory_agent.user_id = 'ann'; INSERT INTO jottings VALUES (3, 'as ann?')",
    );
    // A role that changes a row leaves it whose it was.
    run(&mut stranger, "UPDATE jottings SET body = 'changed' WHERE id = 1");
    assert_eq!(
        remembered(&mut superuser),
        [
            ("[1]".into(), "attach_trusted".into(), "changed".into()),
            ("[2]".into(), "ann".into(), "as ann".into()),
            ("[3]".into(), "attach_stranger".into(), "as ann?".into())
        ]
    );
}

/// Attaching again looks at all rows and moves none; only rows that memory has not are the attacher's.
#[test]
fn attaching_again_leaves_rows_whose_they_are() {
    let mut client = cluster_with_worker().database("attach_owners").connect();
    run(
        &mut client,
        "CREATE TABLE jottings (id int PRIMARY KEY, body text); \
         SELECT memory_attach('jottings', 'body', backfill => false); \
         SET memory_agent.user_id = 'ann'; INSERT INTO jottings VALUES (1, 'hers'), (2, 'hers too'); \
         SET memory_agent.user_id = 'bob'; INSERT INTO jottings VALUES (3, 'his'); \
         ALTER TABLE jottings DISABLE TRIGGER USER; UPDATE jottings SET body = 'still hers' WHERE id = 2; \
         INSERT INTO jottings VALUES (4, 'unseen'); ALTER TABLE jottings ENABLE TRIGGER USER; \
         SET memory_agent.user_id = 'alice'; SELECT memory_attach('jottings', 'body')",
    );
    run(&mut client, "SELECT memory_wait('60 s')");
    let rows = remembered(&mut client).into_iter().map(|(_, user, text)| (user, text));
    let expected = [("ann", "hers"), ("ann", "still hers"), ("bob", "his"), ("alice", "unseen")];
    let expected = expected.map(|(user, text)| (user.to_owned(), text.to_owned()));
    assert_eq!(rows.collect::<Vec<_>>(), expected);
}

/// A role that may insert says that it is pg_restore, whose rows are left to a job about the whole table. It
/// gets no row but its own.
#[test]
fn who_calls_itself_pg_restore() {
    let mut superuser = cluster_with_worker().database("attach_so_called").connect();
    run(
        &mut superuser,
        "CREATE TABLE jottings (id int PRIMARY KEY, body text); INSERT INTO jottings VALUES (1, 'private'); \
         SELECT memory_attach('jottings', 'body', backfill => false)",
    );
    role(&mut superuser, "attach_restorer", Some("reader"));
    run(&mut superuser, "GRANT INSERT ON jottings TO attach_restorer");
    let mut restorer = cluster_with_worker().connect_as("attach_so_called", "attach_restorer");
    run(
        &mut restorer,
        "SET application_name = 'pg_restore'; INSERT INTO jottings VALUES (2, 'own'); RESET application_name",
    );
    let own = [("[2]".into(), "attach_restorer".into(), "own".into())];
    assert_eq!(remembered(&mut superuser), own, "followed like any other row");
    run(&mut superuser, "SELECT memory_wait('60 s')");
    assert_eq!(remembered(&mut superuser), own);
}

#[test]
fn an_identity_that_is_required() {
    let cluster = Cluster::builder()
        .preload(true)
        .setting("memory_agent.worker", "off")
        .setting("memory_agent.identity", "required")
        .start();
    let mut client = cluster.database("db").connect();
    run(
        &mut client,
        "CREATE TABLE jottings (id int PRIMARY KEY, body text); \
         SELECT memory_attach('jottings', 'body', backfill => false); RESET memory_agent.user_id; \
         INSERT INTO jottings VALUES (1, 'of nobody'), (2, NULL); SET memory_agent.user_id = 'ann'; \
         INSERT INTO jottings VALUES (3, 'of ann')",
    );
    assert_eq!(remembered(&mut client), [("[3]".into(), "ann".into(), "of ann".into())]);
    let reasons: Vec<String> =
        values(&mut client, "SELECT last_error FROM memory_agent.jobs WHERE kind = 'attach'", &[]);
    assert_eq!(reasons.len(), 1);
    assert!(
        reasons[0].contains("[1]") && reasons[0].contains("memory_agent.user_id is not set"),
        "{reasons:?}"
    );
    // Whose it is, is still not known when the worker reads it again: no role is anybody's name.
    run(
        &mut client,
        "SELECT memory_retry(id, user_id) FROM memory_agent.jobs WHERE kind = 'attach'",
    );
    cluster.alter_system("memory_agent.worker", Some("on"));
    wait_until(PATIENCE, "the row to be refused again", || {
        let refused = "SELECT count(*) FILTER (WHERE status = 'dead') = 1 AND count(*) = 2 \
                         FROM memory_agent.jobs WHERE kind = 'attach'";
        value(&mut client, refused, &[])
    });
    assert_eq!(remembered(&mut client).len(), 1);
}

/// Rows for everybody are named so with the attachment, never by a row.
#[test]
fn rows_for_everybody() {
    let mut client = cluster().database("attach_shared").connect();
    run(
        &mut client,
        "CREATE TABLE answers (id int PRIMARY KEY, body text, owner text); \
         SELECT memory_attach('answers', 'body', user_id => '*', backfill => false); \
         INSERT INTO answers VALUES (1, 'The office opens at nine.', NULL)",
    );
    let recalled: Vec<String> = values(
        &mut client,
        "SELECT content FROM memory_recall('When does the office open?', rerank => false, score_threshold => 0)",
        &[],
    );
    assert_eq!(recalled, ["The office opens at nine."]);
}

#[test]
fn only_administrators_attach_their_own_tables() {
    let mut superuser = notes("attach_rights");
    role(&mut superuser, "attach_user", Some("user"));
    role(&mut superuser, "attach_admin", Some("admin"));
    run(
        &mut superuser,
        "GRANT CREATE ON SCHEMA public TO attach_user, attach_admin; GRANT ALL ON notes TO attach_admin",
    );
    let id: String = value(&mut superuser, "SELECT id::text FROM memory_agent.attachments", &[]);
    let own = "CREATE TABLE {} (id bigint PRIMARY KEY, body text, owner text, chat text, kind text, tags text[])";

    let mut user = cluster().connect_as("attach_rights", "attach_user");
    run(&mut user, &own.replace("{}", "of_user"));
    expect_error(user.query("SELECT memory_attach('of_user', 'body')", &[]), "42501");
    expect_error(user.query("SELECT memory_detach('notes')", &[]), "42501");
    let by_hand = |table: &str| {
        format!(
            "CREATE TRIGGER t AFTER INSERT ON {table} REFERENCING NEW TABLE AS memory_agent_new \
             FOR EACH STATEMENT EXECUTE FUNCTION memory_agent.attached_rows('{id}', 'whole')"
        )
    };
    expect_error(user.batch_execute(&by_hand("of_user")), "42501");

    let mut admin = cluster().connect_as("attach_rights", "attach_admin");
    let message = expect_error(admin.query("SELECT memory_attach('notes', 'body')", &[]), "42501");
    assert!(message.contains("owner"), "{message}");
    expect_error(admin.query("SELECT memory_detach('notes')", &[]), "42501");
    run(&mut admin, &own.replace("{}", "of_admin"));
    run(
        &mut admin,
        "SELECT memory_attach('of_admin', 'body', user_id_column => 'owner', backfill => false)",
    );
    run(&mut admin, "INSERT INTO of_admin VALUES (1, 'hers', 'alice')");
    assert_eq!(remembered(&mut superuser), [("[1]".into(), "alice".into(), "hers".into())]);

    // A trigger that was made by hand for somebody else's attachment does nothing.
    run(&mut admin, &own.replace("{}", "forged"));
    run(&mut admin, &by_hand("forged"));
    run(&mut admin, "INSERT INTO forged VALUES (9, 'forged', 'alice')");
    assert_eq!(contents(&mut superuser), ["hers"]);
    // Nor does one that names none.
    run(&mut admin, "DROP TRIGGER t ON forged");
    run(
        &mut admin,
        "CREATE TRIGGER t AFTER INSERT ON forged FOR EACH STATEMENT EXECUTE FUNCTION memory_agent.attached_rows('x')",
    );
    expect_error(admin.batch_execute("INSERT INTO forged VALUES (10, 'forged', 'alice')"), "0A000");
    run(&mut superuser, "SELECT memory_revoke('attach_admin')");
    run(&mut admin, "INSERT INTO of_admin VALUES (2, 'still hers', 'alice')");
    assert_eq!(contents(&mut superuser), ["hers", "still hers"], "what was attached stays so");
}

/// The code that a column's type brings along runs as who writes the row, or as the table's owner, and
/// never as the extension's owner; and a search_path of the writer changes nothing.
#[test]
fn code_of_others_is_not_run_as_the_owner() {
    let mut superuser = cluster().database("attach_code").connect();
    role(&mut superuser, "attach_builder", Some("admin"));
    role(&mut superuser, "attach_writer", None);
    run(
        &mut superuser,
        "GRANT CREATE ON SCHEMA public TO attach_builder; GRANT CREATE ON DATABASE attach_code TO attach_writer",
    );
    let mut builder = cluster().connect_as("attach_code", "attach_builder");
    run(
        &mut builder,
        &format!(
            "{TAGGED}; DELETE FROM tagged; TRUNCATE ran; GRANT ALL ON tagged TO attach_writer"
        ),
    );
    let mut writer = cluster().connect_as("attach_code", "attach_writer");
    run(
        &mut writer,
        "CREATE SCHEMA trap; SET search_path = trap, pg_catalog, public; \
         CREATE FUNCTION trap.spring(jsonb, jsonb) RETURNS boolean LANGUAGE plpgsql AS \
             $$ BEGIN INSERT INTO public.ran VALUES ('trap: ' || current_user); RETURN true; END $$; \
         CREATE OPERATOR trap.= (LEFTARG = jsonb, RIGHTARG = jsonb, FUNCTION = trap.spring); \
         CREATE OPERATOR trap.<> (LEFTARG = jsonb, RIGHTARG = jsonb, FUNCTION = trap.spring); \
         INSERT INTO public.tagged VALUES (1, 'one', 'alice', 'x'); \
         UPDATE public.tagged SET body = 'uno'; DELETE FROM public.tagged; \
         INSERT INTO public.tagged VALUES (2, 'two', 'alice', 'x')",
    );
    assert_eq!(contents(&mut superuser), ["two"]);
    let ran: Vec<String> = values(&mut superuser, "SELECT DISTINCT who FROM ran", &[]);
    assert_eq!(ran, ["attach_writer"], "the cast ran as the writer, and the trap was not sprung");

    // What is there already is read by the worker, as the table's owner.
    let sync = cluster_with_worker();
    let mut superuser = sync.database("attach_code_worker").connect();
    role(&mut superuser, "attach_builder", Some("admin"));
    run(&mut superuser, "GRANT CREATE ON SCHEMA public TO attach_builder");
    let mut builder = sync.connect_as("attach_code_worker", "attach_builder");
    run(&mut builder, &TAGGED.replace("backfill => false", "backfill => true"));
    run(&mut superuser, "SELECT memory_wait('60 s')");
    assert_eq!(contents(&mut superuser), ["here before"]);
    let ran: Vec<String> = values(&mut superuser, "SELECT DISTINCT who FROM ran", &[]);
    assert_eq!(ran, ["attach_builder"]);
}

fn cluster_with_worker() -> &'static Cluster {
    memory_agent_e2e::shared()
}

/// A table with a type whose cast to json tells who runs it.
const TAGGED: &str = "
    CREATE TABLE ran (who text); GRANT INSERT ON ran TO PUBLIC;
    CREATE TYPE tag AS ENUM ('x');
    CREATE FUNCTION told(tag) RETURNS json LANGUAGE plpgsql AS
        $$ BEGIN INSERT INTO public.ran VALUES (current_user); RETURN '\"told\"'; END $$;
    CREATE CAST (tag AS json) WITH FUNCTION told(tag);
    CREATE TABLE tagged (id int PRIMARY KEY, body text, owner text, tag tag);
    INSERT INTO tagged VALUES (0, 'here before', 'alice', 'x');
    SELECT memory_attach('tagged', 'body', user_id_column => 'owner', metadata_columns => '{tag}',
                         backfill => false)";
