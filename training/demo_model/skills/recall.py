"""Remembering what people tell about themselves: several things at once, corrected later, across anybody's replies."""

# ruff: noqa: E501 - phrases read best unbroken

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from random import Random

from demo_model.exchange import Exchange, assistant, user
from demo_model.skills.attributes import FACTS, OPTIONS, OTHERS, VALUES
from demo_model.skills.memory import some_name
from demo_model.skills.refuse import filled as request
from demo_model.skills.scenes import within
from demo_model.skills.things import fitting
from demo_model.template import Message, Tool
from demo_model.text import ADJECTIVES, CITIES, NAMES, NOUNS, Split, casual, choose, expand, lines, sentence

# How a thing is told after another of its kind: "lunch is at noon and dinner at eight".
SHORT = "{o} {v}"

# What other models say: nothing to learn from, but what a conversation may have in it.
REPLIES = lines("""
[Got it|Understood|Noted|Sure|Okay|Of course|Great|Thanks for telling me|Thank you for sharing|Perfect|Alright][!|.][ I'll keep that in mind.| I will remember that.| What else can I do for you?| How can I help you today?| Let me know if you need anything.|]
[That's|That is|This is|How] [wonderful|great|interesting|lovely|good to know|nice to hear|a great choice|fascinating][!|.][ Tell me more!| What would you like to talk about?| Is there anything else?|]
[Nice|Great|Lovely] to meet you[!|.] [How can I assist you today?|What can I do for you?|😊|What brings you here?]
[I'm|I am] [sorry|afraid|glad|happy|not sure], [but I can't help with that|{s}|that I can help|I did not understand]. [Could you rephrase that?|{s}|]
{s}
{s} {t}
{s} {t} {u}
[Here are|These are] some [ideas|thoughts|suggestions]:\\n\\n1. {s}\\n2. {t}\\n3. {u}
[As an AI|As a language model], I [don't have feelings|can't do that|have no opinions], but {s}
**{n}**: {s}\\n- {t}\\n- {u}
[Nice to meet you|Got it|Noted|Understood|Great|Thanks|Okay], {v}[!|.][ How can I help?| I'll remember that.| {s}|]
[So it's|I've noted|I'll remember|Saved:|Okay,|Understood:|You said] {v}. {s}
[I don't have|I cannot keep|As an AI I don't have] memory of past conversations, but [I can see what you told me here|in this chat I will remember it]. {s}
Sure! Here's a [short list|plan|table|summary]:\\n\\n| {n} | {m} |\\n|---|---|\\n| {x} | {y} |\\n\\n{s}
```python\\n{n} = {x}\\nprint({n})\\n```\\n{s} {t}
{x} {n}s. {s} [By the way, {p} lives in {c}.|My friend {p} would agree.|It reminds me of {p} from {c}.|The best time is {z}.|Call {x} for more.]
# {N}\\n\\n{s} {t}\\n\\n## {M}\\n\\n{u}\\n\\n- {s2}\\n- {t2}\\n- {u2}\\n\\n[Let me know if you have questions!|I hope this helps.|]
{s} {t} {u} {s2} {t2} {u2}
[Did you know?|Fun fact:|Well,|Honestly,|Hmm,] {s} {t}
[Sure thing|Certainly|Absolutely]! {s} [What do you think?|Does that help?|Shall we go on?]
""")
TALK = lines("""
[{s}|{s} {t}|What do you think about {n}s?|Tell me about the {n}.|I saw a {a} {n} today.|Do you like {n}s?|My {n} is {a}.|How do I fix a {n}?|What should I do with my {n}?|Give me an idea for the weekend.|I'm a bit {a} today.|Isn't that {a}?|Why is my {n} so {a}?|ok|cool|thanks|and then?|Can you explain that?|haha|nice|really?|go on|I see|Great, thank you.|Tell me a joke.|How are you?|That's interesting.|What's the weather like?|Write me a poem about {n}s.|Can you recommend a {n}?|{q}|{q}|{q}]
""")


@dataclass(frozen=True, slots=True)
class Told:
    """One thing told: its key, what the user says (empty: other words say it), how it is asked for, the answer."""

    key: str
    clause: str
    asks: tuple[str, ...]
    answer: str
    value: str


@dataclass(frozen=True, slots=True)
class Known(Told):
    """One thing told, and how it is corrected."""

    clauses: tuple[str, ...]
    line: str
    word: str
    other: str


# Draws another value for something told, to correct it with; None where that can't be.
Again = Callable[[Known], Known | None]

