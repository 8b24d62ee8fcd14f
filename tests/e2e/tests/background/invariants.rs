//! What has to be true of what users said when the queue is empty, whatever happened before.

use memory_agent_e2e::{Error, Transaction};

/// Conditions as queries that count what breaks them for the users $1.
const BROKEN: [(&str, &str); 14] = [
    (
        "jobs that are not done",
        "SELECT count(*) FROM memory_agent.jobs WHERE user_id = ANY ($1) AND status <> 'done'",
    ),
    (
        "turns that no fact was extracted from",
        "SELECT count(*) FROM memory_agent.entries \
          WHERE user_id = ANY ($1) AND kind = 'turn' AND role = 'user' \
            AND (extracted_at IS NULL OR NOT isfinite(extracted_at))",
    ),
    (
        "entries of recall without an embedding",
        "SELECT count(*) FROM memory_agent.entries \
          WHERE user_id = ANY ($1) AND state <> 'inactive' \
            AND (embedding IS NULL OR NOT token_count_exact)",
    ),
    (
        "facts that were never compared",
        "SELECT count(*) FROM memory_agent.entries \
          WHERE user_id = ANY ($1) AND metadata ? 'unreconciled'",
    ),
    (
        "episodes that were not reflected on",
        "SELECT count(*) FROM memory_agent.episodes \
          WHERE user_id = ANY ($1) AND wants_reflection AND status <> 'reflected'",
    ),
    (
        // The turns of an episode may go into several calls, each with a trace of its own.
        "turns of reflected episodes that are not in one trace",
        "SELECT count(*) FROM memory_agent.episodes p \
           JOIN memory_agent.entries e ON e.user_id = p.user_id AND e.episode_id = p.id \
          WHERE p.user_id = ANY ($1) AND p.status = 'reflected' AND e.kind = 'turn' AND e.role = 'user' \
            AND e.state <> 'inactive' \
            AND 1 <> (SELECT count(*) FROM memory_agent.traces t, jsonb_array_elements(t.body->'input_turns') i \
                       WHERE t.user_id = p.user_id AND i->>'id' = e.id::text)",
    ),
    (
        "calls of the LLM by no job",
        "SELECT count(*) FROM memory_agent.llm_calls c \
          WHERE user_id = ANY ($1) \
            AND NOT EXISTS (SELECT FROM memory_agent.jobs j \
                             WHERE j.id = c.job_id AND j.user_id = c.user_id \
                               AND (c.purpose = j.kind \
                                    OR j.kind = 'extract' AND c.purpose IN ('reconcile', 'check', 'probe')))",
    ),
    (
        "facts whose job recorded no answer",
        "SELECT count(*) FROM memory_agent.entries f \
          WHERE user_id = ANY ($1) AND f.kind = 'fact' AND f.content <> '' \
            AND NOT EXISTS (SELECT FROM memory_agent.llm_calls c \
                             WHERE c.user_id = f.user_id AND c.job_id::text = f.metadata->>'job_id' \
                               AND c.purpose = 'extract' AND c.status = 'ok')",
    ),
    (
        "facts that hold twice",
        "SELECT count(*) FROM (SELECT FROM memory_agent.entries \
                                WHERE user_id = ANY ($1) AND kind = 'fact' AND state <> 'inactive' \
                                GROUP BY user_id, session_id, content HAVING count(*) > 1) twice",
    ),
    (
        "facts whose sources are not there",
        "SELECT count(*) FROM memory_agent.entries f WHERE user_id = ANY ($1) AND f.kind = 'fact' \
            AND (coalesce(cardinality(f.source_ids), 0) = 0 \
                 OR EXISTS (SELECT FROM unnest(f.source_ids) s(id) \
                             WHERE NOT EXISTS (SELECT FROM memory_agent.entries t \
                                                WHERE t.user_id = f.user_id AND t.id = s.id \
                                                  AND (f.session_id IS NULL OR t.session_id = f.session_id))))",
    ),
    (
        "facts whose history does not begin with one 'add' by a job",
        "SELECT count(*) FROM memory_agent.entries f \
          WHERE user_id = ANY ($1) AND f.kind = 'fact' AND f.content <> '' \
            AND 1 <> (SELECT count(*) FROM memory_agent.history h \
                       WHERE h.user_id = f.user_id AND h.entry_id = f.id AND h.op = 'add' \
                         AND h.job_id::text = f.metadata->>'job_id')",
    ),
    (
        "facts whose end is not in history once, or that are followed by nothing",
        "SELECT count(*) FROM memory_agent.entries f \
          WHERE user_id = ANY ($1) AND f.kind = 'fact' AND f.content <> '' \
            AND ((SELECT count(*) FROM memory_agent.history h \
                   WHERE h.user_id = f.user_id AND h.entry_id = f.id AND h.op IN ('supersede', 'delete')) \
                 <> CASE WHEN f.state <> 'inactive' OR f.replaced_by IN ( \
                                SELECT n.id FROM memory_agent.entries n \
                                 WHERE n.user_id = f.user_id AND n.kind = 'fact' \
                                   AND n.recorded_at <= f.recorded_at) \
                         THEN 0 ELSE 1 END \
                 OR (f.state = 'inactive' \
                     AND NOT EXISTS (SELECT FROM memory_agent.entries n \
                                      WHERE n.user_id = f.user_id AND n.id = f.replaced_by)))",
    ),
    (
        "history of entries that are not there",
        "SELECT count(*) FROM memory_agent.history h \
          WHERE user_id = ANY ($1) \
            AND NOT EXISTS (SELECT FROM memory_agent.entries e \
                             WHERE e.user_id = h.user_id AND e.id = h.entry_id)",
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
          WHERE s.user_id = ANY ($1) \
            AND (s.turn_count, s.active_entries, s.active_tokens) <> (c.turns, c.entries, c.tokens)",
    ),
];

/// What is broken of these users' memory, and how often.
pub fn broken(transaction: &mut Transaction<'_>, users: &[String]) -> Result<Vec<String>, Error> {
    let mut broken = Vec::new();
    for (what, sql) in BROKEN {
        let count: i64 = transaction.query_one(sql, &[&users])?.get(0);
        if count > 0 {
            broken.push(format!("{what}: {count}"));
        }
    }
    Ok(broken)
}
