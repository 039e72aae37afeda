"""What the main loop makes of the frames from its socket, with a service that only keeps account."""

import asyncio
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any, cast

import pytest
from msgspec.msgpack import Decoder

from orchard import wire
from orchard.backends.service import Emit, LoadResult, MemoryUse, Service
from orchard.core.device_memory import DeviceMemory
from orchard.core.events import Finished, Started, Usage
from orchard.core.request import Request
from orchard.core.speculation_report import SourceTotals, SpeculationReport
from orchard.core.tasks.generate import Count, Generate, Message, TextPart
from orchard.core.tasks.text_options import TextOptions
from orchard.kinds import FAKE
from orchard.worker import main
from orchard.worker.main import LAST_SAVE_SECONDS, SAVE_SECONDS, ServiceTypes, Worker


class Account:
    """A service that notes what it is told. Its end takes a few turns of the loop."""

    def __init__(self) -> None:
        self.told: list[tuple[str, Any]] = []
        self._guessed: SpeculationReport = {}

    def __call__(self, path: str, options: TextOptions) -> "Account":
        return self

    def prepare(self) -> int:
        return 1

    def device_memory(self, *, has_model: bool) -> DeviceMemory:
        return DeviceMemory(2**40, 2**41, 2**30 * has_model)

    def processor(self) -> str:
        return "gpu"

    def memory_use(self) -> MemoryUse:
        return MemoryUse(1, 2, 3, 4)

    def changing_details(self) -> dict[str, str | bool | list[str]]:
        return {"warming_up": False}

    async def start(self, emit: Emit, *_: Any) -> LoadResult:
        self._emit = emit
        return LoadResult(1, {"media": [], "warming_up": True})

    def submit(self, request: Request) -> None:
        self._guessed = {"ngram": SourceTotals(4, 3, 0.5)}
        self._emit([(request.id, [Started(1), Finished(("stop",), Usage(1, 1))])], 0, 0)

    def speculation(self) -> SpeculationReport:
        return self._guessed

    def starved_requests(self) -> list[str]:
        return []

    def pause(self, request_id: str) -> None:
        self.told.append(("pause", request_id))

    def resume(self, request_id: str) -> None:
        self.told.append(("resume", request_id))

    async def close(self, save_seconds: float) -> None:
        for _ in range(5):
            await asyncio.sleep(0)
        self.told.append(("close", save_seconds))


class Gateway:
    """The other end of the socket: a writer that says when the model is ready, and keeps the steps."""

    def __init__(self) -> None:
        self.ready = asyncio.Event()
        self.steps: list[wire.Step] = []
        self.reports: list[wire.MemoryReport] = []
        self.reported = asyncio.Event()
        self.details: list[wire.Details] = []
        self.detailed = asyncio.Event()

    def write(self, frame: bytes) -> None:
        message = wire._decoder.decode(frame[4:])
        if isinstance(message, wire.Ready):
            self.ready.set()
        elif isinstance(message, wire.Step):
            self.steps.append(message)
        elif isinstance(message, wire.MemoryReport):
            self.reports.append(message)
            self.reported.set()
        elif isinstance(message, wire.Details):
            self.details.append(message)
            self.detailed.set()


async def told(*messages: wire.ToWorker, gateway: Gateway | None = None) -> list[tuple[str, Any]]:
    """Load a model, send messages, close the socket, and say what the service was told."""
    account, gateway, reader = Account(), gateway or Gateway(), asyncio.StreamReader()
    types = ServiceTypes(cast(type[Service], account), Decoder(TextOptions), Decoder(Generate | Count))
    worker = Worker(cast(asyncio.StreamWriter, gateway), types)
    running = asyncio.create_task(worker.run(reader))
    reader.feed_data(wire.encode(wire.Load("name", "path", wire.encode_struct(TextOptions()))))
    await asyncio.wait_for(gateway.ready.wait(), 10)
    for message in messages:
        reader.feed_data(wire.encode(message))
    reader.feed_eof()
    await asyncio.wait_for(running, 10)
    return account.told


async def test_a_request_is_paused_and_resumed() -> None:
    heard = await told(wire.Pause("a"), wire.Resume("a"))
    assert heard[:2] == [("pause", "a"), ("resume", "a")]


