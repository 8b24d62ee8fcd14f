-- Every table of memory_agent. Primary keys of tables that hold content start with user_id, so
-- that they can be hash-partitioned or distributed by it. Column comments are in 80_comments.sql,
-- indexes in 20_indexes.sql.
--
-- Plain CREATE SCHEMA: if another role owns a schema of this name, CREATE EXTENSION fails
-- instead of adopting it.
CREATE SCHEMA memory_agent;

CREATE TABLE memory_agent.sessions (
    user_id         text NOT NULL,
    agent_id        text NOT NULL,
    session_id      text NOT NULL,
    created_at      timestamptz NOT NULL,
    last_turn_at    timestamptz NOT NULL,
    turn_count      bigint NOT NULL DEFAULT 0,
    active_tokens   bigint NOT NULL DEFAULT 0,
    active_entries  bigint NOT NULL DEFAULT 0,
    -- Tokens of turns that came since the session was last summarised.
    unsummarized_tokens bigint NOT NULL DEFAULT 0,
    open_episode_id uuid,
    content_type    text CHECK (content_type IN ('conversation', 'journal', 'document')),
    settings        jsonb NOT NULL DEFAULT '{}' CHECK (jsonb_typeof(settings) = 'object'),
    PRIMARY KEY (user_id, agent_id, session_id)
);

-- What memory_configure said for all sessions of an agent; user_id '*' is for all users.
CREATE TABLE memory_agent.agents (
    user_id      text NOT NULL,
    agent_id     text NOT NULL,
    content_type text CHECK (content_type IN ('conversation', 'journal', 'document')),
    settings     jsonb NOT NULL DEFAULT '{}' CHECK (jsonb_typeof(settings) = 'object'),
    updated_at   timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (user_id, agent_id)
);

-- The order of the columns is the order in which PostgreSQL takes a row apart: what recall reads of
-- every row of a scope comes first, fixed widths before text, large values last.
CREATE TABLE memory_agent.entries (
    id                uuid NOT NULL,
    created_at        timestamptz NOT NULL,
    doc_len           integer NOT NULL,
    token_count       integer NOT NULL,
    token_count_exact boolean NOT NULL DEFAULT true,
    user_id           text NOT NULL,
    agent_id          text NOT NULL,
    session_id        text,
    state             text NOT NULL DEFAULT 'active'
        CHECK (state IN ('active', 'archived', 'inactive')),
    kind              text NOT NULL CHECK (kind IN ('turn', 'fact', 'document')),
    role              text NOT NULL CHECK (role IN ('user', 'assistant', 'system', 'tool', 'memory')),
    expires_at        timestamptz,
    valid_to          timestamptz,
    source_relation   text,
    embedding_model   text,
    embedding         vector,
    lexemes           tsvector NOT NULL,
    markers           text[] NOT NULL DEFAULT '{}',
    episode_id        uuid,
    content           text NOT NULL,
    metadata          jsonb NOT NULL DEFAULT '{}'
        CHECK (jsonb_typeof(metadata) = 'object'),
    content_hash      bytea,
    lexeme_config     text NOT NULL,
    source_ids        uuid[],
    source_key        jsonb,
    fact_key          text,
    confidence        real,
    recorded_at       timestamptz NOT NULL DEFAULT now(),
    updated_at        timestamptz NOT NULL DEFAULT now(),
    state_reason      text CHECK (state_reason IN ('compressed', 'evicted', 'superseded', 'deleted',
                                                   'expired', 'contradicted', 'unverified')),
    state_at          timestamptz,
    replaced_by       uuid,
    extracted_at      timestamptz,
    doubted_by        uuid,
    PRIMARY KEY (user_id, id),
    CHECK ((embedding IS NULL) = (embedding_model IS NULL))
);
-- A row with a 384-dimensional vector is a little over PostgreSQL's 2 kB threshold. Vectors that
-- are moved out of line cost one index lookup a row in every exact scan, so they stay in the page.
ALTER TABLE memory_agent.entries SET (toast_tuple_target = 8160);

-- The further windows of an entry that is longer than its embedding model reads at once; the
-- first window is entries.embedding. The best window counts in recall. No foreign key: a parallel
-- restore loads the tables of an extension in any order, with the constraints in place.
CREATE TABLE memory_agent.entry_windows (
    user_id         text NOT NULL,
    entry_id        uuid NOT NULL,
    ordinal         integer NOT NULL,
    embedding       vector NOT NULL,
    embedding_model text NOT NULL,
    PRIMARY KEY (user_id, entry_id, embedding_model, ordinal)
);

