-- What psql shows with \dd, \d+ and \df+: the reference of every object.

COMMENT ON TABLE memory_agent.sessions IS 'One row per conversation of one user with one agent.';
COMMENT ON TABLE memory_agent.agents IS 'What memory_configure said for all sessions of an agent; user * stands for all users.';
COMMENT ON TABLE memory_agent.entries IS 'Turns, facts and document chunks: everything that recall can return.';
COMMENT ON TABLE memory_agent.entry_windows IS 'The further windows of entries that are longer than their embedding model reads at once; while the model is changed also what the next one makes of all entries.';
COMMENT ON TABLE memory_agent.session_summaries IS 'Summaries of sessions, levels L1 (chunks), L2 (groups) and L3 (whole).';
COMMENT ON TABLE memory_agent.episodes IS 'Runs of related turns in a session.';
COMMENT ON TABLE memory_agent.jobs IS 'Work for the background worker; at most one pending job of a kind and scope.';
COMMENT ON TABLE memory_agent.history IS 'Append-only record of what happened to memory: a hash chain per user over salted commitments.';
COMMENT ON TABLE memory_agent.llm_calls IS 'Calls of language models: tokens, latency, status. Bodies only while tracing.';
COMMENT ON TABLE memory_agent.traces IS 'One document per reflection: its inputs, output and effects.';
COMMENT ON TABLE memory_agent.archives IS 'The knowledge base: documents and archived conversations as wholes. Their chunks are entries of kind document.';
COMMENT ON TABLE memory_agent.models IS 'Models known in this database. Without an active one, the settings name it.';
COMMENT ON TABLE memory_agent.attachments IS 'Application tables whose rows become entries.';
COMMENT ON TABLE memory_agent.grants IS 'Levels of roles, written by memory_grant and memory_revoke.';
COMMENT ON VIEW memory_agents IS 'What memory_configure stored for all sessions of an agent, by the session''s identity and for all users.';
COMMENT ON VIEW memory_archives IS 'Documents and archived conversations as wholes, of the session''s identity and shared ones, forgotten ones included.';
COMMENT ON VIEW memory_changes IS 'History of the session''s identity and of shared memory, row by row; memory_history() tells that of one memory.';
COMMENT ON VIEW memory_entries IS 'Entries that are not inactive, of the session''s identity and shared memory.';
COMMENT ON VIEW memory_episodes IS 'Runs of related turns in the sessions of the session''s identity.';
COMMENT ON VIEW memory_session_summaries IS 'Active summaries of the session''s identity.';
COMMENT ON VIEW memory_sessions IS 'Conversations of the session''s identity.';
COMMENT ON VIEW memory_jobs IS 'Jobs of the session''s identity, with progress (done of total).';
COMMENT ON VIEW memory_llm_calls IS 'Calls of language models, without bodies.';
COMMENT ON VIEW memory_traces IS 'Traces of reflections.';
COMMENT ON SCHEMA memory_agent IS 'Tables and internals of the extension memory_agent.';
COMMENT ON COLUMN memory_agent.sessions.last_turn_at IS 'Event time of the newest turn.';
COMMENT ON COLUMN memory_agent.sessions.active_tokens IS 'Tokens of the turns in the window.';
COMMENT ON COLUMN memory_agent.sessions.active_entries IS 'Turns and facts in the window.';
COMMENT ON COLUMN memory_agent.sessions.unsummarized_tokens IS 'Tokens of turns that came since the session was last summarised.';
COMMENT ON COLUMN memory_agent.sessions.content_type IS 'What is summarised: conversation, journal or document; NULL is as the agent says, else conversation.';
COMMENT ON COLUMN memory_agent.sessions.settings IS 'Settings of this session that override those of the agent and the server.';
COMMENT ON COLUMN memory_agent.entries.session_id IS 'NULL is the user''s global memory.';
COMMENT ON COLUMN memory_agent.entries.content_hash IS 'SHA-256 of the trimmed content.';
COMMENT ON COLUMN memory_agent.entries.token_count IS 'cl100k_base tokens of the content.';
COMMENT ON COLUMN memory_agent.entries.token_count_exact IS 'False while token_count is an estimate.';
COMMENT ON COLUMN memory_agent.entries.embedding IS 'Of the text with its speaker''s name; the first window of a long text.';
COMMENT ON COLUMN memory_agent.entries.lexemes IS 'Of the text with its speaker''s name.';
COMMENT ON COLUMN memory_agent.entries.doc_len IS 'Words in lexemes, repetitions included: BM25''s document length.';
COMMENT ON COLUMN memory_agent.entries.source_ids IS 'The turns a fact came from; with an empty content, turns that are out of date with the fact in replaced_by.';
COMMENT ON COLUMN memory_agent.entries.source_relation IS 'The attached table a row came from.';
COMMENT ON COLUMN memory_agent.entries.source_key IS 'The primary key of the attached table''s row, a JSON array.';
COMMENT ON COLUMN memory_agent.entries.fact_key IS 'A fact with the same key in the same scope replaces this one.';
COMMENT ON COLUMN memory_agent.entries.confidence IS '0 to 1.';
COMMENT ON COLUMN memory_agent.entries.created_at IS 'Event time: when it was said.';
COMMENT ON COLUMN memory_agent.entries.recorded_at IS 'When it was stored.';
COMMENT ON COLUMN memory_agent.entries.state IS 'active: in the window and in recall; archived: in recall only; inactive: kept for audit and questions about the past.';
COMMENT ON COLUMN memory_agent.entries.valid_to IS 'Event time at which it stopped being true; NULL while it holds.';
COMMENT ON COLUMN memory_agent.entries.replaced_by IS 'The entry that replaced it.';
COMMENT ON COLUMN memory_agent.entries.extracted_at IS 'When facts were extracted from it. NULL while a turn waits for that; infinity while it waits for the reflection on its episode; -infinity when nobody was asked to.';
COMMENT ON COLUMN memory_agent.archives.summary_id IS 'The L3 that a conversation was last archived with: an L3 made of it takes its place in the archive.';
COMMENT ON COLUMN memory_agent.archives.namespace IS 'conversations:USER or documents:USER.';
COMMENT ON COLUMN memory_agent.archives.doc_type IS 'conversation for archived conversations, anything else for documents.';
COMMENT ON COLUMN memory_agent.archives.content IS 'The whole text; its chunks name this row in metadata ->> ''parent_id''.';
COMMENT ON COLUMN memory_agent.archives.content_hash IS 'SHA-256 of the trimmed content: a document is stored once in a scope.';
COMMENT ON COLUMN memory_agent.jobs.payload IS 'What the job needs to know, and how far it has come. Emptied when it is done.';
COMMENT ON COLUMN memory_agent.jobs.attempts IS 'Failures that were the job''s own. An outage of the LLM or the models does not count.';
COMMENT ON COLUMN memory_agent.jobs.max_attempts IS 'Failures after which the job is dead, until memory_retry().';
COMMENT ON COLUMN memory_agent.jobs.interrupted IS 'How often its worker died or was stopped while it ran.';
COMMENT ON COLUMN memory_agent.jobs.leased_by IS 'The worker that took it last; NULL for a job that none has seen.';
COMMENT ON COLUMN memory_agent.jobs.leased_until IS 'Until then the job is its worker''s; after that, anybody''s.';
COMMENT ON COLUMN memory_agent.jobs.last_error IS 'The last failure, also of one that did not count.';
COMMENT ON COLUMN memory_agent.llm_calls.status IS 'ok, or what went wrong: http 429, timeout, connection, bad answer, ...; abandoned: nobody read the answer, and prompt_tokens is an estimate.';
COMMENT ON COLUMN memory_agent.llm_calls.request IS 'The messages that were sent, only while memory_agent.trace is calls.';
COMMENT ON COLUMN memory_agent.llm_calls.response IS 'The answer, only while memory_agent.trace is calls.';
COMMENT ON COLUMN memory_agent.history.salt IS 'Random; makes commitment useless for guessing an erased body.';
COMMENT ON COLUMN memory_agent.history.hash IS 'Of the chain up to this row; NULL until it is sealed.';
COMMENT ON COLUMN memory_agent.models.location IS 'Folder of the model; NULL is its folder in memory_agent.model_dir.';
COMMENT ON FUNCTION memory_ingest(text,text,text,text,text,jsonb,text[],timestamptz,interval) IS
    'Stores one message of a conversation and returns its id. session_id: the conversation. role: user, assistant, system, tool or memory. content: the text, up to memory_agent.max_content_bytes. user_id: whose memory (default: the session''s identity). agent_id: which agent (default: memory_agent.agent_id, else ''default''). metadata: an object; its key name is the speaker. markers: decision, constraint, failure, goal or custom:NAME; given ones replace detected ones. created_at: when it was said (default: now). ttl: when it expires (default: memory_agent.default_ttl). Errors: 22023 for a value that cannot be stored, 42501 for another user''s memory. Without a model the row is stored and found by its words.';
