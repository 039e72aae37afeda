"""What people tell about things: their colour, price, time, place; several with the same quality told side by side."""

# ruff: noqa: E501, PLR0911, PLR0912, SIM905 - phrases read best unbroken

from random import Random

from demo_model.skills import things, values
from demo_model.skills.attributes import KIN, LIKES, OPTIONS
from demo_model.skills.memory import some_name
from demo_model.skills.recall import SHORT, Known
from demo_model.skills.scenes import DRINKS, FAMILY, FOODS, PLACES, alike, person, when, within, yours
from demo_model.text import ADJECTIVES, CITIES, NOUNS, Split, choose, coin, expand, lines, pick, scramble

# What things are like: name ; how it is told ; how it is asked ; the answer ({o} the thing, {O} as the answer says it).
QUALITIES = lines("""
colour ; {o} is {v}|{o} is painted {v}|{o} is all {v}|{o} has the colour {v} ; what colour is {o}|what color is {o}|which colour is {o}|which colour does {o} have|in what colour is {o}|how is {o} painted
price ; {o} costs {v}|{o} is {v}|{o} cost me {v}|I paid {v} for {o}|the price of {o} is {v}|{o} was {v} ; how much is {o}|what does {o} cost|how much does {o} cost|what is the price of {o}|what did I pay for {o}|how expensive is {o}|how much was {o}
time ; {o} is {v}|{o} starts {v}|{o} begins {v}|{o} will be {v}|{o} is now {v}|{o} takes place {v}|I have {o} {v} ; when is {o}|when does {o} start|what time is {o}|when do I have {o}|when will {o} be|for when is {o} planned|when does {o} begin|when does {o} take place
place ; {o} is {v}|{o} stands {v}|you find {o} {v}|I saw {o} {v}|{o} was left {v}|I put {o} {v}|I keep {o} {v} ; where is {o}|where can I find {o}|where did I leave {o}|in which place is {o}|where was {o}|where did I put {o}|where do I keep {o}
room ; {o} is in {v}|{o} takes place in {v}|{o} was moved to {v}|{o} has been moved to {v}|they put {o} in {v} ; where is {o}|which room is {o} in|in which room is {o}|what room is {o} in|where was {o} moved|where does {o} take place
code ; the code for {o} is {v}|the code of {o} is {v}|{o} opens with {v}|{o} has the code {v}|to open {o} you need {v}|the password for {o} is {v} ; what is the code for {o}|what's the code of {o}|which code opens {o}|with what does {o} open|what code does {o} have|how do I open {o}|what is the password for {o}
owner ; {o} belongs to {v}|{v} owns {o}|{o} is from {v}|{v} gave me {o}|I got {o} from {v}|{v} has {o} ; who owns {o}|whose is {o}|to whom does {o} belong|who gave me {o}|from whom is {o}|who has {o}|who did I get {o} from
name ; {o} is called {v}|the name of {o} is {v}|{o} has the name {v}|{o} goes by {v}|they named {o} {v} ; what is {o} called|what's the name of {o}|which name does {o} have|how is {o} called|what did they name {o}|what is the name of {o}
size ; {o} is {v} long|{o} is {v} tall|{o} measures {v}|the size of {o} is {v}|{o} is {v} wide ; how big is {o}|what size is {o}|how long is {o}|what is the size of {o}|how tall is {o}|how much does {o} measure
weight ; {o} weighs {v}|{o} is {v} heavy|the weight of {o} is {v} ; how heavy is {o}|how much does {o} weigh|what is the weight of {o}|what does {o} weigh
age ; {o} is {v} years old|{o} turned {v}|{o} is {v} now|{o} is already {v} years old ; how old is {o}|what is the age of {o}|what age is {o}|how many years old is {o}
number ; {o} has the number {v}|the number of {o} is {v}|the number for {o} is {v}|{o} is number {v} ; what is the number of {o}|which number has {o}|what number is {o}|what's the number for {o}|which number does {o} have
made ; {v} made {o}|{v} wrote {o}|{o} was made by {v}|{v} painted {o}|{o} is by {v} ; who made {o}|who is {o} by|by whom is {o}|who is the maker of {o}
taste ; {o} tastes of {v}|{o} is full of {v}|{o} is made of {v}|I put {v} into {o}|{o} contains {v} ; what is in {o}|what is {o} made of|what does {o} taste of|what does {o} contain|of what is {o} full
count ; there are {v} in {o}|{o} has {v} in it|{o} holds {v}|I counted {v} in {o} ; how many are in {o}|what does {o} hold|how many did I count in {o}|what is in {o}
job ; {o} works as {v}|{o} is {v}|{o} became {v} ; what does {o} do|what is the job of {o}|what does {o} work as|what did {o} become
likes ; {o} likes {v}|{o} loves {v}|{o} will have {v}|{o} wants {v}|{o} prefers {v} ; what does {o} like|what does {o} want|what will {o} have|what does {o} love|what does {o} prefer
home ; {o} lives in {v}|{o} is from {v}|{o} moved to {v}|{o} comes from {v} ; where does {o} live|where is {o} from|which city does {o} live in|in which town is the home of {o}|where did {o} move
""")
# Asked the other way round: what it is that is like that.
TURNED = {
    "colour": ("what is {v}", "which thing is {v}"), "price": ("what costs {v}", "which thing is {v}"), "time": ("what is {v}", "what do I have {v}"),
    "place": ("what is {v}", "which thing is {v}"), "code": ("what is {v} the code for", "what opens with {v}"), "owner": ("what belongs to {v}", "what does {v} own"),
    "name": ("who is called {v}", "who is {v}"), "age": ("who is {v} years old", "who is {v}"), "weight": ("what weighs {v}", "what is {v} heavy"),
    "job": ("who is {v}", "who works as {v}", "who is the {w}"), "likes": ("who likes {v}", "who wants {v}"), "home": ("who lives in {v}", "who is from {v}"),
}  # fmt: skip
_LIVING = {"age", "name", "job", "likes", "home"}
_COLOURS = (
    "red blue green black white silver grey yellow teal purple orange pink brown beige turquoise violet gold".split()
)


