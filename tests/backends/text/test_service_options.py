"""What the text service makes of its options and of the engine's news, over an engine that computes nothing."""

import asyncio
import logging
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import mlx.core as mx
import pytest

from orchard.backends.service import Heartbeat, LoadResult, MemoryUse
from orchard.backends.text import cache_reports
from orchard.backends.text import service as service_module
from orchard.backends.text.model import TextModel
from orchard.backends.text.prompt.chat_template import ChatTemplate
from orchard.backends.text.service import TextService
from orchard.core.cache_report import CacheState
from orchard.core.events import Failed, Finished, SettledSampling, Started, Text, Usage
from orchard.core.request import Priority, Request, RequestProgress
from orchard.core.tasks.generate import Generate, Message, TextPart
from orchard.core.tasks.text_options import TextOptions
from orchard.engine.batching.job import DrawnToken, JobFailure, JobStart, Verification
from orchard.engine.memory import Use
from orchard.engine.prefix_cache.cache import Miss
from orchard.engine.prefix_cache.values import media_ids
from orchard.engine.sampling.params import Sample
from tests.support.stub_engine import StubEngine
from tests.support.worker_caller import Caller

OPTIONS = TextOptions(decode_concurrency=2, queue_size=3)


@pytest.fixture
async def caller(model: TextModel, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Caller]:
    loaded: list[tuple[str, TextOptions]] = []

    def load(path: str, options: TextOptions, progress: Any) -> TextModel:
        loaded.append((path, options))
        return model

    monkeypatch.setattr(StubEngine, "made", [])
    monkeypatch.setattr(service_module, "Engine", StubEngine)
    monkeypatch.setattr(service_module, "load_text_model", load)
    service = TextService("a folder", OPTIONS)
    caller = Caller(service)
    assert await service.start(caller.emit, lambda fraction: None) == LoadResult(
        StubEngine.weights_bytes, {"batching": "by_length", "warming_up": True, "media": []}
    )
    assert loaded == [("a folder", OPTIONS)]
    yield caller
    await service.close(1.0)


@pytest.fixture
def engine(caller: Caller) -> StubEngine:
    (engine,) = StubEngine.made
    assert engine.options == OPTIONS
    return engine


def task(n: int = 1, stop: tuple[str, ...] = ()) -> Generate:
    return Generate((Message("user", (TextPart("Hi"),)),), n=n, stop=stop)


async def submitted(
    caller: Caller, engine: StubEngine, *ids: str, priority: Priority = "normal", stop: tuple[str, ...] = ()
) -> int:
    """Submit requests and wait until the engine has them; gives the tokens of each prompt."""
    for request_id in ids:
        caller.events[request_id] = []
        caller.service.submit(Request(request_id, "tiny", task(stop=stop), priority))
    await asyncio.wait_for(engine.until(set(ids)), 30)
    return len(engine.jobs[-1].prompt)


async def test_priority_and_boundaries_reach_the_engine(caller: Caller, engine: StubEngine) -> None:
    await submitted(caller, engine, "a", priority="background")
    (job,) = engine.jobs
    assert (job.priority, len(job.boundaries)) == ("background", 1)


async def test_a_request_starts_when_it_begins_and_tells_what_was_cached(
    caller: Caller, engine: StubEngine, model: TextModel
) -> None:
    size = await submitted(caller, engine, "a")
    assert caller.events["a"] == []
    engine.step(begun=(JobStart("a", 7),))
    (token,) = model.tokenizer.encode("x", add_special_tokens=False)
    engine.step(begun=(JobStart("a", 1), JobStart("unknown", 1)), drawn=(DrawnToken("a", 0, Sample(token), "length"),))
    await caller.until(lambda: caller.ended("a"))
    settled = SettledSampling(0.7, 1.0, 0.0, 0.0)
    *events, finished = caller.events["a"]
    assert events == [Started(size, 7, sampling=settled), Text("x")]
    assert isinstance(finished, Finished)
    assert (finished.reasons, finished.usage) == (("length",), Usage(size, 1, 0, 7))


