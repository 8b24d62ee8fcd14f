//! While tools answer, what a request was told stays before the user's message, byte for byte, until it holds no
//! longer.

use crate::http::send;
use crate::people::{bearer, token, with_tokens};
use crate::upstream::{Upstream, completion};
use crate::{NEVER_LATE, ROLE, cluster, for_ann};
use memory_agent_e2e::memory::{run, value};
use memory_agent_e2e::{Client, Gateway, Json, json};

const QUESTION: &str = "Which cake can I bake for Ann's birthday?";
/// Of what a tool was asked and answered, a reminder that Claude Code adds behind it is the last.
const REMINDER: &str =
    r#"{"type":"text","text":"<system-reminder>The list of tasks is empty.</system-reminder>"}"#;

/// A protocol: where it is, how a body begins, and how a call and its answer look.
struct Wire {
    path: &'static str,
    head: &'static str,
    step: fn(number: usize) -> String,
}

const WIRES: [Wire; 3] = [
    Wire {
        path: "/v1/chat/completions",
        head: r#"{"model":"m","messages":[{"role":"system","content":"Be brief."}"#,
        step: |number| {
            format!(
                r#",{{"role":"assistant","content":null,"tool_calls":[{{"id":"{number}","type":"function","function":{{"name":"shop","arguments":"{{}}"}}}}]}},{{"role":"tool","tool_call_id":"{number}","content":"Ann's cake {number} costs 20 euros."}}"#
            )
        },
    },
    Wire {
        path: "/v1/responses",
        head: r#"{"model":"m","instructions":"Be brief.","input":[{"role":"user","content":"Hello."}"#,
        step: |number| {
            format!(
                r#",{{"type":"function_call","call_id":"{number}","name":"shop","arguments":"{{}}"}},{{"type":"function_call_output","call_id":"{number}","output":"Ann's cake {number} costs 20 euros."}}"#
            )
        },
    },
    Wire {
        path: "/v1/messages",
        head: r#"{"model":"m","max_tokens":9,"system":"Be brief.","messages":[{"role":"user","content":"Hello."},{"role":"assistant","content":"Hello."}"#,
        step: |number| {
            let reminder = if number == 1 { format!(",{REMINDER}") } else { String::new() };
            format!(
                r#",{{"role":"assistant","content":[{{"type":"tool_use","id":"{number}","name":"shop","input":{{}}}}]}},{{"role":"user","content":[{{"type":"tool_result","tool_use_id":"{number}","content":"Ann's cake {number} costs 20 euros."}}{reminder}]}}"#
            )
        },
    },
];

impl Wire {
    /// The body after so many calls, without its end.
    fn body(&self, question: &str, calls: usize) -> String {
        let steps: String = (0..calls).map(self.step).collect();
        format!("{},{}{steps}", self.head, json!({"role": "user", "content": question}))
    }
}

/// A loop of one session.
struct Loop<'a> {
    gateway: &'a Gateway,
    upstream: &'a Upstream,
    wire: &'a Wire,
    session: &'a str,
    question: &'a str,
    token: Option<&'a str>,
}

impl Loop<'_> {
    /// Asks after so many calls: the body that went upstream without its end, and the hits.
    #[track_caller]
    fn ask(&self, calls: usize) -> (String, Json) {
        let body = self.wire.body(self.question, calls) + "]}";
        let bearer = bearer(self.token.unwrap_or_default());
        let mut headers = vec![("x-memory-id", self.session)];
        headers.extend(self.token.map(|_| ("authorization", &*bearer)));
        let mut reply = send(self.gateway.address(), "POST", self.wire.path, &headers, &body);
        assert_eq!((reply.status, reply.header("x-memory-failed")), (200, None));
        let sent = self.upstream.last().body;
        let hits = reply.json()["memory_hits"].clone();
        (sent.strip_suffix("]}").unwrap().to_owned(), hits)
    }
}

fn upstream() -> Upstream {
    Upstream::start(|_, answer| answer.json(&completion("")))
}

/// Stores a fact of ann's, and returns its id.
fn fact(client: &mut Client, text: &str) -> String {
    value(client, "SELECT memory_add($1, infer => false)::text", &[&text])
}

/// A gateway of ann's, and ann's session.
fn scene(name: &str, upstream: &Upstream) -> (Gateway, Client) {
    let (gateway, mut client) = for_ann(name, upstream, &[]);
    run(&mut client, "SET memory_agent.user_id = 'ann'");
    (gateway, client)
}