# What is asked about these could mean others, so they are told alone; of the pairs, only one is told.
_ALONE = {"call", "where", "teampal", "reads", "eats", "weather"}
_PAIRS = (
    {"name", "pronoun"},
    {"birthday", "born"},
    {"meeting", "dentist", "visit", "event", "call"},
    {"own", "car", "wish"},
    {"code", "order"},
    {"like", "likes2", "hobbies", "taste"},
    {"bought", "number_of"},
    {"city", "address", "holiday", "hotel", "origin", "since"},
    {"flight", "flightno", "terminal", "gate"},
    {"train", "platform", "bus"},
    {"eats", "diet", "allergy", "dislike", "medicine"},
    {"pets", "pair", "kids", "siblings", "dog"},
    {"job", "company", "shift", "study"},
)


def chosen(rng: Random, asks: tuple[str, ...], split: Split) -> str:
    """Draw one of the questions; those that start with ``~`` are kept for evaluation."""
    held = [ask[1:] for ask in asks if ask.startswith("~")]
    return (
        choose(rng, held) if split == "held" and held else choose(rng, [ask for ask in asks if not ask.startswith("~")])
    )


@cache
def _parts(line: str) -> tuple[str, str, tuple[str, ...], tuple[str, ...], str]:
    key, kind, clauses, asks, answer = line.split(" ; ")
    return key, kind, tuple(clauses.split("|")), tuple(asks.split("|")), answer


def thing(rng: Random, split: Split, line: str, word: str = "", other: str = "") -> Known:
    """Draw a value for one line of the lists, about a given ``word`` or somebody, or about any."""
    key, kind, clauses, asks, answer = _parts(line)
    word = word or choose(rng, OPTIONS.get(key, [""]))
    other, value = other or some_name(rng, split), VALUES[kind](rng, split)
    if kind == "job" and value[0] in "aeio":
        value = "baker"  # "a engineer" would be wrong
    value = f"an {value[2:]}" if kind == "goods" and value[2] in "aeiou" else value
    if key == "favourite" and rng.random() < 0.6:
        value = fitting(rng, word) or value

    def filled(text: str) -> str:
        return text.replace("{k}", word).replace("{w}", other).replace("{v}", value)

    told, asked = tuple(filled(clause) for clause in clauses), tuple(filled(ask) for ask in asks)
    if key in _SHARED and rng.random() < 0.1:
        told = tuple(clause.replace("my ", "our ") for clause in told)
        asked = tuple(ask.replace("my ", "our ") for ask in asked) if rng.random() < 0.7 else asked
    # One thing of a kind: "my dog" and "my cat" differ, and so do Ada's home and Bob's.
    if "{k}" in clauses[0]:
        key = word
    if "{w}" in clauses[0]:
        key = f"{key} {other}"
    return Known(key, choose(rng, told), asked, filled(answer), value, told, line, word, other)


def things(rng: Random, split: Split, amount: int) -> list[Known]:
    """Draw several things with keys of their own, whose questions can't be taken for each other's."""
    found: dict[str, Known] = {}
    while len(found) < amount:
        kind = rng.random()
        line = choose(rng, PLAIN if kind < 0.35 else FACTS if kind < 0.68 else OTHERS if kind < 0.86 else DETAIL)
        name = line.split(" ; ", 1)[0]
        told = {one.line.split(" ; ", 1)[0] for one in found.values()} - {name}
        if (name in _ALONE and amount > 1) or any(name in pair and pair & told for pair in _PAIRS):
            continue
        made = thing(rng, split, line)
        # "My cat is called X" and "my cat is a Y" would be two answers to "who is my cat?"; values must differ, too.
        same = any(made.value in known.value or known.value in made.value for known in found.values())
        if not same and not any(set(made.asks) & set(known.asks) for known in found.values()):
            found.setdefault(made.key, made)
    return list(found.values())


