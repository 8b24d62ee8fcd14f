//! The routes of mem0, asked by mem0's own client and, for its own server's, by curl.

use crate::clients::{has_their_python, python};
use crate::http::send;
use crate::upstream::Upstream;
use crate::{NEVER_LATE, ROLE, cluster, database, for_ann};
use memory_agent_e2e::memory::{run, value};
use memory_agent_e2e::{Client, Cluster, Gateway, Json, json};
use std::process::Command;

/// A gateway to which everybody shows a token, and ann's token. There is no upstream.
fn with_token(name: &str, arguments: &[&str]) -> (Gateway, Client, String) {
    let mut client = database(cluster(), name);
    let to = Gateway::database(cluster(), ROLE, name);
    let fixed = ["--database", &to, "--patience", NEVER_LATE];
    let gateway = Gateway::start(&[&fixed[..], arguments].concat());
    let token = value(&mut client, "SELECT memory_create_token('ann', 'laptop')", &[]);
    (gateway, client, token)
}

/// The texts of a list of memories.
fn texts(answer: &Json) -> Vec<&str> {
    let memories = answer["results"].as_array().unwrap_or_else(|| panic!("{answer}"));
    memories.iter().map(|memory| memory["memory"].as_str().unwrap()).collect()
}

#[test]
fn the_mem0_client_for_python() {
    if !has_their_python() {
        return;
    }
    let (gateway, mut client, token) = with_token("mem0_client", &[]);
    run(
        &mut client,
        "SELECT set_config('memory_agent.user_id', 'bob', false); \
         SELECT memory_add('Bob lives in Bonn.', infer => false)",
    );
    let url = format!("http://{}", gateway.address());
    let found = python(include_str!("mem0_client.py"), &[&url, &token]);
    let added = &found["added"]["results"][0];
    assert_eq!((&added["memory"], &added["event"]), (&json!("Ann lives in Rome."), &json!("ADD")));

    let all = ["Ann lives in Rome.", "Ann is allergic to hazelnuts."];
    assert_eq!(texts(&found["all"]), all);
    assert_eq!((&found["all"]["count"], &found["all"]["next"]), (&json!(2), &Json::Null));
    let pages = found["pages"].as_array().unwrap();
    assert_eq!((texts(&pages[0]), texts(&pages[1])), (vec![all[0]], vec![all[1]]));
    assert_eq!(pages[0]["next"], "/v3/memories/?page=2&page_size=1");
    assert_eq!((&pages[1]["next"], &pages[1]["count"]), (&Json::Null, &json!(2)));
    assert_eq!(pages[1]["previous"], "/v3/memories/?page=1&page_size=1");
    let cook = &found["cook"]["results"];
    assert_eq!(texts(&found["cook"]), [all[1]]);
    for (name, expected) in [
        ("user_id", json!("ann")),
        ("agent_id", json!("cook")),
        ("run_id", json!("kitchen")),
        ("metadata", json!({})),
        ("expiration_date", json!("2999-12-31")),
    ] {
        assert_eq!(cook[0][name], expected, "{name}");
    }
    assert!(cook[0]["created_at"].as_str().unwrap().starts_with("2025-01-01T"), "{cook}");

    assert_eq!(texts(&found["search"]), [all[0]]);
    assert!(found["search"]["results"][0]["score"].as_f64().unwrap() > 0.0);
    assert_eq!(texts(&found["searched_topic"]), [all[0]]);
    let home = &found["get"];
    assert_eq!(
        (&home["memory"], &home["metadata"]),
        (&json!(all[0]), &json!({"topic": "home", "n": 1}))
    );
    assert_eq!((&home["agent_id"], &home["run_id"]), (&Json::Null, &Json::Null));

    // The id of the first version stands for the memory.
    assert_eq!(found["updated"]["memory"], "Ann lives in Oslo.");
    assert_eq!(found["after_update"]["memory"], "Ann lives in Oslo.");
    assert_eq!(found["after_update"]["id"], found["updated"]["id"]);
    let history: Vec<String> = found["history"]
        .as_array()
        .unwrap()
        .iter()
        .map(|event| format!("{} {} {}", event["event"], event["old_memory"], event["new_memory"]))
        .collect();
    let expected = [
        r#""ADD" null "Ann lives in Rome.""#,
        r#""UPDATE" "Ann lives in Rome." "Ann lives in Oslo.""#,
    ];
    assert_eq!(history, expected);
    assert_eq!(found["history"][0]["memory_id"], added["id"]);
    assert_eq!(found["deleted"]["message"], "Memory deleted successfully!");
    assert_eq!(found["after_delete"][0], "MemoryNotFoundError", "{found}");
    assert_eq!(texts(&found["left"]), [all[1]]);
    assert_eq!(found["nothing_left"]["count"], 0);

    let refused: Vec<(u64, &str)> = found["refused"]
        .as_array()
        .unwrap()
        .iter()
        .map(|refused| (refused[1].as_u64().unwrap(), refused[2].as_str().unwrap()))
        .collect();
    let another = "user_id is another user than the token's";
    for (number, (status, part)) in [
        (403, another),
        (403, another),
        (403, another),
        (403, another),
        (400, "name user_id, agent_id or run_id"),
        (400, "app_id cannot be asked for"),
        (400, "unsupported field: custom_instructions"),
        (400, "unsupported field: metadata"),
        (404, "no such memory"),
        (404, ""),
    ]
    .into_iter()
    .enumerate()
    {
        let (found, message) = refused[number];
        assert!(found == status && message.contains(part), "{number}: {found} {message}");
    }
    // There is no LLM here that could infer anything.
    assert_eq!(found["infer"][1], 400);
    assert!(found["infer"][2].as_str().unwrap().contains("infer = false"), "{found}");
    assert!(found["wrong_key"].as_str().unwrap().contains("unknown, or has expired"), "{found}");
    let bob: i64 = value(
        &mut client,
        "SELECT count(*) FROM memory_agent.entries WHERE user_id = 'bob' AND state = 'active'",
        &[],
    );
    assert_eq!(bob, 1);
}

