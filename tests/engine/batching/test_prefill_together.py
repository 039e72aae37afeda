"""Prompts that are read in one pass give what each gives alone."""

import itertools
import random
from collections.abc import Callable, Sequence
from typing import Any

import mlx.core as mx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mlx_lm.models.cache import QuantizedKVCache, RotatingKVCache

from orchard.core.tasks.text_options import TextOptions
from orchard.engine import calibration
from orchard.engine.batching.job import Job
from orchard.engine.batching.kv_cache import Cache, KVStore
from orchard.engine.batching.layer_kinds import Unbatchable
from orchard.engine.batching.model import LanguageModel
from orchard.engine.batching.prefill import group_by_length, read_rows, warm_up_prefill
from orchard.engine.scheduler import Scheduler
from orchard.engine.ticket import Limits
from tests.engine.batching.test_prefill import embedded_job
from tests.engine.test_runner import BAD, bad, check_broken, check_the_others, sampled, unlucky
from tests.support.engine_driver import greedy, prompt
from tests.support.examples import examples, some
from tests.support.tiny_models import Course, Other, alone, check_close, make_runner, network, run
from tests.support.units import finish

KINDS = ["qwen3", "qwen3_moe"]
QUANTIZED: dict[str, Any] = {"kv_bits": 8, "kv_group_size": 32}


def limits(chunk: int, pieces: int = 8) -> Limits:
    return Limits(max_rows=64, memory_bytes=2**40, chunk=chunk, idle_chunk=chunk, pieces=pieces)


def spied(kind: str) -> tuple[LanguageModel, list[tuple[int, ...]]]:
    """Give a model, and the list to which its passes over more than one token a row will be added: rows, tokens."""
    passes: list[tuple[int, ...]] = []

    def before(tokens: mx.array, given: dict[str, Any]) -> None:
        if tokens.shape[1] > 1:
            passes.append(tuple(tokens.shape))

    return Other(network(kind), before=before), passes


def begun(model: LanguageModel, lengths: Sequence[int]) -> tuple[list[list[int]], list[Cache]]:
    prompts = [prompt(length, length + 40) for length in lengths]
    caches = []
    for tokens, length in zip(prompts, lengths, strict=True):
        caches.append(model.new_cache())
        if length:
            model.forward(mx.array([tokens[:length]]), caches[-1])
    return prompts, caches


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("before", [[0, 0, 0], [7, 7, 7], [5, 300, 61]], ids=str)
@pytest.mark.parametrize("quantized", [False, True])
def test_what_is_read_at_once(kind: str, before: list[int], quantized: bool) -> None:
    """Also in a second pass; and the caches that it began with are as they were."""
    model = Other(network(kind), lambda: [QuantizedKVCache(32, 8) for _ in range(2)]) if quantized else network(kind)
    prompts, caches = begun(model, before)
    _, own = begun(model, before)
    found = caches
    places = list(before)
    for counts in ([9, 30, 1], [3, 2, 7]):
        pieces = [tokens[at : at + count] for tokens, at, count in zip(prompts, places, counts, strict=True)]
        found, _, arrays = read_rows(model, list(zip(found, pieces, strict=True)))
        mx.eval(arrays)
        places = [place + count for place, count in zip(places, counts, strict=True)]
    for tokens, cache, expected, place, first in zip(prompts, found, own, places, before, strict=True):
        assert cache[0].offset == place
        model.forward(mx.array([tokens[first:place]]), expected)
        for word in tokens[place : place + 2]:
            given = mx.array([[word]])
            check_close(model.forward(given, cache)[0, -1], model.forward(given, expected)[0, -1], place)
    assert [cache[0].offset for cache in caches] == before


def test_only_rows_that_keep_every_token() -> None:
    model = Other(network("qwen3"), lambda: [RotatingKVCache(20), RotatingKVCache(20)])
    with pytest.raises(Unbatchable, match="RotatingKVCache"):
        read_rows(model, [(model.new_cache(), [1, 2]), (model.new_cache(), [3])])