COMMENT ON FUNCTION memory_ingest_batch(jsonb,text,text,text) IS
    'Stores many messages in one statement, embedded in batches, and returns their ids in the order given. turns: an array of objects with role, content and optionally session_id, metadata, markers, created_at, ttl, as in memory_ingest. session_id: for turns that name none. All are stored, or none.';
COMMENT ON FUNCTION memory_add(text,text,text,text,jsonb,text[],timestamptz,interval,boolean,text) IS
    'Stores a statement as a fact and returns its id, or the id of the fact that says the same already. session_id: NULL is the user''s global memory, seen from all sessions. infer: true (default) keeps the text as something the user said, from which the worker extracts facts by an LLM, and returns the id of that source (not a fact''s: facts point to it by source_ids); false stores the text itself as one fact. fact_key: a fact with the same key in the same scope is superseded; for infer => false only. Errors: 55000 when infer is true and memory_agent.llm_base_url is empty; 22023 for fact_key with infer => true.';
COMMENT ON FUNCTION memory_close_episode(text,text,text,text) IS
    'Closes the running episode of a session and returns its id, NULL when none runs. reason: free text, default manual.';
COMMENT ON FUNCTION memory_recall(text,text,text,text,integer,integer,text[],jsonb,timestamptz,real,real,real,boolean,vector,text[]) IS
    'Returns the memories that answer a query, in order. Never writes: works in read-only transactions and on standbys. session_id: this session, the user''s global memory and shared memory; NULL: all sessions of the user. top_k: rows (default memory_agent.default_top_k; 0 or less: none). token_budget: the rows'' tokens never add up to more; without top_k it alone cuts. kinds: of turn, fact, document. filter: a jsonb predicate with the keys metadata, role, kind, markers_any, markers_all, created_after, created_before, session_id, agent_id, episode_id. as_of: what was true then, ages counted from then. score_threshold: least sigmoid of the reranker''s logit (without a reranker: least relevance). recency_weight, mmr_lambda: 0 to 1. rerank: whether to use the cross-encoder. query_embedding: instead of embedding the query. rewrites: further wordings, whose candidates join the pool. Columns: score = (1 - w) * relevance + w * recency + marker boost; relevance 0 to 1; similarity is the cosine, NULL without an embedding; lexical is BM25, NULL without a common word; recency 0 to 1. Errors: 22023, 42501.';
