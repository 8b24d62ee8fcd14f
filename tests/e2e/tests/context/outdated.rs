//! What no longer holds, in prompts: a turn of which nothing holds any more is left out of the memories, one
//! that says something else as well is marked, and in the window turns are marked and stay.

use super::{END, MEMORIES, block, context, messages};
use memory_agent_e2e::memory::{run, undated, value};
use memory_agent_e2e::{Client, Json, json, shared};

const MYSQL: &str = "Our shop runs on MySQL.";
const BOTH: &str = "Our shop sells bicycles and runs on MySQL 5.";
const QUESTION: &str = "What does our shop run on?";

/// What is said in the window is told there.
const OUT_OF_THE_WINDOW: &str =
    "UPDATE memory_agent.entries SET state = 'archived' WHERE kind = 'turn'";

/// What the worker leaves behind after "we moved to PostgreSQL": facts of the first two turns are replaced,
/// and one of the second holds.
fn shop(client: &mut Client, session: &str) {
    run(
        client,
        &format!(
            "SELECT memory_ingest('{session}', 'user', '{MYSQL}', created_at => '2024-01-01');
             SELECT memory_ingest_batch('[{{\"role\": \"user\", \"content\": \"{BOTH}\", \"created_at\": \"2024-02-01\", \
                                           \"metadata\": {{\"name\": \"Mia\"}}}}]', '{session}');
             SELECT memory_ingest('{session}', 'user', 'Since June it is PostgreSQL.', created_at => '2024-06-01');
             SELECT memory_add('The shop of the user runs on MySQL.', infer => false, fact_key => 'database', created_at => '2024-01-01');
             SELECT memory_add('The shop of the user runs on PostgreSQL.', infer => false, fact_key => 'database', created_at => '2024-06-01');
             SELECT memory_add('The shop of the user sells bicycles.', infer => false, fact_key => 'goods', created_at => '2024-02-01');
             UPDATE memory_agent.entries f
                SET metadata = '{{\"job_id\": \"its job\"}}', fact_key = NULL,
                    source_ids = ARRAY(SELECT t.id FROM memory_agent.entries t WHERE t.kind = 'turn'
                                          AND CASE WHEN f.content LIKE '%MySQL%' THEN t.content LIKE '%MySQL%'
                                                   ELSE t.created_at = f.created_at END)
              WHERE f.kind = 'fact'"
        ),
    );
}

/// The lines of the memories, without their days.
fn told(document: &Json) -> Vec<String> {
    let block = block(document, MEMORIES).unwrap_or_default();
    undated(block.trim_end_matches(END)).lines().skip(2).map(str::to_owned).collect()
}

#[test]
fn a_prompt_has_no_memory_that_no_longer_holds() {
    let mut client = shared().database("context_outdated").connect();
    shop(&mut client, "now");
    run(&mut client, OUT_OF_THE_WINDOW);
    let marked = [
        "[memory] The shop of the user runs on PostgreSQL.".to_owned(),
        "[memory] The shop of the user sells bicycles.".to_owned(),
        "[user] Since June it is PostgreSQL.".to_owned(),
        format!("[user Mia] {BOTH}"),
        "  (no longer true: The shop of the user runs on MySQL.)".to_owned(),
    ];
    let sorted = |mut lines: Vec<String>| {
        lines.sort();
        lines
    };
    let arguments = format!("'now', '{QUESTION}'");
    let document = context(&mut client, &arguments);
    assert_eq!(sorted(told(&document)), sorted(marked.to_vec()), "{document}");
    let memories = document["memories"].as_array().unwrap();
    let of_mia = memories.iter().find(|memory| memory["content"] == BOTH).unwrap();
    assert_eq!(of_mia["no_longer_true"], json!([{"was": "The shop of the user runs on MySQL."}]));
    // Facts, and then what was said, each with its day.
    let block = block(&document, MEMORIES).unwrap();
    let facts = block.lines().skip(2).take_while(|line| line.starts_with("[memory, ")).count();
    assert_eq!(facts, 2, "{block}");
    assert!(
        block.contains("[memory, 2024-06-01] The shop of the user runs on PostgreSQL."),
        "{block}"
    );
    assert!(block.contains("[user Mia, 2024-02-01] Our shop sells"), "{block}");

    // What recall shows is another setting's.
    run(&mut client, "SET memory_agent.stale_sources = hide");
    assert_eq!(sorted(told(&context(&mut client, &arguments))), sorted(marked.to_vec()));
    run(&mut client, "RESET memory_agent.stale_sources");

    run(&mut client, "SET memory_agent.prompt_stale_sources = hide");
    let hidden = told(&context(&mut client, &arguments));
    assert_eq!(sorted(hidden), sorted(marked[..3].to_vec()));
    run(&mut client, "SET memory_agent.prompt_stale_sources = show");
    let shown = told(&context(&mut client, &arguments));
    assert!(shown.contains(&format!("[user] {MYSQL}")), "{shown:?}");
    assert!(!shown.iter().any(|line| line.contains("no longer true")), "{shown:?}");
}

