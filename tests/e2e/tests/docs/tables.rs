//! Tables of the documentation against what the server says of itself.

use crate::markdown::{Document, code, repository};
use memory_agent_e2e::{Client, expect_error, shared};
use std::collections::BTreeSet;
use std::fmt::Debug;

fn client(database: &str) -> Client {
    shared().database(database).connect()
}

/// Two sets that should be equal; says which members are only in one of them.
fn assert_same<T: Ord + Debug>(documented: &BTreeSet<T>, actual: &BTreeSet<T>) {
    let wrong: Vec<&T> = documented.difference(actual).collect();
    let missing: Vec<&T> = actual.difference(documented).collect();
    assert!(
        wrong.is_empty() && missing.is_empty(),
        "documented but not so: {wrong:#?}\nnot documented: {missing:#?}"
    );
}

/// One row of docs/settings.md.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Setting {
    name: String,
    default: String,
    /// `0 .. 1`, the values of an enumeration, or nothing.
    range: String,
    unit: String,
    context: String,
}

fn settings(client: &mut Client) -> BTreeSet<Setting> {
    let rows = client
        .query(
            "SELECT name, coalesce(boot_val, ''), coalesce(min_val || ' .. ' || max_val, ''), \
                    coalesce(array_to_string(enumvals, ', '), ''), coalesce(unit, ''), context \
               FROM pg_settings WHERE name LIKE 'memory\\_agent.%'",
            &[],
        )
        .expect("pg_settings");
    rows.into_iter()
        .map(|row| {
            let text = |column: usize| row.get::<_, String>(column);
            Setting {
                name: text(0),
                default: text(1),
                range: text(2) + &text(3),
                unit: text(4),
                context: text(5),
            }
        })
        .collect()
}

fn default_of(cell: &str) -> String {
    match code(cell).as_slice() {
        ["''"] => String::new(),
        [value] => (*value).to_owned(),
        other => panic!("a default is one value in backquotes, not {other:?}"),
    }
}

#[test]
fn settings_page_has_every_setting() {
    let actual = settings(&mut client("settings_page_has_every_setting"));
    let rows = Document::read("docs/settings.md").rows_under("Setting");
    let documented: BTreeSet<Setting> = rows
        .iter()
        .map(|(line, cells)| {
            let [name, default, range, unit, context, reason] = cells.as_slice() else {
                panic!("docs/settings.md:{line} has {} cells", cells.len());
            };
            assert!(reason.ends_with('.'), "docs/settings.md:{line} gives no reason");
            Setting {
                name: code(name).concat(),
                default: default_of(default),
                range: range.replace('`', ""),
                unit: unit.clone(),
                context: context.clone(),
            }
        })
        .collect();
    assert_eq!(documented.len(), rows.len(), "a setting is there twice");
    assert!(documented.len() > 40);
    assert_same(&documented, &actual);
}

#[test]
fn readme_has_the_defaults_of_settings() {
    let actual = settings(&mut client("readme_has_the_defaults_of_settings"));
    let rows = Document::read("README.md").rows_under("Setting");
    assert!(rows.len() > 5);
    for (line, cells) in rows {
        let name = code(&cells[0]).concat();
        let setting = actual.iter().find(|setting| setting.name == name);
        let default = setting.map(|setting| setting.default.clone());
        assert_eq!(Some(default_of(&cells[1])), default, "README.md:{line}: {name}");
    }
}

#[test]
fn readmes_picture_has_the_values_of_its_table() {
    let read = |path: &str| std::fs::read_to_string(repository().join(path)).expect(path);
    let readme = read("README.md");
    let rows = ["| BM25 |", "| cosine of the embeddings |", "| `memory_recall` |"].map(|first| {
        let mut lines = readme.lines().filter_map(|line| line.strip_prefix(first));
        let cells = lines.next().unwrap_or_else(|| panic!("{first}"));
        cells.trim_matches('|').split('|').map(|cell| cell.trim().to_owned()).collect::<Vec<_>>()
    });
    let picture = read("docs/images/quality.svg");
    let values =
        picture.split("class=\"value\">").skip(1).map(|rest| rest.split('<').next().unwrap());
    let by_set = (0..4).flat_map(|set| rows.iter().map(move |row| row[set].as_str()));
    assert_eq!(values.collect::<Vec<_>>(), by_set.collect::<Vec<_>>());
    assert!(readme.contains("(docs/images/quality.svg)"));
    // And the table has those of the run that docs/ranking.md tells of, whose sets stand in another order.
    let ranking = read("docs/ranking.md");
    let (_, of_sql) = ranking.split_once("\nThrough SQL,").expect("the run through SQL");
    for (row, arm) in rows.iter().zip(["| BM25 alone |", "| cosines alone |", "| **defaults** |"]) {
        let line = of_sql.lines().find_map(|line| line.strip_prefix(arm));
        let recalls: Vec<f64> = (line.unwrap_or_else(|| panic!("{arm}")).split('|'))
            .filter_map(|cell| cell.split('/').next()?.trim().parse().ok())
            .collect();
        let rounded = [0, 2, 3, 1].map(|set| format!("{:.2}", recalls[set]).replacen("0.", ".", 1));
        assert_eq!(*row, rounded, "{arm}");
    }
}

