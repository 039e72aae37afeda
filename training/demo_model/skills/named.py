"""Requests to say something back that say what it is: a word, a name, a number, a path, an address, several sentences."""

# ruff: noqa: E501, PLR0911, SIM905 - phrases read best unbroken

from random import Random

from demo_model.skills import deeds, qualities, recall, values
from demo_model.skills.attributes import FACTS
from demo_model.skills.memory import some_name
from demo_model.skills.texts import cried, foreign, particular
from demo_model.text import (
    ADJECTIVES,
    CITIES,
    NOUNS,
    VERBS,
    choose,
    coin,
    common_word,
    expand,
    lines,
    scramble,
    sentence,
)

LABELS = {
    "word": "word|word|single word|one word|English word|magic word|strange word",
    "name": "name|full name|first name|name of my friend",
    "number": "number|figure|digits|value|phone number|number here",
    "path": "path|file path|file name|folder|path here",
    "email": "e-mail address|email address|email|mail address|address|contact address",
    "url": "URL|link|address|web address|website",
    "city": "city|city name|place|place name|town",
    "code": "code|password|identifier|ID|order number|serial number|token|booking code",
    "price": "price|amount|sum of money|price tag",
    "date": "date|day|time|moment",
    "text": "sentence|phrase|line|text|statement|words|following sentence|saying|exact words",
}
_VERBS = "say repeat write type echo print output copy read+out read+aloud tell+me give+me give+back".split()
_LEADS = ("", "", "", "", "please ", "can you ", "could you ", "could you please ", "would you ", "I want you to ", "I'd like you to ", "now ", "just ", "can you please ", "will you ", "you should ", "try to ", "go ahead and ")  # fmt: skip
_TAILS = ("", "", "", "", " please", " for me", " back to me", " again", " to me", " back", " once", " exactly", " now", " and nothing else", ", please", " as it is")  # fmt: skip


def _value(rng: Random, kind: str) -> str:
    match kind:
        case "word":
            word = choose(rng, (common_word(rng), coin(rng), coin(rng, 4), choose(rng, NOUNS)))
            return choose(rng, (word, word, word, word.capitalize(), word.upper()))
        case "name":
            return some_name(rng, "train")
        case "number":
            return choose(rng, (str(rng.randint(0, 10 ** rng.randint(1, 9))), values.spoken(rng.randint(0, 999)), f"{rng.randint(0, 999)}.{rng.randint(0, 99)}", values.figures(rng.randint(1000, 10**6)), str(values.phone(rng)[1])))  # fmt: skip
        case "path":
            return (
                str(values.path(rng)[1])
                if rng.random() < 0.5
                else f"{choose(rng, ('/', './', '~/', 'C:' + chr(92), ''))}{coin(rng)}/{choose(rng, NOUNS)}.{coin(rng, 1)}"
            )
        case "email":
            return f"{choose(rng, (coin(rng), choose(rng, NOUNS), some_name(rng, 'train').split()[0].lower()))}{choose(rng, ('', '.' + coin(rng, 1), '_x', str(rng.randint(1, 99))))}@{choose(rng, ('', 'mail.', ''))}{choose(rng, (coin(rng), choose(rng, NOUNS)))}.{choose(rng, ('com', 'org', 'net', 'de', 'io', 'co.uk'))}"
        case "url":
            return str(values.url(rng)[1])
        case "city":
            return choose(rng, CITIES)
        case "code":
            return choose(rng, (scramble(rng), str(values.code(rng)[1]), f"{coin(rng).upper()}-{rng.randint(1, 9999)}"))
        case "price":
            return values.money(rng, "train")[0]
        case _:
            return str(values.day(rng)[1]) if rng.random() < 0.5 else str(values.clock(rng)[0])


def told(rng: Random) -> str:
    """Write what somebody would tell: said back, it is not to be remembered or answered."""
    kind = rng.random()
    if kind < 0.35:
        text = deeds.known(rng, "train")[0].clause
    elif kind < 0.6:
        text = qualities.known(rng, "train")[0].clause
    else:
        text = recall.thing(rng, "train", choose(rng, FACTS)).clause
    return text if rng.random() < 0.5 else text[0].upper() + text[1:] + choose(rng, (".", ".", "!"))


