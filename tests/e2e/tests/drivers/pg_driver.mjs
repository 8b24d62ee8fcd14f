// Calls with the types that node-postgres sends: texts, of which the server finds out the types. The answers as JSON.
// usage: pg_driver.mjs FOLDER, with node_modules in it
import { createRequire } from "node:module";

const pg = createRequire(`${process.argv[2]}/`)("pg");
const db = new pg.Client();
await db.connect();
const rows = async (sql, ...values) => (await db.query({ text: sql, values, rowMode: "array" })).rows.map((row) => row[0]);
await rows(
  "SELECT memory_ingest('s', 'user', $1, user_id => 'n', metadata => $2, created_at => $3, ttl => $4)",
  "The dog is called Rex.", { source: 1 }, new Date(), "1 hour",
);
console.log(JSON.stringify({
  rows: await rows(
    "SELECT content FROM memory_recall($1, user_id => $2, top_k => $3, score_threshold => $4, " +
      "recency_weight => $5, mmr_lambda => $6, filter => $7)",
    "What is the dog called?", "n", 3, 0.01, 0.1, 0.9, { kind: ["turn"] },
  ),
  waits: [
    ...(await rows("SELECT memory_wait($1, user_id => 'n')", "20 s")),
    ...(await rows("SELECT memory_wait($1::float8, user_id => 'n')", 20)),
  ],
  archived: await rows('SELECT count(*)::int FROM memory_search_archive($1, "limit" => $2, user_id => $3)', "dog", 3, "n"),
}));
await db.end();
