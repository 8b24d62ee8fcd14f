-- Changing the embedding model (src/memory/scope/model_registry.rs).

CREATE FUNCTION memory_use_embedding_model(name text)
    RETURNS uuid LANGUAGE c VOLATILE PARALLEL UNSAFE
    AS 'MODULE_PATHNAME', 'memory_use_embedding_model_wrapper';
