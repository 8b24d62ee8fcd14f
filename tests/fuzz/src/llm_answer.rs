//! Answers of LLMs: finding the JSON, mending it, and the checks of each format. The first byte picks
//! the format. An answer that was accepted is accepted as it is the second time, and is understood.

use memory_agent_core::facts::answers::AnswerFormat;
use memory_agent_core::facts::{contradictions, extract, reconcile, rewrite, statement_check};

pub fn check(data: &[u8]) {
    let Some((first, rest)) = data.split_first() else { return };
    let text = crate::text(rest);
    let format = match first % 7 {
        0 => AnswerFormat::Facts { turns: 1 + u32::from(first / 64), max_per_turn: 3 },
        1 => AnswerFormat::Decisions {
            existing: u32::from(first / 64),
            new: 1 + u32::from(first / 7 % 2),
        },
        2 => AnswerFormat::Rewrites { max: 2 },
        3 => AnswerFormat::Verdicts { rows: 2 },
        4 => AnswerFormat::Checks { facts: 2 },
        _ => AnswerFormat::Text,
    };
    crate::linear(text.len(), || {
        let checked = match format.check(&text) {
            Ok(checked) => checked,
            Err(error) => return crate::short(error),
        };
        // A character of JSON is six of an escape at most.
        assert!(checked.len() <= 6 * text.len());
        if format != AnswerFormat::Text {
            assert_eq!(format.check(&checked).as_ref(), Ok(&checked));
        }
        match format {
            AnswerFormat::Text => assert!(!checked.trim().is_empty() && !checked.contains('\0')),
            AnswerFormat::Facts { turns, max_per_turn } => {
                let facts = extract::parse(&checked, turns, max_per_turn).unwrap();
                assert!(facts.len() <= (turns * max_per_turn) as usize);
                for fact in facts {
                    assert!(fact.turn < turns as usize && !fact.text.contains('\0'));
                    assert!(fact.text.chars().count() <= extract::MAX_FACT_CHARS);
                }
            }
            AnswerFormat::Checks { facts } => {
                assert_eq!(statement_check::parse(&checked, facts).unwrap().len(), facts as usize);
            }
            AnswerFormat::Decisions { existing, new } => {
                let decisions = reconcile::parse(&checked, existing, new).unwrap();
                assert!(decisions.iter().all(|decision| (1..=new).contains(&decision.fact)));
            }
            AnswerFormat::Rewrites { max } => {
                assert!(rewrite::parse(&checked, "x", max).unwrap().len() <= max as usize);
            }
            AnswerFormat::Verdicts { rows } => {
                assert_eq!(contradictions::parse(&checked, rows).unwrap().len(), rows as usize);
            }
        }
    });
}
