"""The line of the terminal that shows what loads."""

import errno
import io
import logging
import os
import pty
import resource
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from rich.console import Console

from orchard.cli.serve import ProgressLine, raise_file_limit, unserved_lines
from orchard.config import Settings
from orchard.gateway.model_status import ModelStatus
from orchard.gateway.models.registry import Registry
from orchard.kinds import TEXT
from tests.support.model_folders import make_model

WIDTH = 80


# Soft and hard limits of open files on Macs, the first one unlimited: https://github.com/eradman/entr/issues/142
MAC_FILES, FEW_MAC_FILES = (256, 2**63 - 1), (1024, 1024)
# The most files of a process (kern.maxfilesperproc): https://github.com/sagemath/cysignals/issues/71; 4096 is made up.
MAC_MOST_FILES = 10240


class Screen:
    """The lines of a terminal after what was written to it: carriage returns, line ends and erasures are played."""

    def __init__(self) -> None:
        self.file = io.StringIO()

    @property
    def lines(self) -> list[str]:
        lines = [""]
        column = 0
        text = self.file.getvalue()
        while text:
            if text.startswith("\x1b[2K"):
                lines[-1], text = "", text[4:]
            elif text[0] == "\r":
                column, text = 0, text[1:]
            elif text[0] == "\n":
                lines.append("")
                column, text = 0, text[1:]
            else:
                lines[-1] = lines[-1][:column].ljust(column) + text[0] + lines[-1][column + 1 :]
                column, text = column + 1, text[1:]
        return [line.rstrip() for line in lines]


@pytest.fixture
def screen() -> Screen:
    return Screen()


@pytest.fixture
def line(screen: Screen) -> ProgressLine:
    console = Console(file=screen.file, force_terminal=True, color_system=None, width=WIDTH)
    return ProgressLine(lambda: console)


@pytest.fixture
def log(screen: Screen) -> Iterator[logging.Logger]:
    root = logging.getLogger()
    handler = logging.StreamHandler(screen.file)
    root.addHandler(handler)
    yield root
    root.removeHandler(handler)


READY = ModelStatus(state="ready")


def now(progress: float) -> ModelStatus:
    return ModelStatus(state="loading", note=f"loading {progress:.0%}", progress=progress)


def test_a_bar_grows_in_its_line_and_is_gone_in_the_end(screen: Screen, line: ProgressLine) -> None:
    line.show({"apple": now(0.25)})
    assert len(screen.lines) == 1
    assert screen.lines[0].startswith("apple: loading 25% ━")
    line.show({"apple": now(0.5)})
    assert len(screen.lines) == 1
    assert screen.lines[0].startswith("apple: loading 50% ━")
    line.show({"apple": READY})
    assert screen.lines == [""]


def test_how_much_of_a_recording_is_done_is_shown_until_it_is_over(screen: Screen, line: ProgressLine) -> None:
    for done, columns in ((0, 0), (1350, 3), (9000, 20)):
        note = f"{done} of 10800 seconds of audio"
        line.show({"ears": ModelStatus(state="ready", note=note, progress=done / 10_800, running=1)})
        assert len(screen.lines) == 1
        assert screen.lines[0].startswith(f"ears: {note}")
        assert screen.lines[0].count("━") == columns
    line.show({"ears": READY})
    assert screen.lines == [""]


def test_several_models_share_the_line(screen: Screen, line: ProgressLine) -> None:
    fetched = ModelStatus(state="queued", note="downloading 12%")
    line.show({"apple": now(0.25), "pear": READY, "plum": fetched})
    assert len(screen.lines) == 1
    assert screen.lines[0].startswith("apple: loading 25% ━")
    assert screen.lines[0].endswith("plum: downloading 12%")
    assert "pear" not in screen.lines[0]


def test_many_models_or_long_names_do_not_wrap(screen: Screen, line: ProgressLine) -> None:
    line.show({f"a-model-with-a-rather-long-name-{number}": now(0.5) for number in range(9)})
    line.show({"n" * 200: now(0.5)})
    assert len(screen.lines) == 1
    assert len(screen.lines[0]) < WIDTH


