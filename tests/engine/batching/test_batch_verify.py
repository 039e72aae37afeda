"""Rows that get several tokens at a time, some of them wrong, go on as if they had got the right ones only."""

import itertools
import random
from dataclasses import dataclass
from typing import Any

import mlx.core as mx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mlx_lm.models.cache import RotatingKVCache

from orchard.engine.batching.batch import Batch, BatchMode, BatchSlot, VerifyMode
from orchard.engine.batching.kv_cache import named_layers
from orchard.engine.batching.model import LanguageModel
from tests.engine.batching.test_batch import MODELS, SHORT, as_traced
from tests.support.engine_driver import WORDS, prompt
from tests.support.examples import examples, some
from tests.support.tiny_models import Other, check_close, network

MODES = [BatchMode.SHARED, BatchMode.BY_LENGTH]


@dataclass(eq=False)
class Line:
    """A row that follows a text, in steps of several tokens, and the logits of the text read token by token."""

    slot: BatchSlot
    text: list[int]
    begun: int
    logits: list[mx.array]

    def expected(self, place: int) -> mx.array:
        """Return the logits behind the text's token at `place`."""
        return self.logits[place - self.begun]


def line(model: LanguageModel, text: list[int], begun: int) -> Line:
    cache = model.new_cache()
    model.forward(mx.array([text[:begun]]), cache)
    slot = BatchSlot(cache, begun)
    slot.batched = True
    own = model.new_cache()
    model.forward(mx.array([text[:begun]]), own)
    return Line(slot, text, begun, [model.forward(mx.array([[token]]), own)[0, -1] for token in text[begun:]])


def follow(
    model: LanguageModel, batch: Batch, rows: list[Line], rng: random.Random, *, tells_states: bool = False
) -> None:
    """Let each row get some of its text, then wrong tokens, and keep the right ones.

    `tells_states`: the model's recurrent layers say what they remember behind each token.
    """
    by_slot = {row.slot: row for row in rows}
    order = [by_slot[slot] for slot in batch.slots]
    given, drawn, right = [], [], []
    for row in order:
        left = len(row.text) - row.slot.length
        known = min(rng.choice([1, 1, 2, 3, 5]), left)
        wrong = rng.choice([0, 0, 1, 4])
        tokens = row.text[row.slot.length : row.slot.length + known]
        given.append([*tokens, *(rng.randrange(WORDS) for _ in range(wrong))])
        drawn.append(rng.randint(1, len(given[-1])))
        right.append(known)
    logits, failed = batch.verify(given, drawn)
    assert not failed
    assert logits is not None
    assert logits.shape[1] == max(drawn)
    for row, tokens, count, known, own in zip(order, given, drawn, right, logits, strict=True):
        for place in range(len(tokens) - count, known):
            check_close(own[place - len(tokens) + count], row.expected(row.slot.length + place), place)
    before = [row.slot.length for row in order]
    forgets = tells_states or not any(
        type(layer).__name__ == "ArraysCache" for _, layer in named_layers(model.new_cache())
    )
    batch.keep(right)
    for row, tokens, length, known in zip(order, given, before, right, strict=True):
        assert row.slot.length == length + (known if forgets or known == len(tokens) else 0)


@pytest.mark.parametrize(("multiple", "mode", "name"), some([*itertools.product([1, 4], MODES, MODELS)], 4))
@examples(1)
@given(seed=st.integers(0, 2**32))
def test_wrong_tokens_leave_nothing(multiple: int, mode: BatchMode, name: str, seed: int) -> None:
    model = MODELS[name]()
    let_rows_guess(model, Batch(model, mode, multiple, SHORT), seed)


@pytest.mark.parametrize(("multiple", "name", "on_cuda"), some([*itertools.product([1, 4], MODELS, [True, False])], 5))
@examples(1)
@given(seed=st.integers(0, 2**32))
def test_traced_passes_give_the_same(multiple: int, name: str, on_cuda: bool, seed: int) -> None:
    model = MODELS[name]()
    with as_traced(on_cuda):
        let_rows_guess(model, Batch(model, BatchMode.SHARED, multiple, SHORT, traced=True), seed)


