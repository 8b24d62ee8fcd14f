//! Every memory begins small: twenty of three rows, each with a question, written before the weights were fitted.

use memory_agent_e2e::memory::{recall, value};
use memory_agent_e2e::{Json, Uuid, shared};

#[test]
fn a_score_tells_the_answer_in_a_memory_of_three_rows() {
    let mut client = shared().database("recall_small").connect();
    let memories = include_str!("small_memories.jsonl").lines();
    let memories: Vec<Json> = memories.map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(memories.len(), 20);
    let (mut first, mut sure, mut apart) = (0, 0, 0);
    let mut scores = Vec::new();
    for (number, memory) in memories.iter().enumerate() {
        let user = format!("user {number}");
        let rows = memory["rows"].as_array().unwrap();
        for row in rows {
            let _: Uuid = value(
                &mut client,
                "SELECT memory_ingest('s', 'user', $1, user_id => $2)",
                &[&row.as_str().unwrap(), &user],
            );
        }
        let question = memory["question"].as_str().unwrap().replace('\'', "''");
        let found = recall(&mut client, &format!("'{question}', user_id => '{user}'"));
        let answer = &rows[memory["answer"].as_u64().unwrap() as usize];
        let is_first = found[0].content == *answer;
        first += usize::from(is_first);
        // The models are not as sure as that of answers that share no word with the question: .2 to .3.
        sure += usize::from(is_first && found[0].score >= 0.3);
        apart += usize::from(found.get(1).is_none_or(|next| next.score < found[0].score / 2.0));
        scores.push(found.iter().map(|row| row.score).collect::<Vec<_>>());
    }
    assert!(first == 20 && sure >= 10 && apart >= 17, "{first} {sure} {apart} {scores:?}");
}
