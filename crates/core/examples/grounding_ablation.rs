//! What the checks of `facts::grounding` are worth, measured with recorded answers of a small LLM.
//!
//!     grounding_ablation questions PART
//!     grounding_ablation verdicts PART
//!
//! To be run in the folder of the repository. `questions` prints what the LLM is asked about the labelled turns of
//! a part: one line of JSON for each passage, as a job with `extraction_batch = 0` asks. `verdicts` reads the
//! recorded answers in scripts/test_llm_answers and prints a line for each fact: why it is refused, and which
//! family of checks, if it were left out, would let it pass. scripts/test_llm_ablation.py makes a table of them.

use std::process::ExitCode;
use std::{env, fs};

use memory_agent_core::facts::answers::AnswerFormat;
use memory_agent_core::facts::extract::{self, PendingTurn};
use memory_agent_core::facts::grounding::{Grounds, Sources, completed, dated, may_state};
use memory_agent_core::facts::passages::passages;
use memory_agent_core::jobs::session_settings::MAX_FACTS_PER_TURN;
use serde_json::{Value, json};

const ANSWER: AnswerFormat = AnswerFormat::Facts { turns: 1, max_per_turn: MAX_FACTS_PER_TURN };

/// What can be left out: the names are those of `Grounds::check_without` and of the acts.
const FAMILIES: [&str; 13] = [
    "names",
    "numbers and dates",
    "quotes",
    "polarity",
    "persons",
    "retold",
    "acts",
    "a question",
    "a task",
    "an instruction to the assistant",
    "a quotation",
    "what was only imagined",
    "a courtesy",
];

type Failure = Box<dyn std::error::Error>;

/// A labelled turn, as scripts/test_llm.py reads it.
struct Turn {
    /// Its place in the part, from 1.
    number: usize,
    day: String,
    text: String,
}

fn turns(name: &str) -> Result<Vec<Turn>, Failure> {
    let (mut turns, mut day) = (Vec::new(), String::new());
    for line in fs::read_to_string(format!("scripts/test_llm_{name}.txt"))?.lines() {
        if let Some(begun) = line.strip_prefix('@') {
            begun.trim().clone_into(&mut day);
        } else if line.contains(" | ") && !line.starts_with('#') {
            let text = line.split(" | ").nth(1).unwrap_or_default().trim().to_owned();
            turns.push(Turn { number: turns.len() + 1, day: day.clone(), text });
        }
    }
    Ok(turns)
}

/// The passages of a turn that a job asks about.
fn asked(text: &str) -> Vec<&str> {
    let text = extract::original_message(text);
    if !extract::is_worth_asking(text, &[]) {
        return Vec::new();
    }
    passages(text).into_iter().filter(|passage| may_state(passage)).collect()
}

fn print_questions(name: &str) -> Result<(), Failure> {
    for turn in turns(name)? {
        for passage in asked(&turn.text) {
            let pending = PendingTurn { content: passage, speaker: None, said_at: &turn.day };
            let messages: Vec<Value> = extract::messages(&[pending], MAX_FACTS_PER_TURN)
                .into_iter()
                .map(|message| {
                    let role = format!("{:?}", message.role).to_lowercase();
                    json!({"role": role, "content": message.content})
                })
                .collect();
            let line = json!({
                "turn": turn.number, "passage": passage, "messages": messages,
                "schema": ANSWER.json_schema(), "max_tokens": 200 + MAX_FACTS_PER_TURN * 80,
            });
            println!("{line}");
        }
    }
    Ok(())
}

/// The facts of a recorded part with their turns, in the form that is kept. An answer that cannot be read has none.
fn facts(name: &str, turns: &[Turn]) -> Result<Vec<(usize, String)>, Failure> {
    let mut found: Vec<(usize, String)> = Vec::new();
    for line in fs::read_to_string(format!("scripts/test_llm_answers/{name}.jsonl"))?.lines() {
        let recorded: Value = serde_json::from_str(line)?;
        let number = recorded["turn"].as_u64().ok_or("no turn")?;
        let at = usize::try_from(number)? - 1;
        let turn = turns.get(at).ok_or("a turn that the part lacks")?;
        let answer = recorded["answer"].as_str().unwrap_or_default();
        let checked = ANSWER.check(answer);
        let read = checked.and_then(|json| extract::parse(&json, 1, MAX_FACTS_PER_TURN));
        for fact in read.unwrap_or_default() {
            let text = dated(&completed(&fact.text, &turn.text), &turn.day, None);
            let is_known = found.iter().any(|known| known.0 == at && known.1 == text);
            if !is_known && !extract::is_example(&fact.text, &turn.text) {
                found.push((at, text));
            }
        }
    }
    Ok(found)
}

/// Each fact with why it is refused, and the families without which it is not.
fn print_verdicts(name: &str) -> Result<(), Failure> {
    let turns = turns(name)?;
    for (at, fact) in facts(name, &turns)? {
        let turn = &turns[at];
        let said = [extract::original_message(&turn.text)];
        let grounds =
            Grounds::of(&Sources { said: &said, said_at: &turn.day, ..Sources::default() });
        let reason = grounds.check(&fact).err().map(|reason| reason.to_string());
        let mut families = FAMILIES.to_vec();
        families.retain(|off| reason.is_some() && grounds.check_without(off, &fact).is_ok());
        let line = json!({
            "part": name, "turn": turn.number, "text": fact, "why": reason, "families": families,
        });
        println!("{line}");
    }
    Ok(())
}

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let done = match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["questions", name] => print_questions(name),
        ["verdicts", name] => print_verdicts(name),
        _ => Err("usage: grounding_ablation questions|verdicts PART".into()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("{failure}");
            ExitCode::FAILURE
        }
    }
}
