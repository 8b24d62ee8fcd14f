#!/usr/bin/env python3
"""Other people's recall beside memory_agent's, in one run: quality and time of the same questions.

Makes a private cluster with the installed extension, stores the labelled sets in every system, and asks each
question of every system in turn, in an order drawn for each question. Prints Markdown tables.
README.md says what each system is.
"""

import argparse
import importlib
import json
import math
import multiprocessing
import os
import platform
import queue
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import traceback
from collections import defaultdict
from dataclasses import dataclass
from datetime import date
from importlib.metadata import version
from pathlib import Path

import psycopg
from models import THREADS

ROOT = Path(__file__).resolve().parents[2]
# Name, module and class; those that read the same rows stand together.
SYSTEMS = {
    "memory_agent": ("memory_agent_peer", "MemoryAgent"),
    "memory_agent, rerank_rows = 50": ("memory_agent_peer", "EveryRow"),
    "memory_agent, rerank => false": ("memory_agent_peer", "WithoutReranker"),
    "forty lines": ("forty_lines", "FortyLines"),
    "mem0": ("mem0_peer", "Mem0"),
    "LangGraph PostgresStore": ("langgraph_peer", "LangGraph"),
    "agent-cli": ("agent_cli_peer", "AgentCli"),
    "agent-cli, 500 entries": ("agent_cli_peer", "AgentCliEvicting"),
}
PACKAGES = ("mem0ai", "langgraph-checkpoint-postgres", "agent-cli", "chromadb", "onnxruntime")
VERSIONS = """
SELECT 'PostgreSQL ' || current_setting('server_version') || ', ' || string_agg(name || ' ' || default_version, ', ')
FROM pg_available_extensions WHERE name IN ('vector', 'memory_agent')"""
# Rows of an answer.
K = 10
# Questions that each connection asks one system without pause before the next system's turn, if several ask.
TURN = 4
# Longest wait of a process for the others, in seconds: they load models, or answer 4 questions each.
PATIENCE = 900


@dataclass
class Plan:
    folder: str
    title: str
    # Whether the speaker's name is part of the text, for all systems alike.
    named_speakers: bool
    # Whether only rows from before the question may be found.
    as_of: bool


PLANS = (
    Plan("locomo-open", "LoCoMo", named_speakers=True, as_of=False),
    Plan("realmem-open", "RealMem", named_speakers=False, as_of=True),
    Plan("realtalk-open", "REALTALK", named_speakers=True, as_of=False),
    # One person speaks with an assistant: names would say nothing.
    Plan("beam-open", "BEAM", named_speakers=False, as_of=False),
)


@dataclass
class Row:
    id: str
    session_id: str
    role: str
    content: str
    created_at: str
    # None where it is not part of the text.
    speaker: str | None

    @property
    def text(self):
        return f"{self.speaker}: {self.content}" if self.speaker else self.content


@dataclass
class Question:
    text: str
    conversation: str
    evidence: list
    as_of: str | None


def read(path):
    with path.open() as lines:
        return [json.loads(line) for line in lines]


def dataset(directory, plan, first, limit):
    """Rows of each conversation, and questions in an order of no meaning; false premises are left out."""
    conversations = defaultdict(list)
    for one in read(directory / "corpus.jsonl"):
        speaker = one["speaker"] if plan.named_speakers else None
        row = Row(one["id"], one["session_id"], one["role"], one["content"], one["created_at"], speaker)
        conversations[one["conversation_id"]].append(row)
    conversations = dict(list(conversations.items())[:first])
    questions = [
        Question(one["query"], one["conversation_id"], one["evidence"], one["asked_at"] if plan.as_of else None)
        for one in read(directory / "queries.jsonl")
        if one["category"] != "adversarial" and one["conversation_id"] in conversations
    ]
    # Asked twice, it would be known to a cache.
    questions = list({(question.conversation, question.text): question for question in questions}.values())
    random.Random(0).shuffle(questions)
    return conversations, questions[:limit]


def build(name, place):
    module, kind = SYSTEMS[name]
    return getattr(importlib.import_module(module), kind)(*place)


def store(systems, place, conversations):
    stored = set()
    for name in systems:
        system = build(name, place)
        if system.stored_as in stored:
            continue
        stored.add(system.stored_as)
        began = time.monotonic()
        system.create()
        for conversation, rows in conversations.items():
            system.store(conversation, rows)
        progress(f"  stored in {system.stored_as}, {time.monotonic() - began:.0f} s")


