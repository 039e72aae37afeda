"""Rows that have seen pictures, rows that have heard sounds and rows of text: none changes what another gives."""

import logging
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchard.backends.text.mtp import load_head
from orchard.backends.vision.model import load_vision_model
from orchard.core.media import MediaPart
from orchard.core.tasks.text_options import TextOptions
from orchard.engine import calibration
from orchard.engine.batching import attention, traced_pass
from orchard.engine.batching.batch import Batch, BatchMode, VerifyMode
from orchard.engine.batching.job import Job
from orchard.engine.batching.traced_pass import TracedPasses
from orchard.engine.drafting.head import HeadedModel
from orchard.engine.sampling.params import SamplingParams
from orchard.engine.speculation.speculation import Speculation
from tests.engine.batching.test_batch import SHORT
from tests.engine.batching.test_batch_verify import let_rows_guess
from tests.engine.test_invariants import params
from tests.engine.test_runner import little_memory, no_reserve, preemptions, tight
from tests.support.engine_driver import At, Driver, Happening, greedy, prompt
from tests.support.examples import examples, some
from tests.support.heads import OracleHead, head_runner
from tests.support.models import add_head
from tests.support.speculation import FixedController, Oracle
from tests.support.tiny_models import make_runner, run
from tests.support.units import finish
from tests.support.vision_engines import VisionEngines, audio, image, medium, showing
from tests.support.vision_families import FAMILIES

__all__ = ["no_reserve"]

QUANTIZED = {"kv_bits": 8, "kv_group_size": 32, "quantized_kv_start": 30}
Parts = list[list[int] | MediaPart]

# `make test` takes the first of them.
KINDS = ["qwen3_5", "qwen3_vl", "gemma3", "llava", "gemma4_audio", "qwen2_5_vl", "gemma4_per_layer", "idefics3"]
MEDIA = [image(1), image(2), image(3, 48, 32), image(4, 64, 64)]
FORMS: list[dict[str, Any]] = [{"prefill_step_size": 5}, {"prompt_cache_bytes": 0}]


@pytest.fixture(scope="session")
def viewers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[VisionEngines]:
    engines = VisionEngines(tmp_path_factory.getbasetemp())
    yield engines
    engines.close()


@st.composite
def prompts(draw: st.DrawFn, kind: str) -> Parts:
    """Words with up to three media among them; there are few of both, so that many prompts share their heads."""
    known = [*MEDIA, *([audio(1), audio(2)] if FAMILIES[kind].audio else [])]
    parts: Parts = []
    for number in range(draw(st.integers(0, 3))):
        parts += [prompt(number, draw(st.sampled_from([1, 5, 20]))), draw(st.sampled_from(known))]
    return [*parts, prompt(9, draw(st.integers(1, 30)))]


@st.composite
def mixes(draw: st.DrawFn, kind: str) -> list[tuple[Job, Parts, At | None]]:
    mix: list[tuple[Job, Parts, At | None]] = []
    for name in "abcde"[: draw(st.integers(2, 5))]:
        job = Job(name, [], draw(params()), draw(st.integers(1, 12)), draw(st.integers(1, 2)))
        at = At(draw(st.sampled_from([one[0].id for one in mix])), draw(st.integers(0, 9))) if mix else None
        mix.append((job, draw(prompts(kind)), at if draw(st.booleans()) else None))
    return mix


@pytest.mark.parametrize("kind", some(KINDS, 8))
@examples(15, derandomize=True, database=None)
@given(data=st.data())
def test_company_changes_nothing(viewers: VisionEngines, kind: str, data: st.DataObject) -> None:
    driver = viewers.get(kind, **data.draw(st.sampled_from(FORMS)))
    mix = data.draw(mixes(kind))
    first: list[Job] = []
    later: list[Happening] = []
    for plain, parts, at in mix:
        job = showing(driver.model, kind, plain, parts)
        later.append((at, job)) if at else first.append(job)
    results = driver.run(first, later)
    for plain, parts, _ in mix:
        found = results[plain.id]
        assert (found.tokens, found.reasons) == alone(viewers, kind, plain, parts), plain.id


def alone(viewers: VisionEngines, kind: str, job: Job, parts: Parts) -> tuple[Any, Any]:
    """What a job gives where nothing is cached and nobody else is there."""
    driver = viewers.get(kind, prompt_cache_bytes=0)
    found = driver.alone(showing(driver.model, kind, job, parts))
    return found.tokens, found.reasons


