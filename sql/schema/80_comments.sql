-- What psql shows with \dd, \d+ and \df+: the reference of every object.

COMMENT ON TABLE memory_agent.sessions IS 'One row per conversation of one user with one agent.';
COMMENT ON TABLE memory_agent.agents IS 'Settings that memory_configure stored for all sessions of an agent; user * stands for all users.';
COMMENT ON TABLE memory_agent.entries IS 'Turns, facts and document chunks: everything that recall can return.';
COMMENT ON TABLE memory_agent.entry_windows IS 'Further windows of entries that are longer than their embedding model reads at once; during a change of the model also the new model''s embeddings of all entries.';
COMMENT ON TABLE memory_agent.session_summaries IS 'Summaries of sessions, levels L1 (chunks), L2 (groups) and L3 (whole).';
COMMENT ON TABLE memory_agent.episodes IS 'Runs of related turns in a session.';
COMMENT ON TABLE memory_agent.jobs IS 'Work for the background worker; at most one pending job of a kind and scope.';
COMMENT ON TABLE memory_agent.history IS 'Append-only record of what happened to memory: a hash chain per user over salted commitments.';
COMMENT ON TABLE memory_agent.llm_calls IS 'Calls of language models: tokens, latency, status. Bodies only while tracing.';
COMMENT ON TABLE memory_agent.traces IS 'One document for each job that extracts facts from turns of episodes: its inputs, output and effects.';
COMMENT ON TABLE memory_agent.archives IS 'The knowledge base: documents and archived conversations as wholes. Their chunks are entries of kind document.';
COMMENT ON TABLE memory_agent.models IS 'Models registered in this database. If none of a kind is active, the settings name the model.';
COMMENT ON TABLE memory_agent.attachments IS 'Application tables whose rows become entries.';
COMMENT ON TABLE memory_agent.grants IS 'Levels of roles, written by memory_grant and memory_revoke.';
COMMENT ON TABLE memory_agent.spending IS 'Tokens of language models that each caller of the gateway has spent on its latest day, written by memory_spend.';
COMMENT ON TABLE memory_agent.tokens IS 'Tokens of users for the gateway: only their SHA-256, written by memory_create_token.';
COMMENT ON VIEW memory_agents IS 'Settings that memory_configure stored for all sessions of an agent: those of the session''s identity and those for all users.';
COMMENT ON VIEW memory_archives IS 'Documents and archived conversations as wholes, of the session''s identity and shared ones, including forgotten ones.';
COMMENT ON VIEW memory_changes IS 'History of the session''s identity and of shared memory, row by row; memory_history() returns that of one memory.';
COMMENT ON VIEW memory_entries IS 'Entries that are not inactive, of the session''s identity and shared memory.';
COMMENT ON VIEW memory_episodes IS 'Runs of related turns in the sessions of the session''s identity.';
COMMENT ON VIEW memory_session_summaries IS 'Active summaries of the session''s identity.';
COMMENT ON VIEW memory_sessions IS 'Conversations of the session''s identity.';
COMMENT ON VIEW memory_jobs IS 'Jobs of the session''s identity, with progress (done of total).';
COMMENT ON VIEW memory_llm_calls IS 'Calls of language models, without bodies.';
COMMENT ON VIEW memory_traces IS 'Traces of extractions from episodes.';
COMMENT ON SCHEMA memory_agent IS 'Tables and internals of the extension memory_agent.';
COMMENT ON COLUMN memory_agent.sessions.last_turn_at IS 'Event time of the newest turn.';
COMMENT ON COLUMN memory_agent.sessions.active_tokens IS 'Tokens of the turns in the window.';
COMMENT ON COLUMN memory_agent.sessions.active_entries IS 'Turns and facts in the window.';
COMMENT ON COLUMN memory_agent.sessions.unsummarized_tokens IS 'Tokens of turns that were stored since the session was last summarised.';
COMMENT ON COLUMN memory_agent.sessions.content_type IS 'Kind of summaries: conversation, journal or document; NULL is that of the agent, else conversation.';
COMMENT ON COLUMN memory_agent.sessions.settings IS 'Settings of this session that override those of the agent and the server.';
COMMENT ON COLUMN memory_agent.entries.session_id IS 'NULL is the user''s global memory, which the conversation called global is part of.';
COMMENT ON COLUMN memory_agent.entries.content_hash IS 'SHA-256 of the trimmed content.';
COMMENT ON COLUMN memory_agent.entries.token_count IS 'cl100k_base tokens of the content.';
COMMENT ON COLUMN memory_agent.entries.token_count_exact IS 'False while token_count is an estimate.';
COMMENT ON COLUMN memory_agent.entries.embedding IS 'Embedding of the text with its speaker''s name; the first window of a long text.';
COMMENT ON COLUMN memory_agent.entries.lexemes IS 'Words of the text with its speaker''s name.';
COMMENT ON COLUMN memory_agent.entries.doc_len IS 'Number of words in lexemes, including repetitions: the document length of BM25.';
COMMENT ON COLUMN memory_agent.entries.source_ids IS 'The turns a fact came from; with an empty content, turns that are out of date with the fact in replaced_by.';
COMMENT ON COLUMN memory_agent.entries.source_relation IS 'The attached table a row came from.';
COMMENT ON COLUMN memory_agent.entries.source_key IS 'The primary key of the attached table''s row, a JSON array.';
COMMENT ON COLUMN memory_agent.entries.fact_key IS 'A fact with the same key in the same scope replaces this one.';
COMMENT ON COLUMN memory_agent.entries.confidence IS '0 to 1.';
COMMENT ON COLUMN memory_agent.entries.created_at IS 'Event time: when it was said.';
COMMENT ON COLUMN memory_agent.entries.recorded_at IS 'When it was stored.';
COMMENT ON COLUMN memory_agent.entries.state IS 'active: in the window and in recall; archived: in recall only; inactive: kept for audit and questions about the past.';
COMMENT ON COLUMN memory_agent.entries.valid_to IS 'Event time at which it stopped being true; NULL while it is true.';
COMMENT ON COLUMN memory_agent.entries.replaced_by IS 'The entry that replaced it.';
COMMENT ON COLUMN memory_agent.entries.doubted_by IS 'What was said later than this fact and perhaps replaces or ends it: a fact, or a turn.';
COMMENT ON COLUMN memory_agent.entries.extracted_at IS 'When facts were extracted from it. NULL while a turn waits for extraction; infinity while it waits for the end of its episode, or, said by an assistant, for the extraction of what was decided; -infinity for a turn without extraction.';
COMMENT ON COLUMN memory_agent.archives.summary_id IS 'The L3 with which a conversation was last archived: an L3 made from it replaces it in the archive.';
COMMENT ON COLUMN memory_agent.archives.namespace IS 'conversations:USER or documents:USER.';
COMMENT ON COLUMN memory_agent.archives.doc_type IS 'conversation for archived conversations, any other value for documents.';
COMMENT ON COLUMN memory_agent.archives.content IS 'The whole text; its chunks name this row in metadata ->> ''parent_id''.';
COMMENT ON COLUMN memory_agent.archives.content_hash IS 'SHA-256 of the trimmed content: a document is stored once in a scope.';
COMMENT ON COLUMN memory_agent.jobs.payload IS 'Input and progress of the job. Emptied when it is done.';
COMMENT ON COLUMN memory_agent.jobs.attempts IS 'Failures of the job itself. An outage of the LLM or the models does not count.';
COMMENT ON COLUMN memory_agent.jobs.max_attempts IS 'Failures after which the job is dead, until memory_retry().';
COMMENT ON COLUMN memory_agent.jobs.interrupted IS 'How often its worker died or was stopped while the job ran.';
COMMENT ON COLUMN memory_agent.jobs.leased_by IS 'The worker that claimed it last; NULL for a job that no worker has claimed.';
COMMENT ON COLUMN memory_agent.jobs.leased_until IS 'Until then the job belongs to its worker; after that, any worker may claim it.';
COMMENT ON COLUMN memory_agent.jobs.last_error IS 'The last failure, even if it did not count.';
COMMENT ON COLUMN memory_agent.llm_calls.status IS 'ok, or what went wrong: http 429, timeout, connection, bad answer, ...; abandoned: the answer was not read, and prompt_tokens is an estimate.';
COMMENT ON COLUMN memory_agent.llm_calls.request IS 'The messages that were sent, only while memory_agent.trace is calls.';
COMMENT ON COLUMN memory_agent.llm_calls.response IS 'The answer, only while memory_agent.trace is calls.';
COMMENT ON COLUMN memory_agent.history.salt IS 'Random, so that an erased body cannot be guessed from the commitment.';
COMMENT ON COLUMN memory_agent.history.hash IS 'Hash of the chain up to this row; NULL until the row is sealed.';
COMMENT ON COLUMN memory_agent.models.location IS 'Folder of the model; NULL is its folder in memory_agent.model_dir.';
COMMENT ON FUNCTION memory_ingest(text,text,text,text,text,jsonb,text[],timestamptz,interval) IS
    'Stores one message of a conversation and returns its id. role is user, assistant, system, tool or memory; metadata is an object whose key name is the speaker, created_at is when it was said (default: now), and ttl is the time until it expires. Errors: 22023, 23514, 42501. See docs/reference.md.';
