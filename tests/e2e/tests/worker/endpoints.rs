//! Endpoints as rows: who writes and who chooses them, which endpoint each agent asks, and where keys go.

use crate::models::echo;
use crate::scene::{DATABASE, PATIENCE, Scene};
use memory_agent_e2e::llm::{Call, LlmStub, Purpose, Reply};
use memory_agent_e2e::memory::{run, value, values};
use memory_agent_e2e::{expect_error, json, retry_until, wait_until};
use std::path::PathBuf;

const KEY: &str = "sk-e2e-of-one-host-0123456789";

/// A directory of keys with one, for the host of a stub.
struct Keys(PathBuf);

impl Keys {
    fn for_stub(name: &str, stub: &LlmStub) -> Self {
        let place = std::env::temp_dir().join(format!("ma_e2e_keys_{name}_{}", std::process::id()));
        let address = stub.base_url();
        let host = address.split('/').nth(2).expect("a host");
        std::fs::create_dir_all(place.join(host)).expect("a folder");
        std::fs::write(place.join(host).join("team"), format!("{KEY}\n")).expect("a key");
        Self(place)
    }
}

impl Drop for Keys {
    fn drop(&mut self) {
        drop(std::fs::remove_dir_all(&self.0));
    }
}

fn set_endpoint(scene: &mut Scene, name: &str, base_url: &str, more: &str) {
    let statement = format!("SELECT memory_set_endpoint($1, $2, 'own-1'{more})");
    scene.client.execute(&statement, &[&name, &base_url]).expect("an endpoint");
}

fn say(scene: &mut Scene, agent: &str, text: &str) {
    let ingest = "SELECT memory_ingest('s', 'user', $1, agent_id => $2)";
    scene.client.execute(ingest, &[&text, &agent]).expect("ingest");
}

fn is_extracted(scene: &mut Scene, text: &str) -> bool {
    scene.facts().iter().any(|fact| fact.contains(text))
}

#[test]
fn each_agent_asks_its_own_with_the_key_for_its_host() {
    let own = LlmStub::start(echo);
    let keys = Keys::for_stub("own", &own);
    let directory = keys.0.to_string_lossy().into_owned();
    let mut scene = Scene::with_settings(echo, &[("memory_agent.llm_key_dir", &directory)]);
    set_endpoint(&mut scene, "own", &own.base_url(), ", key_name => 'team'");
    run(&mut scene.client, "SELECT memory_use_endpoint('own', 'buyer')");
    say(&mut scene, "buyer", "I like tea.");
    say(&mut scene, "seller", "I like coffee.");
    scene.drain();
    assert_eq!(scene.facts(), ["Noted: I like coffee.", "Noted: I like tea."]);
    assert!(own.calls().iter().all(|call| {
        call.model() == "own-1"
            && call.header("authorization") == Some(&*format!("Bearer {KEY}"))
            && call.body.to_string().contains("tea")
    }));
    assert!(scene.stub.calls().iter().all(|call| {
        call.model() == "stub-1"
            && call.header("authorization").is_none()
            && call.body.to_string().contains("coffee")
    }));
    let recorded: Vec<String> = values(
        &mut scene.client,
        "SELECT coalesce(endpoint, '-') || ' ' || model FROM memory_llm_calls GROUP BY 1 ORDER BY 1",
        &[],
    );
    assert_eq!(recorded, ["- stub-1", "own own-1"]);

    // Statements ask the same.
    let chat = "SELECT memory_chat('[{\"role\": \"user\", \"content\": \"Hello!\"}]', 's', agent_id => $1)";
    let document: memory_agent_e2e::Json = value(&mut scene.client, chat, &[&"buyer"]);
    assert_eq!(document["model"], "own-1", "{document}");
    // The worker may have asked about the message already.
    let chats = own.calls().into_iter().filter(|call| call.purpose() == Purpose::Chat).count();
    assert_eq!(chats, 1);
    scene.drain();
    let listed: memory_agent_e2e::Json =
        value(&mut scene.client, "SELECT to_jsonb(e) FROM memory_list_endpoints() e", &[]);
    let spent = listed["tokens_today"].as_i64().unwrap();
    assert_eq!(
        listed,
        json!({"name": "own", "provider": "openai", "model": "own-1", "is_enabled": true,
               "agents": ["buyer"], "calls_per_minute": 0, "daily_tokens": 0, "tokens_today": spent})
    );
    assert!(spent > 0);
    let status: String = value(
        &mut scene.client,
        "SELECT string_agg(component || ' ' || state, ', ' ORDER BY 1) FROM memory_status() WHERE component LIKE 'llm%'",
        &[],
    );
    assert_eq!(status, "llm reachable, llm own reachable");
    assert!(!scene.cluster.log().contains(KEY));
}

