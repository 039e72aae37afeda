"""What a prompt with media gives depends on nothing but the job. Here media stand for words of a text model."""

from pathlib import Path
from typing import Any

import mlx.core as mx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from orchard.backends.text.model import TextModel
from orchard.core.tasks.text_options import TextOptions
from orchard.engine.batching.job import Job
from orchard.engine.sampling.params import SamplingParams
from tests.engine.test_runner import little_memory, no_reserve, preemptions, tight
from tests.support.engine_driver import At, Driver, Engines, Happening, greedy, prompt
from tests.support.examples import examples, some
from tests.support.media_jobs import Asked, with_media
from tests.support.tiny_models import LOOSE, Course, alone, footprint, make_runner, network, run

# Cut at any token, kept where it once was (a window; a short convolution).
KINDS = ["qwen3", "gemma3_text", "lfm2"]
QUANTIZED = {"kv_bits": 8, "kv_group_size": 32, "quantized_kv_start": 40}
OPTIONS: list[dict[str, Any]] = [{}, {"prefill_step_size": 7}, {"prompt_cache_bytes": 0}]

__all__ = ["no_reserve"]

every_kind = pytest.mark.parametrize("kind", KINDS)
Runs = list[tuple[int, int]]


def shown(model: TextModel, job: Job, runs: Runs, **how: Any) -> Job:
    def words(tokens: mx.array) -> mx.array:
        embeddings: mx.array = model.network.model.embed_tokens(tokens)
        return embeddings

    return with_media(job, runs, words, **how)


@st.composite
def runs_in(draw: st.DrawFn, length: int) -> Runs:
    """Up to three runs of tokens, none of them the last one."""
    places = sorted(draw(st.sets(st.integers(0, length - 1), max_size=6)))
    return list(zip(places[::2], places[1::2], strict=False))


@st.composite
def media_mixes(draw: st.DrawFn) -> list[tuple[Job, Runs, dict[str, bool], At | None]]:
    """Jobs with media and without, of few texts, that join at once or at a token of an earlier one."""
    mix: list[tuple[Job, Runs, dict[str, bool], At | None]] = []
    for name in "abcde"[: draw(st.integers(2, 5))]:
        tokens = prompt(draw(st.integers(0, 1)), draw(st.integers(1, 90)))
        params = SamplingParams(seed=draw(st.integers(0, 9)), temperature=draw(st.sampled_from([0.0, 1.0])))
        marks = draw(st.sets(st.sampled_from([10, 40, 80])))
        runs = draw(runs_in(len(tokens)))
        free = tuple(sorted(mark for mark in marks if not any(a < mark < b for a, b in runs)))
        job = Job(name, tokens, params, draw(st.integers(1, 20)), draw(st.integers(1, 2)), boundaries=free)
        how = {"divisible": draw(st.booleans()), "at_once": draw(st.booleans())}
        at = At(draw(st.sampled_from([one[0].id for one in mix])), draw(st.integers(0, 15))) if mix else None
        mix.append((job, runs, how, at if draw(st.booleans()) else None))
    return mix


@pytest.mark.parametrize(("kind", "options"), some([(kind, one) for kind in KINDS for one in OPTIONS], 4), ids=str)
@examples(6, derandomize=True, database=None)
@given(mix=media_mixes())
def test_company_changes_nothing(engines: Engines, kind: str, options: dict[str, Any], mix: Any) -> None:
    """Nor do the media of other prompts with the same tokens, which are in the cache: the texts are few."""
    driver = engines.get(kind, **options)
    first: list[Job] = []
    later: list[Happening] = []
    for job, runs, how, at in mix:
        own = shown(driver.model, job, runs, **how)
        later.append((at, own)) if at else first.append(own)
    results = driver.run(first, later)
    for job, *_ in mix:
        expected = engines.alone(kind, job)
        assert (results[job.id].tokens, results[job.id].reasons) == (expected.tokens, expected.reasons), job.id