COMMENT ON FUNCTION memory_ingest_batch(jsonb,text,text,text) IS
    'Stores many messages in one statement, all of them or none, and returns their ids in the order given. turns is a jsonb array of objects with role, content and, as in memory_ingest, session_id, metadata, markers, created_at and ttl; session_id is for turns that name none. See docs/reference.md.';
COMMENT ON FUNCTION memory_add(text,text,text,text,jsonb,text[],timestamptz,interval,boolean,text) IS
    'Stores a statement as a fact and returns its id, or the id of an existing fact that says the same. infer => true keeps the text as a source from which an LLM extracts facts, and returns the id of the source, while false stores the text itself; fact_key supersedes the fact with the same key in the same scope. Errors: 22023, 55000. See docs/reference.md.';
COMMENT ON FUNCTION memory_close_episode(text,text,text,text) IS
    'Closes the open episode of a session and returns its id, or NULL if none is open. reason is free text (default: manual). See docs/reference.md.';
COMMENT ON FUNCTION memory_recall(text,text,text,text,bigint,bigint,text[],jsonb,timestamptz,double precision,double precision,double precision,boolean,vector,text[]) IS
    'Returns the memories that answer a query, best first, with their scores, and never writes. session_id NULL means all sessions of the user; top_k is the number of rows, token_budget the tokens that they never exceed together, as_of the time at which the rows were true, and filter a jsonb object. Errors: 22023, 42501. See docs/reference.md.';
