//! Of a long memory, a prompt tells a passage around what was asked for, and which memory it is a part of.

use super::{Archive, EARLIER, MEMORIES, block, context};
use memory_agent_e2e::memory::{ingest, recall, replace_fact_of, run, value};
use memory_agent_e2e::{Client, Json, Uuid, shared};

const ANSWER: &str = "The shard leader timed out because its disk was full.";
const QUESTION: &str = "Why did the shard leader time out?";

/// Some 40 kB of a log that says one thing in the middle.
fn log(number: usize, answer: &str) -> String {
    let line = |n: usize| format!("Check {n} of run {number} found nothing to report.\n");
    let half: String = (0..400).map(line).collect();
    format!("{half}{answer}\n{half}")
}

fn tokens(client: &mut Client, text: &str) -> i64 {
    value(client, "SELECT memory_count_tokens($1)::bigint", &[&text])
}

fn memories(context: &Json) -> &[Json] {
    context["memories"].as_array().unwrap()
}

#[test]
fn a_long_memory_is_told_as_a_passage() {
    let mut client = shared().database("context_passages").connect();
    let logs: Vec<String> = (0..3).map(|number| log(number, ANSWER)).collect();
    let ids: Vec<Uuid> = logs.iter().map(|log| ingest(&mut client, "logs", log)).collect();
    ingest(&mut client, "logs", "The shard leader is called Emma.");
    for (setting, most) in [("", 200), ("SET memory_agent.memory_tokens = 40", 40)] {
        run(&mut client, setting);
        let document = context(&mut client, &format!("'now', '{QUESTION}', 6000"));
        let told = memories(&document);
        assert_eq!(told.len(), 4, "{document}");
        let text = block(&document, MEMORIES).unwrap();
        for memory in told {
            let content = memory["content"].as_str().unwrap();
            let id = memory["id"].as_str().unwrap();
            let named = text.contains(&format!(", part of {id}] "));
            if content == "The shard leader is called Emma." {
                assert!(memory["shortened"] == false && !named, "{text}");
                continue;
            }
            assert!(memory["shortened"] == true && named, "{text}");
            assert!(content.contains(ANSWER), "{content}");
            assert!(content.starts_with("… Check") && content.ends_with("report. …"), "{content}");
            let cost = tokens(&mut client, content);
            assert!(cost <= most && cost > most / 2, "{cost}: {content}");
        }
    }
    // The whole texts.
    let rows = recall(&mut client, &format!("'{QUESTION}', session_id => 'logs'"));
    assert_eq!(rows.iter().filter(|row| logs.contains(&row.content)).count(), 3);
    for (id, log) in ids.iter().zip(&logs) {
        let whole: String =
            value(&mut client, "SELECT content FROM memory_list(id => $1) memory_entries", &[&id]);
        assert_eq!(&whole, log);
    }
}

#[test]
fn texts_that_share_a_passage_are_two_memories() {
    let mut client = shared().database("context_passages_of_two").connect();
    let filler = |word: &str| format!("The {word} was cleaned again. ").repeat(300);
    for word in ["kitchen", "cellar"] {
        let text = format!("{ANSWER} {}", filler(word));
        ingest(&mut client, "logs", &text);
        // The same words, with other blanks.
        ingest(&mut client, "logs", &text.replace(". ", ".\n"));
    }
    run(&mut client, "SET memory_agent.memory_tokens = 20");
    let document = context(&mut client, &format!("'now', '{QUESTION}'"));
    assert_eq!(memories(&document).len(), 2, "{document}");
}

