WITH RECURSIVE later AS (
   SELECT e.id, e.kind, e.replaced_by FROM memory_agent.entries e
    WHERE e.user_id = $1 AND e.id = $2
   UNION
   SELECT n.id, n.kind, n.replaced_by FROM later l
     JOIN memory_agent.entries n ON n.user_id = $1 AND n.id = l.replaced_by AND n.kind = l.kind),
earlier AS (
   SELECT e.id, e.kind FROM memory_agent.entries e WHERE e.user_id = $1 AND e.id = $2
   UNION
   SELECT o.id, o.kind FROM earlier l
     JOIN memory_agent.entries o ON o.user_id = $1 AND o.replaced_by = l.id AND o.kind = l.kind),
versions AS (
   SELECT l.id FROM later l UNION SELECT l.id FROM earlier l UNION SELECT $2)
SELECT {at}, {op}, {actor}, {reason}, h.body ->> 'content', {body}, h.job_id, h.seq, h.id
  FROM versions v JOIN memory_agent.history h ON h.user_id = $1 AND h.entry_id = v.id
UNION ALL
SELECT e.recorded_at, 'ingest', NULL, NULL, e.content, NULL, NULL, NULL, e.id
  FROM versions v JOIN memory_agent.entries e ON e.user_id = $1 AND e.id = v.id
 WHERE e.kind = 'turn' AND e.content <> ''
   AND NOT EXISTS (SELECT FROM memory_agent.history h
                    WHERE h.user_id = $1 AND h.entry_id = e.id AND {op} IN ('add', 'import')
                      AND (h.op <> 'imported' OR h.body ->> 'content' = e.content))
 ORDER BY 1, 8 NULLS LAST, 9
