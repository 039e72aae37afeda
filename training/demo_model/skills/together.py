"""Arguments that are said together, as an amount and its unit, and those that a tool may have at all.

A mention is what is added to a sentence; the arguments are what a call then has.
"""

# ruff: noqa: E501, SIM905 - phrases read best unbroken

from collections.abc import Callable
from random import Random

from demo_model.skills import values
from demo_model.skills.slots import BOOL, INT, NUMBER, SLOTS, TEXT, Argument, argument, bare, topic, valued
from demo_model.skills.values import same
from demo_model.template import Message
from demo_model.text import ADJECTIVES, NAMES, NOUNS, Split, choose, coin, expand, lines, pick

# Units as an argument has them, and as people say them.
UNITS = {"kg": "kg|kilos|kilograms", "g": "g|grams", "lb": "lb|pounds|lbs", "l": "l|litres|liters", "ml": "ml|millilitres", "km": "km|kilometres|kilometers", "m": "m|metres|meters", "cm": "cm|centimetres", "mi": "mi|miles", "oz": "oz|ounces", "cups": "cups", "pieces": "pieces", "boxes": "boxes", "hours": "hours|h", "minutes": "minutes|min", "days": "days"}  # fmt: skip

Several = tuple[str, list[Argument]]


_ONE = {"kilos": "kilo", "litres": "litre", "liters": "liter", "miles": "mile", "hours": "hour", "cups": "cup", "metres": "metre", "meters": "meter", "pounds": "pound", "ounces": "ounce", "days": "day", "boxes": "box", "kilometres": "kilometre", "kilometers": "kilometer"}  # fmt: skip
PARTS = [("half a {u}", 0.5), ("a {u}", 1), ("one and a half {us}", 1.5), ("a {u} and a half", 1.5), ("two and a half {us}", 2.5), ("a quarter of a {u}", 0.25), ("three quarters of a {u}", 0.75), ("two {us}", 2), ("three and a half {us}", 3.5), ("a dozen {us}", 12)]  # fmt: skip


def dose(rng: Random, split: Split) -> Several:
    """Mention an amount with its unit, as two arguments or as one text."""
    unit, said = choose(rng, list(UNITS.items()))
    name = choose(rng, said.split("|"))
    if name in _ONE and rng.random() < 0.25:
        words, value = choose(rng, PARTS)
        one = _ONE[name]
        both = words.replace("{us}", name).replace("a {u}", f"an {one}" if one in {"hour", "ounce"} else f"a {one}")
        return both, _measured(rng, both, value, unit, name if "{us}" in words else one)
    shown, value = values.decimal(rng, choose(rng, (9, 99, 2000)))
    if isinstance(value, int) and value < 100 and len(name) > 2 and rng.random() < 0.2:
        shown = values.spoken(value)
    both = f"{shown}{'' if len(name) < 3 and rng.random() < 0.3 else ' '}{name}"
    return both, _measured(rng, both, value, unit, name)


def measure(rng: Random, split: Split) -> Several:
    """Mention an amount with its unit after what it is the amount of."""
    both, arguments = dose(rng, split)
    return expand(rng, "[, {b}| of {b}| with {b}|, {b} of it|: {b}| for {b}]", b=both), arguments


def _measured(rng: Random, both: str, value: float, unit: str, name: str) -> list[Argument]:
    if rng.random() < 0.3:
        return [argument(rng, "quantity|amount|size|dose", "[The amount with its unit|How much][.|]", TEXT, both)]
    units = sorted({unit, *rng.sample(list(UNITS), 3)})
    schema, value_unit = ({"type": "string", "enum": units}, unit) if rng.random() < 0.6 else (TEXT, name)
    return [
        argument(rng, "amount|quantity|value|number", "[How much|The amount][.|]", NUMBER, value),
        argument(rng, "unit|units|measure|unit_of_measure", "[The |]unit[.|]", schema, value_unit),
    ]


