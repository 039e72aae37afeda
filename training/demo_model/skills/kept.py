"""What somebody tells with the wish to keep it, where a tool keeps it: readings, facts, notes, what happened.

"My cat weighs 4.2 kg. Write that down", "Note for Anna: the key is at reception (urgent)", "The bike lock code is 5512,
keep it". What is told is the request; the answer is a call, and not that the model will remember.
"""

# ruff: noqa: E501, SIM905 - phrases read best unbroken

import re
from collections.abc import Callable
from random import Random

from demo_model.skills import parts, things, values
from demo_model.skills.assembled import argument, assembled, phrased
from demo_model.skills.define import Offer
from demo_model.skills.slots import BOOL, INT, NUMBER, TEXT, Argument
from demo_model.skills.subjects import subject
from demo_model.template import Message
from demo_model.text import ADJECTIVES, NAMES, NOUNS, Split, choose, coin, expand, lines, pick, wording

# After what is told, and before it.
WISHES = lines("""
[Write|Note|Jot|Put] [that|it|this] down[| please| for me|, please| for later]
[Log|Note|Keep|Save|Record|Store|Enter|Register] [it|that|this][| please| for me|, please| somewhere]
[Make|Take] a note[| of that| of it|, please]
[Please |]remember [that|it|this][| for me]
[Please |]keep [that|it] [in mind|for later|on record|on file|for me]
[Put|Get] [that|it] [in the book|on record|on file|in the log|on the list|in writing]
[I don't want to forget that|Don't lose that|So that I don't forget|For the record|For later|Don't forget that|In case I forget]
[Can|Could|Would] you [write that down|note that|save that|log it|keep that|record it][?|]
[I want|I'd like] to [keep|save|remember|log] [that|it|this]
~[Commit that to paper|Hold on to that]
""")
FRONTS = lines("""
[Note|Write down|Remember|Keep in mind|Make a note|Record|Log|For the record|Take note|Note down|Please note|Save this|Keep this|Log this|Note this|Write this down|To remember|For later][:|:|,| that]
[I want you to|You should|Please|Could you] [note|write down|remember|log|record] that
~Put this on paper:
""")


def _told(rng: Random, split: Split, fact: str) -> str:
    """Put a wish to keep a fact before it or after it."""
    kind = rng.random()
    if kind < 0.3:
        front = expand(rng, wording(rng, FRONTS, split))
        if re.search(r"[:,]| (?:for|from) ", fact):
            front = front.removesuffix(" that") + ("" if front[-1] == ":" else ":")
        return f"{front} {fact[0].lower() if fact.startswith(('My ', 'The ', 'Our ')) else fact[0]}{fact[1:]}"
    if kind < 0.9:
        wish = expand(rng, wording(rng, WISHES, split))
        small = wish[0].lower() + wish[1:] if not wish.startswith("I ") and not wish.startswith("I'") else wish
        return fact + choose(rng, (f". {wish[0].upper()}{wish[1:]}", f". {wish[0].upper()}{wish[1:]}", f", {small}", f" - {small}", f"; {small}", f"! {wish}"))  # fmt: skip
    return fact


