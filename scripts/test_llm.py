"""The labelled turns of scripts/test-llm: as SQL that stores them, and the score of what became of them.

    test_llm.py sql MODE CHECK TURNS FILE...  writes what psql is to run
    test_llm.py score TURNS FILE... <JSON     reads what that printed, and prints the figures

MODE is turn, or episode (facts from the turns of an episode when it has ended). CHECK is on or off (statement_check).

TURNS is how many, or the first and the last: 27-60.

The form of the files is explained at their beginning.
"""

import json
import math
import re
import sys
from collections import Counter

# What psql prints at the end: every fact with its turns, and what the LLM was asked.
EXPORT = """
SELECT json_build_object(
  'facts', (SELECT coalesce(json_agg(json_build_object(
       'id', f.id, 'text', f.content, 'state', f.state, 'reason', f.state_reason, 'by', f.replaced_by,
       'why', f.metadata ->> 'unverified',
       'doubted_by', f.doubted_by,
       'turns', (SELECT json_agg((t.metadata->>'number')::int) FROM memory_agent.entries t
                  WHERE t.id = ANY (f.source_ids) AND t.kind = 'turn')) ORDER BY f.recorded_at, f.id), '[]')
     -- One without a text says that a turn was corrected.
     FROM memory_agent.entries f WHERE f.kind = 'fact' AND f.content <> ''),
  'calls', (SELECT json_object_agg(purpose, numbers) FROM (
     SELECT purpose, json_build_object('calls', count(*),
            'bad', count(*) FILTER (WHERE status <> 'ok'),
            'prompt', coalesce(sum(prompt_tokens), 0), 'answer', coalesce(sum(completion_tokens), 0),
            'seconds', round(extract(epoch FROM sum(latency))::numeric)) AS numbers
     FROM memory_agent.llm_calls GROUP BY purpose) AS c),
  'dead', (SELECT count(*) FROM memory_agent.jobs WHERE status = 'dead'));
"""


def turns_of(paths, wanted):
    """The turns of the files, at most so many, or from one to another."""
    first, last = ([1] + [int(number) for number in wanted.split("-")])[-2:]
    found, session, day, minute = [], 0, None, 0
    for path in paths:
        for line in open(path, encoding="utf-8"):
            line = line.rstrip("\n")
            if line.startswith("@"):
                session, day, minute = session + 1, line[1:].strip(), 0
            elif " | " in line and not line.startswith("#"):
                kind, text, expected, ends = (part.strip() for part in re.split(r"(?:^|\s)\|(?=\s|$)", line, maxsplit=3))
                named = [part.strip() for part in expected.split(";") if part.strip()]
                found.append({
                    "number": len(found), "session": f"s{session}", "kind": kind, "text": text,
                    "at": f"{day} {8 + minute // 60:02}:{minute % 60:02}:00+00",
                    "facts": [part for part in named if not part.startswith("~")],
                    "also": [part[1:] for part in named if part.startswith("~")],
                    "ends": [part.strip() for part in ends.split(";") if part.strip()],
                })
                minute += 2
    return [turn | {"number": number} for number, turn in enumerate(found[first - 1:last])]


def fits(pattern, text):
    """Whether a text has all words of a pattern."""
    return all(re.search(word, text, re.IGNORECASE) for word in pattern.split())


def fits_one(patterns, text):
    return any(fits(pattern, text) for pattern in patterns)


def literal(text):
    return "'" + text.replace("'", "''") + "'"


def write_sql(mode, check, turns):
    print("\\set ON_ERROR_STOP on\n\\set QUIET on\n\\pset tuples_only on\n\\pset format unaligned")
    print("SET client_min_messages = warning;\nCREATE EXTENSION memory_agent CASCADE;")
    print("DO $$ BEGIN FOR attempt IN 1..600 LOOP EXIT WHEN EXISTS (SELECT FROM memory_status() "
          "WHERE component = 'embedder' AND state = 'loaded'); PERFORM pg_sleep(0.1); END LOOP; END $$;")
    print(f"SET memory_agent.extraction = {'turn' if mode == 'turn' else 'episode'}; "
          f"SET memory_agent.summarization = off; SET memory_agent.statement_check = {check}; "
          "SET memory_agent.extraction_batch = 0;")
    if mode != "turn":
        # The last episode of a session may be short.
        print("SET memory_agent.episode_max_turns = 5; SET memory_agent.min_episode_turns = 1;")
    print("\\o /dev/null")
    for turn, following in zip(turns, turns[1:] + [None]):
        metadata = literal(json.dumps({"number": turn["number"]}))
        print(f"SELECT memory_ingest({literal(turn['session'])}, 'user', {literal(turn['text'])}, "
              f"metadata => {metadata}, created_at => {literal(turn['at'])});")
        if mode != "turn" and (following is None or following["session"] != turn["session"]):
            print(f"SELECT memory_close_episode({literal(turn['session'])});")
        print("SELECT memory_wait('30 min');")
        print(f"\\warn {turn['number'] + 1}")
    print("\\o")
    print(EXPORT)


