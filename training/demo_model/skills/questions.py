"""Questions that a tool answers: is it free, who is on, which ones run, when does it open, which is larger.

The value stands in the middle of a question, or at its end, and never is a word that asks. Where a question names
nothing that the tool could look for, the call has no arguments.
"""

# ruff: noqa: E501 - phrases read best unbroken

import re
from collections.abc import Callable
from random import Random

from demo_model.skills import situated, values
from demo_model.skills.assembled import argument, assembled, phrased
from demo_model.skills.define import Offer
from demo_model.skills.question_words import (  # fmt: skip
    ATTRIBUTES,
    COMPARE,
    COMPARED,
    DOERS,
    DUTIES,
    IS,
    LISTED,
    OPEN,
    PAIRED,
    PERSON_COMPARE,
    STATES,
    STOCKED,
    TIMES,
    WHICH,
    WHO,
    WHO_CARES,
    WHO_PLAYS,
    WHO_TEACHES,
)
from demo_model.skills.slots import BOOL, INT, NUMBER, TEXT, Argument
from demo_model.skills.subjects import Subject, subject
from demo_model.template import Message
from demo_model.text import ADJECTIVES, NOUNS, Split, choose, expand, wording

_DAYS = "date|day|on_date|when|on|for_date"


def _when(rng: Random, chance: float, past: bool = False) -> tuple[str, list[Argument], list[Argument]]:
    """Draw a day that a question is about; return how it is said, and an argument that is given or left out."""
    said, value = values.day(rng)
    if past and (said == value or rng.random() < 0.3):
        said = value = expand(rng, "[yesterday|last night|last {d}|the day before yesterday|last week|yesterday evening|last weekend]", d=choose(rng, values.DAYS))  # fmt: skip
    one = argument(rng, _DAYS, value, about="[The day|Date|Which day][.|]")
    if rng.random() < chance:
        return f" {said}", [one], []
    return "", [], [one] if rng.random() < 0.6 else []


def _about(rng: Random, split: Split, kinds: str) -> tuple[Subject, Argument]:
    found = subject(rng, split, kinds)
    return found, argument(rng, found.names, found.value, found.schema)


def _noun(rng: Random) -> str:
    """Draw a noun whose plural has an s."""
    while True:
        noun = choose(rng, NOUNS)
        if not noun.endswith(("s", "x", "ch", "sh", "y", "z", "fe", "lf", "fish", "ife", "mouse")):
            return noun


def states(rng: Random, split: Split) -> Offer:
    """Ask whether something is so."""
    kinds, names, about, preds, timed = choose(rng, STATES).split(" ; ")
    found, one = _about(rng, split, kinds)
    said, given, left = _when(rng, 0.45 if timed == "yes" else 0)
    stocked = "stock" in names and rng.random() < 0.3
    ask = expand(rng, wording(rng, STOCKED if stocked else IS, split), s=found.said, p=choose(rng, preds.split("|")), w=said)  # fmt: skip
    return assembled(rng, names.replace("{n}", found.noun), about.replace("{n}", found.noun), [one, *given], left if timed == "yes" else [], phrased(rng, ask, question=_asks(ask)))  # fmt: skip


_ASKING = re.compile(
    r"(?i)^(?:is|are|who|whose|which|what|when|where|how|until|till|at what|from when|since|do|does|did|can|could|any|has|have|will|won't|isn't|on what|in which|by when|to what|with|as whom|whom|am|got|anybody|anyone|anything|between)\b|, who|, which|, what|, where|, how|- who|: who|, is it|- is it"
)


def _asks(ask: str) -> bool:
    return _ASKING.search(ask) is not None


def duties(rng: Random, split: Split) -> Offer:
    """Ask who does, plays or teaches something somewhere."""
    names, about, keys, places = choose(rng, DUTIES).split(" ; ")
    place = expand(rng, f"[{places}]", x=_noun(rng), y=_noun(rng), a=choose(rng, ADJECTIVES), V=subject(rng, split, "venue").value)  # fmt: skip
    pattern = f"[{WHO_PLAYS}]" if "venue" in keys else f"[{WHO_TEACHES}]" if "course" in keys else wording(rng, WHO if "duty" in keys else WHO_CARES, split)  # fmt: skip
    said, given, left = _when(rng, 0.45)
    ask = expand(rng, pattern, s=place, w=said)
    if said and said not in ask:
        given = []
    one = argument(rng, keys, re.sub("^(the|our) ", "", place))
    return assembled(rng, names, about, [one, *given], left, phrased(rng, ask, question=_asks(ask)))


def doers(rng: Random, split: Split) -> Offer:
    """Ask who does something to one thing."""
    names, about, verbs = choose(rng, DOERS).split(" ; ")
    found, one = _about(rng, split, "thing code title numbered goods" if "made" not in verbs else "thing title")
    ask = expand(rng, "[Who|who|Who|Tell me who|Do you know who|I need to know who|Any idea who] {v} {s}[| now|]", v=choose(rng, verbs.split("|")), s=found.said)  # fmt: skip
    return assembled(rng, names.replace("{n}", found.noun), about.replace("{n}", found.noun), [one], [], phrased(rng, ask, question=_asks(ask)))  # fmt: skip


