//! memory_state: it changes when what a prompt tells holds no longer, and for no other reason.

use crate::{fact, quiet, say};
use memory_agent_e2e::memory::{run, value};
use memory_agent_e2e::{Client, Uuid, expect_error};

/// The state of these memories, and of the summary of the session `s`.
#[track_caller]
fn state(client: &mut Client, ids: &[Uuid]) -> String {
    let ids: Vec<String> = ids.iter().map(Uuid::to_string).collect();
    value(
        client,
        "SELECT memory_state((SELECT jsonb_agg(jsonb_build_object('id', i)) FROM unnest($1::text[]) i), 's')",
        &[&ids],
    )
}

/// What is known at first: a turn, and a fact that a job made of it; a fact of its own.
fn known(client: &mut Client) -> [Uuid; 3] {
    let turn = say(client, "s", "I live in Hamburg and I have a dog.");
    let extracted = fact(client, Some("s"), "The user lives in Hamburg.");
    let other = fact(client, None, "The user likes tea.");
    let of_a_job = "UPDATE memory_agent.entries \
        SET source_ids = ARRAY[$1::text::uuid], metadata = '{\"job_id\": \"j\"}', fact_key = $1::text WHERE id = $2";
    client.execute(of_a_job, &[&turn.to_string(), &extracted]).unwrap();
    [turn, extracted, other]
}

#[test]
fn it_changes_when_a_memory_holds_no_longer() {
    let mut client = quiet("state_changes");
    for ends in [
        "SELECT memory_forget('{other}')",
        "SELECT memory_update('{other}', 'The user likes coffee.')",
        "SELECT memory_erase(id => '{other}')",
        "SELECT memory_erase(session_id => 'elsewhere')",
        "UPDATE memory_agent.entries SET expires_at = now() - interval '1 s' WHERE id = '{other}'",
        "UPDATE memory_agent.entries SET content = 'The user likes milk.' WHERE id = '{other}'",
        "SELECT memory_clear('s')",
        // The turn says what is replaced.
        "SELECT memory_add('The user lives in Lisbon.', 's', infer => false, fact_key => '{turn}')",
        "UPDATE memory_agent.session_summaries SET is_active = false",
    ] {
        run(&mut client, "SELECT memory_ingest('elsewhere', 'user', 'Nothing of interest.')");
        let [turn, _, other] = known(&mut client);
        let summary = "INSERT INTO memory_agent.session_summaries \
            (id, user_id, agent_id, session_id, level, content, method) \
            SELECT gen_random_uuid(), user_id, agent_id, 's', 'L3', 'A talk.', 'window' \
              FROM memory_agent.entries WHERE id = $1";
        client.execute(summary, &[&turn]).unwrap();
        let told = [turn, other];
        let before = state(&mut client, &told);
        let ends = ends.replace("{other}", &other.to_string()).replace("{turn}", &turn.to_string());
        run(&mut client, &ends);
        assert_ne!(state(&mut client, &told), before, "{ends}");
        run(&mut client, "DELETE FROM memory_agent.session_summaries");
    }
}

#[test]
fn it_stays_whatever_else_happens() {
    let mut client = quiet("state_stays");
    let [turn, extracted, other] = known(&mut client);
    let told = [other, turn, extracted];
    let before = state(&mut client, &told);
    for happens in [
        "SELECT memory_add('The user likes cakes.', infer => false)",
        "SELECT memory_ingest('s', 'user', 'I like cakes.')",
        "SELECT memory_forget(id) FROM memory_agent.entries WHERE content = 'I like cakes.'",
        "UPDATE memory_agent.entries SET state = 'archived', state_reason = 'compressed' WHERE kind = 'turn'",
        "UPDATE memory_agent.entries SET metadata = metadata || '{\"a\": 1}', updated_at = now()",
        "SELECT memory_forget(id), memory_restore(id) FROM memory_agent.entries WHERE content LIKE '%tea.'",
    ] {
        run(&mut client, happens);
        assert_eq!(state(&mut client, &told), before, "{happens}");
    }
    let other_order: String = state(&mut client, &[extracted, other, turn, turn]);
    assert_eq!(other_order, before);
}

#[test]
fn it_tells_nothing_of_others() {
    let mut client = quiet("state_others");
    let id = fact(&mut client, None, "The user likes tea.");
    let missing = Uuid::from_u128(1);
    assert_ne!(state(&mut client, &[id]), state(&mut client, &[missing]));
    run(&mut client, "SET memory_agent.user_id = 'bob'");
    let bobs = state(&mut client, &[id]);
    assert_eq!(bobs, state(&mut client, &[missing]));
    assert_eq!(bobs, state(&mut client, &[]));
}

#[test]
fn what_is_no_list_of_memories_is_refused() {
    let mut client = quiet("state_refused");
    for memories in ["{}", "[1]", "[{}]", "[{\"id\": 1}]", "[{\"id\": \"x\"}]", "\"x\"", "null"] {
        let message =
            expect_error(client.query(&format!("SELECT memory_state('{memories}')"), &[]), "22023");
        assert!(message.contains("memory_hits"), "{memories}: {message}");
    }
    let nothing: bool = value(
        &mut client,
        "SELECT memory_state(NULL) = memory_state('[]') AND memory_state(NULL) <> ''",
        &[],
    );
    assert!(nothing);
}
