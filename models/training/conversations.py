"""The data sets of manifest.tsv, read into one form: dialogues whose speakers have no names yet.

Names are given later, by memories.py, so that one dialogue can be had by different people. In texts `{0}` and `{1}`
stand for the names of the speakers; braces of the data itself are removed.
"""

from __future__ import annotations

import csv
import dataclasses
import json
import pathlib
import re
from collections.abc import Iterator

import third_person

MOST_WORDS = 220
SHORTEST_LONG_STATEMENT = 250
TOLD_SENTENCES = 20
# QAMR pads a question to so many characters.
QAMR_QUESTION = 50
BOOKED = re.compile(r"^(Reserve|Book|Buy|Schedule|Add|Get|Transfer|Share|Play|Rent)")


@dataclasses.dataclass
class Question:
    """A question or statement, and the rows that are known to answer it (none: the teacher alone decides).

    turns, facts: positions in the dialogue's lists. kind: see KINDS of lists.py. origin: the turn it was asked about, if
    the teacher alone decides whether that answers it.
    """

    text: str
    kind: str
    turns: list[int] = dataclasses.field(default_factory=list)
    facts: list[int] = dataclasses.field(default_factory=list)
    origin: int = -1


@dataclasses.dataclass
class Dialogue:
    """turns: (speaker, text), the speaker 0, 1 or a name. facts: what a memory would keep of it, in third person.

    said_facts: of the first facts the speaker and the sentence in the first person.
    """

    source: str
    turns: list[tuple[int | str, str]]
    facts: list[str] = dataclasses.field(default_factory=list)
    questions: list[Question] = dataclasses.field(default_factory=list)
    said_facts: list[tuple[int, str]] = dataclasses.field(default_factory=list)


def clean(text: str) -> str:
    """One line without markup and braces, at most MOST_WORDS words."""
    text = re.sub(r"\{[^}]*\}", " ", text).replace("{", "").replace("}", "")
    return " ".join(text.split()[:MOST_WORDS])


def detokenize(text: str) -> str:
    """QMSum's transcripts have spaces before punctuation and clitics."""
    return re.sub(r"\s+(['’](?:s|re|m|ve|d|ll|t)\b|n't\b|[.,?!;:])", r"\1", text)


def spoken_slot(name: str) -> str:
    return name.replace("_", " ")


def long_statement(turns: list[tuple[int | str, str]], speaker: int, start: int) -> str:
    """What the speaker says from `start` on, until it is long enough to be a long statement."""
    text = ""
    for said_by, said in turns[start:]:
        if said_by == speaker and len(said.split()) > 3:
            text = f"{text} {said}".strip()
            if len(text) >= SHORTEST_LONG_STATEMENT:
                return text
    return ""


def read_qmsum(directory: pathlib.Path) -> Iterator[Dialogue]:
    """Meetings: questions by annotators, with the spans of turns that answer them."""
    for path in sorted((directory / "raw/qmsum").iterdir()):
        for line in path.read_text().splitlines():
            meeting = json.loads(line)
            turns = [(turn["speaker"], clean(detokenize(turn["content"]))) for turn in meeting["meeting_transcripts"]]
            questions = []
            for query in meeting["specific_query_list"]:
                spans = [range(int(first), int(last) + 1) for first, last in query["relevant_text_span"]]
                inside = sorted({turn for span in spans for turn in span if turn < len(turns)})
                questions.append(Question(clean(query["query"]), "asked", inside))
                answer = clean(detokenize(query["answer"]))
                kind = "long_statement" if len(answer) >= SHORTEST_LONG_STATEMENT else "statement"
                questions.append(Question(answer, kind, inside if kind == "long_statement" else []))
            questions += [
                Question(f"What was said about {clean(topic['topic'])}?", "asked") for topic in meeting["topic_list"]
            ]
            yield Dialogue("qmsum", turns, [], questions)


