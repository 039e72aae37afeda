"""Tools of one set, offered together, and a request for one of them; see ``kits``."""

# ruff: noqa: E501, SIM905 - phrases read best unbroken

import re
from collections.abc import Callable
from random import Random

from demo_model.skills import parts, requests, situated, values
from demo_model.skills.actions import ORDERS
from demo_model.skills.define import Offer
from demo_model.skills.frame_words import KINDS as THINGS
from demo_model.skills.kits import KITS
from demo_model.skills.kits_near import NEAR_KITS
from demo_model.skills.kits_work import WORK_KITS
from demo_model.skills.near_kinds import NEAR_KINDS
from demo_model.skills.slots import INT, LIST, NUMBER, SLOTS, TEXT, bare
from demo_model.skills.values import Said, same
from demo_model.skills.work_kinds import WORK_KINDS
from demo_model.template import Message
from demo_model.text import NAMES, NOUNS, Split, choose, coin, expand

Draw = Callable[[Random, Split], Said]


def _of(*groups: str) -> Draw:
    """Draw a thing of one of the kinds, or a made-up one."""

    def draw(rng: Random, split: Split) -> Said:
        found = choose(rng, THINGS[choose(rng, groups)]) if rng.random() < 0.5 else parts.anything(rng)
        return same(found.removeprefix("the "))

    return draw


_WITH = "Lunch|Dinner|Coffee|Breakfast|Call|Meeting|Drinks|Tennis|Walk|Interview|Brunch|Party|lunch|dinner|coffee|call".split("|")  # fmt: skip
_THOSE = "the team|my boss|Mum and Dad|the bank|Grandma|the neighbours|two clients|HR".split("|")


def _label(rng: Random, split: Split) -> Said:
    """Name an event, in quotes or not; some names have another one's in them, which belongs to the title."""
    if rng.random() < 0.35:
        return same(
            f"{choose(rng, _WITH)} {choose(rng, ('with', 'with', 'with', 'for'))} {choose(rng, (*NAMES, *_THOSE))}"
        )
    made = choose(rng, THINGS["event|occasion"]) if rng.random() < 0.3 else values.title(rng)
    return values.quoted(rng, made) if rng.random() < 0.5 else same(made)


def _airport(rng: Random, split: Split) -> Said:
    """Draw where one flies from: a city or a code."""
    if rng.random() < 0.65:
        return same(values.place(rng, split))
    return same("".join(choose(rng, "ABCDEFGHIJKLMNOPQRSTUVWXYZ") for _ in range(3)))


def _sql(rng: Random, split: Split) -> Said:
    """Write a statement for a database."""
    text = expand(
        rng,
        "[SELECT [*|{n}|{n}, {m}|COUNT(*)|MAX({n})] FROM {t}[| WHERE {n} = {k}| WHERE {m} > {k}| ORDER BY {n}| LIMIT {k}| WHERE {n} = '{c}'|]|DELETE FROM {t} WHERE {n} = {k}|UPDATE {t} SET {n} = {k} WHERE {m} = {j}]",
        n=choose(rng, NOUNS), m=choose(rng, NOUNS), t=choose(rng, NOUNS) + "s", k=rng.randint(1, 999), j=rng.randint(1, 99), c=coin(rng),
    )  # fmt: skip
    return choose(rng, ("{}", "{}", "`{}`", '"{}"')).format(text), text


def _letters(rng: Random, low: int, high: int) -> str:
    return "".join(choose(rng, "ABCDEFGHIJKLMNOPQRSTUVWXYZ") for _ in range(rng.randint(low, high)))


def _version(rng: Random, split: Split) -> Said:
    return same(
        expand(rng, "[v|]{a}.{b}[.{c}|.{c}|-rc{c}|]", a=rng.randint(0, 20), b=rng.randint(0, 40), c=rng.randint(0, 9))
    )


def _doctor(rng: Random, split: Split) -> Said:
    name = values.person(rng, split)
    return same(name if name.startswith("Dr") else f"Dr. {name.split()[-1]}")


def _isbn(rng: Random, split: Split) -> Said:
    return same(f"978-{rng.randint(0, 9)}-{rng.randint(10, 99999)}-{rng.randint(100, 9999)}-{rng.randint(0, 9)}")