# Sentences that begin alike, or come back to the same words.
RHYMES = lines("""
{s} {v}. {s} {w}. {s} {x}.
{s} {v}, {s} {w}, {s} {x}
{n} {a}, {n} {b}, {n} {c}
The {n} is {a}. The {m} is {b}. The {o} is {c}.
No {n}, no {m}, no {o}.
{v}, {w}, {x}!
{a} {n}, {b} {n}, {c} {n}
{n} or {m}? {n}! Never {m}.
To {v} or to {w}, to {w} or to {x}.
One {n}. Two {n}s. Three {n}s.
{n}, {n}, {m}, {n}
I {v}, you {v}, we {w}.
First {v}. Then {w}. Then {x} again.
{s} {v} the {n}. {s} {w} the {n}. And {s} {x}.
""")


def rhyme(rng: Random) -> str:
    """Write words that come back, which is where a copy goes astray."""
    text = expand(
        rng, choose(rng, RHYMES), s=choose(rng, ("I", "We", "They", "You", "Never", "Don't", "Always", "Let's", "She can", "He will")),
        v=choose(rng, VERBS), w=choose(rng, VERBS), x=choose(rng, (choose(rng, VERBS), coin(rng))), n=choose(rng, NOUNS), m=choose(rng, NOUNS),
        o=choose(rng, NOUNS), a=choose(rng, ADJECTIVES), b=choose(rng, ADJECTIVES), c=choose(rng, ADJECTIVES),
    )  # fmt: skip
    return text[0].upper() + text[1:] if rng.random() < 0.6 else text


def passage(rng: Random) -> str:
    """Write a text of one to four sentences of any kind."""
    kind = rng.random()
    if kind < 0.3:
        return told(rng)
    if kind < 0.5:
        return rhyme(rng)
    parts = [choose(rng, (sentence, told, cried, sentence, rhyme, particular))(rng) for _ in range(rng.randint(1, 4))]
    if kind > 0.95:
        parts.append(foreign(rng))
    return " ".join(part if part[-1:] in ".!?" else f"{part}." for part in parts)


def asked(rng: Random) -> tuple[str, str]:
    """Put a request together that names what is to be said; return it and the text."""
    kind = choose(rng, list(LABELS)) if rng.random() < 0.6 else "text"
    text = passage(rng) if kind == "text" else _value(rng, kind)
    label = f"{choose(rng, ('the', 'the', 'this', 'the following'))} {choose(rng, LABELS[kind].split('|'))}".replace("following following", "following")  # fmt: skip
    lead, tail = choose(rng, _LEADS), choose(rng, _TAILS)
    order = f"{lead}{choose(rng, _VERBS).replace('+', ' ')} {label}"
    marks = [mark for mark in ('"{}"', "'{}'", "“{}”", "`{}`", "«{}»") if not set(mark) - set("{}") & set(text)]
    if marks and rng.random() < 0.4:
        end = (
            "?"
            if lead.startswith(("can", "could", "would", "will")) and rng.random() < 0.7
            else choose(rng, ("", "", ".", "!"))
        )
        ask = f"{order}{choose(rng, ('', '', ':'))} {choose(rng, marks).format(text)}{tail}{end}"
    elif kind != "text" and " " not in text and text[-1:].isalnum() and rng.random() < 0.5:
        end = "?" if lead.startswith(("can", "could", "would", "will")) else choose(rng, ("", "", "."))
        ask = f"{order} {text}{tail}{end}"
    else:
        ask = (
            f"{order}{tail if rng.random() < 0.5 else ''}{choose(rng, (': ', ': ', ': ', ':' + chr(10), ' - '))}{text}"
        )
    return (ask[0].upper() + ask[1:] if rng.random() < 0.6 else ask), text