COMMENT ON FUNCTION memory_explain(text,text,text,text,integer,integer,text[],jsonb,timestamptz,real,real,real,boolean,vector,text[]) IS
    'The same recall as memory_recall, as one jsonb document: mode, milliseconds of each step, sizes of the pools, and for every candidate all parts of its score and the step that dropped it.';
COMMENT ON FUNCTION memory_context(text,text,integer,text,text) IS
    'What to put into a prompt now: {messages, summary, memories, cross_session, token_count}, never over token_budget (default memory_agent.default_token_budget) and never over what memory_agent.context_limit leaves beside the answer. messages: OpenAI style: the session''s summary (at most a quarter of the budget), memories, facts first, each with its date, and, when the message asks for an earlier conversation, archived ones (at most a quarter together), each as a system message; the newest turns from old to new; query as the current message. Nothing is there twice. Turns of which nothing holds any more are left out of the memories; what else no longer holds is marked, in the turns too (memory_agent.prompt_stale_sources). Errors: 22023 when the current message alone exceeds the budget.';
COMMENT ON FUNCTION memory_augment(jsonb,text,text,text,integer,real,real) IS
    'Messages for an LLM with what is remembered put before the user''s last message: {messages, memory_hits}. messages: a jsonb array in OpenAI''s format. session_id: the conversation (default: default), whose memories, summary, and with them the user''s global memory are used. top_k: memories (default memory_agent.default_top_k; 0 or less: messages unchanged). recency_weight, score_threshold: as in memory_recall. memory_hits: the memories as {role, content, created_at, score, no_longer_true}: facts, then what was said, best first. What the messages and the memories take together is never over what memory_agent.context_limit leaves beside the answer. Stores nothing; works in read-only transactions and on standbys. Asks the LLM only with memory_agent.query_rewrite or memory_agent.read_contradiction_check on, and goes on with a WARNING when it fails. Errors: 22023 for messages that are none or that exceed the limit by themselves, 42501.';
