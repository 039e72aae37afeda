"""How much a test tries: a fifth of its own number in `make test`, all in `make test-deep`.

Whole tests and cases that only `make test-deep` runs have the marker `deep`.
"""

from collections.abc import Sequence
from typing import Any, TypeVar

from hypothesis import settings

_FEWEST = 3

T = TypeVar("T")


def is_deep() -> bool:
    """Return whether the profile is the deep one."""
    # A profile's own number is what a test without settings of its own tries: Hypothesis's 100 in the deep one.
    return settings().max_examples == 100


def share(deep: int) -> int:
    """Return `deep`, or the profile's share of it."""
    return max(min(_FEWEST, deep), deep * settings().max_examples // 100)


def examples(deep: int, **others: Any) -> settings:
    """Return settings with `deep` examples, or with the profile's share of them; `others` are further settings."""
    return settings(max_examples=share(deep), **others)


def some(cases: Sequence[T], part: int = 5) -> Sequence[T]:
    """Return all cases in the deep profile; in the fast one each `part`-th of them, the first among them."""
    return cases if is_deep() else cases[::part]