def singular(plural: str) -> str:
    """Return one of several."""
    if plural.endswith("ies"):
        return plural[:-3] + ("y" if plural != "movies" else "ie")
    return plural[:-2] if plural.endswith(("ches", "shes", "buses")) else plural.removesuffix("s")


def listed(rng: Random, split: Split) -> Offer:
    """Ask which ones there are at a place."""
    plurals, names, about, preds = choose(rng, LISTED).split(" ; ")
    plural = choose(rng, plurals.split("|")).replace("{y}", _noun(rng))
    single = singular(plural).replace(" ", "_")
    kind = choose(rng, ("venue", "city", "room", "numbered"))
    found, one = _about(rng, split, kind)
    said, given, left = _when(rng, 0.45)
    ask = expand(
        rng,
        wording(rng, WHICH, split),
        ys=plural,
        i="at" if kind in {"venue", "numbered"} else "in",
        s=found.said,
        p=choose(rng, preds.split("|")),
        w=said,
    )
    ask = ask[0].upper() + ask[1:]
    return assembled(rng, names.replace("{y}", single), about.replace("{y}", single), [one, *given], left, phrased(rng, ask, question=_asks(ask)))  # fmt: skip


def times(rng: Random, split: Split) -> Offer:
    """Ask when something opens, starts or leaves, in a city or on a day."""
    asks, names, about, kind = choose(rng, TIMES).split(" ; ")
    found, one = _about(rng, split, kind)
    place = values.place(rng, split)
    where = argument(rng, "city|town|location|in_city|where", place)
    placed = kind != "code" and rng.random() < 0.5
    said, given, left = _when(rng, 0.4)
    ask = expand(rng, wording(rng, _ways(asks), split), s=found.said, w=said, **{"in": f" in {place}" if placed else ""})  # fmt: skip
    ask = ask.replace(" on on ", " on ")
    spared = [*left, *([where] if not placed and rng.random() < 0.4 else [])]
    return assembled(rng, names.replace("{n}", found.noun), about, [one, *([where] if placed else []), *given], spared, phrased(rng, ask, question=_asks(ask)))  # fmt: skip


def _ways(text: str) -> list[str]:
    """Split alternatives at the bars outside of brackets."""
    found, depth = [""], 0
    for letter in text:
        depth += (letter == "[") - (letter == "]")
        found = [*found, ""] if letter == "|" and not depth else [*found[:-1], found[-1] + letter]
    return found


_WAYS = {line: _ways(line.split(" ; ")[1]) for line in ATTRIBUTES}


def attributes(rng: Random, split: Split) -> Offer:
    """Ask for a quality of something: a tool for this quality, or one to which the quality is told by its choices."""
    line = choose(rng, ATTRIBUTES)
    keys, _, kinds = line.split(" ; ")
    found, one = _about(rng, split, kinds)
    noun = _noun(rng)
    named = [key.replace("{x}", noun) for key in keys.split("|")]
    owner = f"{found.said}'s" if not found.said.endswith("s") else f"{found.said}'"
    ask = expand(rng, wording(rng, _WAYS[line], split), s=found.said, x=noun, g=owner)
    shape = rng.random()
    said = [one]
    if shape < 0.3:
        others = [choose(rng, choose(rng, ATTRIBUTES[:14]).split(" ; ")[0].split("|")) for _ in range(rng.choice((1, 2, 2, 3)))]  # fmt: skip
        mine = named[0]
        options = [mine, *(other for other in dict.fromkeys(others) if other not in named and not _near(other, mine))]
        rng.shuffle(options)
        field = argument(rng, "field|attribute|property|what|info|detail|aspect", mine, {"type": "string", "enum": options})  # fmt: skip
        said.append(field)
        names = f"{found.noun}_info|get_{found.noun}|lookup_{found.noun}|{found.noun}_details|about_{found.noun}|{found.noun}_data"
        about = f"Tell something about a {found.noun}."
    else:
        names = "|".join(f"{key}_of|get_{key}|{found.noun}_{key}|lookup_{key}|find_{key}|{key}" for key in named[:2])
        about = f"Tell the {named[0].replace('_', ' ')} of a {found.noun}."
    return assembled(rng, names, about, said, [], phrased(rng, ask, question=_asks(ask)))


# Qualities that one question could mean.
_NEAR = ["address location position phone phone_number extension contact email mail_address", "job role profession department workplace team title owner holder keeper address location position", "length size height population inhabitants", "age year_built birthday", "deadline due_date end_date"]  # fmt: skip


def _near(one: str, other: str) -> bool:
    return any(one in group.split() and other in group.split() for group in _NEAR)