#[test]
fn the_routes_of_mem0s_own_server() {
    let upstream = Upstream::saying("Never asked.");
    let (gateway, mut client) = for_ann("mem0_server", &upstream, &[]);
    let curl = |method: &str, path: &str, body: &str| -> (u16, Json) {
        let url = format!("http://{}{path}", gateway.address());
        let mut command = Command::new("curl");
        command.args(["-sS", "-X", method, &url, "-w", "\n%{http_code}"]);
        if !body.is_empty() {
            command.args(["-H", "content-type: application/json", "-d", body]);
        }
        let output = command.output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let (answer, status) = text.rsplit_once('\n').unwrap();
        let answer =
            serde_json::from_str(answer).unwrap_or_else(|error| panic!("{error}: {answer}"));
        (status.parse().unwrap(), answer)
    };
    let body = r#"{"messages": [{"role": "user", "content": "Ann's cat is called Tom."}], "user_id": "ann",
                   "metadata": {"n": 9007199254740993}, "infer": false}"#;
    let (status, added) = curl("POST", "/memories", body);
    assert_eq!(status, 200, "{added}");
    let id = added["results"][0]["id"].as_str().unwrap().to_owned();
    let kept: bool = value(
        &mut client,
        "SELECT metadata = '{\"n\": 9007199254740993}' FROM memory_agent.entries",
        &[],
    );
    assert!(kept, "numbers stay as they are");

    let (status, all) = curl("GET", "/memories?user_id=ann", "");
    assert_eq!((status, texts(&all)), (200, vec!["Ann's cat is called Tom."]));
    let (status, found) =
        curl("POST", "/search", r#"{"query": "What is the cat called?", "user_id": "ann"}"#);
    assert_eq!((status, texts(&found)), (200, vec!["Ann's cat is called Tom."]));
    let (status, one) = curl("GET", &format!("/memories/{id}"), "");
    assert_eq!((status, &one["memory"]), (200, &json!("Ann's cat is called Tom.")));
    let (status, _) =
        curl("PUT", &format!("/memories/{id}"), r#"{"text": "Ann's cat is called Kit."}"#);
    assert_eq!(status, 200);
    let (status, history) = curl("GET", &format!("/memories/{id}/history"), "");
    let events: Vec<&Json> =
        history.as_array().unwrap().iter().map(|event| &event["event"]).collect();
    assert_eq!((status, events), (200, vec![&json!("ADD"), &json!("UPDATE")]));
    assert_eq!(history[1]["new_memory"], "Ann's cat is called Kit.");
    // Under the id of an earlier version, and under the other names of the text.
    for (field, text) in
        [("data", "Ann's cat is called Max."), ("memory", "Ann's cat is called Ida.")]
    {
        let body = json!({field: text}).to_string();
        let (status, updated) = curl("PUT", &format!("/memories/{id}"), &body);
        assert_eq!((status, &updated["memory"]), (200, &json!(text)), "{updated}");
    }
    let (status, refused) = curl("PUT", "/v1/ping/", "{}");
    assert_eq!((status, &refused["error"]["code"]), (405, &json!("unknown_method")));
    let (status, _) = curl("DELETE", &format!("/memories/{id}"), "");
    assert_eq!(status, 200);
    let (status, error) = curl("PUT", &format!("/memories/{id}"), r#"{"text": "Gone."}"#);
    assert_eq!((status, &error["detail"]), (404, &json!("there is no such memory")));
    let (status, error) = curl("DELETE", &format!("/memories/{id}"), "");
    assert_eq!((status, &error["detail"]), (404, &json!("there is no such memory")));

    for run in ["a", "b"] {
        let body = json!({"messages": [{"role": "user", "content": format!("Run {run} is about planes.")}],
                          "run_id": run, "infer": false});
        assert_eq!(curl("POST", "/memories", &body.to_string()).0, 200);
    }
    assert_eq!(curl("DELETE", "/memories", "").0, 400);
    assert_eq!(curl("DELETE", "/memories?user_id=bob", "").0, 403);
    assert_eq!(curl("DELETE", "/memories?run_id=a", "").0, 200);
    assert_eq!(texts(&curl("GET", "/memories", "").1), ["Run b is about planes."]);
    for path in ["/memories?limit=1&page=1&rerank=true", "/memories?rerank=false"] {
        assert_eq!(curl("GET", path, "").0, 400, "a list is not reranked");
    }
    assert_eq!(
        curl("GET", "/memories?limit=1&page=1", "").1["results"].as_array().unwrap().len(),
        1
    );
    let query = r#"{"query": "planes", "limit": 1, "rerank": false}"#;
    assert_eq!(texts(&curl("POST", "/search", query).1), ["Run b is about planes."]);
    for (method, path, body) in [
        ("POST", "/memories", "[]"),
        ("POST", "/memories", r#"{"messages": []}"#),
        ("POST", "/search", r#"{"query": " "}"#),
        ("POST", "/search", r#"{"query": "x", "filters": {"OR": []}}"#),
    ] {
        let (status, error) = curl(method, path, body);
        assert_eq!(status, 400, "{body}");
        assert!(
            error["detail"].is_string() && error["error"]["code"] == "invalid_request",
            "{error}"
        );
    }
    assert!(upstream.requests().is_empty());
}

#[test]
fn many_memories_are_deleted_at_once() {
    let upstream = Upstream::saying("Never asked.");
    let (gateway, mut client) = for_ann("mem0_many", &upstream, &[]);
    run(
        &mut client,
        "SELECT set_config('memory_agent.user_id', 'ann', false); \
         SET memory_agent.embed_on_ingest = 'off'; \
         SELECT memory_ingest('s', 'user', 'A turn is no memory of mem0.'); \
         SELECT count(memory_add(format('Parcel %s weighs %s grams.', n, n * 7), infer => false)) \
           FROM generate_series(1, 1100) n",
    );
    let mut reply = send(gateway.address(), "DELETE", "/v1/memories/?user_id=ann", &[], "");
    let answer = reply.rest();
    assert_eq!(reply.status, 200, "{answer:?}");
    let left: String = value(
        &mut client,
        "SELECT string_agg(DISTINCT kind, ' ') FROM memory_agent.entries WHERE state = 'active'",
        &[],
    );
    assert_eq!(left, "turn");
}

#[test]
fn a_page_goes_on_where_the_one_before_it_ended() {
    let upstream = Upstream::saying("Never asked.");
    let (gateway, mut client) = for_ann("mem0_pages", &upstream, &[]);
    run(
        &mut client,
        "SELECT set_config('memory_agent.user_id', 'ann', false); \
         SET memory_agent.embed_on_ingest = 'off'; \
         SELECT count(memory_add('Parcel ' || n, metadata => jsonb_build_object('odd', n % 2 = 1), \
                                 created_at => '2026-01-01'::timestamptz + n * interval '1 s', infer => false)) \
           FROM generate_series(1, 1210) n",
    );
    let page = |body: &Json| {
        send(gateway.address(), "POST", "/v3/memories/", &[], &body.to_string()).json()
    };
    let parcels = |numbers: &[usize]| -> Vec<String> {
        numbers.iter().map(|number| format!("Parcel {number}")).collect()
    };
    let plain = |number: i32| page(&json!({"page": number, "page_size": 2}));
    assert_eq!(texts(&plain(1)), parcels(&[1210, 1209]));
    run(
        &mut client,
        "SELECT memory_add('Just now.', infer => false); \
         SELECT memory_forget(id) FROM memory_list(kind => 'fact') WHERE content = 'Parcel 1210'",
    );
    assert_eq!(texts(&plain(2)), parcels(&[1208, 1207]));
    assert_eq!(texts(&plain(3)), parcels(&[1206, 1205]));
    // Another list, of which nothing is known: what comes before is passed over.
    let far = page(&json!({"page": 3, "page_size": 500}));
    let numbers: Vec<usize> = (1..=210).rev().collect();
    assert_eq!(
        (texts(&far), &far["count"]),
        (parcels(&numbers).iter().map(|text| text.as_str()).collect(), &json!(1210))
    );
    // Not all fit, and the border is far from what was looked at.
    let odd = |number: i32| {
        page(&json!({"page": number, "page_size": 300, "filters": {"metadata": {"odd": true}}}))
    };
    let all: Vec<String> = (1..=3)
        .flat_map(|number| {
            texts(&odd(number)).iter().map(|&text| text.to_owned()).collect::<Vec<_>>()
        })
        .collect();
    let expected: Vec<usize> = (1..=1209).rev().filter(|number| number % 2 == 1).collect();
    assert_eq!(all, parcels(&expected));
}

#[test]
fn what_is_inferred_comes_later() {
    let cluster = Cluster::builder()
        .preload(true)
        .setting("memory_agent.worker", "off")
        .setting("memory_agent.llm_base_url", "http://127.0.0.1:9/v1")
        .setting("memory_agent.llm_model", "never-asked")
        .start();
    run(&mut cluster.connect("postgres"), &format!("CREATE ROLE {ROLE} LOGIN"));
    let mut client = database(&cluster, "mem0_infer");
    let to = Gateway::database(&cluster, ROLE, "mem0_infer");
    let gateway = Gateway::start(&["--database", &to, "--user", "ann", "--patience", NEVER_LATE]);
    let body = json!({"messages": [{"role": "user", "content": "I moved to Oslo."},
                                   {"role": "assistant", "content": "How is it?"}], "run_id": "r"});
    let post = |path| send(gateway.address(), "POST", path, &[], &body.to_string());
    let mut reply = post("/v3/memories/add/");
    assert_eq!(reply.status, 200);
    let answer = reply.json();
    assert_eq!((&answer["status"], &answer["results"]), (&json!("PENDING"), &json!([])));
    let source: String = value(
        &mut client,
        "SELECT concat_ws('|', e.id, e.user_id, e.session_id, e.content, j.kind) \
           FROM memory_agent.entries e, memory_agent.jobs j WHERE j.user_id = e.user_id",
        &[],
    );
    let id = answer["event_id"].as_str().unwrap();
    let said = "user: I moved to Oslo.\n\nassistant: How is it?";
    assert_eq!(source, format!("{id}|ann|r|{said}|extract"));
    // What was said is no memory yet.
    let mut all = send(gateway.address(), "GET", "/memories", &[], "");
    assert_eq!(texts(&all.json()), [""; 0]);
}

#[test]
fn what_is_over_the_quota_is_refused_for_good() {
    let upstream = Upstream::saying("Nothing.");
    let (gateway, mut client) = for_ann("mem0_quota", &upstream, &[]);
    run(&mut client, "SELECT memory_set_quota('ann', entries => 1)");
    let add = |text: &str| {
        let messages = json!([{"role": "user", "content": text}]);
        let body = json!({"messages": messages, "infer": false}).to_string();
        send(gateway.address(), "POST", "/v3/memories/add/", &[], &body)
    };
    assert_eq!(add("Ann keeps bees.").status, 200);
    let mut reply = add("Ann has a boat.");
    assert_eq!((reply.status, reply.header("x-should-retry")), (429, Some("false")));
    assert_eq!(reply.json()["error"]["code"], "quota_reached");
}
