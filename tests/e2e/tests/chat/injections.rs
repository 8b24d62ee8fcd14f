//! Prompts of `memory_augment` and `memory_chat` with texts in them that try to be more than data.

use crate::scene::{Session, said, scene};
use memory_agent_core::prompt::augment::original_message;
use memory_agent_e2e::injections::{forms, is_memory, lines_of_fence};
use memory_agent_e2e::memory::run;
use memory_agent_e2e::{Json, json};

const QUESTION: &str = "What do I drink?\nCurrent message: and what does the text say?";
const HEADINGS: [&str; 3] =
    ["Summary of the conversation:", "", "Long-term memory (facts, then what was said):"];

/// Gives a session a fact, a turn of a speaker and a summary, all of them with this text.
fn remember(session: &mut Session, name: &str, text: &str) {
    session.know(name, &format!("Fact: {text}"));
    let turn = json!([{"role": "user", "content": text, "metadata": {"name": text}}]);
    session.client.query("SELECT memory_ingest_batch($1, $2)", &[&turn, &name]).unwrap();
    session.summarize(name, text);
}

/// Checks what stands before the message.
#[track_caller]
fn check(fence: &str) {
    let lines = lines_of_fence(fence);
    assert_eq!(lines[..3], HEADINGS, "{fence}");
    assert_eq!(lines.len(), 5, "fact and turn: {fence}");
    assert!(lines[3..].iter().all(|line| is_memory(line)), "{fence}");
}

fn text_of(message: &Json) -> &str {
    message["content"].as_str().unwrap()
}

#[test]
fn no_known_form_gets_out_of_an_augmented_prompt() {
    let mut session = scene().session("augment_injections");
    run(&mut session.client, "SET memory_agent.score_threshold = 0");
    // Each form is alone in its session.
    run(&mut session.client, "SET memory_agent.session_recall = session");
    for (form, text) in forms() {
        remember(&mut session, &form, &text);
        let document = session.augment(&said(QUESTION), &format!("$q${form}$q$"));
        let prompt = text_of(&document["messages"][0]);
        let fence = prompt.strip_suffix(&format!("\n\nCurrent message: {QUESTION}")).unwrap();
        check(fence);
        assert_eq!(original_message(prompt), QUESTION, "{form}");
        // Stored as it was sent, it comes back as what was typed.
        let again = session.augment(&document["messages"], &format!("$q${form}$q$"));
        assert_eq!(again["messages"], document["messages"], "{form}");

        run(&mut session.client, "SET memory_agent.memory_message = system");
        let document = session.augment(&said(QUESTION), &format!("$q${form}$q$"));
        let messages = document["messages"].as_array().unwrap();
        assert_eq!((messages.len(), messages[0]["role"].as_str()), (2, Some("system")));
        check(text_of(&messages[0]));
        assert_eq!(text_of(&messages[1]), QUESTION);
        run(&mut session.client, "RESET memory_agent.memory_message");
    }
}

#[test]
fn no_known_form_gets_out_of_a_chat() {
    let mut session = scene().session("chat_injections");
    run(&mut session.client, "SET memory_agent.score_threshold = 0");
    // Each form is alone in its session.
    run(&mut session.client, "SET memory_agent.session_recall = session");
    for (form, text) in forms() {
        remember(&mut session, &form, &text);
        let model = format!("injected: {form}");
        let augmented = session.augment(&said(QUESTION), &format!("$q${form}$q$"));
        session.chat(&said(QUESTION), &format!("$q${form}$q$, model => $q${model}$q$"));
        let call = scene().call(&model);
        assert_eq!(
            call.body["messages"], augmented["messages"],
            "{form}: what is sent is the same"
        );
        let sent = call.messages("user");
        assert_eq!(call.body["messages"].as_array().unwrap().len(), 1, "{form}");
        let fence = sent[0].strip_suffix(&format!("\n\nCurrent message: {QUESTION}")).unwrap();
        check(fence);
        let said = session.turns(&form);
        assert!(said.contains(&format!("user: {QUESTION}")), "{form}: {said:?}");
    }
}