#[test]
fn augmented_messages_are_as_true() {
    let mut client = shared().database("augment_outdated").connect();
    shop(&mut client, "now");
    let augment = "SELECT memory_augment($1, 'now')";
    let messages = json!([{"role": "user", "content": QUESTION}]);
    let document: Json = value(&mut client, augment, &[&messages]);
    let prompt = undated(document["messages"][0]["content"].as_str().unwrap());
    assert!(!prompt.contains(MYSQL), "{prompt}");
    let marked =
        format!("[user Mia] {BOTH}\n  (no longer true: The shop of the user runs on MySQL.)");
    assert!(prompt.contains(&marked), "{prompt}");
    assert!(prompt.contains("[memory] The shop of the user runs on PostgreSQL."), "{prompt}");
    let hits = document["memory_hits"].as_array().unwrap();
    let roles: Vec<&str> = hits.iter().map(|hit| hit["role"].as_str().unwrap()).collect();
    assert!(roles.is_sorted_by_key(|role| *role != "memory"), "facts first: {roles:?}");
    run(&mut client, "SET memory_agent.prompt_stale_sources = show");
    let document: Json = value(&mut client, augment, &[&messages]);
    assert!(document["messages"][0]["content"].as_str().unwrap().contains(MYSQL));
}

/// The conversation that goes on is told as it was said: without a turn it would have a hole.
#[test]
fn turns_of_the_window_are_marked() {
    let mut client = shared().database("context_outdated_window").connect();
    shop(&mut client, "now");
    let document = context(&mut client, &format!("'now', '{QUESTION}'"));
    let mark = "\n(no longer true: The shop of the user runs on MySQL.)";
    let said: Vec<(&str, &str)> =
        messages(&document).into_iter().filter(|(role, _)| *role == "user").collect();
    let (old, both) = (format!("{MYSQL}{mark}"), format!("{BOTH}{mark}"));
    assert_eq!(
        said,
        [
            ("user", old.as_str()),
            ("user", both.as_str()),
            ("user", "Since June it is PostgreSQL."),
            ("user", QUESTION)
        ]
    );
    let counted = super::recount(&mut client, &document);
    assert_eq!(document["token_count"].as_i64(), Some(counted), "marks are counted too");
    run(&mut client, "SET memory_agent.prompt_stale_sources = show");
    let document = context(&mut client, &format!("'now', '{QUESTION}'"));
    assert!(messages(&document).contains(&("user", MYSQL)), "{document}");
}

/// A summary that was made before a change says so, until the next one is made.
#[test]
fn a_summary_is_marked() {
    let mut client = shared().database("context_outdated_summary").connect();
    shop(&mut client, "now");
    super::summarize(&mut client, "now", "The shop runs on MySQL. It sells bicycles.");
    let covers = |client: &mut Client, until: &str| {
        let update =
            "UPDATE memory_agent.session_summaries SET last_entry_at = $1::text::timestamptz";
        client.execute(update, &[&until]).unwrap();
    };
    let told = |client: &mut Client| {
        let context = context(client, &format!("'now', '{QUESTION}'"));
        let counted = super::recount(client, &context);
        assert_eq!(context["token_count"].as_i64(), Some(counted));
        assert_eq!(context["summary"], "The shop runs on MySQL. It sells bicycles.");
        let messages = json!([{"role": "user", "content": QUESTION}]);
        let augment = "SELECT memory_augment($1, 'now')";
        let augmented: Json = value(client, augment, &[&messages]);
        let text = augmented["messages"][0]["content"].as_str().unwrap().to_owned();
        (block(&context, super::SUMMARY).unwrap().to_owned(), text)
    };
    let mark = "It sells bicycles.\n  (no longer true: The shop of the user runs on MySQL.)";
    covers(&mut client, "2024-03-01");
    let (block, text) = told(&mut client);
    assert!(block.contains(mark), "{block}");
    assert!(text.contains(mark), "{text}");
    // One that covers the change says itself what became of it.
    covers(&mut client, "2024-07-01");
    let (block, _) = told(&mut client);
    assert!(!block.contains("no longer true"), "{block}");
}

/// An archive tells turns as they were said, whenever the fact was replaced: after the conversation, or in it.
#[test]
fn earlier_conversations_are_marked() {
    let mut client = shared().database("context_outdated_archive").connect();
    shop(&mut client, "then");
    run(&mut client, "SELECT memory_archive('then')");
    let question = "What did we discuss about our shop?";
    let told = |client: &mut Client| {
        let document = context(client, &format!("'now', '{question}'"));
        let counted = super::recount(client, &document);
        assert_eq!(document["token_count"].as_i64(), Some(counted), "marks are counted too");
        assert_eq!(document["cross_session"][0]["session_id"], "then", "{document}");
        (block(&document, super::EARLIER).unwrap().to_owned(), document["cross_session"][0].clone())
    };
    let mark = "\n  (no longer true: The shop of the user runs on MySQL.)";
    let (text, part) = told(&mut client);
    assert!(text.contains(MYSQL) && text.contains(mark), "{text}");
    assert_eq!(part["no_longer_true"], json!([{"was": "The shop of the user runs on MySQL."}]));
    let messages = json!([{"role": "user", "content": question}]);
    let document: Json = value(&mut client, "SELECT memory_augment($1, 'now')", &[&messages]);
    let prompt = document["messages"][0]["content"].as_str().unwrap();
    assert!(prompt.contains(MYSQL) && prompt.contains(mark), "{prompt}");
    // Said after its end.
    run(
        &mut client,
        "UPDATE memory_agent.entries SET created_at = '2025-01-01' WHERE kind = 'fact' AND state = 'active'",
    );
    assert!(told(&mut client).0.contains(mark));
    run(&mut client, "SET memory_agent.prompt_stale_sources = show");
    let (text, part) = told(&mut client);
    assert!(text.contains(MYSQL) && !text.contains("no longer true"), "{text}");
    assert_eq!(part["no_longer_true"], json!([]));
}
