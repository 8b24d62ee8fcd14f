-- Code that PostgreSQL runs while a row is written or read, each piece of which runs a step of `script`: the
-- world of reentrance.rs. Made by nested_builder, who owns all of it.
CREATE TABLE script (n bigint PRIMARY KEY, statement text, is_caught boolean NOT NULL);
CREATE SEQUENCE steps;
-- Each combination makes statements of its own, and so plans.
CREATE TABLE filters AS
    SELECT i AS n, jsonb_strip_nulls(jsonb_build_object(
        'metadata', CASE WHEN i & 1 > 0 THEN '{"tag": "told"}'::jsonb END,
        'role', CASE WHEN i & 2 > 0 THEN 'user' END,
        'kind', CASE WHEN i & 4 > 0 THEN 'turn' END,
        'markers_any', CASE WHEN i & 8 > 0 THEN 'decision' END,
        'created_after', CASE WHEN i & 16 > 0 THEN '2020-01-01' END,
        'created_before', CASE WHEN i & 32 > 0 THEN '2100-01-01' END,
        'session_id', CASE WHEN i & 64 > 0 THEN 'one' END)) AS filter
      FROM generate_series(0, 127) i;

-- Runs the next step, unless there is none or it is deep enough. Who runs it is told to the server's log,
-- which keeps what is undone.
CREATE FUNCTION visit(hook text) RETURNS void LANGUAGE plpgsql SET search_path = public AS $$
DECLARE
    depth int := coalesce(nullif(current_setting('nested.depth', true), ''), '0');
    step bigint;
    found_step script;
BEGIN
    IF current_user NOT IN ('nested_builder', 'nested_writer') THEN
        RAISE LOG 'code of others runs as % in a %', current_user, hook;
    END IF;
    IF depth >= coalesce(nullif(current_setting('nested.deepest', true), ''), '0')::int THEN RETURN; END IF;
    step := nextval('steps');
    SELECT * INTO found_step FROM script s WHERE s.n = step;
    -- PostgreSQL does not bear an index expression that writes its table.
    IF found_step.statement IS NULL OR hook = 'index' AND found_step.statement !~ '^SELECT' THEN RETURN; END IF;
    PERFORM set_config('nested.depth', (depth + 1)::text, true);
    IF found_step.is_caught THEN
        BEGIN
            EXECUTE found_step.statement;
        EXCEPTION WHEN OTHERS OR query_canceled THEN
            RAISE LOG 'a step failed: % % in %', SQLSTATE, SQLERRM, found_step.statement;
        END;
    ELSE
        EXECUTE found_step.statement;
    END IF;
    PERFORM set_config('nested.depth', depth::text, true);
END $$;

-- Recalls of so many combinations, from one of them on.
CREATE FUNCTION storm(first int, count int) RETURNS void LANGUAGE plpgsql SET search_path = public AS $$
BEGIN
    PERFORM count(*)
       FROM filters f, memory_recall('harbour', filter => f.filter, rerank => false,
                                     query_embedding => array_fill(0.1::real, ARRAY[384])::vector) r
      WHERE f.n BETWEEN first AND first + count;
END $$;

-- Does something to a cursor, if one is open: rows are read through cursors.
CREATE FUNCTION disturb(command text) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    cursor_name text := (SELECT c.name FROM pg_cursors c ORDER BY random() LIMIT 1);
BEGIN
    IF cursor_name IS NOT NULL THEN EXECUTE pg_catalog.format('%s %I', command, cursor_name); END IF;
END $$;

-- Asks until the stack is used up, wherever that is.
CREATE FUNCTION fall() RETURNS void LANGUAGE plpgsql SET search_path = public AS
    $$ BEGIN PERFORM memory_stats('one'); PERFORM fall(); END $$;

CREATE TYPE tag AS ENUM ('x', 'y');
CREATE FUNCTION tag_json(tag) RETURNS json LANGUAGE plpgsql AS
    $$ BEGIN PERFORM public.visit('cast to json'); RETURN '"told"'; END $$;
CREATE FUNCTION tag_text(tag) RETURNS text LANGUAGE plpgsql AS
    $$ BEGIN PERFORM public.visit('cast to text'); RETURN pg_catalog.format('The tag %s', $1); END $$;
CREATE CAST (tag AS json) WITH FUNCTION tag_json(tag);
CREATE CAST (tag AS text) WITH FUNCTION tag_text(tag);
CREATE TYPE pair AS (tag tag, word text);
CREATE FUNCTION pair_text(pair) RETURNS text LANGUAGE plpgsql AS
    $$ BEGIN PERFORM public.visit('cast of a composite'); RETURN 'The pair ' || ($1).word; END $$;