@pytest.mark.parametrize("kind", ["qwen3", "gemma3_text", "lfm2", "qwen3_next", "qwen3_moe"])
def test_which_models_can(kind: str) -> None:
    assert calibration.can_batch_prefill(network(kind), TextOptions()) == (kind in KINDS)


@pytest.mark.parametrize("options", [QUANTIZED, {**QUANTIZED, "quantized_kv_start": 5}], ids=str)
def test_quantised_ones_can(options: dict[str, Any]) -> None:
    assert calibration.can_batch_prefill(network("qwen3"), TextOptions(**options))


def test_a_model_that_takes_one_row_only() -> None:
    model = unlucky(lambda tokens: len(tokens) > 1)
    assert not calibration.can_batch_prefill(model, TextOptions())


@given(st.lists(st.tuples(st.integers(0, 9000), st.integers(1, 2048)), max_size=40), st.integers(1, 40_000))
def test_sets_waste_little(pieces: list[tuple[int, int]], most: int) -> None:
    sets = group_by_length(pieces, most)
    assert sorted(index for one in sets for index in one) == list(range(len(pieces)))
    for one in sets:
        before, own = ([pieces[index][part] for index in one] for part in range(2))
        assert len(one) * max(before) <= 2 * sum(before)
        assert len(one) * max(own) <= max(1.25 * sum(own), sum(own) + 32 * len(one))
        assert len(one) == 1 or len(one) * (max(before) + max(own)) <= most


def test_likes_share_a_set() -> None:
    assert group_by_length([(0, 270), (0, 265), (0, 300), (0, 256)], 4096) == [[2, 0, 1, 3]]
    assert group_by_length([(0, 20), (0, 1000), (0, 30)], 4096) == [[1], [2, 0]]
    assert group_by_length([(4000, 40), (10, 40), (4000, 50)], 2**20) == [[2, 0, 1]]
    assert group_by_length([(4000, 40), (4000, 50)], 8000) == [[1], [0]]


JOBS = [
    greedy("a", prompt(1, 40), 12),
    sampled("b", prompt(2, 33), 12, choices=2),
    greedy("c", prompt(3, 1), 12),
    sampled("d", prompt(4, 61), 12),
    greedy("e", prompt(1, 52), 12),
]


@pytest.mark.parametrize(
    ("chunk", "cache_bytes", "start", "kind"),
    some([*itertools.product([5, 64, 512], [0, 2**24], [None, 20], KINDS)], 5),
)
def test_company_changes_nothing(chunk: int, cache_bytes: int, start: int | None, kind: str) -> None:
    """Read anew, and gone on with from what the cache has of them, of one as well as of several."""
    options = {} if start is None else {**QUANTIZED, "quantized_kv_start": start}
    model, passes = spied(kind)
    runner = make_runner(model, limits(chunk), cache_bytes=cache_bytes, batched_prefill=True, **options)
    for _ in range(2):
        passes.clear()
        course = run(runner, JOBS)
        for job in JOBS:
            assert course.outcomes[job.id].tokens == alone(network(kind), job, **options), job.id
        assert cache_bytes or any(rows > 1 for rows, _ in passes)


@examples(15)
@given(st.integers(0, 2**32))
def test_prompts_come_and_go(seed: int) -> None:
    rng = random.Random(seed)
    runner = make_runner(network("qwen3"), limits(rng.choice([16, 100, 300])), cache_bytes=2**24, batched_prefill=True)
    jobs = [
        sampled(
            str(n), prompt(rng.randrange(3), rng.randrange(1, 120)), rng.randrange(1, 9), choices=rng.randrange(1, 3)
        )
        for n in range(10)
    ]
    later = jobs[4:]
    gone: set[str] = set()

    def meanwhile(course: Course) -> list[Job]:
        if rng.random() < 0.2:
            name = rng.choice(list(course.outcomes))
            runner.cancel(name)
            if None in course.outcomes[name].reasons:
                gone.add(name)
                course.outcomes[name].reasons = ["length"] * len(course.outcomes[name].reasons)
        return [later.pop() for _ in range(min(rng.randrange(3), len(later)))]

    course = run(runner, jobs[:4], meanwhile)
    while later:
        course.outcomes |= run(runner, [later.pop()]).outcomes
    for job in jobs:
        for got, expected in zip(course.outcomes[job.id].tokens, alone(network("qwen3"), job), strict=True):
            assert got == (expected[: len(got)] if job.id in gone else expected), job.id