@pytest.mark.parametrize(
    ("kind", "form"),
    some([("qwen3", {}), ("gemma3_text", {}), ("qwen3", QUANTIZED), ("lfm2", {}), ("qwen3", {"max_kv_size": 64})], 2),
    ids=str,
)
def test_a_conversation_about_pictures(engines: Engines, kind: str, form: dict[str, Any], tmp_path: Path) -> None:
    """Each turn encodes only what is new, in memory and after a restart."""
    texts = [prompt(1, 60), prompt(1, 60) + prompt(2, 70), prompt(1, 60) + prompt(2, 70) + prompt(3, 20)]
    runs: list[Runs] = [[(10, 50)], [(10, 50), (70, 100), (102, 120)], [(10, 50), (70, 100), (102, 120)]]
    options: dict[str, Any] = {"prompt_cache_dir": str(tmp_path), "prefill_step_size": 4096, **form}
    plain = engines.get(kind, prompt_cache_bytes=0, prefill_step_size=4096, **form)
    jobs = [greedy(str(turn), text, 4) for turn, text in enumerate(texts)]
    expected = [plain.alone(job).tokens for job in jobs]

    def turn(driver: Driver, number: int) -> tuple[int | None, Asked]:
        asked: Asked = []
        found = driver.alone(shown(driver.model, jobs[number], runs[number], asked=asked))
        assert found.tokens == expected[number], number
        return found.cached_tokens, asked

    # Keys and values of the last token were computed, too, but there is a snapshot only where a prompt was read to.
    last = 0 if kind == "qwen3" and "max_kv_size" not in form else 1
    with engines.fresh(kind, **options) as driver:
        assert turn(driver, 0) == (0, [(0, 60)])
        assert turn(driver, 1) == (60 - last, [(60 - last, 130)])
        assert turn(driver, 1) == (129, [])
    with engines.fresh(kind, **options) as driver:
        assert turn(driver, 2) == (130 - last, [])
        assert turn(driver, 0) == (59, [])


@every_kind
def test_prompts_that_differ_in_a_medium_share_what_comes_before_it(engines: Engines, kind: str) -> None:
    """Whatever else is the same, the tokens before all."""
    runs: Runs = [(10, 30), (35, 36), (43, 60)]
    with engines.fresh(kind) as driver:
        for seed, (start, stop) in enumerate(runs):
            text, other = prompt(seed, 70), prompt(seed, 70)
            other[stop - 1] = (other[stop - 1] + 1) % 300
            jobs = [shown(driver.model, greedy("a", words, boundaries=(10, 35, 43)), runs) for words in (text, other)]
            assert jobs[0].prompt == jobs[1].prompt
            for known in (0, start):
                found = driver.alone(jobs[known > 0])
                assert found.cached_tokens == known
                assert found.tokens == engines.alone(kind, greedy("a", (text, other)[known > 0])).tokens


@pytest.mark.parametrize("cut", [3, 512])
def test_the_words_of_a_prompt_are_scored_behind_media(cut: int) -> None:
    """A medium's own tokens are scored as what they are, which says nothing."""
    model = network("qwen3")
    job = replace(greedy("a", prompt(1, 40), 3), prompt_logprobs=2)
    runs = [(5, 12), (20, 31)]
    scores = []
    for one in (job, shown(model, job, runs), shown(model, job, runs)):
        runner = make_runner(model, replace(LOOSE, chunk=cut, idle_chunk=cut), cache_bytes=2**24)
        outcome = run(runner, [one]).outcomes["a"]
        assert outcome.tokens == alone(model, greedy("a", prompt(1, 40), 3))
        scores.append(outcome.scored)
    words = [n for n in range(39) if not any(start <= n + 1 < stop for start, stop in runs)]
    for other in scores[1:]:
        assert len(other) == 39
        for n in words:
            assert other[n].token == scores[0][n].token
            assert other[n].logprob == pytest.approx(scores[0][n].logprob, abs=1e-3)


