"""Things made up by a schema: a request names the thing and some of what it is; the rest is invented, and suits it.

"A red bicycle for 300 euros" has the colour and the price that were said, whatever their keys are called, and a name that
a bicycle may have. A server that holds the answer to the schema forces the keys, which the request need not name.
"""

# ruff: noqa: E501, PLR0911, SIM905 - phrases read best unbroken

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any

from demo_model.exchange import Exchange
from demo_model.skills import forms, things, values
from demo_model.skills.wish_beings import BEINGS, SHARED
from demo_model.skills.wish_words import KINDS
from demo_model.template import Message
from demo_model.text import CITIES, NAMES, NOUNS, Split, choose, coin, expand, lines, pick


@dataclass(frozen=True, slots=True)
class Trait:
    """A field: the keys that it may have, what its value may be, and how a request says it (and how it denies it)."""

    keys: list[str]
    values: list[str]
    ways: list[str]
    no: str = ""
    inner: tuple["Trait", ...] = ()
    many: bool = False


def _trait(line: str) -> Trait:
    """Read the line of a field."""
    keys, *rest = line.split(" ; ")
    if keys.endswith(("[]", "{}")):
        halves = [one.partition(" = ")[::2] for one in rest]
        inner = tuple(Trait(names.split("|"), found.split("|"), []) for names, found in halves)
        return Trait([keys[:-2]], [], [], inner=inner, many=keys.endswith("[]"))
    return Trait(keys.split("|"), rest[0].split("|"), rest[1].split("|") if len(rest) > 1 else [], rest[2] if len(rest) > 2 else "")  # fmt: skip


_SHARED = {trait.keys[0]: trait for trait in map(_trait, lines(SHARED))}
_ALL = [
    (block[0].split("|"), [_trait(line) if " ; " in line else _SHARED[line] for line in block[1:]])
    for block in (lines(text) for text in f"{BEINGS.strip()}\n\n{KINDS.strip()}".split("\n\n"))
]
_WORDS = {word for kinds, _ in _ALL for kind in kinds for word in kind.split()} | {"plant", "drink", "company"}
_FOODS = "chicken|rice|potatoes|tomatoes|lentils|mushrooms|spinach|beans|fish|onions|cheese|carrots|eggs|pasta|pumpkin|chickpeas|noodles|leeks|cabbage|apples".split(
    "|"
)
_BREEDS = {"dog": "Poodle|Beagle|Labrador|Collie|Terrier|Boxer", "cat": "Siamese|Persian|Bengal|Maine Coon|Ragdoll", "horse": "Arabian|Haflinger|Shetland|Friesian", "rabbit": "Dwarf|Rex|Angora", "parrot": "Macaw|Cockatoo|Grey Parrot", "hamster": "Syrian|Roborovski|Dwarf"}  # fmt: skip
_YOUNG = {"puppy": "dog", "kitten": "cat"}


_BOOKS = ("book", "novel", "comic", "story", "children's book", "thriller")
_FILMS = ("film", "movie", "play", "TV series")
# What only some of the kinds of a block have.
_ONLY = {"pages": _BOOKS, "chapters": _BOOKS, "published": _BOOKS, "publisher": _BOOKS, "author": (*_BOOKS, "play"), "director": _FILMS, "crops": ("farm", "garden"), "animals": ("farm", "zoo", "park")}  # fmt: skip
_RIDDLES = (("What has hands but can't clap?", "a clock"), ("What gets wetter as it dries?", "a towel"), ("What has a neck but no head?", "a bottle"), ("What goes up but never comes down?", "your age"), ("What has keys but opens no door?", "a piano"), ("What has teeth but can't bite?", "a comb"), ("What runs but never walks?", "a river"))  # fmt: skip
_MEAT = {"chicken", "fish", "eggs", "cheese"}


@dataclass(slots=True)
class _Wish:
    """What is being made up: the word for it, and values that others must fit."""

    rng: Random
    split: Split
    kind: str
    food: str
    first: str
    last: str
    riddle: tuple[str, str]


def _person(wish: _Wish) -> str:
    first = pick(wish.rng, NAMES, wish.split)
    return first if wish.rng.random() < 0.3 else f"{first} {choose(wish.rng, things.SURNAMES).replace('_', ' ')}"


def _breed(wish: _Wish) -> str:
    return choose(wish.rng, _BREEDS.get(_YOUNG.get(wish.kind, wish.kind), _BREEDS["dog"]).split("|"))


def _dish(wish: _Wish) -> str:
    sort = wish.kind if wish.kind in {"soup", "stew", "salad", "curry", "pizza", "sandwich", "cake", "pie"} else choose(wish.rng, ("soup", "stew", "salad", "curry", "bake"))  # fmt: skip
    return f"{wish.food} {sort}".capitalize()


