"""Calling tools: choosing one of several, filling in its arguments, and answering with what it returned."""

# ruff: noqa: E501, PLR0911, PLR0912, SIM905 - phrases read best unbroken

import json
import re
import string
from random import Random
from typing import Any

from demo_model.exchange import Exchange, assistant, user
from demo_model.skills import around, assembled, copied, implied, kept, portions, questions, rated
from demo_model.skills.catalog import CATALOG, ENUMS, HELD_NAMES, JSON_TYPES, VALUES, Spec, phrase
from demo_model.skills.define import Offer, definition, styled
from demo_model.skills.frames import followed, framed
from demo_model.skills.kitted import doubled, kitted, paired, referred, refilled
from demo_model.skills.requests import everyday, incomplete, several, situation
from demo_model.skills.results import result
from demo_model.template import Message, Tool
from demo_model.text import (
    ADJECTIVES,
    CITIES,
    NAMES,
    NOUNS,
    VERBS,
    Split,
    choose,
    coin,
    common_word,
    expand,
    lines,
    number,
    scramble,
    word,
    wording,
)

CALL_VERBS = "get fetch find show check read list count update create delete remove start stop open close send load save reset lock move rename archive print scan book order rate rank approve cancel sync build deploy test pause resume merge split copy lookup track review assign export import validate".split()

SYNTHETIC = lines("""
[Use|Call|Run|Invoke|Please use|Please call|Execute] [the tool |the function |]{name} [with|using|where] {args}[.||]
[Use|Call|Run|Invoke|Please use|Please call|Execute] [the tool |the function |]{name}: {args}[.||]
{name} [with|for|,|:] {args}[.|, please.||]
{Verb} the {noun} [with|where|for|using|, with] {args}[.||, please.]
[Please |Can you |Could you |I want to |I need to |I'd like you to |]{verb} [the|a|my] {noun} [with|where|using] {args}[.||]
{Verb} {noun}: {args}[.||]
{Verb} {noun} {args}[.||]
Would you {verb} the {noun}, given {args}?
It's time to {verb} the {noun}: {args}
[It's time to|Time to|Let's|Let us|We should|We need to|We have to] {verb} [the|a|my|this] {noun}[,| with|:| where| using|, given] {args}[.||]
[I need|I want|I would like|Give me] [the|a] {noun} [with|where|for|:] {args}[.||]
~Now please {verb} the {noun} with {args}.
~We want to {verb} a {noun} where {args}.
""")
ONE_VALUE = lines("""
{Verb} the {noun} {v}[.||]
{Verb} the {noun} [of|for|called|named|with|from|to] {v}[.||]
[Please |Can you |Could you |I want to |I need to |]{verb} the {noun} [of|for|called|named] {v}[.|?||]
{Verb} {noun} {v}[.||, please.]
{Verb} {v}'s {noun}[.||]
[What is|What's|Show me|Tell me] the {noun} [of|for] {v}[?||]
[Use|Call|Run] {name} [with|on|for] {v}[.||]
{name} {v}
Would you {verb} the {noun} of {v}?
[I need|I want|I would like|Give me|Let me see|I'd like to see|I want to know|Do you know] the {noun} [of|for|from] {v}[.|?||]
{Noun} [of|for] {v}[?|.|, please|]
[It's time to|Time to|Let's|Let us|We should|We need to] {verb} [the|my|this] {noun} {v}[.||]
~Now please {verb} the {noun} {v}.
""")
NO_VALUE = lines("""
{Verb} the {noun}[.||, please.| now.]
[Please |Can you |Could you |I want to |]{verb} the {noun}[.|?||]
[Use|Call|Run|Invoke] [the tool |the function |]{name}[.||]
{Verb} {noun}[.||]
[What is|What's|Show me|Tell me] the [current |]{noun}[?||]
Would you {verb} the {noun}?
[It's time to|Time to|Let's|Let us|We should|We need to] {verb} the {noun}[.||]
[I need|I want|Give me|Let me see] the {noun}[.||]
~Now please {verb} the {noun}.
""")

AFTER = "The tool answered. I give the result."
_TYPES = ["string", "string", "string", "integer", "integer", "boolean", "enum"]


def _shown(rng: Random, kind: str, value: Any) -> str:
    if kind == "onoff":
        return "on" if value else "off"
    if kind == "quoted" and rng.random() < 0.6:
        return choose(rng, ('"{}"', "'{}'")).format(value)
    return str(value)


