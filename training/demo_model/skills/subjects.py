"""What a question or a note may be about: rooms, seats, goods, people, shops, services, names, codes."""

# ruff: noqa: E501, SIM905 - phrases read best unbroken

from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any

from demo_model.skills import things, values
from demo_model.skills.frame_words import KINDS as THINGS
from demo_model.skills.slots import INT, TEXT
from demo_model.template import Message
from demo_model.text import ADJECTIVES, NOUNS, Split, choose, coin, expand


@dataclass(slots=True)
class Subject:
    """What is spoken of: as one says it, as a call has it, the argument's names and type, and what it is."""

    said: str
    value: Any
    names: str
    noun: str
    schema: Message


_NUMBERED = "table court lane locker bay desk seat room bed boat dock pitch booth cabin gate line pump lift berth stall track shelf oven studio bench field well tent tank platform cell box hall trolley crane kiln slot ramp".split()
_VENUES = (
    "[{C}'s|Café {C}|Chez {C}|{C} {V}|{A} {N}|The {A} {N}|{C} & {D}|{V} {C}|Casa {C}|{N} {V}|{C} {N} {V}|the {C} {V}]"
)
_VENUE_KINDS = "Museum Pool Bakery Library Gym Pharmacy Theatre Cinema Garden Market Bar Grill Gallery Zoo Clinic Café Shop Arena Spa Hall Sauna Deli Books Tavern Kitchen".split()


def numbered(rng: Random, split: Split) -> Subject:
    """Draw what has a number or a code after its kind."""
    noun = choose(rng, _NUMBERED)
    if rng.random() < 0.65:
        value = rng.randint(1, choose(rng, (9, 40, 400)))
        schema = choose(rng, (INT, INT, TEXT))
        return Subject(f"{noun} {value}", value if schema is INT else str(value), f"{noun}_number|number|{noun}_no|{noun}_id", noun, schema)  # fmt: skip
    code = expand(rng, "[{l}{k}|{k}{l}|{k}.{j}|{l}-{k}]", l=choose(rng, "ABCDEFGHKM"), k=rng.randint(1, 60), j=rng.randint(1, 20))  # fmt: skip
    return Subject(f"{noun} {code}", code, f"{noun}_code|code|{noun}_id|{noun}_number|id", noun, TEXT)


def room(rng: Random, split: Split) -> Subject:
    """Draw a room by its name."""
    name = expand(rng, "[{a} [room|hall|studio|office|lounge]|{n} [room|studio|hall]|{r}]", a=choose(rng, (*ADJECTIVES, *things.COLOURS)), n=choose(rng, NOUNS), r=choose(rng, THINGS["room|area|zone"]))  # fmt: skip
    return Subject(f"the {name}", name, "room|room_name|space|name|which_room", "room", TEXT)


def venue(rng: Random, split: Split) -> Subject:
    """Draw a shop, a restaurant or the like by its name."""
    name = expand(rng, _VENUES, C=coin(rng, 2).capitalize(), D=coin(rng, 1).capitalize(), A=choose(rng, ADJECTIVES).capitalize(), N=choose(rng, NOUNS).capitalize(), V=choose(rng, _VENUE_KINDS))  # fmt: skip
    if rng.random() < 0.25:
        name = choose(rng, THINGS["restaurant|venue"])
    bare = name.removeprefix("the ")
    return Subject(name, bare, "venue|place|name|shop|restaurant|place_name|business", "venue", TEXT)


def person(rng: Random, split: Split) -> Subject:
    """Draw somebody."""
    name = values.person(rng, split)
    return Subject(name, name, "person|who|name|colleague|employee|full_name|user|member|staff_member", "person", TEXT)


def goods(rng: Random, split: Split) -> Subject:
    """Draw something one buys."""
    name = things.goods(rng) if rng.random() < 0.7 else choose(rng, THINGS["product"])
    return Subject(f"the {name}", name, "item|product|article|product_name|item_name|name", choose(rng, ("item", "product", "article")), TEXT)  # fmt: skip


def code(rng: Random, split: Split) -> Subject:
    """Draw what is known by a code, after its kind."""
    noun = choose(rng, "order parcel part article invoice flight container ticket booking case permit claim badge sample device meter pallet licence voucher card".split())  # fmt: skip
    text = str(values.code(rng)[1])
    if not any(letter.isdigit() for letter in text):
        text += str(rng.randint(10, 999))
    said = expand(rng, "[{n} {v}|{n} {v}|{n} number {v}|{n} #{v}|{n} no. {v}]", n=noun, v=text)
    return Subject(said, text, f"{noun}_id|{noun}_number|{noun}_code|code|id|number|reference", noun, TEXT)


def anything(rng: Random, split: Split) -> Subject:
    """Draw a thing, at times with what it is like."""
    noun = choose(rng, NOUNS)
    name = expand(rng, "[{n}|{a} {n}|{m} {n}|{a} {n}]", n=noun, a=choose(rng, ADJECTIVES), m=choose(rng, NOUNS))
    return Subject(f"{choose(rng, ('the', 'the', 'the', 'my', 'our'))} {name}", name, f"{noun}|item|thing|object|name|{noun}_name|which", noun, TEXT)  # fmt: skip


