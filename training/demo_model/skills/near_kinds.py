"""The values of ``kits_near``: names of several words, places, images, topics of messages, coordinates, squares, posts."""

# ruff: noqa: E501 - phrases read best unbroken

import re
from collections.abc import Callable
from random import Random

from demo_model.skills import values
from demo_model.skills.frame_words import KINDS as THINGS
from demo_model.skills.slots import INT, LIST, NUMBER, TEXT
from demo_model.skills.values import Said, same
from demo_model.template import Message
from demo_model.text import ADJECTIVES, CITIES, NOUNS, Split, choose, coin, expand

Draw = Callable[[Random, Split], Said]

_ROOMS = "kitchen|porch|hall|garage|bedroom|garden|office|nursery|attic|terrace|{n}|{c}|guest room|{a}"
_FOOD = "rice|toast|oats|yoghurt|salmon|tofu|lentils|berries|honey|spinach|cheese|eggs|beans|jam|butter|chicken|nuts|pasta|{n}|{c}"
_PATTERNS = {
    "gadget": f"[{_ROOMS}] [lamp|light|lights|speaker|fan|heater|plug|camera|TV|lamp|radio|spots|socket|lantern]",
    "potion": "[[potion|elixir|scroll|ring|amulet|flask|wand|horn|book|boots|cloak|bow] of [haste|[{a} |the {a} |]{n}|{c}|the {n}|strength|fire|night]|[{a} ][key|rope|torch|mushroom|lantern|coin|{n}]|{c} [stone|shard|key|berry]]",
    "station": "[{C} [airport|station|Central Station|Airport|harbour|main station|bus station|South]|Terminal {i}|{C}|the [airport|station] in {C}|{P} [Airport|Square|Street]]",
    "meal": f"[[{_FOOD}] with [{_FOOD}]|[{_FOOD}] and [{_FOOD}]|[a|two|some] [{{n}} ][sandwich|salad|soup|bowl of [{_FOOD}]|slice of {{n}} cake]|[{_FOOD}]|[{{a}} ][{_FOOD}] on [{_FOOD}]]",
    "post": "[[Just|Finally] [landed|arrived|back] in {C}, [what a {n}|so {a}|{a} as ever]!|[{N} day|{N} night|A {a} {n}], [who's in|{a} but true|see you in {C}]?|We [sold|found|lost] {k} {n}s, [thanks to all of you|and it isn't even {D}]!|[{a} {n}s|My {n}], [{b} {m}s|no {m}] and [a {n}|{C}]|{C} is {a}. [So am I|I love it|Go and see it]!|Hello {C}! Any [tips|ideas] for [a {a} {n}|{n}s]?|The {n} is {a}, the {m} is {b}]",
    "messagetopic": "[home|factory|{c}|site{i}|farm]/[{n}|{c}|garage|line{i}][/[{n}|relay{i}|{m}|state|set]|]",
    "picture": "[{n}|{c}_{i}|img_{k}|photos/{n}|scan-{i}|~/{c}/{n}|/data/{n}_{m}].[tif|bmp|heic|tiff|svg]",
    "payload": "[ON|OFF|on|off|open|closed|{k}|{k}.{i}|reset|{c}|start|stop]",
    "image": "[redis|postgres|nginx|mysql|{c}|{c}/{n}|python|node|grafana/grafana|{n}-{m}][:[latest|{i}|{i}.{k}|{i}-alpine|v{i}|{i}-slim]|]",
    "container": "[{n}|{c}|{n}-{i}|{n}_{m}|web-{i}|db|{c}-{n}]",
    "address2": "[{k} {P} [Street|Road|Lane|Avenue]|{k}B {P} [Street|Road]|{k} {N} [Street|Way]|{P}straße {k}|Rue {P} {k}|{P} {N} {k}][, {C}|, {C}|, {k}0{i} {C}|]",
    "crypto": "[Bitcoin|Ethereum|Solana|Dogecoin|Litecoin|Cardano|BTC|ETH|XRP|{P}]",
    "account": "[savings|checking|current|holiday|household|joint|business|{n}|emergency|main|{c}]",
    "biller": "[{P} [Water|Energy|Power|Telecom|Gas|Insurance|Internet]|{C} Water|City [Power|Water|Gas]|{P}|the [dentist|plumber|landlord]]",
    "pagename": "[{N} {m}|{N}|{A} {n}|Q{i} {n}s|{P} {n}|Team {N}|{C} {i}|{N} notes|How to {n}]",
    "projectkey": "[{L}{L}{L}|{L}{L}|{L}{L}{L}{L}]",
    "issuekey": "[{L}{L}|{L}{L}{L}|{L}{L}{L}{L}]-{k}[|{i}|0{i}]",
    "owner": "[{c}|{n}|{c}-{n}|{n}labs|{c}{i}|{n}-org]",
    "reponame": "[{n}|{c}|{n}-{m}|{c}-{n}|{n}_{m}|{n}.{c}|{n}-api|my-{n}]",
    "square": "[a|b|c|d|e|f|g|h][1|2|3|4]", "square2": "[a|b|c|d|e|f|g|h][5|6|7|8]",
    "illness": "[dermatologist|dentist|cardiologist|paediatrician|physiotherapist|eye doctor|{c}ologist|surgeon|family doctor]",
    "cuisine": "[Italian|Thai|Mexican|Indian|Greek|French|Korean|Turkish|Persian|Spanish|Moroccan|Peruvian]",
    "creature": "[{a} {n}s|skeleton archers|goblins|{c}s|wolves|{n} [guards|riders|spirits]|ice trolls|bandits|{a} {c}s]",
    "misspelt": "[definately|recieve|seperate|teh|wierd|untill|accross] [a|the] {a} {n}|I [recieved|beleive] the {n}s|{n}s is {a}[er|] then {m}s",
    "shout": "[{n} {a}|{n} does not [open|load|answer]|it [drops|loses|skips|doubles] [every|the] [second |last |first ]{n}|[{n}s|the {n}] [vanish|come twice|are {a}]|{n} and {m} are mixed up|wrong {n} in [the {m}|{C}]]",
}  # fmt: skip


