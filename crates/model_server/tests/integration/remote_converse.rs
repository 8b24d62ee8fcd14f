//! Conversations of applications: passed on as they are, answered as it comes.

use memory_agent_model_server::protocol::{
    ChatFailureKind, ChatOutcome, Conversation, Endpoint, Provider, Request, Response,
};
use serde_json::{Value, json};

use crate::common::Server;
use crate::http_stub::{Reply, Stub};
use crate::remote::{KEY, endpoint, failure, statuses, text};

fn conversation(endpoint: Endpoint) -> Conversation {
    let messages = json!([
        { "role": "user", "name": "Ann", "content": [{ "type": "text", "text": "Hi" }] },
        { "role": "tool", "tool_call_id": "1", "content": "18 degrees" },
    ]);
    Conversation {
        endpoint,
        messages: messages.to_string(),
        max_answer_tokens: 0,
        temperature: None,
        fields: "{}".to_owned(),
    }
}

impl Server {
    fn converse(&self, conversation: Conversation) -> ChatOutcome {
        match self.connect().call(&Request::Converse(Box::new(conversation))).unwrap() {
            Response::Chat(outcome) => outcome,
            other => panic!("{other:?}"),
        }
    }
}

#[track_caller]
fn document(outcome: &ChatOutcome) -> Value {
    serde_json::from_str(&outcome.result.as_ref().unwrap().document).unwrap()
}

#[test]
fn messages_are_passed_on_as_they_are_and_nothing_is_added() {
    let stub = Stub::always(Reply::chat(" Hello. "));
    let server = Server::start();
    let conversation = conversation(endpoint(&stub));
    let messages: Value = serde_json::from_str(&conversation.messages).unwrap();
    let outcome = server.converse(conversation.clone());
    assert_eq!(text(&outcome), "Hello.");
    assert_eq!(statuses(&outcome), ["ok"]);
    assert_eq!(stub.asked()[0].body, json!({ "model": "stub", "messages": messages }));
    let with_options =
        Conversation { max_answer_tokens: 9, temperature: Some(0.5), ..conversation };
    server.converse(with_options);
    let body = &stub.asked()[1].body;
    assert_eq!((&body["max_tokens"], &body["temperature"]), (&json!(9), &json!(0.5)));
}

#[test]
fn an_answer_that_was_cut_is_an_answer() {
    let stub = Stub::always(Reply::finished(json!({ "content": "She moved to" }), "length"));
    let server = Server::start();
    let outcome = server.converse(conversation(endpoint(&stub)));
    assert_eq!(text(&outcome), "She moved to");
    assert_eq!(document(&outcome)["choices"][0]["finish_reason"], "length");
    assert_eq!(stub.calls(), 1);
}

#[test]
fn what_is_no_answer_is_not_asked_for_again() {
    for (reply, kind, status) in [
        (Reply::chat(""), ChatFailureKind::BadAnswer, "bad answer"),
        (Reply::chat("<think>Hm"), ChatFailureKind::BadAnswer, "bad answer"),
        (Reply::json(200, json!({ "choices": [] })), ChatFailureKind::BadAnswer, "bad answer"),
        (
            Reply::finished(
                json!({ "content": null, "tool_calls": [{ "id": "1" }] }),
                "tool_calls",
            ),
            ChatFailureKind::BadAnswer,
            "bad answer",
        ),
        (
            Reply::finished(json!({ "content": null, "refusal": "No." }), "stop"),
            ChatFailureKind::Refused,
            "refusal",
        ),
        (
            Reply::finished(json!({ "content": "half" }), "content_filter"),
            ChatFailureKind::Refused,
            "refusal",
        ),
        (
            Reply::json(400, json!({"error": {"message": "flagged", "code": "content_filter"}})),
            ChatFailureKind::Refused,
            "http 400",
        ),
    ] {
        let stub = Stub::always(reply);
        let server = Server::start();
        let outcome = server.converse(conversation(endpoint(&stub)));
        failure(&outcome, kind);
        assert_eq!(statuses(&outcome), [status]);
        assert_eq!(stub.calls(), 1);
    }
}

