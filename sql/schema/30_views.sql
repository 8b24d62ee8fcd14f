-- Views beside the public functions, in the schema chosen at CREATE EXTENSION. security_invoker:
-- the reader's own privileges and row-level security apply.

CREATE VIEW @extschema@.memory_entries WITH (security_invoker = true) AS
    SELECT e.id, e.user_id, e.session_id, e.agent_id, e.kind, e.role, e.content,
           e.metadata AS entry_metadata, e.markers, e.created_at, e.updated_at, e.expires_at,
           (e.state OPERATOR(pg_catalog.=) 'active') AS is_active
      FROM memory_agent.entries e
     WHERE e.state OPERATOR(pg_catalog.<>) 'inactive';

CREATE VIEW @extschema@.memory_session_summaries WITH (security_invoker = true) AS
    SELECT s.id, s.user_id, s.session_id, s.agent_id, s.content AS summary, s.level,
           s.created_at, s.updated_at
      FROM memory_agent.session_summaries s
     WHERE s.is_active;

CREATE VIEW @extschema@.memory_jobs WITH (security_invoker = true) AS
    SELECT j.id, j.kind, j.user_id, j.agent_id, j.session_id, j.entry_id, j.status, j.priority,
           j.attempts, j.max_attempts, j.interrupted, j.run_after, j.leased_until, j.progress AS done,
           j.progress_of AS total, j.last_error, j.created_at, j.finished_at
      FROM memory_agent.jobs j;

CREATE VIEW @extschema@.memory_llm_calls WITH (security_invoker = true) AS
    SELECT c.id, c.user_id, c.job_id, c.purpose, c.model, c.prompt_tokens, c.completion_tokens,
           c.latency, c.status, c.error, c.at
      FROM memory_agent.llm_calls c;

CREATE VIEW @extschema@.memory_traces WITH (security_invoker = true) AS
    SELECT t.id, t.user_id, t.agent_id, t.session_id, t.episode_id, t.job_id, t.at, t.body
      FROM memory_agent.traces t;
