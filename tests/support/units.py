"""The rest of a model's start, run to its end."""

from collections.abc import Generator
from typing import Any, TypeVar

from orchard.engine.runner import Runner
from orchard.engine.start import make_runner

T = TypeVar("T")


def finish(units: Generator[None, None, T]) -> T:
    """Run all units and return their result."""
    while True:
        try:
            next(units)
        except StopIteration as end:
            result: T = end.value
            return result


def warm_runner(*args: Any, **named: Any) -> Runner:
    """Return what `orchard.engine.start.make_runner` makes, once the rest of the start is done."""
    runner, units = make_runner(*args, **named)
    finish(units)
    return runner


def at_once(result: T) -> Generator[None, None, T]:
    """Units that do nothing but return a result."""
    yield
    return result
