"""A row's cache goes into pieces and snapshots, comes back, and goes on as if nothing had been.

Then: what is kept of rows, in which form, and what is said where it isn't there.
"""

import itertools
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mlx.core as mx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mlx_lm.models.cache import ArraysCache, CacheList, ChunkedKVCache, KVCache, QuantizedKVCache, RotatingKVCache

from orchard.core.tasks.text_options import TextOptions
from orchard.engine.batching import kv_cache
from orchard.engine.batching.batch import BatchMode
from orchard.engine.batching.job import Job
from orchard.engine.batching.kv_cache import KVStore
from orchard.engine.batching.layer_kinds import KINDS
from orchard.engine.batching.model import LanguageModel
from orchard.engine.calibration import find_batch_mode
from orchard.engine.prefix_cache import cache_file
from orchard.engine.prefix_cache.cache import Miss
from tests.engine.batching.test_batch import MODELS, every_model
from tests.engine.prefix_cache.test_disk_io import settle
from tests.support.engine_driver import greedy, hold_scans, prompt
from tests.support.examples import examples, some
from tests.support.tiny_models import Other, alone, check_close, make_runner, network, run
from tests.support.units import finish

AROUND = [1, 2, 16, 17, 20, 21, 256, 257]


def read(model: LanguageModel, tokens: list[int], *lengths: int) -> list[Any]:
    """Read tokens in pieces that end at these places."""
    cache, done = model.new_cache(), 0
    for length in (*lengths, len(tokens)):
        if done < length <= len(tokens):
            model.forward(mx.array([tokens[done:length]]), cache)
            done = length
    return cache


def brought_back(model: LanguageModel, cache: list[Any], length: int, *cuts: int, stacked: bool = False) -> list[Any]:
    """Give a cache made of pieces that end at these places; `stacked`: copies, as the prefix cache has them."""
    places = [0, *(place for place in cuts if place < length), length]
    pairs = list(itertools.pairwise(places))
    pieces = [(kv_cache.cut_cache(cache, start, stop), stop - start) for start, stop in pairs]
    if stacked:
        pieces = [(piece.part(0, used), used) for piece, used in pieces]
    restored = model.new_cache()
    kv_cache.restore_cache(
        restored, pieces, kv_cache.snapshot_cache(cache) if kv_cache.needs_snapshot(cache) else None, length
    )
    return restored


def check_alike(model: LanguageModel, one: list[Any], other: list[Any], seed: int) -> None:
    """See that two caches give the same logits, token by token and for several at once."""
    for tokens in (*([word] for word in prompt(seed, 18)), prompt(seed + 1, 9), [3]):
        logits = [model.forward(mx.array([tokens]), cache) for cache in (one, other)]
        check_close(*logits)


