"""The pool in virtual time, with processes that are simulated: what it does in one situation after the other."""

import asyncio
import contextlib
import errno
import time
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from msgspec.structs import replace

from orchard import system_memory, wire
from orchard.config import Settings
from orchard.core.cache_report import CacheState
from orchard.core.errors import OrchardError
from orchard.core.events import Event, Failed, Finished, Progressed, Started, Text
from orchard.core.request import Request
from orchard.core.tasks.embed import Embed
from orchard.core.tasks.generate import Generate, Message, Sampling, TextPart
from orchard.core.tasks.text_options import TextOptions
from orchard.demo import MODEL_PATH, VISION_MODEL_PATH
from orchard.gateway.models.download import Downloads
from orchard.gateway.models.entry import ModelEntry
from orchard.gateway.models.registry import Registry
from orchard.gateway.pool import lifecycle, processes, worker_process
from orchard.gateway.pool.lifecycle import ModelState
from orchard.gateway.pool.pool import Pool
from orchard.gateway.replies.event_stream import EventStream
from orchard.system_memory import SystemMemory
from tests.support.pool_simulation import Process, World, run

_BUDGET = 10_000
_WEIGHTS = {"a": 1000, "b": 1000, "c": 1000, "large": 9000, "too large": 11_000}


class ThirdOptions(TextOptions, frozen=True, kw_only=True):
    """Weights take a third of their files' size."""

    def loaded_bytes(self, size_bytes: int, kept_bytes: int, *, on_device: bool = False) -> int:
        return size_bytes // 3


class HalfWay(Downloads):
    """Downloads whose progress stands still."""

    def progress(self, repo: str | None, revision: str | None) -> str:
        return "downloading 50%" if repo else ""


class Hub(Registry):
    """A registry whose models have to be downloaded first, which takes a minute."""

    begun = 0
    fails = False

    async def fetch(self, entry: ModelEntry) -> ModelEntry:
        self.begun += 1
        self.downloads = HalfWay()
        await asyncio.sleep(60)
        if self.fails:
            raise OrchardError("unavailable", "the hub is gone")
        return replace(entry, path=entry.id)


class Stage:
    """A pool with models that are called as their paths."""

    def __init__(self, models: dict[str, dict[str, Any]], most: int, **settings: Any) -> None:
        self.world = World(1, _WEIGHTS, most, _BUDGET)
        self.numbers = 0
        entries = [
            ModelEntry(name, name, None, size_bytes=_WEIGHTS[name], **{"configured": True, "on_demand": True} | fields)
            for name, fields in models.items()
        ]
        self.pool = Pool(Registry(entries), Settings(**{"max_loaded_models": most} | settings))

    def open(self, model: str, pieces: int = 1, ttl: float | None = None) -> EventStream:
        self.numbers += 1
        task = Generate((Message("user", (TextPart("hi"),)),), sampling=Sampling(top_k=pieces))
        return self.pool.stream(Request(f"req_{self.numbers}", model, task, ttl=ttl))

    async def ask(self, model: str, pieces: int = 1, ttl: float | None = None) -> list[Event]:
        return await self.read(self.open(model, pieces, ttl))

    async def read(self, stream: EventStream, until: type[Event] | None = None) -> list[Event]:
        events: list[Event] = []
        while not (events and isinstance(events[-1], until or (Finished, Failed))):
            events += await stream.next(1000)
        if until is None:
            stream.close()
        return events

    async def until(self, model: str, state: str) -> None:
        await self.see(lambda: self.state(model) == state)

    async def see(self, true: Callable[[], bool]) -> None:
        for _ in range(100_000):
            if true():
                return
            await asyncio.sleep(0.01)
        raise AssertionError("that never comes true")

    def state(self, model: str) -> str:
        return self.pool.models[model].state.shown

    def process(self, model: str) -> Process:
        (found,) = (process for process in self.world.alive if process.path == model)
        return found


Story = Callable[[Stage], Coroutine[Any, Any, None]]


def play(monkeypatch: pytest.MonkeyPatch, stage: Stage, story: Story) -> None:
    monkeypatch.setattr(processes, "WorkerProcess", stage.world.make)
    monkeypatch.setattr(worker_process, "count_oom_kills", lambda: stage.world.oom_kills)
    monkeypatch.setattr(system_memory, "read_system_memory", stage.world.read_memory)

    async def whole() -> None:
        stage.pool.start()
        async with asyncio.timeout(100_000):
            await story(stage)
        stage.world.closing = True
        await stage.pool.close()
        assert not stage.world.alive

    run(whole())


def failure(events: list[Event]) -> Failed:
    assert isinstance(events[-1], Failed)
    return events[-1]