/// `name(required, [optional])`, as docs/reference.md writes it.
fn documented_signature(cell: &str) -> (String, Vec<String>, Vec<String>) {
    let signature = code(cell).concat();
    let (name, arguments) =
        signature.split_once('(').unwrap_or_else(|| panic!("no signature: {cell}"));
    let arguments = arguments.trim_end_matches(')');
    let (required, optional) = arguments.split_once('[').unwrap_or((arguments, ""));
    let list = |text: &str| -> Vec<String> {
        text.trim_end_matches(']')
            .split(',')
            .map(str::trim)
            .filter(|name| !name.is_empty())
            .map(str::to_owned)
            .collect()
    };
    (name.to_owned(), list(required), list(optional))
}

#[test]
fn reference_has_every_public_function() {
    let mut client = client("reference_has_every_public_function");
    let actual: BTreeSet<(String, Vec<String>, Vec<String>)> = client
        .query(
            "SELECT p.proname::text, coalesce(p.proargnames[1:p.pronargs], '{}'), p.pronargdefaults::int \
               FROM pg_proc p JOIN pg_depend d ON d.classid = 'pg_proc'::regclass AND d.objid = p.oid \
               JOIN pg_extension e ON d.refclassid = 'pg_extension'::regclass AND d.refobjid = e.oid \
              WHERE e.extname = 'memory_agent' AND d.deptype = 'e' AND p.pronamespace = e.extnamespace",
            &[],
        )
        .expect("the functions of the extension")
        .into_iter()
        .map(|row| {
            let mut required: Vec<String> = row.get(1);
            let optional = required.split_off(required.len() - row.get::<_, i32>(2) as usize);
            (row.get(0), required, optional)
        })
        .collect();
    let rows = Document::read("docs/reference.md").rows_under("Function");
    let documented: BTreeSet<_> =
        rows.iter().map(|(_, cells)| documented_signature(&cells[0])).collect();
    assert_eq!(documented.len(), rows.len(), "a function is there twice");
    assert!(actual.len() > 10);
    assert_same(&documented, &actual);
}

fn first_cells(path: &str, first: &str) -> BTreeSet<String> {
    let rows = Document::read(path).rows_under(first);
    assert!(!rows.is_empty(), "{path} has no table {first:?}");
    rows.iter().flat_map(|(_, cells)| code(&cells[0])).map(str::to_owned).collect()
}

fn strings(client: &mut Client, query: &str) -> BTreeSet<String> {
    client.query(query, &[]).expect(query).into_iter().map(|row| row.get(0)).collect()
}

#[test]
fn reference_has_every_view() {
    let views = strings(
        &mut client("reference_has_every_view"),
        "SELECT c.relname::text FROM pg_class c JOIN pg_depend d ON d.classid = 'pg_class'::regclass AND d.objid = c.oid \
           JOIN pg_extension e ON d.refobjid = e.oid AND e.extname = 'memory_agent' \
          WHERE d.deptype = 'e' AND c.relkind = 'v'",
    );
    assert_same(&first_cells("docs/reference.md", "View"), &views);
}

#[test]
fn reference_has_every_filter_key() {
    let mut client = client("reference_has_every_filter_key");
    let unknown = "SELECT * FROM memory_recall('x', filter => '{\"unknown\": 1}')";
    let message = expect_error(client.query(unknown, &[]), "22023");
    let keys = message.lines().next().and_then(|line| line.split("expected one of ").nth(1));
    let keys: BTreeSet<String> =
        keys.expect("the message lists the keys").split(", ").map(str::to_owned).collect();
    assert_same(&first_cells("docs/reference.md", "Key"), &keys);
}

