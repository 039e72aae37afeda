"""How many examples Hypothesis tries: a fifth of a test's own number in `make test`, all in `make test-deep`."""

from typing import Any

from hypothesis import settings

_FEWEST = 3


def examples(deep: int, **others: Any) -> settings:
    """Return settings with `deep` examples, or with the profile's share of them; `others` are further settings."""
    # A profile's own number is what a test without these settings tries: of Hypothesis's 100.
    share = settings().max_examples / 100
    return settings(max_examples=max(min(_FEWEST, deep), round(deep * share)), **others)
