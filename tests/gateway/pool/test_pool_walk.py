"""The pool on random walks: requests, loads, unloads, crashes, hangs, cancels and clock jumps, in virtual time."""

import asyncio
import contextlib
from collections.abc import Iterator
from typing import cast

import pytest
from msgspec.structs import replace

from orchard import system_memory
from orchard.config import Settings
from orchard.core.errors import OrchardError
from orchard.core.events import Failed, Finished, Started, Text
from orchard.core.request import Adapter, Request
from orchard.core.tasks.generate import Generate, Message, Sampling, TextPart, generate_task
from orchard.gateway.models.entry import ModelEntry
from orchard.gateway.models.registry import Registry
from orchard.gateway.pool import lifecycle, processes, worker_process
from orchard.gateway.pool.lifecycle import ModelState
from orchard.gateway.pool.pool import Pool
from orchard.gateway.pool.restarts import Restarts
from tests.support.pool_simulation import VirtualLoop, World, run

_BUDGET = 10_000
_STEPS = 400
_FAILURES = {"worker_crashed", "model_failed", "unavailable", "overloaded"}
_LACKS = {"insufficient_memory", "context_length_exceeded"}
_FOR_EVER = 1e6


class Hub(Registry):
    """A registry whose models may have to be downloaded first."""

    def __init__(self, entries: list[ModelEntry], world: World) -> None:
        super().__init__(entries)
        self.missing: set[str] = set()
        self.fails = True
        """Whether some downloads fail."""
        self._world = world

    def find(self, name: str, adapter: Adapter | None = None) -> ModelEntry:
        entry = super().find(name, adapter)
        return replace(entry, path="", repo="org/" + name) if name in self.missing else entry

    async def fetch(self, entry: ModelEntry) -> ModelEntry:
        await asyncio.sleep(self._world.random.uniform(0, 20))
        if self.fails and self._world.random.random() < 0.5:
            raise OrchardError("model_failed", "the hub is gone")
        self.missing.discard(entry.id)
        return self.find(entry.id)


