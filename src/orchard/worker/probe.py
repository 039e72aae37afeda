"""`python -m orchard.worker.probe`: computes something with MLX and prints, as JSON, the device and ffmpeg's path.

`orchard doctor` runs it as a separate process, since the command line never imports MLX.
"""

import json
from importlib.metadata import version
from typing import Any

import mlx.core as mx

from orchard import system_memory
from orchard.backends import ffmpeg
from orchard.device import memory as device_memory

GPU_BACKENDS = (("metal", mx.metal), ("cuda", mx.cuda))


def probe_device() -> dict[str, Any]:
    """Return MLX's version, backend ("metal", "cuda" or "cpu"), device and memory in bytes, and ffmpeg's path.

    `memory_bytes`: all memory; `usable_bytes`: how much of it models may take; `usable_by`: what sets this limit;
    `available_bytes`: what is free now; `wired_bytes`: what Metal may keep resident (None without Metal). Raise
    RuntimeError if MLX computes wrong results.
    """
    backend = next((name for name, module in GPU_BACKENDS if module.is_available()), "cpu")
    if mx.sum(mx.ones((8, 8)) @ mx.ones((8, 8))).item() != 512:
        raise RuntimeError("MLX computes wrong results on this machine")
    info = mx.device_info()
    system, own = system_memory.read_system_memory(), device_memory.read_device_memory(has_model=False)
    return {
        "version": version("mlx"),
        "backend": backend,
        "device": info.get("device_name", "unknown"),
        "memory_bytes": own.total_bytes or system.total_bytes,
        "usable_bytes": device_memory.recommended_bytes(),
        "usable_by": f"cgroup {system.cgroup}" if system.cgroup and backend == "cpu" else "device",
        "available_bytes": own.free_bytes if own.total_bytes else system.available_bytes,
        "wired_bytes": info.get("max_recommended_working_set_size"),
        "ffmpeg": ffmpeg.find_ffmpeg(),
    }


if __name__ == "__main__":
    print(json.dumps(probe_device()))
