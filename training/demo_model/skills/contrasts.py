"""The same thing told of several: "Ella is 4 and Romy 9", "14C on the plane, 7A on the train"; asked for either way.

What is told first has all words; of the others, often only what differs is said. One question may follow another with
nothing but what it is about: "and Romy?".
"""

# ruff: noqa: E501 - phrases read best unbroken

from dataclasses import dataclass
from functools import cache
from random import Random

from demo_model.skills import scenes, things, values
from demo_model.skills.contrast_lines import BASES, FRAMES, GROUPS, LABELS, OWN, POOLS
from demo_model.skills.memory import some_name
from demo_model.skills.profiles import KINDS
from demo_model.skills.qualities import called
from demo_model.skills.scenes import alike, within, yours
from demo_model.skills.talks import Fact, Story, capital
from demo_model.text import NAMES, NOUNS, Split, choose, coin, expand, pick


@dataclass(frozen=True, slots=True)
class Frame:
    """A line of ``FRAMES``."""

    keys: str
    kind: str
    first: tuple[str, ...]
    later: tuple[str, ...]
    asks: tuple[str, ...]
    turned: tuple[str, ...]
    most: str
    least: str


@cache
def _frame(line: str) -> Frame:
    keys, kind, *parts, compared = line.split(" ; ")
    first, later, asks, turned = (tuple(part.split("|")) for part in parts)
    most, _, least = compared.partition("|")
    return Frame(keys, kind, first, later, asks, turned, most.strip("- "), least)


def _key(rng: Random, split: Split, keys: str) -> str:
    """Draw somebody or something that others of its kind stand beside."""
    if keys == "who":
        kind = rng.random()
        return scenes.person(rng, split) if kind < 0.25 else some_name(rng, split) if kind < 0.4 else pick(rng, NAMES, split)  # fmt: skip
    if keys == "name":
        return pick(rng, NAMES, split) if rng.random() < 0.7 else coin(rng, 2).capitalize()
    if keys == "thing":
        return f"{choose(rng, ('the', 'the', 'my'))} {things.goods(rng) if rng.random() < 0.5 else choose(rng, NOUNS)}"
    return choose(rng, POOLS[keys])


def _value(rng: Random, split: Split, kind: str) -> str:
    """Draw what is told of it; ranges like ``2-40`` are numbers."""
    if kind[0].isdigit():
        low, high = kind.split("-")
        return str(rng.randint(int(low), int(high)))
    if kind in POOLS:
        return choose(rng, POOLS[kind])
    if kind == "name":
        return _key(rng, split, "name")
    return KINDS[kind](rng, split)


def _pairs(rng: Random, split: Split, keys: str, kind: str, amount: int) -> list[tuple[str, str]]:
    """Draw keys and values, none of which is in another."""
    found: list[tuple[str, str]] = []
    for _ in range(amount * 3):
        key, value = _key(rng, split, keys), _value(rng, split, kind)
        apart = all(not alike(key, other) and not within(value, said) for other, said in found)
        if apart and not within(key, value) and all(not within(key, said) and not within(value, other) for other, said in found):  # fmt: skip
            found.append((key, value))
        if len(found) == amount:
            break
    return found


def _put(text: str, key: str, value: str) -> str:
    return text.replace("{k}", key).replace("{v}", value).replace("{b}", BASES.get(key, key))


_TURNS = ((" I'm ", " you are "), (" I am ", " you are "), (" I ", " you "), (" my ", " your "), (" me ", " you "), (" our ", " your "), (" we ", " you "))  # fmt: skip


def _statement(frame: Frame, key: str, value: str, style: int) -> str:
    """Say it as it was told, to the user."""
    text = f" {_put(frame.first[style], yours(key), yours(value))} "
    for mine, your in _TURNS:
        text = text.replace(mine, your)
    text = text.strip()
    # A name that is written small stays so.
    small = frame.keys == "who" and text.startswith(key) and key not in scenes.FAMILY
    return f"{text if small else capital(text)}."


def _number(value: str) -> float:
    return float(value.replace(",", ""))