def _hours(rng: Random) -> Said:
    value = rng.randint(2, 72)
    return f"{values.shown(rng, value, 0.2)} {choose(rng, ('hours', 'hours', 'h'))}", value


def _moment(rng: Random, split: Split) -> Said:
    """Draw a day, a time, or both, as one text."""
    kind = rng.random()
    if kind < 0.3:
        clock = values.clock(rng)[0]
        return f"at {clock}", clock
    return values.day(rng) if kind < 0.55 else SLOTS["moment"].value(rng, split)


def _slot(key: str) -> Draw:
    return SLOTS[key].value


def _written(rng: Random, split: Split) -> Said:
    """Draw a text to write down: a sentence, a note, or as short a one as people try first."""
    kind = rng.random()
    if kind < 0.15:
        return values.quoted(rng, expand(rng, "[hello|hello world|Hello, world!|hi|test|ok|print('{w}')|print({n})|{w} {n}]", w=choose(rng, NOUNS), n=rng.randint(1, 99)))  # fmt: skip
    return values.quoted(rng, parts.prose(rng)) if kind < 0.65 else _slot("text")(rng, split)


_TEXTS: dict[str, Draw] = {
    "email": _slot("email"), "label": _label, "date": lambda rng, split: bare(values.day(rng)), "text": _written,
    "prose": lambda rng, split: same(parts.prose(rng)), "topic": _of("topic|query|keyword", "plant", "country"), "topic2": _of("topic|query|keyword", "author", "planet|star"), "textid": _slot("text_id"),
    "product": _of("product"), "airport": _airport, "airport2": _airport, "landmark": _of("landmark|place|location"), "landmark2": _of("landmark|place|location"), "folder": _slot("folder"), "file2": lambda rng, split: values.path(rng),
    "glob": lambda rng, split: same(choose(rng, ("*.py", "*.txt", "*.log", "*.md", "*.jpg", "test_*", "*.csv", "*.json"))), "sql": _sql, "db": _of("database|schema"), "table": _of("table"),
    "service": _of("service|app|component"), "version": _version, "host": _slot("host"), "repo": _slot("repo"), "song": _of("song|track"), "artist": _of("artist|band"), "enemy": _of("enemy|monster|opponent"), "weapon": _of("weapon"),
    "spell": _of("spell"), "loot": _of("item"), "medicine": _of("medicine|drug|medication"), "doctor": _doctor, "symptom": _of("symptom|condition"), "roomname": _of("room|area|zone"), "clock2": lambda rng, split: values.clock(rng),
    "channel": _slot("channel"), "spending": _of("category|type|kind", "dish|recipe"), "currency": lambda rng, split: same(choose(rng, ("EUR", "USD", "GBP", "CHF", "JPY", "SEK", "euros", "dollars", _letters(rng, 3, 3)))),
    "currency2": _slot("target"), "symbol": lambda rng, split: same(_letters(rng, 2, 5)), "genre": _of("genre"), "booktitle": lambda rng, split: values.quoted(rng, values.title(rng)), "author": _of("author"), "isbn": _isbn,
    "subject": _of("subject|course"), "plant": _of("plant"), "animal": _of("animal"), "fodder": _of("food"), "crop": _of("crop|field"), "handle": _slot("handle"), "todo": _slot("task"), "moment": _moment,
    "lang": _of("language"), "phrase": lambda rng, split: values.quoted(rng, parts.prose(rng)),
}  # fmt: skip
_INTS: dict[str, Draw] = {
    "id": _slot("id"), "die": lambda rng, split: same(choose(rng, (4, 6, 8, 10, 12, 20, 30, 100))), "mg": lambda rng, split: same(rng.randint(1, 200) * choose(rng, (1, 5, 10))), "rpm": lambda rng, split: same(rng.randint(1, 900) * choose(rng, (1, 10))),
    "year": _slot("year"), "days": _slot("days"), "px": lambda rng, split: same(rng.randint(1, choose(rng, (99, 999, 4000)))), "px2": lambda rng, split: same(rng.randint(1, choose(rng, (99, 999, 4000)))),
    "degrees2": lambda rng, split: same(choose(rng, (45, 90, 180, 270, rng.randint(1, 359)))), "hours": lambda rng, split: _hours(rng),
}  # fmt: skip
_NUMBERS: dict[str, Draw] = {
    "temp": lambda rng, split: values.decimal(rng, 40),
    "stars": lambda rng, split: values.decimal(rng, 10),
}
KINDS: dict[str, tuple[Message, Draw]] = {
    **{name: (TEXT, draw) for name, draw in _TEXTS.items()},
    **{name: (INT, draw) for name, draw in _INTS.items()},
    **{name: (NUMBER, draw) for name, draw in _NUMBERS.items()},
    "tags": (LIST, _slot("tags")),
}
KINDS.update(WORK_KINDS)
KINDS.update(NEAR_KINDS)
_KITS = (*KITS, *WORK_KITS, *NEAR_KITS)
situated.KINDS.update({name: kind for name, kind in KINDS.items() if name not in situated.KINDS})


