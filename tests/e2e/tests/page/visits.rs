//! Signing in and out, and the cookie that stands for it.

use crate::reader::{Reader, read};
use crate::{database, gateway, with_life};
use memory_agent_e2e::memory::{run, value};
use memory_agent_e2e::{Client, Json, json, wait_until};
use std::time::Duration;

/// A line of the log comes soon.
const PATIENCE: Duration = Duration::from_secs(60);

fn token(client: &mut Client, user: &str) -> String {
    value(client, "SELECT memory_create_token($1, 'page')", &[&user])
}

#[test]
fn nothing_is_shown_before_somebody_has_signed_in() {
    let _client = with_life("visits_door");
    let gateway = gateway("visits_door", None);
    for path in [
        "/ui",
        "/ui/sessions",
        "/ui/session?session=moving",
        "/ui/search?q=x",
        "/ui/prompt?q=x",
        "/ui/import/progress",
        "/ui/memory/0199c3a5-0000-7000-8000-000000000a03",
        "/ui/files",
        "/ui/export",
        "/ui/background",
        "/ui/nothing",
    ] {
        let reply = Reader::of(&gateway).get(path);
        assert_eq!((reply.status, reply.header("location")), (303, Some("/ui/login")), "{path}");
        assert!(reply.body.is_empty(), "{path}");
    }
    for path in [
        "/ui/erased",
        "/ui/import",
        "/ui/import/preview",
        "/ui/retry",
        "/ui/add",
        "/ui/forget",
        "/ui/restore",
        "/ui/logout",
    ] {
        let reply = Reader::of(&gateway).post(path, &[("everything", "yes"), ("word", "ann")]);
        assert_eq!((reply.status, reply.header("location")), (303, Some("/ui/login")), "{path}");
    }
}

#[test]
fn a_token_shows_its_users_memory_and_no_other() {
    let mut client = with_life("visits_people");
    let (ann, bob) = (token(&mut client, "ann"), token(&mut client, "bob"));
    let gateway = gateway("visits_people", None);
    let mut ann = Reader::signed_in(&gateway, &ann);
    let mut bob = Reader::signed_in(&gateway, &bob);
    assert!(read(&ann.page("/ui")).contains("Rua das Flores"));
    assert!(read(&bob.page("/ui")).contains("Nothing is remembered yet."));
    let path = "/ui/memory/0199c3a5-0000-7000-8000-000000000a03";
    assert_eq!(bob.get(path).status, 404);
    assert_eq!(bob.get("/ui/session?session=moving").status, 404);
    bob.page("/ui");
    let forgotten = bob.post(&format!("{path}/forget"), &[]);
    assert_eq!(forgotten.header("location"), Some(&*format!("{path}?done=nothing")));
    assert!(read(&ann.page("/ui")).contains("Rua das Flores"));
    // A program's header is for the other paths; here the cookie alone counts.
    let bearer = format!("Bearer {}", token(&mut client, "carl"));
    let reply =
        bob.send("GET", "/ui", &[("authorization", &bearer), ("x-memory-token", &bearer)], b"");
    assert!(read(reply.text()).contains("bob"), "{}", reply.text());
}

#[test]
fn the_cookie_is_for_the_page_alone_and_says_nothing() {
    let mut client = database("visits_cookie");
    let ann = token(&mut client, "ann");
    let gateway = gateway("visits_cookie", None);
    let mut reader = Reader::of(&gateway);
    let before = reader.get("/ui/login");
    let before = before.header("set-cookie").unwrap().to_owned();
    let reply = reader.post("/ui/login", &[("token", &ann)]);
    let after = reply.header("set-cookie").unwrap().to_owned();
    assert_ne!(before, after, "a name that was known before is not the visit's");
    for cookie in [&before, &after] {
        let (value, rest) = cookie.split_once("; ").unwrap();
        assert_eq!(rest, "Path=/ui; HttpOnly; SameSite=Strict");
        assert!(value.starts_with("memory_agent=") && !value.contains(&ann[4..]), "{value}");
    }
    // Behind TLS, as a proxy or the browser itself says.
    for header in [("x-forwarded-proto", "https"), ("origin", "https://memory.example.org")] {
        let mut reader = Reader::of(&gateway);
        let named = [("x-forwarded-proto", "https")];
        let first = reader.send("GET", "/ui/login", &named, b"");
        let first = first.header("set-cookie").unwrap();
        let wanted = "Path=/; HttpOnly; SameSite=Strict; Secure";
        assert!(first.starts_with("__Host-memory_agent=") && first.ends_with(wanted), "{first}");
        let body = format!("form_token={}&token={ann}", reader.form_token);
        let headers = [header, ("sec-fetch-site", "same-origin")];
        let reply = reader.send("POST", "/ui/login", &headers, body.as_bytes());
        let cookie = reply.header("set-cookie").unwrap();
        assert!(cookie.starts_with("__Host-memory_agent=") && cookie.ends_with(wanted), "{cookie}");
    }
}

