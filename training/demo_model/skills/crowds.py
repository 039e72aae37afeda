"""Lists of things that are made up: a band with its members, a quiz with its questions, five invented planets.

None of them is empty: a list has as many entries as the request says, and some where it says none.
"""

# ruff: noqa: E501 - lists read best unbroken

import json
import re
from collections.abc import Callable
from random import Random
from typing import Any

from demo_model.skills import things, values
from demo_model.template import Message
from demo_model.text import ADJECTIVES, CITIES, NAMES, NOUNS, Split, choose, coin, expand, lines, pick

# wholes ; keys of the list ; one and several of what it has ; fields of an entry, or - for texts ; fields of the whole
CROWDS = lines("""
band|rock band|choir|jazz trio|orchestra ; members|musicians|players|line_up|band_members ; member|members ; name=@person,instrument|plays|role=guitar/drums/piano/bass/violin/vocals ; name|band_name|title=@title,genre|style=rock/jazz/folk/pop,founded|year=1960-2024
team|football team|rescue team|project team|space crew|pirate crew ; members|players|crew|people|team_members|squad ; member|members ; name|member=@person,role|position|job=captain/pilot/cook/doctor/keeper/engineer,age|years=18-60,number=1-99 ; name|team|team_name=@title,city|home=@city
family|household|royal family ; members|people|relatives|children ; member|members ; name|first_name=@first,age|years=2-90,relation|role=mother/father/son/daughter/aunt ; name|surname|family_name=@surname,city|lives_in=@city
quiz|test|exam|trivia game ; questions|items|quiz_questions|tasks ; question|questions ; question|text|prompt=What is two plus two?/What colour is snow?/How many legs has a dog?/What do bees make?/Which animal says moo?,answer|solution|correct=4/white/four/honey/the cow ; title|topic|subject=@title,level|difficulty=easy/medium/hard
recipe|soup recipe|cake recipe ; ingredients|items|what_you_need|list_of_ingredients ; ingredient|ingredients ; name|item|ingredient=flour/sugar/butter/eggs/milk/salt/rice/tomatoes,amount|grams|quantity=1-500 ; name|title|dish=@title,minutes|time_minutes=10-90
menu|dinner menu|lunch menu ; dishes|courses|items|meals ; dish|dishes ; name|dish|title=tomato soup/apple pie/fried rice/garden salad/fish stew/pancakes,price|cost=3.5-30.0 ; restaurant|name=@title
playlist|album|mix tape ; songs|tracks|list|track_list ; song|songs ; title|song|name=@title,artist|singer|by=@person,seconds|length=90-400 ; name|title|playlist=@title,mood=calm/happy/wild
story|novel|fairy tale|film ; characters|heroes|cast|figures ; character|characters ; name|character=@first,trait|quality=brave/lazy/clever/shy/proud,animal|kind=fox/girl/wizard/robot/king ; title|name=@title
travel plan|trip|road trip|tour ; stops|cities|stations|places ; stop|stops ; city|place|name=@city,days|nights=1-7 ; title|name|trip=@title,traveller|guide=@person
workout|training plan|gym session ; exercises|steps|sets|moves ; exercise|exercises ; name|exercise|move=squats/push-ups/lunges/planks/rows,reps|times|count=5-30 ; name|title=@title,minutes=10-90
shop|shopping cart|order|invoice ; products|items|articles|positions|line_items ; product|products ; name|product|item=lamp/chair/desk/mug/pen/book,price|unit_price=1.0-90.0,quantity|count=1-12 ; customer|buyer=@person,currency=EUR/USD/GBP
zoo|farm|aquarium|pet shop ; animals|creatures|residents|pets ; animal|animals ; name|called=@first,species|kind|animal=lion/goat/penguin/turtle/owl/rabbit,age=1-30 ; name|farm|zoo_name=@title,city=@city
house|flat|hotel|castle ; rooms|areas|room_list ; room|rooms ; name|room|kind=kitchen/bedroom/bathroom/hall/attic/library,size|square_metres=6-60 ; address|street=@street,price=200-4000
party|wedding|conference|dinner party ; guests|attendees|visitors|people|participants ; guest|guests ; name|guest|full_name=@person,table|seat=1-12,vegetarian|coming=? ; title|event|name=@title,date=@date
solar system|galaxy|made-up star ; planets|worlds|planet_list ; planet|planets ; name|planet=@coined,moons|rings=0-12,color|colour=red/blue/green/grey ; name|star=@coined
dungeon|video game|board game ; monsters|enemies|foes|creatures ; monster|monsters ; name|monster=@coined,health|hp|strength=5-200,weakness|fears=fire/light/water/music ; title|game|name=@title
class|school class|course|seminar ; students|pupils|learners|class_list ; student|students ; name|student=@person,grade|mark=1-6,age=6-19 ; teacher|taught_by=@person,subject|course=maths/music/history/art
company|start-up|small firm ; employees|staff|people|workers ; employee|employees ; name|employee=@person,job|position|title=designer/driver/manager/cook/engineer,salary=1200-9000 ; name|company=@title,city=@city
to-do list|plan|project|sprint ; tasks|todos|steps|items ; task|tasks ; title|task|text=write the report/call the bank/paint the fence/test the app/buy stamps,done|finished=?,priority=low/medium/high ; name|project=@title,owner=@person
poem|haiku|song ; lines|verses|text_lines ; line|lines ; - ; title|name=@title,author|by=@person
name ideas|pet names|team names|hero names ; names|ideas|suggestions|options ; name|names ; - ; -
lottery ticket|lucky draw|dice game ; numbers|figures|draws|digits ; number|numbers ; # ; date|drawn_on=@date,owner=@person
thermometer|weather station|sensor|kitchen scale ; values|readings|numbers|data ; value|values ; # ; unit=degrees/percent/grams,name=@coined
""")
_TEXTS = {"lines": "[the {n} is {a} and {b}|a {a} {n} on the {m}|{n} and {m} by night|under the {a} {n}|my {n} sings to the {m}]", "names": "[{C}|{N}|{C} {N}|{A} {N}|{W}]"}  # fmt: skip
ASKS = lines("""
[Invent|Make up|Create|Imagine|Generate|Give me|Describe|Think of|Come up with|I need|Write|Show me] {a} {w} [with|that has|and list] {k}[.||!|, please]
[Invent|Make up|Create|Generate|Imagine] {a} {w}[, including all its {m}| and all of its {m}| with some {m}|][.||, please]
{a} [made-up |fictional |]{w} with {k}[.||, please]
[Can you|Could you|Please] [invent|make up|create|generate] {a} {w} with {k}[.|?|]
[List|Name|Give me|I want|Make up|Invent] {k} [of|for|from] {a} [made-up |fictional |]{w}[.||, please]
{k} for {a} {w}, [invented|made up|any will do|random|fictional][.||]
[I'm writing about|We are planning|I dream of] {a} {w}. [Give me|List|Invent] {k}[.||]
~[Conjure up|Kindly devise] {a} {w} with {k}.
""")