def _measure(rng: Random, name: str) -> str:
    """Draw a number, with its unit where it has one."""
    if name == "size":
        return f"{rng.randint(2, 300)} {choose(rng, ('cm', 'm', 'metres', 'inches', 'feet'))}"
    if name == "weight":
        return f"{rng.randint(2, 300)} {choose(rng, ('kg', 'kilos', 'grams', 'pounds', 'tons'))}"
    return str(rng.randint(2, 99 if name == "age" else 9999))


def _value(rng: Random, split: Split, name: str) -> str:
    """Draw what a thing is like."""
    match name:
        case "colour":
            return choose(rng, _COLOURS) if rng.random() < 0.8 else f"{choose(rng, ('dark', 'light', 'bright', 'pale'))} {choose(rng, _COLOURS)}"  # fmt: skip
        case "price":
            return (
                values.money(rng, split)[0]
                if rng.random() < 0.5
                else f"{rng.randint(1, 999)} {choose(rng, ('euros', 'dollars', 'pounds'))}"
            )
        case "time":
            return when(rng)
        case "place":
            return f"{choose(rng, ('in', 'under', 'behind', 'on', 'next to', 'near'))} the {choose(rng, (choose(rng, things.SPOTS), choose(rng, NOUNS), choose(rng, PLACES)))}"
        case "room":
            return expand(
                rng,
                "[room {a}{k}|room {k}|hall {k}|the {n} room|building {a}|room {a}{k}|studio {k}|lab {k}]",
                a=choose(rng, "ABCDEF"),
                k=rng.randint(1, 499),
                n=choose(rng, NOUNS),
            )
        case "code":
            return choose(rng, (str(rng.randint(100, 999999)), "-".join(str(rng.randint(1, 99)) for _ in range(3)), f"{choose(rng, NOUNS)}{rng.randint(1, 999)}", scramble(rng), coin(rng), f"{coin(rng).capitalize()}{rng.randint(1, 99)}"))  # fmt: skip
        case "owner" | "made":
            return some_name(rng, split)
        case "name":
            return choose(rng, (things.pet_name(rng), some_name(rng, split), coin(rng, 2).capitalize()))
        case "size" | "weight" | "age" | "number":
            return _measure(rng, name)
        case "taste":
            return choose(
                rng, (choose(rng, NOUNS), f"{choose(rng, ADJECTIVES)} {choose(rng, NOUNS)}", choose(rng, FOODS))
            )
        case "count":
            return f"{rng.randint(2, 99)} {things.goods(rng, plural=True)}"
        case "job":
            job = choose(rng, things.JOBS)
            return f"{'an' if job[0] in 'aeiou' else 'a'} {job}"
        case "likes":
            return choose(
                rng, (choose(rng, LIKES), choose(rng, FOODS), choose(rng, DRINKS), f"the {choose(rng, NOUNS)}")
            )
        case _:
            return pick(rng, CITIES, split) if rng.random() < 0.7 else coin(rng, 2).capitalize()


# Said without "the" or "my".
BARE = "lunch|dinner|breakfast|school|work|training|choir practice|yoga|football|church|check-in|check-out|boarding|brunch|bedtime|supper|karate|swimming|band practice|tea time".split("|")  # fmt: skip


