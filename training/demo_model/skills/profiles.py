"""Several things told of one person, animal, event, journey, place or thing: "my mother is 71, and she lives in Malmö".

After the first sentence a pronoun says who or what it is about; the questions name it again, or say the pronoun, too.
"""

# ruff: noqa: E501, PLR0917, SIM905 - phrases read best unbroken

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from random import Random

from demo_model.skills import profile_lines, scenes, things, values
from demo_model.skills.attributes import OPTIONS, VALUES
from demo_model.skills.memory import some_name
from demo_model.skills.recall import Told
from demo_model.skills.scenes import within, yours
from demo_model.skills.talks import Fact, Story, capital
from demo_model.text import CITIES, NAMES, NOUNS, Split, choose, coin, expand, pick

_SHE = "sister mother wife daughter aunt grandmother niece girlfriend granddaughter stepmother mum mom grandma".split()
_HE = "brother father husband son uncle grandfather nephew boyfriend grandson stepfather dad grandpa".split()
_ANY = "boss|friend|neighbour|teacher|best friend|partner|cousin|colleague|roommate|flatmate|landlord|doctor|coach|manager|teammate|tutor|trainer|penpal|baby|kid|youngest|oldest".split("|")  # fmt: skip
# What relatives are called in other words, when they are asked for.
_SAME = {"mother": ("mum", "mom"), "father": ("dad",), "grandmother": ("grandma", "gran"), "grandfather": ("grandpa", "granddad"), "girlfriend": ("gf",), "boyfriend": ("bf",), "sister": ("sis",), "brother": ("bro",), "husband": ("hubby",)}  # fmt: skip
_TRIPS = "flight|train|bus|ferry|trip|coach|journey|night train|cruise|plane".split("|")
_VENUES = "shop|bakery|museum|pool|gym|library|café|pharmacy|market|zoo|restaurant|dentist's office|post office|hairdresser's|cinema|bar|clinic|bike shop|garage|town hall".split("|")  # fmt: skip
_OBJECTS = "car|bike|flat|house|phone|laptop|tent|boat|camera|guitar|sofa|desk|suitcase|van|watch|fridge|piano|printer|scooter|motorbike|jacket|tablet|backpack|oven|caravan|skateboard|kayak|telescope".split("|")  # fmt: skip
_WORKS = "project|team|thesis|book|group|film|garden project|campaign|course|band|choir|school paper|app|report".split("|")  # fmt: skip
_STAYS = "hotel|hostel|guest house|holiday flat|campsite|motel|inn|cabin|resort|bed and breakfast".split("|")
_MEETINGS = "meeting|dinner|lunch|date|interview|appointment|call|coffee date|rehearsal|workshop|session".split("|")
_TREATS = "tuna|carrots|bananas|chicken|cheese|walks|bread|lettuce|apples|fish|peanut butter|tennis balls|salmon|hay|sunflower seeds|ham|cuddles".split("|")  # fmt: skip
_FEARS = "thunder|fireworks|the vacuum cleaner|water|other dogs|cats|big trucks|the vet|balloons|the dark|umbrellas|strangers".split("|")  # fmt: skip
_ALLERGENS = "nuts|peanuts|milk|eggs|cats|dogs|pollen|shellfish|soy|gluten|strawberries|wheat|bees|dust|kiwi|sesame|fish|penicillin".split("|")  # fmt: skip
_DEPARTMENTS = "accounting|sales|marketing|the IT department|human resources|logistics|research|support|the legal department|production|purchasing|quality control|the press office|design".split("|")  # fmt: skip
_BRINGS = "a salad|the drinks|a cake|a camera|my passport|two chairs|a sleeping bag|the wine|some bread|a tent|my laptop|a present|the forms|a swimsuit|candles|board games|a warm jacket".split("|")  # fmt: skip
_WEAR = "a suit|a red dress|jeans|a costume|my blue shirt|a tie|boots|a black skirt|a white hat|sneakers|a green scarf".split("|")  # fmt: skip
_STUFF = "wood|steel|leather|glass|aluminium|plastic|oak|cotton|carbon|brass|wool|bamboo|stone|canvas".split("|")
_PARTS = "four doors|two wheels|a radio|a big screen|three rooms|a balcony|16 GB of memory|six strings|a zip|a timer|two pockets|a sunroof|eight gears|a garden|a freezer|512 GB of storage|a lock|a spare key".split("|")  # fmt: skip
_JOBS = "data analyst|sailor|seamstress|judge|miner|chef|programmer|surgeon|priest|firefighter|student|beekeeper|coach|welder|butcher|secretary|soldier|manager".split("|")  # fmt: skip
Draw = Callable[[Random, Split], str]


