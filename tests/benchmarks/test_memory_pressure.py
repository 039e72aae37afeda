"""What the benchmark of memory pressure counts, and that its other program keeps within what it may take."""

import json
import os
import subprocess
import sys
import weakref
from pathlib import Path
from typing import Any

import httpx
import pytest
from benchmarks.memory_hog import Report, Walk, cgroup_free
from benchmarks.memory_pressure import READERS, UNWATCHED, failures, log_figures
from benchmarks.memory_traffic import Outcome, outcome

_TEXT = {"choices": [{"delta": {"content": "Hi"}}]}
_USAGE = {"choices": [], "usage": {"completion_tokens": 7}}
_ERROR = {"error": {"message": "cudaMallocAsync failed: out of memory", "code": "internal_error"}}


def stream(*chunks: object) -> Outcome:
    data = "".join(f"data: {one if isinstance(one, str) else json.dumps(one)}\n\n" for one in chunks)
    return outcome("text", httpx.Response(200, text=data), streamed=True)


def test_an_answer_has_its_text_and_tokens() -> None:
    assert stream(_TEXT, _TEXT, _USAGE, "[DONE]") == Outcome(kind="text", text="HiHi", tokens=7)


@pytest.mark.parametrize(
    ("chunks", "code"), [((_TEXT, _ERROR), "stream: internal_error"), ((_TEXT,), "stream: broke off")]
)
def test_a_stream_that_fails_is_no_allowed_failure(chunks: tuple[object, ...], code: str) -> None:
    result = stream(*chunks)
    assert (result.code, result.allowed) == (code, False)


@pytest.mark.parametrize(
    ("status", "headers", "allowed"),
    [(503, {"retry-after": "2"}, True), (503, {}, False), (500, {"retry-after": "2"}, False)],
)
def test_only_a_503_with_retry_after_is_allowed(status: int, headers: dict[str, str], allowed: bool) -> None:
    result = outcome("text", httpx.Response(status, headers=headers, json=_ERROR), streamed=True)
    assert (result.code, result.allowed) == ("internal_error", allowed)


def test_failures_that_are_not_allowed_are_listed() -> None:
    ends = [
        Outcome(kind="text"),
        Outcome(kind="text", status=503, code="insufficient_memory", retry_after=1.0),
        *2 * [Outcome(kind="long", status=500, code="internal_error", error="out of memory")],
    ]
    found = failures(ends)
    assert (found["requests"], found["well"], found["allowed"], found["failed"]) == (
        4,
        1,
        {"insufficient_memory": 1},
        2,
    )
    expected = {"kind": "long", "status": 500, "code": "internal_error", "error": "out of memory", "times": 2}
    assert found["failures"] == [expected]


def test_the_log_tells_survived_failures_from_deaths() -> None:
    log = """
    2026-01-01 10:00:00,001 WARNING worker[a] a decode step ran out of memory
    2026-01-01 10:00:01,002 INFO    worker[a] 1,024 bytes of cached prompts are dropped
    2026-01-01 10:00:02,003 INFO    worker[a] 22 bytes of cached prompts are dropped
    2026-01-01 10:00:03,004 ERROR   - a: the worker died: its process ended with exit code 70: out of memory
    2026-01-01 10:00:04,005 INFO    - POST /v1/chat/completions 200
    """
    found = log_figures(log)
    assert (found["out_of_memory"], len(found["died"])) == (1, 1)
    assert 2 in found["about_memory"].values()
    assert not any("POST" in line for line in found["about_memory"])


class Block:
    def __init__(self, size: int) -> None:
        self.size = size


class FakeMemory:
    """Memory of 1,000 bytes, of which others take some, and which may say that it has more than it gives."""

    most = 300

    def __init__(self) -> None:
        self.others = 0
        self.fails = False
        self._blocks = weakref.WeakSet[Block]()

    def free(self) -> int:
        return 1000 - self.others - sum(one.size for one in self._blocks)

    def take(self, size: int) -> Any:
        if self.fails:
            raise MemoryError
        block = Block(size)
        self._blocks.add(block)
        return block

    def returned(self) -> None: ...


def test_the_walk_takes_nearly_all_and_always_leaves_something() -> None:
    memory, reports, waits = FakeMemory(), list[Report](), 0

    def wait(seconds: float) -> bool:
        nonlocal waits
        waits += 1
        memory.others = (waits % 3) * 100
        memory.fails = waits % 5 == 0
        return waits > 500

    Walk(memory, 50, 0, reports.append).run(wait, 2.0)
    held = [one.held for one in reports]
    assert min(held) == 0
    assert max(held) == 950
    assert all(one.free >= 50 - 200 for one in reports)  # the others took up to 200 meanwhile
    assert min(one.free for one in reports if one.held > held[0]) < 100


@pytest.mark.parametrize("second", [False, True])
def test_file_pages_of_a_cgroup_are_free(tmp_path: Path, second: bool) -> None:
    limit, used = ("memory.max", "memory.current") if second else ("memory.limit_in_bytes", "memory.usage_in_bytes")
    start = "" if second else "total_"
    files = {limit: "1000", used: "700", "memory.stat": f"{start}inactive_file 30\n{start}active_file 4\nrss 5\n"}
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    assert cgroup_free(tmp_path) == 334


def test_without_the_watch_everyone_reads_a_huge_number(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(UNWATCHED)
    arguments = {"read_device_memory": "has_model=False"}
    reads = [
        f"import {module} as m; print(m.{function}({arguments.get(function, '')}).{field})"
        for module, (function, field) in READERS.items()
    ]
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", "\n".join(reads)], env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == [str(10**15)] * len(READERS)
    assert done.stderr.splitlines() == [f"unwatched: {module}" for module in READERS]
