//! What was measured, beside what was asked for.

use crate::report::write;
use memory_agent_bench::Result;
use memory_agent_bench::report::{Bound, progress};
use memory_agent_e2e::{Json, json};
use std::fmt::Write;
use std::path::Path;

struct Figure {
    name: String,
    measured: f64,
    bound: Option<Bound>,
    remark: String,
}

/// The figures of a run, in the order in which they were measured.
pub struct Figures {
    about: String,
    figures: Vec<Figure>,
    /// Parts that could not be measured, and why.
    failures: Vec<String>,
}

impl Figures {
    pub fn new(about: String) -> Self {
        Self { about, figures: Vec::new(), failures: Vec::new() }
    }

    /// Measures a part; if that fails, it is told with the figures of the others.
    pub fn part(&mut self, name: &str, measure: impl FnOnce(&mut Self) -> Result<()>) {
        progress(name);
        if let Err(error) = measure(self) {
            let cause = error.source().map_or(String::new(), |cause| format!(": {cause}"));
            self.failures.push(format!("{name}: {error}{cause}"));
        }
    }

    /// A figure that has a target.
    pub fn target(&mut self, name: &str, measured: f64, bound: Bound, remark: impl Into<String>) {
        self.add(name, measured, Some(bound), remark.into());
    }

    /// A figure that says more about another one.
    pub fn detail(&mut self, name: &str, measured: f64, remark: impl Into<String>) {
        self.add(name, measured, None, remark.into());
    }

    fn add(&mut self, name: &str, measured: f64, bound: Option<Bound>, remark: String) {
        self.figures.push(Figure { name: name.to_owned(), measured, bound, remark });
    }

    /// Prints the table and writes the reports; false if a target is missed.
    pub fn finish(&self, directory: &Path) -> Result<bool> {
        let text = self.markdown();
        print!("{text}");
        write(directory, "kpi.md", &text)?;
        write(directory, "kpi.json", &(serde_json::to_string_pretty(&self.json())? + "\n"))?;
        Ok(self.failures.is_empty() && self.figures.iter().all(Figure::is_met))
    }

    fn markdown(&self) -> String {
        let mut text = format!(
            "# Targets of the context window\n\n{}.\n\n\
             | What | Measured | Target | | Remark |\n|---|---|---|---|---|\n",
            self.about
        );
        for figure in &self.figures {
            let target = figure.bound.map_or(String::new(), |bound| bound.to_string());
            let verdict = match figure.bound {
                None => "",
                Some(_) if figure.is_met() => "met",
                Some(_) => "missed",
            };
            let _ = writeln!(
                text,
                "| {} | {} | {target} | {verdict} | {} |",
                figure.name,
                round(figure.measured),
                figure.remark
            );
        }
        for failure in &self.failures {
            let _ = writeln!(text, "\nNot measured: {failure}.");
        }
        text
    }

    fn json(&self) -> Json {
        let figures: Vec<Json> = self
            .figures
            .iter()
            .map(|figure| {
                json!({
                    "name": figure.name,
                    "measured": figure.measured,
                    "target": figure.bound.map(|bound| bound.to_string()),
                    "met": figure.bound.map(|_| figure.is_met()),
                    "remark": figure.remark,
                })
            })
            .collect();
        json!({"about": self.about, "figures": figures, "not_measured": self.failures})
    }
}

impl Figure {
    fn is_met(&self) -> bool {
        self.bound.is_none_or(|bound| bound.is_met_by(self.measured))
    }
}

/// Three significant digits are enough to compare, and all digits of large numbers stay.
fn round(value: f64) -> String {
    match value.abs() {
        size if size >= 100.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

#[test]
fn a_missed_target_is_told() {
    let mut figures = Figures::new("a machine".to_owned());
    figures.target("tokens", 2999.0, Bound::AtMost(3000.0), "fits");
    figures.detail("turns", 50.0, "");
    assert!(figures.figures.iter().all(Figure::is_met));
    assert!(figures.markdown().contains("| tokens | 2999 | at most 3000 | met | fits |"));
    figures.target("answerable", 89.5, Bound::AtLeast(90.0), "");
    assert!(figures.markdown().contains("| answerable | 89.5 | at least 90 | missed |  |"));
    assert_eq!(figures.json()["figures"][2]["met"], false);
    figures.part("a part", |_| Err("no such function".into()));
    assert!(figures.markdown().contains("Not measured: a part: no such function."));
}
