"""Orders and lists that a form takes from a text: what, how many, of which size; and each entry of a list, to the last.

What is ordered may be anything, also what nobody knows, and is copied as it stands: "3 large boxes of pears" are pears,
"a lemon" is one lemon. A list has as many entries as the text.
"""

# ruff: noqa: E501 - phrases read best unbroken

import json
import re
from collections.abc import Callable
from functools import cache
from random import Random
from typing import Any

from demo_model.exchange import Exchange
from demo_model.skills import forms, schemas, things, values
from demo_model.skills.amounts import UNITS
from demo_model.skills.portion_words import COUNTABLE, EATEN
from demo_model.template import Message
from demo_model.text import CITIES, NAMES, Split, choose, expand, lines, pick, sentence

Drawn = tuple[str, Message]

WHAT = ["product", "product", "item", "item", "article", "name", "thing", "goods", "what", "object", "product_name", "item_name", "productName", "ordered", "wanted"]  # fmt: skip
MANY = [
    "quantity",
    "quantity",
    "quantity",
    "count",
    "amount",
    "number",
    "how_many",
    "qty",
    "pieces",
    "units",
    "number_of_items",
    "n",
    "num",
]
_SIZES = ["size", "size", "format", "size_name", "product_size"]
_COLORS = ["color", "colour", "shade"]
_HOLDERS = ["unit", "container", "packaging", "package", "packed_in", "unit_name"]
# Sizes as a schema's choices have them, and other words for them.
SIZES = {"small": "little|tiny|smaller", "medium": "medium-sized|middle-sized", "large": "big|huge|larger|very large"}
_OTHER_SIZES = ["tiny", "huge", "big", "XL", "giant", "mini", "long", "short", "tall", "wide", "extra large", "double"]
ORDERS = lines("""
[I would like|I'd like|I want|I need|I'll take|I'd love|I'm looking for|I wish to order|I am ordering|Let me have] {o}[, please|][.|.||!]
[We would like|We'd like|We need|We want|We'll take|We are ordering|We have to get|We are out of everything: we need] {o}[.|.||!| please]
[Please send|Send|Bring|Get|Ship|Please get|Kindly send] [me|us] {o}[.|.||, please| as soon as you can.]
[Order|Buy|Reserve|Pack|Please order|Put aside|Deliver] {o}[.|.||, please| for {day0}.]
[Can|Could|May] [I|we] [have|get|order|buy|take] {o}[?|?|, please?| please]
[Can|Could] you [send|bring|get|reserve] [me|us] {o}[?|?|, please?| by {day0}?]
{o}[, please|][.|.||!]
[Do you have|Have you got|How about] {o}[ for me|]?
[I bought|We bought|I ordered|We sold|I found|She wants|He ordered|They need|We received|I lost|My boss wants] {o}[ {day}|].
{who} [wants|needs|ordered|bought|would like|asks for|takes|sold] {o}[ {day}|][ for {price}|].
{who} [from|in] {city} [wants|needs|ordered|bought|would like] {o}.
[Order|Note|Request|New order|Sale|Purchase][:| -] {o}[, {price}|][, {who}|][, {city}|]
{o} for {who}[ in {city}|][, {day0}|][.|]
[Hello|Hi|Dear shop|Good morning|Hey][,|!] [I'd like|could I get|please send me|we need|I would like to buy] {o}[, delivered to {city}|][. Thanks!| Thank you.|. Best, {who}|.]
[I paid|We paid|It cost] {price} for {o}.
[Add|Put] {o} [[to|in|into] [my|the|our] [cart|basket|order]|on [my|the|our] list][.||, please]
[My name is|I am|This is] {who}[ from {city}|]. [I'd like|I need|Please send me] {o}.
[The customer|A guest|A client|Somebody] [wants|asked for|ordered] {o}[ for {day0}|].
~Might I trouble you for {o}?
""")