def _shorts(key: str) -> tuple[str, ...]:
    return (key, f"what about {key}", key, f"how about {key}", f"{key}")


def _asks(rng: Random, frame: Frame, key: str, value: str) -> tuple[str, ...]:
    """Ask for what is told of one, at times with two answers to choose from."""
    asks = tuple(_put(ask, key, "") for ask in frame.asks)
    if rng.random() > 0.15:
        return asks
    other = _value(rng, "train", frame.kind)
    both = [value, other] if rng.random() < 0.5 else [other, value]
    return asks if within(value, other) else tuple(f"{ask}, {' or '.join(both)}" for ask in asks)


def _facts(rng: Random, frame: Frame, pairs: list[tuple[str, str]], group: str, style: int) -> list[Fact]:
    """Make the questions for each, for the one that is so, and for the one that is more so than the others."""
    facts = [
        Fact(_asks(rng, frame, name, value), _shorts(name), _statement(frame, name, value, style), value)
        for key, value in pairs
        for name in [called(rng, key) if frame.keys == "who" else key]
    ]
    group, _, own = group.partition(" ; ")
    which = ("who", "who", "which of them") if frame.keys in ("who", "name") else ("which", "which one")
    which = (*which, f"which {group}", f"which of {own} {_plural(group)}") if group else which  # fmt: skip
    turned = [
        Fact(tuple(ask.replace("{w}", choose(rng, which)).replace("{v}", value) for ask in frame.turned), (), _statement(frame, key, value, style), key, leads=False)
        for key, value in pairs
        if frame.turned[0] != "-"
    ]  # fmt: skip
    facts += turned if rng.random() < 0.6 else []
    if frame.most and len(pairs) > 1 and rng.random() < 0.35:
        facts += _compared(frame, pairs, style)
    return facts


def _compared(frame: Frame, pairs: list[tuple[str, str]], style: int) -> list[Fact]:
    """Ask for the one with the highest or the lowest number."""
    ranked = sorted(pairs, key=lambda pair: _number(pair[1]))
    found: list[Fact] = []
    for words, (key, value) in ((frame.most, ranked[-1]), (frame.least, ranked[0])):
        more, most = words.strip().split(" / ")
        asked = more if len(pairs) == 2 else most
        found.append(
            Fact((asked, asked, most), (), _statement(frame, key, value, style), f"{key}, {value}", leads=False)
        )
    return found


def _plural(noun: str) -> str:
    return "children" if noun == "child" else f"{noun}s"


def _joined(rng: Random, clauses: list[str], short: bool) -> list[str]:
    """Say them in one sentence, or in one each where they have all their words."""
    if not short and rng.random() < 0.45:
        return clauses
    last = choose(rng, (" and ", " and ", ", and ", ", ", " but ", "; ", ", while "))
    return [", ".join(clauses[:-1]) + last + clauses[-1] if len(clauses) > 1 else clauses[0]]


def framed(rng: Random, split: Split) -> Story:
    """Tell the same of two to four, or list a group and tell something of one of them or of all."""
    frame = _frame(choose(rng, FRAMES))
    amount = choose(rng, (2, 2, 2, 3, 3, 4))
    group = choose(rng, GROUPS) if frame.keys in ("who", "name") and rng.random() < 0.35 else ""
    pairs = _pairs(rng, split, "name" if group else frame.keys, frame.kind, amount)
    if len(pairs) < 2:
        return framed(rng, split)
    style = rng.randrange(len(frame.first))
    short = frame.later[0] != "-" and rng.random() < 0.6
    members = [key for key, _ in pairs]
    told = pairs if not group or rng.random() < 0.6 else pairs[:1]
    rng.shuffle(told)
    clauses = [_put(choose(rng, frame.later) if short and at else frame.first[style], *pair) for at, pair in enumerate(told)]  # fmt: skip
    sentences = _joined(rng, clauses, short)
    noun, intro, facts = "", [], []
    if group:
        noun, opening, listed = _listed(rng, group, members)
        intro, facts = [opening], listed
    facts = facts + _facts(rng, frame, told, noun, style) * 2

    def fix() -> tuple[str, list[Fact]] | None:
        return _fixed(rng, split, frame, told, noun)

    if not group and frame.keys == "who":
        facts += _names(told)
    return Story([*intro, *sentences], facts, fix, _untold(rng, split, frame, members), "", (*members, *(value for _, value in pairs)))  # fmt: skip