def _pair(rng: Random, said: tuple[str, str], names: tuple[str, str], mentions: str) -> Several:
    mention = expand(rng, mentions, a=said[0], b=said[1])
    return mention, [argument(rng, names[0], "[Where it starts|The source][.|]", TEXT, said[0]), argument(rng, names[1], "[Where it ends|The target][.|]", TEXT, said[1])]  # fmt: skip


def route(rng: Random, split: Split) -> Several:
    """Mention the place where something starts and the one where it ends."""
    names = "origin|from|start|from_city|departure|source", "destination|to|end|to_city|arrival|target"
    return _pair(rng, (values.place(rng, split), values.place(rng, split)), names, "[ from {a} to {b}| from {a} to {b}|, from {a} to {b}| from {a} over to {b}]")  # fmt: skip


def files(rng: Random, split: Split) -> Several:
    """Mention a file and where it goes."""
    names = "source|from|src|old_path|source_path|old_name|from_path|path|file", "destination|to|dest|new_path|target_path|new_name|to_path|target"  # fmt: skip
    kind = rng.random()
    if kind < 0.2:
        return _pair(rng, (values.path(rng)[1], choose(rng, NOUNS)), names, "[ {a} to the {b} folder| {a} into the {b} folder| {a} to my {b} folder| {a} into the folder {b}]")  # fmt: skip
    target = values.path(rng)[1] if kind < 0.6 else values.folder(rng)
    return _pair(rng, (values.path(rng)[1], target), names, "[ {a} to {b}| {a} to {b}| from {a} to {b}| {a} into {b}| {a} as {b}| {a} -> {b}]")  # fmt: skip


def people(rng: Random, split: Split) -> Several:
    """Mention who gives and who gets."""
    names = "from|sender|from_user|from_account|giver", "to|receiver|to_user|to_account|taker|recipient"
    return _pair(rng, (values.person(rng, split), values.person(rng, split)), names, "[ from {a} to {b}| from {a} to {b}|, from {a} to {b}]")  # fmt: skip


MONEY = {"EUR": "{v} euros|€{v}|{v} EUR|{v}€|{v} euro", "USD": "${v}|${v}|{v} dollars|{v} USD|{v} bucks", "GBP": "£{v}|{v} pounds|{v} GBP", "JPY": "{v} yen|¥{v}", "CHF": "{v} francs|CHF {v}"}  # fmt: skip


def cash(rng: Random, split: Split) -> Several:
    """Mention a sum of money, as an amount and its currency."""
    currency, ways = choose(rng, list(MONEY.items()))
    shown, value = values.decimal(rng, choose(rng, (10, 99, 999, 5000)), 2)
    said = choose(rng, ways.split("|")).replace("{v}", shown)
    schema: Message = {"type": "string", "enum": list(MONEY)} if rng.random() < 0.5 else TEXT
    return said, [
        argument(rng, "amount|sum|value|total|price", "[The |]amount[.|]", NUMBER, value),
        argument(rng, "currency|currency_code|unit", "[The |]currency[ code|, e.g. EUR|][.|]", schema, currency),
    ]


def basket(rng: Random, split: Split) -> Several:
    """Mention several things with how many there are of each, as a list of objects."""
    name, number = choose(rng, ("name", "item", "product")), choose(rng, ("quantity", "count", "amount"))
    things = rng.sample(NOUNS, rng.choice((1, 2, 2, 3)))
    made = [(values.count(rng, 20), f"{noun}s") for noun in things]
    said = [f"{shown} {thing}" for (shown, _), thing in made]
    mention = values.join(rng, said) if len(said) > 1 else said[0]
    schema = {
        "type": "array",
        "items": {"type": "object", "properties": {name: TEXT, number: INT}, "required": [name, number]},
    }
    listed = [{name: thing, number: value} for (_, value), thing in made]
    return mention, [
        argument(rng, "items|products|order|lines|cart|articles", "[The things|What to order][.|]", schema, listed)
    ]


