"""What each family of checks of facts is worth, with the recorded answers of scripts/test_llm_answers.

    test_llm_ablation.py PART...         prints a table for each part, and one for all of them
    test_llm_ablation.py --list PART...  prints the facts that are refused instead

A fact is right if a label describes it, as in scripts/test_llm.py. A family saves the wrong facts and costs the
right ones that pass without it.
"""

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

from test_llm import fits, fits_one, turns_of

ROOT = Path(__file__).parent.parent
EXAMPLE = ["cargo", "run", "--quiet", "--locked", "-p", "memory_agent_core", "--example", "grounding_ablation", "--"]
FAMILIES = ["names", "numbers and dates", "quotes", "polarity", "persons", "retold", "acts",
            "a question", "a task", "an instruction to the assistant", "a quotation", "what was only imagined",
            "a courtesy"]


def verdicts(part):
    """The facts of a part, each with its turn and whether a label describes it."""
    turns = turns_of([ROOT / f"scripts/test_llm_{part}.txt"], "1000")
    lines = subprocess.run([*EXAMPLE, "verdicts", part], cwd=ROOT, check=True, capture_output=True, text=True).stdout
    facts = [json.loads(line) for line in lines.splitlines()]
    for fact in facts:
        turn = turns[fact["turn"] - 1]
        fact["of"] = turn
        fact["expected"] = fits_one(turn["facts"], fact["text"])
        fact["right"] = fact["expected"] or fits_one(turn["also"], fact["text"])
    last = max((fact["turn"] for fact in facts), default=0)
    return turns[:last], facts


def score(turns, facts, off):
    kept = [fact for fact in facts if not fact["why"] or off in fact["families"]]
    refused = [fact for fact in facts if fact["why"] and off not in fact["families"]]
    found = sum(any(fact["of"] is turn and fits(label, fact["text"]) for fact in kept)
                for turn in turns for label in turn["facts"])
    return Counter(labels=sum(len(turn["facts"]) for turn in turns), found=found, kept=len(kept),
                   junk=sum(not fact["right"] for fact in kept),
                   right=sum(fact["right"] for fact in refused), expected=sum(fact["expected"] for fact in refused),
                   wrong=sum(not fact["right"] for fact in refused))


def show(title, scores):
    print(f"\n{title}\n")
    print("| Off | Expected found | Junk | Set aside, right (expected) | Set aside, wrong | Saves | Costs |")
    print("|---|---|---|---|---|---|---|")
    whole = scores["nothing"]
    for off, s in scores.items():
        saves, costs = whole["wrong"] - s["wrong"], whole["right"] - s["right"]
        mark = " (!)" if saves < 2 * costs else ""
        print(f"| {off} | {s['found']} of {s['labels']} | {s['junk']} of {s['kept']} | {s['right']} ({s['expected']}) "
              f"| {s['wrong']} | {saves} | {costs}{mark} |")


def main():
    options = [word for word in sys.argv[1:] if word.startswith("--")]
    parts = [word for word in sys.argv[1:] if not word.startswith("--")]
    if options not in ([], ["--list"]) or not parts:
        sys.exit(__doc__)
    total = {off: Counter() for off in ["nothing", *FAMILIES]}
    for part in parts:
        turns, facts = verdicts(part)
        if options:
            for fact in facts:
                if fact["why"]:
                    print("+" if fact["right"] else "-", part, fact["turn"], fact["text"], "<-", fact["of"]["text"], f"({fact['why']})")
            continue
        scores = {off: score(turns, facts, off) for off in total}
        for off, counted in scores.items():
            total[off] += counted
        show(part, scores)
    if not options:
        show("all", total)


main()
