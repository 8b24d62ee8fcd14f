//! Archived conversations in a context: when they are asked for, which ones, and how much of them.

use super::{Archive, EARLIER, MEMORIES, archive_some, block, context, messages, reader, recount};
use memory_agent_e2e::memory::{ingest, recalled_texts, run, value};
use memory_agent_e2e::{Client, Json, shared};

const QUESTION: &str = "What did we discuss about authentication tokens?";

/// The sessions whose conversations are told.
fn told(context: &Json) -> Vec<&str> {
    let told = context["cross_session"].as_array().unwrap();
    told.iter().map(|conversation| conversation["session_id"].as_str().unwrap()).collect()
}

fn archived(name: &'static str) -> Client {
    let mut client = shared().database(name).connect();
    archive_some(&mut client);
    client
}

#[test]
fn a_trigger_brings_the_conversation_that_is_meant() {
    let mut client = archived("cross_trigger");
    ingest(&mut client, "now", "Good morning.");
    let document = context(&mut client, &format!("'now', '{QUESTION}'"));
    assert_eq!(told(&document), ["auth"], "{document}");
    let text = block(&document, EARLIER).unwrap();
    assert!(
        text.starts_with(&format!("{EARLIER}[conversation of 2024-01-15] # Conversation Summary")),
        "{text}"
    );
    assert!(text.contains("JSON Web Tokens with a lifetime of one hour"), "{text}");
    let conversation = &document["cross_session"][0];
    assert_eq!(conversation["agent_id"], "default");
    assert!(conversation["similarity"].as_f64().unwrap() > 0.5 && conversation["id"].is_string());
    let messages = messages(&document);
    let place = messages.iter().position(|(_, content)| *content == text).unwrap();
    assert_eq!(messages[place + 1], ("user", "Good morning."), "before the recent messages");
    assert_eq!(document["token_count"].as_i64().unwrap(), recount(&mut client, &document));

    for (question, session) in [
        ("Remind me what the budget for Japan was.", "japan"),
        ("LAST TIME we spoke about my knee, what was advised?", "marathon"),
        ("In our previous conversation, which kitchen offer did I prefer?", "kitchen"),
    ] {
        let document = context(&mut client, &format!("'now', '{question}'"));
        assert_eq!(told(&document).first(), Some(&session), "{question}: {document}");
    }
}

#[test]
fn without_a_trigger_nothing_is_told() {
    let mut client = archived("cross_no_trigger");
    let question = "'now', 'How long are authentication tokens valid?'";
    let document = context(&mut client, question);
    assert!(told(&document).is_empty() && block(&document, EARLIER).is_none(), "{document}");
    run(&mut client, "SET memory_agent.cross_session_triggers = 'how long, weißt du noch'");
    assert_eq!(told(&context(&mut client, question)), ["auth"]);
    let replaced = context(&mut client, &format!("'now', '{QUESTION}'"));
    assert!(told(&replaced).is_empty(), "the phrases are the setting's alone");
    run(&mut client, "SET memory_agent.cross_session_triggers = ''");
    assert!(told(&context(&mut client, question)).is_empty(), "no phrase, no trigger");
}

#[test]
fn it_can_be_switched_off() {
    let mut client = archived("cross_off");
    run(&mut client, "SET memory_agent.cross_session = off");
    assert!(told(&context(&mut client, &format!("'now', '{QUESTION}'"))).is_empty());
}

#[test]
fn what_is_not_similar_enough_is_left_out() {
    let mut client = archived("cross_threshold");
    let unrelated = "'now', 'What did we discuss about the violin lessons of my niece?'";
    let document = context(&mut client, unrelated);
    assert!(told(&document).is_empty(), "{document}");
    run(&mut client, "SET memory_agent.relevance_threshold = 0");
    assert_eq!(told(&context(&mut client, unrelated)).len(), 4, "all of them");
    run(&mut client, "SET memory_agent.relevance_threshold = -1");
    for without in [
        "SET memory_agent.rerank = off",
        "SET memory_agent.rerank = on; SET memory_agent.rerank_rows = 0",
    ] {
        run(&mut client, without);
        assert!(
            told(&context(&mut client, unrelated)).is_empty(),
            "without a reranker the cosine decides"
        );
        assert_eq!(
            told(&context(&mut client, "'now', 'Remind me how long our tokens are valid.'")),
            ["auth"]
        );
    }
    run(&mut client, "SET memory_agent.relevance_threshold = 1");
    assert!(told(&context(&mut client, &format!("'now', '{QUESTION}'"))).is_empty());
}

#[test]
fn only_other_sessions_of_this_user_are_told() {
    let mut client = archived("cross_scope");
    run(&mut client, "SET memory_agent.relevance_threshold = 0");
    let summary = "They discussed authentication tokens at length.";
    for (user, agent, session) in
        [("bob", "default", "bobs"), ("*", "default", "everybodys"), ("alice", "coder", "coders")]
    {
        Archive { user, agent, session, summary, ..Archive::default() }.store(&mut client);
    }
    let told_to = |client: &mut Client, arguments: &str| -> Vec<String> {
        let document = context(client, &format!("{arguments}, token_budget => 4000"));
        let mut sessions: Vec<String> = told(&document).into_iter().map(str::to_owned).collect();
        sessions.sort();
        sessions
    };
    let here = format!("'auth', '{QUESTION}'");
    let all = ["coders", "japan", "kitchen", "marathon"];
    assert_eq!(told_to(&mut client, &here), all, "not the session that asks");
    let coder = format!("'auth', '{QUESTION}', agent_id => 'coder'");
    assert_eq!(told_to(&mut client, &coder), ["coders"], "an agent that is named is alone");
    let bob = format!("'auth', '{QUESTION}', user_id => 'bob'");
    assert_eq!(told_to(&mut client, &bob), ["bobs"]);
}