COMMENT ON FUNCTION memory_augment(jsonb,integer,text,text,text,integer,real,real) IS
    'memory_augment with a budget. token_budget: most tokens of all messages, with what is put into them (NULL: what memory_agent.context_limit leaves beside the answer, which is never exceeded). Memories that do not fit are left out, the worst first. Errors: 22023 when it is negative, or when the messages exceed it by themselves.';
COMMENT ON FUNCTION memory_chat(jsonb,text,text,text,integer,real,real,text,text,real,integer) IS
    'Asks the LLM with memories put before the user''s last message, stores that message and the answer as turns of the session, and returns an OpenAI chat completion with memory_hits. Waits for the LLM: longest memory_agent.llm_timeout a call; cancel and statement_timeout end it, and nothing is stored then. When the LLM fails, the user''s message is stored and the result is {error: {code, message}, memory_hits}; code is unavailable, failed, refused or bad_answer. messages, session_id, top_k, recency_weight, score_threshold: as in memory_augment. model: instead of memory_agent.llm_model. post_process: background (facts and summaries are made after COMMIT). temperature: 0 to 2. max_tokens: of the answer; memory_agent.context_limit less that bounds what is sent. Errors: 55000 without an LLM or with memory_agent.inference = backend, 25006 in a read-only transaction, 22023 for messages without a text of the user, or that exceed the limit by themselves (the LLM is not asked then), 0A000 for post_process => wait (call memory_wait() after COMMIT), 42501; 40001 when memory of the user was erased meanwhile: nothing is stored then, call it again.';
COMMENT ON FUNCTION memory_chat(jsonb,integer,text,text,text,integer,real,real,text,text,real,integer) IS
    'memory_chat with a budget. token_budget: as in memory_augment.';
COMMENT ON FUNCTION memory_add_document(text,text,text,text,text,text,jsonb) IS
    'Stores a document and returns its id, or the id of the one with the same text in the same scope. It is cut into chunks of memory_agent.chunk_tokens along its Markdown, which memory_recall returns as entries of kind document with parent_id, granularity (document, section or chunk), headings, title, doc_type and ordinal in their metadata. content: the text, up to memory_agent.max_content_bytes. title: up to 1000 bytes. doc_type: anything but conversation. session_id: NULL is the user''s global memory. metadata: an object, which every chunk has too. Documents do not expire. Errors: 22023, 42501.';
COMMENT ON FUNCTION memory_list_documents(text,integer,text) IS
    'Documents and archived conversations of the user and shared ones, the one changed last first. doc_type: of this type only; conversations is accepted for conversation. limit: rows (default 10, at most 1000). chunks: how many there are to search. The texts are in memory_agent.archives.content.';
COMMENT ON FUNCTION memory_search_archive(text,integer,text,text,text,text) IS
    'Searches the archived conversations of the user, best first, with the steps of memory_recall, which does not see them. Never writes. limit: rows (default 5, at most 1000; 0 or less: none). exclude_session: a session of the agent that is left out. agent_id: conversations with this agent only. doc_type: conversation (default; conversations is accepted), another type for documents of that type, NULL for the whole knowledge base. Columns: score as in memory_recall; similarity is the cosine, NULL without an embedding; metadata: session_id, agent_id, conversation_topics, entities_mentioned, decisions_made, open_questions, message_count, date_range of the conversation, parent_id of its row in memory_agent.archives; created_at: the conversation''s last turn. Errors: 22023, 42501.';
COMMENT ON FUNCTION memory_embed(text,text) IS
    'The embedding of a text by the active embedding model. purpose: query (default) or document; some models embed questions in another way. Errors: 58000 when no model is to be had.';
COMMENT ON FUNCTION memory_embed(text[],text) IS
    'The embeddings of several texts, in their order.';
