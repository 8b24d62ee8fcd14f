SELECT quote_ident(a.attname), format_type(a.atttypid, a.atttypmod), g.name, e.name
 FROM pg_index i, unnest(i.indkey::int2[], i.indclass::oid[]) WITH ORDINALITY k(number, class, position)
 JOIN pg_attribute a ON a.attrelid = $1 AND a.attnum = k.number
 JOIN pg_opclass c ON c.oid = k.class,
      LATERAL (SELECT format('OPERATOR(%I.%s)', n.nspname, o.oprname) AS name
                 FROM pg_amop m JOIN pg_operator o ON o.oid = m.amopopr
                 JOIN pg_namespace n ON n.oid = o.oprnamespace
                WHERE m.amopfamily = c.opcfamily AND m.amopstrategy = 5
                  AND m.amoplefttype = c.opcintype AND m.amoprighttype = c.opcintype) g,
      LATERAL (SELECT format('OPERATOR(%I.%s)', n.nspname, o.oprname) AS name
                 FROM pg_amop m JOIN pg_operator o ON o.oid = m.amopopr
                 JOIN pg_namespace n ON n.oid = o.oprnamespace
                WHERE m.amopfamily = c.opcfamily AND m.amopstrategy = 3
                  AND m.amoplefttype = c.opcintype AND m.amoprighttype = c.opcintype) e
WHERE i.indrelid = $1 AND i.indisprimary AND k.position <= i.indnkeyatts
ORDER BY k.position
