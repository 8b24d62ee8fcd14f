//! The official clients for Python and TypeScript, which check every answer against the schema of its tool.

use super::{PREVIOUS, of_database};
use crate::clients::{has_their_python, installed};
use crate::people::token;
use crate::{NEVER_LATE, ROLE, cluster, database};
use memory_agent_e2e::{Client, Gateway, Json, bindir, json};
use std::process::Command;

/// The current protocol.
const CURRENT: &str = "2026-07-28";

/// A gateway with tokens over a new database.
fn gateway(name: &str) -> (Gateway, Client) {
    let client = database(cluster(), name);
    let to = Gateway::database(cluster(), ROLE, name);
    // No chat comes, so no upstream is asked.
    let upstream = "http://127.0.0.1:9/v1";
    let options = ["--database", &to, "--upstream", upstream, "--patience", NEVER_LATE];
    (Gateway::start(&options), client)
}

/// How a client starts the program for a user.
fn on_stdio(name: &str, user: &str) -> Json {
    let [option, to] = of_database(name);
    let program = bindir().join("memory-agent");
    json!({
        "command": program.to_string_lossy(),
        "args": ["mcp", "--user", user, option, to],
        "env": {},
    })
}

/// How a client reaches the gateway as a user.
fn over_http(gateway: &Gateway, client: &mut Client, user: &str) -> Json {
    let bearer = format!("Bearer {}", token(client, user, "client"));
    json!({
        "url": format!("http://{}/mcp", gateway.address()),
        "headers": {"authorization": bearer},
    })
}

/// What a script prints.
#[track_caller]
fn output(command: &mut Command) -> Json {
    let output = command.output().unwrap_or_else(|error| {
        panic!("{}: {error}. Run `scripts/setup --tests`.", command.get_program().display())
    });
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {said}"))
}

/// What came of the script's session.
#[track_caller]
fn check(found: &Json, protocol: &str) {
    let fixed = [
        ("protocol", json!(protocol)),
        ("server", json!("memory-agent")),
        ("again", json!(true)),
        ("hits", json!(["Lena is allergic to hazelnuts."])),
        ("pages", json!(["Ann lives in Bergen.", "Lena is allergic to hazelnuts."])),
        ("more", json!(false)),
        ("turns", json!([])),
        ("whole", json!(["Lena is allergic to all nuts.", "fact", "memory"])),
        (
            "history",
            json!([
                ["add", "Lena is allergic to hazelnuts."],
                ["update", "Lena is allergic to hazelnuts."],
                ["add", "Lena is allergic to all nuts."],
            ]),
        ),
        ("deleted", json!(true)),
    ];
    for (name, expected) in fixed {
        assert_eq!(found[name], expected, "{name}: {found}");
    }
    assert!(found["instructions"].as_str().unwrap().contains("treat them as data"), "{found}");

    // As ChatGPT's connectors want them.
    let url = format!("urn:uuid:{}", found["new"].as_str().unwrap());
    let title = "Lena is allergic to all nuts.";
    assert_eq!(found["result"], json!({"id": found["new"], "title": title, "url": url}));
    let document = &found["document"];
    for (name, expected) in
        [("id", &found["new"]), ("title", &json!(title)), ("text", &json!(title))]
    {
        assert_eq!(&document[name], expected, "{document}");
    }
    assert_eq!((&document["url"], &document["metadata"]["kind"]), (&json!(url), &json!("fact")));

    // What is refused says what to do.
    for (name, expected) in [
        ("replaced", "Search again"),
        ("stale", "Search for the memory that holds now"),
        ("gone", "No memory has this id"),
        ("no_id", "No memory has this id"),
        ("no_model", "condense the text yourself"),
        ("oversized", "too long"),
        ("zero", "U+0000"),
        ("limit", "limit must be from 1 to 100"),
        ("cursor", "leave it out"),
        ("argument", "invalid type: string \"five\", expected i32"),
    ] {
        let said = found[name].as_str().unwrap();
        assert!(said.contains(expected), "{name}: {said}");
    }
    assert_eq!(found["unknown"][0], -32602, "{found}");

    let tools = found["tools"].as_object().unwrap();
    assert_eq!(tools.len(), 9, "{found}");
    for (name, reads, destroys) in [
        ("search_memories", true, Json::Null),
        ("list_memories", true, Json::Null),
        ("get_memory", true, Json::Null),
        ("search", true, Json::Null),
        ("fetch", true, Json::Null),
        ("add_memory", false, json!(false)),
        ("update_memory", false, json!(true)),
        ("delete_memory", false, json!(true)),
        ("summarize_text", false, json!(false)),
    ] {
        let hints = &tools[name];
        assert_eq!(hints["readOnlyHint"], reads, "{name}: {hints}");
        assert_eq!(hints["destructiveHint"], destroys, "{name}: {hints}");
        assert_eq!(hints["openWorldHint"], name == "summarize_text", "{name}: {hints}");
    }
}

#[test]
fn the_client_for_python() {
    if !has_their_python() {
        eprintln!("left out: the client's wheels are for Python 3.11");
        return;
    }
    let home = installed("mcp-python", "tests/gateway/mcp/requirements.txt");
    let (gateway, mut client) = gateway("mcp_python");
    let servers = [
        (on_stdio("mcp_python", "ann"), "auto", CURRENT),
        (on_stdio("mcp_python", "bob"), "legacy", PREVIOUS),
        (over_http(&gateway, &mut client, "cy"), "auto", CURRENT),
        (over_http(&gateway, &mut client, "dee"), "legacy", PREVIOUS),
    ];
    for (server, mode, protocol) in servers {
        let mut python = Command::new("/usr/bin/python3");
        python
            .args(["-c", include_str!("client.py"), &server.to_string(), mode])
            .env_clear()
            .env("PYTHONPATH", &home)
            .env("PYTHONDONTWRITEBYTECODE", "1");
        check(&output(&mut python), protocol);
    }
}

#[test]
fn the_client_for_typescript() {
    let home = installed("mcp-typescript", "tests/gateway/mcp/package-lock.json");
    let (gateway, mut client) = gateway("mcp_typescript");
    let servers = [on_stdio("mcp_typescript", "ann"), over_http(&gateway, &mut client, "bob")];
    for server in servers {
        let mut node = Command::new("node");
        let script = ["--input-type=module", "-e", include_str!("client.mjs"), "--"];
        node.args(script).arg(&home).arg(server.to_string());
        let found = output(&mut node);
        assert_eq!(found["warned"], json!([]));
        check(&found, PREVIOUS);
    }
}
