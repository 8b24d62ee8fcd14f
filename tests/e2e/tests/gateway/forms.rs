//! What is remembered as the user's words, and what is not: forms of clients, reasoning, refused messages, and requests
//! of which nothing is to be remembered.

use crate::http::{chat, says, says_streaming, send};
use crate::upstream::{Answer, Upstream, completion};
use crate::{for_ann, stored};
use memory_agent_e2e::memory::{run, value};
use memory_agent_e2e::{Client, Json, json};
use std::slice;
use std::sync::atomic::{AtomicBool, Ordering};

const TITLE: &str = "### Task:\nGenerate a concise, 3-5 word title with an emoji summarizing the chat history.\n### Chat History:\n<chat_history>\nUSER: My daughter Lena starts school in Porto.\n</chat_history>";

/// Remembers a fact of ann's.
fn know(client: &mut Client, text: &str) {
    run(client, "SET memory_agent.user_id = 'ann'");
    client.execute("SELECT memory_add($1, infer => false)", &[&text]).unwrap();
}

/// Everything that is stored of ann's turns.
fn turns(client: &mut Client) -> String {
    value(
        client,
        "SELECT coalesce(string_agg(concat(role, ': ', content), E'\\n' ORDER BY created_at, id), '') \
           FROM memory_agent.entries WHERE kind = 'turn' AND state <> 'inactive'",
        &[],
    )
}

fn text(text: &str) -> Json {
    json!({"type": "text", "text": text})
}

#[test]
fn a_tool_loop_of_claude_code_keeps_its_memories() {
    let upstream = Upstream::start(|_, answer| answer.json(&completion("")));
    let (gateway, mut client) = for_ann("forms_loop", &upstream, &[]);
    know(&mut client, "Our staging database listens on port 6543.");
    let question =
        json!({"role": "user", "content": [text("Which port does the staging database use?")]});
    let call = |id: &str| json!({"role": "assistant", "content": [{"type": "tool_use", "id": id, "name": "Read", "input": {}}]});
    let result = |id: &str, others: &[Json]| {
        let result = json!({"type": "tool_result", "tool_use_id": id, "content": "x"});
        let content = [&[result][..], others].concat();
        json!({"role": "user", "content": content})
    };
    let reminder = text("<system-reminder>\nYour todo list is empty.\n</system-reminder>");
    let hook = text("The hook says: deploy to production.");
    let mut messages = vec![question];
    let mut ask = |more: &[Json]| {
        messages.extend_from_slice(more);
        let body = json!({"model": "m", "max_tokens": 9, "memory_id": "cc", "messages": messages});
        let mut reply = send(gateway.address(), "POST", "/v1/messages", &[], &body.to_string());
        let hits = reply.json()["memory_hits"].clone();
        let sent = upstream.last().json()["messages"][0]["content"][0]["text"].clone();
        (hits, sent)
    };
    let first = ask(&[]);
    assert!(first.1.as_str().unwrap().contains("6543"), "{first:?}");
    for (number, more) in [
        vec![call("1"), result("1", slice::from_ref(&reminder))],
        vec![call("2"), result("2", &[])],
        vec![call("3"), result("3", slice::from_ref(&hook))],
        vec![call("4"), result("4", &[hook, reminder.clone()])],
        vec![json!({"role": "user", "content": [reminder]})],
        vec![call("5"), result("5", &[])],
    ]
    .iter()
    .enumerate()
    {
        assert_eq!(ask(more), first, "{number}");
    }
    assert_eq!(turns(&mut client), "user: Which port does the staging database use?");
    // What the user says after interrupting a tool is new.
    let stop =
        [text("[Request interrupted by user for tool use]"), text("And the production port?")];
    ask(&[call("6"), result("6", &stop)]);
    assert!(turns(&mut client).ends_with("\nuser: And the production port?"));
}

#[test]
fn what_a_client_asks_for_itself_is_not_remembered() {
    let upstream = Upstream::saying("School in Porto");
    let (gateway, mut client) = for_ann("forms_title", &upstream, &[]);
    know(&mut client, "Lena's school in Porto is red.");
    let title = says("t", TITLE);
    let streaming = says_streaming("t", TITLE);
    for body in [&title, &streaming] {
        let mut reply = chat(&gateway, &[], body);
        assert_eq!((reply.status, reply.header("x-memory-stored")), (200, None));
        let answer = reply.rest().unwrap();
        assert!(answer.contains("Porto") && !answer.contains("memory_stored"), "{answer}");
        let mut sent: Json = serde_json::from_str(body).unwrap();
        sent.as_object_mut().unwrap().remove("memory_id");
        assert_eq!(upstream.last().json(), sent, "nothing is put into it");
    }
    assert_eq!(turns(&mut client), "");
}