async def test_the_log_tells_how_many_guesses_were_right_and_what_they_save(
    caller: Caller, engine: StubEngine, model: TextModel, caplog: pytest.LogCaptureFixture
) -> None:
    await submitted(caller, engine, "a")
    (token,) = model.tokenizer.encode("x", add_special_tokens=False)
    sample = Sample(token)
    with caplog.at_level(logging.DEBUG, "orchard.worker"):
        engine.step(begun=(JobStart("a", 1),), drawn=(DrawnToken("a", 0, sample, None, Verification("ngram", 4, 3)),))
        last = DrawnToken("a", 0, sample, "length", Verification("prediction", 2, 0))
        engine.step(drawn=(DrawnToken("a", 0, sample, None, Verification("ngram", 1, 1)), last))
        await caller.until(lambda: caller.ended("a"))
    ngram = "4 of 5 by ngram (since the load: 0.50 s saved)"
    prediction = "0 of 2 by prediction (since the load: -0.25 s saved)"
    assert f"request a: guesses that were right: {ngram}, {prediction}" in caplog.messages


async def test_the_log_tells_of_guesses_behind_a_stop_string_and_of_requests_that_are_cancelled(
    caller: Caller, engine: StubEngine, model: TextModel, caplog: pytest.LogCaptureFixture
) -> None:
    await submitted(caller, engine, "a", "b", stop=("x",))
    (token,) = model.tokenizer.encode("x", add_special_tokens=False)
    (other,) = model.tokenizer.encode("y", add_special_tokens=False)
    guessed = [DrawnToken(job, 0, Sample(other), None, Verification("ngram", 4, 3)) for job in "ab"]
    ended = DrawnToken("a", 0, Sample(token), None)
    with caplog.at_level(logging.DEBUG, "orchard.worker"):
        engine.step(begun=(JobStart("a", 1), JobStart("b", 1)), drawn=(ended, *guessed))
        await caller.until(lambda: caller.ended("a"))
        caller.service.cancel("b")
    told = "guesses that were right: 3 of 4 by ngram (since the load: 0.50 s saved)"
    assert [f"request {job}: {told}" in caplog.messages for job in "ab"] == [True, True]


@pytest.mark.parametrize(
    ("fields", "kind"),
    [({"too_large": True}, "context_length_exceeded"), ({"by_grammar": True}, "invalid_request"), ({}, "internal")],
)
async def test_a_broken_job(caller: Caller, engine: StubEngine, fields: dict[str, Any], kind: str) -> None:
    await submitted(caller, engine, "a")
    engine.step(broken=(JobFailure("a", "needs 3 GB of 2", **fields),))
    await caller.until(lambda: caller.ended("a"))
    (failed,) = caller.events["a"]
    assert isinstance(failed, Failed)
    assert (failed.kind, failed.message) == (kind, "needs 3 GB of 2")


async def test_more_choices_than_rows_are_refused(caller: Caller) -> None:
    failed = await caller.failure("a", task(n=3))
    assert (failed.kind, failed.param) == ("invalid_request", "n")
    assert "from 1 to 2" in failed.message


async def test_the_queue_is_bounded(caller: Caller, engine: StubEngine) -> None:
    """By what may run and what may wait, however much of it runs already."""
    await submitted(caller, engine, "a", "b", "c", "d", "e")
    refused = await caller.failure("f", task())
    assert (refused.kind, refused.retry_after) == ("overloaded", 5)
    caller.service.cancel("a")
    await submitted(caller, engine, "g")


async def test_what_is_cached(caller: Caller, engine: StubEngine) -> None:
    assert await caller.service.cache_state(None) == CacheState({"entries": 3}, [])
    size = await submitted(caller, engine, "a", "b")
    engine.step(begun=(JobStart("a", 0), JobStart("b", size - 1)))
    await caller.until(lambda: caller.events["b"])
    state = await caller.service.cache_state(None)
    assert [report.request_id for report in state.reports] == ["a", "b"]
    assert await caller.service.cache_state("b") == CacheState({}, [state.reports[1]])
    assert state.reports[1].summary == f"{size - 1} of {size} tokens were cached"
    assert await caller.service.cache_state("c") == CacheState({}, [])


async def test_an_engine_that_is_busy_keeps_nothing_else_waiting(caller: Caller, engine: StubEngine) -> None:
    engine.counters = None
    asked = asyncio.create_task(caller.service.cache_state(None))
    assert await caller.service.cache_state("a") == CacheState()
    assert not asked.done()
    asked.cancel()