#[test]
fn wrong_tokens_are_bounded() {
    let mut client = database("visits_guess");
    let right = token(&mut client, "ann");
    let gateway = gateway("visits_guess", None);
    let mut signed_in = Reader::signed_in(&gateway, &right);
    let mut reader = Reader::of(&gateway);
    reader.get("/ui/login");
    for number in 0..30 {
        let guess = format!("mat_{number:064}");
        let reply = reader.post("/ui/login", &[("token", &guess)]);
        if reply.status == 429 {
            break;
        }
        assert_eq!(reply.status, 401);
        assert!(read(reply.text()).contains("This token is unknown, or has expired."));
        assert!(!reply.text().contains(&guess), "what was typed is not shown");
    }
    let mut is_bounded = false;
    for _ in 0..5 {
        let reply = reader.post("/ui/login", &[("token", "mat_x")]);
        is_bounded |= reply.status == 429 && reply.header("retry-after").is_some();
    }
    assert!(is_bounded);
    assert_eq!(signed_in.get("/ui").status, 200, "who is in stays in");
}

#[test]
fn a_visit_ends_with_its_token_and_when_somebody_signs_out() {
    let mut client = database("visits_end");
    let ann = token(&mut client, "ann");
    let gateway = gateway("visits_end", None);
    let mut reader = Reader::signed_in(&gateway, &ann);
    let mut other = Reader::signed_in(&gateway, &ann);
    let cookie = reader.cookie.clone();
    reader.page("/ui");
    let reply = reader.post("/ui/logout", &[]);
    assert_eq!(reply.header("location"), Some("/ui/login"));
    let cleared = reply.headers.iter().filter(|header| header.0 == "set-cookie");
    assert_eq!(cleared.filter(|header| header.1.ends_with("Max-Age=0")).count(), 2);
    reader.cookie = cookie;
    assert_eq!(reader.get("/ui").status, 303, "the cookie is worth nothing any more");
    assert_eq!(other.get("/ui").status, 200);
    run(&mut client, "SELECT memory_revoke_token('ann', 'page')");
    let reply = other.get("/ui");
    assert_eq!(reply.header("location"), Some("/ui/login?ended=yes"));
    assert!(read(other.get("/ui/login?ended=yes").text()).contains("has ended, or was revoked"));
}

#[test]
fn who_erases_everything_is_signed_out() {
    let mut client = with_life("visits_erased");
    let ann = token(&mut client, "ann");
    let gateway = gateway("visits_erased", None);
    let mut reader = Reader::signed_in(&gateway, &ann);
    reader.page("/ui/files");
    let reply = reader.post("/ui/erased", &[("everything", "yes"), ("word", "ann")]);
    assert!(read(reply.text()).contains("It is gone for good."), "{}", reply.text());
    assert_eq!(reader.get("/ui").status, 303);
    let tokens: i64 = value(&mut client, "SELECT count(*) FROM memory_agent.tokens", &[]);
    assert_eq!(tokens, 0);
}

#[test]
fn no_log_line_names_a_token_or_a_question() {
    let mut client = database("visits_log");
    let ann = token(&mut client, "ann");
    let gateway = gateway("visits_log", None);
    let mut reader = Reader::signed_in(&gateway, &ann);
    reader.page("/ui/search?q=something+very+private");
    let paths = || -> Vec<Json> {
        gateway.logged("request").iter().map(|line| line["path"].clone()).collect()
    };
    wait_until(PATIENCE, "three lines", || paths().len() == 3);
    assert_eq!(paths(), [json!("/ui/login"), json!("/ui/login"), json!("/ui/search")]);
    let log = gateway.log();
    assert!(!log.contains(&ann) && !log.contains("private") && !log.contains("ann"), "{log}");
}
