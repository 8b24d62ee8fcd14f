#!/usr/bin/env python3
"""Writes the candidates of labelled questions for blend.py, as memory_explain shows them.

usage: blend_candidates.py CONNECTION DIRECTORY > CANDIDATES.jsonl

CONNECTION is libpq's, of an empty database with the extension; DIRECTORY holds corpus.jsonl and queries.jsonl, as
`make bench` reads them. Each conversation becomes the memory of one user, and each question is asked as of its time
with every candidate read by the reranker. Needs psycopg.
"""
import itertools
import json
import pathlib
import sys

import psycopg


def lines(path):
    with path.open() as file:
        return [json.loads(line) for line in file]


def store(connection, rows):
    """Returns the data's id of each entry."""
    ids = {}
    for conversation, turns in itertools.groupby(rows, key=lambda row: row["conversation_id"]):
        turns = list(turns)
        # Where one person speaks with an assistant, names say nothing.
        named = len({turn["speaker"] for turn in turns}) > 1
        for batch in (turns[start:start + 200] for start in range(0, len(turns), 200)):
            body = [{"session_id": turn["session_id"], "role": turn["role"], "content": turn["content"],
                     "created_at": turn["created_at"],
                     "metadata": {"name": turn["speaker"]} if named else {}} for turn in batch]
            stored = connection.execute(
                "SELECT id::text FROM memory_ingest_batch(%s::jsonb, user_id => %s) AS id",
                (json.dumps(body), conversation))
            ids.update((entry, turn["id"]) for (entry,), turn in zip(stored, batch))
    return ids


def candidates(connection, name, ids, question):
    evidence = set(question["evidence"])
    (document,) = connection.execute(
        "SELECT memory_explain(%s, user_id => %s, as_of => %s::timestamptz, top_k => 10)",
        (question["query"], question["conversation_id"], question["asked_at"])).fetchone()
    for row in document["candidates"]:
        # Rows outside of the pool are not ranked by their features.
        if row.get("features"):
            yield {"set": name, "group": question["conversation_id"], "query": question["query_id"],
                   "kind": "adversarial" if question["category"] == "adversarial" else "answerable",
                   "evidence": len(evidence), "id": ids[row["id"]], "label": int(ids[row["id"]] in evidence),
                   "logit": row["logit"], "features": row["features"]}


def main():
    dsn, directory = sys.argv[1], pathlib.Path(sys.argv[2])
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("SET memory_agent.rerank_budget = 0")
        ids = store(connection, lines(directory / "corpus.jsonl"))
        for question in lines(directory / "queries.jsonl"):
            for row in candidates(connection, directory.name, ids, question):
                print(json.dumps(row))


if __name__ == "__main__":
    main()
