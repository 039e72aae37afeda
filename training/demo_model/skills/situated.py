"""Tools of everyday situations, asked for by what one wants; see ``situations`` for how a line is written."""

# ruff: noqa: E501, SIM905 - phrases read best unbroken

import re
from collections.abc import Callable, Mapping
from functools import cache
from random import Random
from typing import Any

from demo_model.skills import things, values
from demo_model.skills.define import Offer, definition, styled
from demo_model.skills.situations import SITUATIONS
from demo_model.skills.slots import BOOL, INT, LIST, NUMBER, TEXT
from demo_model.skills.values import Said, same
from demo_model.template import Message
from demo_model.text import ADJECTIVES, NOUNS, Split, choose, coin, expand, sentence, wording

_DOORS = ["front door", "back door", "garage door", "cellar door", "garden gate", "side entrance", "office door", "balcony door", "main gate", "shed", "stable", "door to the roof"]  # fmt: skip
_LAMPS = ["desk lamp", "floor lamp", "hall light", "bedside lamp", "porch light", "ceiling light", "lamp by the sofa", "fairy lights", "kitchen spots", "garden lantern", "reading light", "stairs light"]  # fmt: skip
_SURFACES = ["kitchen ceiling", "north wall", "garden fence", "hallway door", "window frames", "old bench", "bathroom wall", "garage floor", "bookshelf", "staircase", "balcony rail", "shed roof", "dining table"]  # fmt: skip
_PLOTS = ["rose bed", "tomatoes", "front lawn", "herb garden", "apple trees", "hedge", "strawberries", "flower pots", "greenhouse", "vegetable patch", "back lawn", "palm tree"]  # fmt: skip
_WISHES = ["no onions", "extra cheese", "without salt", "well done", "no ice", "gluten-free", "very spicy", "sauce on the side", "half a portion", "no nuts", "with more lemon"]  # fmt: skip
_HOTEL = ["two more towels", "a wake-up call", "an extra pillow", "a baby cot", "a bottle of water", "fresh sheets", "a late check-out", "an iron", "slippers", "a second blanket", "breakfast in bed", "a hair dryer"]  # fmt: skip
_MEETROOMS = ["blue room", "big conference room", "Room 4", "Atlas room", "library", "small meeting room", "board room", "Room 2.14", "attic room", "training room", "Newton", "Studio B"]  # fmt: skip
_EVENTS = ["the late show", "the opera", "the 9:15 train", "the night bus", "the concert", "the matinee", "the final", "the ballet", "the train to {c}", "the film {t}", "the play {t}", "flight {f}"]  # fmt: skip
_SPENT = ["a taxi to the airport", "lunch with a client", "two train tickets", "printer paper", "a hotel night", "parking", "a webcam", "flowers for reception", "a software licence", "stamps", "coffee for the team", "a {g}"]  # fmt: skip
_RESTS = "[[how|why|when|where] [{a} {n}s are made|to fix a {a} {n}|{n}s come from|people use {n}s|to find a cheap {n} in {c}|the {n} was invented]|[the|a] [best|cheapest|fastest|safest] way [to clean a {n}|from {c} to {d} by [train|bus|bike]|to cook {n} at home]|[{a} {n}s|{n} {m}s] [for|with|without|near] [{m}s|{c}|the {m}|children|beginners]|[who won|what happened at|who wrote about] the {a} {n} in {c}|[recipes|ideas|tips|shops|museums] [with|for|about|in] [{n}s and {m}s|{c}|a {a} {n}]|whether {n}s are {a}|what a {n} costs in {c}|{a} {n} {m} reviews|{n} repair near {c}]"
_RELATIVE = "[next|this|this coming|the coming] {d}|{d} in two weeks|the {d} after next|tomorrow [morning|afternoon|evening]|{d} [morning|afternoon|evening|night]|tonight|tomorrow|the day after tomorrow|in {k} days|next {d} [morning|evening]|the first {d} in {m}|{d} the {o}th|{m} {o}|next week|on {d}|early on {d}"


def _several(rng: Random, draw: Callable[[], Any]) -> Said:
    found = list(dict.fromkeys(draw() for _ in range(rng.choice((1, 2, 2, 3, 4)))))
    return values.join(rng, [str(one) for one in found]) if len(found) > 1 else str(found[0]), found


def relative(rng: Random) -> Said:
    """Draw a day as people name it from today, and with its part of the day."""
    text = expand(rng, f"[{_RELATIVE}]", d=choose(rng, values.DAYS), m=choose(rng, values.MONTHS), k=values.spoken(rng.randint(2, 9)), o=rng.randint(4, 20))  # fmt: skip
    return text, text.removeprefix("on ")


