"""Tools made up of pieces that are drawn one by one, with requests put together from the same pieces.

There are more of these than training can meet, so nothing of them can be learnt by heart: which tool is meant, which
words are the value and which argument has it must be read from the definition and the request.
"""

# ruff: noqa: E501, PLR0917 - phrases read best unbroken

import re
from collections.abc import Callable
from functools import cache
from random import Random
from typing import Any

from demo_model.skills import parts
from demo_model.skills.actions import ASKING, BEFORE, POLITE, VERBS
from demo_model.skills.define import Offer, definition, styled
from demo_model.skills.frame_words import ACTS, PLAIN_ACTS, UNTOUCHED
from demo_model.skills.parts import Part
from demo_model.skills.situated import VAGUE
from demo_model.skills.together import FAMILY, filled
from demo_model.template import Message, Tool
from demo_model.text import ADJECTIVES, NAMES, NOUNS, Split, choose, coin, expand, sentence, wording

Field = tuple[str, Message, bool]
Maker = Callable[[Random, Split], Part]
_HEADS: list[Maker] = [parts.thing, parts.thing, parts.thing, parts.labelled, parts.labelled, parts.person, parts.amount, parts.chosen, parts.things]  # fmt: skip
_REST: list[Maker] = [parts.thing, parts.labelled, parts.person, parts.amount, parts.amount, parts.amount, parts.chosen, parts.chosen, parts.flag]  # fmt: skip
_SLOTS = ["date", "date", "time", "moment", "due", "city", "city", "email", "email", "phone", "path", "path", "folder", "url", "host", "recipient", "tags", "people_list", "channel", "repo", "language", "switch", "flag", "priority", "zone", "handle", "route", "files", "bounds", "coordinates", "invented", "invented", "dims", "pixels"]  # fmt: skip
# Pieces that can't be told from each other in one request: of a line, a request has one only.
_ALIKE = ["date moment due bounds", "time moment bounds", "path folder url host files repo", "recipient people_list person handle", "email recipient handle", "city route", "flag switch"]  # fmt: skip
_TIMES = {"date", "time", "moment", "due", "bounds"}
# Verbs too near to another tool's to stand beside it.
_NEAR = {
    "update": "set adjust tweak raise lower extend renew upgrade downgrade patch replace move rename mark tag label format postpone",
    "count": "measure estimate list show get check find audit",
    "rate": "review comment grade like get show score rank",
    "lock": "close seal secure unlock",
    "archive": "pack store file collect park close",
    "approve": "confirm accept admit grant sign stamp",
    "disable": "stop pause mute block unplug snooze close unequip end kick ban cancel dismiss",
    "delete": "kick ban fire discharge drop cancel dismiss unpack unload harvest get",
    "print": "scan fax write draw",
}


def framed(rng: Random, split: Split, alone: bool = False) -> Offer:
    """Define a tool of pieces, and ask for it; at times with tools for the same thing beside it, unless ``alone``."""
    return _framed(rng, split, alone)[0]


def followed(rng: Random, split: Split) -> list[Offer]:
    """Define a tool, ask for it, and then for the same with another value or two."""
    while True:
        offer, said = _framed(rng, split)
        names = {_plain(name) for name in offer.arguments}
        changed = [part for part in said if part.again is not None and _plain(part.one.name) in names]
        if changed:
            break
    arguments, texts = dict(offer.arguments), []
    for part in rng.sample(changed, min(len(changed), rng.choice((1, 1, 2)))):
        name = next(name for name in arguments if _plain(name) == _plain(part.one.name))
        text, arguments[name] = part.again() if part.again else ("", None)
        texts.append(text)
    ask = expand(rng, "[And|What about|How about|Now|And now|Then|The same for|Same with|Do it again for|Once more with|And then|Next] {v}[?|.||, please|!]", v=choose(rng, (", ", " and ", " with ")).join(texts))  # fmt: skip
    return [offer, Offer(offer.key, offer.tool, ask, arguments, everyday=True)]


def _plain(name: str) -> str:
    return name.lstrip("~").replace("_", "").lower()


