"""Whom, where and when people talk about: what the sentences of ``deeds`` and ``qualities`` are made from."""

# ruff: noqa: E501, PLR0911, SIM905 - phrases read best unbroken

from dataclasses import dataclass
from random import Random

from demo_model.skills import values
from demo_model.skills.attributes import KIN
from demo_model.skills.memory import some_name
from demo_model.text import ADJECTIVES, CITIES, NOUNS, Split, choose, coin, pick

FOODS = "pizza soup pancakes lasagna rice sushi salad pasta salmon curry bread noodles cake cheese eggs waffles steak tacos porridge stew risotto muffins cookies dumplings".split()
DRINKS = "tea|coffee|orange juice|water|milk|lemonade|hot chocolate|beer|wine|apple juice|green tea|cola|coffee with oat milk|black tea|soda".split("|")  # fmt: skip
DAYS = "Monday Tuesday Wednesday Thursday Friday Saturday Sunday".split()
PLACES = "station museum library park office airport market school beach café hotel harbour cinema hospital gym church town hall supermarket zoo bank bakery stadium lake pool theatre garden".split()


# Said without "my".
FAMILY = "grandma|grandpa|mum|dad|mom|granny|grandad|auntie".split("|")
# Without the animals.
_KIN = KIN[:-4]


@dataclass(slots=True)
class Somebody:
    """Who does something: how the user says it, how one asks, how the answer says it; third person or not."""

    told: str
    asked: str
    answer: str
    third: bool


def people(rng: Random, split: Split, amount: int) -> list[Somebody]:
    """Draw different people: the user, relatives, others by name, with their names at times."""
    found: list[Somebody] = []
    while len(found) < amount:
        kind = rng.random()
        name = some_name(rng, split) if kind >= 0.62 else ""
        kin = f"my {choose(rng, _KIN)}"
        if kind < 0.42:
            one = Somebody("I", "I", "you", False) if kind < 0.3 else Somebody("we", "we", "you", False)
        elif kind < 0.62:
            one = Somebody(kin, kin, yours(kin), True)
        elif kind < 0.82:
            one = Somebody(name, name, name, True)
        else:
            one = Somebody(f"{kin} {name}", kin, yours(kin), True) if rng.random() < 0.5 else Somebody(f"{kin} {name}", name, name, True)  # fmt: skip
        if not any(alike(one.told, other.told) or one.answer == other.answer for other in found):
            found.append(one)
    return found


def yours(text: str) -> str:
    """Turn what the user calls mine into what the answer calls yours."""
    return " ".join({"my": "your", "our": "your", "me": "you"}.get(part, part) for part in text.split(" "))


def within(one: str, other: str) -> bool:
    """Whether one text is in the other, so that an answer could not be told from a wrong one."""
    a, b = one.lower(), other.lower()
    return a in b or b in a


_SMALL = set("the our my and for with near".split())


def alike(one: str, other: str) -> bool:
    """Whether two texts share a word that could confuse them, or one is in the other."""
    a, b = (set(text.lower().replace("'s", "").split()) - _SMALL for text in (one, other))
    return within(one, other) or any(len(word) > 2 for word in a & b)


def clock(rng: Random) -> str:
    """Say at what hour."""
    return choose(rng, (f"at {rng.randint(0, 23)}:{rng.randint(0, 59):02}", f"at {rng.randint(1, 12)}:{choose(rng, ('00', '15', '30', '45'))}", f"at {rng.randint(1, 12)} {choose(rng, ('am', 'pm'))}", f"at {rng.randint(1, 12)}", "at noon", "at midnight", f"at half past {values.spoken(rng.randint(1, 12))}", f"at {values.spoken(rng.randint(1, 12))} o'clock"))  # fmt: skip


def date(rng: Random) -> str:
    """Write a day of the year in one of the ways people do."""
    day, month = rng.randint(1, 31), choose(rng, values.MONTHS)
    nth = f"{day}{'th' if 10 < day < 20 else {1: 'st', 2: 'nd', 3: 'rd'}.get(day % 10, 'th')}"
    return choose(rng, (f"{month} {day}", f"{day} {month}", f"{month} {nth}", f"the {nth} of {month}", f"{day}/{rng.randint(1, 12):02}", f"{rng.randint(1, 12)}/{day}", f"the {nth}", f"{month} {day}, {rng.randint(1950, 2030)}"))  # fmt: skip


def when(rng: Random, past: bool | None = None) -> str:
    """Say when: a day, an hour, both, a month, a date, or a word for it."""
    kind = rng.random()
    day = choose(rng, DAYS)
    if kind < 0.2:
        return f"on {day}"
    if kind < 0.35:
        return f"on {day} {clock(rng)}"
    if kind < 0.55:
        return clock(rng)
    if kind < 0.75:
        return f"on {date(rng)}"
    if kind < 0.85 or past is None:
        return f"in {choose(rng, values.MONTHS)}"
    if past:
        return choose(rng, ("yesterday", "last week", f"last {day}", f"in {rng.randint(1950, 2024)}", f"{values.spoken(rng.randint(2, 20))} years ago", "this morning", "last summer", f"{rng.randint(2, 30)} days ago"))  # fmt: skip
    return choose(rng, ("tomorrow", "next week", f"next {day}", "tonight", f"in {rng.randint(2, 30)} days", f"tomorrow {clock(rng)}", "next summer", "in the evening", "this weekend", f"in {values.spoken(rng.randint(2, 12))} weeks"))  # fmt: skip


def place(rng: Random, split: Split, of: str = "in") -> str:
    """Say where, or whereto: a city, a place in town, an invented name, a street."""
    kind = rng.random()
    if kind < 0.35:
        return f"{of} {pick(rng, CITIES, split)}"
    if kind < 0.5:
        return f"{of} {coin(rng, 2).capitalize()}"
    at = "at" if of == "in" else of
    if kind < 0.75:
        return f"{at} the {choose(rng, PLACES)}"
    if kind < 0.85:
        return f"{at} the {choose(rng, ADJECTIVES)} {choose(rng, NOUNS)}"
    return f"{at} the {choose(rng, PLACES)} {choose(rng, ('in', 'on', 'near'))} {coin(rng, 2).capitalize()}{choose(rng, ('', ' Street', ' Road'))}"


def person(rng: Random, split: Split) -> str:
    """Draw somebody by name, as a relative, or both."""
    kind = rng.random()
    kin = choose(rng, _KIN)
    if kind < 0.06:
        return choose(rng, FAMILY)
    return some_name(rng, split) if kind < 0.6 else f"my {kin}" if kind < 0.85 else f"my {kin} {some_name(rng, split)}"
