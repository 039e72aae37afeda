"""A draft model in Orchard, compared with mlx_lm.server with the same one: one stream over HTTP, in alternating pairs.

The draft model is a noisy copy of the model, so some of its guesses are right. Both servers run all the time on one
machine. Each pair sends one greedy request to each, with a prompt that is new to both. Tokens per second count from the
first chunk to the last. Prints a JSON line with the medians, and the median of the pairs' ratios with its 95% interval.
Orchard may guess as many tokens as mlx_lm.server does, or fewer.
"""

import argparse
import json
import statistics
import sys
import tempfile
from pathlib import Path

from benchmarks.contenders import Contender, Running
from benchmarks.noisy_copy import noisy_copy
from benchmarks.single_stream import stream
from benchmarks.speculation import median_interval
from orchard.gateway.models.registry import resolve_model


def contenders(path: str, draft: str, tokens: int, folder: Path) -> tuple[Contender, Contender]:
    """Return Orchard and mlx_lm.server, each with the draft."""
    drafting = ["--num-draft-tokens", str(tokens)]
    orchard = Contender.orchard(path, folder, ["--draft-model-path", draft, *drafting])
    rival = Contender.rival("mlx-lm", sys.executable, path, folder)
    return orchard, rival._replace(command=[*rival.command, "--draft-model", draft, *drafting])


def measure(running: list[Running], models: list[str], given: argparse.Namespace) -> list[tuple[float, float]]:
    """Return the tokens a second of each pair."""
    rates: list[tuple[float, float]] = []
    for pair in range(given.settle + given.pairs):
        prompt = f"Request {pair}: count from {pair} to {pair + 150}, in words and then in digits."
        found = {}
        for place in (0, 1) if pair % 2 else (1, 0):
            found[place] = stream(running[place].url, models[place], prompt, given.tokens)["tokens_s"]
        if pair >= given.settle:
            rates.append((found[0], found[1]))
    return rates


def main() -> None:
    """Run what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="demo")
    parser.add_argument(
        "--noise", type=float, default=0.05, help="noise in the draft model's weights, in standard deviations"
    )
    parser.add_argument("--draft-tokens", type=int, default=3)
    parser.add_argument("--tokens", type=int, default=128)
    parser.add_argument("--pairs", type=int, default=20)
    parser.add_argument("--settle", type=int, default=3, help="pairs before the first that counts")
    given = parser.parse_args()
    entry = resolve_model(given.model)
    with tempfile.TemporaryDirectory() as folder:
        draft = noisy_copy(entry.path, Path(folder) / "draft", given.noise)
        both = contenders(entry.path, draft, given.draft_tokens, Path(folder))
        running = [Running(one, Path(folder) / f"{one.name}.log") for one in both]
        try:
            for one in running:
                one.start()
            rates = measure(running, [Path(entry.path).name, entry.path], given)
        finally:
            for one in running:
                one.stop()
    low, high = median_interval([own / rival for own, rival in rates])
    line = {
        "benchmark": "drafting",
        "model": entry.id,
        "noise": given.noise,
        "draft_tokens": given.draft_tokens,
        "orchard_tokens_s": round(statistics.median(own for own, _ in rates), 1),
        "mlx_lm_tokens_s": round(statistics.median(rival for _, rival in rates), 1),
        "ratio": round(statistics.median(own / rival for own, rival in rates), 3),
        "interval": [round(low, 3), round(high, 3)],
        "pairs": len(rates),
    }
    print(json.dumps(line))


if __name__ == "__main__":
    main()
