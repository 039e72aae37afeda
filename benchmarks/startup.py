"""The time from a server's start until it listens and until its first token, and the memory of its own process.

    python -m benchmarks.startup --model FOLDER --rival mlx-lm=/path/to/python --state known new

The contenders start in turn. known: with what an earlier start has stored. new: with empty folders for Orchard's
measurements and for compiled kernels, those of MLX and of the CUDA driver. The file cache is warm in both.
Prints JSON lines: medians in seconds and MiB, and for each rival Orchard's first token over the rival's (`ratio`:
median, least and most of the rounds).
"""

import argparse
import json
import os
import statistics
import subprocess
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import httpx
import psutil

from benchmarks.contenders import Contender, free_port
from benchmarks.serving import rival

_START_SECONDS = 600.0
_MESSAGES = [{"role": "user", "content": "Hello!"}]


class Run(NamedTuple):
    """Seconds since the start of the process, and its resident memory after the first token."""

    health: float
    first_token: float
    resident_mib: float


def measure(contender: Contender, folder: Path, *, lasting: bool = False) -> Run:
    """Start a contender that stores measurements and kernels in `folder`; stop it after its first token.

    `lasting`: wait until nothing is measured or compiled any more.
    """
    stored = {"ORCHARD_CACHE_DIR": "orchard", "TMPDIR": "tmp", "CUDA_CACHE_PATH": "cuda"}
    for name in stored.values():
        (folder / name).mkdir(parents=True, exist_ok=True)
    environment = {name: value for name, value in os.environ.items() if name != "MLX_PTX_CACHE_DIR"}
    environment |= {"HF_HUB_OFFLINE": "1", **contender.environment}
    environment |= {name: str(folder / place) for name, place in stored.items()}
    port = free_port()
    begin = time.perf_counter()
    with (folder / "log").open("ab") as log:
        command = [*contender.command, "--port", str(port)]
        process = subprocess.Popen(command, env=environment, stdout=log, stderr=log)
    try:
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=_START_SECONDS) as client:
            _wait_until_up(client, process)
            health = time.perf_counter() - begin
            model = contender.model or client.get("/v1/models").json()["data"][0]["id"]
            body = {"model": model, "stream": True, "max_tokens": 8, "messages": _MESSAGES}
            with client.stream("POST", "/v1/chat/completions", json=body) as response:
                next(line for line in response.iter_lines() if _has_token(line))
            first_token = time.perf_counter() - begin
            while lasting and any(one["warming_up"] for one in client.get("/health").json().get("models", {}).values()):
                time.sleep(0.1)
        return Run(health, first_token, psutil.Process(process.pid).memory_info().rss / 2**20)
    finally:
        process.terminate()
        process.wait()


def _wait_until_up(client: httpx.Client, process: "subprocess.Popen[bytes]") -> None:
    while process.poll() is None:
        try:
            client.get("/health").raise_for_status()
        except httpx.ConnectError:
            time.sleep(0.005)
        else:
            return
    raise RuntimeError(f"the server ended with exit code {process.returncode}")


def _has_token(line: str) -> bool:
    if not line.startswith("data: {"):
        return False
    choices = json.loads(line[6:])["choices"]
    return bool(choices) and any(
        choices[0]["delta"].get(part) for part in ("content", "reasoning", "reasoning_content")
    )


def _print_results(state: str, runs: Mapping[str, list[Run]]) -> None:
    for name, own in runs.items():
        medians = [round(statistics.median(column), 3) for column in zip(*own, strict=True)]
        line = {"benchmark": "startup", "state": state, "server": name, "runs": len(own)}
        print(json.dumps(line | dict(zip(Run._fields, medians, strict=True))), flush=True)
    orchard, *rivals = runs
    for name in rivals:
        pairs = zip(runs[orchard], runs[name], strict=True)
        ratios = [round(own.first_token / other.first_token, 3) for own, other in pairs]
        line = {"benchmark": "startup", "state": state, "rival": name}
        spread = {"ratio": statistics.median(ratios), "least": min(ratios), "most": max(ratios)}
        print(json.dumps(line | spread), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="demo")
    parser.add_argument("--rival", type=rival, action="append", default=[], metavar="NAME=PYTHON")
    parser.add_argument("--state", choices=("known", "new"), nargs="+", default=["known"])
    parser.add_argument("--runs", type=int, default=7)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        contenders = [Contender.orchard(args.model, folder, ())]
        contenders += [Contender.rival(name, python, args.model, folder) for name, python in args.rival]
        for state in args.state:
            runs: dict[str, list[Run]] = {contender.name: [] for contender in contenders}
            if state == "known":
                for contender in contenders:
                    measure(contender, folder / contender.name, lasting=True)
            for _ in range(args.runs):
                for contender in contenders:
                    if state == "known":
                        runs[contender.name].append(measure(contender, folder / contender.name))
                    else:
                        with tempfile.TemporaryDirectory(dir=folder) as empty:
                            runs[contender.name].append(measure(contender, Path(empty)))
            _print_results(state, runs)


if __name__ == "__main__":
    main()
