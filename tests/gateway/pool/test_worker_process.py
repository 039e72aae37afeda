"""How the end of a worker's process is seen, with processes that run a few lines of Python each, and its silence."""

import asyncio
import signal
import sys

import pytest

from orchard import wire
from orchard.config import Settings
from orchard.core.events import Finished, Started, Usage
from orchard.core.request import Request
from orchard.core.speculation_report import SourceTotals, SpeculationReport
from orchard.core.tasks.generate import Generate, Message, TextPart
from orchard.gateway.model_status import ModelStatus
from orchard.gateway.pool import worker_process
from orchard.gateway.pool.processes import Processes
from orchard.gateway.pool.worker_process import Launch, Watchdog, WorkerProcess
from orchard.gateway.replies.event_stream import EventStream
from orchard.kinds import FAKE, TEXT

_HANG_UP = "import os, sys, time; os.close(int(sys.argv[1])); "


class Program(WorkerProcess):
    """A worker whose process runs a program, which gets the socket's file descriptor."""

    def __init__(self, program: str, *, watchdog_timeout: float = 120) -> None:
        super().__init__(FAKE, Settings(watchdog_timeout=watchdog_timeout))
        self._program = program
        self.started = asyncio.Event()

    def _launch(self) -> Launch:
        self.started.set()
        return Launch(lambda fd: [sys.executable, "-c", self._program, str(fd)])


async def ended(program: str) -> str | None:
    one = Program(program)
    await one.run()
    assert one.phase == "gone"
    return one.failure


async def test_an_exception_is_the_reason_though_the_socket_ends_before_the_process() -> None:
    failure = await ended(_HANG_UP + "time.sleep(0.1); raise ValueError('no room in /home/me/models')")
    assert failure == "its process ended with exit code 1: ValueError: no room in models"


async def test_what_an_aborting_process_says_is_the_reason() -> None:
    failure = await ended(_HANG_UP + "print('out of memory', file=sys.stderr, flush=True); os.abort()")
    assert failure == "its process was ended by SIGABRT: out of memory"


async def test_a_process_that_is_killed_has_not_said_why() -> None:
    failure = await ended(_HANG_UP + "print('by the way', file=sys.stderr, flush=True); os.kill(os.getpid(), 9)")
    assert failure == "its process was ended by SIGKILL"


async def test_a_process_that_hangs_up_and_stays_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_process, "_CRASH_SECONDS", 0.1)
    assert await ended(_HANG_UP + "time.sleep(60)") == "its process was ended by SIGKILL"


_METAL = "[METAL] Command buffer execution failed: Insufficient Memory"


@pytest.mark.parametrize(
    ("end", "kills", "ran_out"),
    [
        ("os.kill(os.getpid(), 9)", (0, 1), True),
        ("os.kill(os.getpid(), 9)", (1, 1), False),
        ("os.kill(os.getpid(), 9)", (None, None), True),
        (f"print({_METAL!r}, file=sys.stderr, flush=True); os.abort()", (0, 0), True),
        ("print('a bug', file=sys.stderr, flush=True); os.abort()", (0, 1), False),
        ("print('RuntimeError: [malloc] Unable to allocate 9 bytes', file=sys.stderr); sys.exit(70)", (0, 0), True),
        ("sys.exit(70)", (0, 1), False),
        ("sys.exit('no memory of that')", (0, 1), False),
    ],
)
async def test_whether_memory_ran_out(
    monkeypatch: pytest.MonkeyPatch, end: str, kills: tuple[int | None, int | None], ran_out: bool
) -> None:
    counts = iter(kills)
    monkeypatch.setattr(worker_process, "count_oom_kills", lambda: next(counts))
    one = Program(_HANG_UP + end)
    one.load("m", "path", FAKE.options())
    await one.run()
    assert one.out_of_memory == ran_out


async def test_a_process_that_orchard_kills_has_not_run_out_of_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_process, "count_oom_kills", lambda: None)
    monkeypatch.setattr(worker_process, "_CRASH_SECONDS", 0.1)
    one = Program(_HANG_UP + "time.sleep(60)")
    one.load("m", "path", FAKE.options())
    await one.run()
    assert (one.failure, one.out_of_memory) == ("its process was ended by SIGKILL", False)


async def test_a_process_without_a_model_has_not_run_out_of_memory_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_process, "count_oom_kills", lambda: None)
    one = Program(_HANG_UP + "os.kill(os.getpid(), 9)")
    await one.run()
    assert not one.out_of_memory


def test_what_a_sign_of_life_tells() -> None:
    one = Program("")
    one._receive(wire.Pong(1, 0.0, 1000, 2000))
    assert (one.mlx_bytes, one.rss_bytes) == (1000, 2000)


