//! Clients as people use them: OpenAI's for Python, and curl. Nothing but the address is changed.

use crate::for_ann;
use crate::http::says_streaming;
use crate::stored;
use crate::upstream::{Upstream, completion};
use memory_agent_e2e::Json;
use std::path::PathBuf;
use std::process::Command;

/// Where `scripts/setup --tests` put them.
fn home() -> PathBuf {
    let requirements = include_str!("requirements.txt");
    let version = requirements.lines().find_map(|line| line.strip_prefix("openai=="));
    let version = version.and_then(|version| version.split(' ').next()).unwrap();
    let cache = match (std::env::var_os("MEMORY_AGENT_CACHE"), std::env::var_os("HOME")) {
        (Some(cache), _) => PathBuf::from(cache),
        (None, home) => PathBuf::from(home.unwrap()).join(".cache/memory_agent"),
    };
    let home = cache.join(format!("gateway-clients-{version}"));
    assert!(home.is_dir(), "{} is missing: run `scripts/setup --tests`", home.display());
    home
}

/// What a script in Python prints, as JSON.
fn python(script: &str, url: &str) -> Json {
    let output = Command::new("/usr/bin/python3")
        .args(["-c", script, url])
        .env_clear()
        .env("PYTHONPATH", home())
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {said}"))
}

/// Whether the pinned wheels are for this machine's Python, which is Debian 12's.
fn has_their_python() -> bool {
    let version = Command::new("/usr/bin/python3").arg("--version").output().unwrap();
    String::from_utf8_lossy(&version.stdout).starts_with("Python 3.11.")
}

#[test]
fn the_openai_client_for_python() {
    if !has_their_python() {
        eprintln!("left out: the clients' wheels are for Python 3.11");
        return;
    }
    let upstream = Upstream::start(|request, answer| {
        match request.path.as_str() {
        "/v1/models" => answer.json(r#"{"object":"list","data":[{"id":"m","object":"model","created":1,"owned_by":"o"}]}"#),
        "/v1/embeddings" => answer.json(r#"{"object":"list","model":"e","data":[{"object":"embedding","index":0,"embedding":[0.5,0.25]}],"usage":{"prompt_tokens":1,"total_tokens":1}}"#),
        _ => {
            let body = request.json();
            let last = body["messages"].as_array().unwrap().last().unwrap();
            if body["stream"] == true {
                answer.begin();
                answer.says("Her dog ");
                answer.says("is called Rex.");
                answer.done();
            } else if body["tools"].is_array() && last["role"] == "user" {
                answer.json(r#"{"id":"c","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":null,"tool_calls":[{"id":"t1","type":"function","function":{"name":"weather","arguments":"{\"city\":\"Rome\"}"}}]},"finish_reason":"tool_calls"}]}"#);
            } else if last["content"] == "Fail." {
                answer.whole(400, &[("content-type", "application/json")], r#"{"error":{"message":"no","type":"invalid_request_error","param":null,"code":"nope"}}"#);
            } else {
                answer.json(&completion("So it is."));
            }
        }
    }
    });
    let (gateway, mut client) = for_ann("clients_openai", &upstream, &[]);
    let url = format!("http://{}/v1", gateway.address());
    let found = python(include_str!("openai_client.py"), &url);
    assert_eq!(found["answer"], "So it is.");
    assert_eq!(found["streamed"], "Her dog is called Rex.");
    assert!(found["hits"].to_string().contains("My dog is called Rex."), "{found}");
    assert_eq!(found["stored"].as_array().unwrap().len(), 2, "{found}");
    assert_eq!(found["called"], "weather");
    assert_eq!(found["after_tool"], "So it is.");
    assert_eq!(found["error"], "nope");
    assert_eq!(found["models"], serde_json::json!(["m"]));
    assert_eq!(found["embedding"], serde_json::json!([0.5, 0.25]));
    assert_eq!(
        stored(&mut client, "ann", "python"),
        [
            "user: My dog is called Rex.",
            "assistant: So it is.",
            "user: How is my dog called?",
            "assistant: Her dog is called Rex.",
        ]
    );
    assert_eq!(
        stored(&mut client, "ann", "tools"),
        ["user: How is the weather in Rome?", "assistant: So it is."]
    );
    // Without a session it is the default one.
    assert_eq!(stored(&mut client, "ann", "default"), ["user: Fail."]);
}

#[test]
fn curl() {
    let upstream = Upstream::saying("Hello from upstream.");
    let (gateway, mut client) = for_ann("clients_curl", &upstream, &[]);
    let url = format!("http://{}/v1/chat/completions", gateway.address());
    let body = says_streaming("curl", "Hello.");
    let output = Command::new("curl")
        .args(["-sS", "-N", "-f", &url, "-H", "content-type: application/json", "-d", &body])
        .output()
        .unwrap_or_else(|error| panic!("curl: {error}. Run `scripts/setup --tests`."));
    let answer = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(answer.contains("memory_stored") && answer.ends_with("data: [DONE]\n\n"), "{answer}");
    assert_eq!(
        stored(&mut client, "ann", "curl"),
        ["user: Hello.", "assistant: Hello from upstream."]
    );
}
