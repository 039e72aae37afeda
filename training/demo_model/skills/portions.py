"""Tools whose arguments are amounts, and requests that say one or several of them in a sentence.

"4 cartons of milk and 2 of cream", "two adults and three kids for a week", "4 sets of 12 at 60 kilos", "an hour and 20
minutes", "a kilo and a half", "dim it to half": which number belongs to which argument is told by the words beside it.
What somebody tells ("I just drank three glasses of water") is a request, too, where a tool records it.
"""

# ruff: noqa: E501, PLR0917 - phrases read best unbroken

import re
from collections.abc import Callable
from functools import cache
from random import Random
from typing import Any

from demo_model.skills import amounts, parts, requests, slots, things, values
from demo_model.skills.amounts import MEASURES, UNITS
from demo_model.skills.define import Offer, definition, styled
from demo_model.skills.portion_words import COUNTABLE, CROWD, DONE, DRILLS, EATEN, SETS, UNSAID
from demo_model.skills.slots import INT, NUMBER, TEXT, Argument
from demo_model.template import Message
from demo_model.text import ADJECTIVES, NOUNS, Split, choose, coin, expand, lines, wording

Maker = Callable[[Random, Split], Offer]


def _argument(name: str, schema: Message, value: Any, about: str = "") -> Argument:
    return Argument(name, about or f"[The |]{name.replace('_', ' ')}[.|]", schema, value)


def _defined(rng: Random, names: str, about: str, said: list[Argument], unsaid: list[Argument], ask: str) -> Offer:
    """Define a tool with what the request says, what it might have said, and now and then more that nobody says."""
    spare = list(unsaid)
    for _ in range(choose(rng, (0, 0, 1, 1, 2))):
        name, schema = choose(rng, _EXTRAS)
        spare.append(_argument(name, schema, None))
    fields: dict[str, tuple[str, Message, bool]] = {}
    arguments: dict[str, Any] = {}
    needed = rng.random() < 0.7
    for one in (*said, *spare):
        given, name = one in said, styled(rng, one.name)
        if name.lower() in {field.lower() for field in fields}:
            continue
        schema = dict(one.schema)
        if rng.random() < 0.5:
            schema["description"] = expand(rng, one.about)
        fields[name] = (name, schema, given and needed)
        if given:
            arguments[name] = one.value
    order = list(fields.values())
    if rng.random() < 0.3:
        rng.shuffle(order)
    arguments = {name: arguments[name] for name, _, _ in order if name in arguments}
    name = choose(rng, names.split("|"))
    tool = definition(rng, styled(rng, name), about, order)
    ask = re.sub(" +", " ", ask).strip()
    ask = ask[0].upper() + ask[1:] if rng.random() < 0.5 else ask
    ask = requests.said(rng, ask, [], verbatim=True, spare="{") if ask[-1] not in ".?!" and "lease" not in ask else ask
    return Offer(names.replace("|", " ").replace("_", " "), tool, ask, arguments, everyday=True)


_EXTRAS: list[tuple[str, Message]] = [
    (name, {"type": kind} if "/" not in kind else {"type": "string", "enum": kind.split("/")})
    for name, kind in (word.split(":") for word in UNSAID.split())
]
_AMOUNTS = ("quantity", "amount", "number", "count", "qty", "pieces")
_BUY = "order buy get request restock fetch reorder send_for purchase add reserve book ship supply"
_ITEMS = "item product article name ingredient goods material thing what".split()  # noqa: SIM905


def _good(rng: Random, counted: bool = False) -> str:
    """Name something that there may be much of, or several of if it is ``counted``."""
    kind = rng.random()
    if kind < 0.5:
        return choose(rng, COUNTABLE if counted else EATEN)
    return slots.plural(rng) if kind < 0.85 else f"{coin(rng, 2)}s" if kind < 0.93 else things.goods(rng, plural=True)


