"""The pieces of a request for a tool: each is an argument, and the ways to say its value.

Pieces are drawn one by one, so that any stands beside any other, in any order: what is learnt is to tell them apart by
their kinds, their units and the words beside them.
"""

# ruff: noqa: E501 - phrases read best unbroken

from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any

from demo_model.skills import values
from demo_model.skills.frame_words import CHOICES, GROUPS, KINDS, LABELS, PEOPLE, UNITS
from demo_model.skills.slots import BOOL, INT, LIST, NUMBER, TEXT, Argument
from demo_model.template import Message
from demo_model.text import ADJECTIVES, NOUNS, Split, choose, coin, expand, lines, scramble, sentence, word

Drawn = tuple[str, Any]  # a value as it is said, and as the call has it


@dataclass(slots=True)
class Part:
    """An argument of a tool, and how a request says its value."""

    one: Argument
    direct: str  # as the object of a verb: "the ficus", "ticket 12"
    mention: str  # added to a sentence: " for 12 hours"
    noun: str  # what the tool may be named after
    words: set[str]  # what tells this argument from the tool's others
    again: Callable[[], Drawn] | None = None  # draws another value
    free: bool = False  # only its place in the sentence tells what it is
    last: bool = False  # nothing may be said after it
    compound: str = ""  # before a noun: "20-minute"
    others: tuple[Argument, ...] = ()  # what the same words say, too


def thing(rng: Random, split: Split) -> Part:
    """Draw a thing of a kind; what nobody knows is the argument that is left."""
    group = choose(rng, GROUPS)
    free = rng.random() < 0.4
    kind = choose(rng, NOUNS) if free else choose(rng, group.split("|"))

    def again() -> Drawn:
        value = anything(rng) if free else choose(rng, KINDS[group])
        bare = value.removeprefix("the ")
        article = choose(rng, ("the ", "the ", "my ", "", "our ")) if bare.islower() and group[:5] != "topic" else ""
        return ("the " if bare != value else article) + bare, bare

    said, value = again()
    name = expand(rng, "[{k}|{k}|{k}|{k}_name|target_{k}|{k}]", k=kind)
    about = expand(rng, "[The|Which|Name of the] {k}[.||, e.g. {e}]", k=kind, e=anything(rng) if free else choose(rng, KINDS[group]))  # fmt: skip
    mention = expand(rng, "[ with {s}| with {s}| for {s}| on {s}| in {s}| from {s}| at {s}| to {s}| of {s}| using {s}|, {s}|, {k} {v}|, {k}: {v}| with the {k} {v}]", s=said, k=kind, v=value)  # fmt: skip
    return Part(Argument(name, about, TEXT, value), said, mention, kind, {kind, *group.split("|")}, again, free)


def things(rng: Random, split: Split) -> Part:
    """Draw several things of a kind, one after another, each with an article or without."""
    group = choose(rng, GROUPS)
    kind = choose(rng, group.split("|"))
    known = [one.removeprefix("the ") for one in KINDS[group]]

    def again() -> Drawn:
        found = rng.sample(known, rng.choice((2, 2, 3))) if rng.random() < 0.6 else [anything(rng) for _ in range(rng.choice((2, 2, 3, 4)))]  # fmt: skip
        # "A & B" would be two things.
        found = list(dict.fromkeys(one for one in found if "&" not in one and ":" not in one)) or [known[0]]
        article = choose(rng, ("the ", "", "")) if all(one.islower() for one in found) else ""
        said = [article + one for one in found]
        return values.join(rng, said) if len(said) > 1 else said[0], found

    said, value = again()
    name = expand(rng, "[{k}|{k}|{s}_list|{s}_names|list_of_{k}]", k=_plural(kind), s=kind)
    about = expand(rng, "[The|List of|Which] {k}[.|]", k=_plural(kind))
    mention = expand(rng, "[ with {s}| for {s}| in {s}|: {s}|, {k} {s}|, {k}: {s}| using {s}]", s=said, k=_plural(kind))
    return Part(Argument(name, about, LIST, value), said, mention, kind, {kind, *group.split("|")}, again)