def _one_of(rng: Random, noun: str) -> str:
    """Say that there is one of it."""
    article = "an" if noun[0] in "aeiouAEIOU" and not noun.startswith(("uni", "use", "eu")) else "a"
    return choose(rng, (article,) * 7 + ("one", "1", "one", "a single", "just one"))


def _many(rng: Random) -> values.Said:
    """Say how many there are, two or more."""
    kind = rng.random()
    if kind < 0.07:
        return choose(rng, (("a dozen", 12), ("half a dozen", 6), ("two dozen", 24), ("a couple of", 2), ("a pair of", 2), ("a hundred", 100)))  # fmt: skip
    number = rng.randint(2, choose(rng, (9, 9, 9, 12, 12, 30, 30, 99, 400)))
    return (values.spoken(number) if rng.random() < 0.4 else str(number)), number


def _thing(rng: Random) -> tuple[str, str]:
    """Draw a thing as one and as several."""
    if rng.random() < 0.12:
        more = choose(rng, COUNTABLE)
        if more.endswith("s") and " " not in more and not more.endswith(("ves", "ies", "es")):
            return more[:-1], more
    return things.counted(rng)


def _plain(rng: Random) -> tuple[str, str]:
    """Draw a thing without a colour of its own."""
    while True:
        one, more = _thing(rng)
        if one.split(" ", 1)[0] not in things.COLOURS:
            return one, more


def _size(rng: Random) -> tuple[str, str]:
    """Draw a size as it is said, and as a form has it."""
    if rng.random() < 0.15:
        other = choose(rng, _OTHER_SIZES)
        return other, other
    size = choose(rng, list(SIZES))
    return (choose(rng, SIZES[size].split("|")) if rng.random() < 0.15 else size), size


def _goods(rng: Random) -> tuple[str, list[tuple[list[str], Any]]]:
    """Say what is ordered: "3 large boxes of pears", "a red lamp"; return also the keys and values of its parts."""
    one, more = _plain(rng)
    single = rng.random() < 0.22
    contained = rng.random() < 0.35
    found: list[tuple[list[str], Any]] = []
    before: list[str] = []
    if rng.random() < 0.5:
        said, size = _size(rng)
        before.append(said)
        found.append((_SIZES, size))
    inner = ""
    if rng.random() < 0.25:
        color = choose(rng, things.COLOURS)
        inner = f"{color} "
        found.append((_COLORS, color))
    if contained:
        box, boxes, _ = choose(rng, UNITS)
        what = choose(rng, EATEN) if rng.random() < 0.2 else more
        head, noun = f"{box if single else boxes} of {inner}{what}", what
        if rng.random() < 0.35:
            found.append((_HOLDERS, box if single else boxes))
    else:
        noun = one if single else more
        head = inner + noun
    phrase = " ".join([*before, head])
    shown, number = (_one_of(rng, phrase), 1) if single else _many(rng)
    return f"{shown} {phrase}", [(WHAT, noun), (MANY, number), *found]


# What may be said besides; the place of a day with its "on", or bare.
_BESIDES: dict[str, tuple[str, Callable[[Random, Split], values.Said]]] = {
    "who": ("customer|client|buyer|customer_name|person|ordered_by|who", lambda rng, split: values.same(values.person(rng, split))),
    "city": ("city|town|place|delivery_city|ship_to|destination", lambda rng, split: values.same(pick(rng, CITIES, split))),
    "day": ("day|date|when|order_date", forms.PLACES["day"]),
    "day0": ("day|date|when|due_date|delivery_date", forms.PLACES["due"]),
    "price": ("price|total|cost|paid|sum", values.money),
}  # fmt: skip


def _placed(rng: Random, split: Split, text: str) -> tuple[str, list[tuple[list[str], Any]]]:
    """Fill the other places of a text."""
    found: list[tuple[list[str], Any]] = []
    for place in re.findall(r"\{(\w+)\}", text):
        keys, draw = _BESIDES[place]
        shown, value = draw(rng, split)
        text = text.replace(f"{{{place}}}", shown)
        found.append((keys.split("|"), value))
    return text, found