/// docs/security.md says so: who names an agent asks its endpoint. Its memory is each user's own.
#[test]
fn an_agent_is_no_permission() {
    let own = LlmStub::start(echo);
    let mut scene = Scene::with_settings(echo, &[("memory_agent.extraction", "off")]);
    set_endpoint(&mut scene, "own", &own.base_url(), "");
    run(&mut scene.client, "SELECT memory_use_endpoint('own', 'vip')");
    say(&mut scene, "vip", "The code of my safe is zzqx77.");
    run(&mut scene.client, "CREATE ROLE guest LOGIN; SELECT memory_grant('guest', 'user')");
    let mut guest = scene.cluster.connect_as(DATABASE, "guest");
    let chat = "SELECT memory_chat('[{\"role\": \"user\", \"content\": \"What is the code of my safe?\"}]', \
                                   's', agent_id => 'vip')";
    let document: memory_agent_e2e::Json = value(&mut guest, chat, &[]);
    assert_eq!(document["model"], "own-1", "{document}");
    let [call] = &own.calls()[..] else { panic!("one call") };
    assert!(!call.body.to_string().contains("zzqx77"), "{}", call.body);
    assert_eq!(scene.stub.call_count(), 0);
    for refused in ["memory_use_endpoint('own', 'mine')", "memory_list_endpoints()"] {
        expect_error(guest.batch_execute(&format!("SELECT {refused}")), "42501");
    }
}

#[test]
fn without_an_llm_in_the_settings_rows_are_enough() {
    let own = LlmStub::start(echo);
    let mut scene = Scene::with_settings(
        echo,
        &[("memory_agent.llm_base_url", ""), ("memory_agent.summarization", "on")],
    );
    let add = "SELECT memory_add('I live in Rome.', agent_id => 'buyer', infer => true)";
    expect_error(scene.client.query_one(add, &[]), "55000");
    say(&mut scene, "buyer", "Nobody reads this yet.");
    set_endpoint(&mut scene, "own", &own.base_url(), "");
    run(&mut scene.client, "SELECT memory_use_endpoint('own')");
    run(&mut scene.client, add);
    say(&mut scene, "seller", "I like tea.");
    scene.drain();
    assert!(is_extracted(&mut scene, "tea") && is_extracted(&mut scene, "Rome"));
    assert_eq!(scene.stub.call_count(), 0);
    let first: String = value(
        &mut scene.client,
        "SELECT state FROM memory_status() WHERE component = 'extraction'",
        &[],
    );
    assert_eq!(first, "turn");
    run(&mut scene.client, "SELECT memory_backfill()");
    scene.drain();
    assert!(is_extracted(&mut scene, "Nobody reads this yet."));
    run(&mut scene.client, "SELECT memory_use_endpoint(NULL)");
    expect_error(scene.client.query_one(add, &[]), "55000");
}