def _ended(rng: Random, offer: Offer, verbatim: bool) -> str:
    """Put words around a request; what ends with a text without quotes must not go on with other words."""
    if any(isinstance(value, str) and " " in value and offer.ask.endswith(value) for value in offer.arguments.values()):
        return offer.ask + (choose(rng, ("", "", ".")) if offer.ask[-1] not in ".!?" else "")
    return requests.said(rng, offer.ask, [], verbatim, spare="{")


def kitted(rng: Random, split: Split, alone: bool = False) -> Offer:
    """Ask for one tool of a set, with others of the set beside it unless ``alone``."""
    kit = choose(rng, rng.choices((KITS, WORK_KITS, NEAR_KITS), (0.28, 0.32, 0.4))[0])
    line = choose(rng, kit)
    offer, verbatim = situated.made(rng, split, line)
    offer.ask = _ended(rng, offer, verbatim)
    if alone:
        return offer
    others = [other for other in kit if other is not line]
    for other in rng.sample(others, min(len(others), choose(rng, (0, 0, 1, 1, 2, 2, 3)))):
        tool = situated.made(rng, split, other)[0].tool
        if tool["function"]["name"] not in {offer.name, *(one["function"]["name"] for one in offer.beside)}:
            offer.beside.append(tool)
    return offer


# What can be named twice in one request, a call for each; and what can be meant by "it" after it was named.
_TWICE = {"room", "roomname", "door", "lamp", "city", "service", "symbol", "plant", "animal", "textid", "handle", "entity", "customer", "globs", "word", "gadget", "crypto", "container", "image", "issuekey", "illness"}  # fmt: skip
_IT = {"service", "file", "entity", "gadget", "issuekey"}
# Where "it" reads well: after a verb or a preposition, not in place of a name.
_IT_SAID = re.compile(
    r"^(?!it\b)(?!.*(?:\bthe it\b|\b(?:on|off) it\b|it's|\bit (?:\w+ )?(?:is|hangs|fails|crashes|does|should|v?\d)))[^\"'`“]*\bit\b"
)


def _lines(kinds: set[str]) -> list[tuple[list[str], str, str]]:
    """Return the lines with one argument of a kind that the tool must have, each with its set and the kind."""
    found = []
    for kit in _KITS:
        for line in kit:
            given = re.findall(r"[\w|]+(\??):(\w+)", line.split(" ; ")[2])
            one = [kind for optional, kind in given if kind in kinds and not optional]
            if len(one) == 1 and f"{one[0]}2" not in line:
                found.append((kit, line, one[0]))
    return found


_TWICE_LINES, _IT_LINES = _lines(_TWICE), _lines(_IT)


def doubled(rng: Random, split: Split) -> list[Offer]:
    """Ask once for a tool with two values of one argument, and the others the same: a call for each."""
    while True:
        _, line, kind = choose(rng, _TWICE_LINES)
        (said, one), (other, two) = situated.KINDS[kind][1](rng, split), situated.KINDS[kind][1](rng, split)
        if one == two or re.search(r"&|,| and ", said + other):
            continue
        link = choose(rng, (" and ", " and ", " and ", " & ", ", "))
        offer, verbatim = situated.made(rng, split, line, {kind: (said + link + other, one)})
        preposition = re.search(rf" (in|on|of|for) (the )?{re.escape(said + link)}", offer.ask)
        if preposition and link == " and " and rng.random() < 0.4:
            again = f"{said} and {preposition[1]} {preposition[2] or ''}{other}"
            offer.ask = offer.ask.replace(f"{said} and {other}", again)
        if said in offer.ask and list(offer.arguments.values()).count(one) == 1:
            break
    offer.ask = _ended(rng, offer, verbatim)
    changed = {name: two if value == one else value for name, value in offer.arguments.items()}
    return [offer, Offer(offer.key, offer.tool, "", changed, everyday=True)]


