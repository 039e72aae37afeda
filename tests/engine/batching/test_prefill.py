"""What a model is given: which tokens, embeddings and positions, in which pieces."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import mlx.core as mx
import pytest
from msgspec.structs import replace

from orchard.core.tasks.text_options import TextOptions
from orchard.engine.batching.batch import BatchMode
from orchard.engine.batching.job import Job, MediaSpan
from orchard.engine.batching.kv_cache import KVStore, is_quantized
from orchard.engine.batching.model import LanguageModel, PromptEmbeddings
from orchard.engine.batching.prefill import Prefill
from orchard.engine.prefix_cache.values import MEDIUM
from orchard.engine.ticket import Limits
from tests.engine.test_runner import little_memory, no_reserve, preemptions, tight
from tests.support.engine_driver import greedy, prompt
from tests.support.media_jobs import Asked, digest, with_media
from tests.support.tiny_models import Course, Other, alone, make_runner, network, run, words

N, DELTA = 9, 100
CHUNKS = Limits(max_rows=64, memory_bytes=2**40, chunk=4, idle_chunk=4)

__all__ = ["no_reserve"]


class Pass(NamedTuple):
    """A forward pass: its tokens, and its positions as (3, 1, n) or (rows,) in lists; None: it was given none."""

    tokens: list[list[int]]
    positions: Any
    embedded: int

    @property
    def decodes(self) -> bool:
        return len(self.tokens[0]) == 1 and not self.embedded


def spied() -> tuple[LanguageModel, list[Pass]]:
    passes: list[Pass] = []

    def before(tokens: mx.array, given: dict[str, Any]) -> None:
        positions, embeddings = given["positions"], given["embeddings"]
        listed = None if positions is None else positions.tolist()
        passes.append(Pass(words(tokens), listed, 0 if embeddings is None else embeddings.shape[1]))

    return Other(network("qwen3"), before=before), passes


def embed_words(tokens: mx.array) -> mx.array:
    embeddings: mx.array = network("qwen3").network.model.embed_tokens(tokens)
    return embeddings


def three(count: int) -> mx.array:
    """Positions as M-RoPE has them, each unlike all others."""
    return mx.arange(count) + mx.array([1000, 2000, 3000])[:, None, None]


def embedded_job(name: str = "a", count: int = 6, delta: int = DELTA, positions: bool = True) -> Job:
    tokens = prompt(1, N)

    def embed(cached: int) -> PromptEmbeddings:
        if cached >= N - 1:
            return PromptEmbeddings(cached, position_delta=delta)
        embeddings = embed_words(mx.array([tokens[cached:]]))
        return PromptEmbeddings(cached, embeddings, three(N)[..., cached:] if positions else None, delta)

    span = MediaSpan(1, N - 1, digest(tokens))
    return greedy(name, tokens, count, embed=embed, spans=(span,))


def check_tokens(course: Course, jobs: Sequence[Job]) -> None:
    """The positions are only looked at, so the answers are those of the words themselves."""
    for job in jobs:
        plain = Job(job.id, job.prompt, job.params, job.max_tokens, job.choices)
        assert course.outcomes[job.id].tokens == alone(network("qwen3"), plain), job.id


def check_prompt(passes: list[Pass], sizes: list[int]) -> None:
    pieces = [one for one in passes if one.embedded]
    assert [one.embedded for one in pieces] == sizes
    assert [word for one in pieces for word in one.tokens[0]] == prompt(1, N)[: sum(sizes)]
    for axis, start in enumerate((1000, 2000, 3000)):
        places = [place for one in pieces for place in one.positions[axis][0]]
        assert places == list(range(start, start + sum(sizes)))


def test_pieces_of_an_embedded_prompt() -> None:
    model, passes = spied()
    runner = make_runner(model, CHUNKS)
    passes.clear()
    check_tokens(run(runner, [embedded_job()]), [embedded_job()])
    check_prompt(passes, [4, 4])
    # The last one is read by its id, at the place that follows the prompt's.
    assert [one.positions for one in passes[2:]] == [[N - 1 + DELTA + step] for step in range(len(passes) - 2)]
    assert passes[2].tokens == [[prompt(1, N)[-1]]]


@pytest.mark.parametrize(("delta", "positions"), [(0, True), (0, False), (DELTA, False)])
def test_positions_are_given_only_where_they_are_not_the_lengths(delta: int, positions: bool) -> None:
    model, passes = spied()
    runner = make_runner(model, CHUNKS)
    passes.clear()
    run(runner, [embedded_job(delta=delta, positions=positions)])
    assert {one.positions is None for one in passes if one.embedded} == {not positions}
    assert {one.positions is None for one in passes if not one.embedded} == {delta == 0}


@pytest.mark.parametrize("mode", [BatchMode.SHARED, BatchMode.BY_LENGTH])
def test_positions_in_company(mode: BatchMode) -> None:
    """Every row of a pass has its own; a pass without such a row has none."""
    model, passes = spied()
    runner = make_runner(model, mode=mode, short=8)
    passes.clear()
    jobs = [embedded_job(), greedy("b", prompt(2, 3), 6), greedy("c", prompt(3, 20), 6), greedy("d", prompt(4, 12), 6)]
    check_tokens(run(runner, jobs), jobs)
    answer = alone(network("qwen3"), greedy("a", prompt(1, N), 6))[0]
    own = {tuple(prompt(1, N)[-1:] + answer)[step]: N - 1 + step for step in range(6)}
    shared = [one for one in passes if one.positions and len(one.tokens) > 1]
    assert shared
    for one in shared:
        assert len(one.positions) == len(one.tokens)
        moved = [(word, place) for (word,), place in zip(one.tokens, one.positions, strict=True) if place >= DELTA]
        ((word, place),) = moved
        assert place == own[word] + DELTA
    assert any(one.positions is None for one in passes if one.decodes) == (mode is BatchMode.BY_LENGTH)


def test_positions_of_the_rows_that_fill_a_group_up() -> None:
    model, passes = spied()
    runner = make_runner(model)
    runner._rows._batch._multiple = 4
    passes.clear()
    jobs = [embedded_job(), greedy("b", prompt(2, N), 6)]
    check_tokens(run(runner, jobs), jobs)
    (first, *_) = [one for one in passes if len(one.tokens) == 4]
    assert sorted(first.positions) == [N - 1, *[N - 1 + DELTA] * 3] or sorted(first.positions) == [
        *[N - 1] * 3,
        N - 1 + DELTA,
    ]


@little_memory
def test_positions_after_a_preemption() -> None:
    """The whole prompt is read from its embeddings then, and what was generated at the places it had."""
    model, passes = spied()
    jobs = [greedy("b", prompt(2, N), 30), embedded_job("a", 30)]
    runner = make_runner(model, tight(network("qwen3"), jobs, 15))
    preempted = preemptions(runner)
    passes.clear()
    check_tokens(run(runner, jobs), jobs)
    assert preempted == ["a"]
    again = passes[next(n for n, one in enumerate(passes) if one.embedded == N) :]
    check_prompt(again, [N])
    answer = alone(network("qwen3"), greedy("a", prompt(1, N), 30))[0]
    generated = next(one for one in again if not one.embedded and len(one.tokens[0]) > 1)
    count = len(generated.tokens[0])
    assert generated.tokens == [answer[:count]]
    assert generated.positions == list(range(N + DELTA, N + DELTA + count))
    first = next(one for one in again if one.decodes and one.tokens[-1] == [answer[count]])
    assert max(first.positions) == N + DELTA + count


def test_a_cached_prompt_goes_on_at_its_own_positions() -> None:
    model, passes = spied()
    runner = make_runner(model, cache_bytes=2**24)
    for known in (0, N - 1):
        passes.clear()
        course = run(runner, [embedded_job()])
        check_tokens(course, [embedded_job()])
        assert course.outcomes["a"].begun[0].cached_tokens == known
        assert next(one.positions for one in passes if one.decodes) == [N - 1 + DELTA]
    assert not any(one.embedded for one in passes)


def test_text_behind_a_cached_medium_is_read_at_its_own_positions() -> None:
    model, passes = spied()
    runner = make_runner(model, cache_bytes=2**24)
    run(runner, [embedded_job()])
    passes.clear()
    job = embedded_job()
    longer = replace(job, prompt=[*job.prompt, *prompt(2, 4)])
    check_tokens(run(runner, [longer]), [longer])
    assert passes[0].tokens == [longer.prompt[N:-1]]
    assert passes[0].positions == list(range(N + DELTA, N + DELTA + 3))


@pytest.mark.parametrize(
    ("kind", "boundaries", "options", "pieces"),
    [
        ("qwen3", (3, 8), {}, [10, 9]),  # it can be cut anywhere
        ("lfm2", (8, 16), {}, [8, 2, 6, 3]),
        ("lfm2", (3, 8, 15), {}, [8, 2, 9]),  # too soon after the beginning, and after another one
        ("lfm2", (10, 19, 20), {}, [10, 9]),
        ("gemma3_text", (3, 8), {}, [10, 9]),  # a window's tokens are still there after the pass
        ("qwen3", (), {"kv_bits": 8, "kv_group_size": 32, "quantized_kv_start": 4}, [4, 6, 9]),
        ("qwen3", (), {"kv_bits": 8, "kv_group_size": 32, "quantized_kv_start": 19}, [10, 9]),
    ],
)
def test_pieces(kind: str, boundaries: tuple[int, ...], options: dict[str, Any], pieces: list[int]) -> None:
    sizes: list[int] = []
    model = Other(network(kind), before=lambda tokens, given: sizes.append(tokens.shape[1]))
    reading = Prefill(prompt(1, 20), boundaries, KVStore(model, TextOptions(**options), 2**24))
    assert reading.tokens_left == 19
    assert reading.advance(model, 10) == 10
    assert reading.tokens_left == 9
    assert reading.advance(model, 100) == 9
    assert (reading.tokens_left, reading.tokens_read) == (0, 19)
    assert sizes == pieces


def test_where_prompts_are_read_whole_quantising_waits() -> None:
    sizes: list[int] = []
    model = Other(network("qwen3"), before=lambda tokens, given: sizes.append(tokens.shape[1]))
    options = TextOptions(kv_bits=8, kv_group_size=32, quantized_kv_start=4)
    Prefill(prompt(1, 20), (), KVStore(model, options, in_pieces=False)).advance(model, 10)
    assert sizes == [19]


@pytest.mark.parametrize(("kind", "pieces"), [("lfm2", [8, 3]), ("gemma3_text", [11])])
def test_what_is_known_is_not_read_again(kind: str, pieces: list[int]) -> None:
    sizes: list[int] = []
    model = Other(network(kind), before=lambda tokens, given: sizes.append(tokens.shape[1]))
    store = KVStore(model, TextOptions(), 2**24)
    Prefill(prompt(1, 20), (8,), store).advance(model, 100)
    reading = Prefill([*prompt(1, 12), *prompt(2, 8)], (8, 10, 16), store)
    assert (reading.cached_tokens, reading.tokens_left) == (8, 11)
    assert reading.miss
    assert reading.miss.place == 8
    sizes.clear()
    reading.advance(model, 100)
    assert sizes == pieces
    assert Prefill([*prompt(1, 12), *prompt(2, 5)], (), store).cached_tokens == 16


def test_a_paused_job_with_media_goes_on_from_what_it_had_computed() -> None:
    model, passes = spied()
    runner = make_runner(model, cache_bytes=2**24)
    course = Course()
    job = embedded_job(count=20)
    course.expect(job)
    runner.add(job)
    for _ in range(5):
        course.take(runner.step())
    runner.pause("a")
    while not runner.is_idle:
        course.take(runner.step())
    assert 1 < len(course.outcomes["a"].tokens[0]) < 20
    passes.clear()
    runner.resume("a")
    while not runner.is_idle:
        course.take(runner.step())
    check_tokens(course, [job])
    assert not any(one.embedded for one in passes)
    places = [one.positions[0] for one in passes if one.decodes]
    assert places == list(range(places[0], N + 19 + DELTA))


MEDIA = [(4, 9), (12, 17)]


def reading_of(pieces: list[tuple[int, ...]], store: KVStore | None = None, **how: Any) -> tuple[Prefill, Other]:
    """A prompt of twenty words with two media in it; `pieces` gets each pass's tokens, and how many are embedded."""

    def note(tokens: mx.array, given: dict[str, Any]) -> None:
        embeddings = given["embeddings"]
        pieces.append((tokens.shape[1], 0 if embeddings is None else embeddings.shape[1]))

    model = Other(network("qwen3"), before=note)
    job = with_media(greedy("a", prompt(1, 20)), MEDIA, embed_words, **how)
    store = store or KVStore(model, TextOptions(), 2**24)
    return Prefill(job.prompt, (), store, spans=job.spans, embed=job.embed), model


