"""`python -m orchard.worker.probe`: compute something with MLX and print, as JSON, which device it ran on.

It also says where ffmpeg is.

`orchard doctor` runs it as a process of its own, since the command line never imports MLX.
"""

import json
import os
from importlib.metadata import version
from typing import Any

import mlx.core as mx

from orchard.backends.audio import ffmpeg

GPU_BACKENDS = (("metal", mx.metal), ("cuda", mx.cuda))


def probe() -> dict[str, Any]:
    """Return MLX's version, its backend (metal, cuda, cpu), its device's name and memory in bytes, ffmpeg's path."""
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
        "ffmpeg": ffmpeg.find(),
    }


if __name__ == "__main__":
    print(json.dumps(probe()))
