//! Any text can be remembered, asked for, and comes back byte by byte.

use crate::runner;
use memory_agent_e2e::{Client, Json, Uuid, shared, sqlstate};
use proptest::prelude::*;
use std::cell::RefCell;

/// Texts that have broken other systems: controls, marks without a base, both directions, halves of
/// markup and of quoting, white space of all kinds, words beyond every limit.
const AWKWARD: [&str; 20] = [
    " \u{a0}\u{2003}\u{3000}\t\n",
    "\u{1}\u{7}\u{1b}[31m\u{7f}\u{80}\u{9f}",
    "e\u{301}\u{301}\u{301}",
    "\u{301}",
    "\u{202e}desrever\u{202c} \u{200f}",
    "\u{feff}\u{fffe}\u{ffff}\u{fffd}",
    "\u{10ffff}\u{1f468}\u{200d}\u{1f469}\u{200d}\u{1f467}",
    "\u{0}",
    "'; DROP TABLE memory_agent.entries; --",
    "$1 $$ $tag$ %s %n {} \\ \\\\ \\u0000",
    "<script>&amp;&#0;</script>",
    "\"name\": {\"a\": [1, 2",
    "a & b | !c <-> (d:*)",
    "İıẞßſﬀ",
    "日本語のテキスト。空白がない",
    "ไทยไม่มีช่องว่าง",
    "\u{1d400}\u{1d401}\u{1d402}",
    "1e400 -0 NaN Infinity 0x1F 1_000",
    "http://a.b/c?d=e&f#g user@host /usr/lib 10.0.0.1",
    "-",
];

fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => any::<String>(),
        2 => "\\PC{1,300}",
        2 => prop::collection::vec(prop::sample::select(AWKWARD.to_vec()), 1..4)
            .prop_map(|parts| parts.concat()),
        1 => ("[a-zé ]{1,12}", 1..500usize).prop_map(|(word, times)| word.repeat(times)),
    ]
}

fn metadata() -> impl Strategy<Value = Json> {
    let key = prop_oneof![Just("name".to_owned()), "[a-zA-Z$.\" ]{0,8}", "\\PC{1,5}"];
    let value = prop_oneof![
        any::<String>().prop_map(|text| Json::from(text.replace('\0', ""))),
        any::<i64>().prop_map(Json::from),
        any::<bool>().prop_map(Json::from),
        Just(Json::Null),
        prop::collection::vec(any::<i32>(), 0..4).prop_map(Json::from),
    ];
    prop::collection::btree_map(key, value, 0..4)
        .prop_map(|pairs| Json::Object(pairs.into_iter().collect()))
}

/// What is stored for a call, or why it was refused.
fn remember(
    client: &mut Client,
    text: &str,
    session: &str,
    metadata: &Json,
) -> Result<Uuid, String> {
    let call = "SELECT memory_ingest($1, 'user', $2, metadata => $3)";
    match client.query_one(call, &[&session, &text, metadata]) {
        Ok(row) => Ok(row.get(0)),
        Err(error) => Err(sqlstate(&error).to_owned()),
    }
}

#[test]
fn any_text_is_kept_as_it_is() {
    let database = shared().database("texts");
    let client = RefCell::new(database.connect());
    let session = prop_oneof![9 => "\\PC{1,20}", 1 => "\\PC{0,600}"];
    let case = (text(), session, metadata(), any::<bool>());
    let outcome = runner("texts", 120).run(&case, |(text, session, metadata, embeds)| {
        let client = &mut *client.borrow_mut();
        let embed = if embeds { "sync" } else { "off" };
        client.batch_execute(&format!("SET memory_agent.embed_on_ingest = {embed}")).unwrap();
        let stored = remember(client, &text, &session, &metadata);
        if text.contains('\0') {
            // PostgreSQL cannot even take the parameter.
            prop_assert_eq!(stored, Err("22021".to_owned()));
            return Ok(());
        }
        let is_no_id = session.is_empty() || session.len() > 512 || session.trim() != session;
        if text.trim().is_empty() || is_no_id {
            prop_assert_eq!(stored, Err("22023".to_owned()));
            return Ok(());
        }
        let id = stored.map_err(|state| TestCaseError::fail(format!("refused: {state}")))?;
        let row = client
            .query_one(
                "SELECT content, session_id, metadata = $2, embedding IS NOT NULL \
                 FROM memory_agent.entries WHERE id = $1",
                &[&id, &metadata],
            )
            .unwrap();
        let (content, in_session): (String, String) = (row.get(0), row.get(1));
        prop_assert!(content == text, "stored as {:?}", content);
        prop_assert_eq!(&in_session, &session);
        prop_assert!(row.get::<_, bool>(2), "other metadata");
        prop_assert_eq!(row.get::<_, bool>(3), embeds);
        is_recalled(client, id, &text, &session, embeds)
    });
    outcome.unwrap_or_else(|failure| panic!("{failure}"));
}

/// Asked for with its own words, the text is found if there is anything to find it by, and is whole.
fn is_recalled(
    client: &mut Client,
    id: Uuid,
    text: &str,
    session: &str,
    embedded: bool,
) -> Result<(), TestCaseError> {
    let question: String = text.chars().take(300).collect();
    if question.trim().is_empty() {
        return Ok(());
    }
    let recall = "SELECT r.id, r.content FROM memory_recall($1, $2, top_k => 500, score_threshold => 0, \
                                                            rerank => false) r";
    let rows = client
        .query(recall, &[&question, &session])
        .map_err(|error| TestCaseError::fail(format!("recall: {error:?}")))?;
    let found = rows.iter().find(|row| row.get::<_, Uuid>(0) == id);
    prop_assert!(found.is_some() || !embedded, "not found among {} rows", rows.len());
    if let Some(row) = found {
        prop_assert!(row.get::<_, String>(1) == text, "recalled as {:?}", row.get::<_, String>(1));
    }
    Ok(())
}
