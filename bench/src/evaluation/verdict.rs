//! Whether an answer has the fact that holds, and none that no longer does.

use crate::conversation::Probe;
use serde::Serialize;

/// A row of memory_recall, as far as it is judged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    pub content: String,
    pub token_count: i32,
    /// Whether the row says itself that something replaced it.
    pub is_marked: bool,
}

/// What the rows of one recall are worth.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Verdict {
    /// Rank of the first row with the current value, from 1; `None` if no row has it.
    pub rank: Option<usize>,
    /// Rows with a superseded value.
    pub stale: usize,
    /// Those among them that do not say so.
    pub stale_unmarked: usize,
    /// Whether one of them comes before the first row with the current value.
    pub stale_first: bool,
    pub tokens: i64,
    pub over_budget: bool,
}

impl Verdict {
    /// Judges rows in their order. A row with the current value is not stale, whatever else it says:
    /// "moved from Porto to Ghent".
    pub fn of(rows: &[Row], probe: &Probe, budget: i32) -> Self {
        let is_current = |row: &Row| row.content.contains(probe.current);
        let is_stale = |row: &Row| {
            !is_current(row) && probe.superseded.iter().any(|value| row.content.contains(value))
        };
        let first = rows.iter().position(is_current);
        let stale: Vec<usize> = (0..rows.len()).filter(|row| is_stale(&rows[*row])).collect();
        let tokens: i64 = rows.iter().map(|row| i64::from(row.token_count)).sum();
        Self {
            rank: first.map(|row| row + 1),
            stale: stale.len(),
            stale_unmarked: stale.iter().filter(|row| !rows[**row].is_marked).count(),
            stale_first: stale.first().is_some_and(|row| first.is_none_or(|first| *row < first)),
            tokens,
            over_budget: tokens > i64::from(budget),
        }
    }

    pub fn is_found(&self) -> bool {
        self.rank.is_some()
    }

    /// Whether a reader would take something for true that no longer is.
    pub fn misleads(&self) -> bool {
        self.stale_unmarked > 0 || self.stale_first
    }
}

/// What a prompt is worth.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct PromptVerdict {
    /// Whether it has the current value.
    pub is_found: bool,
    /// Statements with a superseded value that do not say so.
    pub stale_unmarked: usize,
    /// Whether it has any value of what is asked about.
    pub is_told: bool,
}

impl PromptVerdict {
    /// Judges the messages of a prompt but for the question itself. Of a list of memories, whose lines begin
    /// with a bracket, each is a statement; so is any other message as a whole.
    pub fn of(messages: &[String], probe: &Probe) -> Self {
        let mut statements: Vec<String> = Vec::new();
        for message in messages {
            let mut is_first = true;
            for line in message.lines() {
                if is_first || line.starts_with('[') {
                    statements.push(line.to_owned());
                } else if let Some(last) = statements.last_mut() {
                    last.push('\n');
                    last.push_str(line);
                }
                is_first = false;
            }
        }
        let is_current = |text: &String| text.contains(probe.current);
        // A mark with what holds now makes a text current, if that is about what is asked.
        let is_stale = |text: &&String| {
            let marked = |value| {
                let mut marks = text.split("(no longer true: ").skip(1);
                marks.any(|mark| mark.lines().next().is_some_and(|fact| fact.contains(value)))
            };
            !is_current(text)
                && probe.superseded.iter().any(|value| text.contains(value) && !marked(value))
        };
        Self {
            is_found: statements.iter().any(is_current),
            stale_unmarked: statements.iter().filter(is_stale).count(),
            is_told: (probe.superseded.iter().chain([&probe.current]))
                .any(|value| messages.iter().any(|text| text.contains(value))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn probe() -> Probe {
        Probe {
            topic: "sister",
            question: "Where?",
            current: "Ghent",
            superseded: vec!["Porto", "Tallinn"],
        }
    }

    fn rows(rows: &[(&str, bool)]) -> Vec<Row> {
        rows.iter()
            .map(|(content, is_marked)| Row {
                content: (*content).to_owned(),
                token_count: 10,
                is_marked: *is_marked,
            })
            .collect()
    }

    fn verdict(of: &[(&str, bool)]) -> Verdict {
        Verdict::of(&rows(of), &probe(), 25)
    }

    #[test]
    fn the_current_fact_is_found_at_its_rank() {
        let found = verdict(&[("A dog", false), ("She lives in Ghent", false)]);
        assert_eq!((found.rank, found.stale, found.misleads()), (Some(2), 0, false));
        assert!(!verdict(&[("A dog", false)]).is_found());
        assert!(!verdict(&[]).is_found());
    }

    #[test]
    fn a_superseded_value_misleads_unless_it_is_marked_and_behind() {
        let behind = verdict(&[("in Ghent", false), ("in Porto", true)]);
        assert_eq!((behind.stale, behind.misleads()), (1, false));
        assert!(verdict(&[("in Ghent", false), ("in Porto", false)]).misleads());
        assert!(verdict(&[("in Porto", true), ("in Ghent", false)]).misleads());
        assert!(verdict(&[("in Tallinn", true)]).misleads());
        assert!(!verdict(&[("from Porto to Ghent", false)]).misleads());
    }

    #[test]
    fn a_prompt_misleads_where_a_statement_of_its_own_is_stale() {
        let judged = |messages: &[&str]| {
            let messages: Vec<String> = messages.iter().map(|text| (*text).to_owned()).collect();
            let verdict = PromptVerdict::of(&messages, &probe());
            (verdict.is_found, verdict.stale_unmarked)
        };
        let memories =
            "Memory:\n[memory, d] in Ghent\n[user, d] in Porto\n  (no longer true: in Porto)";
        assert_eq!(judged(&[memories]), (true, 0));
        let is_told = |text: &str| PromptVerdict::of(&[text.to_owned()], &probe()).is_told;
        assert!(is_told("in Porto") && is_told("in Ghent") && !is_told("in Lyon"));
        let of_another = memories.replace("true: in Porto", "true: in Tallinn");
        assert_eq!(judged(&[&of_another]), (true, 1));
        let now = memories.replace("no longer true: in Porto", "out of date; now: in Ghent");
        assert_eq!(judged(&[&now]), (true, 0));
        assert_eq!(judged(&[&now.replace("now: in Ghent", "now: a dog")]), (true, 1));
        assert_eq!(judged(&["Memory:\n[memory, d] in Ghent\n[user, d] in\n  Porto"]), (true, 1));
        assert_eq!(judged(&["in Tallinn", "from Porto to Ghent", "in Porto"]), (true, 2));
        assert_eq!(judged(&[]), (false, 0));
    }

    #[test]
    fn tokens_are_compared_with_the_budget() {
        assert!(!verdict(&[("a", false), ("b", false)]).over_budget);
        assert!(verdict(&[("a", false), ("b", false), ("c", false)]).over_budget);
    }
}
