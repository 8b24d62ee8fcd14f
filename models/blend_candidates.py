#!/usr/bin/env python3
"""Writes the candidates of labelled questions for blend.py, as memory_explain shows them.

usage: blend_candidates.py CONNECTION DIRECTORY... [--rows N] > CANDIDATES.jsonl

CONNECTION is libpq's, of a superuser in a database with the extension that is empty, or has these sets from a call
before; a DIRECTORY holds corpus.jsonl and queries.jsonl, as `make bench` reads them. Questions are asked
  of their conversation, which is the memory of one user, as of their time (size "whole"); every fourth one also of the
    next conversation, which cannot answer it (kind "elsewhere");
  of 3, 12 and 50 consecutive rows of it that have a row with the answer, and of as many that have none (kind "absent"),
    or that are of another conversation (90 questions of each set);
  of all conversations of the set in one memory (size "all"; every third question), and so are questions of the set
    before (kind "elsewhere").
Rows are copied by SQL, with their embeddings. The reranker reads the N most promising rows (16). Needs psycopg.
"""
import argparse
import datetime
import itertools
import json
import pathlib
import random
import sys

import psycopg

SIZES = (3, 12, 50)
CUT = 90
COLUMNS = ("SELECT string_agg(CASE attname WHEN 'user_id' THEN 'cut.user_id' ELSE 'e.' || attname END, ', ' ORDER BY attnum), "
           "string_agg(attname, ', ' ORDER BY attnum) FROM pg_attribute "
           "WHERE attrelid = 'memory_agent.entries'::regclass AND attnum > 0 AND NOT attisdropped")


def lines(path):
    with path.open() as file:
        return [json.loads(line) for line in file]


def note(*words):
    print(*words, file=sys.stderr, flush=True)


class Labelled:
    def __init__(self, directory):
        self.name = directory.name
        self.corpus, self.questions = (lines(directory / file) for file in ("corpus.jsonl", "queries.jsonl"))
        self.rows = {row["id"]: row for row in self.corpus}
        self.conversations = {}
        for row in self.corpus:
            self.conversations.setdefault(row["conversation_id"], []).append(row)
        # Where one person speaks with an assistant, names say nothing.
        self.named = len({row["speaker"] for row in self.corpus} - {"user", "assistant"}) > 1 and any(
            len({row["speaker"] for row in rows}) > 1 for rows in self.conversations.values())
        self.last = {name: max(row["created_at"] for row in rows) for name, rows in self.conversations.items()}
        names = list(self.conversations)
        self.following = dict(zip(names, [*names[1:], names[0]]))

    def user(self, conversation):
        return f"{self.name}/{conversation}"

    def store(self, connection):
        for conversation, turns in self.conversations.items():
            for start in range(0, len(turns), 100):
                body = [{"session_id": turn["session_id"], "role": turn["role"], "content": turn["content"],
                         "created_at": turn["created_at"],
                         "metadata": {"row": turn["id"], **({"name": turn["speaker"]} if self.named else {})}}
                        for turn in turns[start:start + 100]]
                connection.execute("SELECT count(*) FROM memory_ingest_batch(%s::jsonb, user_id => %s)",
                                   (json.dumps(body), self.user(conversation)))

    def cuts(self, chance):
        """Parts of memories, each with its question: (user, conversation, rows, question, kind, size, moment)."""
        place = {row["id"]: at for rows in self.conversations.values() for at, row in enumerate(rows)}
        questions = [q for q in self.questions if q["category"] != "adversarial"]
        for number, question in enumerate(chance.sample(questions, min(CUT, len(questions)))):
            own = question["conversation_id"]
            rows = self.conversations[own]
            evidence = [place[row] for row in question["evidence"] if row in place]
            seen = [at for at in evidence if rows[at]["created_at"] < question["asked_at"]]
            for size in SIZES:
                if seen:
                    first = max(0, min(chance.choice(seen) - chance.randrange(size), len(rows) - size))
                    yield (f"{self.name}/cut/{number}/{size}", own, rows[first:first + size], question, "answerable", size,
                           question["asked_at"])
                free = [at for at in range(len(rows) - size) if not any(at <= one < at + size for one in evidence)]
                if free and chance.random() < 0.5:
                    first, of, kind, moment = chance.choice(free), own, "absent", question["asked_at"]
                else:
                    of, kind = self.following[own], "elsewhere"
                    first = chance.randrange(max(1, len(self.conversations[of]) - size))
                    after = self.conversations[of][first:first + size]
                    moment = max(row["created_at"] for row in after)
                part = self.conversations[of][first:first + size]
                yield f"{self.name}/without/{number}/{size}", of, part, question, kind, size, moment


