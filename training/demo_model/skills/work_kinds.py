"""The values of ``kits_work``: long queries, scenes, code, patterns, names of devices, branches, units, lists."""

# ruff: noqa: E501, SIM905 - phrases read best unbroken

import re
from collections.abc import Callable
from random import Random

from demo_model.skills import values
from demo_model.skills.frame_words import KINDS as THINGS
from demo_model.skills.parts import anything
from demo_model.skills.slots import INT, LIST, NUMBER, SLOTS, TEXT, bare
from demo_model.skills.things import surname
from demo_model.skills.values import Said, same
from demo_model.template import Message
from demo_model.text import ADJECTIVES, CITIES, NAMES, NOUNS, Split, choose, coin, expand, pick

Draw = Callable[[Random, Split], Said]

_QUERIES = "[[latest|recent|current] [news|reports|research|prices] [on|about|of|for] {s}|{s} [for|with|without|in|on|near] [{n}s|{c}|{C}|a {a} {n}|beginners|children]|[best|cheapest|good|safest|nearest] {a} {n}s [for|in|near|under] [{m}s|{c}|{k} euros|the {m}]|{n} {m} [setup|settings|repair|prices|ideas|rules|size] [on|for|in] [{C}|{c}|{n}s]|how to [fix|clean|build|reset|install|choose|repair] [a|the] {a} {n}[ at home| in {C}|]|{s}|{a} {n} {m}|history of {s}|{C} [{n} |]{m} [error|price|manual|review] {k}|difference between {n}s and {m}s]"
_QUESTIONS = "[who [won|invented|wrote|owns|built|discovered] the {a} {n}[ in {c}|]|who [won|played in] the {k} {n} [cup|final|race]|how [tall|old|big|far|heavy] is [{c}|the {n} in {c}|the {a} {n}]|when [was|is] the [first|next|last] {n} [in {c}|built]|why are {n}s {a}|where [do|can] {n}s [live|grow|come from]|what is the [largest|oldest|fastest|smallest] {n} in {c}|how many {n}s are there in {c}|what [happened to|is new about] the {a} {n}]"
_SCENES = "[[a|the|one] {a} {n}|a {n}|two {n}s|[a|the] {n} and a {m}|a {a}, {b} {n}] [wearing a {m}|in a {a} {m}|on the {m}|next to a {m}|riding a {m}|under a {b} sky|at [night|sunset|dawn]|playing with {m}s|made of {m}s|in {c}|holding a {b} {m}|with {b} {m}s||]"
_SPEECH = "[good [morning|night|evening]|thank you[ very much|]|see you [tomorrow|soon|at the {n}]|where is the {n}|how much is [the|a] {n}|I [love|like|need|lost] [my|the|your] {n}|the {n} is {a}|my name is {C}|I am [hungry|tired|lost|late]|one {n} and two {m}s please|have a nice {n}|I'll be [home|there|back] [by|at] {k}|the {n}s are [in|under|behind] the {m}|happy birthday|don't forget the {n}|we need [more|{k}|no] {n}s|nice to meet you]"
_PYTHON = "[print({k} [*|+|-] {j})|print(sum(range({k})))|print('{n}'.[upper|title|strip]())|len('{n} {m}')|[max|min|sum|sorted]([{k}, {j}, {i}])|x = {k}; print(x * {j})|import math; print(math.sqrt({k}))|print(list(range({i})))|{n} = {k}\nprint({n} + {j})|for i in range({i}): print(i)|round({k} / {j}, 2)|'{n}' + '{m}'|abs(-{k})|{k} ** {i}]"
_SHELL = "[npm [run {n}|install {c}|test]|pip install [-r {n}.txt|{c}]|git [diff|pull|status|checkout -b {c}|commit -m '{n} {m}']|docker [ps -a|build -t {c} .|restart {c}]|ls -la [~/{n}|/{c}]|make {n}|python {n}.py --{m} {k}|cat {n}.log|kubectl get {n}s|du -sh {n}|whoami|chmod +x {c}.sh|tail -n {k} {n}.log|mkdir -p {n}/{m}|echo {n}]"
_GLOBS = "[**/*.{e}|*.{e}|**/*.{n}.{e}|{n}/**/*.{e}|*_{n}.{e}|{n}*.{e}|**/{n}.{e}|{n}-??.{e}|test_*.{e}|**/{c}/*.{e}]"
_NEEDLES = "[TODO|FIXME|{n}_{m}|{n}{M}|{n}|{M}{N}|{n}(|import {n}|def {n}|class {N}|{c}|{n}.{m}|{k}]"
_BRANCHES = "[[feature|fix|hotfix|bugfix|chore|feat|docs]/{n}-{m}|{n}-{m}|fix-{c}|release/{i}.{k}|{c}/{n}|{n}_{k}|feature/{c}-{k}]"
_ENTITIES = "[light|switch|fan|cover|media_player|lock|climate|sensor|camera|siren].[{n}|{n}_{m}|kitchen|bedroom_{n}|{c}|living_room|garage_{n}|{n}_{i}|office]"
_EXPRESSIONS = "[{k} {o} {j}|({k} {o} {j}) {p} {i}|{i} {p} ({k} {o} {j})|{k}.{i} {o} {j}|{k} {o} {j} {p} {i}|sqrt({k})|{i}^{j} {o} {k}|({k} {o} {j}) / ({i} + {j})|sin({k})]"
_WHERES = "[{n} = {k}|{n} > {k}|{n}_id = {k}|{n} != {k}|{n} = '{c}'|is_{a} = true|{n} >= {k} AND {m} = '{c}']"
_INNS = "[Hotel {C}|{C} Hotel|Grand {C}|{A} {N} Inn|{C} Palace|Park {N}|The {A} {N}|{C} & {N} Suites|Villa {C}]"
_UNIT_NAMES = "miles|kilometers|km|feet|meters|inches|cm|pounds|kg|ounces|grams|liters|gallons|cups|ml|celsius|fahrenheit|hours|minutes|acres|hectares|knots|yards|stones|tons".split(
    "|"
)
_ENDINGS = "py js ts md txt csv json log yaml html css go rs java png".split()
_BASES = "main main develop master staging release/2.1 trunk dev".split()


