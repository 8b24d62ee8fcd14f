#!/usr/bin/env python3
"""Writes the candidates of labelled questions for blend.py, as memory_explain shows them.

usage: blend_candidates.py CONNECTION DIRECTORY [--rows N] > CANDIDATES.jsonl

CONNECTION is libpq's, of an empty database with the extension; DIRECTORY holds corpus.jsonl and queries.jsonl, as
`make bench` reads them. Each conversation becomes the memory of one user, and each question is asked as of its time.
Every fourth one is also asked of the next conversation, which cannot answer it (kind "elsewhere"). The reranker reads
every candidate, or the N most promising ones. Needs psycopg.
"""
import argparse
import itertools
import json
import pathlib

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


def candidates(connection, name, ids, question, conversation, as_of):
    evidence = set(question["evidence"])
    kind = "adversarial" if question["category"] == "adversarial" else "answerable"
    if conversation != question["conversation_id"]:
        kind, evidence = "elsewhere", set()
    (document,) = connection.execute(
        "SELECT memory_explain(%s, user_id => %s, as_of => %s::timestamptz, top_k => 10)",
        (question["query"], conversation, as_of)).fetchone()
    for row in document["candidates"]:
        # Rows outside of the pool are not ranked by their features.
        if row.get("features"):
            yield {"set": name, "group": conversation, "query": question["query_id"], "kind": kind,
                   "evidence": len(evidence), "id": ids[row["id"]], "label": int(ids[row["id"]] in evidence),
                   "logit": row["logit"], "features": row["features"]}


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("connection")
    arguments.add_argument("directory", type=pathlib.Path)
    arguments.add_argument("--rows", type=int, default=50, help="rerank_rows; 50 are all candidates")
    arguments = arguments.parse_args()
    name = arguments.directory.name
    corpus, questions = (lines(arguments.directory / file) for file in ("corpus.jsonl", "queries.jsonl"))
    last = {}
    for turn in corpus:
        last[turn["conversation_id"]] = max(turn["created_at"], last.get(turn["conversation_id"], ""))
    following = dict(zip(last, [*list(last)[1:], *list(last)[:1]]))
    with psycopg.connect(arguments.connection, autocommit=True) as connection:
        connection.execute("SELECT set_config('memory_agent.rerank_rows', %s, false)", (str(arguments.rows),))
        ids = store(connection, corpus)
        for number, question in enumerate(questions):
            own = question["conversation_id"]
            asked = [(own, question["asked_at"])]
            if number % 4 == 0:
                # When that conversation is over: its age says nothing of what it can answer.
                asked.append((following[own], last[following[own]]))
            for conversation, as_of in asked:
                for row in candidates(connection, name, ids, question, conversation, as_of):
                    print(json.dumps(row))


if __name__ == "__main__":
    main()
