//! Input that no conversation should hold, and all do: refused with a reason, or stored as it is.

use memory_agent_e2e::memory::{recall, recalled_texts, run, value};
use memory_agent_e2e::{Client, Uuid, expect_error, shared};

const REFUSED: [&str; 22] = [
    "'s', 'user', ''",
    "'s', 'user', E' \\n\\t '",
    "'s', 'user', NULL",
    "'s', 'robot', 'x'",
    "'s', 'USER', 'x'",
    "'s', '', 'x'",
    "'s', NULL, 'x'",
    "'', 'user', 'x'",
    "NULL, 'user', 'x'",
    "repeat('s', 513), 'user', 'x'",
    "'s', 'user', repeat('x ', 1048577)",
    "'s', 'user', 'x', metadata => '[]'",
    "'s', 'user', 'x', metadata => '\"text\"'",
    "'s', 'user', 'x', metadata => 'null'",
    "'s', 'user', 'x', metadata => jsonb_build_object('k', repeat('x', 1048577))",
    "'s', 'user', 'x', user_id => ''",
    "'s', 'user', 'x', user_id => repeat('u', 513)",
    "'s', 'user', 'x', agent_id => ' '",
    "'s', 'user', 'x', created_at => 'infinity'",
    "'s', 'user', 'x', created_at => '-infinity'",
    "'s', 'user', 'x', ttl => '0'",
    "'s', 'user', 'x', ttl => '-1 day'",
];

#[test]
fn refused_with_a_hint_and_nothing_is_stored() {
    let mut client = shared().database("refused").connect();
    for arguments in REFUSED {
        let result = client.query(&format!("SELECT memory_ingest({arguments})"), &[]);
        let message = expect_error(result, "22023");
        assert!(
            message.lines().nth(1).is_some_and(|hint| !hint.is_empty()),
            "{arguments}: {message}"
        );
        assert!(message.len() < 1000, "the message repeats the input: {arguments}");
    }
    assert!(super::row_counts(&mut client).iter().all(|(_, rows)| *rows == 0));
}

/// What others call the user is told from what nobody calls anything.
#[test]
fn a_role_of_another_program_is_translated() {
    let mut client = shared().database("roles_of_others").connect();
    let mut said = |role: &str| {
        let result = client.query("SELECT memory_ingest('s', $1, 'x')", &[&role]);
        expect_error(result, "22023")
    };
    for (role, meant) in [("human", "user"), ("AI", "assistant"), ("developer", "system")] {
        let message = said(role);
        let suggestion = format!("tool, memory; did you mean \"{meant}\"?\nWhat the person says");
        assert!(message.contains(&suggestion), "{message}");
    }
    assert!(!said("robot").contains("did you mean"));
}

#[test]
fn nul_cannot_get_in() {
    let mut client = shared().database("nul").connect();
    let batch = r#"SELECT memory_ingest_batch('[{"role": "user", "content": "a\u0000b"}]', 's')"#;
    expect_error(client.query(batch, &[]), "22P05");
    expect_error(client.query("SELECT memory_ingest('s', 'user', $1)", &[&"a\0b"]), "22021");
    assert!(super::row_counts(&mut client).iter().all(|(_, rows)| *rows == 0));
}

/// Stores a text and checks that it came back as it went in.
fn store(client: &mut Client, content: &str) -> Uuid {
    let id: Uuid = value(client, "SELECT memory_ingest('s', 'user', $1)", &[&content]);
    let same: bool = value(
        client,
        "SELECT content = $2 FROM memory_agent.entries WHERE id = $1",
        &[&id, &content],
    );
    assert!(same);
    id
}

#[test]
fn text_of_every_script_is_found_by_its_words() {
    let mut client = shared().database("scripts").connect();
    let texts = [
        ("Let's celebrate 🎉🎂 with 👩‍👩‍👧‍👦 at noon", "celebrate"),
        ("אני גר בתל אביב", "אביב"),
        ("أعيش في القاهرة منذ عامين", "القاهرة"),
        ("Я живу в Санкт-Петербурге", "живу"),
        ("私は東京に住んでいます", "私は東京に住んでいます"),
        ("naïve façade Ångström", "façade"),
    ];
    for (text, _) in texts {
        store(&mut client, text);
    }
    // Two emoji and nothing else: no word, but an embedding.
    store(&mut client, "🎉🎂");
    for (text, word) in texts {
        let found = recalled_texts(&mut client, &format!("'{word}', rerank => false"));
        assert_eq!(found[0], text, "{word}");
    }
    let all = recall(&mut client, "'🎉', top_k => 20, rerank => false");
    assert_eq!(all.len(), 7);
}

#[test]
fn control_characters_and_sql_are_just_text() {
    let mut client = shared().database("control_characters").connect();
    store(&mut client, "'); DROP TABLE memory_agent.entries; --");
    store(&mut client, "bell \u{7} escape \u{1b}[31m backspace \u{8} end");
    store(&mut client, "\u{feff}byte order mark \u{202e}reversed\u{202c} \u{fffd}");
    store(&mut client, r"back\slash %s $1 {} \u0000");
    assert_eq!(recalled_texts(&mut client, "'byte order', top_k => 1").len(), 1);
}