def _written(pattern: str) -> Callable[[Random], str]:
    """Return a maker of texts of a pattern, any of whose words may be any."""

    def write(rng: Random) -> str:
        n, m, a = choose(rng, NOUNS), choose(rng, NOUNS), choose(rng, ADJECTIVES)
        text = expand(
            rng, pattern, n=n, m=m, a=a, b=choose(rng, ADJECTIVES), N=n.capitalize(), M=m.capitalize(), A=a.capitalize(), c=coin(rng), C=choose(rng, CITIES) if rng.random() < 0.4 else coin(rng, 2).capitalize(),
            k=rng.randint(2, choose(rng, (20, 99, 2025))), j=rng.randint(2, 60), i=rng.randint(2, 9), o=choose(rng, "+-*/"), p=choose(rng, "+-*"), e=choose(rng, _ENDINGS), s="{s}",
        )  # fmt: skip
        return re.sub(r"\b([Aa]) (?=[aeiou])", r"\1n ", text)

    return write


_query, _question, _scene, _speech, _python, _shell, _needle = map(
    _written, (_QUERIES, _QUESTIONS, _SCENES, _SPEECH, _PYTHON, _SHELL, _NEEDLES)
)


def _search(rng: Random, split: Split) -> Said:
    """Write what is looked for, all of it; an article before it is not looked for."""
    subject = choose(rng, THINGS["topic|query|keyword"]) if rng.random() < 0.3 else anything(rng)
    text = _query(rng).replace("{s}", subject.removeprefix("the "))
    article = text.startswith(("latest", "best", "cheapest", "history", "nearest", "difference")) and rng.random() < 0.5
    shown, _ = values.quoted(rng, text) if rng.random() < 0.25 else same(text)
    return (f"the {text}" if article else shown), text


def _asked(rng: Random, split: Split) -> Said:
    text = _question(rng)
    return same(text[0].upper() + text[1:] if rng.random() < 0.5 else text)


def _ticked(rng: Random, text: str) -> Said:
    return choose(rng, ("{}", "{}", "`{}`", "```{}```" if "\n" in text else "`{}`")).format(text), text


def _exact(rng: Random, split: Split) -> Said:
    """Write some characters of a file, always in quotes."""
    text = expand(rng, "[{n}: {k}|{n}: true|{n}: false|{n} = {k}|{n} {m}|{N}|{n}_{m}|{a} {n}|{n}={c}|v{k}|const {n}|{c}|{k}px]", n=choose(rng, NOUNS), m=choose(rng, NOUNS), N=choose(rng, NOUNS).capitalize(), a=choose(rng, ADJECTIVES), c=coin(rng), k=rng.randint(0, 999))  # fmt: skip
    return choose(rng, ('"{}"', '"{}"', "'{}'", "`{}`")).format(text), text