def _rest(rng: Random, split: Split) -> Said:
    cities = [values.place(rng, split) for _ in range(2)]
    return same(expand(rng, _RESTS, n=choose(rng, NOUNS), m=choose(rng, NOUNS), a=choose(rng, ADJECTIVES), c=cities[0], d=cities[1]))  # fmt: skip


def _seat(rng: Random) -> str:
    return f"{rng.randint(1, 40)}{choose(rng, 'ABCDEF')}" if rng.random() < 0.7 else f"{choose(rng, 'ABCDEFGH')}{rng.randint(1, 30)}"  # fmt: skip


def _gate(rng: Random) -> str:
    return expand(rng, "[{l}{k}|{k}|{k}{l}|{l}]", l=choose(rng, "ABCDEFGS"), k=rng.randint(1, 60))


def _small(rng: Random, split: Split) -> Said:
    return same(rng.randint(1, 12)) if rng.random() < 0.75 else values.count(rng, 12)


def _figure(rng: Random, split: Split) -> Said:
    return same(rng.randint(1, 10))


def _flight(rng: Random) -> str:
    return f"{choose(rng, 'ABDFKLSTU')}{choose(rng, 'AFHLQRSY')}{choose(rng, ('', ' '))}{rng.randint(10, 9999)}"


def _event(rng: Random, split: Split) -> Said:
    return same(choose(rng, _EVENTS).replace("{c}", values.place(rng, split)).replace("{t}", things.title(rng)).replace("{f}", _flight(rng)))  # fmt: skip


def _team(rng: Random, split: Split) -> Said:
    return same(expand(rng, "[{c}|{c} {n}s|FC {c}|the {n}s|{c} United]", c=choose(rng, (values.place(rng, split), coin(rng, 2).capitalize())), n=choose(rng, NOUNS).capitalize()))  # fmt: skip


# Names that do not say what an argument is.
VAGUE = ["value", "arg1", "arg2", "input", "data", "x", "param", "p1", "field", "v", "param2", "arg"]

