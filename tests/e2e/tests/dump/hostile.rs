//! Texts and names that are made to break out of a dump: whatever form it has, the rows that come back are
//! the rows that went in, and nothing that they say is run.

use crate::cluster;
use crate::snapshot::{Snapshot, fill};
use memory_agent_e2e::memory::{run, value};
use memory_agent_e2e::{Client, Programs, json};

/// Ends of COPY, of strings and of dollar quotes, commands of psql, line ends of every kind, signs that turn
/// the direction of writing.
const TEXTS: [&str; 16] = [
    "\\.",
    "before\n\\.\nDROP TABLE memory_agent.entries;\n",
    "'); DELETE FROM memory_agent.entries; --",
    "E'\\'; SELECT 1/0; --",
    "$$; SELECT 1/0; $$ $body$ $_$ $x$",
    "\\! touch /tmp/ma_e2e_hostile\n\\connect postgres\n\\q",
    "\\copy memory_agent.entries FROM '/etc/passwd'",
    "\\N\n\\N",
    "\\\\\\n\\t\\x00\\u0000\\'\\\"",
    "tab\tcarriage\rreturn\r\nfeed\u{c}bell\u{7}escape\u{1b}[2J delete\u{7f}",
    "line\u{2028}paragraph\u{2029}next\u{85}nothing\u{200b}\u{feff}",
    "\u{202e}txet desrever\u{202c} \u{2066}isolated\u{2069}",
    "\u{1F469}\u{200D}\u{1F4BB} e\u{301} \u{fdfa} \u{10ffff}",
    "\"; DROP SCHEMA memory_agent CASCADE; --",
    "COPY memory_agent.grants FROM stdin;\npostgres\tadmin\n\\.\n",
    "{\"a\": [1, \"\\u0041\"]} %s %n ${x} `id` /* -- */",
];

/// Everything that a caller names, with each of the texts in it.
fn say(client: &mut Client) {
    run(client, "SET memory_agent.embed_on_ingest = off");
    let rex = "Ann has a small dog, which is called Rex.";
    let mut largest = "\\.\n".repeat(349_525);
    largest.truncate(1 << 20);
    client.execute("SELECT memory_ingest('large', 'user', $1)", &[&largest]).unwrap();
    for (number, text) in TEXTS.iter().enumerate() {
        let name = &text[..text.len().min(text.floor_char_boundary(200))];
        // No id has control or invisible characters.
        let is_refused =
            |sign: char| memory_agent_core::text::ids::check(&format!("a{sign}a")).is_err();
        let id = name.replace(is_refused, " ").trim().to_owned();
        client.execute("SELECT set_config('memory_agent.user_id', $1, false)", &[&id]).unwrap();
        let metadata = json!({"name": name, name: {"key": [name, {name: null}]}});
        let marker = format!("custom:{number}");
        for statement in [
            "SELECT memory_ingest($1, 'user', $2, metadata => $3, markers => ARRAY[$4], agent_id => $1)",
            "SELECT memory_add($2, session_id => $1, metadata => $3, markers => ARRAY[$4], infer => false, fact_key => $3::jsonb ->> 'name')",
            "SELECT memory_add_document($2, title => $3::jsonb ->> 'name', session_id => $1, \
                                        metadata => $3 || jsonb_build_object('m', $4::text))",
        ] {
            client
                .execute(statement, &[&id, text, &metadata, &marker])
                .unwrap_or_else(|error| panic!("{statement} with {id:?}: {error:?}"));
        }
    }
    run(client, "SET memory_agent.user_id = 'alice'; RESET memory_agent.embed_on_ingest");
    client.execute("SELECT memory_ingest('s', 'user', $1)", &[&rex]).unwrap();
}

