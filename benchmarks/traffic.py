"""What the benchmarks of several models share: two models behind one server, mlx-lm's bare load, and steady streams."""

import argparse
import asyncio
import itertools
import statistics
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

import httpx
import msgspec

from orchard.cli.bench_client import BenchClient, TimedAnswer
from orchard.gateway.models.entry import ModelEntry
from orchard.gateway.models.registry import resolve_model

NAMES = ("a", "b")
_MOST_TOKENS = 4096  # of one answer of a steady stream
_BARE = """
import gc, sys, time
import mlx.core as mx
from mlx_lm import load
for line in sys.stdin:
    begin = time.perf_counter()
    model = load(line.rstrip("\\n"))
    print(time.perf_counter() - begin, flush=True)
    del model
    gc.collect()
    mx.clear_cache()
"""


def add_models(parser: argparse.ArgumentParser) -> None:
    """Let the command line name the models."""
    text = "`demo`, a folder or a cached model; given twice: two models, else one under two names"
    parser.add_argument("--model", action="append", default=[], help=text)


def two(models: Sequence[str]) -> list[ModelEntry]:
    """Give the first two models, or one twice, else the demo, under the names `a` and `b`."""
    return [
        msgspec.structs.replace(resolve_model(model), id=name, configured=True)
        for name, model in zip(NAMES, itertools.cycle(models or ["demo"]), strict=False)
    ]


@contextmanager
def bare_loads() -> Iterator["BareLoads"]:
    """Run a process that has imported mlx-lm and does nothing but load."""
    with subprocess.Popen(
        [sys.executable, "-c", _BARE], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        yield BareLoads(process)
        assert process.stdin
        process.stdin.close()


class BareLoads:
    """`mlx_lm.load` without anything around it."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process

    def seconds(self, path: str, runs: int) -> float:
        """Give the median time of a load; one before them, which imports what this model needs, doesn't count."""
        return statistics.median([self._once(path) for _ in range(runs + 1)][1:])

    def _once(self, path: str) -> float:
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.write(f"{path}\n")
        self._process.stdin.flush()
        return float(self._process.stdout.readline())


def ask(http: httpx.Client, model: str) -> float:
    """Give the seconds until a request's whole answer, of one token, is here. Raises httpx.HTTPError."""
    body = {"model": model, "max_tokens": 1, "messages": [{"role": "user", "content": "Hello"}]}
    begin = time.perf_counter()
    http.post("/v1/chat/completions", json=body).raise_for_status()
    return time.perf_counter() - begin


class Traffic:
    """Streams on one model, answer after answer, until they are told to stop or one of them fails."""

    def __init__(self, url: str, model: str, streams: int) -> None:
        self._client = BenchClient(url)
        self._client.model = model
        self._enough = asyncio.Event()
        self._begun = [asyncio.Event() for _ in range(streams)]
        self._tasks = [asyncio.create_task(self._keep(stream)) for stream in range(streams)]

    async def begun(self) -> None:
        """Wait until text has come in every stream, or it has failed."""
        for event in self._begun:
            await event.wait()

    async def stop(self) -> list[TimedAnswer]:
        """End the streams, and give all answers."""
        self._enough.set()
        answers = [answer for answers in await asyncio.gather(*self._tasks) for answer in answers]
        await self._client.__aexit__()
        return answers

    async def _keep(self, stream: int) -> list[TimedAnswer]:
        answers: list[TimedAnswer] = []
        while not self._enough.is_set() and not (answers and answers[-1].error):
            prompt = {"role": "user", "content": f"Tell a long story, number {len(answers)} of {stream}."}
            answer = await self._client.stream_answer(
                [prompt], _MOST_TOKENS, begun=self._begun[stream], enough=self._enough
            )
            answers.append(answer.parse_answer())
        return answers


def gaps(answers: Iterable[TimedAnswer], begin: float, end: float) -> list[float]:
    """Give the seconds between neighbouring pieces of each answer, where they touch the time from begin to end."""
    return [
        later - earlier
        for answer in answers
        for earlier, later in itertools.pairwise(answer.stamps)
        if later > begin and earlier < end
    ]
