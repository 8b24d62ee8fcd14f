//! What a role may read, column by column, and what EXPLAIN says of a guess about it.

use super::world::{MISSING, OF_USERS, PLANTED, literal};
use memory_agent_e2e::memory::run;
use memory_agent_e2e::{Client, sqlstate};
use std::collections::BTreeSet;

/// Something to be guessed at.
pub struct Readable {
    pub relation: String,
    /// A column of `r`, or what an index is on.
    pub expression: String,
    pub of_type: String,
}

/// Every column that a role may read but those of PostgreSQL's catalogs and of tables that hold nothing of
/// a user; and every expression that a guarded table's index is on, where its columns can be read.
pub fn readable(superuser: &mut Client, client: &mut Client, role: &str) -> Vec<Readable> {
    let columns = &format!(
        "SELECT c.oid::regclass::text, 'r.' || quote_ident(a.attname), format_type(a.atttypid, NULL) \
          FROM pg_class c \
          JOIN pg_namespace n ON n.oid = c.relnamespace \
          JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped \
         WHERE c.relkind IN ('r', 'p', 'v', 'm', 'f') \
           AND n.nspname NOT IN ('pg_catalog', 'information_schema') \
           AND has_column_privilege($1, c.oid, a.attnum, 'SELECT') \
           AND (n.nspname <> 'memory_agent' OR {OF_USERS}) \
         ORDER BY c.relname, a.attnum"
    );
    let mut found = look_up(superuser, columns, &role);
    let relations: BTreeSet<String> =
        found.iter().map(|readable| readable.relation.clone()).collect();
    // In a view metadata has another name. The table of the index, or any view.
    let expressions = &format!(
        "SELECT DISTINCT c.oid::regclass::text, replace(d.definition, 'metadata', n.name), \
               format_type(a.atttypid, NULL) \
          FROM pg_class c JOIN pg_index i ON i.indrelid = c.oid \
          JOIN pg_attribute a ON a.attrelid = i.indexrelid \
         CROSS JOIN LATERAL pg_get_indexdef(i.indexrelid, a.attnum, true) d(definition) \
         CROSS JOIN (VALUES ('metadata'), ($1)) n(name) \
         WHERE {OF_USERS} AND c.relnamespace = 'memory_agent'::regnamespace \
           AND i.indkey[a.attnum - 1] = 0"
    );
    for of_index in look_up(superuser, expressions, &"entry_metadata") {
        for relation in &relations {
            let is_other_table = relation.contains('.') && *relation != of_index.relation;
            let query = format!("SELECT {} FROM {relation} r", of_index.expression);
            if !is_other_table && explain(client, "COSTS OFF", &query).is_ok() {
                let (expression, of_type) = (of_index.expression.clone(), of_index.of_type.clone());
                found.push(Readable { relation: relation.clone(), expression, of_type });
            }
        }
    }
    found
}

fn look_up(superuser: &mut Client, query: &str, parameter: &&str) -> Vec<Readable> {
    let rows = superuser.query(query, &[parameter]).unwrap();
    rows.iter()
        .map(|row| Readable { relation: row.get(0), expression: row.get(1), of_type: row.get(2) })
        .collect()
}

/// Conditions on {c}; {v} is a value of its type, {w} a word.
const COMMON: &[&str] = &[
    "{c} = {v}",
    "{c} = ANY (ARRAY[{v}, {v}])",
    "{c} <> {v}",
    "{c} < {v}",
    "{c} BETWEEN {v} AND {v}",
    "{c} IS DISTINCT FROM {v}",
];

/// How many conditions are tried: all, or the first few of each type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Depth {
    All,
    Some,
}

fn conditions(of_type: &str, depth: Depth) -> Vec<&'static str> {
    let further: &[&str] = match of_type {
        "text" => &["{c} LIKE {v} || '%'", "{c} ~ ('^' || {v})", "{c} ^@ {v}"],
        "text[]" | "uuid[]" => &["{c} @> {v}", "{c} && {v}", "{c} <@ {v}", "({v})[1] = ANY ({c})"],
        "jsonb" => &[
            "{c} @> {v}",
            "{c} ? {w}",
            "{c} ?| ARRAY[{w}]",
            "{c} ?& ARRAY[{w}]",
            "{c} ->> {w} = {w}",
            "{c} @? ('$.' || {w})::jsonpath",
        ],
        "tsvector" => &["{c} @@ {w}::tsquery", "{c} @@ ({w} || ':*')::tsquery"],
        "vector" => &["{c} <-> {v} < 1"],
        _ => &[],
    };
    match depth {
        Depth::All => [COMMON, further].concat(),
        Depth::Some => [&COMMON[..1], &further[..further.len().min(1)]].concat(),
    }
}

