"""LangGraph's PostgresStore with an index configuration: a namespace for each conversation, search by meaning
alone, for it has nothing else."""

import psycopg
from langchain_core.embeddings import Embeddings
from langgraph.store.base import PutOp
from langgraph.store.postgres import PostgresStore
from models import DIMENSION, embedder
from psycopg.rows import dict_row


class Shipped(Embeddings):
    def embed_documents(self, texts):
        return embedder().documents(texts)

    def embed_query(self, text):
        return embedder().question(text)


class LangGraph:
    stored_as, knows_time = "langgraph", True

    def __init__(self, conninfo, _directory):
        connection = psycopg.connect(conninfo, autocommit=True, prepare_threshold=0, row_factory=dict_row)
        # Without an approximate index: at this size exact search is fast, and a filter takes nothing away.
        index = {"embed": Shipped(), "dims": DIMENSION, "fields": ["text"], "ann_index_config": {"kind": "flat"}}
        self.store_of_all = PostgresStore(connection, index=index)

    def create(self):
        self.store_of_all.setup()

    def store(self, conversation, rows):
        self.store_of_all.batch(
            [PutOp((conversation,), row.id, {"text": row.text, "said_at": row.created_at}) for row in rows]
        )

    def recall(self, conversation, question, as_of, k):
        # Its filter compares texts, as which moments written in one manner are ordered too.
        before = {"said_at": {"$lt": as_of}} if as_of else None
        return [item.key for item in self.store_of_all.search((conversation,), query=question, filter=before, limit=k)]
