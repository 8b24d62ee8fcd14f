//! Tests of the probe: what counts as right, and when it ends.

use super::*;
use serde_json::{Value, json};

/// The right answer to a question, with the words of an end in place of those of a replacement or not.
fn right_answer(question: usize, change: &str) -> Vec<Value> {
    (1..)
        .zip(&QUESTIONS[question].facts)
        .map(|(fact, (_, right))| {
            let choice = match right {
                New => "new".to_owned(),
                Same(memory) => format!("same as {memory}"),
                Changes(memory) => format!("{change} {memory}"),
            };
            json!({"fact": fact, "choice": choice, "text": null})
        })
        .collect()
}

fn text(decisions: &[Value]) -> String {
    json!({"decisions": decisions}).to_string()
}

#[test]
fn who_answers_all_rightly_passes() {
    for change in ["replaces", "ends"] {
        let mut probe = Probe::default();
        for (question, pairs) in QUESTIONS.iter().enumerate() {
            let (messages, format) = probe.question().unwrap();
            assert!(messages.iter().any(|m| m.content.contains(pairs.memories[7])));
            let checked = format.check(&text(&right_answer(question, change))).unwrap();
            probe.take(&checked);
        }
        assert_eq!(probe.question(), None);
        assert_eq!(probe.right(), CHOICES);
        assert!(passes(probe.right()));
    }
}

#[test]
fn one_mistake_ends_it() {
    let wrong: [fn(&mut Vec<Value>); 5] = [
        |decisions| decisions[1]["choice"] = json!("replaces 2"),
        |decisions| decisions[0]["choice"] = json!("replaces 2"),
        |decisions| decisions[4]["choice"] = json!("replaces 3"),
        |decisions| _ = decisions.pop(),
        |decisions| decisions.push(json!({"fact": 2, "choice": "ends 2", "text": null})),
    ];
    for spoil in wrong {
        let mut decisions = right_answer(0, "replaces");
        spoil(&mut decisions);
        let mut probe = Probe::default();
        probe.take(&text(&decisions));
        assert_eq!(probe.question(), None, "{decisions:?}");
        assert_eq!(probe.right(), 7, "{decisions:?}");
        assert!(!passes(probe.right()));
    }
}

#[test]
fn an_answer_that_cannot_be_used_is_all_wrong() {
    for answer in ["", "yes", r#"{"decisions":[{"fact":1,"choice":"replaces 99"}]}"#] {
        let mut probe = Probe::default();
        probe.take(answer);
        assert_eq!((probe.question(), probe.right()), (None, 0), "{answer}");
    }
}

/// A model that always says the same, or takes each memory in its turn, is not let through by luck.
#[test]
fn no_habit_passes() {
    for habit in ["new", "same as 1", "replaces 1", "own number"] {
        let answer: Vec<Value> = (1..=8)
            .map(|fact| {
                let choice = if habit == "own number" {
                    format!("replaces {fact}")
                } else {
                    habit.to_owned()
                };
                json!({"fact": fact, "choice": choice, "text": null})
            })
            .collect();
        let mut probe = Probe::default();
        probe.take(&text(&answer));
        assert!(probe.right() <= 4, "{habit}: {}", probe.right());
    }
}