# property ; units ; names of the value ; most ; how it is told, with {s} who or what and {v} the number
_MEASURED = lines("""
weight ; kg|weight_kg|kilos|weight ; 90 ; {s} weighs {v} [kg|kilos][| now]|{s} [has|is at|is down to|is up to] {v} [kg|kilos]|the scales say {v} kg for {s}|{s}[:|,] {v} kg ; person pet
height ; cm|height_cm|height|size_cm ; 190 ; {s} is {v} cm [tall|high][| now]|{s} measures {v} cm|{s} has [grown to|reached] {v} cm|{s}[:|,] {v} cm ; person plant
temperature ; degrees|temperature|celsius|value ; 41 ; {s} [has|is at|shows] {v} degrees|the temperature [in|of] {s} is {v}|{s} is {v} degrees [warm|now]|it is {v} degrees in {s}|{s}[:|,] {v} °C ; room sensor
pulse ; bpm|pulse|heart_rate|rate ; 180 ; {s} has a pulse of {v}|the pulse of {s} is {v}|{s} is at {v} bpm|{s}[:|,] pulse {v} ; person pet
mileage ; km|mileage|odometer|kilometers ; 90000 ; {s} [has|shows] {v} km on the clock|{s} has [done|driven|run] {v} km|{s} is at {v} km|{s}[:|,] {v} km ; car
reading ; reading|value|meter_value|units ; 90000 ; {s} [reads|shows|stands at|says|is at] {v}|the reading of {s} is {v}|{s}[:|,] {v} ; sensor
level ; percent|level|fill_level|fill_percent ; 100 ; {s} is {v}% full|{s} is at {v} [percent|%]|{s} [stands at|has] {v} percent|{s}[:|,] {v}% ; sensor car
price ; price|cost|amount|euros ; 900 ; {s} [cost|was|costs] {v} euros|I [paid|spent|gave] {v} euros for {s}|{s} [went|sold] for {v} euros|{v} euros for {s} ; goods
size ; size|shoe_size|clothing_size|number ; 50 ; {s} wears size {v}|{s} [has|takes|needs] size {v}|{s}[:|,] size {v} ; person
page ; page|page_number|current_page|bookmark ; 900 ; [I'm|I am|we are] on page {v} of {s}|{s}[:|,] page {v}|I got to page {v} [of|in] {s}|I stopped {s} at page {v} ; book
score ; points|score|value|result ; 300 ; {s} [has|got|scored|made|reached|won] {v} points|{v} points for {s}|{s} is at {v} points|{s}[:|,] {v} points ; person team
laps ; laps|count|rounds|number ; 60 ; {s} [ran|swam|did|made] {v} laps|{v} laps for {s}|{s}[:|,] {v} laps ; person pet
eggs ; eggs|count|number|amount ; 40 ; {s} [laid|gave us|has laid] {v} eggs|{v} eggs from {s}|{s}[:|,] {v} eggs ; pet
hours ; hours|worked_hours|duration_hours|time_h ; 24 ; {s} [worked|slept|was out|trained|was here] {v} hours|{v} hours for {s}|{s}[:|,] {v} hours ; person
litres ; liters|litres|amount|volume ; 80 ; {s} [took|got|used|needed] {v} litres|{v} litres for {s}|I filled {s} with {v} litres|{s}[:|,] {v} litres ; car sensor
""")


def _who(rng: Random, split: Split, kinds: str) -> tuple[str, str, str]:
    """Draw whom or what a reading is of: as one says it, its value, and the names of its argument."""
    kind = choose(rng, kinds.split())
    if kind in {"person", "goods", "title", "room"}:
        found = subject(rng, split, kind)
        return found.said, str(found.value), found.names
    if kind == "book":
        name = things.title(rng)
        return expand(rng, '[{v}|{v}|the book {v}|"{v}"]', v=name), name, "book|title|name|novel|what"
    if kind == "pet":
        pet = choose(rng, things.PETS)
        if rng.random() < 0.5:
            return f"{choose(rng, ('my', 'our', 'the'))} {pet}", pet, "animal|pet|name|who"
        name = things.pet_name(rng)
        return expand(rng, "[{v}|{v}|my {p} {v}|{v} the {p}]", v=name, p=pet), name, "name|animal|pet|pet_name|who"
    if kind == "team":
        name = f"the {choose(rng, ADJECTIVES)} {choose(rng, NOUNS)}s"
        return name, name.removeprefix("the "), "team|group|name|who"
    noun = choose(rng, {"car": ("car", "van", "truck", "bike", "tractor", "boat", "scooter"), "plant": ("ficus", "oak", "rose", "tomato", "palm", "hedge", "sunflower", "bonsai"), "sensor": ("tank", "meter", "gas meter", "water meter", "boiler", "freezer", "fridge", "greenhouse", "pool", "kiln", "cistern", "silo", "counter")}[kind])  # fmt: skip
    name = expand(rng, "[{n}|{n}|{a} {n}|{x} {n}|{n}]", n=noun, a=choose(rng, ADJECTIVES), x=choose(rng, NOUNS))
    return f"{choose(rng, ('my', 'our', 'the', 'the'))} {name}", name, f"{kind}|name|what|{noun.replace(' ', '_')}|object|thing|item"  # fmt: skip