def bought(rng: Random, split: Split) -> Offer:
    """Order some of one thing, whose unit the argument's name tells."""
    (one, several, names), measured = (choose(rng, MEASURES[:10]), True) if rng.random() < 0.35 else (choose(rng, UNITS), False)  # fmt: skip
    shown, value = amounts.measured(rng, one, several) if measured else amounts.before(rng, one, several)
    thing = choose(rng, EATEN) if measured else _good(rng)
    place = choose(rng, NOUNS)
    ask = expand(rng, choose(rng, _BUYING), q=shown, t=thing, n=place)
    if value != 1 and not measured and rng.random() < 0.25:
        ask = expand(rng, choose(rng, _SHORT), q=shown.removesuffix(several).strip(), u=several, t=thing, v=value)
        ask = ask.replace("couple of more", "couple more")
    noun = choose(rng, (thing.split()[-1], place, "stock", "supplies", "goods", "order"))
    said = [_argument(choose(rng, _ITEMS), TEXT, thing, "[What to order|The thing][.|]"), _counted(rng, names, value, measured, several)]  # fmt: skip
    verb = choose(rng, _BUY.split())
    return _defined(rng, f"{verb}_{noun}".replace(" ", "_"), expand(rng, "[{v} {n}[.|]|{v} {n} for the {p}[.|]]", v=verb.replace("_", " ").capitalize(), n=noun, p=place), said, [], ask)  # fmt: skip


_BUYING = lines("""
[we need|I need|order|please order|get|buy|get me|I'd like|we want|send us|can we have|I'll take|add] {q} of {t}[.||, please|]
{q} of {t}[, please||.| for the {n}]
[we need|we want|I want|I'd like] {q} of {t}[, order it|, order them|, can you order that|. Order that.|, please get them]
{t}: {q}
[the {n} needs|my boss wants|the {n} ordered] {q} of {t}
{q} of {t} [are missing|should do|is what we need|must come|have to be ordered]
""")
_SHORT = lines("""
[we're|we are|I'm] [running low on|running out of|short of|out of|nearly out of|low on] {t}, [get|order|buy|send] {q} [more |]{u}
[the |our |]{t} [ran out|will run out soon|won't last], [order|get|we need] {q} [more |new |]{u}
we have no {t} left, {q} {u} [please|more]
{q} more {u} of {t}
{t}, {v} {u}[, please|]
{v} {u} {t}
""")


def _counted(rng: Random, names: list[str], value: Any, fraction: bool, unit: str) -> Argument:
    """Make the argument of an amount: its name has the unit, or its description."""
    schema = NUMBER if fraction else choose(rng, (INT, INT, INT, NUMBER))
    if rng.random() < 0.3:
        return _argument(choose(rng, ("quantity", "amount", "count", "number", "how_many")), schema, value, f"[Number of|How many|In] {unit}[.|]")  # fmt: skip
    return _argument(choose(rng, names), schema, value, f"[Number of {unit}|How many {unit}|The amount][.|]")


def basket(rng: Random, split: Split) -> Offer:
    """Order several things with how many of each, as a list; the unit may be said with the first one only."""
    made, said = _several(rng)
    fraction = any(isinstance(value, float) for _, value in made)
    key, number = choose(rng, _ITEMS), choose(rng, _AMOUNTS[:3] if fraction else _AMOUNTS)
    item = {"type": "object", "properties": {key: TEXT, number: NUMBER if fraction else INT}, "required": [key, number]}
    listed = [{key: thing, number: value} for thing, value in made]
    name = choose(
        rng, ("items", "products", "order", "lines", "goods", "articles", "ingredients", "parts", "positions")
    )
    fields = [_argument(name, {"type": "array", "items": item}, listed, "[What to order|The list][.|]")]
    ask = expand(rng, choose(rng, _BASKETS), s=said)
    if rng.random() < 0.3:
        where, noun = rng.randint(1, 90), choose(rng, ("table", "room", "order", "shelf", "customer", "shop"))
        fields.insert(0, _argument(choose(rng, (noun, f"{noun}_number", f"{noun}_id")), INT, where))
        ask = expand(rng, "[{n} {w} [wants|gets|takes|ordered|needs] {s}|{n} {w}: {s}|{s} for {n} {w}]", n=noun, w=where, s=said)  # fmt: skip
    elif rng.random() < 0.25:
        title, noun = values.title(rng), choose(rng, ("recipe", "list", "box", "mix", "set", "kit"))
        fields.insert(0, _argument(choose(rng, ("name", "title", f"{noun}_name")), TEXT, title))
        ask = expand(rng, "[[save|add|note|store|create|make] [the |a |]{n} [called |]{w}: {s}|[the |new |]{n} {w}: {s}|{w}: {s}|{s} for the {n} {w}]", n=noun, w=title, s=said)  # fmt: skip
    noun = choose(rng, NOUNS)
    return _defined(rng, f"{choose(rng, _BUY.split())}_{choose(rng, (noun, 'items', 'goods', 'list'))}", f"Order things for the {noun}", fields, [], ask)  # fmt: skip