def anything(rng: Random) -> str:
    """Name a thing that may be anything, with any letters."""
    kind = rng.random()
    if kind < 0.15:
        return scramble(rng)
    return expand(rng, "[{n}|{n}|{a} {n}|{a} {n}|{c}|{c}|{C}|{n} {m}|{C} {D}|{a} {b} {n}|{c}{k}|{C} {k}|{A} {N}|{c}-{n}|{C}'s {N}|{C}'s|The {A} {N}|{C} {L}. {D}|{N} & {M}|{L}. {C}|{N}: {M}|{c}_{n}]",
                  n=choose(rng, NOUNS), m=choose(rng, NOUNS), a=choose(rng, ADJECTIVES), b=choose(rng, ADJECTIVES), c=coin(rng), C=coin(rng).capitalize(), D=coin(rng).capitalize(),
                  N=choose(rng, NOUNS).capitalize(), M=choose(rng, NOUNS).capitalize(), A=choose(rng, ADJECTIVES).capitalize(), L=choose(rng, "ABCDEFGHJKLMNPRSTW"), k=rng.randint(1, 99))  # fmt: skip


def person(rng: Random, split: Split) -> Part:
    """Draw somebody who is something here: a patient, a driver, a reviewer."""
    role = choose(rng, PEOPLE)

    def again() -> Drawn:
        return values.same(values.person(rng, split))

    said, value = again()
    if role == "doctor" and rng.random() < 0.6 and not value.startswith("Dr"):
        said = value = f"Dr. {value.split()[-1]}"
    name = expand(rng, "[{k}|{k}|{k}_name|{k}_name|{k}_full_name]", k=role)
    mention = expand(rng, "[ for {v}| for {v}| to {v}| with {v}| for the {k} {v}|, {k} {v}|, the {k} is {v}| for {k} {v}|, {k}: {v}| with {v} as the {k}]", v=value, k=role)  # fmt: skip
    about = f"[The|Name of the|Who is the] {role}[.|]"
    return Part(Argument(name, about, TEXT, value), said, mention, role, {role, "person"}, again)


def labelled(rng: Random, split: Split) -> Part:
    """Draw what has a number, a code or a name after its kind: "ticket 12", "room Everest", "the crm database"."""
    noun = choose(rng, LABELS) if rng.random() < 0.6 else choose(rng, NOUNS)
    kind = rng.random()
    text = rng.random() < 0.35

    def draw() -> Any:
        if kind < 0.4:
            number = rng.randint(1, 10 ** rng.randint(1, 6))
            return str(number) if text else number
        if kind < 0.65:
            return values.code(rng)[1]
        if kind < 0.72:
            return expand(rng, "[v|]{a}.{b}[.{c}|-rc{c}|]", a=rng.randint(0, 20), b=rng.randint(0, 40), c=rng.randint(0, 9))  # fmt: skip
        return anything(rng) if kind < 0.8 else choose(rng, (coin(rng, 2).capitalize(), coin(rng), choose(rng, NOUNS).capitalize(), choose(rng, "ABCDEFGH")))  # fmt: skip

    after = kind >= 0.8 and rng.random() < 0.4

    def again() -> Drawn:
        value = draw()
        if after:
            return f"the {value} {noun}", value
        return expand(rng, "[{n} {v}|{n} {v}|the {n} {v}|my {n} {v}|{n} #{v}|{n} number {v}|{n} no. {v}]" if kind < 0.65 else "[{n} {v}|{n} {v}|the {n} {v}|our {n} {v}|the {n} called {v}]", n=noun, v=value), value  # fmt: skip

    said, value = again()
    names = "[{n}_id|{n}_id|{n}|{n}_number|{n}_no|id]" if kind < 0.4 else "[{n}|{n}|{n}_name|{n}_id|{n}_code|name]"
    mention = expand(rng, "[ in| on| for| from| at| of| to| with| on| for|,] {s}", s=said)
    about = f"[The|Which|Name or number of the|Identifier of the] {noun}[.|]"
    name = expand(rng, names, n=noun)
    schema = INT if isinstance(value, int) else TEXT
    return Part(Argument(name, about, schema, value), said, mention, noun, {noun}, again)