def test_what_guesses_brought_is_known_once_an_answer_has_ended() -> None:
    """Without a ping. Another model in the same process begins at nothing."""
    brought = {"ngram": SourceTotals(20, 15, 1.5)}
    one, stream = Program(""), EventStream()
    seen: list[SpeculationReport] = []
    stream.on_events = lambda _: seen.append(one.speculation)
    one.send_request(Request("a", "m", Generate((Message("user", (TextPart("Hi"),)),))), stream)
    one._receive(wire.Step([("a", [Started(1), Finished(("stop",), Usage(1, 1))])], 0, 0, brought))
    assert stream.finished
    assert seen == [brought]
    one.load("other", "path", FAKE.options())
    assert one.speculation == {}


async def test_a_process_that_speaks_another_protocol_is_said_to() -> None:
    failure = await ended("import os, sys; os.write(int(sys.argv[1]), b'\\xff' * 100)")
    assert failure
    assert failure.startswith("it broke the protocol: a frame of")


@pytest.mark.parametrize(("limit", "seconds"), [(240, 240), (4, 60)])  # importing takes its time, whatever the limit
async def test_a_process_that_hangs_while_it_starts_is_killed(limit: int, seconds: int) -> None:
    one = Program("import time; time.sleep(60)", watchdog_timeout=limit)
    running = asyncio.create_task(one.run())
    await one.started.wait()
    for _ in range(seconds):
        one.tick()
    assert (one.phase, one.failure) == ("starting", None)
    one.tick()
    try:
        assert one.failure == f"it did not answer for {seconds} seconds"
    finally:
        one.kill()
        await running
    assert one.phase == "gone"


def silence(watchdog: Watchdog, at_least: float = 0.0) -> float:
    """Count the seconds until it barks, up to a thousand."""
    ticks = 1
    while not watchdog.tick(at_least) and ticks * watchdog.interval < 1000:
        ticks += 1
    return ticks * watchdog.interval


def test_silence_is_counted_from_the_last_sign_of_life() -> None:
    watchdog = Watchdog(10)
    assert silence(watchdog) == 11
    watchdog.reset()
    assert silence(watchdog) == 11
    watchdog.reset(silent_seconds=6)
    assert silence(watchdog) == 5
    watchdog.reset()
    assert silence(watchdog, at_least=60) == 61


def test_short_limits_are_looked_at_more_often() -> None:
    assert Watchdog(1).interval == 0.25
    assert silence(Watchdog(1)) == 1.25


def test_without_a_limit_nobody_is_too_silent() -> None:
    assert silence(Watchdog(0)) == 1000


@pytest.mark.parametrize("name", ["MLX_USE_CUDA_GRAPHS", "MLX_ENABLE_CACHE_THRASHING_CHECK"])
def test_mlx_makes_and_counts_no_graphs_unless_it_is_asked_to(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """By default it would fail for good, once a process has made 800 of different forms."""
    monkeypatch.delenv(name, raising=False)
    assert worker_process._environment()[name] == "0"
    monkeypatch.setenv(name, "1")
    assert worker_process._environment()[name] == "1"


_UNTIL_HUNG_UP = "import os, socket, sys; socket.socket(fileno=int(sys.argv[1])).recv(1)"


async def test_a_process_that_has_started_is_taken_once_and_for_its_backend() -> None:
    launched = Launch(lambda fd: [sys.executable, "-c", _UNTIL_HUNG_UP, str(fd)])
    processes = Processes(Settings(), lambda: None, (FAKE, launched))
    workers = [processes.take(backend) for backend in (TEXT, FAKE, FAKE)]
    assert [worker._launched is launched for worker in workers] == [False, True, False]
    processes.kill()
    await processes.close()


async def test_a_process_that_nobody_takes_ends_with_the_others() -> None:
    """Even if it still imports its libraries, and so doesn't see that its socket is closed."""
    launched = Launch(lambda fd: [sys.executable, "-c", "import time; time.sleep(600)"])
    await Processes(Settings(), lambda: None, (FAKE, launched)).close()
    assert await asyncio.to_thread(launched.process.wait, 30) == -signal.SIGKILL
    launched.last_words.close()


async def test_details_that_change_replace_the_old_ones() -> None:
    one = Program("")
    one._receive(wire.Ready(1.0, 2, {"media": ["image"], "warming_up": True}))
    one._receive(wire.Details({"warming_up": False}))
    assert one.complete_status(ModelStatus(state="ready")).health_report()["warming_up"] is False
    assert one.loaded.details["media"] == ["image"]