_BASKETS = lines("""
[we need|I need|order|please order|get|buy|get me|I'd like|we want|send us|can we have|I'll take|add] {s}
{s}[, please|]
[we need|we want] {s}[, order it|, order them|, can you order that|. Order that.]
[for the weekend|for tomorrow|for the party]: {s}
""")


def _several(rng: Random) -> tuple[list[tuple[str, Any]], str]:
    """Draw two to four things with an amount each; return also how they are said."""
    kind = rng.random()
    names = list(dict.fromkeys(_good(rng, counted=kind > 0.7) for _ in range(choose(rng, (2, 2, 2, 3, 3, 4)))))
    made: list[tuple[str, Any]] = []
    said: list[str] = []
    one, several, _ = choose(rng, MEASURES[:10] if kind < 0.22 else UNITS)
    gram = choose(rng, (" grams", "g", " g", "ml", " grams"))
    for index, thing in enumerate(names):
        shown, value = amounts.measured(rng, one, several, 20) if kind < 0.22 else amounts.before(rng, one, several)
        if kind > 0.7:
            shown, value = amounts.whole(rng, 20) if rng.random() < 0.85 else choose(rng, _FEW)
            said.append(f"{shown} {thing}")
        elif kind > 0.6:
            value = rng.randint(1, 60) * choose(rng, (5, 10, 25))
            said.append(f"{value}{gram} {choose(rng, ('of ', 'of ', ''))}{thing}")
        elif kind < 0.42 or index == 0:
            said.append(f"{shown} of {thing}")
        else:
            bare = "one" if value == 1 else shown.removesuffix(several).removesuffix("of ").strip()
            said.append(f"{bare} of {thing}")
        made.append((thing, value))
    return made, values.join(rng, said).replace(" & ", " and ") if len(said) > 1 else said[0]


_FEW = (("a dozen", 12), ("half a dozen", 6), ("two dozen", 24), ("a couple of", 2))


def each(rng: Random, split: Split) -> list[Offer]:
    """Order several things, a call for each."""
    made, said = _several(rng)
    key, number = choose(rng, _ITEMS), choose(rng, _AMOUNTS[:3])
    first = _defined(rng, f"{choose(rng, _BUY.split())}_{choose(rng, (choose(rng, NOUNS), 'item', 'goods'))}", "Order one thing",
                     [_argument(key, TEXT, made[0][0]), _argument(number, NUMBER if any(isinstance(value, float) for _, value in made) else INT, made[0][1])], [], expand(rng, choose(rng, _BASKETS), s=said))  # fmt: skip
    names = list(first.arguments)
    order = names if isinstance(first.arguments[names[0]], str) else names[::-1]
    return [first, *(Offer(first.key, first.tool, "", {name: one[order.index(name)] for name in names}, everyday=True) for one in made[1:])]  # fmt: skip


