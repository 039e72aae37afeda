"""A runner for a loaded model: its limits, its memory, and what is tried only once."""

import itertools
import logging
import tempfile
import time
from collections.abc import Callable, Iterator
from typing import Any

import mlx.core as mx
import pytest
from msgspec.structs import replace

from orchard.core.errors import OrchardError
from orchard.core.tasks.text_options import TextOptions
from orchard.engine import calibration, start
from orchard.engine.batching.batch import BatchMode, VerifyMode
from orchard.engine.batching.job import EngineStep, Job
from orchard.engine.batching.layer_kinds import Footprint
from orchard.engine.batching.model import on_cuda
from orchard.engine.memory import Shares
from orchard.engine.runner import Runner
from orchard.engine.sampling.params import SamplingParams
from orchard.engine.speculation import make
from orchard.engine.speculation.forced_tokens import ForcedProposer
from tests.support.engine_driver import greedy, prompt
from tests.support.grammars import lark
from tests.support.heads import headed
from tests.support.speculation import FixedController
from tests.support.tiny_models import Course, Other, alone, footprint, network
from tests.support.units import at_once, finish, warm_runner


def test_the_runner_that_it_makes() -> None:
    options = TextOptions(decode_concurrency=3, prefill_step_size=17, prompt_cache_bytes=10_000, memory_limit=2**40)
    runner = warm_runner(network("qwen3"), options, 0, lambda: None)
    limits = runner._scheduler._limits
    assert (limits.max_rows, limits.chunk, limits.idle_chunk) == (3, 17, 68)
    assert runner.is_idle
    assert runner.store.counters()["budget_bytes"] == 10_000
    assert runner.store.counters()["entries"] == 0
    assert runner.batch_mode is BatchMode.SHARED


@pytest.mark.parametrize(("set_to", "halvings", "chunk"), [(512, 1, 256), (512, 9, 32), (17, 1, 17)])
def test_prompts_are_read_in_smaller_pieces_after_memory_ran_out(set_to: int, halvings: int, chunk: int) -> None:
    options = TextOptions(prefill_step_size=set_to, halvings=halvings)
    limits = warm_runner(network("qwen3"), options, 0, lambda: None)._scheduler._limits
    assert (limits.chunk, limits.idle_chunk) == (chunk, 4 * chunk)


def test_a_model_is_tried_once(monkeypatch: pytest.MonkeyPatch) -> None:
    model = Other(network("qwen3"))
    model.fingerprint = "tried once"
    tried: list[str] = []
    for name in ("find_batch_mode", "measure_prefill"):
        monkeypatch.setattr(calibration, name, spying(getattr(calibration, name), tried))
    for way in ("warm_up_every_way", "warm_up_once"):
        monkeypatch.setattr(start, way, spying(getattr(start, way), tried))
    runners = [warm_runner(model, TextOptions(), 0, lambda: None) for _ in range(2)]
    assert tried == ["warm_up_once", "find_batch_mode", "warm_up_every_way", "measure_prefill", "warm_up_once"]
    first, second = (runner._scheduler._limits for runner in runners)
    assert first == second
    assert runners[0].store.tokens_per_second == runners[1].store.tokens_per_second > 0
    # In another process, its kernels may be gone.
    monkeypatch.setattr(start, "warm_models", set())
    monkeypatch.setattr(tempfile, "gettempdir", lambda: "/nowhere")
    warm_runner(model, TextOptions(), 0, lambda: None)
    assert tried[5:] == ["warm_up_once", "warm_up_every_way"]
    monkeypatch.setattr(start, "warm_models", set())
    monkeypatch.undo()
    if mx.default_device() == mx.cpu:
        assert start.has_kept_kernels()


def test_old_speeds_are_measured_again_while_the_model_serves(monkeypatch: pytest.MonkeyPatch) -> None:
    """What rows can share is known for as long as the model and the engine are the same."""
    model, options = Other(network("qwen3")), TextOptions()
    model.fingerprint = "tried yesterday"
    warm_runner(model, options, 0, lambda: None)
    name = calibration.calibration_key(model, options)
    known = calibration.load_calibration(name)
    assert known
    calibration.save_calibration(name, replace(known, measured_at=time.time() - 25 * 3600, chunk=512))
    tried: list[str] = []
    for way in ("find_batch_mode", "find_verify_mode", "measure_prefill"):
        monkeypatch.setattr(calibration, way, spying(getattr(calibration, way), tried))
    runner, units = start.make_runner(model, options, 0, lambda: None)
    assert (tried, runner.batch_mode, runner._scheduler._limits.chunk) == ([], BatchMode.SHARED, 512)
    finish(units)
    assert tried == ["measure_prefill"]
    found = calibration.load_calibration(name)
    assert found
    assert not found.speeds_are_old
    assert runner._scheduler._limits.chunk == found.chunk


