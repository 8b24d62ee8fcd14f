SELECT CASE
WHEN pg_catalog.jsonb_typeof($1) OPERATOR(pg_catalog.<>) 'array' THEN 'turns must be a JSON array'
WHEN pg_catalog.jsonb_array_length($1) OPERATOR(pg_catalog.>) $2
THEN pg_catalog.format('turns has %s elements, expected at most %s', pg_catalog.jsonb_array_length($1), $2)
ELSE (SELECT CASE
         WHEN pg_catalog.jsonb_typeof(t.turn) OPERATOR(pg_catalog.<>) 'object'
         THEN pg_catalog.format('turn %s is not an object', t.position)
         WHEN k.unknown IS NOT NULL
         THEN pg_catalog.format('turn %s has the unknown key "%s"', t.position, k.unknown)
         WHEN w.wrong IS NOT NULL
         THEN pg_catalog.format('turn %s: %s must be %s', t.position, w.wrong, w.expected) END
        FROM pg_catalog.jsonb_array_elements($1) WITH ORDINALITY t(turn, position)
        LEFT JOIN LATERAL (SELECT o.key AS unknown
               FROM pg_catalog.jsonb_each(CASE WHEN pg_catalog.jsonb_typeof(t.turn) OPERATOR(pg_catalog.=) 'object'
                                              THEN t.turn ELSE '{}' END) o
              WHERE o.key OPERATOR(pg_catalog.<>) ALL (ARRAY['session_id', 'role', 'content', 'metadata',
                                       'markers', 'created_at', 'ttl']) LIMIT 1) k ON true
        LEFT JOIN LATERAL (SELECT e.name AS wrong, e.expected
               FROM (VALUES ('session_id', 'string'), ('role', 'string'), ('content', 'string'),
                            ('metadata', 'object'), ('markers', 'array'),
                            ('created_at', 'string'), ('ttl', 'string')) e(name, expected)
              WHERE pg_catalog.jsonb_typeof(t.turn OPERATOR(pg_catalog.->) e.name)
                    OPERATOR(pg_catalog.<>) ALL (ARRAY[e.expected, 'null']) LIMIT 1) w ON true
       WHERE pg_catalog.jsonb_typeof(t.turn) OPERATOR(pg_catalog.<>) 'object'
          OR k.unknown IS NOT NULL OR w.wrong IS NOT NULL
       ORDER BY t.position LIMIT 1) END