def amount(rng: Random, split: Split) -> Part:
    """Draw a number with its unit, which the argument's name or description tells; or a number of any things."""
    if rng.random() < 0.7:
        said_units, names = choose(rng, UNITS)
        unit, name = choose(rng, said_units), choose(rng, names)
        first = said_units[0]
    else:
        first = unit = _plural(choose(rng, NOUNS))
        said_units = [unit]
        name = expand(rng, "[{u}|{u}|num_{u}|number_of_{u}|how_many_{u}|{s}_count|~amount|~quantity]", u=unit, s=unit.removesuffix("s"))  # fmt: skip
    # Only what is measured may have decimals.
    whole = first in _COUNTED or len(said_units) == 1 or rng.random() < 0.55

    def again() -> Drawn:
        if whole:
            value: float
            shown, value = values.count(rng, choose(rng, (9, 60, 999, 5000)))
        else:
            shown, value = values.decimal(rng, choose(rng, (9, 99, 2000)), rng.choice((1, 2)))
        if value == 1 and len(unit) > 3:
            shown, value = "2", 2
        if unit in {"€", "USD"} and not shown.isalpha():
            return f"{'€' if unit == '€' else '$'}{shown}", value
        return (f"{shown}{unit}" if unit in {"%", "°C", "°"} or (len(unit) < 3 and shown[-1].isdigit() and rng.random() < 0.3) else f"{shown} {unit}"), value  # fmt: skip

    said, value = again()
    vague = name.startswith("~")
    about = expand(rng, "[How many {u}|Number of {u}|In {u}|The value in {u}|{w} in {u}][.|]" if vague or rng.random() < 0.5 else "[The |]{w}[.|]", u=first, w=name.lstrip("~").replace("_", " "))  # fmt: skip
    mention = expand(rng, "[ for {s}| for {s}| with {s}| at {s}| to {s}| by {s}| of {s}|, {s}|, {s}| over {s}]", s=said)
    single = said[:-1] if unit.endswith("s") and len(unit) > 3 else ""
    compound = single.replace(" ", choose(rng, ("-", " "))) if single.count(" ") == 1 else ""
    schema = (INT if rng.random() < 0.75 else NUMBER) if whole else NUMBER
    return Part(Argument(name, about, schema, value), said, mention, choose(rng, NOUNS), {*said_units, name.lstrip("~"), "vague" if vague else name}, again, compound=compound)  # fmt: skip


_COUNTED = {
    "times",
    "people",
    "pieces",
    "rows",
    "points",
    "coins",
    "laps",
    "replicas",
    "results",
    "calories",
    "pixels",
    "rpm",
}


def _plural(noun: str) -> str:
    return f"{noun}es" if noun.endswith(("s", "x", "ch", "sh")) else f"{noun[:-1]}ies" if noun.endswith("y") and noun[-2] not in "aeo" else f"{noun}s"  # fmt: skip