def body(rng: Random, split: Split) -> Several:
    """Mention how tall and how heavy somebody is."""
    tall, heavy = rng.randint(120, 210), values.decimal(rng, 140)[1]
    mention = expand(
        rng,
        "[{a} cm and {b} kg|{b} kg and {a} cm|{a} cm tall and {b} kg|a height of {a} cm and a weight of {b} kg|{a}cm, {b}kg]",
        a=tall,
        b=heavy,
    )
    return mention, [argument(rng, "height|height_cm|tall|cm", "[Height in cm|The height][.|]", NUMBER, tall), argument(rng, "weight|weight_kg|mass|kg", "[Weight in kg|The weight][.|]", NUMBER, heavy)]  # fmt: skip


def change(rng: Random, split: Split) -> Several:
    """Mention an amount in one unit and the unit that it shall have."""
    units = rng.sample([choose(rng, said.split("|")) for said in UNITS.values()], 2)
    shown, value = values.decimal(rng, choose(rng, (9, 99, 2000)), 2)
    mention = expand(rng, "[{v} {a} to {b}|{v} {a} into {b}|{v} {a} in {b}]", v=shown, a=units[0], b=units[1])
    return mention, [
        argument(rng, "value|amount|number|quantity", "[The |]value[.|]", NUMBER, value),
        argument(rng, "from_unit|from|source_unit|unit_from", "[The |]unit to convert from[.|]", TEXT, units[0]),
        argument(rng, "to_unit|to|target_unit|unit_to", "[The |]unit to convert to[.|]", TEXT, units[1]),
    ]


def coordinates(rng: Random, split: Split) -> Several:
    """Mention a point on the map."""
    a, b = round(rng.uniform(-80, 80), rng.choice((1, 2, 4))), round(rng.uniform(-179, 179), rng.choice((1, 2, 4)))
    mention = expand(
        rng,
        "[ at {a}, {b}| at latitude {a} and longitude {b}|, coordinates {a}, {b}| near {a}, {b}| for lat {a}, lon {b}| ({a}, {b})]",
        a=a,
        b=b,
    )
    return mention, [argument(rng, "lat|latitude", "[The |]latitude[.|]", NUMBER, a), argument(rng, "lon|lng|longitude|long", "[The |]longitude[.|]", NUMBER, b)]  # fmt: skip


def dice(rng: Random, split: Split) -> Several:
    """Mention how many dice to roll, and how many sides they have."""
    (shown, value), sides = values.count(rng, 12), choose(rng, (4, 6, 8, 10, 12, 20, 100))
    mention = expand(
        rng,
        "[{n} {w}-sided dice|{n} {s}-sided dice|{d}d{s}|{n} dice with {s} sides|{n} dice with {w} sides]",
        n=shown,
        d=value,
        w=values.spoken(sides),
        s=sides,
    )
    return mention, [argument(rng, "count|dice|number|quantity|n", "[How many dice|The number][.|]", INT, value), argument(rng, "sides|faces|num_sides", "[The |]sides[ of a die|][.|]", INT, sides)]  # fmt: skip


def size(rng: Random, split: Split) -> Several:
    """Mention a width and a height."""
    a, b = (rng.randint(1, choose(rng, (20, 999, 4000))) for _ in range(2))
    mention = expand(
        rng,
        "[ to {a} by {b}| {a}x{b}| at {a} x {b}| with {a} by {b} pixels|, {a} wide and {b} high|, width {a}, height {b}| with a width of {a} and a height of {b}]",
        a=a,
        b=b,
    )
    return mention, [argument(rng, "width|w|columns|width_px", "[The |]width[.|]", INT, a), argument(rng, "height|h|rows|height_px", "[The |]height[.|]", INT, b)]  # fmt: skip


def bounds(rng: Random, split: Split) -> Several:
    """Mention a lower and an upper end: of numbers, of days, of hours."""
    kind = rng.randrange(3)
    said = [
        choose(
            rng,
            (lambda: same(rng.randint(0, 500)), lambda: bare(values.day(rng)), lambda: values.clock(rng))[
                kind : kind + 1
            ],
        )()
        for _ in range(2)
    ]
    mention = expand(
        rng, "[ between {a} and {b}| from {a} to {b}|, {a} to {b}| from {a} until {b}]", a=said[0][0], b=said[1][0]
    )
    names = (("min|minimum|low|lower|from", "max|maximum|high|upper|to"), ("start_date|from|start|check_in|begin", "end_date|to|end|check_out|until"), ("start_time|from|start|opens", "end_time|to|end|closes"))[kind]  # fmt: skip
    schema = INT if kind == 0 else TEXT
    return mention, [argument(rng, names[0], "[The |][start|lower end][.|]", schema, said[0][1]), argument(rng, names[1], "[The |][end|upper end][.|]", schema, said[1][1])]  # fmt: skip


