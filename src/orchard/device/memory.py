"""How much memory MLX may use, and how much it does use."""

import mlx.core as mx

from orchard import system_memory
from orchard.core.device_memory import DeviceMemory

_RECOMMENDED_KEY = "max_recommended_working_set_size"  # Metal's
_SHARE = 0.75  # of the machine's memory, if the device recommends nothing; the rest is for the system


def recommended_bytes() -> int:
    """Return the bytes that MLX may use: what the device recommends (Metal), or most of its memory.

    The memory of a device without its own is the machine's, or the limit of the container.
    """
    if mx.default_device() == mx.gpu:
        info = mx.device_info()
        for key in (_RECOMMENDED_KEY, "total_memory", "memory_size"):
            if isinstance(known := info.get(key), int) and known > 0:
                return known if key == _RECOMMENDED_KEY else int(known * _SHARE)
    return int(system_memory.read_system_memory().total_bytes * _SHARE)


def available_bytes() -> int:
    """Return the bytes that are free for models now: of the device's own memory, or of the machine's."""
    free = mx.device_info().get("free_memory", 0)
    return free if isinstance(free, int) and free else system_memory.read_system_memory().available_bytes


def processor() -> str:
    """Return which processor MLX computes with: "gpu" or "cpu"."""
    return "gpu" if mx.default_device() == mx.gpu else "cpu"


def limit_device(memory_bytes: int) -> None:
    """Let MLX hold at most about this many bytes. Metal keeps ("wires") no more of them resident than it recommends.

    MLX launches work ahead of the device, and each launched operation holds its arrays. At this limit, MLX frees its
    cached buffers, and waits for earlier work before it launches more. Several processes that together wire more memory
    than a Mac has can stop it; other devices wire no memory.
    """
    mx.set_memory_limit(memory_bytes)
    if most := mx.device_info().get(_RECOMMENDED_KEY):
        mx.set_wired_limit(min(memory_bytes, int(most)))


def read_device_memory(*, has_model: bool) -> DeviceMemory:
    """Return what the device has free and what MLX holds. Any thread may call this, even while another thread computes.

    Without a model, don't ask MLX's allocator: on CUDA, this call would allocate a context.
    """
    free, total = (mx.device_info().get(key, 0) for key in ("free_memory", "total_memory"))
    assert isinstance(free, int)
    assert isinstance(total, int)
    if not has_model:
        return DeviceMemory(free, total)
    return DeviceMemory(free, total, mx.get_active_memory(), mx.get_cache_memory(), mx.get_peak_memory())