COMMENT ON FUNCTION memory_explain(text,text,text,text,bigint,bigint,text[],jsonb,timestamptz,double precision,double precision,double precision,boolean,vector,text[]) IS
    'Runs the same recall as memory_recall and returns it as one jsonb document: mode, milliseconds of each step, sizes of the pools, and for every candidate all parts of its score and the step that dropped it. The arguments are those of memory_recall. See docs/reference.md.';
COMMENT ON FUNCTION memory_recall(text,bigint,text,text,bigint,bigint,text[],jsonb,timestamptz,double precision,double precision,double precision,boolean,vector,text[],text) IS
    'Does what memory_recall does, but the cross-encoder reads rerank_rows of the most promising rows instead of memory_agent.rerank_rows. rerank_rows is 0 to 100, and 0 means none. Errors: 22023, 42501. See docs/reference.md.';
COMMENT ON FUNCTION memory_explain(text,bigint,text,text,bigint,bigint,text[],jsonb,timestamptz,double precision,double precision,double precision,boolean,vector,text[],text) IS
    'Does what memory_explain does, with rerank_rows as in memory_recall. See docs/reference.md.';
COMMENT ON FUNCTION memory_context(text,text,bigint,text,text) IS
    'Returns the contents of the next prompt as jsonb {messages, summary, memories, cross_session, left_out, token_count}: a summary, memories, the newest turns, and query as the current message. messages never exceeds token_budget (tokens, default 2000), nor what memory_agent.context_limit leaves beside the answer. Errors: 22023. See docs/reference.md.';
COMMENT ON FUNCTION memory_augment(jsonb,text,text,text,bigint,double precision,double precision) IS
    'Returns messages for an LLM with memories put before the user''s last message: {messages, memory_hits, left_out}. messages is a jsonb array in OpenAI''s format, or the body of a request with one; session_id is the conversation (default: default), and top_k the number of memories (0: messages unchanged). Errors: 22023, 42501. See docs/reference.md.';
COMMENT ON FUNCTION memory_augment(jsonb,bigint,text,text,bigint,double precision,double precision,text) IS
    'Does what memory_augment does, within a budget. token_budget is the most tokens of all messages, memories included (NULL: what memory_agent.context_limit leaves beside the answer). Errors: 22023. See docs/reference.md.';
COMMENT ON FUNCTION memory_augment_block(jsonb,text,text,text,bigint,double precision,double precision) IS
    'Returns what memory_augment puts into the messages, alone: {block, has_summary, memory_hits, left_out}. The arguments are those of memory_augment; block is the text to put before what the user typed. Errors: 22023, 42501. See docs/reference.md.';
COMMENT ON FUNCTION memory_chat(jsonb,text,text,text,bigint,double precision,double precision,text,text,double precision,bigint,boolean) IS
    'Sends the messages with memories to the LLM, waits for it, stores the user''s last message and the answer as turns, and returns an OpenAI chat completion with memory_hits, or {error, memory_hits} if the LLM fails. The arguments are those of memory_augment; max_tokens limits the answer, and store => false stores nothing. Errors: 0A000, 22023, 23514, 25006, 40001, 42501, 55000. See docs/reference.md.';
COMMENT ON FUNCTION memory_chat(jsonb,bigint,text,text,bigint,double precision,double precision,text,text,double precision,bigint,boolean,text) IS
    'Does what memory_chat does, within a budget. token_budget is the most tokens of all messages, as in memory_augment. See docs/reference.md.';
