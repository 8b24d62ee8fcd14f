//! A database in which others have stored one value many times in every column of every table that
//! row-level security guards, and the readers a few of their own. The tables and their columns come from
//! the catalog: a column that is new is filled, and guessed at, by itself.

use memory_agent_e2e::Client;
use memory_agent_e2e::memory::{run, values};
use std::collections::BTreeSet;

/// What others stored, and what nobody did. No value of the readers' lies between the two.
pub const PLANTED: &str = "planted";
pub const MISSING: &str = "missing";

/// Rows of others in each table: the first are of one user, each of the others of a user of its own.
const ROWS: u32 = 300;
const OF_ONE_USER: u32 = 60;

/// What others have in their columns. The rows of both worlds are as many and as wide.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum World {
    /// The same value over and over.
    Planted,
    /// Another one in each row.
    Varied,
}

/// A column of a guarded table.
struct Column {
    name: String,
    of_type: String,
    /// The words that a CHECK allows.
    allowed: Vec<String>,
}

/// Whether the rows of a relation `c` belong to users: the policies of other tables show all rows.
pub const OF_USERS: &str =
    "EXISTS (SELECT FROM pg_policy p WHERE p.polrelid = c.oid AND p.polname = 'visible')";

/// The tables whose rows belong to users.
pub fn guarded_tables(superuser: &mut Client) -> Vec<String> {
    let query = format!(
        "SELECT c.relname::text FROM pg_class c \
          WHERE c.relnamespace = 'memory_agent'::regnamespace AND {OF_USERS} ORDER BY 1"
    );
    values(superuser, &query, &[])
}

fn columns(superuser: &mut Client, table: &str) -> Vec<Column> {
    let query = "\
        SELECT a.attname::text, format_type(a.atttypid, NULL), \
               ARRAY(SELECT m[1] FROM pg_constraint o, \
                            regexp_matches(pg_get_constraintdef(o.oid), '''([^'']*)''::text', 'g') m \
                      WHERE o.conrelid = a.attrelid AND o.contype = 'c' AND o.conkey = ARRAY[a.attnum] \
                        AND a.atttypid = 'text'::regtype) \
          FROM pg_attribute a \
         WHERE a.attrelid = concat('memory_agent.', $1::text)::regclass AND a.attnum > 0 \
           AND NOT a.attisdropped";
    let rows = superuser.query(query, &[&table]).unwrap();
    rows.iter()
        .map(|row| Column { name: row.get(0), of_type: row.get(1), allowed: row.get(2) })
        .collect()
}

/// Fills all guarded tables and has their statistics made. Returns the words that others stored in
/// columns which take some words only.
pub fn fill(superuser: &mut Client, world: World, readers: &[String]) -> BTreeSet<String> {
    let mut words = BTreeSet::new();
    for table in guarded_tables(superuser) {
        let columns = columns(superuser, &table);
        let names: Vec<&str> = columns.iter().map(|column| column.name.as_str()).collect();
        let mut insert = |values: Vec<String>, rows: u32| {
            let (names, values) = (names.join(", "), values.join(", "));
            let insert = format!("INSERT INTO memory_agent.{table} ({names}) SELECT {values}");
            // A user has one quota.
            let rows = format!("FROM generate_series(1, {rows}) g ON CONFLICT DO NOTHING");
            run(superuser, &format!("{insert} {rows}"));
        };
        insert(columns.iter().map(|column| of_others(column, world)).collect(), ROWS);
        for reader in readers {
            insert(columns.iter().map(|column| own(column, reader)).collect(), 2);
        }
        words.extend(columns.into_iter().filter_map(|column| column.allowed.into_iter().next()));
    }
    run(superuser, "VACUUM ANALYZE");
    words
}

/// The value of a column in row `g` of others.
fn of_others(column: &Column, world: World) -> String {
    let planted = literal(&column.of_type, PLANTED);
    match column.name.as_str() {
        "user_id" => {
            let one = if world == World::Planted { PLANTED } else { MISSING };
            let others = varied("text");
            format!("CASE WHEN g <= {OF_ONE_USER} THEN '{one}' ELSE {others} END")
        }
        "id" if world == World::Planted => {
            format!("CASE WHEN g = {ROWS} THEN {planted} ELSE gen_random_uuid() END")
        }
        "id" => "gen_random_uuid()".to_owned(),
        _ => match (column.allowed.first(), world) {
            (Some(word), _) => format!("'{word}'"),
            (None, World::Varied) => varied(&column.of_type),
            // What is unique is so among the rows of a user.
            (None, World::Planted) => {
                let varied = varied(&column.of_type);
                format!("CASE WHEN g <= {OF_ONE_USER} THEN {varied} ELSE {planted} END")
            }
        },
    }
}

