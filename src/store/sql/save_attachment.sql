INSERT INTO memory_agent.attachments AS a
   (id, relation, content_column, user_id_column, session_id_column, created_at_column,
    role_column, metadata_columns, user_id, agent_id, role, embed, relation_oid, column_numbers)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13,
        ARRAY(SELECT coalesce(t.attnum, 0::int2)
                FROM unnest($14::text[]) WITH ORDINALITY w(name, position)
                LEFT JOIN pg_attribute t ON t.attrelid = $13 AND t.attname = w.name
                                        AND t.attnum > 0 AND NOT t.attisdropped
               ORDER BY w.position))
ON CONFLICT (id) DO UPDATE
   SET content_column = excluded.content_column, user_id_column = excluded.user_id_column,
       session_id_column = excluded.session_id_column,
       created_at_column = excluded.created_at_column, role_column = excluded.role_column,
       metadata_columns = excluded.metadata_columns, user_id = excluded.user_id,
       agent_id = excluded.agent_id, role = excluded.role, embed = excluded.embed,
       relation_oid = excluded.relation_oid, column_numbers = excluded.column_numbers
