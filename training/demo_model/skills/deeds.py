"""What people tell in sentences put together from parts: who does what, with whom, where and when.

The lists of ``attributes`` hold whole sentences; here subject, tense, verb, object and the rest are drawn one by one, and
the questions are made from the same parts, so that a model learns how questions go with statements, not which ones do.
"""

# ruff: noqa: E501, PLR0911, PLR0917, SIM905 - phrases read best unbroken

from dataclasses import dataclass
from random import Random

from demo_model.skills import things, values
from demo_model.skills.recall import Known
from demo_model.skills.scenes import DRINKS, FOODS, Somebody, people, person, place, when, within, yours
from demo_model.text import ADJECTIVES, CITIES, NOUNS, Split, choose, coin, expand, lines, pick

# base past ing ; kinds of object ; what may be told besides (w: with whom, p: where, t: when, c: for how much, o: to whom, f: from whom)
DEEDS = lines("""
meet met meeting ; person ; wpt
visit visited visiting ; person place ; wt
call called calling ; person ; pt
see saw seeing ; person title band ; wpt
invite invited inviting ; person ; pt
help helped helping ; person ; pt
interview interviewed interviewing ; person ; pt
pick+up picked+up picking+up ; person thing ; pt
buy bought buying ; thing count ; ptcw
sell sold selling ; thing count ; ptco
order ordered ordering ; thing food ; ptc
rent rented renting ; thing ; ptcw
repair repaired repairing ; thing ; pt
paint painted painting ; thing ; ptw
build built building ; thing ; ptw
cook cooked cooking ; food ; ptw
eat ate eating ; food ; ptw
have had having ; food ; pwt
bake baked baking ; food ; tw
drink drank drinking ; drink ; ptw
read read reading ; title ; pt
watch watched watching ; title ; ptw
write wrote writing ; title ; pt
give gave giving ; thing count money ; ot
lend lent lending ; thing money ; ot
send sent sending ; thing count ; ot
show showed showing ; thing ; ot
bring brought bringing ; thing food ; ot
pay paid paying ; money ; ot
owe owed owing ; money ; o
hide hid hiding ; thing ; pt
lose lost losing ; thing ; pt
find found finding ; thing ; pt
forget forgot forgetting ; thing ; p
plant planted planting ; count thing ; pt
collect collected collecting ; thing count ; pt
study studied studying ; subject ; ptw
learn learned learning ; subject ; ptw
teach taught teaching ; subject ; pt
play played playing ; sport ; ptw
practise practised practising ; sport ; ptw
travel travelled travelling ; to ; wt
fly flew flying ; to ; wt
go went going ; to ; wt
drive drove driving ; to ; wt
move moved moving ; to ; wt
walk walked walking ; to ; wt
cycle cycled cycling ; to ; wt
stay stayed staying ; in ; wt
live lived living ; in ; w
work worked working ; in ; wt
wait waited waiting ; in ; t
sleep slept sleeping ; in ; wt
start started starting ; event ; pt
finish finished finishing ; event ; t
join joined joining ; event ; wpt
plan planned planning ; event ; wpt
miss missed missing ; event ; t
book booked booking ; event thing ; tcp
win won winning ; thing money ; pt
cancel cancelled cancelling ; event ; t
try tried trying ; food sport ; pwt
climb climbed climbing ; peak ; wt
hike+up hiked+up hiking+up ; peak ; wt
listen+to listened+to listening+to ; band ; pwt
attend attended attending ; event ; wpt
borrow borrowed borrowing ; thing money ; tf
get got getting ; thing count ; ptf
inherit inherited inheriting ; thing money ; f
break broke breaking ; thing ; pt
hire hired hiring ; person ; t
thank thanked thanking ; person ; pt
clean cleaned cleaning ; thing ; pt
fix fixed fixing ; thing ; pwt
carry carried carrying ; thing ; pw
translate translated translating ; title ; pt
record recorded recording ; title ; wpt
""")
EVENTS = "school|a course|a new job|the meeting|the party|a concert|a workshop|the game|a picnic|the wedding|yoga|training|a language class|the interview|the race|a hike|the book club|an internship|the exam|the choir|a dance class|university|the play|a cruise|the conference".split("|")  # fmt: skip
SUBJECTS = "physics law history biology art chemistry maths design geography Spanish German French Japanese Italian Polish cooking drawing pottery programming swimming dancing Dutch Turkish Welsh medicine".split()
SPORTS = "tennis|chess|the piano|the guitar|football|golf|cards|the violin|hockey|the flute|basketball|the drums|volleyball|poker|the harp|badminton|rugby|the trumpet".split("|")  # fmt: skip


