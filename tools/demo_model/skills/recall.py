"""Remembering what people tell about themselves: several things at once, corrected later, across anybody's replies.

A line of ``FACTS`` is ``what it is ; kind of value ; how people tell it ; how they ask ; the answer``.
"""

# ruff: noqa: E501, SIM905 - phrases read best unbroken

from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from tools.demo_model.exchange import Exchange, assistant, user
from tools.demo_model.skills.memory import some_name
from tools.demo_model.template import Message, Tool
from tools.demo_model.text import (
    ADJECTIVES,
    CITIES,
    NOUNS,
    Split,
    choose,
    coin,
    expand,
    lines,
    pick,
    scramble,
    sentence,
)

MONTHS = "January February March April May June July August September October November December".split()
ANIMALS = "dog cat horse rabbit parrot hamster goat turtle".split()
JOBS = "teacher baker nurse engineer pilot farmer writer painter doctor cook gardener carpenter driver lawyer designer plumber".split()
LIKES = "plums|pizza|chess|hiking|jazz|tea|coffee|football|old films|swimming|cheese|trains|gardening|reading|apples|the sea|snow|cycling|sushi|painting".split(
    "|"
)


def _date(rng: Random) -> str:
    day, month = rng.randint(1, 28), choose(rng, MONTHS)
    return choose(
        rng,
        (
            f"{month} {day}",
            f"{day} {month}",
            f"{month} {day}, {rng.randint(1950, 2030)}",
            f"{rng.randint(1990, 2030)}-{rng.randint(1, 12):02}-{day:02}",
            f"the {day}th of {month}" if 3 < day < 21 else f"{day} {month}",
        ),
    )


VALUES: dict[str, Callable[[Random, Split], str]] = {
    "name": some_name,
    "age": lambda rng, split: str(rng.randint(5, 99)),
    "city": lambda rng, split: pick(rng, CITIES, split) if rng.random() < 0.85 else coin(rng, 2).capitalize(),
    "date": lambda rng, split: _date(rng),
    "job": lambda rng, split: choose(rng, JOBS),
    "like": lambda rng, split: choose(rng, LIKES) if rng.random() < 0.7 else f"{choose(rng, NOUNS)}s",
    "colour": lambda rng, split: choose(rng, "red green blue yellow black white orange purple pink brown grey".split()),
    "number": lambda rng, split: str(rng.randint(0, 10 ** rng.randint(1, 7))),
    "word": lambda rng, split: choose(rng, (choose(rng, NOUNS), coin(rng), scramble(rng), f"{choose(rng, ADJECTIVES)} {choose(rng, NOUNS)}")),
    "thing": lambda rng, split: choose(rng, (choose(rng, NOUNS), f"{choose(rng, ADJECTIVES)} {choose(rng, NOUNS)}")),
    "code": lambda rng, split: "".join(choose(rng, "ABCDEFGHJKLMNPQRSTUVWXYZ23456789") for _ in range(rng.randint(3, 8))),
    "clock": lambda rng, split: choose(rng, (f"{rng.randint(0, 23)}:{choose(rng, (0, 15, 30, 45)):02}", f"{rng.randint(1, 12)} {choose(rng, ('am', 'pm'))}")),
}  # fmt: skip