CREATE CAST (pair AS text) WITH FUNCTION pair_text(pair);
CREATE FUNCTION is_code(int) RETURNS boolean LANGUAGE plpgsql AS
    $$ BEGIN PERFORM public.visit('domain'); RETURN $1 > -1000; END $$;
CREATE DOMAIN code AS int CHECK (public.is_code(VALUE));
CREATE FUNCTION worded() RETURNS text LANGUAGE plpgsql AS
    $$ BEGIN PERFORM public.visit('default'); RETURN 'a word by default'; END $$;
CREATE FUNCTION loud(text) RETURNS text IMMUTABLE LANGUAGE plpgsql AS
    $$ BEGIN PERFORM public.visit('generated column'); RETURN pg_catalog.upper($1); END $$;
CREATE FUNCTION indexed(text) RETURNS text IMMUTABLE LANGUAGE plpgsql AS
    $$ BEGIN PERFORM public.visit('index'); RETURN pg_catalog.lower($1); END $$;
CREATE FUNCTION is_allowed(text) RETURNS boolean LANGUAGE plpgsql AS
    $$ BEGIN PERFORM public.visit('policy or constraint'); RETURN true; END $$;
CREATE FUNCTION fired() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM public.visit('trigger');
    IF TG_LEVEL = 'STATEMENT' THEN RETURN NULL; END IF;
    IF TG_OP = 'DELETE' THEN RETURN OLD; END IF;
    RETURN NEW;
END $$;

CREATE TABLE papers (
    id int PRIMARY KEY, body text DEFAULT public.worded(), owner text DEFAULT 'alice', chat text, tag tag,
    pair pair, shout text GENERATED ALWAYS AS (public.loud(body)) STORED,
    CHECK (public.is_allowed(body)));
CREATE INDEX ON papers (public.indexed(body));
CREATE INDEX ON papers (id) WHERE public.indexed(body) > '';
CREATE TRIGGER a_row BEFORE INSERT OR UPDATE OR DELETE ON papers FOR EACH ROW EXECUTE FUNCTION fired();
CREATE TRIGGER b_row AFTER INSERT OR UPDATE OR DELETE ON papers FOR EACH ROW EXECUTE FUNCTION fired();
CREATE TRIGGER c_statement AFTER INSERT OR UPDATE OR DELETE ON papers EXECUTE FUNCTION fired();
CREATE TRIGGER z_statement AFTER INSERT OR UPDATE OR DELETE ON papers EXECUTE FUNCTION fired();
ALTER TABLE papers ENABLE ROW LEVEL SECURITY;
CREATE POLICY asked ON papers TO nested_writer USING (public.is_allowed(owner)) WITH CHECK (public.is_allowed(owner));

CREATE TABLE swaps (
    id code PRIMARY KEY DEFERRABLE INITIALLY DEFERRED, pair pair, owner text DEFAULT 'alice', tag tag);
CREATE CONSTRAINT TRIGGER deferred AFTER INSERT OR UPDATE ON swaps DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW EXECUTE FUNCTION fired();

CREATE TABLE parts (region tag, id int, body tag, owner text DEFAULT 'alice', PRIMARY KEY (region, id))
    PARTITION BY LIST (region);
CREATE TABLE parts_x PARTITION OF parts FOR VALUES IN ('x');
CREATE TABLE parts_y PARTITION OF parts FOR VALUES IN ('y');
CREATE TRIGGER truncated BEFORE TRUNCATE ON parts_x EXECUTE FUNCTION fired();
ALTER TABLE parts ADD FOREIGN KEY (id) REFERENCES papers ON UPDATE CASCADE ON DELETE CASCADE;

GRANT ALL ON ALL TABLES IN SCHEMA public TO nested_writer;
GRANT ALL ON ALL SEQUENCES IN SCHEMA public TO nested_writer;
SELECT memory_attach('papers', 'body', user_id_column => 'owner', session_id_column => 'chat',
                     metadata_columns => '{tag,pair}', embed => 'off', backfill => false);
SELECT memory_attach('swaps', 'pair', user_id_column => 'owner', metadata_columns => '{tag}', embed => 'off',
                     backfill => false);
SELECT memory_attach('parts', 'body', user_id_column => 'owner', embed => 'off', backfill => false);
