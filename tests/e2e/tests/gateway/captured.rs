//! What real clients send, as `tests/clients` captured it or their source has it: what of it is remembered, in which
//! session, and what models are told. The table of clients in docs/gateway.md is made of it.

use crate::http::send;
use crate::libraries::{answers_of, path_of};
use crate::upstream::Upstream;
use crate::{for_ann, stored};
use memory_agent_e2e::memory::{run, values};
use memory_agent_e2e::{Client, Json};
use std::collections::BTreeSet;
use std::fs;
use std::sync::{Arc, Mutex, PoisonError};

pub const KNOWN: &str = "Lena is allergic to hazelnuts.";
/// Where clients name their conversation.
const SESSIONS: [&str; 4] =
    ["x-claude-code-session-id", "session-id", "x-openwebui-chat-id", "x-memory-id"];
/// Requests of agents of the client's: the others that are not the user's get no memories.
const AGENTS: &str = "what agents of the client's are told";
const SUMMARY: &str = "the summary of a conversation";

/// The fixtures of a folder, by the names of the clients.
pub fn fixtures(folder: &str) -> Vec<Json> {
    let folder = fs::read_dir(format!("../clients/{folder}")).unwrap();
    let mut fixtures: Vec<Json> = folder
        .map(|file| serde_json::from_slice(&fs::read(file.unwrap().path()).unwrap()).unwrap())
        .collect();
    fixtures.sort_by_key(|fixture| text(&fixture["client"]).to_lowercase());
    fixtures
}

pub fn list(value: &Json) -> &[Json] {
    value.as_array().unwrap()
}

pub fn text(value: &Json) -> &str {
    value.as_str().unwrap()
}

pub fn headers_of(request: &Json) -> Vec<(&str, &str)> {
    let headers = request["headers"].as_object().unwrap();
    headers.iter().map(|(name, value)| (name.as_str(), text(value))).collect()
}

/// The version of a client, and where its requests are from, if it did not run.
pub fn version_of(fixture: &Json) -> String {
    let from = fixture["from"].as_str().map(|from| format!(", {from}"));
    format!("{}{}", text(&fixture["version"]), from.unwrap_or_default())
}

/// The rows of a table in docs/gateway.md.
pub fn rows_below(heading: &str) -> Vec<&'static str> {
    let docs = include_str!("../../../../docs/gateway.md");
    let below = docs.split_once(&format!("### {heading}\n")).expect("the section").1;
    let table = below.lines().skip_while(|line| !line.starts_with('|'));
    table.take_while(|line| line.starts_with('|')).skip(2).collect()
}

/// What came of a conversation: how its session is recognised, and which requests are not the user's.
#[derive(Default)]
struct Seen {
    sessions: BTreeSet<String>,
    protocols: BTreeSet<&'static str>,
    left_out: BTreeSet<String>,
    tried: BTreeSet<&'static str>,
    wrong: Vec<String>,
}

/// Sends a conversation again, request by request, and checks what is remembered of it.
fn replay(name: &str, talk: &Json, seen: &mut Seen) {
    let says: Arc<Mutex<Option<String>>> = Arc::default();
    let said = Arc::clone(&says);
    let upstream = Upstream::start(move |request, answer| {
        let said = said.lock().unwrap_or_else(PoisonError::into_inner).clone();
        answers_of(request, answer, said.as_deref());
    });
    let (gateway, mut client) = for_ann(name, &upstream, &["--client-sessions"]);
    run(&mut client, "SET memory_agent.user_id = 'ann'");
    client.execute("SELECT memory_add($1, infer => false)", &[&KNOWN]).unwrap();

    let mut typed = list(&talk["typed"]).iter().map(text).peekable();
    let mut expected = Vec::new();
    for (number, request) in list(&talk["requests"]).iter().enumerate() {
        let place = format!("{name}, request {number}");
        let (path, body) = (text(&request["path"]), request["body"].to_string());
        let answer = request["says"].as_str();
        *says.lock().unwrap_or_else(PoisonError::into_inner) = answer.map(str::to_owned);
        let mut reply = send(gateway.address(), "POST", path, &headers_of(request), &body);
        assert_eq!((reply.status, reply.header("x-memory-failed")), (200, None), "{place}");
        let shown = reply.rest().unwrap();
        let mut words = answer.unwrap_or_default().split(' ');
        assert!(words.all(|word| shown.contains(word)), "{place}: {shown}");

        let why_not = request["not"].as_str();
        if let Some(words) = typed.next_if(|words| why_not.is_none() && body.contains(words)) {
            expected.push(format!("user: {words}"));
        }
        let answer = answer.filter(|_| why_not.is_none());
        expected.extend(answer.map(|answer| format!("assistant: {answer}")));
        let gets_memories = why_not.is_none_or(|why| why == AGENTS);
        let sent = upstream.last().body;
        if sent.matches(KNOWN).count() != usize::from(gets_memories) {
            seen.wrong.push(format!("{place}: {why_not:?} was sent {sent}"));
        }

        seen.protocols.insert(path_of(path));
        seen.left_out.extend(why_not.map(str::to_owned));
        let tried = [
            (request["body"]["stream"] == true, "streams"),
            (request["calls"].is_string(), "tools"),
            (typed.peek().is_none() && list(&talk["typed"]).len() > 1, "more turns"),
        ];
        seen.tried.extend(tried.iter().filter(|(is_so, _)| *is_so).map(|(_, what)| *what));
    }
    assert_eq!(typed.next(), None, "{name}: it was not sent");
    check_stored(name, talk, &mut client, &expected, seen);
}

