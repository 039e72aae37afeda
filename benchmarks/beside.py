"""How loading a model affects the streams of another: the gaps between their tokens, before the load and during it.

Steady streams run on `a`. Again and again, `b` is loaded (by a request; the time until its answer counts) and unloaded.
Each load is compared with about the last second before it. Prints one JSON line, in milliseconds; `change` is that of
the median gap, and the target is 0.15 at most. The server starts a spare process slowly while requests run. So with a
short pause, a load includes the imports of a new process.
"""

import argparse
import asyncio
import json
import statistics
import time
from collections.abc import Sequence

import httpx
import msgspec
from tests.support.serving import serve

from benchmarks.traffic import Traffic, add_models, ask, bare_loads, gaps, two
from orchard.gateway.models.entry import ModelEntry

_ANSWER_SECONDS = 600.0

Window = tuple[float, float]


def load_and_unload(http: httpx.Client, pause: float, seconds: float) -> tuple[Window, Window]:
    """Wait for the pause, then so many seconds more, and load `b`; give when these seconds were, and the load."""
    time.sleep(pause)
    quiet = time.perf_counter()
    time.sleep(seconds)
    begin = time.perf_counter()
    ask(http, "b")
    end = time.perf_counter()
    http.post("/v1/models/b/unload").raise_for_status()
    return (quiet, begin), (begin, end)


async def measure(models: Sequence[ModelEntry], streams: int, runs: int, pause: float) -> dict[str, object]:
    """Give the figures of all runs together."""
    with bare_loads() as loads:
        bare = loads.seconds(models[1].path, runs)
    first, second = models[0], msgspec.structs.replace(models[1], on_demand=True)
    with serve((first, second), max_loaded_models=2, log_level="warning") as server:
        await asyncio.to_thread(server.until, first.id, 300, state="ready")
        traffic = Traffic(server.url, first.id, streams)
        await traffic.begun()
        with httpx.Client(base_url=server.url, timeout=_ANSWER_SECONDS) as http:
            windows = [await asyncio.to_thread(load_and_unload, http, pause, 2 * bare + 1) for _ in range(runs)]
        answers = await traffic.stop()
    quiet = [gap for window, _ in windows for gap in gaps(answers, *window)]
    loading = [gap for _, window in windows for gap in gaps(answers, *window)]
    return {
        "streams": streams,
        "runs": runs,
        "pause_s": pause,
        "failed": sum(answer.error is not None for answer in answers),
        "bare_load_s": round(bare, 3),
        "load_s": round(statistics.median(end - begin for _, (begin, end) in windows), 3),
        **_figures("quiet", quiet),
        **_figures("loading", loading),
        "change": round(statistics.median(loading) / statistics.median(quiet) - 1, 3),
    }


def _figures(name: str, seconds: Sequence[float]) -> dict[str, float]:
    p99 = statistics.quantiles(seconds, n=100)[98]
    values = {"p50": statistics.median(seconds), "p99": p99, "max": max(seconds)}
    return {f"{name}_{part}_ms": round(value * 1e3, 2) for part, value in values.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_models(parser)
    parser.add_argument("--streams", type=int, default=16)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--pause", type=float, default=40.0, help="seconds before each load, for the spare process")
    args = parser.parse_args()
    models = two(args.model)
    print(json.dumps({"benchmark": "beside", **asyncio.run(measure(models, args.streams, args.runs, args.pause))}))


if __name__ == "__main__":
    main()