def compared(rng: Random, split: Split) -> Offer:
    """Ask which of two is more of something; the call has them in the order in which they are said."""
    words, names, kinds = choose(rng, COMPARED).split(" ; ")
    kind = choose(rng, kinds.split())
    schema: Message = TEXT
    if kind == "number":
        decimal = rng.random() < 0.4
        one, two = ((values.decimal(rng, choose(rng, (9, 99)), 2) if decimal else values.same(rng.randint(0, 10 ** rng.randint(1, 5)))) for _ in range(2))  # fmt: skip
        schema = NUMBER if decimal else choose(rng, (INT, NUMBER))
    else:
        first, second = subject(rng, split, kind), subject(rng, split, kind)
        one, two = (first.said, first.value), (second.said, second.value)
    if one == two:
        return compared(rng, split)
    word = choose(rng, words.split("|"))
    pattern = f"[{PERSON_COMPARE}]" if kind == "person" and rng.random() < 0.7 else wording(rng, COMPARE, split)
    ask = expand(rng, pattern, a=one[0], b=two[0], c=word)
    keys = choose(rng, ("a b", "first second", "one other", "x y", "left right", "item1 item2", "value_a value_b", "option_a option_b", "p q", "thing_1 thing_2", "left_one right_one")).split()  # fmt: skip
    said = [Argument(keys[0], "[The first one|First|The one to compare][.|]", schema, one[1]), Argument(keys[1], "[The second one|Second|The other one][.|]", schema, two[1])]  # fmt: skip
    about = f"Tell which of two is {words.split('|', maxsplit=1)[0]}."
    left = [argument(rng, "verbose|explain|with_difference", True, BOOL)] if rng.random() < 0.15 else []
    return assembled(rng, names, about, said, left, phrased(rng, ask, question=_asks(ask)))


_MONEY = "EUR USD GBP JPY CHF SEK NOK DKK PLN CZK INR AUD CAD MXN euros dollars pounds yen francs rupees pesos crowns".split()  # fmt: skip  # noqa: SIM905


def _one_of(rng: Random, split: Split, kind: str) -> str:
    if kind == "team":
        return str(situated.KINDS["team"][1](rng, split)[1]).removeprefix("the ")
    if kind == "money":
        return choose(rng, _MONEY)
    return values.place(rng, split) if kind == "city" else values.person(rng, split)


_PAIR_WAYS = {line: _ways(line.split(" ; ")[5]) for line in PAIRED}


def paired(rng: Random, split: Split) -> Offer:
    """Ask about two at once: who won between them, how far apart they are."""
    line = choose(rng, PAIRED)
    names, about, firsts, seconds, kind, _ = line.split(" ; ")
    one, two = _one_of(rng, split, kind), _one_of(rng, split, kind)
    while one.lower() == two.lower():
        two = _one_of(rng, split, kind)
    said, given, left = _when(rng, 0.4, past="final_score" in names)
    ask = expand(rng, wording(rng, _PAIR_WAYS[line], split), a=one, b=two, w=said)
    timed = "{w}" in line
    index = choose(rng, range(min(len(firsts.split("|")), len(seconds.split("|")))))
    keys = firsts.split("|")[index], seconds.split("|")[index]
    pair = [argument(rng, keys[0], one), argument(rng, keys[1], two)]
    return assembled(rng, names, about, [*pair, *(given if said and ask.find(said.strip()) > 0 else [])], left if timed else [], phrased(rng, ask, question=_asks(ask)))  # fmt: skip


_OPEN_WAYS = {line: _ways(line.split(" ; ")[3]) for line in OPEN}


def opened(rng: Random, split: Split) -> Offer:
    """Ask for what needs no argument; the tool has none, or only such as nobody must give."""
    line = choose(rng, OPEN if rng.random() < 0.7 else OPEN[1:2])
    names, about, filters, _ = line.split(" ; ")
    noun = _noun(rng)
    ask = expand(rng, wording(rng, _OPEN_WAYS[line], split), x=noun)
    left: list[Argument] = []
    for key in rng.sample(filters.split(), rng.choice((0, 0, 1, 2, 2, 3)) if len(filters.split()) > 2 else 1):
        schema = INT if key in {"limit", "max_price", "hours"} else BOOL if key in {"vegan", "verbose"} else TEXT
        left.append(argument(rng, key, None, schema, f"[Only of this {key}|Optional {key}|The {key}, if any|Filter by {key}][.|]"))  # fmt: skip
    return assembled(rng, names.replace("{x}", noun), about.replace("{x}", noun), [], left, phrased(rng, ask, question=_asks(ask)), spare=rng.random() < 0.3)  # fmt: skip


Maker = Callable[[Random, Split], Offer]
MAKERS: tuple[Maker, ...] = (states, states, duties, doers, listed, times, attributes, attributes, compared, paired, opened)  # fmt: skip


def asked(rng: Random, split: Split) -> Offer:
    """Define a tool that answers a question, and ask the question."""
    return choose(rng, MAKERS)(rng, split)