/// Whatever is asked for an agent: facts, what becomes of them, summaries of every kind, chats and what
/// belongs to them.
#[test]
fn every_question_of_an_agent_goes_to_its_endpoint() {
    let answer = |call: &Call| match call.purpose() {
        Purpose::Extract | Purpose::Reconcile | Purpose::Probe => echo(call),
        _ => json!("They drink tea."),
    };
    let own = LlmStub::start(answer);
    let settings = [
        ("memory_agent.min_episode_turns", "1"),
        ("memory_agent.recent_messages_to_keep", "0"),
        ("memory_agent.llm_max_attempts", "1"),
        ("memory_agent.query_rewrite", "on"),
        ("memory_agent.read_contradiction_check", "on"),
        ("memory_agent.relevance_threshold", "-1"),
        ("memory_agent.agent_id", "buyer"),
    ];
    let mut scene = Scene::with_settings(answer, &settings);
    set_endpoint(&mut scene, "own", &own.base_url(), "");
    run(&mut scene.client, "SELECT memory_use_endpoint('own', 'buyer')");
    let chat = "memory_chat('[{\"role\": \"user\", \"content\": \"Which tea?\"}]', 's')";
    for steps in [
        "SELECT memory_ingest('s', 'user', 'I like tea.')",
        "SELECT memory_ingest('s', 'user', 'Tea is what I like best, and green tea most of all.')",
        "SELECT memory_close_episode('s')",
        "SELECT memory_compress('s')",
        "SELECT memory_summarize(string_agg(format('In hour %s we spoke of tea.', n), ' ')) FROM generate_series(1, 60) n",
        "SET memory_agent.extraction = episode; SELECT memory_ingest('t', 'user', 'I like green tea.'); \
         SELECT memory_close_episode('t')",
        &format!("SELECT {chat}"),
    ] {
        run(&mut scene.client, steps);
        scene.drain();
    }
    let asked: Vec<Purpose> = own.calls().iter().map(Call::purpose).collect();
    for purpose in [
        Purpose::Extract,
        Purpose::Reconcile,
        Purpose::Rewrite,
        Purpose::Contradiction,
        Purpose::Chat,
    ] {
        assert!(asked.contains(&purpose), "{purpose:?} is not in {asked:#?}");
    }
    // Of the window, with topics and decisions, and of a text.
    let has_summary = |of_window: bool| {
        asked
            .iter()
            .any(|purpose| matches!(purpose, Purpose::Summary(s) if s.with_sections == of_window))
    };
    assert!(has_summary(true) && has_summary(false), "{asked:#?}");
    assert_eq!(scene.stub.call_count(), 0);
    // Another agent's go to the endpoint of the settings.
    let before = own.call_count();
    run(&mut scene.client, &format!("SET memory_agent.agent_id = 'seller'; SELECT {chat}"));
    assert!(scene.stub.call_count() > 0);
    assert_eq!(own.call_count(), before);
}

#[test]
fn an_outage_and_a_limit_hold_up_who_asks_there_alone() {
    let own = LlmStub::start(echo);
    let mut scene = Scene::start(echo);
    set_endpoint(&mut scene, "gone", "http://127.0.0.1:1/v1", "");
    set_endpoint(&mut scene, "small", &own.base_url(), ", daily_tokens => 1");
    run(
        &mut scene.client,
        "SELECT memory_use_endpoint('gone', 'a'), memory_use_endpoint('small', 'b')",
    );
    say(&mut scene, "a", "From a.");
    wait_until(PATIENCE, "the outage", || scene.jobs().iter().any(|job| job.error.is_some()));
    say(&mut scene, "b", "First of b.");
    wait_until(PATIENCE, "the first of b", || is_extracted(&mut scene, "First of b."));
    say(&mut scene, "b", "Second of b.");
    say(&mut scene, "c", "From c.");
    wait_until(PATIENCE, "c", || is_extracted(&mut scene, "From c."));
    wait_until(PATIENCE, "the limit", || {
        scene.jobs().iter().any(|job| {
            job.error.as_ref().is_some_and(|error| error.contains("daily_tokens of \"small\""))
        })
    });
    assert_eq!(
        own.calls().iter().filter(|call| call.body.to_string().contains("Second")).count(),
        0
    );
    assert!(scene.jobs().iter().all(|job| job.attempts == 0));
    let chat = "SELECT memory_chat('[{\"role\": \"user\", \"content\": \"Hello!\"}]', 's', agent_id => 'b')";
    let document: memory_agent_e2e::Json = value(&mut scene.client, chat, &[]);
    assert_eq!(document["error"]["code"], "unavailable", "{document}");
    let limited: String = value(
        &mut scene.client,
        "SELECT state FROM memory_status() WHERE component = 'llm small'",
        &[],
    );
    assert_eq!(limited, "limited");
    // The job's time has not come: it is asked again when it is queued anew.
    run(&mut scene.client, "SELECT memory_use_endpoint(NULL, 'a'), memory_use_endpoint(NULL, 'b')");
    run(
        &mut scene.client,
        "UPDATE memory_agent.jobs SET run_after = now() WHERE status = 'pending'",
    );
    say(&mut scene, "c", "More of c.");
    scene.drain();
    assert!(is_extracted(&mut scene, "From a.") && is_extracted(&mut scene, "Second of b."));
}

