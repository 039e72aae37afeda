"""The time from `orchard serve` to a listening server and to the demo's first token, and the gateway's memory.

Prints one JSON line: medians over the runs, in seconds and MiB.
"""

import argparse
import json
import socket
import statistics
import subprocess
import sys
import time
from typing import NamedTuple

import httpx
import psutil

_BODY = {"model": "demo", "stream": True, "max_tokens": 8, "messages": [{"role": "user", "content": "Hello!"}]}


class Run(NamedTuple):
    """Seconds since the start of the process, and the gateway's resident memory once the model is ready."""

    health: float
    first_token: float
    resident_mib: float


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as sock:
        port: int = sock.getsockname()[1]
        return port


def measure() -> Run:
    port = _free_port()
    url = f"http://127.0.0.1:{port}"
    begin = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, "-m", "orchard", "serve", "--port", str(port), "--log-level", "error"],
        stdout=subprocess.DEVNULL,
    )
    try:
        health = _until_up(url, begin)
        with httpx.stream("POST", f"{url}/v1/chat/completions", json=_BODY, timeout=60) as response:
            for line in response.iter_lines():
                if line.startswith("data: {") and json.loads(line[6:])["choices"][0]["delta"].get("content"):
                    break
        first_token = time.perf_counter() - begin
        return Run(health, first_token, psutil.Process(process.pid).memory_info().rss / 2**20)
    finally:
        process.terminate()
        process.wait()


def _until_up(url: str, begin: float) -> float:
    with httpx.Client() as client:
        while True:
            try:
                client.get(f"{url}/health").raise_for_status()
                return time.perf_counter() - begin
            except httpx.ConnectError:
                time.sleep(0.005)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=7)
    args = parser.parse_args()
    measure()  # warm the file cache
    runs = [measure() for _ in range(args.runs)]
    medians = [round(statistics.median(column), 3) for column in zip(*runs, strict=True)]
    print(json.dumps({"benchmark": "startup", "runs": args.runs, **dict(zip(Run._fields, medians, strict=True))}))


if __name__ == "__main__":
    main()