def _keyed(rng: Random, fields: list[tuple[list[str], Any]]) -> Message:
    """Give each value a key of its own."""
    found: Message = {}
    for keys, value in fields:
        key = choose(rng, keys)
        found.setdefault(key if key not in found else keys[-1], value)
    return found


def ordered(rng: Random, split: Split) -> Drawn:
    """Write an order of one thing, and what a form asks of it: all or some, in any order."""
    said, fields = _goods(rng)
    text = expand(rng, _wording(rng, ORDERS, split), o="{o}")
    text, others = _placed(rng, split, text.replace("{o}", "\0"))
    text = text.replace("\0", said).strip()
    wanted = fields if rng.random() < 0.7 else rng.sample(fields, rng.randint(1, len(fields)))
    wanted = [*wanted, *(one for one in others if rng.random() < 0.7)]
    if rng.random() < 0.55:
        rng.shuffle(wanted)
    return _begun(text, others), _keyed(rng, wanted)


def _begun(text: str, fields: list[tuple[list[str], Any]]) -> str:
    """Begin with a capital, unless the text begins with a value, which stays as it is."""
    return text if any(text.startswith(str(value)) for _, value in fields) else text[:1].upper() + text[1:]


def _wording(rng: Random, patterns: list[str], split: Split) -> str:
    held = [one[1:] for one in patterns if one[0] == "~"]
    return choose(rng, held if split == "held" else patterns[: len(patterns) - len(held)])