COMMENT ON FUNCTION memory_rerank(text,text[]) IS
    'The cross-encoder''s logits of documents for a query, in the order of the documents: unbounded, higher is better. Errors: 58000 when no model is to be had.';
COMMENT ON FUNCTION memory_count_tokens(text) IS
    'Number of cl100k_base tokens of a text. Errors: 58000 when the tokeniser is not to be had.';
COMMENT ON FUNCTION memory_register_model(text,text,text,boolean) IS
    'Makes a model known after loading and checking it. kind: embedder or reranker. location: its folder (superusers only; default: its folder in memory_agent.model_dir) with model.onnx, tokenizer.json and config.json. activate: use it from now on; an embedder only while no rows are embedded by another. Returns what it is. Errors: 58000 for a missing file or a bad graph, 22023, 42501.';
COMMENT ON FUNCTION memory_create_vector_index(text) IS
    'Builds an approximate index over the embeddings of the active model: hnsw (default) or ivfflat. Worth it when single scopes have more than memory_agent.exact_scan_rows entries. Returns its name. Blocks writers while it builds. pg_dump leaves it out: build it again after a restore.';
COMMENT ON FUNCTION memory_use_embedding_model(text) IS
    'Changes the embedding model of this database while it is in use, and returns the job that does it. name: a registered embedder, or a folder in memory_agent.model_dir. Recall goes on with the old model until every entry has a vector of the new one, then changes to it at once; memory_jobs shows the progress. Naming the model in use gives the change up. Errors: 22023 for a model that is no embedder, 58000 for one that cannot be loaded, 42501.';
COMMENT ON FUNCTION memory_status() IS
    'What runs and what does not, one row per component, with a hint what to do. Counts only, never content.';
COMMENT ON FUNCTION memory_wait(interval,text,text) IS
    'Waits until no job is waiting or running, and returns whether that came true within timeout (default 30 seconds; 0 looks once). Jobs of the caller''s user, or of one session; an administrator who names neither waits for all jobs. A job that waits for its next attempt counts, a dead one does not. Errors: 25001 on a standby, in a transaction that queued jobs itself or is not READ COMMITTED; 22023 for a negative timeout.';
COMMENT ON FUNCTION memory_retry(uuid,text) IS
    'Runs a dead job again, from its first attempt; returns false when there is no such dead job. job_id: from the view memory_jobs. Administrators may retry anybody''s.';
COMMENT ON FUNCTION memory_compress(text,text,text) IS
    'Queues the compression of a session''s window, whatever its size, and returns the job''s id: its turns but the newest memory_agent.recent_messages_to_keep are summarised and leave the window; they stay in recall. NULL when the window has no more turns than that, or there is no such session. The work is the worker''s: see memory_wait and memory_jobs. If the LLM fails, nothing changes. Errors: 55000 when memory_agent.llm_base_url is empty, 22023, 42501.';
COMMENT ON FUNCTION memory_originals(uuid,text) IS
    'The turns behind a summary, oldest first, also those behind the summaries that were rolled into it, in whatever state they are now. summary_id: from the view memory_session_summaries; an unknown one has no rows. Errors: 22023 for NULL, 42501.';
COMMENT ON FUNCTION memory_stats(text,text,text) IS
    'Counts of a session, or of all sessions of a user, as jsonb: turns, facts, documents, tokens, episodes, markers, summaries.';
COMMENT ON FUNCTION memory_export_markdown(text,text,text) IS
    'The memories of a session as Markdown files with YAML front matter, in agent-cli''s layout: entries/<session>/facts, turns, summaries, documents, and deleted for what is inactive. session_id: NULL is the user''s global memory, of all agents unless agent_id names one. agent_id: of a session, default memory_agent.agent_id, else ''default''. memory_import_markdown makes the same memories of them. Not in the files: vectors and words of the index, which are made anew, history, jobs, settings of sessions, archived conversations. Never writes. Errors: 22023, 42501.';
COMMENT ON FUNCTION memory_import_markdown(text,text,text) IS
    'Stores the memory in a Markdown file and returns its id. content: a front matter between two lines ---, then the text; as memory_export_markdown, agent-cli or a person writes it. path: tells what the front matter leaves out (session, role, whether it was deleted); NULL when it leaves out nothing. Id, times, state, markers, metadata and sources are kept; embedding, words and token count are made anew, as by memory_ingest. An id that is stored with the same content is left as it is, so files can be imported again. Errors: 22023 for a file that cannot be read or stored, for an id that is stored with another content, and for a fact_key that another fact holds; 42501, also for the memory of an attached table''s row, which only administrators import.';
