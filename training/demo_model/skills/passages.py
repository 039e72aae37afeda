"""Short texts that tell two or three facts of one thing, and a question on any of them in the same message.

"The reading room is on the second floor and has forty seats. How many seats does the reading room have?" The answer is
the one fact that was asked for, in a short sentence; and if the text has no such fact, that it was not told.
"""

# ruff: noqa: E501 - phrases read best unbroken

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from random import Random

from demo_model.exchange import Exchange, assistant, user
from demo_model.skills import recall, scenes, things, values
from demo_model.skills.profiles import KINDS
from demo_model.skills.scenes import within, yours
from demo_model.skills.talks import capital
from demo_model.template import Message
from demo_model.text import ADJECTIVES, CITIES, NAMES, NOUNS, Split, choose, coin, expand, lines, pick, sentence

# What may be told: key ; kinds of subject ; kind of value ; how it is told ; questions, those with ~ for evaluation.
# Of the lines of one key only one is told. {s} is the subject; {v} the value; {u} what is counted, {n} how many.
FACTS = lines("""
count ; place vehicle thing animal group person blank ; count ; has {v} ; how many {u} does {s} have|how many {u} has {s} got|what number of {u} does {s} have|~of {u}, how many are there at {s}
count2 ; place vehicle thing person blank ; count ; has {v} ; how many {u} does {s} have|how many {u} has {s}|~of {u}, how many has {s}
count3 ; place thing vehicle ; count ; holds {v}|contains {v} ; how many {u} does {s} hold|how many {u} are in {s}|~of {u}, how many are in {s}
room ; place vehicle ; people ; has room for {v} people|is made for {v} people|takes {v} people ; for how many people does {s} have room|how many people fit in {s}|~what number of people may be in {s}
where ; place ; floor ; is on the {v} floor ; which floor is {s} on|on which floor is {s}|what floor is {s} on|where is {s}|~at what height is {s}
where ; place event ; street ; is at {v} ; where is {s}|what is the address of {s}|what address does {s} have|~to what address do I go for {s}
where ; place ; road ; is on {v} ; where is {s}|which street is {s} on|on which street is {s}|what street is {s} on|~along what street is {s}
where ; place thing animal ; beside ; is {v} ; where is {s}|where can I find {s}|where's {s}|~in what spot is {s}
where ; event person group ; city ; is in {v} ; where is {s}|in which city is {s}|which city is {s} in|~in what place is {s}
where ; thing ; spot ; stands {v}|lies {v}|is kept {v} ; where does {s} stand|where is {s}|where's {s}|~in what spot does {s} stay
sell ; place group person ; goods ; sells {v} ; what does {s} sell|what is sold by {s}|what can I buy from {s}|~which goods does {s} offer
make ; place group person blank ; goods ; makes {v} ; what does {s} make|what is made by {s}|what things does {s} make|~which goods come from {s}
carry ; vehicle person animal ; goods ; carries {v}|transports {v} ; what does {s} carry|what does {s} transport|~with what is {s} loaded
repair ; place person ; goods ; repairs {v} ; what does {s} repair|which things does {s} repair|~what does one bring to {s}
show ; place event ; goods ; shows {v} ; what does {s} show|what is shown by {s}|~what can one see at {s}
open ; place ; hour ; opens at {v} ; when does {s} open|what time does {s} open|at what time does {s} open|~from what hour can I visit {s}
close ; place ; hour ; closes at {v} ; when does {s} close|what time does {s} close|at what time does {s} close|~until what hour can I visit {s}
closed ; place ; weekday ; is closed on {v} ; when is {s} closed|on which day is {s} closed|which day is {s} closed|~on what day do I not go to {s}
colour ; vehicle thing animal place blank ; shade ; is {v} ; what colour is {s}|what color is {s}|which colour does {s} have|what colour does {s} have|~how is {s} painted
door ; place vehicle thing ; shade ; has a {v} door ; what colour is the door of {s}|which colour is {s}'s door|what kind of door does {s} have|~how is the door of {s} painted
stuff ; thing vehicle blank ; stuff ; is made of {v} ; what is {s} made of|which material is {s} made of|of what is {s} made|~from what was {s} built
built ; place vehicle ; year ; was built in {v} ; when was {s} built|in which year was {s} built|what year was {s} built|~how long has {s} stood, since which year
owner ; place vehicle thing animal blank ; name ; belongs to {v} ; who does {s} belong to|who owns {s}|to whom does {s} belong|whose is {s}|~who has {s}
run ; place group event ; name ; is run by {v}|is led by {v} ; who runs {s}|who leads {s}|by whom is {s} run|who is in charge of {s}|~whose job is {s}
drive ; vehicle ; name ; is driven by {v} ; who drives {s}|who is the driver of {s}|by whom is {s} driven|~who is at the wheel of {s}
price ; thing vehicle event blank ; money ; costs {v} ; how much does {s} cost|what does {s} cost|how much is {s}|what is the price of {s}|~what must I pay for {s}
weight ; thing animal blank ; kilos ; weighs {v} ; how much does {s} weigh|how heavy is {s}|what does {s} weigh|~what do the scales say for {s}
long ; thing vehicle place ; size ; is {v} long ; how long is {s}|what is the length of {s}|~what length has {s}
age ; person animal thing ; years ; is {v} years old ; how old is {s}|what age is {s}|what is the age of {s}|~how many years has {s} lived
goes ; vehicle ; city ; goes to {v} ; where does {s} go|to which city does {s} go|what is the destination of {s}|~at what place does {s} end
leave ; vehicle ; hour ; leaves at {v} ; when does {s} leave|what time does {s} leave|at what time does {s} leave|~for what hour is {s} planned
arrive ; vehicle person ; hour ; arrives at {v} ; when does {s} arrive|what time does {s} arrive|at what time does {s} arrive|~from what hour on is {s} here
gate ; vehicle ; gate ; leaves from {v} ; where does {s} leave from|from where does {s} leave|~at what sign does {s} wait
stop ; vehicle ; city ; stops in {v} ; where does {s} stop|in which city does {s} stop|~at what place does {s} wait
day ; event ; weekday ; is on {v}|takes place on {v} ; when is {s}|on which day is {s}|what day is {s}|~for what day is {s} planned
hour ; event ; hour ; starts at {v}|begins at {v} ; what time does {s} start|at what time does {s} start|when does {s} start|~how early do I go to {s}
end ; event ; hour ; ends at {v} ; what time does {s} end|at what time does {s} end|when does {s} end|~how late is {s} over
last ; event ; long ; lasts {v}|takes {v} ; how long does {s} last|how long does {s} take|~what time do I plan for {s}
about ; event thing ; topic ; is about {v} ; what is {s} about|what is the topic of {s}|~with what does {s} deal
guests ; event ; people ; has {v} guests|is planned for {v} guests ; how many guests does {s} have|how many guests will be at {s}|~what is the number of guests at {s}
lives ; person animal ; city ; lives in {v} ; where does {s} live|which city does {s} live in|in which city does {s} live|~in what place is the home of {s}
from ; person thing group ; city ; comes from {v} ; where does {s} come from|which city does {s} come from|~from what place is {s}
job ; person ; a job ; works as {v}|is {v} ; what does {s} do for a living|what is the job of {s}|what does {s} work as|~how does {s} earn money
firm ; person ; firm ; works for {v} ; who does {s} work for|which company does {s} work for|~who pays {s}
play ; person group ; music ; plays the {v} ; what does {s} play|which instrument does {s} play|what instrument does {s} play|~on what does {s} make music
collect ; person ; goods ; collects {v} ; what does {s} collect|which things does {s} collect|~what are the shelves of {s} full of
bought ; person ; goods ; bought {v} ; what did {s} buy|what has {s} bought|which things did {s} buy|~for what did {s} pay
bring ; person ; one ; brings {v}|will bring {v} ; what does {s} bring|what will {s} bring|~what comes along with {s}
lost ; person ; one ; lost {v} ; what did {s} lose|what has {s} lost|~what is {s} looking for
speak ; person ; tongue ; speaks {v} ; which language does {s} speak|what language does {s} speak|what does {s} speak|~in what language do I talk to {s}
wear ; person ; coat ; wears {v} ; what does {s} wear|what is {s} wearing|~in what does {s} come
eat ; person animal ; treat ; eats {v}|likes {v} ; what does {s} eat|what does {s} like|~what do I feed to {s}
fear ; animal person ; fear ; is afraid of {v} ; what is {s} afraid of|what does {s} fear|~what frightens {s}
name ; animal group place vehicle ; coined ; is called {v} ; what is {s} called|what is the name of {s}|what's the name of {s}|~which name has {s}
number ; vehicle place thing ; number ; has the number {v} ; what is the number of {s}|which number does {s} have|what number does {s} have|~by what number is {s} known
meet ; group ; weekday ; meets on {v} ; when does {s} meet|on which day does {s} meet|what day does {s} meet|~which day belongs to {s}
since ; group place ; year ; was founded in {v} ; when was {s} founded|in which year was {s} founded|what year was {s} founded|~since what year does {s} exist
won ; group person ; times ; won {v} times ; how many times did {s} win|how often did {s} win|~what number of times did {s} win
smell ; place thing blank ; smell ; smells of {v} ; what does {s} smell of|which smell does {s} have|~what does the nose say about {s}
eyes ; animal person ; shade ; has {v} eyes ; what colour are the eyes of {s}|which eye colour does {s} have|what eyes does {s} have|~how do the eyes of {s} look
""")
SUBJECTS: dict[str, str] = {
    "place": "the [reading room|shop|garden|museum|library|café|bakery|school|hotel|park|station|farm|castle|office|gym|kitchen|bookshop|market|theatre|cinema|pool|zoo|tower|hall|barn|harbour|restaurant|pharmacy|workshop|cellar|playground|meeting room|waiting room|hospital|church|factory|bank|post office|{n} shop|{a} {n} shop|{n} hall|old {n} house|hotel {C}|café {C}|new {n} museum|{C} building|villa {C}]",
    "vehicle": "the [train|bus|boat|car|van|tram|ferry|plane|bike|truck|ship|taxi|night train|school bus|tractor|lorry|{a} boat|{C} express|sailing boat|cable car|fire engine|{a} car|rocket|{n} train|coach]",
    "thing": "the [box|lamp|table|coat|bag|clock|book|guitar|chair|jacket|tent|carpet|cupboard|desk|mirror|basket|suitcase|drum|statue|bench|bell|bottle|blanket|sofa|wardrobe|painting|ladder|{n}|{n}|{a} {n}|{n} box|{n} bag|{c}|big {n}|small {n}|old {n}|blue {n}]",
    "person": "[{W}|{W}|{W}|{W} {S}|the [baker|teacher|nurse|farmer|painter|doctor|cook|driver|pilot|gardener|sailor|singer|neighbour|plumber|librarian|judge|captain|mayor|manager]|Mr {S}|Mrs {S}|Dr {S}|my [aunt|uncle|sister|brother|boss|neighbour|mother|father|teacher|cousin|friend {W}]]",
    "animal": "[the|our|the neighbours'] [dog|cat|horse|rabbit|parrot|goat|turtle|pony|cow|donkey|hamster|duck|fox|owl|old dog|black cat|white horse|sheep|{a} cat]",
    "event": "the [concert|meeting|party|fair|lecture|play|match|workshop|dinner|wedding|festival|course|exam|exhibition|tour|show|market|film|race|{n} fair|{n} show|{n} course|{C} festival|school play|book club]",
    "group": "the [team|club|band|choir|class|company|orchestra|crew|family|firm|chess club|book club|{n} club|{C} band|football team|{n} company|rowing club|{C} group]",
    "blank": "the [{c}|{c}|{c}|{C}|{n} {c}|{c} {n}|{a} {c}]",
}  # fmt: skip
_FLOORS = [
    "first",
    "second",
    "third",
    "fourth",
    "fifth",
    "ground",
    "top",
    "sixth",
    "tenth",
    "lower",
    "upper",
    "twelfth",
]
_ROADS = ["Mill Street", "Main Street", "Oak Road", "Park Avenue", "Lake Road", "Station Road", "Church Street", "King Street", "Hill Lane", "Bridge Street", "Market Square", "River Lane", "Garden Street"]  # fmt: skip
_BESIDE = "[behind|next to|near|in front of|opposite|beside|under|across from|close to] the [house|station|church|river|school|park|lake|market|bridge|old oak|town hall|{n}|{n}|{a} {n}]"
_SPOTS = "[in|behind|near|next to|under|beside] the [kitchen|hall|cellar|window|door|attic|stairs|garage|sofa|garden|bed|{n}|{n}]"
_SMELLS = [
    "roses",
    "smoke",
    "fresh bread",
    "coffee",
    "paint",
    "lemons",
    "old books",
    "fish",
    "soap",
    "wood",
    "hay",
    "mint",
    "rain",
    "cinnamon",
    "apples",
]
_TOPICS = "[old {n}s|{n}s|{c}|the sea|modern art|space|birds|history|the history of {C}|money|bees|cooking|wild {n}s|trains|the moon]"
_COATS = "[a|a|a] [red|green|blue|black|white|yellow|long|short|warm|striped] [coat|hat|dress|shirt|scarf|jacket|skirt|tie|cap|pullover]"
_DAYS = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday", "Mondays", "Sundays", "Fridays"]


