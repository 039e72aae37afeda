"""What is said of names that no model has."""

import difflib
from collections.abc import Sequence

_MAX_SHOWN = 6
_MAX_CHARS = 200
_NO_RANK = 99


def closest(name: str, names: Sequence[str]) -> list[str]:
    """Give the names most like one, whatever their capitals and whoever's they are."""
    if len(name) > _MAX_CHARS:
        return []
    plain = {known: known.casefold() for known in names}
    last = {known: text.rpartition("/")[2] for known, text in plain.items()}
    asked = name.casefold()
    whole = difflib.get_close_matches(asked, set(plain.values()), n=3)
    part = difflib.get_close_matches(asked.rpartition("/")[2], set(last.values()), n=3)
    # Whoever has the same name but for its owner's comes before one that is merely like it.
    ranks = {known: min(_rank(plain[known], whole), _rank(last[known], part)) for known in plain}
    return sorted((known for known in plain if ranks[known] < _NO_RANK), key=ranks.__getitem__)[:_MAX_SHOWN]


def _rank(name: str, matches: Sequence[str]) -> int:
    return matches.index(name) if name in matches else _NO_RANK


def listed(names: Sequence[str]) -> str:
    """Give names as a part of a sentence, not too many of them."""
    shown = ", ".join(f"'{name}'" for name in names[:_MAX_SHOWN])
    return shown if len(names) <= _MAX_SHOWN else f"{shown} and {len(names) - _MAX_SHOWN} more"