def service(rng: Random, split: Split) -> Subject:
    """Draw a program or a machine that runs somewhere."""
    if rng.random() < 0.5:
        name = choose(rng, THINGS["service|app|component"])
    else:
        name = expand(rng, "[{n}-{m}|{c}-{n}|{n}{k}|{c}|{n}-{k}|{n}_{m}|{c}.{n}.[com|local|net]]", n=choose(rng, NOUNS), m=choose(rng, NOUNS), c=coin(rng, 2), k=rng.randint(1, 20))  # fmt: skip
    return Subject(name, name, "service|service_name|host|server|app|name|component|system", choose(rng, ("service", "server", "host", "system")), TEXT)  # fmt: skip


def handle(rng: Random, split: Split) -> Subject:
    """Draw a name that somebody wants: of a user, of a site."""
    if rng.random() < 0.5:
        name = expand(rng, "[{c}|{n}-{m}|{c}-{n}|{n}{m}|{c}{k}].[com|org|net|io|dev|shop|de|co.uk]", c=coin(rng, 2), n=choose(rng, NOUNS), m=choose(rng, NOUNS), k=rng.randint(1, 99))  # fmt: skip
        return Subject(expand(rng, "[{v}|{v}|the domain {v}]", v=name), name, "domain|domain_name|name|site", "domain", TEXT)  # fmt: skip
    name = expand(rng, "[{c}|{c}_{k}|{n}{k}|{c}_{n}|{c}.{m}]", c=coin(rng, 2), n=choose(rng, NOUNS), m=choose(rng, NOUNS), k=rng.randint(1, 999))  # fmt: skip
    return Subject(expand(rng, "the [name|username|nickname|handle] {v}", v=name), name, "username|name|handle|nickname|user_name", "username", TEXT)  # fmt: skip


def city(rng: Random, split: Split) -> Subject:
    """Draw a place on a map."""
    name = values.place(rng, split)
    return Subject(name, name, "city|place|location|town|where|city_name", "city", TEXT)


def title(rng: Random, split: Split) -> Subject:
    """Draw a work by its title."""
    noun = choose(rng, "film book song album show play game episode podcast novel series".split())
    name = things.title(rng) if rng.random() < 0.7 else values.title(rng)
    return Subject(expand(rng, "[{v}|{v}|the {n} {v}|\"{v}\"]", n=noun, v=name), name, f"title|name|{noun}|{noun}_title|{noun}_name", noun, TEXT)  # fmt: skip


def event(rng: Random, split: Split) -> Subject:
    """Draw something that takes place."""
    noun = choose(rng, "concert show play match talk workshop market fair lecture exam course party tour race parade auction meeting".split())  # fmt: skip
    name = expand(rng, "[the {n} {e}|the {a} {e}|{t}|{C} {N} {e}|{C} {D}|the {e} {t}|the {n} {m} {e}]", n=choose(rng, NOUNS), m=choose(rng, NOUNS), a=choose(rng, ADJECTIVES), e=noun, t=things.title(rng), C=coin(rng, 2).capitalize(), D=choose(rng, ("Night", "Days", "Cup", "Open", "Festival", "Live")), N=choose(rng, NOUNS).capitalize())  # fmt: skip
    value = name.removeprefix("the ").removeprefix(f"{noun} ") if not name.endswith(noun) else name.removeprefix("the ")
    return Subject(name, value, f"event|title|name|event_name|{noun}|what", noun, TEXT)


def vehicle(rng: Random, split: Split) -> Subject:
    """Draw what leaves and arrives, by its number."""
    noun = choose(rng, "flight train bus ferry tram boat coach shuttle".split())
    text = expand(rng, "[{l}{k}|{l}{m} {k}|{k}|{l}{m}{k}|{l}-{k}]", l=choose(rng, "ABCEFGIKLMNRSTU"), m=choose(rng, "ACEHLRSTX"), k=rng.randint(1, 9999))  # fmt: skip
    said = expand(rng, "[{n} {v}|{n} {v}|{n} number {v}|{v}]", n=noun, v=text)
    if text[0].isdigit():
        said = f"{noun} {text}"
    return Subject(said, text, f"{noun}|{noun}_number|{noun}_no|number|{noun}_id|line", noun, TEXT)


Draw = Callable[[Random, Split], Subject]
SUBJECTS: dict[str, Draw] = {
    "numbered": numbered, "room": room, "venue": venue, "person": person, "goods": goods, "code": code, "thing": anything,
    "service": service, "handle": handle, "city": city, "title": title, "event": event, "vehicle": vehicle,
}  # fmt: skip


def subject(rng: Random, split: Split, kinds: str) -> Subject:
    """Draw a subject of one of the kinds."""
    return SUBJECTS[choose(rng, kinds.split())](rng, split)
