//! What an attacker tries who wants to read or change the memory of others by way of the page: texts that are
//! no texts, forms of other sites, frames, names of other hosts.

use crate::reader::Reader;
use crate::{LISBON, database, gateway, gateway_as, gateway_with_admins, with_life};
use memory_agent_e2e::http::{encoded, request};
use memory_agent_e2e::memory::{run, value};
use memory_agent_e2e::{Client, Gateway};

/// Markup that runs a script in more than one place where it could stand.
pub const PAYLOAD: &str = "\"'><img src=x onerror=\"window.taken=1\"><script>window.taken=1</script></textarea><svg onload=\"taken=1\">";
/// A name with markup. It is the user's, a session's and an agent's.
pub const NAME: &str = "<script>window.taken=1</script>\"'><b onclick=x>";

/// A database in which everything that can be text is [`PAYLOAD`]. Returns ids of memories.
pub fn poisoned(name: &str) -> (Client, Vec<String>) {
    let mut client = database(name);
    client.execute("SELECT set_config('memory_agent.user_id', $1, false)", &[&NAME]).unwrap();
    let metadata =
        memory_agent_e2e::json!({"name": PAYLOAD, PAYLOAD: PAYLOAD, "parent_id": PAYLOAD});
    let turn: String = value(
        &mut client,
        "SELECT memory_ingest($1, 'user', $2, agent_id => $1, metadata => $3)::text",
        &[&NAME, &PAYLOAD, &metadata],
    );
    run(&mut client, "SELECT set_config('memory_agent.agent_id', '', false)");
    let fact: String = value(
        &mut client,
        "SELECT memory_add($2, session_id => $1, infer => false, fact_key => $1, metadata => $3)::text",
        &[&NAME, &PAYLOAD, &metadata],
    );
    let old: String = value(
        &mut client,
        "SELECT memory_add('x ' || $2, session_id => $1, infer => false, fact_key => 'k' || $1)::text",
        &[&NAME, &PAYLOAD],
    );
    client
        .execute("SELECT memory_add('y ' || $2, session_id => $1, infer => false, fact_key => 'k' || $1)", &[&NAME, &PAYLOAD])
        .unwrap();
    let document: String = value(
        &mut client,
        "SELECT memory_add_document($1 || repeat(' and more of it', 9), $1, metadata => $2)::text",
        &[&PAYLOAD, &metadata],
    );
    let turn_id = memory_agent_e2e::Uuid::parse_str(&turn).unwrap();
    client.execute("SELECT memory_forget($1, $2)", &[&turn_id, &PAYLOAD]).unwrap();
    client.execute("SELECT memory_restore($1)", &[&turn_id]).unwrap();
    client
        .execute(
            "UPDATE memory_agent.entries SET source_ids = ARRAY[$1::uuid] WHERE kind = 'fact'",
            &[&turn_id],
        )
        .unwrap();
    for (level, number) in [("L3", 0), ("L1", 1)] {
        client
            .execute(
                "INSERT INTO memory_agent.session_summaries \
                     (id, user_id, agent_id, session_id, level, ordinal, content, method, topics, decisions, questions) \
                 SELECT gen_random_uuid(), $1, s.agent_id, $1, $2, $3, $4, 'brief', ARRAY[$4], ARRAY[$4], ARRAY[$4] \
                   FROM memory_agent.sessions s",
                &[&NAME, &level, &number, &PAYLOAD],
            )
            .unwrap();
    }
    client
        .execute(
            "INSERT INTO memory_agent.jobs (id, kind, user_id, session_id, status, last_error) \
             VALUES (gen_random_uuid(), 'extract', $1, $1, 'dead', $2)",
            &[&NAME, &PAYLOAD],
        )
        .unwrap();
    client
        .execute(
            "INSERT INTO memory_agent.llm_calls (id, user_id, purpose, model, status) \
             VALUES (gen_random_uuid(), $1, 'extract', $2, 'ok')",
            &[&NAME, &PAYLOAD],
        )
        .unwrap();
    client.execute("SELECT memory_create_token($1, $1)", &[&NAME]).unwrap();
    (client, vec![turn, fact, old, document])
}

