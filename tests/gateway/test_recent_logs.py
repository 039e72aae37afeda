"""The last lines of the log: what is in them, and who may read them."""

import logging
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from orchard.gateway.models.entry import ModelEntry
from orchard.gateway.recent_logs import RecentLogs
from tests.support.gateway_client import body
from tests.support.serving import Server, serve

ANN, ROOT = "ann-key", "root-key"
WORKER = "2026-01-02 03:04:05,678 %s worker[org/m 1] "


def record(text: str, level: int = logging.INFO, **more: Any) -> logging.LogRecord:
    return logging.LogRecord("orchard.gateway", level, "file.py", 1, text, (), **{"exc_info": None} | more)


def texts(logs: RecentLogs, after: int | None = None, limit: int = 100, level: str = "info") -> list[str]:
    return [line.text for line in logs.page(after, limit, level)[0]]


def test_its_memory_is_bounded() -> None:
    logs = RecentLogs()
    for number in range(5000):
        logs.handle(record(f"{number} " + "x" * 5000))
    lines, more = logs.page(None, 10_000, "info")
    assert (len(lines), more) == (2000, False)
    assert lines[0].text.startswith("3000 x")
    assert max(len(line.text) for line in lines) == 1000


def test_pages() -> None:
    logs = RecentLogs()
    assert logs.page(None, 3, "info") == ([], False)
    for number in range(10):
        logs.handle(record(str(number), logging.WARNING if number % 2 else logging.INFO))
    assert texts(logs, limit=3) == ["7", "8", "9"]
    assert texts(logs, limit=2, level="warning") == ["7", "9"]
    first = logs.page(None, 10, "info")[0][0].id
    lines, more = logs.page(first, 3, "info")
    assert ([line.text for line in lines], more) == (["1", "2", "3"], True)
    assert logs.page(lines[-1].id, 6, "info")[1] is False
    assert texts(logs, after=first + 9) == []
    # A client that goes on after a restart gets the new lines.
    again = RecentLogs()
    again.handle(record("new"))
    assert again.page(first, 1, "info")[0][0].id >= first


def test_no_traceback_and_nothing_of_requests() -> None:
    logs = RecentLogs()
    try:
        raise ValueError("a secret prompt")
    except ValueError as error:
        logs.handle(record("it broke", logging.ERROR, exc_info=(ValueError, error, error.__traceback__)))
    logger = logging.Logger("orchard")
    logger.addHandler(logs)
    logger.debug("why it is a 400: 'a secret prompt'")
    for line in (
        WORKER % "DEBUG" + "8 of 9 tokens were cached; this prompt goes on 'a secret prompt'",
        "ValueError: a secret prompt",
        "  a secret prompt",
    ):
        logs.add_worker_line(line)
    assert texts(logs, level="debug") == ["it broke"]


def test_lines_of_workers() -> None:
    logs = RecentLogs()
    logs.add_worker_line(WORKER % "WARNING" + "memory ran out [a] b")
    logs.add_worker_line("2026-01-02 03:04:05,678 INFO    worker it is a spare")
    told = [(line.level, line.logger, line.text) for line in logs.page(None, 9, "info")[0]]
    assert told == [("warning", "worker[org/m 1]", "memory ran out [a] b"), ("info", "worker", "it is a spare")]


def test_unknown_levels_and_lines_that_cannot_be_written_do_no_harm(monkeypatch: pytest.MonkeyPatch) -> None:
    logs = RecentLogs()
    logs.add_worker_line(WORKER % "TRACE" + "what Python doesn't know")
    logs.emit(logging.LogRecord("a", 25, "", 0, "between the levels", (), None))
    broken: list[logging.LogRecord] = []
    monkeypatch.setattr(logs, "handleError", broken.append)
    logs.emit(logging.LogRecord("a", logging.INFO, "", 0, "%d", ("no number",), None))
    assert len(broken) == 1
    assert logs.page(None, 9, "info") == ([], False)


@pytest.fixture(scope="module")
def locked() -> Iterator[Server]:
    with serve([ModelEntry("fake", "broken", 1000, "fake")], api_keys=(ANN,), admin_keys=(ROOT,)) as server:
        server.until(state="failed")
        yield server


def ask(server: Server, key: str, **params: Any) -> httpx.Response:
    return httpx.get(f"{server.url}/v1/logs", params=params, headers={"x-api-key": key})


def test_only_an_admin_key_reads_them(locked: Server) -> None:
    assert ask(locked, "").status_code == 401
    refused = ask(locked, ANN)
    assert (refused.status_code, refused.json()["error"]["code"]) == (403, "forbidden")
    assert ask(locked, ROOT).status_code == 200


def test_the_lines_of_a_server(locked: Server) -> None:
    httpx.post(f"{locked.url}/v1/chat/completions", json=body(), headers={"x-api-key": ANN})
    told = ask(locked, ROOT).json()
    assert (told["object"], told["has_more"]) == ("list", False)
    lines = {(line["level"], line["logger"], line["text"].split()[0]) for line in told["data"]}
    assert ("error", "worker[fake]", "loading") in lines
    assert ("info", "orchard.access", "POST") in lines
    assert all(line["time"] > 1_700_000_000 for line in told["data"])
    # Looking leaves no lines.
    assert not [line for line in told["data"] if "/v1/logs 200" in line["text"] or "/health 200" in line["text"]]
    assert [line["text"] for line in ask(locked, ROOT, after=told["data"][-1]["id"]).json()["data"]] == []
    assert {line["level"] for line in ask(locked, ROOT, level="error").json()["data"]} == {"error"}
    assert ask(locked, ROOT, level="debug").status_code == 400
    assert ask(locked, ROOT, limit=0).status_code == 400


def test_without_keys_everybody_reads_them(server: Server) -> None:
    assert ask(server, "").json()["data"]