@pytest.mark.parametrize(
    ("divisible", "budget", "read", "pieces"),
    [
        (True, 6, [6, 6, 6, 1], [(6, 6)] * 3 + [(1, 1)]),
        (False, 4, [4, 5, 8, 2], [(4, 4), (5, 5), (8, 8), (2, 2)]),
        (False, 6, [9, 8, 2], [(9, 9), (8, 8), (2, 2)]),
        (False, 14, [17, 2], [(17, 17), (2, 2)]),
    ],
)
def test_a_medium_that_must_not_be_cut_is_read_in_one_pass(
    divisible: bool, budget: int, read: list[int], pieces: list[tuple[int, int]]
) -> None:
    found: list[tuple[int, ...]] = []
    reading, model = reading_of(found, divisible=divisible)
    counts: list[int] = []
    while reading.tokens_left:
        counts.append(reading.advance(model, budget))
    assert counts == read
    assert found == pieces


def test_media_are_encoded_when_their_turn_comes() -> None:
    asked: Asked = []
    found: list[tuple[int, ...]] = []
    reading, model = reading_of(found, at_once=False, asked=asked)
    assert asked == []
    reading.advance(model, 6)
    assert asked == [(0, 9)]
    reading.advance(model, 100)
    assert asked == [(0, 9), (9, 17)]
    assert found == [(6, 6), (3, 3), (8, 8), (2, 0)]