COMMENT ON TABLE memory_agent.endpoints IS 'LLM endpoints that memory_set_endpoint wrote. Keys are not here: key_name is a file of memory_agent.llm_key_dir.';
COMMENT ON COLUMN memory_agent.endpoints.enabled_in IS 'The cluster, the database and the installation of the extension in which the owner wrote or enabled the endpoint. In a copy of the database and after a restore it is off.';
COMMENT ON TABLE memory_agent.endpoint_uses IS 'The LLM endpoint of each agent; an empty agent_id stands for all agents without one of their own.';
COMMENT ON TABLE memory_agent.llm_probes IS 'The number of right answers that each LLM gave in a probe, of 16 choices (probe choices) or of 8 messages (probe statements). A row counts until valid_until, and pg_dump does not include it. See docs/worker.md.';
COMMENT ON COLUMN memory_agent.llm_calls.endpoint IS 'The row of memory_agent.endpoints that was called; NULL for the endpoint of the settings.';
COMMENT ON FUNCTION memory_set_endpoint(text,text,text,text,text,text,bigint,bigint) IS
    'Writes an LLM endpoint, or changes the one of this name, and enables it in this database; only for the owner of the extension. provider is openai, azure or anthropic, and key_name a file in the host''s folder of memory_agent.llm_key_dir; calls_per_minute counts all databases together, daily_tokens this one per day (UTC), and 0 is no limit. Errors: 22023, 42501. See docs/reference.md.';
COMMENT ON FUNCTION memory_enable_endpoint(text) IS
    'Enables an endpoint that came with a restored dump or a copied database, and returns whether there is one of this name. Only the owner of the extension may call it. Errors: 22023, 42501. See docs/reference.md.';
COMMENT ON FUNCTION memory_drop_endpoint(text) IS
    'Deletes an endpoint that no agent uses, and returns whether there was one of this name. Only the owner of the extension may call it. Errors: 22023, 42501, 55000. See docs/reference.md.';
COMMENT ON FUNCTION memory_use_endpoint(text,text) IS
    'Chooses the LLM endpoint of an agent, for statements and background work. name is one of memory_list_endpoints(), or NULL to remove the choice; agent_id NULL means all agents without an endpoint of their own. Errors: 22023, 42501, 42704. See docs/reference.md.';
COMMENT ON FUNCTION memory_list_endpoints() IS
    'Lists the LLM endpoints of this database by name, with the agents that use them, their limits (0: none), and the tokens used since midnight UTC. is_enabled is false for an endpoint that came with a copy, until the owner calls memory_enable_endpoint. Errors: 42501. See docs/reference.md.';
COMMENT ON TABLE memory_agent.quotas IS 'What users may have, as memory_set_quota wrote it; user_id ''*'' stands for all users without one of their own. NULL: as for all users; 0: no limit.';
COMMENT ON COLUMN memory_agent.quotas.bytes IS 'Bytes of the contents of entries.';
COMMENT ON COLUMN memory_agent.quotas.daily_tokens IS 'Tokens of LLMs per day in UTC.';
COMMENT ON TABLE memory_agent.quota_counts IS 'What users with a quota of entries or bytes had when it was counted. A sweep deletes counts that newer ones replace, and pg_dump does not include the rows. See docs/operations.md.';
COMMENT ON COLUMN memory_agent.quota_counts.id IS 'Entries with greater ids were stored after the count.';
COMMENT ON FUNCTION memory_set_quota(text,bigint,bigint,bigint) IS
    'Sets the quota of a user, or with user_id ''*'' of all users without one of their own, in place of the one before. entries and bytes limit what a user has, daily_tokens the tokens of LLMs per day (UTC); NULL means as for all users, 0 no limit, and over a quota nothing can be added (53400). Errors: 22023, 42501. See docs/reference.md.';
COMMENT ON FUNCTION memory_list_quotas() IS
    'Lists the quotas by user, as memory_set_quota wrote them; user_id ''*'' means all users without one of their own. A limit of NULL is the one for all users, and 0 is no limit. Errors: 42501. See docs/reference.md.';
COMMENT ON FUNCTION memory_usage(text) IS
    'Returns what a user has, beside the quota: a row for entries, for bytes of their contents, and for daily_tokens, the tokens of LLMs since midnight UTC. user_id defaults to the caller; quota NULL means no limit. Errors: 22023, 42501. See docs/reference.md.';
COMMENT ON FUNCTION memory_add_document(text,text,text,text,text,text,jsonb) IS
    'Stores a document, cut into chunks that memory_recall returns, and returns its id, or the id of the document with the same text in the same scope. title has at most 1000 bytes, doc_type is any value except conversation, and metadata is an object that every chunk also gets. Errors: 22023, 42501. See docs/reference.md.';
COMMENT ON FUNCTION memory_recall_times() IS
    'Returns how long the parts of this transaction''s last recall took, in milliseconds: embed the question, search, rerank, rank. Without a recall it returns no row. Errors: 42501. See docs/reference.md.';
COMMENT ON FUNCTION memory_state(jsonb,text,text,text) IS
    'Returns a text that changes when what a prompt tells no longer holds, for programs that send a prompt again. memories is memory_hits of memory_augment or memories of memory_context (NULL: no memories), session_id the session whose summary the prompt tells. Errors: 22023, 42501. See docs/reference.md.';
COMMENT ON FUNCTION memory_list(text,text,bigint,timestamptz,uuid,boolean,uuid,uuid,boolean,text,text) IS
    'Returns a page of the user''s and shared entries, newest first, with the columns of the view memory_entries. limit is the number of rows (at most 1000), from_at and from_id are created_at and id of the entry after which the page begins, and id, source_id, kind, session_id and agent_id select entries. Errors: 22023, 42501. See docs/reference.md.';