def _names(told: list[tuple[str, str]]) -> list[Fact]:
    """Ask for the name of a relative that was told with the name: "my uncle Karl is 91"."""
    found: list[Fact] = []
    for key, _ in told:
        words = key.split(" ")
        at = next((i for i, word in enumerate(words) if i > 1 and word[:1].isupper()), 0)
        kin, name = " ".join(words[:at]), " ".join(words[at:])
        if at and sum(other.startswith(f"{kin} ") for other, _ in told) == 1:
            asks = (f"what is {kin}'s name", f"what's {kin}'s name", f"what is {kin} called", f"who is {kin}", f"~which name has {kin}")  # fmt: skip
            found += [Fact(asks, (f"{kin}'s name",), f"{capital(yours(kin))} is called {name}.", name, leads=False)] * 2
    return found


def _untold(rng: Random, split: Split, frame: Frame, members: list[str]) -> tuple[str, ...]:
    """Ask the same of one that was not named."""
    key = _key(rng, split, frame.keys)
    if any(alike(key, other) for other in members):
        return ()
    return tuple(_put(ask, key, "") for ask in frame.asks if ask[0] != "~")


def _fixed(
    rng: Random, split: Split, frame: Frame, told: list[tuple[str, str]], noun: str
) -> tuple[str, list[Fact]] | None:
    """Correct what was told of one."""
    key, old = told[0]
    value = _value(rng, split, frame.kind)
    if any(within(value, said) or within(value, name) for name, said in told):
        return None
    style = rng.randrange(len(frame.first))
    clause = _put(frame.first[style], key, value)
    text = expand(rng, "[Actually, {c}|actually {c}|Sorry, {c}|No wait, {c}|Correction: {c}|Oops, {c}|I was wrong, {c}|{c}, not {x}|not {x}, {v}|sorry, {v}, not {x}|make that {v} instead of {x}|Update: {c}|I said {x}, but {c}|{c} now][.|.||!]", c=clause, x=old, v=value)  # fmt: skip
    new = [(key, value), *told[1:]]
    facts = _facts(rng, frame, new, noun, style)
    return text, [facts[0]] * 3 + facts


def _listed(rng: Random, group: str, members: list[str]) -> tuple[str, str, list[Fact]]:
    """List the members of a group, and ask who they are and how many."""
    noun, plural, owner = group.split(" ; ")
    names = f"{', '.join(members[:-1])} and {members[-1]}"
    count = choose(rng, (str(len(members)), values.spoken(len(members))))
    mine = owner == "my"
    have = "[I have {c} {p}: {l}|I have {c} {p}, {l}|I've got {c} {p}, {l}|My {p} are {l}|My {p} are called {l}|the names of my {p} are {l}|my {c} {p} are {l}]"
    there = "[The {p} are {l}|There are {c} {p}: {l}|We have {c} {p}, {l}|The {p} are called {l}|{l} are the {p}|Our {p} are {l}]"
    opening = expand(rng, have if mine else there, c=count, p=plural, l=names)
    said = "Your" if mine else "The"
    own = "my" if mine else "the"
    who = Fact((f"who are {own} {plural}", f"what are {own} {plural} called", f"what are the names of {own} {plural}", f"list {own} {plural}", f"tell me the names of {own} {plural}", f"what are {own} {plural}' names", f"~by what names do {own} {plural} go"), (), f"{said} {plural} are {names}.", names, leads=False)  # fmt: skip
    many = (f"how many {plural} do I have", f"how many {plural} have I got", f"how many {plural} did I name") if mine else (f"how many {plural} are there", f"how many {plural} did I mention", f"how many {plural} do we have")  # fmt: skip
    total = Fact(many, (), f"{'You have' if mine else 'There are'} {len(members)} {plural}.", str(len(members)), leads=False)  # fmt: skip
    return f"{noun} ; {own}", opening, [who, total] if rng.random() < 0.7 else [total]


