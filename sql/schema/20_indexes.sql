-- One index per access path; the path is named above each.

-- A session's rows, a user's global rows (session_id IS NULL), all rows of a user: recall's scope,
-- the window and the newest turns.
CREATE INDEX entries_scope_idx
    ON memory_agent.entries (user_id, session_id, agent_id, created_at);

-- Lexical candidates of scopes that are too large to be scanned.
CREATE INDEX entries_lexemes_idx ON memory_agent.entries USING gin (lexemes);

-- Sessions with a text search configuration of their own, of which every recall of their user asks.
CREATE INDEX sessions_text_search_config_idx ON memory_agent.sessions (user_id)
    WHERE settings ? 'text_search_config';

-- Sessions that say whether others are recalled, of which every prompt of their user asks.
CREATE INDEX sessions_session_recall_idx ON memory_agent.sessions (user_id, agent_id)
    WHERE settings ? 'session_recall';

-- Look-ups by id alone (the primary key starts with user_id).
CREATE INDEX entries_id_idx ON memory_agent.entries (id);

-- Which facts were made from these turns.
CREATE INDEX entries_source_ids_idx ON memory_agent.entries USING gin (source_ids)
    WHERE source_ids IS NOT NULL;

-- An exact duplicate of a fact, and the fact that holds a key.
CREATE INDEX entries_content_hash_idx ON memory_agent.entries (user_id, content_hash)
    WHERE kind = 'fact' AND state <> 'inactive';
CREATE UNIQUE INDEX entries_fact_key_idx
    ON memory_agent.entries (user_id, agent_id, coalesce(session_id, ''), fact_key)
    WHERE fact_key IS NOT NULL AND state <> 'inactive';

-- A user's entries of a kind in the order of time, page by page.
CREATE INDEX entries_time_idx ON memory_agent.entries (user_id, kind, created_at, id)
    WHERE state <> 'inactive';

-- A row of an attached table is one entry.
CREATE UNIQUE INDEX entries_source_key_idx
    ON memory_agent.entries (user_id, source_relation, source_key)
    WHERE source_relation IS NOT NULL AND state <> 'inactive';

-- The entry of a row of an attached table, in any user's memory.
CREATE INDEX entries_source_row_idx ON memory_agent.entries (source_relation, source_key)
    WHERE source_key IS NOT NULL AND state <> 'inactive';

-- Rows without an embedding or an exact token count, and rows that are due to expire.
CREATE INDEX entries_incomplete_idx ON memory_agent.entries (user_id, agent_id, session_id, id)
    WHERE state <> 'inactive' AND (embedding IS NULL OR NOT token_count_exact);
CREATE INDEX entries_expires_at_idx ON memory_agent.entries (expires_at)
    WHERE expires_at IS NOT NULL AND state <> 'inactive';

-- Which models the vectors are of.
CREATE INDEX entries_model_idx ON memory_agent.entries (embedding_model)
    WHERE embedding_model IS NOT NULL;
-- Whether a user has windows of a model at all; the first ones are there while models are changed.
CREATE INDEX entry_windows_model_idx
    ON memory_agent.entry_windows (embedding_model, user_id, ordinal);

CREATE INDEX entries_episode_idx ON memory_agent.entries (user_id, episode_id, created_at)
    WHERE episode_id IS NOT NULL;

CREATE UNIQUE INDEX session_summaries_active_l3_idx
    ON memory_agent.session_summaries (user_id, agent_id, session_id)
    WHERE level = 'L3' AND is_active;
CREATE INDEX session_summaries_session_idx
    ON memory_agent.session_summaries (user_id, agent_id, session_id, level, ordinal);
CREATE INDEX session_summaries_id_idx ON memory_agent.session_summaries (id);
CREATE INDEX episodes_id_idx ON memory_agent.episodes (id);
CREATE INDEX history_id_idx ON memory_agent.history (id);
CREATE INDEX traces_id_idx ON memory_agent.traces (id);
CREATE INDEX archives_id_idx ON memory_agent.archives (id);

CREATE INDEX episodes_session_idx
    ON memory_agent.episodes (user_id, agent_id, session_id, started_at);
CREATE INDEX episodes_open_idx ON memory_agent.episodes (ended_at) WHERE status = 'open';
-- Episodes that wait for their reflection.
CREATE INDEX episodes_waiting_idx ON memory_agent.episodes (user_id, agent_id, session_id, id)
    WHERE status = 'closed' AND wants_reflection;

-- Turns that wait for extraction, also those of memory_add that are in no window.
CREATE INDEX entries_unextracted_idx
    ON memory_agent.entries (user_id, agent_id, session_id, created_at)
    WHERE kind = 'turn' AND role = 'user' AND extracted_at IS NULL;

-- Turns in which an assistant decided something, until facts are made of it.
CREATE INDEX entries_decisions_idx
    ON memory_agent.entries (user_id, agent_id, session_id, created_at)
    WHERE kind = 'turn' AND role = 'assistant' AND extracted_at = 'infinity';

-- Turns that no job was queued for: they are counted, and memory_backfill finds them.
CREATE INDEX entries_skipped_idx ON memory_agent.entries (user_id)
    WHERE kind = 'turn' AND role = 'user' AND extracted_at = '-infinity';

