"""Calls with the types that asyncpg sends, which asks the server for them; the answers as JSON."""
import asyncio
import datetime
import json

import asyncpg


async def main():
    db = await asyncpg.connect()
    one = db.fetchval
    now = datetime.datetime.now(datetime.timezone.utc)
    await one("SELECT memory_ingest('s', 'user', $1, user_id => 'a', metadata => $2, created_at => $3, ttl => $4)",
              "The dog is called Rex.", json.dumps({"source": 1}), now, datetime.timedelta(hours=1))
    rows = await db.fetch("SELECT content FROM memory_recall($1, user_id => $2, top_k => $3, score_threshold => $4, "
                          "recency_weight => $5, mmr_lambda => $6, filter => $7)",
                          "What is the dog called?", "a", 3, 0.01, 0.1, 0.9, json.dumps({"kind": ["turn"]}))
    print(json.dumps({
        "rows": [row[0] for row in rows],
        "waits": [await one("SELECT memory_wait($1, user_id => 'a')", "20 s"),
                  await one("SELECT memory_wait($1::float8, user_id => 'a')", 20),
                  await one("SELECT memory_wait($1::interval, user_id => 'a')", datetime.timedelta(seconds=20))],
        "archived": await one('SELECT count(*) FROM memory_search_archive($1, "limit" => $2, user_id => $3)', "dog", 3, "a"),
    }))
    await db.close()


asyncio.run(main())
