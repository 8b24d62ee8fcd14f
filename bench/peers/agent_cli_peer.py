"""agent-cli's memory component: its client without its server, its Chroma, recency, and MMR as they are."""

import asyncio
import warnings
from pathlib import Path
from unittest import mock

import chromadb
from agent_cli.memory import client
from agent_cli.memory._store import upsert_memories
from agent_cli.memory.models import MemoryMetadata
from models import cross_encoder, embedder

# Chroma would like to remember how to make the embedder; here it is given anew.
warnings.filterwarnings("ignore", category=DeprecationWarning, module="chromadb")


class Shipped(chromadb.EmbeddingFunction):
    def __init__(self):
        pass

    def __call__(self, input):
        return embedder().documents(list(input))

    def embed_query(self, input):
        return [embedder().question(text) for text in input]


def collection(path, **_):
    """Where agent-cli would make one that embeds by a server."""
    settings = chromadb.config.Settings(anonymized_telemetry=False)
    chroma = chromadb.PersistentClient(path=str(path / "chroma"), settings=settings)
    return chroma.get_or_create_collection("memory", embedding_function=Shipped())


class AgentCli:
    # It takes no moment: recency counts from now, and its filter compares numbers, while its times are texts.
    stored_as, knows_time, max_entries = "agent_cli", False, None

    def __init__(self, _conninfo, directory):
        path = Path(directory) / self.stored_as
        with (
            mock.patch.object(client, "init_memory_collection", collection),
            mock.patch.object(client, "get_reranker_model", cross_encoder),
        ):
            self.client = client.MemoryClient(path, openai_base_url="", enable_git_versioning=False)
        self.loop = asyncio.new_event_loop()
        # Its answers have no id; what they have tells rows apart.
        stored = self.client.collection.get()
        said = zip(stored["documents"], stored["metadatas"], stored["ids"])
        self.ids = {(content, metadata["created_at"]): id for content, metadata, id in said}

    def create(self):
        pass

    def store(self, conversation, rows):
        # What its eviction leaves after every turn: the newest.
        kept = sorted(rows, key=lambda row: row.created_at)[-(self.max_entries or len(rows)) :]
        metadata = [
            MemoryMetadata(conversation_id=conversation, role=row.role, created_at=row.created_at) for row in kept
        ]
        upsert_memories(self.client.collection, [row.id for row in kept], [row.text for row in kept], metadata)

    def recall(self, conversation, question, _as_of, k):
        found = self.loop.run_until_complete(self.client.search(question, conversation, top_k=k))
        return [self.ids[one.content, one.created_at] for one in found.entries]


class AgentCliEvicting(AgentCli):
    stored_as, max_entries = "agent_cli_500", 500
