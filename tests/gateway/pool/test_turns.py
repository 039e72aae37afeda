"""Models whose requests starve because of each other's memory take turns: the pool in virtual time."""

import asyncio

import pytest

from orchard.core.events import Event, Failed, Finished, Started
from orchard.gateway.replies.event_stream import EventStream
from tests.gateway.pool.test_pool import Stage, failure, play


def large(stage: Stage, model: str, size: int, pieces: int = 3) -> EventStream:
    """Open a request that needs `size` bytes beside the weights."""
    stage.world.sizes[f"req_{stage.numbers + 1}"] = size
    return stage.open(model, pieces)


async def ask_steadily(stage: Stage, model: str, seconds: float, answers: list[list[Event]]) -> None:
    """Ask a model again and again; the next one before the last one has ended."""
    loop = asyncio.get_running_loop()
    until = loop.time() + seconds
    while loop.time() < until:
        asking = asyncio.create_task(stage.ask(model, 3))
        asking.add_done_callback(lambda one: answers.append(one.result()))
        await asyncio.sleep(1.5)
    await asking


@pytest.mark.parametrize("size", [7000, 8500])
def test_a_starved_request_and_steady_ones_of_another_model_take_turns(
    size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story(stage: Stage) -> None:
        for model in "ab":
            await stage.ask(model)
        answers: list[list[Event]] = []
        steady = asyncio.create_task(ask_steadily(stage, "b", 200, answers))
        for _ in range(3):
            assert isinstance((await stage.read(large(stage, "a", size)))[-1], Finished)
        assert not steady.done()
        await steady
        assert all(isinstance(events[-1], Finished) for events in answers)
        assert stage.world.loads <= 2 + 3, "one load a turn"

    play(monkeypatch, Stage({"a": {}, "b": {}}, 2, queue_timeout=60.0), story)


@pytest.mark.parametrize("size", [7000, 8500])
def test_of_two_models_that_starve_each_other_the_older_request_goes_first(
    size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story(stage: Stage) -> None:
        for model in "ab":
            await stage.ask(model)
        older, younger = large(stage, "b", size, 20), large(stage, "a", size, 20)
        first = asyncio.create_task(stage.read(older))
        second = asyncio.create_task(stage.read(younger))
        assert isinstance((await first)[-1], Finished)
        assert not second.done()
        assert isinstance((await second)[-1], Finished)

    play(monkeypatch, Stage({"a": {}, "b": {}}, 2, queue_timeout=60.0), story)


def test_an_answer_that_runs_is_only_interrupted(monkeypatch: pytest.MonkeyPatch) -> None:
    """It goes on after the turn of an older request."""

    async def story(stage: Stage) -> None:
        for model in "ab":
            await stage.ask(model)
        older = large(stage, "a", 7500, 3)
        older_read = asyncio.create_task(stage.read(older))
        begun = large(stage, "b", 3000, 30)
        await stage.read(begun, Started)
        assert isinstance((await older_read)[-1], Finished)
        assert isinstance((await stage.read(begun))[-1], Finished)

    play(monkeypatch, Stage({"a": {}, "b": {}}, 2, queue_timeout=60.0), story)


def test_time_without_memory_adds_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """A request that gets its memory for a moment, again and again, fails when it has waited for the timeout in all."""

    async def story(stage: Stage) -> None:
        await stage.ask("a")
        begun = large(stage, "a", 7000, 10**6)
        await stage.read(begun, Started)
        reading = asyncio.create_task(stage.read(begun))
        for _ in range(20):
            stage.world.others = 5000
            await asyncio.sleep(20)
            stage.world.others = 0
            await asyncio.sleep(40)
        assert reading.done()
        assert failure(reading.result()).kind == "insufficient_memory"

    play(monkeypatch, Stage({"a": {}}, 1, queue_timeout=60.0), story)


def test_a_model_whose_requests_are_stuck_goes_though_it_is_being_unloaded(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are answered after the turn."""

    async def story(stage: Stage) -> None:
        for model in "ab":
            await stage.ask(model)
        older, younger = large(stage, "a", 8500), large(stage, "b", 8500)
        unloading = asyncio.create_task(stage.pool.find("b").unload())
        assert isinstance((await stage.read(older))[-1], Finished)
        assert await unloading
        assert isinstance((await stage.read(younger))[-1], Finished)

    play(monkeypatch, Stage({"a": {}, "b": {}}, 2, queue_timeout=60.0), story)


def test_of_two_answers_that_never_fit_together_one_ends_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both have begun, so neither model may go; the other one runs to its end."""

    async def story(stage: Stage) -> None:
        for model in "ab":
            await stage.ask(model)
        streams = [large(stage, model, 100, 40) for model in "ab"]
        for stream in streams:
            await stage.read(stream, Started)
        reads = [asyncio.create_task(stage.read(stream)) for stream in streams]
        for number, others in ((3, 5000), (4, 6000)):
            stage.world.sizes[f"req_{number}"] = 8900  # it has grown
            stage.world.others = others
            await asyncio.sleep(5)
        stage.world.others = 0
        failed = failure(await reads[0])
        assert (failed.kind, failed.retry_after) == ("insufficient_memory", 5)
        assert isinstance((await reads[1])[-1], Finished)

    play(monkeypatch, Stage({"a": {}, "b": {}}, 2, queue_timeout=60.0), story)


@pytest.mark.parametrize(("a", "b", "others"), [(8900, 8900, 6000), (8900, 7400, 1000), (7400, 8900, 1000)])
def test_of_two_answers_that_starve_at_the_same_moment_one_ends_in_time(
    a: int, b: int, others: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where only one could run alone, that one runs to its end."""

    async def story(stage: Stage) -> None:
        for model in "ab":
            await stage.ask(model)
        streams = [large(stage, model, 100, 40) for model in "ab"]
        for stream in streams:
            await stage.read(stream, Started)
        reads = [asyncio.create_task(stage.read(stream)) for stream in streams]
        stage.world.sizes |= {"req_3": a, "req_4": b}  # they have grown
        stage.world.others = others
        await asyncio.sleep(5)
        if a == b:
            stage.world.others = 0
        ends = [events[-1] for events in await asyncio.gather(*reads)]
        failed, finished = sorted(ends, key=lambda end: isinstance(end, Finished))
        assert isinstance(failed, Failed)
        assert failed.kind == "insufficient_memory"
        assert isinstance(finished, Finished)
        assert a == b or finished is ends[a > b]

    play(monkeypatch, Stage({"a": {}, "b": {}}, 2, queue_timeout=60.0), story)


def test_an_answer_with_the_turn_waits_twice_as_long_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another model must go for it, and finishes a long answer first."""

    async def story(stage: Stage) -> None:
        for model in "ab":
            await stage.ask(model)
        begun, other = large(stage, "a", 100, 40), stage.open("b", 1000)
        await stage.read(begun, Started)
        reads = [asyncio.create_task(stage.read(stream)) for stream in (begun, other)]
        stage.world.sizes["req_3"] = 8900  # it has grown
        stage.world.others = 2000
        await asyncio.sleep(5)
        stage.world.others = 0
        assert failure(await reads[0]).kind == "insufficient_memory"
        assert not reads[1].done()
        assert isinstance((await reads[1])[-1], Finished)

    play(monkeypatch, Stage({"a": {}, "b": {}}, 2, queue_timeout=60.0), story)