COMMENT ON FUNCTION memory_grant(regrole,text) IS
    'Gives a role the level reader (recall), user (also store) or admin (also name any user, register models). For the extension''s owner only (42501).';
COMMENT ON FUNCTION memory_revoke(regrole) IS
    'Takes a role''s level away; returns whether it had one. For the extension''s owner only (42501).';
COMMENT ON FUNCTION memory_agent.visible_users() IS
    'The identity of this session and the shared user ''*'': whose rows row-level security shows.';
COMMENT ON FUNCTION memory_agent.function_levels() IS
    'The lowest level that may call each public function.';
COMMENT ON FUNCTION memory_agent.require_owner() IS
    'Raises 42501 unless the caller owns the extension.';
COMMENT ON FUNCTION memory_agent.require_role(regrole) IS
    'Raises 42704 unless there is such a role, 22023 for the owner, who needs no level.';
COMMENT ON FUNCTION memory_agent.public_schema() IS
    'The schema that holds the public functions.';
COMMENT ON FUNCTION memory_agent.renew_levels() IS
    'Gives every role the privileges of its level again, and takes the row types of the extension''s tables and views from everyone, after an update, pg_upgrade, or a restore without privileges of single objects. Only for the owner of the extension.';
COMMENT ON FUNCTION memory_agent.revoke_all(regrole) IS
    'Takes every privilege on the extension''s objects from a role.';
COMMENT ON COLUMN memory_agent.session_summaries.source_ids IS 'The turns that this row condenses itself.';
COMMENT ON COLUMN memory_agent.session_summaries.previous_id IS 'The L3 whose content went into this one.';
COMMENT ON COLUMN memory_agent.episodes.ended_at IS 'Event time of the newest turn so far.';
COMMENT ON COLUMN memory_agent.episodes.status IS 'open while turns are added to it, closed when it is over, reflected when facts were made of it.';
COMMENT ON COLUMN memory_agent.episodes.carried_into IS 'The later episode with which a short one was reflected on.';
COMMENT ON COLUMN memory_agent.traces.episode_id IS 'The episode; the last one when short ones were carried into it.';
COMMENT ON COLUMN memory_agent.traces.body IS 'mode, episodes, input_turn_count, input_turns, prior_fact_count, prior_facts (the newest), scoped_facts (those the LLM was shown), raw_output, actions, dropped, saved_facts, superseded_facts, rounds, elapsed_ms.';
COMMENT ON COLUMN memory_agent.episodes.wants_reflection IS 'Whether facts are to be made of the episode when it is over.';
COMMENT ON FUNCTION memory_load(text,text,text) IS
    'The window of a session as it goes into a prompt: the summary of what went before as a row of role system, if there is one, then the turns that have not left the window, oldest first. token_count: cl100k_base tokens of the content. An unknown session has no rows. Never writes. Errors: 22023, 42501.';
COMMENT ON FUNCTION memory_clear(text,text,text) IS
    'Forgets a session: its turns and facts become inactive, its summaries too, its episode ends and its jobs are cancelled. Returns the number of turns. They stay for audit and as_of; history has a row for each. Global facts that were made of the session, documents and archived conversations stay. Errors: 22023, 42501.';
COMMENT ON FUNCTION memory_configure(text,text,jsonb,text,text) IS
    'Stores settings that belong to a session, or without session_id to all sessions of an agent, and returns what is in effect: {agent_id, session_id, content_type, settings, stored}. settings: an object of user-settable names, with or without memory_agent., which is joined to what is stored; null takes one away. content_type: conversation, journal or document, for summaries. A session wins over its agent, that over the same agent of user * (set by administrators), that over SET and postgresql.conf. Without settings and content_type nothing is stored. Errors: 22023 for an unknown name or a value that SET refuses, 42501.';
COMMENT ON FUNCTION memory_backfill(timestamptz,text,boolean) IS
    'Queues the work that nobody was asked to do when it came: extraction of facts from turns that were stored while there was no LLM or extraction was off, and summaries of their sessions. Returns the number of turns. since: only what was said from then on. all_users: for administrators. Errors: 55000 without an LLM, 42501, 22023 for all_users with user_id.';
