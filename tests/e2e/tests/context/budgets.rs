//! A context never has one token more than asked for, and tells nothing twice: 1,000 random sessions,
//! messages, budgets and limits, counted by OpenAI's own tokeniser and read in read-only transactions.

use super::random::Random;
use super::{Archive, EARLIER, MEMORIES, SUMMARY, block, context, messages, reader, summarize};
use memory_agent_core::prompt::fence;
use memory_agent_e2e::memory::{ingest, ingest_all, replace_fact_of, run, value};
use memory_agent_e2e::{Client, Cluster, Json, json, shared, sqlstate};
use std::collections::HashSet;

const CASES: u64 = 750;
const CONVERSATIONS: u64 = 12;
/// Tokens that a message costs beside its text.
const OVERHEAD: i64 = 4;

/// What texts are made of: words of one token and of many, other scripts, white space, and what looks
/// like a token of the model or a part of a prompt.
const PIECES: [&str; 23] = [
    "tea",
    "the",
    " Rome",
    "antidisestablishmentarianism",
    "日本",
    "🚀🚀",
    "don't",
    "x1",
    "naïve",
    "-",
    "\n\n# Heading\n",
    "\n- item",
    "   ",
    "\t",
    "1234567890",
    "<|endoftext|>",
    "Current message:",
    "\n[memory] I am the user",
    "Long-term memory (most relevant first):",
    "</memory>",
    "budget.",
    "harvest!",
    "ᚠᛇᚻ",
];

/// The reference.
fn count(text: &str) -> i64 {
    tiktoken_rs::cl100k_base_singleton().count_ordinary(text) as i64
}

fn cost(text: &str) -> i64 {
    count(text) + OVERHEAD
}

/// A text of up to so many pieces, not blank.
fn text(random: &mut Random, longest: u64) -> String {
    let mut words = vec!["apple"];
    for _ in 0..random.below(longest) {
        words.push(PIECES[random.below(PIECES.len() as u64) as usize]);
    }
    words.join(" ")
}

/// A text of whole sentences.
fn prose(random: &mut Random, sentences: u64) -> String {
    let mut prose = Vec::new();
    for n in 0..=random.below(sentences) {
        prose.push(format!("Point {n} is {}.", text(random, 12).replace('.', "")));
    }
    prose.join(" ")
}

/// Turns of one session; some repeat an earlier one.
fn turns(random: &mut Random) -> Vec<Json> {
    let mut turns: Vec<Json> = Vec::new();
    for _ in 0..random.below(12) {
        let content = match turns.last() {
            Some(last) if random.below(8) == 0 => last["content"].clone(),
            _ => {
                let longest = if random.below(6) == 0 { 150 } else { 25 };
                json!(text(random, longest))
            }
        };
        let role = ["user", "assistant", "tool", "memory"][random.below(4) as usize];
        turns.push(json!({"role": role, "content": content}));
    }
    turns
}

/// What all sessions of the user share: facts, documents, archived conversations, and turns of the global memory with a
/// statement that no longer holds.
fn fill(client: &mut Client, random: &mut Random) {
    for n in 0..CONVERSATIONS {
        let summary = prose(random, 40);
        let session = format!("old {n}");
        Archive { session: &session, summary: &summary, ..Archive::default() }.store(client);
    }
    for n in 0..15 {
        let content = text(random, 30);
        if n % 5 == 0 {
            client.execute("SELECT memory_add_document($1)", &[&content]).unwrap();
        } else {
            client.execute("SELECT memory_add($1, infer => false)", &[&content]).unwrap();
        }
    }
    for n in 0..15 {
        let turn = ingest(client, "global", &format!("Half {n} {}", text(random, 15)));
        let was = format!("Was {n}: {}", text(random, 20));
        replace_fact_of(client, turn, &was, &format!("Now {n}."), &format!("Holds {n}."));
    }
}

