"""Orchard while another program takes and frees memory at random: nothing may fail but by 503, and nothing may die.

    python -m benchmarks.memory_pressure --model FOLDER --minutes 5

The other program is benchmarks.memory_hog. With CUDA it takes the device's memory. On Linux, where a memory cgroup can
be made (as root), the server and it share one with --limit-gib; elsewhere it takes the machine's, except for 4 GiB. A
JSON line is printed for each of two phases:

- `undisturbed`: the scenario of `orchard bench` with --streams streams, --rounds times, without the other program.
  To compare two versions, run it with --minutes 0 in both checkouts in turn.
- `pressure`: for --minutes, --streams streams of answers to prompts of random lengths, now and then of 8,000 tokens,
  and to questions behind shared prefixes, while the other program takes and frees. Without CUDA, also embeddings,
  speech, transcription and pictures, by tiny models.

`allowed`: how many requests got a 503 with retry-after; `failures` lists all others. `samples`: greedy answers under
pressure, compared with those that the server gave alone before. Where they part, the two tokens' log-probabilities
differ by less than --tie in `near_ties`, by more or by an unknown number in `apart` (benchmarks.alone).
`out_of_memory`: the log's lines about allocations that failed and were survived. `about_memory`: its lines about
memory, with numbers as N, and how often each came. With --no-watch, whoever reads what is free gets a huge number.
Arguments after `--` go to `orchard serve`.
"""

import argparse
import asyncio
import contextlib
import json
import os
import re
import signal
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import httpx
import mlx.core as mx
import psutil

from benchmarks.contenders import Contender, Running
from benchmarks.memory_hog import GIB, Hog, limited, oom_kills, within
from benchmarks.memory_traffic import Client, Outcome, Samples, Traffic, other_kinds
from orchard.cli.bench import LoadProfile, measure_scenarios
from orchard.cli.bench_client import BenchClient, Figures

_MIB = 2**20
_READY_SECONDS = 120.0
_LOG_LINES = 40
_ABOUT_MEMORY = re.compile(r"memory|bytes|cache|g[ai]ves? up|preempt|unload|evict|smaller", re.IGNORECASE)

READERS = {
    "orchard.system_memory": ("read_system_memory", "available_bytes"),
    "orchard.device.memory": ("read_device_memory", "free_bytes"),
}
"""Who reads what is free: modules, the function in each, and the field of its tuple or struct. Only this knows it."""
UNWATCHED = f"""
import importlib.abc, importlib.util, sys

class Finder(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name not in {READERS!r}:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        sys.meta_path.insert(0, self)
        load = spec.loader.exec_module

        def exec_module(module):
            load(module)
            from msgspec.structs import replace
            function, field = {READERS!r}[name]
            read, huge = getattr(module, function), {{field: 10**15}}

            def unwatched(*args, **named):
                found = read(*args, **named)
                return found._replace(**huge) if isinstance(found, tuple) else replace(found, **huge)

            setattr(module, function, unwatched)
            print("unwatched: " + name, file=sys.stderr, flush=True)

        spec.loader.exec_module = exec_module
        return spec

sys.meta_path.insert(0, Finder())
"""
"""A `sitecustomize.py` that makes them read a huge number, and says so on the standard error."""


