//! What is printed, and the same figures as one JSON document.

use crate::Result;
use crate::environment::Environment;
use serde_json::{Map, Value, json};
use std::fmt;
use std::path::Path;

/// Collects the figures of all sections.
pub struct Report {
    document: Map<String, Value>,
    targets: Vec<Target>,
}

/// A bound that the contract sets.
struct Target {
    name: String,
    measured: f64,
    bound: Bound,
    /// Whether the run fails if it is missed.
    is_required: bool,
}

/// Which side of the bound is good.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Bound {
    AtLeast(f64),
    AtMost(f64),
}

impl Bound {
    pub fn is_met_by(self, measured: f64) -> bool {
        match self {
            Self::AtLeast(least) => measured >= least,
            Self::AtMost(most) => measured <= most,
        }
    }
}

impl fmt::Display for Bound {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AtLeast(least) => write!(formatter, "at least {least}"),
            Self::AtMost(most) => write!(formatter, "at most {most}"),
        }
    }
}

impl Report {
    pub fn new(environment: &Environment) -> Self {
        println!("{}", environment.describe());
        let mut document = Map::new();
        document.insert("environment".into(), json!(environment.describe()));
        Self { document, targets: Vec::new() }
    }

    /// Prints a heading; progress goes to standard error.
    pub fn section(&self, title: &str) {
        println!("\n== {title}");
    }

    /// Keeps a section's figures for the JSON file.
    pub fn add(&mut self, section: &str, figures: Value) {
        self.document.insert(section.into(), figures);
    }

    /// Notes a figure that has a bound.
    pub fn target(&mut self, name: impl Into<String>, measured: f64, bound: Bound) {
        self.targets.push(Target { name: name.into(), measured, bound, is_required: false });
    }

    /// Notes a figure whose bound fails the run: it is a ratio of the same run, so no machine excuses it.
    pub fn requirement(&mut self, name: impl Into<String>, measured: f64, bound: Bound) {
        self.targets.push(Target { name: name.into(), measured, bound, is_required: true });
    }

    /// Prints the bounds and writes the JSON file. An error names the requirements that were missed.
    pub fn finish(mut self, json: Option<&Path>) -> Result<()> {
        if !self.targets.is_empty() {
            println!("\n== Targets");
            let mut table = Table::new(&["", "measured", "target", ""]);
            let mut rows = Vec::new();
            for Target { name, measured, bound, .. } in &self.targets {
                let is_met = bound.is_met_by(*measured);
                let verdict = if is_met { "met" } else { "MISSED" };
                table.row([
                    name.clone(),
                    format!("{measured:.3}"),
                    bound.to_string(),
                    verdict.into(),
                ]);
                rows.push(json!({
                    "name": name, "measured": measured, "target": bound.to_string(), "met": is_met,
                }));
            }
            print!("{table}");
            self.document.insert("targets".into(), rows.into());
        }
        if let Some(path) = json {
            let text = serde_json::to_string_pretty(&Value::Object(self.document))?;
            std::fs::write(path, text + "\n")
                .map_err(|error| format!("{}: {error}", path.display()))?;
        }
        let missed: Vec<&str> = (self.targets.iter())
            .filter(|target| target.is_required && !target.bound.is_met_by(target.measured))
            .map(|target| target.name.as_str())
            .collect();
        if missed.is_empty() {
            Ok(())
        } else {
            Err(format!("missed: {}", missed.join("; ")).into())
        }
    }
}

/// A table of text, the first column to the left and the others to the right.
pub struct Table {
    rows: Vec<Vec<String>>,
}

impl Table {
    pub fn new(header: &[&str]) -> Self {
        Self { rows: vec![header.iter().map(|cell| (*cell).to_owned()).collect()] }
    }

    pub fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(cells.into_iter().collect());
    }
}

impl fmt::Display for Table {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let cell = |row: &Vec<String>, column: usize| row.get(column).cloned().unwrap_or_default();
        let widths: Vec<usize> = (0..columns)
            .map(|column| {
                self.rows.iter().map(|row| cell(row, column).chars().count()).max().unwrap_or(0)
            })
            .collect();
        for row in &self.rows {
            let mut line = format!("{:<1$}", cell(row, 0), widths[0]);
            for (column, width) in widths.iter().enumerate().skip(1) {
                line.push_str(&format!("  {:>width$}", cell(row, column)));
            }
            writeln!(formatter, "{}", line.trim_end())?;
        }
        Ok(())
    }
}

/// Says on standard error what is being done, for a bench takes its time.
pub fn progress(what: impl fmt::Display) {
    eprintln!("bench: {what}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned() {
        let mut table = Table::new(&["what", "p50"]);
        table.row(["a longer name".into(), "3".into()]);
        assert_eq!(table.to_string(), "what           p50\na longer name    3\n");
    }

    #[test]
    fn bounds_hold_at_their_value() {
        assert!(Bound::AtMost(1.3).is_met_by(1.3) && !Bound::AtMost(1.3).is_met_by(1.31));
        assert!(Bound::AtLeast(0.5).is_met_by(0.5) && !Bound::AtLeast(0.5).is_met_by(0.49));
        assert!(!Bound::AtMost(1.0).is_met_by(f64::NAN));
    }
}