#[test]
fn operations_has_every_component_of_status() {
    let mut client = client("operations_has_every_component_of_status");
    // One component is there only while the embedding model is changed, one for each attached table, one
    // when a role with a level reads a table, one when an agent keeps sessions apart, one after an update, one with
    // a quota.
    let change = "BEGIN; SELECT memory_use_embedding_model('memory-embed-small'); \
                  CREATE TABLE notes (id int PRIMARY KEY, body text); SELECT memory_attach('notes', 'body'); \
                  CREATE ROLE status_levels; SELECT memory_grant('status_levels', 'reader'); \
                  SELECT memory_set_quota('ann', entries => 1); \
                  GRANT SELECT ON memory_agent.entries TO status_levels; \
                  INSERT INTO memory_agent.jobs (id, kind, user_id, agent_id) \
                  VALUES (gen_random_uuid(), 'reindex', '*', '*'); \
                  SELECT memory_configure(settings => '{\"session_recall\": \"session\"}', user_id => '*')";
    client.batch_execute(change).unwrap();
    let components = strings(&mut client, "SELECT component FROM memory_status()");
    assert_same(&first_cells("docs/operations.md", "Component"), &components);
}

/// What docs/worker.md says of the bounds of background work is what the code says, for every kind of job.
#[test]
fn worker_has_the_bounds_of_every_kind() {
    for (line, cells) in Document::read("docs/worker.md").rows_under("Work") {
        let mut file = None;
        for part in code(&cells[cells.len() - 1]) {
            let Some((name, value)) = part.split_once(" = ") else {
                let path = repository().join(part);
                file = Some(std::fs::read_to_string(&path).unwrap_or_else(|_| panic!("{part}")));
                continue;
            };
            let source = file.as_deref().expect("a file comes before its constants");
            let (begin, end) = (format!("const {name}: "), format!(" = {value};"));
            let stands = source
                .lines()
                .filter_map(|line| line.trim_start_matches("pub ").strip_prefix(&begin))
                .any(|rest| rest.ends_with(&end));
            assert!(stands, "docs/worker.md:{line}: {part} is not in the code");
        }
        assert!(file.is_some(), "docs/worker.md:{line} names no code");
    }
    let kinds = strings(
        &mut client("worker_has_the_bounds_of_every_kind"),
        "SELECT (regexp_matches(pg_get_constraintdef(c.oid), '''([a-z]+)''', 'g'))[1] FROM pg_constraint c \
          WHERE c.conrelid = 'memory_agent.jobs'::regclass AND pg_get_constraintdef(c.oid) LIKE '%kind%'",
    );
    assert_same(&first_cells("docs/worker.md", "Work"), &kinds);
}

/// All functions about tokens, spending and endpoints, each with the least level that may call it.
#[test]
fn security_has_who_may_call_what_about_tokens_and_endpoints() {
    let documented: BTreeSet<String> = Document::read("docs/security.md")
        .rows_under("Tokens, spending, endpoints")
        .iter()
        .map(|(line, cells)| match (code(&cells[0]).as_slice(), code(&cells[1]).as_slice()) {
            ([function], [level]) => format!("{function} {level}"),
            ([function], []) => format!("{function} {}", cells[1]),
            other => panic!("docs/security.md:{line}: {other:?}"),
        })
        .collect();
    let actual = strings(
        &mut client("security_has_who_may_call_what_about_tokens_and_endpoints"),
        "SELECT DISTINCT concat_ws(' ', p.proname, coalesce(l.level, 'owner')) \
           FROM pg_depend d JOIN pg_extension e ON e.oid = d.refobjid AND e.extname = 'memory_agent' \
           JOIN pg_proc p ON d.classid = 'pg_proc'::regclass AND p.oid = d.objid \
           LEFT JOIN memory_agent.function_levels() l ON l.function_name = p.proname \
          WHERE d.deptype = 'e' AND p.proname ~ '^memory_' AND p.proname ~ 'token|spen[dt]|endpoint'",
    );
    assert!(actual.len() > 10, "{actual:?}");
    assert_same(&documented, &actual);
}

/// Each threat of docs/security.md names tests that exist: a suite, and perhaps a module or a test in it.
#[test]
fn threats_are_tried_by_tests_that_exist() {
    let tests = repository().join("tests/e2e/tests");
    for (line, cells) in Document::read("docs/security.md").rows_under("From") {
        let tried = &cells[cells.len() - 1];
        for part in tried.split(", ") {
            let named = code(part);
            let [suite, rest @ ..] = named.as_slice() else {
                panic!("docs/security.md:{line} is tried by nothing: {part}")
            };
            if *suite == "make fuzz" {
                continue;
            }
            let folder = tests.join(suite);
            let sources: String = match std::fs::read_dir(&folder) {
                Ok(files) => files
                    .filter_map(|file| std::fs::read_to_string(file.ok()?.path()).ok())
                    .collect(),
                Err(_) => std::fs::read_to_string(folder.with_extension("rs"))
                    .unwrap_or_else(|_| panic!("docs/security.md:{line}: no suite {suite}")),
            };
            for name in rest {
                let stands = sources.contains(&format!("mod {name};"))
                    || sources.contains(&format!("fn {name}("));
                assert!(stands, "docs/security.md:{line}: {suite} has no {name}");
            }
        }
    }
}
