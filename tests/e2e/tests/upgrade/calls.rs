//! Calls that older versions took are valid after an update: with every type that they had, with literals and
//! parameters without one, by place and by name. What keeps a replaced function is named.

use crate::{RELEASED, older_database, schema_version, update};
use memory_agent_e2e::memory::{run, values};
use memory_agent_e2e::{Client, expect_error, shared};

/// A function of the SQL surface.
struct Function {
    name: String,
    required: usize,
    /// Names and types.
    arguments: Vec<(String, String)>,
}

fn functions(client: &mut Client) -> Vec<Function> {
    let rows = client.query(
        "SELECT p.proname::text, (p.pronargs - p.pronargdefaults)::int4,
                coalesce(p.proargnames[1:p.pronargs], '{}'),
                ARRAY(SELECT format_type(t, NULL) FROM unnest(p.proargtypes) WITH ORDINALITY a (t, n) ORDER BY n)
           FROM pg_proc p
           JOIN pg_depend d ON d.classid = 'pg_proc'::regclass AND d.objid = p.oid AND d.deptype = 'e'
           JOIN pg_extension e ON e.oid = d.refobjid AND e.extname = 'memory_agent'
          WHERE p.pronamespace = e.extnamespace AND p.prorettype <> 'trigger'::regtype ORDER BY 1, 2",
        &[],
    );
    let of_row = |row: &memory_agent_e2e::Row| {
        let (names, types): (Vec<String>, Vec<String>) = (row.get(2), row.get(3));
        Function {
            name: row.get(0),
            required: usize::try_from(row.get::<_, i32>(1)).unwrap(),
            arguments: names.into_iter().zip(types).collect(),
        }
    };
    rows.unwrap().iter().map(of_row).collect()
}

/// The calls of a function: as many arguments as must be given, one more, and so on; and each optional one by name.
fn calls(function: &Function) -> Vec<String> {
    type Form = fn(usize, &str) -> String;
    let forms: [Form; 3] = [
        |_, _| "NULL".to_owned(),
        |place, _| format!("${}", place + 1),
        |place, kind| format!("${}::{kind}", place + 1),
    ];
    let mut calls = Vec::new();
    for form in forms {
        let given: Vec<String> = (function.arguments.iter().enumerate())
            .map(|(place, (_, kind))| form(place, kind))
            .collect();
        for count in function.required..=given.len() {
            calls.push(format!("{}({})", function.name, given[..count].join(", ")));
        }
        for place in function.required..given.len() {
            let by_name = format!(
                "\"{}\" => {}",
                function.arguments[place].0,
                form(function.required, &function.arguments[place].1)
            );
            let mut all = given[..function.required].to_vec();
            all.push(by_name);
            calls.push(format!("{}({})", function.name, all.join(", ")));
        }
    }
    calls
}

fn is_understood(client: &mut Client, call: &str) -> Result<(), String> {
    match client.batch_execute(&format!("PREPARE this AS SELECT {call}")) {
        Ok(()) => {
            run(client, "DEALLOCATE this");
            Ok(())
        }
        Err(error) => Err(format!("{call}: {error}")),
    }
}

#[test]
fn calls_of_released_versions_stay_valid() {
    for version in RELEASED {
        let mut client = older_database(shared(), &format!("calls_{version}"), version);
        let all: Vec<String> = functions(&mut client).iter().flat_map(calls).collect();
        let valid: Vec<String> =
            all.into_iter().filter(|call| is_understood(&mut client, call).is_ok()).collect();
        assert!(valid.len() > 500, "{} calls of {version}", valid.len());
        update(&mut client);
        let refused: Vec<String> =
            valid.iter().filter_map(|call| is_understood(&mut client, call).err()).collect();
        assert!(refused.is_empty(), "{version}: {refused:#?}");
    }
}

/// No driver has to know which width a number has: there is no narrow one.
#[test]
fn numbers_are_wide() {
    let mut client = shared().database("calls_wide").connect();
    for function in functions(&mut client) {
        for (name, kind) in &function.arguments {
            let is_narrow = ["smallint", "integer", "real"].contains(&kind.as_str());
            assert!(!is_narrow, "{}: {name} is {kind}", function.name);
        }
    }
}

#[test]
fn what_keeps_a_replaced_function_is_named() {
    let mut client = older_database(shared(), "calls_kept", "0.2.0");
    run(&mut client, "CREATE VIEW kept AS SELECT * FROM memory_recall('dog')");
    let page = std::fs::read_to_string("../../docs/operations.md").unwrap();
    let (_, query) = page.split_once("SELECT DISTINCT coalesce(r.ev_class").unwrap();
    let query = format!("SELECT DISTINCT coalesce(r.ev_class{}", query.split(';').next().unwrap());
    assert_eq!(values::<String>(&mut client, &query, &[]), ["kept"]);
    let error = expect_error(client.batch_execute("ALTER EXTENSION memory_agent UPDATE"), "2BP01");
    assert!(error.contains("memory_recall"), "{error}");
    assert_eq!(schema_version(&mut client), "0.2.0");
    run(
        &mut client,
        "BEGIN; DROP VIEW kept; ALTER EXTENSION memory_agent UPDATE;
         CREATE VIEW kept AS SELECT * FROM memory_recall('dog'); COMMIT",
    );
}