/// What cases saw, so that a test that never reached something fails.
#[derive(Default, Debug)]
struct Seen {
    refused: u32,
    whole_summaries: u32,
    cut_summaries: u32,
    memories: u32,
    marked: u32,
    conversations: u32,
    turns: u32,
    full: u32,
}

#[test]
fn never_a_token_more_and_nothing_twice() {
    let database = shared().database("context_property");
    let mut writer = database.connect();
    let mut reader = reader(database);
    let mut random = Random::seeded("budgets of contexts");
    fill(&mut writer, &mut random);
    run(&mut writer, "SET memory_agent.embed_on_ingest = off");
    run(&mut reader, "SET memory_agent.rerank = off; SET memory_agent.relevance_threshold = 0.3");
    let mut seen = Seen::default();
    for case in 0..CASES {
        let session = format!("s{case}");
        let turns = turns(&mut random);
        if !turns.is_empty() {
            writer
                .query(
                    "SELECT memory_ingest_batch($1, $2)",
                    &[&Json::from(turns.clone()), &session],
                )
                .unwrap();
        }
        let summary = (random.below(3) > 0).then(|| prose(&mut random, 25));
        if let Some(summary) = &summary {
            summarize(&mut writer, &session, summary);
        }
        let trigger = ["", "Remind me: ", "what did we discuss about "][random.below(3) as usize];
        // Now and then the message was stored before it is asked about.
        let question = match turns.last() {
            Some(last) if random.below(6) == 0 => last["content"].as_str().unwrap().to_owned(),
            _ => format!("{trigger}{}", text(&mut random, 15)),
        };
        let most = [40, 300, 2500][random.below(3) as usize];
        let wanted = (cost(&question) - 6 + random.below(most) as i64).max(1);
        // By the argument, or by what the model reads, of which a twentieth stays free.
        let of_model = (wanted as f64 / 0.95).ceil() as i64;
        let (limit, argument) = match random.below(3) {
            0 => (100_000, Some(wanted)),
            1 => (of_model + random.below(2) as i64, None),
            _ => (of_model, Some(100_000)),
        };
        let budget = argument.unwrap_or(i64::MAX).min((limit as f64 * 0.95) as i64);
        run(&mut reader, &format!("SET memory_agent.context_limit = {limit}"));
        let found = reader.query_one(
            "SELECT memory_context($1, $2, $3::int4)",
            &[&session, &question, &argument.map(|argument| argument as i32)],
        );
        let document: Json = match found {
            Ok(row) => row.get(0),
            Err(error) => {
                assert_eq!(sqlstate(&error), "22023", "case {case}: {error:?}");
                assert!(cost(&question) > budget, "case {case}: refused, though it fits");
                seen.refused += 1;
                continue;
            }
        };
        check(&document, &question, budget, &turns, summary.as_deref(), &mut seen);
    }
    let Seen {
        refused,
        whole_summaries,
        cut_summaries,
        memories,
        marked,
        conversations,
        turns,
        full,
    } = seen;
    assert!(
        [refused, whole_summaries, cut_summaries, memories, marked, conversations, turns, full]
            .iter()
            .all(|&n| n > 20),
        "{seen:?}"
    );
}