@pytest.mark.parametrize(("verifying", "widths"), [(VerifyMode.TOGETHER, [8, 8, 16]), (VerifyMode.ALONE, [2, 7, 9])])
def test_a_row_that_is_alone_is_filled_up_where_padding_is_left_out(verifying: VerifyMode, widths: list[int]) -> None:
    seen: list[int] = []
    model = Other(network("qwen3"), before=lambda tokens, given: seen.append(tokens.shape[1]))
    row = line(model, prompt(1, 40), 12)
    batch = Batch(model, multiple=8, verify_mode=verifying)
    batch.arrange([row.slot])
    seen.clear()
    for count in (2, 7, 9):
        logits, _ = batch.verify([row.text[row.slot.length :][:count]], [count])
        assert logits is not None
        for place, own in enumerate(logits[0]):
            check_close(own, row.expected(row.slot.length + place), place)
        batch.keep([count])
    assert seen == widths


def test_a_ring_is_not_filled_up_beyond_its_places() -> None:
    seen: list[int] = []
    rings = Other(
        network("qwen3"),
        lambda: [RotatingKVCache(10, keep=4) for _ in range(2)],
        before=lambda tokens, given: seen.append(tokens.shape[1]),
    )
    row = line(rings, prompt(1, 30), 12)
    batch = Batch(rings, multiple=8)
    batch.arrange([row.slot])
    seen.clear()
    logits, _ = batch.verify([row.text[12:17]], [5])
    assert logits is not None
    for place, own in enumerate(logits[0]):
        check_close(own, row.expected(12 + place), place)
    assert seen == [5]


def let_rows_guess(model: LanguageModel, batch: Batch, seed: int, *, tells_states: bool = False) -> None:
    """Of rows alone and several, before and behind the edges of groups and windows; and steps of one token between."""
    rng = random.Random(seed)
    rows: list[Line] = []
    for turn in range(8):
        rows = [row for row in rows if len(row.text) - row.slot.length > 2 and rng.random() < 0.9]
        while len(rows) < (1 if turn < 2 else 4) and rng.random() < 0.8:
            begun = rng.choice([1, 2, 12, 15, 16, 18, 30])
            rows.append(line(model, prompt(rng.randrange(99), begun + 24), begun))
        if not rows:
            continue
        batch.arrange([row.slot for row in rows])
        if rng.random() < 0.3:
            one_token(batch, rows)
        else:
            follow(model, batch, rows, rng, tells_states=tells_states)
    for row in rows:
        check_alone(model, batch, row)


def one_token(batch: Batch, rows: list[Line]) -> None:
    by_slot = {row.slot: row for row in rows}
    order = [by_slot[slot] for slot in batch.slots]
    logits, failed = batch.forward(mx.array([row.text[row.slot.length] for row in order]))
    assert not failed
    assert logits is not None
    for row, own in zip(order, logits, strict=True):
        check_close(own, row.expected(row.slot.length - 1))


def check_alone(model: LanguageModel, batch: Batch, row: Line) -> None:
    """See that what is taken from the batch is a cache that a plain loop goes on with."""
    cache = batch.extract(row.slot)
    logits = model.forward(mx.array([[row.text[row.slot.length]]]), cache)[0, -1]
    check_close(logits, row.expected(row.slot.length))


def test_a_pass_that_raises_leaves_the_others() -> None:
    def before(tokens: mx.array, given: dict[str, Any]) -> None:
        if tokens.shape[1] == 3:
            raise RuntimeError("unlucky")

    model = network("qwen3")
    rows = [line(model, prompt(length, length + 9), length) for length in (5, 20)]
    batch = Batch(Other(model, before=before), BatchMode.BY_LENGTH, short_length=SHORT)
    batch.arrange([row.slot for row in rows])
    tokens = [row.text[row.begun : row.begun + count] for row, count in zip(rows, (3, 2), strict=True)]
    logits, failed = batch.verify(tokens, [3, 2])
    assert [slots for slots, _ in failed] == [[rows[0].slot]]
    assert logits is not None
    check_close(logits[0, 1], rows[1].expected(21))
    batch.keep([2])
    assert [row.slot.length for row in rows] == [5, 22]