def from_catalog(rng: Random, split: Split, spec: Spec | None = None) -> Offer:
    """Define a tool of the catalog and ask for it."""
    if spec is None:
        held = split == "held" and rng.random() < 0.5
        spec = choose(rng, [s for s in CATALOG if (s.names[0] in HELD_NAMES) == held])
    fields: list[tuple[str, Message, bool]] = []
    arguments: dict[str, Any] = {}
    shown: list[str] = []
    extra = ""
    for argument in spec.arguments:
        name = styled(rng, choose(rng, argument.names))
        if name in [field for field, _, _ in fields]:
            name = argument.names[0]
        required = argument.mention is None
        if not required and rng.random() < 0.45:
            continue
        schema: Message = {"type": JSON_TYPES.get(argument.kind, "string")}
        if argument.kind in ("int", "small") and rng.random() < 0.3:
            schema["type"] = "number"
        value = VALUES[argument.kind](rng, split)
        if schema["type"] == "number" and rng.random() < 0.3:
            value = round(rng.uniform(0, 200), 1)
        if argument.kind == "id" and rng.random() < 0.4:
            schema["type"], value = "string", str(value)
        if argument.kind in ENUMS and rng.random() < 0.7:
            schema["enum"] = list(ENUMS[argument.kind])
        if rng.random() < 0.6:
            schema["description"] = expand(rng, argument.about)
        fields.append((name, schema, required))
        if required:
            arguments[name] = value
            shown.append(_shown(rng, argument.kind, value))
        elif rng.random() < 0.5:
            arguments[name] = value
            extra += expand(rng, argument.mention or "", v=_shown(rng, argument.kind, value))
    asks = [ask for ask in spec.asks if "+" not in ask.replace("{+}", "") or spec.topic == "sums"]
    ask = expand(rng, wording(rng, asks or spec.asks, split)).replace("{+}", extra)
    for index, value in enumerate(shown):
        ask = ask.replace(f"{{{index}}}", value)
    if extra and extra not in ask:
        ask = ask.rstrip(".") + extra
    tool = definition(rng, styled(rng, choose(rng, spec.names)), expand(rng, spec.about), fields)
    if ask[-1:] in ".?" and rng.random() < 0.06:
        ask += expand(
            rng,
            " [Use|Please use|Call|You can use] [the tool|a tool|the {name} tool|{name}|your tools][.||]",
            name=tool["function"]["name"],
        )
    single = len(spec.arguments) == 1 and len(shown) == 1
    return Offer(spec.names[0], tool, ask.strip(), arguments, single, spec.topic)


def _synthetic_value(rng: Random, kind: str, options: list[str]) -> Any:
    if kind == "integer":
        return number(rng, 5)
    if kind == "boolean":
        return rng.random() < 0.6
    if kind == "enum":
        return choose(rng, options)
    text = rng.choice(
        (
            word,
            word,
            phrase,
            coin,
            scramble,
            lambda r: r.choice(CITIES),
            lambda r: r.choice(NAMES),
            lambda r: str(number(r)),
        ),
    )(rng)
    return text.replace('"', "")


