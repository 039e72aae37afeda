"""`orchard ps`, `load` and `unload`, against a server whose model plays scripts."""

import os
import pty
import re
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from orchard.cli.server.client import MemorySizes, ModelStats, Quantiles, RankStats, ServerStats
from orchard.cli.server.models import _stay, duration, model_rows
from orchard.gateway.models.entry import ModelEntry
from tests.support.command import clean, orchard, refused
from tests.support.serving import FAKE, Server, serve

LONG = ModelEntry("mlx-community/Qwen3-30B-A3B-Instruct-2507-4bit", "fake", 262_144, "fake", on_demand=True, ttl=300)
KEY, ADMIN = "user-key", "admin-key"


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with serve([FAKE, LONG], max_loaded_models=2) as running:
        running.until(state="ready")
        yield running


def terminal(columns: int, *args: str, **env: str) -> list[str]:
    """Run a command in a terminal of so many columns; give its lines without what colours them."""
    ours, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, (24, columns))
    environment = {name: value for name, value in clean(**env).items() if name != "COLUMNS"} | {"TERM": "xterm"}
    command = [sys.executable, "-m", "orchard", *args]
    with subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env=environment) as process:
        os.close(theirs)
        shown = b""
        try:
            while read := os.read(ours, 4096):
                shown += read
        except OSError:  # what a terminal whose last writer is gone gives on Linux
            pass
    assert process.returncode == 0, shown
    os.close(ours)
    return [line.rstrip() for line in re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", shown.decode()).splitlines()]


def test_ps_lists_what_is_in_memory(server: Server) -> None:
    done = orchard("ps", "--url", server.url)
    head, fake = done.stdout.splitlines()
    assert head.split() == ["NAME", "SIZE", "PROCESSOR", "CONTEXT", "UNTIL"]
    assert fake.split() == ["fake", "1.0", "MB", "100%", "CPU", "1000", "Forever"]


def test_load_ps_unload(server: Server) -> None:
    assert orchard("load", LONG.id.lower(), ORCHARD_URL=server.url).stdout == f"{LONG.id} is loaded\n"
    httpx.post(
        f"{server.url}/v1/chat/completions", json={"model": LONG.id, "messages": [{"role": "user", "content": "x"}]}
    )
    wide, narrow = (terminal(columns, "ps", ORCHARD_URL=server.url) for columns in (80, 40))
    for lines, columns in ((wide, 80), (narrow, 40)):
        assert max(map(len, lines)) <= columns
        assert lines[0].split()[0] == "NAME"
    text = " ".join(wide)
    assert re.search(r"100% CPU +262144 +[45] minutes from now", text)
    # Where it is narrow, the name goes on in further lines, and nothing is cut.
    assert "CONTEXT" not in narrow[0]
    name = "".join(line.split(" ")[0] for line in narrow[1:] if not line.startswith("fake"))
    assert name == LONG.id
    assert re.search("[45] minutes from now", " ".join(narrow))
    assert orchard("unload", LONG.id, ORCHARD_URL=server.url).stdout == f"{LONG.id} is unloaded\n"
    assert orchard("unload", LONG.id, ORCHARD_URL=server.url).stdout == f"{LONG.id} was not loaded\n"


def test_a_terminal_shows_that_a_model_loads() -> None:
    slow = ModelEntry("slow", '{"seconds": 4}', 1000, "fake", on_demand=True)
    with serve([slow]) as server:
        lines = terminal(80, "load", "slow", "--url", server.url)
    assert lines[-1] == "slow is loaded"
    assert re.search(r"slow: loading \d+%", " ".join(lines))


def test_errors(server: Server) -> None:
    assert "no model 'nonsuch' here" in refused(orchard("load", "nonsuch", "--url", server.url))
    line = refused(orchard("ps", ORCHARD_PORT="1"))
    assert line.startswith("orchard: no server answers at http://127.0.0.1:1: 'orchard serve' starts one")
    assert "http://[::1 is no address" in refused(orchard("ps", "--url", "http://[::1"))


def test_keys() -> None:
    with serve([FAKE], api_keys=(KEY,), admin_keys=(ADMIN,)) as server:
        server.until(state="ready")
        assert "an API key is needed" in refused(orchard("ps", "--url", server.url))
        for command in ("load", "unload"):
            line = refused(orchard(command, "fake", "--url", server.url, "--api-key", KEY))
            assert "takes an admin key" in line
        done = orchard("unload", "fake", "--url", server.url, ORCHARD_ADMIN_KEY=f"{ADMIN},x", ORCHARD_API_KEY=KEY)
        assert done.stdout == "fake is unloaded\n"


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(-1, "0 seconds"), (1, "1 second"), (59.9, "59 seconds"), (60, "1 minute"), (7300, "2 hours"), (1e6, "11 days")],
)
def test_durations(seconds: float, words: str) -> None:
    assert duration(seconds) == words


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"state": "loading", "note": "loading 40%"}, "loading 40%"),
        ({"state": "queued", "note": "downloading 12%"}, "downloading 12%"),
        ({"state": "unloading"}, "Stopping..."),
        ({"state": "ready", "running": 1}, "in use"),
        ({"state": "ready"}, "Forever"),
    ],
)
def test_how_long_a_model_stays(fields: dict[str, Any], words: str) -> None:
    model = ModelStats("", None, None, None, None, 0, 0, 0.0, None, Quantiles(None), MemorySizes(None, None))
    for name, value in fields.items():
        setattr(model, name, value)
    assert _stay(model) == words
    model.unload_at = int(time.time()) + 130
    assert (_stay(model) == "2 minutes from now") == (model.state == "ready")


def test_other_ranks_of_a_model_are_shown() -> None:
    memory = MemorySizes(4_000_000, None)
    ranks = [RankStats(1, "studio\x07", 100, 2_000_000, 9_000_000), RankStats(2, "mini", 40, 1_000_000, 0)]
    model = ModelStats("ready", None, None, None, None, 0, 0, 0.0, None, Quantiles(None), memory, ranks)
    (row,) = model_rows(ServerStats("", 0.0, 0.0, 0, 0, memory, {"large": model}))
    assert row.ranks == (
        ("  rank 1 on studio\\x07", 2_000_000, "9.0 MB free there"),
        ("  rank 2 on mini", 1_000_000, "loading 40%"),
    )


def test_a_server_writes_no_control_characters_to_the_terminal() -> None:
    memory = MemorySizes(None, None)
    model = ModelStats("loading", "\x1b[2J", None, None, None, 0, 0, 0.0, None, Quantiles(None), memory)
    stats = ServerStats("", 0.0, 0.0, 0, 0, memory, {"a\x1b]0;title\x07\x9b2J": model})
    (row,) = model_rows(stats)
    assert (row.name + row.until).isprintable()
