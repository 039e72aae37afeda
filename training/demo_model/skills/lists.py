"""Lists and notes to remember: things told in a row, and one of them asked for by its place or its kind."""

# ruff: noqa: E501 - phrases read best unbroken

from random import Random

from demo_model.skills import scenes
from demo_model.skills.attributes import DETAIL_WORDS, OPTIONS
from demo_model.skills.recall import Known
from demo_model.text import ADJECTIVES, CITIES, NAMES, NOUNS, choose, coin, expand

EVENTS = OPTIONS["event"]
ORDER = ("first", "second", "third", "fourth")
SOME = ("two", "three", "four")


def known(rng: Random) -> list[Known]:
    """Make a list of things of one kind or of different ones, or a terse note."""
    return choose(rng, (_mixed, _alike, _alike, _noted, _noted))(rng)


def _noted(rng: Random) -> list[Known]:
    """Make a terse note: what, and some of when, where, who and for how much."""
    what = expand(
        rng,
        "[{n}|{a} {n}|{n} {m}|{e}]",
        n=choose(rng, NOUNS),
        m=choose(rng, NOUNS),
        a=choose(rng, ADJECTIVES),
        e=choose(rng, EVENTS),
    )
    parts = {
        "date": scenes.date(rng),
        "time": f"{rng.randint(0, 23)}:{choose(rng, ('00', '15', '30', '45'))}",
        "place": f"room {choose(rng, 'ABCDEF')}{rng.randint(1, 40)}" if rng.random() < 0.5 else choose(rng, CITIES),
        "person": choose(rng, NAMES),
        "price": f"{rng.randint(2, 999)} {choose(rng, ('euros', 'dollars', 'pounds'))}",
        "code": choose(rng, (str(rng.randint(1000, 99999)), f"{coin(rng).upper()}{rng.randint(2, 99)}")),
    }
    chosen = [role for role in parts if rng.random() < 0.5] or ["date", "time"]
    rng.shuffle(chosen)
    if any(parts[a] in parts[b] for a in chosen for b in chosen if a != b):
        chosen = chosen[:1]
    gap = choose(rng, (", ", ", ", " - ", "; ", " / "))
    clause = expand(rng, "[note|please note|remember|write down|save this|for later|reminder|]") + ": "
    clause = clause.lstrip(": ") + gap.join([what, *(parts[role] for role in chosen)])
    ways: dict[str, tuple[str, ...]] = {
        "date": ("when is the {k}", "what date is the {k}", "on which day is the {k}", "what is the date of the {k}"),
        "time": ("what time is the {k}", "at what time is the {k}", "at what hour is the {k}", "what time does the {k} start"),
        "place": ("where is the {k}", "in which place is the {k}", "where is the {k} held"),
        "person": ("who is the {k} with", "which person did I note for the {k}", "what name is on the {k}", "with whom is the {k}"),
        "price": ("how much is the {k}", "what does the {k} cost", "what is the price of the {k}"),
        "code": ("what is the code of the {k}", "which code did I note for the {k}", "what is the number of the {k}"),
    }  # fmt: skip
    if "time" in chosen and "date" not in chosen:
        ways["time"] += ("when is the {k}",)
    found = [
        Known(role + what, clause, tuple(way.replace("{k}", what) for way in ways[role]), f"The {role} of the {what} is {parts[role]}.", parts[role], (), "", "", "")
        for role in chosen
    ]  # fmt: skip
    return rng.sample(found, rng.randint(1, min(2, len(found))))


def _item(rng: Random, kind: str) -> str:
    if kind == "number":
        return str(rng.randint(0, 10 ** rng.randint(1, 5)))
    if kind == "word":
        return choose(rng, NOUNS) if rng.random() < 0.7 else coin(rng)
    return choose(rng, NAMES) if kind == "name" else choose(rng, CITIES)


def _listed(rng: Random, items: list[str]) -> str:
    return ", ".join(items[:-1]) + choose(rng, (", ", " and ", ", and ")) + items[-1]


def _whole(items: list[str]) -> str:
    return ", ".join(items[:-1]) + " and " + items[-1]


def _alike(rng: Random) -> list[Known]:
    kind, count = choose(rng, ("word", "number", "name", "city")), choose(rng, (2, 3, 3, 4))
    items = list(dict.fromkeys(_item(rng, kind) for _ in range(count)))
    while len(items) < 2 or any(one in other for one in items for other in items if one is not other):
        items = list(dict.fromkeys(_item(rng, kind) for _ in range(count)))
    kinds, some, listed = "cities" if kind == "city" else f"{kind}s", SOME[len(items) - 2], _listed(rng, items)
    clause = expand(rng, "[the {s} {k} are {l}|my {k} are {l}|the {k} are {l}|here are {s} {k}: {l}|remember these {s} {k}: {l}|{s} {k} to remember: {l}|these are my {k}: {l}|keep these {k}: {l}]", s=some, k=kinds, l=listed)  # fmt: skip
    at = rng.randrange(len(items))
    nth = "last" if at == len(items) - 1 and rng.random() < 0.5 else ORDER[at]
    one = expand(rng, "[what was|what is|which was|tell me] the {n} {k}", n=nth, k=kind)
    asks: tuple[str, ...] = (one, one, f"which {kind} came {nth}", f"what {kind} did I say {nth}")
    if rng.random() < 0.45:
        asks = (f"what were the {kinds}", f"which {kinds} did I give you", f"what are the {some} {kinds}", f"list the {kinds}", f"tell me the {kinds}", f"which {kinds} should you remember")  # fmt: skip
        whole = clause[clause.index(listed) :]
        return [Known("list", clause, asks, f"The {kinds} are {_whole(items)}.", whole, (), "", "", "")]
    return [Known("list", clause, asks, f"The {nth} {kind} is {items[at]}.", items[at], (), "", "", "")]


def _mixed(rng: Random) -> list[Known]:
    kinds = rng.sample(("word", "number", "name", "city"), rng.choice((2, 3, 3, 4)))
    if rng.random() < 0.5:
        kinds = [kind for kind in kinds if kind != "word"] or ["number"]
        kinds += rng.sample(DETAIL_WORDS, 1)
    items = [_item(rng, kind if kind in ("word", "number", "name", "city") else "number") for kind in kinds]
    if len({item.lower() for item in items}) < len(items) or any(a in b for a in items for b in items if a is not b):
        return _alike(rng)
    bare = kinds[-1] in ("word", "number", "name", "city") and rng.random() < 0.5
    listed = _listed(rng, items if bare else [f"{kind} {item}" for kind, item in zip(kinds, items, strict=True)])
    clause = expand(
        rng,
        "[remember these: {l}|remember {l}|please note: {l}|for later: {l}|my list: {l}|keep this: {l}|note {l}]",
        l=listed,
    )
    found = []
    for kind, item in zip(kinds, items, strict=True):
        asks = tuple(f"{ask} the {kind}" for ask in ("what was", "what is", "tell me", "which was", "do you remember", "give me"))  # fmt: skip
        found.append(Known(kind, clause, asks, f"The {kind} is {item}.", item, (), "", "", ""))
    return rng.sample(found, rng.randint(1, len(found)))
