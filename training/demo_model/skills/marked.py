"""Saying back a part of a request that its marks tell: what is in the brackets, in quotes, after the colon."""

# ruff: noqa: E501 - phrases read best unbroken

from random import Random

from demo_model.skills.texts import some_text
from demo_model.text import NOUNS, Split, choose, coin, expand, lines, sentence, wording

# Marks around a text: the two marks, and their names.
AROUND = [
    ("(", ")", "brackets|parentheses|round brackets|parens"),
    ("[", "]", "brackets|square brackets"),
    ("{", "}", "braces|curly brackets|curly braces|brackets"),
    ("<", ">", "angle brackets|pointed brackets|brackets"),
    ("<<", ">>", "double angle brackets|brackets|double arrows"),
    ("[[", "]]", "double brackets|double square brackets|brackets"),
    ("{{", "}}", "double braces|double curly brackets"),
    ('"', '"', "quotes|quotation marks|double quotes"),
    ("'", "'", "quotes|single quotes|quotation marks"),
    ("“", "”", "quotes|quotation marks"),
    ("«", "»", "quotes|guillemets|quotation marks"),
    ("`", "`", "backticks|ticks|backquotes"),
    ("*", "*", "stars|asterisks"),
    ("**", "**", "stars|double stars|asterisks"),
    ("|", "|", "bars|pipes|vertical bars"),
    ("#", "#", "hashes|hash signs"),
    ("/", "/", "slashes"),
    ("_", "_", "underscores"),
    ("---", "---", "dashes|lines of dashes"),
    ("==", "==", "equals signs"),
    ("<text>", "</text>", "text tags|tags"),
    ("<b>", "</b>", "tags|b tags"),
]  # fmt: skip
# A mark before a text, and its names.
AFTER = [
    (": ", "colon"),
    (" - ", "dash|hyphen"),
    (" -> ", "arrow"),
    (" => ", "arrow"),
    (" = ", "equals sign"),
    ("; ", "semicolon"),
    (" | ", "bar|pipe"),
    (" > ", "greater-than sign"),
    (" # ", "hash|hash sign"),
    (" ... ", "dots|three dots"),
    (":\n", "colon|line break"),
]  # fmt: skip
WITHIN = lines("""
[Say|Output|Write|Print|Repeat|Return|Echo|Type|Give me|Show|Copy] [only |just |exactly |][what is|what stands|the text|the words|the part|everything|all that is|the string|the text that is] [between|inside|within|in] the {m}[ and nothing else|, nothing else||]{j}{t}
[Reply|Respond|Answer] [only |just |]with [what is|the text|the words|the part|what stands|the string] [between|inside|within|in] the {m}{j}{t}
{t}{n}[Say|Output|Write|Print|Repeat|Return|Give me|Tell me] [what is|only what is|what stands|the text|just the part] [between|inside|within|in] the {m}[.||]
[What is|What stands|Which text is|Which words are|What do you see] [between|inside|within|in] the {m}{j}{t}
[Between|Inside|In] the {m} [stands|is|there is] a text[, say it|. Say it|. Output it|, repeat it]{j}{t}
[Extract|Get|Take|Pull out] [the text|what is|the words] [between|inside|in] the {m}[ and write it||]{j}{t}
[Leave out|Drop|Remove|Ignore] [everything|all] [outside|but what is in] the {m}{j}{t}
~[Kindly utter|I'd like to read] what the {m} hold{j}{t}
""")
BEHIND = lines("""
[Say|Output|Write|Print|Repeat|Return|Echo|Type|Give me|Copy] [only |just |exactly |][what comes|what stands|what is|the text|the words|the part|everything|all that comes|the text that follows] after the {m}[ and nothing else|, nothing more||]{j}{t}
[Reply|Respond|Answer] with [only |just |][what comes after|the text after|the words after|everything after|what follows] the {m}{j}{t}
{t}{n}[Say|Output|Write|Repeat|Return|Give me] [what comes|only what comes|what stands|the text|just the part] after the {m}[.||]
[What comes|What stands|Which text comes|Which words stand|What is] after the {m}{j}{t}
~[Kindly utter|I'd like to read] what comes after the {m}{j}{t}
""")
AHEAD = lines("""
[Say|Output|Write|Print|Repeat|Return|Give me|Copy] [only |just |][what comes|what stands|what is|the text|the words|the part|everything] before the {m}{j}{t}
[What comes|What stands|Which text comes|What is] before the {m}{j}{t}
{t}{n}[Say|Output|Write|Repeat|Return|Give me] [what comes|only what comes|the text|just the part] before the {m}[.||]
""")


def _outside(rng: Random) -> str:
    """Write a few words that are not asked for."""
    kind = rng.random()
    if kind < 0.3:
        return sentence(rng)
    return expand(rng, "[{n}|{c}|the {n} and|{n} {m}|{c} {k}|my {n} is|we saw|{k}|{c} {n}]", n=choose(rng, NOUNS), m=choose(rng, NOUNS), c=coin(rng), k=rng.randint(1, 99))  # fmt: skip


def _free(rng: Random, *marks: str) -> str:
    """Draw a text of one line without any of the marks."""
    while True:
        text = some_text(rng)
        if "\n" not in text and not any(letter in text for mark in marks for letter in mark.strip()):
            return text


def asked(rng: Random, split: Split) -> tuple[str, str]:
    """Make a request for a marked part of it; return also this part."""
    if rng.random() < 0.68:
        start, end, names = choose(rng, AROUND)
        text = _free(rng, start, end)
        shown, pattern = f"{start}{text}{end}", WITHIN
        if start == "---" and rng.random() < 0.5:
            shown = f"{start}\n{text}\n{end}"
        if rng.random() < 0.55:
            before, after = _plain(rng, start, end), _plain(rng, start, end)
            shown = choose(rng, (f"{before} {shown} {after}", f"{before} {shown}", f"{shown} {after}"))
    else:
        mark, names = choose(rng, AFTER)
        text, other = _free(rng, mark, ":"), _plain(rng, mark, ":")
        ahead = rng.random() < 0.3 and not mark.endswith("\n")
        shown, pattern = (f"{text}{mark}{other}", AHEAD) if ahead else (f"{other}{mark}{text}", BEHIND)
    chosen = wording(rng, pattern, split)
    asks = chosen.startswith(("[What", "~[What"))
    joined = choose(rng, (": ", ": ", ":\n", ":\n\n", "\n", "\n\n", "? " if asks else ". ") if pattern is WITHIN else ("\n", "\n\n", "?\n" if asks else ".\n", "? " if asks else ". "))  # fmt: skip
    ask = expand(rng, chosen, m=choose(rng, names.split("|")), j=joined, t="{t}", n=choose(rng, ("\n", "\n\n", ". ")))
    ask = ask[0].lower() + ask[1:] if rng.random() < 0.35 and not ask.startswith("{") else ask
    return ask.replace("{t}", shown), text


def _plain(rng: Random, *marks: str) -> str:
    while True:
        text = _outside(rng)
        if not any(letter in text for mark in marks for letter in mark.strip()):
            return text
