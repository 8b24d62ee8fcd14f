//! Earlier conversations in what an LLM is sent: those with the user's other agents where that is wished, and
//! with a mark at what no longer holds.

use super::scene::{Session, said, scene};
use memory_agent_e2e::memory::run;
use memory_agent_e2e::{Json, json};

const QUESTION: &str = "What did we discuss about authentication tokens?";

/// Archives one turn of alice's with an agent, in the session `then`.
fn archive(session: &mut Session, agent: &str, turn: &str) {
    let say = "SELECT memory_ingest('then', 'user', $1, agent_id => $2)";
    session.client.execute(say, &[&turn, &agent]).expect("a turn");
    session
        .client
        .execute("SELECT memory_archive('then', agent_id => $1)", &[&agent])
        .expect("an archive");
}

/// What the user's message in the only request to a model says.
fn sent_to(model: &str) -> String {
    scene().call(model).messages("user")[0].to_owned()
}

/// The contents of the conversations in a document, sorted.
fn told(document: &Json) -> Vec<&str> {
    let hits = document["memory_hits"].as_array().expect("hits");
    let conversations = hits.iter().filter(|hit| hit["role"] == "conversation");
    let mut told: Vec<&str> = conversations.map(|hit| hit["content"].as_str().unwrap()).collect();
    told.sort_unstable();
    told
}

#[test]
fn conversations_with_all_agents_are_told_where_that_is_wished() {
    const OURS: &str = "Authentication tokens last one hour.";
    const THEIRS: &str = "Authentication tokens are explained in chapter two.";
    let mut session = scene().session("earlier_agents");
    archive(&mut session, "coder", OURS);
    archive(&mut session, "writer", THEIRS);
    let question = said(QUESTION);
    let expect = |session: &mut Session, model: &str, is_theirs_told: bool| {
        let augmented = session.augment(&question, "'now', agent_id => 'coder'");
        let prompt = augmented["messages"][0]["content"].as_str().unwrap().to_owned();
        let arguments = format!("'{model}', agent_id => 'coder', model => '{model}'");
        let chat = session.chat(&question, &arguments);
        for (document, prompt) in [(&augmented, prompt), (&chat, sent_to(model))] {
            assert_eq!(told(document).len(), 1 + usize::from(is_theirs_told), "{document}");
            assert!(prompt.contains(OURS), "{prompt}");
            assert_eq!(prompt.contains(THEIRS), is_theirs_told, "{prompt}");
        }
    };
    expect(&mut session, "earlier same", false);
    run(&mut session.client, "SET memory_agent.cross_session_agents = 'all'");
    expect(&mut session, "earlier all", true);
    run(&mut session.client, "RESET memory_agent.cross_session_agents");
    expect(&mut session, "earlier reset", false);
    run(
        &mut session.client,
        "SELECT memory_configure('coder', settings => '{\"cross_session_agents\": \"all\"}')",
    );
    expect(&mut session, "earlier stored", true);

    // Of all agents, but of nobody else, and not what is being said.
    run(&mut session.client, "SET memory_agent.user_id = 'bob'");
    let of_bob = session.chat(&question, "'now', agent_id => 'coder', model => 'earlier bob'");
    assert!(told(&of_bob).is_empty(), "{of_bob}");
    assert_eq!(sent_to("earlier bob"), QUESTION);
    run(&mut session.client, "SET memory_agent.user_id = 'alice'");
    let here = session.augment(&question, "'then', agent_id => 'coder'");
    assert_eq!(told(&here).len(), 1, "{here}");
    assert!(told(&here)[0].contains(THEIRS), "{here}");
}

/// Two statements of one agent's memory, the later of which replaced the earlier one after the conversation.
#[test]
fn what_no_longer_holds_is_marked_in_a_chat() {
    const MYSQL: &str = "The shop runs on MySQL.";
    const MARK: &str = "(no longer true: The shop of the user runs on MySQL.)";
    let mut session = scene().session("earlier_marked");
    run(
        &mut session.client,
        &format!(
            "SELECT memory_ingest('then', 'user', '{MYSQL}', agent_id => 'writer', created_at => '2024-01-10');
             SELECT memory_archive('then', agent_id => 'writer');
             SELECT memory_add('The shop of the user runs on MySQL.', infer => false, agent_id => 'writer',
                               fact_key => 'database', created_at => '2024-01-10');
             SELECT memory_add('The shop of the user runs on PostgreSQL.', infer => false, agent_id => 'writer',
                               fact_key => 'database', created_at => '2024-06-01');
             UPDATE memory_agent.entries f
                SET source_ids = ARRAY(SELECT t.id FROM memory_agent.entries t WHERE t.kind = 'turn')
              WHERE f.kind = 'fact' AND f.content LIKE '%MySQL%';
             SET memory_agent.cross_session_agents = 'all'"
        ),
    );
    let question = said("What did we discuss about the shop?");
    let mut chat = |agent: &str, model: &str| -> (Json, String) {
        let arguments = format!("'{model}', agent_id => '{agent}', model => '{model}'");
        let document = session.chat(&question, &arguments);
        let hits = document["memory_hits"].as_array().unwrap();
        let part = hits.iter().find(|hit| hit["role"] == "conversation");
        (part.unwrap_or_else(|| panic!("no conversation in {document}")).clone(), sent_to(model))
    };
    for (agent, model) in [("writer", "marked"), ("coder", "marked for another")] {
        let (part, prompt) = chat(agent, model);
        assert!(prompt.contains(MYSQL) && prompt.contains(MARK), "{agent}: {prompt}");
        let was = json!([{"was": "The shop of the user runs on MySQL."}]);
        assert_eq!(part["no_longer_true"], was, "{agent}: {part}");
    }
    run(&mut session.client, "SET memory_agent.prompt_stale_sources = show");
    let arguments = "'shown', agent_id => 'coder', model => 'shown as said'";
    session.chat(&question, arguments);
    let prompt = sent_to("shown as said");
    assert!(prompt.contains(MYSQL) && !prompt.contains("no longer true"), "{prompt}");
}