@pytest.mark.parametrize(("length", "name"), some([*itertools.product(AROUND, MODELS)], 2))
def test_what_comes_back_goes_on(length: int, name: str) -> None:
    model = MODELS[name]()
    cache = read(model, prompt(length, length), length // 2)
    restored = brought_back(model, cache, length, 1, 7, 18)
    check_alike(model, restored, cache, length)


@pytest.mark.parametrize(("length", "name"), some([*itertools.product(AROUND, MODELS)], 2))
def test_pieces_are_joined_in_stacks(length: int, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kv_cache, "on_cuda", lambda: True)
    model = MODELS[name]()
    cache = read(model, prompt(length, length), length // 2)
    restored = brought_back(model, cache, length, 1, 7, 18, stacked=True)
    check_alike(model, restored, cache, length)


@every_model
def test_what_is_kept_stays_as_it_was(make: Callable[[], LanguageModel]) -> None:
    """Rows write into their caches in place: neither the row that was kept nor one that came back may reach it."""
    model = make()
    tokens = prompt(3, 30)
    cache = read(model, tokens, 24)
    piece, state = kv_cache.cut_cache(cache, 0, 30), kv_cache.snapshot_cache(cache)

    def back() -> list[Any]:
        restored = model.new_cache()
        kv_cache.restore_cache(restored, [(piece, 30)], state, 30)
        return restored

    for word in prompt(4, 24):
        model.forward(mx.array([[word]]), cache)
    other = back()
    for word in prompt(5, 24):
        model.forward(mx.array([[word]]), other)
    check_alike(model, back(), read(model, tokens, 24), 6)


def test_a_snapshot_has_no_more_than_the_window() -> None:
    """A prompt that is read in one piece leaves more in the cache."""
    model = network("gemma3_text")
    short, long = (kv_cache.snapshot_cache(read(model, prompt(1, length))) for length in (16, 100))
    assert short.nbytes == long.nbytes > 0


@pytest.mark.parametrize("name", ["windows", "ring"])
@examples(100)
@given(st.data())
def test_a_snapshot_of_a_place_within_the_last_pass(name: str, data: st.DataObject) -> None:
    """It is the one that a pass to that place would have left: a window's tokens are all still there."""
    model = MODELS[name]()
    start = data.draw(st.integers(0, 60))
    place = data.draw(st.integers(start + 1, start + 40))
    tokens = prompt(1, data.draw(st.integers(place, place + 40)))
    cache = read(model, tokens, start)
    assert kv_cache.looks_back(cache)
    restored = model.new_cache()
    state = kv_cache.snapshot_cache(cache, len(tokens) - place)
    kv_cache.restore_cache(restored, [(kv_cache.cut_cache(cache, 0, place), place)], state, place)
    check_alike(model, restored, read(model, tokens[:place], start), 2)
    assert state.nbytes == kv_cache.snapshot_cache(read(model, tokens[:place])).nbytes


def test_recurrent_states_have_no_way_back() -> None:
    kinds = {"gemma3_text": True, "lfm2": False, "qwen3_next": False}
    assert {kind: kv_cache.looks_back(network(kind).new_cache()) for kind in kinds} == kinds


@pytest.mark.parametrize("joins_stacks", [True, False])
def test_parts_of_a_piece(joins_stacks: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """On CUDA, the layers' parts are joined together."""
    monkeypatch.setattr(kv_cache, "on_cuda", lambda: joins_stacks)
    model = network("qwen3")
    tokens = prompt(1, 40)
    piece = kv_cache.cut_cache(read(model, tokens), 0, 40)
    restored = model.new_cache()
    kv_cache.restore_cache(restored, [(piece.part(0, 9), 9), (piece.part(9, 40), 4)], None, 13)
    check_alike(model, restored, read(model, tokens[:13]), 2)


def test_plain_pieces_of_a_quantised_row() -> None:
    """A row is quantised from some length on; what it was before comes back quantised, too."""
    model = network("qwen3")
    tokens = prompt(1, 40)
    plain = read(model, tokens[:20])
    head = kv_cache.cut_cache(plain, 0, 20)
    cache = kv_cache.quantize_cache(plain, 8, 32)
    model.forward(mx.array([tokens[20:]]), cache)
    restored = kv_cache.quantize_cache(model.new_cache(), 8, 32)
    kv_cache.restore_cache(restored, [(head, 20), (kv_cache.cut_cache(cache, 20, 40), 20)], None, 40)
    for layer, own in zip(restored, cache, strict=True):
        assert isinstance(layer, QuantizedKVCache)
        for part, same in zip([*layer.keys, *layer.values], [*own.keys, *own.values], strict=True):
            assert mx.array_equal(part[:, :, :40], same[:, :, :40])
    check_alike(model, restored, cache, 2)


@every_model
@pytest.mark.parametrize("length", [5, 16, 20, 40, 300])
def test_the_footprint(make: Callable[[], LanguageModel], length: int) -> None:
    """What it says of a row is what the row's arrays hold, but for room that is not used yet."""
    model = make()
    said = kv_cache.footprint(read(model, [1])).bytes(length)
    cache = read(model, prompt(1, length))
    known = 0
    for _, layer in kv_cache.named_layers(cache):
        match type(layer).__name__:
            case "ArraysCache":
                known += layer.nbytes
            case name:
                size = layer.keys[0].shape[2] if name == "QuantizedKVCache" else layer.keys.shape[2]
                tokens = min(length, getattr(layer, "max_size", length))
                known += layer.nbytes * tokens // size
    assert said == known


def test_kinds() -> None:
    """Which of them can be kept, and which need a snapshot for that."""
    dense, ring, states = KVCache(), RotatingKVCache(8), ArraysCache(2)
    for cache, cacheable, snapshot in (
        ([dense, QuantizedKVCache(32, 8)], True, False),
        ([CacheList(dense, dense)], True, False),
        ([dense, ring], True, True),
        ([dense, CacheList(dense, states)], True, True),
        ([dense, ChunkedKVCache(8)], False, True),
    ):
        assert (kv_cache.is_cacheable(cache), kv_cache.needs_snapshot(cache)) == (cacheable, snapshot)


def test_layers_have_names_of_their_own() -> None:
    cache = [KVCache(), CacheList(KVCache(), CacheList(ArraysCache(1))), RotatingKVCache(8)]
    assert [name for name, _ in kv_cache.named_layers(cache)] == ["0", "1.0", "1.1.0", "2"]


def test_only_layers_that_keep_everything_are_quantised() -> None:
    cache = kv_cache.quantize_cache([KVCache(), CacheList(KVCache(), ArraysCache(1)), RotatingKVCache(8)], 8, 32)
    kinds = [type(layer).__name__ for _, layer in kv_cache.named_layers(cache)]
    assert kinds == ["QuantizedKVCache", "QuantizedKVCache", "ArraysCache", "RotatingKVCache"]


def test_a_state_that_has_none() -> None:
    """A layer may leave some of its places empty."""
    cache = [ArraysCache(3)]
    cache[0].cache = [mx.ones((1, 2)), None, mx.zeros((1, 4))]
    restored = [ArraysCache(3)]
    kv_cache.restore_cache(restored, [], kv_cache.snapshot_cache(cache), 7)
    first, second, third = restored[0].cache
    assert mx.array_equal(first, mx.ones((1, 2)))
    assert second is None
    assert mx.array_equal(third, mx.zeros((1, 4)))


class UnheardOf(KVCache):  # type: ignore[misc]  # mlx-lm has no types
    """A kind of cache that nobody has told the engine about."""


def test_a_kind_of_cache_is_one_row(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a row its rows share passes and its prompts are kept; without one they take turns and aren't."""
    plain = network("qwen3")
    model = Other(plain, lambda: [UnheardOf() for _ in plain.new_cache()])
    job = greedy("a", prompt(1, 40), 12)

    def modes() -> tuple[BatchMode, int, list[int]]:
        mode = finish(find_batch_mode(model, TextOptions()))
        runner = make_runner(model, mode=mode, cache_bytes=2**24)
        run(runner, [job])
        again = run(runner, [job, greedy("b", prompt(1, 40), 12)]).outcomes["b"]
        return mode, again.begun[0].cached_tokens, again.tokens[0]

    expected = run(make_runner(plain), [job]).outcomes["a"].tokens[0]
    assert modes() == (BatchMode.SEQUENTIAL, 0, expected)
    monkeypatch.setitem(KINDS, "UnheardOf", KINDS["KVCache"])
    assert modes() == (BatchMode.SHARED, 39, expected)


@pytest.mark.parametrize("name", KINDS)
def test_each_kind_is_cut_or_has_snapshots(name: str) -> None:
    assert (KINDS[name].cut is None) != (KINDS[name].snapshot is None)


BUDGET = 2**24
START = 20
QUANTIZED: dict[str, Any] = {"kv_bits": 8, "kv_group_size": 32, "quantized_kv_start": START}


def kept(model: Any, tokens: list[int], **options: Any) -> KVStore:
    """A store that knows exactly these tokens."""
    store = KVStore(model, TextOptions(**options), BUDGET)
    cache = store.new_cache()
    model.forward(mx.array([tokens]), cache)
    store.save(tokens, cache)
    return store


@pytest.mark.parametrize("kind", ["qwen3", "gemma3_text", "lfm2"])
@pytest.mark.parametrize("length", [START - 1, START, START + 1, START + 2, 3 * START])
def test_a_prompt_around_the_place_where_quantising_begins(kind: str, length: int) -> None:
    """It is read once only, and what comes back gives the same tokens."""
    model = network(kind)
    runner = make_runner(model, cache_bytes=BUDGET, **QUANTIZED)
    job = greedy("a", prompt(length, length), 12)
    expected = alone(model, job, **QUANTIZED)
    for cached in (0, length - 1):
        outcome = run(runner, [job]).outcomes["a"]
        assert outcome.tokens == expected
        assert outcome.begun[0].cached_tokens == cached


@pytest.mark.parametrize("kind", ["qwen3", "gemma3_text", "lfm2"])
@pytest.mark.parametrize("company", [False, True])
def test_a_turn_that_crossed_that_place_is_found_again(kind: str, company: bool) -> None:
    model = network(kind)
    runner = make_runner(model, cache_bytes=BUDGET, **QUANTIZED)
    first = greedy("a", prompt(1, 10), 30)
    others = [greedy(str(n), prompt(n, 5 + n), 30) for n in range(2, 5)] if company else []
    answer = run(runner, [first, *others]).outcomes["a"].tokens
    assert answer == alone(model, first, **QUANTIZED)
    known = 10 + len(answer[0])
    text = first.prompt + answer[0] + prompt(2, 9)
    outcome = run(runner, [greedy("b", text, 12)]).outcomes["b"]
    assert outcome.begun[0].cached_tokens in (known - 1, known)
    # Read from its beginning, all that comes after the place would have been read in pieces of another size.
    assert len(outcome.tokens[0]) == 12
    if kind == "qwen3":
        head = greedy("c", text[: START + 3], 12)
        outcome = run(runner, [head]).outcomes["c"]
        assert outcome.begun[0].cached_tokens == START + 2
        assert outcome.tokens == alone(model, head, **QUANTIZED)


def test_what_is_not_known_any_more_in_its_first_form_is_not_kept() -> None:
    """Another prompt could part from it before the place where quantising begins, and must go on unquantised."""
    model = network("qwen3")
    store = KVStore(model, TextOptions(**QUANTIZED), BUDGET)
    cache = model.new_cache()
    model.forward(mx.array([prompt(1, 40)]), cache)
    store.save(prompt(1, 40), store.quantize_if_due(cache, 40))
    assert store.find(prompt(1, 40)).length == 0


def test_forms() -> None:
    store = KVStore(network("qwen3"), TextOptions(**QUANTIZED))
    for length, kind in ((0, "KVCache"), (START - 1, "KVCache"), (START, "QuantizedKVCache")):
        assert {type(layer).__name__ for layer in store.quantize_if_due(network("qwen3").new_cache(), length)} == {kind}
    assert [length for length in range(50) if store.quantizes_at(length)] == [START]
    from_the_first = KVStore(network("qwen3"), TextOptions(kv_bits=8, kv_group_size=32))
    assert {type(layer).__name__ for layer in from_the_first.new_cache()} == {"QuantizedKVCache"}
    assert not any(from_the_first.quantizes_at(length) for length in range(50))
    assert not any(KVStore(network("qwen3"), TextOptions()).quantizes_at(length) for length in range(50))


@pytest.mark.parametrize(
    ("kind", "options", "expected"),
    [
        ("qwen3", {}, []),
        ("qwen3", QUANTIZED, [START]),
        ("gemma3_text", {}, []),
        ("gemma3_text", QUANTIZED, [START]),
        ("lfm2", {}, [3, 30]),
        ("lfm2", QUANTIZED, [3, START, 30]),
        ("qwen3", {**QUANTIZED, "quantized_kv_start": 0}, []),
    ],
)
def test_where_reading_pauses(kind: str, options: dict[str, Any], expected: list[int]) -> None:
    assert KVStore(network(kind), TextOptions(**options), BUDGET).prefill_stops((3, 30)) == expected


def test_why_no_more_was_known() -> None:
    known = prompt(1, 60)
    store = kept(network("qwen3"), known)
    other = [*known[:30], 301, *prompt(2, 40)]
    found = store.find(other)
    assert found.length == 30
    assert found.miss == Miss(30, 14, known[14:46], other[14:46])


def test_a_text_that_goes_on_where_the_known_one_ends() -> None:
    known = prompt(1, 60)
    found = kept(network("qwen3"), known).find([*known, 1, 2, 3])
    assert found.length == 60
    assert found.miss == Miss(60, 44, known[44:], known[44:])


def test_a_text_of_which_nothing_is_known() -> None:
    found = KVStore(network("qwen3"), TextOptions(), BUDGET).find([5, 6, 7])
    assert (found.length, found.miss) == (0, Miss(0, 0, [], [5]))


def test_a_text_that_is_all_known() -> None:
    """Its last token is read all the same: it is the row's first input."""
    known = prompt(1, 60)
    found = kept(network("qwen3"), known).find(known)
    assert (found.length, found.miss) == (59, None)


def test_a_known_text_without_a_snapshot_where_another_parts() -> None:
    known = prompt(1, 60)
    found = kept(network("gemma3_text"), known).find([*known[:30], 301])
    assert found.length == 0
    assert found.miss
    assert found.miss.place == 30


@pytest.mark.parametrize("uncacheable", [False, True])
def test_a_store_that_keeps_nothing(uncacheable: bool) -> None:
    from mlx_lm.models.cache import ChunkedKVCache

    model = network("qwen3")
    other = Other(model, lambda: [ChunkedKVCache(64), ChunkedKVCache(64)]) if uncacheable else model
    store = KVStore(other, TextOptions(), BUDGET if uncacheable else 0)
    store.save([1, 2, 3], store.new_cache())
    assert store.find([1, 2, 3])[1:] == (0, None)
    assert not store.fetch([1, 2, 3], lambda: None)
    assert not store.write_back()
    assert store.counters() == {}
    store.close(0.0)


@pytest.mark.parametrize("kind", ["qwen3", "gemma3_text"])
def test_what_is_computed_sooner_is_not_fetched(kind: str, tmp_path: Path) -> None:
    model, tokens = network(kind), prompt(1, 60)
    kept(model, tokens, prompt_cache_dir=str(tmp_path)).close(30.0)
    store = KVStore(model, TextOptions(prompt_cache_dir=str(tmp_path)), BUDGET)
    assert store._disk
    settle(store._disk)
    fetched = threading.Event()
    store.tokens_per_second = 1e12
    assert not store.fetch([*tokens, 7], fetched.set)
    store.tokens_per_second = 1.0
    assert store.fetch([*tokens, 7], fetched.set)
    assert fetched.wait(30)
    assert store.find([*tokens, 7]).length == 60
    assert not store.fetch([*tokens, 7], fetched.set)
    store.close(10.0)


def test_what_is_found_is_what_was_read() -> None:
    model = network("gemma3_text")
    tokens = prompt(1, 40)
    found = kept(model, tokens).find([*tokens, 7])
    own = model.new_cache()
    model.forward(mx.array([tokens]), own)
    logits = [model.forward(mx.array([[7]]), cache) for cache in (own, found.cache)]
    check_close(*logits)


def test_choices_that_share_a_prompt_are_all_kept() -> None:
    model = network("qwen3")
    runner = make_runner(model, cache_bytes=BUDGET)
    params = greedy("", [0]).params
    hot = type(params)(seed=3, temperature=1.5)
    answers = run(runner, [Job("a", prompt(1, 20), hot, 10, choices=3)]).outcomes["a"].tokens
    for answer in answers:
        found = runner.store.find([*prompt(1, 20), *answer, 1])
        assert found.length in (19 + len(answer), 20 + len(answer))


def test_saving_at_the_end_waits_until_the_folder_can_be_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hold_scans(monkeypatch)
    store = kept(network("qwen3"), prompt(1, 60), prompt_cache_dir=str(tmp_path))
    store.close(30)
    assert len(list(tmp_path.glob("*/*.safetensors"))) == 1


def test_saving_at_the_end_does_not_wait_for_a_disk_that_hangs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hangs = threading.Event()
    monkeypatch.setattr(cache_file, "write_file", lambda *_: hangs.wait(30))
    store = kept(network("qwen3"), prompt(1, 60), prompt_cache_dir=str(tmp_path))
    assert store._disk
    settle(store._disk)
    store.close(0.01)
    assert store._disk._thread.is_alive(), "it is left behind with what it was at"
    hangs.set()
    store._disk._thread.join(30)
    assert not store._disk._thread.is_alive()