#[test]
fn what_tools_say_in_the_users_name_is_not_the_users() {
    let upstream = Upstream::start(|request, answer| {
        let is_first = request.json()["messages"].as_array().unwrap().len() == 1;
        let call = "<read_file><path>.env</path></read_file>";
        answer.json(&completion(if is_first { call } else { "Done." }));
    });
    let (gateway, mut client) = for_ann("forms_cline", &upstream, &[]);
    know(&mut client, "The login form needs a checkbox.");
    let details = |tab: &str| {
        text(&format!("<environment_details>\n# Open Tabs\n{tab}\n</environment_details>"))
    };
    let task = json!({"role": "user", "content": [text("<task>\nAdd a login form\n</task>"), details("a.rs")]});
    let call = json!({"role": "assistant", "content": "<read_file><path>.env</path></read_file>"});
    let result = json!({"role": "user", "content": [
        text("[read_file for .env] Result:"), text("DB_PASSWORD=hunter22"), details(".env")]});
    let ask = |messages: &[&Json]| {
        let body = json!({"model": "m", "memory_id": "cl", "messages": messages}).to_string();
        let hits = chat(&gateway, &[], &body).json()["memory_hits"].clone();
        (hits, upstream.last().json()["messages"].clone())
    };
    let (hits, first) = ask(&[&task]);
    assert!(hits.to_string().contains("checkbox"), "{hits}");
    let (again, second) = ask(&[&task, &call, &result]);
    assert_eq!((&again, &second[0]), (&hits, &first[0]));
    assert_eq!((&second[1], &second[2]), (&call, &result), "nothing is put into what tools said");
    assert_eq!(
        stored(&mut client, "ann", "cl"),
        [
            "user: Add a login form",
            "assistant: <read_file><path>.env</path></read_file>",
            "assistant: Done."
        ]
    );
}

#[test]
fn reasoning_reaches_the_client_and_is_not_remembered() {
    const THOUGHT: &str =
        "<think>\nThey may be a spy who hates pineapple.\n</think>\n\nTake the night train.";
    let upstream = Upstream::saying(THOUGHT);
    let (gateway, mut client) = for_ann("forms_reasoning", &upstream, &[]);
    let whole = chat(&gateway, &[], &says("s", "How do I get there?")).json();
    assert_eq!(whole["choices"][0]["message"]["content"], THOUGHT);
    let stream = chat(&gateway, &[], &says_streaming("t", "How do I get there?")).rest().unwrap();
    assert!(stream.contains("pineapple"), "{stream}");
    for session in ["s", "t"] {
        let expected = ["user: How do I get there?", "assistant: Take the night train."];
        assert_eq!(stored(&mut client, "ann", session), expected);
    }
}

#[test]
fn a_message_that_the_upstream_refuses_was_not_said() {
    fn refuse(answer: &mut Answer, status: u16) {
        answer.whole(
            status,
            &[("content-type", "application/json")],
            r#"{"error":{"message":"no"}}"#,
        );
    }
    let was_busy = AtomicBool::new(false);
    let upstream = Upstream::start(move |request, answer| match request.said() {
        said if said.ends_with("Four.") => refuse(answer, 400),
        said if said.ends_with("Busy.") => refuse(answer, 429),
        said if said.ends_with("Again.") && !was_busy.swap(true, Ordering::Relaxed) => {
            refuse(answer, 429);
        }
        said if said.ends_with("Five.") => refuse(answer, 500),
        _ => answer.json(&completion("Yes.")),
    });
    let (gateway, mut client) = for_ann("forms_refused", &upstream, &[]);
    for (said, status) in [("Four.", 400), ("Busy.", 429)] {
        let reply = chat(&gateway, &[], &says("s", said));
        assert_eq!((reply.status, reply.header("x-memory-stored")), (status, None));
        assert_eq!(reply.header("x-memory-failed"), None);
        assert_eq!(stored(&mut client, "ann", "s"), [""; 0], "{said}");
    }
    assert_eq!(chat(&gateway, &[], &says("s", "Five.")).status, 500);
    assert_eq!(stored(&mut client, "ann", "s"), ["user: Five."]);
    // A client tries again with the same key.
    for status in [429, 200] {
        let reply = chat(&gateway, &[("idempotency-key", "k")], &says("k", "Again."));
        assert_eq!(
            (reply.status, reply.header("x-memory-stored").is_some()),
            (status, status == 200)
        );
    }
    assert_eq!(stored(&mut client, "ann", "k"), ["user: Again.", "assistant: Yes."]);
    // What was said before stays, though it is refused when it comes again.
    run(
        &mut client,
        "SET memory_agent.user_id = 'ann'; SELECT memory_ingest('t', 'user', 'Four.')",
    );
    assert_eq!(chat(&gateway, &[], &says("t", "Four.")).status, 400);
    assert_eq!(stored(&mut client, "ann", "t"), ["user: Four."]);
}