def miss(model: TextModel, before: str, cached: str, given: str, begin: int = 10) -> Miss:
    def tokens(text: str) -> list[int]:
        found: list[int] = model.tokenizer.encode(text, add_special_tokens=False)
        return found

    head = tokens(before)
    return Miss(begin + len(head), begin, head + tokens(cached), head + tokens(given))


async def test_a_miss_at_a_medium_names_it(caller: Caller, engine: StubEngine, model: TextModel) -> None:
    await submitted(caller, engine, "a", "b", "c", "d")
    head, text = (miss(model, "The sea", "", after).given for after in ("", " was"))
    after, size = text[len(head) :], len(head)
    one, other = media_ids(b"one", 3), media_ids(b"other", 3)
    misses = {
        "a": Miss(size, 0, [*head, *one, *after], [*head, *other, *after], 2),
        "b": Miss(size, 0, [*head, *after], [*head, *other], 1),
        "c": Miss(size, 0, [*head, *one], text),
        "d": Miss(size + 3, 0, [*one, *head, *after], [*one, *head, *other], 2),
    }
    engine.step(begun=tuple(JobStart(name, 0, found) for name, found in misses.items()))
    await caller.until(lambda: caller.events["d"])
    a, b, c, d = (await caller.service.cache_state(None)).reports
    assert a.summary.endswith("the closest cached text goes on with another medium, this prompt goes on with medium 2")
    assert (a.before, a.cached, a.given) == ("The sea", " was", " was")
    assert b.summary.endswith('the closest cached text goes on " was", this prompt goes on with medium 1')
    assert c.summary.endswith('the closest cached text goes on with a medium, this prompt goes on " was"')
    assert d.before == "The sea"
    assert [report.medium for report in (a, b, c, d)] == [2, 1, None, 2]


async def test_a_miss_is_told_in_words(
    caller: Caller, engine: StubEngine, model: TextModel, caplog: pytest.LogCaptureFixture
) -> None:
    size = await submitted(caller, engine, "a", "b", "c")
    found = miss(model, "The sea", " is\nblue", " was grey")
    with caplog.at_level(logging.DEBUG, "orchard.worker"):
        engine.step(begun=(JobStart("a", 8, found),))
        engine.step(begun=(JobStart("b", 8, miss(model, "The sea", "", " was")),))
        engine.step(begun=(JobStart("c", 8, miss(model, "", "x", "")),))
        await caller.until(lambda: caller.events["c"])
        await submitted(caller, engine, "d")
        engine.step(begun=(JobStart("d", 0, Miss(0, 0, [], [1])),))
        await caller.until(lambda: caller.events["d"])
    a, b, c, d = (await caller.service.cache_state(None)).reports
    assert (a.prompt_tokens, a.cached_tokens, a.parted_at) == (size, 8, found.place)
    assert (a.before, a.cached, a.given) == ("The sea", " is\nblue", " was grey")
    assert a.summary == (
        f"8 of {size} tokens were cached; token {found.place} of {size}: "
        'the closest cached text goes on " is\\nblue", this prompt goes on " was grey"'
    )
    assert b.summary.endswith('the closest cached text ends there, this prompt goes on " was"')
    assert c.summary.endswith('the closest cached text goes on "x", this prompt ends there')
    assert d.summary == f"0 of {size} tokens were cached; no cached text begins like this prompt"
    assert [record.levelname for record in caplog.records if a.summary in record.getMessage()] == ["DEBUG"]


async def test_only_the_last_reports_are_kept(
    caller: Caller, engine: StubEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cache_reports, "MOST_REPORTS", 2)
    await submitted(caller, engine, "a", "b", "c")
    engine.step(begun=(JobStart("a", 0), JobStart("b", 0), JobStart("c", 0)))
    await caller.until(lambda: caller.events["c"])
    assert [report.request_id for report in (await caller.service.cache_state(None)).reports] == ["b", "c"]


async def test_the_engine_may_be_gone_when_it_answers(model_folder: Path) -> None:
    service = TextService(str(model_folder), TextOptions())
    loop = asyncio.new_event_loop()
    loop.close()
    service._loop = loop
    service._loop_callback(lambda _: pytest.fail("it ran"))(0)


