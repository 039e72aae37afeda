"""A pool whose processes and whose time are simulated: workers that speak the protocol, load, serve, crash and hang."""

import asyncio
import itertools
import random
import selectors
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar, cast

import msgspec

from orchard import wire
from orchard.config import Settings
from orchard.core.cache_report import CacheState
from orchard.core.device_memory import DeviceMemory
from orchard.core.events import Event, Failed, Finished, Started, Text, Usage
from orchard.core.request import Request, RequestProgress
from orchard.core.tasks.generate import Generate, generate_task
from orchard.core.tasks.text_options import TextOptions
from orchard.gateway.pool.worker_process import WorkerProcess
from orchard.kinds import Backend
from orchard.system_memory import SystemMemory

T = TypeVar("T")


class _Selector(selectors.DefaultSelector):
    """Where the loop would wait for its next timer, the time is then."""

    now = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        found = super().select(0)
        if not found:
            assert timeout is not None, "everything waits, and nothing is going to happen"
            self.now += max(0.0, timeout)
        return found


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop in which waiting takes no time."""

    def __init__(self) -> None:
        self._virtual = _Selector()
        super().__init__(self._virtual)

    def time(self) -> float:
        return self._virtual.now

    def jump(self, seconds: float) -> None:
        self._virtual.now += seconds


def run(main: Coroutine[Any, Any, T]) -> T:
    """Run in virtual time; what breaks anywhere breaks this."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        task = runner.get_loop().create_task(main)
        broken: list[BaseException] = []

        def handle(_: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
            broken.append(context.get("exception") or AssertionError(context["message"]))
            task.cancel()

        runner.get_loop().set_exception_handler(handle)

        async def guarded() -> T:
            try:
                return await task
            finally:
                if broken:
                    raise broken[0]

        return runner.run(guarded())


class World:
    """All simulated processes, and the law that they keep watch over."""

    def __init__(self, seed: int, weights: dict[str, int], most: int, budget: int) -> None:
        """`weights`: what each model takes, in bytes, by its path."""
        self.random = random.Random(seed)
        self.weights = weights
        self.most = most
        self.budget = budget
        self.processes: list[Process] = []
        self.may_go: Callable[[str], bool] = lambda path: True
        """Whether a model may be unloaded now, for the law says that pinned ones stay."""
        self.others = 0
        """What other programs use of the memory, in bytes."""
        self.critical = False
        self.elastic = False
        self.reads = 0
        """How often somebody has asked what is free."""
        self.closing = False
        self.broken: set[str] = set()
        """Models that can't be loaded."""
        self.lacks_memory = False
        """Whether that is because memory runs out."""
        self.spawns = True
        """Whether processes can be started."""
        self.loads = 0
        self.oom_kills = 0
        """How many processes the kernel has killed for lack of memory."""
        self.ran_out: list[Process] = []
        """Those whose memory ran out: their models never get the same limits again."""
        self.runs: dict[str, list[Process]] = {}
        """The processes that have had each request, less those from which it was taken again."""
        self.device_bytes = 0
        """The memory of the device; 0: it has none of its own."""
        self.sizes: dict[str, int] = {}
        """The bytes that a request needs beside the weights, by its id; others need none."""

    @property
    def alive(self) -> list["Process"]:
        return [process for process in self.processes if process.returncode is None]

    def read_memory(self) -> SystemMemory:
        """What is free: models hold their weights, and the machine has so much that the reserve is not the models'."""
        self.reads += 1
        held = sum(process.held for process in self.alive)
        total = self.budget * 20 // 19
        return SystemMemory(total, max(0, total - held - self.others), elastic=self.elastic, critical=self.critical)

    def check(self) -> None:
        """Never over budget."""
        loaded = [process for process in self.alive if process.path is not None]
        assert len(loaded) <= self.most
        assert sum(process.allowance or 0 for process in loaded) <= self.budget
        assert sum(self.weights[process.path or ""] for process in loaded) <= self.budget

    def soon(self, least: float, most: float, call: Callable[..., None], *args: Any) -> None:
        asyncio.get_running_loop().call_later(self.random.uniform(least, most), call, *args)

    def run_out(self, process: "Process") -> None:
        """The kernel kills a process that has a model, for lack of memory."""
        self.oom_kills += 1
        self.ran_out.append(process)
        process.end(-9)

    def make(self, backend: Backend, settings: Settings, launched: None) -> WorkerProcess:
        return SimulatedWorker(backend, settings, self)


class SimulatedWorker(WorkerProcess):
    """The gateway's end, whose process is simulated."""

    def __init__(self, backend: Backend, settings: Settings, world: World) -> None:
        super().__init__(backend, settings)
        self._world = world

    async def _spawn(self) -> asyncio.StreamReader:
        await asyncio.sleep(0)
        if not self._world.spawns:
            raise OSError("the simulation says so")
        process = Process(self._world)
        self._process = cast(Any, process)
        self._writer = cast(Any, process)
        if self._killed:
            process.kill()
        if self._closing:
            process.close()
        return process.reader

    async def _wait(self) -> int:
        process: Any = self._process
        return int(await process.wait())

    def _kill_group(self) -> None:
        """Kill the simulated process, whose number is that of another process of this machine."""
        process: Any = self._process
        if process and process.returncode is None:
            process.kill()


class Process:
    """The other end, as the gateway sees it: a process, and what is written to its socket."""

    numbers = itertools.count(1)

    def __init__(self, world: World) -> None:
        self.world = world
        self.pid = next(self.numbers)
        self.returncode: int | None = None
        self.reader = asyncio.StreamReader()
        self.path: str | None = None
        self.allowance: int | None = None
        self.halvings = 0
        self.limits: list[tuple[int, int]] = []
        """What it was allowed to take since its load, and what it could take alone."""
        self.running: dict[str, Request] = {}
        self.paused: set[str] = set()
        self.held = 0
        """The bytes of memory that it holds."""
        self.starved: list[str] = []
        self.wanted = 0
        """The bytes with which the first of them would run."""
        self.preempted: set[str] = set()
        """Those that have waited for memory since their prompts were read."""
        self.unloaded_with: int | None = None
        """What it was allowed to take when it began to unload."""
        self.ready = False
        self.hangs = False
        self.broken_loads = False
        self._closed = False
        self._over = asyncio.Event()
        world.processes.append(self)
        world.soon(0, 3, self.say, wire.Hello(world.budget, self._device))

    @property
    def _device(self) -> DeviceMemory:
        return DeviceMemory(self.world.device_bytes, self.world.device_bytes, self.held)

    # What the gateway does with the socket and the process

    def write(self, frame: bytes) -> None:
        message = wire._decoder.decode(frame[4:])
        if isinstance(message, wire.Cancel) and self in (runs := self.world.runs.get(message.request_id, [])):
            runs.remove(self)
        if isinstance(message, wire.LimitMemory):
            self.limits.append((message.memory_bytes, message.most_bytes))
            self.allowance = message.memory_bytes  # as far as the gateway can know, though it may hang
            self.world.check()
            self._feed()
        elif not self._closed and not self.hangs and self.returncode is None:
            self._receive(message)

    def is_closing(self) -> bool:
        return self._closed

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        self.reader.feed_eof()
        if self.path and self.ready and self.returncode is None and not self.hangs:
            assert self.world.closing or not self.running, "busy models stay"
            assert self.world.closing or self.world.may_go(self.path), "pinned models stay"
        if not self.hangs:
            self.world.soon(0, 1, self.end, 0)

    def kill(self) -> None:
        self.world.soon(0, 0.1, self.end, -9)

    async def wait(self) -> int:
        await self._over.wait()
        assert self.returncode is not None
        return self.returncode

    # What it does

    def end(self, code: int) -> None:
        if self.returncode is None:
            self.returncode = code
            self.held = 0
            self.running.clear()
            self._over.set()
            if not self._closed:
                self.reader.feed_eof()

    def say(self, message: wire.FromWorker) -> None:
        if self.returncode is None and not self._closed and not self.hangs:
            self.reader.feed_data(wire.encode(message))

    def _receive(self, message: object) -> None:
        match message:
            case wire.Ping(number):
                self.say(wire.Pong(number, 0.0, 0, 2**20))
            case wire.AskCache(number):
                self.say(wire.CacheIs(number, CacheState({"asked": 1})))
            case wire.AskProgress(number):
                self.say(wire.ProgressIs(number, [RequestProgress(id_, 7, 5, 3) for id_ in self.running]))
            case wire.Load(_, path, options):
                assert self.path is None
                decoded = msgspec.msgpack.decode(options, type=TextOptions)
                self.path, self.allowance, self.halvings = path, decoded.memory_limit, decoded.halvings
                self.limits = [(self.allowance or 0, self.allowance or 0)]
                assert all((path, self.allowance) != (one.path, one.allowance) for one in self.world.ran_out)
                self.world.loads += 1
                self.world.check()
                self._load(1)
            case wire.Unload():
                assert self.path
                assert not self.running, "busy models stay"
                assert self.world.may_go(self.path), "pinned models stay"
                self.unloaded_with = self.allowance
                self.ready = False
                self.world.soon(0, 1, self._unloaded)
            case wire.Submit(request_id, task, priority):
                assert self.path
                assert request_id not in self.running
                request = Request(request_id, self.path, msgspec.msgpack.decode(task, type=Generate), priority)
                self.world.runs.setdefault(request.id, []).append(self)
                self.running[request.id] = request
                self._feed()
                self._read(request)
            case wire.Cancel(request_id):
                self.running.pop(request_id, None)
                self._feed()
            case wire.Pause(request_id):
                self.paused.add(request_id)
            case wire.Resume(request_id):
                self.paused.remove(request_id)

    def _load(self, step: int) -> None:
        if self.returncode is not None:
            return
        if (self.broken_loads or self.path in self.world.broken) and step == 2:
            self.say(wire.LoadFailed("the simulation says so", self.world.lacks_memory))
        elif step <= 3:
            self.say(wire.Loading(step / 3))
            self.world.soon(0, 2, self._load, step + 1)
        else:
            assert self.path
            self.ready = True
            self._hold(self.world.weights[self.path])
            self.say(wire.Ready(1.0, self.world.weights[self.path]))

    def _hold(self, held: int) -> None:
        """Take or free memory, and report it later than the system knows of it."""
        self.held = held
        self.world.soon(0, 1, lambda: self.report(self.wanted))

    def report(self, wanted: int) -> None:
        """Report what it holds; `wanted`: see `MemoryUse`."""
        self.say(wire.MemoryReport(self._device, self.held, wanted_bytes=wanted))

    def _unloaded(self) -> None:
        if not self.hangs and self.returncode is None:
            self.path = self.allowance = None
            self._hold(0)
            self.say(wire.Unloaded(2**20))

    def _feed(self) -> None:
        """Starve the requests that don't fit even alone, and report what the first of them wants."""
        if self.hangs or not (self.ready and self.path and self.world.sizes):
            return
        wanted = {id_: self.world.weights[self.path] + self.world.sizes.get(id_, 0) for id_ in self.running}
        for id_ in [id_ for id_, size in wanted.items() if id_ in self.world.sizes and size > self.limits[-1][1]]:
            del self.running[id_], wanted[id_]
            self._step(id_, [Failed("context_length_exceeded", "it needs more than there may ever be")])
        starved = [id_ for id_, size in wanted.items() if size > (self.allowance or 0)]
        if starved != self.starved:
            self.starved = starved
            self.preempted |= {*starved}
            self.say(wire.Step([], len(self.running), 0, {}, starved))
            self.wanted = wanted[starved[0]] if starved else 0
            self.world.soon(0, 1, lambda: self.report(self.wanted))

    def _read(self, request: Request) -> None:
        """Read a prompt: a large one takes longer."""
        self.world.soon(*((3, 5) if request.id in self.world.sizes else (0, 2)), self._begin, request)

    def _begin(self, request: Request) -> None:
        if not self._has(request):
            return
        if self._waits(request):
            self.world.soon(0, 1, self._begin, request)
        elif request.id in self.preempted:  # what it has read is lost
            self.preempted.remove(request.id)
            self._read(request)
        else:
            self._step(request.id, [Started(1)])
            self.world.soon(0, 1, self._go_on, request, 0)

    def _go_on(self, request: Request, piece: int) -> None:
        if not self._has(request):
            return
        if request.id in self.paused or self._waits(request):
            self.world.soon(0, 1, self._go_on, request, piece)
        elif piece < generate_task(request).sampling.top_k:  # type: ignore[operator]  # set by the walk
            self._step(request.id, [Text(f"{piece} ")])
            self.world.soon(0, 1, self._go_on, request, piece + 1)
        elif not self.hangs:
            del self.running[request.id]
            self._feed()
            self._step(request.id, [Finished(("stop",), Usage(1, piece))])

    def _has(self, request: Request) -> bool:
        """Whether a request has not left. It may have come again since."""
        return self.running.get(request.id) is request

    def _waits(self, request: Request) -> bool:
        """Whether a request waits for memory; a test may have said so of one without a size."""
        return request.id in self.world.sizes and request.id in self.starved

    def _step(self, request_id: str, events: list[Event]) -> None:
        self.say(wire.Step([(request_id, events)], len(self.running), 0, {}, self.starved))