Draw = Callable[[Random, Split], Said]
_TEXTS: dict[str, Draw] = {
    "room": lambda rng, split: same(choose(rng, things.ROOMS)), "place2": lambda rng, split: same(choose(rng, things.ROOMS)),
    "door": lambda rng, split: same(choose(rng, _DOORS)), "lamp": lambda rng, split: same(choose(rng, _LAMPS)),
    "color": lambda rng, split: same(things.colour(rng)), "food": lambda rng, split: same(expand(rng, "[{f}|{a} {f}|{f}]", f=choose(rng, ["flour", "sugar", "rice", "tomatoes", "oats", "lentils", "beans", "noodles", "cherries", "olives", "honey", "milk", "lemonade", "peas", "almonds"]), a=choose(rng, ("brown", "white", "red", "organic", "dried", "frozen", "salted")))),
    "drink": lambda rng, split: same(choose(rng, things.DRINKS).removeprefix("a ")), "dish": lambda rng, split: same(choose(rng, things.DISHES)),
    "wish": lambda rng, split: same(choose(rng, _WISHES)), "event2": _event, "flightno": lambda rng, split: same(_flight(rng)),
    "gate": lambda rng, split: same(_gate(rng)), "city": lambda rng, split: same(values.place(rng, split)), "city2": lambda rng, split: same(values.place(rng, split)),
    "spot": lambda rng, split: same(expand(rng, "[the {n}|{c} Square|the {n} {m}|{c} Street|the main station|the {n} museum]", n=choose(rng, NOUNS), m=choose(rng, NOUNS), c=coin(rng, 2).capitalize())),
    "hobby": lambda rng, split: same(choose(rng, things.HOBBIES)), "relday": lambda rng, split: relative(rng), "team": _team, "team2": _team,
    "goods": lambda rng, split: same(things.goods(rng)), "fault": lambda rng, split: same(things.fault(rng)),
    "fault2": lambda rng, split: same(expand(rng, "[the {n} [leaks|is broken|is stuck|fell off|smells|drips]|water comes through the {n}|there is no [light|heating|hot water]|a {n} is loose]", n=choose(rng, ("tap", "window", "radiator", "shower", "ceiling", "socket", "sink", choose(rng, NOUNS))))),
    "surface": lambda rng, split: same(choose(rng, _SURFACES) if rng.random() < 0.7 else f"{choose(rng, ADJECTIVES)} {choose(rng, NOUNS)}"),
    "plot": lambda rng, split: same(choose(rng, _PLOTS)), "petname": lambda rng, split: same(things.pet_name(rng)), "pets": lambda rng, split: same(choose(rng, things.PETS)),
    "called": lambda rng, split: values.quoted(rng, values.title(rng)), "title": lambda rng, split: same(things.title(rng)), "code": lambda rng, split: values.code(rng),
    "rest": _rest, "person": lambda rng, split: same(values.person(rng, split)), "person2": lambda rng, split: same(values.person(rng, split)),
    "titled": lambda rng, split: same(things.titled(rng) if rng.random() < 0.4 else values.person(rng, split)), "firm": lambda rng, split: same(things.firm(rng)),
    "meetroom": lambda rng, split: same(choose(rng, _MEETROOMS)), "clock": lambda rng, split: values.clock(rng), "file": lambda rng, split: values.path(rng),
    "costwhat": lambda rng, split: same(choose(rng, _SPENT).replace("{g}", things.goods(rng))), "roomno": lambda rng, split: same(str(rng.randint(1, 999))),
    "hotelwish": lambda rng, split: same(choose(rng, _HOTEL)), "sentence": lambda rng, split: same(sentence(rng).rstrip(".")), "word": lambda rng, split: same(choose(rng, (coin(rng), choose(rng, NOUNS)))),
    "phone": lambda rng, split: values.phone(rng), "kin": lambda rng, split: same(choose(rng, ["sister", "brother", "mother", "father", "wife", "husband", "neighbour", "aunt", "uncle", "boss"])),
    "pill": lambda rng, split: same(expand(rng, "[{c}|{c} {k} mg|{c} drops]", c=coin(rng, 3).capitalize(), k=rng.randint(1, 50) * 10)),
    "plate": lambda rng, split: values.code(rng),
}  # fmt: skip
_INTS: dict[str, Draw] = {
    "small": _small, "small2": _figure, "small3": _figure, "count": lambda rng, split: values.count(rng, 60),
    "span": lambda rng, split: values.span(rng, "minutes", 90), "grams": lambda rng, split: same(rng.randint(1, 60) * 10), "percent": lambda rng, split: same(rng.randint(1, 100)),
}  # fmt: skip
_NUMBERS: dict[str, Draw] = {"price": values.money, "decimal": lambda rng, split: values.decimal(rng, 30)}
_LISTS: dict[str, Draw] = {
    "seats": lambda rng, split: _several(rng, lambda: _seat(rng)), "numerals": lambda rng, split: _several(rng, lambda: str(rng.randint(1, 300))),
    "foods": lambda rng, split: _several(rng, lambda: choose(rng, ["eggs", "flour", "rice", "leeks", "tomatoes", "beans", "cheese", "potatoes", "carrots", "mushrooms", "noodles", "spinach", "tuna", "apples", "onions", "garlic"])),
}  # fmt: skip
KINDS: dict[str, tuple[Message, Draw]] = {
    name: (schema, draw)
    for schema, group in ((TEXT, _TEXTS), (INT, _INTS), (NUMBER, _NUMBERS), (LIST, _LISTS))
    for name, draw in group.items()
}
# Between what one said first and what one means.
MEANT = [", no, ", ", sorry, ", ", I mean ", ", no wait, ", "... no, I mean ", " - no, ", ", no, make it ", ", or rather ", ", oh no, "]  # fmt: skip


def corrected(rng: Random, said: str, other: str) -> str:
    """Say another value first, and correct it."""
    return said if other.lower() in said.lower() or said.lower() in other.lower() else f"{other}{choose(rng, MEANT)}{said}"  # fmt: skip


@cache
def _line(line: str) -> tuple[list[str], str, list[tuple[list[str], str, bool]], list[tuple[dict[str, str], str]]]:
    """Read a line: names, description, arguments (names, kind, needed), and requests with what no word of them says."""
    names, about, arguments, asks = line.split(" ; ")
    fields = [
        (keys.rstrip("?").split("|"), kind, not keys.endswith("?"))
        for keys, _, kind in (one.partition(":") for one in re.split(r" (?=[\w{}|]+\??:)", arguments))
        if keys
    ]
    split, depth = [""], 0
    for letter in asks:
        depth += (letter == "[") - (letter == "]")
        split = [*split, ""] if letter == "|" and not depth else [*split[:-1], split[-1] + letter]
    return names.split("|"), about, fields, [(dict(re.findall(r"<([^=>]+)=([^>]+)>", ask)), re.sub(r"<[^>]+>", "", ask)) for ask in split]  # fmt: skip


def drawn(rng: Random, split: Split) -> tuple[Offer, bool]:
    """Define a tool of a situation and ask for it in bare words; return also whether they begin with a value."""
    return made(rng, split, wording(rng, SITUATIONS, split))