/// A role, a schema, a table and columns whose names want to be more than names; the table is attached.
const NAMES: &str = r#"
    DO $do$ BEGIN
        CREATE ROLE "hostile'; DROP TABLE x; --""$$\ role" LOGIN;
    EXCEPTION WHEN duplicate_object THEN NULL; END $do$;
    SELECT memory_grant('"hostile''; DROP TABLE x; --""$$\ role"', 'reader');
    CREATE SCHEMA "sch'em""a\.$$";
    CREATE TABLE "sch'em""a\.$$"."ta""ble'; --$$\." (
        "i""d'$$" text PRIMARY KEY, "bo'd""y\" text, "us""er'" text, "me""ta' \" text);
    INSERT INTO "sch'em""a\.$$"."ta""ble'; --$$\."
    SELECT E'key''"\\\n' || n, E'\\.\nAttached row ' || n || ' $$ ''; --', E'al''i"ce\\', E'\\.' FROM generate_series(1, 5) n;
    SELECT memory_attach('"sch''em""a\.$$"."ta""ble''; --$$\."', 'bo''d"y\',
                         user_id_column => 'us"er''', metadata_columns => ARRAY['me"ta'' \'],
                         condition => '"me""ta'' \" IN (''\.'', ''$$'')');
    INSERT INTO "sch'em""a\.$$"."ta""ble'; --$$\." VALUES (E'new\\.\n', E'\\.\nStored by the trigger.', 'alice', '$$');
"#;

#[test]
fn hostile_texts_and_names_come_back_as_they_were() {
    let name = "hostile \"quoted\" 'source' $$ \\ \u{e9}";
    let mut client = cluster().database(name).connect();
    fill(&mut client);
    say(&mut client);
    run(&mut client, NAMES);
    let original = Snapshot::take(&mut client);
    let programs = Programs::of(cluster());
    let path = |name: &str| programs.file(&format!("hostile_{name}"));
    // Each form into a database of its own; in one of them backslashes mean more than usual.
    for (form, arguments, jobs) in [
        ("plain", &["-Fp"][..], None),
        ("columns", &["-Fc", "--column-inserts", "--quote-all-identifiers"], Some("1")),
        ("directory", &["-Fd", "-j", "2"], Some("2")),
    ] {
        let target = format!("hostile \"{form}\" '\\$$");
        let mut client = cluster().plain_database(&target);
        let quoted = target.replace('"', "\"\"");
        run(
            &mut client,
            &format!("ALTER DATABASE \"{quoted}\" SET standard_conforming_strings = off"),
        );
        let file = path(form);
        programs.dump(name, &[arguments, &["-f", &file]].concat());
        match jobs {
            Some(jobs) => programs.restore(&target, &["-j", jobs], &file),
            None => programs.execute(&target, &file),
        }
        let mut client = cluster().connect(&target);
        run(
            &mut client,
            "SET memory_agent.user_id = 'alice'; SET standard_conforming_strings = on",
        );
        assert_eq!(Snapshot::take(&mut client), original, "{form}");
        // The attached table goes on, under the same keys.
        let table = r#""sch'em""a\.$$"."ta""ble'; --$$\.""#;
        run(
            &mut client,
            &format!(r#"UPDATE {table} SET "bo'd""y\" = 'Changed.' WHERE "us""er'" = 'alice'"#),
        );
        let changed = "SELECT count(*) FROM memory_agent.entries WHERE content = 'Changed.' AND state = 'active'";
        assert_eq!(value::<i64>(&mut client, changed, &[]), 1, "{form}");
        // And the condition means the same where backslashes mean more than usual.
        run(
            &mut client,
            &format!(
                r#"SET standard_conforming_strings = off; UPDATE {table} SET "bo'd""y\" = "bo'd""y\" || '!'"#
            ),
        );
        let exclaimed = "SELECT count(*) FROM memory_agent.entries \
                          WHERE content LIKE '%!' AND source_key IS NOT NULL AND state = 'active'";
        assert_eq!(value::<i64>(&mut client, exclaimed, &[]), 6, "{form}");
        let mut reader = cluster().connect_as(&target, "hostile'; DROP TABLE x; --\"$$\\ role");
        run(&mut reader, "SELECT memory_stats()");
    }
    assert!(!std::path::Path::new("/tmp/ma_e2e_hostile").exists(), "a text was run");
}
