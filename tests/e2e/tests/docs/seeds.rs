//! docs/internals/seeds.md names nothing that is not there: functions with their arguments, views, settings and
//! the values they take, tables, columns, files, and the defaults shown beside them.

use crate::markdown::{Document, code, repository};
use memory_agent_e2e::{Client, shared};
use std::collections::{BTreeMap, BTreeSet};

/// The first header of each seed's tables, and how many rows they have at least.
const TABLES: [(&str, usize); 4] = [("Of S1", 130), ("Of S2", 60), ("Of S3", 55), ("Of S4", 35)];
/// What stands in the third column where there is nothing to name.
const NOTHING: [&str; 2] = ["no", "not yet"];

/// What the server and the repository have.
struct Catalog {
    /// Public functions: arguments and columns of the result, with the default or an empty text.
    functions: BTreeMap<String, BTreeMap<String, String>>,
    /// Settings: default, and the values that an enumeration or a boolean takes.
    settings: BTreeMap<String, (String, Vec<String>)>,
    /// Tables of the schema `memory_agent`, their columns, and the public views.
    relations: BTreeSet<String>,
    make_targets: BTreeSet<String>,
}

impl Catalog {
    fn read(client: &mut Client) -> Self {
        let mut functions: BTreeMap<String, BTreeMap<String, String>> = BTreeMap::new();
        let arguments = client.query(
            "SELECT p.proname::text, a.name, coalesce(pg_get_function_arg_default(p.oid, a.number::int), '') \
               FROM pg_proc p JOIN pg_depend d ON d.classid = 'pg_proc'::regclass AND d.objid = p.oid \
               JOIN pg_extension e ON d.refclassid = 'pg_extension'::regclass AND d.refobjid = e.oid \
               LEFT JOIN unnest(p.proargnames) WITH ORDINALITY a(name, number) ON true \
              WHERE e.extname = 'memory_agent' AND d.deptype = 'e' AND p.pronamespace = e.extnamespace",
            &[],
        );
        for row in arguments.expect("the functions") {
            let known = functions.entry(row.get(0)).or_default();
            if let Some(name) = row.get::<_, Option<String>>(1) {
                known.insert(name, row.get(2));
            }
        }
        let settings = client.query(
            "SELECT name, coalesce(boot_val, ''), \
                    CASE vartype WHEN 'bool' THEN '{on,off}' ELSE coalesce(enumvals, '{}') END \
               FROM pg_settings WHERE name LIKE 'memory\\_agent.%'",
            &[],
        );
        let settings = settings.expect("the settings").into_iter();
        let relations = client.query(
            "SELECT CASE WHEN c.relkind = 'v' THEN '' ELSE 'memory_agent.' END || c.relname, a.attname::text \
               FROM pg_class c JOIN pg_depend d ON d.classid = 'pg_class'::regclass AND d.objid = c.oid \
               JOIN pg_extension e ON d.refobjid = e.oid AND e.extname = 'memory_agent' \
               JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped \
              WHERE d.deptype = 'e' AND c.relkind IN ('r', 'p', 'v')",
            &[],
        );
        let relations = relations.expect("the tables").into_iter().flat_map(|row| {
            let (table, column): (String, String) = (row.get(0), row.get(1));
            [format!("{table}.{column}"), table]
        });
        let makefile = std::fs::read_to_string(repository().join("Makefile")).expect("Makefile");
        let targets = makefile.lines().filter_map(|line| line.split_once(':'));
        Self {
            functions,
            settings: settings.map(|row| (row.get(0), (row.get(1), row.get(2)))).collect(),
            relations: relations.collect(),
            make_targets: targets.map(|(target, _)| target.to_owned()).collect(),
        }
    }

    /// Whether there is such a thing, and its default; an error for what cannot be looked up.
    fn look_up(&self, name: &str) -> Result<Option<String>, String> {
        if let Some(target) = name.strip_prefix("make ") {
            return self
                .make_targets
                .contains(target)
                .then_some(None)
                .ok_or("no such target".into());
        }
        if let Some((setting, value)) = name.split_once(" = ") {
            let (_, values) = self.settings.get(setting).ok_or("no such setting")?;
            let is_taken = values.iter().any(|known| known == value);
            return is_taken.then_some(None).ok_or(format!("takes {values:?}"));
        }
        if name.starts_with("memory_agent.") {
            return match self.settings.get(name) {
                Some((default, _)) => Ok(Some(default.clone())),
                None if self.relations.contains(name) => Ok(None),
                None => Err("neither a setting nor a table or column".to_owned()),
            };
        }
        if let Some((function, argument)) = name.strip_suffix(')').and_then(|n| n.split_once('(')) {
            let arguments = self.functions.get(function).ok_or("no such function")?;
            let default = arguments.get(argument.trim_matches('"')).ok_or("no such argument")?;
            return Ok(Some(unquoted(default)));
        }
        if name.starts_with("memory_") {
            let exists = self.functions.contains_key(name) || self.relations.contains(name);
            return exists.then_some(None).ok_or("neither a function nor a view".to_owned());
        }
        if name.contains('/') || name.ends_with(".md") {
            return repository().join(name).exists().then_some(None).ok_or("no such file".into());
        }
        Err("nobody knows what that is".to_owned())
    }
}

