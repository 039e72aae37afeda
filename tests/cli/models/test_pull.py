"""`orchard pull`, in a process of its own."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from tests.support.command import orchard_over_cache
from tests.support.hub import LARGE, SIZE, Hub
from tests.support.model_folders import make_model, some_weights


def test_pull_leaves_what_is_bundled(hub: Hub, tmp_path: Path) -> None:
    said = orchard_over_cache(tmp_path, "pull", "demo", env=hub.env)
    assert said == (0, "demo is bundled with Orchard: there is nothing to download\n", "")


@pytest.fixture
def half(hub: Hub, tmp_path: Path) -> Iterator["subprocess.Popen[str]"]:
    """A pull whose small files are here, and half of its large one."""
    hub.repos["org/large"] = make_model(tmp_path / "large", shards=2)
    (hub.repos["org/large"] / LARGE).write_bytes(some_weights(SIZE))
    hub.goes_on.clear()
    hub.asked.clear()
    env = {**os.environ, **hub.env, "HF_HUB_CACHE": str(tmp_path / "hub")}
    command = [sys.executable, "-m", "orchard", "pull", "org/large"]
    pipe = subprocess.PIPE
    # Children of a shell's background command would inherit that it is ignored.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    with subprocess.Popen(command, env=env, stdout=pipe, stderr=pipe, text=True, start_new_session=True) as process:
        try:
            wait_until(lambda: len(list((tmp_path / "hub").glob("models--org--large/snapshots/*/*"))) == 4)
            wait_until(lambda: any(part.stat().st_size >= 10_000_000 for part in parts(tmp_path)))
            yield process
        finally:
            process.kill()
            hub.goes_on.set()


def parts(tmp_path: Path) -> list[Path]:
    return list((tmp_path / "hub" / "models--org--large").glob("blobs/*.incomplete"))


def test_a_pull_that_is_interrupted_ends_at_once_and_the_next_one_keeps_whole_files(
    hub: Hub, half: "subprocess.Popen[str]", tmp_path: Path
) -> None:
    children = psutil.Process(half.pid).children(recursive=True)
    os.killpg(half.pid, signal.SIGINT)  # as a terminal does
    _, error = half.communicate(timeout=20)  # the hub itself would wait for longer
    assert half.returncode == 130
    assert error.endswith("\norchard: stopped; the next 'orchard pull' keeps the files that are complete\n")
    assert "Traceback" not in error
    assert len(children) == 1
    assert not children[0].is_running()
    assert parts(tmp_path) == []
    hub.goes_on.set()
    hub.asked.clear()
    code, _, error = orchard_over_cache(tmp_path / "hub", "pull", "org/large", env=hub.env)
    assert code == 0
    assert "24.0/24.0 MB" in error
    assert len(hub.sent()) == len(hub.sent(LARGE)) == 1


def test_a_pull_that_is_killed_leaves_nothing_running(half: "subprocess.Popen[str]", tmp_path: Path) -> None:
    children = psutil.Process(half.pid).children(recursive=True)
    half.kill()
    assert not psutil.wait_procs(children, timeout=20)[1]
    assert parts(tmp_path) == []


def wait_until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_pull_says_what_went_wrong(hub: Hub, tmp_path: Path) -> None:
    code, _, error = orchard_over_cache(tmp_path, "pull", "org/none", env=hub.env)
    assert code == 1
    assert error.startswith("orchard: there is no model 'org/none' at http://127.0.0.1:")
    code, _, error = orchard_over_cache(tmp_path, "pull", "org/data", env=hub.env)
    assert code == 1
    assert "but can't be served: it has no config.json" in error


def test_pull_leaves_what_is_in_gguf(hub: Hub, tmp_path: Path) -> None:
    hub.asked.clear()
    code, _, error = orchard_over_cache(tmp_path / "cache", "pull", "org/tiny-GGUF", env=hub.env)
    assert code == 1
    assert "'org/tiny-GGUF' is not downloaded: it is in GGUF" in error
    assert "mlx-community" in error
    assert not any("/resolve/" in asked for asked in hub.asked)