def _owned(rng: Random, split: Split, name: str) -> str:
    """Draw what has a quality: something of the user's or of somebody's, or somebody."""
    if name in _LIVING and name != "name" and rng.random() < 0.9:
        return person(rng, split).replace("my ", choose(rng, ("my ", "my ", "our ")))
    if name == "time" and rng.random() < 0.2:
        return choose(rng, BARE)
    noun = choose(rng, (choose(rng, things.PETS), choose(rng, KIN)) if name in _LIVING else (things.goods(rng), things.goods(rng), choose(rng, NOUNS)))  # fmt: skip
    if name in ("time", "room") and rng.random() < 0.5:
        noun = choose(rng, OPTIONS["event"]) if rng.random() < 0.7 else f"{choose(rng, OPTIONS['visit'])} appointment"
    if name not in _LIVING and rng.random() < 0.15:
        noun = f"{choose(rng, ADJECTIVES)} {noun}"
    return f"{choose(rng, ('my', 'my', 'my', 'the', 'the', 'our', f'my {choose(rng, KIN[:-4])}{chr(39)}s', f'{some_name(rng, split)}{chr(39)}s'))} {noun}"


def known(rng: Random, split: Split) -> list[Known]:
    """Make one to four things with the same quality, or of different ones, told with whole sentences or short."""
    same = pick(rng, QUALITIES, split)
    same_kind = rng.random() < 0.7
    found: list[Known] = []
    clause = ""
    for _ in range(choose(rng, (1, 2, 2, 2, 3, 4))):
        line = same if same_kind else pick(rng, QUALITIES, split)
        name, clauses, _ = line.split(" ; ")
        owner, value = _owned(rng, split, name), _value(rng, split, name)
        if alike(owner, value) or any(
            alike(owner, one.other) or within(owner, one.value) or within(value, one.clause) or within(one.value, value)
            for one in found
        ):
            continue
        clause = clause if clause and same_kind and rng.random() < 0.7 else choose(rng, clauses.split("|"))
        short = (
            bool(found) and same_kind and clause.startswith("{o} ") and clause.endswith("{v}") and rng.random() < 0.35
        )
        found.append(
            _quality(
                line,
                SHORT if short and name in _SHORT else clause,
                (owner, called(rng, owner)),
                value,
                turned=same_kind and rng.random() < 0.15,
            )
        )
    if not found:
        return known(rng, split)  # none could be told apart from what it is like
    if len(found) > 1 and rng.random() < 0.3:
        return [*found[1:], found[0]] if not any(one.word == SHORT for one in found) else found
    return found


# Of these one may say "lunch is at noon and dinner at eight".
_SHORT = {"colour", "time", "place", "price"}


def called(rng: Random, owner: str) -> str:
    """Say "my sister" or "Emma" for "my sister Emma"."""
    words = owner.split(" ")
    at = next((i for i, word in enumerate(words) if i > 1 and word[0].isupper()), 0)
    if words[0] not in ("my", "our") or "'s" in owner or not at:
        return owner
    return " ".join(words[:at] if rng.random() < 0.6 else words[at:])


def _quality(line: str, clause: str, owner: tuple[str, str], value: str, turned: bool = False) -> Known:
    """Make what is told of an owner and asked for by what the owner is called then."""
    name = line.split(" ; ", 1)[0]
    whole, called = owner
    asks = tuple(ask.replace("{o}", called) for ask in line.split(" ; ")[2].split("|"))
    full = clause if clause != SHORT else line.split(" ; ")[1].split("|", maxsplit=1)[0]
    said = full.replace("{o}", yours(whole if turned else called)).replace("{v}", value)
    said = said.replace("I ", "you ").replace(" me ", " you ")
    keep = said.startswith(value) or (
        said.startswith(called) and not called.startswith("the ") and called not in (*BARE, *FAMILY)
    )
    answer = f"{said if keep else said[0].upper() + said[1:]}."
    asked = value
    if turned and name in TURNED:
        asks, asked = tuple(ask.format(v=value, w=value.split(" ", 1)[-1]) for ask in TURNED[name]), whole
    told = clause.replace("{o}", whole).replace("{v}", value)
    return Known(called, told, asks, answer, asked, (), "" if turned else line, clause, whole)


def again(rng: Random, split: Split, one: Known) -> Known | None:
    """Draw another value of what a thing is like, to correct it; None for deeds."""
    if not one.line:
        return None
    return _quality(one.line, one.word, (one.other, one.key), _value(rng, split, one.line.split(" ; ", 1)[0]))
