"""What memory costs: disk of tables and indexes, and tokens of an LLM's calls, for 1,000 turns.

Usage: cost.py DIR [--facts] [--at-once] [--turns N] [FILE]

Stores the turns of FILE (a JSON array like demo_conversation.json, the default, or JSON lines) in a private cluster in
DIR with the settings that ship, and removes the cluster. If the file has fewer turns, further users say the same.
--facts has a stand-in for an LLM make one fact of each message of the user that states something, and summaries that
are as long as they may be. It answers at once, and each turn waits for its jobs, as when people type slowly; with
--at-once no turn waits. Needs psycopg, which make setup installs.
"""

import argparse
import json
import re
import subprocess
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import psycopg

SCRIPTS = Path(__file__).resolve().parent
PURPOSES = {
    "You extract from messages that users sent": "extraction",
    "You keep the long-term memory of an assistant free of": "comparison",
    "You check notes that were made of a message": "statement check",
}
# What the questions of probes begin with, and what a model that passes them answers.
PROBES = ("The user lives in Porto", "The user works at Brandt as an accountant", "My grandfather Anselm keeps bees.")
RIGHT = {
    "The user has moved to Braga": "replaces 1", "The weekly team meeting now": "replaces 5",
    "The user owns a pair of cats": "same as 3", "The user has given up coffee": "ends 7",
    "Ines has swapped the violin": "replaces 2", "The user has a peanut allergy": "same as 4",
    "The user and Jonas have broken off": "ends 6", "The user's dentist appointment was moved": "replaces 8",
}
STATED = {"My grandfather Anselm": "The user's grandfather Anselm keeps bees",
          "We have moved the workshop": "The user's workshop is on the second floor"}
calls = []


def first(table, text, default):
    return next((value for begin, value in table.items() if text.startswith(begin)), default)


def sentence(text):
    """The first sentence that states something."""
    for part in re.split(r"(?<=[.!?])\s+", text):
        if len(part.split()) >= 5 and part.endswith("."):
            return part
    return None


def answer(system, data):
    purpose = first(PURPOSES, system, "summary")
    if purpose == "extraction":
        turns = data["turns"]
        if turns[0]["text"] in PROBES:
            made = [(turn, first(STATED, turn["text"], None)) for turn in turns]
            purpose = "probe"
        else:
            made = [(turn, sentence(turn["text"])) for turn in turns]
        facts = [{"turn": turn["turn"], "text": fact, "confidence": 0.9} for turn, fact in made if fact]
        return purpose, json.dumps({"facts": facts})
    if purpose == "comparison":
        if data["memories"]["1"] in PROBES:
            purpose = "probe"
        if "fact" in data:
            return purpose, json.dumps({"choice": "new"})
        choices = [{"fact": int(n), "choice": first(RIGHT, text, "new") if purpose == "probe" else "new"}
                   for n, text in data["facts"].items()]
        return purpose, json.dumps({"decisions": choices})
    if purpose == "statement check":
        return purpose, json.dumps({"checks": ["stated"] * len(data["notes"])})
    most = int(re.search(r"at most (\d+) tokens", system).group(1))
    texts = [data.get("previous_summary") or ""] + [turn["text"] for turn in data.get("turns", [])]
    texts += data.get("summaries", []) + [data.get("text") or ""]
    summary = " ".join(" ".join(texts).split()[-int(most * 0.55):])
    if "## TOPICS" in system:
        summary = f"{summary}\n## TOPICS\n- one\n## ENTITIES\n- one\n## DECISIONS\n- one\n## QUESTIONS\n- one"
    return purpose, summary


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):  # noqa: N802, the name is http.server's
        request = json.loads(self.rfile.read(int(self.headers["content-length"])))
        messages = request["messages"]
        system = next((m["content"] for m in messages if m["role"] == "system"), "")
        said = next(m["content"] for m in messages if m["role"] == "user")
        try:
            purpose, text = answer(system, json.loads(said))
        except ValueError:
            purpose, text = "other", "Yes."
        if sum(m["role"] == "user" for m in messages) > 1:
            purpose += ", again"
        calls.append((purpose, "\n".join(m["content"] for m in messages), text))
        choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": text}}
        body = json.dumps({"object": "chat.completion", "model": "stand-in", "choices": [choice]}).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