#[test]
fn conversations_and_memories_share_a_quarter_of_the_budget() {
    let mut client = shared().database("cross_shares").connect();
    run(
        &mut client,
        "SET memory_agent.relevance_threshold = 0; SET memory_agent.rerank = off; \
         SET memory_agent.memory_tokens = 2000",
    );
    let long: Vec<String> =
        (1..=80).map(|n| format!("Point {n}: authentication tokens were discussed.")).collect();
    for session in ["a", "b"] {
        Archive { session, summary: &long.join(" "), ..Archive::default() }.store(&mut client);
    }
    let cost = |client: &mut Client, text: Option<&str>| -> i32 {
        text.map_or(0, |text| value(client, "SELECT memory_count_tokens($1) + 4", &[&text]))
    };
    let shares = |client: &mut Client, budget: i32| {
        let document = context(client, &format!("'now', '{QUESTION}', {budget}"));
        let memories = cost(client, block(&document, MEMORIES));
        let earlier = cost(client, block(&document, EARLIER));
        assert!(memories + earlier <= budget / 4, "{memories} and {earlier} of {budget}");
        (memories, earlier, document)
    };
    // Alone, conversations take what there is: one that is too long is cut at a sentence.
    let (memories, earlier, document) = shares(&mut client, 2000);
    assert!(memories == 0 && (400..=500).contains(&earlier), "{memories}, {earlier}");
    let shown = document["cross_session"][0]["content"].as_str().unwrap();
    assert!(shown.ends_with("were discussed. …") && !shown.contains("Point 80:"), "{shown}");
    // With many memories, each has its half.
    run(
        &mut client,
        "SELECT memory_add('Authentication tokens of service ' || n || ' belong to team ' || n % 7, infer => false) \
           FROM generate_series(1, 60) n",
    );
    let (memories, earlier, _) = shares(&mut client, 2000);
    assert!(memories > 200 && (200..=270).contains(&earlier), "{memories}, {earlier}");
    // All of it fits.
    let (_, _, document) = shares(&mut client, 20_000);
    assert_eq!(told(&document).len(), 2);
    assert!(document["cross_session"][0]["content"].as_str().unwrap().contains("Point 80:"));
}

#[test]
fn a_conversation_is_told_once() {
    let mut client = archived("cross_once");
    run(&mut client, "SET memory_agent.relevance_threshold = 0");
    // A second chunk of the same conversation, which repeats the end of the first.
    run(
        &mut client,
        "INSERT INTO memory_agent.entries SELECT (r).* FROM ( \
            SELECT jsonb_populate_record(e, jsonb_build_object('id', gen_random_uuid(), \
                       'content', 'Authentication tokens are kept in Redis.')) AS r \
              FROM memory_agent.entries e WHERE e.session_id = 'auth') x",
    );
    let document = context(&mut client, &format!("'now', '{QUESTION}', 8000"));
    let mut sessions = told(&document);
    sessions.sort_unstable();
    assert_eq!(sessions, ["auth", "japan", "kitchen", "marathon"]);
}

#[test]
fn what_is_archived_is_not_in_recall() {
    let mut client = archived("cross_recall");
    ingest(&mut client, "auth", "Tokens are valid for one hour.");
    for arguments in ["", ", session_id => 'auth'", ", kinds => '{document,turn}'"] {
        let texts = recalled_texts(
            &mut client,
            &format!("'authentication tokens', top_k => 50{arguments}"),
        );
        assert_eq!(texts, ["Tokens are valid for one hour."], "{arguments}");
    }
}

#[test]
fn a_read_only_transaction_is_enough() {
    let database = shared().database("cross_read_only");
    archive_some(&mut database.connect());
    let document = context(&mut reader(database), &format!("'now', '{QUESTION}'"));
    assert_eq!(told(&document), ["auth"]);
}

#[test]
fn without_an_embedding_the_reranker_decides() {
    let mut client = shared().database("cross_words").connect();
    let summary = "They discussed authentication tokens.";
    Archive { summary, embedded: false, ..Archive::default() }.store(&mut client);
    run(&mut client, "SET memory_agent.rerank = off");
    let document = context(&mut client, &format!("'now', '{QUESTION}'"));
    assert!(told(&document).is_empty(), "nothing says what it has to do with it: {document}");
    run(&mut client, "SET memory_agent.rerank = on");
    let document = context(&mut client, &format!("'now', '{QUESTION}'"));
    assert_eq!(told(&document), ["old"], "the reranker does");
    let found: Vec<String> = memory_agent_e2e::memory::values(
        &mut client,
        "SELECT session_id FROM memory_search_archive('authentication')",
        &[],
    );
    assert_eq!(found, ["old"], "its search finds it by its words");
}
