"""`orchard top`: its picture, and a terminal that shows it."""

import asyncio
import io
import os
import pty
import re
import signal
import subprocess
import sys
import termios
import time

import pytest
from rich.console import Console

from orchard.cli.server.client import ListedRequest, MemorySizes, ModelStats, Quantiles, ServerStats
from orchard.cli.server.top import picture
from tests.support.command import clean, orchard
from tests.support.gateway_client import streamed
from tests.support.serving import Server

NAME = "mlx-community/Qwen3-30B-A3B-Instruct-2507-4bit"


def drawn(stats: ServerStats, requests: list[ListedRequest], columns: int = 80) -> list[str]:
    out = io.StringIO()
    console = Console(file=out, width=columns, color_system=None, highlight=False)
    console.print(picture("http://127.0.0.1:8000", stats, requests))
    return out.getvalue().splitlines()


def request(state: str, read: int, generated: int, speed: float | None) -> ListedRequest:
    path = "/openai/deployments/{deployment}/chat/completions"
    created = int(time.time()) - 5
    return ListedRequest(NAME, path, state, created, 131_072, read, 1200, generated, speed)


@pytest.mark.parametrize("columns", [80, 120])
def test_everything_has_room(columns: int) -> None:
    sizes = MemorySizes(17_200_000_000, 17_100_000_000, 26_000_000_000)
    model = ModelStats("ready", None, "gpu", None, 262_144, 2, 0, 123.4, 0.63, Quantiles(1234.5), sizes)
    stats = ServerStats("0.1.0", 7300.0, 123.4, 2, 1, sizes, {NAME: model})
    live = [request("prefill", 65_536, 0, None), request("decode", 131_072, 16_384, 41.7)]
    lines = drawn(stats, live, columns)
    assert max(map(len, lines)) <= columns
    text = "\n".join(lines)
    assert "Orchard 0.1.0 at http://127.0.0.1:8000, up 2 hours" in lines[0]
    assert "123.4 tokens/s, 2 running, 1 waiting" in lines[1]
    assert "memory 17.2 GB of 26.0 GB" in lines[2]
    assert re.search(r"mlx-community/Qwen3-.* +17\.2 GB +123\.4 +1234 ms +63% +in use", text)
    assert re.search(r"chat +Qwen3-30.* +prefill +50% of 131072 +1% +\d+ s", text)
    assert re.search(r"chat +Qwen3-30.* +decode +131072 +1% +16384 +41\.7 +\d+ s", text)


def test_a_server_that_has_loaded_nothing() -> None:
    text = "\n".join(drawn(ServerStats("0.1.0", 1.0, 0.0, 0, 0, MemorySizes(None, None), {}), []))
    assert "memory: no model has been loaded yet" in text


def test_without_a_terminal_it_looks_once(server: Server) -> None:
    server.until(state="ready")
    done = orchard("top", "--url", server.url)
    assert (done.returncode, done.stderr) == (0, "")
    assert re.search(r"fake +1\.0 MB", done.stdout)


async def test_a_terminal_shows_a_request_and_ctrl_c_ends_it(server: Server) -> None:
    async with streamed(server, pieces=5000, interval=0.05) as stream:
        await stream.read(until=2)
        await asyncio.to_thread(_watch, server)


def _watch(server: Server) -> None:
    ours, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, (24, 80))
    environment = clean() | {"TERM": "xterm"}
    del environment["COLUMNS"]
    command = [sys.executable, "-m", "orchard", "top", "--url", server.url]
    with subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env=environment) as process:
        os.close(theirs)
        shown = b""
        try:
            while not re.search(rb"chat +fake +decode +1 .*\d+\.\d +\d+ s", shown):
                shown += os.read(ours, 4096)
            looks = shown.count(b"REQUEST")
            while shown.count(b"REQUEST") < looks + 2:  # it looks again and again
                shown += os.read(ours, 4096)
            os.kill(process.pid, signal.SIGINT)
            assert process.wait(30) == 130
        finally:
            process.kill()
        shown += os.read(ours, 4096)
    os.close(ours)
    assert b"\x1b[?1049l" in shown  # what was on the screen before is back
    assert b"Traceback" not in shown