def chosen(rng: Random, split: Split) -> Part:
    """Draw one of a schema's choices, said in any case, with a word for what it is or without."""
    options = choose(rng, CHOICES) if rng.random() < 0.6 else rng.sample(choose(rng, (NOUNS, ADJECTIVES)), rng.randint(2, 5))  # fmt: skip
    if rng.random() < 0.1:
        options = [coin(rng, 2) for _ in range(rng.randint(2, 4))]
    options = list(dict.fromkeys(options))
    rng.shuffle(options)
    styles: tuple[Callable[[str], str], ...] = (str, str, str, str, str.upper, str.capitalize)
    style = choose(rng, styles)
    others: tuple[Callable[[str], str], ...] = (str, str, str.lower, str.upper, str.capitalize)
    other = choose(rng, others)
    listed = [style(option) for option in options]
    name = expand(rng, "[mode|type|kind|category|method|style|level|option|variant|{n}|{n}|{n}_type|{n}_mode]", n=choose(rng, NOUNS))  # fmt: skip

    def again() -> Drawn:
        value = choose(rng, listed)
        said = other(value) if rng.random() < 0.4 else value.lower()
        return said.replace("_", " "), value

    said, value = again()
    mention = expand(rng, "[ in {s}| by {s}| as {s}| {s}|, {s}|, {s}|, {s} please| with {w} {s}|, {w} {s}|, {w}: {s}| and use {s}| on {s}| for {s}]", s=said, w=name.replace("_", " "))  # fmt: skip
    noun = choose(rng, NOUNS)
    direct = expand(rng, "[the {s} {n}|a {s} {n}|{s} {n}s|my {s} {n}]", s=said, n=noun)
    schema: Message = {"type": "string", "enum": listed}
    words = {name, *(option.lower() for option in options)}
    return Part(Argument(name, "[The |Which |]{w}[.|]".replace("{w}", name.replace("_", " ")), schema, value), direct, mention, noun, words, compound=said)  # fmt: skip


_QUALITIES = [
    "urgent",
    "crewed",
    "private",
    "vaccinated",
    "verbose",
    "encrypted",
    "admin",
    "refundable",
    "paid",
    "insured",
    "archived",
    "locked",
    "public",
    "vegetarian",
    "waterproof",
    "automatic",
    "recurring",
    "optional",
    "signed",
    "fragile",
    "heated",
    "shared",
    "compressed",
    "mandatory",
    "frozen",
    "manual",
    "silent",
    "visible",
    "hidden",
    "active",
    "anonymous",
]


def flag(rng: Random, split: Split) -> Part:
    """Draw what is so or not so."""
    quality = choose(rng, _QUALITIES) if rng.random() < 0.6 else choose(rng, ADJECTIVES)
    value = rng.random() < 0.6
    name = expand(rng, "[{q}|{q}|is_{q}|make_{q}|{q}_only]", q=quality)
    yes = "[, {q}|, it is {q}| and make it {q}|, {q} please|, it should be {q}| as {q}|, and it's {q}|, {q}: yes]"
    no = "[, not {q}|, but not {q}|, it isn't {q}|, it should not be {q}|, {q}: no| and it need not be {q}|, no need to make it {q}|, non-{q}]"
    mention = expand(rng, yes if value else no, q=quality)
    about = f"[Whether it is {quality}|{quality.capitalize()} or not|True if {quality}][.|]"
    return Part(Argument(name, about, BOOL, value), "", mention, quality, {quality}, compound=quality if value else "")


_CLAUSES = lines("""
[the|my|our|this] [{a} |]{n} [is|was|will be|seems|gets] [too |very |not |]{a}[ and {b}|]
[the|my|our] {n} [does not|doesn't|won't|can't] [start|work|open|arrive|connect|fit|move]
[{n} {m}|{N} {m}|{a} {n} {m}|{n} for the {m}|{n} and {m}|{N} of {C}|{n} {m} {k}|{C}: {n} {m}|{N} {m} v{k}|{k} {n}s]
[buy|fix|call|bring|check|clean|send|paint|order|renew|find|repair|replace] [the|a|my|new|some|two|] [{a} |]{n}[s|] [for|with|in|from|under|behind|and] [the|my|our] [{b} |]{m}
[I|we] [will be|am|are|have been] {k} minutes [late|early]
[{N}|{C}] [arrived|is|came back|was delivered] {a}[, please {v} it|]
[no|missing|wrong|broken|lost|late|another] {n}[ in the {m}| of {C}||]
[{n}|{a} {n}s] [in|near|from|about|without] [{C}|the {m}|{a} {m}s]
[how|where|why|when] [to find|to clean|do I get|is] [the|a] {a} {n}[ in {C}|]
[we|they|you] [need|want|lost|sold|found] [{k}|a|the|more] [{a} |]{n}s, [{b} |]{m}s and {C}
""")


