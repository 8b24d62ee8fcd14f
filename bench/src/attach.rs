//! What an attached table costs a session that writes it: the same statements on a table with triggers and on
//! one without, in turns, so that a busy machine slows both.

use crate::Result;
use crate::arguments::Arguments;
use crate::environment::{Environment, literal};
use crate::report::{Bound, Report, Table, progress};
use crate::samples::Samples;
use crate::synthetic;
use memory_agent_e2e::{Client, Json, json};

/// Rows of a bulk statement.
const BULK: usize = 1000;
/// Single rows in each round.
const SINGLES: usize = 20;
/// Most milliseconds a row more: one by one, and in bulk.
const SINGLE_TARGET: f64 = 1.0;
const BULK_TARGET: f64 = 0.2;

/// One kind of statement.
struct Figures {
    name: &'static str,
    rows: usize,
    attached: Samples,
    plain: Samples,
    /// Milliseconds a row more.
    added: Samples,
    ratio: Samples,
}

impl Figures {
    fn new(name: &'static str, rows: usize) -> Self {
        let (attached, plain) = Default::default();
        let (added, ratio) = Default::default();
        Self { name, rows, attached, plain, added, ratio }
    }

    /// Runs a statement on both tables; `{}` stands for the table.
    fn measure(&mut self, client: &mut Client, statement: &str) -> Result<()> {
        self.plain.time(|| client.simple_query(&statement.replace("{}", "plain")))?;
        self.attached.time(|| client.simple_query(&statement.replace("{}", "notes")))?;
        self.added.push((self.attached.last() - self.plain.last()) / self.rows as f64);
        self.ratio.push(self.attached.last() / self.plain.last());
        Ok(())
    }

    fn row(&self) -> [String; 5] {
        let per_row = |samples: &Samples| format!("{:.4}", samples.median() / self.rows as f64);
        [
            self.name.to_owned(),
            per_row(&self.attached),
            per_row(&self.plain),
            format!("{:.4}", self.added.median()),
            format!("{:.1}", self.ratio.median()),
        ]
    }

    fn json(&self) -> Json {
        json!({
            "name": self.name,
            "rows": self.rows,
            "milliseconds": self.attached.summary(),
            "plain_milliseconds": self.plain.summary(),
            "added_milliseconds_a_row": self.added.summary(),
            "to_plain": self.ratio.summary(),
        })
    }
}

pub fn run(environment: &Environment, arguments: &Arguments, report: &mut Report) -> Result<()> {
    let mut client = environment.database("attach")?;
    let table = "CREATE TABLE {} (id int PRIMARY KEY, owner text, body text, views int DEFAULT 0)";
    client.batch_execute(&table.replace("{}", "plain"))?;
    client.batch_execute(&table.replace("{}", "notes"))?;
    client.batch_execute(
        "SET memory_agent.user_id = 'ana'; SELECT memory_attach('notes', 'body', user_id_column => 'owner')",
    )?;
    let rounds = (arguments.samples / SINGLES).max(1);
    progress(format_args!("attached tables: {rounds} rounds"));
    let mut single = Figures::new("INSERT of one row", 1);
    let mut bulk = Figures::new("INSERT of 1,000 rows", BULK);
    let mut other = Figures::new("UPDATE of another column, 1,000 rows", BULK);
    let mut content = Figures::new("UPDATE of the content, 1,000 rows", BULK);
    let mut delete = Figures::new("DELETE of 1,000 rows", BULK);
    let mut first = 0;
    for _ in 0..rounds {
        for _ in 0..SINGLES {
            single.measure(&mut client, &insert(first, 1))?;
            first += 1;
        }
        bulk.measure(&mut client, &insert(first, BULK))?;
        let rows = format!("WHERE id BETWEEN {first} AND {}", first + BULK - 1);
        other.measure(&mut client, &format!("UPDATE {{}} SET views = views + 1 {rows}"))?;
        content
            .measure(&mut client, &format!("UPDATE {{}} SET body = body || ' Really.' {rows}"))?;
        delete.measure(&mut client, &format!("DELETE FROM {{}} {rows}"))?;
        first += BULK;
        // The worker embeds what was written; the next round is not to wait for it.
        client.batch_execute("SELECT memory_wait('10 min')")?;
    }
    report.section(&format!("Attached tables: {rounds} rounds, embed => 'async'"));
    let mut table = Table::new(&["", "ms a row", "plain table", "added", "to plain, p50"]);
    for figures in [&single, &bulk, &other, &content, &delete] {
        table.row(figures.row());
    }
    print!("{table}");
    let added = "ms a row more, attached table";
    report.target(
        format!("{added}, INSERT of one row"),
        single.added.median(),
        Bound::AtMost(SINGLE_TARGET),
    );
    report.target(
        format!("{added}, INSERT of 1,000"),
        bulk.added.median(),
        Bound::AtMost(BULK_TARGET),
    );
    let all: Vec<Json> =
        [&single, &bulk, &other, &content, &delete].iter().map(|figures| figures.json()).collect();
    report.add("attach", all.into());
    Ok(())
}

/// A statement that inserts rows of made-up conversation.
fn insert(first: usize, count: usize) -> String {
    let rows: Vec<String> = (first..first + count)
        .map(|number| {
            let turn = synthetic::turn(number);
            format!("({number}, 'ana', {})", literal(turn["content"].as_str().unwrap_or_default()))
        })
        .collect();
    format!("INSERT INTO {{}} (id, owner, body) VALUES {}", rows.join(", "))
}
