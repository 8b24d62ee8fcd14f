//! Prompts of `memory_context` and `memory_load` with texts in them that try to be more than data.

use super::{Archive, context, messages, recount, summarize};
use memory_agent_core::fence;
use memory_agent_e2e::injections::{forms, is_memory, lines_of_fence};
use memory_agent_e2e::memory::{run, value};
use memory_agent_e2e::{Client, Uuid, json, shared};

const QUESTION: &str = "Remind me: what do I drink, and what does the text say?";

fn say(client: &mut Client, session: &str, role: &str, text: &str) {
    let turn = json!([{"role": role, "content": text, "metadata": {"name": text}}]);
    client.query("SELECT memory_ingest_batch($1, $2)", &[&turn, &session]).unwrap();
}

#[test]
fn no_known_form_gets_out_of_a_context() {
    let mut client = shared().database("context_injections").connect();
    run(&mut client, "SET memory_agent.rerank = off; SET memory_agent.relevance_threshold = 0");
    for (form, text) in forms() {
        // What is told: a turn that left the window, a fact, a summary, an earlier conversation.
        say(&mut client, &form, "user", &text);
        run(&mut client, "UPDATE memory_agent.entries SET state = 'archived' WHERE kind = 'turn'");
        value::<Uuid>(
            &mut client,
            "SELECT memory_add($1, session_id => $2, infer => false)",
            &[&format!("Fact: {text}"), &form],
        );
        summarize(&mut client, &form, &text);
        let earlier = format!("before {form}");
        Archive { session: &earlier, summary: &text, ..Archive::default() }.store(&mut client);
        // And what the window shows that neither the user nor the assistant says.
        say(&mut client, &form, "tool", &format!("Tool: {text}"));
        say(&mut client, &form, "memory", &format!("Note: {text}"));

        let document = context(&mut client, &format!("$q${form}$q$, '{QUESTION}', 20000"));
        let counted = recount(&mut client, &document);
        assert_eq!(document["token_count"].as_i64(), Some(counted), "{form}");
        let all = messages(&document);
        let roles: Vec<&str> = all.iter().map(|(role, _)| *role).collect();
        assert_eq!(roles, ["system", "system", "system", "user", "system", "user"], "{form}");
        assert_eq!(all[5].1, QUESTION);

        let summary = lines_of_fence(all[0].1);
        assert_eq!(summary, ["Summary of the conversation:"], "{form}");
        for (block, heading) in [
            (all[1].1, "Long-term memory (facts, then what was said):"),
            (all[2].1, "From earlier conversations:"),
        ] {
            let lines = lines_of_fence(block);
            assert_eq!(lines[0], heading, "{form}");
            assert!(lines.len() > 1 && lines[1..].iter().all(|line| is_memory(line)), "{block}");
        }
        assert!(lines_of_fence(all[1].1).len() >= 3, "{form}: fact and turn: {}", all[1].1);
        for (message, beginning) in [(all[3].1, "[tool] Tool: "), (all[4].1, "[memory] Note: ")] {
            let [line] = lines_of_fence(message)[..] else { panic!("{form}: {message}") };
            assert!(line.starts_with(beginning), "{form}: {message}");
        }
        // What is listed beside the messages is as it was said.
        assert_eq!(document["summary"], text.as_str());
    }
}

#[test]
fn no_known_form_gets_out_of_a_loaded_window() {
    let mut client = shared().database("load_injections").connect();
    for (form, text) in forms() {
        say(&mut client, &form, "assistant", &text);
        summarize(&mut client, &form, &text);
        let sql = "SELECT role, content, token_count, memory_count_tokens(content) \
                     FROM memory_load($1, token_budget => 20000)";
        let rows = client.query(sql, &[&form]).unwrap();
        assert_eq!(rows.len(), 2);
        let (role, content): (&str, &str) = (rows[0].get(0), rows[0].get(1));
        assert_eq!(role, "system");
        assert_eq!(lines_of_fence(content), ["Summary of the conversation:"], "{form}");
        assert_eq!(
            content,
            fence::fenced(&format!("Summary of the conversation:\n  {}", fence::data(&text)))
        );
        assert_eq!(rows[0].get::<_, i32>(2), rows[0].get::<_, i32>(3), "{form}");
        // The turns are what was said, in the role that said it.
        assert_eq!((rows[1].get(0), rows[1].get(1)), ("assistant", text.as_str()));
        // Without a budget the summary is as it is stored.
        let sql = "SELECT content FROM memory_load($1) WHERE role = 'system'";
        assert_eq!(value::<String>(&mut client, sql, &[&form]), text);
    }
}