/// A default as PostgreSQL shows it, without its type and quotes.
fn unquoted(default: &str) -> String {
    default.split("::").next().unwrap_or_default().trim_matches('\'').to_owned()
}

fn problem(catalog: &Catalog, cells: &[String]) -> Result<(), String> {
    let [seed, _, here, default, remarks] = cells else {
        return Err(format!("{} cells", cells.len()));
    };
    if seed.is_empty() {
        return Err("the row is about nothing".to_owned());
    }
    let mut names = code(here).into_iter();
    let Some(first) = names.next() else {
        return match NOTHING.contains(&here.as_str()) {
            false => Err(format!("{here:?} names nothing, and is neither of {NOTHING:?}")),
            true if remarks.is_empty() => Err("it does not say why not".to_owned()),
            true => Ok(()),
        };
    };
    let known = catalog.look_up(first).map_err(|problem| format!("{first}: {problem}"))?;
    for name in names.chain(code(remarks).into_iter().filter(|name| name.starts_with("memory_"))) {
        catalog.look_up(name).map_err(|problem| format!("{name}: {problem}"))?;
    }
    match (code(default).as_slice(), known) {
        ([], _) => Ok(()),
        ([shown], Some(known)) if unquoted(shown) == known => Ok(()),
        (shown, known) => Err(format!("the default is {known:?}, not {shown:?}")),
    }
}

#[test]
fn seeds_page_names_what_is_there() {
    let catalog = Catalog::read(&mut shared().database("seeds_page_names_what_is_there").connect());
    let page = Document::read("docs/internals/seeds.md");
    let mut problems = Vec::new();
    for (header, least) in TABLES {
        let rows = page.rows_under(header);
        assert!(rows.len() >= least, "{header} has {} rows only", rows.len());
        for (line, cells) in rows {
            if let Err(problem) = problem(&catalog, &cells) {
                problems.push(format!("{}: {}: {problem}", page.place(line), cells[0]));
            }
        }
    }
    assert!(problems.is_empty(), "\n{}", problems.join("\n"));
}

#[test]
fn a_wrong_name_is_noticed() {
    let function = BTreeMap::from([("top_k".to_owned(), "'5'::integer".to_owned())]);
    let setting = ("weighted".to_owned(), vec!["weighted".to_owned(), "learned".to_owned()]);
    let catalog = Catalog {
        functions: BTreeMap::from([("memory_recall".to_owned(), function)]),
        settings: BTreeMap::from([("memory_agent.ranking".to_owned(), setting)]),
        relations: ["memory_agent.entries", "memory_agent.entries.id", "memory_jobs"]
            .map(str::to_owned)
            .into(),
        make_targets: BTreeSet::from(["bench".to_owned()]),
    };
    let row = |here: &str, default: &str, remarks: &str| {
        let cells = ["`a`", "", here, default, remarks].map(str::to_owned);
        problem(&catalog, &cells)
    };
    for (here, default, remarks) in [
        ("`memory_recall`", "", ""),
        ("`memory_recall(top_k)`", "`5`", "like `memory_agent.ranking = learned`"),
        ("`memory_agent.ranking`", "`weighted`", ""),
        ("`memory_agent.entries.id`, `memory_jobs`", "", ""),
        ("`docs/internals/seeds.md`, `make bench`", "", ""),
        ("no", "", "because"),
    ] {
        assert_eq!(row(here, default, remarks), Ok(()), "{here} {default} {remarks}");
    }
    for (here, default, remarks) in [
        ("`memory_recal`", "", ""),
        ("`memory_recall(topk)`", "", ""),
        ("`memory_recall(top_k)`", "`6`", ""),
        ("`memory_agent.ranking`", "`learned`", ""),
        ("`memory_agent.ranking = none`", "", ""),
        ("`memory_agent.entries.uuid`", "", ""),
        ("`memory_jobs`, `memory_job`", "", ""),
        ("`memory_jobs`", "", "see `memory_agent.job`"),
        ("`memory_jobs`", "`1`", ""),
        ("`docs/seed.md`", "", ""),
        ("`make benches`", "", ""),
        ("`entries`", "", ""),
        ("no", "", ""),
        ("nothing", "", "because"),
        ("", "", "because"),
    ] {
        assert!(row(here, default, remarks).is_err(), "{here} {default} {remarks}");
    }
}
