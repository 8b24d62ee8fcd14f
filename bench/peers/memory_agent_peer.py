"""memory_agent, asked through SQL with its defaults and the arguments that its configurations name."""

import json

import psycopg

# Turns in one call of memory_ingest_batch.
BATCH = 200


class MemoryAgent:
    stored_as, knows_time, arguments, rows = "memory_agent", True, "", None

    def __init__(self, conninfo, _directory):
        self.connection = psycopg.connect(conninfo, autocommit=True)
        self.connection.execute("SET client_min_messages = error")
        if self.rows is not None:
            self.connection.execute(f"SET memory_agent.rerank_rows = {self.rows}")
        self.recall_sql = (
            "SELECT metadata ->> 'row' FROM memory_recall(%s, user_id => %s, "
            f"as_of => %s::timestamptz, top_k => %s{self.arguments})"
        )

    def create(self):
        self.connection.execute("CREATE EXTENSION memory_agent CASCADE")

    def store(self, conversation, rows):
        for start in range(0, len(rows), BATCH):
            turns = [self.turn(row) for row in rows[start : start + BATCH]]
            self.connection.execute(
                "SELECT count(*) FROM memory_ingest_batch(%s::jsonb, user_id => %s)", (json.dumps(turns), conversation)
            )

    @staticmethod
    def turn(row):
        named = {"name": row.speaker} if row.speaker else {}
        return {
            "session_id": row.session_id,
            "role": row.role,
            "content": row.content,
            "created_at": row.created_at,
            "metadata": {"row": row.id, **named},
        }

    def recall(self, conversation, question, as_of, k):
        answer = self.connection.execute(self.recall_sql, (question, conversation, as_of, k))
        return [id for (id,) in answer]

    def forget(self):
        """Empties the model server's caches: erasing memory does, even that of a user who has none."""
        self.connection.execute("SELECT memory_erase(user_id => 'nobody')")


class EveryRow(MemoryAgent):
    # All candidates.
    rows = 50


class WithoutReranker(MemoryAgent):
    arguments = ", rerank => false"
