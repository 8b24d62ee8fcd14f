//! One token for a backend with many users: it names the user of a request. No other token does.

use crate::http::{Reply, chat, says, send};
use crate::people::{bearer, token, with_tokens};
use crate::stored;
use crate::upstream::Upstream;
use crate::wire::Wire;
use memory_agent_e2e::memory::value;
use memory_agent_e2e::{Client, Gateway, Json, json};

fn service(client: &mut Client) -> String {
    value(client, "SELECT memory_create_token('shop', 'backend', for_users => true)", &[])
}

fn with_user(session: &str, text: &str, user: &str) -> String {
    let mut body: Json = serde_json::from_str(&says(session, text)).unwrap();
    body["user"] = user.into();
    body.to_string()
}

fn mem0(gateway: &Gateway, token: &str, path: &str, user: Option<&str>, body: &Json) -> Reply {
    let bearer = bearer(token);
    let mut headers = vec![("authorization", &*bearer)];
    headers.extend(user.map(|user| ("x-memory-user", user)));
    send(gateway.address(), "POST", path, &headers, &body.to_string())
}

#[test]
fn a_service_names_the_user_it_acts_for() {
    let upstream = Upstream::saying("Noted.");
    let (gateway, mut client) = with_tokens("services_named", &upstream, &[]);
    let service = bearer(&service(&mut client));
    let ask = |named: Option<&str>, body: &str| {
        let mut headers = vec![("authorization", &*service)];
        headers.extend(named.map(|user| ("x-memory-user", user)));
        chat(&gateway, &headers, body)
    };
    assert_eq!(ask(None, &with_user("s", "Ann's locker is 12.", "ann")).status, 200);
    assert_eq!(ask(Some("bob"), &says("s", "Bob's locker is 34.")).status, 200);
    assert_eq!(ask(Some("carl"), &with_user("s", "Carl's locker is 56.", "ann")).status, 200);
    assert_eq!(ask(None, &says("s", "The shop's locker is 78.")).status, 200);
    assert_eq!(ask(Some(""), &with_user("s", "The shop has a second one.", "")).status, 200);
    for (user, first, count) in [
        ("ann", "user: Ann's locker is 12.", 2),
        ("bob", "user: Bob's locker is 34.", 2),
        ("carl", "user: Carl's locker is 56.", 2),
        ("shop", "user: The shop's locker is 78.", 4),
    ] {
        let turns = stored(&mut client, user, "s");
        assert_eq!((turns[0].as_str(), turns.len()), (first, count), "{user}");
    }
    // Each recalls what is its own.
    let hits = ask(None, &with_user("t", "Which locker is whose?", "bob")).json()["memory_hits"]
        .to_string();
    assert!(
        hits.contains("locker is 34")
            && !hits.contains("locker is 12")
            && !hits.contains("locker is 78"),
        "{hits}"
    );
    let responses = Wire::Responses.says("r", "Ann likes blue.").as_object().unwrap().clone();
    let responses =
        Json::from_iter(responses.into_iter().chain([("user".to_owned(), "ann".into())]));
    let headers = [("authorization", &*service)];
    send(gateway.address(), "POST", "/v1/responses", &headers, &responses.to_string());
    assert_eq!(stored(&mut client, "ann", "r")[0], "user: Ann likes blue.");
    for wrong in ["*", "a\u{7f}", " x "] {
        let refused = ask(None, &with_user("s", "Hello.", wrong));
        assert_eq!(refused.status, 400, "{wrong:?}");
    }
    assert!(!gateway.log().contains("carl"));
    let sent = format!("{:?}", upstream.requests());
    assert!(!sent.contains("x-memory"), "{sent}");
}

#[test]
fn no_other_token_names_a_user() {
    let upstream = Upstream::saying("Noted.");
    let (gateway, mut client) = with_tokens("services_others", &upstream, &[]);
    let ann = bearer(&token(&mut client, "ann", "laptop"));
    let headers = [("authorization", &*ann), ("x-memory-user", "bob")];
    assert_eq!(chat(&gateway, &headers, &with_user("s", "Hello.", "bob")).status, 200);
    assert_eq!(stored(&mut client, "ann", "s").len(), 2);
    assert_eq!(stored(&mut client, "bob", "s"), [""; 0]);
    let rights: String = value(
        &mut client,
        "SELECT string_agg(concat(t.user_id, ' ', t.for_users), ',') FROM memory_list_tokens() t",
        &[],
    );
    assert_eq!(rights, "ann f");
}

#[test]
fn mem0s_user_is_the_one_that_a_service_names() {
    let upstream = Upstream::saying("Noted.");
    let (gateway, mut client) = with_tokens("services_mem0", &upstream, &[]);
    let (service, ann) = (service(&mut client), token(&mut client, "ann", "laptop"));
    let add = |token: &str, user: &str, text: &str| {
        let body = json!({"messages": [{"role": "user", "content": text}], "user_id": user, "infer": false});
        mem0(&gateway, token, "/v3/memories/add/", None, &body).status
    };
    assert_eq!(add(&service, "ann", "Ann's locker is 12."), 200);
    assert_eq!(add(&service, "bob", "Bob's locker is 34."), 200);
    assert_eq!((add(&ann, "bob", "x"), add(&service, "*", "x")), (403, 400));
    let find = |user: Option<&str>, filters: Json| {
        let body = json!({"query": "Which locker?", "filters": filters});
        let mut reply = mem0(&gateway, &service, "/v3/memories/search/", user, &body);
        (reply.status, reply.json().to_string())
    };
    let named = json!({"user_id": "bob"});
    for (user, filters) in [
        (None, named.clone()),
        (None, json!({"AND": [{"created_at": {"gte": "2020-01-01"}}, named]})),
        (Some("bob"), json!({})),
    ] {
        let (status, found) = find(user, filters);
        assert!(
            status == 200 && found.contains("locker is 34") && !found.contains("locker is 12"),
            "{found}"
        );
    }
    // Two that differ are one too many.
    assert_eq!(find(Some("ann"), json!({"user_id": "bob"})).0, 403);
    assert!(!find(None, json!({})).1.contains("locker"), "the shop's own memory is empty");
}

#[test]
fn a_service_is_no_administrator() {
    let upstream = Upstream::saying("Noted.");
    let cluster = crate::cluster();
    memory_agent_e2e::memory::run(
        &mut cluster.connect("postgres"),
        "CREATE ROLE services_admin LOGIN",
    );
    let admin = Gateway::database(cluster, "services_admin", "services_admins");
    // The role needs its level before the gateway starts, and the database before that.
    let mut client = crate::database(cluster, "services_admins");
    memory_agent_e2e::memory::run(&mut client, "SELECT memory_grant('services_admin', 'admin')");
    let to = Gateway::database(cluster, crate::ROLE, "services_admins");
    let url = upstream.url();
    let gateway = Gateway::start(&[
        "--database",
        &to,
        "--upstream",
        &url,
        "--patience",
        crate::NEVER_LATE,
        "--admin-database",
        &admin,
        "--admin",
        "ops",
    ]);
    let token = bearer(&service(&mut client));
    let headers = [("authorization", &*token), ("x-memory-user", "ops")];
    let mut metrics = send(gateway.address(), "GET", "/metrics", &headers, "");
    assert_eq!(metrics.status, 200);
    assert!(!metrics.rest().unwrap().contains("llm_tokens_today"));
}
