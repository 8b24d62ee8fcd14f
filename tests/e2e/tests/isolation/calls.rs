//! A call of each public function, with arguments drawn anew each time. `every_function_is_called`
//! fails when one is missing.

use crate::draw::{Draw, quote};
use memory_agent_e2e::json;

/// Who may call a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    Reader,
    User,
    /// Nobody here.
    Higher,
}
use Level::{Higher, Reader, User};

/// Whose memory a function is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum About {
    /// That of the argument `user_id`, or of the session's identity.
    Argument,
    /// That of the session's identity.
    Identity,
    /// Nobody's.
    Nobody,
}
use About::{Argument, Identity, Nobody};

pub struct Call {
    pub function: &'static str,
    pub level: Level,
    pub about: About,
    /// How many times as often as others it is called.
    pub weight: u64,
    /// The arguments but `user_id`; the first positional.
    pub arguments: fn(&mut Draw<'_>) -> String,
}

const fn call(
    function: &'static str,
    level: Level,
    about: About,
    weight: u64,
    arguments: fn(&mut Draw<'_>) -> String,
) -> Call {
    Call { function, level, about, weight, arguments }
}

/// Optional arguments of the functions that rank.
fn ranking(draw: &mut Draw<'_>) -> String {
    draw.some(&[
        ("session_id", Draw::name),
        ("agent_id", |d| d.one_of(&["'default'", "'quiet'", "'*'", "''"])),
        ("top_k", Draw::number),
        ("token_budget", Draw::number),
        ("kinds", |d| d.one_of(&["'{fact}'", "'{turn,document}'", "'{x}'", "'{}'", "'{NULL}'"])),
        ("filter", Draw::filter),
        ("as_of", Draw::time),
        ("score_threshold", Draw::fraction),
        ("recency_weight", Draw::fraction),
        ("mmr_lambda", Draw::fraction),
        ("query_embedding", Draw::vector),
        ("rewrites", |d| d.one_of(&["'{harbour,green train}'", "'{}'", "'{NULL}'"])),
    ])
}

fn of_stored(draw: &mut Draw<'_>) -> String {
    draw.some(&[
        ("agent_id", |d| d.one_of(&["'default'", "'quiet'", "''"])),
        ("metadata", Draw::metadata),
        ("markers", |d| d.one_of(&["'{decision}'", "'{custom:x}'", "'{nonsense}'", "NULL"])),
        ("created_at", Draw::time),
        ("ttl", |d| d.one_of(&["'1 day'", "'-1 day'", "'1 microsecond'", "NULL"])),
    ])
}

/// The functions of the extension.
pub const CALLS: &[Call] = &[
    call("memory_ingest", User, Argument, 6, |d| {
        let role = d.one_of(&["'user'", "'user'", "'assistant'", "'tool'", "'nobody'"]);
        format!("{}, {role}, {}{}", d.name(), d.text(), of_stored(d))
    }),
    call("memory_ingest_once", User, Argument, 2, |d| {
        let role = d.one_of(&["'user'", "'assistant'", "'nobody'"]);
        format!("{}, {role}, {}{}", d.name(), d.text(), d.some(&[("request_key", Draw::name)]))
    }),
    call("memory_ingest_batch", User, Argument, 3, |d| {
        let role = d.one_of(&["assistant", "user", "user", "x"]);
        let mut turns =
            json!([{"role": "user", "content": d.said()}, {"role": role, "content": d.said()}]);
        if d.chance(8) {
            turns[0]["user_id"] = json!("witness");
        }
        format!("{}, {}", quote(&turns.to_string()), d.name())
    }),
    call("memory_add", User, Argument, 4, |d| {
        format!(
            "{}, {}, infer => {}, fact_key => {}{}",
            d.text(),
            d.name(),
            d.flag(),
            d.one_of(&["NULL", "'home'", "'job'"]),
            of_stored(d)
        )
    }),
    call("memory_add_document", User, Argument, 1, |d| {
        format!(
            "{}, title => {}, session_id => {}, metadata => {}",
            d.text(),
            d.text(),
            d.name(),
            d.metadata()
        )
    }),
    call("memory_recall", Reader, Argument, 8, |d| format!("{}{}", d.query(), ranking(d))),
    call("memory_explain", Reader, Argument, 3, |d| format!("{}{}", d.query(), ranking(d))),
    call("memory_context", Reader, Argument, 3, |d| {
        format!("{}, {}, {}", d.name(), d.query(), d.number())
    }),
    call("memory_augment", Reader, Argument, 2, |d| format!("{}, {}", d.messages(), d.name())),
    call("memory_augment_block", Reader, Argument, 2, |d| {
        format!("{}, {}", d.messages(), d.name())
    }),
    call("memory_chat", User, Argument, 2, |d| format!("{}, {}", d.messages(), d.name())),
    call("memory_list", Reader, Argument, 3, |d| match d.flag().as_str() {
        "true" => {
            let kind = d.one_of(&["NULL", "'turn'", "'fact'", "'document'"]);
            let name = d.name();
            let session = d.one_of(&["NULL", &name]);
            format!("{session}, {kind}, own_only => {}", d.flag())
        }
        _ => {
            format!("{} => {}", d.one_of(&["id", "source_id", "from_at => now(), from_id"]), d.id())
        }
    }),
    call("memory_state", Reader, Argument, 1, |d| {
        format!("jsonb_build_array(jsonb_build_object('id', {})), {}", d.id(), d.name())
    }),
    call("memory_list_documents", Reader, Argument, 1, |d| {
        format!("{}, {}", d.one_of(&["NULL", "'document'", "'conversation'", "'%'"]), d.number())
    }),
    call("memory_search_archive", Reader, Argument, 2, |d| {
        let of = d.one_of(&["'conversation'", "'document'", "NULL", "'*'"]);
        format!("{}, {}, doc_type => {of}", d.query(), d.number())
    }),
    // It fails for most ids, and has to succeed once.
    call("memory_update", User, Argument, 9, |d| format!("{}, {}", d.id(), d.text())),
    call("memory_forget", User, Argument, 2, |d| format!("{}, {}", d.id(), d.text())),
    call("memory_restore", User, Argument, 2, |d| d.id()),
    call("memory_history", Reader, Argument, 3, |d| d.id()),
    call("memory_erase", User, Argument, 1, |d| {
        // Without either it is everything of the user that is named.
        let what = match d.pick(&[0, 0, 0, 0, 1, 1, 1, 1, 2]) {
            0 => format!("id => {}", d.id()),
            1 => format!("session_id => {}", d.name()),
            _ => "id => NULL".to_owned(),
        };
        format!("{what}, reason => {}", d.one_of(&["NULL", "'ticket 7'"]))
    }),
    call("memory_verify_history", Reader, Argument, 1, |d| {
        let hash = d.one_of(&["NULL", r"'\x00'", r"'\x'"]);
        format!("seq => {}, hash => {hash}", d.number())
    }),
    call("memory_load", Reader, Argument, 2, |d| d.name()),
    call("memory_stats", Reader, Argument, 1, |d| d.name()),
    call("memory_usage", Reader, Identity, 1, |_| String::new()),
    call("memory_originals", Reader, Argument, 3, |d| d.id()),
    call("memory_export_markdown", Reader, Argument, 1, |d| d.name()),
    call("memory_export_json", Reader, Argument, 1, |d| {
        format!("agent_id => {}", d.one_of(&["NULL", "'default'", "'quiet'"]))
    }),
    call("memory_import_json", User, Argument, 2, |d| {
        let content = d.text();
        let session = d.name();
        let record = format!(
            "jsonb_build_object('role', 'user', 'conversation_id', {session}, 'content', {content})"
        );
        let archive = format!(
            "jsonb_build_object('role', 'archive', 'id', {}, 'doc_type', 'document', 'content', {content})",
            d.id()
        );
        format!("record => {}", d.one_of(&[&record, &archive]))
    }),
    call("memory_import_markdown", User, Argument, 2, |d| {
        let path = d.one_of(&["'one/2026-01-31T10-00-00_user.md'", "'../../etc/passwd'", "'a.md'"]);
        format!("{path}, {}", d.file())
    }),
    call("memory_close_episode", User, Argument, 1, |d| format!("{}, {}", d.name(), d.text())),
    call("memory_clear", User, Argument, 1, |d| d.name()),
    call("memory_archive", User, Argument, 1, |d| d.name()),
    call("memory_compress", User, Argument, 1, |d| d.name()),
    call("memory_reserve_tokens", User, Argument, 1, |d| {
        format!("{}, {}, {}", d.name(), d.number(), d.flag())
    }),
    call("memory_configure", User, Argument, 1, |d| {
        format!(
            "agent_id => {}, session_id => {}, settings => {}",
            d.one_of(&["'quiet'", "NULL"]),
            d.name(),
            d.one_of(&[
                r#"'{"memory_agent.default_top_k": 4}'"#,
                r#"'{"memory_agent.identity": "setting"}'"#,
                r#"'{"memory_agent.user_id": "witness"}'"#,
                "NULL",
            ])
        )
    }),
    call("memory_backfill", User, Argument, 1, |d| {
        format!("{}, all_users => {}", d.time(), d.flag())
    }),
    call("memory_wait", User, Argument, 1, |d| {
        format!("{}, {}", d.one_of(&["'0 s'", "'5 ms'", "'-1 s'"]), d.name())
    }),
    call("memory_retry", User, Argument, 1, |d| d.id()),
    call("memory_summarize", User, Identity, 1, |d| format!("{}, {}", d.text(), d.number())),
    call("memory_embed", Reader, Nobody, 1, |d| {
        d.one_of(&["'a harbour'", "'{a,b}'::text[]", "''", "NULL::text"])
    }),
    call("memory_rerank", Reader, Nobody, 1, |d| format!("{}, '{{a,b}}'", d.query())),
    call("memory_count_tokens", Reader, Nobody, 1, |d| d.query()),
    call("memory_status", Reader, Nobody, 2, |_| String::new()),
    call("memory_recall_times", Reader, Nobody, 1, |_| String::new()),
    call("memory_register_model", Higher, Nobody, 1, |_| {
        "'memory-embed-small', 'embedder', activate => true".to_owned()
    }),
    call("memory_attach", Higher, Nobody, 1, |_| "'diary', 'body'".to_owned()),
    call("memory_detach", Higher, Nobody, 1, |d| format!("'diary', {}", d.flag())),
    call("memory_use_embedding_model", Higher, Nobody, 1, |_| "'memory-embed-small'".to_owned()),
    call("memory_create_vector_index", Higher, Nobody, 1, |_| String::new()),
    call("memory_token_user", Higher, Nobody, 1, |d| {
        format!("sha256(convert_to({}, 'UTF8'))", d.name())
    }),
    call("memory_spend", Higher, Nobody, 1, |d| {
        format!("sha256(convert_to({}, 'UTF8')), 1", d.name())
    }),
    call("memory_create_token", Higher, Nobody, 1, |d| format!("{}, 't'", d.name())),
    call("memory_revoke_token", Higher, Nobody, 1, |d| format!("{}, 't'", d.name())),
    call("memory_list_tokens", Higher, Nobody, 1, |_| String::new()),
    call("memory_spent_today", Higher, Nobody, 1, |_| String::new()),
    call("memory_use_endpoint", Higher, Nobody, 1, |d| format!("NULL, {}", d.name())),
    call("memory_list_endpoints", Higher, Nobody, 1, |_| String::new()),
    call("memory_list_quotas", Higher, Nobody, 1, |_| String::new()),
    call("memory_set_quota", Higher, Nobody, 1, |d| format!("{}, 1000", d.name())),
    call("memory_set_endpoint", Higher, Nobody, 1, |_| "'e', 'https://a', 'm'".to_owned()),
    call("memory_enable_endpoint", Higher, Nobody, 1, |_| "'e'".to_owned()),
    call("memory_drop_endpoint", Higher, Nobody, 1, |_| "'e'".to_owned()),
    call("memory_grant", Higher, Nobody, 1, |d| {
        format!("'person0', {}", d.one_of(&["'admin'", "'user'"]))
    }),
    call("memory_revoke", Higher, Nobody, 1, |_| "'person0'".to_owned()),
];

/// What is asked of a table or a view beside its rows.
pub const READS: &[&str] = &[
    "SELECT * FROM {}",
    "SELECT t::text FROM {} t",
    // Shows the rows that conditions are tried on, and one of them in an error.
    "SELECT count(*) FROM {} t WHERE pg_temp.peek(t::text)",
    "SELECT (t::text)::integer FROM {} t",
    "SELECT count(*) FROM {} t GROUP BY t::text",
    "SELECT jsonb_agg(to_jsonb(t)) FROM {} t",
    "SELECT max(t::text) OVER () FROM {} t LIMIT 3",
];
