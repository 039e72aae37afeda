"""Rows that share forward passes give what each of them gives alone."""

import itertools
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

import mlx.core as mx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mlx.utils import tree_flatten
from mlx_lm.models.base import scaled_dot_product_attention
from mlx_lm.models.cache import CacheList, ChunkedKVCache, KVCache, QuantizedKVCache, RotatingKVCache

from orchard.engine.batching import attention, traced_pass
from orchard.engine.batching.batch import Batch, BatchMode, BatchSlot
from orchard.engine.batching.layer_kinds import Unbatchable
from orchard.engine.batching.model import LanguageModel
from tests.support.cuda_attention import as_on_cuda
from tests.support.engine_driver import prompt
from tests.support.examples import examples, some
from tests.support.tiny_models import Other, check_close, has, network

SHORT = 16


class InLists:
    """A network whose layers' caches each lie in a list, as those of models with two caches a layer do."""

    logits_at = None

    def __init__(self) -> None:
        model = network("qwen3")
        self.vocab_size, self.eos_token_ids, self.fingerprint = model.vocab_size, model.eos_token_ids, "lists"
        self._network = model.network

    def new_cache(self) -> list[Any]:
        return [CacheList(KVCache()), CacheList(KVCache())]

    def forward(self, tokens: mx.array, cache: list[Any], **_: Any) -> mx.array:
        logits: mx.array = self._network(tokens, cache=[layer[0] for layer in cache])
        return logits

    def drop_all(self) -> None:
        """Nothing is kept."""

    def hidden_states(self, tokens: mx.array, cache: list[Any], **_: Any) -> mx.array:
        raise AssertionError("nobody asks for hidden states")


def with_caches(make: Callable[[], Any]) -> LanguageModel:
    return Other(network("qwen3"), lambda: [make(), make()])


MODELS: dict[str, Callable[[], LanguageModel]] = {
    "dense": lambda: network("qwen3"),
    "windows": lambda: network("gemma3_text"),
    "states": lambda: network("lfm2"),
    "delta net": lambda: network("qwen3_next"),
    "quantised": lambda: with_caches(lambda: QuantizedKVCache(32, 8)),
    "ring": lambda: with_caches(lambda: RotatingKVCache(20, keep=4)),
    "lists": InLists,
}
every_model = pytest.mark.parametrize("make", MODELS.values(), ids=MODELS)


@dataclass(eq=False)
class Live:
    """A row, and the same row in mlx-lm's own hands."""

    slot: BatchSlot
    tokens: list[int]
    own: list[Any]

    def check(self, model: LanguageModel, logits: mx.array) -> None:
        expected = model.forward(mx.array([[self.tokens[-1]]]), self.own)[0, -1]
        check_close(logits, expected, f"after {len(self.tokens)} tokens")
        self.tokens.append(int(mx.argmax(expected)))


def begin(model: LanguageModel, tokens: list[int]) -> Live:
    caches = []
    for _ in range(2):
        cache = model.new_cache()
        if len(tokens) > 1:
            model.forward(mx.array([tokens[:-1]]), cache)
        caches.append(cache)
    return Live(BatchSlot(caches[0], len(tokens) - 1), list(tokens), caches[1])


def step(model: LanguageModel, batch: Batch, rows: list[Live]) -> None:
    """Take one step with these rows, and see that each has the logits that it has alone."""
    if {id(row.slot) for row in rows} != {id(slot) for slot in batch.slots} or batch.is_outgrown:
        batch.arrange([row.slot for row in rows])
    by_seat = {id(row.slot): row for row in rows}
    order = [by_seat[id(slot)] for slot in batch.slots]
    assert len(order) == len(rows)
    if not rows:
        return
    logits, failed = batch.forward(mx.array([row.tokens[-1] for row in order]))
    assert not failed
    assert logits is not None
    for place, row in enumerate(order):
        row.check(model, logits[place])
        assert row.slot.length == len(row.tokens) - 1


@pytest.mark.parametrize(("multiple", "mode", "name"), some([*itertools.product([1, 4], BatchMode, MODELS)], 4))
@examples(1)
@given(st.integers(0, 2**32))
def test_rows_come_and_go(multiple: int, mode: BatchMode, name: str, seed: int) -> None:
    """Also empty ones, ones that cross a group's limit or a window, and ones that a plain loop goes on with."""
    model = MODELS[name]()
    let_rows_come_and_go(model, Batch(model, mode, multiple, SHORT), seed)


@pytest.mark.parametrize(("multiple", "name", "on_cuda"), some([*itertools.product([1, 4], MODELS, [False, True])], 3))
@examples(1)
@given(st.integers(0, 2**32))
def test_traced_passes_give_the_same(multiple: int, name: str, on_cuda: bool, seed: int) -> None:
    model = MODELS[name]()
    batch = Batch(model, BatchMode.SHARED, multiple, SHORT, traced=True)
    with as_traced(on_cuda):
        let_rows_come_and_go(model, batch, seed)


