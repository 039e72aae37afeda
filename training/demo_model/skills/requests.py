"""Tools asked for as people ask: other words than the tool's own, and values whose argument only their kind tells.

Half of the tools are those that people have (``actions``); the others are any verb with any noun and any arguments, so
that what is learnt is where values stand in a sentence, not the sentences.
"""

# ruff: noqa: E501, PLR0917 - phrases read best unbroken

import json
import re
from functools import cache
from random import Random
from typing import Any

from demo_model.skills import situated, values
from demo_model.skills.actions import ACTIONS, AFTERWARDS, ASKING, BEFORE, LEADS, ORDERS, POLITE, VERBS
from demo_model.skills.define import Offer, definition, styled
from demo_model.skills.slots import SLOTS, Argument, valued
from demo_model.skills.together import FAMILY, KEYS, SEVERAL, filled
from demo_model.template import Message, Tool
from demo_model.text import ADJECTIVES, NAMES, NOUNS, Split, choose, coin, expand, sentence, typo, wording

Field = tuple[str, Message, bool]
# What else may be done to a thing, where the request says so in other words: tools that must not be called.
_OTHERS = {
    "delete",
    "update",
    "archive",
    "rename",
    "copy",
    "lock",
    "approve",
    "merge",
    "rate",
    "count",
    "print",
    "disable",
}
# Slots that nobody is asked for.
_SAID_WITH_MORE = {"invented", "switch", "flag", "dims", "command", "route", "people_pair", "files"}
_DIRECT = "id code text_id person path title thing url host email city topic goods phone".split()  # noqa: SIM905


def situation(rng: Random, split: Split) -> Offer:
    """Define a tool that what somebody says calls for, at times without a word of its name."""
    offer, verbatim = situated.drawn(rng, split)
    offer.ask = said(rng, offer.ask, [], verbatim, spare="{")
    return offer


def everyday(rng: Random, split: Split) -> Offer:
    """Define a tool, and ask for what it does as people do."""
    return known(rng, split) if rng.random() < 0.55 else composed(rng, split)


@cache
def _action(line: str) -> tuple[list[str], list[str], list[str], list[str]]:
    verbs, nouns, keys, leads = line.split(" ; ")
    return verbs.split("|"), nouns.split("|"), keys.split(), split_leads(leads)


def known(rng: Random, split: Split) -> Offer:
    """Define a tool that people have, and ask for it."""
    verbs, nouns, keys, leads = _action(wording(rng, ACTIONS, split))
    verb, noun = choose(rng, verbs), choose(rng, nouns)
    spoken = noun.replace("_", " ")
    lead = expand(rng, choose(rng, leads), n=spoken)
    return _offer(rng, split, verb, noun, lead, keys, choose(rng, verbs))


def composed(rng: Random, split: Split) -> Offer:
    """Define a tool that does anything to anything, and ask for it, at times with a value in place of the thing."""
    names, spoken, noun = _words(rng, split)
    verb = choose(rng, spoken)
    thing = noun.replace("_", " ") + ("s" if rng.random() < 0.1 else "")
    if rng.random() < 0.25:
        key = choose(rng, _DIRECT)
        lead = f"{verb.capitalize()} {'the ' if key == 'thing' and rng.random() < 0.6 else ''}{{{key}}}"
        if rng.random() < 0.3:
            lead += expand(rng, "[ from| in| of| on| out of| for] [the|my|our] {n}", n=thing)
    elif verb.startswith(("what", "how")):
        lead = f"{verb.capitalize()} the {thing}"
    else:
        lead = _lead(rng, split, verb, thing)
    offer = _offer(rng, split, choose(rng, names), noun, lead, KEYS, choose(rng, names))
    if rng.random() < 0.3:
        others = beside(rng, split, {*names, *spoken}, noun)
        offer.beside = [tool for tool in others if tool["function"]["name"] != offer.name]
    return offer


