"""How much a test tries: a fifth of its own number in `make test`, all in `make test-deep`."""

from collections.abc import Sequence
from typing import Any, TypeVar

from hypothesis import settings

_FEWEST = 3

T = TypeVar("T")


def share(deep: int) -> int:
    """Return `deep`, or the profile's share of it."""
    # A profile's own number is what a test without settings of its own tries: of Hypothesis's 100.
    return max(min(_FEWEST, deep), deep * settings().max_examples // 100)


def examples(deep: int, **others: Any) -> settings:
    """Return settings with `deep` examples, or with the profile's share of them; `others` are further settings."""
    return settings(max_examples=share(deep), **others)


def some(cases: Sequence[T], part: int = 5) -> Sequence[T]:
    """Return all cases in the deep profile; in the fast one each `part`-th of them, the first among them."""
    return cases if settings().max_examples == 100 else cases[::part]