def _framed(rng: Random, split: Split, alone: bool = False) -> tuple[Offer, list[Part]]:
    """Put a tool and its request together; return also the pieces that the request says."""
    said = _pieces(rng, split)
    noun = said[0].noun if said else choose(rng, NOUNS)
    named, spoken = _verbs(rng, split, noun)
    lead, rest = _lead(rng, (named, spoken), noun, said)
    mentions = [part.mention for part in rest]
    rng.shuffle(mentions)
    texts, tail = _texts(rng, split, said)
    ask = _ended(rng, lead, mentions, tail)
    spare = [part for part in _unsaid(rng, split) if not _alike(part, [*said, *texts])]
    offer = _defined(rng, (named, spoken), noun, [*said, *texts], spare, ask)
    # Without the verb, only the arguments say which tool is meant.
    if not alone and rng.random() < 0.3 and spoken in ask.lower():
        properties = offer.tool["function"].get("parameters", {}).get("properties", {})
        beside = _beside(rng, split, (named, spoken), noun, list(properties.items())[:1])
        offer.beside = [tool for tool in beside if tool["function"]["name"] != offer.name]
    return offer, said


def _pieces(rng: Random, split: Split) -> list[Part]:
    """Draw what a request says: no two pieces that could be taken for each other."""
    found: list[Part] = []
    for index in range(rng.choice((1, 1, 1, 2, 2, 2, 3, 3))):
        if index and rng.random() < 0.4:
            part = _slot(rng, split)
        else:
            part = choose(rng, _REST if index else _HEADS)(rng, split)
        if not _alike(part, found):
            found.append(part)
    return found


def _slot(rng: Random, split: Split) -> Part:
    key = choose(rng, _SLOTS)
    mention, made = filled(rng, split, key)
    alike = {f"alike {index}" for index, line in enumerate(_ALIKE) if key in line.split()}
    words = {key, f"family {FAMILY.get(key, key)}", *alike, *(one.name for one in made)}
    return Part(made[0], "", mention, choose(rng, NOUNS), words, others=tuple(made[1:]))


def _alike(part: Part, others: list[Part]) -> bool:
    """Whether an argument could be taken for another one."""
    if any(part.free and other.free for other in others):
        return True
    if any(part.words & other.words for other in others):
        return True
    names = {_plain(one.name) for one in (part.one, *part.others)}
    return any(_plain(one.name) in names for other in others for one in (other.one, *other.others))


def _verbs(rng: Random, split: Split, noun: str) -> tuple[str, str]:
    """Draw a verb as the tool's name has it, and as a request says it: the same one, or another that means it."""
    kind = rng.random()
    if kind < 0.6:
        return (verb := choose(rng, PLAIN_ACTS if noun in UNTOUCHED else ACTS)), verb
    if kind < 0.66:
        return (verb := coin(rng, rng.choice((1, 2)))), verb
    names, ways = (half.split("|") for half in wording(rng, VERBS, split).split(" ; "))
    said = choose(rng, [way for way in ways if not way.startswith("what")])
    return choose(rng, names), said


_FRONTS = ["{V}", "{V}", "{V}", "{V}", "{V}", "I want to {v}", "I need to {v}", "We have to {v}", "Let's {v}", "I'd like to {v}", "{p} asked me to {v}", "It's time to {v}", "You should {v}", "Go ahead and {v}", "We'd like you to {v}", "Help me {v}", "The plan is to {v}", "{P} {v}", "{P} {v}", "{A} {v}", "{A} {v}"]  # fmt: skip
# What people say in place of a verb that asks for something.
_ASKS = ["Do you have", "Is there", "Any", "Where is", "Show me", "Tell me about", "I'm looking for", "Where can I find", "What do you know about", "How is", "What is", "What's", "Who is", "Let me see", "Give me", "I'd like to see", "Are there any", "I need", "What about", "Anything on", "how about", "got"]  # fmt: skip
_ASKED = set("get fetch show read retrieve view lookup load check inspect describe find search list".split())  # noqa: SIM905
# What says nothing of what the tool does; then the words of its arguments tell.
_PLAIN = ["Make it", "I want", "I need", "Now", "Go", "Do", "Please,", "Give me", "We need", "Set it to", "It should be", "Let's have", "Just", "Next:", "Then"]  # fmt: skip
_STATES = ["is next", "hangs", "is waiting", "is not right", "must be done", "has problems", "needs it", "is still there", "can't wait", "does not answer", "is ready"]  # fmt: skip


