"""A row's cache goes into pieces and snapshots, comes back, and goes on as if nothing had been."""

import itertools
from collections.abc import Callable
from typing import Any

import mlx.core as mx
import pytest
from mlx_lm.models.cache import ArraysCache, CacheList, ChunkedKVCache, KVCache, QuantizedKVCache, RotatingKVCache

from orchard.core.tasks.text_options import TextOptions
from orchard.engine.batching import kv_cache
from orchard.engine.batching.batch import BatchMode
from orchard.engine.batching.layer_kinds import KINDS
from orchard.engine.batching.model import LanguageModel
from orchard.engine.calibration import find_batch_mode
from tests.engine.batching.test_batch import MODELS, every_model
from tests.support.engine_driver import greedy, prompt
from tests.support.examples import some
from tests.support.tiny_models import Other, check_close, make_runner, network, run

AROUND = [1, 2, 16, 17, 20, 21, 256, 257]


def read(model: LanguageModel, tokens: list[int], *lengths: int) -> list[Any]:
    """Read tokens in pieces that end at these places."""
    cache, done = model.new_cache(), 0
    for length in (*lengths, len(tokens)):
        if done < length <= len(tokens):
            model.forward(mx.array([tokens[done:length]]), cache)
            done = length
    return cache


def brought_back(model: LanguageModel, cache: list[Any], length: int, *cuts: int) -> list[Any]:
    """Give a cache made of pieces that end at these places; of the last one, more was cut than is used."""
    places = [0, *(place for place in cuts if place < length), length]
    pairs = list(itertools.pairwise(places))
    pieces = [(kv_cache.cut(cache, start, stop), stop - start) for start, stop in pairs]
    restored = model.new_cache()
    kv_cache.restore(restored, pieces, kv_cache.snapshot(cache) if kv_cache.needs_snapshot(cache) else None, length)
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


@every_model
def test_what_is_kept_stays_as_it_was(make: Callable[[], LanguageModel]) -> None:
    """Rows write into their caches in place: neither the row that was kept nor one that came back may reach it."""
    model = make()
    tokens = prompt(3, 30)
    cache = read(model, tokens, 24)
    piece, state = kv_cache.cut(cache, 0, 30), kv_cache.snapshot(cache)

    def back() -> list[Any]:
        restored = model.new_cache()
        kv_cache.restore(restored, [(piece, 30)], state, 30)
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
    short, long = (kv_cache.snapshot(read(model, prompt(1, length))) for length in (16, 100))
    assert short.nbytes == long.nbytes > 0


def test_part_of_a_piece() -> None:
    model = network("qwen3")
    tokens = prompt(1, 40)
    piece = kv_cache.cut(read(model, tokens), 0, 40)
    restored = model.new_cache()
    kv_cache.restore(restored, [(piece.part(0, 9), 9), (piece.part(9, 40), 4)], None, 13)
    check_alike(model, restored, read(model, tokens[:13]), 2)


def test_plain_pieces_of_a_quantised_row() -> None:
    """A row is quantised from some length on; what it was before comes back quantised, too."""
    model = network("qwen3")
    tokens = prompt(1, 40)
    plain = read(model, tokens[:20])
    head = kv_cache.cut(plain, 0, 20)
    cache = kv_cache.quantized(plain, 8, 32)
    model.forward(mx.array([tokens[20:]]), cache)
    restored = kv_cache.quantized(model.new_cache(), 8, 32)
    kv_cache.restore(restored, [(head, 20), (kv_cache.cut(cache, 20, 40), 20)], None, 40)
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
    for _, layer in kv_cache.layers(cache):
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
        assert (kv_cache.cacheable(cache), kv_cache.needs_snapshot(cache)) == (cacheable, snapshot)


def test_layers_have_names_of_their_own() -> None:
    cache = [KVCache(), CacheList(KVCache(), CacheList(ArraysCache(1))), RotatingKVCache(8)]
    assert [name for name, _ in kv_cache.layers(cache)] == ["0", "1.0", "1.1.0", "2"]


def test_only_layers_that_keep_everything_are_quantised() -> None:
    cache = kv_cache.quantized([KVCache(), CacheList(KVCache(), ArraysCache(1)), RotatingKVCache(8)], 8, 32)
    kinds = [type(layer).__name__ for _, layer in kv_cache.layers(cache)]
    assert kinds == ["QuantizedKVCache", "QuantizedKVCache", "ArraysCache", "RotatingKVCache"]


def test_a_state_that_has_none() -> None:
    """A layer may leave some of its places empty."""
    cache = [ArraysCache(3)]
    cache[0].cache = [mx.ones((1, 2)), None, mx.zeros((1, 4))]
    restored = [ArraysCache(3)]
    kv_cache.restore(restored, [], kv_cache.snapshot(cache), 7)
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
        mode = find_batch_mode(model, TextOptions())
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