def _product(wish: _Wish) -> str:
    noun = wish.kind.split(" for ")[0].capitalize() if wish.kind not in {"product", "item", "gadget", "toy", "product for hikers"} else choose(wish.rng, ("Lamp", "Bottle", "Tent", "Backpack", "Chair", "Kettle", "Watch"))  # fmt: skip
    return f"{choose(wish.rng, ('Trail', 'Light', 'City', 'Green', 'Smart', 'Classic', 'Nova', 'Swift', 'Comfort', 'Nordic'))} {noun}"


def _firm(wish: _Wish) -> str:
    rng = wish.rng
    return expand(rng, "[{s} and Sons|{s} {w}|{a} {w}|{a} {n} {w}]", s=choose(rng, things.SURNAMES).replace("_", " "), w=choose(rng, ("Works", "Group", "Ltd", "Labs", "Studio", "House")), a=choose(rng, ("Blue", "Green", "Bright", "North", "Silver", "Urban", "Fresh")), n=choose(rng, ("River", "Leaf", "Star", "Stone", "Bridge", "Field")))  # fmt: skip


def _bug(wish: _Wish) -> str:
    return expand(wish.rng, "[login fails|the page stays blank|the button does nothing|the app crashes|a typo in the menu|the search is slow|the {n} is missing|images do not load]", n=choose(wish.rng, ("logo", "cart", "footer", "password field")))  # fmt: skip


_MAKERS: dict[str, Callable[[_Wish], Any]] = {
    "person": _person, "self": lambda w: w.first if w.rng.random() < 0.3 else f"{w.first} {w.last}", "mine": lambda w: w.first, "surname": lambda w: w.last, "mail": lambda w: f"{w.first.lower()}@example.{choose(w.rng, ('com', 'org', 'net'))}",
    "riddle": lambda w: w.riddle[0], "solution": lambda w: w.riddle[1], "guesses": lambda w: w.rng.sample(sorted({w.riddle[1], *w.rng.sample([one for _, one in _RIDDLES], 3)}), 3),
    "first": lambda w: pick(w.rng, NAMES, w.split),
    "city": lambda w: pick(w.rng, CITIES, w.split), "country": lambda w: choose(w.rng, "France|Italy|Spain|Japan|Peru|Kenya|Canada|Norway|India|Greece|Ireland|Mexico|Germany|Poland|Brazil|Egypt".split("|")),
    "date": lambda w: f"{w.rng.randint(2024, 2027)}-{w.rng.randint(1, 12):02}-{w.rng.randint(1, 28):02}", "clock": lambda w: f"{w.rng.randint(8, 21):02}:{choose(w.rng, ('00', '15', '30', '45'))}",
    "opens": lambda w: f"{w.rng.randint(6, 10):02}:{choose(w.rng, ('00', '30'))}", "closes": lambda w: f"{w.rng.randint(17, 23)}:{choose(w.rng, ('00', '30'))}",
    "email": lambda w: f"{pick(w.rng, NAMES[:150], w.split).lower()}@example.{choose(w.rng, ('com', 'org', 'net'))}", "phone": lambda w: f"555-{w.rng.randint(0, 9999):04}", "handle": lambda w: f"{w.first.lower()}{w.rng.randint(1, 99)}",
    "kind": lambda w: w.kind, "job": lambda w: w.kind if w.kind not in {"person", "woman", "man", "customer", "employee", "neighbour", "user profile", "profile", "user"} else choose(w.rng, things.JOBS),
    "breed": _breed, "dish": _dish, "food": lambda w: w.food, "foods": lambda w: [w.food, *w.rng.sample([one for one in (*_FOODS, "salt", "garlic", "sugar", "olive oil", "pepper") if one != w.food and one not in _MEAT], w.rng.randint(1, 3))],
    "product": _product, "firm": _firm, "bug": _bug, "code": lambda w: f"{choose(w.rng, ('INV', 'A', 'ORD', 'R', 'PO'))}-{w.rng.randint(100, 99999)}", "street": lambda w: f"{w.rng.randint(1, 120)} {choose(w.rng, ('Main', 'Oak', 'Park', 'Lake', 'Hill', 'Church', 'River', 'Market'))} Street",
    "url": lambda w: f"https://{choose(w.rng, NOUNS)}.example.com", "people": lambda w: [_person(w) for _ in range(2)], "firsts": lambda w: w.rng.sample(NAMES[:150], w.rng.randint(2, 4)),
    "described": lambda w: expand(w.rng, f"[A {{a}} {w.kind} for {{p}}.|This {w.kind} is {{a}} and {{b}}.|{{A}} and {{b}}.|Everybody loves this {w.kind}.]", a=(a := choose(w.rng, ("quiet", "bright", "simple", "modern", "friendly", "strong"))), A=a.capitalize(), b=choose(w.rng, ("easy to like", "full of ideas", "well made", "good for all", "never boring")), p=choose(w.rng, ("families", "every day", "young and old", "rainy days"))),
}  # fmt: skip


