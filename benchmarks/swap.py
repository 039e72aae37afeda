"""The cost of two models with room for one, compared with mlx-lm's bare load of the same model in the same run.

swap: requests to two models in turn, with `max_loaded_models` 1; the cost is the time of such a request minus that of
the same request to a loaded model. Measured back to back (pause 0) and with pauses. idle: the same for the first
request after a model was unloaded because it was idle. The target is 1.25 bare loads plus 0.3 s; `share` is the cost
divided by the target.
memory: resident MiB of the gateway and of worker processes in the first third and in the last third of many alternating
requests; `growth` is that of the gateway and the serving worker. A worker grows in its first loads, so only hundreds of
requests show a leak.
Prints JSON lines: medians, in seconds.
"""

import argparse
import json
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import httpx
import msgspec
import psutil
from tests.support.serving import Server, serve

from benchmarks.traffic import BareLoads, add_models, ask, bare_loads, two
from orchard.gateway.models.entry import ModelEntry

_WARM = 5
_LOADS = 1.25
_SECONDS = 0.3
_ANSWER_SECONDS = 600.0


def target(bare: float) -> float:
    """Give what a swap to a model with that load time may cost."""
    return _LOADS * bare + _SECONDS


def swaps(http: httpx.Client, runs: int, pause: float) -> dict[str, float]:
    """Give the cost of a swap to each of the models."""
    turns: dict[str, list[float]] = {"a": [], "b": []}
    for _ in range(runs + 1):
        for model, times in turns.items():
            time.sleep(pause)
            times.append(ask(http, model))
    # The first round begins with whatever was there.
    return {model: statistics.median(times[1:]) - _warm(http, model) for model, times in turns.items()}


def idle(server: Server, http: httpx.Client, runs: int, pause: float) -> dict[str, float]:
    """Give the cost of the first request to `a` after it was unloaded."""
    times, warm = [], []
    for _ in range(runs):
        ask(http, "a")
        warm += [ask(http, "a") for _ in range(_WARM)]
        while server.health("a")["pid"]:
            time.sleep(0.05)
        time.sleep(pause)
        times.append(ask(http, "a"))
    return {"a": statistics.median(times) - statistics.median(warm)}


def memory(server: Server, http: httpx.Client, requests: int) -> dict[str, Any]:
    """Ask the two in turn, and give what the processes take in the first third of the requests and in the last."""
    taken = []
    failed = 0
    for _ in range(requests // 2):
        for model in ("a", "b"):
            try:
                ask(http, model)
            except httpx.HTTPError:
                failed += 1
        taken.append(_resident(server))
    third = max(1, len(taken) // 3)
    first, last = (
        [round(statistics.median(column), 1) for column in zip(*part, strict=True)]
        for part in (taken[:third], taken[-third:])
    )
    names = ("gateway_mib", "worker_mib", "all_workers_mib")
    figures = {name: list(pair) for name, *pair in zip(names, first, last, strict=True)}
    return {"requests": requests, "failed": failed, **figures, "growth": round(sum(last[:2]) / sum(first[:2]) - 1, 4)}


def _resident(server: Server) -> tuple[float, float, float]:
    """Give the MiB of the gateway, of the worker that has `b`, and of all workers with the spare one."""
    gateway = psutil.Process(server.process.pid)
    workers = {child.pid: child.memory_info().rss / 2**20 for child in gateway.children()}
    return gateway.memory_info().rss / 2**20, workers.get(server.health("b")["pid"], 0.0), sum(workers.values())


def _warm(http: httpx.Client, model: str) -> float:
    ask(http, model)
    return statistics.median(ask(http, model) for _ in range(_WARM))


class Bare:
    """The bare load of each model, measured before and after what it is compared with."""

    def __init__(self, loads: BareLoads, models: Sequence[ModelEntry], runs: int) -> None:
        self._loads = loads
        self._models = models
        self._runs = runs

    def beside(self, work: Callable[[], Mapping[str, float]]) -> Iterator[dict[str, Any]]:
        """Give what is to be told of each model whose cost `work` gives."""
        before = self._seconds()
        costs = work()
        after = self._seconds()
        for model, cost in costs.items():
            bare = (before[model] + after[model]) / 2
            figures = {"cost_s": cost, "bare_load_s": bare, "target_s": target(bare), "share": cost / target(bare)}
            yield {"model": model, "runs": self._runs, **{name: round(value, 3) for name, value in figures.items()}}

    def _seconds(self) -> dict[str, float]:
        return {model.id: self._loads.seconds(model.path, self._runs) for model in self._models}


def measure(models: Sequence[ModelEntry], bare: Bare, args: argparse.Namespace) -> None:
    """Run everything and print a line each."""
    with serve(models, max_loaded_models=1, log_level="warning") as server, _client(server) as http:
        for pause in args.pause:
            for figures in bare.beside(partial(swaps, http, args.runs, pause)):
                _report("swap", {"pause_s": pause, **figures})
        _report("memory", memory(server, http, args.requests))
    leaving = [msgspec.structs.replace(model, ttl=args.idle) for model in models]
    with serve(leaving, max_loaded_models=1, log_level="warning") as server, _client(server) as http:
        for pause in args.pause:
            for figures in bare.beside(partial(idle, server, http, args.runs, pause)):
                _report("idle", {"pause_s": pause, **figures})


def _report(benchmark: str, figures: dict[str, Any]) -> None:
    print(json.dumps({"benchmark": benchmark, **figures}), flush=True)


def _client(server: Server) -> httpx.Client:
    return httpx.Client(base_url=server.url, timeout=_ANSWER_SECONDS)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_models(parser)
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument("--pause", type=float, nargs="+", default=[0.0, 5.0], help="seconds before each swap")
    parser.add_argument("--idle", type=float, default=8.0, help="seconds without a request before a model is unloaded")
    parser.add_argument("--requests", type=int, default=40, help="alternating requests for the memory figures")
    args = parser.parse_args()
    models = two(args.model)
    with bare_loads() as loads:
        measure(models, Bare(loads, models, args.runs), args)


if __name__ == "__main__":
    main()