def measured(rng: Random, split: Split) -> Offer:
    """Tell a reading of somebody or something, which a tool records."""
    key, names, most, ways, kinds = choose(rng, _MEASURED).split(" ; ")
    said, value, keys = _who(rng, split, kinds)
    whole = int(most) > 200 or key in {"page", "score", "laps", "eggs", "pulse", "size", "level"} or rng.random() < 0.4
    shown, number = values.same(rng.randint(2, int(most))) if whole else values.decimal(rng, int(most))
    fact = expand(rng, f"[{ways}]", s=said, v=shown)
    fact = fact[0].upper() + fact[1:] if not fact.startswith(value) else fact
    who = argument(rng, keys, value)
    schema: Message = INT if whole and rng.random() < 0.6 else NUMBER
    amount = argument(rng, names, number, schema, f"[The {key}|{key.capitalize()}][.|]" if rng.random() < 0.4 else "")
    left = [argument(rng, "date|day|when|time", None)] if rng.random() < 0.35 else []
    if rng.random() < 0.2:
        left.append(argument(rng, "note|comment|remark", None))
    verb = choose(rng, ("log", "record", "save", "add", "note", "track", "store", "enter", "write"))
    return assembled(rng, f"{verb}_{key}|{key}_log|{verb}_{key}_value|{key}_entry|add_{key}|{key}_tracker|record_{key}", f"{verb.capitalize()} the {key} of somebody or something.", [who, amount], left, phrased(rng, _told(rng, split, fact)), spare=False)  # fmt: skip


_FACTS = lines("""
{o} {k} is {v}
{o} {k}: {v}
{o} {k} is now {v}
{o} {k} has changed to {v}
{v} is {o} {k}
~from today {o} {k} is {v}
""")
_KEYS = "[{n} code|{n} number|{m} password|locker|PIN|gate code|{n} {m}|licence plate|parking spot|shoe size|bike lock code|{a} {n}|alarm code|door code|wifi password|seat|membership number|customer number|{n}|{n} name|best {n}|spare {n}|tax number|blood type|home gate|bus line|{m} contact|dentist]"


def pairs(rng: Random, split: Split) -> Offer:
    """Tell what something is, which a tool keeps under its name."""
    noun = choose(rng, NOUNS)
    key = expand(rng, _KEYS, n=noun, m=choose(rng, NOUNS), a=choose(rng, ADJECTIVES))
    value = expand(rng, "[{k}|{c}|{w}|{C}|{q}|{p}|{s}]", k=rng.randint(1, 99999), c=values.code(rng)[1], w=coin(rng), C=coin(rng, 2).capitalize(), q=f"{rng.randint(1, 90)}{choose(rng, 'ABCD')}", p=pick(rng, NAMES, split), s=f"{choose(rng, ADJECTIVES)} {choose(rng, NOUNS)}")  # fmt: skip
    fact = expand(rng, wording(rng, _FACTS, split), o=choose(rng, ("my", "my", "our", "the")), k=key, v=value)
    fact = fact[0].upper() + fact[1:] if not fact.startswith(value) else fact
    said = [argument(rng, "key|name|label|what|title|field|topic", key), argument(rng, "value|content|data|text|info", value)]  # fmt: skip
    names = "save_fact|remember|store_value|keep|memorize|memory_add|set_fact|store|notebook|add_fact|save_memory|write_down|key_value_set"
    left = [argument(rng, "category|tags|expires|folder", None)] if rng.random() < 0.3 else []
    return assembled(rng, names, choose(rng, ("Keep a fact under a name.", "Remember something for the user.", "Store a value for later.", "Save a key with its value.")), said, left, phrased(rng, _told(rng, split, fact)), spare=False)  # fmt: skip


_FOR = lines("""
[Note|Memo|A note|Message|Reminder|New note] for {s}: {t}{u}
[Note|Comment|Remark|Add a note] [on|to] {s}: {t}{u}
For {s}: {t}{u}
{s} - note: {t}{u}
[Leave|Write|Add|Put down] a [note|memo|line] for {s}: {t}{u}
[Write|Note|Put] [in|into] the file of {s}: {t}{u}
~A word for {s}: {t}{u}
""")
_URGENT = " (urgent)| (urgent!)|, urgent|, it's urgent|. It's urgent!|. Urgent!| (this is urgent)|, very urgent| - urgent".split("|")  # fmt: skip
_CALM = " (not urgent)|, not urgent|, no hurry| (no rush)|. It's not urgent.| - no hurry".split("|")