/// The protocol, its version and the limit of a row are its own, not those of the settings.
#[test]
fn a_row_has_a_protocol_and_a_limit_of_its_own() {
    let unknown = |_: &Call| Reply::error(404, "unknown");
    let (azure, claude, slow) =
        (LlmStub::start(unknown), LlmStub::start(unknown), LlmStub::start(echo));
    let mut scene = Scene::start(echo);
    for (name, stub, more) in [
        ("azure", &azure, ", 'azure', api_version => '2030-01-01'"),
        ("claude", &claude, ", 'anthropic', api_version => '2031-01-01'"),
        ("slow", &slow, ", calls_per_minute => 1"),
    ] {
        set_endpoint(&mut scene, name, &stub.base_url(), more);
        scene.client.execute("SELECT memory_use_endpoint($1, $1)", &[&name]).expect("a choice");
        say(&mut scene, name, "I live in Oslo.");
    }
    let first =
        |stub: &LlmStub| retry_until(PATIENCE, "a call", || stub.calls().into_iter().next());
    let path = "/v1/openai/deployments/own-1/chat/completions?api-version=2030-01-01";
    assert_eq!(first(&azure).path, path);
    let asked = first(&claude);
    assert_eq!(asked.path, "/v1/messages");
    assert_eq!(asked.header("anthropic-version"), Some("2031-01-01"));

    wait_until(PATIENCE, "the first call", || is_extracted(&mut scene, "I live in Oslo."));
    say(&mut scene, "slow", "I have a cat.");
    let limit = scene.wait_for_job("a postponed job", |job| {
        job.error.as_ref().is_some_and(|error| error.contains("calls per minute"))
    });
    assert!(limit.error.unwrap().contains("1 calls per minute"));
    assert_eq!((limit.attempts, slow.call_count()), (0, 1));
}

#[test]
fn a_key_goes_to_its_host_alone_and_a_copy_is_off() {
    let own = LlmStub::start(echo);
    let other = LlmStub::start(echo);
    let keys = Keys::for_stub("host", &other);
    let directory = keys.0.to_string_lossy().into_owned();
    let mut scene = Scene::with_settings(echo, &[("memory_agent.llm_key_dir", &directory)]);
    let mut state = |more: &str, url: &str| -> (String, String) {
        set_endpoint(&mut scene, "own", url, more);
        run(&mut scene.client, "SELECT memory_use_endpoint('own')");
        let row = scene
            .client
            .query_one("SELECT state, detail FROM memory_status() WHERE component = 'llm own'", &[])
            .expect("a row");
        (row.get(0), row.get(1))
    };
    let (first, detail) = state(", key_name => 'team'", &own.base_url());
    assert_eq!(first, "misconfigured");
    assert!(detail.contains("cannot be read") && !detail.contains(&directory), "{detail}");
    assert_eq!(state(", key_name => 'team'", &other.base_url()).0, "configured");
    // A row that a dump brought may say anything.
    for forged in ["../team", "/etc/hostname", ""] {
        scene
            .client
            .execute("UPDATE memory_agent.endpoints SET key_name = $1", &[&forged])
            .expect("a forged row");
        let chat = "SELECT memory_chat('[{\"role\": \"user\", \"content\": \"Hello!\"}]', 's')";
        let document: memory_agent_e2e::Json = value(&mut scene.client, chat, &[]);
        assert_eq!(document["error"]["code"], "unavailable", "{document}");
    }
    run(
        &mut scene.client,
        "UPDATE memory_agent.endpoints SET key_name = 'team', enabled_in = '7/7'",
    );
    say(&mut scene, "c", "Said while it is off.");
    wait_until(PATIENCE, "the reason", || {
        scene.jobs().iter().any(|job| {
            job.error.as_ref().is_some_and(|error| error.contains("memory_enable_endpoint"))
        })
    });
    assert_eq!((own.call_count(), other.call_count(), scene.stub.call_count()), (0, 0, 0));
    let enabled: bool = value(&mut scene.client, "SELECT memory_enable_endpoint('own')", &[]);
    assert!(enabled);
    assert!(!value::<bool>(&mut scene.client, "SELECT memory_enable_endpoint('none')", &[]));
    run(
        &mut scene.client,
        "UPDATE memory_agent.jobs SET run_after = now() WHERE status = 'pending'",
    );
    say(&mut scene, "c", "Said later.");
    scene.drain();
    assert!(is_extracted(&mut scene, "Said while it is off."));
    assert!(other.call_count() > 0);
}