def test_which_chunks_begin_with_encoding() -> None:
    reading, model = reading_of([], at_once=False)
    found: list[tuple[int, bool]] = []
    for budget in (6, 3, 4, 4, 2):
        found.append((reading.tokens_read, reading.encodes_next))
        reading.advance(model, budget)
    assert found == [(0, True), (6, False), (9, True), (13, False), (17, False)]


def test_what_is_cached_is_not_encoded_again() -> None:
    store = KVStore(network("qwen3"), TextOptions(), 2**24)
    reading, model = reading_of([], store)
    reading.advance(model, 100)
    reading.save()
    asked: Asked = []
    again, _ = reading_of([], store, asked=asked)
    assert (again.cached_tokens, again.tokens_left, asked) == (19, 0, [])


@pytest.mark.parametrize(("differs", "known"), [(0, 4), (1, 12)])
def test_a_prompt_with_another_medium_parts_where_that_begins(differs: int, known: int) -> None:
    store = KVStore(network("qwen3"), TextOptions(), 2**24)
    reading, model = reading_of([], store)
    reading.advance(model, 100)
    reading.save()
    spans = list(with_media(greedy("a", prompt(1, 20)), MEDIA, embed_words).spans)
    spans[differs] = replace(spans[differs], digest=digest("another"))
    found = store.find(reading.tokens, spans)
    assert found.length == known
    assert found.miss
    assert (found.miss.place, found.miss.medium) == (known, differs + 1)
    assert max(found.miss.given) >= MEDIUM