COMMENT ON FUNCTION memory_list_documents(text,bigint,text) IS
    'Lists documents and archived conversations, the user''s and shared ones, the most recently changed first. doc_type selects a type, and limit is the number of rows (default 10, at most 1000). See docs/reference.md.';
COMMENT ON FUNCTION memory_archive(text,text,text) IS
    'Archives the conversation of a session, without an LLM, and returns the id of the archive, or NULL if the session has no turns. memory_search_archive finds it, and so do prompts of other sessions that ask for an earlier conversation. Errors: 22023, 42501. See docs/reference.md.';
COMMENT ON FUNCTION memory_search_archive(text,bigint,text,text,text,text) IS
    'Returns the archived conversations of the user that answer a query, best first, and never writes. top_k is the number of rows (default 5, at most 1000), exclude_session a session to leave out, and doc_type conversation, a type of documents, or NULL for the whole knowledge base. Errors: 22023, 42501. See docs/reference.md.';
COMMENT ON FUNCTION memory_search_archive(text,double precision,text,text,text,text) IS
    'Does what memory_search_archive does, with the name that top_k had in 0.2.0: "limit". See docs/reference.md.';
COMMENT ON FUNCTION memory_embed(text,text) IS
    'Returns the embedding of a text by the active embedding model. purpose is query (default) or document; some models embed questions differently. Errors: 58000. See docs/reference.md.';
COMMENT ON FUNCTION memory_embed(text[],text) IS
    'Returns the embeddings of several texts, in their order. See docs/reference.md.';
COMMENT ON FUNCTION memory_rerank(text,text[]) IS
    'Returns the cross-encoder''s logits of documents for a query, in the order of the documents. A logit is unbounded, and higher is better. Errors: 58000. See docs/reference.md.';
COMMENT ON FUNCTION memory_count_tokens(text) IS
    'Returns the number of cl100k_base tokens of a text. Errors: 58000. See docs/reference.md.';
COMMENT ON FUNCTION memory_count_tokens(text,text) IS
    'Returns the number of tokens of a text in an encoding, cl100k_base or o200k_base. Errors: 22023, 58000. See docs/reference.md.';
COMMENT ON FUNCTION memory_register_model(text,text,text,boolean) IS
    'Loads, checks and registers a model, and returns its properties. kind is embedder or reranker, location its folder (superusers only; default: its folder in memory_agent.model_dir), and activate whether to use it from now on. Errors: 22023, 42501, 42710, 42809, 55000, 58000. See docs/reference.md.';
COMMENT ON FUNCTION memory_create_vector_index(text) IS
    'Builds an approximate index over the embeddings of the active model and returns its name; writers wait until it is built. method is hnsw (default) or ivfflat. Errors: 22023, 42501, 42710. See docs/reference.md.';
COMMENT ON FUNCTION memory_use_embedding_model(text) IS
    'Changes the embedding model of this database while memory is in use, and returns the job that does it. name is a registered embedder or a folder in memory_agent.model_dir; the name of the model in use cancels the change. Errors: 42501, 42809, 58000. See docs/reference.md.';
COMMENT ON FUNCTION memory_status() IS
    'Shows what runs and what does not: one row per component, with a hint if it needs attention. It shows counts only, never content. See docs/reference.md.';
COMMENT ON FUNCTION memory_wait(interval,text,text) IS
    'Waits until no job of the user, or of one session, is waiting or running, and returns whether that happened within timeout. timeout defaults to 30 seconds, and 0 checks once; for an administrator who names neither user nor session, all jobs count. Errors: 22023, 25001, 55000. See docs/reference.md.';
COMMENT ON FUNCTION memory_wait(double precision,text,text) IS
    'Does what memory_wait does, with a timeout in seconds. See docs/reference.md.';
COMMENT ON FUNCTION memory_wait(text,text,text) IS
    'Does what memory_wait does, with a timeout that is written as an interval, such as 2 minutes. See docs/reference.md.';
COMMENT ON FUNCTION memory_retry(uuid,text) IS
    'Runs a dead job again, from its first attempt, and returns whether there was one. job_id comes from the view memory_jobs. Errors: 22004, 42501. See docs/reference.md.';
COMMENT ON FUNCTION memory_compress(text,text,text) IS
    'Queues the compression of a session''s window and returns the job''s id, or NULL if there is nothing to compress. All turns except the newest memory_agent.recent_messages_to_keep are summarised and leave the window; they stay in recall. Errors: 22023, 42501, 55000. See docs/reference.md.';
COMMENT ON FUNCTION memory_originals(uuid,text) IS
    'Returns the turns behind a summary, oldest first, including those behind the summaries that were merged into it. summary_id comes from the view memory_session_summaries; an unknown id returns no rows. Errors: 22004, 42501. See docs/reference.md.';
COMMENT ON FUNCTION memory_stats(text,text,text) IS
    'Returns counts of a session, or of all sessions of a user, as jsonb: turns, facts, unverified facts, documents, tokens, episodes, markers, summaries. See docs/reference.md.';
