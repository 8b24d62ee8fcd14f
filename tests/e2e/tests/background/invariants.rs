//! What has to be true of a database when its queue is empty, whatever happened before.

use memory_agent_e2e::Client;
use memory_agent_e2e::llm::Outcome;
use memory_agent_e2e::memory::{value, values};
use std::collections::BTreeSet;

/// Conditions as queries that count what breaks them.
const BROKEN: [(&str, &str); 9] = [
    ("jobs that are not done", "SELECT count(*) FROM memory_agent.jobs WHERE status <> 'done'"),
    (
        "turns that no fact was extracted from",
        "SELECT count(*) FROM memory_agent.entries \
          WHERE kind = 'turn' AND role = 'user' AND (extracted_at IS NULL OR NOT isfinite(extracted_at))",
    ),
    (
        "entries without an embedding",
        "SELECT count(*) FROM memory_agent.entries WHERE embedding IS NULL OR NOT token_count_exact",
    ),
    (
        "facts that are there twice",
        "SELECT count(*) FROM (SELECT FROM memory_agent.entries WHERE kind = 'fact' \
                                GROUP BY session_id, content HAVING count(*) > 1) twice",
    ),
    (
        "facts whose sources are not there",
        "SELECT count(*) FROM memory_agent.entries f WHERE f.kind = 'fact' \
            AND (coalesce(cardinality(f.source_ids), 0) = 0 \
                 OR EXISTS (SELECT FROM unnest(f.source_ids) s(id) \
                             WHERE NOT EXISTS (SELECT FROM memory_agent.entries t \
                                                WHERE t.id = s.id AND t.session_id = f.session_id)))",
    ),
    (
        "facts whose history does not begin with one 'add' by a job",
        "SELECT count(*) FROM memory_agent.entries f WHERE f.kind = 'fact' \
            AND 1 <> (SELECT count(*) FROM memory_agent.history h \
                       WHERE h.entry_id = f.id AND h.op = 'add' AND h.job_id IS NOT NULL)",
    ),
    (
        "facts whose end is not in history once, or that are followed by nothing",
        "SELECT count(*) FROM memory_agent.entries f WHERE f.kind = 'fact' \
            AND (((f.state = 'inactive')::int \
                  <> (SELECT count(*) FROM memory_agent.history h \
                       WHERE h.entry_id = f.id AND h.op IN ('supersede', 'delete'))) \
                 OR (f.state = 'inactive' \
                     AND NOT EXISTS (SELECT FROM memory_agent.entries n WHERE n.id = f.replaced_by)))",
    ),
    (
        "history of entries that are not there",
        "SELECT count(*) FROM memory_agent.history h \
          WHERE NOT EXISTS (SELECT FROM memory_agent.entries e WHERE e.id = h.entry_id)",
    ),
    (
        "sessions whose counters are wrong",
        "SELECT count(*) FROM memory_agent.sessions s, LATERAL \
                (SELECT count(*) FILTER (WHERE e.kind = 'turn') AS turns, \
                        count(*) FILTER (WHERE e.state = 'active') AS entries, \
                        coalesce(sum(e.token_count) FILTER (WHERE e.state = 'active' AND e.kind = 'turn'), 0) \
                            AS tokens \
                   FROM memory_agent.entries e \
                  WHERE e.user_id = s.user_id AND e.agent_id = s.agent_id AND e.session_id = s.session_id) c \
          WHERE (s.turn_count, s.active_entries, s.active_tokens) <> (c.turns, c.entries, c.tokens)",
    ),
];

/// Everything that any database with an empty queue has to fulfil.
#[track_caller]
pub fn expect_consistency(client: &mut Client) {
    let broken: Vec<(&str, i64)> = BROKEN
        .iter()
        .map(|&(what, sql)| (what, value::<i64>(client, sql, &[])))
        .filter(|&(_, count)| count > 0)
        .collect();
    assert!(broken.is_empty(), "{broken:?}");
}

/// Exactly the facts that hold are active, and those that held once are inactive.
#[track_caller]
pub fn expect_facts(client: &mut Client, outcome: &Outcome) {
    let mut facts = |states: &str| -> BTreeSet<String> {
        let sql = format!(
            "SELECT concat(session_id, ': ', content) FROM memory_agent.entries \
              WHERE kind = 'fact' AND state {states} 'active'"
        );
        values::<String>(client, &sql, &[]).into_iter().collect()
    };
    let (active, inactive) = (facts("="), facts("<>"));
    let name = |(session, fact): (&String, &String)| format!("{session}: {fact}");
    let holds: BTreeSet<String> =
        outcome.active.iter().map(|(session, fact)| name((session, fact))).collect();
    let held: BTreeSet<String> =
        outcome.superseded.iter().map(|change| name((&change.session, &change.fact))).collect();
    for (what, found, expected) in [("active", active, holds), ("inactive", inactive, held)] {
        let missing: Vec<_> = expected.difference(&found).collect();
        let too_many: Vec<_> = found.difference(&expected).collect();
        assert!(
            missing.is_empty() && too_many.is_empty(),
            "{what} facts: missing {missing:#?}, too many {too_many:#?}"
        );
    }
}