@pytest.mark.parametrize("kind", ["qwen3", "gemma3_text", "qwen3_5"])
def test_a_new_model_answers_before_and_while_it_is_calibrated(kind: str) -> None:
    """A row that began before the calibration stays in passes of its own; later ones share passes."""
    model = Other(network(kind))
    model.fingerprint = f"new {kind}"
    runner, units = start.make_runner(model, TextOptions(), 0, lambda: None)
    modes = {runner.batch_mode}
    jobs = [greedy("early 0", prompt(0, 20), 60), sampled("early 1", prompt(1, 9), 60, choices=3)]
    course, late, shared = Course(), 0, 1
    for job in jobs:
        course.expect(job)
        runner.add(job)
    for _ in itertools.chain([None], units, itertools.takewhile(lambda _: not runner.is_idle, itertools.repeat(None))):
        course.take(runner.step())
        modes.add(runner.batch_mode)
        for group in (pass_.slots for pass_ in runner._batch.passes):
            shared = max(shared, len(group))
            assert len(group) == 1 or not any(slot.isolated for slot in group)
        if len(modes) > 1 and late < 6:
            make = sampled if late % 2 else greedy
            jobs.append(make(f"late {late}", prompt(late, 8 + late), 12))
            course.expect(jobs[-1])
            runner.add(jobs[-1])
            late += 1
    assert (modes, shared) == ({BatchMode.SEQUENTIAL, BatchMode.SHARED}, 6)
    for job in jobs:
        assert course.outcomes[job.id].tokens == alone(network(kind), job)


def test_nothing_is_proposed_until_it_is_known_who_can_verify(monkeypatch: pytest.MonkeyPatch) -> None:
    controller = FixedController(4)
    monkeypatch.setattr(make, "CostController", lambda: controller)
    model = Other(network("qwen3"))
    model.fingerprint = "may verify"
    runner, units = start.make_runner(model, TextOptions(), 0, lambda: None)
    answer = drawn(runner, greedy("plain", prompt(0, 20), 30))
    predicted = greedy("predicted", prompt(0, 20), 30, prediction=tuple(answer))
    assert drawn(runner, predicted) == answer
    assert not controller.results
    finish(units)
    assert drawn(runner, predicted) == answer
    assert controller.accepted()["prediction"] > 15


def sampled(name: str, tokens: list[int], count: int, **fields: Any) -> Job:
    return Job(name, tokens, SamplingParams(seed=3, temperature=0.9), count, **fields)


def test_memory_is_kept_free_for_the_units() -> None:
    model = Other(network("qwen3"))
    model.fingerprint = "tight"
    options = TextOptions(memory_limit=2**24, prompt_cache_bytes=0)
    runner, units = start.make_runner(model, options, 0, lambda: None)
    before = runner.planned_bytes
    next(units)
    assert runner._scheduler.reserved_bytes == 2**23, "the other half is left to the jobs"
    assert runner.planned_bytes == before + 2**23
    runner.limit_memory(Shares(2**24, 0, 2**20))
    assert runner._scheduler.reserved_bytes == 2**19
    units.close()
    assert (runner._scheduler.reserved_bytes, runner.planned_bytes) == (0, before)