-- What took the place of an entry: versions of one memory, and turns that had another text once.
CREATE INDEX entries_replaced_by_idx ON memory_agent.entries (user_id, replaced_by)
    WHERE replaced_by IS NOT NULL;

-- What is deleted or emptied for good after memory_agent.purge_after.
CREATE INDEX entries_inactive_idx ON memory_agent.entries (state_at)
    WHERE state = 'inactive' AND content <> '';

-- Facts that an LLM has not compared with the others yet.
CREATE INDEX entries_unreconciled_idx ON memory_agent.entries (user_id, agent_id, session_id)
    WHERE kind = 'fact' AND state <> 'inactive' AND metadata ? 'unreconciled';

-- Facts that perhaps no longer hold, by what was said later.
CREATE INDEX entries_doubted_by_idx ON memory_agent.entries (user_id, doubted_by)
    WHERE doubted_by IS NOT NULL;

-- One job per kind and scope that no worker has seen. Enqueueing is INSERT .. ON CONFLICT DO UPDATE.
-- A job that goes back to the queue keeps leased_by, and is free to be one of several.
CREATE UNIQUE INDEX jobs_pending_idx
    ON memory_agent.jobs (kind, coalesce(user_id, ''), coalesce(agent_id, ''),
                          coalesce(session_id, ''),
                          coalesce(entry_id, '00000000-0000-0000-0000-000000000000'))
    WHERE status = 'pending' AND leased_by IS NULL;
-- Users take turns.
CREATE INDEX jobs_turn_idx ON memory_agent.jobs (kind, user_id, priority DESC, run_after, id)
    WHERE status = 'pending';
-- When the next job is due that waits for its time.
CREATE INDEX jobs_due_idx ON memory_agent.jobs (run_after) WHERE status = 'pending';
-- Whether an older job of the same scope is not finished yet.
CREATE INDEX jobs_open_idx
    ON memory_agent.jobs (user_id, coalesce(session_id, ''), kind, agent_id, id)
    WHERE status IN ('pending', 'running');
-- Which turns a dead job holds.
CREATE INDEX jobs_dead_idx
    ON memory_agent.jobs (user_id, coalesce(session_id, ''), kind, agent_id)
    WHERE status = 'dead';
CREATE INDEX jobs_lease_idx ON memory_agent.jobs (leased_until) WHERE status = 'running';
CREATE INDEX jobs_scope_idx ON memory_agent.jobs (user_id, session_id);
CREATE INDEX jobs_finished_idx ON memory_agent.jobs (finished_at) WHERE status = 'done';

CREATE INDEX history_entry_idx ON memory_agent.history (user_id, entry_id, at);
CREATE UNIQUE INDEX history_seq_idx ON memory_agent.history (user_id, seq) WHERE seq IS NOT NULL;
-- What is to be sealed, user by user.
CREATE INDEX history_unsealed_idx ON memory_agent.history (user_id, at, id) WHERE seq IS NULL;
-- Erasures, for calls and jobs that worked on the user's memory meanwhile.
CREATE INDEX history_erasures_idx ON memory_agent.history (user_id) WHERE op = 'erase';

CREATE INDEX llm_calls_at_idx ON memory_agent.llm_calls (at);
-- The texts that calls kept of a user, which an erasure takes away.
CREATE INDEX llm_calls_texts_idx ON memory_agent.llm_calls (user_id)
    WHERE request IS NOT NULL OR response IS NOT NULL OR error IS NOT NULL;
-- The tokens of a user's calls of a day.
CREATE INDEX llm_calls_user_idx ON memory_agent.llm_calls (user_id, at);
CREATE INDEX traces_at_idx ON memory_agent.traces (at);
CREATE INDEX traces_session_idx ON memory_agent.traces (user_id, agent_id, session_id, at);
CREATE INDEX archives_newest_idx ON memory_agent.archives (user_id, updated_at DESC, id DESC);
-- What was archived of a session.
CREATE INDEX archives_conversation_idx
    ON memory_agent.archives (user_id, agent_id, session_id) WHERE doc_type = 'conversation';
-- A document is stored once in a scope.
CREATE UNIQUE INDEX archives_content_idx
    ON memory_agent.archives (user_id, agent_id, coalesce(session_id, ''), content_hash)
    WHERE doc_type <> 'conversation';

-- The chunks of archived conversations, which only their own search reads.
CREATE INDEX entries_archived_idx ON memory_agent.entries (user_id, agent_id, session_id, created_at)
    WHERE source_relation = 'memory_agent.archives';

-- The chunks of one document or archived conversation.
CREATE INDEX entries_parent_idx ON memory_agent.entries (user_id, (metadata ->> 'parent_id'))
    WHERE kind = 'document';

-- One active model of each kind.
CREATE UNIQUE INDEX models_active_idx ON memory_agent.models (kind) WHERE active;

-- Whose a token is. Not unique: a key would have to begin with user_id, and no two hashes are equal.
CREATE INDEX tokens_hash_idx ON memory_agent.tokens (hash);
-- What was spent today, and what is too old to be kept.
CREATE INDEX spending_day_idx ON memory_agent.spending (day);

-- Agents that say themselves how long inactive entries are kept, of which every sweep asks.
CREATE INDEX agents_purge_after_idx ON memory_agent.agents (user_id)
    WHERE settings ? 'purge_after';