def _thing(rng: Random) -> str:
    noun = choose(rng, (choose(rng, NOUNS), choose(rng, NOUNS), coin(rng)))
    said = f"{choose(rng, ADJECTIVES)} {noun}" if rng.random() < 0.3 else noun
    return f"{'an' if said[0] in 'aeiou' else 'a'} {said}"


def _object(rng: Random, split: Split, kind: str) -> str:
    """Draw what is done something to, as it is told."""
    if kind == "person":
        return person(rng, split)
    if kind in ("to", "in", "place"):
        return place(rng, split, kind) if kind != "place" else pick(rng, CITIES, split)
    if kind == "count":
        amount = rng.randint(2, 99)
        return f"{values.spoken(amount) if rng.random() < 0.3 else amount} {things.goods(rng, plural=True)}"
    if kind == "money":
        return f"{rng.randint(2, 999)} {choose(rng, ('euros', 'dollars', 'pounds', 'francs', 'bucks'))}"
    if kind == "title":
        return (
            values.title(rng)
            if rng.random() < 0.5
            else f"{choose(rng, ('The ', ''))}{choose(rng, ADJECTIVES).capitalize()} {choose(rng, NOUNS).capitalize()}"
        )
    if kind == "thing":
        return _thing(rng)
    if kind == "peak":
        return f"{choose(rng, ('Mount', 'Ben', 'Monte', 'Pico', 'the'))} {coin(rng, 2).capitalize()}"
    if kind == "band":
        return expand(rng, "[the {a} {n}s|{c}|{A} {n}|{c} and the {n}s|The {n}s]", a=choose(rng, ADJECTIVES).capitalize(), A=choose(rng, ADJECTIVES).capitalize(), n=choose(rng, NOUNS).capitalize(), c=coin(rng, 2).capitalize())  # fmt: skip
    return choose(rng, {"food": FOODS, "drink": DRINKS, "subject": SUBJECTS, "sport": SPORTS, "event": EVENTS}[kind])


# How a verb is told and asked: what stands after the subject in either; {b} base, {p} past, {i} -ing.
TENSES = {
    "past": [("{p}", "did", "{b}"), ("{p}", "did", "{b}"), ("have {p}", "have", "{p}")],
    "later": [
        ("will {b}", "will", "{b}"), ("am going to {b}", "am", "going to {b}"), ("am {i}", "am", "{i}"),
        ("want to {b}", "do", "want to {b}"), ("have to {b}", "do", "have to {b}"), ("plan to {b}", "do", "plan to {b}"),
    ],
}  # fmt: skip
_THIRD = {"have": "has", "am": "is", "want": "wants", "plan": "plans", "do": "does"}
_PLURAL = {"am": "are"}


def _agreed(text: str, who: Somebody, spoken_of: str) -> str:
    """Make a verb agree with its subject, of which ``spoken_of`` is how it is said here."""
    first, _, rest = text.partition(" ")
    first = (_THIRD if who.third else _PLURAL if spoken_of != "I" else {}).get(first, first)
    return f"{first} {rest}".strip()


@dataclass(slots=True)
class Deed:
    """Something somebody does: the statement, and what is asked and answered about each part of it."""

    clause: str
    parts: dict[str, str]
    asks: dict[str, list[str]]
    answers: dict[str, str]

    def known(self, role: str) -> Known:
        """Return one part as a thing to be asked for."""
        return Known(role + self.clause, self.clause, tuple(self.asks[role]), self.answers[role], self.parts[role], (self.clause,), "", "", "")  # fmt: skip


