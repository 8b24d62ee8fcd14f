-- pg_dump carries the rows of these tables. One call a statement: several calls in one SELECT lose
-- rows on restore.
SELECT pg_catalog.pg_extension_config_dump('memory_agent.sessions', '');
SELECT pg_catalog.pg_extension_config_dump('memory_agent.agents', '');
SELECT pg_catalog.pg_extension_config_dump('memory_agent.entries', '');
SELECT pg_catalog.pg_extension_config_dump('memory_agent.entry_windows', '');
SELECT pg_catalog.pg_extension_config_dump('memory_agent.session_summaries', '');
SELECT pg_catalog.pg_extension_config_dump('memory_agent.episodes', '');
SELECT pg_catalog.pg_extension_config_dump('memory_agent.jobs', '');
SELECT pg_catalog.pg_extension_config_dump('memory_agent.history', '');
SELECT pg_catalog.pg_extension_config_dump('memory_agent.llm_calls', '');
SELECT pg_catalog.pg_extension_config_dump('memory_agent.traces', '');
SELECT pg_catalog.pg_extension_config_dump('memory_agent.archives', '');
SELECT pg_catalog.pg_extension_config_dump('memory_agent.models', '');
SELECT pg_catalog.pg_extension_config_dump('memory_agent.attachments', '');
SELECT pg_catalog.pg_extension_config_dump('memory_agent.grants', '');
SELECT pg_catalog.pg_extension_config_dump('memory_agent.tokens', '');
SELECT pg_catalog.pg_extension_config_dump('memory_agent.spending', '');
SELECT pg_catalog.pg_extension_config_dump('memory_agent.endpoints', '');
SELECT pg_catalog.pg_extension_config_dump('memory_agent.endpoint_uses', '');
SELECT pg_catalog.pg_extension_config_dump('memory_agent.quotas', '');