DETAIL = [line for line in FACTS if line.startswith("detail ;")]
# What anybody tells first.
_FIRST = set("name age city origin birthday job like dog relative colour lucky favourite meeting phone car wifi allergy holiday hobbies company visit event".split())  # fmt: skip  # noqa: SIM905
PLAIN = [line for line in FACTS if line.split(" ; ", 1)[0] in _FIRST]
# What may be "ours" as well as "mine".
_SHARED = {"dog", "detail", "event", "visit", "titled", "pair", "kin"}
LEADS = lines("""
[Hi, |Hello! |Hey, |By the way, |Just so you know, |Please remember: |FYI, |So, |Well, |Remember this: |Note that |Also, |||||||||||]
[Keep in mind that |I want you to know that |You should know that |Guess what: |Did I tell you that |Remember that |Please note: |Important: |One thing about me: |For later: |Don't forget that |Let me tell you something: |It's good to know that |Before we start, |Please keep in mind: |Could you remember that |Memo: |I forgot to say that |Small detail: |Just for context, |For your information, |Hi there! |Good morning, |Okay so |Listen, |oh and ]
[In case it matters, |I should mention that |Oh, one thing, |While I think of it, |It may be useful that |I nearly forgot: |Sorry for the delay, |As you may know, |Since you ask, |I was just thinking that |Thanks! |Okay, next: |Good evening, |Hi again, ]
""")
TAILS = lines("""
[||||. Please remember it|. Remember that|. Don't forget it|, ok?|. Got it?|, please remember|. Can you remember that?|. I'll ask you later|, you know|, by the way|. Keep that in mind|. {s}|. {r}|, just so you know|. Thanks|. Anyway, how are you?|, in case you wonder|. That's all for now|. More later]
""")


def _capital(one: Known) -> str:
    """Begin a clause with a capital, unless it begins with the value, which stays as it is."""
    return one.clause if one.clause.startswith(one.value) else one.clause[0].upper() + one.clause[1:]


def told(rng: Random, group: list[Known]) -> str:
    """Write what the user says: the clauses as one sentence or as several, with words before and after."""
    # Several parts of one sentence may be asked for; it is said once.
    group = [one for index, one in enumerate(group) if one.clause not in [before.clause for before in group[:index]]]
    clauses = [one.clause for one in group]
    if len(clauses) == 1:
        text = clauses[0]
    elif rng.random() < 0.5:
        text = ", ".join(clauses[:-1]) + choose(rng, (" and ", ", and ", ", ", " and also ", ", plus ")) + clauses[-1]
    else:
        text = choose(rng, (". ", ". ", "\n", "! ")).join(_capital(one) for one in group)
    plain = rng.random() < 0.45
    lead = "" if plain else expand(rng, choose(rng, LEADS))
    if plain:
        text = _capital(group[0]) + text[len(clauses[0]) :] if rng.random() < 0.8 else text
    elif not lead and rng.random() < 0.12:
        lead = sentence(rng) + " "
    elif not lead and rng.random() < 0.67:
        text = _capital(group[0]) + text[len(clauses[0]) :]
    text = lead + text
    tail = "" if plain else expand(rng, TAILS[0])
    if "{" in tail:
        said = request(rng, "train").strip() if "{r}" in tail and rng.random() < 0.1 else sentence(rng)
        tail = tail.replace("{s}", said).replace("{r}", said)
    text += tail + ("" if tail.endswith((".", "?", "!")) else choose(rng, (".", ".", "", "!")))
    return casual(text, *(one.value for one in group)) if rng.random() < 0.1 else text


def foreign(rng: Random, value: str = "that") -> Message:
    """Make a reply of another model, which may say the ``value`` that it was told; it is read, not learnt."""
    pattern = choose(rng, REPLIES).replace("\\n", "\n")
    # Only what the pattern has a place for is drawn: sentences take long to make.
    words = {key: sentence(rng) for key in ("s", "t", "u", "s2", "t2", "u2") if f"{{{key}}}" in pattern}
    nouns = {
        "n": choose(rng, NOUNS),
        "m": choose(rng, NOUNS),
        "N": choose(rng, NOUNS).title(),
        "M": choose(rng, NOUNS).title(),
    }
    figures = {"x": rng.randint(1, 9999), "y": rng.randint(1, 99), "z": f"{rng.randint(1, 12)} pm"}
    text = expand(rng, pattern, v=value, p=choose(rng, NAMES), c=choose(rng, CITIES), **words, **nouns, **figures)
    return {"role": "assistant", "content": text, "learn": False}


def _reply(rng: Random, known: list[Known], own: bool) -> Message:
    if not own:
        return foreign(rng, known[0].value)
    name = next((one.value for one in known if one.key == "name"), None)
    return assistant(
        f"Nice to meet you, {name}." if name else "I will remember that.",
        "I should remember " + ", ".join(one.value for one in known) + ".",
    )


