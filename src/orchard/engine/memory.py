"""How much memory there is for rows and for cached prompts."""

import os
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import mlx.core as mx

from orchard.core.tasks.text_options import TextOptions

_SHARE = 0.75  # of the machine's memory, where the device recommends nothing; the rest is the system's
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


def recommended() -> int:
    """Return the bytes that MLX may use: what the device recommends (Metal), or most of its memory.

    Without a device's own memory, that is the machine's, or what its container may use.
    """
    if mx.default_device() == mx.gpu:
        info = mx.device_info()
        for key in ("max_recommended_working_set_size", "total_memory", "memory_size"):
            if isinstance(known := info.get(key), int) and known > 0:
                return known if key.startswith("max") else int(known * _SHARE)
    machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    with suppress(OSError, ValueError):  # no such file, or "max"
        machine = min(machine, int(Path("/sys/fs/cgroup/memory.max").read_text()))
    return int(machine * _SHARE)
