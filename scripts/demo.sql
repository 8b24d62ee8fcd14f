-- What `make demo` runs: stores a conversation of ten weeks, asks five questions about it.
-- Needs the variable `conversation`, the path of demo_conversation.json.

\set ON_ERROR_STOP on
\set QUIET on
\pset footer off
\pset null ''
\pset linestyle unicode
SET client_min_messages = warning;

CREATE EXTENSION memory_agent CASCADE;

-- The server was started a moment ago. Without the wait the first turns might be stored before the
-- models are loaded: without embeddings, which is not what this is to show.
DO $$
BEGIN
    FOR attempt IN 1..100 LOOP
        EXIT WHEN EXISTS (SELECT FROM memory_status() WHERE component = 'model server' AND state = 'running');
        PERFORM pg_sleep(0.1);
    END LOOP;
END $$;

\set turns `cat :'conversation'`
\echo
\echo '== A conversation is stored: memory_ingest_batch(turns, user_id => ''maria'')'
\timing on
SELECT count(*) AS turns_stored
FROM memory_ingest_batch(:'turns'::jsonb, user_id => 'maria');
\timing off

SELECT session_id, count(*) AS turns, min(created_at)::date AS first, max(created_at)::date AS last,
       sum(cardinality(markers)) AS markers
FROM memory_entries
GROUP BY session_id ORDER BY first;

-- Every question is asked on the day after the last turn, so that the answers do not depend on the
-- day the demo is run. Without as_of a question is asked now.
\set today '''2026-11-15'''

\set shown 'ordinality AS rank, created_at::date AS date, role, round(score::numeric, 3) AS score, round(relevance::numeric, 3) AS relevance, round(similarity::numeric, 3) AS similarity, round(lexical::numeric, 3) AS lexical, round(recency::numeric, 3) AS recency, array_to_string(markers, '','') AS markers, left(content, 60) AS content'

\echo
\echo '== 1. A question, over all sessions of one user'
\set call 'memory_recall(''What is Lena allergic to?'', user_id => ''maria'', as_of => ' :today ')'
\echo :call
\timing on
SELECT :shown FROM :call WITH ORDINALITY;
\timing off

\echo
\echo '== 2. What was true then: the flat, as it looked on 1 October'
\set call 'memory_recall(''Which flat did we decide to rent?'', user_id => ''maria'', as_of => ''2026-10-01'')'
\echo :call
\timing on
SELECT :shown FROM :call WITH ORDINALITY;
\timing off

\echo
\echo '== 3. The same question, after they changed their minds'
\set call 'memory_recall(''Which flat did we decide to rent?'', user_id => ''maria'', as_of => ' :today ')'
\echo :call
\timing on
SELECT :shown FROM :call WITH ORDINALITY;
\timing off

\echo
\echo '== 4. Only what was marked as a decision or a constraint, in one session'
\set call 'memory_recall(''Why did we switch to PostgreSQL?'', session_id => ''kayak-app'', user_id => ''maria'', filter => ''{"markers_any": ["decision", "constraint"]}'', as_of => ' :today ')'
\echo :call
\timing on
SELECT :shown FROM :call WITH ORDINALITY;
\timing off

\echo
\echo '== 5. As much as fits into 120 tokens of a prompt'
\set call 'memory_recall(''Why did the import of the old bookings fail?'', user_id => ''maria'', token_budget => 120, as_of => ' :today ')'
\echo :call
\timing on
SELECT :shown FROM :call WITH ORDINALITY;
\timing off

\echo
\echo '== Is everything well? memory_status()'
SELECT component, state, detail, hint FROM memory_status();