def crowd(rng: Random, split: Split) -> Offer:
    """Say several counts, each of what its word is: adults, kids, dogs, nights, rooms."""
    chosen = rng.sample(CROWD, choose(rng, (2, 2, 3, 3, 4)))
    found: list[tuple[str, Argument]] = []
    for one, several, names in (line.split() for line in chosen):
        shown, value = amounts.stay(rng, several) if several in {"nights", "days"} else amounts.before(rng, one, several, choose(rng, (5, 9, 30)))  # fmt: skip
        name = choose(rng, (*names.split("|"), f"num_{several}", f"number_of_{several}"))
        found.append((shown, _argument(name, INT, value, f"[How many {several}|Number of {several}][.|]")))
    said = found if len(found) < 3 or rng.random() < 0.5 else found[:2]
    texts = values.join(rng, [shown for shown, _ in said]).replace(" & ", " and ")
    noun = choose(rng, (*NOUNS[:120], "party", "trip", "event", "booking", "reservation"))
    ask = expand(rng, "[there will be|we come with|we are|plan for|put down|expect|reserve for|I have|note|it's|book] {s}|{s}[, please|]|[for the {n}|for {n} {k}]: {s}|[the {n} is for|the {n} needs] {s}".join(("[", "]")), s=texts, n=noun, k=rng.randint(2, 60))  # fmt: skip
    return _defined(rng, expand(rng, "[plan|book|set|register|update|reserve|prepare|announce]_{n}", n=noun), f"Say how many come or are needed for the {noun}.", [one for _, one in said], [one for pair in found if pair not in said for one in pair[1:]], ask)  # fmt: skip


def stays(rng: Random, split: Split) -> Offer:
    """Say how many people go where and for how long."""
    people, nights = amounts.whole(rng, 9), amounts.stay(rng, unit := choose(rng, ("nights", "nights", "days")))
    place = values.place(rng, split)
    ask = expand(rng, choose(rng, _STAYS), p=people[0], n=nights[0], c=place, k=choose(rng, ("people", "guests", "adults", "persons", "of us")), r=choose(rng, ("room", "hotel", "flat", "cabin", "campsite", "tent", "hostel", "house", "suite", "bungalow")))  # fmt: skip
    said = [
        _argument(choose(rng, ("city", "place", "location", "town", "destination", "where")), TEXT, place),
        _argument(choose(rng, ("guests", "people", "persons", "adults", "travellers", "num_guests", "party_size")), INT, people[1], "[How many people|Number of guests][.|]"),
        _argument(choose(rng, (unit, f"num_{unit}", f"number_of_{unit}", "length_of_stay", "duration")), INT, nights[1], f"[How many {unit}|Length in {unit}][.|]"),
    ]  # fmt: skip
    rng.shuffle(said)
    return _defined(rng, "book_room|reserve_hotel|find_stay|book_trip|search_lodging|rent_cabin", "Find a place to stay.", said, [], ask)  # fmt: skip


_STAYS = lines("""
{p} of us [want to stay|are going to be|will be|would like a {r}|need a {r}] in {c} for {n}
[a|one] {r} in {c}[,| for] {p} {k}, {n}
{n} in {c} for {p}[ {k}|][, please|]
{n} in {c}, {p} {k}
[we're|we are] {p} and [want|need] a {r} in {c} for {n}
[I need|find|book|get me|reserve] a {r} in {c} for {p} [people|guests] and {n}
[I need|find|book|get me|reserve] a {r} in {c} for {n}[,| and] for {p} {k}
[for {n}|{n}], a {r} for {p} in {c}
{p} {k}, {n}, {c}
""")


def _added(rng: Random, outer: str) -> tuple[str, Argument | None]:
    """Draw what may be said besides: a weight, or what is added to dice; return how it is said, and its argument."""
    if outer == "dice":
        shown, extra = amounts.whole(rng, 12)
        return f"{choose(rng, (' plus ', ' + ', ', plus '))}{shown}", _argument(choose(rng, ("modifier", "bonus", "add", "plus")), INT, extra, "[What is added|The bonus][.|]")  # fmt: skip
    if outer not in {"sets", "boxes"}:
        return "", None
    said, weight = amounts.measured(rng, "kilo", "kilos", 120)
    about = "[In kilos|The weight in kg]"
    return expand(rng, "[ at| with|,] {w}", w=said), _argument(choose(rng, ("weight_kg", "kg", "weight", "load_kg")), NUMBER, weight, about)  # fmt: skip