COMMENT ON FUNCTION memory_summarize(text,integer,text) IS
    'Condenses a text by the LLM, which it waits for, and returns {summary, token_count, model, created_at, text_sha256, key_id, signature}. max_tokens: most cl100k_base tokens of the summary, 16 to 100000; a text that has no more is returned as it is. content_type: conversation, journal or document. signature: HMAC-SHA-256 with the key of memory_agent.audit_key_file over the digest of the text, the time and the summary; null without a key. History has a row of op summarize. Errors: 55000 without an LLM, 58000 when it gives no answer or the key cannot be read, 25006 in a read-only transaction, 22023, 42501.';
COMMENT ON FUNCTION memory_reserve_tokens(text,integer,boolean,text,text) IS
    'Takes the oldest turns out of the window of a session until it has at most budget tokens (default: memory_agent.context_limit less context_margin), the summary and memory_agent.message_overhead_tokens per message included. Turns that the summary stands for leave first. They stay in recall. summarize: ask the LLM for a summary of the others that have to leave, and wait for it; when it fails, a WARNING says so and they leave without. summarized, dropped: how many turns left that a summary stands for, and that none does. tokens_after is over budget only when the summary alone is. Errors: 22023, 25006 in a read-only transaction, 42501, 55000 with summarize and no LLM.';
COMMENT ON FUNCTION memory_verify_history(text,bigint,bytea) IS
    'Reads the hash chain of a user''s history and says whether it is whole. Never writes. user_id: default the caller; an administrator who leaves it out reads everybody''s. seq, hash: a head that was kept elsewhere, which has to be in the chain of that user. Per user one row of state intact or broken with seq and hash of the last sealed row, to be kept elsewhere, and how many rows are sealed and not sealed yet; then a row for each problem, at most 1000 a user: edited, reordered, missing, unlinked, body (not what was committed to), body gone (without an erasure), unknown key (not in the file of memory_agent.audit_key_file), downgrade (sealed without a key after rows with one), head (the kept one is not there). id: the row of history. Errors: 58000 when the key file cannot be read, 22023, 42501.';
COMMENT ON FUNCTION memory_erase(text,text,uuid,text,text) IS
    'Takes memory away for good, in the tables of memory_agent, and returns how many rows of each lost their content. Name one: id, an entry with its versions (by memory_update, or of the same fact_key), or a document; session_id, with agent_id, a session; or user_id alone, everything of that user. What was made of nothing else goes too: facts, traces, embeddings, jobs; summaries and archived conversations that contain some of it, which are made anew from what is left while there is an LLM. History keeps its rows without body and reason, and one of op erase with counts, ids, the digest of a session''s name, and reason (at most 1000 bytes). Recorded calls of models of the user lose their texts. The caches of the model server are emptied. What is unknown comes to counts of 0. Rows of attached tables stay. Errors: 22023, 25001 above READ COMMITTED, 25006 in a read-only transaction, 42501.';
COMMENT ON FUNCTION memory_agent.history_is_open() IS
    'Whether a statement of the extension that may change history runs in this session now: it seals rows, or erases bodies.';
COMMENT ON FUNCTION memory_agent.refuse_history_change() IS
    'Trigger function: raises 42501.';