def ask(number, systems, place, questions, barrier, next_question, answers, seed):
    """What one process does, with a connection of its own to each system."""
    try:
        peers = {name: build(name, place) for name in systems}
        for peer in peers.values():
            # The first recall of a connection loads what every other one finds loaded.
            peer.recall(questions[0].conversation, "Are you there?", questions[0].as_of, K)
        size = barrier.parties * TURN if barrier.parties > 1 else 1
        for start in range(0, len(questions), size):
            end = min(start + size, len(questions))
            for name in random.Random(f"{seed} {barrier.parties} {start}").sample(systems, len(systems)):
                barrier.wait(PATIENCE)
                if number == 0:
                    next_question.value = start
                    # Another configuration of it may have been asked the same.
                    getattr(peers[name], "forget", lambda: None)()
                barrier.wait(PATIENCE)
                take_turn(name, peers[name], questions, start, end, next_question, answers)
            if number == 0 and end * 10 // len(questions) > start * 10 // len(questions):
                progress(f"  {end} of {len(questions)} questions")
        answers.put(None)
    except Exception:  # whatever it is, the parent has to know
        # The others would wait for this one.
        barrier.abort()
        answers.put(traceback.format_exc())


def take_turn(name, peer, questions, start, end, next_question, answers):
    """Asks one system, with the other processes, without pause until the questions of the turn are used up."""
    while True:
        with next_question.get_lock():
            mine = next_question.value
            next_question.value += 1
        if mine >= end:
            return
        question = questions[mine]
        began = time.perf_counter()
        ids = peer.recall(question.conversation, question.text, question.as_of, K)
        answers.put((name, start, mine, ids, began, time.perf_counter()))


def run(connections, systems, place, questions, seed):
    """All questions to all systems; returns the answers of each."""
    # Forked from a process that only imported: quickly, and its memory is shared. That process looks in the
    # current directory first, where a folder `models` would be taken for the module.
    os.environ["PYTHONPATH"] = str(Path(__file__).resolve().parent)
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["psycopg", "models", *{SYSTEMS[name][0] for name in systems}])
    barrier, next_question = context.Barrier(connections), context.Value("i", 0)
    answers = context.Queue()
    arguments = (systems, place, questions, barrier, next_question, answers, seed)
    processes = [context.Process(target=ask, args=(number, *arguments)) for number in range(connections)]
    for process in processes:
        process.start()
    of_systems = defaultdict(list)
    asking = connections
    while asking:
        answer = next_answer(answers, processes)
        if isinstance(answer, str):
            sys.exit(answer)
        if answer is None:
            asking -= 1
        else:
            of_systems[answer[0]].append(answer[1:])
    for process in processes:
        process.join()
    return of_systems


def next_answer(answers, processes):
    """Waits for an answer, and not for a process that was killed: it cannot say why."""
    until = time.monotonic() + 2 * PATIENCE
    while time.monotonic() < until:
        try:
            return answers.get(timeout=5)
        except queue.Empty:
            killed = [process.exitcode for process in processes if process.exitcode]
            if killed:
                sys.exit(f"{len(killed)} of {len(processes)} processes ended with {killed}; is there memory for them?")
    sys.exit("no answer came in time")


def measures(ids, evidence):
    """R@5, R@10, nDCG@10, MRR@10."""
    found = [id in evidence for id in list(dict.fromkeys(ids))[:K]]
    gain = sum(1 / math.log2(place + 2) for place, right in enumerate(found) if right)
    best = sum(1 / math.log2(place + 2) for place in range(min(K, len(evidence))))
    first = next((1 / (place + 1) for place, right in enumerate(found) if right), 0)
    return sum(found[:5]) / len(evidence), sum(found) / len(evidence), gain / best, first


