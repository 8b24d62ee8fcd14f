//! What prompts of one budget tell of the labelled rows, with long memories as passages and whole.

use crate::Result;
use crate::configurations::Plan;
use crate::dataset::{ADVERSARIAL, Dataset, Question};
use crate::report::{Bound, Report, Table, progress};
use memory_agent_e2e::{Client, Json};
use std::collections::HashMap;

/// Tokens of a prompt.
const BUDGETS: [i32; 2] = [1000, 4000];
/// One question of so many is asked.
const EVERY: usize = 2;
/// Tokens of a memory that prompts tell whole.
const WHOLE: &str = "100000";

/// Asks [`EVERY`]th question for a context, as a new conversation of the user of the same name would.
pub fn show(
    report: &mut Report,
    client: &mut Client,
    plan: &Plan,
    dataset: &Dataset,
    ids: &HashMap<String, String>,
) -> Result<()> {
    progress(format_args!("  prompts"));
    println!("\nLabelled rows that memory_context tells, and those of them that it tells whole");
    let mut table =
        Table::new(&["tokens of the prompt", "passages", "whole", "long memories whole", "whole"]);
    for budget in BUDGETS {
        client.batch_execute("RESET ALL; SET client_min_messages = error")?;
        let passages = told(client, dataset, ids, budget)?;
        client.batch_execute(&format!("SET memory_agent.memory_tokens = {WHOLE}"))?;
        let whole = told(client, dataset, ids, budget)?;
        let cells = [passages.0, passages.1, whole.0, whole.1].map(|share| format!("{share:.3}"));
        table.row([budget.to_string()].into_iter().chain(cells));
        let name =
            format!("{}, {budget} tokens: labelled rows told, to whole memories", plan.folder);
        report.requirement(name, passages.0 - whole.0, Bound::AtLeast(0.0));
    }
    print!("{table}");
    Ok(())
}

/// The mean share of a question's labelled rows that its prompt tells, and tells whole.
fn told(
    client: &mut Client,
    dataset: &Dataset,
    ids: &HashMap<String, String>,
    budget: i32,
) -> Result<(f64, f64)> {
    let context = client.prepare(
        "SELECT memory_context('new', $1, token_budget => $2::int4, user_id => $3) -> 'memories'",
    )?;
    let (mut told, mut whole, mut asked) = (0.0, 0.0, 0.0);
    let of_answers = dataset.questions.iter().filter(|one| one.category != ADVERSARIAL);
    for Question { query, conversation_id, evidence, .. } in of_answers.step_by(EVERY) {
        let memories: Json = client.query_one(&context, &[query, &budget, conversation_id])?.get(0);
        for memory in memories.as_array().into_iter().flatten() {
            let id = memory["id"].as_str().and_then(|id| ids.get(id));
            if id.is_some_and(|id| evidence.contains(id)) {
                told += 1.0 / evidence.len() as f64;
                whole += f64::from(memory["shortened"] == false) / evidence.len() as f64;
            }
        }
        asked += 1.0;
    }
    Ok((told / asked, whole / asked))
}
