//! What auto_explain logged: the plan of every statement that ran, with the rows that each of its nodes read.

use crate::crowd::LARGE;
use memory_agent_e2e::{Cluster, Json};
use std::collections::BTreeMap;

/// Statements of the test itself begin so.
pub const OF_THE_TEST: &str = "/* of the test */";

/// Rows that a node of a plan may read at once: more than there are of the user who calls, less than each of a few
/// others has. What it reads again for each row of another node is the user's own.
pub const MOST_ROWS: f64 = 6_000.0;

/// A statement that read what it should not have.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Finding {
    pub statement: String,
    /// The table, how it was read, and of how many rows.
    pub what: String,
}

/// Sets up a cluster whose log has the plans.
pub const SETTINGS: [(&str, &str); 7] = [
    ("auto_explain.log_min_duration", "0"),
    ("auto_explain.log_nested_statements", "on"),
    ("auto_explain.log_analyze", "on"),
    ("auto_explain.log_timing", "off"),
    ("auto_explain.log_buffers", "off"),
    ("auto_explain.log_format", "json"),
    ("auto_explain.log_parameter_max_length", "0"),
];

/// The plans that were logged.
pub fn plans(cluster: &Cluster) -> Vec<Json> {
    let log = cluster.log();
    let mut plans = Vec::new();
    let mut lines = log.lines().peekable();
    while let Some(line) = lines.next() {
        if !(line.contains(" LOG:  duration: ") && line.ends_with("plan:")) {
            continue;
        }
        let mut document = String::new();
        while let Some(line) = lines.next_if(|line| line.starts_with('\t')) {
            document.push_str(line);
        }
        // The server was stopped in the middle of the last one, if at all.
        if let Ok(plan) = serde_json::from_str(&document) {
            plans.push(plan);
        }
    }
    plans
}

/// What plans read of tables that are large because of others.
pub fn findings(plans: &[Json]) -> Vec<Finding> {
    // Of statements that differ in a value only, the first is enough.
    let mut findings = BTreeMap::new();
    for plan in plans {
        let statement = plan["Query Text"].as_str().unwrap_or_default();
        if statement.contains(OF_THE_TEST) {
            continue;
        }
        visit(&plan["Plan"], &mut |node| {
            if let Some(what) = too_much(node) {
                findings.entry((statement.to_owned(), what.0)).or_insert(what.1);
            }
        });
    }
    findings
        .into_iter()
        .map(|((statement, place), rows)| Finding { statement, what: format!("{place}: {rows}") })
        .collect()
}

/// The tables that plans read or wrote, with how often.
pub fn tables(plans: &[Json]) -> BTreeMap<String, usize> {
    let mut tables = BTreeMap::new();
    for plan in plans {
        visit(&plan["Plan"], &mut |node| {
            if let Some(table) = node["Relation Name"].as_str() {
                *tables.entry(table.to_owned()).or_default() += 1;
            }
        });
    }
    tables
}

fn visit(node: &Json, each: &mut impl FnMut(&Json)) {
    each(node);
    for child in node["Plans"].as_array().into_iter().flatten() {
        visit(child, each);
    }
}

/// Where a node read too much, and what it did.
fn too_much(node: &Json) -> Option<(String, String)> {
    let text = |key: &str| node[key].as_str().unwrap_or_default().to_owned();
    let number = |key: &str| node[key].as_f64().unwrap_or(0.0);
    let (kind, table, index) = (text("Node Type"), text("Relation Name"), text("Index Name"));
    let loops = number("Actual Loops");
    let removed = number("Rows Removed by Filter") + number("Rows Removed by Index Recheck");
    let rows = number("Actual Rows") + removed;
    let is_large = LARGE.contains(&table.as_str());
    if is_large && kind == "Seq Scan" && loops > 0.0 {
        return Some((format!("Seq Scan on {table}"), format!("{rows} rows")));
    }
    let reads = is_large || !index.is_empty();
    if reads && rows > MOST_ROWS {
        return Some((format!("{kind} on {table} by {index}"), format!("{rows} rows")));
    }
    None
}