def _value(wish: _Wish, trait: Trait) -> Any:
    """Draw the value of a field."""
    rng = wish.rng
    if trait.inner:
        made = [{choose(rng, one.keys): _value(wish, one) for one in trait.inner}]
        keys = list(made[0])
        while trait.many and len(made) < 2 and rng.random() < 0.7:
            other = dict(zip(keys, (_value(wish, one) for one in trait.inner), strict=True))
            if other[keys[0]] != made[0][keys[0]]:
                made.append(other)
        return made if trait.many else made[0]
    first = trait.values[0]
    if first == "?":
        return rng.random() < 0.5
    if first.startswith("*"):
        if first.startswith("*@"):
            return _MAKERS[first[2:]](wish)
        items = [first[1:], *trait.values[1:]]
        return rng.sample(items, rng.randint(2, min(4, len(items))))
    if first.startswith("@"):
        return _MAKERS[first[1:]](wish)
    if bounds := re.fullmatch(r"(-?[\d.]+)-([\d.]+)", first):
        low, high = bounds.groups()
        if "." in low:
            return round(rng.uniform(float(low), float(high)), choose(rng, (1, 1, 2)))
        return _number(rng, int(low), int(high))
    return choose(rng, trait.values)


def _number(rng: Random, low: int, high: int) -> int:
    """Draw a whole number; a large one is round, as people make numbers up."""
    if low >= 800 and high <= 2100:
        return rng.randint(low, high)
    step = int(10 ** max(0, len(str(high)) - 3)) * (10 if high > 200 else 5 if high > 60 and rng.random() < 0.5 else 1)
    return max(low, rng.randint(low // step, high // step) * step)


def _told(wish: _Wish, trait: Trait, value: Any, said: str) -> str:
    """Add what a field is to what was said of the thing."""
    way = choose(wish.rng, trait.ways)
    if isinstance(value, bool):
        way = "|".join(trait.ways) if value else trait.no
    shown = values.join(wish.rng, value).replace(" & ", " and ") if isinstance(value, list) and len(value) > 1 else value[0] if isinstance(value, list) else value  # fmt: skip
    number = values.spoken(value) if "{n}" in way else ""
    text = f"{value:,}" if isinstance(value, int) and value >= 10_000 and wish.rng.random() < 0.5 else str(shown)
    return way.replace("#", said).replace("{v}", text).replace("{n}", number)


def _key(rng: Random, trait: Trait, kind: str) -> str:
    """Draw a key of a field; the name of another kind of thing is just its name."""
    key = choose(rng, trait.keys)
    if trait.keys[0] == "name" and key.endswith("_name") and key[:-5] in _WORDS and key[:-5] not in kind:
        key = "name"
    if rng.random() < 0.07:
        key = (
            f"{choose(rng, (kind.rpartition(' ')[2].lower(), 'main', 'the', 'new', 'my'))}_{key}"
            if rng.random() < 0.6
            else key.upper()
        )
    if "_" in key and rng.random() < 0.15:
        head, *rest = key.split("_")
        key = head + "".join(part.capitalize() for part in rest)
    return re.sub(r"[^\w]", "", key)


_ORDERS = lines("""
[Invent|Make up|Create|Generate|Imagine|Describe|Think of|Come up with|Give me|I need|Design|Suggest|Plan|Make|Make me|Write|Show me|Produce|Draft|Dream up|Tell me about] {a}[.||!|, please| please| for me| for my app| for a test|, anything goes]
{a}[, please|.| please||!|, made up|?]
[Can you|Could you|Please|Would you|please|can you] [invent|make up|create|generate|imagine|describe|think of|come up with|give me|design|suggest] {a}[.|?||]
[I want|I'd like|We need|I'm looking for|I am looking for|I need] {a}[.||, please| for my story| for a demo| for our website]
[An example of|Sample data for|Test data:|Example:|Fill in the form for|Fill in the fields for|Details of|JSON for] {a}[.||]
~[Kindly conceive|I require] {a}.
""")
_LIKING = ("nice", "random", "simple", "funny", "fictional", "typical", "fake", "short", "cool", "made-up", "great", "little", "small")  # fmt: skip


def wished(rng: Random, split: Split) -> tuple[str, Message]:
    """Make a request for a thing with some of what it is, and the thing with all that a schema asks for."""
    kinds, traits = choose(rng, _ALL)
    wish = _Wish(rng, split, choose(rng, kinds), choose(rng, _FOODS), pick(rng, NAMES, split), choose(rng, things.SURNAMES).replace("_", " "), choose(rng, _RIDDLES))  # fmt: skip
    able = [trait for trait in traits if wish.kind in _ONLY.get(trait.keys[0], (wish.kind,))]
    chosen = rng.sample(able, min(len(able), choose(rng, (2, 3, 3, 4, 4, 4, 5, 5, 6))))
    if {"vegan", "vegetarian"} & {trait.keys[0] for trait in chosen}:
        wish.food = choose(rng, [food for food in _FOODS if food not in _MEAT])
        chosen = [trait for trait in chosen if trait.keys[0] != "vegetarian" or _SHARED["vegan"] not in chosen]
    if rng.random() < 0.5:
        chosen.sort(key=traits.index)
    said = wish.kind
    sayable = [trait for trait in chosen if trait.ways]
    told = rng.sample(sayable, min(len(sayable), choose(rng, (0, 0, 1, 1, 1, 2, 2, 2, 3, 3))))
    found: Message = {}
    for trait in chosen:
        key = _key(rng, trait, wish.kind)
        if key in found:
            continue
        found[key] = value = _value(wish, trait)
        if trait in told and (not isinstance(value, bool) or value or trait.no):
            said = _told(wish, trait, value, said)
    found = _grouped(rng, found)
    # What was said must be in the answer, so what is too long for one begins anew.
    if len(json.dumps(found, ensure_ascii=False)) > 230:
        return wished(rng, split)
    if rng.random() < 0.2:
        said = f"{choose(rng, _LIKING)} {said}"
    article = choose(rng, ("a", "a", "a", "a", "a", "a", "my", "another", "")) if said[0].islower() or said[0].isdigit() else choose(rng, ("a", ""))  # fmt: skip
    ask = re.sub(r"\b([Aa]) (?=[aeioAEIO]|u[nr](?!i)|8|11 |18 )", r"\1n ", f"{article} {said}".strip())
    return expand(rng, choose(rng, _ORDERS[:-1] if split == "train" else _ORDERS), a=ask).replace("~", ""), found


def _grouped(rng: Random, found: Message) -> Message:
    """Put some fields into an object of their own, now and then."""
    if len(found) < 3 or rng.random() > 0.14:
        return found
    fields = list(found.items())
    at = rng.randint(0, len(fields) - 2)
    group = (choose(rng, ("details", "info", "data", "specs", "properties", "profile", "more", "basics", f"{coin(rng, 1)}_info")), dict(fields[at : at + 2]))  # fmt: skip
    return dict([*fields[:at], group, *fields[at + 2 :]])


CAPITALS = dict(
    pair.split("=")
    for pair in "France=Paris|Italy=Rome|Spain=Madrid|Germany=Berlin|Japan=Tokyo|Portugal=Lisbon|Greece=Athens|Austria=Vienna|Poland=Warsaw|Hungary=Budapest|Norway=Oslo|Sweden=Stockholm|Denmark=Copenhagen|Finland=Helsinki|Ireland=Dublin|Russia=Moscow|China=Beijing|India=New Delhi|Egypt=Cairo|Kenya=Nairobi|Peru=Lima|Cuba=Havana|Canada=Ottawa|England=London|Scotland=Edinburgh|Belgium=Brussels|Turkey=Ankara|Thailand=Bangkok|South Korea=Seoul|Argentina=Buenos Aires|Mexico=Mexico City|Czechia=Prague|Ukraine=Kyiv|Iceland=Reykjavik|Netherlands=Amsterdam|Switzerland=Bern|Australia=Canberra|Chile=Santiago".split(
        "|"
    )
)


def capital(rng: Random) -> Exchange:
    """Ask for a capital, or whether a city is one."""
    country, city = choose(rng, list(CAPITALS.items()))
    found: Message
    if rng.random() < 0.3:
        other = city if rng.random() < 0.5 else choose(rng, list(CAPITALS.values()))
        ask = expand(rng, "Is {o} the capital of {c}?", o=other, c=country)
        found = {choose(rng, ("answer", "correct", "is_capital", "true", "result", "is_correct")): other == city}
        if rng.random() < 0.4:
            found[choose(rng, ("explanation", "reason", "comment"))] = f"The capital of {country} is {city}."
    else:
        ask = expand(rng, "[What is|What's|Tell me|Name|whats] the capital [city |]of {c}[?||]|[Capital of {c}|{c}'s capital][?||]|Which city is the capital of {c}?".join(("[", "]")), c=country)  # fmt: skip
        found = {choose(rng, ("capital", "answer", "city", "result", "capital_city", "name")): city}
        if rng.random() < 0.4:
            found[choose(rng, ("country", "land", "of"))] = country
    return forms.answered(ask, found)


def make(rng: Random, split: Split) -> Exchange:
    """Make a wish whose keys the server forces."""
    return capital(rng) if rng.random() < 0.04 else forms.answered(*wished(rng, split))