def _words(rng: Random, split: Split) -> tuple[list[str], list[str], str]:
    """Draw a verb's names for tools, the ways to say it, and what it is done to."""
    names, spoken = (part.split("|") for part in wording(rng, VERBS, split).split(" ; "))
    noun = choose(rng, NOUNS) if rng.random() < 0.9 else coin(rng)
    return names, spoken, f"{choose(rng, (*ADJECTIVES, *NOUNS))}_{noun}" if rng.random() < 0.2 else noun


def _lead(rng: Random, split: Split, verb: str, thing: str) -> str:
    pattern = wording(rng, LEADS, split)
    return expand(rng, pattern, v=verb, V=verb.capitalize(), n=thing, p=choose(rng, NAMES))


def incomplete(rng: Random, split: Split) -> tuple[Offer, list[str], str]:
    """Define a tool and ask for it without what it must have; return also what is missing, and how that is said."""
    names, spoken, noun = _words(rng, split)
    verb = choose(rng, [one for one in spoken if not one.startswith("what")])
    offer = _offer(rng, split, choose(rng, names), noun, "", [], names[0])
    key = choose(rng, [key for key in KEYS if key not in _SAID_WITH_MORE])
    mention, made = filled(rng, split, key)
    fields: list[Field] = []
    arguments: dict[str, Any] = {}
    for one in made:
        _define(rng, fields, arguments, one, needed=True, said=True)
    ask = said(rng, _lead(rng, split, verb, noun.replace("_", " ")), [], verbatim=False, spare="")
    tool = definition(rng, offer.name, expand(rng, "[{v} [a|the] {n}[.|]|]", v=offer.key.split()[0].capitalize(), n=noun.replace("_", " ")), fields)  # fmt: skip
    reply = mention.lstrip(" ,:")
    reply = (
        reply[0].upper() + reply[1:]
        if rng.random() < 0.3 and re.match("(on|at|for|in|from|with|to|by) ", reply)
        else reply
    )
    if len(made) == 1 and not re.match(r"[A-Za-z]+ |\W", reply) and rng.random() < 0.4:
        reply = expand(rng, "[It's|it's|That's|Sorry, it's|It is|that would be|I think it's]") + " " + reply
    return (
        Offer(offer.key, tool, ask, arguments, everyday=True),
        list(arguments),
        reply + choose(rng, ("", "", ".", ", please")),
    )


def several(rng: Random, split: Split, apart: bool = False) -> list[Offer]:
    """Define a tool, and ask for it with two or three values: a call for each.

    The values stand in one request, or each in one of its own (``apart``).
    """
    names, spoken, noun = _words(rng, split)
    key = choose(rng, [key for key in _DIRECT if key not in {"title", "topic", "goods", "phone"}])
    drawn = [SLOTS[key].value(rng, split) for _ in range(rng.choice((2, 2, 3)))]
    shown = list(dict.fromkeys(str(value) for _, value in drawn))
    verb = choose(rng, spoken)
    thing = noun.replace("_", " ")
    lead = expand(rng, "[{V} {v}|{V} the {n} of {v}|{V} {v} on the {n}|{V} the {n}s {v}|I want to {w} {v}|{V} [the {n} |]for {v}]",
                  V=verb.capitalize(), w=verb, n=thing, v=shown[0] if apart or len(shown) == 1 else values.join(rng, shown))  # fmt: skip
    offer = _offer(rng, split, choose(rng, names), noun, "", [], names[0])
    fields: list[Field] = []
    arguments: dict[str, Any] = {}
    slot = SLOTS[key]
    one = Argument(choose(rng, slot.names.split("|")), slot.about, slot.schema, drawn[0][1])
    _define(rng, fields, arguments, one, needed=True, said=True)
    tool = definition(rng, offer.name, expand(rng, "[{v} [a|the] {n}[.|]|]", v=names[0].capitalize(), n=thing), fields)
    ask = said(rng, lead, [], verbatim=False, spare="{")
    offers: list[Offer] = []
    for value in dict.fromkeys(json.dumps(value) for _, value in drawn):
        meant = json.loads(value)
        if apart and offers:
            ask = expand(rng, FOLLOW, v=meant)
        offers.append(Offer(offer.key, tool, ask, {fields[0][0]: meant}, everyday=True))
    return offers