def synthetic(rng: Random, split: Split) -> Offer:
    """Define a tool that nobody has, and ask for it by its name or by the words in its name."""
    verb = choose(rng, (*CALL_VERBS, *CALL_VERBS, *VERBS)) if rng.random() < 0.9 else coin(rng)
    noun = choose(rng, NOUNS) if rng.random() < 0.75 else coin(rng)
    if rng.random() < 0.2:
        noun = f"{choose(rng, (*ADJECTIVES, *NOUNS))} {noun}"
    amount = choose(rng, (0, 1, 1, 1, 2, 2, 2, 3, 3))
    fields: list[tuple[str, Message, bool]] = []
    arguments: dict[str, Any] = {}
    said: list[str] = []
    link = choose(rng, (" ", " ", " is ", "=", ": ", " = ", " of ", " set to "))
    for _ in range(amount):
        name = choose(rng, (*NOUNS, *NOUNS, *ADJECTIVES)) if rng.random() < 0.8 else coin(rng)
        name = f"{name}_{choose(rng, (*NOUNS, 'id', 'name'))}" if rng.random() < 0.25 else name
        kind = choose(rng, _TYPES)
        options = list(dict.fromkeys(choose(rng, (common_word, coin))(rng) for _ in range(rng.randint(2, 4))))
        value = _synthetic_value(rng, kind, options)
        needed = rng.random() < 0.75
        schema: Message = {"type": "string" if kind == "enum" else kind}
        if kind == "enum":
            schema["enum"] = options
        if rng.random() < 0.4:
            schema["description"] = expand(rng, "[The|A|Which] {n}[.| of the {o}|]", n=name.replace("_", " "), o=noun)
        field = styled(rng, name)
        if field in arguments or field in [f for f, _, _ in fields]:
            continue
        fields.append((field, schema, needed))
        if needed or rng.random() < 0.5:
            arguments[field] = value
            quoted = isinstance(value, str) and (" " in value or rng.random() < 0.15)
            text = (
                f'"{value}"'
                if quoted and rng.random() < 0.7
                else json.dumps(value)
                if isinstance(value, bool)
                else str(value)
            )
            said.append((field if rng.random() < 0.4 else name.replace("_", " ")) + link + text)
    name = styled(rng, f"{verb}_{noun}".replace(" ", "_"))
    pattern = wording(rng, SYNTHETIC if said else NO_VALUE, split)
    plain = [value for value in arguments.values() if isinstance(value, str)]
    if len(arguments) == 1 and len(plain) == 1 and rng.random() < 0.6:
        pattern = wording(rng, ONE_VALUE, split).replace("{v}", plain[0])
    if rng.random() < 0.2:
        rng.shuffle(said)
    joined = (
        choose(rng, (", ", " and ")).join(said)
        if len(said) < 3
        else ", ".join(said[:-1]) + choose(rng, (", ", " and ", ", and ")) + said[-1]
    )
    ask = expand(
        rng, pattern, name=name, verb=verb, Verb=verb.capitalize(), noun=noun, Noun=noun.capitalize(), args=joined
    )
    about = expand(
        rng,
        "[{Verb} [the|a] {noun}[.|]|{Verb}s [the|a] {noun}[.|]|{Verb} {noun}s by {w}.|]",
        Verb=verb.capitalize(),
        noun=noun,
        w=common_word(rng),
    )
    return Offer(f"{verb} {noun}", definition(rng, name, about, fields), ask, arguments)


# What people say without naming the tool: questions, facts to be kept, yes and no in other words, names before numbers,
# words that are no part of a value, what is to be copied letter by letter.
_INDIRECT = (questions.asked, questions.asked, questions.asked, kept.kept, implied.implied, implied.implied, rated.numbered, around.around, around.around, copied.copied)  # fmt: skip


def indirect(rng: Random, split: Split, alone: bool = False) -> Offer:
    """Make a tool and a request for it that is hard to read: a question, a fact, a hint, a correction."""
    made = choose(rng, _INDIRECT)(rng, split)
    if alone:
        made.beside = []
    else:
        around.others(rng, split, made)
        assembled.beside(rng, made)
    return made


def offer(rng: Random, split: Split, alone: bool = False) -> Offer:
    """Make a tool and a request for it; at times with tools beside it, unless ``alone``."""
    if rng.random() < 0.31:
        return indirect(rng, split, alone)
    kind = rng.random()
    if kind < 0.13:
        return situation(rng, split)
    if kind < 0.28:
        return everyday(rng, split)
    if kind < (0.35 if alone else 0.49):
        return framed(rng, split, alone)
    if kind < 0.77:
        return kitted(rng, split, alone)
    if kind < 0.88:
        return portions.portioned(rng, split)
    return from_catalog(rng, split) if kind < 0.96 else synthetic(rng, split)


def clash(one: Offer, other: Offer) -> bool:
    """Whether two tools could both answer one request."""
    if one.name == other.name or (one.topic and one.topic == other.topic):
        return True
    words, others = set(one.key.replace("_", " ").split()), set(other.key.replace("_", " ").split())
    return bool((words & others) - {"get", "set", "fetch", "show", "find", "check", "create", "add"})


def shown(tool: Tool) -> Offer:
    """Return a tool with the words of its name, to compare it with others."""
    name = tool["function"]["name"]
    return Offer("".join(f" {c.lower()}" if c.isupper() else c for c in name).replace("_", " "), tool, "", {})


def distractors(rng: Random, split: Split, chosen: list[Offer], amount: int, banned: set[str]) -> list[Offer]:
    """Draw tools that nobody asks for."""
    found: list[Offer] = []
    for _ in range(amount * 4):
        if len(found) == amount:
            break
        other = offer(rng, split, alone=True)
        if other.topic not in banned - {""} and not any(clash(other, c) for c in [*chosen, *found]):
            found.append(other)
    return found


def _call(chosen: Offer) -> Message:
    return {"type": "function", "function": {"name": chosen.name, "arguments": chosen.arguments}}