/// Everything that holds for one context.
fn check(
    document: &Json,
    question: &str,
    budget: i64,
    turns: &[Json],
    summary: Option<&str>,
    seen: &mut Seen,
) {
    let all = messages(document);
    let counted: i64 = all.iter().map(|(_, content)| cost(content)).sum();
    assert_eq!(document["token_count"].as_i64(), Some(counted), "{document}");
    assert!(counted <= budget, "{counted} of {budget}: {document}");
    assert_eq!(*all.last().unwrap(), ("user", question));
    let blocks = [SUMMARY, MEMORIES, EARLIER].map(|heading| block(document, heading));
    let [summary_cost, memory_cost, earlier_cost] = blocks.map(|text| text.map_or(0, cost));
    assert!(4 * summary_cost <= budget, "the summary takes {summary_cost} of {budget}");
    assert!(
        4 * (memory_cost + earlier_cost) <= budget,
        "memories and conversations take {memory_cost} and {earlier_cost} of {budget}"
    );

    // The order: what is told, then turns as they were said, then the message.
    let told: Vec<&str> = blocks.into_iter().flatten().collect();
    let shown = &all[told.len()..all.len() - 1];
    let beginning: Vec<&str> = all[..told.len()].iter().map(|(_, content)| *content).collect();
    assert_eq!(beginning, told);
    let said: Vec<String> = turns
        .iter()
        .map(|turn| match (turn["role"].as_str().unwrap(), turn["content"].as_str().unwrap()) {
            (role @ ("tool" | "memory"), content) => {
                fence::fenced(&format!("[{role}] {}", fence::data(content)))
            }
            (_, content) => content.to_owned(),
        })
        .collect();
    let mut rest = said.iter();
    assert!(shown.iter().all(|(_, content)| rest.any(|turn| turn == content)), "{document}");

    match (summary, document["summary"].as_str()) {
        (Some(whole), Some(kept)) => {
            assert!(whole.starts_with(kept), "{kept:?} is no beginning of {whole:?}");
            let place =
                if kept == whole { &mut seen.whole_summaries } else { &mut seen.cut_summaries };
            *place += 1;
        }
        (None, Some(kept)) => panic!("there is no summary, but {kept:?}"),
        (_, None) => assert_eq!(summary_cost, 0),
    }

    // Nothing twice: not in two memories, not as memory and turn, no conversation in two parts.
    let memories = document["memories"].as_array().unwrap();
    let mut contents = HashSet::new();
    for memory in memories {
        let content = memory["content"].as_str().unwrap();
        assert!(contents.insert(content), "told twice: {content:?} in {document}");
        let is_shown = shown.iter().any(|(_, text)| *text == content);
        assert!(!is_shown && content != question, "memory and message: {content:?} in {document}");
    }
    let conversations = document["cross_session"].as_array().unwrap();
    let sessions: HashSet<&str> =
        conversations.iter().map(|known| known["session_id"].as_str().unwrap()).collect();
    assert_eq!(sessions.len(), conversations.len(), "{document}");

    seen.memories += u32::from(!memories.is_empty());
    let is_marked =
        |memory: &Json| memory["no_longer_true"].as_array().is_some_and(|m| !m.is_empty());
    seen.marked += u32::from(memories.iter().any(is_marked));
    seen.conversations += u32::from(!conversations.is_empty());
    seen.turns += u32::from(!shown.is_empty());
    seen.full += u32::from(budget - counted < 40);
}

#[test]
fn turns_that_were_counted_by_estimate_are_counted_anew() {
    let database = shared().database("context_estimates");
    let mut client = database.connect();
    let turns: Vec<String> =
        (0..40).map(|n| format!("Turn {n}: 日本語のとても長い文章です。🚀🚀🚀")).collect();
    run(&mut client, "SET memory_agent.embed_on_ingest = off; SET memory_agent.rerank = off");
    ingest_all(&mut client, "s", &turns.iter().map(String::as_str).collect::<Vec<_>>());
    // As they are stored while the tokeniser is not to be had, by a bad guess.
    run(&mut client, "UPDATE memory_agent.entries SET token_count = 1, token_count_exact = false");
    let document = context(&mut client, "'s', 'How long is it?', 300");
    let counted: i64 = messages(&document).iter().map(|(_, content)| cost(content)).sum();
    assert!(counted <= 300, "{counted}: {document}");
    assert_eq!(document["token_count"].as_i64(), Some(counted));
    assert!(counted > 200, "the room is used");
}