FOLLOW = "[And|What about|How about|And for|Now|Same for|Then|Also|The same with|Next:|And then|Do the same for|Now for|Once more for|And now] {v}[?|.||, please|!]"


def beside(rng: Random, split: Split, used: set[str], noun: str) -> list[Tool]:
    """Define one or two tools that do something else to the same thing."""
    found: list[Tool] = []
    for line in rng.sample(VERBS, rng.choice((1, 1, 2, 3))):
        names, spoken = (part.split("|") for part in line.removeprefix("~").split(" ; "))
        if names[0] not in _OTHERS or used & {*names, *spoken}:
            continue
        used |= {*names, *spoken}
        other = _offer(rng, split, choose(rng, names), noun, "", KEYS, names[0])
        found.append(other.tool)
    return found


def _offer(rng: Random, split: Split, verb: str, noun: str, lead: str, keys: list[str], other: str) -> Offer:
    """Define a tool for the places in ``lead`` and some more slots, and put the request together."""
    fields: list[Field] = []
    arguments: dict[str, Any] = {}
    families: set[int | str] = set()
    lead = re.sub(r"\b([Aa]) (?=[aeiou])", r"\1n ", lead)
    verbatim = re.match(r"\W*\{", lead) is not None
    spare = lead
    for key in dict.fromkeys(re.findall(r"\{(\w+)\}", lead)):
        shown, made = _placed(rng, split, key, f" {{{key}}}" in lead or lead.startswith("{"))
        families.add(FAMILY.get(key, key))
        lead = lead.replace(f"{{{key}}}", shown)
        for one in made:
            _define(rng, fields, arguments, one, needed=rng.random() < 0.85, said=True)
    amount = rng.choice((0, 0, 1, 1, 2)) if families else rng.choice((0, 1, 1, 2, 2, 3, 4))
    mentions: list[str] = []
    for key in rng.sample(keys, min(amount, len(keys))):
        if FAMILY.get(key, key) in families:
            continue
        families.add(FAMILY.get(key, key))
        mention, made = filled(rng, split, key)
        needed = rng.random() < 0.6
        given = needed or rng.random() < 0.45
        # Names must differ from each other; two things of one name can't be told apart.
        if {one.name for one in made} & {name for name, _, _ in fields}:
            continue
        for one in made:
            _define(rng, fields, arguments, one, needed, given)
        if given:
            mentions.append(mention)
    order = rng.sample(range(len(fields)), len(fields)) if rng.random() < 0.35 else range(len(fields))
    fields = [fields[index] for index in order]
    arguments = {name: arguments[name] for name, _, _ in fields if name in arguments}
    name = styled(rng, _name(rng, verb, noun))
    about = expand(rng, "[{V}[ and {o}|] a {n}[ for the user|][.|]|{V} {n}s[.|]|[Use this to|This will|Call this to|Tool to|Can] {v} a {n}[.|]|{V}s the {n}[.|]|{V} [the|one|some] {n}[ by its {k}| in the system|][.|]|{N} {v}]",
                   V=verb.replace("_", " ").capitalize(), v=verb.replace("_", " "), o=other.replace("_", " "), n=noun.replace("_", " "), N=noun.replace("_", " ").capitalize(), k=fields[0][0].replace("_", " ") if fields else "name")  # fmt: skip
    ask = said(rng, lead, mentions, verbatim, spare) if lead else ""
    return Offer(f"{verb} {noun}", definition(rng, name, about, fields), ask, arguments, everyday=True)


