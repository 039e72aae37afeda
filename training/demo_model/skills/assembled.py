"""Put a tool together from what a request says, what it might have said, and what nobody says."""

# ruff: noqa: E501, PLR0917 - phrases read best unbroken

import re
from collections.abc import Sequence
from random import Random
from typing import Any

from demo_model.skills.actions import BEFORE, POLITE
from demo_model.skills.define import Offer, definition, styled
from demo_model.skills.situated import SPARE, VAGUE
from demo_model.skills.slots import TEXT, Argument
from demo_model.template import Message, Tool
from demo_model.text import ADJECTIVES, NOUNS, choose, coin, expand, sentence

# Verbs that no question and nothing that somebody tells can mean: tools beside the right one.
_OTHER_VERBS = "delete rename move paint print lock resize rotate merge split clone archive mute polish weld tow refuel stamp translate".split()  # noqa: SIM905
_PLEASE = " [please|pls|thanks|Thanks!|Thank you.|plz|thx|Cheers|please?|:)|if you can|many thanks]"


def argument(rng: Random, names: str, value: Any, schema: Message = TEXT, about: str = "") -> Argument:
    """Make an argument with one of the names; its description has another one, unless ``about`` is given."""
    listed = names.split("|")
    other = choose(rng, [name for name in listed if len(name) > 2] or listed).replace("_", " ")
    return Argument(choose(rng, listed), about or f"[The |The |]{other}[.|]", schema, value)


def assembled(
    rng: Random, names: str, about: str, said: Sequence[Argument], unsaid: Sequence[Argument], ask: str, spare: bool = True
) -> Offer:  # fmt: skip
    """Define a tool whose call has what is said; ``names`` are its names, of which all say what it may be meant for."""
    fields: dict[str, tuple[str, Message, bool]] = {}
    arguments: dict[str, Any] = {}
    needed = rng.random() < 0.75
    taken = {one.name for one in (*said, *unsaid)}
    for index, one in enumerate((*said, *unsaid)):
        given, name = index < len(said), one.name
        schema = dict(one.schema)
        if rng.random() < 0.55:
            schema["description"] = expand(rng, one.about)
        if rng.random() < 0.03 and given and (vague := choose(rng, VAGUE)) not in taken:
            schema["description"], name = expand(rng, one.about), vague
            taken |= {vague}
        name = styled(rng, name)
        if name.lower() in {field.lower() for field in fields}:
            if not given:
                continue
            name += "_2"
        fields[name] = (name, schema, given and needed)
        if given:
            arguments[name] = one.value
    order = list(fields.values())
    if spare and rng.random() < 0.25:
        order += _spare(rng, f"{names} {about} {ask} {' '.join(fields)}".lower(), {field.lower() for field in fields})
    if rng.random() < 0.3:
        rng.shuffle(order)
    arguments = {name: arguments[name] for name, _, _ in order if name in arguments}
    ask = restored(ask, arguments)
    about = re.sub(r"\b([Aa]) (?=[aeiou])", r"\1n ", about)
    tool = definition(rng, styled(rng, choose(rng, names.split("|"))), about, order)
    return Offer(names.replace("|", " ").replace("_", " "), tool, ask, arguments, everyday=True)


def restored(ask: str, arguments: dict[str, Any]) -> str:
    """Give a value with which a request begins its own capital or small letter back."""
    for value in arguments.values():
        if isinstance(value, str) and value and value not in ask:
            ask = ask.replace(value[0].swapcase() + value[1:], value, 1)
    return ask


def _spare(rng: Random, known: str, used: set[str]) -> list[tuple[str, Message, bool]]:
    name, schema = choose(rng, SPARE)
    words = [*name.split("_"), *schema.get("enum", ())]
    if name in used or any(word.rstrip("s") in known for word in words if len(word) > 2):
        return []
    return [(styled(rng, name), dict(schema), False)]


_PARTS = re.compile(
    r"^(?:from|to|which|on|for|in|old|new|the|at)_|_?(?:id|number|no|name|code|title)$|^(?:arg|param|value|input|data|p)?\d*$"
)


_ASKING = {"what", "which", "who", "where", "when", "how_many", "first", "second", "one", "other", "left", "right"}


def beside(rng: Random, offer: Offer) -> None:
    """Put tools that do something else to the same thing beside the right one."""
    amount = choose(rng, (0, 0, 0, 1, 1, 2))
    if not amount:
        return
    first = _PARTS.sub("", re.sub("(?<=[a-z])(?=[A-Z])", "_", next(iter(offer.arguments), "")).lower())
    noun = first if re.fullmatch(r"[a-z]{3,}(_[a-z]{2,})*", first) and first not in _ASKING else choose(rng, NOUNS)
    for verb in rng.sample(_OTHER_VERBS, amount):
        if verb in offer.key or verb in offer.ask.lower():
            continue
        key = choose(rng, (noun, f"{noun}_id", "name", "id", "target"))
        fields: list[tuple[str, Message, bool]] = [(key, dict(TEXT), True)]
        tool = definition(rng, styled(rng, f"{verb}_{noun}"), f"{verb.capitalize()} {article(noun)}.", fields)
        if tool["function"]["name"] not in {offer.name, *(_name(one) for one in offer.beside)}:
            offer.beside.append(tool)


def _name(tool: Tool) -> str:
    return str(tool["function"]["name"])


def article(noun: str) -> str:
    """Put an indefinite article before a noun."""
    spoken = noun.replace("_", " ")
    return f"{'an' if spoken[:1] in 'aeiou' else 'a'} {spoken}"


def phrased(rng: Random, ask: str, question: bool = False, after: bool = True, before: bool = True) -> str:
    """Finish a request: its mark, its first letter, and at times words around it that ask nothing.

    ``after`` and ``before`` say that words may stand there; what begins with a value keeps its first letter.
    """
    ask = ask.strip()
    plain = re.match(r"[A-Z][a-z']* ", ask) is not None and ask.split(" ", 1)[0] in STARTS
    style = rng.random()
    if plain and style < 0.35 and not ask.startswith(("I ", "I'")):
        ask = ask[0].lower() + ask[1:]
        if style < 0.08:
            ask = f"{choose(rng, POLITE)} {ask}"
    if ask[-1] not in ".?!":
        ask += choose(rng, ("?", "?", "?", "")) if question else choose(rng, (".", "", "", "!")) if after else ""
    if before and rng.random() < 0.1:
        ask = f"{expand(rng, choose(rng, BEFORE), s=sentence(rng), a=choose(rng, ADJECTIVES), n=choose(rng, NOUNS))} {ask}"
    if after and rng.random() < 0.1 and "please" not in ask:
        ask += ("," if ask[-1] not in ".?!" and rng.random() < 0.5 else "") + expand(rng, _PLEASE)
    return ask


# Words with which the requests that are put together begin, and whose capital is only that of a sentence.
STARTS = set(
    "Is Are Who Whose Which What What's When Where How Until At Do Does Can Could Check Tell Show Any Has Have Will Isn't From "  # noqa: SIM905
    "Note Log Write Keep Save Record For My Our The Put Rate Give Set Book Order Get Find Make Play Send Add Please Was Did Were "
    "Between Compare In On Mark Enter Store Remember Use Take Not Run Open Post Let Read Look Fetch Start".split()
)


def invented(rng: Random) -> str:
    """Draw a noun or a word that nobody knows."""
    return choose(rng, NOUNS) if rng.random() < 0.85 else coin(rng, 2)