#[test]
fn what_a_request_was_told_stays_while_tools_answer() {
    let upstream = upstream();
    for (number, wire) in WIRES.iter().enumerate() {
        let (gateway, mut client) = scene(&format!("loops_stay_{number}"), &upstream);
        fact(&mut client, "Ann is allergic to hazelnuts.");
        fact(&mut client, "Ann likes cakes with lemon.");
        let (gateway, upstream, session) = (&gateway, &upstream, "s");
        let asking = Loop { gateway, upstream, wire, session, question: QUESTION, token: None };
        let (mut before, hits) = asking.ask(0);
        assert!(before.contains("allergic to hazelnuts"), "{before}");
        for calls in 1..4 {
            fact(&mut client, &format!("Ann's birthday cake {calls} is here."));
            let (body, now) = asking.ask(calls);
            assert!(body.starts_with(&before), "{calls}: {body}\n{before}");
            assert_eq!(now, hits, "{calls}");
            before = body;
        }
        // What the user says next is told what is known by then.
        let (next, _) = Loop { question: "Is there a birthday cake for Ann?", ..asking }.ask(0);
        assert!(next.contains("cake 3 is here."), "{next}");
        // So is the same question in another conversation.
        let (again, _) = asking.ask(0);
        assert!(again.contains("cake 3 is here."), "{again}");
    }
}

#[test]
fn nothing_at_all_stays_as_well() {
    let upstream = upstream();
    let (gateway, mut client) = scene("loops_nothing", &upstream);
    let (wire, session) = (&WIRES[0], "s");
    let (upstream, gateway) = (&upstream, &gateway);
    let asking = Loop { gateway, upstream, wire, session, question: QUESTION, token: None };
    let (first, hits) = asking.ask(0);
    assert_eq!((first.as_str(), &hits), (&*wire.body(QUESTION, 0), &json!([])));
    fact(&mut client, "Ann's birthday cake has lemon.");
    assert_eq!(asking.ask(1), (wire.body(QUESTION, 1), json!([])));
}

/// What ends what a loop was told: the name of the case, and the statements that do it to the memory `{id}`, of the
/// session `{session}`.
const ENDS: [(&str, &str); 7] = [
    ("forgotten", "SELECT memory_forget('{id}')"),
    ("corrected", "SELECT memory_update('{id}', 'Ann tolerates {session} nuts.')"),
    ("erased", "SELECT memory_erase(id => '{id}')"),
    (
        "replaced",
        "UPDATE memory_agent.entries SET fact_key = '{session}' WHERE id = '{id}'; \
         SELECT memory_add('Ann tolerates {session} nuts.', infer => false, fact_key => '{session}')",
    ),
    ("expired", "UPDATE memory_agent.entries SET expires_at = now() WHERE id = '{id}'"),
    (
        "rewritten",
        "UPDATE memory_agent.entries SET content = 'Ann tolerates nuts.' WHERE id = '{id}'",
    ),
    ("user_erased", "SELECT memory_erase(user_id => 'ann')"),
];

#[test]
fn what_holds_no_longer_is_told_no_longer() {
    let upstream = upstream();
    for (number, wire) in WIRES.iter().enumerate() {
        let (gateway, mut client) = scene(&format!("loops_end_{number}"), &upstream);
        for (case, ends) in ENDS {
            let session = format!("{case}{}", wire.path);
            let known = format!("Ann is allergic to {session} nuts.");
            let id = fact(&mut client, &known);
            let question = format!("Is Ann allergic to {session} nuts?");
            let asking = Loop {
                gateway: &gateway,
                upstream: &upstream,
                wire,
                session: &session,
                question: &question,
                token: None,
            };
            let (first, _) = asking.ask(0);
            assert!(first.contains(&known), "{session}: {first}");
            fact(&mut client, &format!("Ann eats no {session} nuts."));
            let (second, _) = asking.ask(1);
            assert!(second.starts_with(&first), "{session}: {second}");
            run(&mut client, &ends.replace("{id}", &id).replace("{session}", &session));
            let (third, hits) = asking.ask(2);
            assert!(!third.contains(&known), "{session}: {third}");
            // A row of an attached table keeps its id.
            let is_hit = hits.to_string().contains(&id);
            assert!(!is_hit || case == "rewritten", "{session}: {hits}");
            // From then on that stays.
            fact(&mut client, &format!("Ann gets {session} nuts."));
            let (fourth, now) = asking.ask(3);
            assert!(fourth.starts_with(&third), "{session}: {fourth}");
            assert_eq!(now, hits, "{session}");
        }
    }
}