def referred(rng: Random, split: Split) -> list[Offer]:
    """Ask for one tool of a set, and then for another one with what was named before as "it"."""
    while True:
        kit, line, kind = choose(rng, _IT_LINES)
        others = [
            other for set_of, other, same_kind in _IT_LINES if set_of is kit and same_kind == kind and other != line
        ]
        if not others:
            continue
        said, value = situated.KINDS[kind][1](rng, split)
        first, verbatim = situated.made(rng, split, line, {kind: (said, value)})
        second, _ = situated.made(rng, split, choose(rng, others), {kind: ("it", value)})
        if second.name != first.name and value in first.arguments.values() and _IT_SAID.search(second.ask):
            break
    first.ask = _ended(rng, first, verbatim)
    second.ask = expand(rng, "[Now|Then|OK, now|And now|Next,|Thanks. Now|ok|Good,||] {v}[.||]", v=second.ask[0].lower() + second.ask[1:]).strip()  # fmt: skip
    first.beside = [second.tool]
    second.beside = [first.tool]
    return [first, second]


# Between a verb and the value that another request changes.
_ONCE = {"todo", "owner", "date", "relday"}  # these don't read well after such words as "the same on"
_PREPOSITIONS = ("in", "on", "to", "into", "for", "at", "from", "with", "about", "of")


def _changes() -> list[tuple[str, str, str]]:
    """Return lines that say a value after a preposition, each with the preposition and the value's kind."""
    found = []
    for line in (line for kit in _KITS for line in kit):
        kinds = {names.split("|")[0]: kind for names, kind in re.findall(r"([\w|]+)\??:(\w+)", line.split(" ; ")[2])}
        for place, key in set(re.findall(rf" ({'|'.join(_PREPOSITIONS)}) (?:the )?{{(\w+)}}", line)):
            kind = kinds.get(key, "")
            if kind in situated.KINDS and kind not in _ONCE and f"{kind}2" not in line:
                found.append((line, place, kind))
    return sorted(found)


_CHANGES = _changes()


def refilled(rng: Random, split: Split) -> list[Offer]:
    """Ask for a tool of a set, and then for the same with one other value, said with the preposition before it."""
    while True:
        line, place, kind = choose(rng, _CHANGES)
        (said, value), (other, new) = (situated.KINDS[kind][1](rng, split) for _ in range(2))
        first, verbatim = situated.made(rng, split, line, {kind: (said, value)})
        within = re.search(rf" {place} (the )?{re.escape(said)}(?![\w-])", first.ask)
        if value != new and within and list(first.arguments.values()).count(value) == 1:
            break
    first.ask = _ended(rng, first, verbatim)
    changed = {name: new if old == value else old for name, old in first.arguments.items()}
    ask = expand(rng, "[now|and|And now|And|Now|What about|how about|Then|the same|Same, but|Again, but|OK, and|and once more] {p} {v}[?|.||, please| now|]", p=f"{place} {within[1] or ''}".strip(), v=other)  # fmt: skip
    return [first, Offer(first.key, first.tool, ask, changed, everyday=True)]


def paired(rng: Random, split: Split) -> list[Offer]:
    """Ask at once for two tools of a set."""
    while True:
        chosen = rng.sample(choose(rng, _KITS), 2)
        first, second = (situated.made(rng, split, line)[0] for line in chosen)
        orders = all(one.ask.split(" ", 1)[0].lower() in ORDERS for one in (first, second))
        # What a long text or a list ends with can't be told from what comes then.
        short = all(not isinstance(value, list) and len(str(value)) < 30 for value in first.arguments.values())
        if orders and short and first.name != second.name and not re.search(r"[.!?:]", first.ask):
            break
    start = second.ask[0].lower() + second.ask[1:]
    first.ask += choose(rng, (" and ", " and ", ", and ", " and then ", ", then ", " and also ")) + start
    return [first, second]