/// Every view over what is poisoned, and what its address can say.
pub fn poisoned_paths(ids: &[String]) -> Vec<String> {
    let (name, payload) = (encoded(NAME), encoded(PAYLOAD));
    let mut paths = vec![
        "/ui".to_owned(),
        "/ui?as_of=2999-01-01T00:00".to_owned(),
        "/ui/sessions".to_owned(),
        format!("/ui/session?session={name}&agent={name}"),
        format!("/ui/session?session={name}"),
        format!("/ui/search?q={payload}"),
        format!("/ui/search?q=more&session={name}&top=1"),
        format!("/ui/search?q=more&as_of={payload}&top={payload}"),
        format!("/ui?from={payload}&as_of={payload}"),
        format!(
            "/ui?q={payload}&session={name}&key={name}&marker={payload}&program={payload}&sort={payload}"
        ),
        format!("/ui?done=corrected&ids={payload}"),
        format!("/ui/sessions?q={payload}"),
        format!("/ui/prompt?q={payload}&session={name}&budget={payload}"),
        "/ui?unverified=yes".to_owned(),
        format!("/ui/background?done={payload}"),
        format!("/ui/memory/{payload}"),
        format!("/ui/{payload}"),
        "/ui/files".to_owned(),
    ];
    paths.extend(ids.iter().map(|id| format!("/ui/memory/{id}?done={payload}")));
    paths
}

fn assert_harmless(path: &str, html: &str) {
    for bad in ["<img src=x", "<svg onload", "<b onclick", "<script>"] {
        assert!(!html.contains(bad), "{path} has {bad}:\n{html}");
    }
    let ends = [html.matches("<textarea").count(), html.matches("</textarea>").count()];
    assert_eq!(ends[0], ends[1], "{path}: nothing ends a field early\n{html}");
    assert_eq!(html.matches("<script").count(), 1, "{path}: the one script\n{html}");
}

#[test]
fn texts_stay_texts_in_every_view() {
    let (_client, ids) = poisoned("attacks_texts");
    let gateway = gateway("attacks_texts", Some(NAME));
    let mut reader = Reader::of(&gateway);
    let mut shown = 0;
    for path in poisoned_paths(&ids) {
        let reply = reader.get(&path);
        assert_harmless(&path, reply.text());
        shown += reply.text().matches("&lt;img src=x").count();
    }
    assert!(shown > 20, "they were shown {shown} times");
    reader.page("/ui/files");
    for id in &ids {
        let reply = reader.post("/ui/erase", &[("id", id)]);
        assert_eq!(reply.status, 200);
        assert_harmless("/ui/erase", reply.text());
    }
    for field in [("session", NAME), ("everything", "yes"), ("id", PAYLOAD)] {
        assert_harmless("/ui/erase", reader.post("/ui/erase", &[field, ("agent", NAME)]).text());
    }
    let file = format!("---\n{PAYLOAD}: [\n---\n");
    let name = "<img src=x onerror=taken=1>.md";
    assert_harmless("/ui/import", reader.upload("/ui/import", &[(name, file.as_bytes())]).text());
    let wrong = reader.post(&format!("/ui/memory/{}/correct", ids[2]), &[("content", PAYLOAD)]);
    assert_harmless("/correct", wrong.text());
    let admins = gateway_with_admins("attacks_texts", NAME, NAME);
    let mut admin = Reader::of(&admins);
    for path in
        ["/ui/background".to_owned(), format!("/ui/background?of={}&done=x", encoded(PAYLOAD))]
    {
        let page = admin.page(&path);
        assert_harmless(&path, &page);
        assert!(page.matches("&lt;script&gt;window").count() >= 2, "{path}: {page}");
    }
    assert!(admin.page("/ui/background").contains("&lt;img src=x"), "the name of a model");
}

