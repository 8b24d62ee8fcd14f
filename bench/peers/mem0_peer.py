"""mem0 as a library over pgvector: texts stored as they are (`infer=False`), the cross-encoder as its reranker."""

import os

# Before mem0 is imported: it reports what it is used for, and writes to the home directory.
os.environ["MEM0_TELEMETRY"] = "False"
os.environ.setdefault("MEM0_DIR", "/tmp/memory_agent_peers_mem0")

import logging
from datetime import datetime

from mem0 import Memory
from mem0.embeddings.base import EmbeddingBase
from mem0.reranker.base import BaseReranker
from models import DIMENSION, cross_encoder, embedder

# It says in every process that the optional spaCy is not there; README.md says it once.
logging.getLogger("mem0.utils.spacy_models").setLevel(logging.CRITICAL)

# Candidates of the cross-encoder, as many as the other peers give it.
CANDIDATES = 30


class Shipped(EmbeddingBase):
    def embed(self, text, memory_action=None):
        return embedder().question(text) if memory_action == "search" else embedder().documents([text])[0]


class Reranker(BaseReranker):
    def rerank(self, query, documents, top_k=None):
        logits = cross_encoder().predict((query, document["memory"]) for document in documents)
        order = sorted(range(len(documents)), key=lambda i: -logits[i])
        return [documents[i] for i in order][:top_k]


class Mem0:
    stored_as, knows_time = "mem0", True

    def __init__(self, conninfo, directory):
        store = {
            "connection_string": conninfo,
            "collection_name": "mem0",
            "embedding_model_dims": DIMENSION,
            # Exact search: through the index, mem0's filter by user applies to the nearest rows of all users.
            "hnsw": False,
        }
        nobody = {"api_key": "unused"}
        self.memory = Memory.from_config(
            {
                "vector_store": {"provider": "pgvector", "config": store},
                "embedder": {"provider": "openai", "config": nobody},
                "llm": {"provider": "openai", "config": nobody},
                "history_db_path": f"{directory}/mem0_{os.getpid()}.db",
            }
        )
        # Its own providers of local models bring another runtime; the places for them are these two.
        self.memory.embedding_model = Shipped()
        self.memory.reranker = Reranker()

    def create(self):
        pass

    def store(self, conversation, rows):
        for row in rows:
            said_at = datetime.fromisoformat(row.created_at).timestamp()
            self.memory.add(row.text, user_id=conversation, metadata={"row": row.id, "said_at": said_at}, infer=False)

    def recall(self, conversation, question, as_of, k):
        filters = {"user_id": conversation}
        if as_of:
            filters["said_at"] = {"lt": datetime.fromisoformat(as_of).timestamp()}
        found = self.memory.search(question, filters=filters, top_k=CANDIDATES, rerank=True)["results"]
        return [one["metadata"]["row"] for one in found][:k]