#[test]
fn parameters_that_an_endpoint_does_not_know_are_given_up() {
    let stub = Stub::play([
        Reply::error(400, "use max_completion_tokens"),
        Reply::error(400, "temperature is not supported"),
        Reply::chat("Hello."),
    ]);
    let server = Server::start();
    let conversation = Conversation {
        max_answer_tokens: 9,
        temperature: Some(0.5),
        ..conversation(endpoint(&stub))
    };
    let outcome = server.converse(conversation);
    assert_eq!(text(&outcome), "Hello.");
    let body = &stub.asked()[2].body;
    assert_eq!((&body["max_completion_tokens"], body.get("temperature")), (&json!(9), None));
}

#[test]
fn a_key_in_an_answer_is_masked() {
    let stub = Stub::always(Reply::chat(&format!("Your key is {KEY}.")));
    let server = Server::start();
    let outcome = server.converse(conversation(endpoint(&stub)));
    assert_eq!(text(&outcome), "Your key is ***.");
}

#[test]
fn further_fields_are_passed_on_and_calls_of_tools_come_back() {
    let calls = json!([{ "id": "1", "type": "function",
        "function": { "name": "f", "arguments": format!("{{\"key\": \"{KEY}\\u0000\"}}\0") } }]);
    let answer = json!({
        "id": "chatcmpl-7", "model": "stub", "system_fingerprint": "fp",
        "choices": [
            { "index": 0, "message": { "content": null, "tool_calls": calls }, "finish_reason": "tool_calls" },
            { "index": 1, "message": { "content": "Or this." }, "finish_reason": "stop" },
        ],
    });
    let stub = Stub::always(Reply::json(200, answer.clone()));
    let server = Server::start();
    let fields = json!({ "tools": [{ "type": "function", "function": { "name": "f" } }], "n": 2, "seed": 7 });
    let conversation = Conversation { fields: fields.to_string(), ..conversation(endpoint(&stub)) };
    let outcome = server.converse(conversation.clone());
    assert_eq!(text(&outcome), "");
    let mut expected = answer;
    expected["choices"][0]["message"]["tool_calls"][0]["function"]["arguments"] =
        "{\"key\": \"***\\u0000\"}\u{fffd}".into();
    assert_eq!(document(&outcome), expected);
    let body = &stub.asked()[0].body;
    assert_eq!(
        (&body["tools"], &body["n"], &body["seed"]),
        (&fields["tools"], &json!(2), &json!(7))
    );
    // Fields cannot take the place of what the request says.
    let fields = json!({ "messages": [], "model": "another" }).to_string();
    server.converse(Conversation { fields, ..conversation });
    assert_eq!(stub.asked()[1].body["model"], "stub");
    assert_eq!(stub.asked()[1].body["messages"].as_array().unwrap().len(), 2);
}

#[test]
fn calls_of_tools_come_back_whatever_is_said_beside_them() {
    let calls =
        json!([{ "id": "1", "type": "function", "function": { "name": "f", "arguments": "{}" } }]);
    let older = json!({ "name": "f", "arguments": "{}" });
    for (content, said, shown) in [
        (json!("\n\n"), "", Value::Null),
        (json!("<think>I need the weather.</think>\n"), "", Value::Null),
        (json!("<think>I need the weather"), "", Value::Null),
        (json!("<think>Hm.</think>Let me look."), "Let me look.", json!("Let me look.")),
        (json!([{ "type": "text", "text": " " }]), "", Value::Null),
    ] {
        for (offer, field, called) in
            [("tools", "tool_calls", &calls), ("functions", "function_call", &older)]
        {
            let mut message = json!({ "role": "assistant", "content": content });
            message[field] = called.clone();
            let stub = Stub::always(Reply::finished(message, field));
            let server = Server::start();
            let fields = json!({ offer: [{ "name": "f" }] }).to_string();
            let conversation = Conversation { fields, ..conversation(endpoint(&stub)) };
            let outcome = server.converse(conversation);
            assert_eq!(text(&outcome), said, "{content}");
            let message = &document(&outcome)["choices"][0]["message"];
            assert_eq!((&message["content"], &message[field]), (&shown, called));
        }
    }
}
/// A message of Anthropic's.
fn claude(content: Value, stop_reason: &str) -> Reply {
    let usage = json!({ "input_tokens": 3, "output_tokens": 4 });
    Reply::json(
        200,
        json!({ "id": "msg_1", "type": "message", "role": "assistant", "model": "claude-1",
            "content": content, "stop_reason": stop_reason, "usage": usage }),
    )
}

fn with_anthropic(stub: &Stub, fields: &Value) -> Conversation {
    let endpoint = Endpoint { provider: Provider::Anthropic, ..endpoint(stub) };
    Conversation { fields: fields.to_string(), ..conversation(endpoint) }
}

