//! `memory-agent doctor`: what `memory_status()` says, and what to do about it.

use crate::args::Doctor;
use crate::db::memory::{Memory, MemoryError, Status};
use crate::metrics::Metrics;
use crate::screen::line;
use std::fmt::Write as _;
use std::io::Write as _;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

/// One question on one connection; the model server may just be starting.
const PATIENCE: Duration = Duration::from_secs(30);
/// The component that is the role of the connection.
const ROLE: &str = "role";

/// Prints the report. 0: there is nothing to do; 1: there is; 2: the database cannot be asked.
pub async fn run(options: Doctor) -> ExitCode {
    let status = match Memory::new(&options.database, 1, PATIENCE, Arc::new(Metrics::default())) {
        Ok(memory) => match memory.status().await {
            Ok(mut rows) => {
                rows.extend(memory.may_look_up().await.err().map(role_without_tokens));
                Ok(rows)
            }
            Err(error) => Err(problem(&error)),
        },
        Err(problem) => Err(problem),
    };
    let (text, code) = match status {
        Ok(rows) => report(&rows),
        Err(problem) => (format!("{}\n", line(&problem)), ExitCode::from(2)),
    };
    match std::io::stdout().write_all(text.as_bytes()) {
        Ok(()) => code,
        Err(_) => ExitCode::FAILURE,
    }
}

/// What the database said goes to a person here, not to a log.
fn problem(error: &MemoryError) -> String {
    match error {
        MemoryError::Refused(said) => {
            let hint = said.advice().map(|hint| format!(" {hint}")).unwrap_or_default();
            format!("{} (SQLSTATE {}).{hint}", said.message, said.code)
        }
        other => format!("{}.", other.for_operator()),
    }
}

/// One person's gateway needs no more than the level `user`.
fn role_without_tokens(problem: String) -> Status {
    let (component, state) = (ROLE.to_owned(), "user".to_owned());
    let detail = "enough with --user, not for tokens".to_owned();
    Status { component, state, detail, hint: Some(problem) }
}

/// A line for each component, and what to do below those that need it.
fn report(rows: &[Status]) -> (String, ExitCode) {
    let width = |of: fn(&Status) -> &str| {
        rows.iter().map(|row| of(row).chars().count()).max().unwrap_or_default()
    };
    let (names, states) = (width(|row| &row.component), width(|row| &row.state));
    let mut text = String::new();
    let mut needed = 0;
    for row in rows {
        // Whose memory this session would read is no matter here: it reads none.
        let hint = row.hint.as_deref().filter(|_| row.component != "identity");
        // Memory works without an LLM, for one person without tokens, and with turns of which the user wants no facts.
        let is_choice = row.component == "extraction"
            || [("llm", "none"), (ROLE, "user")].contains(&(&row.component, &row.state));
        let is_needed = hint.is_some() && !is_choice;
        let mark = if is_needed { '!' } else { ' ' };
        needed += usize::from(is_needed);
        let (component, state) = (line(&row.component), line(&row.state));
        let shown = format!("{mark} {component:names$}  {state:states$}  {}", line(&row.detail));
        // Writing to a text cannot fail.
        let _ = writeln!(text, "{}", shown.trim_end());
        if let Some(hint) = hint {
            let _ = writeln!(text, "  {:names$}  -> {}", "", line(hint));
        }
    }
    let (summary, code) = match needed {
        0 => ("Nothing to do.".to_owned(), ExitCode::SUCCESS),
        1 => ("1 component needs attention.".to_owned(), ExitCode::from(1)),
        more => (format!("{more} components need attention."), ExitCode::from(1)),
    };
    let _ = writeln!(text, "\n{summary}");
    (text, code)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(component: &str, state: &str, detail: &str, hint: Option<&str>) -> Status {
        let (component, state, detail) = (component.into(), state.into(), detail.into());
        Status { component, state, detail, hint: hint.map(str::to_owned) }
    }

    #[test]
    fn what_needs_attention_is_marked_and_said() {
        let fine = row("schema", "current", "", None);
        let identity = row("identity", "required", "not set", Some("SET it."));
        let llm = row("llm", "none", "", Some("Set it."));
        let imported = row("extraction", "turn", "2 skipped", Some("Backfill."));
        let (text, code) = report(&[fine, identity, llm, imported]);
        let expected = "  schema      current\n  identity    required  not set\n  llm         none\n              \
                        -> Set it.\n  extraction  turn      2 skipped\n              -> Backfill.\n\n\
                        Nothing to do.\n";
        assert_eq!(text, expected);
        assert_eq!(code, ExitCode::SUCCESS);
        let (text, code) = report(&[row("jobs", "failed", "2 \u{1b}[2J dead", Some("Look."))]);
        let expected =
            "! jobs  failed  2  [2J dead\n        -> Look.\n\n1 component needs attention.\n";
        assert_eq!((text.as_str(), code), (expected, ExitCode::from(1)));
    }
}