def _corrected(
    rng: Random, split: Split, known: Known, alone: bool = True, again: Again | None = None
) -> tuple[str, Known] | None:
    """Make a correction of something told; None if a new value can't be told from the old one.

    Where more was told (not ``alone``), the correction says what it corrects.
    """
    fresh = again(known) if again else thing(rng, split, known.line, known.word, known.other) if known.line else None
    if fresh is None or fresh.value in known.value or known.value in fresh.value:
        return None
    short = (
        "No, it's {v}|Sorry, I meant {v}|No, {v}|Not {o}, {v}|No, not {o}: {v}|I meant {v}|{v}, not {o}|No wait, it's {v}|Sorry, it's {v}|Wait, {v}|no sorry, {v}|I mean {v}|Oops, {v}|{v}, sorry|Make that {v}|It's {v} now|That was wrong, {v}|Hm, rather {v}|I mixed that up: {v}|"
        if alone
        else ""
    )
    if alone and _timed(known):
        short += "It has been moved to {b}|It was moved to {b}|It's been changed to {b}|They moved it to {b}|It was shifted to {b}|It is {v} now|It has changed to {b}|It is now {v}|"
    text = expand(rng, "[" + short + "Actually, {c}|Wait, {c}|Correction: {c}|I made a mistake, {c}|Oh no, {c}, not {o}|Sorry, {c}|No wait, {c}|Scratch that, {c}|Update: {c}|It changed: {c}|I was wrong, {c}|{c} now|Forget what I said, {c}|Let me correct myself: {c}][.|!|]",
                  v=fresh.value, c=fresh.clause, o=known.value, b=re.sub("^(at|on|in) ", "", fresh.value))  # fmt: skip
    return text, fresh


def _timed(known: Known) -> bool:
    """Whether something told has a time that others may change."""
    name, kind = known.line.split(" ; ")[:2]
    return name == "time" or (name in ("meeting", "train", "flight", "visit", "event", "shift") and kind != "city")


QUESTION = "[And |So, |Now, |OK, |Tell me: |Quick question: |Hey, |Sorry, |By the way, |One question: |Remind me, |Last thing: |Let me test you: |Do you still know: |Earlier I told you something: |I forgot: |Back to me: |Well, |Right, |From what I told you, |Just checking, |||||||||||||||||||||]"
ENDING = "[?|?|?|?|| again?| please?|, please?|??| now?|, do you remember?|, can you tell me?| by the way?|? Do you remember?| again]"
EVERYTHING = "[What do you know about me|What did I tell you|What have I told you so far|What do you remember|Tell me what you know about me|Sum up what I told you|What did I say about myself|Repeat what I told you about me|List what you remember]"


def _question(rng: Random, split: Split, asked: list[Known]) -> list[Message]:
    """Ask for one thing, or for several at once."""
    ask = " and ".join(chosen(rng, known.asks, split) for known in asked)
    return _asked(phrased(rng, ask, tuple(known.other for known in asked)), asked)


def phrased(rng: Random, ask: str, kept: tuple[str, ...] = ()) -> str:
    """Ask with a mark or without, at times with words around it or typed in haste; what is ``kept`` stays."""
    plain = rng.random() < 0.45
    lead, end = ("", choose(rng, ("?", "?", "?", ""))) if plain else (expand(rng, QUESTION), expand(rng, ENDING))
    ask = lead + (ask if lead else choose(rng, (ask[0].upper(), ask[0].upper(), ask[0])) + ask[1:]) + end
    return casual(ask, *kept) if rng.random() < 0.1 else ask


def _asked(ask: str, asked: list[Known]) -> list[Message]:
    thought = f"The user told me earlier: {'; '.join(known.value for known in asked)}."
    return [user(ask), assistant(" ".join(known.answer for known in asked), thought)]


UNKNOWN = "You have not told me that yet."


def _not_told(rng: Random, split: Split, known: list[Known]) -> list[Message]:
    """Ask for something that was not told, where other things were."""
    others = {one.line.split(" ; ", 1)[0] for one in known}
    while True:
        line = choose(rng, FACTS)
        name = line.split(" ; ", 1)[0]
        mixed_up = any(name in pair and pair & others for pair in _PAIRS)
        if name not in others | _ALONE | {"name", "lucky", "club", *OPTIONS} and not mixed_up:
            break
    other = thing(rng, split, line)
    return [user(_question(rng, split, [other])[0]["content"]), assistant(UNKNOWN, "The user has not told me.")]


def unknown(rng: Random, split: Split) -> Exchange:
    """Make a question for something where nothing was told."""
    return Exchange(_not_told(rng, split, []), topic="unknown")


def talked(rng: Random, between: Callable[[], Exchange], count: int, *, own: bool) -> tuple[list[Message], list[Tool]]:
    """Make other talk, and the tools it needs; where not the model's ``own``, all replies are another model's."""
    messages: list[Message] = []
    offered: list[Tool] = []
    for _ in range(count):
        if not own or rng.random() < 0.15:
            messages += (small_talk(rng), foreign(rng))
        else:
            other = between()
            messages += other.messages
            offered += other.tools
    return messages, offered