def noted(rng: Random, split: Split) -> Offer:
    """Leave a note for somebody or on something, at times one that is urgent."""
    found = subject(rng, split, choose(rng, ("person", "person", "code", "numbered", "room", "goods")))
    text = re.sub(" +", " ", parts.prose(rng))
    kind = rng.random()
    urgent = None if kind < 0.45 else kind < 0.85
    mark = "" if urgent is None else choose(rng, _URGENT if urgent else _CALM)
    if urgent is None and rng.random() < 0.4:
        quote = choose(rng, ('"{}"', "'{}'" if "'" not in text else '"{}"', "“{}”"))
        shown = quote.format(text)
    else:
        shown = text
    ask = expand(rng, wording(rng, _FOR, split), s=found.said, t=shown, u=mark)
    said = [argument(rng, found.names, found.value, found.schema), argument(rng, "text|note|message|content|body|memo", text)]  # fmt: skip
    flag = argument(rng, "urgent|important|high_priority|is_urgent|pressing", urgent, BOOL)
    if urgent is not None:
        said.append(flag)
    left = [flag] if urgent is None and rng.random() < 0.6 else []
    names = f"add_note|leave_note|note_for|write_note|{found.noun}_note|create_note|attach_note|add_comment|memo"
    made = assembled(rng, names, f"Leave a note {choose(rng, ('for', 'on'))} a {found.noun}.", said, left, phrased(rng, ask, after=False), spare=False)  # fmt: skip
    if made.ask[-1] in "?" and text[-1] != "?":
        made.ask = made.ask[:-1]
    return made


def whole(rng: Random, split: Split) -> Offer:
    """Tell something in a sentence, which a tool keeps as it is said."""
    text = re.sub(" +", " ", parts.prose(rng))
    kind = rng.random()
    front = expand(rng, "[Note|Write down|Jot down|Note to self|Save|Keep|Log|New note|Take a note|Remember|Make a note|Journal|Diary entry|Idea|Note this|Save this note|Please note|Write in my diary|Put in my notes][:|:|:| -]")  # fmt: skip
    if kind < 0.45:
        ask = f"{front} {text}"
    elif kind < 0.7:
        quote = choose(rng, ('"{}"', "“{}”", "'{}'" if "'" not in text else '"{}"'))
        ask = expand(rng, "[{q}. {w}|{f} {q}|{w}: {q}|{q} - {w}]", q=quote.format(text), f=front, w=choose(rng, ("Write that down", "Note that", "Keep that", "Save that as a note", "Put that in my notes", "Log that")))  # fmt: skip
    else:
        ask = f"{text}{choose(rng, ('. ', ' - ', '; '))}{choose(rng, ('Write that down', 'Note that', 'Keep that', 'Save that as a note', 'Put that in my notes', 'Log that', 'Make a note of that', 'Write this down, please', 'Remember that'))}"
    names = "add_note|save_note|write_note|note|take_note|journal|diary_add|notes_append|new_note|memo_add|log_entry|remember"
    left: list[Argument] = []
    for key in rng.sample(("tags", "folder", "pinned", "title", "date", "color"), choose(rng, (0, 0, 1, 2))):
        left.append(argument(rng, key, None, BOOL if key == "pinned" else TEXT))
    return assembled(rng, names, choose(rng, ("Save a note.", "Write something down.", "Add a line to the notes.", "Keep a text for the user.")), [argument(rng, "text|note|content|body|entry|message", text)], left, phrased(rng, ask, after=False, before=False), spare=False)  # fmt: skip


Maker = Callable[[Random, Split], Offer]
MAKERS: tuple[Maker, ...] = (measured, measured, measured, pairs, pairs, noted, noted, whole)


def kept(rng: Random, split: Split) -> Offer:
    """Define a tool that keeps what it is told, and tell it something."""
    return choose(rng, MAKERS)(rng, split)