def full_name(rng: Random, split: Split) -> Several:
    """Mention a person by first and last name, as two arguments."""
    first, last = pick(rng, NAMES, split), coin(rng, 2).capitalize()
    mention = expand(rng, "[ for {a} {b}| named {a} {b}|: {a} {b}| called {a} {b}|, {a} {b}]", a=first, b=last)
    return mention, [argument(rng, "first_name|given_name|firstname", "[The |]first name[.|]", TEXT, first), argument(rng, "last_name|family_name|surname", "[The |]last name[.|]", TEXT, last)]  # fmt: skip


def address(rng: Random, split: Split) -> Several:
    """Mention an address, as one object."""
    made: Message = {
        "street": f"{rng.randint(1, 199)} {coin(rng, 2).capitalize()} {choose(rng, ('Street', 'Road', 'Avenue', 'Lane'))}",
        "city": values.place(rng, split),
    }
    if rng.random() < 0.5:
        made["zip"] = f"{rng.randint(10000, 99999)}"
    mention = expand(rng, "[ to {a}|, the address is {a}| at {a}|: {a}|, address {a}]", a=", ".join(made.values()))
    schema = {"type": "object", "properties": dict.fromkeys(made, TEXT), "required": list(made)}
    return mention, [
        argument(rng, "address|location|shipping_address|delivery_address", "[The |]address[.|]", schema, made)
    ]


def switch(rng: Random, split: Split) -> Several:
    """Mention something that is there or not, wanted or not, on or off."""
    thing = choose(rng, _EXTRAS) if rng.random() < 0.5 else choose(rng, NOUNS) + "s"
    value = rng.random() < 0.5
    yes = "[ with {t}| including {t}|, {t} included| and {t}|, {t}: yes|, {t} on]"
    no = "[ without {t}|, no {t}|, but no {t}| without any {t}|, {t}: no|, {t} off]"
    mention = expand(rng, yes if value else no, t=thing.replace("_", " "))
    names = f"{thing}|include_{thing}|with_{thing}|has_{thing}|{thing}_enabled"
    return mention, [
        argument(rng, names, f"[Whether there [is|are] {thing}|With {thing}|Include {thing}][.|]", BOOL, value)
    ]


