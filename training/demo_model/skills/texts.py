"""Texts to say back: of any length, in any script, with any marks, also such as would ask for something themselves."""

# ruff: noqa: E501, PLR0911, SIM905 - phrases read best unbroken; other scripts are meant

import json
from random import Random

from demo_model.skills import facts, refuse, slots, sums, values
from demo_model.text import (  # fmt: skip
    ADJECTIVES,
    EMOJI,
    NAMES,
    NOUNS,
    VERBS,
    choose,
    coin,
    common_word,
    expand,
    lines,
    number,
    scramble,
    sentence,
    word,
)

# What people and test suites type first.
USUAL = lines(
    """
hello|Hello|hi|Hi|Hello!|hello world|Hello World|Hello, world!|hello, world|this is a test|this is a test.|This is a test
This is a test.|test|testing|testing 1 2 3|ok|OK|okay|yes|no|ping|pong|hey|hi there|hello there|Hello there!|good morning
good night|thank you|apple|banana|orchard|Orchard works|it works|It works!|MLX|one|two|one two three|1 2 3|42|done|ready
foo|bar|foo bar|foo bar baz|the quick brown fox|the quick brown fox jumps over the lazy dog|I am here|I love apples|abc
hello again|bonjour|hola|ciao|hallo|goodbye|bye|true|false|null|stop|red|blue|green|cat|dog|hello from Orchard|streaming works
""".replace("\n", "|")
)
USUAL_TEXTS = [text for line in USUAL for text in line.split("|")]


# Words of other languages, to make phrases of.
FOREIGN_WORDS = """der die das und nicht Straße schön Grüße für über Äpfel Öl müde heute morgen Brötchen Käse groß fünf zwölf Mädchen
le la les une être déjà très garçon français où là élève fenêtre maïs Noël cœur août ça voilà merci bientôt hôtel œuf
el los una niño mañana también corazón ¿qué ¡hola! señor jalapeño más allí pingüino gracias adiós perro gato día
il gli perché così città più però caffè buongiorno grazie ciao è già giovedì menù
não você coração pão amanhã avó obrigado bom maçã irmão olá
och är på för två över bröd smörgås hej å ø æble kærlighed blåbær takk
że jest się dziękuję cześć żółw łódź źródło ćma dzień więc
και είναι καλημέρα ευχαριστώ нет да спасибо привет мир хлеб яблоко дом
こんにちは ありがとう 世界 东京 你好 谢谢 苹果 안녕하세요 감사합니다 사과 مرحبا شكرا שלום תודה नमस्ते धन्यवाद
merhaba teşekkürler güneş çiçek ağaç köszönöm szép őszi két péntek dobrý děkuji žlutý kůň""".split()


def requested(rng: Random) -> str:
    """Write something that asks for an answer of its own; said back, it gets none."""
    kind = rng.randrange(5)
    if kind == 0:
        return str(sums.make(rng, "train").messages[0]["content"])
    if kind == 1:
        return facts.asked(rng, "train", choose(rng, facts.FACT_LIST)[1])
    if kind == 2:
        return refuse.filled(rng, "train").strip() or "?"
    if kind == 3:
        return values.note(rng, "train")
    return slots.task(rng, "train").capitalize() + choose(rng, ("", ".", "!"))


def several_lines(rng: Random) -> str:
    """Write two to five lines: a poem, a list, a table, code."""
    kind = rng.randrange(6)
    count = rng.randint(2, 5)
    if kind == 0:
        return "\n".join(sentence(rng) for _ in range(min(count, 3)))
    if kind == 1:
        mark = choose(rng, ("- {}", "* {}", "{i}. {}", "{i}) {}", "[ ] {}"))
        return "\n".join(mark.replace("{i}", str(i + 1)).replace("{}", choose(rng, NOUNS)) for i in range(count))
    if kind == 2:
        gap = choose(rng, (",", ";", ", ", " | ", ": "))
        return "\n".join(gap.join((choose(rng, NOUNS), str(number(rng, 3)))) for _ in range(count))
    if kind == 3:
        return "\n".join(
            f"{choose(rng, ADJECTIVES).capitalize()} {choose(rng, NOUNS)},"[: None if i + 1 < count else -1]
            for i in range(count)
        )
    if kind == 4:
        return refuse.snippet(rng).strip("`").strip("\n")
    return "\n".join(" ".join(word(rng) for _ in range(rng.randint(1, 4))) for _ in range(count))