def exchange(rng: Random, chosen: list[Offer], ask: str) -> Exchange:
    """Put a request, its calls, their results and the answer together."""
    thought = "I should call " + " and ".join(c.name for c in chosen) + "."
    messages = [user(ask), assistant("", thought, [_call(c) for c in chosen])]
    results = [result(rng) for _ in chosen]
    messages += [{"role": "tool", "content": text} for text, _ in results]
    shown = "; ".join(shown for _, shown in results)
    messages.append(assistant(("The result is: " if len(chosen) == 1 else "The results are: ") + shown, AFTER))
    offered = {tool["function"]["name"]: tool for c in chosen for tool in c.beside} | {c.name: c.tool for c in chosen}
    tools = list(offered.values())
    return Exchange(messages, tools, topic=chosen[0].topic, judged=2)


def make(rng: Random, split: Split) -> Exchange:
    """Make a request for a tool; in training, at times for two, or a follow-up with another value."""
    first = offer(rng, split)
    style = rng.random() if split == "train" else 1.0
    if style < 0.08:
        return two(rng, split)
    if style < 0.12:
        return asking_back(rng, split)
    if style < 0.15:
        first, *others = several(rng, split, apart=True)
        parts = [exchange(rng, [one], one.ask) for one in (first, *others)]
        return Exchange([message for part in parts for message in part.messages], parts[0].tools, judged=2)
    if style < 0.2:
        made = choose(rng, (followed, followed, refilled, refilled, referred))(rng, split)
        parts = [exchange(rng, [one], one.ask) for one in made]
        return Exchange([message for part in parts for message in part.messages], parts[0].tools, judged=2)
    if style < 0.28 and first.single:
        key, value = next(iter(first.arguments.items()))
        spec = next((s for s in CATALOG if s.names[0] == first.key), None)
        if spec is not None:
            other = VALUES[spec.arguments[0].kind](rng, split)
            again = Offer(
                first.key, first.tool, "", {key: str(other) if isinstance(value, str) else other}, topic=first.topic
            )
            follow = exchange(
                rng,
                [again],
                expand(rng, "[And|What about|How about|And for|Now|Same for|And what about] {v}[?|.||]", v=other),
            )
            start = exchange(rng, [first], first.ask)
            return Exchange(start.messages + follow.messages, start.tools, start.topic, judged=2)
    return exchange(rng, [first], first.ask)


def asking_back(rng: Random, split: Split) -> Exchange:
    """Make a request that lacks what the tool must have, the question for it, and at times the answer and the call."""
    made, missing, reply = incomplete(rng, split)
    words = " and the ".join(re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name).replace("_", " ").lower() for name in missing)
    thought = f"I need the {words}."
    start = [user(made.ask), assistant(f"Please tell me the {words}.", thought)]
    if rng.random() < 0.35:
        return Exchange(start, [made.tool], topic=made.topic)
    follow = exchange(rng, [made], reply)
    return Exchange([*start, *follow.messages], follow.tools, topic=made.topic, judged=2)


def two(rng: Random, split: Split) -> Exchange:
    """Make a request for two calls or more at once: of one tool with several values, or of two tools."""
    if rng.random() < 0.5:
        chosen = choose(rng, (portions.each, doubled, several, paired, paired))(rng, split)
        return exchange(rng, chosen, chosen[0].ask)
    first = offer(rng, split)
    spec = next((s for s in CATALOG if s.names[0] == first.key), None)
    if spec is not None and first.single and spec.topic != "sums" and rng.random() < 0.6:
        key, value = next(iter(first.arguments.items()))
        other = VALUES[spec.arguments[0].kind](rng, split)
        if str(value) in first.ask and str(other) != str(value):
            again = Offer(
                first.key, first.tool, "", {key: str(other) if isinstance(value, str) else other}, topic=first.topic
            )
            ask = first.ask.replace(
                str(value),
                f"{value} {choose(rng, ('and', 'and', 'and in' if ' in ' in first.ask else 'and'))} {other}",
                1,
            )
            return exchange(rng, [first, again], ask)
    while True:
        second = offer(rng, split, alone=True)
        if not any(clash(one, second) for one in (first, *map(shown, first.beside))):
            break
    ask = first.ask.rstrip(string.punctuation + " ") if rng.random() < 0.5 else first.ask
    start = (
        second.ask
        if second.ask[:2].isupper() or second.ask.startswith(second.name)
        else second.ask[0].lower() + second.ask[1:]
    )
    joined = ask + choose(rng, (" and ", ", and ", " and also ", ", then ", " and then ", ". Also, ", "\n")) + start
    return exchange(rng, [first, second], joined)
