"""Orchard compared with other servers of MLX models, on one machine in one run, with the scenarios of `orchard bench`.

    python -m benchmarks.serving --model FOLDER --rival mlx-lm=/path/to/python --rival mlx-vlm-apc=/path/to/python

Each round starts one server after the other, warms it up and runs every scenario with the round's own prompts. With
--together, all servers keep running: use this if idle servers cost nothing and there is enough memory. In addition to
the scenarios of `orchard bench`, there are `restart` (the first token of `again` after a restart of the server) and
`raw` (mlx-lm's `stream_generate` in a separate process, without a server). Arguments after `--` go to `orchard serve`.
Random weights repeat themselves, so guesses are right too often: with such models, end with `-- --speculation off`.

Writes every round's figures to FILE.jsonl as JSON lines, and after each server's turn the table of medians to FILE.md.
"""

import argparse
import asyncio
import json
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import msgspec

from benchmarks.comparison import Row, table
from benchmarks.contenders import RIVALS, Contender, Running
from benchmarks.raw_loops import Loops
from orchard.cli.bench import DEFAULT_SCENARIOS, LoadProfile, check_scenario, measure_scenarios
from orchard.cli.bench import table_row as line
from orchard.cli.bench_client import BenchClient, Figures
from orchard.core.errors import OrchardError
from orchard.gateway.models.registry import resolve_model

# The servers differ in whether a model thinks by default; with both spellings of the switch all get the same prompt.
SAME_PROMPT = {"enable_thinking": False, "chat_template_kwargs": {"enable_thinking": False}}
SECONDS_TO_WRITE = 3.0  # a cache on disk may be written behind the answer

Report = Callable[[Figures], None]


def play(running: Running, scenarios: Sequence[str], load: LoadProfile, report: Report) -> None:
    """Run scenarios of `orchard bench` against a server that is up."""

    async def run() -> None:
        async with BenchClient(running.url, extra=SAME_PROMPT) as client:
            await client.choose_model(running.contender.model)
            await measure_scenarios(client, load, scenarios, report)

    asyncio.run(run())


def restart(running: Running, load: LoadProfile, report: Report) -> None:
    """Report how a server that was stopped and started opens the conversation that it has had before."""
    play(running, ["again"], load, lambda _: None)
    time.sleep(SECONDS_TO_WRITE)
    running.stop()
    running.start()
    play(running, ["again"], load, lambda figures: report(msgspec.structs.replace(figures, scenario="restart")))


def raw(python: str, path: str, load: LoadProfile, report: Report) -> None:
    """Report mlx-lm's own loop, without a server, in the terms of a scenario."""
    with Loops(python, path) as loops:
        loops.ask("stream", context=load.prompt_tokens, steps=8)
        times = loops.ask("stream", context=load.prompt_tokens, steps=load.max_tokens)
    rate, first = round(times["tokens_s"], 1), round(times["first_s"] * 1e3, 2)
    report(Figures(scenario="raw", requests=1, failed=0, stream_tokens_s=rate, ttft_p50_ms=first))


class Comparison:
    """The rounds, and what came out so far."""

    def __init__(self, args: argparse.Namespace, folder: Path) -> None:
        self._args = args
        self._path = resolve_model(args.model).path
        self._rows: list[Row] = []
        self._out = Path(args.out)
        self._out.with_suffix(".jsonl").write_text("")
        contenders = [] if args.without_orchard else [Contender.orchard(args.model, folder, args.serve)]
        contenders += [Contender.rival(name, python, self._path, folder) for name, python in args.rival]
        self._servers = [
            Running(contender, self._out.with_suffix(f".{contender.name}.log")) for contender in contenders
        ]

    def run(self) -> str:
        """Run every round and give the table. A server that fails is left out of the rest of its round."""
        try:
            for number in range(self._args.repeat):
                if "raw" in self._args.scenario:
                    python = next((python for name, python in self._args.rival if name == "mlx-lm"), sys.executable)
                    raw(python, self._path, self._load(number), partial(self._keep, "mlx-lm", number))
                for running in self._servers:
                    self._round(running, number)
                    self._out.with_suffix(".md").write_text(self._report())
        finally:
            for running in self._servers:
                running.stop()
        return self._report()

    def _round(self, running: Running, number: int) -> None:
        load, report = self._load(number), partial(self._keep, running.contender.name, number)
        scenarios = [name for name in self._args.scenario if name not in ("raw", "restart")]
        try:
            running.start()
            play(running, scenarios, load, report)
            if "restart" in self._args.scenario:
                restart(running, load, report)
        except (RuntimeError, OrchardError) as error:
            print(f"{running.contender.name} is out of round {number}: {error}", file=sys.stderr, flush=True)
        if not self._args.together:
            running.stop()

    def _keep(self, server: str, number: int, figures: Figures) -> None:
        row = Row(server, number, figures)
        self._rows.append(row)
        with self._out.with_suffix(".jsonl").open("ab") as file:
            file.write(msgspec.json.encode(row._asdict()) + b"\n")
        print(f"{number} {server:12} {line(figures)}", flush=True)

    def _load(self, number: int) -> LoadProfile:
        args = self._args
        lengths = (args.max_tokens, args.prompt_tokens, args.prefix_tokens)
        return LoadProfile(
            max_tokens=lengths[0], prompt_tokens=lengths[1], prefix_tokens=lengths[2], seed=args.seed + number
        )

    def _report(self) -> str:
        names = ("model", "repeat", "max_tokens", "prompt_tokens", "prefix_tokens")
        return f"{json.dumps({name: getattr(self._args, name) for name in names})}\n\n{table(self._rows)}\n"


def rival(text: str) -> tuple[str, str]:
    name, _, python = text.partition("=")
    if name not in RIVALS or not python:
        raise argparse.ArgumentTypeError(f"NAME=PYTHON, NAME one of {', '.join(RIVALS)}")
    return name, python


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of a comparison of servers."""
    parser.add_argument("--model", default="demo")
    parser.add_argument("--rival", type=rival, action="append", default=[], metavar="NAME=PYTHON")
    parser.add_argument("--repeat", type=int, default=1)
    parser.add_argument("--together", action="store_true", help="keep all servers up between their turns")
    parser.add_argument("--without-orchard", action="store_true")
    parser.add_argument(
        "--out",
        default="",
        metavar="FILE",
        help="path of the output files, without suffix (default: a temporary folder)",
    )
    parser.add_argument("serve", nargs="*", metavar="-- OPTION", help="goes to orchard serve")


def _scenario(name: str) -> str:
    return name if name in ("raw", "restart") else check_scenario(name)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_arguments(parser)
    parser.add_argument("--scenario", type=_scenario, nargs="+", default=["raw", *DEFAULT_SCENARIOS, "restart"])
    parser.add_argument("--max-tokens", type=int, default=128)
    parser.add_argument("--prompt-tokens", type=int, default=256)
    parser.add_argument("--prefix-tokens", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="orchard-serving-") as folder:
        args.out = args.out or f"{folder}/serving"
        print(Comparison(args, Path(folder)).run())


if __name__ == "__main__":
    main()