#[test]
fn what_a_clock_ahead_stored_is_as_fresh_as_now() {
    let mut client = shared().database("future").connect();
    run(
        &mut client,
        "SELECT memory_ingest('s', 'user', 'The rocket lands.', created_at => now() + interval '23 hours')",
    );
    let rows = recall(&mut client, "'rocket'");
    assert_eq!(rows[0].recency, 1.0);
    run(
        &mut client,
        "SELECT memory_ingest('s', 'user', 'The rocket starts.', created_at => '4000-01-01 BC')",
    );
    let rows = recall(&mut client, "'rocket starts', top_k => 2, rerank => false");
    assert_eq!(rows.len(), 2);
    assert!(rows.iter().all(|row| row.score.is_finite() && (0.0..=1.0).contains(&row.recency)));
}

#[test]
fn nothing_was_said_at_a_time_that_has_not_come() {
    let mut client = shared().database("not_yet").connect();
    for call in [
        "memory_ingest('s', 'user', 'It lands.', created_at => {at})",
        "memory_ingest_batch(jsonb_build_array(jsonb_build_object('role', 'user', 'content', 'It lands.', \
            'created_at', {at})), 's')",
        "memory_add('It lands.', infer => false, created_at => {at})",
        "memory_import_markdown('x.md', format(E'---\\nrole: user\\ncreated_at: %s\\n---\\nIt lands.', \
            to_json({at}) #>> '{}'))",
    ] {
        let at = |hours: u32| call.replace("{at}", &format!("now() + interval '{hours} hours'"));
        let refused = client.query(&format!("SELECT {}", at(25)), &[]);
        let error = expect_error(refused, "22023");
        assert!(error.contains("more than a day ahead"), "{call}: {error}");
        run(&mut client, &format!("SELECT {}", at(23)));
    }
    // What was stored once comes back, whatever it says.
    let file = "E'---\\nmemory_agent: 1\\nid: 01900000-0000-7000-8000-000000000001\\nrole: user\\nkind: turn\\n\
                conversation_id: s\\ncreated_at: 2940-01-01T00:00:00Z\\n---\\nIt landed.\\n'";
    run(&mut client, &format!("SELECT memory_import_markdown('', {file})"));
}

#[test]
fn metadata_may_be_deep_and_large() {
    let mut client = shared().database("deep_metadata").connect();
    run(
        &mut client,
        "SELECT memory_ingest('s', 'user', 'deep', metadata => (repeat('{\"a\":', 500) || '1' || repeat('}', 500))::jsonb);
         SELECT memory_ingest('s', 'user', 'wide', metadata => jsonb_build_object('k', repeat('x', 1000000)))",
    );
    // Counted there: the client cannot read JSON of this depth either.
    let found: i64 =
        value(&mut client, "SELECT count(*) FROM memory_recall('deep wide', rerank => false)", &[]);
    assert_eq!(found, 2);
}

#[test]
fn a_hundred_kilobytes_of_one_word() {
    let mut client = shared().database("one_word").connect();
    let id = store(&mut client, &"a".repeat(100_000));
    let exact: bool = value(
        &mut client,
        "SELECT token_count = 12500 AND token_count_exact FROM memory_agent.entries WHERE id = $1",
        &[&id],
    );
    assert!(exact);
    store(&mut client, "short");
    assert_eq!(recall(&mut client, "'short', rerank => false")[0].content, "short");
}

#[test]
fn the_longest_content_is_indexed_as_far_as_an_index_reaches() {
    let mut client = shared().database("longest_content").connect();
    // Nearly all words differ, so the lexemes alone are more than a tsvector holds.
    run(&mut client, "SET memory_agent.embed_on_ingest = off");
    let mut content = String::from("beginning ");
    let mut number = 0u32;
    while content.len() + 40 < 1_048_576 {
        content.push_str(&format!("w{:08x} ", number.wrapping_mul(2_654_435_761)));
        number += 1;
    }
    content.push_str("ending");
    store(&mut client, &content);
    let found = recall(&mut client, "'beginning', rerank => false");
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].content.len(), content.len());
    assert!(
        recall(&mut client, "'ending', rerank => false").is_empty(),
        "only a prefix is indexed"
    );
    let half: f64 = value(
        &mut client,
        "SELECT doc_len / $1::float8 FROM memory_agent.entries",
        &[&f64::from(number)],
    );
    assert!(half > 0.3, "the prefix is as long as fits: {half}");
}

#[test]
fn one_mebibyte_of_prose_is_embedded_too() {
    let mut client = shared().database("long_prose").connect();
    let prose = "The river runs slowly through the old town. ".repeat(23_800);
    assert!(prose.len() < 1_048_576);
    let id = store(&mut client, &prose);
    let windows: i64 = value(
        &mut client,
        "SELECT count(*) FROM memory_agent.entry_windows WHERE entry_id = $1",
        &[&id],
    );
    assert!((1..100).contains(&windows), "a bounded number of windows: {windows}");
    assert_eq!(recall(&mut client, "'river', top_k => 1")[0].id, id);
}
