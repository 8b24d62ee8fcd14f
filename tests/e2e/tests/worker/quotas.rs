//! Quotas of users and LLMs: whose jobs wait for the next day, and which calls are refused.

use crate::models::echo;
use crate::scene::{PATIENCE, Scene};
use memory_agent_e2e::memory::{run, value};
use memory_agent_e2e::{Json, expect_error, retry_until, wait_until};

const NO_TOKENS: &str = "quota of LLM tokens for today is used up";
const CHAT: &str = "SELECT memory_chat('[{\"role\": \"user\", \"content\": \"Hello!\"}]', 'chat')";

fn say_as(scene: &mut Scene, user: &str, text: &str) {
    let ingest = "SELECT memory_ingest('s', 'user', $1, user_id => $2)";
    scene.client.execute(ingest, &[&text, &user]).expect("ingest");
}

fn used_today(scene: &mut Scene) -> i64 {
    let sql = "SELECT used FROM memory_usage() WHERE resource = 'daily_tokens'";
    value(&mut scene.client, sql, &[])
}

/// Waits for the reason for which alice's jobs wait.
fn wait_for_tomorrow(scene: &mut Scene) {
    scene.wait_for_job("a job that waits", |job| {
        job.status == "pending" && job.error.as_deref().is_some_and(|told| told.contains(NO_TOKENS))
    });
}

#[test]
fn jobs_of_a_user_without_tokens_wait_and_nobody_elses() {
    let mut scene = Scene::start(echo);
    scene.say_and_wait("The first call uses them up.");
    assert!(used_today(&mut scene) > 1);
    run(&mut scene.client, "SELECT memory_set_quota('alice', daily_tokens => 1)");
    scene.say("This has to wait.");
    wait_for_tomorrow(&mut scene);
    let calls = scene.stub.call_count();
    say_as(&mut scene, "bob", "Bob waits for nobody.");
    wait_until(PATIENCE, "bob's fact", || {
        scene.facts().contains(&"Noted: Bob waits for nobody.".to_owned())
    });
    assert_eq!(scene.stub.call_count(), calls + 1);
    // No attempt is lost, and it is not tried again and again: an hour, or the day's end.
    let (attempts, waits): (i32, bool) = {
        let sql = "SELECT attempts, run_after > now() + interval '1 s' FROM memory_agent.jobs \
                    WHERE user_id = 'alice' AND status = 'pending'";
        let row = scene.client.query_one(sql, &[]).expect("one job");
        (row.get(0), row.get(1))
    };
    assert!(attempts == 0 && (waits || is_midnight()), "{attempts}, {waits}");
    let status = scene.status("quotas");
    assert!(status.contains("users without tokens left for today: 1"), "{status}");

    // A direct call says so, and costs nothing.
    for call in [CHAT, "SELECT memory_summarize(repeat('A long text. ', 300))"] {
        let message = expect_error(scene.client.simple_query(call), "53400");
        assert!(message.contains(NO_TOKENS), "{message}");
    }
    assert_eq!(scene.stub.call_count(), calls + 1);

    // More tokens end the wait at once.
    run(&mut scene.client, "SELECT memory_set_quota('alice', daily_tokens => 1000000)");
    scene.drain();
    assert!(scene.facts().contains(&"Noted: This has to wait.".to_owned()));
    value::<Json>(&mut scene.client, CHAT, &[]);
}

/// Whether the day ends so soon that what waits for its end does not wait at all.
fn is_midnight() -> bool {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("a time");
    now.as_secs() % 86_400 > 86_390
}

#[test]
fn tokens_of_yesterday_are_no_ones_today() {
    let mut scene = Scene::start(echo);
    run(&mut scene.client, "SELECT memory_set_quota('*', daily_tokens => 1000)");
    let calls = "INSERT INTO memory_agent.llm_calls (id, user_id, purpose, model, status, prompt_tokens, at) \
                 VALUES (gen_random_uuid(), 'alice', 'chat', 'm', 'ok', 5000, now() - interval '1 day')";
    run(&mut scene.client, calls);
    scene.say_and_wait("The day is new.");
    assert_eq!(scene.facts(), ["Noted: The day is new."]);
    // What a statement spent that was rolled back counts.
    run(&mut scene.client, "SELECT memory_set_quota('alice', daily_tokens => 1000000)");
    let before = used_today(&mut scene);
    run(&mut scene.client, &format!("BEGIN; {CHAT}; ROLLBACK"));
    assert!(used_today(&mut scene) > before);
}

/// What an LLM was asked for is not stored over the quota: the job says so, and can be run again.
#[test]
fn facts_over_the_quota_are_a_failed_job() {
    let mut scene = Scene::with_settings(echo, &[("memory_agent.llm_max_attempts", "1")]);
    run(&mut scene.client, "SELECT memory_set_quota('alice', entries => 1)");
    scene.say("I keep bees.");
    let job = scene.wait_for_job("a dead job", |job| job.status == "dead");
    assert!(
        job.error.as_deref().is_some_and(|told| told.contains("quota of 1 entries")),
        "{job:?}"
    );
    let asked = scene.stub.call_count();
    let more = "SELECT memory_add('I have a boat.', infer => true)";
    expect_error(scene.client.simple_query(more), "53400");
    // A chat that could not be stored is refused before it costs something.
    let message = expect_error(scene.client.simple_query(CHAT), "53400");
    assert!(message.contains("quota of 1 entries"), "{message}");
    assert_eq!(scene.stub.call_count(), asked);
    run(&mut scene.client, "SELECT memory_set_quota('alice', entries => 2)");
    assert!(value::<bool>(&mut scene.client, "SELECT memory_retry($1)", &[&job.id]));
    retry_until(PATIENCE, "the fact", || (scene.facts() == ["Noted: I keep bees."]).then_some(()));
}

/// It has been paid for.
#[test]
fn an_answer_that_is_too_long_for_the_quota_is_returned_all_the_same() {
    let mut scene = Scene::with_settings(echo, &[("memory_agent.extraction", "off")]);
    run(&mut scene.client, "SELECT memory_set_quota('alice', bytes => 7)");
    let answer: Json = value(&mut scene.client, CHAT, &[]);
    let text = answer["choices"][0]["message"]["content"].as_str().unwrap_or_default();
    assert!(text.len() > 1, "{answer}");
    let stored: i64 = value(&mut scene.client, "SELECT count(*) FROM memory_agent.entries", &[]);
    assert_eq!(stored, 0);
    run(&mut scene.client, "SELECT memory_set_quota('alice', bytes => 5)");
    expect_error(scene.client.simple_query(CHAT), "53400");
    assert_eq!(scene.stub.call_count(), 1);
}
