"""Calls with the types that psycopg 3 sends; the answers as JSON."""
import datetime
import json

import psycopg
from psycopg.types.json import Jsonb

now = datetime.datetime.now(datetime.timezone.utc)
with psycopg.connect(autocommit=True) as db:
    one = lambda sql, *values, **named: db.execute(sql, values or named).fetchone()[0]
    one("SELECT memory_ingest('s', 'user', %s, user_id => 'p', metadata => %s, created_at => %s, ttl => %s)",
        "The dog is called Rex.", Jsonb({"source": 1}), now, datetime.timedelta(hours=1))
    rows = db.execute("SELECT content, score FROM memory_recall(%s, user_id => %s, top_k => %s, score_threshold => %s, "
                      "recency_weight => %s, mmr_lambda => %s, filter => %s)",
                      ("What is the dog called?", "p", 3, 0.01, 0.1, 0.9, Jsonb({"kind": ["turn"]}))).fetchall()
    large = db.execute("SELECT count(*) FROM memory_recall('dog', user_id => 'p', top_k => %s::bigint)", (5,)).fetchone()[0]
    try:
        db.execute("SELECT memory_recall('dog', user_id => 'p', top_k => %s)", (3_000_000_000,))
        refused = None
    except psycopg.Error as error:
        refused = error.sqlstate
    print(json.dumps({
        "rows": [row[0] for row in rows],
        "large": large,
        "refused": refused,
        "waits": [one("SELECT memory_wait(%s, user_id => 'p')", value)
                  for value in (20, 20.5, datetime.timedelta(seconds=20), "20 s")],
        "tokens": one("SELECT memory_context('s', 'dog', token_budget => %s, user_id => 'p')", 500)["token_count"] <= 500,
        "hits": len(one("SELECT memory_augment(%s, session_id => 'new', top_k => %s, score_threshold => %s, user_id => 'p')",
                        Jsonb([{"role": "user", "content": "What is the dog called?"}]), 3, 0.01)["memory_hits"]),
        "archived": db.execute('SELECT count(*) FROM memory_search_archive(%s, "limit" => %s, user_id => %s)',
                               ("dog", 3, "p")).fetchone()[0],
    }))
