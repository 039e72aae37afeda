"""Text requests on the vision backend, compared with the same weights on the text backend: two servers, used in turn.

    python -m benchmarks.text_on_vision --model FOLDER --pairs 20

Each pair sends the same request to both servers, one right after the other, in alternating order. Prints a JSON line
for each scenario, in milliseconds to the first token and for each further one: medians of both servers, and the median
of the pairs' ratios (vision / text) with its 95% interval. Without --model, the model has the small shape of
benchmarks.vision_shapes.
"""

import argparse
import asyncio
import json
import statistics
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.contenders import Contender, Running
from benchmarks.speculation import median_interval
from benchmarks.vision_shapes import make_shape
from orchard.cli.bench_client import BenchClient, Figures, compute_figures

_STREAMS = (1, 8)
_WORDS = ("apple", "river", "stone", "window", "garden", "letter", "music", "paper", "silver", "winter")


def prompt(number: int) -> list[dict[str, Any]]:
    """Return messages of some hundred tokens that no other number gives."""
    words = " ".join(_WORDS[number * step % len(_WORDS)] for step in range(1, 60))
    return [{"role": "user", "content": f"{number}: {words}"}]


async def ask(running: Running, streams: int, number: int, tokens: int) -> Figures:
    """Ask a server so many questions at once."""
    async with BenchClient(running.url) as client:
        await client.choose_model(None)
        asked = (client.stream_answer(prompt(number * 100 + one), tokens) for one in range(streams))
        found = compute_figures(str(streams), [stream.parse_answer() for stream in await asyncio.gather(*asked)])
    if found.failed:
        raise RuntimeError(found.error)
    return found


def measure(servers: dict[str, Running], streams: int, pairs: int, tokens: int) -> dict[str, Any]:
    """Run the pairs of a scenario; return its figures."""
    runs: dict[str, list[Figures]] = {name: [] for name in servers}
    for number in range(-1, pairs):
        for name in sorted(servers, reverse=number % 2 == 0):
            found = asyncio.run(ask(servers[name], streams, streams * 1000 + number, tokens))
            if number >= 0:  # the first pair warms up
                runs[name].append(found)
    result: dict[str, Any] = {"streams": streams, "pairs": pairs}
    for figure, value in (("first", _first), ("further", _further)):
        values = {name: [value(one) for one in of] for name, of in runs.items()}
        ratios = [vision / text for vision, text in zip(values["vision"], values["text"], strict=True)]
        result[figure] = {name: round(statistics.median(of), 2) for name, of in values.items()}
        result[f"{figure} ratio"] = [round(one, 3) for one in (statistics.median(ratios), *median_interval(ratios))]
    return result


def _first(run: Figures) -> float:
    assert run.ttft_p50_ms
    return run.ttft_p50_ms


def _further(run: Figures) -> float:
    assert run.stream_tokens_s
    return 1e3 / run.stream_tokens_s


def main() -> None:
    """Start both servers and run the scenarios."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", help="a folder with a vision model that the text backend loads, too")
    parser.add_argument("--pairs", type=int, default=20)
    parser.add_argument("--tokens", type=int, default=64)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        model = given.model or str(make_shape(folder / "model", "small"))
        servers = {}
        for name, kind in (("text", "lm"), ("vision", "multimodal")):
            contender = Contender.orchard(model, folder / name, ("--model-type", kind, "--speculation", "off"))
            servers[name] = Running(contender, folder / f"{name}.log")
        try:
            for running in servers.values():
                running.start()
            for streams in _STREAMS:
                print(json.dumps(measure(servers, streams, given.pairs, given.tokens)), flush=True)
        finally:
            for running in servers.values():
                running.stop()


if __name__ == "__main__":
    main()