COMMENT ON COLUMN memory_agent.history.op IS 'What happened: add, import, update, supersede, delete, restore, expire, erase, summarize, ...';
COMMENT ON COLUMN memory_agent.history.actor IS 'The role that was logged in (session_user); the worker is a superuser.';
COMMENT ON COLUMN memory_agent.history.body IS 'The entry or summary as it was after the event; NULL when it was erased.';
COMMENT ON COLUMN memory_agent.history.commitment IS 'SHA-256 of salt, body and, if there is one, a zero byte and the reason.';
COMMENT ON COLUMN memory_agent.history.seq IS 'Number of the row in its user''s chain, from 1; NULL until it is sealed.';
COMMENT ON COLUMN memory_agent.history.key_id IS 'The key that sealed the row; NULL when there was none.';
COMMENT ON COLUMN memory_agent.history.erased_by IS 'The row of op erase that took body, salt and reason away.';
COMMENT ON FUNCTION memory_attach(regclass,text,text,text,text,text[],text,text,boolean,text,text,text) IS
    'Makes the rows of a table memory, by statement triggers: a row is an entry of kind turn, an UPDATE of its content supersedes that, DELETE and TRUNCATE end it. Returns the job that takes in the rows that are there, NULL with backfill => false. content_column: the text. user_id_column: whose memory a row belongs to; without it, whoever writes the row. user_id: the user of all rows, also ''*''. session_id_column: the session; NULL is global memory. role, role_column: as in memory_ingest. metadata_columns: columns that become metadata. created_at_column: since when a row holds. embed: async (by the worker), sync (in the statement), off. agent_id: default memory_agent.agent_id, else ''default''. A row without content or user is no memory; one that cannot be stored is refused with a WARNING and a dead job. Attached again, it takes what is said now, makes missing triggers and reads all rows. Errors: 42501 unless the caller has the level admin and owns the table; 0A000 for views, foreign and temporary tables, inheritance; 22023 without a primary key or for a wrong column.';
COMMENT ON FUNCTION memory_detach(text,boolean) IS
    'Ends the attachment of a table: drops the triggers and cancels its jobs. relation: the table, or the name of a table that is gone. forget: also end the entries of its rows, which otherwise stay as they are. Returns how many ended. Errors: 42704 when it is not attached, 42501 unless the caller has the level admin and owns the table.';
COMMENT ON FUNCTION memory_agent.attached_rows() IS
    'The trigger function of attached tables. Made into triggers by memory_attach only.';
COMMENT ON COLUMN memory_agent.attachments.relation IS 'The name that the table had when it was attached: source_relation of its rows'' entries.';
COMMENT ON COLUMN memory_agent.attachments.user_id IS 'The user of every row; NULL where a column says it, or who writes the row.';
COMMENT ON COLUMN memory_agent.attachments.relation_oid IS 'The table; out of date after a dump and restore, when the names count.';
COMMENT ON COLUMN memory_agent.attachments.column_numbers IS 'The numbers of the columns for content, user, session, time, role and metadata, 0 for none: they hold when a column is renamed.';
COMMENT ON FUNCTION memory_update(uuid,text,text) IS
    'Gives a turn or fact another text and returns the id of the new version, or id when it has the text already. The old row becomes inactive (superseded) at now(); recall with as_of before that still finds it. The new one keeps session, role, metadata, key, expiry, sources and, if it is a turn, its place in the conversation; it is embedded as by memory_ingest, and markers that the old text showed are looked for in the new one. A fact of the scope that says so already takes the place, and its id is returned. content: 1 byte to memory_agent.max_content_bytes. Errors: 42704 when the user has no such entry, 22023 for one that is inactive, a chunk of a document, a row of an attached table or only the source of facts, 25006 in a read-only transaction, 42501.';
COMMENT ON FUNCTION memory_forget(uuid,text,text) IS
    'Forgets a turn, a fact, a document (by the id of memory_add_document) or a chunk of one: it becomes inactive, and recall no longer returns it. False when there is nothing to forget. It stays for history, for as_of before now, and for memory_restore. Facts and summaries that were made of a turn stay; from now on none are made of it. reason: kept in history, at most 1000 bytes. Errors: 22023, 25006 in a read-only transaction, 42501.';
COMMENT ON FUNCTION memory_restore(uuid,text) IS
    'Brings back what is not in the window any more: what was forgotten, cleared, replaced or expired, and what left the window. False when there is nothing to bring back. valid_to becomes NULL, as if it had held all the time; what had expired has no expiry any more. Errors: 22023 when its content was purged, or something else holds its place (a later version of it, a fact of its key or with its text, an entry of its table row), which the hint names; 25006 in a read-only transaction, 42501.';
COMMENT ON FUNCTION memory_history(uuid,text) IS
    'What happened to a memory, oldest first: to the entry, the versions before it and those that took its place; also to a document or a summary. at: when. op: ingest, add (a fact, or the next version), import, update (the next version took its place), supersede (something newer did), delete, expire, restore, erase. actor: the SQL role; NULL for ingest, which is read from the row itself. content, entry: the text and the row after the event, NULL once erased. job_id: the job that did it. seq: the number in the user''s chain, NULL until it is sealed. No rows for an unknown id. Errors: 22023 for NULL, 42501.';
