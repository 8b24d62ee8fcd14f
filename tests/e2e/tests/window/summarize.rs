//! `memory_summarize`: never longer than asked for, signed, and on record.

use crate::with_llm;
use memory_agent_e2e::llm::{Call, Fault, FaultPlan, LlmStub, Purpose, SummaryKind};
use memory_agent_e2e::memory::{run, value, values};
use memory_agent_e2e::{Client, Cluster, Json, expect_error, shared};

/// A key as somebody would make one, with a blank line after it.
const KEY: &str = "6f1d8a1c0b7e4f52a9d3";

/// Short sentences, each of some ten tokens.
fn text(sentences: usize) -> String {
    let sentence = |number| format!("On day {number} the ferry left the harbour on time. ");
    (0..sentences).map(sentence).collect()
}

#[track_caller]
fn summarize(client: &mut Client, text: &str, max_tokens: i32) -> Json {
    value(client, "SELECT memory_summarize($1, $2::int4)", &[&text, &max_tokens])
}

fn history(client: &mut Client) -> Vec<Json> {
    values(
        client,
        "SELECT body || jsonb_build_object('user', user_id) FROM memory_agent.history \
          WHERE op = 'summarize' AND entry_id IS NULL \
            AND commitment = sha256(salt || convert_to(body::text, 'UTF8')) ORDER BY at",
        &[],
    )
}

fn kinds(stub: &LlmStub) -> Vec<SummaryKind> {
    let kind = |call: Call| match call.purpose() {
        Purpose::Summary(summary) => summary.kind,
        other => panic!("{other:?}"),
    };
    stub.calls().into_iter().map(kind).collect()
}

fn start(model: impl memory_agent_e2e::llm::Model) -> (LlmStub, Cluster) {
    with_llm(model, &[("memory_agent.worker", "off")])
}

#[test]
fn summaries_are_signed_with_the_audit_key() {
    let (stub, cluster) = start(|_: &Call| "Here is the summary:\nThe ferry is \"punctual\".");
    let mut client = cluster.database("summarize_signed").connect();
    run(&mut client, "CREATE EXTENSION pgcrypto");
    let unsigned = summarize(&mut client, &text(20), 40);
    assert_eq!(unsigned["summary"], "The ferry is \"punctual\".");
    assert_eq!((&unsigned["signature"], &unsigned["key_id"]), (&Json::Null, &Json::Null));

    let file = cluster.socket_directory().join("audit.key");
    std::fs::write(&file, format!("  {KEY} \n\n")).unwrap();
    cluster.alter_system("memory_agent.audit_key_file", file.to_str());
    let mut client = cluster.connect("summarize_signed");
    run(&mut client, "SET memory_agent.user_id = 'alice'");
    let original = format!("  {}é\n", text(20));
    let signed = summarize(&mut client, &original, 40);
    let expected: bool = value(
        &mut client,
        "SELECT encode(hmac(concat_ws(E'\\n', 'memory_agent summary 1', \
                            encode(sha256(convert_to($1, 'UTF8')), 'hex'), $2::jsonb->>'created_at', \
                            $2::jsonb->>'summary'), $3, 'sha256'), 'hex') = $2::jsonb->>'signature' \
             AND $2::jsonb->>'text_sha256' = encode(sha256(convert_to($1, 'UTF8')), 'hex') \
             AND abs(extract(epoch FROM now() - ($2::jsonb->>'created_at')::timestamptz)) < 600 \
             AND $2::jsonb->>'key_id' = left(encode(hmac('memory_agent audit key', $3, 'sha256'), 'hex'), 16)",
        &[&original, &signed, &KEY],
    );
    assert!(expected, "{signed:#}");
    assert_eq!(signed["model"], "stub-1");
    let tokens: i32 =
        value(&mut client, "SELECT memory_count_tokens($1)", &[&signed["summary"].as_str()]);
    assert_eq!(signed["token_count"], tokens);

    // A new key without a reload, and no key at all.
    std::fs::write(&file, "another\n").unwrap();
    let other = summarize(&mut client, &text(20), 40);
    assert_ne!(other["key_id"], signed["key_id"]);
    let calls = stub.call_count();
    for wrong in [Some(""), None] {
        match wrong {
            Some(content) => std::fs::write(&file, content).unwrap(),
            None => std::fs::remove_file(&file).unwrap(),
        }
        let failed = client.query("SELECT memory_summarize($1, 40)", &[&text(20)]);
        let message = expect_error(failed, "F0000");
        assert!(message.contains("audit_key_file") && !message.contains("audit.key"), "{message}");
    }
    assert_eq!(stub.call_count(), calls, "nobody was asked for what could not be signed");

    let with_user = |document: &Json| {
        let mut document = document.clone();
        document["user"] = "alice".into();
        document
    };
    assert_eq!(history(&mut client), [&unsigned, &signed, &other].map(with_user));
    assert!(!cluster.log().contains(KEY));
    let recorded: Vec<String> = values(
        &mut client,
        "SELECT DISTINCT concat_ws('|', purpose, status, user_id) FROM memory_agent.llm_calls",
        &[],
    );
    assert_eq!(recorded, ["summarize|ok|alice"]);
}