def _lead(rng: Random, verbs: tuple[str, str], noun: str, said: list[Part]) -> tuple[str, list[Part]]:
    """Write what is wanted: a verb and its object; return also the pieces that are still to be said."""
    named, verb = verbs
    rest = list(said)
    front = choose(rng, _FRONTS).format(v=verb, V=verb.capitalize(), p=choose(rng, NAMES), P=choose(rng, POLITE), A=choose(rng, ASKING))  # fmt: skip
    if named in _ASKED and rng.random() < 0.6:
        front = choose(rng, _ASKS)
    if not rest or not rest[0].direct:
        return f"{front} {choose(rng, ('the', 'a', 'my', 'our', 'this'))} {noun}", rest
    head = rest.pop(0)
    if not head.free and rng.random() < 0.08:
        return f"{choose(rng, _PLAIN)} {head.direct}", rest
    adjective = next((part for part in rest if part.compound), None)
    if adjective is not None and rng.random() < 0.3:
        # "book a refundable seat for Mia", "show the weekly report on Norway".
        rest.remove(adjective)
        return f"{front} {choose(rng, ('the', 'the', 'a', 'my'))} {adjective.compound} {noun}{head.mention}", rest
    return _object(rng, front, verb, noun, head, rest), rest


def _object(rng: Random, front: str, verb: str, noun: str, head: Part, rest: list[Part]) -> str:
    """Write a verb with its first argument, at times with the next one, too, which is then taken from the rest."""
    kind = rng.random()
    other = rest[0] if rest and rest[0].direct and rest[0].again else None
    choice = "enum" in head.one.schema
    if other is not None and kind < 0.35 and (choice or other.one.schema["type"] in {"integer", "number"}):
        # "feed the otter 3 kilos", "3 kilos of hay", "the history of Norway".
        rest.pop(0)
        if choice:
            return f"{front} {choose(rng, ('the ', 'the ', ''))}{head.compound} of {other.direct}"
        return (
            f"{front} {head.direct} {other.direct}"
            if rng.random() < 0.6
            else f"{front} {other.direct} of {head.direct}"
        )
    if head.compound and kind < 0.5:
        return f"{front} {choose(rng, ('a', 'the', 'my'))} {head.compound} {noun}"
    if head.again is None or kind > 0.17:
        return f"{front} {head.direct}"
    if kind < 0.1:
        start = (
            head.direct[0].upper() + head.direct[1:] if head.direct.startswith(("the ", "my ", "our ")) else head.direct
        )
        return start if kind < 0.04 and not head.free else f"{start} {choose(rng, _STATES)}, {verb} it"
    return f"{front} the {noun}{head.mention}"


def _texts(rng: Random, split: Split, said: list[Part]) -> tuple[list[Part], str]:
    """Draw texts that the request ends with, and how they are said."""
    kind = rng.random()
    if kind < 0.1:
        two, tail = parts.cued(rng)
        return ([], "") if any(_alike(part, said) for part in two) or set.union(*(p.words for p in two)) == two[0].words else (two, tail)  # fmt: skip
    if kind < 0.38:
        timed = any(part.words & _TIMES for part in said)
        text = parts.span(rng, split, quoted=timed or rng.random() < 0.4)
        if not _alike(text, said):
            return [text], text.mention
    return [], ""


def _unsaid(rng: Random, split: Split) -> list[Part]:
    """Draw arguments that the request does not give."""
    found: list[Part] = []
    for _ in range(rng.choice((0, 0, 0, 1, 1, 2, 3))):
        part = _slot(rng, split) if rng.random() < 0.45 else choose(rng, _REST)(rng, split)
        if not _alike(part, found):
            found.append(part)
    return found


_QUESTIONS = ("can you", "could you", "would you", "will you", "hey can", "do you", "is there", "any", "where", "what", "how", "who", "are", "got")  # fmt: skip


def _ended(rng: Random, lead: str, mentions: list[str], tail: str) -> str:
    """Put a request together; nothing stands after a text without quotes but a full stop."""
    front = ""
    if (
        mentions
        and rng.random() < 0.1
        and mentions[0].startswith((" in ", " on ", " for ", " at ", " from ", " with "))
    ):
        front = mentions.pop(0).strip()
        small = lead.split(" ", 1)[0] in {
            "Let's",
            "We",
            "You",
            "It's",
            "Go",
            "Help",
            "The",
            "We'd",
            "Show",
            "Give",
            "Make",
        }
        lead = f"{front[0].upper()}{front[1:]}, {lead[0].lower() if small else lead[0]}{lead[1:]}"
    ask = lead + "".join(mentions) + tail
    if rng.random() < 0.1:
        ask = f"{expand(rng, choose(rng, BEFORE), s=sentence(rng), a=choose(rng, ADJECTIVES), n=choose(rng, NOUNS))} {ask}"
    if lead.lower().startswith(_QUESTIONS) and rng.random() < 0.6 and ask[-1] not in ".?!":
        return ask + "?"
    if tail:
        return ask + ("." if ask[-1] not in ".!?\"'”:" and rng.random() < 0.3 else "")
    return ask + choose(rng, ("", "", "", ".", ".", "!", ", please", ", please.", " please", ". Thanks!", ", thanks"))


