//! What stands in the request of a chat, in each protocol, is no memory. With the settings that ship.

use crate::http::send;
use crate::upstream::{Upstream, completion};
use crate::{NEVER_LATE, ROLE, database};
use memory_agent_e2e::memory::run;
use memory_agent_e2e::{Cluster, Gateway, Json, json};

/// A fact, and texts that stand in the requests below.
const FACT: &str = "Ann is allergic to hazelnuts.";
const TOLD: &str = "The bakery in Mill Lane sells no hazelnut cakes.";
const RESULT: &str = "A cake with hazelnuts for Ann costs 20 euros.";
const EARLIER: &str = "Which cakes with hazelnuts does Ann's bakery have?";
const QUESTION: &str = "Which cake without hazelnuts can I bake for Ann?";

/// The conversation in each protocol: instructions, an old question, ten other messages, a tool's result.
fn bodies() -> [(&'static str, Json); 3] {
    let told = format!("Be brief. {TOLD} Mind that.");
    let part = |kind: &str, text: &str| json!([{"type": kind, "text": text}]);
    let chatter = |number: usize| format!("Message {number} is about cakes with hazelnuts.");
    let roles = ["assistant", "user"];
    let said = (0..10).map(|at| json!({"role": roles[at % 2], "content": chatter(at)}));
    let said: Vec<Json> = said.collect();
    let of = |first: &[Json], last: &[Json]| Json::from([first, &said, last].concat());
    let user = |text: &str| json!({"role": "user", "content": text});
    let completions = of(
        &[json!({"role": "system", "content": told}), user(EARLIER)],
        &[
            json!({"role": "assistant", "content": null, "tool_calls": [{"id": "1", "type": "function",
                   "function": {"name": "price", "arguments": "{}"}}]}),
            json!({"role": "tool", "tool_call_id": "1", "content": RESULT}),
            user(QUESTION),
        ],
    );
    let responses = of(
        &[json!({"role": "user", "content": part("input_text", EARLIER)})],
        &[
            json!({"type": "function_call", "call_id": "1", "name": "price", "arguments": "{}"}),
            json!({"type": "function_call_output", "call_id": "1", "output": RESULT}),
            user(QUESTION),
        ],
    );
    let result =
        json!({"type": "tool_result", "tool_use_id": "1", "content": part("text", RESULT)});
    let messages = of(
        &[user(EARLIER)],
        &[
            json!({"role": "assistant", "content": [{"type": "tool_use", "id": "1", "name": "price", "input": {}}]}),
            json!({"role": "user", "content": [result]}),
            user(QUESTION),
        ],
    );
    [
        ("/v1/chat/completions", json!({"model": "m", "messages": completions})),
        ("/v1/responses", json!({"model": "m", "instructions": told, "input": responses})),
        (
            "/v1/messages",
            json!({"model": "m", "max_tokens": 9, "system": part("text", &told), "messages": messages}),
        ),
    ]
}

#[test]
fn no_message_of_the_request_takes_a_place() {
    let upstream = Upstream::start(|_, answer| answer.json(&completion("")));
    let cluster = Cluster::builder().preload(true).setting("memory_agent.worker", "off").start();
    run(&mut cluster.connect("postgres"), &format!("CREATE ROLE {ROLE} LOGIN"));
    let mut client = database(&cluster, "echo");
    run(&mut client, "SET memory_agent.user_id = 'ann'");
    let add = "SELECT memory_add($1, infer => false)";
    client.execute(add, &[&FACT]).unwrap();
    let mut stored: Vec<String> =
        (0..10).map(|number| format!("Message {number} is about cakes with hazelnuts.")).collect();
    stored.extend([TOLD, RESULT, EARLIER, QUESTION].map(str::to_owned));
    stored.push("A pound cake has no hazelnuts.".to_owned());
    for text in &stored {
        client.execute("SELECT memory_ingest('s', 'user', $1)", &[text]).unwrap();
    }
    let (to, url) = (Gateway::database(&cluster, ROLE, "echo"), upstream.url());
    let gateway = Gateway::start(&[
        "--database",
        &to,
        "--upstream",
        &url,
        "--messages-upstream",
        &url,
        "--user",
        "ann",
        "--patience",
        NEVER_LATE,
    ]);
    for (path, body) in bodies() {
        let headers = [("x-memory-id", "s")];
        let answer = send(gateway.address(), "POST", path, &headers, &body.to_string()).json();
        let hits = answer["memory_hits"].as_array().unwrap_or_else(|| panic!("{path}: {answer}"));
        let texts: Vec<&str> = hits.iter().map(|hit| hit["content"].as_str().unwrap()).collect();
        assert_eq!(texts, [FACT, "A pound cake has no hazelnuts."], "{path}");
        let upstream = upstream.last().json().to_string();
        assert!(!upstream.contains("memory_seen"), "{path}");
    }
}