class Walk:
    """One walk: its world, its pool, and its callers."""

    def __init__(self, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
        weights = {f"path {number}": 0 for number in range(4)}
        self.world = World(seed, weights, 0, _BUDGET)
        self.random = self.world.random
        for path in weights:
            weights[path] = self.random.choice((1000, 1000, 3000, 3000, 5000, 5000, 8500, 8500, 12_000))
        smallest = min(weights, key=lambda path: weights[path])
        weights[smallest] = min(weights[smallest], 8500)  # so that at least one fits
        self.entries = [
            ModelEntry(
                path.replace("path", "model"),
                path,
                None,
                kind=self.random.choice(("text", "text", "fake")),
                size_bytes=weights[path],
                configured=True,
                on_demand=self.random.random() < 0.5,
                pinned=path == smallest and self.random.random() < 0.5,
                ttl=None if path == smallest else self.random.choice((None, 5.0, 60.0)),
            )
            for path in weights
        ]
        most = self.random.randint(1, 3)
        self.world.most = most
        limit = self.random.choice((None, _BUDGET))
        watchdog = self.random.choice((4.0, 20.0))
        monkeypatch.setattr(processes, "WorkerProcess", self.world.make)
        monkeypatch.setattr(worker_process, "count_oom_kills", lambda: self.world.oom_kills)
        forgive = Restarts.forgive

        def unloaded(restarts: Restarts) -> None:
            forgive(restarts)
            self.world.ran_out.clear()

        monkeypatch.setattr(Restarts, "forgive", unloaded)
        monkeypatch.setattr(system_memory, "read_system_memory", self.world.read_memory)
        # Without a time limit, a request that is forgotten waits for ever.
        self.timeout = self.random.choice((120.0, _FOR_EVER, _FOR_EVER))
        settings = Settings(
            max_loaded_models=most, memory_limit=limit, watchdog_timeout=watchdog, queue_timeout=self.timeout
        )
        self.hub = Hub(self.entries, self.world)
        self.pool = Pool(self.hub, settings)
        self.callers: set[asyncio.Task[None]] = set()
        self.unloading: list[str] = []
        self.world.may_go = self._may_go
        self.outcomes: dict[str, int] = {}
        self.number = 0

    def _may_go(self, path: str) -> bool:
        (entry,) = (entry for entry in self.entries if entry.path == path)
        return not entry.pinned or entry.id in self.unloading

    async def go(self) -> None:
        self.pool.start()
        actions = {
            self._request: 40,
            self._wait: 40,
            self._load: 2,
            self._unload: 2,
            self._unload_all: 1,
            self._crash: 5,
            self._run_out: 2,
            self._hang: 1,
            self._break_loads: 1,
            self._lose_files: 1,
            self._jump: 1,
            self._squeeze: 5,
        }
        for _ in range(_STEPS):
            (action,) = self.random.choices(list(actions), list(actions.values()))
            await action()
        await self._drain()

    async def _drain(self) -> None:
        """With no more faults, everything comes to its end, and the pool still works."""
        for process in self.world.alive:
            process.broken_loads = False
            if process.hangs:  # also a spare one, which would fail the next load
                process.end(-9)
        self.hub.fails = False
        self.world.others = 0
        await asyncio.sleep(1)  # until the last crashes are noticed
        for model in self.pool.models.values():
            model.restarts.forgive()
            self.pool.plan_for(model)
        async with asyncio.timeout(10_000):
            while self.callers:
                await asyncio.wait(self.callers)
                await asyncio.sleep(0)
            await asyncio.sleep(200)  # whatever has failed may be tried again
            small = [entry for entry in self.entries if entry.size_bytes <= 8500 and not entry.pinned]
            pinned = any(entry.pinned for entry in self.entries)
            if small and not pinned:
                ok = self.outcomes.get("ok", 0)
                await self._call(self._new(self.random.choice(small).id), whole=False, patience=_FOR_EVER)
                assert self.outcomes["ok"] == ok + 1
                shares = [model.allowance or 0 for model in self.pool.models.values()]
                assert sum(shares) > _BUDGET - len(shares), "what others have freed is the models' again"
        assert not {"unavailable", "insufficient_memory"} & self.outcomes.keys() or self.timeout < _FOR_EVER
        self.world.closing = True
        await self.pool.close()
        assert not self.world.alive

    async def _wait(self) -> None:
        await asyncio.sleep(self.random.choice((0, 0, 0.01, 0.3, 2, 10)))

    async def _jump(self) -> None:
        cast(VirtualLoop, asyncio.get_running_loop()).jump(self.random.choice((1, 30, 1000)))

    async def _squeeze(self) -> None:
        """Let other programs take memory, or free it."""
        self.world.others = self.random.choice((0, 0, 2000, 5000, 9000, 20_000))

    async def _request(self) -> None:
        request = self._new(self.random.choice(self.entries).id)
        patience = self.random.choice((0.0, 1.0, 5.0, _FOR_EVER, _FOR_EVER, _FOR_EVER, _FOR_EVER))
        self._begin(self._call(request, self.random.random() < 0.5, patience))

    def _new(self, model: str) -> Request:
        self.number += 1
        pieces = self.random.choice((0, 1, 5, 20))
        task = Generate((Message("user", (TextPart("hi"),)),), sampling=Sampling(top_k=pieces))
        ttl = self.random.choice((None, None, None, 1.0)) if not self._is_pinned(model) else None
        if self.random.random() < 0.3:
            (weights,) = (entry.size_bytes for entry in self.entries if entry.id == model)
            self.world.sizes[f"req_{self.number}"] = self.random.randint(0, max(0, _BUDGET - weights))
        return Request(f"req_{self.number}", model, task, ttl=ttl)

    def _is_pinned(self, model: str) -> bool:
        return any(entry.pinned and entry.id == model for entry in self.entries)

    async def _load(self) -> None:
        self._begin(self._load_by_name(self.random.choice(self.entries).id))

    async def _load_by_name(self, model: str) -> None:
        with contextlib.suppress(OrchardError):
            await self.pool.find(model).load()

    async def _unload(self) -> None:
        self._begin(self._unload_by_name(self.random.choice(self.entries).id))

    async def _unload_by_name(self, model: str) -> None:
        self.unloading.append(model)
        with _maybe_kept():
            await self.pool.find(model).unload()
        self.unloading.remove(model)

    async def _unload_all(self) -> None:
        self._begin(self._unload_every_one())

    async def _unload_every_one(self) -> None:
        with _maybe_kept():
            for model in await self.pool.unload_all():
                assert not self._is_pinned(model)

    async def _crash(self) -> None:
        if self.world.alive:
            self.random.choice(self.world.alive).end(self.random.choice((-9, -6, 1)))

    async def _run_out(self) -> None:
        # The end of one that is being closed or killed is no crash for lack of memory.
        if loaded := [one for one in self.world.alive if one.allowance and not (one.is_closing() or one.hangs)]:
            self.world.run_out(self.random.choice(loaded))

    async def _hang(self) -> None:
        if self.world.alive:
            self.random.choice(self.world.alive).hangs = True

    async def _break_loads(self) -> None:
        if self.world.alive:
            self.random.choice(self.world.alive).broken_loads = True

    async def _lose_files(self) -> None:
        """Delete a model's files, as far as it is not in memory."""
        self.hub.missing.add(self.random.choice(self.entries).id)

    def _begin(self, work: "asyncio._CoroutineLike[None]") -> None:
        task = asyncio.create_task(work)
        self.callers.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        self.callers.discard(task)
        task.result()

    async def _call(self, request: Request, whole: bool, patience: float) -> None:
        """Ask, and check that the answer comes once, whole and in order, or fails for a good reason."""
        stream = self.pool.stream(request)
        text, started, ended = "", False, False

        def forget() -> None:
            nonlocal text, started
            text, started = "", False

        stream.may_restart(forget if whole else None)
        loop = asyncio.get_running_loop()
        leaves = loop.time() + patience
        try:
            while not ended and loop.time() < leaves:
                events = await stream.next(min(100.0, leaves - loop.time()))
                for event in events:
                    assert not ended
                    match event:
                        case Started():
                            assert not started
                            started = True
                        case Text(piece):
                            assert started
                            text += piece
                        case Finished(_, usage):
                            ended = True
                            assert text == "".join(f"{piece} " for piece in range(usage.completion_tokens))
                            assert usage.completion_tokens == generate_task(request).sampling.top_k
                        case Failed(kind, message):
                            ended = True
                            assert kind in _FAILURES | _LACKS, message
                    if ended:
                        outcome = event.kind if isinstance(event, Failed) else "ok"
                        self.outcomes[outcome] = self.outcomes.get(outcome, 0) + 1
            assert ended or patience < _FOR_EVER
        finally:
            stream.close()
        runs = self.world.runs.get(request.id, [])
        assert len(runs) <= 2
        assert len(runs) < 2 or runs[0] not in self.world.alive


@contextlib.contextmanager
def _maybe_kept() -> Iterator[None]:
    """A model may stay because somebody has asked for it since."""
    try:
        yield
    except OrchardError as error:
        if error.kind != "model_in_use":
            raise


@pytest.mark.parametrize("seed", range(12))
def test_a_random_walk(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    walk = Walk(seed, monkeypatch)
    run(walk.go())
    assert walk.outcomes["ok"]


def test_walks_take_every_step_of_a_models_life_and_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    left = {(old, new) for old, follow in lifecycle.TRANSITIONS.items() for new in follow}
    # So seldom that test_pool.py has them.
    left -= {(ModelState.RESTARTING, ModelState.UNLOADED), (ModelState.STARTING, ModelState.FAILED)}
    step = lifecycle.step

    def seen(old: ModelState, new: ModelState) -> ModelState:
        left.discard((old, new))
        return step(old, new)  # which raises where the table has no such step

    monkeypatch.setattr(lifecycle, "step", seen)
    for seed in (118, 105, 141, *range(200, 400)):  # mostly the first three do
        if left:
            run(Walk(seed, monkeypatch).go())
    assert not left