def drilled(rng: Random, split: Split) -> Offer:
    """Say so many of so many: sets of repetitions, rows of plants, dice with sides."""
    outer, inner, names_outer, names_inner, what, patterns = choose(rng, DRILLS).split(" ; ")
    first, second = amounts.before(rng, outer.rstrip("s"), outer, 9), amounts.whole(rng, choose(rng, (20, 20, 90)))
    if first[1] == 1 or " of " in first[0]:
        first = (f"3 {outer}", 3)
    thing = choose(rng, what.split("|")).replace("{g}", slots.plural(rng))
    ask = expand(rng, patterns, a=first[0], A=first[1], b=second[0], B=second[1], t=thing)
    said = [_argument(choose(rng, names_outer.split("|")), INT, first[1]), _argument(choose(rng, names_inner.split("|")), INT, second[1])]  # fmt: skip
    if "{t}" in patterns:
        said.insert(rng.choice((0, 2)), _argument(choose(rng, ("exercise", "what", "name", "item", "kind", "thing") if outer == "sets" else ("crop", "plant", "item", "what", "kind", "name", "product")), TEXT, thing))  # fmt: skip
    added, extra = _added(rng, outer)
    more = rng.random() < 0.3 and extra is not None
    if more:
        ask += added
    noun = choose(rng, (outer, inner, choose(rng, NOUNS)))
    verb = choose(rng, ("log", "add", "plan", "set", "make", "arrange", "record", "start"))
    return _defined(rng, f"{verb}_{noun}".replace(" ", "_"), f"{verb.capitalize()} {outer} with so many {inner} each.", [*said, extra] if more and extra else said, [extra] if extra and not more else [], ask)  # fmt: skip


def timed(rng: Random, split: Split) -> Offer:
    """Say a length of time in two units, for a tool with an argument for each."""
    units = {"hours": rng.randint(1, 5), "minutes": rng.randint(1, 59), "seconds": rng.randint(1, 59)}
    wanted = choose(rng, (("hours", "minutes"), ("minutes", "seconds"), ("minutes",), ("hours",), ("seconds",), ("hours", "minutes")))  # fmt: skip
    short = rng.random() < 0.2
    texts = [f"{units[unit]}{unit[0]}" if short else f"{values.shown(rng, units[unit], 0.3)} {unit[:-1] if units[unit] == 1 else unit}" for unit in wanted]  # fmt: skip
    said = (" " if short else choose(rng, (" and ", " and ", " ", ", "))).join(texts)
    if wanted == ("hours", "minutes") and rng.random() < 0.25:
        hours = units["hours"]
        units["minutes"] = 30
        said = "an hour and a half" if hours == 1 else f"{choose(rng, (values.spoken(hours), hours))} and a half hours"
    label = choose(rng, (_good(rng), choose(rng, things.DISHES), choose(rng, NOUNS)))
    prefix, suffix = choose(rng, (("", ""), ("", ""), ("num_", ""), ("", "_count")))
    fields = {unit: _argument(f"{prefix}{unit}{suffix}", INT, units[unit], f"[{unit.capitalize()}|How many {unit}][.|]") for unit in units}  # fmt: skip
    named = _argument(choose(rng, ("label", "name", "title", "for_what", "task")), TEXT, label)
    given, ask = [fields[unit] for unit in wanted], expand(rng, choose(rng, _TIMES), s=said)
    if rng.random() < 0.35:
        ask += expand(rng, "[ for the {l}| called {l}|, {l}| named {l}|, name it {l}]", l=label)
        given.append(named)
    noun = choose(rng, ("timer", "countdown", "alarm", "stopwatch", "break", "session", "nap"))
    if rng.random() < 0.3:
        ask = ask.replace("timer", noun)
    return _defined(rng, f"start_{noun}|set_{noun}|run_{noun}|{noun}_start", f"Start a {noun}.", given, [one for one in (*fields.values(), named) if one not in given], ask)  # fmt: skip