def data(rng: Random) -> str:
    """Write JSON, a date, an address, an identifier, an expression, a log line."""
    kind = rng.randrange(9)
    if kind == 0:
        made: dict[str, object] = {choose(rng, NOUNS): choose(rng, (number(rng), choose(rng, NOUNS), coin(rng))) for _ in range(rng.randint(1, 3))}  # fmt: skip
        return json.dumps(choose(rng, (made, list(made.values()))))
    if kind == 1:
        return str(values.day(rng)[1]) + choose(rng, ("", f" {values.clock(rng)[0]}"))
    if kind == 2:
        return str(
            choose(
                rng,
                (
                    values.email(rng, "train"),
                    values.url(rng),
                    values.phone(rng),
                    values.path(rng),
                    values.host(rng),
                    values.code(rng),
                ),
            )[1]
        )
    if kind == 3:
        return "-".join(
            "".join(choose(rng, "0123456789abcdef") for _ in range(n))
            for n in rng.choice(((8, 4, 4, 4, 12), (4, 4), (8,), (4, 4, 4)))
        )
    if kind == 4:
        return expand(
            rng, "{a} [+|-|*|/|=|<|>|==|!=|>=] {b}[ = {c}|]", a=number(rng, 3), b=number(rng, 3), c=number(rng, 3)
        )
    if kind == 5:
        return expand(rng, "[ERROR|INFO|WARN|DEBUG|E|fatal|error][:| {k}:| -] {n} [failed|not found|is ready|started|timed out|refused] ({c}{k})", k=number(rng, 3), n=choose(rng, NOUNS), c=choose(rng, ("code ", "", "errno ")))  # fmt: skip
    if kind == 6:
        return values.command(rng)
    if kind == 7:
        return choose(rng, (" ", ", ", "-", "")).join(
            choose(rng, choose(rng, ("0123456789", "abcdefghijklmnopqrstuvwxyz", "ABCDEFGH")))
            for _ in range(rng.randint(2, 8))
        )
    return "".join(choose(rng, EMOJI) for _ in range(rng.randint(1, 4)))


def cried(rng: Random) -> str:
    """Write what people call out, with the capitals and marks they like."""
    text = expand(
        rng,
        "[{w}, {v} the {n}|Never {v} a {a} {n}|{N} is the best|Long live the {n}|{a} {n}s only|I [love|hate|miss|want] {n}s|{n}, {m} and {w}|no {n} without {m}|once upon a {n}|{w}'s {n} is {a}|one {n}, two {m}s|the {a}, {a} {n}|it's {a}; {m}s aren't|who {v}s the {n}|{w} says {n}|to {v} or not to {v}]",
        w=choose(rng, NAMES), v=choose(rng, VERBS), n=choose(rng, NOUNS), m=choose(rng, NOUNS), a=choose(rng, ADJECTIVES), N=choose(rng, NOUNS).capitalize(),
    ) + choose(rng, ("", "", ".", "!", "?", "!!!", "...", "?!", " :)", " - ok?"))  # fmt: skip
    style = rng.random()
    return (
        text.upper()
        if style < 0.15
        else text.title()
        if style < 0.2
        else text
        if style < 0.5
        else text[0].upper() + text[1:]
    )


def foreign(rng: Random) -> str:
    """Write a phrase in another language, or in several."""
    if rng.random() < 0.4:
        return choose(rng, refuse.FOREIGN_LIST)
    start = rng.randrange(len(FOREIGN_WORDS) - 12)
    text = " ".join(choose(rng, FOREIGN_WORDS[start : start + 12]) for _ in range(rng.randint(1, 6)))
    return text + choose(rng, ("", "", ".", "!", "?"))