#[test]
fn anthropic_is_asked_in_its_words_and_answers_in_openais() {
    let input = json!({ "key": KEY });
    let reply = claude(
        json!([
            { "type": "text", "text": "<think>Hm.</think> Let me look." },
            { "type": "tool_use", "id": "c1", "name": "f", "input": input },
        ]),
        "tool_use",
    );
    let stub = Stub::always(reply);
    let server = Server::start();
    let fields = json!({
        "tools": [{ "type": "function", "function": { "name": "f" } }], "stop": "\n", "top_k": 5,
        // Fields cannot take the place of what the request says.
        "messages": [], "model": "another", "max_tokens": 1, "temperature": 2,
    });
    let outcome = server.converse(with_anthropic(&stub, &fields));
    let asked = &stub.asked()[0];
    assert_eq!(asked.line, "POST /v1/messages");
    assert_eq!(
        asked.body,
        json!({
            "model": "stub", "max_tokens": 4096, "top_k": 5, "stop_sequences": ["\n"],
            "tools": [{ "name": "f", "input_schema": { "type": "object" } }],
            "messages": [{ "role": "user", "content": [
                { "type": "tool_result", "tool_use_id": "1",
                  "content": [{ "type": "text", "text": "18 degrees" }] },
                { "type": "text", "text": "Ann: Hi" },
            ] }],
        })
    );
    assert_eq!(text(&outcome), "Let me look.");
    let call = &outcome.calls[0];
    assert_eq!((call.prompt_tokens, call.completion_tokens), (Some(3), Some(4)));
    let function = json!({ "name": "f", "arguments": "{\"key\":\"***\"}" });
    assert_eq!(
        document(&outcome),
        json!({
            "id": "msg_1", "model": "claude-1",
            "choices": [{ "index": 0, "finish_reason": "tool_calls", "message": {
                "role": "assistant", "content": "Let me look.",
                "tool_calls": [{ "id": "c1", "type": "function", "function": function }] } }],
            "usage": { "prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 7 },
        })
    );
}

#[test]
fn the_limits_of_a_conversation_reach_anthropic() {
    let text_block = json!([{ "type": "text", "text": "She moved to" }]);
    let stub = Stub::play([
        Reply::error(400, "temperature may only be 1 while thinking"),
        claude(text_block, "max_tokens"),
    ]);
    let server = Server::start();
    let conversation = Conversation {
        max_answer_tokens: 9,
        temperature: Some(2.0),
        ..with_anthropic(&stub, &json!({ "thinking": { "type": "adaptive" } }))
    };
    let outcome = server.converse(conversation);
    assert_eq!(text(&outcome), "She moved to");
    assert_eq!(document(&outcome)["choices"][0]["finish_reason"], "length");
    let asked = stub.asked();
    assert_eq!(
        (&asked[0].body["max_tokens"], &asked[0].body["temperature"]),
        (&json!(9), &json!(1.0))
    );
    assert_eq!(asked[1].body.get("temperature"), None);
    assert_eq!(asked[1].body["thinking"], json!({ "type": "adaptive" }));
}

#[test]
fn what_is_no_answer_of_anthropic_is_none_for_openai() {
    let call = json!([{ "type": "tool_use", "id": "c1", "name": "f", "input": {} }]);
    for (reply, kind, status) in [
        (claude(json!([]), "end_turn"), ChatFailureKind::BadAnswer, "bad answer"),
        (claude(call, "tool_use"), ChatFailureKind::BadAnswer, "bad answer"),
        (
            claude(json!([{ "type": "text", "text": "half" }]), "refusal"),
            ChatFailureKind::Refused,
            "refusal",
        ),
    ] {
        let stub = Stub::always(reply);
        let server = Server::start();
        let outcome = server.converse(with_anthropic(&stub, &json!({})));
        failure(&outcome, kind);
        assert_eq!(statuses(&outcome), [status]);
        assert_eq!(stub.calls(), 1);
    }
}

#[test]
fn what_anthropic_has_no_words_for_is_not_sent() {
    let stub = Stub::play([]);
    let server = Server::start();
    let outcome = server.converse(with_anthropic(&stub, &json!({ "seed": 7 })));
    let failure = failure(&outcome, ChatFailureKind::Refused);
    assert!(failure.message.contains("takes no \"seed\""), "{failure:?}");
    assert_eq!((stub.calls(), outcome.calls.len()), (0, 0));
}