FACTS = lines("""
name ; name ; my name is {v}|I'm {v}|I am {v}|I'm called {v}|my name's {v}|call me {v}|people call me {v} ; what's my name|what is my name|who am I|what am I called|do you remember my name|can you tell me my name|what did I say my name was|what do people call me|tell me my name|my name please|do you still know who I am|and who am I|~so who is talking to you|~say my name again ; Your name is {v}.
age ; age ; I am {v} years old|I'm {v}|my age is {v}|I turned {v}|I'm {v} years old|I was {v} on my last birthday ; how old am I|what is my age|what's my age|do you remember how old I am|tell me my age|my age|how many years old am I|~what age did I say I was|~do you know how many years I have ; You are {v} years old.
city ; city ; I live in {v}|my home is in {v}|I moved to {v}|my city is {v}|I have a flat in {v}|home for me is {v} ; where do I live|which city do I live in|in which city is my home|what city am I in|do you remember where I live|where is my home|which town do I live in|tell me where I live|~in what place is my flat|~my home is where ; You live in {v}.
origin ; city ; I come from {v}|I'm from {v}|I am from {v}|I was born in {v}|I grew up in {v} ; where am I from|where do I come from|which city do I come from|where was I born|do you remember where I'm from|where did I grow up|tell me where I come from|~what is the place of my birth|~from which place am I ; You are from {v}.
birthday ; date ; my birthday is on {v}|my birthday is {v}|I was born on {v}|I celebrate my birthday on {v} ; when is my birthday|when's my birthday|what is my birthday|on which day is my birthday|when was I born|do you remember my birthday|what date is my birthday|tell me my birthday|~when do I celebrate|~which day should you congratulate me ; Your birthday is {v}.
job ; job ; I work as a {v}|I'm a {v}|I am a {v} by trade|my job is {v}|I earn my money as a {v} ; what do I do for a living|what is my job|what's my job|what do I work as|do you remember my job|what is my profession|tell me my job|what am I by trade|~how do I earn my money|~what kind of work do I do ; You work as a {v}.
like ; like ; I like {v}|I love {v}|I really enjoy {v}|I'm fond of {v}|I'm a fan of {v}|what I like most is {v} ; what do I like|what do I love|do you remember what I like|what do I enjoy|tell me what I like|what am I fond of|what did I say I like|~what makes me happy|~which thing am I a fan of ; You like {v}.
dislike ; like ; I hate {v}|I don't like {v}|I can't stand {v}|I dislike {v}|I'm allergic to {v} ; what do I hate|what don't I like|what do I dislike|what can't I stand|do you remember what I don't like|what do I not like|~what should nobody give me|~which thing do I avoid ; You don't like {v}.
dog ; name ; my {k} is called {v}|my {k}'s name is {v}|I have a {k} named {v}|I have a {k} called {v}|I've got a {k}, {v}|the name of my {k} is {v} ; what is my {k}'s name|what's my {k} called|what is my {k} called|what is the name of my {k}|do you remember my {k}'s name|how is my {k} called|tell me my {k}'s name|who is my {k}|what did I call my {k}|~what name does my {k} have|~which name did I give my {k} ; Your {k} is called {v}.
relative ; name ; my {k} is called {v}|my {k}'s name is {v}|I have a {k} named {v}|the name of my {k} is {v}|{v} is my {k} ; what is my {k}'s name|what's my {k} called|what is my {k} called|what is the name of my {k}|do you remember my {k}'s name|how is my {k} called|tell me my {k}'s name|who is my {k}|~what name does my {k} have|~which name did I say for my {k} ; Your {k} is called {v}.
colour ; colour ; my favourite colour is {v}|my favorite color is {v}|I like the colour {v} best|the colour I like most is {v} ; what is my favourite colour|what's my favorite color|which colour do I like best|which color do I like most|do you remember my favourite colour|tell me my favourite colour|~what colour should I paint my room in|~the colour I prefer is ; Your favourite colour is {v}.
lucky ; number ; my lucky number is {v}|my favourite number is {v}|{v} is my lucky number ; what is my lucky number|what's my lucky number|which number is my lucky one|what is my favourite number|do you remember my lucky number|tell me my lucky number|~which number brings me luck|~what number do I like ; Your lucky number is {v}.
code ; code ; my code is {v}|the code is {v}|my booking code is {v}|the door code is {v}|remember the code {v}|keep the code {v} for me ; what is the code|what's my code|what was the code|which code did I give you|do you remember the code|tell me the code|what code should you keep|can you repeat the code|~say that code once more|~I forgot the code, what was it ; The code is {v}.
word ; word ; the secret word is {v}|remember the word {v}|the magic word is {v}|my word is {v}|the word to remember is {v} ; what is the secret word|what's the word|which word did I tell you|what was the word|do you remember the word|tell me the word|what word should you remember|~say that word once more|~I forgot the word, what was it ; The word is {v}.
meeting ; date ; my meeting is on {v}|I have a meeting on {v}|the meeting is on {v}|we meet on {v}|my appointment is on {v} ; when is my meeting|when is the meeting|on which day is my meeting|what day is the meeting|do you remember when we meet|when do we meet|what is the date of the meeting|when is my appointment|~which day must I keep free|~the meeting takes place when ; The meeting is on {v}.
train ; clock ; my train leaves at {v}|the train goes at {v}|I take the train at {v}|my train is at {v} ; when does my train leave|what time is my train|when is my train|at what time does the train go|do you remember when my train leaves|tell me when my train leaves|~by when must I be at the station|~how late is my train ; Your train leaves at {v}.
own ; thing ; my {k} is a {v}|the {k} I have is a {v}|for {k} I have a {v}|my {k} was a {v} ; what is my {k}|what's my {k}|which {k} do I have|do you remember my {k}|tell me what my {k} is|what did I say about my {k}|~what do I have for {k}|~my {k} was what ; Your {k} is a {v}.
""")
OTHERS = lines("""
home ; city ; {w} lives in {v}|{w} has moved to {v}|{w}'s home is in {v}|my friend {w} lives in {v}|my sister {w} lives in {v} ; where does {w} live|which city does {w} live in|where is {w}'s home|do you remember where {w} lives|~in what town is {w} ; {w} lives in {v}.
taste ; like ; {w} likes {v}|{w} loves {v}|my friend {w} likes {v}|{w} is fond of {v} ; what does {w} like|what does {w} love|do you remember what {w} likes|what is {w} fond of|~what would please {w} ; {w} likes {v}.
work ; job ; {w} is a {v}|{w} works as a {v}|my neighbour {w} is a {v} ; what does {w} do|what is {w}'s job|what does {w} do for a living|what does {w} work as|~how does {w} earn money ; {w} works as a {v}.
years ; age ; {w} is {v} years old|{w} is {v}|{w} turned {v} ; how old is {w}|what is {w}'s age|do you remember how old {w} is|~what age has {w} ; {w} is {v} years old.
""")
RELATIVES = "sister|brother|mother|father|wife|husband|son|daughter|boss|friend|aunt|uncle|neighbour|teacher|best friend|partner".split(
    "|"
)
OWNED = "car|project|hobby|present|costume|first toy|instrument|book|new game|team|plan".split("|")

