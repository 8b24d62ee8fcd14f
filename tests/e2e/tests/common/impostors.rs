//! Functions, operators and types that take the names of PostgreSQL's own, for code that looks into the wrong
//! schema first.

/// A schema `evil` with impostors of what the scripts call; each fails when it is called. pgvector is in
/// `public`.
pub const IMPOSTORS: &str = "
    CREATE EXTENSION vector SCHEMA public;
    CREATE SCHEMA evil;
    CREATE FUNCTION evil.trap() RETURNS void LANGUAGE plpgsql
        AS $$ BEGIN RAISE EXCEPTION 'trapped'; END $$;
    CREATE FUNCTION evil.now() RETURNS timestamptz LANGUAGE sql
        AS 'SELECT evil.trap(); SELECT NULL::timestamptz';
    CREATE FUNCTION evil.equal(text, text) RETURNS boolean LANGUAGE sql
        AS 'SELECT evil.trap(); SELECT true';
    CREATE FUNCTION evil.equal(oid, oid) RETURNS boolean LANGUAGE sql
        AS 'SELECT evil.trap(); SELECT true';
    CREATE FUNCTION evil.concat(text, regprocedure) RETURNS text LANGUAGE sql
        AS 'SELECT evil.trap(); SELECT NULL::text';
    CREATE FUNCTION evil.jsonb_typeof(jsonb) RETURNS text LANGUAGE sql
        AS 'SELECT evil.trap(); SELECT NULL::text';
    CREATE OPERATOR evil.= (LEFTARG = text, RIGHTARG = text, FUNCTION = evil.equal);
    CREATE OPERATOR evil.= (LEFTARG = oid, RIGHTARG = oid, FUNCTION = evil.equal);
    CREATE DOMAIN evil.jsonb AS text;
    CREATE DOMAIN evil.timestamptz AS text";