def _day(rng: Random, split: Split) -> Said:
    """Draw a day, or a day and a time, in figures or in words."""
    date = f"{rng.randint(2024, 2030)}-{rng.randint(1, 12):02}-{rng.randint(1, 28):02}"
    kind = rng.random()
    if kind < 0.35:
        return same(date)
    return same(f"{date}T{rng.randint(0, 23):02}:{choose(rng, ('00', '15', '30'))}") if kind < 0.45 else bare(values.day(rng))  # fmt: skip


def _several(draw: Callable[[Random, Split], str]) -> Draw:
    def drawn(rng: Random, split: Split) -> Said:
        found = list(dict.fromkeys(draw(rng, split) for _ in range(choose(rng, (1, 2, 2, 2, 3)))))
        return (values.join(rng, found).replace(" & ", " and ") if len(found) > 1 else found[0]), found

    return drawn


def _address(rng: Random, split: Split) -> Said:
    street = f"{rng.randint(1, 199)} {choose(rng, (coin(rng, 2), choose(rng, NOUNS))).capitalize()} {choose(rng, ('Street', 'Road', 'Avenue', 'Lane', 'Drive', 'Square'))}"
    return same(f"{street}, {pick(rng, CITIES, split)}" if rng.random() < 0.5 else street)


def _height(rng: Random, split: Split) -> Said:
    value = round(rng.uniform(1.2, 2.1), 2)
    return f"{value:.2f}", value


def _bounded(low: int, high: int) -> Draw:
    """Draw a price between two bounds, so that the lower one of two is the lower."""

    def draw(rng: Random, split: Split) -> Said:
        value = rng.randint(low, high)
        return expand(rng, "[{v}|{v} euros|${v}|{v} dollars|€{v}]", v=value), value

    return draw


def _plain(pattern: str) -> Draw:
    write = _written(pattern)
    return lambda rng, split: same(write(rng))


_PLAIN: dict[str, str] = {"globs": _GLOBS, "branchname": _BRANCHES, "entity": _ENTITIES, "expression": _EXPRESSIONS, "sqlwhere": _WHERES, "inn": _INNS}  # fmt: skip
_TEXTS: dict[str, Draw] = {
    **{name: _plain(pattern) for name, pattern in _PLAIN.items()},
    "search": _search, "question": _asked, "quote": _exact, "quote2": _exact, "iso": _day, "iso2": _day, "address": _address,
    "needle": lambda rng, split: _ticked(rng, _needle(rng)), "python": lambda rng, split: _ticked(rng, _python(rng)), "shell": lambda rng, split: _ticked(rng, _shell(rng)),
    "scene": lambda rng, split: same(_scene(rng)), "speech": lambda rng, split: values.quoted(rng, _speech(rng)), "contact": lambda rng, split: same(choose(rng, ("mom", "dad", "my boss", "grandma", "the team")) if rng.random() < 0.15 else values.person(rng, split)),
    "given": lambda rng, split: same(pick(rng, NAMES, split)), "family": lambda rng, split: same(surname(rng)), "base": lambda rng, split: same(choose(rng, _BASES)),
    "url": SLOTS["url"].value, "lang2": SLOTS["language"].value, "unit": lambda rng, split: same(choose(rng, _UNIT_NAMES[::2])), "unit2": lambda rng, split: same(choose(rng, _UNIT_NAMES[1::2])),
}  # fmt: skip
_LISTS: dict[str, Draw] = {
    "paths": _several(lambda rng, split: values.stem(rng) + choose(rng, (".txt", ".csv", ".png", ".log", ".pdf"))),
    "emails": _several(lambda rng, split: str(values.email(rng, split)[1])), "names": _several(values.person),
}  # fmt: skip
WORK_KINDS: dict[str, tuple[Message, Draw]] = {
    **{name: (TEXT, draw) for name, draw in _TEXTS.items()},
    **{name: (LIST, draw) for name, draw in _LISTS.items()},
    "secs": (INT, SLOTS["seconds"].value),
    "figures": (SLOTS["numbers"].schema, SLOTS["numbers"].value),
    "weight": (NUMBER, lambda rng, split: values.decimal(rng, 140)),
    "metres": (NUMBER, _height),
    "price1": (NUMBER, _bounded(1, 90)),
    "price2": (NUMBER, _bounded(100, 2000)),
}