def _value(rng: Random, split: Split, pattern: str) -> Any:
    """Draw a value of a field."""
    if pattern == "?":
        return rng.random() < 0.5
    if pattern.startswith("@"):
        return _MAKERS[pattern](rng, split)
    if bounds := re.fullmatch(r"([\d.]+)-([\d.]+)", pattern):
        low, high = bounds.groups()
        return round(rng.uniform(float(low), float(high)), 2) if "." in low else rng.randint(int(low), int(high))
    return choose(rng, pattern.split("/"))


def _person(rng: Random, split: Split) -> str:
    first = pick(rng, NAMES, split)
    return first if rng.random() < 0.4 else f"{first} {choose(rng, things.SURNAMES).replace('_', ' ')}"


_MAKERS: dict[str, Callable[[Random, Split], Any]] = {
    "@person": _person,
    "@first": lambda rng, split: pick(rng, NAMES, split),
    "@surname": lambda rng, split: choose(rng, things.SURNAMES).replace("_", " "),
    "@city": lambda rng, split: pick(rng, CITIES, split),
    "@title": lambda rng, split: things.title(rng),
    "@coined": lambda rng, split: coin(rng, 2).capitalize(),
    "@street": lambda rng, split: f"{rng.randint(1, 120)} {choose(rng, ('Main', 'Oak', 'Park', 'Lake'))} Street",
    "@date": lambda rng, split: f"{rng.randint(2024, 2030)}-{rng.randint(1, 12):02}-{rng.randint(1, 28):02}",
}