/// OpenAI's later models need far fewer tokens for many languages, so more of a conversation fits.
#[test]
fn prompts_can_be_counted_as_later_models_do() {
    let later = |text: &str| tiktoken_rs::o200k_base_singleton().count_ordinary(text) as i64;
    let mut client = shared().database("context_o200k").connect();
    run(&mut client, "SET memory_agent.rerank = off");
    let turns: Vec<String> =
        (0..60).map(|n| format!("संदेश {n}: मुझे सुबह की चाय बहुत पसंद है और शाम को कॉफ़ी।")).collect();
    ingest_all(&mut client, "s", &turns.iter().map(String::as_str).collect::<Vec<_>>());
    summarize(&mut client, "s", "वे चाय और कॉफ़ी की बात करते हैं।");
    let stored = "SELECT sum(token_count) FROM memory_agent.entries WHERE kind = 'turn'";
    let before: i64 = value(&mut client, stored, &[]);
    assert_eq!(before, turns.iter().map(|turn| count(turn)).sum::<i64>());
    let few = messages(&context(&mut client, "'s', 'चाय?', 500")).len();

    run(&mut client, "SET memory_agent.prompt_tokenizer = o200k_base");
    let document = context(&mut client, "'s', 'चाय?', 500");
    let all = messages(&document);
    let counted: i64 = all.iter().map(|(_, content)| later(content) + OVERHEAD).sum();
    assert_eq!(document["token_count"].as_i64(), Some(counted), "{document}");
    assert!((460..=500).contains(&counted), "{counted}: the room is used");
    assert!(all.len() > 3 * few / 2, "{} messages, {few} by cl100k_base", all.len());
    let rows = client
        .query("SELECT content, token_count FROM memory_load('s', token_budget => 400)", &[])
        .unwrap();
    let loaded: i64 = rows
        .iter()
        .map(|row| {
            let (content, tokens): (&str, i32) = (row.get(0), row.get(1));
            assert_eq!(i64::from(tokens), later(content), "{content}");
            i64::from(tokens) + OVERHEAD
        })
        .sum();
    assert!((360..=400).contains(&loaded), "{loaded}");
    let question = json!([{"role": "user", "content": "चाय?"}]);
    let augmented: Json = value(
        &mut client,
        "SELECT memory_augment($1, token_budget => 300, session_id => 's', top_k => 30, score_threshold => 0)",
        &[&question],
    );
    let prompt = later(augmented["messages"][0]["content"].as_str().unwrap()) + OVERHEAD;
    assert!((250..=300).contains(&prompt), "{prompt}");
    // What is stored keeps its meaning.
    assert_eq!(value::<i64>(&mut client, stored, &[]), before);
    let counts: (i32, i32) = {
        let sql =
            "SELECT memory_count_tokens($1, 'o200k_base'), memory_count_tokens($1, 'cl100k_base')";
        let row = client.query_one(sql, &[&turns[0]]).unwrap();
        (row.get(0), row.get(1))
    };
    assert_eq!(counts, (later(&turns[0]) as i32, count(&turns[0]) as i32));
    let unknown = client.query("SELECT memory_count_tokens('x', 'p50k_base')", &[]);
    assert_eq!(sqlstate(&unknown.unwrap_err()), "22023");
}

#[test]
fn without_a_tokeniser_it_is_made_from_estimates() {
    let cluster = Cluster::builder()
        .preload(true)
        .setting("memory_agent.model_server_path", "/nonexistent")
        .start();
    let database = cluster.database("context_outage");
    let mut client = database.connect();
    ingest_all(&mut client, "s", &["Hello.", "I like tea."]);
    summarize(&mut client, "s", "They greeted each other.");
    let document = context(&mut client, "'s', 'What did we discuss last time?', 400");
    assert_eq!(document["summary"], "They greeted each other.");
    assert_eq!(messages(&document).len(), 4, "{document}");
    let estimate: i64 = document["token_count"].as_i64().unwrap();
    assert!((20..=400).contains(&estimate), "{estimate}");
    let warnings: i64 = value(
        &mut client,
        "SELECT count(*) FROM memory_agent.entries WHERE NOT token_count_exact",
        &[],
    );
    assert_eq!(warnings, 2, "the tokeniser was not to be had");
}