_TIMES = lines("""
[set|start|run|make|give me|I need|put on] a timer [for|of] {s}
timer[:| for|,|] {s}
{s}[ on the timer| from now| please|]
[let me know|tell me|call me|ring] [in|after] {s}
count down {s}
""")


def settled(rng: Random, split: Split) -> Offer:
    """Set something to a temperature, a share or a number, said with halves, in words or as a part of the whole."""
    noun, unit, names, patterns = wording(rng, SETS, split).split(" ; ")
    if unit == "share":
        shown, value = amounts.share(rng)
    elif rng.random() < 0.35:
        shown, value = amounts.half(rng, 28)
    else:
        shown, value = amounts.whole(rng, 250 if "oven" in noun or rng.random() < 0.1 else 30)
    if unit == "degrees":
        shown += choose(rng, (" degrees", " degrees", " degrees", "°", "") if shown[-1].isdigit() else (" degrees", ""))
    devices = things.ROOMS if unit == "degrees" else DONE["devices"]
    where = choose(rng, devices) if rng.random() < 0.6 else f"{choose(rng, ADJECTIVES)} {choose(rng, NOUNS)}"
    ask = expand(rng, patterns, s=shown, r=where)
    named = _argument(choose(rng, ("room", "zone", "area", "where") if unit == "degrees" else ("device", "name", "target", "item")), TEXT, where)  # fmt: skip
    number = _argument(choose(rng, names.split("|")), INT if unit == "share" else NUMBER, value, "[The new value|Target value|What to set it to]" + (" in percent" if unit == "share" else " in degrees") + "[.|]")  # fmt: skip
    given = [number, *([named] if where in ask else [])]
    if rng.random() < 0.5:
        given.reverse()
    return _defined(rng, noun, noun.split("|")[0].replace("_", " ").capitalize(), given, [] if where in ask else [named], ask)  # fmt: skip


def paid(rng: Random, split: Split) -> Offer:
    """Say a sum of money, whose currency is an argument of its own, is in the argument's name, or is not asked for."""
    shown, value, code = amounts.money(rng)
    who = choose(rng, (values.person(rng, split), things.firm(rng), f"{choose(rng, NOUNS)} {rng.randint(2, 9000)}", values.code(rng)[1]))  # fmt: skip
    monthly = rng.random()
    period = "" if monthly < 0.7 else choose(rng, ("day", "week", "month", "year"))
    verb, ways = choose(rng, list(DONE["pay"].items()))
    ask = expand(rng, ways, s=shown, w=who) + (expand(rng, "[ a| every| per| each] {p}", p=period) if period else "")
    number = _argument(choose(rng, ("amount", "sum", "value", "total", "money", "price")), NUMBER, value)
    listed = sorted({code, *rng.sample(("EUR", "USD", "GBP", "CHF", "JPY", "SEK"), 3)})
    currency = _argument(choose(rng, ("currency", "currency_code", "unit")), {"type": "string", "enum": listed} if rng.random() < 0.8 else TEXT, code, "[The currency|Currency code, e.g. EUR][.|]")  # fmt: skip
    target = _argument(choose(rng, ("to", "recipient", "account", "name", "for_what", "reference", "payee")), TEXT, who)
    said = [number, target, *([currency] if rng.random() < 0.65 else [])]
    often = _argument(choose(rng, ("period", "interval", "frequency", "every")), {"type": "string", "enum": ["day", "week", "month", "year"]}, period)  # fmt: skip
    rng.shuffle(said)
    return _defined(rng, f"{verb}_money|{verb}_amount|{verb}", f"{verb.capitalize()} a sum of money.", [*said, often] if period else said, [] if period else [often], ask)  # fmt: skip


@cache
def _tell(line: str) -> tuple[list[str], str, str, list[str]]:
    names, unit, keys, asks = line.split(" ; ")
    return names.split("|"), unit, keys, requests.split_leads(asks)