#[test]
fn a_summary_is_never_longer_than_asked_for() {
    let (stub, cluster) = start(|_: &Call| text(12));
    let mut client = cluster.database("summarize_length").connect();
    let cut = summarize(&mut client, &text(60), 50);
    assert_eq!(stub.call_count(), 3, "asked twice to be shorter");
    let last = stub.calls().remove(2);
    assert!(last.last_message("user").contains("the limit is 50"), "{}", last.body);
    let summary = cut["summary"].as_str().unwrap();
    assert!(summary.ends_with("on time.") && text(12).starts_with(summary), "{summary}");
    assert!(cut["token_count"].as_i64().unwrap() <= 50);

    // The shortest answer is kept, also when asking again fails.
    stub.set_model(|call: &Call| if call.number.is_multiple_of(3) { text(9) } else { text(12) });
    stub.faults(FaultPlan::when(|call| {
        (call.number > 3 && !call.is_test()).then_some(Fault::Status(400))
    }));
    let shorter = summarize(&mut client, &text(60), 20);
    assert!(shorter["token_count"].as_i64().unwrap() <= 20);
    assert_eq!(shorter["summary"], text(1).trim());

    // The third answer fits.
    stub.faults(FaultPlan::none());
    let before = stub.call_count();
    stub.set_model(move |call: &Call| text(12 - 5 * (call.number - before)));
    let third = summarize(&mut client, &text(60), 40);
    assert_eq!((third["summary"].as_str(), stub.call_count() - before), (Some(text(2).trim()), 3));

    // What is short enough is its own summary.
    let calls = stub.call_count();
    let same = summarize(&mut client, "  The ferry left.\n", 16);
    assert_eq!((&same["summary"], &same["model"]), (&Json::from("The ferry left."), &Json::Null));
    assert_eq!(stub.call_count(), calls);
}

#[test]
fn long_texts_are_condensed_in_parts() {
    let (stub, cluster) = start(|call: &Call| match call.purpose() {
        Purpose::Summary(summary) => match summary.kind {
            SummaryKind::Chunk => "The ferry left each day.".to_owned(),
            SummaryKind::Meta => {
                format!("{} parts.", call.data()["summaries"].as_array().unwrap().len())
            }
            kind => format!("{kind:?}."),
        },
        other => panic!("{other:?}"),
    });
    let mut client = cluster.database("summarize_parts").connect();
    run(&mut client, "SET memory_agent.summary_chunk_tokens = 200");
    assert_eq!(summarize(&mut client, &text(12), 30)["summary"], "Brief.");
    assert_eq!(kinds(&stub), [SummaryKind::Brief]);
    let parts = summarize(&mut client, &text(60), 30)["summary"].as_str().unwrap().to_owned();
    let chunks = kinds(&stub).iter().filter(|kind| **kind == SummaryKind::Chunk).count();
    assert!((6..=8).contains(&chunks), "{chunks} chunks of 200 tokens, which overlap");
    assert_eq!(parts, format!("{chunks} parts."));
    run(&mut client, "SET memory_agent.summary_chunk_tokens = 5000");
    assert_eq!(summarize(&mut client, &text(60), 30)["summary"], "Standard.");
    let journal = stub.call_count();
    run(
        &mut client,
        &format!("SELECT memory_summarize('{}', content_type => 'journal')", text(60)),
    );
    let calls = stub.calls();
    assert_ne!(calls[journal].system(), calls[journal - 1].system(), "another kind, other words");
    let asked = match calls[journal].purpose() {
        Purpose::Summary(summary) => summary.target_tokens,
        other => panic!("{other:?}"),
    };
    assert_eq!(asked, 128, "the default");
}

#[test]
fn the_summary_model_is_asked_and_a_session_configures_nothing() {
    let stub = LlmStub::start(|call: &Call| format!("By {}.", call.model()));
    let cluster = Cluster::builder()
        .preload(true)
        .setting("memory_agent.llm_base_url", stub.base_url())
        .setting("memory_agent.llm_model", "large")
        .setting("memory_agent.summary_model", "small")
        .start();
    let mut client = cluster.database("summarize_model").connect();
    assert_eq!(summarize(&mut client, &text(20), 30)["summary"], "By small.");
}

#[test]
fn failures_are_errors_and_leave_nothing() {
    let (stub, cluster) = start(|_: &Call| "");
    let mut client = cluster.database("summarize_failures").connect();
    let long = text(20);
    let call = "SELECT memory_summarize($1, 40)";
    expect_error(client.query(call, &[&long]), "58000");
    stub.faults(FaultPlan::always(Fault::Status(400)));
    expect_error(client.query(call, &[&long]), "58000");
    stub.set_down(true);
    expect_error(client.query(call, &[&long]), "58000");
    assert!(history(&mut client).is_empty());
    let calls = stub.call_count();
    run(&mut client, "BEGIN READ ONLY");
    expect_error(client.query(call, &[&long]), "25006");
    run(&mut client, "ROLLBACK");
    for arguments in
        ["''", "NULL", "'x', 15", "'x', 100001", "'x', 16, 'poem'", "repeat('x', 1048577)"]
    {
        let query = format!("SELECT memory_summarize({arguments})");
        expect_error(client.query(&query, &[]), "22023");
    }
    assert_eq!(stub.call_count(), calls);
    let mut without = shared().database("summarize_without").connect();
    expect_error(without.query(call, &[&long]), "55000");
}