COMMENT ON FUNCTION memory_export_markdown(text,text,text) IS
    'Returns the memories of a session as Markdown files with YAML front matter, in rows of path and content, and never writes. session_id NULL or global means the user''s global memory, of all agents unless agent_id names one. Errors: 22023, 42501. See docs/reference.md.';
COMMENT ON FUNCTION memory_import_markdown(text,text,text) IS
    'Stores the memory in a Markdown file and returns its id; a memory that is stored with another content is updated, as by memory_update. content is front matter between two lines ---, then the text, and path gives what the front matter leaves out. Errors: 22023, 23505, 42501, 42809, 55000. See docs/reference.md.';
COMMENT ON FUNCTION memory_export_json(text,text) IS
    'Returns everything of a user as JSON objects, one in each row, in the order in which memory_import_json stores them; it never writes. agent_id selects one agent (default: all). Errors: 42501. See docs/reference.md.';
COMMENT ON FUNCTION memory_import_json(jsonb,text) IS
    'Stores one object of memory_export_json and returns its id, or NULL for settings. A memory is stored, or updated, as by memory_import_markdown; other objects are added to what exists. Errors: 22023, 23505, 42501, 42809, 55000. See docs/reference.md.';
COMMENT ON FUNCTION memory_grant(regrole,text) IS
    'Grants a role a level; only for the extension''s owner. level is reader (recall), user (also store), gateway (also look up tokens and count spending) or admin (also name any user, register models). Errors: 42501. See docs/reference.md.';
COMMENT ON FUNCTION memory_revoke(regrole) IS
    'Revokes a role''s level and returns whether it had one. Only the extension''s owner may call it. Errors: 42501. See docs/reference.md.';
COMMENT ON FUNCTION memory_agent.visible_users() IS
    'The identity of this session and the shared user ''*'': the users whose rows row-level security shows.';
COMMENT ON FUNCTION memory_agent.function_levels() IS
    'The lowest level that may call each public function.';
COMMENT ON FUNCTION memory_agent.follow_roles() IS
    'Writes the names that renamed roles have now into memory_agent.grants.';
COMMENT ON FUNCTION memory_agent.require_owner() IS
    'Raises 42501 unless the caller owns the extension.';
COMMENT ON FUNCTION memory_agent.require_role(regrole) IS
    'Raises 42704 unless there is such a role, 22023 for the owner, who needs no level.';
COMMENT ON FUNCTION memory_agent.public_schema() IS
    'The schema that holds the public functions.';
COMMENT ON FUNCTION memory_agent.renew_levels() IS
    'Grants every role the privileges of its level again, and revokes those on the row types of the extension''s tables and views from all other roles; for use after an update, pg_upgrade, or a restore without privileges of single objects. Only for the owner of the extension.';
COMMENT ON FUNCTION memory_agent.revoke_all(regrole) IS
    'Revokes every privilege on the extension''s objects from a role.';
COMMENT ON COLUMN memory_agent.grants.role_oid IS 'The role, which keeps its level when it is renamed. NULL in rows of older versions, which go by the name.';
COMMENT ON COLUMN memory_agent.grants.cluster_id IS 'The system identifier of the cluster in which role_oid is the role. In another one, as after a restore, the name counts.';
COMMENT ON COLUMN memory_agent.session_summaries.source_ids IS 'The turns that this row condenses itself.';
COMMENT ON COLUMN memory_agent.session_summaries.previous_id IS 'The L3 whose content was merged into this one.';
COMMENT ON COLUMN memory_agent.episodes.ended_at IS 'Event time of the newest turn so far.';
COMMENT ON COLUMN memory_agent.episodes.status IS 'open while turns are added to it, closed when it has ended, reflected when facts were extracted from it or its turns wait for that.';
COMMENT ON COLUMN memory_agent.episodes.carried_into IS 'For a short episode: the later episode with whose turns its own were extracted from.';
COMMENT ON COLUMN memory_agent.traces.episode_id IS 'The episode; the last one if short episodes were carried into it.';
COMMENT ON COLUMN memory_agent.traces.body IS 'mode, episodes, input_turn_count, input_turns, prior_fact_count, prior_facts (the newest), scoped_facts (those that new ones were compared with), raw_output, saved_facts, superseded_facts, rounds, elapsed_ms.';
COMMENT ON COLUMN memory_agent.episodes.wants_reflection IS 'Whether facts are to be extracted from the episode when it ends.';
COMMENT ON FUNCTION memory_load(text,text,text) IS
    'Returns the window of a session as it goes into a prompt: the summary as a row of role system, if there is one, then the turns that have not left the window, oldest first. token_count is the number of cl100k_base tokens of the content. Errors: 22023, 42501. See docs/reference.md.';
COMMENT ON FUNCTION memory_clear(text,text,text) IS
    'Forgets a session and returns the number of its turns: turns, facts and summaries become inactive, its episode ends, and its jobs are cancelled. The rows stay for audit and as_of. Errors: 22023, 42501. See docs/reference.md.';