def owned(rng: Random, split: Split) -> Story:
    """Tell what is the user's and what is somebody else's: "my seat is 14C and my sister's is 7A"."""
    noun, kind = choose(rng, OWN).split(" ; ")
    owners = ["my"] if rng.random() < 0.6 else []
    while len(owners) < choose(rng, (2, 2, 3)):
        kin = choose(rng, POOLS["kin"])
        owner = f"my {kin}'s" if rng.random() < 0.5 else f"{pick(rng, NAMES, split)}'s"
        owners += [owner] if owner not in owners else []
    found: dict[str, str] = {}
    for owner in owners:
        value = _value(rng, split, kind)
        if not any(within(value, other) for other in (*found.values(), *owners)):
            found[owner] = value
    if len(found) < 2:
        return owned(rng, split)
    short = rng.random() < 0.6
    verb = (
        "is on"
        if kind in ("day", "date") and rng.random() < 0.6
        else "is at"
        if kind == "hour"
        else "is in"
        if kind == "months"
        else "is"
    )
    clauses = [f"{owner if owner != 'my' or not at else 'mine'} {verb} {value}" if short and at else f"{owner} {noun} {verb} {value}" for at, (owner, value) in enumerate(found.items())]  # fmt: skip
    ask = ("what is {o} {n}", "what's {o} {n}", "do you remember {o} {n}", "tell me {o} {n}", "what did I say {o} {n} was", "~give me {o} {n}")  # fmt: skip
    when = (
        ("when is {o} {n}", "when's {o} {n}", "on which day is {o} {n}")
        if kind in ("day", "date")
        else ("when is {o} {n}", "in which month is {o} {n}", "what month is {o} {n} in")
        if kind == "months"
        else ()
    )
    facts = [
        Fact(tuple(one.replace("{o}", owner).replace("{n}", noun) for one in (*ask, *when)), _shorts("mine" if owner == "my" else owner) if short else (f"{owner} {noun}", f"what about {owner} {noun}"), f"{capital(yours(owner))} {noun} {verb} {value}.", value)
        for owner, value in found.items()
    ]  # fmt: skip
    rng.shuffle(facts)
    return Story(_joined(rng, clauses, short), facts, kept=(*found, *found.values()))


def labelled(rng: Random, split: Split) -> Story:
    """Tell a terse list: "Budget: rent 900, food 350"."""
    title, keys, kind, ask, answer = choose(rng, LABELS).split(" ; ")
    pairs = _pairs(rng, split, keys, kind, choose(rng, (2, 3, 3, 4)))
    if len(pairs) < 2:
        return labelled(rng, split)
    form = choose(rng, ("{k} {v}", "{k}: {v}", "{k} - {v}", "{k} = {v}", "{v} ({k})", "{k} ({v})"))
    gap = "\n" if rng.random() < 0.2 and form != "{k} {v}" else choose(rng, (", ", ", ", "; "))
    items = gap.join(_put(form, *pair) for pair in pairs)
    text = f"{choose(rng, title.split('|'))}:{chr(10) if gap == chr(10) else ' '}{items}"
    facts = [
        Fact(tuple(_put(one, key, "") for one in ask.split("|")), _shorts(key), f"{capital(_put(answer, yours(key), value))}.", value)
        for key, value in pairs
    ]  # fmt: skip
    return Story([text], facts, kept=tuple(part for pair in pairs for part in pair))


_THAN = "[{s} prefer{z} {v} to {x}|{s} prefer{z} {v} over {x}|{s} like{z} {v} more than {x}|{s} like{z} {v} better than {x}|{s} would rather have {v} than {x}|{s} like{z} {x}, but {v} even more|{s} chose {v}, not {x}|{s} took {v} instead of {x}]"