def figures(answers, questions):
    quality = [measures(ids, set(questions[number].evidence)) for _, number, ids, _, _ in answers]
    times = sorted((ended - began) * 1000 for *_, began, ended in answers)
    # A system's turns, from its first question to its last answer.
    turns = defaultdict(list)
    for start, _, _, began, ended in answers:
        turns[start].append((began, ended))
    busy = sum(max(e for _, e in turn) - min(b for b, _ in turn) for turn in turns.values())
    names = ("R@5", "R@10", "nDCG@10", "MRR@10")
    return {
        "n": len(answers),
        **{name: statistics.fmean(column) for name, column in zip(names, zip(*quality))},
        "p50": times[len(times) // 2],
        "p95": times[min(len(times) - 1, math.ceil(0.95 * len(times)) - 1)],
        "a second": len(answers) / busy,
    }


def table(title, levels):
    """One row a system; quality is that of the first number of connections."""
    first = next(iter(levels.values()))
    n = next(iter(first.values()))["n"]
    head = [f"{title}, n = {n}", "R@5", "R@10", "nDCG@10", "MRR@10"]
    for connections in levels:
        head.append(f"p50 / p95, ms, {connections} asking")
        if connections > 1:
            head.append(f"a second, {connections} asking")
    print("\n| " + " | ".join(head) + " |\n|" + "---|" * len(head))
    for name, one in first.items():
        cells = [name] + [f"{one[key]:.3f}".lstrip("0") for key in ("R@5", "R@10", "nDCG@10", "MRR@10")]
        for connections, systems in levels.items():
            here = systems[name]
            cells.append(f"{here['p50']:.0f} / {here['p95']:.0f}")
            if connections > 1:
                cells.append(f"{here['a second']:.1f}")
        print("| " + " | ".join(cells) + " |")
    print(flush=True)


def progress(text):
    print(text, file=sys.stderr, flush=True)


def knows_time(name):
    module, kind = SYSTEMS[name]
    return getattr(importlib.import_module(module), kind).knows_time


def server(home):
    return f"host={home}/socket port=5432 user=postgres"


def compare(plan, arguments, directory, home):
    """One labelled set, from an empty database to its table."""
    # Those that cannot be asked about the past would find what was said after the question.
    systems = [name for name in arguments.systems if not plan.as_of or knows_time(name)]
    conversations, questions = dataset(arguments.data / plan.folder, plan, arguments.conversations, arguments.limit)
    database = plan.folder.replace("-", "_")
    with psycopg.connect(f"{server(home)} dbname=postgres", autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {database}")
    place = (f"{server(home)} dbname={database}", str(directory / plan.folder))
    Path(place[1]).mkdir()
    progress(f"{plan.title}: {sum(map(len, conversations.values()))} rows, {len(questions)} questions")
    store(systems, place, conversations)
    with psycopg.connect(place[0], autocommit=True) as connection:
        # What autovacuum would have done a minute later, for all systems.
        connection.execute("VACUUM ANALYZE")
    levels = {}
    for connections in arguments.connections:
        progress(f" {connections} asking")
        answers = run(connections, systems, place, questions, arguments.seed)
        levels[connections] = {name: figures(answers[name], questions) for name in systems}
    table(plan.title, levels)
    return levels


def main():
    def names(text):
        return [one for one in SYSTEMS if any(one.startswith(part.strip()) for part in text.split(";"))]

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="directory of the labelled sets")
    parser.add_argument("--sets", default="locomo-open,realmem-open,realtalk-open,beam-open", help="which of them (default: all)")
    parser.add_argument("--systems", type=names, default=list(SYSTEMS), help="beginnings of names, by semicolons")
    parser.add_argument("--connections", type=lambda text: [int(n) for n in text.split(",")], default=[1])
    parser.add_argument("--conversations", type=int, help="only the first ones of each set, for a quick run")
    parser.add_argument("--limit", type=int, help="questions of each set")
    parser.add_argument("--seed", type=int, default=0, help="of the order in which systems are asked")
    parser.add_argument("--json", type=Path, help="writes all figures there")
    arguments = parser.parse_args()
    # Ended from outside, it still takes its cluster away.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("terminated"))
    software = ", ".join(f"{package} {version(package)}" for package in PACKAGES)
    cluster = [str(ROOT / "scripts/cluster")]
    with tempfile.TemporaryDirectory(prefix="memory_agent_peers.") as scratch:
        # The server's user has to reach it.
        directory = Path(scratch)
        directory.chmod(0o755)
        home = directory / "cluster"
        settings = ["shared_buffers=256MB", "max_wal_size=4GB", "max_connections=600", "fsync=off"]
        settings += [f"memory_agent.inference_threads={THREADS}"]
        try:
            options = [part for setting in settings for part in ("-c", setting)]
            subprocess.run([*cluster, "start", str(home), "--preload", *options], check=True)
            with psycopg.connect(f"{server(home)} dbname=postgres") as connection:
                software = f"{connection.execute(VERSIONS).fetchone()[0]}, {software}"
            levels = {}
            for plan in PLANS:
                if plan.folder in arguments.sets.split(","):
                    levels[plan.folder] = compare(plan, arguments, directory, home)
        finally:
            subprocess.run([*cluster, "destroy", str(home)], check=True)
    print(f"{date.today()}, Python {platform.python_version()}, {software}, models on {THREADS} threads.")
    if arguments.json:
        arguments.json.write_text(json.dumps({"software": software, "threads": THREADS, "figures": levels}, indent=1))


if __name__ == "__main__":
    main()