@little_memory
@pytest.mark.parametrize(("kind", "cache_bytes"), some([(kind, size) for size in (2**24, 0) for kind in KINDS], 6))
def test_preempted_jobs_with_media_go_on_as_if_nothing_had_been(kind: str, cache_bytes: int) -> None:
    model = network(kind)
    plain = [
        greedy("a", prompt(1, 20), 40),
        Job("b", prompt(2, 22), SamplingParams(seed=3), 25, choices=2),
        greedy("c", prompt(3, 30), 50),
        Job("d", prompt(4, 12), SamplingParams(seed=4), 30, priority="background"),
    ]
    runs: dict[str, Runs] = {"a": [(2, 11), (13, 19)], "b": [(1, 21)], "c": [(5, 6)]}
    jobs = [shown(model, job, runs.get(job.id, []), divisible=job.id != "a") for job in plain]
    runner = make_runner(model, tight(model, jobs, 12), cache_bytes=cache_bytes)
    preempted = preemptions(runner)
    course = run(runner, jobs)
    assert set(preempted) & set(runs)
    for job in plain:
        assert course.outcomes[job.id].tokens == alone(model, job), job.id


def encoding(name: str, media_bytes: int, count: int = 3) -> Job:
    job = shown(network("qwen3"), greedy(name, prompt(1, 20), count), [(2, 11)])
    return replace(job, media_bytes=media_bytes)


def test_media_that_can_never_be_encoded_are_refused_with_the_numbers() -> None:
    limits = replace(LOOSE, memory_bytes=10_000_000)
    course = run(make_runner(network("qwen3"), limits), [encoding("a", 9_000_000), encoding("b", 12_345_678)])
    assert course.outcomes["a"].tokens == alone(network("qwen3"), greedy("a", prompt(1, 20), 3))
    (broken,) = [one for step in course.steps for one in step.failures]
    assert (broken.job, broken.too_large) == ("b", True)
    assert "the encoding of its media (12,345,678); there are at most 10,000,000 for all requests" in broken.message


@little_memory
def test_an_answer_leaves_memory_to_encode_its_media_again() -> None:
    """Else a job that is preempted late could never go on."""
    model = network("qwen3")
    size = footprint(model, TextOptions())
    growth = size.bytes(21) - size.bytes(20)
    limits = replace(LOOSE, memory_bytes=size.bytes(20) + 10 * growth + 5_000_000)
    outcome = run(make_runner(model, limits), [encoding("a", 5_000_000, 30)]).outcomes["a"]
    assert (len(outcome.tokens[0]), outcome.reasons) == (10, ["length"])


def test_media_are_encoded_one_after_the_other_where_memory_is_short() -> None:
    """What encoding takes is free again once a prompt has been read, while its answer goes on."""
    limits = replace(LOOSE, memory_bytes=10_000_000)
    course = run(make_runner(network("qwen3"), limits), [encoding(name, 6_000_000, 20) for name in "ab"])
    begun = [number for number, step in enumerate(course.steps) for _ in step.starts]
    ended = [number for number, step in enumerate(course.steps) for one in step.tokens if one.reason]
    assert begun[0] < begun[1] < ended[0]


def test_rows_wait_for_the_media_of_one_prompt_at_a_time() -> None:
    model = network("qwen3")
    asked: Asked = []
    jobs = [shown(model, greedy(name, prompt(n, 20), 5), [(2, 11)], asked=asked) for n, name in enumerate("abc")]
    runner = make_runner(model)
    counts: list[int] = []

    def meanwhile(course: Course) -> list[Job]:
        counts.append(len(asked))
        return jobs if len(course.steps) == 3 else []

    course = run(runner, [greedy("stream", prompt(9, 5), 30)], meanwhile)
    assert counts[3:7] == [1, 2, 3, 3]
    for job in jobs:
        assert course.outcomes[job.id].tokens == alone(model, job)


def test_media_of_all_prompts_are_encoded_at_once_where_no_row_waits() -> None:
    model = network("qwen3")
    asked: Asked = []
    runner = make_runner(model)
    for n, name in enumerate("abc"):
        runner.add(shown(model, greedy(name, prompt(n, 20), 5), [(2, 11)], asked=asked))
    runner.step()
    assert len(asked) == 3
