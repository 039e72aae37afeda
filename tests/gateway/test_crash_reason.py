import os
from pathlib import Path

import pytest

from orchard.gateway.crash_reason import CrashReason, count_oom_kills, hide_folders

LOG = "2026-01-02 03:04:05,678 INFO    worker all is well\n"
CRITICAL = "2026-01-02 03:04:05,678 CRITICAL worker the engine broke\n"
TRACEBACK = 'Traceback (most recent call last):\n  File "/a/b.py", line 1, in <module>\n    raise it\n'


@pytest.mark.parametrize(
    ("written", "reason"),
    [
        ("", ""),
        (LOG, ""),
        (LOG + CRITICAL + TRACEBACK + "ValueError: no\n", "ValueError: no"),
        (TRACEBACK + "ImportError: first line\nsecond line\n", "ImportError: first line second line"),
        (
            "terminate called after throwing an instance of 'std::runtime_error'\n  what():  out of memory\n",
            "what():  out of memory",
        ),
        (
            LOG + "libc++abi: terminating due to [METAL] out of memory\n\n",
            "libc++abi: terminating due to [METAL] out of memory",
        ),
        ("a warning\n" + LOG, ""),
        ("x" * 50_000 + "\n", "x" * 400),
    ],
)
async def test_the_reason_is_what_was_said_last(
    written: str, reason: str, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    words = CrashReason()
    writer = os.dup(words.write_end)
    words.close_write_end()
    words.begin()
    with os.fdopen(writer, "wb", 0) as pipe:
        pipe.write(written.encode())
    await words.end()
    assert words.reason == reason


async def test_what_is_written_is_passed_on(capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    words = CrashReason()
    os.write(words.write_end, "ünïcode\n".encode())
    words.close_write_end()
    words.begin()
    await words.end()
    assert capsysbinary.readouterr().err == "ünïcode\n".encode()


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("the model in /home/me/my-models/qwen can't be loaded", "the model in qwen can't be loaded"),
        (
            "[Errno 2] No such file or directory: '/srv/x/config.json'",
            "[Errno 2] No such file or directory: 'config.json'",
        ),
        ("dlopen(/opt/lib/libmlx.dylib, 0x2): not found", "dlopen(libmlx.dylib, 0x2): not found"),
        ("~/models/a: broken", "a: broken"),
        ("see https://example.org/a/b, and/or 1/2 of it", "see https://example.org/a/b, and/or 1/2 of it"),
    ],
)
def test_folders_are_left_out(text: str, shown: str) -> None:
    assert hide_folders(text) == shown


@pytest.mark.parametrize(("text", "count"), [("pgmajfault 7\noom_kill 3\ndrop 1\n", 3), ("pgmajfault 7\n", None)])
def test_the_kernels_count_of_processes_that_it_has_killed(
    monkeypatch: pytest.MonkeyPatch, text: str, count: int | None
) -> None:
    monkeypatch.setattr(Path, "read_text", lambda path: text)
    assert count_oom_kills() == count


def test_a_system_that_does_not_count_them(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(path: Path) -> str:
        raise FileNotFoundError(path)

    monkeypatch.setattr(Path, "read_text", missing)
    assert count_oom_kills() is None
