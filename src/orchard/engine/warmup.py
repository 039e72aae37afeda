"""Runs each kind of step once before a model serves, so that no request waits for a kernel to be compiled.

On the CPU, MLX builds a kernel with the machine's C++ compiler and keeps it in a folder for temporary files, for every
later process. On a GPU each process makes its own.
"""

import tempfile
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import mlx.core as mx

from orchard.engine.batching.job import Job
from orchard.engine.runner import Runner
from orchard.engine.sampling.params import SamplingParams

_WAYS: tuple[dict[str, Any], ...] = (
    {"temperature": 0.0},
    {},
    {"top_k": 20, "top_p": 0.9, "min_p": 0.01},
    {"top_p": 0.9},
    {"top_k": 20, "xtc_probability": 1.0, "xtc_threshold": 0.01},
    {"repetition_penalty": 1.1, "presence_penalty": 0.1, "frequency_penalty": 0.1, "frequency_context_size": 4},
    {"logit_bias": {0: 1.0}, "top_logprobs": 1, "thinking_budget": 1, "think_start": 1, "think_end": 0},
)
_GREEDY = SamplingParams(seed=0, **_WAYS[0])
_LONG = ((300, 1), (600, 9), (2050, 1))  # tokens, rows

done: set[str] = set()
"""The names of the models that this process has warmed up."""


def is_kept() -> bool:
    """Return whether a model warmed up by another process is warm in this one: its kernels are in MLX's folder."""
    if mx.default_device() == mx.gpu:
        return False
    folder = Path(tempfile.gettempdir()) / "mlx" / version("mlx") / "cpu"
    return folder.is_dir()


def once(runner: Runner) -> None:
    """Read a prompt and draw two tokens: the check for a model that is already warm."""
    _run(runner, [Job("greedy", [0, 0], _GREEDY, max_tokens=2)])


def every_way(runner: Runner, tick: Callable[[], None]) -> None:
    """Run one row and several, every way to draw, a piece of a prompt and the end of it; call `tick` in between.

    RuntimeError where the model can't do that.
    """
    on_gpu = mx.default_device() == mx.gpu
    # Long prompts would take the CPU seconds, for nothing: its kernels serve any length.
    length, tokens = (17, 4) if on_gpu else (3, 3)
    _run(runner, [Job("greedy", [0, 0], _GREEDY, max_tokens=tokens)])
    tick()
    draws = [SamplingParams(seed=0, **way) for way in _WAYS]
    _run(runner, [Job(f"mixed {number}", [0] * length, params, tokens) for number, params in enumerate(draws)])
    if on_gpu:
        for length, rows in _LONG:
            tick()
            _run(runner, [Job("rows", [0] * length, _GREEDY, max_tokens=4, choices=rows)])
    mx.clear_cache()


def _run(runner: Runner, jobs: list[Job]) -> None:
    for job in jobs:
        runner.add(job)
    while not runner.idle:
        if broken := runner.step().broken:
            raise RuntimeError(broken[0].message)