def test_a_draft_shares_the_memory_and_the_cached_prompts(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a row of the draft takes counts for each row, and the cache is divided; also where memory changes."""
    monkeypatch.setattr(make, "CostController", lambda: FixedController(3))
    options = TextOptions(memory_limit=2**30, prompt_cache_bytes=2**20, num_draft_tokens=3)
    plain = warm_runner(network("qwen3"), options, 0, lambda: None)
    runner = warm_runner(network("qwen3"), options, 0, lambda: None, draft=network("qwen3"))
    assert runner._footprint == plain._footprint.plus(plain._footprint)
    assert runner.store.counters()["budget_bytes"] == 2**19
    runner.limit_memory(Shares(2**20, 2**16, 2**20 + 2**16))
    assert runner.store.counters()["budget_bytes"] == 2**15
    answer = drawn(runner, greedy("a", prompt(1, 30), 20))
    assert answer == drawn(plain, greedy("b", prompt(1, 30), 20, speculates=False))
    assert runner.speculation
    assert isinstance(controller := runner.speculation.controller, FixedController)
    assert controller.accepted()["draft"] >= 12


def test_a_draft_that_breaks_is_not_used(caplog: pytest.LogCaptureFixture) -> None:
    def breaks(tokens: mx.array, given: dict[str, Any]) -> None:
        raise RuntimeError("unlucky")

    runner = warm_runner(network("qwen3"), TextOptions(), 0, lambda: None, draft=Other(network("qwen3"), before=breaks))
    assert runner.speculation
    assert "the draft model can't be used" in caplog.text
    assert runner._footprint == warm_runner(network("qwen3"), TextOptions(), 0, lambda: None)._footprint


def test_a_head_guesses_and_its_keys_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """What it keeps of a row counts for each row, and of cached prompts in the cache, like the model's own."""
    plain, model, _ = headed()
    monkeypatch.setattr(tempfile, "gettempdir", lambda: "/nowhere")  # so that all of the start is run
    monkeypatch.setattr(make, "CostController", lambda: FixedController(3))
    monkeypatch.setattr(make, "NgramProposer", ForcedProposer)  # so that only the head guesses
    options = TextOptions(memory_limit=2**30, prompt_cache_bytes=2**20, num_draft_tokens=3)
    runner = warm_runner(plain, options, 0, lambda: None, draft=model.head)
    own = Footprint(per_token=2 * 32 * 4, fixed=64 * 4)  # keys and values of a head of 32, and a state of 64 in float32
    assert runner._footprint == footprint(plain, options).plus(own)
    answer = drawn(runner, greedy("a", prompt(1, 30), 20))
    assert answer == alone(plain, greedy("a", prompt(1, 30), 20))[0]
    assert runner.speculation
    assert isinstance(controller := runner.speculation.controller, FixedController)
    assert {proposal.source for proposal, *_ in controller.results} == {"mtp"}
    assert max(proposed for _, proposed, _ in controller.results) == 3


@pytest.mark.parametrize("why", ["it breaks", "nothing can be verified"])
def test_a_head_that_is_not_used_costs_nothing(
    why: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def breaks(*args: Any, **named: Any) -> mx.array:
        raise RuntimeError("unlucky")

    plain, model, _ = headed()
    if why == "it breaks":
        monkeypatch.setattr(model.head, "read", breaks)
    else:
        monkeypatch.setattr(calibration, "find_verify_mode", lambda *_: at_once(VerifyMode.NEVER))
        monkeypatch.setattr(calibration, "load_calibration", lambda name: None)
    runner, _ = start.make_runner(plain, TextOptions(), 0, lambda: None, draft=model.head)
    assert "the model's MTP head" in caplog.text
    assert runner._footprint == footprint(plain, TextOptions())
    assert drawn(runner, greedy("a", prompt(1, 30), 9)) == alone(plain, greedy("a", prompt(1, 30), 9))[0]


def spying(function: Callable[..., Any], names: list[str]) -> Callable[..., Any]:
    def called(*args: Any, **kwargs: Any) -> Any:
        names.append(function.__name__)
        return function(*args, **kwargs)

    return called


def test_who_may_get_proposed_tokens_is_tried_once_and_only_for_speculation(monkeypatch: pytest.MonkeyPatch) -> None:
    model = Other(network("qwen3"))
    model.fingerprint = "tried for speculation"
    tried: list[str] = []
    monkeypatch.setattr(calibration, "find_verify_mode", spying(calibration.find_verify_mode, tried))
    off = warm_runner(model, TextOptions(speculation="off"), 0, lambda: None)
    assert (tried, off.speculation) == ([], None)
    runners = [warm_runner(model, TextOptions(), 0, lambda: None) for _ in range(2)]
    assert tried == ["find_verify_mode"]
    assert all(runner.speculation for runner in runners)


def test_passes_that_verify_are_warm(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of one row and of several, of each width that has kernels of its own; not where nothing is verified."""
    passes: list[tuple[int, ...]] = []
    monkeypatch.setattr(tempfile, "gettempdir", lambda: "/nowhere")
    for setting in ("off", "auto"):
        model = Other(network("qwen3"), before=lambda tokens, given: passes.append(tuple(tokens.shape)))
        model.fingerprint = f"warm {setting}"
        monkeypatch.setattr(calibration, "find_verify_mode", lambda *_: at_once(VerifyMode.TOGETHER))
        passes.clear()
        warm_runner(model, TextOptions(speculation=setting), 0, lambda: None)
        widths = (2, 4, 8) if mx.default_device() == mx.gpu else (4,)
        several = 8 if on_cuda() else len(start._WAYS)  # CUDA's batches have rows to spare
        wide = {(rows, width) for rows in (1, several) for width in widths}
        assert (set(passes) >= wide) == (setting == "auto")
        if setting == "auto" and mx.default_device() == mx.cpu:
            assert sum(rows == several and width > 1 for rows, width in passes) == 2, "a load waits for each"


def test_nobody_proposes_for_a_model_that_cannot_verify(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Each load says so, also where that is remembered."""
    model = Other(network("qwen3"))
    model.fingerprint = "can't verify"
    monkeypatch.setattr(calibration, "find_verify_mode", lambda *_: at_once(VerifyMode.NEVER))
    for options, told in ((TextOptions(), True), (TextOptions(), True), (TextOptions(speculation="off"), False)):
        caplog.clear()
        assert warm_runner(model, options, 0, lambda: None).speculation is None
        assert ("speculation is not used" in caplog.text) is told


def test_the_log_says_where_only_a_lone_row_verifies(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Each load says so, also where that is remembered."""
    caplog.set_level(logging.INFO, "orchard.engine")
    for verifying in (VerifyMode.ALONE, VerifyMode.TOGETHER):
        model = Other(network("qwen3"))
        model.fingerprint = f"verifies: {verifying.name}"
        monkeypatch.setattr(calibration, "find_verify_mode", lambda *_, found=verifying: at_once(found))
        for setting in ("auto", "auto", "off"):
            caplog.clear()
            warm_runner(model, TextOptions(speculation=setting), 0, lambda: None)
            told = "speculation works only while one answer is generated" in caplog.text
            assert told is (verifying is VerifyMode.ALONE and setting == "auto")


def test_what_is_known_of_the_answer_is_proposed_and_verified(monkeypatch: pytest.MonkeyPatch) -> None:
    """From a prediction, from an answer to an earlier request, and where a grammar forces it."""
    controller = FixedController(4)
    monkeypatch.setattr(make, "CostController", lambda: controller)
    runner = warm_runner(network("qwen3"), TextOptions(), 0, lambda: None)
    answer = drawn(runner, greedy("plain", prompt(0, 20), 60, speculates=False))
    assert not controller.results
    assert drawn(runner, greedy("predicted", prompt(0, 20), 60, prediction=tuple(answer))) == answer
    assert controller.accepted() == {"prediction": pytest.approx(48, abs=3)}
    assert drawn(runner, greedy("again", prompt(0, 20), 60)) == answer
    assert controller.accepted()["ngram"] > 40
    drawn(runner, greedy("bound", prompt(1, 20), 60, grammar=lark('start: "a long and certain answer"')))
    assert "grammar" in controller.accepted()


def drawn(runner: Runner, job: Job) -> list[int]:
    runner.add(job)
    return [one.sample.token for step in steps(runner) for one in step.tokens]


def steps(runner: Runner) -> Iterator[EngineStep]:
    while not runner.is_idle:
        yield runner.step()


def test_other_options_are_tried_on_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[str] = []
    monkeypatch.setattr(calibration, "find_batch_mode", spying(calibration.find_batch_mode, tried))
    warm_runner(network("qwen3"), TextOptions(max_kv_size=31), 0, lambda: None)
    warm_runner(network("qwen3"), TextOptions(max_kv_size=33), 0, lambda: None)
    assert tried == ["find_batch_mode"] * 2


def test_progress_is_told_to_the_end() -> None:
    told: list[float] = []
    warm_runner(network("qwen3"), TextOptions(), 0, lambda: None, told.append)
    assert told == sorted(told)
    assert told[-1] == 1.0


@pytest.mark.parametrize("limit", [1_000, 400])
def test_weights_that_leave_nothing(limit: int) -> None:
    with pytest.raises(OrchardError) as caught:
        warm_runner(network("qwen3"), TextOptions(memory_limit=limit), 1_000, lambda: None)
    assert caught.value.kind == "model_failed"
    assert "1,000 bytes" in str(caught.value)
    assert f"{limit:,} leaves nothing" in str(caught.value)


def test_cached_prompts_leave_half_to_requests(caplog: pytest.LogCaptureFixture) -> None:
    options = TextOptions(memory_limit=100_000, prompt_cache_bytes=60_000)
    runner = warm_runner(network("qwen3"), options, 1_000, lambda: None)
    assert runner.store.counters()["budget_bytes"] == 49_500
    assert "may take 49500 bytes of memory, not 60000" in caplog.text


def test_how_many_prompts_a_step_reads() -> None:
    runner = warm_runner(network("qwen3"), TextOptions(prompt_concurrency=2, prefill_step_size=9), 0, lambda: None)
    for number in range(3):
        runner.add(greedy(str(number), prompt(number, 20), 2))
    runner.step()
    left = [sum(prefill.tokens_left for prefill, _ in work.prefills) for work in runner._work.values()]
    assert sum(tokens < 19 for tokens in left) == 2