def prose(rng: Random) -> str:
    """Write any text of one word to fifteen."""
    kind = rng.random()
    if kind < 0.12:
        return " ".join(word(rng) for _ in range(rng.randint(1, 9))).replace('"', "")
    if kind < 0.2:
        return sentence(rng).rstrip(".")
    text = expand(rng, choose(rng, _CLAUSES), n=choose(rng, NOUNS), m=choose(rng, NOUNS), a=choose(rng, ADJECTIVES), b=choose(rng, ADJECTIVES), k=rng.randint(2, 60),
                  N=choose(rng, NOUNS).capitalize(), C=coin(rng, 2).capitalize(), v=choose(rng, ("check", "move", "keep", "read")))  # fmt: skip
    return text if rng.random() < 0.5 else text[0].upper() + text[1:]


# The names of a text, and the ways to say it: in quotes anywhere, or without at the end.
_SPANS = lines("""
message|text|body|content|msg ; [ saying {q}| that says {q}| with the {w} {q}| and write {q}|: {q}| with {w} {q}] ; [ saying {v}|: {v}| that {v}| and tell them {v}| with the {w} {v}|, {w}: {v}]
subject|title|headline|heading|name|label|caption ; [ called {q}| titled {q}| with the {w} {q}|, {w} {q}| named {q}| with {w} {q}] ; [ called {v}| titled {v}| with the {w} {v}|, {w} {v}|: {v}| named {v}]
reason|explanation|justification|cause ; [ because {q}|, {w}: {q}| with the {w} {q}] ; [ because {v}| since {v}|, the {w} is that {v}|, {w}: {v}|, {w} {v}]
comment|note|reference|remark|memo|description|details|instructions ; [ with the {w} {q}|, {w} {q}| and the {w} {q}|, {w}: {q}] ; [ with the {w} {v}|, {w} {v}|, {w}: {v}| and add the {w} {v}]
query|search|search_text|keywords|question|phrase ; [ for {q}| about {q}| with the {w} {q}] ; [ for {v}| about {v}|: {v}|, {w} {v}]
""")


def span(rng: Random, split: Split, quoted: bool) -> Part:
    """Draw a text of any length: in quotes, or all that follows to the end."""
    names, within, bare = choose(rng, _SPANS).split(" ; ")
    name = choose(rng, names.split("|"))
    text = prose(rng)
    if quoted:
        text = expand(rng, "{t}[|||.|!|?|...| :{c}:]", t=text, c=coin(rng, 1))
    marks = choose(rng, ('"{}"', '"{}"', "“{}”", "'{}'"))
    shown = ('"{}"' if "'" in text else marks).format(text)
    mention = expand(rng, within if quoted else bare, q=shown, v=text, w=name.replace("_", " "))
    about = "[The |]{w}[.|]".replace("{w}", name.replace("_", " "))
    return Part(Argument(name, about, TEXT, text), shown if quoted else text, mention, choose(rng, NOUNS), {*names.split("|")}, last=not quoted)  # fmt: skip


def cued(rng: Random) -> tuple[list[Part], str]:
    """Draw two or three texts without quotes, each after the word of its argument; return also how they are said."""
    lists = rng.sample(_SPANS, 2)
    parts = []
    for line in lists:
        name = choose(rng, line.split(" ; ")[0].split("|"))
        text = prose(rng)
        parts.append(Part(Argument(name, f"[The |]{name}[.|]", TEXT, text), text, "", name, {*line.split(" ; ")[0].split("|")}, last=True))  # fmt: skip
    link = choose(rng, ("{w} {v}", "{w} {v}", "the {w} {v}", "{w}: {v}", "{w} is {v}"))
    said = [link.replace("{w}", part.one.name.replace("_", " ")).replace("{v}", part.one.value) for part in parts]
    start = (
        choose(rng, (" with ", " with ", ", ", " using ", " where "))
        if ":" not in link and " is " not in link
        else ", "
    )
    return parts, start + choose(rng, (" and ", ", ", ", and ")).join(said)
