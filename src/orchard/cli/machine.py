"""What MLX finds on this machine; the checks of `orchard doctor` on its disk, and on its memory against each model."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator
from typing import Any, Literal, NamedTuple

from rich.filesize import decimal

from orchard.gateway.models.entry import ModelEntry

_LITTLE_DISK = 10 * 10**9  # a model of eight billion parameters in 8 bits takes most of it
_MIB = 2**20
_SYSTEM_LEAST = 4 * 2**30  # memory to leave for macOS and other programs; an eighth of the memory if that is more
_PROBE_SECONDS = 120
_MLX_NEEDS = "MLX needs macOS 14 or newer and a Python for arm64; on Linux, its CUDA backend needs NVIDIA's driver."
_SMALLER = "Use a version of it with fewer bits, such as one that is called '4bit', or a smaller model."


class Finding(NamedTuple):
    """What was checked, the result and, if something is wrong, how to fix it."""

    status: Literal["ok", "warning", "problem"]
    name: str
    seen: str
    advice: str = ""


def probe_mlx() -> dict[str, Any] | Finding:
    """Return what MLX reports about this machine (`orchard.worker.probe`), or the finding that MLX doesn't work."""
    command = [sys.executable, "-m", "orchard.worker.probe"]  # in its own process, which MLX may abort
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_PROBE_SECONDS, check=True)
    except subprocess.TimeoutExpired:
        return Finding("problem", "MLX", f"MLX computed nothing within {_PROBE_SECONDS} s", _MLX_NEEDS)
    except subprocess.CalledProcessError as error:
        said = error.stderr.strip().rpartition("\n")[2] or f"its process ended with {error.returncode}"
        return Finding("problem", "MLX", f"MLX doesn't work: {said}", _MLX_NEEDS)
    probed: dict[str, Any] = json.loads(done.stdout)
    return probed


def check_disk(folder: str) -> Finding:
    """Say how much room there is for models in a folder, which may not exist yet."""
    while not os.path.isdir(folder):
        folder = os.path.dirname(folder) or os.curdir
    usage = shutil.disk_usage(folder)
    seen = f"{decimal(usage.free)} of {decimal(usage.total)} are free in {folder}"
    if usage.free >= _LITTLE_DISK:
        return Finding("ok", "disk", seen)
    return Finding("warning", "disk", seen, "'orchard rm ID' deletes a model; HF_HOME names another place for models.")


def models_budget(probed: dict[str, Any], memory_limit: int | None) -> int:
    """Return the bytes that all models may take together, computed as the server does."""
    return memory_limit or int(probed["usable_bytes"])


def check_memory(probed: dict[str, Any], memory_limit: int | None) -> Finding:
    """Say how much memory models may take. `probed` is what `orchard.worker.probe` prints."""
    usable, total, free = (decimal(int(probed[f"{name}_bytes"])) for name in ("usable", "memory", "available"))
    now = f"{free} are free now, and programs use {decimal(probed['memory_bytes'] - probed['available_bytes'])}"
    if memory_limit is None:
        return Finding("ok", "memory", f"all models may take {usable} of {total} ({probed['usable_by']}); {now}")
    seen = f"memory_limit lets all models take {decimal(memory_limit)} of {total}; {now}"
    if memory_limit <= probed["usable_bytes"]:
        return Finding("ok", "memory", seen)
    return Finding("warning", "memory", seen, f"Set memory_limit to at most {usable}: the device recommends no more.")


def check_wired_limit(probed: dict[str, Any]) -> Finding:
    """Say how much memory macOS lets the GPU keep resident, and the command that raises it.

    The command: https://ml-explore.github.io/mlx/build/html/python/_autosummary/mlx.core.set_wired_limit.html
    """
    wired, total = int(probed["wired_bytes"]), int(probed["memory_bytes"])
    most = total - max(total // 8, _SYSTEM_LEAST)
    seen = f"the GPU may keep {decimal(wired)} of {decimal(total)} in memory"
    if most <= wired:
        return Finding("ok", "wired limit", f"{seen}; the rest is for the system")
    advice = (
        f"If a model needs more: sudo sysctl iogpu.wired_limit_mb={most // _MIB} raises it until the next restart; "
        "0 brings the default back."
    )
    return Finding("ok", "wired limit", seen, advice)


def describe_room(size: int, most: int) -> Literal["yes", "tight", "no"]:
    """Say whether weights of so many bytes fit, and leave room for KV caches. `most`: what all models may take."""
    return "no" if size > most else "tight" if size + size // 8 > most else "yes"


def check_room(models: Iterable[ModelEntry], most: int, *, on_device: bool = False) -> Iterator[Finding]:
    """Compare each model with `most`, the bytes that all models may take. `on_device`: of memory that only it has."""
    sizes = {
        entry.id: entry.options.loaded_bytes(entry.size_bytes, entry.kept_bytes, on_device=on_device)
        for entry in models
    }
    for name, size in sizes.items():
        weights = f"the weights of {name} take {decimal(size)}"
        room = describe_room(size, most)
        if room == "no":
            yield Finding("warning", "model", f"{weights}; all models may take {decimal(most)}", _SMALLER)
        elif room == "tight":
            seen = f"{weights} and leave {decimal(most - size)} for the KV caches of all requests"
            yield Finding("warning", "model", seen, "Expect short contexts, or set kv_bits. " + _SMALLER)
    if fitting := [name for name, size in sizes.items() if describe_room(size, most) == "yes"]:
        largest = max(fitting, key=sizes.__getitem__)
        seen = f"memory has room for {len(fitting)} of {len(sizes)}, one at a time"
        yield Finding("ok", "models", f"{seen}; the largest of them is {largest}, {decimal(sizes[largest])}")