async def test_the_end_of_an_answer_says_what_guesses_have_brought() -> None:
    """So that nobody who has the answer finds numbers from before it."""
    gateway = Gateway()
    task = Generate((Message("user", (TextPart("Hi"),)),))
    await told(wire.Submit("a", wire.encode_struct(task), "normal"), gateway=gateway)
    (step,) = gateway.steps
    assert isinstance(step.events[0][1][-1], Finished)
    assert step.speculation == {"ngram": SourceTotals(4, 3, 0.5)}


async def test_prompts_are_saved_for_longer_at_the_end_of_the_server() -> None:
    assert await told() == [("close", LAST_SAVE_SECONDS)]


async def test_a_process_that_unloads_ends_when_it_has_done_so() -> None:
    assert await told(wire.Unload()) == [("close", SAVE_SECONDS)]


async def test_what_holds_memory_is_reported_with_a_model_and_without(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(main, "REPORT_SECONDS", 0.001)
    gateway, reader = Gateway(), asyncio.StreamReader()
    types = ServiceTypes(cast(type[Service], Account()), Decoder(TextOptions), Decoder(Generate))
    worker = Worker(cast(asyncio.StreamWriter, gateway), types)
    running = asyncio.create_task(worker.run(reader))
    async with asyncio.timeout(10):
        await gateway.reported.wait()
        gateway.reported.clear()
        reader.feed_data(wire.encode(wire.Load("name", "path", wire.encode_struct(TextOptions()))))
        await gateway.reported.wait()
        reader.feed_eof()
        await running
    assert gateway.reports == [
        wire.MemoryReport(DeviceMemory(2**40, 2**41)),
        wire.MemoryReport(DeviceMemory(2**40, 2**41, 2**30), 1, 2, 3, 4),
    ]


def _oom_score(pid: int) -> int:
    return int(Path(f"/proc/{pid}/oom_score_adj").read_text())


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has such a score")
async def test_linux_kills_a_worker_before_the_gateway() -> None:
    ours, theirs = socket.socketpair()
    command = [sys.executable, "-m", "orchard.worker", "--fd", str(theirs.fileno()), *FAKE.arguments]
    with theirs:
        process = await asyncio.create_subprocess_exec(*command, pass_fds=[theirs.fileno()])
    reader, writer = await asyncio.open_connection(sock=ours)
    async with asyncio.timeout(60):
        assert isinstance(await wire.read_message(reader), wire.Hello)
        assert _oom_score(process.pid) == 500
        writer.close()
        assert await process.wait() == 0


def test_a_worker_starts_where_mlx_lm_may_not_raise_the_limit_of_open_files() -> None:
    """And one for text imports nothing that is for media."""
    program = """
import resource, sys
def refuse(*_): raise ValueError("not allowed to raise maximum limit")
resource.setrlimit = refuse
from orchard.kinds import TEXT
from orchard.worker.main import import_service
import_service(TEXT.service, "orchard.core.request:LoadOptions", ["orchard.core.request:Task"]).service.prepare()
assert "mlx_lm.utils" in sys.modules
assert resource.setrlimit is refuse
assert {"mlx_vlm", "mlx_audio", "cv2", "miniaudio"}.isdisjoint(sys.modules)
"""
    subprocess.run([sys.executable, "-c", program], check=True)


async def test_details_that_change_are_told_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(main, "REPORT_SECONDS", 0.001)
    gateway, reader = Gateway(), asyncio.StreamReader()
    types = ServiceTypes(cast(type[Service], Account()), Decoder(TextOptions), Decoder(Generate))
    worker = Worker(cast(asyncio.StreamWriter, gateway), types)
    running = asyncio.create_task(worker.run(reader))
    async with asyncio.timeout(10):
        reader.feed_data(wire.encode(wire.Load("name", "path", wire.encode_struct(TextOptions()))))
        await gateway.detailed.wait()
        for _ in range(3):  # looks
            await asyncio.sleep(main.REPORT_SECONDS)
        reader.feed_eof()
        await running
    assert gateway.details == [wire.Details({"warming_up": False})]