def make(
    rng: Random,
    split: Split,
    between: Callable[[], Exchange],
    given: list[Known] | None = None,
    again: Again | None = None,
) -> Exchange:
    """Make things told (those ``given``, or any), at times one corrected, other talk, and one to three asked for."""
    known = given or things(rng, split, rng.choice((1, 1, 2, 2, 3, 4)))
    if rng.random() < 0.1:
        return _at_once(rng, split, known)
    others = rng.random() < 0.25  # the replies are another model's
    groups = _groups(rng, known)
    messages: list[Message] = []
    offered: list[Tool] = []

    def talk(most: tuple[int, ...]) -> None:
        said, tools = talked(rng, between, rng.choice(most), own=not others)
        messages.extend(said)
        offered.extend(tools)

    if len(known) == 1 and rng.random() < 0.15 and (changed := _corrected(rng, split, known[0], again=again)):
        # Corrected in the same breath.
        text = f"{_marked(told(rng, known))} {changed[0]}"
        messages += [user(text), _reply(rng, [changed[1]], own=not others)]
        known, groups = [changed[1]], []
    for group in groups:
        messages += _telling(rng, group, not others, between)
        talk((0, 0, 0, 1))
    if rng.random() < 0.3:
        at = rng.randrange(len(known))
        changed = _corrected(rng, split, known[at], len(known) == 1, again)
        if changed and not any(within(changed[1].value, one.value) for one in known):
            messages += [user(changed[0]), _reply(rng, [changed[1]], own=not others)]
            known[at] = changed[1]
    talk((0, 1, 1, 2, 3, 5))
    asked, topic = _asking(rng, split, known, everything=not given)
    return Exchange([*messages, *asked], offered[:4], topic=topic)


def _asking(rng: Random, split: Split, known: list[Known], *, everything: bool) -> tuple[list[Message], str]:
    """Ask for some of it; at times for all (where that can be said), or for what was not told."""
    if everything and rng.random() < 0.05:
        return _not_told(rng, split, known), "unknown"
    if everything and rng.random() < 0.04:
        return _asked(expand(rng, EVERYTHING) + choose(rng, ("?", "?", ".", "")), known), "memory"
    return _questions(rng, split, known), "memory"


def _marked(text: str) -> str:
    return text if text[-1:] in ".?!" else f"{text}."


def _at_once(rng: Random, split: Split, known: list[Known]) -> Exchange:
    """Tell things and ask for one of them in the same message."""
    said, (ask, reply) = told(rng, known), _question(rng, split, [choose(rng, known)])
    text = f"{_marked(said)}{choose(rng, (' ', ' ', ' ', chr(10)))}{ask['content']}"
    return Exchange([user(text), reply], topic="memory")


def _questions(rng: Random, split: Split, known: list[Known]) -> list[Message]:
    """Ask for one to three of the things, two of them in one question now and then."""
    asked = rng.sample(known, rng.randint(1, min(3, len(known))))
    if len(asked) == 2 and rng.random() < 0.35:
        return _question(rng, split, asked)
    return [message for one in asked for message in _question(rng, split, [one])]


def _groups(rng: Random, known: list[Known]) -> list[list[Known]]:
    """Tell all at once, as parts of one sentence must be, or one after another."""
    if len({one.clause for one in known}) < len(known) or any(one.word == SHORT for one in known) or rng.random() < 0.5:
        return [known]
    return [[one] for one in known]


def _telling(rng: Random, group: list[Known], own: bool, between: Callable[[], Exchange]) -> list[Message]:
    """Tell things; now and then with a question after them, which the reply answers."""
    text = told(rng, group)
    if own and rng.random() < 0.12:
        other = between()
        if other.topic in ("sums", "facts") and not other.tools:
            ask, reply = other.messages
            return [user(f"{_marked(text)} {ask['content']}"), reply]
    return [user(text), _reply(rng, group, own)]


def small_talk(rng: Random) -> Message:
    """Make something that people say without asking for anything told."""
    pattern = expand(rng, TALK[0])
    words = {key: sentence(rng) for key in "st" if f"{{{key}}}" in pattern}
    asked = (request(rng, "train").strip() or "?") if "{q}" in pattern else ""
    return user(expand(rng, pattern, n=choose(rng, NOUNS), a=choose(rng, ADJECTIVES), q=asked, **words))
