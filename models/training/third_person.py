"""Sentences in the first person turned into facts and questions about the speaker, by rules.

"I love to bake cookies." gives "{0} loves to bake cookies." and "What does {0} love?". The rules are few and wrong now
and then: the teacher then finds no row that answers well, and the list teaches no more than that.
"""

from __future__ import annotations

import random
import re

COMMON = set(
    """
    about after again also always because been being could does doing don every from good great have having
    hello here just know like little love lots make maybe more most much need never nice okay only other
    please pretty really some someth sound sounds such sure than thank thanks that them then there they thing
    things think this time very want well were what when where which will with would yeah your
    """.split()
)

# Past forms that are not the stem with -ed.
IRREGULAR = dict(
    pair.split(":")
    for pair in """
    went:go saw:see got:get made:make took:take bought:buy found:find met:meet started:start had:have did:do
    read:read ate:eat gave:give came:come left:leave lost:lose won:win wrote:write grew:grow became:become
    began:begin broke:break built:build caught:catch chose:choose drove:drive felt:feel flew:fly forgot:forget
    heard:hear held:hold kept:keep knew:know learned:learn led:lead moved:move paid:pay ran:run rode:ride
    said:say sang:sing sent:send sold:sell spent:spend spoke:speak taught:teach told:tell thought:think
    understood:understand wore:wear woke:wake put:put quit:quit cut:cut swam:swim drew:draw fell:fall
    hurt:hurt brought:bring was:be
    """.split()
)
PRESENT = """
    love like enjoy hate prefer want need play work live study watch collect own teach drive speak eat cook
    bake write read listen volunteer travel run paint make dream plan hope wish have go take grow use see
    think believe know miss
""".split()
# Stems of past forms whose infinitive has an -e.
SILENT = set(
    """
    us hop smil invit excit decid includ provid trad guid imagin combin creat delet complet compet dislik
    """.split()
)
SILENT_ENDS = re.compile(
    r"(?:[^aeiou][aeiou][cgksvz]|[^aeiou][aou]t|[aeiou][^aeiou]*(?:[cgv]|nc|rs)|[^aeiou][aiou][mr]|[^aeiou][io]b)$"
)
OPEN_ENDS = set("a an the to of and or in on at my with for but so that is i it because".split())
ADVERB = r"(?:(?:also|really|just|always|usually|often|recently|actually|still|once|never|sometimes|finally|already) )*"
PHRASE = re.compile(
    r"\b(?:[Tt]he|[Aa]n?|[Mm]y|[Oo]ur|[Yy]our|some|new|of|about|favorite|called|for|with|and|at) "
    r"((?:[a-z]{3,} )?[a-z]{4,})(?= ?[.,!?;]| (?:is|was|and|in|at|on|for|with|to|that|of)\b)"
)
ABOUT_TOPIC = (
    "What did {name} say about {topic}?",
    "What does {name} think of {topic}?",
    "When did {name} mention {topic}?",
    "Did {name} tell {other} about {topic}?",
    "How does {name} feel about {topic}?",
    "What have we discussed about {topic}?",
    "Who told {other} about {topic}?",
    "Which {topic} did {name} talk about?",
    "Why did {name} bring up {topic}?",
)
FIRST = re.compile(rf"\b(?:I|i|We|we) {ADVERB}([a-z]+)\b ?([^.!?,;]*)")
MINE = re.compile(r"\b(?:my|our) ((?:[a-z]+ )?(?!own\b)[a-z]+) (?:is|was|are|were|'s) ([^.!?,;]+)", re.I)
AM = re.compile(r"\bI(?: am|'m|’m| was) ((?!not\b)[a-z]+)\b ?([^.!?,;]*)", re.I)
IN_THIRD = ((r"\bi am\b|\bi'm\b|\bim\b", "is"), (r"\bi have\b|\bi've\b", "has"), (r"\bi was\b", "was"))


def base_form(verb: str) -> str | None:
    """The infinitive of a past form, None if the word does not look like one."""
    if verb in IRREGULAR:
        return IRREGULAR[verb]
    if len(verb) > 4 and verb.endswith("ied"):
        return verb[:-3] + "y"
    if len(verb) > 4 and verb.endswith("ed"):
        stem = verb[:-2]
        if len(stem) > 2 and stem[-1] == stem[-2] and stem[-1] not in "lsz":
            return stem[:-1]
        if stem in SILENT or SILENT_ENDS.search(stem):
            return stem + "e"
        return stem
    return None


