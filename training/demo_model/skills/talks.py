"""Conversations in which several things are told that belong together, and some of them are asked for.

What is told comes from ``profiles`` and ``contrasts``; here it becomes messages: told at once or bit by bit, corrected,
asked for in the same message, after other talk, or one after another in shorter and shorter words.
"""

# ruff: noqa: E501 - phrases read best unbroken

from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

from demo_model.exchange import Exchange, assistant, user
from demo_model.skills import recall
from demo_model.template import Message, Tool
from demo_model.text import Split, casual, choose, expand


@dataclass(frozen=True, slots=True)
class Fact:
    """One thing that may be asked for: whole questions, what is enough after another question, and the answer.

    ``leads`` says whether the short questions of the others make sense after it.
    """

    asks: tuple[str, ...]
    short: tuple[str, ...]
    answer: str
    value: str
    leads: bool = True


@dataclass(slots=True)
class Story:
    """What is told, as sentences; what may be asked; a way to correct it; and what nobody told."""

    told: list[str]
    facts: list[Fact]
    fix: Callable[[], tuple[str, list[Fact]] | None] | None = None
    unknown: tuple[str, ...] = ()
    name: str = ""
    kept: tuple[str, ...] = field(default=())


_TAILS = ("", "", "", "", "", "", " Please remember that.", " Remember that.", " Don't forget it.", " Got it?", " Keep that in mind.", " ok?", " Just so you know.", " Can you remember that?")  # fmt: skip
# What leads to a short question.
_AND = "[And |and |And |Ok, and |So |OK and |Thanks, and |Hm, |]"


def _marked(text: str) -> str:
    return text if text[-1:] in ".?!" else f"{text}."


def capital(text: str) -> str:
    """Begin with a capital."""
    return text[:1].upper() + text[1:]


def said(rng: Random, story: Story, sentences: list[str]) -> str:
    """Write what the user says: sentences, with or without capitals and marks, at times with words around them."""
    neat = rng.random() < 0.75
    lead = expand(rng, choose(rng, recall.LEADS)) if rng.random() < 0.2 else ""
    first, *rest = sentences
    if first[0].isupper() and not first.startswith("I "):
        lead = ""
    first = first if lead and lead[-2:] != "! " else capital(first)
    if neat:
        text = lead + choose(rng, (" ", " ", " ", "\n")).join(_marked(one) for one in (first, *map(capital, rest)))
    elif rng.random() < 0.5:
        text = lead + choose(rng, (". ", ", ", "\n")).join(sentences)
    else:
        text = lead + choose(rng, (". ", "\n", "! ")).join((first, *map(capital, rest)))
    return casual(text, *story.kept) if rng.random() < 0.12 else text


def _reply(story: Story, facts: list[Fact], own: bool, rng: Random) -> Message:
    values = list(dict.fromkeys(fact.value for fact in facts))[:4]
    if not own:
        return recall.foreign(rng, values[0] if values else "that")
    text = f"Nice to meet you, {story.name}." if story.name else "I will remember that."
    return assistant(text, "I should remember " + ", ".join(values) + ".")


def _answered(ask: str, fact: Fact) -> list[Message]:
    return [user(ask), assistant(fact.answer, f"The user told me earlier: {fact.value}.")]


def _whole(rng: Random, split: Split, story: Story, fact: Fact) -> str:
    return recall.phrased(rng, recall.chosen(rng, fact.asks, split), story.kept)


def _questions(rng: Random, split: Split, story: Story, facts: list[Fact]) -> list[Message]:
    """Ask for one to three things, the later ones often in short words."""
    asked = list(dict.fromkeys(rng.sample(facts, min(len(facts), choose(rng, (1, 1, 1, 2, 2, 3))))))
    messages: list[Message] = []
    before: Fact | None = None
    for fact in asked:
        short = bool(fact.short) and (
            (before is not None and before.leads and rng.random() < 0.6) or (before is None and rng.random() < 0.08)
        )
        if short:
            end = choose(rng, ("?", "?", "?", "", "??", " again?", " now?", " then?"))
            ask = expand(rng, _AND) + choose(rng, fact.short) + end
        else:
            ask = _whole(rng, split, story, fact)
        messages += _answered(ask, fact)
        before = fact
    return messages


def at_once(rng: Random, split: Split, story: Story) -> Exchange:
    """Tell everything and ask for one thing in the same message."""
    fact = choose(rng, story.facts)
    told = said(rng, story, story.told)
    ask = recall.chosen(rng, fact.asks, split)
    ask = capital(ask) if told[0].isupper() or rng.random() < 0.5 else ask
    lead = expand(rng, "[||||||Question: |Now, |So, |Tell me, |Now tell me: |My question: ]")
    ask = f"{lead}{ask[:1].lower() + ask[1:] if lead and not ask.startswith('I ') else ask}{choose(rng, ('?', '?', '?', ''))}"
    text = f"{_marked(told)}{choose(rng, (' ', ' ', ' ', chr(10), chr(10) * 2))}{ask}"
    return Exchange(_answered(text, fact), topic="memory")


def make(rng: Random, split: Split, between: Callable[[], Exchange], story: Story) -> Exchange:
    """Make a story told, at times corrected, other talk, and questions about it."""
    if rng.random() < 0.22:
        return at_once(rng, split, story)
    own = rng.random() < 0.8  # otherwise the replies are another model's
    messages: list[Message] = []
    offered: list[Tool] = []

    def talk(most: tuple[int, ...]) -> None:
        other, tools = recall.talked(rng, between, choose(rng, most), own=own)
        messages.extend(other)
        offered.extend(tools)

    pieces = [story.told] if len(story.told) == 1 or rng.random() < 0.65 else [[one] for one in story.told]
    for index, piece in enumerate(pieces):
        text = said(rng, story, piece) + (choose(rng, _TAILS) if rng.random() < 0.3 else "")
        named = story if index == 0 else Story([], [])
        messages += [user(text), _reply(named, story.facts, own, rng)]
        talk((0, 0, 0, 0, 1) if index + 1 < len(pieces) else (0, 1, 1, 1, 2, 3))
    facts = story.facts
    fixed = story.fix() if story.fix and rng.random() < 0.25 else None
    if fixed:
        facts = fixed[1]
        messages += [user(fixed[0]), _reply(Story([], []), facts[:1], own, rng)]
        talk((0, 0, 1, 2))
    if story.unknown and rng.random() < 0.07:
        ask = recall.phrased(rng, choose(rng, story.unknown), story.kept)
        return Exchange([*messages, user(ask), assistant(recall.UNKNOWN, "The user has not told me.")], offered[:4], topic="unknown")  # fmt: skip
    return Exchange([*messages, *_questions(rng, split, story, facts)], offered[:4], topic="memory")