CREATE TABLE memory_agent.session_summaries (
    id                uuid NOT NULL,
    user_id           text NOT NULL,
    agent_id          text NOT NULL,
    session_id        text NOT NULL,
    level             text NOT NULL CHECK (level IN ('L1', 'L2', 'L3')),
    ordinal           integer NOT NULL DEFAULT 0,
    content           text NOT NULL,
    -- The turns that this row condenses itself, and the L3 whose content went into it.
    source_ids        uuid[] NOT NULL DEFAULT '{}',
    previous_id       uuid,
    method            text NOT NULL
        CHECK (method IN ('brief', 'standard', 'detailed', 'hierarchical', 'window')),
    topics            text[] NOT NULL DEFAULT '{}',
    entities          text[] NOT NULL DEFAULT '{}',
    decisions         text[] NOT NULL DEFAULT '{}',
    questions         text[] NOT NULL DEFAULT '{}',
    first_entry_id    uuid,
    last_entry_id     uuid,
    first_entry_at    timestamptz,
    last_entry_at     timestamptz,
    message_count     integer,
    input_tokens      integer,
    output_tokens     integer,
    compression_ratio real,
    model             text,
    created_at        timestamptz NOT NULL DEFAULT now(),
    updated_at        timestamptz NOT NULL DEFAULT now(),
    is_active         boolean NOT NULL DEFAULT true,
    PRIMARY KEY (user_id, id)
);

CREATE TABLE memory_agent.episodes (
    id           uuid NOT NULL,
    user_id      text NOT NULL,
    agent_id     text NOT NULL,
    session_id   text NOT NULL,
    status       text NOT NULL DEFAULT 'open' CHECK (status IN ('open', 'closed', 'reflected')),
    started_at   timestamptz NOT NULL,
    ended_at     timestamptz NOT NULL,
    turn_count   integer NOT NULL DEFAULT 0,
    close_reason text,
    -- Whether facts are to be made of it when it is over.
    wants_reflection boolean NOT NULL DEFAULT false,
    carried_into uuid,
    PRIMARY KEY (user_id, id)
);

CREATE TABLE memory_agent.jobs (
    id           uuid PRIMARY KEY,
    kind         text NOT NULL CHECK (kind IN ('embed', 'extract', 'reflect', 'summarize', 'compress',
                                               'evict', 'reembed', 'attach', 'reindex')),
    user_id      text,
    agent_id     text,
    session_id   text,
    entry_id     uuid,
    payload      jsonb NOT NULL DEFAULT '{}',
    status       text NOT NULL DEFAULT 'pending'
        CHECK (status IN ('pending', 'running', 'done', 'dead')),
    priority     integer NOT NULL DEFAULT 0,
    attempts     integer NOT NULL DEFAULT 0,
    max_attempts integer NOT NULL DEFAULT 5,
    interrupted  integer NOT NULL DEFAULT 0,
    run_after    timestamptz NOT NULL DEFAULT now(),
    leased_until timestamptz,
    leased_by    text,
    progress     bigint,
    progress_of  bigint,
    last_error   text,
    created_at   timestamptz NOT NULL DEFAULT now(),
    finished_at  timestamptz
);

CREATE TABLE memory_agent.history (
    id         uuid NOT NULL,
    user_id    text NOT NULL,
    entry_id   uuid,
    op         text NOT NULL,
    at         timestamptz NOT NULL DEFAULT clock_timestamp(),
    actor      text NOT NULL DEFAULT session_user,
    reason     text,
    body       jsonb,
    salt       bytea,
    commitment bytea NOT NULL,
    job_id     uuid,
    seq        bigint,
    prev_hash  bytea,
    hash       bytea,
    key_id     text,
    erased_by  uuid,
    PRIMARY KEY (user_id, id)
);

CREATE TABLE memory_agent.llm_calls (
    id                uuid PRIMARY KEY,
    user_id           text,
    job_id            uuid,
    purpose           text NOT NULL,
    model             text NOT NULL,
    prompt_tokens     integer,
    completion_tokens integer,
    latency           interval,
    status            text NOT NULL,
    error             text,
    at                timestamptz NOT NULL DEFAULT now(),
    request           jsonb,
    response          jsonb,
    endpoint          text
);

CREATE TABLE memory_agent.traces (
    id         uuid NOT NULL,
    user_id    text NOT NULL,
    agent_id   text NOT NULL,
    session_id text NOT NULL,
    episode_id uuid,
    job_id     uuid,
    at         timestamptz NOT NULL DEFAULT now(),
    body       jsonb NOT NULL,
    PRIMARY KEY (user_id, id)
);

-- The knowledge base: documents, and conversations that were compressed, as wholes. What is searched
-- are their chunks, entries of kind document that name their whole in metadata ->> 'parent_id'.
CREATE TABLE memory_agent.archives (
    id           uuid NOT NULL,
    user_id      text NOT NULL,
    agent_id     text NOT NULL,
    session_id   text,
    -- The L3 that a conversation was last archived with.
    summary_id   uuid,
    namespace    text NOT NULL,
    doc_type     text NOT NULL,
    title        text,
    content      text NOT NULL,
    content_hash bytea NOT NULL,
    metadata     jsonb NOT NULL DEFAULT '{}' CHECK (jsonb_typeof(metadata) = 'object'),
    created_at   timestamptz NOT NULL DEFAULT now(),
    updated_at   timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (user_id, id),
    CHECK (doc_type <> 'conversation' OR session_id IS NOT NULL)
);