class Peaks:
    """The most memory of each process, and how often a model's process died, as seen twice a second."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._most: Counter[str] = Counter()
        self._restarts: Counter[str] = Counter()

    async def watch(self) -> None:
        """Look until this is cancelled."""
        while True:
            with contextlib.suppress(httpx.HTTPError):
                health, stats = await self._client.get("/health"), await self._client.get("/v1/stats")
                for name, model in health["models"].items():
                    self._restarts[name] = max(self._restarts[name], model["restarts"])
                    self._see(name, stats["models"][name]["memory"]["mlx_bytes"], model["pid"])
            await asyncio.sleep(0.5)

    def _see(self, name: str, mlx: int | None, pid: int | None) -> None:
        self._keep(f"{name} mlx", mlx or 0)
        with contextlib.suppress(psutil.Error):
            process = psutil.Process(pid) if pid else None
            parent = process.parent() if process else None
            self._keep(f"{name} rss", process.memory_info().rss if process else 0)
            self._keep("gateway rss", parent.memory_info().rss if parent else 0)

    def _keep(self, name: str, size: int) -> None:
        self._most[name] = max(self._most[name], size)

    def report(self) -> dict[str, Any]:
        """Return both."""
        peaks = {name: round(size / _MIB) for name, size in self._most.items() if size}
        return {"restarts": +self._restarts, "peak_mib": peaks}


def failures(outcomes: Iterable[Outcome]) -> dict[str, Any]:
    """Count how requests ended, and list those that failed as none may."""
    done = list(outcomes)
    bad = Counter((one.kind, one.status, one.code, one.error) for one in done if one.code and not one.allowed)
    return {
        "requests": len(done),
        "kinds": Counter(one.kind for one in done),
        "well": sum(not one.code for one in done),
        "allowed": Counter(one.code for one in done if one.allowed),
        "failed": sum(bad.values()),
        "failures": [
            {"kind": kind, "status": status, "code": code, "error": error, "times": times}
            for (kind, status, code, error), times in bad.most_common()
        ],
    }


def log_figures(log: str) -> dict[str, Any]:
    """Count the lines of a log about failed allocations, about the end of workers and about memory."""
    lines = log.splitlines()
    died = [line for line in lines if "the worker died" in line]
    short = [line for line in lines if "out of memory" in line.lower() and line not in died]
    about = Counter(re.sub(r"\d[\d,.:]*", "N", line) for line in lines if _ABOUT_MEMORY.search(line))
    return {
        "out_of_memory": len(short),
        "died": died,
        "about_memory": dict(about.most_common(_LOG_LINES)),
        "unwatched": sum(line.startswith("unwatched: ") for line in lines),
    }


class Pressure:
    """One run: a server, a model and the other program."""

    def __init__(self, args: argparse.Namespace, folder: Path, cgroup: Path | None) -> None:
        self._args = args
        self._cgroup = cgroup
        models, self._others = ([], []) if args.cuda else other_kinds(folder)
        command = [sys.executable, "-m", "orchard", "serve", args.model, *models, "--log-level", "info"]
        # A failure is a status then, however long a request has waited.
        command += ["--keep-alive-interval", "3600", *args.serve]
        environment = {"ORCHARD_PROMPT_CACHE_DIR": str(folder / "cache")}
        if args.no_watch:
            (folder / "site").mkdir()
            (folder / "site" / "sitecustomize.py").write_text(UNWATCHED)
            environment["PYTHONPATH"] = os.pathsep.join(
                [str(folder / "site"), *filter(None, [os.getenv("PYTHONPATH")])]
            )
        model = Path(args.model).name
        self._running = Running(
            Contender("orchard", within(cgroup, command), environment, model), Path(args.log or folder / "log")
        )

    async def run(self) -> None:
        """Run the phases and print their lines."""
        await asyncio.to_thread(self._running.start)
        try:
            if self._args.no_watch and not log_figures(self._log)["unwatched"]:
                raise RuntimeError("--no-watch: nothing of READERS is in this version")
            if self._args.rounds:
                self._print("undisturbed", await self._undisturbed())
            if self._args.minutes:
                async with Client(self._running.url, self._running.contender.model or "") as client:
                    self._print("pressure", await self._pressure(client))
        finally:
            await asyncio.to_thread(self._running.stop)

    @property
    def _log(self) -> str:
        return self._running.log.read_text(errors="replace")

    async def _undisturbed(self) -> dict[str, Any]:
        found: list[Figures] = []
        async with BenchClient(self._running.url) as client:
            await client.choose_model(self._running.contender.model)
            for number in range(self._args.rounds):
                load = LoadProfile(seed=self._args.seed + number)
                await measure_scenarios(client, load, [f"c{self._args.streams}"], found.append)
        rates = [one.tokens_s for one in found if one.tokens_s is not None]
        median = statistics.median(rates) if rates else None
        return {"tokens_s": median, "rounds": rates, "failed": sum(one.failed for one in found)}

    async def _pressure(self, client: Client) -> dict[str, Any]:
        samples, peaks, args = Samples(client, self._args.seed), Peaks(client), self._args
        await samples.ask_alone()
        hog = Hog(cuda=args.cuda, cgroup=self._cgroup, leave=args.leave_mib * _MIB, seed=args.seed, pause=args.pause)
        watching = asyncio.create_task(peaks.watch())
        seconds, begin = args.minutes * 60, time.monotonic()
        traffic = Traffic(client, args.seed, seconds)
        tasks = [traffic.text(stream) for stream in range(args.streams)]
        tasks += [traffic.repeat(*request) for request in self._others]
        await asyncio.gather(*tasks, samples.ask(seconds))
        took = time.monotonic() - begin
        code = await asyncio.to_thread(hog.stop)
        recovered = await self._recovered(client)
        watching.cancel()
        tokens = sum(one.tokens for one in client.outcomes)
        return {
            "seconds": round(took, 1),
            **failures(client.outcomes),
            "tokens_s": round(tokens / took, 1),
            "samples": samples.compared(args.tie),
            **peaks.report(),
            "recovered": recovered,
            "hog": self._hog_figures(hog, code),
            **log_figures(self._log),
            "memory": (await client.get("/v1/stats"))["memory"],
        }

    async def _recovered(self, client: Client) -> bool:
        """Return whether every kind answers again, once nothing else takes memory."""
        before = len(client.outcomes)
        end = time.monotonic() + _READY_SECONDS
        for kind, path, arguments in [("text", "", {}), *self._others]:
            while True:
                asked = client.post(kind, path, **arguments) if path else client.chat(kind, "Hello", 8)
                if not (await asked).code:
                    break
                if time.monotonic() > end:
                    return False
        del client.outcomes[before:]
        return True

    def _hog_figures(self, hog: Hog, code: int) -> dict[str, Any]:
        most = max((one.held for one in hog.reports), default=0)
        least = min((one.free for one in hog.reports), default=0)
        kills = {"oom_kills": oom_kills(self._cgroup)} if self._cgroup else {}
        sizes = {"most_held_mib": round(most / _MIB), "least_free_mib": round(least / _MIB)}
        return {"steps": len(hog.reports), **sizes, "exit_code": code, "cgroup": self._cgroup is not None, **kills}

    def _print(self, phase: str, figures: dict[str, Any]) -> None:
        args = self._args
        shape = {"model": Path(args.model).name, "streams": args.streams, "watch": not args.no_watch}
        print(json.dumps({"benchmark": "memory_pressure", "phase": phase, **shape, **figures}), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="demo", help="`demo` or a folder")
    parser.add_argument("--minutes", type=float, default=3.0, help="of the pressure; 0: only the undisturbed phase")
    parser.add_argument("--rounds", type=int, default=3, help="of the undisturbed phase; 0: without it")
    parser.add_argument("--streams", type=int, default=32)
    parser.add_argument("--device", choices=("auto", "cpu", "cuda"), default="auto", help="whose memory is taken")
    parser.add_argument(
        "--leave-mib", type=int, default=0, help="what is always left (default: 1024 with CUDA, else 512)"
    )
    parser.add_argument("--pause", type=float, default=2.0, help="between its steps, at most, in seconds")
    parser.add_argument("--limit-gib", type=float, default=6.0, help="of the cgroup")
    parser.add_argument("--tie", type=float, default=0.1)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--no-watch", action="store_true")
    parser.add_argument("--log", metavar="FILE", help="the server's log (default: a temporary file)")
    parser.add_argument("serve", nargs="*", metavar="-- OPTION", help="goes to orchard serve")
    args = parser.parse_args()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # so that the server and the cgroup end
    args.cuda = mx.cuda.is_available() if args.device == "auto" else args.device == "cuda"
    args.leave_mib = args.leave_mib or (1024 if args.cuda else 512)
    group = contextlib.nullcontext() if args.cuda else limited(int(args.limit_gib * GIB))
    with tempfile.TemporaryDirectory(prefix="orchard-pressure-") as folder, group as cgroup:
        asyncio.run(Pressure(args, Path(folder), cgroup).run())


if __name__ == "__main__":
    main()