_EXTRAS = "breakfast wifi parking insurance subtitles pictures comments headers sound milk sugar delivery notifications luggage receipts cheese animations details attachments subfolders hidden_files".split()
FLAGS = lines("""
recursive|recurse|include_subfolders ; [Recurse|Include subfolders][.|] ; [ recursively| and all its subfolders|, recursively]
urgent|is_urgent|asap ; [Whether it is urgent][.|] ; [, it's urgent| urgently|, urgent]
private|is_private|secret ; [Whether it is private][.|] ; [, make it private|, keep it private| privately]
force|overwrite|forced ; [Force it|Overwrite what is there][.|] ; [ by force|, overwrite what is there|, force it]
verbose|detailed|full ; [Tell more|More output][.|] ; [, verbosely|, in full detail| with all details]
dry_run|test_mode|simulate ; [Only try it][.|] ; [ as a dry run|, only as a test|, just simulate it]
express|fast|priority_shipping ; [Whether it goes by express][.|] ; [ by express|, express please|, as fast as you can]
round_trip|two_way|and_back ; [Whether it goes back, too][.|] ; [, there and back|, round trip| and back again]
gift|gift_wrap|is_present ; [Whether it is a gift][.|] ; [ as a gift|, it's a present|, gift-wrapped]
notify|send_notification|announce ; [Whether others are told][.|] ; [ and let everybody know|, tell the team| and notify all]
vegetarian|veggie|meatless ; [Whether it is without meat][.|] ; [, no meat| without meat|, vegetarian please]
window|window_seat|by_window ; [Whether it is at a window][.|] ; [ by the window| at the window|, window seat]
loop|on_repeat|endless ; [Whether it begins anew][.|] ; [ in a loop|, again and again| on repeat]
""")
# What is not so is said without the argument's word.
NOT = lines("""
public|shared|is_public|visible_to_all ; [Whether all may see it][.|] ; [, private|, only for me|, keep it private|, nobody else may see it|, not for the public|, just for myself]
overwrite|replace|clobber ; [Whether what is there is replaced][.|] ; [, keep the old one|, don't overwrite anything| without replacing what is there]
notify|send_mail|alert_users ; [Whether people are told][.|] ; [ quietly|, without telling anybody|, no notification| and don't tell anybody]
recursive|subfolders|include_subfolders ; [Whether subfolders count][.|] ; [, only this folder|, not the subfolders| without subfolders]
smoking|smoker|smoking_allowed ; [Whether one smokes][.|] ; [, non-smoking|, we don't smoke|, no smoking]
color|in_color|colored ; [Whether it is in colour][.|] ; [ in black and white|, no colour|, black and white only]
active|enabled|is_active ; [Whether it is active][.|] ; [, but leave it off|, disabled for now|, not active yet]
open|anyone_can_join|joinable ; [Whether anybody may join][.|] ; [, closed to others|, members only|, by invitation only]
editable|writable|can_edit ; [Whether it may be changed][.|] ; [ as read-only|, nobody may change it|, read-only please]
""")


_DEVICES = "lamp|fan|TV|radio|heating|dark mode|the alarm|bluetooth|wifi|airplane mode|coffee machine|notifications|autosave|the lights|sprinkler|oven|night mode|two-factor login|the heater|subtitles|location sharing|auto updates|kitchen light|garage door|spell check".split("|")  # fmt: skip


def toggled(rng: Random, split: Split) -> Several:
    """Ask for something to be on or off, as a whole sentence."""
    device = choose(rng, _DEVICES) if rng.random() < 0.7 else f"{choose(rng, NOUNS)} {choose(rng, ('mode', 'light', 'sync', 'filter', 'alarm'))}"  # fmt: skip
    device, value = device.removeprefix("the "), rng.random() < 0.5
    yes = "[[turn|switch] on [the |my |]{x}|[turn|switch] [the |my |]{x} on|[enable|activate] [the |]{x}|I want [the |my |]{x} on|{x} on[, please|]|set [the |]{x} to on]"
    no = "[[turn|switch] off [the |my |]{x}|[turn|switch] [the |my |]{x} off|[disable|deactivate] [the |]{x}|I want [the |my |]{x} off|{x} off[, please|]|set [the |]{x} to off|no more {x}]"
    on = rng.random() < 0.75
    state: Message = BOOL if on else {"type": "string", "enum": ["on", "off"]}
    return expand(rng, yes if value else no, x=device), [
        argument(rng, "device|name|setting|feature|item|target|option", "[The |][device|setting][.|]", TEXT, device),
        argument(rng, "on|enabled|state|active|value|power" if on else "state|power|mode|value", "[On or off|Whether it is on|The state][.|]", state, value if on else "on" if value else "off"),
    ]  # fmt: skip


_MEASURES = "radius width height length depth side base speed time mass rate principal years term angle distance price bill tip x y a b weight voltage current".split()


def dims(rng: Random, split: Split) -> Several:
    """Mention numbers by their names: "with radius 5.5", "width 3 and height 4"."""
    names = rng.sample(_MEASURES, rng.choice((1, 1, 2, 2, 3)))
    numbers = [values.decimal(rng, choose(rng, (9, 99, 999)), rng.choice((1, 2))) for _ in names]
    link = choose(rng, (" {v}", " {v}", " of {v}", " = {v}", "={v}", ": {v}"))
    said = values.join(rng, [name + link.replace("{v}", shown) for name, (shown, _) in zip(names, numbers, strict=True)]) if len(names) > 1 else names[0] + link.replace("{v}", numbers[0][0])  # fmt: skip
    mention = expand(rng, "[ with {s}| for {s}|, {s}| given {s}]", s=said)
    return mention, [
        Argument(name, f"[The |]{name}[.| of it|]", NUMBER, value)
        for name, (_, value) in zip(names, numbers, strict=True)
    ]


