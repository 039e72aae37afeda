"""The log file: what the server and its workers say, in one file that is put aside in time."""

import logging
from pathlib import Path

import pytest

from orchard.core.errors import OrchardError
from orchard.gateway import logs
from orchard.gateway.registry import ModelEntry
from tests.serving import serve


def test_the_server_and_its_workers_log_to_one_file(tmp_path: Path) -> None:
    file = tmp_path / "orchard.log"
    with serve([ModelEntry("bad", "broken", 1000, "fake")], log_file=str(file)) as server:
        server.until("bad", state="failed")
    text = file.read_text()
    assert " worker loading failed: " in text
    assert " GET /health 200 " in text


def test_what_is_full_is_put_aside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "_MAX_BYTES", 200)
    root = logging.getLogger()
    before = (root.handlers[:], root.level)
    root.handlers.clear()
    try:
        logs.configure("warning", str(tmp_path / "orchard.log"))
        for number in range(20):
            logging.getLogger("orchard").warning("line %d of a long log", number)
            logging.getLogger("orchard").info("this is not asked for")
    finally:
        for handler in root.handlers:
            handler.close()
        root.handlers[:] = before[0]
        root.setLevel(before[1])
    files = {file.name: file.read_text() for file in tmp_path.iterdir()}
    assert sorted(files) == ["orchard.log", *(f"orchard.log.{number}" for number in range(1, 6))]
    assert "line 19 of a long log" in files["orchard.log"]
    assert not any("not asked for" in text or len(text) > 200 for text in files.values())


def test_a_file_that_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(OrchardError, match=r"can't log to .*/none/x\.log: No such file or directory"):
        logs.configure("info", str(tmp_path / "none" / "x.log"))