# Arguments that a tool may have and that no request gives: only what is said is written into a call.
SPARE: list[tuple[str, Message]] = [
    *((name, TEXT) for name in "notes description filter metadata timezone locale callback_url comment reference context source_id parent account".split()),
    *((name, BOOL) for name in "dry_run verbose async silent include_archived".split()),
    *((name, INT) for name in "offset page retries version max_results".split()),
    *((name, LIST) for name in "tags labels cc attachments fields".split()),
    *((name, {"type": "string", "enum": options.split()}) for name, options in (("sort_by", "relevance date popularity"), ("output", "json text table"), ("log_level", "debug info warn"), ("visibility", "public private team"), ("source", "cache live auto"))),
]  # fmt: skip


def _spare(rng: Random, line: str, ask: str) -> list[tuple[str, Message, bool]]:
    """Draw arguments that the request does not give: none with a word that the tool or the request has."""
    found: dict[str, tuple[str, Message, bool]] = {}
    known = f"{line} {ask}".lower()
    for name, schema in (choose(rng, SPARE) for _ in range(choose(rng, (1, 1, 2)))):
        words = [*name.split("_"), *schema.get("enum", ())]
        if not any(word.rstrip("s") in known for word in words if len(word) > 2):
            shown = dict(schema)
            if rng.random() < 0.5:
                shown["description"] = expand(rng, "[The |Optional ]{n}[.||]", n=name.replace("_", " "))
            found[name] = (styled(rng, name), shown, False)
    return list(found.values())


def made(rng: Random, split: Split, line: str, told: Mapping[str, Said] | None = None) -> tuple[Offer, bool]:
    """Define the tool of a line and ask for it in bare words; return also whether they begin with a value.

    ``told`` has, by the kind of an argument, the value that it must have.
    """
    told = told or {}
    names, about, fields, asks = _line(line)
    noun = choose(rng, NOUNS)
    tags, ask = choose(rng, asks)
    ask = re.sub(r"\b([Aa]) (?=[aeiou])", r"\1n ", expand(rng, ask.replace("{{x}}", "{_x}"), x=noun))
    ask = ask.replace("  ", " ")
    verbatim = ask.startswith("{")
    defined: list[tuple[str, Message, bool]] = []
    arguments: dict[str, Any] = {}
    used: set[str] = set()
    for keys, kind, needed in fields:
        place = "{_x}" if keys[0] == "{x}" else f"{{{keys[0]}}}"
        name = choose(rng, [key for key in keys if key not in used]).replace("{x}", noun)
        used |= {name}
        schema, given = _schema(kind, tags.get(keys[0]))
        if place in ask:
            shown, given = told[kind] if kind in told else KINDS[kind][1](rng, split)
            if rng.random() < 0.04 and kind not in told and KINDS[kind][0]["type"] != "array" and len(shown) < 25:
                shown = corrected(rng, shown, KINDS[kind][1](rng, split)[0])
            if shown[0] in "aeiou":
                at = ask.find(place)
                if ask[max(at - 3, 0) : at].lower() in {" a ", "a "}:
                    ask = f"{ask[: at - 1]}n {ask[at:]}"
            ask = ask.replace(place, shown)
        detail = rng.random()
        if detail < 0.55:
            # Its description has another word for it than its name, at times the only one that says what it is.
            words = [key for key in keys if len(key) > 3 and key != "{x}"] or [name]
            schema["description"] = expand(rng, "[The |The |]{n}[.||]", n=choose(rng, (name, *words)).replace("_", " "))
            vague = choose(rng, VAGUE)
            if detail < 0.04 and vague not in used:
                name = vague
                schema["description"] = f"The {choose(rng, words)}".replace("_", " ")
                used |= {name}
        name = styled(rng, name)
        defined.append((name, schema, needed))
        if given is not None:
            arguments[name] = given
    if rng.random() < 0.3:
        defined += _spare(rng, line, ask)
        rng.shuffle(defined)
    name = (
        choose(rng, names).replace("{x}", noun)
        if rng.random() < 0.97
        else f"{choose(rng, ('tool', 'action', coin(rng, 1)))}_{rng.randint(1, 9)}"
    )
    about = re.sub(r"\b([Aa]) (?=[aeiou])", r"\1n ", about.replace("{x}", noun))
    tool = definition(rng, styled(rng, name), about, defined)
    tool["function"].setdefault("description", about)
    # All its names say what else it may be meant for.
    key = " ".join(names).replace("{x}", noun).replace("_", " ")
    # A tool that computes could serve a sum, so it must not stand beside one.
    topic = "sums" if about.startswith("Compute") else ""
    return Offer(key, tool, ask, arguments, topic=topic, everyday=True), verbatim


def _schema(kind: str, tagged: str | None) -> tuple[Message, Any]:
    """Return an argument's schema, and the value that a request says without a word for it (None if none)."""
    if kind == "bool":
        return dict(BOOL), None if tagged is None else tagged == "true"
    if kind.startswith("="):
        return {"type": "string", "enum": kind[1:].split("/")}, tagged
    return dict(KINDS[kind][0]), None