/// That all of it is in one session, the client's where it has one.
fn check_stored(
    name: &str,
    talk: &Json,
    client: &mut Client,
    expected: &[String],
    seen: &mut Seen,
) {
    let sessions: Vec<String> = values(
        client,
        "SELECT session_id FROM memory_agent.entries WHERE kind = 'turn' AND state <> 'inactive' \
          GROUP BY 1 ORDER BY min(created_at)",
        &[],
    );
    let all: Vec<String> =
        sessions.iter().flat_map(|session| stored(client, "ann", session)).collect();
    if all != expected {
        seen.wrong.push(format!("{name}: {all:#?} is stored, not {expected:#?}"));
    }
    let headers = &list(&talk["requests"])[0]["headers"];
    let named = SESSIONS.iter().find(|name| headers[**name].is_string());
    match named {
        Some(header) => {
            if sessions != [text(&headers[*header])] {
                seen.wrong.push(format!("{name}: the sessions are {sessions:?}"));
            }
            seen.sessions.insert(format!("`{header}`"));
        }
        None => {
            // A client that leaves out what was said first begins a new one.
            let requests = list(&talk["requests"]).iter();
            let is_cut = requests.into_iter().any(|request| request["not"] == SUMMARY);
            let is_own = sessions.iter().all(|session| session.starts_with("chat-"));
            if !is_own || sessions.len() != 1 + usize::from(is_cut) {
                seen.wrong.push(format!("{name}: the sessions are {sessions:?}"));
            }
            seen.sessions.insert("the first message".to_owned());
        }
    }
}

/// The version of a package that the suites install, where they do.
fn pinned(package: &str) -> Option<String> {
    let python = include_str!("requirements.txt").lines();
    let python = python
        .filter_map(|line| line.strip_prefix(package)?.strip_prefix("==")?.split(' ').next())
        .map(str::to_owned);
    let node: Json = serde_json::from_str(include_str!("libraries/package.json")).unwrap();
    let node = node["dependencies"][package].as_str().map(str::to_owned);
    python.chain(node).next()
}

#[test]
fn the_docs_say_what_was_tried_of_every_client() {
    let (mut rows, mut wrong) = (Vec::new(), Vec::new());
    for fixture in fixtures("captured") {
        let (client, version) = (text(&fixture["client"]), text(&fixture["version"]));
        let mut seen = Seen::default();
        for (number, talk) in list(&fixture["conversations"]).iter().enumerate() {
            let name: String = client.chars().filter(char::is_ascii_alphanumeric).collect();
            let name = format!("captured_{}_{number}", name.to_lowercase());
            replay(&name, talk, &mut seen);
        }
        wrong.append(&mut seen.wrong);
        let pinned = pinned(text(&fixture["package"]));
        assert!(pinned.as_deref().is_none_or(|pinned| pinned == version), "capture {client} again");
        let joined = |words: Vec<&str>| match words.is_empty() {
            true => "nothing".to_owned(),
            false => words.join(", "),
        };
        rows.push(format!(
            "| {client} | {}{} | {} | {} | {} | {} |",
            version_of(&fixture),
            if pinned.is_some() { ", runs in CI" } else { "" },
            joined(seen.protocols.iter().copied().collect()),
            joined(seen.sessions.iter().map(String::as_str).collect()),
            joined(seen.tried.iter().copied().collect()),
            joined(seen.left_out.iter().map(String::as_str).collect()),
        ));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let written = rows_below("Clients that were tried");
    assert_eq!(written, rows, "write:\n{}", rows.join("\n"));
}