/// In a small prompt, the place of one passage is that of several short memories: it waits for those of a third of its
/// score, but for the best memory, of which at least half a passage is told.
#[test]
fn passages_wait_for_short_memories_except_for_the_best() {
    let mut client = shared().database("context_passages_order").connect();
    ingest(&mut client, "logs", &log(0, ANSWER));
    for number in 1..6 {
        ingest(&mut client, "logs", &log(number, "The shard leader got a new disk in May."));
    }
    let fact = |number: usize| {
        format!("The disk of leader {number} was cleaned in May by the night shift.")
    };
    for number in 0..40 {
        let add = "SELECT memory_add($1, infer => false)";
        client.execute(add, &[&fact(number)]).unwrap();
    }
    run(&mut client, "SET memory_agent.rerank_rows = 100");
    let mut told = |budget: i32| {
        let document = context(&mut client, &format!("'now', '{QUESTION}', {budget}"));
        memories(&document).to_vec()
    };
    let id = |memory: &Json| memory["id"].as_str().unwrap().to_owned();
    let score = |memory: &Json| memory["score"].as_f64().unwrap();
    let is_passage = |memory: &&Json| memory["shortened"] == true;
    let all = told(40_000);
    let best = all.iter().max_by(|left, right| score(left).total_cmp(&score(right))).unwrap();
    assert!(best["content"].as_str().unwrap().contains(ANSWER), "{best}");
    let (mut passages, mut waiting) = (0, 0);
    for budget in [1000, 2000, 3200, 5000, 7000] {
        let told = told(budget);
        let is_told = |memory: &Json| told.iter().any(|one| id(one) == id(memory));
        assert!(is_told(best) || budget == 1000, "{budget}");
        let others = told.iter().filter(is_passage).filter(|memory| id(memory) != id(best));
        let without_room = all.iter().filter(|memory| !is_passage(memory) && !is_told(memory));
        let least = without_room.map(score).fold(0.0, f64::max);
        for passage in others {
            assert!(score(passage) / 3.0 >= least - 1e-6, "{budget}: {least}, {passage}");
            passages += usize::from(least > 0.0);
        }
        let short = told.iter().filter(|memory| !is_passage(memory)).map(score);
        let least = short.fold(1.0, f64::min);
        waiting += all
            .iter()
            .filter(is_passage)
            .filter(|memory| !is_told(memory) && score(memory) > least)
            .count();
    }
    // Some come before short memories, and some wait for less sure ones.
    assert!(passages > 0 && waiting > 0, "{passages}, {waiting}");
}

/// Where a memory is alone, what is told of it grows with the budget.
#[test]
fn a_passage_takes_the_room_that_there_is() {
    let mut client = shared().database("context_passages_room").connect();
    ingest(&mut client, "logs", &log(1, ANSWER));
    let mut lengths = Vec::new();
    for budget in [500, 700, 1000, 1400, 2000, 3000] {
        let document = context(&mut client, &format!("'now', '{QUESTION}', {budget}"));
        let [memory] = memories(&document) else { panic!("{budget}: {document}") };
        let content = memory["content"].as_str().unwrap();
        assert!(content.contains(ANSWER), "{budget}: {content}");
        lengths.push(tokens(&mut client, content));
    }
    assert!(lengths.is_sorted(), "{lengths:?}");
    assert!(lengths[0] <= 50 && lengths[5] > 100, "{lengths:?}");
}

#[test]
fn marks_stay_and_are_short() {
    let mut client = shared().database("context_passages_marks").connect();
    let turn = ingest(&mut client, "logs", &log(1, ANSWER));
    let was = format!("The disk of the shard leader is full. {}", "It has logs. ".repeat(400));
    replace_fact_of(&mut client, turn, &was, "The disk was replaced.", "There is a shard leader.");
    let document = context(&mut client, &format!("'now', '{QUESTION}', 6000"));
    let memory = memories(&document).iter().find(|memory| memory["id"] == turn.to_string());
    let memory = memory.unwrap_or_else(|| panic!("{document}"));
    assert!(memory["content"].as_str().unwrap().contains(ANSWER), "{memory}");
    let mark = memory["no_longer_true"][0]["was"].as_str().unwrap();
    assert!(mark.starts_with("The disk of the shard leader is full.") && mark.ends_with('…'));
    assert!(tokens(&mut client, mark) <= 200, "{mark}");
    let text = block(&document, MEMORIES).unwrap();
    assert!(text.contains(&format!("\n  (no longer true: {mark})")), "{text}");
}

#[test]
fn a_part_of_a_conversation_is_a_passage_too() {
    let mut client = shared().database("context_passages_archive").connect();
    let summary = format!(
        "{}They found that the disk of the shard leader was full. {}",
        "A point without interest was made. ".repeat(80),
        "Another point was made. ".repeat(80)
    );
    Archive { summary: &summary, ..Archive::default() }.store(&mut client);
    run(&mut client, "SET memory_agent.relevance_threshold = 0");
    let question = "What did we discuss last time about the disk of the shard leader?";
    let document = context(&mut client, &format!("'now', '{question}', 6000"));
    let part = &document["cross_session"][0];
    let content = part["content"].as_str().unwrap_or_else(|| panic!("{document}"));
    assert!(content.contains("the disk of the shard leader was full"), "{content}");
    assert!(part["shortened"] == true && tokens(&mut client, content) <= 200, "{part}");
    let label = format!("[conversation of 2024-01-15, part of {}] ", part["id"].as_str().unwrap());
    assert!(block(&document, EARLIER).unwrap().contains(&label), "{document}");
    let whole: String = value(
        &mut client,
        "SELECT content FROM memory_list(id => $1::text::uuid) memory_entries",
        &[&part["id"].as_str()],
    );
    assert!(whole.contains(&summary));
}