async def test_signs_and_limits_are_the_engines(caller: Caller, engine: StubEngine) -> None:
    assert caller.service.heartbeat() == Heartbeat(0.0, StubEngine.mlx_bytes)
    assert caller.service.speculation() == StubEngine.speculation_report
    engine.silent_seconds = 3.5
    assert caller.service.heartbeat().silent_seconds == 3.5
    caller.service.limit_memory(1000, 2000)
    assert engine.memory_limits == [(1000, 2000)]
    assert caller.service.memory_use() == MemoryUse(StubEngine.weights_bytes, 10, 20, StubEngine.weights_bytes + 30)
    engine.use = Use(1, 2)
    assert caller.service.memory_use() == MemoryUse(StubEngine.weights_bytes, 1, 2)


async def test_how_far_requests_are(caller: Caller, engine: StubEngine) -> None:
    size = await submitted(caller, engine, "a")
    await submitted(caller, engine, "b")

    def told() -> dict[str, RequestProgress]:
        return {report.id: report for report in caller.service.request_progress()}

    assert told() == {id_: RequestProgress(id_, size, 0, 0, 0) for id_ in "ab"}
    engine.step(begun=(JobStart("a", 3),))
    await caller.until(lambda: caller.events["a"])
    assert told()["a"] == RequestProgress("a", size, 3, 3, 0)
    engine.read_tokens = {"a": 5}
    assert told()["a"] == RequestProgress("a", size, 5, 3, 0)
    engine.step(drawn=(DrawnToken("a", 0, Sample(7)),))
    await caller.until(lambda: told()["a"].generated_tokens)
    assert told()["a"] == RequestProgress("a", size, size, 3, 1)
    engine.step(drawn=(DrawnToken("a", 0, Sample(7), "length"),))
    await caller.until(lambda: isinstance(caller.events["a"][-1], Finished))
    assert list(told()) == ["b"]


async def test_progress_is_told_on_the_loop(model: TextModel, monkeypatch: pytest.MonkeyPatch) -> None:
    def load(path: str, options: TextOptions, progress: Any) -> TextModel:
        progress(0.25)
        return model

    monkeypatch.setattr(service_module, "Engine", StubEngine)
    monkeypatch.setattr(service_module, "load_text_model", load)
    told: list[float] = []
    service = TextService("a folder", OPTIONS)
    await service.start(lambda *_: None, told.append)
    assert told == [0.25]
    await service.close(1.0)


async def test_finding_out_what_a_template_takes_is_a_piece_of_work(
    model: TextModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, goes_on = threading.Event(), threading.Event()

    def slow(template: ChatTemplate) -> None:
        begun.set()
        assert goes_on.wait(30)

    monkeypatch.setattr(service_module, "Engine", StubEngine)
    monkeypatch.setattr(service_module, "load_text_model", lambda *_: model)
    monkeypatch.setattr(ChatTemplate, "check", slow)
    service = TextService("a folder", OPTIONS)
    starting = asyncio.create_task(service.start(lambda *_: None, lambda fraction: None))
    await asyncio.to_thread(begun.wait, 30)
    assert service.heartbeat().silent_seconds > 0
    goes_on.set()
    await starting
    assert service.heartbeat().silent_seconds == 0
    await service.close(1.0)


@pytest.mark.parametrize(("device", "ranks"), [(mx.cpu, 2), (mx.gpu, 1)])
def test_ranks_share_the_memory_of_one_machine_unless_each_has_a_gpu(
    device: mx.DeviceType, ranks: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(StubEngine, "made", [])
    monkeypatch.setattr(service_module, "Engine", StubEngine)
    monkeypatch.setattr(mx, "default_device", lambda: mx.Device(device))
    service = TextService("a folder", TextOptions(ranks=2, memory_limit=1000))
    (engine,) = StubEngine.made
    service.limit_memory(600, 1000)
    assert (engine.options.memory_limit, engine.memory_limits) == (1000 // ranks, [(600 // ranks, 1000 // ranks)])
    assert service.memory_use() == MemoryUse(ranks * 1234, ranks * 10, ranks * 20, ranks * (1234 + 30))