def flag(rng: Random, split: Split) -> Several:
    """Mention that something shall be so ("recursively", "it's urgent") or not ("only for me")."""
    value = rng.random() < 0.6
    names, about, said = choose(rng, FLAGS if value else NOT).split(" ; ")
    return expand(rng, said), [argument(rng, names, about, BOOL, value)]


def invented(rng: Random, split: Split) -> Several:
    """Mention an argument that no other tool has, by the words of its name."""
    name = choose(rng, (*NOUNS, *NOUNS, *ADJECTIVES)) if rng.random() < 0.85 else coin(rng)
    if rng.random() < 0.4:
        name = f"{name}_{choose(rng, (*NOUNS, 'id', 'name', 'type', 'level', 'code', 'size'))}"
    kind = rng.randrange(6)
    schema: Message = TEXT
    if kind < 2:
        schema, (shown, value) = INT, values.count(rng, choose(rng, (9, 99, 9999)))
    elif kind == 2:
        schema, (shown, value) = NUMBER, choose(rng, (values.decimal(rng, 99, 2), values.signed(rng, 50)))
    elif kind == 3:
        options = rng.sample(choose(rng, (NOUNS, ADJECTIVES)), rng.randint(2, 5))
        schema, (shown, value) = {"type": "string", "enum": options}, same(choose(rng, options))
    else:
        shown, value = choose(rng, (values.quoted(rng, values.title(rng)), values.code(rng), same(coin(rng)), same(choose(rng, NOUNS)), same(topic(rng))))  # fmt: skip
    mention = expand(
        rng,
        "[ with {w} {v}|, {w} {v}|, {w}: {v}| with a {w} of {v}| where the {w} is {v}| using {v} as {w}|, the {w} is {v}| and {w} {v}|, {w} = {v}| with {v} as the {w}]",
        w=name.replace("_", " "),
        v=shown,
    )
    return mention, [Argument(name, "[The |][{w}|{w} of it][.|]".replace("{w}", name.replace("_", " ")), schema, value)]


SEVERAL: dict[str, Callable[[Random, Split], Several]] = {"measure": measure, "route": route, "files": files, "people_pair": people, "dose": dose, "cash": cash, "basket": basket, "dice": dice, "body": body, "change": change, "coordinates": coordinates, "pixels": size, "bounds": bounds, "full_name": full_name, "address": address, "switch": switch, "flag": flag, "toggled": toggled, "dims": dims, "invented": invented}  # fmt: skip
# Of one line, a tool takes one only: their values can't be told from each other.
_FAMILIES = lines("""
path folder output files url host
id code text_id phone
person recipient people_pair full_name people_list handle
city to from route address coordinates
date due bounds moment
minutes seconds hours days years
quantity limit lines people nights stars pieces basket dice
price sum cash
percent discount
title text reason topic thing command task plural stem repo channel
goods tags numbers seats codes boxes
weight distance measure dose degrees body change
""")
FAMILY = {key: number for number, line in enumerate(_FAMILIES) for key in line.split()}

# What any tool may take; others only stand in sentences made for them.
KEYS = [*(key for key in SLOTS if key not in {"task", "plural", "activity", "pieces", "target", "stem"}), *(key for key in SEVERAL if key not in {"dose", "toggled", "cash", "basket", "dice", "body", "change"} for _ in range(2)), *["invented"] * 8]  # fmt: skip


def filled(rng: Random, split: Split, key: str) -> Several:
    """Draw values for a slot; return its mention and its arguments."""
    if key in SEVERAL:
        return SEVERAL[key](rng, split)
    slot = SLOTS[key]
    shown, one = valued(rng, split, slot)
    return expand(rng, slot.mentions, v=shown), [one]