LISTS = ["items", "items", "items", "products", "list", "shopping_list", "order", "things", "articles", "goods", "positions", "line_items", "lineItems", "cart", "ingredients", "entries", "inventory", "stock", "contents", "groceries", "packing_list", "order_items", "to_buy", "elements"]  # fmt: skip
TEXTS = lines("""
[Extract|Read|Parse|Get|Take down|Structure|Give me|Return|Find|Collect|List] the [shopping list|list|order|items|products|things|inventory|packing list|delivery|articles]: {l}[.|.|]
[Shopping list|Order|To buy|Groceries|Delivery|Inventory|Packing list|Stock|List|Items|Contents|For the party|In the box|Needed|Left|Basket]: {l}[.|.||!]
[I need|We need|I bought|Please buy|Get me|Buy|Bring|Add|I'd like|We ordered|Send us|I have|We sold|Pack|Don't forget|We are missing|I found|Take|Could I get] {l}[.|.||, please|!]
[The|My|Our] [box|bag|drawer|cupboard|shop|cellar|order|basket|parcel|suitcase|shelf] [holds|has|contains|needs|has in it] {l}[.|.|]
{who} [needs|bought|ordered|wants|sold|brings|packed|has|found|takes] {l}[.| {day}.|]
{l}[.|.||, please]
{l}. [That's all.|Thank you.|Please extract the items.|That is what we need.|Make a list of it.|Put it on the list.|Which items are these?|Extract the list.]
[On the list|In the basket|In the box|In my bag|On the table|At the market|In {city}] [I see|we have|I found|we bought] {l}[.|]
[What is|Which things are] [in|on] this [order|list]? {l}
[Hi|Hello|Good morning][,|!] [I'd like to order|can I get|please send|we need|please pack] {l}[. Thanks!| please|.]
[My|The] [order|shopping list|list|basket]: {l}[. {who}|, for {day0}|.|]
[For the|For our] [soup|cake|party|trip|camp|classroom|office|kitchen] [we need|take|buy|get] {l}[.|]
[Turn|Put|Convert|Write] this into a [list|form|table]: {l}[.|]
[[Add|Put] {l} on [my|the|our] [list|shopping list]|[Add|Put] {l} [to|in] [my|the|our] [order|cart|basket]][.||, please]
~Here is what goes on my list: {l}.
""")
# What a list may tell of each of its entries: keys of the list ; of the first value and of the second ; how one says them.
PAIRS = lines("""
people|persons|members|children|guests|family ; name|person|first_name=@name ; age|years|years_old=1-95 ; {k} is {v}|{k} ({v})|{k}, {v}|{k} is {v} years old|{k}: {v}|{k} {v}
cities|places|towns|readings|weather|reports ; city|place|name|town=@city ; temperature|degrees|temp|celsius=0-38 ; {k} has {v} degrees|{k} {v} degrees|{k}: {v}|it is {v} degrees in {k}|{k} ({v})
dishes|menu|items|products|prices|offers ; name|dish|item|product=@one ; price|cost|amount=2-90 ; the {k} costs {v} euros|the {k} for {v} euros|{k}: {v}|a {k} at {v} dollars|{k} {v} EUR
results|scores|players|ranking|students|teams ; name|player|student|who=@name ; score|points|goals|result=0-99 ; {k} has {v} points|{k} scored {v}|{k} {v}|{k}: {v}|{k} got {v}|{v} for {k}
tasks|todos|assignments|plan|duties|jobs ; person|who|owner|assignee|name=@name ; task|what|title|todo|job=@chore ; {k} has to {v}|{k} will {v}|{k}: {v}|{k} must {v}|{k} should {v}
schedule|appointments|events|agenda|program ; title|event|what|name=@event ; time|at|start|starts_at=@clock ; {k} at {v}|the {k} is at {v}|{k}: {v}|{k} ({v})|the {k} at {v}|at {v} the {k}
things|objects|clothes|items|products ; name|thing|item|what=@one ; color|colour|shade=@colour ; the {k} is {v}|a {v} {k}|{k}: {v}|the {v} {k}|{k} ({v})
pets|animals|zoo ; name|called|pet_name=@pet ; animal|species|kind|type=@animal ; {k} is a {v}|the {v} {k}|{k}: {v}|{k} (a {v})|a {v} called {k}|our {v} {k}
staff|employees|team|people|contacts ; name|person|who|employee=@name ; job|role|position|profession=@job ; {k} is a {v}|{k} works as a {v}|{k}: {v}|{k} ({v})|the {v} {k}|{k}, {v}
homes|people|addresses|visitors|friends ; name|person|who|friend=@name ; city|town|place|lives_in=@city ; {k} lives in {v}|{k} from {v}|{k}: {v}|{k} ({v})|{k} is in {v}|{k}, {v}
rooms|bookings|seats|guests|tables ; guest|name|person|who=@name ; room|room_number|table|number=1-400 ; {k} has room {v}|{k} in room {v}|{k}: {v}|room {v} for {k}|{k} ({v})
meals|orders|guests|drinks ; guest|name|person|for=@name ; dish|food|meal|order=@dish ; {k} wants {v}|{k} takes {v}|{k}: {v}|{v} for {k}|{k} has {v}|{k} ordered {v}
""")
_MAKERS: dict[str, Callable[[Random, Split], str]] = {
    "@name": lambda rng, split: pick(rng, NAMES, split) if rng.random() < 0.8 else values.person(rng, split),
    "@city": values.place,
    "@one": lambda rng, split: things.counted(rng)[0],
    "@chore": things.chore,
    "@event": lambda rng, split: str(forms.PLACES["event"](rng, split)[1]),
    "@clock": lambda rng, split: values.clock(rng)[0],
    "@colour": lambda rng, split: things.colour(rng),
    "@pet": lambda rng, split: things.pet_name(rng),
    "@animal": lambda rng, split: choose(rng, things.PETS),
    "@job": lambda rng, split: choose(rng, things.JOBS),
    "@dish": lambda rng, split: choose(rng, things.DISHES),
}  # fmt: skip
_INTROS = ["", "", "", "", "Here is the list: ", "Note: ", "Extract all of them: ", "For the table: ", "Today: ", "Read this: ", "List: ", "Who and what: ", "From the meeting: ", "Please list: ", "All entries: "]  # fmt: skip


