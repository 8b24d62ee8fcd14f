//! What users say to an assistant on an ordinary day, in five languages: whether prompts are given the facts that a
//! message needs, alone and after what was said before it, and whether scores tell which messages need none.
//! `bench/languages/everyday.json` was written for this comparison, before anything was fitted to it.

use crate::Result;
use crate::environment::Environment;
use crate::report::{Report, Table};
use memory_agent_e2e::{Client, Json, json};

const EVERYDAY: &str = include_str!("../languages/everyday.json");
/// Memories of a prompt.
const TOP_K: i32 = 5;
/// The share of messages with a fact that a threshold is to keep.
const KEPT: f64 = 0.9;

/// What became of the messages of one language.
#[derive(Default)]
struct Outcome {
    /// Of the messages that need a fact: whether one is told of the message alone, and with what was said before.
    told: Vec<[bool; 2]>,
    /// The same of those that have something before them.
    follow_ups: Vec<[bool; 2]>,
    /// The best score among the facts that are needed, 0 if none is told.
    needed: Vec<f64>,
    /// The best score of a message that needs nothing.
    needless: Vec<f64>,
}

pub fn run(environment: &Environment, report: &mut Report) -> Result<()> {
    report.section(&format!(
        "Everyday messages: memories of 50 facts, at least one that is needed among {TOP_K} (`memory_augment`)"
    ));
    let mut table = Table::new(&[
        "",
        "messages",
        "alone",
        "with what was said before",
        "follow-ups",
        "alone",
        "with",
        "need nothing, above what keeps 90 %",
    ]);
    let everyday: Json = serde_json::from_str(EVERYDAY)?;
    let mut figures = Vec::new();
    for memory in list(&everyday, "memories") {
        let of = measure(environment, memory, list(&everyday, "messages"))?;
        let share = |of: &[[bool; 2]], how: usize| {
            of.iter().filter(|told| told[how]).count() as f64 / of.len().max(1) as f64
        };
        let needless = of.needless.iter().filter(|score| **score >= threshold(&of.needed)).count();
        let needless = needless as f64 / of.needless.len().max(1) as f64;
        let shares = [
            share(&of.told, 0),
            share(&of.told, 1),
            share(&of.follow_ups, 0),
            share(&of.follow_ups, 1),
            needless,
        ];
        figures.push(json!({"language": memory["language"], "shares": shares}));
        let [alone, with, follow_alone, follow_with, needless] =
            shares.map(|share| format!("{:.0} %", share * 100.0));
        table.row([
            text(memory, "language").to_owned(),
            of.told.len().to_string(),
            alone,
            with,
            of.follow_ups.len().to_string(),
            follow_alone,
            follow_with,
            needless,
        ]);
    }
    print!("{table}");
    report.add("everyday", figures.into());
    Ok(())
}

/// The greatest score that most messages reach with a fact that they need.
fn threshold(needed: &[f64]) -> f64 {
    let mut sorted = needed.to_vec();
    sorted.sort_by(f64::total_cmp);
    let kept = (KEPT * sorted.len() as f64).ceil() as usize;
    sorted.get(sorted.len() - kept).copied().unwrap_or_default()
}

fn measure(environment: &Environment, memory: &Json, messages: &[Json]) -> Result<Outcome> {
    let language = text(memory, "language");
    let mut client = environment.database(&format!("everyday_{language}"))?;
    client.batch_execute(&format!(
        "SELECT memory_configure(settings => '{{\"text_search_config\": \"{language}\"}}')"
    ))?;
    for fact in list(memory, "facts") {
        client.execute("SELECT memory_add($1, infer => false)", &[&fact.as_str()])?;
    }
    let mut outcome = Outcome::default();
    for message in messages.iter().filter(|message| message["memory"] == memory["id"]) {
        let needs: Vec<&Json> = list(message, "needs")
            .iter()
            .filter_map(|place| memory["facts"].get(place.as_u64()? as usize))
            .collect();
        let latest = json!({"role": "user", "content": message["message"]});
        let mut all = list(message, "before").to_vec();
        all.push(latest.clone());
        let with = told(&mut client, &all)?;
        let best = |memories: &[Json], is_meant: &dyn Fn(&Json) -> bool| {
            let meant = memories.iter().filter(|memory| is_meant(memory));
            meant.filter_map(|memory| memory["score"].as_f64()).fold(0.0, f64::max)
        };
        if needs.is_empty() {
            outcome.needless.push(best(&with, &|_| true));
            continue;
        }
        let is_needed = |memory: &Json| needs.contains(&&memory["content"]);
        let alone = told(&mut client, &[latest])?;
        let is_told = [alone, with.clone()].map(|memories| memories.iter().any(is_needed));
        outcome.told.push(is_told);
        if all.len() > 1 {
            outcome.follow_ups.push(is_told);
        }
        outcome.needed.push(best(&with, &is_needed));
    }
    Ok(outcome)
}

/// The memories that these messages are given.
fn told(client: &mut Client, messages: &[Json]) -> Result<Vec<Json>> {
    let augmented: String = client
        .query_one(
            "SELECT memory_augment($1::text::jsonb, session_id => 'now', top_k => $2::int4)::text",
            &[&Json::from(messages.to_vec()).to_string(), &TOP_K],
        )?
        .get(0);
    let augmented: Json = serde_json::from_str(&augmented)?;
    Ok(list(&augmented, "memory_hits").to_vec())
}

fn list<'a>(of: &'a Json, key: &str) -> &'a [Json] {
    of[key].as_array().map_or(&[], Vec::as_slice)
}

fn text<'a>(of: &'a Json, key: &str) -> &'a str {
    of[key].as_str().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_of_the_messages_need_a_fact_that_there_is() {
        let everyday: Json = serde_json::from_str(EVERYDAY).unwrap();
        for memory in list(&everyday, "memories") {
            let facts = list(memory, "facts").len();
            let of_memory = list(&everyday, "messages")
                .iter()
                .filter(|message| message["memory"] == memory["id"]);
            let needs: Vec<&[Json]> = of_memory.map(|message| list(message, "needs")).collect();
            let needless = needs.iter().filter(|needs| needs.is_empty()).count();
            assert_eq!((facts, needs.len(), needless), (50, 40, 20), "{}", memory["id"]);
            for place in needs.into_iter().flatten() {
                assert!(place.as_u64().unwrap() < facts as u64, "{place}");
            }
        }
    }

    #[test]
    fn a_threshold_keeps_nine_of_ten() {
        let scores: Vec<f64> = (0..20).map(f64::from).collect();
        assert_eq!(threshold(&scores), 2.0);
        assert_eq!(threshold(&[]), 0.0);
    }
}