def share(part, whole):
    """A share with its 95 % interval (Wilson)."""
    if whole == 0:
        return f"{part} of 0"
    p, z = part / whole, 1.96
    middle, spread = p + z * z / (2 * whole), z * math.sqrt(p * (1 - p) / whole + z * z / (4 * whole * whole))
    low, high = (100 * (middle + sign * spread) / (1 + z * z / whole) for sign in (-1, 1))
    return f"{part} of {whole}: {100 * p:.0f} % ({max(low, 0):.0f} to {min(high, 100):.0f})"


def score(turns, stored):
    facts = {fact["id"]: fact for fact in stored["facts"]}
    verified = [fact for fact in stored["facts"] if fact["reason"] != "unverified"]
    of_turn = lambda fact: [turns[number] for number in fact["turns"] or [] if number < len(turns)]
    found, missed = 0, []
    for turn in turns:
        for pattern in turn["facts"]:
            if any(turn in of_turn(fact) and fits(pattern, fact["text"]) for fact in verified):
                found += 1
            else:
                missed.append((turn, pattern))
    fitting = lambda fact: [p for turn in of_turn(fact) for p in turn["facts"] + turn["also"] if fits(p, fact["text"])]
    junk = [fact for fact in verified if not fitting(fact)]
    ended = [fact for fact in verified if fact["reason"] in ("superseded", "contradicted") and fact["by"]]
    wrong = []
    for fact in ended:
        by = facts.get(fact["by"])
        news = of_turn(by) if by else []
        is_meant = any(fits_one(turn["ends"], fact["text"]) for turn in news)
        is_same = by and any(fits(pattern, by["text"]) for pattern in fitting(fact))
        if not is_meant and not is_same:
            wrong.append((fact, by))
    changes, stale, doubted = 0, [], 0
    for turn in turns:
        for pattern in turn["ends"]:
            known = [fact for fact in verified if fits(pattern, fact["text"]) and of_turn(fact)
                     and all(t["number"] < turn["number"] and t["session"] == turn["session"] for t in of_turn(fact))]
            changes += bool(known)
            holding = [fact for fact in known if fact["state"] == "active"]
            doubted += bool(holding) and all(fact["doubted_by"] for fact in holding)
            stale += [(turn, fact) for fact in holding if not fact["doubted_by"]][:1]
    doubts = [(facts[fact["doubted_by"]], fact) for fact in stored["facts"] if fact["doubted_by"] in facts]
    refused = [fact for fact in stored["facts"] if fact["reason"] == "unverified"]
    right_refused = [fact for fact in refused if fits_one([p for t in of_turn(fact) for p in t["facts"]], fact["text"])]
    calls = stored["calls"] or {}
    total = lambda name: sum(numbers[name] for numbers in calls.values())
    count = len(turns)
    print(f"turns: {count}, of which changes {sum(turn['kind'] == 'change' for turn in turns)}; dead jobs {stored['dead']}")
    print(f"expected facts found: {share(found, found + len(missed))}")
    print(f"junk: {share(len(junk), len(verified))}")
    print(f"wrong updates: {share(len(wrong), len(ended))}")
    print(f"changes of known facts that were noticed: {share(changes - len(stale), changes)}, "
          f"{doubted} of them by a doubt alone")
    print(f"set aside as unverified: {len(refused)}, of which {len(right_refused)} were expected facts")
    for purpose, numbers in sorted(calls.items()):
        print(f"{purpose}: {numbers['calls']} calls, {numbers['bad']} not ok, {numbers['seconds']} s; "
              f"tokens: {numbers['prompt']} of prompts, {numbers['answer']} of answers")
    print(f"a turn: {total('calls') / count:.2f} calls, {total('prompt') / count:.0f} + {total('answer') / count:.0f} tokens, "
          f"{total('seconds') / count:.0f} s")
    kinds = Counter(of_turn(fact)[0]["kind"] if of_turn(fact) else "-" for fact in junk)
    print("\njunk by kind of turn:", dict(kinds))
    for title, lines in [
        ("missed", [f"{turn['text']} [{pattern}]" for turn, pattern in missed]),
        ("junk", [f"{' / '.join(t['text'] for t in of_turn(fact))} -> {fact['text']}" for fact in junk]),
        ("wrong updates", [f"{fact['text']} -> {by and by['text']}" for fact, by in wrong]),
        ("changes not noticed", [f"{turn['text']} : {fact['text']}" for turn, fact in stale]),
        ("doubted", [f"{known['text']} -> {fact['text']}" for fact, known in doubts]),
        ("set aside", [f"{' / '.join(t['text'] for t in of_turn(fact))} -> {fact['text']} ({fact['why']})" for fact in refused]),
    ]:
        print(f"\n== {title}")
        for line in lines:
            print("  " + line)


def main():
    command, *rest = sys.argv[1:]
    if command == "sql":
        mode, check, most, *paths = rest
        if mode not in ("turn", "episode") or check not in ("on", "off"):
            sys.exit(f"there is no mode {mode} with the check {check}")
        write_sql(mode, check, turns_of(paths, most))
    else:
        most, *paths = rest
        score(turns_of(paths, most), json.load(sys.stdin))


if __name__ == "__main__":
    main()
