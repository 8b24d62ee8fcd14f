//! Conversations of applications: passed on as they are, answered as it comes.

use memory_agent_model_server::protocol::{
    ChatFailureKind, ChatMessage, ChatOutcome, ChatRole, Conversation, Endpoint, Provider, Request,
    Response,
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
        texts: vec![ChatMessage::new(ChatRole::User, "Ann: Hi")],
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

#[test]
fn messages_are_passed_on_as_they_are_and_nothing_is_added() {
    let stub = Stub::always(Reply::chat(" Hello. "));
    let server = Server::start();
    let conversation = conversation(endpoint(&stub));
    let messages: Value = serde_json::from_str(&conversation.messages).unwrap();
    let outcome = server.converse(conversation.clone());
    assert_eq!(text(&outcome), "Hello.");
    assert!(!outcome.result.as_ref().unwrap().is_cut);
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
    let answer = outcome.result.as_ref().unwrap();
    assert_eq!((answer.text.as_str(), answer.is_cut), ("She moved to", true));
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
        (Reply::error(400, "too weird"), ChatFailureKind::Refused, "http 400"),
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
    let found = outcome.result.unwrap();
    assert_eq!(found.text, "");
    let document: Value = serde_json::from_str(&found.document.unwrap()).unwrap();
    let mut expected = answer;
    expected["choices"][0]["message"]["tool_calls"][0]["function"]["arguments"] =
        "{\"key\": \"***\\u0000\"}\u{fffd}".into();
    assert_eq!(document, expected);
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
            let found = server.converse(conversation).result.unwrap();
            assert_eq!(found.text, said, "{content}");
            let document: Value = serde_json::from_str(&found.document.unwrap()).unwrap();
            let message = &document["choices"][0]["message"];
            assert_eq!((&message["content"], &message[field]), (&shown, called));
        }
    }
}

#[test]
fn other_protocols_get_the_texts() {
    let answer =
        json!({ "content": [{ "type": "text", "text": "Hello." }], "stop_reason": "max_tokens" });
    let stub = Stub::always(Reply::json(200, answer));
    let server = Server::start();
    let endpoint = Endpoint { provider: Provider::Anthropic, ..endpoint(&stub) };
    let outcome = server.converse(conversation(endpoint));
    assert!(outcome.result.as_ref().unwrap().is_cut);
    let body = &stub.asked()[0].body;
    assert_eq!(body["messages"], json!([{ "role": "user", "content": "Ann: Hi" }]));
    assert_eq!(body.get("temperature"), None);
}