/// As `pg_restore --clean` does it: the same database, another installation.
#[test]
fn an_endpoint_that_is_restored_into_its_own_database_is_off() {
    let mut scene = Scene::start(echo);
    set_endpoint(&mut scene, "own", "https://llm.example/v1", "");
    let mut is_enabled = |before: &str| -> bool {
        scene.client.batch_execute(before).expect(before);
        value(&mut scene.client, "SELECT is_enabled FROM memory_list_endpoints()", &[])
    };
    assert!(is_enabled(""));
    let restore = "CREATE TABLE public.kept AS SELECT * FROM memory_agent.endpoints; \
                   DROP EXTENSION memory_agent CASCADE; CREATE EXTENSION memory_agent CASCADE; \
                   INSERT INTO memory_agent.endpoints SELECT * FROM public.kept";
    assert!(!is_enabled(restore));
    assert!(is_enabled("SELECT memory_enable_endpoint('own')"));
}

#[test]
fn the_owner_writes_and_admins_choose() {
    let mut scene = Scene::start(echo);
    set_endpoint(&mut scene, "own", "https://llm.example/v1", "");
    for role in ["endpoint_user", "endpoint_admin"] {
        let level = role.strip_prefix("endpoint_").unwrap();
        run(
            &mut scene.client,
            &format!("CREATE ROLE {role} LOGIN; SELECT memory_grant('{role}', '{level}')"),
        );
    }
    let mut user = scene.cluster.connect_as(DATABASE, "endpoint_user");
    let mut admin = scene.cluster.connect_as(DATABASE, "endpoint_admin");
    for owners in [
        "memory_set_endpoint('own', 'https://evil.example', 'm')",
        "memory_enable_endpoint('own')",
        "memory_drop_endpoint('own')",
    ] {
        let call = format!("SELECT {owners}");
        expect_error(user.query_one(&call, &[]), "42501");
        expect_error(admin.query_one(&call, &[]), "42501");
    }
    for call in ["SELECT memory_use_endpoint('own')", "SELECT * FROM memory_list_endpoints()"] {
        expect_error(user.query(call, &[]), "42501");
        admin.query(call, &[]).expect("an admin's");
    }
    for table in ["endpoints", "endpoint_uses"] {
        for client in [&mut user, &mut admin] {
            expect_error(
                client.query(&format!("SELECT * FROM memory_agent.{table}"), &[]),
                "42501",
            );
        }
    }
    // An address is not an admin's business.
    let listed: Vec<String> =
        values(&mut admin, "SELECT e::text FROM memory_list_endpoints() e", &[]);
    assert!(listed.len() == 1 && !listed[0].contains("example"), "{listed:?}");
    expect_error(admin.query("SELECT memory_use_endpoint('none')", &[]), "42704");
    expect_error(admin.query("SELECT memory_use_endpoint('own', '')", &[]), "22023");
    let drop = "SELECT memory_drop_endpoint('own')";
    expect_error(scene.client.query_one(drop, &[]), "55000");
    run(&mut admin, "SELECT memory_use_endpoint(NULL)");
    assert!(value::<bool>(&mut scene.client, drop, &[]));
    assert!(!value::<bool>(&mut scene.client, drop, &[]));
    for wrong in [
        "'../x', 'https://a', 'm'",
        "NULL, 'https://a', 'm'",
        "'x', 'ftp://a', 'm'",
        "'x', NULL, 'm'",
        "'x', 'https://user:geheim@a', 'm'",
        "'x', 'https://A', 'm'",
        "'x', 'https://a', ' '",
        "'x', 'https://a', NULL",
        "'x', 'https://a', 'm', 'google'",
        "'x', 'https://a', 'm', key_name => 'a/b'",
        "'x', 'https://a', 'm', api_version => 'a b'",
        "'x', 'https://a', 'm', calls_per_minute => -1",
        "'x', 'https://a', 'm', daily_tokens => -1",
    ] {
        let found = scene.client.query_one(&format!("SELECT memory_set_endpoint({wrong})"), &[]);
        let message = expect_error(found, "22023");
        assert!(!message.contains("geheim"), "{message}");
    }
}