CREATE TABLE memory_agent.models (
    name          text NOT NULL,
    kind          text NOT NULL CHECK (kind IN ('embedder', 'reranker')),
    dimension     integer CHECK (dimension > 0),
    location      text,
    active        boolean NOT NULL DEFAULT false,
    registered_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (name),
    CHECK ((kind = 'embedder') = (dimension IS NOT NULL))
);

CREATE TABLE memory_agent.attachments (
    id                 uuid PRIMARY KEY,
    relation           text NOT NULL UNIQUE,
    content_column     text NOT NULL,
    user_id_column     text,
    session_id_column  text,
    created_at_column  text,
    metadata_columns   text[] NOT NULL DEFAULT '{}',
    role               text NOT NULL DEFAULT 'user',
    embed              text NOT NULL DEFAULT 'async' CHECK (embed IN ('sync', 'async', 'off')),
    attached_at        timestamptz NOT NULL DEFAULT now(),
    -- The user of every row.
    user_id            text,
    agent_id           text NOT NULL DEFAULT 'default',
    role_column        text,
    -- The table and its columns by number: content, user, session, time, role, metadata, more content, condition.
    relation_oid       oid,
    column_numbers     smallint[] NOT NULL DEFAULT '{}',
    -- Whether facts are extracted from what users say in the rows.
    extract_facts      boolean NOT NULL DEFAULT false,
    -- Which rows are remembered: the condition, the names that columns have in it, and those that they have now.
    condition          text,
    condition_names    text[] NOT NULL DEFAULT '{}',
    condition_columns  text[] NOT NULL DEFAULT '{}',
    -- How contents and roles are read.
    more_content_columns text[] NOT NULL DEFAULT '{}',
    content_path       text,
    role_path          text,
    role_map           jsonb NOT NULL DEFAULT '{}'
);

CREATE TABLE memory_agent.grants (
    role_name  name NOT NULL,
    level      text NOT NULL CHECK (level IN ('reader', 'user', 'gateway', 'admin')),
    granted_at timestamptz NOT NULL DEFAULT now(),
    -- The role itself, which keeps its OID when it is renamed, and the cluster in which the OID means it.
    role_oid   oid,
    cluster_id bigint,
    PRIMARY KEY (role_name)
);

-- Who may act for which user through the gateway. The token itself is stored nowhere.
CREATE TABLE memory_agent.tokens (
    user_id    text NOT NULL,
    name       text NOT NULL,
    hash       bytea NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    expires_at timestamptz,
    for_users  boolean NOT NULL DEFAULT false,
    PRIMARY KEY (user_id, name)
);

-- What callers of the gateway have spent on their latest day, in UTC. A caller is the hash of a token, or of
-- the user that a JWT names: nothing of a user is here.
CREATE TABLE memory_agent.spending (
    token_hash bytea NOT NULL,
    day        date NOT NULL,
    tokens     bigint NOT NULL,
    reserved   bigint NOT NULL,
    PRIMARY KEY (token_hash)
);

CREATE TABLE memory_agent.endpoints (
    name             text PRIMARY KEY,
    provider         text NOT NULL CHECK (provider IN ('openai', 'azure', 'anthropic')),
    base_url         text NOT NULL,
    model            text NOT NULL,
    api_version      text NOT NULL,
    key_name         text,
    calls_per_minute integer NOT NULL CHECK (calls_per_minute >= 0),
    daily_tokens     bigint NOT NULL CHECK (daily_tokens >= 0),
    enabled_in       text NOT NULL
);

CREATE TABLE memory_agent.endpoint_uses (
    agent_id text PRIMARY KEY,
    endpoint text NOT NULL
);

-- How many answers of a probe an LLM gave rightly: of what replaces what (choices), and of what users state (statements).
CREATE TABLE memory_agent.llm_probes (
    base_url      text NOT NULL,
    model         text NOT NULL,
    probe         text NOT NULL CHECK (probe IN ('choices', 'statements')),
    right_answers integer NOT NULL,
    asked_at      timestamptz NOT NULL DEFAULT now(),
    valid_until   timestamptz NOT NULL,
    PRIMARY KEY (base_url, model, probe)
);

-- What users may have, as administrators set it; user_id '*' is for all users without one of their own. 0 is
-- without limit.
CREATE TABLE memory_agent.quotas (
    user_id      text PRIMARY KEY,
    entries      bigint CHECK (entries >= 0),
    bytes        bigint CHECK (bytes >= 0),
    daily_tokens bigint CHECK (daily_tokens >= 0),
    set_at       timestamptz NOT NULL DEFAULT now()
);

-- What users with a quota had when it was counted. Rows are only added, so that sessions of a user do not wait for
-- each other; a sweep deletes the older ones.
CREATE TABLE memory_agent.quota_counts (
    user_id    text NOT NULL,
    id         uuid NOT NULL,
    entries    bigint NOT NULL,
    bytes      bigint NOT NULL,
    counted_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (user_id, id)
);