# What other models say: nothing to learn from, but what a conversation may have in it.
REPLIES = lines("""
[Got it|Understood|Noted|Sure|Okay|Of course|Great|Thanks for telling me|Thank you for sharing|Perfect|Alright][!|.][ I'll keep that in mind.| I will remember that.| What else can I do for you?| How can I help you today?| Let me know if you need anything.|]
[That's|That is|This is|How] [wonderful|great|interesting|lovely|good to know|nice to hear|a great choice|fascinating][!|.][ Tell me more!| What would you like to talk about?| Is there anything else?|]
[Nice|Great|Lovely] to meet you[!|.] [How can I assist you today?|What can I do for you?|😊|What brings you here?]
[I'm|I am] [sorry|afraid|glad|happy|not sure], [but I can't help with that|{s}|that I can help|I did not understand]. [Could you rephrase that?|{s}|]
{s}
{s} {t}
{s} {t} {u}
[Here are|These are] some [ideas|thoughts|suggestions]:\\n\\n1. {s}\\n2. {t}\\n3. {u}
[As an AI|As a language model], I [don't have feelings|can't do that|have no opinions], but {s}
**{n}**: {s}\\n- {t}\\n- {u}
[Did you know?|Fun fact:|Well,|Honestly,|Hmm,] {s} {t}
[Sure thing|Certainly|Absolutely]! {s} [What do you think?|Does that help?|Shall we go on?]
""")
TALK = lines("""
[{s}|{s} {t}|What do you think about {n}s?|Tell me about the {n}.|I saw a {a} {n} today.|Do you like {n}s?|My {n} is {a}.|How do I fix a {n}?|What should I do with my {n}?|Give me an idea for the weekend.|I'm a bit {a} today.|Isn't that {a}?|Why is my {n} so {a}?|ok|cool|thanks|and then?|Can you explain that?|haha|nice|really?|go on]
""")


@dataclass(frozen=True, slots=True)
class Known:
    """One thing told: its key, what the user says, how it is asked for, the answer, and how it is corrected."""

    key: str
    clause: str
    asks: tuple[str, ...]
    answer: str
    value: str
    clauses: tuple[str, ...]


def _chosen(rng: Random, asks: tuple[str, ...], split: Split) -> str:
    held = [ask[1:] for ask in asks if ask.startswith("~")]
    return choose(rng, held) if split == "held" else choose(rng, [ask for ask in asks if not ask.startswith("~")])


def thing(rng: Random, split: Split, line: str) -> Known:
    """Draw a value for one line of the lists above."""
    key, kind, clauses, asks, answer = line.split(" ; ")
    word = choose(rng, ANIMALS if key == "dog" else RELATIVES if key == "relative" else OWNED)
    other, value = some_name(rng, split), VALUES[kind](rng, split)
    if kind == "job" and value[0] in "aeio":
        value = "baker"  # "a engineer" would be wrong

    def filled(text: str) -> str:
        return text.replace("{k}", word).replace("{w}", other).replace("{v}", value)

    told = tuple(filled(clause) for clause in clauses.split("|"))
    if "{k}" in clauses:
        key = word
    if "{w}" in clauses:
        key = f"{key} {other}"
    return Known(key, choose(rng, told), tuple(filled(ask) for ask in asks.split("|")), filled(answer), value, told)


