//! Whether the verdict sees what kills could leave behind: a talk in peace, one row of which is spoilt.

use super::speaker::Voice;
use super::verdict::{self, Heads};
use super::{drain, in_peace};
use crate::activity::start;
use crate::scene::Scene;
use memory_agent_e2e::llm::{Act, Dice, Manner, ScriptedModel, Talk};
use memory_agent_e2e::{DateTime, Transaction, Utc};
use std::sync::atomic::AtomicI32;

/// Statements, each of which does what a defect would do to the memory of `w1u0`. `{turn}`, `{fact}` and
/// `{past}` are ids: of a turn that says something, of a fact that holds, of one that was replaced.
const WRONG: [&str; 24] = [
    "UPDATE memory_agent.sessions SET turn_count = turn_count + 1 WHERE user_id = 'w1u0'",
    "UPDATE memory_agent.sessions SET active_tokens = active_tokens - 1 WHERE user_id = 'w1u0'",
    "UPDATE memory_agent.sessions SET active_entries = active_entries + 1 WHERE user_id = 'w1u0'",
    "DELETE FROM memory_agent.entries WHERE id = {turn}",
    "CREATE TEMP TABLE twin ON COMMIT DROP AS SELECT * FROM memory_agent.entries WHERE id = {turn}; \
     UPDATE twin SET id = gen_random_uuid(); INSERT INTO memory_agent.entries SELECT * FROM twin",
    "UPDATE memory_agent.entries SET extracted_at = NULL WHERE id = {turn}",
    "UPDATE memory_agent.entries SET content = content || '!' WHERE id = {turn}",
    "DELETE FROM memory_agent.entries WHERE id = {fact}",
    "CREATE TEMP TABLE twin ON COMMIT DROP AS SELECT * FROM memory_agent.entries WHERE id = {fact}; \
     UPDATE twin SET id = gen_random_uuid(); INSERT INTO memory_agent.entries SELECT * FROM twin",
    "UPDATE memory_agent.entries SET embedding = NULL, embedding_model = NULL WHERE id = {fact}",
    "UPDATE memory_agent.entries SET metadata = metadata || '{\"unreconciled\": true}' WHERE id = {fact}",
    "UPDATE memory_agent.entries SET source_ids = source_ids || {turn} WHERE id = {fact}",
    "UPDATE memory_agent.entries SET source_ids = NULL WHERE id = {fact}",
    "UPDATE memory_agent.entries SET state = 'active', state_reason = NULL, replaced_by = NULL, \
            valid_to = NULL WHERE id = {past}",
    "UPDATE memory_agent.entries SET replaced_by = {past} WHERE id = {past}",
    "UPDATE memory_agent.entries SET valid_to = valid_to + interval '1 s' WHERE id = {past}",
    "UPDATE memory_agent.jobs SET status = 'running' WHERE user_id = 'w1u0'",
    "UPDATE memory_agent.jobs SET status = 'dead' WHERE user_id = 'w1u0'",
    "DELETE FROM memory_agent.history WHERE entry_id = {fact}",
    "DELETE FROM memory_agent.history WHERE entry_id = {past} AND op <> 'add'",
    "CREATE TEMP TABLE twin ON COMMIT DROP AS SELECT * FROM memory_agent.history WHERE entry_id = {fact}; \
     UPDATE twin SET id = gen_random_uuid(), seq = NULL, prev_hash = NULL, hash = NULL; \
     INSERT INTO memory_agent.history SELECT * FROM twin",
    "UPDATE memory_agent.history SET body = '{}' WHERE entry_id = {fact}",
    "DELETE FROM memory_agent.llm_calls WHERE user_id = 'w1u0'",
    "UPDATE memory_agent.llm_calls SET job_id = gen_random_uuid() WHERE user_id = 'w1u0'",
];

#[test]
fn the_verdict_sees_what_a_defect_would_leave_behind() {
    let scene = start(ScriptedModel::new());
    let talk = talk();
    scene.stub.set_model(talk.model());
    let now = Utc::now().timestamp_micros() - 600_000_000;
    let began = DateTime::from_timestamp_micros(now).unwrap_or_default();
    for speaker in &talk.speakers {
        let backend = AtomicI32::new(0);
        Voice { cluster: &scene.cluster, speaker, began, backend: &backend }.speak(Dice::of(1));
    }
    drain(&scene, &talk.users());
    assert_eq!(seen(&scene, &talk, began, "SELECT 1"), Vec::<String>::new());
    for wrong in WRONG {
        let seen = seen(&scene, &talk, began, wrong);
        println!("{wrong}\n  {seen:?}");
        assert!(!seen.is_empty(), "not seen: {wrong}");
    }
}

/// One in which the first user says things in a session and replaces some.
fn talk() -> Talk {
    (1..)
        .map(|seed| Talk::generate(&mut Dice::of(seed), "w1"))
        .find(|talk| {
            let is_struck = |act: &Act| act.manner == Manner::RolledBack;
            talk.speakers.iter().any(|speaker| {
                let is_first = speaker.user == "w1u0" && speaker.session.as_deref() == Some("s1");
                is_first && speaker.acts.iter().any(is_struck)
            }) && talk.versions().iter().any(|version| {
                let is_first = version.user == "w1u0" && version.session.as_deref() == Some("s1");
                is_first && version.ended.is_some()
            })
        })
        .expect("there is such a talk")
}

/// What the verdict says after a statement that is rolled back.
fn seen(scene: &Scene, talk: &Talk, began: DateTime<Utc>, wrong: &str) -> Vec<String> {
    let id = |what: &str| {
        format!(
            "(SELECT e.id FROM memory_agent.entries e WHERE e.user_id = 'w1u0' AND {what} \
               ORDER BY e.session_id, e.id LIMIT 1)"
        )
    };
    let facts = "e.kind = 'fact' AND e.content <> '' AND e.session_id = 's1'";
    let wrong = wrong
        .replace("{turn}", &id("e.kind = 'turn' AND e.role = 'user' AND e.session_id = 's1'"))
        .replace("{fact}", &id(&format!("{facts} AND e.state <> 'inactive'")))
        .replace("{past}", &id(&format!("{facts} AND e.state = 'inactive'")));
    in_peace(scene, |transaction: &mut Transaction<'_>| {
        // Guards would refuse what a defect in our own statements would not be refused.
        transaction.batch_execute("SET LOCAL session_replication_role = replica")?;
        transaction.batch_execute(&wrong)?;
        let mut problems = verdict::problems(transaction, talk, began)?;
        problems.extend(verdict::chains(transaction, &talk.users(), &mut Heads::new(), false)?);
        Ok(problems)
    })
}