def _defined(rng: Random, verbs: tuple[str, str], noun: str, said: list[Part], spare: list[Part], ask: str) -> Offer:
    """Define the tool: what the request says, what it does not, in any order."""
    named, spoken = verbs
    fields: list[Field] = []
    arguments: dict[str, Any] = {}
    several = sum(part.one.schema["type"] in {"integer", "number"} for part in (*said, *spare)) > 1
    for part in (*said, *spare):
        given = part not in spare
        for one in (part.one, *part.others):
            schema, vague = dict(one.schema), one.name.startswith("~")
            if rng.random() < 0.55 or (vague and (several or rng.random() < 0.5)):
                schema["description"] = expand(rng, one.about)
            name = styled(rng, one.name.lstrip("~"))
            if rng.random() < 0.04 and (unclear := choose(rng, VAGUE)) not in [field for field, _, _ in fields]:
                # Its description alone says what it is.
                schema["description"], name = expand(rng, one.about), unclear
            fields.append((name, schema, given and (part.free or rng.random() < 0.75)))
            if given:
                arguments[name] = one.value
    if rng.random() < 0.5:
        rng.shuffle(fields)
    arguments = {name: arguments[name] for name, _, _ in fields if name in arguments}
    name = expand(rng, "[{v}_{n}|{v}_{n}|{v}_{n}|{v}_{n}|{v}_{n}|{n}_{v}|{v}|{v}_{n}s|{v}_{m}_{n}]", v=named, n=noun.replace(" ", "_"), m=choose(rng, NOUNS))  # fmt: skip
    about = expand(rng, "[{V} [a|the|one] {n}|{V}s [a|the] {n}|{V} a {n}[ in the {m}| of the user| for somebody| by its {k}| of a {m}|]|{V} {n}s|[Use this to|Tool to|Call this to] {v} a {n}|{V} {n}][.||. Returns the {m}.|, and return its {m}]",
                   V=named.capitalize(), v=named, n=noun, m=choose(rng, NOUNS), k=fields[0][0] if fields else "name")  # fmt: skip
    about = re.sub(r"\b([Aa]) (?=[aeiou])", r"\1n ", about)
    words = {word for part in said for word in part.words if " " not in word}
    key = f"{named} {noun} {spoken} " + " ".join(sorted(words))
    return Offer(key, definition(rng, styled(rng, name), about, fields), ask, arguments, everyday=True)


@cache
def _meanings() -> dict[str, set[str]]:
    """Return for each verb all that mean the same, by the lines of verbs."""
    found: dict[str, set[str]] = {}
    for line in VERBS:
        ways = set(line.removeprefix("~").replace(" ; ", "|").split("|"))
        for way in ways:
            found[way] = found.get(way, set()) | ways
    return found


def _beside(
    rng: Random, split: Split, verbs: tuple[str, str], noun: str, shared: list[tuple[str, Message]]
) -> list[Tool]:
    """Define tools that do something else to the same thing, at times with the same argument."""
    taken = {*" ".join(verbs).split()}.union(*(_meanings().get(verb, ()) for verb in verbs))
    found: list[Tool] = []
    for verb in rng.sample(list(_NEAR), choose(rng, (1, 1, 2, 3))):
        if verb in taken or taken & set(_NEAR[verb].split()):
            continue
        own: dict[str, Field] = {}
        if rng.random() < 0.6:
            own = {name: (name, {"type": "string"} | schema, True) for name, schema in shared}
        for part in _unsaid(rng, split):
            for one in (part.one, *part.others):
                name = styled(rng, one.name.lstrip("~"))
                own.setdefault(name, (name, dict(one.schema), rng.random() < 0.6))
        about = expand(rng, "{V}[s|] [a|the] {n}[.|]", V=verb.capitalize(), n=noun)
        found.append(definition(rng, styled(rng, f"{verb}_{noun}".replace(" ", "_")), about, list(own.values())))
    return found
