//! Long memories before a message are passages, together within a budget that nobody has to give.

use crate::scene::{said, scene};
use memory_agent_e2e::Json;
use memory_agent_e2e::memory::{ingest, run, value};

const ANSWER: &str = "The shard leader timed out because its disk was full.";
const QUESTION: &str = "Why did the shard leader time out?";
/// Most tokens of a memory's label, with its id.
const LABEL: i64 = 60;

#[test]
fn long_memories_are_passages_without_a_budget_too() {
    let mut session = scene().session("augment_passages");
    for number in 0..8 {
        let line = |n: usize| format!("Check {n} of run {number} found nothing to report.\n");
        let half: String = (0..400).map(line).collect();
        ingest(&mut session.client, "logs", &format!("{half}{ANSWER}\n{half}"));
    }
    for (setting, top_k, most) in
        [("", 5, 200), ("", 8, 200), ("SET memory_agent.memory_tokens = 40", 5, 40)]
    {
        run(&mut session.client, setting);
        let document = session.augment(&said(QUESTION), &format!("'now', top_k => {top_k}"));
        let hits = document["memory_hits"].as_array().unwrap();
        assert_eq!(hits.len(), top_k as usize, "{document}");
        let prompt = document["messages"][0]["content"].as_str().unwrap();
        let cost = |text: &str| -> i64 {
            value(&mut session.client, "SELECT memory_count_tokens($1)::bigint", &[&text])
        };
        assert!({ cost }(prompt) <= (most + LABEL) * (top_k + 1), "{prompt}");
        for hit in hits {
            let content = hit["content"].as_str().unwrap();
            assert!(hit["shortened"] == true && content.contains(ANSWER), "{hit}");
            let id = hit["id"].as_str().unwrap();
            assert!(prompt.contains(&format!(", part of {id}] … Check ")), "{prompt}");
            let passage = content.replace('\n', "\n  ");
            assert!(prompt.contains(&passage), "{prompt}");
        }
    }
}

/// What stands in the message is left out by its whole text, and no other text for sharing a passage with it.
#[test]
fn echoes_are_whole_texts() {
    let mut session = scene().session("augment_passages_echo");
    let filler = |word: &str| format!("The {word} was cleaned again. ").repeat(300);
    let texts = ["kitchen", "cellar"].map(|word| format!("{ANSWER} {}", filler(word)));
    for text in &texts {
        ingest(&mut session.client, "logs", text);
    }
    let message = Json::from(vec![said(&texts[0])[0].clone(), said(QUESTION)[0].clone()]);
    let document = session.augment(&message, "'now'");
    let hits = document["memory_hits"].as_array().unwrap();
    assert_eq!(hits.len(), 1, "{document}");
    assert_eq!(hits[0]["shortened"], true);
    assert_eq!(document["left_out"][0]["why"], "echo", "{document}");
}