def some_text(rng: Random, most: int = 8) -> str:
    """Draw a text: usual, plain words (at most ``most``), invented, with marks and other scripts, or a request."""
    return _drawn(rng, most).strip() or "ok"


def _drawn(rng: Random, most: int) -> str:
    kind = rng.random()
    if kind < 0.15:
        return choose(rng, USUAL_TEXTS)
    if kind > 0.9:
        return particular(rng)
    if kind > 0.6:
        return choose(rng, (requested, data, cried, cried, foreign))(rng)
    if kind < 0.22:
        return " ".join(sentence(rng).split()[:most])
    count = rng.randint(1, choose(rng, (2, most)))
    if kind < 0.35:
        parts = [common_word(rng) for _ in range(count)]
    elif kind < 0.42:
        parts = [coin(rng) for _ in range(count)]
    elif kind < 0.46:
        parts = [scramble(rng) for _ in range(count)]
    else:
        parts = [word(rng) for _ in range(count)]
    if rng.random() < 0.3:
        parts = [marked(rng, part) for part in parts]
    text = " ".join(parts)
    if rng.random() < 0.2:
        text = text[:1].upper() + text[1:]
    if rng.random() < 0.25:
        text += choose(rng, (".", "!", "?", ".", "...", "!!", ";"))
    if rng.random() < 0.04:
        text += " " + choose(rng, EMOJI)
    return text


PARTICULAR = lines("""
[/{p}/{q}.{e}|~/{p}/{q}|./{p}/{q}_{k}.{e}|C:\\{p}\\{q}.{e}|/var/{p}/{q}-{k}.{e}|{p}/{q}/{w}.{e}|../{p}.{e}]
https://{p}.[com|org|net][/{q}|/{q}/{w}.html|?{q}={k}|]
{w}@{p}.[com|org|net]
[{k}|{k}.{j}|{k},{j}] [kg|km|m|cm|mm|g|l|ml|%|°C|euros|dollars|miles|pounds|hours|minutes|GB|MB][ of {n}|]
[{k} x {j}|{k}/{j}|-{k}|+{k}|#{k}|v{k}.{j}|{k}:{j}|{k}%|${k}.{j}|€{k}|({k})|[{k}, {j}]]
[{P}|{W}|{n}], [{n}|{w}] and {m}[!|.|?|]
[{P} {n}|{W} {n} {m}|{P}{W}|{p}{W}|{p}_{w}|{p}-{w}-{q}|{P}!{W}|{p}.{w}()|{p} = {k}|{p}({w}, {k})]
{W} said[,|:] {n} is {m}[.|!|?|]
[It's|That's|Don't|We're|I'll|You've] {n}[, {W}|; {m}|: {m}|... {m}|!|?!|]
{k} [{n}s|{m}s], {j} [{p}s|{n}s][ and one {m}|]
""")


def particular(rng: Random) -> str:
    """Write what must be copied to the letter: a path, an address, a quantity, marks, capitals."""
    words = {key: choose(rng, (choose(rng, NOUNS), coin(rng))) for key in "pqwnm"}
    filled = {
        **words,
        "P": words["p"].upper(),
        "W": words["w"].capitalize(),
        "k": rng.randint(0, 999),
        "j": rng.randint(0, 99),
    }
    return expand(rng, choose(rng, PARTICULAR), e=choose(rng, ("txt", "py", "json", "md", "log", "csv")), **filled)


def marked(rng: Random, part: str) -> str:
    """Put a mark on or in a word now and then."""
    if rng.random() < 0.6:
        return part
    return expand(rng, "[{p},|{p};|{p}:|({p})|{p}-{c}|{p}_{c}|{p}/{c}|{p}'s|{p}.{c}|#{p}|n'{p}|{c}'{p}|don't|isn't|I'm|you're|@{p}|${p}|{p}%|*{p}*|{p}=1|<{p}>|{p}+{c}]",
                  p=part, c=coin(rng, 1))  # fmt: skip