def preferred(rng: Random, split: Split) -> Story:
    """Tell what somebody likes more than something else, and ask for it with both named or not."""
    kind = choose(rng, ("food", "taste", "place", "class", "instrument"))
    value, other = _value(rng, split, kind), _value(rng, split, kind)
    who = "I" if rng.random() < 0.5 else _key(rng, split, "who")
    if within(value, other) or (who != "I" and (within(who, value) or within(who, other))):
        return preferred(rng, split)
    mine = who == "I"
    told = expand(rng, _THAN, s=who, z="" if mine else "s", v=value, x=other)
    does, subject = ("do", "I") if mine else ("does", who)
    both = choose(rng, (f"{value} or {other}", f"{other} or {value}"))
    if "chose" in told or "took" in told:
        asks: tuple[str, ...] = (f"what did {subject} choose", f"which one did {subject} take, {both}", f"did {subject} take {both}", f"did {subject} choose {both}")  # fmt: skip
        answer = f"{capital(yours(who)) if not mine else 'You'} chose {value}."
    else:
        asks = (f"what {does} {subject} prefer", f"what {does} {subject} like more", f"{does} {subject} prefer {both}", f"{does} {subject} like {both} more", f"which {does} {subject} like better, {both}", f"what {does} {subject} like better", f"~{both}, what {does} {subject} choose")  # fmt: skip
        answer = f"{capital(yours(who)) if not mine else 'You'} prefer{'' if mine else 's'} {value}."
    return Story([told], [Fact(asks, (), answer, value)], kept=(value, other, who))


_LISTS = (
    ("I need to buy", "what do I need to buy|what should I buy|what did I say I need to buy|what's on my shopping list", "You need to buy {l}.", "food brought"),
    ("My shopping list", "what is on my shopping list|what do I have to buy|which things are on my list", "Your shopping list is {l}.", "food brought kept"),
    ("I must pack", "what must I pack|what do I have to pack|what should be in my bag", "You must pack {l}.", "gift brought kept"),
    ("Remember", "what should you remember|what did I ask you to remember|what do I have to remember|which things did I name", "You should remember {l}.", "kept goods gift food"),
    ("My plan for today", "what is my plan for today|what do I do today|what are my plans", "Your plan for today is {l}.", "class"),
    ("I invited", "who did I invite|whom have I invited|who is invited", "You invited {l}.", "person"),
    ("I want to visit", "what do I want to visit|which cities do I want to visit|where do I want to go", "You want to visit {l}.", "place"),
    ("My subjects", "what are my subjects|which subjects do I have|what do I study", "Your subjects are {l}.", "subject"),
    ("I have to pay", "what do I have to pay|which bills do I have to pay|what must be paid", "You have to pay {l}.", "bill"),
    ("I play", "what do I play|which things do I play|what did I say I play", "You play {l}.", "instrument"),
)  # fmt: skip


def collected(rng: Random, split: Split) -> Story:
    """Tell a list of two to four things, and ask for all of them."""
    start, asks, answer, keys = choose(rng, _LISTS)
    pool = POOLS[choose(rng, keys.split(" "))]
    items = rng.sample(pool, choose(rng, (2, 3, 3, 4)))
    whole = f"{', '.join(items[:-1])} and {items[-1]}"
    listed = choose(rng, (whole, whole, ", ".join(items), f"{', '.join(items[:-1])}, and {items[-1]}"))
    noun = start.startswith("My ")
    told = f"{start}{choose(rng, (':', ':', ' is', ' -')) if noun else choose(rng, ('', '', ':'))} {listed}".replace("subjects is", "subjects are")  # fmt: skip
    fact = Fact(tuple(asks.split("|")), (), answer.format(l=yours(whole)), whole)
    return Story([told], [fact], kept=tuple(items))


def story(rng: Random, split: Split) -> Story:
    """Draw one of the ways to tell of several."""
    kind = rng.random()
    return (
        framed
        if kind < 0.6
        else owned
        if kind < 0.74
        else labelled
        if kind < 0.89
        else collected
        if kind < 0.96
        else preferred
    )(rng, split)