def things(rng: Random, split: Split, amount: int) -> list[Known]:
    """Draw several things with keys of their own."""
    found: dict[str, Known] = {}
    while len(found) < amount:
        made = thing(rng, split, choose(rng, FACTS if rng.random() < 0.8 else OTHERS))
        # "My cat is called X" and "my cat is a Y" would be two answers to "who is my cat?"; names must differ, too.
        if made.value not in {known.value for known in found.values()}:
            found.setdefault(made.key, made)
    return list(found.values())


def told(rng: Random, clauses: list[str]) -> str:
    """Write what the user says: the clauses as one sentence or as several."""
    if len(clauses) == 1:
        text = clauses[0]
    elif rng.random() < 0.5:
        text = ", ".join(clauses[:-1]) + choose(rng, (" and ", ", and ", ", ")) + clauses[-1]
    else:
        text = ". ".join(clause[0].upper() + clause[1:] for clause in clauses)
    lead = expand(
        rng,
        "[Hi, |Hello! |Hey, |By the way, |Just so you know, |Please remember: |FYI, |So, |Well, |Remember this: |Note that |Also, ||||||||||]",
    )
    text = lead + (text if lead else choose(rng, (text[0].upper(), text[0].upper(), text[0])) + text[1:])
    return text + choose(rng, (".", ".", "", "!"))


def foreign(rng: Random) -> Message:
    """Make a reply of another model; it is read, not learnt."""
    text = expand(
        rng,
        choose(rng, REPLIES).replace("\\n", "\n"),
        s=sentence(rng),
        t=sentence(rng),
        u=sentence(rng),
        n=choose(rng, NOUNS),
    )
    return {"role": "assistant", "content": text, "learn": False}


def _reply(rng: Random, known: list[Known], own: bool) -> Message:
    if not own:
        return foreign(rng)
    name = next((one.value for one in known if one.key == "name"), None)
    return assistant(
        f"Nice to meet you, {name}." if name else "I will remember that.",
        "I should remember " + ", ".join(one.value for one in known) + ".",
    )


def _corrected(rng: Random, split: Split, known: Known, line: str) -> tuple[str, Known] | None:
    """Make a correction of something told; None if a new value can't be told from the old one."""
    fresh = thing(rng, split, line)
    if fresh.value in known.value or known.value in fresh.value:
        return None
    if fresh.key != known.key:
        return None
    text = expand(rng, "[No, it's {v}|Sorry, I meant {v}|No, {v}|Actually, {c}|Wait, {c}|Correction: {c}|I made a mistake, {c}|Not {o}, {v}|No, not {o}: {v}|Oh no, {c}, not {o}][.|!|]",
                  v=fresh.value, c=fresh.clause, o=known.value)  # fmt: skip
    return text, fresh


def _question(rng: Random, split: Split, known: Known) -> list[Message]:
    ask = _chosen(rng, known.asks, split)
    lead = expand(rng, "[And |So, |Now, |OK, |Tell me: |Quick question: |Hey, ||||||||||]")
    ask = (
        lead
        + (ask if lead else choose(rng, (ask[0].upper(), ask[0].upper(), ask[0])) + ask[1:])
        + choose(rng, ("?", "?", "?", ""))
    )
    return [user(ask), assistant(known.answer, f"The user told me earlier: {known.value}.")]


def make(rng: Random, split: Split, between: Callable[[], Exchange]) -> Exchange:
    """Make things told, at times one of them corrected, other talk, and one to three of them asked for."""
    known = things(rng, split, choose(rng, (1, 1, 2, 2, 3, 4)))
    others = rng.random() < 0.55  # the replies are another model's
    at_once = rng.random() < 0.5
    groups = [known] if at_once else [[one] for one in known]
    messages: list[Message] = []
    offered: list[Tool] = []
    for group in groups:
        messages += [user(told(rng, [one.clause for one in group])), _reply(rng, group, own=not others)]
    if len(known) == 1 and rng.random() < 0.35:
        line = next((line for line in FACTS if line.split(" ; ")[0] == known[0].key), None)
        changed = _corrected(rng, split, known[0], line) if line else None
        if changed:
            messages += [user(changed[0]), _reply(rng, [changed[1]], own=not others)]
            known = [changed[1]]
    for _ in range(choose(rng, (0, 1, 1, 2, 3))):
        if others or rng.random() < 0.3:
            talk = expand(
                rng,
                expand(rng, TALK[0]),
                s=sentence(rng),
                t=sentence(rng),
                n=choose(rng, NOUNS),
                a=choose(rng, ADJECTIVES),
            )
            messages += [user(talk), foreign(rng)]
        else:
            other = between()
            messages += other.messages
            offered += other.tools
    asked = rng.sample(known, rng.randint(1, min(3, len(known))))
    for one in asked:
        messages += _question(rng, split, one)
    return Exchange(messages, offered[:4], topic="memory")
