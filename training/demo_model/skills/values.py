"""Values as people say them in a sentence, and as a call must have them.

Text is copied as it stands. Numbers are what they mean: "two dozen" is 24, "$1,250.50" is 1250.5, "an hour and a half"
is 90 minutes.
"""

# ruff: noqa: E501, SIM905 - phrases read best unbroken

from random import Random
from typing import Any

from demo_model.skills.things import surname, titled
from demo_model.text import ADJECTIVES, CITIES, NAMES, NOUNS, Split, choose, coin, expand, lines, pick, sentence

# How people say a value, and how the call has it.
Said = tuple[str, Any]

_UNITS = "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen nineteen".split()
_TENS = "x x twenty thirty forty fifty sixty seventy eighty ninety".split()
MONTHS = "January February March April May June July August September October November December".split()
DAYS = "Monday Tuesday Wednesday Thursday Friday Saturday Sunday".split()


def spoken(value: int) -> str:
    """Write a number from 0 to 999 in English words."""
    if value < 20:
        return _UNITS[value]
    if value < 100:
        return _TENS[value // 10] + (f"-{_UNITS[value % 10]}" if value % 10 else "")
    rest = f" and {spoken(value % 100)}" if value % 100 else ""
    return f"{_UNITS[value // 100]} hundred{rest}"


def shown(rng: Random, value: int, words: float) -> str:
    """Write a number in figures, or with the given chance in words."""
    return spoken(value) if 0 <= value < 1000 and rng.random() < words else str(value)


def figures(value: float) -> str:
    """Write a number with commas between its thousands."""
    return f"{value:,}"


# Amounts that are said in a way of their own: of things, and of time in seconds, minutes and hours.
AMOUNTS = {"a dozen": 12, "half a dozen": 6, "two dozen": 24, "a couple of": 2, "a pair of": 2, "a hundred": 100, "three dozen": 36, "just one": 1, "a single": 1}  # fmt: skip
SPANS: dict[str, dict[str, float]] = {
    "seconds": {"a minute": 60, "half a minute": 30, "two minutes": 120, "2 minutes": 120, "a minute and a half": 90, "5 minutes": 300, "five minutes": 300, "1 minute": 60, "10 minutes": 600, "3 minutes": 180},
    "minutes": {"an hour": 60, "half an hour": 30, "a quarter of an hour": 15, "an hour and a half": 90, "two hours": 120, "2 hours": 120, "1 hour": 60, "three hours": 180, "3 hours": 180, "three quarters of an hour": 45, "one and a half hours": 90, "4 hours": 240},
    "hours": {"an hour": 1, "half an hour": 0.5, "an hour and a half": 1.5, "two and a half hours": 2.5, "a day": 24, "two days": 48, "one and a half hours": 1.5, "three and a half hours": 3.5},
    "days": {"a week": 7, "two weeks": 14, "a day": 1, "a couple of days": 2, "2 weeks": 14, "three weeks": 21, "a fortnight": 14},
}  # fmt: skip


def same(value: Any) -> Said:
    """Say a value as it is."""
    return str(value), value


def count(rng: Random, most: int, things: bool = False) -> Said:
    """Draw a whole number of at least 1, in figures, in words, or as a dozen of ``things``."""
    value = rng.randint(1, most)
    kind = rng.random()
    if things and kind < 0.06:
        return choose(rng, list(AMOUNTS.items()))
    if (value <= 20 and kind < 0.35) or (value < 1000 and kind < 0.16):
        return spoken(value), value
    return (figures(value) if kind < 0.5 else str(value)), value


def span(rng: Random, unit: str, most: int) -> Said:
    """Draw a length of time in a unit: "45 minutes", "ninety seconds", "half an hour"."""
    if rng.random() < 0.2:
        return choose(rng, list(SPANS[unit].items()))
    shown, value = count(rng, most)
    short = {"seconds": "[seconds|seconds|s|sec|secs]", "minutes": "[minutes|minutes|min|mins]", "hours": "[hours|hours|h]", "days": "days"}  # fmt: skip
    return f"{shown} {expand(rng, short[unit]) if value != 1 else unit[:-1]}", value


def decimal(rng: Random, most: float, digits: int = 1) -> Said:
    """Draw a number with or without decimals."""
    value: float = rng.randint(1, int(most)) if rng.random() < 0.4 else round(rng.uniform(0.1, most), digits)
    if value == int(value):
        value = int(value)
    return (figures(value) if value >= 1000 and rng.random() < 0.5 else str(value)), value


def money(rng: Random, split: Split) -> Said:
    """Draw a sum of money, with its currency in the text only."""
    shown, value = decimal(rng, choose(rng, (10, 99, 999, 5000)), 2)
    return expand(rng, "[${v}|${v}|€{v}|£{v}|{v} euros|{v} dollars|{v} EUR|{v} USD|{v} pounds|{v}€|{v} bucks]", v=shown), value  # fmt: skip


def signed(rng: Random, most: int) -> Said:
    """Draw a number that may be below zero."""
    value = rng.randint(-most, most) if rng.random() < 0.7 else round(rng.uniform(-most, most), 1)
    if isinstance(value, int) and rng.random() < 0.12:
        return ("minus " if value < 0 else "") + spoken(abs(value)), value
    return (f"minus {-value}" if value < 0 and rng.random() < 0.3 else str(value)), value


def listed(rng: Random, values: list[str], most: int = 4) -> Said:
    """Draw several of the values, as one says them one after another."""
    chosen = rng.sample(values, rng.randint(2, min(most, len(values))))
    return join(rng, chosen), chosen


def join(rng: Random, parts: list[str]) -> str:
    """Write parts one after another, the last after an "and" or a comma."""
    return ", ".join(parts[:-1]) + choose(rng, (" and ", " and ", ", ", ", and ", " & ")) + parts[-1]


def quoted(rng: Random, text: str) -> Said:
    """Write a text in quotes or without."""
    marks = choose(rng, ('"{}"', '"{}"', "'{}'", "“{}”", "{}", "{}"))
    return ('"{}"' if marks == "'{}'" and "'" in text else marks).format(text), text


def day(rng: Random) -> Said:
    """Draw a date in any form, with its "on" where one is said."""
    kind = rng.randrange(10)
    number, month, year = rng.randint(1, 28), choose(rng, MONTHS), rng.randint(2024, 2031)
    if kind < 3:
        text = f"{year}-{rng.randint(1, 12):02}-{number:02}"
    elif kind == 3:
        text = choose(rng, DAYS)
    elif kind < 6:
        ending = {1: "st", 2: "nd", 3: "rd", 21: "st", 22: "nd", 23: "rd"}.get(number, "th")
        text = expand(rng, "[{m} {d}|{d} {m}|{m} {d}{e}|{d} {m} {y}|{m} {d}, {y}|the {d}{e} of {m}|{s} {d}|{d}{e} {m}]", m=month, s=month[:3], d=number, e=ending, y=year)  # fmt: skip
    elif kind == 6:
        text = expand(rng, "[{d}/{m}/{y}|{d}.{m}.{y}|{m}/{d}/{y}|{d}.{m}.]", d=f"{number:02}", m=f"{rng.randint(1, 12):02}", y=year)  # fmt: skip
    else:
        text = expand(rng, "[tomorrow|today|next {d}|this {d}|next week|the day after tomorrow|tonight|this weekend|tomorrow|next month|this coming {d}|{d} in two weeks|the {d} after next|tomorrow [morning|evening|afternoon]|{d} [morning|evening|afternoon]|next {d} [morning|evening]|{d} the {o}th|the coming {d}|in two days]", d=choose(rng, DAYS), o=rng.randint(4, 20))  # fmt: skip
        return text, text
    return f"on {text}", text


def clock(rng: Random) -> Said:
    """Draw a time of day."""
    return same(
        expand(
            rng,
            "[{h}:{m}|{h}:{m}|{s}|{s} {p}|{s}{p}|{s}:{m} {p}|{s}:{m}{p}|{s} o'clock|noon|midnight|half past {w}|quarter to {w}]",
            h=f"{rng.randint(0, 23):02}" if rng.random() < 0.7 else rng.randint(0, 23),
            m=choose(rng, ("00", "10", "15", "20", "30", "40", "45", "55")),
            s=rng.randint(1, 12),
            p=choose(rng, ("am", "pm", "AM", "PM")),
            w=spoken(rng.randint(1, 12)),
        )
    )


_FOLDERS = "[|||./|/tmp/|/var/log/|~/|~/Documents/|~/Desktop/|src/|data/|/home/{c}/|{n}/{m}/|C:\\Users\\{c}\\|../|/etc/{n}/|{n}/|/{n}/{c}/{m}/|D:\\{n}\\|docs/]"
_STEMS = "[{n}|test_{n}|test_{n}_{m}|{n}_{m}s|{c}|{n}-{k}|{a}_{n}|{N}|{n}{k}|{a}-{n}|{n}_{m}_{k}|{c}.{n}|README|{n}_final|IMG_{k}|my_{n}|{n}-v{k}]"
_SUFFIXES = ".txt .csv .py .md .json .pdf .png .log .yaml .tar.gz .docx .xlsx .mp3 .jpg .html .sh .sql .zip .toml .js .ts .mp4 .wav .xml .ini .conf".split()


def stem(rng: Random) -> str:
    """Draw the name of a file without its ending."""
    return expand(rng, _STEMS, n=choose(rng, NOUNS), m=choose(rng, NOUNS), N=choose(rng, NOUNS).capitalize(), c=coin(rng), a=choose(rng, ADJECTIVES), k=rng.randint(1, 2030))  # fmt: skip


def folder(rng: Random) -> str:
    """Draw a folder, without its last slash."""
    found = expand(rng, _FOLDERS, n=choose(rng, NOUNS), m=choose(rng, NOUNS), c=coin(rng)).rstrip("/\\")
    return found if len(found) > 2 else f"{choose(rng, ('', '/', './', '~/'))}{choose(rng, NOUNS)}"


_PLAIN_STEMS = "hello main app test notes todo index data config hello_world report list script run setup".split()


def path(rng: Random) -> Said:
    """Draw the path of a file, at times one with spaces."""
    kind = rng.random()
    if kind < 0.08:
        text = f"{choose(rng, ADJECTIVES)} {choose(rng, NOUNS)}{choose(rng, _SUFFIXES)}"
        place = choose(rng, ("", "", "~/", "/data/"))
        return choose(rng, ('"{}"', "'{}'", "{}", "`{}`")).format(place + text), place + text
    if kind < 0.2:
        return same(choose(rng, _PLAIN_STEMS) + choose(rng, _SUFFIXES))
    text = expand(rng, _FOLDERS, n=choose(rng, NOUNS), m=choose(rng, NOUNS), c=coin(rng)) + stem(rng)
    text += choose(rng, _SUFFIXES) if kind < 0.95 else ""
    return (f"`{text}`" if kind > 0.88 else f'"{text}"' if kind > 0.84 else text), text


def url(rng: Random) -> Said:
    """Draw the address of a page."""
    return same(
        expand(
            rng,
            "[https://|https://|http://||][www.|||]{h}.[com|org|net|io|dev][|/{n}|/{c}/{n}.html|/{n}?id={k}|/{n}s?page={k}&{c}={n}|/{c}?q={n}&id={k}|/{n}/{k}|/]",
            h=choose(rng, (coin(rng, 2), choose(rng, NOUNS), f"{choose(rng, NOUNS)}-{choose(rng, NOUNS)}")),
            n=choose(rng, NOUNS),
            c=coin(rng),
            k=rng.randint(1, 999),
        )
    )


def email(rng: Random, split: Split) -> Said:
    """Draw an e-mail address."""
    return same(
        expand(
            rng,
            "[{f}|{f}.{c}|{c}|{f}_{k}|{f}{k}|{n}|{f}-{c}]@[{c}|example|mail|{n}|{h}.co].[com|org|net|de|io|fr]",
            f=pick(rng, NAMES[:150], split).lower(),
            c=coin(rng, 2),
            h=coin(rng, 1),
            n=choose(rng, NOUNS),
            k=rng.randint(1, 99),
        )
    )


def phone(rng: Random) -> Said:
    """Draw a telephone number."""
    return same(
        expand(
            rng,
            "[555-{a}|555 {a}|{c} {a}|+{b} {c} {d}|0{c} {e}|({c}) 555-{a}|+{b}{c}{d}|{c}-{c}-{a}|+{b} {c} {a} {b}]",
            a=f"{rng.randint(0, 9999):04}",
            b=rng.randint(1, 99),
            c=rng.randint(100, 999),
            d=rng.randint(100000, 999999),
            e=rng.randint(10000, 999999),
        )
    )


def code(rng: Random) -> Said:
    """Draw a code of letters, digits and dashes."""
    letters = "".join(choose(rng, "ABCDEFGHJKLMNPQRSTUVWXYZ") for _ in range(rng.randint(1, 5)))
    return same(
        expand(
            rng,
            "[{l}{k}|{l}-{k}|{k}{l}{j}|{l}{k}{m}|{s}-{k}|{k}-{l}|{l}{k}-{s}|{s}{k}|{l}|{s}_{k}|{k}{l}{m}]",
            l=letters,
            s=letters.lower(),
            k=rng.randint(0, 10 ** rng.randint(1, 6)),
            j=rng.randint(0, 999),
            m=choose(rng, "ABCDEFGHJKLMNPQRSTUVWXYZ"),
        )
    )


def host(rng: Random) -> Said:
    """Draw the name or the number of a machine."""
    if rng.random() < 0.5:
        return same(".".join(str(rng.randint(0, 255)) for _ in range(4)))
    return same(expand(rng, "[{n}.{c}.com|{c}.[com|org|net|local]|{n}-{k}|localhost|{n}.local]", n=choose(rng, NOUNS), c=coin(rng, 2), k=rng.randint(1, 40)))  # fmt: skip


def person(rng: Random, split: Split) -> str:
    """Draw a first name, a whole name, or one with a title."""
    first = pick(rng, NAMES, split) if rng.random() < 0.85 else coin(rng, 2).capitalize()
    kind = rng.random()
    if kind < 0.05:
        return first.lower()
    if kind < 0.65:
        return first
    if kind < 0.93:
        return f"{first} {surname(rng)}"
    return titled(rng)


_TOWNS = "[{C}-[sur|sous|lès|en|am|an-der|upon|on|by|le|la]-{D}|Saint-{C}|Sainte-{C}|{C}-{D}|Stoke-on-Trent|Aix-en-Provence|Baden-Baden|Clermont-Ferrand|Bielsko-Biała|Stratford-upon-Avon|Winston-Salem|Newcastle-under-Lyme|Port-au-Prince|Saint-Étienne|Bosanska {C}|Garmisch-Partenkirchen|Berwick-upon-Tweed|Fort-de-{C}|Val-d'{C}|Neustadt-{C}|San {C} de {D}|Bad {C}|{C} Heights|New {C}|Santa {C}]"


def town(rng: Random) -> str:
    """Draw a town whose name has a hyphen or several words."""
    return expand(rng, _TOWNS, C=coin(rng, 2).capitalize(), D=coin(rng, 1).capitalize())


def place(rng: Random, split: Split) -> str:
    """Draw a city, at times one that nobody knows, or with its country."""
    if rng.random() < 0.06:
        return town(rng)
    city = pick(rng, CITIES, split) if rng.random() < 0.8 else coin(rng, 2).capitalize()
    if rng.random() < 0.06:
        return city.lower()
    return f"{city}, {choose(rng, ('France', 'Texas', 'UK', 'Japan', 'CA', 'Spain', 'Germany', 'NY'))}" if rng.random() < 0.06 else city  # fmt: skip


def title(rng: Random) -> str:
    """Draw the name of something: a song, a task, a meeting."""
    return expand(
        rng,
        "[{A} {n}|{N}|{c} {n}|{N} and {M}|the {a} {n}|The {A} {N}|{N} of the {M}|{a} {n}|{n} {m}|{C}|My {N}|{V} the {n}|{N} {k}|{A} {N}|{C}'s|Chez {C}|{C} {N}|{A} {n} {m}|{C} {C2}]",
        C2=coin(rng).capitalize(),
        A=choose(rng, ADJECTIVES).capitalize(),
        a=choose(rng, ADJECTIVES),
        N=choose(rng, NOUNS).capitalize(),
        n=choose(rng, NOUNS),
        m=choose(rng, NOUNS),
        M=choose(rng, NOUNS).capitalize(),
        c=coin(rng),
        C=coin(rng).capitalize(),
        V=choose(rng, ("Fix", "Call", "Paint", "Buy", "Clean", "Update", "Check", "Visit", "Write")),
        k=rng.randint(1, 2030),
    )


_NOTES = lines("""
[I'm|we're|I am|we are] [running late|on [my|our] way|almost there|at home|stuck in traffic|in the office|not coming|ready|busy until {t}]
[the {n} is {a}|the {n} is ready|the {n} starts at {t}|dinner is at {t}|we meet at {t}|lunch at {t}|the {n} was moved to {t}|the {a} {n} has arrived]
[see you|call me|talk|meet me] [tomorrow|at {t}|in {c}|soon|on {d}|later]
[thanks for the {n}|happy birthday|good luck with the {n}|congratulations|well done|sorry about the {n}|welcome back|get well soon]
[please|don't forget to] [bring the {n}|call {w}|send me the {n}|buy a {n}|feed the {m}|lock the {n}|read the {n}|check the {n}]
[{w} will be there|{w} has the {n}|I found your {n}|where is my {n}?|can you bring the {n}?|are you coming?|is the {n} still there?]
[I have to cancel {d}|the meeting is on {d}|I'll be back on {d}|{n} and {m} are sold out|I love the {a} {n}]
""")


def note(rng: Random, split: Split) -> str:
    """Write what one person tells another in a message."""
    if rng.random() < 0.2:
        return (
            sentence(rng).rstrip(".")
            if rng.random() < 0.6
            else choose(rng, (choose(rng, NOUNS), coin(rng), "hello", "done", "test", "yes", "ok"))
        )
    text = expand(rng, choose(rng, _NOTES), n=choose(rng, NOUNS), m=choose(rng, NOUNS), a=choose(rng, ADJECTIVES), t=clock(rng)[0], d=choose(rng, DAYS), w=pick(rng, NAMES, split), c=pick(rng, CITIES, split))  # fmt: skip
    return text if rng.random() < 0.5 else text[0].upper() + text[1:]


def command(rng: Random) -> str:
    """Write a line for a shell or a database."""
    return expand(
        rng,
        "[ls -la {f}|ls|cat {f}|echo {n}|git [status|pull|push|log --oneline|checkout {c}|commit -m {n}]|make {n}|cd {c}|npm [install|test|run {n}]|python {c}.py|pwd|grep {n} {f}|rm {f}|df -h|docker ps|pip list|uptime|cp {f} {c}|curl http://{c}.com|kill {k}|tail -n {k} {f}|SELECT [*|{n}|{n}, {m}] FROM {m}s[| WHERE {n} = {k}| LIMIT {k}|]|whoami|chmod +x {c}.sh|ps aux|mkdir {c}]",
        n=choose(rng, NOUNS),
        m=choose(rng, NOUNS),
        c=coin(rng),
        f=f"{choose(rng, NOUNS)}{choose(rng, _SUFFIXES)}",
        k=rng.randint(1, 999),
    )