@contextmanager
def as_traced(on_cuda: bool) -> Iterator[None]:
    """Let passes be traced soon. `on_cuda`: use the attention of CUDA, whose kernel stands for a reference."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(traced_pass, "RUNS_BEFORE_TRACE", 0)
        patch.setattr(mx, "compile", lambda function: function)  # each kernel that it makes takes a CPU a second
        with as_on_cuda() if on_cuda else nullcontext():
            yield


def let_rows_come_and_go(model: LanguageModel, batch: Batch, seed: int) -> None:
    rng = random.Random(seed)
    rows: list[Live] = []
    for _ in range(18):
        for row in [row for row in rows if rng.random() < 0.08]:
            rows.remove(row)
            row.slot.cache = batch.extract(row.slot)
            assert row.slot.length == len(row.tokens) - 1
            logits = model.forward(mx.array([[row.tokens[-1]]]), row.slot.cache)[0, -1]
            row.check(model, logits)
        while len(rows) < 5 and rng.random() < 0.5:
            rows.append(
                begin(model, prompt(rng.randrange(100), rng.choice([1, 2, 14, 15, 16, 17, 19, 21, 30, 40, 70])))
            )
        step(model, batch, rows)


@every_model
def test_what_is_taken_goes_on_elsewhere(make: Callable[[], LanguageModel]) -> None:
    """In another batch, too; and where the first one goes on, that changes nothing of it."""
    model = make()
    batch = Batch(model, short_length=64)
    rows = [begin(model, prompt(length, length)) for length in (5, 12, 18, 33)]
    for _ in range(9):
        step(model, batch, rows)
    taken = [Live(BatchSlot(batch.extract(row.slot), row.slot.length), list(row.tokens), row.own) for row in rows]
    batch.forward(mx.zeros((4,), mx.uint32))
    other = Batch(model, short_length=64)
    for _ in range(4):
        step(model, other, taken)


@pytest.mark.parametrize("count", [1, 3])
@every_model
def test_the_first_layers_of_a_pass_can_be_launched_before_the_rest(
    make: Callable[[], LanguageModel], count: int
) -> None:
    model = make()
    rows = [begin(model, prompt(seed, 5)) for seed in range(count)]
    batch = Batch(model, BatchMode.SHARED, short_length=SHORT)

    def written() -> list[Any]:
        return [array.tolist() for _, array in tree_flatten(batch.first_layers()) if isinstance(array, mx.array)]

    step(model, batch, rows)
    before = written()
    batch.forward(mx.array([row.tokens[-1] for row in rows]))
    assert before
    assert written() != before


@every_model
def test_rows_that_leave_make_room_without_a_copy_of_the_others(make: Callable[[], LanguageModel]) -> None:
    """Where rows are filled up to a multiple, what leaves becomes what fills up; what joins then takes its place."""
    model = make()
    batch = Batch(model, multiple=4, short_length=SHORT)
    rows = [begin(model, prompt(length, length)) for length in (5, 9, 7, 6)]
    step(model, batch, rows)
    for leaving in (0, 1):  # the first, and one in the middle
        [layer] = batch.passes[0].layers(-1)
        before = list(layer.arrays)
        del rows[leaving]
        batch.arrange([row.slot for row in rows])
        assert all(one is other for one, other in zip(before, layer.arrays, strict=True))
        step(model, batch, rows)
        step(model, batch, rows)
    rows.append(begin(model, prompt(3, 8)))
    step(model, batch, rows)
    for _ in range(2):
        del rows[0]
        step(model, batch, rows)


def test_a_row_that_outgrows_its_group_moves() -> None:
    model = network("qwen3")
    batch = Batch(model, short_length=SHORT)
    rows = [begin(model, prompt(length, length)) for length in (14, 9, 18)]
    step(model, batch, rows)
    assert [row.slot.cache is None for row in rows] == [True, True, False]
    outgrown = []
    for _ in range(4):
        outgrown.append(batch.is_outgrown)
        step(model, batch, rows)
    assert outgrown == [False, False, True, False]
    assert [row.slot.cache is None for row in rows] == [True, False, True]


def test_the_first_token_of_an_empty_row() -> None:
    model = network("qwen3")
    batch = Batch(model, multiple=4)
    rows = [begin(model, [7]), begin(model, [8]), begin(model, prompt(1, 5))]
    for _ in range(3):
        step(model, batch, rows)
    assert all(row.slot.cache is None for row in rows)


@pytest.mark.parametrize("make", [MODELS["dense"], MODELS["ring"], MODELS["states"]])
def test_a_cache_that_is_replaced_by_one_of_its_kind(make: Callable[[], LanguageModel]) -> None:
    model = make()
    batch = Batch(model)
    rows = [begin(model, prompt(length, length)) for length in (5, 9)]
    step(model, batch, rows)
    for row in rows:
        row.slot.replace(batch.extract(row.slot))
        batch.arrange(batch.slots)
        step(model, batch, rows)


def test_a_list_of_quantised_caches_is_of_another_kind() -> None:
    model = InLists()
    batch = Batch(model)
    plain, quantised = begin(model, prompt(1, 5)), begin(model, prompt(2, 5))
    for cache in (quantised.slot.cache, quantised.own):
        assert cache
        cache[:] = [CacheList(layer[0].to_quantized(32, 8)) for layer in cache]
    rows = [plain, Live(BatchSlot(quantised.slot.cache or [], 4), quantised.tokens, quantised.own)]
    for _ in range(3):
        step(model, batch, rows)


def test_plain_and_quantised_rows_share_a_pass() -> None:
    model = network("qwen3")
    passes = []
    spied = Other(model, before=lambda tokens, given: passes.append(tokens.shape[0]))
    rows = [begin(model, prompt(length, length)) for length in (3, 6, 9, 12)]
    for row in rows[2:]:
        row.own = [layer.to_quantized(32, 8) for layer in row.own]
        row.slot.replace([layer.to_quantized(32, 8) for layer in row.slot.cache or []])
    batch = Batch(spied)
    batch.arrange([row.slot for row in rows])
    for _ in range(3):
        step(model, batch, rows)
    assert passes == [4, 4, 4]


@pytest.mark.parametrize(
    ("mode", "apart", "passes"),
    [
        (BatchMode.SHARED, False, [4]),
        (BatchMode.BY_LENGTH, False, [2, 2]),
        (BatchMode.SEQUENTIAL, False, [1, 1, 1, 1]),
        (BatchMode.SHARED, True, [1, 3]),
    ],
)
def test_who_shares_a_pass(mode: BatchMode, apart: bool, passes: list[int]) -> None:
    sizes = []
    model = Other(network("qwen3"), before=lambda tokens, given: sizes.append(tokens.shape[0]))
    rows = [begin(network("qwen3"), prompt(length, length)) for length in (3, 6, 20, 25)]
    rows[0].slot.isolated = apart
    batch = Batch(model, mode, short_length=SHORT)
    batch.arrange([row.slot for row in rows])
    batch.forward(mx.zeros((4,), mx.uint32))
    assert sorted(sizes) == passes


def test_a_cache_of_an_unknown_kind() -> None:
    model = network("qwen3")
    slots = [BatchSlot([ChunkedKVCache(8), KVCache()], 3) for _ in range(2)]
    for slot in slots:
        model.forward(mx.array([[1, 2, 3]]), slot.cache or [])
    with pytest.raises(Unbatchable, match="ChunkedKVCache"):
        Batch(model).arrange(slots)
    Batch(model, BatchMode.SEQUENTIAL).arrange(slots)


def test_a_pass_that_raises_fails_alone() -> None:
    def before(tokens: mx.array, given: dict[str, Any]) -> None:
        if has(tokens, 13):
            raise RuntimeError("unlucky")

    model = network("qwen3")
    rows = [begin(model, prompt(length, length)) for length in (3, 6, 20, 25)]
    rows[1].tokens[-1] = 13
    batch = Batch(Other(model, before=before), BatchMode.BY_LENGTH, short_length=SHORT)
    batch.arrange([row.slot for row in rows])
    order = [next(row for row in rows if row.slot is slot) for slot in batch.slots]
    logits, failed = batch.forward(mx.array([row.tokens[-1] for row in order]))
    assert logits is not None
    for row, one in zip(rows[2:], logits, strict=True):
        row.check(model, one)
    ((slots, error),) = failed
    assert slots == [rows[0].slot, rows[1].slot]
    assert str(error) == "unlucky"


def test_attention_in_parts() -> None:
    mx.random.seed(0)
    queries = mx.random.normal((3, 2, 1, 32))
    keys, values = ([mx.random.normal((rows, 1, 7, 32)) for rows in (1, 2)] for _ in range(2))
    masks = [None, mx.array([[True] * 5 + [False] * 2, [True] * 7])[:, None, None]]
    cuts, layers = [0, 1, 3], [KVCache(), KVCache()]
    parts = [attention.GroupedArrays(list(of), cuts, layers) for of in (keys, values, masks)]
    given = {"cache": None, "scale": 0.2}
    together = attention.attend(queries, *parts[:2], mask=parts[2], **given)
    assert mx.array_equal(together, attention.attend(queries, parts[0], parts[1], None, 0.2, parts[2]))
    for index, (start, stop) in enumerate([(0, 1), (1, 3)]):
        own = scaled_dot_product_attention(queries[start:stop], keys[index], values[index], mask=masks[index], **given)
        assert mx.allclose(together[start:stop], own, atol=1e-6)