def _number(rng: Random) -> str:
    """Say a number of two or more."""
    number = rng.randint(2, choose(rng, (9, 12, 20, 99, 400)))
    return values.spoken(number) if number < 100 and rng.random() < 0.6 else str(number)


def _goods(rng: Random) -> str:
    """Draw things that one deals in."""
    many = things.counted(rng)[1]
    kind = rng.random()
    if kind < 0.15:
        return f"{choose(rng, ADJECTIVES)} {many}"
    return f"{many} and {things.counted(rng)[1]}" if kind < 0.27 else many


def _single(rng: Random) -> str:
    """Draw one thing, with its article."""
    one = things.counted(rng)[0]
    return f"{'an' if one[0] in 'aeio' else 'a'} {one}"


def _filled(rng: Random, pattern: str) -> str:
    return expand(rng, pattern, n=choose(rng, NOUNS), a=choose(rng, ADJECTIVES), c=coin(rng, 2), C=coin(rng, 2).capitalize())  # fmt: skip


_DRAWS: dict[str, Callable[[Random, Split], str]] = {
    **KINDS,
    "people": lambda rng, _: _number(rng),
    "times": lambda rng, _: _number(rng),
    "years": lambda rng, _: values.shown(rng, rng.randint(2, 95), 0.5),
    "number": lambda rng, _: str(rng.randint(1, choose(rng, (9, 99, 999)))),
    "floor": lambda rng, _: choose(rng, _FLOORS),
    "road": lambda rng, _: choose(rng, _ROADS) if rng.random() < 0.6 else f"{coin(rng, 2).capitalize()} {choose(rng, ('Street', 'Road', 'Lane'))}",
    "beside": lambda rng, _: _filled(rng, _BESIDE),
    "spot": lambda rng, _: _filled(rng, _SPOTS),
    "goods": lambda rng, _: _goods(rng),
    "one": lambda rng, _: _single(rng),
    "weekday": lambda rng, _: choose(rng, _DAYS),
    "city": lambda rng, split: pick(rng, CITIES, split) if rng.random() < 0.75 else coin(rng, 2).capitalize(),
    "name": lambda rng, split: pick(rng, NAMES, split) if rng.random() < 0.7 else f"{pick(rng, NAMES, split)} {things.surname(rng)}",
    "topic": lambda rng, _: _filled(rng, _TOPICS),
    "coat": lambda rng, _: expand(rng, _COATS),
    "smell": lambda rng, _: choose(rng, _SMELLS),
    "coined": lambda rng, _: coin(rng, 2).capitalize() if rng.random() < 0.6 else choose(rng, NAMES),
    "music": lambda rng, _: choose(rng, "piano guitar violin flute drums trumpet cello harp organ accordion".split()),  # noqa: SIM905
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Line:
    """A line of ``FACTS``."""

    key: str
    kinds: tuple[str, ...]
    kind: str
    told: tuple[str, ...]
    asks: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Fact:
    """Something told of a subject: the words after it, the questions for them, and the value in them."""

    key: str
    words: str
    asks: tuple[str, ...]
    value: str


def _line(line: str) -> Line:
    key, kinds, kind, told, asks = line.split(" ; ")
    return Line(key, tuple(kinds.split()), kind, tuple(told.split("|")), tuple(asks.split("|")))


_LINES = [_line(line) for line in FACTS]


@cache
def _of(kind: str) -> list[Line]:
    return [line for line in _LINES if kind in line.kinds]


def _subject(rng: Random, split: Split, kind: str) -> str:
    """Draw what a text is about."""
    return expand(rng, SUBJECTS[kind], n=choose(rng, NOUNS), a=choose(rng, ADJECTIVES), c=coin(rng, 2), C=coin(rng, 2).capitalize(), W=pick(rng, NAMES, split), S=things.surname(rng))  # fmt: skip


def _fact(rng: Random, split: Split, line: Line, subject: str) -> Fact:
    """Draw the value of a fact."""
    units = ""
    if line.kind == "count":
        kind = rng.random()
        one, units = things.counted(rng)
        value = f"one {one}" if kind < 0.06 else f"{_number(rng)} {units}"
    else:
        value = _DRAWS[line.kind](rng, split)
    asks = tuple(ask.replace("{u}", units).replace("{s}", subject) for ask in line.asks)
    return Fact(line.key, choose(rng, line.told).replace("{v}", value), asks, value)


def _facts(rng: Random, split: Split, kind: str, subject: str, amount: int) -> list[Fact]:
    """Draw facts that can't be taken for each other."""
    found: list[Fact] = []
    for line in rng.sample(_of(kind), min(len(_of(kind)), amount * 3)):
        if line.key in {one.key for one in found}:
            continue
        fact = _fact(rng, split, line, subject)
        apart = not any(within(fact.value, one.value) for one in found) and not within(fact.value, subject)
        if apart and not any(set(fact.asks) & set(one.asks) for one in found):
            found.append(fact)
        if len(found) == amount:
            break
    return found


_THEY = {"person": ("she", "he"), "animal": ("it", "it", "he", "she")}
_HERS, _HIS = re.compile(r"Mrs|my (aunt|sister|mother)"), re.compile(r"Mr |my (uncle|brother|father)")


def _told(rng: Random, kind: str, subject: str, facts: list[Fact]) -> str:
    """Tell facts in one sentence or in several, which begin with a pronoun or the subject again."""
    again = "she" if _HERS.match(subject) else "he" if _HIS.match(subject) else choose(rng, _THEY.get(kind, ("it",)))
    sentences = [f"{subject} {facts[0].words}"]
    shared = 1
    for at, fact in enumerate(facts[1:], 2):
        last, manner = at == len(facts), rng.random()
        before = sentences[-1]
        if manner < 0.58 and shared < 3:
            verb, _, rest = fact.words.partition(" ")
            short = verb in ("is", "has") and shared == 1 and before.startswith(f"{subject} {verb} ") and rng.random() < 0.5  # fmt: skip
            link = choose(rng, (" and ", " and ", " and ", ", and ", " but ")) if last or rng.random() < 0.3 else ", "
            sentences[-1] += link + (rest if short else fact.words)
            shared = 3 if "and" in link or "but" in link else shared + 1
        elif manner < 0.7 and shared < 3:
            sentences[-1] += choose(rng, (", and ", "; ", ", ", " and ")) + f"{again} {fact.words}"
            shared = 3
        else:
            sentences.append(f"{again if rng.random() < 0.75 else subject} {fact.words}")
            shared = 1
    return " ".join(capital(one) + "." for one in sentences)


WAYS = lines("""
{t} {q}
{t} {q}
{t} {q}
{t} {q}
{t} {q}
{t}{nl}{q}
{t}{nl}{nl}{q}
Text: {t}{nl}Question: {q}
[Context|Text|Passage|Article|Source|Information]: {t}{nl}{nl}[Question|Q]: {q}[{nl}Answer:||]
[Read this|Read|Here is a text|Look at this text|Use this text|Take this text]: {t} {q}
[Read the text and answer the question|Answer from the text|Answer with the text]. {t} {q}
{t} [Now, |So, |So |Tell me, |Question: |And now: ]{small}
{q} {t}
{q}{nl}{nl}{t}
"{t}" {q}
[According to|In] this text, {small}{nl}{t}
{t} [My question|The question]: {q}
~[Consider these lines|Mind what follows]: {t} {q}
""")


@dataclass(slots=True)
class Passage:
    """A text, and whatever was told in it: who or what, and each fact."""

    text: str
    facts: list[tuple[str, Fact]]
    kind: str


def _second(rng: Random, split: Split, kind: str, subject: str, facts: list[Fact]) -> tuple[str, list[Fact]] | None:
    """Draw another subject, of which the same is told as of the first, and at times more; None if they are too alike."""
    other, keys = _subject(rng, split, kind), {fact.key for fact in facts}
    if scenes.alike(subject, other):
        return None
    more = [_fact(rng, split, choose(rng, [line for line in _of(kind) if line.key in keys]), other)]
    if rng.random() < 0.6:
        more += [one for one in _facts(rng, split, kind, other, 1) if one.key != more[0].key]
    values_of = [fact.value for fact in (*facts, *more)]
    apart = not any(within(a, b) for at, a in enumerate(values_of) for b in (*values_of[:at], subject, other))
    return (other, more) if apart else None


def passage(rng: Random, split: Split) -> Passage:
    """Write a text about one thing, or about two of a kind of which the same may be told."""
    kind = choose(rng, list(SUBJECTS))
    subject = _subject(rng, split, kind)
    facts = _facts(rng, split, kind, subject, choose(rng, (2, 2, 2, 2, 3, 3, 4)))
    text, told = _told(rng, kind, subject, facts), [(subject, fact) for fact in facts]
    if rng.random() < 0.22 and (second := _second(rng, split, kind, subject, facts)):
        other, more = second
        parts = [text, _told(rng, kind, other, more)]
        text, told = " ".join(parts if rng.random() < 0.6 else parts[::-1]), [*told, *((other, one) for one in more)]
    if rng.random() < 0.12:
        text = f"{sentence(rng)} {text}" if rng.random() < 0.5 else f"{text} {sentence(rng)}"
    return Passage(text, told, kind)


def _answer(subject: str, fact: Fact) -> str:
    return capital(f"{yours(subject)} {fact.words}.")


def _question(rng: Random, split: Split, asks: tuple[str, ...]) -> str:
    ask = recall.chosen(rng, asks, split)
    return ask + choose(rng, ("?", "?", "?", "?", "?", "?", ""))


def _missing(rng: Random, split: Split, told: Passage) -> str | None:
    """Ask what the text does not tell of its subject."""
    subject = told.facts[0][0]
    keys = {fact.key for _, fact in told.facts}
    shut = keys | {"count", "count2", "count3"} if keys & {"count", "count2", "count3"} else keys
    line = choose(rng, [line for line in _of(told.kind) if line.key not in shut])
    other = _fact(rng, split, line, subject)
    if any(set(other.asks) & set(fact.asks) for _, fact in told.facts):
        return None
    return _question(rng, split, other.asks)


def make(rng: Random, split: Split) -> Exchange:
    """Make a text with a question on it; at times a second question follows, or the text has no answer."""
    told = passage(rng, split)
    pattern = choose(rng, [way.removeprefix("~") for way in WAYS if way.startswith("~") == (split == "held")])
    subject, fact = choose(rng, told.facts)
    if rng.random() < 0.06 and (ask := _missing(rng, split, told)):
        return Exchange([user(_put(rng, pattern, told.text, ask)), assistant(recall.UNKNOWN, "The user has not told me.")], topic="unknown")  # fmt: skip
    messages: list[Message] = []
    ask = _question(rng, split, fact.asks)
    if rng.random() < 0.12:
        messages = [user(told.text), assistant("I will remember that.", f"I should remember {yours(fact.value)}.")]
        asked = [(capital(ask), subject, fact)]
    else:
        asked = [(_put(rng, pattern, told.text, ask), subject, fact)]
    rest = [one for one in told.facts if one[1] is not fact]
    if rest and rng.random() < 0.3:
        subject, fact = choose(rng, rest)
        lead = expand(rng, "[|||And |So, |OK, and |Now, |Thanks. ]")
        ask = _question(rng, split, fact.asks)
        asked.append((lead + (ask if lead and lead[-2] != "." else capital(ask)), subject, fact))
    for text, subject, fact in asked:
        messages += [user(text), assistant(_answer(subject, fact), f"The user told me earlier: {yours(fact.value)}.")]
    return Exchange(messages, topic="memory")


def _put(rng: Random, pattern: str, text: str, ask: str) -> str:
    """Put a text and a question together."""
    mark = ask if ask[-1] == "?" or pattern.endswith(("{q}", "{small}")) else f"{ask}?"
    asked = expand(rng, pattern, t=text, q=capital(mark) if rng.random() < 0.92 else mark, small=mark, nl="\n")
    return re.sub(r" +\n", "\n", asked)