/// A condition that EXPLAIN answers differently for what others stored and for what nobody did.
#[derive(Debug)]
pub struct Told {
    /// `relation: expression`
    pub what: String,
    #[allow(dead_code, reason = "printed")]
    pub query: String,
    #[allow(dead_code, reason = "printed")]
    pub plans: [String; 2],
}

/// Tries conditions on everything that can be guessed at. `words` are those that others stored in columns
/// which take some words only.
pub fn walk(
    client: &mut Client,
    options: &str,
    targets: &[Readable],
    words: &BTreeSet<String>,
    depth: Depth,
) -> Vec<Told> {
    let mut told = Vec::new();
    for target in targets {
        let mut tried = 0;
        // Of true and false a reader's own rows may have one more often.
        let options = if target.of_type == "boolean" { "COSTS ON" } else { options };
        let guesses = [PLANTED, MISSING].map(|word| literal(&target.of_type, word));
        for condition in conditions(&target.of_type, depth) {
            tried += guess(client, options, target, condition, &guesses, &mut told);
        }
        assert!(tried > 0, "no condition on {} of {}", target.expression, target.relation);
        if target.of_type == "text" && depth == Depth::All {
            for word in words {
                // No other word lies between the two.
                let other = format!("'{}!'", &word[..word.len() - 1]);
                guess(client, options, target, COMMON[0], &[format!("'{word}'"), other], &mut told);
            }
        }
    }
    told
}

/// Returns 1 if there is such a condition.
fn guess(
    client: &mut Client,
    options: &str,
    target: &Readable,
    condition: &str,
    guesses: &[String; 2],
    told: &mut Vec<Told>,
) -> usize {
    let query = |value: &str, word: &str| {
        let condition = condition
            .replace("{c}", &target.expression)
            .replace("{v}", value)
            .replace("{w}", &format!("'{word}'"));
        // Many rows beside it make small differences large.
        format!("SELECT FROM {} r, generate_series(1, 9) WHERE {condition}", target.relation)
    };
    let queries = [query(&guesses[0], PLANTED), query(&guesses[1], MISSING)];
    match queries.each_ref().map(|query| explain(client, options, query)) {
        [Ok(planted), Ok(missing)] => {
            if planted != missing {
                told.push(Told {
                    what: format!("{}: {}", target.relation, target.expression),
                    query: queries[0].clone(),
                    plans: [planted, missing],
                });
            }
            1
        }
        // There is no such operator.
        [Err(a), Err(b)] if a == b && a == "42883" => 0,
        failed => panic!("{}: {failed:?}", queries[0]),
    }
}

/// What EXPLAIN shows but for the conditions, in which the guess stands. The SQLSTATE if it fails.
pub fn explain(client: &mut Client, options: &str, query: &str) -> Result<String, String> {
    let messages = client
        .simple_query(&format!("EXPLAIN ({options}) {query}"))
        .map_err(|error| sqlstate(&error).to_owned())?;
    let lines = messages.iter().filter_map(|message| match message {
        postgres::SimpleQueryMessage::Row(row) => row.get(0),
        _ => None,
    });
    // What planning read depends on the caches of the session; PostgreSQL 18 shows it without being asked.
    let plan = lines.take_while(|line| *line != "Planning:");
    Ok(plan.map(without_condition).collect::<Vec<_>>().join("\n"))
}

fn without_condition(line: &str) -> &str {
    match line.split_once(": ") {
        Some((name, value)) if ["Filter", "Cond"].iter().any(|end| name.ends_with(end)) => {
            // Counts of rows are no conditions.
            if value.parse::<u64>().is_ok() { line } else { name }
        }
        _ => line,
    }
}

/// The settings under which plans are looked at.
pub fn in_utc(client: &mut Client) {
    run(client, "SET TimeZone = 'UTC'; SET jit = off; SET max_parallel_workers_per_gather = 0");
}
