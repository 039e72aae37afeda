"""`python -m orchard.worker.probe`: compute something with MLX and print, as JSON, which device it ran on.

It also says where ffmpeg is.

`orchard doctor` runs it as a process of its own, since the command line never imports MLX.
"""

import json
import os
from importlib.metadata import version
from typing import Any

import mlx.core as mx
import psutil

from orchard.backends.audio import ffmpeg
from orchard.device.memory import recommended

GPU_BACKENDS = (("metal", mx.metal), ("cuda", mx.cuda))


def probe() -> dict[str, Any]:
    """Return MLX's version, its backend (metal, cuda, cpu), its device's name and memory, and ffmpeg's path.

    In bytes: `memory_bytes` is all memory, `usable_bytes` what models may take of it, `available_bytes` what is free
    now, and `wired_bytes` what Metal may keep resident (None without Metal).
    """
    backend = next((name for name, module in GPU_BACKENDS if module.is_available()), "cpu")
    if mx.sum(mx.ones((8, 8)) @ mx.ones((8, 8))).item() != 512:
        raise RuntimeError("MLX computes wrong results on this machine")
    info = mx.device_info()
    physical = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    memory = info.get("memory_size") or info.get("total_memory") or physical
    return {
        "version": version("mlx"),
        "backend": backend,
        "device": info.get("device_name", "unknown"),
        "memory_bytes": memory,
        "usable_bytes": recommended(),
        "available_bytes": psutil.virtual_memory().available,
        "wired_bytes": info.get("max_recommended_working_set_size"),
        "ffmpeg": ffmpeg.find(),
    }


if __name__ == "__main__":
    print(json.dumps(probe()))