#[test]
fn a_request_may_be_answered_from_memory_and_leave_nothing_there() {
    let upstream = Upstream::saying("At eight.");
    let (gateway, mut client) = for_ann("forms_forgotten", &upstream, &[]);
    know(&mut client, "Ann's train leaves at eight.");
    let question = "When does Ann's train leave?";
    let with = |body: String| {
        let mut body: Json = serde_json::from_str(&body).unwrap();
        body["memory_store"] = false.into();
        body.to_string()
    };
    for (headers, body) in [
        (&[][..], with(says("s", question))),
        (&[], with(says_streaming("s", question))),
        (&[("x-memory-store", "false")], says("s", question)),
        (&[("x-memory-store", "False")], says_streaming("s", question)),
    ] {
        let mut reply = chat(&gateway, headers, &body);
        assert_eq!((reply.status, reply.header("x-memory-stored")), (200, None));
        let answer = reply.rest().unwrap();
        assert!(
            answer.contains("leaves at eight") && !answer.contains("memory_stored"),
            "{answer}"
        );
        assert!(!upstream.last().body.contains("memory_store"));
    }
    assert_eq!(turns(&mut client), "");
    let headers = [("x-memory-store", "true")];
    assert_eq!(chat(&gateway, &headers, &says("s", question)).status, 200);
    assert_eq!(stored(&mut client, "ann", "s").len(), 2);
}

#[test]
fn an_option_that_does_not_exist_is_refused() {
    let upstream = Upstream::saying("Yes.");
    let (gateway, mut client) = for_ann("forms_unknown", &upstream, &[]);
    let wrong = says("s", "Hi.").replace("memory_id", "memory_session");
    for (headers, body, known) in [
        (&[][..], wrong, "memory_id"),
        (&[("x-memory-stores", "false")], says("s", "Hi."), "x-memory-store"),
    ] {
        let mut reply = chat(&gateway, headers, &body);
        assert_eq!(reply.status, 400);
        let message = reply.json()["error"]["message"].to_string();
        assert!(message.contains(known), "{message}");
    }
    assert_eq!((upstream.requests().len(), &*turns(&mut client)), (0, ""));
}

#[test]
fn halves_of_characters_and_parts_of_contents_are_read() {
    const THINKS: &str = r#"[{"type":"thinking","thinking":[{"type":"text","text":"Hm."}]},{"type":"text","text":"The museum opens at ten."}]"#;
    fn chunk(answer: &mut Answer, content: &str) {
        answer.piece(&format!(
            "data: {{\"choices\":[{{\"index\":0,\"delta\":{{\"content\":{content}}},\"finish_reason\":null}}]}}\n\n"
        ));
    }
    fn whole(answer: &mut Answer, content: &str) {
        answer.json(&format!(
            r#"{{"choices":[{{"index":0,"message":{{"role":"assistant","content":{content}}},"finish_reason":"stop"}}]}}"#
        ));
    }
    let upstream = Upstream::start(|request, answer| {
        // Half a character goes upstream as it came.
        if request.body.contains(r"Sunny \ud83d") {
            return answer.json(&completion("Yes."));
        }
        let streams = request.json()["stream"] == true;
        if streams {
            answer.begin();
        }
        match (request.said().rsplit(' ').next().unwrap(), streams) {
            ("parts", true) => chunk(answer, THINKS),
            ("parts", false) => whole(answer, THINKS),
            ("halves", true) => {
                for content in
                    [r#""have fun \ud83d""#, r#""\ude00 and take the blue bag""#, r#"" with you.""#]
                {
                    chunk(answer, content);
                }
            }
            ("halves", false) => whole(answer, r#""have fun \ud83d\ude00 and \ud83d""#),
            (_, true) => {
                chunk(answer, r#""Here it""#);
                chunk(answer, "oops");
            }
            (_, false) => whole(answer, "{\"text\":\"odd\"}"),
        }
        if streams {
            answer.done();
        }
    });
    let (gateway, mut client) = for_ann("forms_halves", &upstream, &[]);
    for (said, streamed, expected) in [
        ("parts", "The museum opens at ten.", "The museum opens at ten."),
        ("halves", "have fun 😀 and take the blue bag with you.", "have fun 😀 and \u{fffd}"),
        ("odd", "Here it (interrupted)", ""),
    ] {
        let stream =
            chat(&gateway, &[], &says_streaming(&format!("{said}_s"), said)).rest().unwrap();
        assert!(stream.ends_with("data: [DONE]\n\n"), "{stream}");
        let turns = stored(&mut client, "ann", &format!("{said}_s"));
        assert_eq!(turns, [format!("user: {said}"), format!("assistant: {streamed}")]);
        let mut reply = chat(&gateway, &[], &says(&format!("{said}_w"), said));
        let failed = (said == "odd").then_some("store");
        assert_eq!((reply.status, reply.header("x-memory-failed")), (200, failed), "{said}");
        assert!(reply.rest().is_ok());
        let turns = stored(&mut client, "ann", &format!("{said}_w"));
        let expected = Some(format!("assistant: {expected}")).filter(|_| failed.is_none());
        assert_eq!(turns.get(1), expected.as_ref(), "{said}");
    }
    let half = r#"{"model":"m","memory_id":"half","messages":[{"role":"user","content":"The shop is called Sunny \ud83d"}]}"#;
    let reply = chat(&gateway, &[], half);
    assert_eq!((reply.status, reply.header("x-memory-failed")), (200, None));
    assert_eq!(stored(&mut client, "ann", "half")[0], "user: The shop is called Sunny \u{fffd}");
}
