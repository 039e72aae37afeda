r"""Regular expressions for texts as they are: what JSON Schema's `pattern` and `format` ask of a string.

llguidance takes an expression for that of a whole text and reads no anchor within it, so what `^` and `$` say is put
in other words.
"""

import math
import re
from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import Any

from llguidance import regex_to_lark

from orchard.worker.grammar.lark import regex

_TOKEN = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|\((?:\?(?:P?<\w+>|:))?|.", re.DOTALL)
_MOST_TIMES = re.compile(r"([0-9]{1,9})\}")
_MOST_REPEATED = 100_000
_ANYTHING = "(?s:.*)"
_EDGES = {"\\A", "\\z", "\\Z", "\\G"}


def searched(pattern: Any) -> str:
    """Return a terminal of llguidance's Lark for the texts in which a pattern is found.

    Raise ValueError, with a sentence, where it is none, or can't be kept.
    """
    if not isinstance(pattern, str):
        raise ValueError("a pattern is a string")
    tokens = _TOKEN.findall(pattern)
    if tokens[-1:] == ["\\"]:
        raise ValueError(f"the pattern {pattern!r} ends within an escape")
    if math.prod(max(int(most), 1) for most in _MOST_TIMES.findall(pattern)) > _MOST_REPEATED:
        raise ValueError(f"the pattern {pattern[:40]!r} repeats too much within repetitions")
    if not _EDGES.isdisjoint(tokens):
        raise ValueError(f"the pattern {pattern!r} has anchors other than ^ and $")
    try:
        return regex(_found(tokens, pattern), use_ascii="dw")
    except ValueError as error:
        raise ValueError(f"the pattern {pattern!r}: {error}") from error


def _found(tokens: Sequence[str], pattern: str, *, start: bool = False, end: bool = False) -> str:
    """Return the whole texts in which tokens are found; `start`, `end`: at the text's start, at its end."""
    bars = [place for place, depth in enumerate(_depths(tokens)) if tokens[place] == "|" and not depth]
    alternatives = [list(tokens[before + 1 : bar]) for before, bar in pairwise([-1, *bars, len(tokens)])]
    return "|".join(_one(one, pattern, start=start, end=end) for one in alternatives)


def _one(tokens: list[str], pattern: str, *, start: bool, end: bool) -> str:
    while tokens and tokens[0] == "^":
        start, tokens = True, tokens[1:]
    while tokens and tokens[-1] == "$":
        end, tokens = True, tokens[:-1]
    if not {"^", "$"}.isdisjoint(tokens):
        depths = _depths(tokens)
        if depths[-1] or depths.count(0) > 1:  # more than one group
            raise ValueError(f"the pattern {pattern!r} has an anchor within it")
        return f"(?:{_found(tokens[1:-1], pattern, start=start, end=end)})"
    return f"{'' if start else _ANYTHING}(?:{''.join(tokens)}){'' if end else _ANYTHING}"


def _depths(tokens: Sequence[str]) -> list[int]:
    """Return how many groups are open behind each token."""
    return list(accumulate(part.startswith("(") - (part == ")") for part in tokens))


_YEAR = "(?:[1-9][0-9]{3}|0(?:[1-9][0-9]{2}|0(?:[1-9][0-9]|0[1-9])))"
_FOURTH = "(?:0[48]|[2468][048]|[13579][26])"
_LEAP_YEAR = f"(?:[0-9]{{2}}{_FOURTH}|{_FOURTH}00)"
_UP_TO_28 = "(?:0[1-9]|1[0-9]|2[0-8])"
_UP_TO_30 = "(?:0[1-9]|[12][0-9]|30)"
_DAY = (
    f"(?:{_YEAR}-(?:(?:0[13578]|1[02])-(?:{_UP_TO_30}|31)|(?:0[469]|11)-{_UP_TO_30}|02-{_UP_TO_28})|{_LEAP_YEAR}-02-29)"
)
# No leap seconds: most readers refuse them.
_CLOCK = r"(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\.[0-9]{1,9})?(?:[zZ]|[+\-](?:[01][0-9]|2[0-3]):[0-5][0-9])"
_LABEL = "[A-Za-z0-9](?:[A-Za-z0-9\\-]{0,61}[A-Za-z0-9])?"
_HOST = rf"{_LABEL}(?:\.{_LABEL})*"
_BYTE = "(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])"
_V4 = rf"{_BYTE}(?:\.{_BYTE}){{3}}"
_HEX = "[0-9A-Fa-f]{1,4}"
_LAST_TWO = f"(?:{_HEX}:{_HEX}|{_V4})"
_V6 = "|".join(
    (
        f"(?:{_HEX}:){{6}}{_LAST_TWO}",
        *(
            f"(?:{_HEX}(?::{_HEX}){{0,{before - 1}}})?::(?:{_HEX}:){{{5 - before}}}{_LAST_TWO}"
            for before in range(1, 6)
        ),
        f"::(?:{_HEX}:){{5}}{_LAST_TWO}",
        f"(?:{_HEX}(?::{_HEX}){{0,5}})?::{_HEX}",
        f"(?:{_HEX}(?::{_HEX}){{0,6}})?::",
    )
)
_ATOM = r"[A-Za-z0-9!#$%&'*+\-/=?^_`{|}~]+"
_TIME_PARTS = "T(?:[0-9]+H(?:[0-9]+M(?:[0-9]+S)?)?|[0-9]+M(?:[0-9]+S)?|[0-9]+S)"
_DAYS = "(?:[0-9]+Y(?:[0-9]+M(?:[0-9]+D)?)?|[0-9]+M(?:[0-9]+D)?|[0-9]+D)"
_CHAR = r"(?:[A-Za-z0-9\-._~!$&'()*+,;=:@]|%[0-9A-Fa-f]{2})"
_AUTHORITY = (
    rf"(?:(?:[A-Za-z0-9\-._~!$&'()*+,;=:]|%[0-9A-Fa-f]{{2}})*@)?(?:\[(?:{_V6})\]|"
    rf"(?:[A-Za-z0-9\-._~!$&'()*+,;=]|%[0-9A-Fa-f]{{2}})*)(?::[0-9]*)?"
)
_PATHS = rf"(?://{_AUTHORITY}(?:/{_CHAR}*)*|/(?:{_CHAR}+(?:/{_CHAR}*)*)?|{_CHAR}+(?:/{_CHAR}*)*)?"
MOMENTS = {"date": _DAY, "time": _CLOCK, "date-time": f"{_DAY}[tT]{_CLOCK}"}  # RFC 3339
"""Expressions for the formats of days and times, as `pattern` has them, but for its anchors."""
_FORMATS = MOMENTS | {
    "duration": f"P(?:{_DAYS}(?:{_TIME_PARTS})?|{_TIME_PARTS}|[0-9]+W)",  # RFC 3339, appendix A
    "email": rf"{_ATOM}(?:\.{_ATOM})*@(?:{_HOST}|\[{_V4}\])",  # RFC 5321
    "hostname": _HOST,  # RFC 1123
    "ipv4": _V4,
    "ipv6": _V6,  # RFC 4291
    "uuid": "[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}",  # RFC 4122
    "uri": rf"[A-Za-z][A-Za-z0-9+\-.]*:{_PATHS}(?:\?(?:{_CHAR}|[/?])*)?(?:#(?:{_CHAR}|[/?])*)?",  # RFC 3986
}
FORMATS = {name: f"/{regex_to_lark(regex)}/" for name, regex in _FORMATS.items()}
"""Terminals for the formats that are kept."""
