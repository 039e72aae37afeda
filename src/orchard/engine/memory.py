"""How much memory there is for rows and for cached prompts."""

from typing import NamedTuple

from orchard.core.tasks.text_options import TextOptions
from orchard.device.memory import recommended

_CACHE_SHARE = 0.25  # of what the weights leave
_WORK_SHARE = 0.1  # of what is left then: activations, logits, and copies while rows come and go


class Shares(NamedTuple):
    """Bytes for the keys and values of rows, and for cached prompts."""

    rows: int
    cache: int


def limit(options: TextOptions) -> int:
    """Return what weights, keys and values, and cached prompts may take together, in bytes."""
    return options.memory_limit or recommended()


def divide(options: TextOptions, weights_bytes: int) -> Shares:
    """Divide what the weights leave; where they leave nothing, both shares are 0.

    Cached prompts get what the options say, or a quarter; never more than half, for rows come first.
    """
    left = max(limit(options) - weights_bytes, 0)
    wanted = options.prompt_cache_bytes
    cache = int(left * _CACHE_SHARE) if wanted is None else min(wanted, left // 2)
    return Shares(int((left - cache) * (1 - _WORK_SHARE)), cache)
