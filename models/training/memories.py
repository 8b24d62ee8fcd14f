"""Memories: some dialogues of the same people, rows as recall ranks them, and the questions asked of them.

A memory of a few hundred rows gives every question what a real one gives it: rows of the same speakers about other
things. Rows are "name: content", as they are indexed; some memories have full names, roles or no names at all.
"""

from __future__ import annotations

import dataclasses
import random

import third_person
from conversations import SHORTEST_LONG_STATEMENT, Dialogue

FIRST_NAMES = """
    Aaron Abena Adam Ahmed Aiko Alan Alice Amara Amir Ana Andre Anika Anna Anton Arjun Astrid Ben Bianca Boris
    Brenda Carla Carlos Chen Chloe Clara Claire Colin Dana Daniel David Deepa Diego Dmitri Dora Edith Elena
    Elias Elif Emil Emily Emma Eric Esther Eva Fatima Felix Fiona Frank Freya Gabriel George Grace Greta Hana
    Hannah Hassan Helen Henry Hugo Ian Ibrahim Ida Ines Ingrid Isaac Ivan Jack Jacob Jana Jasmine Jean Jenny
    Jonas Jorge Joseph Judith Julia Kai Karen Kate Kofi Lars Laura Layla Leo Lina Linda Lucas Lucia Luis Mara
    Marco Maria Mark Martha Martin Mateo Max Maya Mei Mia Michael Miguel Mila Mina Miriam Mohamed Monica Nadia
    Nina Noah Nora Olga Omar Oscar Pablo Paula Pedro Peter Petra Priya Rachel Rafael Raj Rosa Ruth Ryan Salma
    Samuel Sandra Sara Selim Simon Sofia Sonia Stefan Sven Tara Teresa Theo Thomas Tina Tobias Uma Valerie
    Vera Victor Viktor Walter Wei Yara Yusuf Zara Zoe
""".split()
LAST_NAMES = """
    Adeyemi Ali Andersen Bauer Becker Brown Chen Costa Diaz Dubois Eriksson Fischer Garcia Haddad Hansen Ito
    Ivanova Jones Kaya Keller Khan Kim Kovacs Lopez Mensah Meyer Nguyen Novak Okafor Park Patel Petrov Rossi
    Sato Schmidt Silva Singh Tran Weber Wilson Wong Yilmaz
""".split()
STYLES = ("first", "full", "roles", "none")
STYLE_WEIGHTS = (0.65, 0.15, 0.1, 0.1)
ROWS = 300
JOINED_DIALOGUES = 0.4
SAME_PEOPLE = 0.7
QUESTIONS_OF_A_TURN = 4
STATEMENT_SHARE = 0.2
PHRASE_SHARE = 0.2
ASSISTANT_SHARE = 0.15
OPENINGS = (
    "About the {topic} we talked about:",
    "Regarding the {topic}:",
    "Going back to the {topic}.",
    "As for the {topic},",
    "You remember the {topic}?",
    "I have been thinking about the {topic}.",
    "Let's get on with the {topic}.",
    "One more thing on the {topic}.",
    "I already told you about the {topic}.",
)
GENERAL = (
    "What are {0}'s hobbies?",
    "Where does {0} work?",
    "What does {0} do for a living?",
    "What pets does {0} have?",
    "What is the name of {0}'s dog?",
    "Does {0} have any children?",
    "How many children does {0} have?",
    "Is {0} married?",
    "Who is in {0}'s family?",
    "What is {0}'s favorite food?",
    "What kind of music does {0} listen to?",
    "What instruments does {0} play?",
    "Which books has {0} read?",
    "What is {0}'s favorite book?",
    "What movies does {0} like?",
    "What sports does {0} play?",
    "Where did {0} grow up?",
    "Where does {0} live?",
    "Which countries has {0} visited?",
    "Where did {0} go on vacation?",
    "When did {0} go on a trip?",
    "What did {0} study?",
    "Where did {0} go to school?",
    "What is {0} studying?",
    "How old is {0}?",
    "When did {0} move?",
    "Why did {0} move?",
    "What does {0} do to relax?",
    "What is {0} afraid of?",
    "What are {0}'s plans for the weekend?",
    "What are {0}'s plans for the summer?",
    "What did {0} do last week?",
    "When did {0} start the new job?",
    "What does {0} want to become?",
    "What are {0}'s goals?",
    "What car does {0} drive?",
    "What did {0} cook?",
    "What does {0} like to bake?",
    "Is {0} a vegetarian?",
    "What is {0} allergic to?",
    "What does {0} collect?",
    "What volunteer work does {0} do?",
    "What are {0}'s political views?",
    "Is {0} religious?",
    "Does {0} like living in the city?",
    "What kind of art does {0} make?",
    "What has {0} painted?",
    "What games does {0} play?",
    "How does {0} stay in shape?",
    "How often does {0} exercise?",
    "What did {0} buy recently?",
    "What gift did {0} get?",
    "What happened to {0}'s parents?",
    "Who supports {0} when things are hard?",
    "What makes {0} happy?",
    "What advice did {0} give?",
    "What is {0}'s favorite color?",
    "What is {0}'s favorite season?",
    "What events has {0} taken part in?",
    "When is {0}'s birthday?",
    "Who are {0}'s friends?",
    "How long has {0} been married?",
    "What would {0} do with more money?",
    "Would {0} enjoy a concert?",
    "Would {0} rather live by the sea or in the mountains?",
    "What does {0}'s mother do?",
    "What does {0}'s brother do?",
    "What did {0} learn from the experience?",
    "What is {0} looking forward to?",
)