def _written(pattern: str) -> Draw:
    def draw(rng: Random, split: Split) -> Said:
        noun, other, quality = choose(rng, NOUNS), choose(rng, NOUNS), choose(rng, ADJECTIVES)
        city = choose(rng, CITIES) if rng.random() < 0.7 else coin(rng, 2).capitalize()
        text = expand(
            rng, f"[{pattern}]", n=noun, m=other, a=quality, b=choose(rng, ADJECTIVES), N=noun.capitalize(), A=quality.capitalize(),
            c=coin(rng, 2), P=coin(rng, 2).capitalize(), C=city, D=choose(rng, values.DAYS), i=rng.randint(1, 9), k=rng.randint(2, 99), L="{L}",
        )  # fmt: skip
        text = re.sub(r"\{L\}", lambda _: choose(rng, "ABCDEFGHIKLMNOPRSTVWX"), text)
        return same(re.sub(r"\b([Aa]) (?=[aeiou])", r"\1n ", text))

    return draw


def _tune(rng: Random, split: Split) -> Said:
    """Name what can be played: a genre, a song, or somebody's music."""
    return same(choose(rng, THINGS[choose(rng, ("genre", "song|track", "artist|band"))]).removeprefix("the "))


def _several(draw: Draw, most: int = 3) -> Draw:
    def drawn(rng: Random, split: Split) -> Said:
        found = [str(draw(rng, split)[1]) for _ in range(rng.randint(1, most))]
        found = list(dict.fromkeys(one for one in found if not re.search(r"&|,| and ", one)))
        found = found or [choose(rng, NOUNS)]
        return values.join(rng, found) if len(found) > 1 else found[0], found

    return drawn


def _goods(rng: Random, split: Split) -> Said:
    return same(
        expand(
            rng,
            "[milk|butter|toilet paper|soap|bread|olive oil|batteries|cat food|{a} {n}s|{n}s|{c}|dish soap|eggs]",
            a=choose(rng, ADJECTIVES),
            n=choose(rng, NOUNS),
            c=coin(rng, 2),
        )
    )


def _total(rng: Random, split: Split) -> Said:
    """Draw a sum without its currency, at times with a comma between thousands."""
    value = rng.randint(2, choose(rng, (99, 999, 9000))) if rng.random() < 0.6 else round(rng.uniform(1, 400), 2)
    return values.figures(value) if rng.random() < 0.5 else str(value), value


def _degree(rng: Random) -> Said:
    return same(round(rng.uniform(-90, 90), choose(rng, (1, 2, 4))))


def _between(low: int, high: int) -> Draw:
    return lambda rng, split: same(rng.randint(low, high))


def _offset(rng: Random, split: Split) -> Said:
    return same(round(rng.uniform(-5, 5), choose(rng, (1, 2))))


_FOODS: Draw = lambda rng, split: same(expand(rng, f"[{_FOOD}]", n=choose(rng, NOUNS), c=coin(rng, 2)))  # noqa: E731
NEAR_KINDS: dict[str, tuple[Message, Draw]] = {
    **{name: (TEXT, _written(pattern)) for name, pattern in _PATTERNS.items()},
    "tune": (TEXT, _tune),
    "goodslist": (LIST, _several(_goods, 4)),
    "tracks": (LIST, _several(lambda rng, split: same(choose(rng, THINGS["song|track"]) if rng.random() < 0.5 else values.title(rng)))),
    "withfoods": (LIST, _several(_FOODS)),
    "nofoods": (LIST, _several(_FOODS, 2)),
    "total": (NUMBER, _total),
    "lat": (NUMBER, lambda rng, split: _degree(rng)),
    "lng": (NUMBER, lambda rng, split: _degree(rng)),
    "offset": (NUMBER, _offset),
    "degrees": (INT, _between(14, 30)),
    "few": (INT, _between(2, 15)),
    "port": (INT, _between(80, 9999)),
    "upper": (INT, _between(100, 190)),
    "lower": (INT, _between(50, 99)),
    "calories": (INT, _between(50, 1200)),
    "number": (INT, _between(1, 400)),
    "quarters": (INT, lambda rng, split: same(choose(rng, (90, 180, 270, 45, rng.randint(1, 359))))),
}  # fmt: skip