def turns_of(path, wanted):
    """Turns of the file, by as many users as it takes."""
    text = path.read_text(encoding="utf-8")
    said = json.loads(text) if text.lstrip().startswith("[") else [json.loads(line) for line in text.splitlines()]
    return [(f"user-{n // len(said)}", said[n % len(said)]) for n in range(wanted)]


def cluster(*arguments):
    subprocess.run([SCRIPTS / "cluster", *arguments], check=True)


def sizes(db):
    """Of each table: its name, its own size and that of its indexes, the largest first."""
    return db.execute(
        "SELECT relname, pg_table_size(oid), pg_indexes_size(oid) FROM pg_class "
        "WHERE relnamespace = 'memory_agent'::regnamespace AND relkind = 'r' "
        "ORDER BY pg_total_relation_size(oid) DESC").fetchall()


def total(db):
    return sum(table + indexes for _, table, indexes in sizes(db))


def measure(db, options, turns):
    """Stores the turns; returns what the empty tables took."""
    db.execute("CREATE EXTENSION memory_agent CASCADE")
    empty = total(db)
    for _ in range(600):
        if db.execute("SELECT FROM memory_status() WHERE component = 'embedder' AND state = 'loaded'").fetchone():
            break
        db.execute("SELECT pg_sleep(0.1)")
    for user, turn in turns:
        db.execute(
            "SELECT memory_ingest(%s, %s, %s, user_id => %s, created_at => %s)",
            [turn["session_id"], turn["role"], turn["content"], user, turn.get("created_at")])
        if options.facts and not options.at_once:
            db.execute("SELECT memory_wait('10 min')")
    assert db.execute("SELECT memory_wait('1 h')").fetchone()[0]
    # History is sealed every ten seconds.
    for _ in range(60):
        if db.execute("SELECT FROM memory_status() WHERE component = 'history' AND state = 'sealed'").fetchone():
            break
        db.execute("SELECT pg_sleep(1)")
    db.execute("VACUUM (ANALYZE)")
    return empty


def report(db, turns, empty):
    asked = sum(turn["role"] == "user" for _, turn in turns)
    size = sum(len(turn["content"].encode()) for _, turn in turns)
    one = db.execute("SELECT sum(token_count) FROM memory_agent.entries WHERE kind = 'turn'").fetchone()[0]
    print(f"{len(turns)} turns, {asked} of users, {size} bytes, {one} tokens")
    for kind, count in db.execute("SELECT kind, count(*) FROM memory_agent.entries GROUP BY 1 ORDER BY 1"):
        print(f"  {kind}: {count}")
    for name, table, indexes in sizes(db)[:6]:
        print(f"  {name:20} {table / 1e6:6.2f} MB + indexes {indexes / 1e6:6.2f} MB")
    print(f"  all tables           {total(db) / 1e6:6.2f} MB, of which {empty / 1e6:.2f} MB when they were empty")
    by_purpose = {}
    for purpose, prompt, text in calls:
        tokens = db.execute("SELECT memory_count_tokens(%s), memory_count_tokens(%s)", [prompt, text]).fetchone()
        sums = by_purpose.setdefault(purpose, [0, 0, 0])
        for at, value in enumerate((1, *tokens)):
            sums[at] += value
    for purpose, (count, prompt, written) in sorted(by_purpose.items()):
        print(f"  {purpose:18} {count:5} calls, {prompt:8} + {written:6} tokens, "
              f"{prompt / len(turns):.0f} + {written / len(turns):.0f} for each turn")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("dir")
    parser.add_argument("file", nargs="?", type=Path, default=SCRIPTS / "demo_conversation.json")
    parser.add_argument("--facts", action="store_true")
    parser.add_argument("--at-once", action="store_true")
    parser.add_argument("--turns", type=int, default=1000)
    options = parser.parse_intermixed_args()
    settings = []
    if options.facts:
        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{server.server_port}/v1"
        settings = ["-c", f"memory_agent.llm_base_url={address}", "-c", "memory_agent.llm_model=stand-in"]
    turns = turns_of(options.file, options.turns)
    cluster("start", options.dir, "--preload", *settings)
    try:
        socket = Path(options.dir).resolve() / "socket"
        with psycopg.connect(host=str(socket.resolve()), user="postgres", autocommit=True) as db:
            report(db, turns, measure(db, options, turns))
    finally:
        cluster("destroy", options.dir)


main()