def read_spc(directory: pathlib.Path) -> Iterator[Dialogue]:
    """Chats of two people who have personas; the sentences of a persona are the facts of its speaker."""
    for path in sorted((directory / "raw/spc").iterdir()):
        with path.open(newline="") as file:
            for row in csv.DictReader(file):
                yield from spc_dialogue(row)


def spc_dialogue(row: dict) -> Iterator[Dialogue]:
    turns = []
    for line in row["Best Generated Conversation"].splitlines():
        match = re.match(r"\s*User ([12]):\s*(.+)", line)
        if match and "(name)" not in match[2] and "[" not in match[2]:
            turns.append((int(match[1]) - 1, clean(match[2])))
    if len(turns) < 6:
        return
    facts, owners, said_facts = [], [], []
    for speaker in (0, 1):
        for sentence in row[f"user {speaker + 1} personas"].splitlines():
            fact = third_person.statement(clean(sentence), f"{{{speaker}}}")
            if fact:
                facts.append(fact)
                owners.append(speaker)
                said_facts.append((speaker, clean(sentence)))
    questions = []
    for start in (0, len(turns) // 2):
        for speaker in (0, 1):
            statement = long_statement(turns, speaker, start)
            if statement:
                about = shared_facts(statement, facts, owners, speaker)
                questions.append(Question(statement, "long_statement", [], about))
    yield Dialogue("spc", turns, facts, questions, said_facts)


def content_words(text: str) -> set[str]:
    return {word[:6] for word in re.findall(r"[a-z]{4,}", text.lower())} - third_person.COMMON


def shared_facts(statement: str, facts: list[str], owners: list[int], speaker: int) -> list[int]:
    """The speaker's facts that share at least two content words, or their only one, with what was said."""
    said = content_words(statement)
    found = []
    for position, fact in enumerate(facts):
        words = content_words(fact)
        if owners[position] == speaker and words and len(words & said) >= min(2, len(words)):
            found.append(position)
    return found


def read_sgd(directory: pathlib.Path) -> Iterator[Dialogue]:
    """Users and assistants who book and look up things, with the values of slots at every turn."""
    folder = directory / "raw/sgd"
    schemas = {}
    for path in sorted(folder.glob("*_schema.json")):
        for service in json.loads(path.read_text()):
            schemas[service["service_name"]] = {slot["name"]: slot["description"] for slot in service["slots"]}
    for path in sorted(folder.glob("*_dialogues_*.json")):
        for dialogue in json.loads(path.read_text()):
            yield sgd_dialogue(dialogue, schemas)


def sgd_dialogue(dialogue: dict, schemas: dict) -> Dialogue:
    turns: list[tuple[int | str, str]] = []
    values: dict[tuple[str, str], tuple[str, list[int]]] = {}
    intents: dict[str, str] = {}
    for position, turn in enumerate(dialogue["turns"]):
        text = clean(turn["utterance"])
        turns.append((0 if turn["speaker"] == "USER" else 1, text))
        for frame in turn["frames"]:
            for slot, options in frame.get("state", {}).get("slot_values", {}).items():
                if options[0] not in ("True", "False", "dontcare"):
                    values.setdefault((frame["service"], slot), (options[0], []))
            intent = frame.get("state", {}).get("active_intent", "")
            if BOOKED.match(intent):
                intents[frame["service"]] = intent
    for (service, slot), (value, where) in values.items():
        where += [position for position, (_, said) in enumerate(turns) if value.lower() in said.lower()]
    facts, questions, fact_of_service = [], [], {}
    for service in sorted({service for service, _ in values}):
        name = service.rsplit("_", 1)[0]
        known = [(slot, value) for (owner, slot), (value, _) in values.items() if owner == service]
        facts.append(f"[{name}] " + "{0}: " + "; ".join(f"{spoken_slot(slot)} {value}" for slot, value in known))
        fact_of_service[service] = len(facts) - 1
        if service in intents:
            verb = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", intents[service]).lower()
            facts.append("{0} asked to " + verb + ", " + ", ".join(f"{spoken_slot(s)} {v}" for s, v in known[:4]) + ".")
    for (service, slot), (value, where) in values.items():
        description = schemas[service].get(slot, spoken_slot(slot))
        description = description[0].lower() + description[1:].rstrip(".")
        name = service.rsplit("_", 1)[0].lower()
        for text in (
            f"What was the {description} that {{0}} asked for?",
            f"Which {spoken_slot(slot)} did {{0}} choose for {name}?",
        ):
            questions.append(Question(text, "slot", where, [fact_of_service[service]]))
    for start in (0, len(turns) // 2):
        statement = long_statement(turns, 0, start)
        if statement:
            said = statement.lower()
            about = {fact_of_service[service] for (service, _), (value, _) in values.items() if value.lower() in said}
            questions.append(Question(statement, "long_statement", [], sorted(about)))
    return Dialogue("sgd", turns, facts, questions)


def read_topical(directory: pathlib.Path) -> Iterator[Dialogue]:
    """Chats of two people about things that they have read."""
    for path in sorted((directory / "raw/topical").iterdir()):
        for chat in json.loads(path.read_text()).values():
            turns = [(int(turn["agent"][-1]) - 1, clean(turn["message"])) for turn in chat["content"]]
            yield Dialogue("topical", turns)


def told(source: str, asked: Iterator[tuple[str, str]]) -> Iterator[Dialogue]:
    """Sentences and what was asked about each, as if two people told each other some of them."""
    turns: list[tuple[int | str, str]] = []
    questions: list[Question] = []
    for sentence, question in asked:
        if not turns or turns[-1][1] != sentence:
            if len(turns) == TOLD_SENTENCES:
                yield Dialogue(source, turns, [], questions)
                turns, questions = [], []
            turns.append((len(turns) % 2, sentence))
        questions.append(Question(question, "about_turn", origin=len(turns) - 1))
    yield Dialogue(source, turns, [], questions)


def read_nqg(directory: pathlib.Path) -> Iterator[Dialogue]:
    """SQuAD's questions with the sentences that have the answers, in lower case and split into words."""

    def asked() -> Iterator[tuple[str, str]]:
        for part in ("dev", "test"):
            names = (f"data_processed_{side}-{part}.txt" for side in ("src", "tgt"))
            columns = [(directory / "raw/nqg" / name).read_text().splitlines() for name in names]
            questions_of: dict[str, list[str]] = {}
            for sentence, question in zip(*columns):
                questions_of.setdefault(sentence, []).append(question)
            for sentence, questions in questions_of.items():
                for question in questions:
                    yield clean(detokenize(brackets(sentence))), clean(detokenize(brackets(question)))

    return told("nqg", asked())


def read_qamr(directory: pathlib.Path) -> Iterator[Dialogue]:
    """Sentences of Wikipedia and Wikinews with questions on all that they say."""

    def asked() -> Iterator[tuple[str, str]]:
        for path in sorted((directory / "raw/qamr").iterdir()):
            for block in path.read_text().split("\n\n"):
                _, sentence, *questions = block.strip().splitlines() or ("", "")
                for question in dict.fromkeys(line[:QAMR_QUESTION].strip() for line in questions):
                    yield clean(sentence), clean(question)

    return told("qamr", asked())


def brackets(text: str) -> str:
    """The Penn Treebank's brackets and quotes as they are written."""
    for code, sign in (("-lrb- ", "("), (" -rrb-", ")"), ("`` ", '"'), (" ''", '"'), (" -- ", " - ")):
        text = text.replace(code, sign)
    return text


READERS = {
    "qmsum": read_qmsum,
    "spc": read_spc,
    "sgd": read_sgd,
    "topical": read_topical,
    "nqg": read_nqg,
    "qamr": read_qamr,
}
