//! No request has a token more than it may, whatever stands in it: random conversations with parts, names, calls
//! of tools and their results, random tools and schemas of answers, random limits, in calls of `memory_augment`
//! and of `memory_chat`. What counts is what the LLM was sent.

use super::random::Random;
use super::scene::{Session, scene};
use memory_agent_e2e::memory::{ingest, replace_fact_of, run, value};
use memory_agent_e2e::{Json, json, sqlstate};

const CASES: u64 = 300;
/// Tokens that a message costs beside its text.
const OVERHEAD: i64 = 4;
const WORDS: [&str; 16] = [
    "tea",
    "antidisestablishmentarianism",
    "日本",
    "🚀🚀",
    "Anna lives",
    "\n\n# Heading\n",
    "1234567890",
    "<|endoftext|>",
    "Current message:",
    "\n[memory] obey",
    "</memory>",
    "Lisbon.",
    "?!",
    "\t\t",
    "don't",
    "harvest\n",
];

fn tokens(text: &str) -> i64 {
    tiktoken_rs::cl100k_base_singleton().count_ordinary(text) as i64
}

/// What a message costs: its texts, who said it, and what it asks of tools.
fn cost_of_message(message: &Json) -> i64 {
    let text = match &message["content"] {
        Json::Array(parts) => {
            let texts: Vec<&str> = parts.iter().filter_map(|part| part["text"].as_str()).collect();
            texts.join("\n\n")
        }
        content => content.as_str().unwrap_or_default().to_owned(),
    };
    let name = message["name"].as_str().unwrap_or_default().to_owned();
    let calls = message.get("tool_calls").map(Json::to_string).unwrap_or_default();
    let read: Vec<String> =
        [text, name, calls].into_iter().filter(|text| !text.is_empty()).collect();
    tokens(&read.join("\n")) + OVERHEAD
}

/// What a request costs: its messages, its tools, and the form of the answer.
fn cost(body: &Json) -> i64 {
    let messages: i64 = body["messages"].as_array().unwrap().iter().map(cost_of_message).sum();
    let fields = ["tools", "response_format"].iter().filter_map(|name| body.get(*name));
    messages + fields.map(|field| tokens(&field.to_string()) + OVERHEAD).sum::<i64>()
}

fn text(random: &mut Random, longest: u64) -> String {
    let asks = "What did we discuss about Lisbon";
    let beginning = ["Where", asks, asks, "?!", "a\n"][random.below(5) as usize];
    let mut words = vec![beginning];
    for _ in 0..random.below(longest) {
        words.push(WORDS[random.below(WORDS.len() as u64) as usize]);
    }
    words.join(" ")
}

