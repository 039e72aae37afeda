"""What a step of decode consists of: the operations in its graph, how many of them launch work, and the host's time.

Counts come from MLX's graph before it is launched; each counted launch is at least one kernel.
"""

import io
import re
import statistics
import time
from collections.abc import Callable
from typing import Any

import mlx.core as mx

_OPERATION = re.compile(r'label ="(\w+)", shape=rectangle')
_VIEWS = frozenset(
    [
        "AsStrided",
        "Broadcast",
        "BroadcastAxes",
        "Depends",
        "ExpandDims",
        "Flatten",
        "Reshape",
        "Slice",
        "Split",
        "Squeeze",
        "StopGradient",
        "Transpose",
        "Unflatten",
        "View",
    ]
)
_WAITS = ("tolist", "item")


class StepMeter:
    """While it is entered, it notes what the process passes to `mx.async_eval`, once a step, and how long that takes.

    `counts`: the graphs' operations are counted, which takes longer than a step.
    """

    def __init__(self, counts: bool) -> None:
        self._counts = counts
        self._operations: list[list[str]] = []
        self._steps: list[tuple[float, float]] = []  # seconds of launching, and from there to the next launch
        self._ended = 0.0
        self._waited = 0.0
        self._replaced: list[tuple[Any, str, Any]] = []

    def __enter__(self) -> "StepMeter":
        self._replace(mx, "async_eval", self._launch(mx.async_eval))
        self._replace(mx, "eval", self._wait(mx.eval))
        for name in _WAITS:
            self._replace(mx.array, name, self._wait(getattr(mx.array, name)))
        return self

    def __exit__(self, *_: object) -> None:
        for owner, name, original in self._replaced:
            setattr(owner, name, original)

    def figures(self) -> dict[str, float]:
        """Return the medians over the steps: operations and launches, or milliseconds of building and of launching."""
        if self._counts:
            launches = [sum(name not in _VIEWS for name in one) for one in self._operations]
            return {
                "operations": statistics.median(map(len, self._operations)),
                "launches": statistics.median(launches),
            }
        build, launch = zip(*self._steps[1:], strict=True)
        return {
            "build_ms": round(statistics.median(build) * 1e3, 3),
            "launch_ms": round(statistics.median(launch) * 1e3, 3),
        }

    def _replace(self, owner: Any, name: str, by: Any) -> None:
        self._replaced.append((owner, name, getattr(owner, name)))
        setattr(owner, name, by)

    def _launch(self, original: Callable[..., None]) -> Callable[..., None]:
        def launch(*arrays: Any) -> None:
            if self._counts:
                text = io.StringIO()
                mx.export_to_dot(text, *_flat(arrays))
                self._operations.append(_OPERATION.findall(text.getvalue()))
            begin = time.perf_counter()
            original(*arrays)
            end = time.perf_counter()
            self._steps.append((begin - self._ended - self._waited, end - begin))
            self._ended, self._waited = end, 0.0

        return launch

    def _wait(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def wait(*args: Any) -> Any:
            begin = time.perf_counter()
            result = original(*args)
            self._waited += time.perf_counter() - begin
            return result

        return wait


def _flat(tree: Any) -> list[mx.array]:
    """Return the arrays of nested lists, tuples and dicts."""
    if isinstance(tree, mx.array):
        return [tree]
    branches = tree.values() if isinstance(tree, dict) else tree if isinstance(tree, list | tuple) else ()
    return [array for branch in branches for array in _flat(branch)]
