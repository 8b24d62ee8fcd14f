WITH ancestors AS (
   SELECT p.oid, format('%I.%I', n.nspname, p.relname) AS name
     FROM pg_partition_ancestors($2::oid::regclass) t
     JOIN pg_class p ON p.oid = t.relid JOIN pg_namespace n ON n.oid = p.relnamespace)
SELECT a.id, a.relation, c.names[1], c.names[2], c.names[3], c.names[4], c.names[5],
       array_remove(c.names[6:5 + l.metadata], NULL), a.user_id, a.agent_id, a.role, a.embed,
       coalesce((l.attachment ->> 'extract_facts')::boolean, false),
       l.attachment ->> 'condition', l.condition_names,
       array_remove(c.names[6 + l.metadata + cardinality(l.more):], NULL),
       array_remove(c.names[6 + l.metadata:5 + l.metadata + cardinality(l.more)], NULL),
       l.attachment ->> 'content_path', l.attachment ->> 'role_path', l.attachment -> 'role_map',
       a.metadata_columns, r.oid, format('%I.%I', n.nspname, r.relname), r.relowner,
       ARRAY(SELECT t.attname::text
               FROM pg_index i, unnest(i.indkey::int2[]) WITH ORDINALITY k(number, position)
               JOIN pg_attribute t ON t.attrelid = $2 AND t.attnum = k.number
              WHERE i.indrelid = r.oid AND i.indisprimary AND k.position <= i.indnkeyatts
              ORDER BY k.position),
       EXISTS (SELECT FROM pg_index i
                WHERE i.indrelid = r.oid AND i.indisprimary AND NOT i.indimmediate),
       EXISTS (SELECT FROM pg_constraint f
                WHERE f.conrelid = r.oid AND f.contype = 'f'
                  AND (f.confupdtype IN ('c', 'n', 'd') OR f.confdeltype IN ('c', 'n', 'd'))),
       current_setting('application_name'),
       ARRAY(SELECT m.name FROM unnest(c.names) m(name)
              WHERE m.name IS NOT NULL
                AND NOT EXISTS (SELECT FROM pg_attribute t
                                 WHERE t.attrelid = r.oid AND t.attname = m.name
                                   AND t.attnum > 0 AND NOT t.attisdropped)) || c.dropped,
       coalesce(a.relation_oid = $2 OR a.relation_oid IN (SELECT t.oid FROM ancestors t)
                OR a.relation = format('%I.%I', n.nspname, r.relname)
                OR a.relation IN (SELECT t.name FROM ancestors t), false),
       a.relation_oid IS DISTINCT FROM $2 OR c.names IS DISTINCT FROM c.known
  FROM memory_agent.attachments a
  JOIN pg_class r ON r.oid = $2
  JOIN pg_namespace n ON n.oid = r.relnamespace,
       -- Until 0.2.0 there were no such columns.
       LATERAL (SELECT to_jsonb(a) AS attachment, cardinality(a.metadata_columns) AS metadata,
                       ARRAY(SELECT jsonb_array_elements_text(coalesce(to_jsonb(a) -> 'more_content_columns', '[]'))) AS more,
                       ARRAY(SELECT jsonb_array_elements_text(coalesce(to_jsonb(a) -> 'condition_columns', '[]'))) AS conditions,
                       ARRAY(SELECT jsonb_array_elements_text(coalesce(to_jsonb(a) -> 'condition_names', '[]'))) AS condition_names) l,
       LATERAL (SELECT array_agg(coalesce(CASE WHEN NOT t.attisdropped THEN t.attname::text END, w.name)
                                 ORDER BY w.position) AS names,
                       array_agg(w.name ORDER BY w.position) AS known,
                       -- Another column may have the name by now.
                       coalesce(array_agg(w.name) FILTER (WHERE t.attisdropped), '{}') AS dropped
                  FROM unnest(ARRAY[a.content_column, a.user_id_column, a.session_id_column,
                                    a.created_at_column, a.role_column] || a.metadata_columns
                              || l.more || l.conditions,
                              a.column_numbers) WITH ORDINALITY w(name, number, position)
                  LEFT JOIN pg_attribute t
                    ON t.attrelid = a.relation_oid AND t.attnum = w.number AND t.attnum > 0
                   AND (a.relation_oid = $2
                        OR a.relation_oid IN (SELECT o.oid FROM ancestors o))) c
 WHERE a.id = $1
