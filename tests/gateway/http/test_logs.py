"""The log file: what the server and its workers say, in one file that is put aside in time."""

import logging
import socket
import stat
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from orchard.core.errors import OrchardError
from orchard.gateway.http import logs
from orchard.gateway.models.entry import ModelEntry
from orchard.kinds import FAKE
from tests.support.serving import serve


def test_the_server_and_its_workers_log_to_one_file(tmp_path: Path) -> None:
    file = tmp_path / "orchard.log"
    with serve([ModelEntry("bad %s", "broken", 1000, "fake")], log_file=str(file)) as server:
        server.until("bad %s", state="failed")
        httpx.get(f"{server.url}/v1/models")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    text = file.read_text()
    assert " worker[bad %s] loading failed: " in text
    assert text.endswith(" the server has stopped\n")
    assert " GET /v1/models 200 " in text


def test_what_is_full_is_put_aside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "_MAX_BYTES", 200)
    root = logging.getLogger()
    before = (root.handlers[:], root.level)
    root.handlers.clear()
    try:
        logs.configure_logging("warning", str(tmp_path / "orchard.log"))
        for number in range(20):
            logging.getLogger("orchard").warning("line %d of a long log", number)
            logging.getLogger("orchard").info("this is not asked for")
    finally:
        for handler in root.handlers:
            handler.close()
        root.handlers[:] = before[0]
        root.setLevel(before[1])
    assert {stat.S_IMODE(file.stat().st_mode) for file in tmp_path.iterdir()} == {0o600}
    files = {file.name: file.read_text() for file in tmp_path.iterdir()}
    assert sorted(files) == ["orchard.log", *(f"orchard.log.{number}" for number in range(1, 6))]
    assert "line 19 of a long log" in files["orchard.log"]
    assert not any("not asked for" in text or len(text) > 200 for text in files.values())


def test_a_file_that_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(OrchardError, match=r"can't log to .*/none/x\.log: No such file or directory"):
        logs.configure_logging("info", str(tmp_path / "none" / "x.log"))


def test_a_worker_that_finds_no_log_file_makes_one_for_its_owner(tmp_path: Path) -> None:
    """Just then the gateway may have put the last one aside."""
    ours, theirs = socket.socketpair()
    command = [sys.executable, "-m", "orchard.worker", "--fd", str(theirs.fileno()), *FAKE.arguments]
    with ours, theirs:
        ours.shutdown(socket.SHUT_WR)
        subprocess.run([*command, "--log-file", str(tmp_path / "log")], pass_fds=[theirs.fileno()], check=True)
    assert stat.S_IMODE((tmp_path / "log").stat().st_mode) == 0o600
