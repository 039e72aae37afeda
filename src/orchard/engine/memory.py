"""How much memory there is for rows and for cached prompts."""

import os
from pathlib import Path

import mlx.core as mx
from msgspec import Struct

from orchard.core.errors import OrchardError
from orchard.core.options import TextOptions

_SHARE = 0.75  # of the machine's memory, where the device recommends nothing; the rest is the system's
_CACHE_SHARE = 0.25  # of what the weights leave
_WORK_SHARE = 0.1  # of what is left then: activations, logits, and copies while rows come and go


class Shares(Struct, frozen=True):
    """Bytes for the keys and values of rows, and for cached prompts."""

    rows: int
    cache: int


def divide(options: TextOptions) -> Shares:
    """Divide what the loaded weights leave. Raises OrchardError where they leave nothing."""
    limit = options.memory_limit or recommended()
    weights = mx.get_active_memory()
    left = limit - weights
    cache = options.prompt_cache_bytes
    if cache is None:
        cache = int(max(left, 0) * _CACHE_SHARE)
    if left - cache <= 0:
        raise OrchardError(
            "model_failed",
            f"the model's weights take {weights:,} bytes and the prompt cache may take {cache:,}; the memory limit of "
            f"{limit:,} leaves nothing for requests",
        )
    return Shares(int((left - cache) * (1 - _WORK_SHARE)), cache)


def recommended() -> int:
    """Give the bytes that MLX may use: what the device recommends (Metal), or most of its memory."""
    if mx.default_device() == mx.gpu:
        info = mx.device_info()
        for key in ("max_recommended_working_set_size", "total_memory", "memory_size"):
            if isinstance(known := info.get(key), int) and known > 0:
                return known if key.startswith("max") else int(known * _SHARE)
    return int(_machine() * _SHARE)


def _machine() -> int:
    """Give the machine's memory, or what its container may use."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    try:
        return min(memory, int(Path("/sys/fs/cgroup/memory.max").read_text()))
    except (OSError, ValueError):  # no such file, or "max"
        return memory
