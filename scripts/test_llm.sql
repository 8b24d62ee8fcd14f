-- What scripts/test-llm runs: stores a conversation turn by turn, waits for its facts, and counts what
-- the language model did.
-- Needs the variables `conversation`, the path of test_llm_conversation.json, and
-- `most`, of how many of its turns.

\set ON_ERROR_STOP on
\set QUIET on
\pset footer off
\pset null '-'
SET client_min_messages = warning;

CREATE EXTENSION memory_agent CASCADE;
DO $$
BEGIN
    FOR attempt IN 1..300 LOOP
        EXIT WHEN EXISTS (SELECT FROM memory_status() WHERE component = 'embedder' AND state = 'loaded');
        PERFORM pg_sleep(0.1);
    END LOOP;
END $$;

\set turns `cat :'conversation'`
CREATE TABLE said AS
SELECT (turn->>'day')::timestamptz + number * interval '1 minute' AS at, turn->>'text' AS text,
       coalesce((turn->>'no_fact')::boolean, false) AS no_fact
FROM jsonb_array_elements(:'turns'::jsonb) WITH ORDINALITY AS t(turn, number)
WHERE number <= :most;

-- Every row stores a turn and waits for what becomes of it, in two transactions.
\o /dev/null
SELECT format('SELECT memory_ingest(%L, %L, %L, created_at => %L)', 'maria', 'user', text, at),
       $$SELECT memory_wait('10 min')$$
FROM said ORDER BY at
\gexec
\o

\echo
\echo '== Facts, in the order in which they were stored'
SELECT left(t.content, 45) AS "said", left(f.content, 75) AS fact, f.state,
       CASE WHEN f.state <> 'active' THEN left(n.content, 40) END AS "replaced by"
FROM memory_agent.entries f
JOIN memory_agent.entries t ON t.id = f.source_ids[1]
LEFT JOIN memory_agent.entries n ON n.id = f.replaced_by
WHERE f.kind = 'fact' ORDER BY f.recorded_at, f.id;

-- A job's calls of one purpose in order: a bad answer, and the call that was to correct it.
CREATE TEMP TABLE request AS
SELECT c.*, lag(c.status) OVER job AS before, lead(c.status) OVER job AS after
FROM memory_agent.llm_calls c WINDOW job AS (PARTITION BY c.job_id, c.purpose ORDER BY c.at, c.id);

\echo '== Answers'
SELECT purpose, count(*) AS calls,
       count(*) FILTER (WHERE status = 'ok' AND before IS DISTINCT FROM 'bad answer') AS "valid at once",
       count(*) FILTER (WHERE status = 'ok' AND before = 'bad answer') AS "valid after repair",
       count(*) FILTER (WHERE status = 'bad answer' AND before = 'bad answer') AS "bad after repair",
       count(*) FILTER (WHERE status NOT IN ('ok', 'bad answer')) AS "other failures",
       sum(prompt_tokens) AS "prompt tokens", sum(completion_tokens) AS "answer tokens",
       round((extract(epoch FROM percentile_cont(.5) WITHIN GROUP (ORDER BY latency)))::numeric, 2) AS "s, p50",
       round((extract(epoch FROM max(latency)))::numeric, 2) AS "s, max"
FROM request GROUP BY purpose ORDER BY purpose;

\echo '== Why answers were not valid'
SELECT purpose, status, left(error, 110) AS error, count(*) FROM request
WHERE status <> 'ok' GROUP BY 1, 2, 3 ORDER BY 4 DESC LIMIT 12;

\echo '== Jobs'
SELECT kind, status, count(*), max(left(last_error, 90)) AS "an error" FROM memory_agent.jobs GROUP BY 1, 2 ORDER BY 1, 2;
SELECT component, state, detail FROM memory_status() WHERE component = 'llm';

-- A fact with at least half of its words in none of its turns ("user" aside) was probably made up.
-- That is a hint; the list above is to be read.
CREATE TEMP TABLE fact AS
SELECT f.id, f.content, f.state, f.embedding, t.no_fact, w.unsaid * 2 >= w.total AS made_up
FROM memory_agent.entries f
CROSS JOIN LATERAL (
    SELECT string_agg(t.content, ' ') AS content, bool_and(s.no_fact) AS no_fact
    FROM memory_agent.entries t JOIN said s ON s.text = t.content
    WHERE t.id = ANY (f.source_ids)) AS t
CROSS JOIN LATERAL (
    SELECT count(*) AS total, count(*) FILTER (WHERE word <> ALL (tsvector_to_array(to_tsvector('english', t.content)))) AS unsaid
    FROM unnest(tsvector_to_array(to_tsvector('english', f.content))) AS word
    WHERE word <> 'user') AS w
WHERE f.kind = 'fact';

\echo '== Facts'
SELECT (SELECT count(*) FROM said WHERE NOT no_fact) AS "turns with facts", count(*) AS facts,
       count(*) FILTER (WHERE state = 'active') AS active,
       count(*) FILTER (WHERE no_fact) AS "of turns without any",
       count(*) FILTER (WHERE made_up) AS "made up, probably",
       (SELECT count(*) FROM fact a JOIN fact b ON a.id < b.id
         WHERE a.state = 'active' AND b.state = 'active' AND a.embedding <=> b.embedding < 0.05) AS "active twins"
FROM fact;

-- What changed in the conversation: the last word should be an active fact, the first one should not.
\echo '== What changed'
SELECT topic,
       coalesce(bool_or(content ~* latest AND state = 'active'), false) AS "the latest is known",
       coalesce(bool_or(content ~* earlier AND content !~* latest AND state = 'active'), false) AS "the earlier one still holds"
FROM (VALUES ('home', 'Hamburg', 'Lisbon'), ('work', 'nurse|hospital', 'teach.*nurs|nursing school'),
             ('car', 'Volvo', 'Toyota'), ('coffee', 'not.*coffee', 'two cups|loves? coffee|drinks coffee'),
             ('Ana', 'Porto|studies arch', 'Madrid'), ('sport', '(runs?|running)', 'swim'),
             ('colour', 'green', 'yellow')) AS change (topic, earlier, latest)
LEFT JOIN fact ON true GROUP BY topic ORDER BY topic;