def _joined(rng: Random, parts: list[str], before: str) -> str:
    """Write the entries one after another: with commas, with "and" before the last or all, in lines after a colon."""
    if len(parts) == 1:
        return parts[0]
    kind = rng.random() if not before or before[-2:] == ": " else rng.random() * 0.8
    if kind < 0.62:
        return ", ".join(parts[:-1]) + choose(rng, (" and ", " and ", " and ", ", and ", ", ", " plus ", " & ")) + parts[-1]  # fmt: skip
    if kind < 0.7:
        return " and ".join(parts)
    if kind < 0.8:
        return choose(rng, ("; ", ", ", " + ", " / ", " - ", ", and also ")).join(parts)
    mark = choose(rng, ("- ", "- ", "* ", "", "{i}. ", "• ", "[ ] "))
    return ("\n" if before else "") + "\n".join(mark.replace("{i}", str(at)) + part for at, part in enumerate(parts, 1))


# How an entry is written, with its number before, after or in brackets; as one speaks, or as lists are kept.
_NOTED = ("{q}x {t}", "{q} x {t}", "{t} x{q}", "{t} ({q})", "{t}: {q}", "{t} - {q}", "{t} {q}", "{q} pcs {t}", "{q} {t}")  # fmt: skip


def _entry(rng: Random, noted: str, kind: str, *, one: bool) -> tuple[str, list[Any]]:
    """Write an entry of a list of things: its name and number, and its unit or colour where the list has one."""
    single, more = _plain(rng)
    shown, number = _many(rng)
    if noted:
        number = rng.randint(1, choose(rng, (6, 20, 99)))
        name = single if number == 1 or rng.random() < 0.2 else more
        return noted.replace("{q}", str(number)).replace("{t}", name), [name, number]
    if kind == "unit":
        box, boxes, _ = choose(rng, UNITS)
        name = choose(rng, EATEN) if rng.random() < 0.4 else more
        unit = box if one else boxes
        return f"{_one_of(rng, box) if one else shown} {unit} of {name}", [name, 1 if one else number, unit]
    name, extra = (single if one else more), choose(rng, things.COLOURS)
    phrase = f"{extra} {name}" if kind == "color" else name
    said = f"{_one_of(rng, phrase)} {phrase}" if one else f"{shown} {phrase}"
    return said, [name, 1 if one else number, *([extra] if kind == "color" else [])]


def _listed(rng: Random, amount: int) -> tuple[list[str], list[Any]]:
    """Write the entries of a list of things, each with its number, or bare ones of which only the names are asked."""
    kind = choose(rng, ("", "", "", "", "", "unit", "color", "names"))
    noted = choose(rng, _NOTED) if kind == "" and rng.random() < 0.25 else ""
    names = [choose(rng, ("name", "name", "name", *WHAT[:9], "ingredient")), choose(rng, MANY), choose(rng, _HOLDERS if kind == "unit" else _COLORS)]  # fmt: skip
    order = [0, 1, 2] if rng.random() < 0.7 else [1, 0, 2]
    said: list[str] = []
    found: list[Any] = []
    for at in range(amount):
        text, parts = _entry(rng, noted, kind, one=rng.random() < (0.4 if at + 1 == amount else 0.22))
        if kind == "names" and rng.random() < 0.7:
            text = parts[0]
        said.append(text)
        found.append(parts[0] if kind == "names" else {names[one]: parts[one] for one in order if one < len(parts)})
    return said, found


def listed(rng: Random, split: Split) -> Drawn:
    """Write a list of up to six things, with the form that holds each of them."""
    said, entries = _listed(rng, choose(rng, (1, 2, 2, 2, 3, 3, 3, 3, 3, 3, 4, 4, 4, 4, 5, 5, 6, 6)))
    text = expand(rng, _wording(rng, TEXTS, split))
    text, others = _placed(rng, split, text.replace("{l}", "\0"))
    before = text.split("\0", maxsplit=1)[0]
    text = text.replace("\0", _joined(rng, said, before)).replace(": \n", ":\n")
    found: Message = {choose(rng, LISTS): entries}
    if others and rng.random() < 0.7:
        more = _keyed(rng, others)
        found = {**found, **more} if rng.random() < 0.5 else {**more, **found}
    return _begun(text, others), found