def _fields(rng: Random, text: str, most: int) -> list[tuple[str, str]]:
    """Draw some fields of a line: a key and the pattern of its values; the first field is always there."""
    made = []
    for one in text.split(","):
        keys, _, pattern = one.partition("=")
        made.append((choose(rng, keys.split("|")), pattern))
    first, rest = made[0], made[1:]
    return [first, *rng.sample(rest, min(len(rest), rng.randint(0, most)))]


def _distinct(count: int, draw: Callable[[], Any]) -> list[Any]:
    """Draw values that differ as long as there are others."""
    found: list[Any] = []
    for _ in range(count * 4):
        one = draw()
        if one not in found:
            found.append(one)
        if len(found) == count:
            return found
    return [*found, *(draw() for _ in range(count - len(found)))]


def _entries(rng: Random, split: Split, keys: str, fields: str, count: int) -> list[Any]:
    """Draw the entries of a list: numbers, texts, or objects of one shape."""
    if fields == "#":
        return _distinct(count, lambda: rng.randint(1, 99))
    if fields == "-":
        pattern = _TEXTS["lines" if "lines" in keys else "names"]
        return _distinct(count, lambda: expand(rng, pattern, n=choose(rng, NOUNS), m=choose(rng, NOUNS), a=choose(rng, ADJECTIVES), b=choose(rng, ADJECTIVES), A=choose(rng, ADJECTIVES).capitalize(), N=choose(rng, NOUNS).capitalize(), C=coin(rng, 2).capitalize(), W=pick(rng, NAMES, split)))  # fmt: skip
    pattern = fields.split(",", maxsplit=1)[0].partition("=")[2]
    firsts = _distinct(count, lambda: _value(rng, split, pattern))
    if rng.random() < 0.25:
        return firsts
    (key, _), *rest = _fields(rng, fields, 2)
    found = [{key: first, **{name: _value(rng, split, other) for name, other in rest}} for first in firsts]
    if "?/" in fields and rest:
        answers = dict(zip(pattern.split("/"), rest[0][1].split("/"), strict=True))
        for one in found:
            one[rest[0][0]] = answers[one[key]]
    return found


def crowd(rng: Random, split: Split) -> tuple[str, Message]:
    """Make a request for a list of invented things, and the answer with all of them."""
    wholes, keys, nouns, fields, others = choose(rng, CROWDS).split(" ; ")
    whole = choose(rng, wholes.split("|"))
    one, several = nouns.split("|")
    key = choose(rng, keys.split("|"))
    said = rng.random() < 0.6
    count = choose(rng, (1, 2, 2, 3, 3, 3, 4, 5) if said else (2, 2, 3, 3, 4))
    found: Message = {}
    if others != "-" and rng.random() < 0.75:
        found = {name: _value(rng, split, pattern) for name, pattern in _fields(rng, others, 1)}
    entries = _entries(rng, split, keys, fields, count)
    found = {**found, key: entries} if rng.random() < 0.8 else {key: entries, **found}
    if len(json.dumps(found, ensure_ascii=False)) > 330:
        return crowd(rng, split)
    shown = values.spoken(count) if rng.random() < 0.5 else str(count)
    counted = f"{shown} {one if count == 1 else several}" if said else choose(rng, (f"some {several}", f"a list of {several}", f"a few {several}"))  # fmt: skip
    article = "" if whole.endswith("s") and not whole.endswith("ss") else choose(rng, ("a", "a", "a", "a small", "a funny"))  # fmt: skip
    patterns = [ask for ask in ASKS if ask.startswith("~") == (split == "held")]
    pattern = choose(rng, patterns).replace("{k}", counted)
    ask = expand(rng, pattern, a=article, w=whole, m=several).replace("~", "")
    ask = re.sub(" +", " ", re.sub(r"\b([Aa]) (?=[aeiou])", r"\1n ", ask)).strip()
    return ask[0].upper() + ask[1:] if rng.random() < 0.6 else ask, found