/// The summary of a session, as the superuser writes it.
const SUMMARY: &str = "INSERT INTO memory_agent.session_summaries \
    (id, user_id, agent_id, session_id, level, content, method) \
    VALUES (gen_random_uuid(), 'ann', 'default', 's', 'L3', $1, 'window')";

#[test]
fn a_summary_stays_until_its_session_is_cleared() {
    let upstream = upstream();
    let (gateway, mut client) = scene("loops_summary", &upstream);
    fact(&mut client, "Ann is allergic to hazelnuts.");
    run(&mut client, "SELECT memory_ingest('s', 'user', 'Guests arrive on Sunday.')");
    let (wire, session) = (&WIRES[0], "s");
    let (upstream, gateway) = (&upstream, &gateway);
    let asking = Loop { gateway, upstream, wire, session, question: QUESTION, token: None };
    // A summary that comes later changes nothing.
    let (without, _) = asking.ask(0);
    client.execute(SUMMARY, &[&"A party is planned."]).unwrap();
    assert!(asking.ask(1).0.starts_with(&without));
    let (first, _) = asking.ask(0);
    assert!(first.contains("A party is planned."), "{first}");
    run(
        &mut client,
        "UPDATE memory_agent.session_summaries SET content = 'A large party is planned.'",
    );
    let (second, _) = asking.ask(1);
    assert!(second.starts_with(&first), "{second}");
    // As memory_clear does, which also ends memories that were told.
    run(&mut client, "UPDATE memory_agent.session_summaries SET is_active = false");
    let (third, _) = asking.ask(2);
    assert!(!third.contains("party is planned"), "{third}");
}

#[test]
fn a_loop_is_one_users_and_one_sessions() {
    let upstream = upstream();
    let (gateway, mut client) = with_tokens("loops_users", &upstream, &[]);
    let tokens = ["ann", "bob"].map(|user| token(&mut client, user, "t"));
    let wire = &WIRES[0];
    let add = |client: &mut Client, user: &str, text: &str| {
        run(client, &format!("SET memory_agent.user_id = '{user}'"));
        fact(client, text)
    };
    add(&mut client, "ann", "Ann is allergic to hazelnuts.");
    let asking = |session: &'static str, user: usize| {
        let (gateway, upstream, token) = (&gateway, &upstream, Some(&*tokens[user]));
        Loop { gateway, upstream, wire, session, question: QUESTION, token }
    };
    let (first, _) = asking("s", 0).ask(0);
    assert!(first.contains("hazelnuts"), "{first}");
    add(&mut client, "ann", "Ann's birthday cake has lemon.");
    add(&mut client, "bob", "Bob bakes a birthday cake of nuts.");
    let (other_session, _) = asking("t", 0).ask(1);
    assert!(other_session.contains("has lemon"), "{other_session}");
    let (bobs, hits) = asking("s", 1).ask(1);
    assert!(bobs.contains("Bob bakes") && !bobs.contains("hazelnuts"), "{bobs}");
    assert_eq!(hits.as_array().unwrap().len(), 1);
    let (anns, _) = asking("s", 0).ask(1);
    assert!(anns.starts_with(&first), "{anns}");
}

#[test]
fn a_gateway_that_starts_anew_tells_what_is_known_by_then() {
    let upstream = upstream();
    let (gateway, mut client) = scene("loops_restart", &upstream);
    fact(&mut client, "Ann is allergic to hazelnuts.");
    let ask = |gateway: &Gateway, calls: usize| {
        let (wire, session, upstream) = (&WIRES[2], "s", &upstream);
        Loop { gateway, upstream, wire, session, question: QUESTION, token: None }.ask(calls).0
    };
    let first = ask(&gateway, 0);
    fact(&mut client, "Ann's birthday cake has lemon.");
    assert!(ask(&gateway, 1).starts_with(&first));
    drop(gateway);
    let (to, url) = (Gateway::database(cluster(), ROLE, "loops_restart"), upstream.url());
    let arguments = [
        ["--database", &to],
        ["--messages-upstream", &url],
        ["--user", "ann"],
        ["--patience", NEVER_LATE],
    ];
    let gateway = Gateway::start(&arguments.concat());
    let third = ask(&gateway, 2);
    assert!(third.contains("has lemon"), "{third}");
    fact(&mut client, "Ann's birthday cake is large.");
    assert!(ask(&gateway, 3).starts_with(&third));
}