#[test]
fn every_answer_tells_the_browser_what_it_may_do() {
    let _client = with_life("attacks_headers");
    let gateway = gateway("attacks_headers", Some("ann"));
    let mut reader = Reader::of(&gateway);
    let one = format!("/ui/memory/{LISBON}");
    for path in [
        "/ui",
        "/ui/sessions",
        "/ui/search?q=x",
        "/ui/prompt?q=x",
        &one,
        "/ui/files",
        "/ui/background",
        "/ui/export",
        "/ui/nothing",
        "/ui/login",
    ] {
        let reply = reader.get(path);
        assert_eq!(reply.header("cache-control"), Some("no-store"), "{path}");
        let policy = reply.header("content-security-policy").unwrap();
        for part in [
            "default-src 'none'",
            "frame-ancestors 'none'",
            "form-action 'self'",
            "base-uri 'none'",
        ] {
            assert!(policy.contains(part), "{path}: {policy}");
        }
        assert!(!policy.contains("unsafe") && !policy.contains("http"), "{policy}");
        assert_eq!(reply.header("x-frame-options"), Some("DENY"), "{path}");
        assert_eq!(reply.header("x-content-type-options"), Some("nosniff"), "{path}");
        assert_eq!(reply.header("referrer-policy"), Some("same-origin"), "{path}");
        assert!(reply.header("access-control-allow-origin").is_none(), "{path}");
        let html = String::from_utf8_lossy(&reply.body).into_owned();
        for inline in [" style=", " onclick=", "javascript:", "src=\"http", "href=\"http", "<style"]
        {
            assert!(!html.contains(inline), "{path} has {inline}");
        }
    }
    // What is the same for everybody, and changes with the program's version, browsers may keep.
    for path in ["/ui/page.css", "/ui/page.js", "/ui/icon.svg"] {
        let reply = reader.get(path);
        assert_eq!(reply.header("cache-control"), Some("public, max-age=86400"), "{path}");
        assert_eq!(reply.header("x-content-type-options"), Some("nosniff"), "{path}");
    }
    for (path, kind) in [
        ("/ui/page.css", "text/css"),
        ("/ui/page.js", "text/javascript"),
        ("/ui/icon.svg", "image/svg+xml"),
    ] {
        let reply = reader.get(path);
        assert!(reply.header("content-type").unwrap().starts_with(kind), "{path}");
        assert!(
            !reply.text().contains("http://") || path.ends_with("svg"),
            "{path} asks nobody else"
        );
    }
}

/// Sends a form to forget a fact, as `change` makes it.
fn forgets(gateway: &Gateway, headers: &[(&str, &str)], body: &str) -> u16 {
    let path = format!("/ui/memory/{LISBON}/forget");
    request(gateway.address(), "POST", &path, headers, body.as_bytes()).status
}

#[test]
fn forms_of_other_sites_do_nothing() {
    let mut client = with_life("attacks_forms");
    let gateway = gateway("attacks_forms", Some("ann"));
    let mut reader = Reader::of(&gateway);
    reader.page("/ui/files");
    let (cookie, token) = (reader.cookie.clone().unwrap(), reader.form_token.clone());
    let body = format!("form_token={token}");
    let mut other = Reader::of(&gateway);
    other.page("/ui/files");
    assert!(!token.is_empty() && token != other.form_token);
    let own = format!("http://{}", gateway.address());
    let stolen = format!("form_token={}", other.form_token);
    for (headers, body, why) in [
        (vec![("origin", own.as_str())], body.as_str(), "no cookie"),
        (vec![("cookie", &*cookie)], "", "no form token"),
        (vec![("cookie", &*cookie)], "form_token=", "an empty one"),
        (vec![("cookie", &*cookie)], &stolen, "that of another visit"),
        (vec![("cookie", &*cookie), ("origin", "http://localhost:3000")], &body, "another port"),
        (vec![("cookie", &*cookie), ("origin", "https://evil.example")], &body, "another site"),
        (vec![("cookie", &*cookie), ("origin", "null")], &body, "a frame"),
        (
            vec![("cookie", &*cookie), ("sec-fetch-site", "cross-site")],
            &body,
            "as the browser says",
        ),
        (vec![("cookie", &*cookie), ("sec-fetch-site", "same-site")], &body, "as the browser says"),
        (vec![("cookie", &*cookie), ("host", "evil.example")], &body, "a name of its own"),
        (vec![("cookie", &*cookie), ("content-type", "text/plain")], "x=1", "no form"),
    ] {
        assert_eq!(forgets(&gateway, &headers, body), 403, "{why}");
    }
    let read: String = value(
        &mut client,
        "SELECT content FROM memory_entries WHERE id = $1::text::uuid",
        &[&LISBON],
    );
    assert!(read.contains("Rua das Flores"), "{read}");
    // What changes something is no GET.
    for path in [
        format!("/ui/memory/{LISBON}/forget"),
        "/ui/erased".into(),
        "/ui/logout".into(),
        "/ui/retry".into(),
        "/ui/add".into(),
        "/ui/import/preview".into(),
    ] {
        assert_eq!(reader.get(&path).status, 405, "{path}");
    }
    assert_eq!(forgets(&gateway, &[("cookie", &cookie), ("origin", &own)], &body), 303);
}