@pytest.mark.parametrize(("length", "known"), [(4, 4), (5, 4), (8, 4), (9, 9), (11, 11)])
def test_what_is_known_of_a_shorter_prompt_holds_a_medium_whole(length: int, known: int) -> None:
    """As where the rest of the medium has left the cache."""
    store = KVStore(network("qwen3"), TextOptions(), 2**24)
    reading, model = reading_of([], store)
    reading.advance(model, 100)
    store.save(reading.tokens[:length], reading.cache, reading._spans[:1])
    assert store.find(reading.tokens, reading._spans).length == known


@pytest.mark.parametrize("start", [4, 6, 9])
@pytest.mark.parametrize("divisible", [True, False])
def test_quantising_begins_behind_a_medium(start: int, divisible: bool) -> None:
    """So what is cached before it and what is cached from there on meet at its end, in chunks of any size."""
    options = TextOptions(kv_bits=8, kv_group_size=32, quantized_kv_start=start)
    forms: list[list[tuple[int, bool]]] = []
    for budget in (3, 100):
        store = KVStore(network("qwen3"), options, 2**24)
        reading, model = reading_of([], store, divisible=divisible)
        forms.append([])
        while reading.tokens_left:
            reading.advance(model, budget)
            forms[-1].append((reading.tokens_read, is_quantized(reading.cache)))
        reading.save()
        assert store.find(reading.tokens, reading._spans).length == 19
    place = 4 if start == 4 else 9
    assert all(quantised == (done >= place) for form in forms for done, quantised in form)
