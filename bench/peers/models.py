"""The shipped embedder and cross-encoder for the Python peers: the same weights that memory_agent runs.

One of each a process, shared by all peers of it. Questions and pairs are never remembered.
"""

import json
import os
from functools import cache
from pathlib import Path

import numpy as np
import onnxruntime
from tokenizers import Tokenizer

FOLDER = Path(__file__).resolve().parents[2] / "models"
DIMENSION = 384
# Texts of like length together, for padding costs as much as text: for the published reranker eight were
# the fastest batch (one of 30 takes more than twice as long).
BATCH = 8
# What memory_agent takes by default.
THREADS = min(os.cpu_count() or 1, 4)


class Model:
    def __init__(self, name):
        self.config = json.loads((FOLDER / name / "config.json").read_text())
        self.tokenizer = Tokenizer.from_file(str(FOLDER / name / "tokenizer.json"))
        self.tokenizer.enable_truncation(self.config["max_tokens"])
        self.tokenizer.enable_padding()
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = THREADS
        # As in memory_agent's model server: threads that spin would burn the cores of the next system.
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        self.session = onnxruntime.InferenceSession(str(FOLDER / name / "model.onnx"), options)
        self.inputs = {one.name for one in self.session.get_inputs()}

    def run(self, texts):
        """The graph's first output for texts, or pairs of texts, in their order."""
        order = sorted(range(len(texts)), key=lambda i: len("".join(texts[i])))
        answers = [None] * len(texts)
        for start in range(0, len(order), BATCH):
            batch = order[start : start + BATCH]
            encoded = self.tokenizer.encode_batch([texts[i] for i in batch])
            arrays = {
                "input_ids": [one.ids for one in encoded],
                "attention_mask": [one.attention_mask for one in encoded],
                "token_type_ids": [one.type_ids for one in encoded],
            }
            feed = {name: np.array(arrays[name], dtype=np.int64) for name in self.inputs}
            for i, answer in zip(batch, self.session.run(None, feed)[0]):
                answers[i] = answer
        return answers


class Embedder(Model):
    def __init__(self, name):
        super().__init__(name)
        # All peers store the same texts, and storing is not measured.
        self.stored = {}

    def vectors(self, texts):
        """Unit vectors, as lists of floats."""
        first = [answer.reshape(-1, DIMENSION)[0] for answer in self.run(texts)]
        return [(vector / np.linalg.norm(vector)).tolist() for vector in first]

    def documents(self, texts):
        new = [text for text in dict.fromkeys(texts) if text not in self.stored]
        self.stored.update(zip(new, self.vectors(new)))
        return [self.stored[text] for text in texts]

    def question(self, text):
        return self.vectors([self.config["query_prefix"] + text])[0]


class CrossEncoder(Model):
    def predict(self, pairs):
        """One logit for each pair of question and text."""
        return [float(answer.reshape(-1)[0]) for answer in self.run(list(pairs))]


@cache
def embedder():
    return Embedder("memory-embed-small")


@cache
def cross_encoder():
    return CrossEncoder("ms-marco-MiniLM-L-12-v2")
