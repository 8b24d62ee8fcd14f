WITH RECURSIVE chain AS (
   SELECT turn.id AS turn, f.replaced_by AS fact,
          CASE WHEN f.state_reason IS NULL AND f.content = '' THEN 0 ELSE 1 END AS step
     FROM memory_agent.entries f, unnest(f.source_ids) turn(id)
    WHERE f.user_id = ANY ($1) AND f.source_ids && $2 AND turn.id = ANY ($2)
      AND f.kind = 'fact' AND f.state = 'inactive' AND f.replaced_by IS NOT NULL
      AND ($3::timestamptz IS NULL OR f.valid_to <= $3)
   UNION
   SELECT c.turn, f.replaced_by, c.step + 1
     FROM chain c JOIN memory_agent.entries f ON f.user_id = ANY ($1) AND f.id = c.fact
    WHERE f.state = 'inactive' AND f.replaced_by IS NOT NULL
      AND ($3::timestamptz IS NULL OR f.valid_to <= $3) AND c.step < {MAX_STEPS})
SELECT r.turn, r.by
  FROM (SELECT c.turn, f.created_at,
               CASE WHEN f.content <> ''
                     AND CASE WHEN $3::timestamptz IS NULL THEN f.state <> 'inactive'
                              ELSE f.created_at <= $3 AND (f.valid_to IS NULL OR f.valid_to > $3) END
                    THEN f.id END AS by
          FROM chain c LEFT JOIN memory_agent.entries f ON f.user_id = ANY ($1) AND f.id = c.fact
         WHERE c.turn <> c.fact AND c.step > 0
           AND NOT (coalesce(f.source_ids, '{{}}') @> ARRAY[c.turn] AND coalesce(f.metadata ? 'job_id', false))
           AND NOT (coalesce(f.state, '') = 'inactive' AND f.replaced_by IS NOT NULL
                    AND ($3::timestamptz IS NULL OR f.valid_to <= $3))) r
 GROUP BY r.turn, r.by
 ORDER BY r.turn, r.by IS NULL, max(r.created_at) DESC, r.by DESC