def test_log_lines_stand_whole_above_the_bar(screen: Screen, line: ProgressLine, log: logging.Logger) -> None:
    line.show({"apple": now(0.25)})
    log.error("one")
    log.error("two")
    line.show({"apple": now(0.5)})
    assert screen.lines[:2] == ["one", "two"]
    assert screen.lines[2].startswith("apple: loading 50%")
    line.show({})
    assert screen.lines == ["one", "two", ""]


def test_what_another_process_writes_is_whole(screen: Screen, line: ProgressLine) -> None:
    line.show({"apple": now(0.25)})
    screen.file.write("a line as long as the bar is, or longer, as the worker's log lines are\n")
    line.show({"apple": now(0.5)})
    assert screen.lines[0] == "a line as long as the bar is, or longer, as the worker's log lines are"
    assert screen.lines[1].startswith("apple: loading 50%")


def test_nothing_is_written_while_nothing_is_under_way(screen: Screen, line: ProgressLine) -> None:
    line.show({"apple": READY})
    assert screen.file.getvalue() == ""


def test_a_terminal_that_is_gone_hurts_nobody(log: logging.Logger) -> None:
    class Gone(io.StringIO):
        def write(self, _: str) -> int:
            raise OSError(errno.EIO, "Input/output error")

    line = ProgressLine(lambda: Console(file=Gone(), force_terminal=True, width=WIDTH))
    line.show({"apple": now(0.25)})
    log.error("one")
    line.show({})


def test_serve_shows_it_on_a_terminal() -> None:
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "orchard", "serve", "demo", "--port", "0", "--responses-path", ":memory:"]
    environment = {**os.environ, "TERM": "xterm"}
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=theirs, env=environment) as process:
        os.close(theirs)
        shown = b""
        while b"demo: loading" not in shown:
            shown += os.read(ours, 4096)
        process.terminate()
        with suppress(OSError):  # what a terminal whose last writer is gone gives on Linux
            while os.read(ours, 4096):
                pass
        assert process.wait(30) == 0
    os.close(ours)


def test_what_is_not_served_is_told_at_the_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    for number in range(12):
        make_model(tmp_path / "models" / f"{number:02}", here=0)
    lines = unserved_lines(Registry.from_settings(Settings(model_dir=str(tmp_path / "models"))))
    assert lines[0] == "'00' is not served: it has no model*.safetensors"
    assert (len(lines), lines[-1]) == (11, "2 more are not served: see 'orchard models'")


def test_without_a_terminal_there_is_no_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stderr", io.StringIO())
    assert ProgressLine.of_terminal() is None


EARLY = """
import sys
from orchard.cli.serve import serve_models
from orchard.config import Settings
from orchard.gateway.pool import worker_process

def launch(backend, settings):
    sys.exit(" ".join([backend.service, *{"fastapi", "uvicorn", "mlx"}.intersection(sys.modules)]))

worker_process.launch = launch
serve_models(Settings(port=0))
"""


def test_the_first_worker_starts_before_the_servers_libraries_are_imported() -> None:
    done = subprocess.run([sys.executable, "-c", EARLY], capture_output=True, text=True, timeout=60, check=False)
    assert done.stderr.strip() == TEXT.service


@pytest.mark.parametrize(
    ("limits", "most", "raised"),
    [
        (MAC_FILES, MAC_MOST_FILES, [(10240, 2**63 - 1)]),
        (MAC_FILES, 4096, []),
        (FEW_MAC_FILES, MAC_MOST_FILES, []),
        ((2**63 - 1, 2**63 - 1), MAC_MOST_FILES, []),
    ],
)
def test_the_limit_of_open_files_on_macs(
    limits: tuple[int, int], most: int, raised: list[tuple[int, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    done = []

    def set_limit(_: int, wanted: tuple[int, int]) -> None:
        if wanted[0] > most:
            raise ValueError("current limit exceeds maximum limit")
        done.append(wanted)

    monkeypatch.setattr(resource, "RLIM_INFINITY", 2**63 - 1)
    monkeypatch.setattr(resource, "getrlimit", lambda _: limits)
    monkeypatch.setattr(resource, "setrlimit", set_limit)
    raise_file_limit()
    assert done == raised