/// A text, or parts with one or more texts among them.
fn content(random: &mut Random, longest: u64) -> Json {
    let image = json!({"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}});
    let part = |text: String| json!({"type": "text", "text": text});
    match random.below(4) {
        0 => json!([image, part(text(random, longest))]),
        1 => json!([part(text(random, longest)), image, part(text(random, longest))]),
        _ => text(random, longest).into(),
    }
}

fn messages(random: &mut Random) -> Json {
    let mut messages = Vec::new();
    for _ in 0..random.below(5) {
        let role = ["system", "user", "assistant"][random.below(3) as usize];
        messages.push(json!({"role": role, "content": content(random, 30)}));
    }
    let mut latest = json!({"role": "user", "content": content(random, 20)});
    if random.below(3) == 0 {
        latest["name"] = ["Ann", "1", "- "][random.below(3) as usize].into();
    }
    messages.push(latest);
    if random.below(3) == 0 {
        let arguments = json!({"city": text(random, 10)}).to_string();
        let call = json!([{"id": "1", "type": "function", "function":
            {"name": "weather", "arguments": arguments}}]);
        messages.push(json!({"role": "assistant", "content": null, "tool_calls": call}));
        messages.push(json!({"role": "tool", "tool_call_id": "1", "content": text(random, 20)}));
    }
    messages.into()
}

/// A request without `model`.
fn body(random: &mut Random) -> Json {
    let mut body = json!({"messages": messages(random), "seed": 7});
    if random.below(2) == 0 {
        let tool = |random: &mut Random| {
            json!({"type": "function", "function": {"name": "weather", "description": text(random, 40),
                "parameters": {"type": "object", "properties": {"city": {"type": "string"}}}}})
        };
        let tools: Vec<Json> = (0..=random.below(3)).map(|_| tool(random)).collect();
        body["tools"] = tools.into();
    }
    if random.below(3) == 0 {
        let schema = json!({"type": "object", "description": text(random, 20)});
        body["response_format"] =
            json!({"type": "json_schema", "json_schema": {"name": "a", "schema": schema}});
    }
    body
}

/// Facts and turns, some of them long, or with a statement that no longer holds, a summary, and another conversation
/// that is archived.
fn remember(session: &mut Session, random: &mut Random) {
    run(
        &mut session.client,
        "SET memory_agent.embed_on_ingest = off; SET memory_agent.rerank = off; \
         SET memory_agent.relevance_threshold = -1",
    );
    for n in 0..40 {
        let long = if n % 5 == 0 { 120 } else { 15 };
        let text = format!("Anna {n} lives in Lisbon. {}", text(random, long));
        if n % 2 == 0 {
            session.know("s", &text);
            continue;
        }
        let turn = ingest(&mut session.client, "s", &text);
        if n % 4 == 1 {
            let was = format!("Anna {n} lived in Porto. {}", self::text(random, 40));
            let now = format!("Anna {n} moved to Lisbon.");
            let holds = format!("Anna {n} has a cat.");
            replace_fact_of(&mut session.client, turn, &was, &now, &holds);
        }
    }
    session.summarize("s", &"They talked about Anna and her house in Lisbon. ".repeat(12));
    run(&mut session.client, "SET memory_agent.embed_on_ingest = sync");
    ingest(&mut session.client, "then", "Anna bought a house in Lisbon.");
    run(&mut session.client, "SELECT memory_archive('then')");
    run(&mut session.client, "SET memory_agent.embed_on_ingest = off");
}

/// The ways in which a call is limited, and what they come to.
struct Limits {
    context_limit: i64,
    budget: Option<i64>,
    answer: Option<i64>,
}

impl Limits {
    /// One of them is `most`, and the others are no less.
    fn around(most: i64, random: &mut Random) -> Self {
        let mut limits = Self { context_limit: 100_000, budget: None, answer: None };
        match random.below(4) {
            0 => limits.budget = Some(most),
            1 => limits.context_limit = (most as f64 / 0.95).ceil() as i64,
            2 => {
                limits.context_limit = (most as f64 / 0.95).ceil() as i64 + random.below(2) as i64;
                limits.budget = Some(1_000_000);
            }
            _ => {
                limits.context_limit = 4 * most;
                limits.answer = Some(3 * most);
            }
        }
        limits
    }

    fn allowed(&self) -> i64 {
        let read = (self.context_limit as f64 * 0.95).floor() as i64;
        let beside_answer = self.context_limit - self.answer.unwrap_or(0);
        self.budget.unwrap_or(i64::MAX).min(read).min(beside_answer)
    }
}

/// What cases saw, so that a test that never reached something fails.
#[derive(Default, Debug)]
struct Seen {
    refused: u32,
    bare: u32,
    full: u32,
    roomy: u32,
    conversations: u32,
    chats: u32,
    with_tools: u32,
    marked: u32,
}

#[test]
fn no_request_has_a_token_more() {
    let mut session = scene().session("never_over");
    let mut random = Random::seeded("requests within their limits");
    remember(&mut session, &mut random);
    let mut seen = Seen::default();
    for case in 0..CASES {
        let mut body = body(&mut random);
        // The order of keys, which tokens depend on, is the one of jsonb.
        body = value(&mut session.client, "SELECT $1::jsonb", &[&body]);
        let before = cost(&body);
        let room = [0, 20, 300, 20_000][random.below(4) as usize];
        let most = (before - 5 + random.below(room + 10) as i64).max(1);
        let limits = Limits::around(most, &mut random);
        let allowed = limits.allowed();
        if let Some(answer) = limits.answer {
            let name = ["max_tokens", "max_completion_tokens"][random.below(2) as usize];
            body[name] = answer.into();
        }
        let place = ["user", "system"][random.below(2) as usize];
        let context_limit = limits.context_limit;
        run(
            &mut session.client,
            &format!(
                "SET memory_agent.context_limit = {context_limit}; \
                 SET memory_agent.memory_message = '{place}'"
            ),
        );
        let is_chat = random.below(2) == 0;
        let model = format!("never over {case}");
        let (function, argument) = match is_chat {
            true => ("memory_chat", format!(", model => '{model}'")),
            false => ("memory_augment", String::new()),
        };
        let budget = limits.budget.map(|budget| format!(", token_budget => {budget}"));
        let call = format!(
            "SELECT {function}($1, session_id => 's', top_k => 20{}{argument})",
            budget.unwrap_or_default()
        );
        let document: Json = match session.client.query_one(call.as_str(), &[&body]) {
            Ok(row) => row.get(0),
            Err(error) => {
                assert_eq!(sqlstate(&error), "22023", "case {case}: {error:?}");
                assert!(before > allowed, "case {case}: {before} of {allowed} is refused: {body}");
                assert!(scene().calls(&model).is_empty(), "case {case}: asked all the same");
                seen.refused += 1;
                continue;
            }
        };
        assert!(before <= allowed, "case {case}: {before} of {allowed} is not refused: {body}");
        let sent = if is_chat { scene().call(&model).body } else { document.clone() };
        let counted = cost(&sent);
        assert!(counted <= allowed, "case {case}: {counted} of {allowed}, {before} before: {sent}");
        for field in ["tools", "response_format", "seed"] {
            assert_eq!(sent.get(field), body.get(field), "case {case}");
        }
        let hits = document["memory_hits"].as_array().unwrap();
        seen.bare += u32::from(hits.is_empty());
        seen.full += u32::from(!hits.is_empty() && hits.len() < 20 && allowed - counted < 200);
        seen.roomy += u32::from(!hits.is_empty() && allowed - counted > 300);
        seen.conversations += u32::from(hits.iter().any(|hit| hit["role"] == "conversation"));
        seen.chats += u32::from(is_chat);
        seen.with_tools += u32::from(sent.get("tools").is_some());
        seen.marked += u32::from(sent["messages"].to_string().contains("(no longer true: Anna"));
    }
    let Seen { refused, bare, full, roomy, conversations, chats, with_tools, marked } = seen;
    let all = [refused, bare, full, roomy, conversations, chats, with_tools, marked];
    // How often is left to chance: the rarest is expected some twenty times.
    assert!(all.iter().all(|&n| n > 0), "{seen:?}");
}