def _name(rng: Random, verb: str, noun: str) -> str:
    kind = rng.random()
    if verb == noun or kind < 0.04:
        return noun
    if kind < 0.7:
        return f"{verb}_{noun}"
    if kind < 0.8:
        return f"{noun}_{verb}"
    return f"{verb}_{noun}s" if kind < 0.87 and not noun.endswith("s") else f"{verb}_{noun}" if kind < 0.96 else verb


def _placed(rng: Random, split: Split, key: str, apart: bool) -> tuple[str, list[Argument]]:
    """Return a value without the words around it, for a place in a sentence made for it."""
    if key in SEVERAL:
        mention, made = filled(rng, split, key)
        return (mention.lstrip(" ,:") if apart else mention), made
    shown, one = valued(rng, split, SLOTS[key])
    if rng.random() < 0.03 and "enum" not in one.schema and one.schema["type"] != "array":
        shown = situated.corrected(rng, shown, valued(rng, split, SLOTS[key])[0])
    return shown, [one]


def _define(
    rng: Random, fields: list[Field], arguments: dict[str, Any], one: Argument, needed: bool, said: bool
) -> None:
    """Add an argument to a tool's fields, and its value to the call if the request says it."""
    schema, name = dict(one.schema), one.name
    while name in {field for field, _, _ in fields}:
        name += "_2"
    # A choice can only be told from a text by its description or its options; other kinds speak for themselves.
    if rng.random() < 0.6:
        schema["description"] = expand(rng, one.about)
    name = styled(rng, name)
    fields.append((name, schema, needed))
    if said:
        arguments[name] = one.value


def said(rng: Random, lead: str, mentions: list[str], verbatim: bool, spare: str) -> str:
    """Put a request together: what is wanted, its details, and at times words around it that ask nothing.

    ``verbatim`` says that the lead begins with a value, whose capitals stay; ``spare`` is the lead without values.
    """
    front = ""
    if mentions and rng.random() < 0.15:
        at = rng.randrange(len(mentions))
        if re.match(r" (?:on|at|for|in|from|with|to|by|under) ", mentions[at]):
            front = mentions.pop(at).strip()
    question = lead.startswith(
        ("Can", "Could", "Is ", "What", "Where", "Which", "When", "Has", "Do ", "Any", "How", "Will", "Are", "Who")
    )
    style = rng.random()
    plain = not verbatim and not lead.startswith(("I ", "I'"))
    if "{" not in spare and rng.random() < 0.05:
        lead = lead.lower() if rng.random() < 0.6 else typo(rng, lead)
    if plain and style < 0.2:
        order = lead.split(" ", 1)[0].lower() in ORDERS and rng.random() < 0.6
        lead = f"{choose(rng, ASKING if order else POLITE)} " + lead[0].lower() + lead[1:]
    elif plain and (style < 0.35 or front):
        lead = lead[0].lower() + lead[1:]
    elif not verbatim:
        lead = lead[0].upper() + lead[1:]
    ask = (f"{front[0].upper()}{front[1:]}{rng.choice((', ', ', ', ' '))}" if front else "") + lead + "".join(mentions)
    if ask.endswith(":"):
        ask = ask[:-1]
    ask += choose(rng, ("?", "?", "")) if question else choose(rng, (".", ".", "", "!", ", please."))
    if rng.random() < 0.15:
        before = expand(rng, choose(rng, BEFORE), s=sentence(rng), a=choose(rng, ADJECTIVES), n=choose(rng, NOUNS))
        ask = f"{before} {ask}"
    if rng.random() < 0.12:
        mark = "" if ask[-1] in ".?!" else choose(rng, (",", ",", ""))
        ask += mark + expand(rng, AFTERWARDS)
    return ask


def split_leads(leads: str) -> list[str]:
    """Split alternatives at the bars that stand outside of brackets."""
    found, depth = [""], 0
    for letter in leads:
        depth += (letter == "[") - (letter == "]")
        if letter == "|" and depth == 0:
            found.append("")
        else:
            found[-1] += letter
    return found