def told(rng: Random, split: Split) -> Offer:
    """Tell of something done, for a tool that records it."""
    names, unit, keys, asks = _tell(wording(rng, DONE["told"], split))
    one, _, several = unit.partition("/")
    shown, value = amounts.measured(rng, one, several, 30) if one in _FRACTIONS else amounts.before(rng, one, several, 60) if several else amounts.large(rng)  # fmt: skip
    schema = NUMBER if one in _FRACTIONS else INT
    second = amounts.before(rng, "minute", "minutes", 90)
    thing = choose(rng, (_good(rng), choose(rng, NOUNS), parts.anything(rng), values.person(rng, split)))
    thing = coin(rng, 3).capitalize() if "log_medicine" in names else thing
    ask = expand(rng, choose(rng, asks), q=shown, m=second[0], t=thing, s=choose(rng, things.HOBBIES))
    said = [
        _argument(
            choose(rng, keys.split("|")),
            schema,
            value,
            f"[How many {several or unit}|The number of {several or unit}][.|]",
        )
    ]
    minutes = _argument(choose(rng, ("minutes", "duration_minutes", "duration_min", "time_minutes")), INT, second[1])
    name = _argument(choose(rng, ("what", "name", "title", "item", "note", "subject")), TEXT, thing)
    said += [minutes] * (second[0] in ask) + [name] * (thing in ask)
    spare = [one for one in (minutes, name) if one not in said]
    return _defined(rng, "|".join(names), f"{choose(rng, ('Record', 'Log', 'Save', 'Note'))} {names[0].split('_', 1)[-1].replace('_', ' ')}.", said, rng.sample(spare, rng.randint(0, len(spare))), ask)  # fmt: skip


_FRACTIONS = {"kilo", "litre", "mile", "kilometre", "hour", "tablet", "pill", "glass", "cup", "spoon"}


def scored(rng: Random, split: Split) -> Offer:
    """Tell several numbers of somebody or something, as a list."""
    numbers: list[Any] = [rng.randint(0, choose(rng, (20, 100, 900))) for _ in range(choose(rng, (2, 3, 3, 4, 5)))]
    if rng.random() < 0.25:
        numbers = [round(rng.uniform(0, 90), 1) for _ in numbers]
    who = choose(rng, (values.person(rng, split), values.person(rng, split), f"{choose(rng, NOUNS)} {rng.randint(1, 99)}"))  # fmt: skip
    said = values.join(rng, [str(one) for one in numbers]).replace(" & ", " and ")
    noun = choose(rng, ("scores", "points", "readings", "results", "marks", "times", "values", "measurements", "grades", "weights"))  # fmt: skip
    ask = expand(rng, "[{w} [scored|got|has|had|reached|made] {s}|[record|save|enter|note] {s} for {w}|the {n} of {w} [are|were] {s}|{w}: {s}|{n} for {w}: {s}]", w=who, s=said, n=noun)  # fmt: skip
    whole = all(isinstance(one, int) for one in numbers)
    given = [_argument(choose(rng, ("player", "name", "person", "student", "who", "source", "subject_name")), TEXT, who), _argument(noun, {"type": "array", "items": INT if whole else NUMBER}, numbers)]  # fmt: skip
    return _defined(rng, f"record_{noun}|save_{noun}|add_{noun}|log_{noun}", f"Store {noun}.", given, [], ask)