@dataclasses.dataclass
class Query:
    """text, kind, and positions of rows: those labelled as relevant, and the one it was made from (-1: none)."""

    text: str
    kind: str
    relevant: list[int]
    origin: int = -1


@dataclasses.dataclass
class Memory:
    source: str
    rows: list[str] = dataclasses.field(default_factory=list)
    queries: list[Query] = dataclasses.field(default_factory=list)


def joined(dialogue: Dialogue) -> tuple[list[tuple[int | str, str]], list[int]]:
    """Longer turns: what a speaker says in two turns as one. Second: the new position of every turn."""
    turns: list[tuple[int | str, str]] = []
    position_of: list[int] = []
    last: dict[int | str, int] = {}
    for speaker, text in dialogue.turns:
        at = last.pop(speaker, None)
        if at is None or len(turns[at][1].split()) > 60:
            turns.append((speaker, text))
            at = last[speaker] = len(turns) - 1
        else:
            turns[at] = (speaker, f"{turns[at][1]} {text}")
        position_of.append(at)
    return turns, position_of


class Builder:
    """Adds dialogues to a memory."""

    def __init__(self, source: str, random_source: random.Random) -> None:
        self.random = random_source
        self.memory = Memory(source)
        self.style = random_source.choices(STYLES, STYLE_WEIGHTS)[0]
        self.people = self.new_people()

    def new_people(self) -> list[str]:
        first = self.random.sample(FIRST_NAMES, 2)
        if self.style == "full":
            return [f"{name} {self.random.choice(LAST_NAMES)}" for name in first]
        return first

    def shown(self, speaker: int | str, people: list[str], text: str) -> str:
        if isinstance(speaker, str):
            return text if self.style == "none" else f"{speaker}: {text}"
        if self.style == "none":
            return text
        roles = ("user", "assistant")
        name = roles[speaker] if self.style == "roles" else people[speaker]
        return f"{name}: {text}"

    def add(self, dialogue: Dialogue) -> None:
        people = self.people if self.random.random() < SAME_PEOPLE else self.new_people()
        asked_about = ["the user", "the assistant"] if self.style == "roles" else [name.split()[0] for name in people]
        turns, position_of = dialogue.turns, list(range(len(dialogue.turns)))
        if self.random.random() < JOINED_DIALOGUES:
            turns, position_of = joined(dialogue)
        first = len(self.memory.rows)
        for speaker, text in turns:
            self.memory.rows.append(self.shown(speaker, people, text))
        first_fact = len(self.memory.rows)
        for fact in dialogue.facts:
            self.memory.rows.append(fact.format(*asked_about))
        for fact, (speaker, sentence) in enumerate(dialogue.said_facts):
            self.from_turn(first_fact + fact, speaker, sentence, asked_about)
        for question in dialogue.questions:
            relevant = [first + position_of[turn] for turn in question.turns]
            relevant += [first_fact + fact for fact in question.facts]
            text = question.text.format(*asked_about)
            origin = first + position_of[question.origin] if question.origin >= 0 else -1
            self.memory.queries.append(Query(text, question.kind, sorted(set(relevant)), origin))
        for position, (speaker, text) in enumerate(turns):
            self.from_turn(first + position, speaker, text, asked_about)

    def from_turn(self, row: int, speaker: int | str, text: str, people: list[str]) -> None:
        """Questions made from one turn, and now and then the turn itself as a statement."""
        if isinstance(speaker, str):
            name, other = speaker, "the others"
        else:
            name, other = people[speaker], people[1 - speaker]
        if speaker == 1 and self.memory.source == "sgd" and self.random.random() > ASSISTANT_SHARE:
            return
        found = third_person.questions(text, name, other, self.random)
        for question in self.random.sample(found, min(len(found), QUESTIONS_OF_A_TURN)):
            self.memory.queries.append(Query(question, "made", [], row))
        if len(text.split()) > 7 and len(text) < SHORTEST_LONG_STATEMENT and self.random.random() < STATEMENT_SHARE:
            topics = third_person.topics_of(text)
            opening = ""
            if topics and self.random.random() < 0.6:
                opening = self.random.choice(OPENINGS).format(topic=self.random.choice(topics)) + " "
            self.memory.queries.append(Query(opening + text, "statement", [], -1))
        if len(text.split()) > 7 and self.random.random() < PHRASE_SHARE:
            self.memory.queries.append(Query(self.phrase(text, name), "statement", [], row))

    def phrase(self, text: str, name: str) -> str:
        """Some words of the text, as a user types who looks for it, half of the time with the speaker's name."""
        words = [word.strip(".,!?;:").lower() for word in text.split()]
        start = self.random.randrange(len(words) - 3)
        chosen = words[start : start + self.random.randint(3, 5)]
        return " ".join([name] * self.random.randint(0, 1) + chosen)

    def general(self) -> None:
        """Questions that could be asked of anybody."""
        if self.memory.source in ("spc", "topical") and self.style != "roles":
            for name in self.people:
                for question in GENERAL:
                    self.memory.queries.append(Query(question.format(name.split()[0]), "made", [], -1))


def memories(dialogues: list[Dialogue], random_source: random.Random):
    """All dialogues in memories of about ROWS rows; a meeting is a memory of its own."""
    by_source: dict[str, list[Dialogue]] = {}
    for dialogue in dialogues:
        by_source.setdefault(dialogue.source, []).append(dialogue)
    for source, members in by_source.items():
        random_source.shuffle(members)
        builder = Builder(source, random_source)
        for dialogue in members:
            if builder.memory.rows and len(builder.memory.rows) + len(dialogue.turns) > ROWS:
                builder.general()
                yield builder.memory
                builder = Builder(source, random_source)
            builder.add(dialogue)
        builder.general()
        yield builder.memory
