"""Yes and no that a request says in words of its own: "private" where the argument is ``public``, "in silence", "urgent!".

What is not said is not in the call, and no argument takes what is said of another one.
"""

# ruff: noqa: E501 - phrases read best unbroken

import re
from functools import cache
from random import Random

from demo_model.skills import kitted, situated, things
from demo_model.skills.around import PLAIN, QUESTION, without_likes
from demo_model.skills.define import Offer, styled
from demo_model.skills.implied_words import BASES, FLAGS
from demo_model.skills.slots import BOOL, INT, TEXT
from demo_model.skills.values import same
from demo_model.text import Split, choose, expand, wording

situated.KINDS.update({
    "figure5": (INT, lambda rng, split: same(rng.randint(1, 5))),
    "chore": (TEXT, lambda rng, split: same(things.chore(rng, split))),
})  # fmt: skip
assert kitted.KINDS  # the kinds of its lines stand in ``situated.KINDS`` from now on


@cache
def _flag(line: str) -> tuple[list[str], list[str], list[str], list[str]]:
    _, plain, opposite, yes, no = line.split(" ; ")
    return plain.split("|"), opposite.split("|"), yes.split("|"), no.split("|")


_FLAGS = {line.split(" ; ")[0]: line for line in FLAGS}
# Flags that what is said of another one could be taken for.
_ALIKE = ["urgent draft", "public anonymous editable draft comments", "overwrite backup", "ice heated decaf", "meat spicy", "sound notify quiet loop", "remote video", "first member paid minor", "outdoors window smoking quiet", "compress encrypt color", "gift fragile", "doorstep signature notify", "recurring loop"]  # fmt: skip


def _alike(one: str, other: str) -> bool:
    return any(one in group.split() and other in group.split() for group in _ALIKE)


# Tools of other sets that may be urgent, silent or only tried.
_ASKS = ("Tell", "Show", "Say", "Find", "List", "Look", "Search", "Load", "Compute", "Forecast", "Give", "Read")
_PLAIN = [
    line
    for line in PLAIN
    if not re.search(r"urgen|notif|alert|hurry|silent|dry", line.lower()) and not line.split(" ; ")[1].startswith(_ASKS)
]


def said_with(rng: Random, ask: str, ways: list[str]) -> str:
    """Add what is said besides to a request: after it, or before it in a sentence of its own."""
    ask = ask.rstrip(" .!?,")
    for index, said in enumerate(ways):
        kind = rng.random()
        plain = said.rstrip("!")
        way = said if index == len(ways) - 1 else plain
        if index == 0 and kind < 0.1:
            ask = f"{plain[0].upper()}{plain[1:]}{choose(rng, ('. ', '! ', ': ', ' - '))}{ask}"
        elif kind < 0.55:
            ask += f", {plain}"
        elif kind < 0.68:
            ask += f"{'' if ask[-1] == '!' else '.'} {way[0].upper()}{way[1:]}"
        elif kind < 0.78:
            ask += f" ({plain})"
        elif kind < 0.9:
            ask += f" - {plain}"
        else:
            ask += f", but {plain}" if index == 0 and " please" not in plain and rng.random() < 0.5 else f" and {plain}" if index else f"; {plain}"  # fmt: skip
    return ask + (choose(rng, ("", "", ".", ", please", " please", ", thanks")) if "lease" not in ask and ask[-1] not in ")!" else "")  # fmt: skip


def implied(rng: Random, split: Split) -> Offer:
    """Define a tool with some flags, and ask for it with what one or two of them are, in other words."""
    if rng.random() < 0.2:
        line, keys = wording(rng, _PLAIN, split), ["urgent", "notify", "dry"]
    else:
        *parts, flags = choose(rng, BASES).split(" ; ")
        line, keys = " ; ".join(parts), flags.split()
    made, _ = situated.made(rng, split, line)
    while QUESTION.match(made.ask):
        made, _ = situated.made(rng, split, line)
    without_likes(made)
    keys = rng.sample(keys, min(len(keys), rng.choice((1, 2, 2, 3, 3))))
    said: list[str] = []
    for key in keys:
        if len(said) == 0 or (len(said) == 1 and rng.random() < 0.3 and not _alike(key, said[0])):
            said.append(key)
    keys = [key for key in keys if key in said or not any(_alike(key, other) for other in said)]
    ways = _flagged(rng, made, keys, said)
    made.ask = said_with(rng, made.ask, ways)
    if rng.random() < 0.4 and made.ask[1:2].islower() and not made.ask.startswith(("I ", "I'")) and made.ask.split(" ", 1)[0].strip(",.:;!") not in str(made.arguments):  # fmt: skip
        made.ask = made.ask[0].lower() + made.ask[1:]
    return made


def _flagged(rng: Random, made: Offer, keys: list[str], said: list[str]) -> list[str]:
    """Add flags to a tool, and what is said of them to its call; return the ways to say it."""
    function = made.tool["function"]
    parameters = function.setdefault("parameters", {"type": "object", "properties": {}})
    properties = parameters["properties"]
    ways = []
    for key in keys:
        plain, opposite, yes, no = _flag(_FLAGS[key])
        turned = rng.random() < 0.4
        name = choose(rng, opposite if turned else plain)
        schema = dict(BOOL)
        if rng.random() < 0.4:
            schema["description"] = expand(rng, "[Whether it is|True if|Is it] {n}[.||?]", n=name.replace("is_", "").replace("_", " "))  # fmt: skip
        name = styled(rng, name)
        if name.lower() in {other.lower() for other in properties}:
            continue
        properties[name] = schema
        if key in said:
            value = rng.random() < 0.5
            # Words that are the name itself are said only now and then.
            ways.append(choose(rng, yes if value else no))
            made.arguments[name] = value != turned
            if rng.random() < 0.3 and "required" in parameters:
                parameters["required"] = [*parameters["required"], name]
    return ways
