//! What MCP clients send, as `tests/clients` captured it or their source has it: each message is answered, and a search
//! finds what is remembered. The table of MCP clients in docs/gateway.md is made of it.

use super::said;
use crate::captured::{KNOWN, fixtures, headers_of, list, rows_below, text, version_of};
use crate::for_ann;
use crate::http::send;
use crate::upstream::Upstream;
use memory_agent_e2e::memory::run;
use memory_agent_e2e::{Gateway, Json};

/// Sends a message again and checks its answer. Returns the result, where there is one.
fn replay(gateway: &Gateway, request: &Json) -> Option<Json> {
    let message = &request["body"];
    let body = if message.is_null() { String::new() } else { message.to_string() };
    let method = text(&request["method"]);
    let mut reply = send(gateway.address(), method, "/mcp", &headers_of(request), &body);
    let expected = match (message.is_null(), message["id"].is_null()) {
        (true, _) => 405,
        (false, true) => 202,
        (false, false) => 200,
    };
    assert_eq!(reply.status, expected, "{request}");
    (expected == 200).then(|| {
        let answer = reply.json();
        assert_eq!((&answer["id"], &answer["error"]), (&message["id"], &Json::Null), "{request}");
        answer
    })
}

#[test]
fn the_docs_say_what_mcp_clients_asked() {
    let upstream = Upstream::saying("Never asked.");
    let (gateway, mut client) = for_ann("mcp_captured", &upstream, &[]);
    run(&mut client, "SET memory_agent.user_id = 'ann'");
    client.execute("SELECT memory_add($1, infer => false)", &[&KNOWN]).unwrap();
    let mut rows = Vec::new();
    for fixture in fixtures("captured-mcp") {
        let (name, mut protocol, mut asked) = (text(&fixture["client"]), "", Vec::new());
        for request in list(&fixture["requests"]) {
            let Some(answer) = replay(&gateway, request) else { continue };
            let method = text(&request["body"]["method"]);
            match method {
                "initialize" => {
                    protocol = text(&request["body"]["params"]["protocolVersion"]);
                    assert_eq!(answer["result"]["protocolVersion"], protocol, "{name}");
                }
                "tools/list" => {
                    let tools = list(&answer["result"]["tools"]);
                    assert!(tools.iter().any(|tool| tool["name"] == "search_memories"), "{name}");
                }
                _ => {
                    let (found, failed) = said(&answer);
                    assert!(!failed && found.contains(KNOWN), "{name}: {found}");
                }
            }
            asked.push(format!("`{method}`"));
        }
        let asked = asked.join(", ");
        rows.push(format!("| {name} | {} | {protocol} | {asked} |", version_of(&fixture)));
    }
    let written = rows_below("MCP clients that were tried");
    assert_eq!(written, rows, "write:\n{}", rows.join("\n"));
}