def booked(rng: Random, split: Split) -> Offer:
    """Book something from a time on, for so long and for so many."""
    noun, (one, several, _) = choose(rng, ("court", "boat", "hall", "studio", "lane", "table", "lesson", "room", choose(rng, NOUNS))), choose(rng, CROWD[:8]).split()  # fmt: skip
    unit, sport = choose(rng, ("hour", "hour", "day")), choose(rng, things.HOBBIES)
    length, count, clock = amounts.measured(rng, unit, f"{unit}s", 8), amounts.before(rng, one, several, 12), values.clock(rng)  # fmt: skip
    options = list(dict.fromkeys([*rng.sample(things.HOBBIES, 3), sport]))
    rng.shuffle(options)
    made = [
        (f" for {length[0]}", _argument(choose(rng, (f"{unit}s", f"duration_{unit}s", f"num_{unit}s", "duration", "length")), NUMBER, length[1], f"[How long|Length] in {unit}s[.|]")),
        (choose(rng, (", {}", " with {}", " for {}")).format(count[0]), _argument(choose(rng, (several, f"num_{several}")), INT, count[1])),
        (f" at {clock[0]}", _argument(choose(rng, ("start", "time", "start_time", "from_time")), TEXT, clock[1])),
    ]  # fmt: skip
    rng.shuffle(made)
    said = made[: choose(rng, (1, 2, 2, 3))]
    kind = _argument(choose(rng, ("sport", "activity", "kind", "type")), {"type": "string", "enum": options}, sport)
    named = rng.random() < 0.6
    lead = expand(rng, "[{k}|book {k}|a {n} for {k}|reserve {k}|we want to do {k}]" if named else "[a {n}|book a {n}|reserve a {n}|we need a {n}|get us a {n}|hire a {n}]", k=sport, n=noun)  # fmt: skip
    given, spare = [one for _, one in said], [one for _, one in made[len(said) :]]
    (given if named else spare).insert(0, kind)
    return _defined(rng, f"book_{noun}|reserve_{noun}|hire_{noun}".replace(" ", "_"), f"Book a {noun}.", given, spare, lead + "".join(text for text, _ in said))  # fmt: skip


def loaned(rng: Random, split: Split) -> Offer:
    """Say a sum, a rate in percent and a time, as for a loan or a saving plan."""
    total, rate, length = amounts.large(rng), values.decimal(rng, 20, rng.choice((1, 1, 2))), amounts.whole(rng, 40)
    sign = choose(rng, ("{}", "{}", "{} euros", "${}", "{} dollars", "€{}"))
    bare = total[0][0].isdigit() and total[0][-1].isdigit()
    unit, what = choose(rng, ("years", "years", "months")), choose(rng, _LOANS)
    ask = expand(rng, choose(rng, _LOANED), w=what, s=sign.format(total[0]) if bare or "{} " in sign else total[0], p=f"{rate[0]}{choose(rng, ('%', ' percent', ' per cent'))}", n=length[0], u=unit)  # fmt: skip
    name = what.replace(" ", "_")
    said = [
        _argument(choose(rng, ("principal", "amount", "sum", "total", "capital", f"{name}_amount")), NUMBER, total[1]),
        _argument(choose(rng, ("rate", "rate_percent", "interest", "interest_rate", "percent")), NUMBER, rate[1], "[The rate in percent|Interest in percent][.|]"),
        _argument(choose(rng, (unit, f"num_{unit}", f"term_{unit}", "term")), INT, length[1], f"[The term in|How many] {unit}[.|]"),
    ]  # fmt: skip
    return _defined(
        rng, f"calculate_{name}|{name}_rate|plan_{name}|{name}_payment", f"Work out a {what}.", said, [], ask
    )


_LOANS = ("loan", "mortgage", "credit", "saving plan", "deposit", "investment", "lease", "pension")
_LOANED = lines("""
[what would I pay for|what are the costs of|calculate|compute|work out|what about|plan] a {w} of {s} at {p} over {n} {u}
[a {w} of {s}, {p}, {n} {u}|{s} at {p} for {n} {u}|{w}: {s}, {n} {u}, {p}|{n} {u}, {s}, {p} interest]
[I want|I need|we plan] a {w} of {s} for {n} {u} at {p}
how much is a {w} of {s} over {n} {u} with {p} interest
""")


_MAKERS: tuple[Maker, ...] = (bought, bought, basket, basket, crowd, crowd, stays, drilled, timed, settled, settled, paid, told, told, scored, booked, loaned)  # fmt: skip


def portioned(rng: Random, split: Split) -> Offer:
    """Define a tool of amounts and ask for it; evaluation draws the same, but for the wordings kept for it."""
    return choose(rng, _MAKERS)(rng, split)
