#!/usr/bin/env python3
"""Finds training texts that share 8 words in a row with the evaluation sets, so that lists.py leaves them out.

usage: decontaminate.py --data DIR EVALUATION_DIR...

Looked at are rows and queries as they are trained on, with names and made questions (lists.py, its seed), each by itself
and rows joined to those that follow them, as training joins them.
EVALUATION_DIR has corpus.jsonl (`content`) and queries.jsonl (`query`). Writes decontaminated.txt beside this
file: the first 16 hex digits of the sha256 of each training text that is left out. Prints how many there are, of which
source, and the runs of words: commonplaces of chats, if the sets have nothing to do with each other.
"""

from __future__ import annotations

import argparse
import collections
import hashlib
import json
import pathlib
import re

HERE = pathlib.Path(__file__).resolve().parent
LEFT_OUT = HERE / "decontaminated.txt"
RUN = 8


def runs(text: str) -> set[str]:
    """All runs of RUN words of the text, in lower case and without punctuation."""
    words = re.findall(r"[a-z0-9]+", text.lower())
    return {" ".join(words[start : start + RUN]) for start in range(len(words) - RUN + 1)}


def evaluation_runs(directory: pathlib.Path) -> set[str]:
    found: set[str] = set()
    for name, field in (("corpus.jsonl", "content"), ("queries.jsonl", "query")):
        for line in (directory / name).read_text().splitlines():
            found |= runs(json.loads(line)[field])
    return found


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def left_out() -> set[str]:
    return set(LEFT_OUT.read_text().split()) if LEFT_OUT.exists() else set()


def main() -> None:
    import lists
    import pairs

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=pathlib.Path, required=True)
    parser.add_argument("evaluation", type=pathlib.Path, nargs="+")
    arguments = parser.parse_args()
    evaluation = {path.name: evaluation_runs(path) for path in arguments.evaluation}
    digests: set[str] = set()
    shared: collections.Counter[tuple[str, str, str]] = collections.Counter()
    texts_of: dict[str, set[str]] = {}
    for memory in lists.all_memories(arguments.data, lists.SEED):
        texts = texts_of.setdefault(memory.source, set())
        texts.update(memory.rows, (query.text for query in memory.queries))
        for count in range(2, pairs.MOST_SPAN + 1):
            for start in range(len(memory.rows) - count + 1):
                window = memory.rows[start : start + count]
                # What fewer of them have was looked at before.
                across = runs(" ".join(window)).difference(runs(" ".join(window[1:])), runs(" ".join(window[:-1])))
                for name, known in evaluation.items():
                    for run in across & known:
                        shared[memory.source, f"{name}, joined", run] += 1
                        digests.update(map(digest, window))
    for source, texts in texts_of.items():
        hit = set()
        for text in texts:
            for name, known in evaluation.items():
                for run in runs(text) & known:
                    shared[source, name, run] += 1
                    hit.add(text)
        digests |= {digest(text) for text in hit}
        print(f"{source}: {len(texts)} texts, {len(hit)} left out")
    for (source, name, run), count in shared.most_common():
        print(f"{count:5d} {source} / {name}: {run}")
    LEFT_OUT.write_text("".join(f"{name}\n" for name in sorted(digests)))


if __name__ == "__main__":
    main()