@cache
def _pair(line: str) -> tuple[list[str], list[str], str, list[str], str, list[str]]:
    lists, first, second, ways = line.split(" ; ")
    keys, _, drawn = first.partition("=")
    others, _, values_of = second.partition("=")
    return lists.split("|"), keys.split("|"), drawn, others.split("|"), values_of, ways.split("|")


def paired(rng: Random, split: Split) -> Drawn:
    """Write a list of people, places or the like, with something told of each."""
    lists, keys, first, others, second, ways = _pair(choose(rng, PAIRS))
    key, other, way = choose(rng, keys), choose(rng, [one for one in others if one not in keys]), choose(rng, ways)
    amount = choose(rng, (2, 2, 3, 3, 3, 4, 5))
    said: list[str] = []
    entries: list[Message] = []
    for name in dict.fromkeys(_MAKERS[first](rng, split) for _ in range(amount)):
        shown, value = _valued(rng, split, second)
        said.append(way.replace("{k}", name).replace("{v}", shown))
        entries.append({key: name, other: value})
    if rng.random() < 0.2:
        entries = [dict(reversed(one.items())) for one in entries]
    before = choose(rng, _INTROS)
    text = (before + _joined(rng, said, before)).replace(": \n", ":\n")
    text = re.sub(r"\b([Aa]) (?=[aeio])", r"\1n ", text)
    return text + choose(rng, (".", ".", "", "!")) if text[-1] != "." else text, {choose(rng, lists): entries}


def _valued(rng: Random, split: Split, pattern: str) -> values.Said:
    """Draw a value of a pair; ranges are numbers, in figures or at times in words."""
    if pattern[0] == "@":
        return values.same(_MAKERS[pattern](rng, split))
    low, _, high = pattern.partition("-")
    number = rng.randint(int(low), int(high))
    return values.shown(rng, number, 0.25), number


def drawn(rng: Random, split: Split) -> Drawn:
    """Write an order or a list, and the form that holds it; short enough to be written in some 100 tokens."""
    while True:
        kind = rng.random()
        text, found = (ordered if kind < 0.36 else listed if kind < 0.84 else paired)(rng, split)
        if len(json.dumps(found, ensure_ascii=False)) <= 330:
            return text, found


def make(rng: Random, split: Split) -> Exchange:
    """Make a text and the form that holds what it lists; the keys are mostly the server's, at times told."""
    text, found = drawn(rng, split)
    if split == "train" and rng.random() < 0.78:
        if rng.random() < 0.1:
            text = f"{sentence(rng)} {text}" if rng.random() < 0.5 else f"{text}{'' if text[-1] in '.!?' else '.'} {sentence(rng)}"  # fmt: skip
        after = choose(rng, forms.AFTER)
        return forms.answered(choose(rng, forms.BEFORE) + text + ("." if after[:1] == " " and text[-1] not in ".!?" else "") + after, found)  # fmt: skip
    keys = schemas.keys_of(rng, found)
    if rng.random() < 0.25:
        text = f"{text}{choose(rng, (' ', chr(10)))}{choose(rng, ('Schema:', 'Use this JSON schema:', 'Answer by this schema:'))} {_schema(rng, found)}"  # fmt: skip
        return schemas.exchange(text, found, None)
    pattern = _wording(rng, forms.NAMED, split)
    return schemas.exchange(expand(rng, pattern, t=text, k=keys), found, None)


def _schema(rng: Random, found: Message) -> str:
    """Write the schema of a form; a size is one of its choices."""
    properties: Message = schemas.type_of(found)["properties"]
    for key, one in found.items():
        if key in _SIZES and one in SIZES:
            properties[key]["enum"] = sorted({one, *rng.sample(list(SIZES), 2)}) if rng.random() < 0.7 else list(SIZES)
    return json.dumps({"type": "object", "properties": properties, "required": list(found)}, ensure_ascii=False)