def test_users_of_one_prefix_are_read_at_once() -> None:
    model, passes = spied("qwen3")
    runner = make_runner(model, limits(512), cache_bytes=2**24, batched_prefill=True)
    head = prompt(1, 200)
    run(runner, [greedy("first", [*head, 1, 2], 1)])
    passes.clear()
    jobs = [greedy(str(n), [*head, n, *prompt(n, 9 + n)], 8) for n in range(3, 8)]
    course = run(runner, jobs)
    for job in jobs:
        assert course.outcomes[job.id].tokens == alone(network("qwen3"), job)
        assert course.outcomes[job.id].begun[0].cached_tokens == 200
    assert [rows for rows, _ in passes] == [8]  # five, filled up


@pytest.mark.parametrize("fails", [lambda tokens: len(tokens) > 1 and len(tokens[0]) > 1, bad], ids=["all", "one"])
def test_a_pass_that_fails(fails: Callable[[list[list[int]]], bool]) -> None:
    """Each goes on in a pass of its own, so that only the one to blame fails."""
    tokens = prompt(9, 30)
    tokens[11] = BAD
    guilty = [greedy("bad", tokens)] if fails is bad else []
    course = run(make_runner(unlucky(fails), limits(512), batched_prefill=True), [*JOBS, *guilty])
    check_the_others(course, JOBS)
    for job in guilty:
        check_broken(course, job.id)


def test_an_embedded_prompt_has_a_pass_of_its_own() -> None:
    model, passes = spied("qwen3")
    course = run(make_runner(model, limits(512), batched_prefill=True), [embedded_job("embedded", delta=0), *JOBS])
    check_the_others(course, JOBS)
    assert (1, 8) in passes or (1, 9) in passes
    assert any(rows > 1 for rows, _ in passes)


def test_little_memory_for_copies(monkeypatch: pytest.MonkeyPatch) -> None:
    model, passes = spied("qwen3")
    runner = make_runner(model, limits(512), batched_prefill=True)
    monkeypatch.setattr(Scheduler, "spare_bytes", 80 * runner._footprint.per_token)
    check_the_others(run(runner, JOBS), JOBS)
    assert all(rows == 1 or rows * count <= 80 for rows, count in passes)


def test_the_sizes_that_are_tried_beforehand() -> None:
    model, passes = spied("qwen3")
    finish(warm_up_prefill(model, 256))
    assert passes[:3] == [(1, 64), (2, 64), (4, 64)]
    assert passes[3:] == [(1, 128), (2, 128), (1, 192), (1, 256)]
    assert len(list(warm_up_prefill(network("qwen3"), 256, logits=True, traced=True))) == len(passes) + 2


def test_those_who_find_the_same_share_it_until_one_writes() -> None:
    model = network("qwen3")
    store = KVStore(model, TextOptions(), 2**24)
    tokens = prompt(1, 30)
    cache = store.new_cache()
    model.forward(mx.array([tokens]), cache)
    store.save(tokens, cache)
    first, second = (store.find([*tokens, 1, 2]).cache for _ in range(2))
    model.forward(mx.array([[7, 8]]), first)
    store.end_admission()
    for word in (1, 2):
        given = mx.array([[word]])
        check_close(model.forward(given, second), model.forward(given, cache))