#[test]
fn a_page_of_another_host_reads_nothing() {
    let _client = with_life("attacks_host");
    let gateway = gateway("attacks_host", Some("ann"));
    for headers in [[("host", "evil.example")], [("origin", "https://evil.example")]] {
        let reply = request(gateway.address(), "GET", "/ui", &headers, b"");
        assert_eq!(reply.status, 403);
        assert!(!reply.text().contains("Rua das Flores"));
    }
}

#[test]
fn nobody_is_signed_in_by_somebody_else() {
    let mut client = database("attacks_login");
    let token: String = value(&mut client, "SELECT memory_create_token('eve', 'page')", &[]);
    let gateway = gateway("attacks_login", None);
    let mut eve = Reader::of(&gateway);
    eve.get("/ui/login");
    // The form of eve's browser, sent by another one, with and without a cookie of its own.
    let body = format!("form_token={}&token={token}", eve.form_token);
    let mut ann = Reader::of(&gateway);
    assert_eq!(ann.send("POST", "/ui/login", &[], body.as_bytes()).status, 403);
    ann.get("/ui/login");
    assert_eq!(ann.send("POST", "/ui/login", &[], body.as_bytes()).status, 403);
    let body = format!("form_token={}&token={token}", ann.form_token);
    let foreign = [("origin", "https://evil.example")];
    assert_eq!(ann.send("POST", "/ui/login", &foreign, body.as_bytes()).status, 403);
    // A token in an address signs nobody in.
    let reply = ann.get(&format!("/ui?token={token}"));
    assert_eq!(reply.header("location"), Some("/ui/login"));
    let large = "x".repeat(100_000);
    assert_eq!(ann.post("/ui/login", &[("token", &large)]).status, 403);
}

#[test]
fn a_role_that_reads_everything_shows_one_users_memory() {
    let mut client = with_life("attacks_superuser");
    run(
        &mut client,
        "SET memory_agent.user_id = 'bob'; SELECT memory_ingest('bobs', 'user', 'The secret of bob.')",
    );
    let gateway = gateway_as("postgres", "attacks_superuser", Some("ann"));
    let mut reader = Reader::of(&gateway);
    for path in [
        "/ui",
        "/ui?q=secret",
        "/ui?unverified=yes",
        "/ui/sessions",
        "/ui/sessions?q=secret",
        "/ui/session?session=bobs",
        "/ui/search?q=secret",
        "/ui/prompt?q=secret",
        "/ui/background",
    ] {
        let reply = reader.get(path);
        assert!(
            !reply.text().contains("The secret of bob") && !reply.text().contains(">bobs<"),
            "{path}"
        );
    }
    let id: String =
        value(&mut client, "SELECT id::text FROM memory_agent.entries WHERE user_id = 'bob'", &[]);
    assert_eq!(reader.get(&format!("/ui/memory/{id}")).status, 404);
    let archive = String::from_utf8_lossy(&reader.get("/ui/export").body).into_owned();
    assert!(!archive.contains("bobs"));
}