def third_form(verb: str) -> str:
    special = {"have": "has", "do": "does", "go": "goes", "am": "is", "was": "was"}
    if verb in special:
        return special[verb]
    if base_form(verb) or verb in ("can", "will", "would", "could", "should", "may", "might", "must"):
        return verb
    if re.search(r"(?:s|x|z|ch|sh|o)$", verb):
        return verb + "es"
    return verb[:-1] + "ies" if re.search(r"[^aeiou]y$", verb) else verb + "s"


def possessives(text: str, name: str) -> str:
    text = re.sub(r"\bmy\b", "their", text, flags=re.I)
    text = re.sub(r"\b(?:me|myself)\b", "them", text, flags=re.I)
    return re.sub(r"\bI\b", name, text)


def statement(sentence: str, name: str) -> str | None:
    """The sentence about `name` in the third person; None where no rule fits."""
    text = sentence.strip()
    for pattern, verb in IN_THIRD:
        if re.match(pattern, text, re.I):
            return f"{name} {verb} " + possessives(re.sub(pattern, "", text, count=1, flags=re.I).strip(), name)
    match = re.match(rf"I ({ADVERB})([a-z]+)\b(.*)", text, re.I)
    if match and match[2].lower() not in ("don", "can", "won", "didn"):
        return f"{name} {match[1].lower()}{third_form(match[2].lower())}{possessives(match[3], name)}"
    match = re.match(r"my (.+)", text, re.I)
    if match:
        return f"{name}'s {possessives(match[1], name)}"
    return None


def topics_of(text: str) -> list[str]:
    """Noun phrases of one or two words, as far as an article or the like gives them away, and names."""
    found = [phrase.lower() for phrase in PHRASE.findall(text)]
    found += [name for name in re.findall(r"(?<=[a-z,] )[A-Z][a-z]{2,}(?: [A-Z][a-z]+)*", text)]
    return [phrase for phrase in found if not any(word[:6].lower() in COMMON for word in phrase.split())]


def short(rest: str, words: int) -> str:
    """The beginning of a clause, cut before words that would leave it open."""
    kept = rest.split()[:words]
    while kept and kept[-1].lower() in OPEN_ENDS:
        kept.pop()
    return " ".join(kept)


def questions(text: str, name: str, other: str, random_source: random.Random) -> list[str]:
    """Questions that the turn `text`, said by `name` to `other`, may answer."""
    found: list[str] = []
    for verb, rest in FIRST.findall(text):
        verb, rest = verb.lower(), possessives(rest, name)
        base = base_form(verb)
        if base and base not in ("be", "have", "do", "think", "say"):
            tail = short(rest, random_source.randint(2, 6))
            if tail:
                found.append(f"When did {name} {base} {tail}?")
                found.append(f"{random_source.choice(['Why', 'Where', 'How'])} did {name} {base} {tail}?")
            head = random_source.choice(["What did", "What exactly did"])
            found.append(f"{head} {name} {base}?")
            later = short(" ".join(rest.split()[2:]), 5)
            if later:
                found.append(f"What did {name} {base} {later}?")
        elif verb in PRESENT:
            tail = short(rest, random_source.randint(2, 6))
            found.append(f"What does {name} {verb}{' to do' if verb in ('love', 'like', 'want') else ''}?")
            if tail:
                found.append(f"Does {name} {verb} {tail}?")
                asked = random_source.choice(["Why", "How often", "Where", "Since when"])
                found.append(f"{asked} does {name} {verb} {tail}?")
                if not rest.startswith("to "):
                    found.append(f"Would {name} be interested in {tail}?")
    for thing, value in MINE.findall(text):
        thing = thing.lower()
        found.append(f"{random_source.choice(['What is', 'Who is', 'How is'])} {name}'s {thing}?")
        found.append(f"What did {name} say about {random_source.choice(['their', name + chr(39) + 's'])} {thing}?")
    for word, rest in AM.findall(text):
        word, tail = word.lower(), short(possessives(rest, name), 3)
        tail = f" {tail}" if tail else ""
        if word.endswith("ing") and len(word) > 4:
            now = random_source.random() < 0.5
            found.append(f"What is {name} {word}?" if now else f"What has {name} been {word}{tail}?")
        elif word in ("a", "an"):
            ways = [f"What does {name} do for a living?", f"What is {name}?", f"Is {name} a {short(rest, 3)}?"]
            found.append(random_source.choice(ways))
        elif word not in ("so", "sorry", "glad", "sure", "very", "really", "just", "happy"):
            found.append(f"Why is {name} {word}{tail}?")
    topics = topics_of(text)
    if topics and (not found or random_source.random() < 0.4):
        topic = random_source.choice(topics)
        found.append(random_source.choice(ABOUT_TOPIC).format(name=name, other=other, topic=topic))
    return [question for question in found if len(question.split()) > 3]