def _a(noun: str) -> str:
    return f"{'an' if noun[0] in 'aeiou' else 'a'} {noun}"


def _hour(rng: Random, split: Split) -> str:
    hour = rng.randint(1, 12)
    return choose(rng, (f"{rng.randint(0, 23)}:{choose(rng, ('00', '15', '30', '45', '20', '10', '05', '40'))}", f"{hour}:{rng.randint(10, 59)}", f"{hour} {choose(rng, ('am', 'pm'))}", str(hour), f"half past {values.spoken(hour)}", f"{values.spoken(hour)} o'clock", f"quarter to {values.spoken(hour)}", f"{hour}{choose(rng, ('am', 'pm'))}", f"{hour}:30 pm", "noon"))  # fmt: skip


def _day(rng: Random, split: Split) -> str:
    kind = rng.random()
    return choose(rng, scenes.DAYS) if kind < 0.45 else scenes.date(rng) if kind < 0.92 else f"{choose(rng, scenes.DAYS)}, {scenes.date(rng)}"  # fmt: skip


def _seat(rng: Random, split: Split) -> str:
    return expand(rng, "[{k}{l}|{l}{k}|{k}{l}|{l}-{k}|{k}]", k=rng.randint(1, 99), l=choose(rng, "ABCDEF"))


