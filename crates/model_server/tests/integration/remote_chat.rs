//! Chats with an endpoint that works: what is sent, which answers are accepted, what is asked
//! again.

use memory_agent_model_server::protocol::{
    AnswerFormat, ChatFailureKind, ChatRequest, Endpoint, Provider,
};
use serde_json::{Value, json};

use crate::common::Server;
use crate::http_stub::{Reply, Stub};
use crate::remote::{FACTS, KEY, endpoint, facts_of, failure, statuses, text};

fn facts(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

#[test]
fn an_answer_comes_back_checked_and_its_call_is_accounted() {
    let stub = Stub::play([Reply::chat(FACTS)]);
    let server = Server::start();
    let outcome = server.facts(&stub);
    assert_eq!(facts(text(&outcome)), facts(FACTS));
    assert_eq!(outcome.result.as_ref().unwrap().model, "stub-1");
    let [call] = &outcome.calls[..] else { panic!("{outcome:?}") };
    assert_eq!((call.status.as_str(), call.error.as_deref()), ("ok", None));
    assert_eq!((call.prompt_tokens, call.completion_tokens), (Some(12), Some(7)));

    let [asked] = &stub.asked()[..] else { panic!("{:?}", stub.asked()) };
    assert_eq!(asked.line, "POST /v1/chat/completions");
    assert_eq!(asked.header("authorization"), Some(format!("Bearer {KEY}").as_str()));
    assert_eq!(asked.header("content-type"), Some("application/json"));
    assert_eq!(asked.body["model"], "stub");
    assert_eq!(asked.body["max_tokens"], 500);
    assert_eq!(asked.body["temperature"], 0.1);
    assert_eq!(asked.body["messages"][1], json!({"role": "user", "content": "I moved to Lisbon."}));
    let format = &asked.body["response_format"];
    assert_eq!(format["type"], "json_schema");
    assert_eq!(format["json_schema"]["strict"], true);
    assert_eq!(format["json_schema"]["name"], "facts");
    assert_eq!(format["json_schema"]["schema"]["type"], "object");

    let status = server.endpoint();
    assert_eq!((status.base_url, status.calls, status.in_flight), (endpoint(&stub).base_url, 1, 0));
}

#[test]
fn what_is_not_set_is_not_sent() {
    let stub = Stub::always(Reply::chat(" Hello. "));
    let server = Server::start();
    let mut request = ChatRequest {
        answer: AnswerFormat::Text,
        max_answer_tokens: 0,
        ..facts_of(endpoint(&stub))
    };
    request.endpoint.api_key = Default::default();
    assert_eq!(text(&server.chat(request)), "Hello.");
    let asked = &stub.asked()[0];
    assert_eq!(asked.header("authorization"), None);
    assert_eq!(asked.body.get("max_tokens"), None);
    assert_eq!(asked.body.get("response_format"), None);
}

#[test]
fn prose_and_fences_around_json_are_accepted_at_once() {
    let prose = format!("Sure! Here are the facts:\n\n{FACTS}\n\nAnything else?");
    let fenced = format!("```json\n{FACTS}\n```");
    let stub = Stub::play([Reply::chat(&prose), Reply::chat(&fenced)]);
    let server = Server::start();
    for _ in 0..2 {
        let outcome = server.facts(&stub);
        assert_eq!(facts(text(&outcome)), facts(FACTS));
        assert_eq!(statuses(&outcome), ["ok"]);
    }
}

#[test]
fn a_bad_answer_is_corrected_once() {
    let wrong_schema = r#"{"memories": "none"}"#;
    let stub = Stub::play([Reply::chat(wrong_schema), Reply::chat(FACTS)]);
    let server = Server::start();
    let outcome = server.facts(&stub);
    assert_eq!(facts(text(&outcome)), facts(FACTS));
    assert_eq!(statuses(&outcome), ["bad answer", "ok"]);
    let why = outcome.calls[0].error.as_deref().unwrap();
    let asked = stub.asked();
    let messages = asked[1].body["messages"].as_array().unwrap();
    assert_eq!(messages.len(), 4);
    assert_eq!(messages[2], json!({"role": "assistant", "content": wrong_schema}));
    assert_eq!(messages[3]["role"], "user");
    assert!(messages[3]["content"].as_str().unwrap().contains(why), "{}", messages[3]);
}

#[test]
fn answers_that_stay_bad_are_given_up_after_one_correction() {
    let invented = r#"{"facts":[{"turn":9,"text":"Anna lives in Lisbon.","confidence":1}]}"#;
    for bad in [
        Reply::chat(invented),
        Reply::chat("I cannot find any facts."),
        Reply::chat(""),
        Reply::finished(json!({ "content": null }), "stop"),
        Reply::finished(json!({ "content": null, "tool_calls": [{ "id": "1" }] }), "tool_calls"),
        Reply::finished(json!({ "content": "{\"facts\":[{\"turn\":1,\"te" }), "length"),
        Reply::json(200, json!({ "choices": [] })),
    ] {
        let stub = Stub::always(bad);
        let server = Server::start();
        let outcome = server.facts(&stub);
        failure(&outcome, ChatFailureKind::BadAnswer);
        assert_eq!(statuses(&outcome), ["bad answer", "bad answer"]);
        assert_eq!(stub.calls(), 2);
        assert!(outcome.calls.iter().all(|call| call.error.is_some()));
        let status = server.endpoint();
        assert_eq!((status.failures, status.last_error), (0, None));
    }
}

/// "It is empty" in a list of jobs does not tell the user that it was the model.
#[test]
fn an_empty_answer_is_told_with_why_it_ended() {
    for (finish, expected) in [
        ("stop", "the model's answer is empty (finish_reason stop)"),
        ("length", "it was cut at 2000 tokens before it said anything"),
    ] {
        let stub = Stub::always(Reply::finished(json!({ "content": " " }), finish));
        let outcome = Server::start().facts(&stub);
        let error = outcome.calls.last().and_then(|call| call.error.clone()).unwrap_or_default();
        assert!(error.starts_with(expected), "{error}");
    }
}

#[test]
fn text_that_was_cut_is_no_answer() {
    let cut = Reply::finished(json!({ "content": "She moved to" }), "length");
    let stub = Stub::play([cut, Reply::chat("She moved.")]);
    let server = Server::start();
    let request = ChatRequest { answer: AnswerFormat::Text, ..facts_of(endpoint(&stub)) };
    let outcome = server.chat(request);
    assert_eq!(text(&outcome), "She moved.");
    assert_eq!(statuses(&outcome), ["bad answer", "ok"]);
    assert!(outcome.calls[0].error.as_deref().unwrap().contains("cut"));
}

#[test]
fn a_refusal_is_final() {
    for refusal in [
        Reply::finished(json!({ "content": null, "refusal": "I won't." }), "stop"),
        Reply::finished(json!({ "content": "{\"facts\":[" }), "content_filter"),
    ] {
        let stub = Stub::always(refusal);
        let server = Server::start();
        let outcome = server.facts(&stub);
        failure(&outcome, ChatFailureKind::Refused);
        assert_eq!(statuses(&outcome), ["refusal"]);
        assert_eq!(stub.calls(), 1);
    }
}

#[test]
fn the_mode_that_an_endpoint_understands_is_remembered() {
    let stub = Stub::play([
        Reply::error(400, "response_format.type json_schema is not supported"),
        Reply::error(422, "unknown field response_format"),
    ]);
    stub.then(Reply::chat(FACTS));
    stub.then(Reply::chat(FACTS));
    let server = Server::start();
    let outcome = server.facts(&stub);
    assert_eq!(statuses(&outcome), ["http 400", "http 422", "ok"]);
    assert_eq!(server.endpoint().answer_mode, "plain");
    assert_eq!(statuses(&server.facts(&stub)), ["ok"]);
    let types: Vec<Value> =
        stub.asked().iter().map(|asked| asked.body["response_format"]["type"].clone()).collect();
    assert_eq!(types, [json!("json_schema"), json!("json_object"), Value::Null, Value::Null]);
}

#[test]
fn a_request_that_no_mode_saves_is_refused_and_teaches_nothing() {
    let stub = Stub::play(vec![Reply::error(400, "messages: too weird"); 3]);
    stub.then(Reply::chat("Yes."));
    let server = Server::start();
    let outcome = server.facts(&stub);
    let refused = failure(&outcome, ChatFailureKind::Refused);
    assert!(refused.message.contains("too weird"), "{refused:?}");
    assert_eq!(statuses(&outcome), ["http 400"; 3]);
    assert_eq!(server.endpoint().answer_mode, "json_schema");
    assert_eq!(server.endpoint().failures, 0);
}

#[test]
fn a_prompt_that_is_too_long_is_not_sent_again() {
    let error = json!({"error": {"message": "too long", "code": "context_length_exceeded"}});
    let stub = Stub::always(Reply::json(400, error));
    let server = Server::start();
    let outcome = server.facts(&stub);
    failure(&outcome, ChatFailureKind::Refused);
    assert_eq!(stub.calls(), 1);
}

#[test]
fn parameters_of_reasoning_models_are_found_out() {
    let stub = Stub::play([
        Reply::error(400, "'max_tokens' is not supported. Use 'max_completion_tokens' instead."),
        Reply::error(400, "'temperature' does not support 0.1 with this model."),
        Reply::chat(FACTS),
        Reply::chat(FACTS),
    ]);
    let server = Server::start();
    assert_eq!(statuses(&server.facts(&stub)), ["http 400", "http 400", "ok"]);
    assert_eq!(statuses(&server.facts(&stub)), ["ok"]);
    let asked = stub.asked();
    assert_eq!(asked[3].body["max_completion_tokens"], 500);
    assert_eq!(asked[3].body.get("max_tokens"), None);
    assert_eq!(asked[3].body.get("temperature"), None);
    assert_eq!(asked[3].body["response_format"]["type"], "json_schema");
}

#[test]
fn azure_has_its_own_paths_and_headers() {
    let stub = Stub::always(Reply::chat(FACTS));
    let server = Server::start();
    let endpoint = Endpoint {
        provider: Provider::Azure,
        base_url: stub.url(),
        api_version: "2025-01-01".to_owned(),
        ..endpoint(&stub)
    };
    server.chat(facts_of(endpoint)).result.unwrap();
    let asked = &stub.asked()[0];
    assert_eq!(asked.line, "POST /openai/deployments/stub/chat/completions?api-version=2025-01-01");
    assert_eq!(asked.header("api-key"), Some(KEY));
    assert_eq!(asked.header("authorization"), None);
    assert_eq!(asked.body.get("model"), None);
}

#[test]
fn anthropic_has_its_own_shape() {
    let answer = json!({
        "model": "claude",
        "content": [{ "type": "thinking", "thinking": "..." }, { "type": "text", "text": FACTS }],
        "stop_reason": "end_turn",
        "usage": { "input_tokens": 3, "output_tokens": 4 },
    });
    let stub = Stub::always(Reply::json(200, answer));
    let server = Server::start();
    for base_url in [stub.url(), format!("{}/v1/", stub.url())] {
        let endpoint = Endpoint { provider: Provider::Anthropic, base_url, ..endpoint(&stub) };
        let outcome = server.chat(facts_of(endpoint));
        assert_eq!(facts(text(&outcome)), facts(FACTS));
        let call = &outcome.calls[0];
        assert_eq!((call.prompt_tokens, call.completion_tokens), (Some(3), Some(4)));
    }
    for asked in stub.asked() {
        assert_eq!(asked.line, "POST /v1/messages");
        assert_eq!(asked.header("x-api-key"), Some(KEY));
        assert_eq!(asked.header("anthropic-version"), Some("2023-06-01"));
        assert_eq!(asked.body["system"], "Extract facts as JSON.");
        assert_eq!(asked.body["messages"].as_array().unwrap().len(), 1);
        assert_eq!(asked.body["max_tokens"], 500);
        assert_eq!(asked.body.get("response_format"), None);
    }
}