COMMENT ON FUNCTION memory_configure(text,text,jsonb,text,text) IS
    'Stores settings of a session, or without session_id of all sessions of an agent, and returns those in effect: {agent_id, session_id, content_type, settings, stored}. settings is an object of names, added to what is stored (null removes one); content_type is conversation, journal or document, for summaries. Errors: 22023, 42501, 42704. See docs/reference.md.';
COMMENT ON FUNCTION memory_backfill(timestamptz,text,boolean) IS
    'Queues facts and summaries of turns that were stored while there was no LLM or extraction was off, and returns the number of turns. since selects turns that were said from then on, and all_users is for administrators. Errors: 22023, 42501, 55000. See docs/reference.md.';
COMMENT ON FUNCTION memory_summarize(text,bigint,text) IS
    'Has the LLM condense a text, waits for it, and returns {summary, token_count, model, created_at, text_sha256, key_id, signature}. max_tokens is the most cl100k_base tokens of the summary (16 to 100000), and content_type conversation, journal or document. Errors: 22023, 25006, 42501, 55000, 58000, F0000. See docs/reference.md.';
COMMENT ON FUNCTION memory_reserve_tokens(text,bigint,boolean,text,text) IS
    'Takes the oldest turns out of the window of a session until it has at most budget tokens, and returns the tokens before and after, and how many turns left with (summarized) and without a summary (dropped). budget defaults to 95 % of memory_agent.context_limit; summarize asks the LLM for the missing summary and waits for it. Errors: 22023, 25006, 42501, 55000. See docs/reference.md.';
COMMENT ON FUNCTION memory_verify_history(text,bigint,bytea) IS
    'Verifies the hash chain of a user''s history, and returns one row with its state and head, then a row for each problem; it never writes. user_id defaults to the caller, for administrators to all users; seq and hash are a head that was kept elsewhere, which must be in the chain. Errors: 22023, 42501, F0000. See docs/reference.md.';
COMMENT ON FUNCTION memory_erase(text,text,uuid,text,text,boolean) IS
    'Erases memory for good and returns how many rows of each table lost their content. Name id (an entry with its versions, or a document), or session_id (global only with confirm_global), or user_id alone for everything of that user; reason has at most 1000 bytes. Errors: 22023, 25001, 25006, 42501, 42809. See docs/reference.md.';
COMMENT ON FUNCTION memory_load(text,bigint,text,text) IS
    'Does what memory_load does, within a budget: the summary has at most a quarter of it, and then come the newest turns without gaps. token_budget is the most tokens of all rows, with four more for each (NULL: 95 % of memory_agent.context_limit). See docs/reference.md.';
COMMENT ON FUNCTION memory_clear(text,boolean,text,text) IS
    'Does what memory_clear does, also for global, the user''s global memory. With confirm_global, its turns, facts and summaries of the agent become inactive. See docs/reference.md.';
COMMENT ON FUNCTION memory_agent.history_is_open() IS
    'Whether this session now runs a statement of the extension that may change history: one that seals rows or erases bodies.';
COMMENT ON FUNCTION memory_agent.refuse_history_change() IS
    'Trigger function: raises 42501.';
COMMENT ON COLUMN memory_agent.history.op IS 'What happened: add, import, update, supersede, delete, restore, expire, erase, summarize, ...';
COMMENT ON COLUMN memory_agent.history.actor IS 'The role that was logged in (session_user); the worker is a superuser.';
COMMENT ON COLUMN memory_agent.history.body IS 'The entry or summary as it was after the event; NULL when it was erased.';
COMMENT ON COLUMN memory_agent.history.commitment IS 'SHA-256 of salt, body and, if there is one, a zero byte and the reason.';
COMMENT ON COLUMN memory_agent.history.seq IS 'Number of the row in its user''s chain, from 1; NULL until it is sealed.';
COMMENT ON COLUMN memory_agent.history.key_id IS 'The key that sealed the row; NULL when there was none.';
COMMENT ON COLUMN memory_agent.history.erased_by IS 'The row of op erase that removed body, salt and reason.';
COMMENT ON FUNCTION memory_attach(regclass,text,text,text,text,text[],text,text,boolean,text,text,text,boolean,text,text,text,jsonb,text[]) IS
    'Makes the rows of a table memory, by triggers, and returns the job that takes in the existing rows, or NULL with backfill => false. content_column is the text; other arguments name the columns or fixed values of user, session, role, time and metadata, and condition selects rows. Errors: 0A000, 22004, 22023, 42501, 42703, 42710, 42804, 55000. See docs/reference.md.';
COMMENT ON FUNCTION memory_detach(text,boolean) IS
    'Ends the attachment of a table and returns the number of entries that ended. relation is the table, or the name of a dropped one; forget also ends the entries of its rows, which otherwise stay. Errors: 42501, 42704. See docs/reference.md.';