KINDS: dict[str, Draw] = {
    **VALUES,
    "a job": lambda rng, _: _a(choose(rng, (*things.JOBS, *_JOBS))),
    "pet": lambda rng, _: things.pet_name(rng),
    "dish": lambda rng, _: choose(rng, things.DISHES if rng.random() < 0.5 else scenes.FOODS),
    "drink": lambda rng, _: choose(rng, things.DRINKS if rng.random() < 0.5 else scenes.DRINKS),
    "hobby": lambda rng, _: choose(rng, things.HOBBIES),
    "treat": lambda rng, _: choose(rng, _TREATS),
    "fear": lambda rng, _: choose(rng, _FEARS),
    "allergen": lambda rng, _: choose(rng, _ALLERGENS),
    "department": lambda rng, _: choose(rng, _DEPARTMENTS),
    "bring": lambda rng, _: choose(rng, _BRINGS),
    "wear": lambda rng, _: choose(rng, _WEAR),
    "stuff": lambda rng, _: choose(rng, _STUFF),
    "parts": lambda rng, _: choose(rng, _PARTS),
    "hair": lambda rng, _: choose(rng, "red blond black brown grey white dark silver blonde ginger auburn".split()),
    "shade": lambda rng, _: things.colour(rng),
    "firm": lambda rng, _: things.firm(rng),
    "day": _day,
    "soon": lambda rng, _: choose(rng, ("tomorrow", "tonight", "next week", "this weekend", "today", "next month", f"next {choose(rng, scenes.DAYS)}", f"this {choose(rng, scenes.DAYS)}", f"in {values.spoken(rng.randint(2, 12))} days", f"in {rng.randint(2, 9)} weeks", "the day after tomorrow")),
    "weekday": lambda rng, _: choose(rng, scenes.DAYS),
    "hour": _hour,
    "seat": _seat,
    "where": scenes.place,
    "person": scenes.person,
    "gate": lambda rng, _: expand(rng, "[platform|gate|terminal|stop|track] [{k}|{k}|{a}{k}]", k=rng.randint(1, 60), a=choose(rng, "ABCDEF")),
    "long": lambda rng, _: f"{choose(rng, (str(rng.randint(2, 90)), values.spoken(rng.randint(2, 12))))} {choose(rng, ('hours', 'minutes', 'minutes'))}",
    "number3": lambda rng, _: str(rng.randint(1, 999)),
    "size": lambda rng, _: f"{rng.randint(2, 300)} {choose(rng, ('cm', 'm', 'metres', 'inches', 'feet'))}",
    "room": lambda rng, _: expand(rng, "[room {k}|the {n} room|room {a}{k}|hall {k}|the attic|the cellar|the library|lab {k}]", k=rng.randint(1, 400), a=choose(rng, "ABCDEF"), n=choose(rng, NOUNS)),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Who:
    """What it is about: as it is told first, as it is called later, and its pronouns; a kind of subject."""

    first: str
    called: str
    she: str
    her: str
    hers: str
    kind: str
    noun: str


@cache
def _table(kind: str) -> dict[str, tuple[str, tuple[str, ...], tuple[str, ...], str]]:
    found: dict[str, tuple[str, tuple[str, ...], tuple[str, ...], str]] = {}
    for line in getattr(profile_lines, kind):
        key, value, clauses, asks, answer = line.split(" ; ")
        found[key] = (value, tuple(clauses.split("|")), tuple(asks.split("|")), answer)
    return found


# Of these only one is told of somebody: what is asked about one could mean the other.
_PAIRS = ({"like", "hobby", "dish", "drink", "instrument"}, {"company", "department", "since"}, {"subject", "job"}, {"hate", "allergy", "diet"}, {"city", "origin"}, {"maker", "from", "bought"}, {"when", "age"}, {"partner", "since"}, {"end", "long"}, {"phone", "street"}, {"serial", "number"}, {"with", "host"}, {"arrive", "come"}, {"date", "soon"}, {"food", "bring"}, {"hotel", "with"}, {"colour", "hair"}, {"to", "hotel"}, {"owner", "name"})  # fmt: skip
_MINE = {"name", "age", "city", "origin", "job", "company", "department", "like", "hate", "allergy", "birthday", "phone", "email", "car", "height", "instrument", "tongue", "hobby", "colour", "dish", "drink", "dog", "partner", "shoes", "hair", "diet", "team"}  # fmt: skip
_FORMS = ("is", "was", "has", "do", "z", "es", "ies", "dont")
_THIRD = dict(zip(_FORMS, ("is", "was", "has", "does", "s", "es", "ies", "doesn't"), strict=True))
_FIRST = dict(zip(_FORMS, ("am", "was", "have", "do", "", "", "y", "don't"), strict=True))
_SECOND = {**_FIRST, "is": "are", "was": "were"}
# Several people, told of as one.
_COUPLES = "neighbours|parents|grandparents|twins|kids|cousins|friends|sisters|brothers|sons|daughters|landlords|in-laws|roommates|flatmates".split("|")  # fmt: skip
_OURS = {"city", "origin", "like", "hate", "phone", "email", "car", "tongue", "hobby", "drink", "dog", "come", "team", "company"}  # fmt: skip


def _agreed(who: Who) -> dict[str, str]:
    """Return how verbs agree with it."""
    return _FIRST if who.kind == "I" else _SECOND if who.she == "they" else _THIRD


def _owner(who: Who, text: str) -> str:
    return f"{text}'" if who.she == "they" and text.endswith("s") else f"{text}'s"


def _filled(text: str, subject: str, owner: str, object_: str, forms: dict[str, str], value: str = "") -> str:
    gate = value.split(" ", 1)[0]
    places = {**forms, "s": subject, "S": capital(subject), "p": owner, "P": capital(owner), "o": object_, "v": value, "g": gate}  # fmt: skip
    return re.sub(r"\{(\w+)\}", lambda found: places.get(found[1], found[0]), text)


def named(who: Who, text: str, value: str = "") -> str:
    """Fill a pattern with what it is called."""
    if who.kind == "I":
        return _filled(text, "I", "my", "me", _FIRST, value)
    return _filled(text, who.called, _owner(who, who.called), who.called, _agreed(who), value)


def _pronoun(who: Who, text: str, value: str = "") -> str:
    if who.kind == "I":
        return _filled(text, "I", "my", "me", _FIRST, value)
    return _filled(text, who.she, who.hers, who.her, _agreed(who), value)


def _answer(who: Who, told: Told) -> str:
    if who.kind == "I":
        if told.key == "name":
            return f"Your name is {told.value}."
        return _filled(told.answer, "you", "your", "you", _SECOND, yours(told.value))
    called = yours(who.called)
    value = yours(told.value)
    text = _filled(told.answer, called, _owner(who, called), called, _agreed(who), value)
    return capital(text) if not text.startswith(value) or told.key == "bring" else text


_PRONOUNS = (("she", "her", "her"), ("he", "him", "his"), ("it", "it", "its"))


_ME = Who("I", "I", "I", "me", "my", "I", "I")


def _person(rng: Random, split: Split) -> Who:
    kind = rng.random()
    if kind < 0.2:
        return _ME
    if kind < 0.28:
        noun, owner = choose(rng, _COUPLES), choose(rng, ("my", "our", "the"))
        first = f"{owner} {noun}" if rng.random() < 0.8 else f"the {things.surname(rng)}s"
        return Who(first, first, "they", "them", "their", "PERSON", noun)
    she, he = _PRONOUNS[:2]
    if kind < 0.45:
        name = some_name(rng, split)
        first = name if rng.random() < 0.5 else f"my {choose(rng, _ANY[:9])} {name}"
        return Who(first, name, *choose(rng, (she, he)), "PERSON", "person")
    group, forms = choose(rng, ((_SHE, she), (_HE, he), (_ANY, choose(rng, (she, he)))))
    noun = choose(rng, group)
    called = choose(rng, _SAME[noun]) if noun in _SAME and rng.random() < 0.25 else noun
    return Who(f"my {noun}", f"my {called}", *forms, "PERSON", noun)


def _thing(rng: Random, split: Split) -> Who:
    kind, nouns, owners = choose(rng, (
        ("ANIMAL", things.PETS, ("my", "my", "our")), ("EVENT", OPTIONS["event"], ("my", "the", "our")),
        ("EVENT", _MEETINGS, ("my", "the")), ("EVENT", ["exam", "birthday party", "class", "course", "festival", "surgery", "wedding", "match", "trial", "play", "training"], ("my", "the")),
        ("TRIP", _TRIPS, ("my", "my", "our")), ("TRIP", _TRIPS, ("my",)), ("VENUE", _VENUES, ("the", "our")),
        ("OBJECT", _OBJECTS, ("my", "my", "my new", "our", "my old")), ("WORK", _WORKS, ("my", "our")), ("STAY", _STAYS, ("my", "the", "our")),
    ))  # fmt: skip
    noun, owner = choose(rng, nouns), choose(rng, owners)
    forms = choose(rng, _PRONOUNS[:2]) if kind == "ANIMAL" else _PRONOUNS[2]
    called = f"{owner.split(' ', maxsplit=1)[0]} {noun}"
    return Who(f"{owner} {noun}", called, *forms, kind, noun)


def _one(rng: Random, split: Split, who: Who, key: str) -> Told:
    kind, clauses, asks, answer = _table("PERSON" if who.kind == "I" else who.kind)[key]
    value, clause = KINDS[kind](rng, split), choose(rng, clauses)
    if "{x}" in clause:
        old = KINDS[kind](rng, split)
        clause = clause.replace("{x}", old) if not within(old, value) else clauses[0]
    return Told(key, clause, asks, answer, value)


def _group(rng: Random, split: Split, who: Who) -> list[Told]:
    """Draw two to four things that are told of one, none of which could be taken for another."""
    keys = [key for key in _table("PERSON" if who.kind == "I" else who.kind) if who.kind != "I" or key in _MINE]
    if who.she == "they":
        keys = [key for key in keys if key in _OURS]
    if who.noun in _MEETINGS:
        keys = [key for key in keys if key not in ("price", "guests", "seat", "wear", "bring")]
    if who.noun in ("flat", "house"):
        keys = [key for key in keys if key not in ("weight", "maker", "stuff", "from", "place", "broken")]
    if who.kind == "PERSON" and not who.called.startswith("my ") and "name" in keys:
        keys.remove("name")
    weights = [3 if key in ("name", "age", "date", "clock", "place", "to", "city", "job") else 1 for key in keys]
    found: dict[str, Told] = {}
    for key in rng.choices(keys, weights, k=choose(rng, (3, 4, 5, 7))):
        if key in found or len(found) > 4 or any(key in pair and pair & set(found) for pair in _PAIRS):
            continue
        one = _one(rng, split, who, key)
        if not any(within(one.value, other) for other in (*(told.value for told in found.values()), who.first)):
            found[key] = one
    return list(found.values())


def _facts(who: Who, group: list[Told]) -> list[Fact]:
    """Make the questions and answers; where day and hour are told, "when" asks for both."""
    by_key = {told.key: told for told in group}
    day = by_key.get("date", by_key.get("soon"))
    both = day is not None and "clock" in by_key
    facts: list[Fact] = []
    for told in group:
        asks = [ask.removeprefix("!") for ask in told.asks if ask[0] != "!" or not both]
        short = [_pronoun(who, ask, told.value) for ask in asks if ask[0] != "~"]
        short += [
            _pronoun(who, ask.removeprefix("what is "), told.value)
            for ask in asks
            if ask.startswith("what is {p} ") and " called" not in ask
        ]
        facts.append(
            Fact(tuple(named(who, ask, told.value) for ask in asks), tuple(short), _answer(who, told), told.value)
        )
    if day and both:
        value = f"{'on ' if day.key == 'date' else ''}{day.value} at {by_key['clock'].value}"
        whole = Told("when", "", (), "{S} {is} {v}.", value)
        whens = ("when is {s}", "when's {s}", "when exactly is {s}")
        facts += [Fact(tuple(named(who, ask) for ask in whens), ("when is it",), _answer(who, whole), value)] * 2
    return facts


_INTROS = "[I have {a}|I've got {a}|I want to tell you about {s}|Let me tell you about {s}|This is about {s}|Something about {s}|Here is what you need to know about {s}|A few things about {s}]"
_ABOUT = "[I want to tell you about {s}|Let me tell you about {s}|This is about {s}|It's about {s}|Here is what you need to know about {s}|A few things about {s}]"
_PHRASE = re.compile(
    r"^\{s\} \{is\} (on|at|from|to|in|near|with|behind|under|next|inside|tomorrow|tonight|today|this|the day)\b"
)


def _contracted(rng: Random, text: str) -> str:
    """Write "she's" for "she is" in half of the texts."""
    return re.sub(r"\b(she|he|it) is\b", r"\1's", text).replace("they are", "they're") if rng.random() < 0.5 else text


def _opening(rng: Random, who: Who, *, clear: bool) -> list[str]:
    """Say what it is all about, at times, or where no clause says it."""
    owned = who.kind != "I" and who.first.startswith(("my ", "our "))
    if (clear and not (owned and rng.random() < 0.15)) or who.kind == "I":
        return []
    pattern = _INTROS if owned and who.she != "they" else _ABOUT
    return [expand(rng, pattern, s=who.first, a=_a(who.first.split(" ", 1)[-1]))]


def _sentences(rng: Random, who: Who, group: list[Told]) -> list[str]:
    """Tell it: some clauses share a subject or a verb, others begin a sentence with a pronoun."""
    clear = [told for told in group if told.clause.startswith(("{s}", "{p}"))] if who.kind != "I" else group[:1]
    group = [*clear[:1], *(told for told in group if told.clause and told not in clear[:1])]
    done = _opening(rng, who, clear=bool(clear))
    parts = 9 if done else 0
    head, before = done[:], ""
    for told in group:
        clause = told.clause
        flat = clause.replace("{v}", told.value)
        if parts == 0:
            done.append(named(replace(who, called=who.first), clause, told.value))
            parts = 1
        elif _PHRASE.match(flat) and _PHRASE.match(before) and parts < 4 and rng.random() < 0.6:
            done[-1] += " " + named(who, clause.removeprefix("{s} {is} "), told.value)
            parts += 1
        elif clause.startswith("{s} ") and before.startswith("{s} ") and parts < 3 and rng.random() < 0.4:
            done[-1] += choose(rng, (" and ", " and ", ", and ")) + named(who, clause.removeprefix("{s} "), told.value)
            parts = 3
        else:
            again = named if rng.random() < 0.1 else _pronoun
            text = _contracted(rng, again(who, clause, told.value))
            if parts < 3 and rng.random() < 0.35:
                done[-1] += choose(rng, (", ", " and ", ", and ")) + text
                parts = 5
            else:
                done.append(text)
                parts = 1
        before = flat
    if head:
        done[:2] = [f"{done[0]}{choose(rng, ('. ', '. ', ': '))}{capital(done[1])}"]
    return [re.sub(r"\bI am\b", "I'm", text) if who.kind == "I" and rng.random() < 0.6 else text for text in done]


_FIXES = "[Actually, {c}|actually {c}|Sorry, {c}|No wait, {c}|Correction: {c}|Change of plans: {c}|Oh, {c} now|I was wrong, {c}|Update: {c}|Hm, no, {c}|sorry, I meant that {c}|Wait, {c}|{c}, not {x}|not {x}, {v}|sorry, {v}, not {x}|make that {v} instead of {x}|I said {x}, but {c}|News: {c}|It has changed: {c}|Oops, {c}|I mixed that up, {c}|My mistake, {c}][.|.||!]"


def _fix(rng: Random, split: Split, who: Who, group: list[Told]) -> tuple[str, list[Fact]] | None:
    """Correct one of the things, mostly with a pronoun."""
    at = rng.randrange(len(group))
    if not group[at].clause:
        return None
    fresh = _one(rng, split, who, group[at].key)
    if any(within(fresh.value, told.value) for told in group):
        return None
    clause = (named if rng.random() < 0.4 else _pronoun)(who, fresh.clause, fresh.value)
    clause = _contracted(rng, clause)
    text = expand(rng, _FIXES, c=clause, x=group[at].value, v=fresh.value)
    facts = _facts(who, [fresh, *group[:at], *group[at + 1 :]])
    # What was corrected is asked for more often than the rest.
    return text, [facts[0]] * 4 + facts if rng.random() < 0.8 else facts


def _unknown(rng: Random, split: Split, who: Who, group: list[Told]) -> tuple[str, ...]:
    """Ask for what was not told of it, or for the same of somebody else."""
    kind = "PERSON" if who.kind == "I" else who.kind
    told = {one.key for one in group}
    if who.kind in ("I", "PERSON") and rng.random() < 0.6:
        noun = choose(rng, [noun for noun in (*_SHE[:8], *_HE[:8]) if noun != who.noun])
        other = replace(who, called=f"my {noun}", kind="PERSON")
        keys = [one.key for one in group if one.key not in ("since", "come", "partner")]
    else:
        other = who
        shut = told | {key for pair in _PAIRS if pair & told for key in pair}
        keys = [key for key in _table(kind) if key not in shut and (who.kind != "I" or key in _MINE)]
        keys = [key for key in keys if who.she != "they" or key in _OURS]
        keys = [key for key in keys if key not in ("name", "topic", "place", "platform", "date", "soon", "clock", "with", "host")]  # fmt: skip
    asks = [ask for key in keys for ask in _table(kind)[key][2] if ask[0] not in "!~" and ("{s}" in ask or "{p}" in ask)]  # fmt: skip
    return tuple(named(other, ask) for ask in asks if "{g}" not in ask)


def _presented(rng: Random, split: Split) -> list[Told]:
    """Introduce oneself by name and by where one is from."""
    table = _table("PERSON")
    name = Told("name", "", table["name"][2], table["name"][3], some_name(rng, split))
    if rng.random() < 0.3:
        age, place = (_one(rng, split, _ME, one) for one in ("age", "origin"))
        lead = choose(rng, ("{n} here", "{s} {is} {n}", "this is {n}", "{p} name is {n}", "{n}")).replace("{n}", name.value)  # fmt: skip
        clause = f"{lead}, {age.value}, from {place.value}"
        return [replace(name, clause=clause), replace(age, clause=""), replace(place, clause="")]
    key = choose(rng, ("origin", "origin", "department", "company", "age"))
    other = _one(rng, split, _ME, key)
    if within(name.value, other.value):
        return _presented(rng, split)
    lead = choose(rng, ("{s} {is}", "{s} {is}", "this is", "{p} name is", "it's", "you are talking to"))
    link = choose(rng, (", " if lead[0] == "{" else " (",)) if key == "age" else " from "
    clause = f"{lead} {name.value}{link}{other.value}{')' if link == ' (' else ''}"
    return [replace(name, clause=clause), replace(other, clause="")]


def _headed(rng: Random, split: Split, who: Who, group: list[Told]) -> tuple[Who, list[Told]]:
    """Say where a journey goes, or whom a meeting is with, in the first words."""
    keys = {told.key for told in group}
    if who.kind == "I" and not keys & {"name", "age", "origin", "city", "department", "company"} and rng.random() < 0.7:
        return who, [*_presented(rng, split), *group]
    if (
        who.kind == "PERSON"
        and who.she != "they"
        and who.called.startswith("my ")
        and "name" not in keys
        and rng.random() < 0.35
    ):
        table = _table("PERSON")["name"]
        head = Told("name", "", table[2], table[3], choose(rng, NAMES))
        return (
            (who, group)
            if within(head.value, " ".join(told.value for told in group))
            else (replace(who, first=f"{who.first} {head.value}"), [*group, head])
        )
    if who.kind == "TRIP" and rng.random() < 0.6 and "to" not in keys:
        city = pick(rng, CITIES, split) if rng.random() < 0.8 else coin(rng, 2).capitalize()
        _, _, asks, answer = _table("TRIP")["to"]
        head = Told("to", "", asks, answer, city)
        first = f"{who.first} to {city}"
    elif who.noun in _MEETINGS and rng.random() < 0.6 and not keys & {"with", "host"}:
        name = choose(rng, NAMES) if rng.random() < 0.6 else f"my {choose(rng, _ANY[:9])}"
        asks = ("who is {s} with", "who am I meeting", "with whom is {s}", "who do I meet")
        head = Told("with", "", asks, "{S} is with {v}.", name)
        first = f"{who.first} with {name}"
        if rng.random() < 0.4:
            head, first = replace(head, clause="{s} {is} with {v}"), who.first
    else:
        return who, group
    if any(within(head.value, told.value) for told in group):
        return who, group
    return replace(who, first=first), [*group, head]


def story(rng: Random, split: Split) -> Story:
    """Draw a subject and what is told of it."""
    who = _person(rng, split) if rng.random() < 0.42 else _thing(rng, split)
    who, group = _headed(rng, split, who, _group(rng, split, who))
    if len([told for told in group if told.clause]) < (2 if rng.random() < 0.85 and len(group) < 3 else 1):
        return story(rng, split)
    name = next((told.value for told in group if told.key == "name" and who.kind == "I"), "")
    return Story(
        _sentences(rng, who, group),
        _facts(who, group),
        lambda: _fix(rng, split, who, group),
        _unknown(rng, split, who, group),
        name,
        (*(told.value for told in group), who.called),
    )
