"""Divides the memory between rows and cached prompts."""

from typing import NamedTuple

from orchard.core.tasks.text_options import TextOptions
from orchard.device.memory import recommended

_CACHE_SHARE = 0.25  # of what the weights leave
_WORK_SHARE = 0.1  # of the rest: for activations, logits, and copies while rows join and leave


class Shares(NamedTuple):
    """The bytes for the KV caches of rows, and for cached prompts."""

    rows: int
    cache: int


def limit(options: TextOptions) -> int:
    """Return how many bytes weights, KV caches and cached prompts may take together."""
    return options.memory_limit or recommended()


def divide(options: TextOptions, weights_bytes: int) -> Shares:
    """Divide the memory that the weights leave; if they leave none, both shares are 0.

    Cached prompts get what the options say, but at most half; a quarter if the options don't say.
    """
    left = max(limit(options) - weights_bytes, 0)
    wanted = options.prompt_cache_bytes
    cache = int(left * _CACHE_SHARE) if wanted is None else min(wanted, left // 2)
    return Shares(int((left - cache) * (1 - _WORK_SHARE)), cache)
