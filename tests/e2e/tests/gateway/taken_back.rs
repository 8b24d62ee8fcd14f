//! What a client takes back: it changes the last message, or has it answered again. What it only does not send any
//! more stays.

use crate::http::{chat, send};
use crate::upstream::{Upstream, completion};
use crate::{for_ann, stored};
use memory_agent_e2e::memory::{run, value, values};
use memory_agent_e2e::{Client, Gateway, Json, json};
use std::sync::{Arc, Mutex};

const SESSION: &str = "s";

/// What the upstream says next, and with which status.
type Next = Arc<Mutex<(u16, &'static str)>>;

fn upstream() -> (Upstream, Next) {
    let next: Next = Arc::new(Mutex::new((200, "Noted.")));
    let says = Arc::clone(&next);
    let upstream = Upstream::start(move |_, answer| {
        let (status, text) = *says.lock().unwrap();
        answer.whole(status, &[("content-type", "application/json")], &completion(text));
    });
    (upstream, next)
}

/// A conversation, the user's messages and the assistant's in turn.
fn messages(texts: &[&str]) -> Json {
    let message = |(at, text): (usize, &&str)| {
        let role = if at % 2 == 0 { "user" } else { "assistant" };
        json!({"role": role, "content": text})
    };
    texts.iter().enumerate().map(message).collect()
}

fn ask(gateway: &Gateway, messages: &Json) {
    let body = json!({"model": "m", "memory_id": SESSION, "messages": messages}).to_string();
    let answer = chat(gateway, &[], &body);
    assert_eq!(answer.status, 200);
}

/// The conversation in memory, with the roles' first letters.
fn kept(client: &mut Client) -> Vec<String> {
    let short = |line: String| line.replace("user: ", "u ").replace("assistant: ", "a ");
    stored(client, "ann", SESSION).into_iter().map(short).collect()
}

/// A gateway over a conversation of two exchanges. The upstream answers "Noted.".
fn two_exchanges(name: &str, upstream: &Upstream) -> (Gateway, Client) {
    let (gateway, mut client) = for_ann(name, upstream, &[]);
    ask(&gateway, &messages(&["I am Ann."]));
    ask(&gateway, &messages(&["I am Ann.", "Noted.", "My wedding is on the 3rd of May."]));
    let expected = ["u I am Ann.", "a Noted.", "u My wedding is on the 3rd of May.", "a Noted."];
    assert_eq!(kept(&mut client), expected);
    (gateway, client)
}

#[test]
fn the_last_message_is_edited() {
    let (upstream, _) = upstream();
    let (gateway, mut client) = two_exchanges("back_edited", &upstream);
    ask(&gateway, &messages(&["I am Ann.", "Noted.", "My wedding is on the 30th of May."]));
    let expected = ["u I am Ann.", "a Noted.", "u My wedding is on the 30th of May.", "a Noted."];
    assert_eq!(kept(&mut client), expected);
    let old: Vec<String> = values(
        &mut client,
        "SELECT concat_ws(' ', o.state_reason, n.content) FROM memory_agent.entries o \
           LEFT JOIN memory_agent.entries n ON n.user_id = o.user_id AND n.id = o.replaced_by \
          WHERE o.state = 'inactive' ORDER BY o.created_at, o.id",
        &[],
    );
    assert_eq!(old, ["superseded My wedding is on the 30th of May.", "deleted"]);
    let counted: i64 = value(
        &mut client,
        "SELECT active_entries FROM memory_agent.sessions WHERE session_id = 's'",
        &[],
    );
    assert_eq!(counted, 4);
    run(&mut client, "SET memory_agent.user_id = 'ann'");
    let found: Vec<String> = values(
        &mut client,
        "SELECT content FROM memory_recall('When is the wedding?', kinds => '{turn}') WHERE content LIKE '%wedding%'",
        &[],
    );
    assert_eq!(found, ["My wedding is on the 30th of May."]);
    // Edited once more, with the conversation in parts and what the client added to the texts.
    let parts = json!([
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": [{"type": "text", "text": "I am Ann."}]},
        {"role": "assistant", "content": [{"type": "text", "text": "<think>Who?</think>Noted."}]},
        {"role": "user", "content": "We eloped."}]);
    ask(&gateway, &parts);
    assert_eq!(kept(&mut client)[2..], ["u We eloped.", "a Noted."]);
}

#[test]
fn the_last_message_is_answered_again() {
    let (upstream, next) = upstream();
    let (gateway, mut client) = two_exchanges("back_again", &upstream);
    let again = messages(&["I am Ann.", "Noted.", "My wedding is on the 3rd of May."]);
    *next.lock().unwrap() = (200, "In May, then.");
    ask(&gateway, &again);
    let expected =
        ["u I am Ann.", "a Noted.", "u My wedding is on the 3rd of May.", "a In May, then."];
    assert_eq!(kept(&mut client), expected);
    // The first message too.
    let other = "other";
    let body =
        json!({"model": "m", "memory_id": other, "messages": messages(&["Hello."])}).to_string();
    *next.lock().unwrap() = (200, "One.");
    chat(&gateway, &[], &body);
    *next.lock().unwrap() = (200, "Two.");
    chat(&gateway, &[], &body);
    assert_eq!(stored(&mut client, "ann", other), ["user: Hello.", "assistant: Two."]);
}

#[test]
fn what_a_client_does_not_send_any_more_stays() {
    let (upstream, _) = upstream();
    let (gateway, mut client) = two_exchanges("back_window", &upstream);
    let wedding = "My wedding is on the 3rd of May.";
    let mut expected = kept(&mut client);
    for (what, sent) in [
        ("a window", messages(&[wedding, "Noted.", "One."])),
        ("the message alone", messages(&["Two."])),
        ("a summary", messages(&["Summary: Ann marries in May.", "Noted.", "Three."])),
        ("a gap", messages(&["I am Ann.", "Noted.", "One.", "Noted.", "Four."])),
        ("the beginning and the end", messages(&["I am Ann.", "Noted.", "Five."])),
        ("a shorter conversation", messages(&["I am Ann."])),
        ("another one", messages(&["I am Bob.", "Noted.", "Six."])),
    ] {
        ask(&gateway, &sent);
        let texts = sent.as_array().unwrap();
        let last = texts.last().unwrap()["content"].as_str().unwrap();
        expected.extend([format!("u {last}"), "a Noted.".to_owned()]);
        assert_eq!(kept(&mut client), expected, "{what}");
    }
}

/// What is upstream is not in the request; what tools say is no new message.
#[test]
fn a_request_without_its_conversation_takes_nothing_back() {
    let (upstream, _) = upstream();
    let (gateway, mut client) = two_exchanges("back_upstream", &upstream);
    let wedding = "My wedding is on the 3rd of May.";
    let body =
        json!({"model": "m", "memory_id": SESSION, "input": wedding, "previous_response_id": "r"});
    send(gateway.address(), "POST", "/v1/responses", &[], &body.to_string());
    let mut expected = kept(&mut client);
    assert_eq!(expected.len(), 4, "{expected:?}");
    let mut called = messages(&["I am Ann.", "Noted.", wedding]);
    let all = called.as_array_mut().unwrap();
    all.push(json!({"role": "assistant", "content": null, "tool_calls": [
        {"id": "c", "type": "function", "function": {"name": "look", "arguments": "{}"}}]}));
    all.push(json!({"role": "tool", "tool_call_id": "c", "content": "May"}));
    ask(&gateway, &called);
    expected.push("a Noted.".to_owned());
    assert_eq!(kept(&mut client), expected);
}

/// The upstream refuses the new version: the old one is what was said.
#[test]
fn a_message_that_is_refused_brings_the_old_one_back() {
    let (upstream, next) = upstream();
    let (gateway, mut client) = two_exchanges("back_refused", &upstream);
    let before = kept(&mut client);
    *next.lock().unwrap() = (400, "No.");
    let sent = messages(&["I am Ann.", "Noted.", "Something that is not allowed."]);
    let body = json!({"model": "m", "memory_id": SESSION, "messages": sent}).to_string();
    assert_eq!(chat(&gateway, &[], &body).status, 400);
    assert_eq!(kept(&mut client), before);
}

/// A message is compared as it was stored, without its secrets.
#[test]
fn a_conversation_with_a_secret_is_the_same_one() {
    let (upstream, _) = upstream();
    let (gateway, mut client) = for_ann("back_secret", &upstream, &[]);
    let key = format!("My key is ghp_{}.", "a1B2".repeat(9));
    ask(&gateway, &messages(&[&key]));
    ask(&gateway, &messages(&[&key, "Noted.", "Delete it."]));
    ask(&gateway, &messages(&[&key, "Noted.", "Keep it."]));
    let kept = kept(&mut client);
    assert!(kept[0].starts_with("u My key is [redacted: "), "{kept:?}");
    assert_eq!(kept[1..], ["a Noted.", "u Keep it.", "a Noted."]);
}