def test_requests_share_the_load_that_they_wait_for(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(stage: Stage) -> None:
        streams = [stage.open("a") for _ in range(3)]
        health = stage.pool.models["a"].status.health_report()
        assert (health["state"], health["waiting"]) == ("queued", 3)
        for stream in streams:
            assert isinstance((await stage.read(stream))[-1], Finished)
        assert stage.world.loads == 1

    play(monkeypatch, Stage({"a": {}}, 1), story)


def test_a_request_without_a_model_means_the_only_one(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(stage: Stage) -> None:
        assert stage.pool.only_model() is None
        await stage.ask("a")
        assert stage.pool.only_model() == "a"
        await stage.ask("b")
        assert stage.pool.only_model() is None
        await stage.pool.models["a"].unload()
        assert stage.pool.only_model() == "b"

    play(monkeypatch, Stage({"a": {}, "b": {}}, 2), story)


@pytest.mark.parametrize(
    ("models", "only"),
    [
        ({}, "other"),
        ({"a": {}, "b": {}}, "other"),
        ({"a": {}}, "a"),
        ({"a": {}, "b": {"base": "a"}, "c": {"kind": "image"}}, "a"),
        ({"a": {"configured": False}}, "a"),
    ],
)
def test_the_only_configured_model_goes_before_the_fallback(models: dict[str, dict[str, Any]], only: str) -> None:
    assert Stage(models, 1, fallback_model="other").pool.only_model() == only


def test_only_models_that_give_embeddings_are_meant_where_embeddings_are_wanted() -> None:
    stage = Stage({"a": {}, "b": {"kind": "text", "options": TextOptions(embeddings=True)}, "c": {"kind": "text"}}, 1)
    assert stage.pool.only_model(Embed) == "b"


def test_what_is_configured_is_loaded_at_the_start_as_far_as_it_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(stage: Stage) -> None:
        await stage.until("a", "ready")
        await stage.until("c", "ready")
        await asyncio.sleep(100)
        assert [stage.state(model) for model in ("a", "large", "c", "b")] == ["ready", "unloaded", "ready", "unloaded"]

    models: dict[str, dict[str, Any]] = {name: {"on_demand": False} for name in ("a", "large", "c")}
    play(monkeypatch, Stage(models | {"b": {}}, 3), story)


def test_the_idle_model_that_was_used_least_recently_makes_room(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(stage: Stage) -> None:
        await stage.ask("a")
        await stage.ask("b")
        await stage.ask("a")
        await stage.ask("c")
        assert [stage.state(model) for model in "abc"] == ["ready", "unloaded", "ready"]

    play(monkeypatch, Stage({"a": {}, "b": {}, "c": {}}, 2), story)


def test_a_swap_hands_the_process_on(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(stage: Stage) -> None:
        for model in "abababab":
            await stage.ask(model)
        assert stage.world.loads == 8
        assert len(stage.world.processes) <= 2  # one, and one that is kept spare

    play(monkeypatch, Stage({"a": {}, "b": {}}, 1), story)


def test_a_model_without_room_is_not_short_of_memory_because_it_once_was(monkeypatch: pytest.MonkeyPatch) -> None:
    """Trying again doesn't help."""

    async def story(stage: Stage) -> None:
        await stage.ask("a")
        stage.pool.find("b").restarts.count_failed_load(0.0, "memory ran out", lacks_memory=True)
        failed = failure(await stage.ask("b"))
        assert (failed.kind, failed.retry_after) == ("model_failed", None)
        assert "as many are pinned" in failed.message

    play(monkeypatch, Stage({"a": {"pinned": True}, "b": {}}, 1), story)


def test_a_model_is_pinned_on_request(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(stage: Stage) -> None:
        await stage.ask("a")
        stage.pool.find("a").pin(True)
        assert "as many are pinned" in failure(await stage.ask("b")).message
        assert await stage.pool.unload_all() == []
        assert stage.pool.models["a"].status.pinned
        stage.pool.find("a").pin(False)
        await stage.ask("b")
        assert (stage.state("a"), stage.state("b")) == ("unloaded", "ready")

    play(monkeypatch, Stage({"a": {}, "b": {}}, 1), story)


def test_when_an_idle_model_goes_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(stage: Stage) -> None:
        begin = time.time()
        stream = stage.open("a", 1000)
        await stage.read(stream, Started)
        assert stage.pool.models["a"].status.unload_at is None
        stream.close()
        told = stage.pool.models["a"].status.unload_at
        assert told is not None
        assert 28 < told - begin < 60
        await stage.until("a", "unloaded")
        assert stage.pool.models["a"].status.unload_at is None

    play(monkeypatch, Stage({"a": {"ttl": 30.0}}, 1), story)


def test_a_pinned_model_never_makes_room(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(stage: Stage) -> None:
        await stage.ask("a")
        failed = failure(await stage.ask("b"))
        assert failed.kind == "model_failed"
        assert "as many are pinned" in failed.message
        assert await stage.pool.unload_all() == []
        assert await stage.pool.find("a").unload()
        assert isinstance((await stage.ask("b"))[-1], Finished)

    play(monkeypatch, Stage({"a": {"pinned": True}, "b": {}}, 1), story)


def test_a_model_that_can_never_fit_is_refused_at_once_with_the_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(stage: Stage) -> None:
        await stage.ask("a")
        failed = failure(await stage.ask("too large"))
        assert failed.kind == "model_failed"
        assert "11,000 bytes" in failed.message
        assert "10,000" in failed.message
        assert stage.state("a") == "ready"
        with pytest.raises(OrchardError, match="11,000"):
            await stage.pool.find("too large").load()

    play(monkeypatch, Stage({"a": {}, "too large": {}}, 2), story)


@pytest.mark.parametrize(("memory", "state"), [(10**6, "ready"), (0, "unloaded")])
def test_ranks_with_devices_of_their_own_share_the_weights(
    memory: int, state: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On the CPU, all of them are in one machine's memory."""

    async def story(stage: Stage) -> None:
        stage.world.weights = _WEIGHTS | {"too large": 5500}  # of one rank
        stage.world.device_bytes = memory
        await stage.ask("a")
        await asyncio.sleep(1)
        await stage.ask("too large")
        assert stage.state("too large") == state

    play(monkeypatch, Stage({"a": {}, "too large": {"options": TextOptions(ranks=2, rank_share=0.5)}}, 2), story)


def test_a_model_that_is_too_large_is_refused_also_as_the_first_one(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(stage: Stage) -> None:
        assert "11,000 bytes" in failure(await stage.ask("too large")).message
        assert stage.world.loads == 0

    play(monkeypatch, Stage({"too large": {}}, 1), story)


def test_one_that_is_quantised_while_it_is_loaded_needs_less_than_its_files(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(stage: Stage) -> None:
        stream = stage.open("large")
        assert stage.pool.models["large"].need == 3000 + 3000 // 8
        await stage.read(stream)

    play(monkeypatch, Stage({"large": {"options": ThirdOptions()}}, 1), story)


def test_memory_makes_models_go_too(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(stage: Stage) -> None:
        await stage.ask("a")
        await stage.ask("b")
        assert sum(process.allowance or 0 for process in stage.world.alive) == _BUDGET
        await stage.ask("large")
        assert [stage.state(model) for model in ("a", "b", "large")] == ["unloaded", "unloaded", "ready"]

    play(monkeypatch, Stage({"a": {}, "b": {}, "large": {}}, 3), story)


def test_a_models_own_limit_is_never_exceeded(monkeypatch: pytest.MonkeyPatch) -> None:

    async def story(stage: Stage) -> None:
        await stage.ask("a")
        assert stage.process("a").allowance == 2000

    play(monkeypatch, Stage({"a": {"options": TextOptions(memory_limit=2000)}}, 1), story)


def test_a_busy_model_goes_when_its_requests_have_ended_and_new_ones_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(stage: Stage) -> None:
        running = stage.open("a", pieces=20)
        await stage.read(running, Started)
        other = stage.open("b")
        await asyncio.sleep(0.01)
        late = stage.open("a")
        order: list[str] = []

        async def read(name: str, stream: EventStream) -> None:
            assert isinstance((await stage.read(stream))[-1], Finished)
            order.append(name)

        await asyncio.gather(read("late", late), read("running", running), read("other", other))
        assert order == ["running", "other", "late"]
        assert stage.world.loads == 3

    play(monkeypatch, Stage({"a": {}, "b": {}}, 1), story)


def test_a_load_by_hand_of_a_held_model_ends_where_nobody_waits_for_its_room_any_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def story(stage: Stage) -> None:
        running = stage.open("a", pieces=50)
        await stage.read(running, Started)
        other = stage.open("b")
        await asyncio.sleep(0.01)
        loading = asyncio.create_task(stage.pool.find("a").load())
        await asyncio.sleep(0.01)
        other.close()
        await asyncio.sleep(0.01)
        assert loading.done()
        await loading
        assert not running.ended

    play(monkeypatch, Stage({"a": {}, "b": {}}, 1), story)


def test_a_server_is_ready_while_a_model_is_held_for_another(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(stage: Stage) -> None:
        await stage.until("a", "ready")
        running = stage.open("a", pieces=20)
        await stage.read(running, Started)
        other = stage.open("b")
        await asyncio.sleep(0.01)
        assert stage.pool.models["a"].state is ModelState.HELD
        assert (stage.state("a"), stage.pool.is_ready) == ("ready", True)
        running.close()
        await stage.read(other)
        assert not stage.pool.is_ready

    play(monkeypatch, Stage({"a": {"on_demand": False}, "b": {}}, 1), story)


def test_requests_go_on_where_nobody_waits_for_their_room_any_more(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(stage: Stage) -> None:
        running = stage.open("a", pieces=50)
        await stage.read(running, Started)
        other = stage.open("b")
        await asyncio.sleep(0.01)
        late = stage.open("a")
        assert late.waits_for() == "waiting for room"
        other.close()
        assert isinstance((await stage.read(late))[-1], Finished)
        assert not running.ended
        assert stage.world.loads == 1

    play(monkeypatch, Stage({"a": {}, "b": {}}, 1), story)


def test_a_request_that_nobody_has_seen_anything_of_goes_to_the_next_process_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def story(stage: Stage) -> None:
        await stage.ask("a")
        seen, unseen, whole = stage.open("a", 9), stage.open("a", 9), stage.open("a", 9)
        forgotten: list[str] = []
        whole.may_restart(lambda: forgotten.append("all"))
        await stage.read(seen, Text)
        await stage.read(whole, Text)
        stage.process("a").end(-9)
        began = asyncio.get_running_loop().time()
        failed = failure(await stage.read(seen))
        assert failed.kind == "worker_crashed"
        assert asyncio.get_running_loop().time() - began < 0.1
        assert [type(event) for event in await stage.read(unseen)] == [Started, *[Text] * 9, Finished]
        assert forgotten == ["all"]
        assert [type(event) for event in await stage.read(whole)] == [Started, *[Text] * 9, Finished]

    play(monkeypatch, Stage({"a": {}}, 1), story)


def test_a_request_whose_next_process_dies_as_well_has_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(stage: Stage) -> None:
        stream = stage.open("a", 9)
        for _ in range(2):
            await stage.see(lambda: any(process.running for process in stage.world.alive))
            stage.process("a").end(-6)
            await asyncio.sleep(0)
        assert failure(await stage.read(stream)).kind == "worker_crashed"
        assert stage.pool.models["a"].restarts.count == 2
        assert isinstance((await stage.ask("a"))[-1], Finished)

    play(monkeypatch, Stage({"a": {}}, 1), story)


def test_a_model_that_crashes_again_and_again_has_failed_until_a_minute_later(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(stage: Stage) -> None:
        await stage.pool.find("a").load()
        for _ in range(5):
            await stage.until("a", "ready")
            stage.process("a").end(-9)
            await asyncio.sleep(0.01)
        health = stage.pool.models["a"].status.health_report()
        assert (health["state"], health["restarts"]) == ("failed", 5)
        assert "SIGKILL" in health["reason"]
        failed = failure(await stage.ask("a"))
        assert failed.kind == "model_failed"
        assert "5 failures in a row" in failed.message
        await asyncio.sleep(60)
        assert isinstance((await stage.ask("a"))[-1], Finished)
        assert stage.pool.models["a"].status.health_report()["reason"] is None

    play(monkeypatch, Stage({"a": {}}, 1), story)


def test_a_model_whose_memory_ran_out_starts_again_with_less(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def story(stage: Stage) -> None:
        model, told = stage.pool.find("a"), "its limit is 5,500 bytes, and it reads prompts in smaller pieces"
        await stage.ask("a")
        seen, unseen = stage.open("a", 9), stage.open("a", 9)
        await stage.read(seen, Text)
        stage.world.run_out(stage.process("a"))
        failed = failure(await stage.read(seen))
        assert failed.kind == "worker_crashed"
        assert "memory ran out, with a limit of 10,000 bytes, of which the weights take 1,000" in failed.message
        assert f"{told}; it is being started again" in failed.message
        assert isinstance((await stage.read(unseen))[-1], Finished)
        assert (stage.process("a").allowance, stage.process("a").halvings) == (5500, 1)
        assert told in model.status.health_report()["reason"]
        assert told in caplog.text
        stage.world.run_out(stage.process("a"))
        assert isinstance((await stage.ask("a"))[-1], Finished)
        assert (stage.process("a").allowance, stage.process("a").halvings) == (3250, 2)
        await model.unload()
        stage.world.ran_out.clear()
        assert model.status.health_report()["reason"] is None
        await stage.ask("a")
        assert (stage.process("a").allowance, stage.process("a").halvings) == (10_000, 0)

    play(monkeypatch, Stage({"a": {}}, 1), story)


def test_a_smaller_limit_stays_after_an_eviction_and_when_the_share_grows(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(stage: Stage) -> None:
        await stage.ask("a")
        await stage.ask("b")
        share = stage.process("a").allowance
        assert share
        stage.world.run_out(stage.process("a"))
        await stage.ask("a")
        await stage.pool.find("b").unload()
        less = 1000 + (share - 1000) // 2
        assert stage.process("a").allowance == less
        await stage.ask("c")
        await stage.ask("b")
        assert stage.state("a") == "unloaded"
        await stage.ask("a")
        assert stage.process("a").allowance == less

    play(monkeypatch, Stage({"a": {}, "b": {}, "c": {}}, 2), story)


def test_what_a_model_may_not_take_any_more_is_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(stage: Stage) -> None:
        await stage.ask("a")
        await stage.ask("b")
        stage.world.run_out(stage.process("a"))
        await stage.ask("a")
        assert [stage.process(model).allowance for model in "ab"] == [3000, 7000]

    play(monkeypatch, Stage({"a": {}, "b": {}}, 2), story)


def test_a_model_that_goes_takes_its_weights_until_it_has_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    """They may be more than it was allowed to take, since others have taken memory."""

    async def story(stage: Stage) -> None:
        running = stage.open("large", 20)
        await stage.read(running, Started)
        stage.world.others = 20_000
        await asyncio.sleep(3)
        assert (stage.process("large").allowance or 0) < 9000
        unloading = asyncio.create_task(stage.pool.find("large").unload())
        await stage.read(running)
        await stage.until("large", "unloading")
        assert stage.pool.models["large"].need == 9000
        assert await unloading

    play(monkeypatch, Stage({"large": {}}, 1), story)


def test_a_crash_for_another_reason_leaves_the_limit_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(stage: Stage) -> None:
        await stage.ask("a")
        stage.process("a").end(-9)
        assert isinstance((await stage.ask("a"))[-1], Finished)
        assert (stage.process("a").allowance, stage.process("a").halvings) == (10_000, 0)

    play(monkeypatch, Stage({"a": {}}, 1), story)


def test_a_model_that_fits_with_no_limit_has_failed_until_it_is_unloaded(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(stage: Stage) -> None:
        model = stage.pool.find("a")
        running = stage.open("a", 50)
        await stage.read(running, Text)
        stage.world.run_out(stage.process("a"))
        failed = failure(await stage.read(running))
        assert "a smaller limit would leave too little" in failed.message
        assert "started again" not in failed.message
        await asyncio.sleep(1000)
        assert stage.state("a") == "failed"
        failed = failure(await stage.ask("a"))
        assert failed.kind == "model_failed"
        assert "with a limit of 1,050 bytes, of which the weights take 1,000" in failed.message
        with pytest.raises(OrchardError, match="a smaller limit would leave too little"):
            await model.load()
        assert not await model.unload()
        stage.world.ran_out.clear()
        assert isinstance((await stage.ask("a"))[-1], Finished)

    play(monkeypatch, Stage({"a": {"options": TextOptions(memory_limit=1050)}}, 1), story)


def test_how_much_of_all_requests_is_done_is_shown_until_they_end(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(stage: Stage) -> None:
        streams = [stage.open("a", 50) for _ in range(2)]
        for stream in streams:
            await stage.read(stream, Text)
        process = stage.process("a")
        for number, done in ((1, 30.0), (2, 45.0)):
            process.say(wire.Step([(f"req_{number}", [Progressed(done, 60.0)])], 2, 0))
        model = stage.pool.models["a"]
        await stage.see(lambda: model.status.note == "75 of 120")
        assert model.status.health_report()["percent"] == 62
        streams[0].close()
        await stage.see(lambda: model.status.note == "45 of 60")
        await stage.read(streams[1])
        assert model.status.health_report()["percent"] is None
        assert model.status.note == ""

    play(monkeypatch, Stage({"a": {}}, 1), story)


def test_an_unload_ends_the_wait_for_a_restart(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(stage: Stage) -> None:
        await stage.pool.find("a").load()
        for _ in range(2):
            await stage.until("a", "ready")
            stage.process("a").end(-9)
            await asyncio.sleep(0.01)
        assert stage.pool.models["a"].status.note == "waiting for a restart"
        assert not await stage.pool.find("a").unload()
        assert stage.state("a") == "unloaded"
        await asyncio.sleep(60)
        assert (stage.state("a"), stage.world.loads) == ("unloaded", 2)

    play(monkeypatch, Stage({"a": {}}, 1), story)


def test_a_model_without_a_process_has_failed_and_stays_so_where_it_is_too_large(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def story(stage: Stage) -> None:
        stage.world.spawns = False
        assert "can't be started" in failure(await stage.ask("too large")).message
        stage.world.spawns = True
        assert stage.state("too large") == "failed"
        assert "11,000 bytes" in failure(await stage.ask("too large")).message
        assert stage.state("too large") == "failed"

    play(monkeypatch, Stage({"too large": {}}, 1), story)


def test_a_load_that_its_caller_gives_up_is_not_wanted_any_more(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(stage: Stage) -> None:
        running = stage.open("a", pieces=50)
        await stage.read(running, Started)
        loading = asyncio.create_task(stage.pool.find("b").load())
        await asyncio.sleep(0.01)
        assert stage.state("b") == "queued"
        loading.cancel()
        await asyncio.wait([loading])
        assert stage.state("b") == "unloaded"
        running.close()

    play(monkeypatch, Stage({"a": {}, "b": {}}, 1), story)


@pytest.mark.parametrize(("loading", "state"), [(False, "ready"), (True, "failed")])
def test_two_crashes_while_it_loads_fail_a_model_and_two_before_that_do_not(
    monkeypatch: pytest.MonkeyPatch, loading: bool, state: str
) -> None:
    async def story(stage: Stage) -> None:
        stream = stage.open("a")
        for crashes in range(2):
            await stage.see(lambda: any(bool(process.path) == loading for process in stage.world.alive))
            (process,) = (process for process in stage.world.alive if bool(process.path) == loading)
            process.end(-9)
            await stage.see(lambda least=crashes: stage.pool.models["a"].restarts.count > least)  # type: ignore[misc]
        await stage.read(stream)
        assert stage.state("a") == state
        assert stage.pool.metrics.models["a"].failed_loads == 2

    play(monkeypatch, Stage({"a": {}}, 1), story)


def test_a_model_that_dies_while_it_makes_room_is_not_loaded_again(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(stage: Stage) -> None:
        await stage.ask("a")
        other = stage.open("b")
        await stage.until("a", "unloading")
        stage.process("a").end(-9)
        assert isinstance((await stage.read(other))[-1], Finished)
        await asyncio.sleep(60)
        counted = stage.pool.metrics.models["a"]
        assert (stage.state("a"), counted.crashes, counted.restarts) == ("unloaded", 1, 0)

    play(monkeypatch, Stage({"a": {}, "b": {}}, 1), story)


def test_a_model_that_dies_while_somebody_unloads_it_is_not_loaded_again(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(stage: Stage) -> None:
        running = stage.open("a", pieces=50)
        await stage.read(running, Started)
        unloading = asyncio.create_task(stage.pool.find("a").unload())
        await asyncio.sleep(0.01)
        stage.process("a").end(-9)
        assert failure(await stage.read(running)).kind == "worker_crashed"
        assert await unloading
        await asyncio.sleep(60)
        assert (stage.state("a"), stage.world.loads) == ("unloaded", 1)

    play(monkeypatch, Stage({"a": {}}, 1), story)


def test_who_waits_while_a_model_is_loaded_and_unloaded_is_served(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(stage: Stage) -> None:
        stream = stage.open("a")
        await stage.until("a", "loading")
        unloading = asyncio.create_task(stage.pool.find("a").unload())
        assert isinstance((await stage.read(stream))[-1], Finished)
        assert await unloading
        assert (stage.state("a"), stage.world.loads) == ("unloaded", 1)

    play(monkeypatch, Stage({"a": {}}, 1), story)


def test_a_process_that_is_handed_on_begins_its_next_load_at_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(stage: Stage) -> None:
        await stage.ask("a")
        stream, notes, step = stage.open("b"), [], lifecycle.step

        def noted(old: ModelState, new: ModelState) -> ModelState:
            if new is ModelState.LOADING:
                notes.append(stream.waits_for())
            return step(old, new)

        monkeypatch.setattr(lifecycle, "step", noted)
        await stage.read(stream)
        assert notes == ["loading 0%"]

    play(monkeypatch, Stage({"a": {}, "b": {}}, 1), story)


def test_a_load_by_hand_need_not_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(stage: Stage) -> None:
        await stage.pool.find("a").load()
        for _ in range(5):
            await stage.until("a", "ready")
            stage.process("a").end(-9)
            await asyncio.sleep(0.01)
        await stage.pool.find("a").load()
        assert isinstance((await stage.ask("a"))[-1], Finished)

    play(monkeypatch, Stage({"a": {}}, 1), story)


def test_a_load_that_fails_again_and_again_disturbs_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(stage: Stage) -> None:
        stage.world.broken.add("b")
        for pause in (0, 1, 2, 4, 0):
            failed = failure(await stage.ask("b"))
            assert (failed.kind, "the simulation says so" in failed.message) == ("model_failed", True)
            await asyncio.sleep(pause)
        await stage.ask("a")
        loads = stage.world.loads
        assert loads == 6
        assert "the simulation says so" in failure(await stage.ask("b")).message
        assert (stage.state("a"), stage.state("b"), stage.world.loads) == ("ready", "failed", loads)
        stage.world.broken.clear()
        await asyncio.sleep(60)
        assert isinstance((await stage.ask("b"))[-1], Finished)

    play(monkeypatch, Stage({"a": {}, "b": {}}, 1), story)


def test_a_load_for_which_memory_runs_out_may_be_tried_again_later(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(stage: Stage) -> None:
        stage.world.broken.add("a")
        stage.world.lacks_memory = True
        failed = failure(await stage.ask("a"))
        assert (failed.kind, failed.retry_after) == ("insufficient_memory", 30)
        assert "can't be loaded: the simulation says so" in failed.message
        stage.world.lacks_memory = False
        assert failure(await stage.ask("a")).kind == "model_failed"
        stage.world.broken.clear()
        await asyncio.sleep(1)
        assert isinstance((await stage.ask("a"))[-1], Finished)

    play(monkeypatch, Stage({"a": {}}, 1), story)


def test_a_process_that_hangs_is_killed_and_told_of(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(stage: Stage) -> None:
        stream = stage.open("a", 50)
        await stage.read(stream, Text)
        began = asyncio.get_running_loop().time()
        stage.process("a").hangs = True
        failed = failure(await stage.read(stream))
        assert failed.kind == "worker_crashed"
        assert "did not answer for 10 seconds" in failed.message
        assert 9 < asyncio.get_running_loop().time() - began < 13

    play(monkeypatch, Stage({"a": {}}, 1, watchdog_timeout=10.0), story)


def test_an_idle_process_may_be_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(stage: Stage) -> None:
        await stage.ask("a")
        stage.process("a").hangs = True
        await asyncio.sleep(100)
        assert stage.state("a") == "ready"

    play(monkeypatch, Stage({"a": {}}, 1, watchdog_timeout=10.0), story)


@pytest.mark.parametrize(("of_model", "of_request", "expected"), [(30.0, None, 30), (30.0, 5.0, 5), (None, 0.0, 0)])
def test_an_idle_model_is_unloaded_after_its_time(
    monkeypatch: pytest.MonkeyPatch, of_model: float | None, of_request: float | None, expected: float
) -> None:
    async def story(stage: Stage) -> None:
        await stage.ask("a", ttl=of_request)
        ended = asyncio.get_running_loop().time()
        await stage.until("a", "unloaded")
        assert expected <= asyncio.get_running_loop().time() - ended < expected + 2
        assert isinstance((await stage.ask("a"))[-1], Finished)

    play(monkeypatch, Stage({"a": {"ttl": of_model}}, 1), story)


def test_a_model_in_use_outlives_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(stage: Stage) -> None:
        await stage.ask("a")
        for _ in range(5):
            await asyncio.sleep(0.9)
            await stage.ask("a", pieces=10)
        assert stage.world.loads == 1

    play(monkeypatch, Stage({"a": {"ttl": 1.0}}, 1), story)


def test_unloading_waits_for_running_requests_and_gives_the_memory_back(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(stage: Stage) -> None:
        running = stage.open("a", 20)
        await stage.read(running, Started)
        unloading = asyncio.create_task(stage.pool.unload_all())
        await asyncio.sleep(0.01)
        assert not unloading.done()
        assert isinstance((await stage.read(running))[-1], Finished)
        assert await unloading == ["a"]
        assert not any(process.path for process in stage.world.alive)
        assert not await stage.pool.find("a").unload()

    play(monkeypatch, Stage({"a": {}}, 1), story)


@pytest.mark.parametrize("before", ["ready", "loading"])
@pytest.mark.parametrize("what", ["request", "load"])
def test_whoever_asks_for_a_model_before_it_is_unloaded_keeps_it(
    monkeypatch: pytest.MonkeyPatch, before: str, what: str
) -> None:
    async def story(stage: Stage) -> None:
        running = stage.open("a", 1000)
        await stage.until("a", before)
        unloading = [asyncio.create_task(stage.pool.find("a").unload()) for _ in range(2)]
        await asyncio.sleep(0.01)
        if what == "request":
            assert isinstance((await stage.ask("a"))[-1], Finished)
        else:
            await stage.pool.find("a").load()
        assert not running.ended  # nobody waited for its end
        for refused in await asyncio.gather(*unloading, return_exceptions=True):
            assert isinstance(refused, OrchardError)
            assert (refused.kind, "'a' stays in memory" in refused.message) == ("model_in_use", True)
        assert isinstance((await stage.read(running))[-1], Finished)
        assert (stage.state("a"), stage.world.loads) == ("ready", 1)
        assert not stage.pool.metrics.models["a"].unloads
        assert await stage.pool.find("a").unload()

    play(monkeypatch, Stage({"a": {}}, 1), story)


def test_a_model_that_is_kept_still_makes_room_for_those_that_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(stage: Stage) -> None:
        running = stage.open("a", 20)
        await stage.read(running, Started)
        other = stage.open("b")
        unloading = asyncio.create_task(stage.pool.find("a").unload())
        await asyncio.sleep(0.01)
        late = stage.open("a")
        with pytest.raises(OrchardError, match="stays in memory"):
            await unloading
        assert isinstance((await stage.read(running))[-1], Finished)
        assert not late.begun
        assert isinstance((await stage.read(other))[-1], Finished)
        assert isinstance((await stage.read(late))[-1], Finished)
        assert stage.world.loads == 3

    play(monkeypatch, Stage({"a": {}, "b": {}}, 1), story)


def test_a_model_that_is_kept_for_a_request_that_goes_away_is_unloaded_after_its_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def story(stage: Stage) -> None:
        running = stage.open("a", 20)
        await stage.read(running, Started)
        unloading = asyncio.create_task(stage.pool.find("a").unload())
        await asyncio.sleep(0.01)
        stage.open("a").close()
        with pytest.raises(OrchardError, match="stays in memory"):
            await unloading
        await stage.read(running)
        assert stage.state("a") == "ready"
        await stage.until("a", "unloaded")

    play(monkeypatch, Stage({"a": {"ttl": 30.0}}, 1), story)


def test_unloading_all_unloads_the_others_where_one_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(stage: Stage) -> None:
        running = [stage.open(model, 200) for model in "ab"]
        for stream in running:
            await stage.read(stream, Started)
        unloading = asyncio.create_task(stage.pool.unload_all())
        await asyncio.sleep(0.01)
        await stage.ask("a")
        for stream in running:
            await stage.read(stream)
        with pytest.raises(OrchardError, match="'a' stays in memory"):
            await unloading
        assert [stage.state(model) for model in "ab"] == ["ready", "unloaded"]

    play(monkeypatch, Stage({"a": {}, "b": {}}, 2), story)


def test_requests_that_come_once_a_model_is_being_freed_load_it_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(stage: Stage) -> None:
        await stage.ask("a")
        unloading = asyncio.create_task(stage.pool.find("a").unload())
        await stage.until("a", "unloading")
        late = stage.open("a")
        assert await unloading
        assert isinstance((await stage.read(late))[-1], Finished)
        assert stage.world.loads == 2

    play(monkeypatch, Stage({"a": {}}, 1), story)


def test_a_request_that_waits_for_too_long_gets_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(stage: Stage) -> None:
        running = stage.open("a", 1000)
        await stage.read(running, Started)
        failed = failure(await stage.ask("b"))
        assert (failed.kind, failed.retry_after) == ("unavailable", 5)
        assert "waiting for room" in failed.message
        assert not running.ended

    play(monkeypatch, Stage({"a": {}, "b": {}}, 1, queue_timeout=10.0), story)


def test_a_request_that_the_process_does_not_begin_gets_a_reason_too(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(stage: Stage) -> None:
        await stage.ask("a")
        stage.process("a").hangs = True
        assert failure(await stage.ask("a")).kind == "overloaded"

    play(monkeypatch, Stage({"a": {}}, 1, queue_timeout=10.0), story)


def test_a_request_that_waits_for_memory_too_long_gets_a_503(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also one that has begun; but one that goes on in time doesn't."""

    async def story(stage: Stage) -> None:
        await stage.ask("a")
        process = stage.process("a")
        begun, late, patient = stage.open("a", 10**6), stage.open("a", 1), stage.open("a", 30)
        process.running.pop("req_3")  # it never begins
        await stage.see(lambda: begun.begun and patient.begun)
        process.starved = ["req_2", "req_3", "req_4"]
        await asyncio.sleep(5)
        process.starved = ["req_2", "req_3"]
        for stream in (begun, late):
            failed = failure(await stage.read(stream))
            assert (failed.kind, failed.retry_after) == ("insufficient_memory", 5)
            assert "had too little memory for this request for 10 seconds" in failed.message
        assert isinstance((await stage.read(patient))[-1], Finished)

    play(monkeypatch, Stage({"a": {}}, 1, queue_timeout=10.0), story)


def test_who_waits_is_told_for_what(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(stage: Stage) -> None:
        stream = stage.open("a")
        notes = [stream.waits_for()]
        while not stream.begun:
            await asyncio.sleep(0.01)
            if stream.waits_for() != notes[-1]:
                notes.append(stream.waits_for())
        assert notes == ["waiting for room", "loading 0%", "loading 33%", "loading 67%", "loading 100%", ""]

    play(monkeypatch, Stage({"a": {}}, 1), story)


def test_a_request_that_leaves_while_it_waits_never_reaches_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(stage: Stage) -> None:
        stage.open("a").close()
        await stage.ask("a")
        assert list(stage.world.runs) == ["req_2"]

    play(monkeypatch, Stage({"a": {}}, 1), story)


def test_draining_refuses_new_requests_and_cuts_old_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(stage: Stage) -> None:
        running = stage.open("a", 1000)
        await stage.read(running, Started)
        stage.pool.drain(1)
        with pytest.raises(OrchardError, match="shutting down"):
            stage.open("a")
        spoken = Generate((Message("user", (TextPart("hi"),)),), sampling=Sampling(top_k=1000))
        further = stage.pool.stream(Request("further", "a", spoken), goes_on=True)
        assert failure(await stage.read(running)).kind == "shutting_down"
        assert failure(await stage.read(further)).kind == "shutting_down"
        with pytest.raises(OrchardError, match="shutting down"):
            stage.pool.stream(Request("late", "a", spoken), goes_on=True)

    play(monkeypatch, Stage({"a": {}}, 1), story)


def test_only_a_ready_process_is_asked_what_it_has_cached(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(stage: Stage) -> None:
        model = stage.pool.find("a")
        assert await model.read_cache() == CacheState()
        await stage.ask("a")
        assert await model.read_cache() == CacheState({"asked": 1})
        stage.process("a").hangs = True
        with pytest.raises(OrchardError) as raised:
            await model.read_cache()
        assert raised.value.kind == "unavailable"

    play(monkeypatch, Stage({"a": {}}, 1), story)


def test_a_process_that_is_silent_leaves_what_the_gateway_knows(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(stage: Stage) -> None:
        stream = stage.open("a", 1000)
        model = stage.pool.find("a")
        (live,) = await model.live_requests()
        assert (live.state, live.prompt_tokens) == ("queued", None)
        await stage.read(stream, Started)
        (live,) = await model.live_requests()
        assert (live.state, live.prompt_tokens, live.read_tokens, live.cached_tokens) == ("prefill", 7, 5, 3)
        stage.process("a").hangs = True
        (live,) = await model.live_requests()
        assert (live.state, live.prompt_tokens) == ("prefill", None)
        stage.process("a").end(1)
        assert await model.live_requests() == []  # it has failed meanwhile

    play(monkeypatch, Stage({"a": {}}, 1), story)


def test_a_spare_process_is_ready_for_a_crash(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(stage: Stage) -> None:
        await stage.ask("a")
        await asyncio.sleep(10)
        (spare,) = (process for process in stage.world.alive if process.path is None)
        stage.process("a").end(-9)
        await stage.ask("a")
        assert stage.process("a") is spare

    play(monkeypatch, Stage({"a": {}}, 1), story)


def test_a_spare_process_starts_when_nothing_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its imports would slow down what runs, however long that takes."""

    async def story(stage: Stage) -> None:
        stream = stage.open("a", 1000)
        await stage.read(stream, Started)
        await asyncio.sleep(100)
        assert all(process.path for process in stage.world.alive)
        stream.close()
        await asyncio.sleep(10)
        assert sum(process.path is None for process in stage.world.alive) == 1

    play(monkeypatch, Stage({"a": {}}, 1), story)


def test_closing_ends_everybody(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(stage: Stage) -> None:
        stream = stage.open("a", 1000)
        await stage.read(stream, Started)
        waiting = stage.open("b")
        loading = asyncio.create_task(stage.pool.find("b").load())
        await asyncio.sleep(0)
        stage.world.closing = True
        await stage.pool.close()
        for one in (stream, waiting):
            assert failure(await stage.read(one)).kind == "shutting_down"
        with pytest.raises(OrchardError, match="shutting down"):
            await loading
        with contextlib.suppress(OrchardError):
            await stage.ask("a")

    play(monkeypatch, Stage({"a": {}, "b": {}}, 1), story)


def downloads(monkeypatch: pytest.MonkeyPatch, story: Callable[[Stage, Hub], Coroutine[Any, Any, None]]) -> None:
    stage = Stage({}, 1, queue_timeout=20.0)
    hub = Hub([ModelEntry("a", "", None, repo="org/a", on_demand=True, configured=False)])
    stage.pool = Pool(hub, Settings(max_loaded_models=1, queue_timeout=20.0))
    play(monkeypatch, stage, lambda stage: story(stage, hub))


def test_a_request_waits_for_a_download(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(stage: Stage, hub: Hub) -> None:
        stream, other = stage.open("a"), stage.open("a")
        await asyncio.sleep(1)
        assert (stream.waits_for(), stage.state("a")) == ("downloading 50%", "queued")
        for one in (stream, other):
            assert isinstance((await stage.read(one))[-1], Finished)
        assert hub.begun == 1

    downloads(monkeypatch, story)


def test_a_request_waits_anew_once_its_model_is_here(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(stage: Stage, hub: Hub) -> None:
        first = stage.open("a")
        await asyncio.sleep(0.1)
        late = stage.open("a")  # its time would be over 0.1 s after the download
        for one in (first, late):
            assert isinstance((await stage.read(one))[-1], Finished)

    downloads(monkeypatch, story)


def test_a_download_that_fails_is_told_of(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(stage: Stage, hub: Hub) -> None:
        hub.fails = True
        failed = failure(await stage.ask("a"))
        assert (failed.kind, failed.message) == ("unavailable", "the hub is gone")
        assert stage.state("a") == "unloaded"
        for number in range(100):
            stage.pool._served_model(ModelEntry(f"made/up-{number}", "", None, repo="made/up"))
        assert len(stage.pool.models) == 1
        hub.fails = False
        assert isinstance((await stage.ask("a"))[-1], Finished)

    downloads(monkeypatch, story)


def test_a_download_that_nobody_waits_for_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(stage: Stage, hub: Hub) -> None:
        stream = stage.open("a")
        await asyncio.sleep(1)
        stream.close()
        again = stage.open("a")  # before the first download has noticed that it is to end
        assert isinstance((await stage.read(again))[-1], Finished)
        assert hub.begun == 2
        await stage.pool.unload_all()
        assert stage.state("a") == "unloaded"

    downloads(monkeypatch, story)


def test_a_download_that_is_given_up_at_once_begins_anew_for_the_next_one(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(stage: Stage, hub: Hub) -> None:
        stage.open("a").close()
        assert isinstance((await stage.ask("a"))[-1], Finished)
        assert hub.begun == 1

    downloads(monkeypatch, story)


def test_a_process_that_dies_before_it_loads_is_not_the_models_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(stage: Stage) -> None:
        stream = stage.open("a")
        for _ in range(3):
            await stage.see(lambda: any(not process.path for process in stage.world.alive))
            (starting,) = (process for process in stage.world.alive if not process.path)
            starting.kill()
            await stage.see(lambda gone=starting: gone not in stage.world.alive)  # type: ignore[misc]
        assert isinstance((await stage.read(stream))[-1], Finished)

    play(monkeypatch, Stage({"a": {}}, 1), story)


def test_a_stream_that_nobody_reads_pauses_its_request(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(stage: Stage) -> None:
        stream = stage.open("a", pieces=10_000)
        await stage.until("a", "ready")
        process = stage.process("a")
        await stage.see(lambda: bool(process.paused))
        assert isinstance((await stage.read(stream))[-1], Finished)
        assert process.paused == set()
        stream = stage.open("a", pieces=10_000)
        await stage.see(lambda: bool(process.paused))
        await asyncio.sleep(130)  # a reader that comes back too late
        assert not process.running
        assert failure(await stage.read(stream)).kind == "timeout"

    play(monkeypatch, Stage({"a": {}}, 1), story)


@pytest.mark.parametrize("end", ["evicted", "asked", "idle"])
def test_prompts_that_are_to_be_saved_keep_their_memory_until_then(monkeypatch: pytest.MonkeyPatch, end: str) -> None:
    async def story(stage: Stage) -> None:
        await stage.ask("a", ttl=10 if end == "idle" else None)
        process = stage.process("a")
        before = process.allowance
        if end == "evicted":
            await stage.ask("b")
        elif end == "asked":
            await stage.pool.find("a").unload()
        else:
            await stage.until("a", "unloaded")
        assert process.unloaded_with == before == _BUDGET

    options = TextOptions(prompt_cache_dir="somewhere")
    play(monkeypatch, Stage({"a": {"options": options}, "b": {}}, 1), story)


def test_memory_of_a_model_that_saves_its_prompts_is_not_given_to_another(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(stage: Stage) -> None:
        await stage.ask("a")
        await asyncio.sleep(10)  # until a spare process could load at once
        leaving = asyncio.create_task(stage.pool.find("a").unload())
        await stage.until("a", "unloading")
        await stage.ask("b")  # the simulation checks the memory at every load
        assert await leaving
        assert stage.process("b").allowance == _BUDGET

    options = TextOptions(prompt_cache_dir="somewhere")
    play(monkeypatch, Stage({"a": {"options": options}, "b": {}}, 2), story)


def test_other_models_give_up_memory_before_a_model_gets_more(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(stage: Stage) -> None:
        stage.world.weights = _WEIGHTS | {"a": 4000}
        await stage.ask("b")
        await stage.ask("a")  # the simulation checks the memory at every change
        assert [stage.process(model).allowance for model in "ab"] == [6687, 3313]

    play(monkeypatch, Stage({"a": {}, "b": {}}, 2), story)


def test_models_on_demand_make_room_for_each_other_before_resident_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(stage: Stage) -> None:
        await stage.until("a", "ready")
        for model in "bcb":
            await stage.ask(model)
            assert [stage.state("a"), stage.state(model)] == ["ready", "ready"]

    models: dict[str, dict[str, Any]] = {"a": {"on_demand": False}, "b": {}, "c": {}}
    play(monkeypatch, Stage(models, 2, max_loaded_models=None), story)


def test_there_is_room_for_the_resident_models_and_one_on_demand(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(stage: Stage) -> None:
        await stage.until("a", "ready")
        await stage.ask("b")
        assert [stage.state(model) for model in "ab"] == ["ready", "ready"]
        await stage.ask("a")
        await stage.ask("c")
        assert [stage.state(model) for model in "abc"] == ["ready", "unloaded", "ready"]
        await stage.ask("large")
        assert [stage.state(model) for model in ("a", "c", "large")] == ["unloaded", "unloaded", "ready"]

    models: dict[str, dict[str, Any]] = {"a": {"on_demand": False}, "b": {}, "c": {}, "large": {}}
    play(monkeypatch, Stage(models, 2, max_loaded_models=None), story)


DEMO = str(MODEL_PATH)


def with_demo(most: int = 2, **demo: Any) -> Stage:
    stage = Stage({"a": {}, "large": {}}, most, max_loaded_models=None)
    stage.world.weights[DEMO] = 1000
    stage.pool.registry = Registry(
        [
            *stage.pool.registry.configured_models(),
            ModelEntry("demo", DEMO, None, size_bytes=1000, on_demand=True, **demo),
        ]
    )
    return stage


def shown(stage: Stage) -> list[str]:
    return [entry.id for entry in stage.pool.visible_entries(stage.pool.registry.list_models()) if entry.id != "large"]


def test_the_bundled_model_is_asked_for_by_name_and_makes_nobody_go(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(stage: Stage) -> None:
        await stage.ask("a")
        assert isinstance((await stage.ask("demo"))[-1], Finished)
        assert [stage.state(model) for model in ("a", "demo")] == ["ready", "ready"]
        assert shown(stage) == ["a"]
        await stage.ask("large")
        assert [stage.state(model) for model in ("a", "demo", "large")] == ["unloaded", "unloaded", "ready"]
        failed = failure(await stage.ask("demo"))
        assert failed.kind == "unavailable"
        assert "no room for model 'demo'" in failed.message
        assert stage.state("large") == "ready"

    play(monkeypatch, with_demo(), story)


def test_the_bundled_model_is_shown_until_there_is_another(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(stage: Stage) -> None:
        registry = stage.pool.registry
        entries = {entry.id: replace(entry, configured=False) for entry in registry.configured_models()}
        stage.pool.registry = Registry([replace(entries["demo"], configured=True)])
        monkeypatch.setattr(stage.pool.registry, "list_models", lambda: list(entries.values()))
        monkeypatch.setattr(stage.pool.registry, "find", lambda name, adapter: entries[name])
        await stage.ask("demo")
        assert shown(stage) == ["a", "demo"]
        assert stage.pool.only_model() == "demo"
        await stage.ask("a")
        assert shown(stage) == ["a"]
        assert stage.state("demo") == "unloaded"
        await stage.pool.find("a").unload()
        assert shown(stage) == ["a", "demo"]

    play(monkeypatch, with_demo(configured=True), story)


def test_bundled_models_do_not_hide_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(stage: Stage) -> None:
        path = str(VISION_MODEL_PATH)
        stage.world.weights[path] = 1000
        demo = replace(stage.pool.registry.find("demo"), configured=True)
        seeing = ModelEntry("demo-vision", path, None, size_bytes=1000, on_demand=True)
        stage.pool.registry = Registry([demo])
        monkeypatch.setattr(stage.pool.registry, "find", lambda name, adapter: seeing)
        await stage.ask("demo-vision")
        assert stage.state("demo-vision") == "ready"
        assert shown(stage) == ["demo"]

    play(monkeypatch, with_demo(), story)


def test_the_bundled_model_is_as_any_other_where_it_is_named_beside_others(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(stage: Stage) -> None:
        await stage.ask("a")
        await stage.ask("demo")
        assert [stage.state(model) for model in ("a", "demo")] == ["unloaded", "ready"]
        assert shown(stage) == ["a", "demo"]

    play(monkeypatch, with_demo(1, configured=True), story)


def test_the_log_says_who_makes_room_and_what_a_user_waited(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def story(stage: Stage) -> None:
        busy = stage.open("a", pieces=300)
        await stage.read(busy, Started)
        waiting = asyncio.create_task(stage.ask("b"))
        begun = asyncio.get_running_loop().time()
        await stage.read(busy)
        busy_seconds = asyncio.get_running_loop().time() - begun
        await waiting
        assert "a is unloaded: it makes room for b" in caplog.messages
        assert caplog.messages.count("b is being loaded") == 1
        (line,) = [line for line in caplog.messages if line.startswith("b is ready, loaded in ")]
        assert float(line.removeprefix("b is ready, loaded in ").split()[0]) >= busy_seconds > 100
        await stage.pool.find("b").unload()
        assert caplog.messages[-1] == "b is unloaded: a client asked for that"
        await stage.ask("b", ttl=1)
        await stage.until("b", "unloaded")
        assert "b is unloaded: it had no requests for the time set as ttl" in caplog.messages

    caplog.set_level("INFO")
    play(monkeypatch, Stage({"a": {}, "b": {}}, 1), story)


def test_a_process_is_called_as_its_model_from_the_first_moment_on(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(stage: Stage) -> None:
        stream = stage.open("a")
        await stage.until("a", "loading")
        worker = stage.pool.models["a"].worker
        assert worker
        assert (worker.phase, worker.name) == ("starting", "a")
        await stage.read(stream)

    play(monkeypatch, Stage({"a": {}}, 1), story)


def test_models_get_less_while_other_programs_take_memory_and_keep_what_they_could_have(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def story(stage: Stage) -> None:
        await stage.ask("a")
        process = stage.process("a")
        assert process.limits == [(_BUDGET, _BUDGET)]
        stage.world.others = 6000
        await asyncio.sleep(5)
        assert process.limits[1:] == [(4000, _BUDGET)]
        stage.world.others = 0
        await asyncio.sleep(60)
        assert process.limits[-1] == (_BUDGET, _BUDGET)
        shares = [share for share, _ in process.limits[1:]]
        assert shares == sorted(shares)

    play(monkeypatch, Stage({"a": {}}, 1), story)


def test_the_memory_of_a_pinned_model_that_comes_back_is_never_anothers(monkeypatch: pytest.MonkeyPatch) -> None:
    """A request that could have it would be shortened or refused when the pinned model is there again."""

    async def story(stage: Stage) -> None:
        await stage.until("a", "ready")
        await stage.ask("b")
        for _ in range(2):
            stage.process("a").end(-9)
            await stage.see(lambda: stage.state("a") != "ready")
            await stage.until("a", "ready")
        assert stage.pool.models["a"].restarts.count == 2
        assert {most for _, most in stage.process("b").limits[1:]} == {_BUDGET - 1125}
        assert max(share for share, _ in stage.process("b").limits[1:]) <= _BUDGET - 1125
        await stage.pool.models["a"].unload()
        await asyncio.sleep(5)
        assert stage.process("b").limits[-1] == (_BUDGET, _BUDGET)

    play(monkeypatch, Stage({"a": {"pinned": True, "on_demand": False}, "b": {}}, 3), story)


def test_memory_that_cannot_be_read_ends_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """As when connections have taken all file descriptors: no report ends its worker, and the watch goes on."""

    async def story(stage: Stage) -> None:
        await stage.ask("a")
        known = stage.pool.memory_status
        with monkeypatch.context() as patch:
            patch.setattr(system_memory, "read_system_memory", refuse)
            await asyncio.sleep(5)
            stage.process("a").report(0)
            assert isinstance((await stage.ask("a"))[-1], Finished)
            assert isinstance((await stage.ask("b"))[-1], Finished)
            assert stage.pool.memory_status == known
        stage.world.others = 6000
        await stage.see(lambda: stage.pool.memory_status.budget_bytes == 4000)
        assert not stage.pool.models["a"].restarts.count

    def refuse() -> SystemMemory:
        raise OSError(errno.EMFILE, "too many open files")

    play(monkeypatch, Stage({"a": {}, "b": {}}, 2), story)


def test_what_a_model_could_have_leaves_out_pinned_ones_and_its_own_limit_counts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def story(stage: Stage) -> None:
        for model in ("a", "b", "c"):
            await stage.ask(model)
        assert stage.process("a").limits[-1][1] == _BUDGET
        assert stage.process("b").limits[-1][1] == _BUDGET - 1125
        assert stage.process("c").limits[-1] == (2000, 2000)

    models: dict[str, dict[str, Any]] = {
        "a": {"pinned": True},
        "b": {},
        "c": {"options": TextOptions(memory_limit=2000)},
    }
    play(monkeypatch, Stage(models, 3), story)


def test_a_model_that_needs_more_than_is_free_is_loaded_with_a_warning(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def story(stage: Stage) -> None:
        stage.world.others = 4000
        assert isinstance((await stage.ask("large"))[-1], Finished)
        # It was loaded with what it needs. Now it gets what is free, and its requests wait for the rest.
        await asyncio.sleep(5)
        assert stage.process("large").limits[0] == (_BUDGET, _BUDGET)
        assert stage.process("large").limits[-1] == (9000 - 526, _BUDGET)

    play(monkeypatch, Stage({"large": {"pinned": True}}, 1), story)
    text = "large needs 10,000 bytes, 6,000 are free, and other programs use 4,000; it is loaded all the same"
    assert text in caplog.text


def test_where_memory_is_short_idle_models_make_room_for_one_that_the_limit_would_take_beside_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def story(stage: Stage) -> None:
        stage.world.others = 8000
        await stage.ask("a")
        await stage.ask("b")
        assert [stage.state(model) for model in ("a", "b")] == ["unloaded", "ready"]

    play(monkeypatch, Stage({"a": {}, "b": {}}, 2), story)


def test_idle_models_go_where_other_programs_take_their_memory_but_never_pinned_or_busy_ones(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def story(stage: Stage) -> None:
        for model in ("a", "b"):
            await stage.ask(model)
        busy = stage.open("c", pieces=100)
        await stage.read(busy, Started)
        stage.world.others = 9500
        await stage.until("b", "unloaded")
        await asyncio.sleep(5)
        assert [stage.state(model) for model in ("a", "b", "c")] == ["ready", "unloaded", "ready"]
        await stage.read(busy)
        await stage.until("c", "unloaded")
        assert stage.state("a") == "ready"

    with caplog.at_level("INFO"):
        play(monkeypatch, Stage({"a": {"pinned": True}, "b": {}, "c": {}}, 3), story)
    assert "b is unloaded: all models may take" in caplog.text


def test_an_idle_model_goes_where_a_request_of_another_waits_for_its_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(stage: Stage) -> None:
        await stage.ask("a")
        await stage.ask("b")
        await stage.ask("c")
        stage.world.sizes = {"req_4": 8900, "req_5": 7800}  # the first one needs more than there is beside "b"
        too_large = stage.open("c")
        await asyncio.sleep(5)
        assert [stage.state(model) for model in ("a", "b")] == ["ready", "ready"]
        too_large.close()
        assert isinstance((await stage.ask("c"))[-1], Finished)
        assert [stage.state(model) for model in ("a", "b")] == ["unloaded", "ready"]

    limited = {"options": TextOptions()}
    play(monkeypatch, Stage({"a": limited, "b": {"pinned": True}, "c": {}}, 3), story)


def test_without_memory_no_model_is_loaded_unless_a_setting_says_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    async def refused(stage: Stage) -> None:
        await stage.ask("b")
        stage.world.critical = True
        await asyncio.sleep(2)
        failed = failure(await stage.ask("a"))
        assert (failed.kind, failed.retry_after) == ("unavailable", 30)
        assert (
            "9,526 of 10,526 bytes are free; other programs use 0; models in memory: b: 1,125; close" in failed.message
        )
        assert stage.world.loads == 1
        stage.world.critical = False
        await asyncio.sleep(2)
        assert isinstance((await stage.ask("a"))[-1], Finished)

    play(monkeypatch, Stage({"a": {}, "b": {}}, 2), refused)

    async def loaded(stage: Stage) -> None:
        stage.world.critical = True
        assert isinstance((await stage.ask("a"))[-1], Finished)

    play(monkeypatch, Stage({"a": {}}, 1, load_under_pressure=True), loaded)


def test_where_the_system_makes_room_a_loaded_model_keeps_what_it_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(stage: Stage) -> None:
        stage.world.elastic = True
        await stage.ask("a")
        stage.world.others = 10_000
        await asyncio.sleep(30)
        assert stage.process("a").limits[-1] == (1125, _BUDGET)
        stage.world.elastic = False
        await stage.until("a", "unloaded")

    play(monkeypatch, Stage({"a": {}}, 1), story)


def test_a_server_without_models_does_not_look_what_is_free(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(stage: Stage) -> None:
        await stage.ask("a")
        await stage.pool.unload_all()
        await asyncio.sleep(5)
        before = stage.world.reads
        await asyncio.sleep(100)
        assert stage.world.reads == before
        assert stage.pool.memory_status.limit_bytes == _BUDGET
        assert stage.world.reads == before + 1

    play(monkeypatch, Stage({"a": {}}, 1), story)