@pytest.mark.parametrize("kind", some(KINDS, 8))
def test_rows_of_every_family_share_a_pass(viewers: VisionEngines, kind: str) -> None:
    """Engines are told so here; a load finds it out."""
    model = load_vision_model(str(viewers.folder(kind)))
    attention.install_attention()
    assert finish(calibration.find_batch_mode(model, TextOptions())) is BatchMode.SHARED


def wanted(driver: Driver, monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """Give the list to which the digests of the media will be added whose features are asked for from now on."""
    digests: list[bytes] = []
    encode = driver.model.encoder.encode

    def counted(one: Any) -> Any:
        digests.append(one.digest)
        return encode(one)

    monkeypatch.setattr(driver.model.encoder, "encode", counted)
    return digests


@pytest.mark.parametrize("kind", some(KINDS, 8))
def test_a_conversation_encodes_a_picture_once(
    viewers: VisionEngines, kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor is it read again after a restart."""
    first: Parts = [prompt(1, 9), MEDIA[0], prompt(2, 8)]
    second: Parts = [*first, prompt(3, 6), MEDIA[3], prompt(4, 5)]
    turns = [greedy("a", []), greedy("b", [])]

    def turn(driver: Driver, number: int) -> tuple[int | None, list[bytes]]:
        digests = wanted(driver, monkeypatch)
        parts = (first, second)[number]
        result = driver.alone(showing(driver.model, kind, turns[number], parts))
        assert (result.tokens, result.reasons) == alone(viewers, kind, turns[number], parts)
        return result.cached_tokens, digests

    with viewers.fresh(kind, prompt_cache_dir=str(tmp_path)) as driver:
        pictures = [medium(driver.model, kind, MEDIA[number]) for number in (0, 3)]
        read = len(showing(driver.model, kind, turns[0], first).prompt)
        whole = len(showing(driver.model, kind, turns[1], second).prompt)
        assert turn(driver, 0) == (0, [pictures[0].digest])
        known, digests = turn(driver, 1)
        assert digests == [pictures[1].digest]
        assert known in (read - 1, read)  # where layers can't be cut, the snapshot is before the last token
    with viewers.fresh(kind, prompt_cache_dir=str(tmp_path)) as driver:
        assert turn(driver, 1) == (whole - 1, [])
        assert turn(driver, 0) == (read - 1, [])


@pytest.mark.parametrize("kind", some(KINDS, 8))
def test_decode_waits_for_nothing(viewers: VisionEngines, kind: str) -> None:
    """A pass over rows of several lengths can be traced: the model reads back none of its arrays."""
    model = load_vision_model(str(viewers.folder(kind)))
    attention.install_attention()
    asked: list[tuple[Job, Parts]] = [
        (greedy("a", [], 20), [prompt(1, 9), MEDIA[0], prompt(2, 8)]),
        (greedy("b", [], 20), [prompt(3, 30)]),
        (greedy("c", [], 20, choices=2), [MEDIA[1], prompt(2, 8), MEDIA[3], prompt(2, 3)]),
    ]
    runner = make_runner(model)
    runner._rows._batch._traced = traced = TracedPasses()
    course = run(runner, [showing(model, kind, job, parts) for job, parts in asked])
    assert not traced._untraceable
    assert traced._traces
    for job, parts in asked:
        outcome = course.outcomes[job.id]
        assert (outcome.tokens, outcome.reasons) == alone(viewers, kind, job, parts), job.id


@little_memory
@pytest.mark.parametrize("kind", some(KINDS, 8))
def test_preempted_rows_go_on_as_if_nothing_had_been(viewers: VisionEngines, kind: str) -> None:
    """The positions of what they had generated, too, are those after the pictures."""
    model = load_vision_model(str(viewers.folder(kind)))
    attention.install_attention()
    asked: list[tuple[Job, Parts]] = [
        (greedy("a", [], 30), [prompt(1, 9), MEDIA[0], prompt(2, 8)]),
        (greedy("b", [], 30), [prompt(3, 30)]),
        (greedy("c", [], 30, choices=2), [MEDIA[1], prompt(2, 8), MEDIA[3], prompt(4, 6)]),
    ]
    jobs = [showing(model, kind, job, parts) for job, parts in asked]
    runner = make_runner(model, tight(model, jobs, 5))
    preempted = preemptions(runner)
    course = run(runner, jobs)
    assert {"a", "c"} & set(preempted)
    for job, parts in asked:
        outcome = course.outcomes[job.id]
        assert (outcome.tokens, outcome.reasons) == alone(viewers, kind, job, parts), job.id


@pytest.mark.parametrize("options", some([QUANTIZED, {"max_kv_size": 40}], 2), ids=str)
def test_bounded_and_quantised_caches(viewers: VisionEngines, options: dict[str, Any]) -> None:
    """In company, in pieces and from the cache as alone; and they change something."""
    kind = "qwen3_vl"
    whole = viewers.get(kind, prompt_cache_bytes=0, prefill_step_size=4096, **options)
    pieces = viewers.get(kind, prefill_step_size=6, **options)
    asked: list[tuple[Job, Parts]] = [
        (greedy(str(number), [], 20), [prompt(1, 12), picture_, prompt(2, 9)]) for number, picture_ in enumerate(MEDIA)
    ]
    expected = {job.id: whole.alone(showing(whole.model, kind, job, parts)).tokens for job, parts in asked}
    assert any(expected[job.id] != alone(viewers, kind, job, parts)[0] for job, parts in asked)
    for _ in range(2):
        results = pieces.run([showing(pieces.model, kind, job, parts) for job, parts in asked])
        assert {name: result.tokens for name, result in results.items()} == expected


@pytest.mark.parametrize("kind", some(KINDS, 4))
def test_proposed_tokens_change_no_token(viewers: VisionEngines, kind: str) -> None:
    """Also behind media, where a row's next position is not its length."""
    model = load_vision_model(str(viewers.folder(kind)))
    attention.install_attention()
    jobs = [
        showing(model, kind, greedy("a", [], 20), [prompt(1, 5), image(1), prompt(2, 9)]),
        showing(model, kind, Job("b", [], SamplingParams(seed=2, temperature=0.8), 15, 2), [prompt(3, 7)]),
        showing(model, kind, greedy("c", [], 17), [image(2), prompt(4, 5), image(3, 48, 32), prompt(5, 3)]),
    ]
    answers = {job.id: run(make_runner(model), [job]).outcomes[job.id].tokens for job in jobs}
    for right in (1.0, 0.6):
        guesses = Speculation([Oracle(answers, right)], FixedController(4), model.vocab_size)
        course = run(make_runner(model, speculation=guesses), jobs)
        assert {job.id: course.outcomes[job.id].tokens for job in jobs} == answers
        assert any(one.verified for step in course.steps for one in step.tokens)
    found = finish(calibration.find_verify_mode(model, TextOptions(), BatchMode.SHARED))
    assert found is VerifyMode.TOGETHER


@pytest.mark.parametrize("traced", [False, True])
def test_rows_keep_what_is_right_of_a_pass(
    viewers: VisionEngines, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, traced: bool
) -> None:
    """mlx-vlm's recurrent layers say what they remember behind each token, so none is read again."""
    monkeypatch.setattr(traced_pass, "RUNS_BEFORE_TRACE", 0)
    caplog.set_level(logging.INFO)
    model = load_vision_model(str(viewers.folder("qwen3_5")))
    attention.install_attention()
    for seed, (mode, multiple) in enumerate([(BatchMode.SHARED, 4), (BatchMode.BY_LENGTH, 1)]):
        batch = Batch(model, mode, multiple, SHORT, traced=traced)
        let_rows_guess(model, batch, seed, tells_states=True)
        assert (batch.trace_count > 0) == traced
    assert "can't be traced" not in caplog.text


def test_a_heads_guesses_change_no_token(viewers: VisionEngines, tmp_path: Path) -> None:
    """It has read the media's embeddings at their positions; no guess is lost since it raised."""
    folder = shutil.copytree(viewers.folder("qwen3_5"), tmp_path / "headed")
    add_head(folder)
    model = load_vision_model(str(folder))
    headed = HeadedModel(model, load_head(model, folder))
    attention.install_attention()
    jobs = [
        showing(model, "qwen3_5", greedy("a", [], 20), [prompt(1, 5), image(1), prompt(2, 9)]),
        showing(model, "qwen3_5", greedy("b", [], 15, choices=2), [prompt(3, 7)]),
    ]
    answers = {job.id: run(make_runner(model), [job]).outcomes[job.id].tokens for job in jobs}
    for right in (1.0, 0.6):
        runner = head_runner(headed, 3, answers=answers, right=right, traced=right < 1)
        course = run(runner, jobs)
        assert {job.id: course.outcomes[job.id].tokens for job in jobs} == answers
        assert any(one.verified for step in course.steps for one in step.tokens)
        assert runner.speculation
        assert isinstance(oracle := runner.speculation._drafter, OracleHead)
        assert not oracle.errors
