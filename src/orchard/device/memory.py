"""How much memory MLX may use."""

import os
from contextlib import suppress
from pathlib import Path

import mlx.core as mx

_RECOMMENDED = "max_recommended_working_set_size"  # Metal's
_SHARE = 0.75  # of the machine's memory, if the device recommends nothing; the rest is for the system


def recommended() -> int:
    """Return the bytes that MLX may use: what the device recommends (Metal), or most of its memory.

    On a device without its own memory, that is the machine's memory, or the limit of its container.
    """
    if mx.default_device() == mx.gpu:
        info = mx.device_info()
        for key in (_RECOMMENDED, "total_memory", "memory_size"):
            if isinstance(known := info.get(key), int) and known > 0:
                return known if key == _RECOMMENDED else int(known * _SHARE)
    machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    with suppress(OSError, ValueError):  # no such file, or "max"
        machine = min(machine, int(Path("/sys/fs/cgroup/memory.max").read_text()))
    return int(machine * _SHARE)


def limit_wired(memory_bytes: int) -> None:
    """Let Metal keep at most this many bytes of MLX's resident ("wired"), within its recommendation.

    Several processes whose wired memory exceeds the machine's can stop a Mac. Other devices wire no memory.
    """
    if most := mx.device_info().get(_RECOMMENDED):
        mx.set_wired_limit(min(memory_bytes, int(most)))