def _tenses(tense: str, past: str, who: Somebody) -> list[tuple[str, str, str]]:
    """Return the ways to tell and to ask that fit a verb and who does it."""
    # Forms like "have gone" differ from the past for some verbs, so only those are used that are alike.
    perfect = past.endswith("ed") or past in ("met", "bought", "sold", "built", "found", "lost", "paid", "sent", "lent")
    # "I want to order a pizza" asks for something.
    return [one for one in TENSES[tense] if (perfect or one[0] != "have {p}") and (who.third or "want" not in one[0])]


def _circumstances(rng: Random, split: Split, tense: str, roles: list[str], taken: list[str]) -> dict[str, str]:
    """Draw with whom, where, when, for how much and to whom, each with words that nothing else has."""
    found: dict[str, str] = {}
    for role in roles:
        match role:
            case "w" | "o" | "f":
                value = f"{ {'w': 'with', 'o': 'to', 'f': 'from'}[role] } {person(rng, split)}"
            case "p":
                value = place(rng, split)
            case "t":
                value = when(rng, tense == "past")
            case _:
                value = f"for {rng.randint(1, 999)} {choose(rng, ('euros', 'dollars', 'pounds'))}"
        if not any(within(value, other) for other in (*found.values(), *taken)):
            found[role] = value
    return found


def deed(rng: Random, split: Split, who: Somebody, line: str, tense: str, kind: str, most: int) -> Deed:
    """Draw what somebody does, and up to ``most`` circumstances of it."""
    forms, _, roles = line.split(" ; ")
    base, past, doing = (form.replace("+", " ") for form in forms.split(" "))
    mine = who.third and "o" in roles and kind != "count" and rng.random() < 0.5
    verb = {key: f"{form} me" if mine else form for key, form in zip("bpi", (base, past, doing), strict=True)}
    roles = "t" if mine else roles
    kinds = _tenses(tense, past, who)
    told, aux, main = choose(rng, kinds)
    said, aux, main = (told, aux, main) if rng.random() < 0.6 else choose(rng, kinds)
    what = _object(rng, split, kind)
    chosen = rng.sample(roles, min(len(roles), most))
    parts = {"object": what, **_circumstances(rng, split, tense, chosen, [what, who.told])}
    rest = [parts[role] for role in parts if role != "object"]
    clause = " ".join([who.told, _agreed(told.format(**verb), who, who.told), what, *rest])
    if len(rest) == 1 and "o" in parts and rng.random() < 0.6:
        # "I owe Bob ten euros"
        parts["o"] = parts["o"].removeprefix("to ")
        clause = " ".join([who.told, _agreed(told.format(**verb), who, who.told), parts["o"], what])
    if "t" in parts and rng.random() < 0.2 and len(parts["t"]) > 4:
        others = [value for value in rest if value != parts["t"]]
        clause = " ".join([parts["t"], who.told, _agreed(told.format(**verb), who, who.told), what, *others])
    if told.startswith("am ") and who.told == "I" and rng.random() < 0.6:
        clause = clause.replace("I am ", "I'm ", 1)
    question = f"{_agreed(aux, who, who.asked)} {who.asked} {main.format(**verb)}"
    finite = _agreed(said.format(**verb), who, who.asked)
    asks, answers = _questions(rng, kind, question, f"{who.asked} {finite}", what, parts)
    done = yours(_agreed(said.format(**verb), who, who.answer))
    answers["object"] = f"{who.answer[0].upper() + who.answer[1:]} {done} {yours(what)}."
    if who.third and kind not in ("money", "person"):
        parts["who"] = who.told
        asks["who"] = [f"who {finite} {_the(what)}", f"who {'was' if tense == 'past' else 'is'} it that {finite} {_the(what)}", f"tell me who {finite} {_the(what)}", f"which person {finite} {_the(what)}", f"do you remember who {finite} {_the(what)}"]  # fmt: skip
        answers["who"] = f"It {'was' if tense == 'past' else 'is'} {yours(who.told)}."
    return Deed(clause, parts, asks, answers)


def _the(what: str) -> str:
    """Say a thing that was told of before: "a lamp" becomes "the lamp"."""
    first, _, rest = what.partition(" ")
    return f"the {rest}" if first in ("a", "an") else what


_INDIRECT = ("tell me", "do you remember", "can you tell me", "do you know", "remind me", "please say", "what did I say,", "did I say", "I forgot")  # fmt: skip