COMMENT ON FUNCTION memory_agent.attached_rows() IS
    'The trigger function of attached tables. Only memory_attach creates its triggers.';
COMMENT ON COLUMN memory_agent.attachments.relation IS 'The name that the table had when it was attached: source_relation of its rows'' entries.';
COMMENT ON COLUMN memory_agent.attachments.user_id IS 'The user of every row; NULL if a column or the writer of the row decides.';
COMMENT ON COLUMN memory_agent.attachments.relation_oid IS 'The table; out of date after a dump and restore, when the names apply.';
COMMENT ON COLUMN memory_agent.attachments.column_numbers IS 'The numbers of the columns for content, user, session, time, role, metadata, more content and the condition, 0 for none: they stay valid when a column is renamed.';
COMMENT ON COLUMN memory_agent.attachments.extract_facts IS 'Whether an LLM extracts facts from rows of role user.';
COMMENT ON COLUMN memory_agent.attachments.condition IS 'The condition under which rows are remembered, as PostgreSQL prints it; NULL for all rows.';
COMMENT ON COLUMN memory_agent.attachments.condition_names IS 'The names that columns have in the condition.';
COMMENT ON COLUMN memory_agent.attachments.condition_columns IS 'The names that these columns have now.';
COMMENT ON COLUMN memory_agent.attachments.more_content_columns IS 'Columns whose texts follow that of content_column.';
COMMENT ON COLUMN memory_agent.attachments.content_path IS 'Where the text stands in a content that is JSON.';
COMMENT ON COLUMN memory_agent.attachments.role_path IS 'Where the role stands in the JSON of role_column, or else of content_column.';
COMMENT ON COLUMN memory_agent.attachments.role_map IS 'The roles that those of the table stand for; null for rows that are not remembered.';
COMMENT ON FUNCTION memory_update(uuid,text,text) IS
    'Gives a turn, a fact or a document a new text and returns the id of the new version; a document keeps its id. Recall with an earlier as_of still finds the old text; content has 1 byte to memory_agent.max_content_bytes. Errors: 22004, 22023, 23505, 25006, 42501, 42704, 42809, 55000. See docs/reference.md.';
COMMENT ON FUNCTION memory_forget(uuid,text,text) IS
    'Forgets a turn, a fact, a document or a chunk of one, so that recall no longer returns it, and returns whether there was something to forget. reason, at most 1000 bytes, is kept in history. Errors: 22004, 22023, 25006, 42501. See docs/reference.md.';
COMMENT ON FUNCTION memory_restore(uuid,text) IS
    'Restores an entry that was forgotten, cleared, replaced or expired, or that left the window, and returns whether there was something to restore. It also makes a memory of an unverified fact. Errors: 22004, 25006, 42501, 55000. See docs/reference.md.';
COMMENT ON FUNCTION memory_history(uuid,text) IS
    'Returns what happened to an entry and all its versions, to a document or to a summary, oldest first. op is what happened, actor the SQL role, content and entry are the text and the row after it (NULL once erased), and seq is the number in the user''s chain. Errors: 22004, 42501. See docs/reference.md.';
COMMENT ON FUNCTION memory_create_token(text, text, timestamptz, boolean) IS
    'Makes a token with which a client of the gateway acts for a user, and returns it, this once; only for administrators. With for_users the client, a service, may name any user in a request. Errors: 22023, 42501, 42710. See docs/reference.md.';
COMMENT ON FUNCTION memory_revoke_token(text, text) IS
    'Revokes a token of a user and returns whether there was one of this name. Only administrators may call it. See docs/reference.md.';
COMMENT ON FUNCTION memory_list_tokens() IS
    'Lists the tokens of all users, without their secrets; only for administrators. spent_today is what was spent with each since midnight UTC, and for_users whether it may name any user. See docs/reference.md.';
COMMENT ON FUNCTION memory_token_user(bytea) IS
    'Returns the user of the token with this SHA-256, and whether it may name any other user; no row if the token is unknown or has expired. The caller needs the level gateway. Errors: 42501. See docs/reference.md.';
COMMENT ON FUNCTION memory_spent_today() IS
    'Returns the tokens of language models that all callers of the gateway have spent since midnight UTC, also without a token. Only administrators may call it. See docs/reference.md.';
COMMENT ON FUNCTION memory_spend(bytea, bigint, bigint, bigint) IS
    'Adds tokens of a language model to what the caller with this SHA-256 has spent today (UTC) and returns the sum; needs the level gateway. at_most reserves tokens before a call, and returns NULL once this much is spent; reserved counts tokens after it, in the place of so many reserved ones. Errors: 22023, 25006, 42501. See docs/reference.md.';
COMMENT ON FUNCTION memory_ingest_once(text, text, text, text, text, text, jsonb, jsonb, uuid[]) IS
    'Stores a turn that a client may send again, unless it is stored already, and returns id, is_new, replaced and answers. request_key and content tell whether it is stored; history is a jsonb array of the messages before it, and replaces lists the answers that a new answer supersedes. Errors: 22023. See docs/reference.md.';
