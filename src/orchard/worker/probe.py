"""`python -m orchard.worker.probe`: computes something with MLX and prints, as JSON, the device and ffmpeg's path.

`orchard doctor` runs it as a separate process, since the command line never imports MLX.
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
    """Return MLX's version, backend ("metal", "cuda" or "cpu"), device and memory in bytes, and ffmpeg's path.

    `memory_bytes`: all memory; `usable_bytes`: what models may take of it; `available_bytes`: what is free now;
    `wired_bytes`: what Metal may keep resident (None without Metal). Raise RuntimeError if MLX computes wrong results.
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