def _questions(
    rng: Random, kind: str, question: str, indirect: str, what: str, parts: dict[str, str]
) -> tuple[dict[str, list[str]], dict[str, str]]:
    """Make the questions for the parts of a deed, and the answers where they are the part itself."""
    object_ = "" if kind == "money" else f" {_the(what)}"
    word = {"person": "who", "to": "where", "in": "where", "money": "how much", "place": "which city"}.get(kind, "what")
    more = {"to": [f"to which place {question}", f"where {question} to"], "in": [f"in which place {question}", f"at what place {question}"], "person": [f"whom {question}", f"which person {question}"], "money": [f"how much money {question}", f"what amount {question}"],
            "food": [f"what food {question}", f"which dish {question}"], "drink": [f"which drink {question}"], "title": [f"which title {question}"], "thing": [f"which thing {question}"], "subject": [f"which subject {question}"], "sport": [f"which game or instrument {question}"], "event": [f"which thing {question}"], "count": [f"which things {question}"], "place": [f"what city {question}"],
            "peak": [f"which mountain {question}", f"what mountain {question}"], "band": [f"which band {question}", f"what band {question}"]}[kind]  # fmt: skip
    asks = {"object": [f"{word} {question}", f"{word} {question}", f"{choose(rng, _INDIRECT)} {word} {indirect}", *more]}  # fmt: skip
    if kind == "title" and ("read" in question or "watch" in question):
        noun = choose(rng, ("book", "novel") if "read" in question else ("film", "movie"))
        asks["object"] += [f"which {noun} {question}", f"what {noun} {question}"]
    if kind in ("to", "in") and what.split(" ", 1)[1] in CITIES:
        end = " to" if kind == "to" else " in"
        asks["object"] += [f"which city {question}{end}", f"what city {question}{end}"]
    if kind == "count":
        goods = what.split(" ", 1)[1]
        asks["object"] += [f"how many {goods} {question}"] * 3
    ways = {"w": ["who {q} with", "with whom {q}", "who {q} together with", "in whose company {q}"],
            "o": ["who {q} to", "to whom {q}", "which person {q} to"],
            "f": ["who {q} from", "from whom {q}", "which person {q} from"],
            "p": ["where {q}", "where {q}", "at what place {q}", "in which place {q}"],
            "c": ["for how much {q}", "how much {q} for", "at what price {q}", "for what price {q}"],
            "t": ["when {q}", "when {q}", "what time {q}" if parts.get("t", "").startswith("at ") else "on which day {q}" if parts.get("t", "").startswith("on ") else "when exactly {q}"]}  # fmt: skip
    if "t" in parts and parts["t"].startswith("in ") and parts["t"][3:] in values.MONTHS:
        ways["t"].append("in which month {q}")
    answers = {}
    for role, value in parts.items():
        if role != "object":
            about = object_ or f" {choose(rng, ('money', 'something', 'it'))}"
            asks[role] = [way.format(q=question + about) for way in ways[role]]
            if role != "c":
                asks[role].append(f"{choose(rng, _INDIRECT)} {ways[role][0].format(q=indirect + about)}")
            answers[role] = yours(value[0].upper() + value[1:]) + "."
    return asks, answers


def known(rng: Random, split: Split) -> list[Known]:
    """Make one deed with several parts, or the like of two or three people, and choose what may be asked for."""
    line = pick(rng, DEEDS, split)
    tense = choose(rng, ("past", "later"))
    kind = choose(rng, line.split(" ; ")[1].split(" "))
    amount = choose(rng, (1, 1, 1, 2, 2, 3))
    made: list[Deed] = []
    for who in people(rng, split, amount):
        for _ in range(4):
            one = deed(rng, split, who, line, tense, kind, choose(rng, (0, 1) if amount > 1 else (1, 2, 3)))
            said = [value for other in made for value in (*other.parts.values(), other.clause)]
            if not any(within(value, other) for value in one.parts.values() for other in said):
                made.append(one)
                break
    return [one.known(choose(rng, list(one.parts))) for one in made] if amount > 1 else _several(rng, made[0])


def _several(rng: Random, one: Deed) -> list[Known]:
    roles = [role for role in one.parts if role != "who"] or ["object"]
    return [one.known(role) for role in rng.sample(roles, rng.randint(1, len(roles)))]