def copy(connection, parts):
    """Copies rows to other users: pairs of the new user, and of the old one with the ids of rows, or None for all."""
    (selected, columns), = connection.execute(COLUMNS)
    with connection.transaction():
        connection.execute("SET LOCAL session_replication_role = replica")
        connection.execute("CREATE TEMP TABLE cut (user_id text, source text, row text) ON COMMIT DROP")
        with connection.cursor().copy("COPY cut FROM STDIN") as file:
            for user, source, rows in parts:
                for row in rows:
                    file.write_row((user, source, row))
        connection.execute(f"INSERT INTO memory_agent.entries ({columns}) SELECT {selected} FROM cut "
                           "JOIN memory_agent.entries e ON e.user_id = cut.source AND e.metadata->>'row' = cut.row")
        connection.execute(
            "INSERT INTO memory_agent.entry_windows SELECT cut.user_id, w.entry_id, w.ordinal, w.embedding, w.embedding_model "
            "FROM cut JOIN memory_agent.entries e ON e.user_id = cut.source AND e.metadata->>'row' = cut.row "
            "JOIN memory_agent.entry_windows w ON w.user_id = cut.source AND w.entry_id = e.id")
    connection.execute("ANALYZE memory_agent.entries")


def ask(connection, rows_of, name, question, user, as_of, kind, size):
    evidence = set(question["evidence"]) if kind in ("answerable", "adversarial") else set()
    (document,) = connection.execute(
        "SELECT memory_explain(%s, user_id => %s, as_of => %s::timestamptz, top_k => 10)",
        (question["query"], user, as_of)).fetchone()
    # Rows outside of the pool are not ranked by their features; the others come by their fused scores.
    pool = sorted((row for row in document["candidates"] if row.get("features")), key=lambda row: -row["fused"])
    found = [(rows_of[row["id"]], row) for row in pool]
    print(json.dumps({
        "set": name, "group": question["conversation_id"], "query": question["query_id"], "kind": kind, "size": size,
        "evidence": len(evidence),
        "candidates": [{"id": row_id, "label": int(row_id in evidence), "logit": row["logit"], "features": row["features"]}
                       for row_id, row in found]}))


def kind_of(question):
    return "adversarial" if question["category"] == "adversarial" else "answerable"


def day_after(moment):
    return (datetime.datetime.fromisoformat(moment.replace("Z", "+00:00")) + datetime.timedelta(days=1)).isoformat()


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("connection")
    arguments.add_argument("directories", type=pathlib.Path, nargs="+")
    arguments.add_argument("--rows", type=int, default=16, help="rerank_rows")
    arguments = arguments.parse_args()
    sets = [Labelled(directory) for directory in arguments.directories]
    cuts = {one.name: list(one.cuts(random.Random(7))) for one in sets}
    with psycopg.connect(arguments.connection, autocommit=True) as connection:
        connection.execute("SELECT set_config('memory_agent.rerank_rows', %s, false)", (str(arguments.rows),))
        (stored,), = connection.execute("SELECT count(*) FROM memory_agent.entries")
        if stored == 0:
            for one in sets:
                note("store", one.name)
                one.store(connection)
            for one in sets:
                parts = [(user, one.user(source), [row["id"] for row in rows])
                         for user, source, rows, *_ in cuts[one.name]]
                everything = [(f"{one.name}/all", one.user(conversation), [row["id"] for row in rows])
                              for conversation, rows in one.conversations.items()]
                copy(connection, itertools.chain(parts, everything))
        rows_of = dict(connection.execute("SELECT id::text, metadata->>'row' FROM memory_agent.entries"))
        for before, one in zip([sets[-1], *sets[:-1]], sets):
            note("ask", one.name)
            for number, question in enumerate(one.questions):
                own = question["conversation_id"]
                ask(connection, rows_of, one.name, question, one.user(own), question["asked_at"], kind_of(question), "whole")
                if number % 4 == 0:
                    # When that conversation is over: its age says nothing of what it can answer.
                    other = one.following[own]
                    ask(connection, rows_of, one.name, question, one.user(other), one.last[other], "elsewhere", "whole")
                if number % 3 == 0 and kind_of(question) == "answerable":
                    ask(connection, rows_of, one.name, question, f"{one.name}/all", question["asked_at"], "answerable", "all")
            for user, _, _, question, kind, size, moment in cuts[one.name]:
                ask(connection, rows_of, one.name, question, user, day_after(moment) if kind == "elsewhere" else moment,
                    kind, size)
            for question in before.questions[::8]:
                # Each conversation of this set is as likely to be the one that a question is counted with.
                counted = {**question, "conversation_id": list(one.conversations)[len(question["query"]) % len(one.conversations)]}
                ask(connection, rows_of, one.name, counted, f"{one.name}/all", max(one.last.values()), "elsewhere", "all")


if __name__ == "__main__":
    main()
