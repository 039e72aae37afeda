"""How `kill -9` of a model's worker affects its callers, the next request, and another model's streams.

Steady streams run on `a` and on `b`, and `a` has requests without streaming; then the worker of `a` is killed.
`told_s`: when the last of the `told` streams of `a` got its error (target: 1 s). `served_s`: when a request that was
sent right after the kill got its first token (target: the bare load plus 1 s). `again_s`: when the last answer without
streaming came, from the new worker. `b_..._ms`: gaps in the streams of `b`, in the seconds before the kill and from
then until that first token.
Prints a JSON line for each run, with times since the kill, and one with the medians.
"""

import argparse
import asyncio
import json
import os
import signal
import statistics
import time
from collections.abc import Sequence

import httpx
from tests.support.serving import Server, serve

from benchmarks.traffic import Traffic, add_models, bare_loads, gaps, two
from orchard.cli.bench_client import BenchClient, TimedAnswer
from orchard.gateway.models.entry import ModelEntry

_QUIET_SECONDS = 3.0
_ANSWER_SECONDS = 600.0
_WHOLE_TOKENS = 64


async def crash(server: Server, streams: int, others: int, whole: int) -> dict[str, float]:
    """Kill the worker of `a` once, and give what became of everyone."""
    victims, neighbours = Traffic(server.url, "a", streams), Traffic(server.url, "b", others)
    await victims.begun()
    await neighbours.begun()
    quiet = time.perf_counter()
    await asyncio.sleep(_QUIET_SECONDS)
    answers = [asyncio.create_task(_whole(server.url)) for _ in range(whole)]
    await asyncio.sleep(0.1)  # they are with the worker
    pid = (await asyncio.to_thread(server.health, "a"))["pid"]
    killed = time.perf_counter()
    os.kill(pid, signal.SIGKILL)
    async with BenchClient(server.url) as client:
        client.model = "a"
        following = (await client.stream_answer([{"role": "user", "content": "Hello"}], 1)).parse_answer()
    again = [answer - killed for answer in await asyncio.gather(*answers) if answer]
    told = [answer for answer in await victims.stop() if answer.error]
    watched = await neighbours.stop()
    return {
        "told": len(told),
        "told_s": max((answer.ended for answer in told), default=killed) - killed,
        "served_s": following.ended - killed if following.error is None else float("inf"),
        "again_s": max(again, default=0.0),
        "whole_failed": whole - len(again),
        "b_failed": sum(answer.error is not None for answer in watched),
        **_gaps("quiet", watched, quiet, killed),
        **_gaps("crash", watched, killed, following.ended),
    }


async def _whole(url: str) -> float:
    """Wait for a whole answer of `a`; give when it was there, 0 where it failed."""
    body = {"model": "a", "max_tokens": _WHOLE_TOKENS, "messages": [{"role": "user", "content": "Tell a story."}]}
    async with httpx.AsyncClient(base_url=url, timeout=_ANSWER_SECONDS) as http:
        response = await http.post("/v1/chat/completions", json=body)
    return time.perf_counter() if response.is_success else 0.0


def _gaps(name: str, answers: Sequence[TimedAnswer], begin: float, end: float) -> dict[str, float]:
    found = gaps(answers, begin, end)
    return {f"b_{name}_p50_ms": statistics.median(found) * 1e3, f"b_{name}_max_ms": max(found) * 1e3}


async def measure(models: Sequence[ModelEntry], args: argparse.Namespace) -> None:
    """Crash it several times, and print."""
    with bare_loads() as loads:
        bare = loads.seconds(models[0].path, args.runs)
    runs = []
    with serve(models, max_loaded_models=2, log_level="warning") as server:
        for number in range(args.runs):
            for model in models:
                await asyncio.to_thread(server.until, model.id, 300, state="ready")
            await asyncio.sleep(args.settle)
            runs.append(await crash(server, args.streams, args.others, args.whole))
            print(json.dumps({"benchmark": "crash", "run": number, **_rounded(runs[-1])}), flush=True)
    medians = {name: statistics.median(run[name] for run in runs) for name in runs[0]}
    shape = {"runs": args.runs, "streams": args.streams, "others": args.others, "whole": args.whole}
    line = {"benchmark": "crash", **shape, "bare_load_s": bare, "target_served_s": bare + 1, **medians}
    print(json.dumps(_rounded(line)))


def _rounded(figures: dict[str, float]) -> dict[str, object]:
    return {name: round(value, 3) if isinstance(value, float) else value for name, value in figures.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_models(parser)
    parser.add_argument("--streams", type=int, default=16, help="streams on the model that crashes")
    parser.add_argument("--others", type=int, default=4, help="streams on the other model")
    parser.add_argument("--whole", type=int, default=4, help="requests without streaming to the model that crashes")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument(
        "--settle", type=float, default=8.0, help="idle seconds before each crash, for the spare process"
    )
    args = parser.parse_args()
    asyncio.run(measure(two(args.model), args))


if __name__ == "__main__":
    main()
