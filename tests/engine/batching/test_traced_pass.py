"""When passes are traced, and that a trace keeps nothing. What they give is compared in test_batch."""

import gc
import logging
import weakref
from typing import Any

import mlx.core as mx
import pytest

from orchard.engine.batching import batch as batching
from orchard.engine.batching import traced_pass
from orchard.engine.batching.batch import Batch, BatchSlot
from orchard.engine.batching.batched_cache import GROWTH, Lengths
from orchard.engine.batching.model import LanguageModel
from orchard.engine.batching.traced_pass import RUNS_BEFORE_TRACE, TracedPasses
from tests.support.engine_driver import prompt
from tests.support.tiny_models import Other, check_close, network


def answers(model: LanguageModel, batch: Batch, lengths: list[int], steps: int) -> list[list[int]]:
    """What rows of so many tokens go on with, greedily, step by step."""
    slots = []
    for length in lengths:
        cache = model.new_cache()
        model.forward(mx.array([prompt(length, length)]), cache)
        slots.append(BatchSlot(cache, length))
    batch.arrange(slots)
    tokens = mx.array([1] * len(lengths))
    found = []
    for _ in range(steps):
        logits, failed = batch.forward(tokens)
        assert not failed
        assert logits is not None
        tokens = mx.argmax(logits, axis=-1)
        found.append(tokens.tolist())
    return found  # type: ignore[return-value]


def trace_count(batch: Batch) -> int:
    assert batch._traced is not None
    return len(batch._traced._traces)


def test_a_pass_is_compiled_once_it_has_been_run_a_few_times() -> None:
    model = network("qwen3")
    lengths = [5, 40, GROWTH - RUNS_BEFORE_TRACE - 4]  # the longest outgrows its room after the first trace
    expected = answers(model, Batch(model), lengths, 2 * RUNS_BEFORE_TRACE + 6)
    batch = Batch(model, traced=True)
    assert answers(model, batch, lengths, RUNS_BEFORE_TRACE) == expected[:RUNS_BEFORE_TRACE]
    assert trace_count(batch) == 0
    batch = Batch(model, traced=True)
    assert answers(model, batch, lengths, len(expected)) == expected
    assert trace_count(batch) == 2


def test_a_pass_of_several_tokens_is_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(traced_pass, "RUNS_BEFORE_TRACE", 2)
    model = network("lfm2")
    given = [[1, 2, 3], [4]]
    found: list[list[mx.array]] = [[], []]
    for of, traced in zip(found, (False, True), strict=True):
        batch = Batch(model, traced=traced)
        answers(model, batch, [5, 40], 1)
        for _ in range(4):
            logits, failed = batch.verify(given, [3, 1])
            assert logits is not None
            assert not failed
            of.append(logits[:, :1])  # the second row's others are padding
            batch.keep([3, 1])
    assert trace_count(batch) == 1
    for one, other in zip(*found, strict=True):
        check_close(one, other)


def test_a_pass_that_is_filled_up_is_compiled_at_once() -> None:
    """It has one of a few widths, so it comes again."""
    model = network("qwen3")
    batch = Batch(model, multiple=8, traced=True)
    cache = model.new_cache()
    model.forward(mx.array([prompt(1, 5)]), cache)
    slot = BatchSlot(cache, 5)
    slot.batched = True
    batch.arrange([slot])
    for given, made in (([1, 2, 3], 1), ([1, 2], 1), ([1] * 9, 2)):
        logits, failed = batch.verify([given], [len(given)])
        assert logits is not None
        assert not failed
        batch.keep([len(given)])
        assert batch.trace_count == made


def test_a_model_that_can_not_be_traced_is_served(caplog: pytest.LogCaptureFixture) -> None:
    plain = network("qwen3")
    expected = answers(plain, Batch(plain), [7, 9], RUNS_BEFORE_TRACE + 4)

    def look(tokens: mx.array, given: dict[str, Any]) -> None:
        tokens.tolist()  # what a trace can't do

    model = Other(plain, before=look)
    batch = Batch(model, traced=True)
    with caplog.at_level(logging.INFO, "orchard.engine"):
        assert answers(model, batch, [7, 9], RUNS_BEFORE_TRACE + 4) == expected
    assert [record.message for record in caplog.records if "traced" in record.message]


class Layer:
    """A layer that counts tokens."""

    def __init__(self, rows: int) -> None:
        self.arrays: list[Any] = [mx.zeros((rows,))]
        self.pass_arrays: list[Any] = []
        self.lengths: Any = None

    def begin(self, lengths: Any) -> None:
        self.lengths = lengths


def forward(tokens: mx.array, positions: Any, lengths: list[mx.array], groups: list[list[Any]]) -> mx.array:
    for layers in groups:
        for layer in layers:
            layer.arrays[0] = layer.arrays[0] + 1
    return tokens + lengths[0]


def run(passes: TracedPasses, layer: Layer) -> mx.array | None:
    rows = layer.arrays[0].shape[0]
    return passes.run(forward, mx.zeros((rows,)), [], [Lengths([0] * rows)], [[layer]])  # type: ignore[list-item]


def test_decode_stays_traced_where_passes_of_several_tokens_can_not_be(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(traced_pass, "RUNS_BEFORE_TRACE", 0)

    def picky(tokens: mx.array, *others: Any) -> mx.array:
        if tokens.ndim > 1:
            raise ValueError("not of several")
        return forward(tokens, *others)

    passes, layer = TracedPasses(), Layer(2)
    groups: Any = [[layer]]
    assert passes.run(picky, mx.zeros((2, 3)), [], [Lengths([0, 0], 3)], groups) is None
    assert passes.run(picky, mx.zeros((2,)), [], [Lengths([0, 0])], groups) is not None


def test_only_the_latest_shapes_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(traced_pass, "RUNS_BEFORE_TRACE", 0)
    monkeypatch.setattr(traced_pass, "_MAX_TRACES", 3)
    passes = TracedPasses()
    for rows in (1, 2, 3, 1, 4):
        assert run(passes, Layer(rows)) is not None
    keys: list[Any] = list(passes._traces)
    assert [key[0] for key in keys] == [(3,), (1,), (4,)]


def test_shapes_that_come_once_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(traced_pass, "_MAX_TRACES", 3)
    passes = TracedPasses()
    for rows in range(1, 20):
        assert run(passes, Layer(rows)) is None
    assert len(passes._runs) == 3


def test_a_trace_moves_layers_on_and_keeps_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(traced_pass, "RUNS_BEFORE_TRACE", 0)
    passes = TracedPasses()
    layer = Layer(2)
    for _ in range(3):
        run(passes, layer)
    assert layer.arrays[0].tolist() == [3, 3]
    gone = weakref.ref(layer)
    del layer
    gc.collect()
    assert gone() is None


def test_a_recurrent_layer_that_holds_nothing_yet_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(traced_pass, "RUNS_BEFORE_TRACE", 0)
    layer = Layer(2)
    groups: Any = [[layer]]
    layer.arrays = [None]
    assert TracedPasses().run(forward, mx.zeros((2,)), [], [Lengths([0, 0])], groups) is None


@pytest.mark.parametrize(("length", "batched"), [(4, True), (12, False)])
def test_a_row_alone_is_batched_where_it_is_short(length: int, batched: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """A copy of a long one would take long, and memory."""
    monkeypatch.setattr(batching, "_LONG_LENGTH", 10)
    model = network("qwen3")
    batch = Batch(model, traced=True)
    answers(model, batch, [length], 1)
    assert (batch.slots[0].cache is None) is batched
