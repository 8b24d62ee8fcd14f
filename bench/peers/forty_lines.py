"""What a competent person writes in an hour instead of installing anything: pgvector and full-text search
with OR, thirty rows each, reciprocal rank fusion, and the cross-encoder's order of thirty."""

import re

import psycopg
from models import cross_encoder, embedder

SCHEMA = """
CREATE EXTENSION IF NOT EXISTS vector;
CREATE TABLE memory (id text PRIMARY KEY, conversation text, content text, created_at timestamptz,
    embedding vector(384), words tsvector GENERATED ALWAYS AS (to_tsvector('english', content)) STORED);
CREATE INDEX ON memory (conversation, created_at)"""

SEARCH = """
WITH near AS (
    SELECT id, row_number() OVER (ORDER BY embedding <=> %(vector)s::vector) AS rank FROM memory
    WHERE conversation = %(conversation)s AND created_at < %(as_of)s ORDER BY rank LIMIT 30
), said AS (
    SELECT id, row_number() OVER (ORDER BY ts_rank(words, query) DESC) AS rank
    FROM memory, websearch_to_tsquery('english', %(words)s) AS query
    WHERE conversation = %(conversation)s AND created_at < %(as_of)s AND words @@ query ORDER BY rank LIMIT 30
), found AS (SELECT * FROM near UNION ALL SELECT * FROM said)
SELECT id, content FROM found JOIN memory USING (id)
GROUP BY id, content ORDER BY sum(1.0 / (60 + rank)) DESC, id LIMIT 30"""


class FortyLines:
    stored_as, knows_time = "forty_lines", True

    def __init__(self, conninfo, _directory):
        self.connection = psycopg.connect(conninfo, autocommit=True)

    def create(self):
        self.connection.execute(SCHEMA)

    def store(self, conversation, rows):
        vectors = embedder().documents([row.text for row in rows])
        values = [(r.id, conversation, r.text, r.created_at, str(v)) for r, v in zip(rows, vectors)]
        self.connection.cursor().executemany("INSERT INTO memory VALUES (%s, %s, %s, %s, %s)", values)

    def recall(self, conversation, question, as_of, k):
        words = " or ".join(re.findall(r"\w+", question))
        vector = str(embedder().question(question))
        values = {"conversation": conversation, "vector": vector, "words": words, "as_of": as_of or "infinity"}
        found = self.connection.execute(SEARCH, values).fetchall()
        logits = cross_encoder().predict((question, content) for _, content in found)
        return [id for _, (id, _) in sorted(zip(logits, found), reverse=True)][:k]
