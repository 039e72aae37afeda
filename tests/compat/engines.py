"""Where these tests touch the engine: tiny models, and what an engine answers with one of them."""

import os
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from tests.support.engine_driver import Driver, Engines, greedy

# The weights' time is part of what cached prompts are filed under.
_WEIGHTS_TIME_NS = 1_700_000_000_000_000_000


class Answer(NamedTuple):
    """What an engine answers, and how many tokens of the prompt it had in its cache."""

    tokens: list[int]
    cached: int


class _Engine:
    def __init__(self, driver: Driver) -> None:
        self._driver = driver

    def ask(self, tokens: list[int], count: int, boundaries: tuple[int, ...] = ()) -> Answer:
        """Return the likeliest tokens that follow; `boundaries` are the ends of messages."""
        result = self._driver.alone(greedy("a", tokens, count, boundaries=boundaries))
        assert result.cached_tokens is not None
        return Answer(result.only, result.cached_tokens)

    def counters(self) -> dict[str, int]:
        """Return what GET /v1/cache says of the engine."""
        found: Future[dict[str, int]] = Future()
        self._driver._engine.report(lambda counters: found.set_result(dict(counters)))
        return found.result(60)


def make_model(base: Path, kind: str) -> str:
    """Write a tiny model of a kind that `make_architecture` knows, always the same one; return its configuration."""
    folder = Engines(base).folder(kind)
    os.utime(folder / "model.safetensors", ns=(_WEIGHTS_TIME_NS, _WEIGHTS_TIME_NS))
    return (folder / "config.json").read_text()


@contextmanager
def engine(base: Path, kind: str, **options: Any) -> Iterator[_Engine]:
    """Run an engine on the model that `make_model` has written; `options` are those of a text model."""
    with Engines(base).fresh(kind, **options) as driver:
        yield _Engine(driver)