/// The value of a column in row `g` of a reader: another one than others have.
fn own(column: &Column, reader: &str) -> String {
    if let Some(word) = column.allowed.get(1) {
        return format!("'{word}'");
    }
    let small_uuid = "('00000000-0000-4000-8000-00000000000' || g)::uuid";
    match (column.name.as_str(), column.of_type.as_str()) {
        ("user_id", _) => format!("'{reader}'"),
        ("id", _) => {
            format!("('00000000-0000-4000-8000-' || left(md5('{reader}' || g), 12))::uuid")
        }
        (_, "text") => "'mine' || g".to_owned(),
        (_, "text[]") => "ARRAY['mine' || g]".to_owned(),
        (_, "jsonb") => "jsonb_build_object('mine', g)".to_owned(),
        (_, "tsvector") => "('mine' || g)::tsvector".to_owned(),
        (_, "uuid") => small_uuid.to_owned(),
        (_, "uuid[]") => format!("ARRAY[{small_uuid}]"),
        (_, "bytea") => "decode('0' || g, 'hex')".to_owned(),
        (_, "integer" | "bigint") => "g".to_owned(),
        (_, "real") => "0.1".to_owned(),
        (_, "boolean") => "g = 1".to_owned(),
        (_, "timestamp with time zone") => "'2001-01-01Z'::timestamptz".to_owned(),
        (_, "interval") => "g * interval '1 s'".to_owned(),
        (_, "vector") => "('[1,1,' || g || ']')::vector".to_owned(),
        (name, of_type) => panic!("no value of type {of_type} known for {name}: add one"),
    }
}

/// The value of a type that stands for what was planted, or for what is missing.
pub fn literal(of_type: &str, word: &str) -> String {
    let digit = if word == PLANTED { "7" } else { "8" };
    let uuid = "dddddddd-dddd-4ddd-8ddd-dddddddddddd".replace('d', digit);
    match of_type {
        "text" => format!("'{word}'::text"),
        "text[]" => format!("'{{{word}}}'::text[]"),
        "jsonb" => format!("'{{\"{word}\": \"{word}\"}}'::jsonb"),
        "tsvector" => format!("'''{word}'':1'::tsvector"),
        "uuid" => format!("'{uuid}'::uuid"),
        "uuid[]" => format!("'{{{uuid}}}'::uuid[]"),
        "bytea" => format!("'\\x{}'::bytea", digit.repeat(8)),
        "integer" | "bigint" => digit.repeat(6),
        "real" => format!("'0.{digit}'::real"),
        "boolean" => (word == PLANTED).to_string(),
        "timestamp with time zone" => format!("'201{digit}-07-07Z'::timestamptz"),
        "interval" => format!("'0{digit}:07:07'::interval"),
        "vector" => format!("'[{digit},{digit},{digit}]'::vector"),
        other => panic!("no value of type {other} known: add one"),
    }
}

/// As wide as what is planted, and different in each row `g`.
fn varied(of_type: &str) -> String {
    let word = "'v' || lpad(g::text, 6, '0')";
    let uuid = "('99999999-9999-4999-8999-' || lpad(g::text, 12, '0'))::uuid";
    match of_type {
        "text" => word.to_owned(),
        "text[]" => format!("ARRAY[{word}]"),
        "jsonb" => format!("jsonb_build_object({word}, {word})"),
        "tsvector" => format!("('''' || {word} || ''':1')::tsvector"),
        "uuid" => uuid.to_owned(),
        "uuid[]" => format!("ARRAY[{uuid}]"),
        "bytea" => "decode(lpad(g::text, 8, '0'), 'hex')".to_owned(),
        "integer" | "bigint" => "900000 + g".to_owned(),
        "real" => "(0.9 + g / 10000.0)::real".to_owned(),
        "boolean" => "true".to_owned(),
        "timestamp with time zone" => "'2019-01-01Z'::timestamptz + g * interval '1 s'".to_owned(),
        "interval" => "interval '9:00' + g * interval '1 s'".to_owned(),
        "vector" => "('[9,9,' || g || ']')::vector".to_owned(),
        other => panic!("no value of type {other} known: add one"),
    }
}
