//! To which session a conversation without a name belongs.

use crate::http::{chat, send};
use crate::upstream::Upstream;
use crate::{for_ann, stored};
use memory_agent_e2e::memory::values;
use memory_agent_e2e::{Client, Json, json};
use std::slice;

fn sessions(client: &mut Client) -> Vec<String> {
    values(
        client,
        "SELECT session_id FROM memory_agent.entries GROUP BY 1 ORDER BY min(created_at)",
        &[],
    )
}

fn user(text: &str) -> Json {
    json!({"role": "user", "content": text})
}

#[test]
fn a_conversation_without_a_name_is_a_session_of_its_own() {
    let upstream = Upstream::saying("Yes.");
    let (gateway, mut client) = for_ann("sessions_own", &upstream, &[]);
    let ask = |messages: &[Json]| {
        let body = json!({"model": "m", "messages": messages}).to_string();
        // The option is off.
        let headers = [("x-openwebui-chat-id", "c")];
        assert_eq!(chat(&gateway, &headers, &body).status, 200);
    };
    let said = json!({"role": "assistant", "content": "Yes."});
    let cakes = user("Let us talk about cakes.");
    ask(slice::from_ref(&cakes));
    ask(&[user("Let us talk about trains.")]);
    // Other instructions, such as those that name the time, change nothing.
    let system = json!({"role": "system", "content": "It is Monday."});
    ask(&[system, cakes, said, user("Which one has no nuts?")]);
    let found = sessions(&mut client);
    assert_eq!(found.len(), 2, "{found:?}");
    for session in &found {
        let hash = session.strip_prefix("chat-").unwrap_or_else(|| panic!("{session}"));
        assert!(hash.len() == 16 && hash.bytes().all(|byte| byte.is_ascii_hexdigit()), "{session}");
    }
    let cakes = stored(&mut client, "ann", &found[0]);
    assert_eq!((cakes.len(), cakes[2].as_str()), (4, "user: Which one has no nuts?"));
}

#[test]
fn clients_name_their_conversations_where_that_counts() {
    let upstream = Upstream::saying("Yes.");
    let (gateway, mut client) = for_ann("sessions_clients", &upstream, &["--client-sessions"]);
    let body = json!({"model": "m", "messages": [user("Hello.")]}).to_string();
    for (name, value) in [
        ("x-claude-code-session-id", "claude"),
        ("session-id", "codex"),
        ("Session_id", "older-codex"),
        ("X-OpenWebUI-Chat-Id", "webui"),
    ] {
        assert_eq!(chat(&gateway, &[(name, value)], &body).status, 200);
        assert_eq!(stored(&mut client, "ann", value).len(), 2, "{name}");
    }
    let named = body.replacen('{', r#"{"memory_id":"mine","#, 1);
    assert_eq!(chat(&gateway, &[("session-id", "codex")], &named).status, 200);
    assert_eq!(stored(&mut client, "ann", "mine").len(), 2);
    assert_eq!(chat(&gateway, &[("session-id", "\u{7}")], &body).status, 400);
    assert_eq!(chat(&gateway, &[], &body).status, 200);
    assert!(sessions(&mut client).last().unwrap().starts_with("chat-"));
    // What was said first is upstream.
    let body = json!({"model": "m", "input": "Go on.", "previous_response_id": "r"}).to_string();
    send(gateway.address(), "POST", "/v1/responses", &[], &body);
    assert_eq!(stored(&mut client, "ann", "default")[0], "user: Go on.");
}
