"""The draft's guesses are those of a model that reads each row's text alone, whatever its passes and caches share."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import mlx.core as mx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchard.engine.drafting.draft_proposer import DraftProposer
from orchard.engine.prefix_cache.values import EVERYBODY, CacheScope
from orchard.engine.sampling.grammar import GrammarState
from tests.support.drafting import drafter
from tests.support.engine_driver import WORDS, prompt
from tests.support.examples import examples
from tests.support.tiny_models import Other, network

DRAFTS = ["qwen3", "gemma3_text", "qwen3_next", "lfm2"]
"""All tokens, windows, a delta net, convolutions."""


@dataclass(eq=False)
class Drafted:
    """A row of which nothing else is known."""

    tokens: list[int]
    prompt_length: int = 1
    cache_scope: CacheScope = EVERYBODY
    prediction: Sequence[int] = ()
    grammar: GrammarState | None = field(default=None)


def likeliest(kind: str, tokens: Sequence[int], count: int) -> list[int]:
    """What a model says behind a text, one token after the other."""
    text = list(tokens)
    for _ in range(count):
        logits = network(kind).forward(mx.array([text]), network(kind).new_cache())
        text += [mx.argmax(logits[0, -1]).item()]  # type: ignore[list-item]
    return text[len(tokens) :]


def ask(draft: DraftProposer, rows: list[Drafted], most: int) -> list[list[int]]:
    """Let it read all texts and guess for each once."""
    found: list[list[int]] = [[] for _ in rows]
    for _ in range(99):
        promised = draft.promise(rows, [most] * len(rows))
        assert all(one is None or one.count == most for one in promised)
        draft.read(rows)
        given = draft.draft(rows, [most] * len(rows)).read()
        found = [before or now for before, now in zip(found, given, strict=True)]
        if all(found):
            return found
    raise AssertionError("it never ends")


@pytest.mark.parametrize("kind", DRAFTS)
@examples(5, derandomize=True, database=None)
@given(data=st.data())
def test_guesses_are_those_of_each_row_alone(kind: str, data: Any) -> None:
    """Rows come and go, are left out for a while, and go on with some of the guesses or with others."""
    most = data.draw(st.integers(1, 4))
    chunk, traced = data.draw(st.sampled_from([7, 64])), data.draw(st.booleans())
    draft = drafter(network(kind), most, chunk=chunk, cache_bytes=2**22, traced=traced)
    rows: list[Drafted] = []
    for _ in range(6):
        if not rows or (len(rows) < 4 and data.draw(st.booleans())):
            rows.append(Drafted(prompt(data.draw(st.integers(0, 1)), data.draw(st.integers(2, 40)))))
            draft.open(rows[-1])
        elif data.draw(st.integers(0, 4)) == 0:
            draft.close(rows.pop())
        asked = [row for row in rows if data.draw(st.integers(0, 3))]
        if not asked:
            continue
        for row, guesses in zip(asked, ask(draft, asked, most), strict=True):
            assert guesses == likeliest(kind, row.tokens, most)
            right = data.draw(st.integers(0, most))
            row.tokens += [*guesses[:right], *[data.draw(st.integers(0, WORDS - 1)) for _ in range(1)]]


def test_rows_share_passes_and_keep_the_guesses_that_were_right() -> None:
    passes: list[tuple[int, ...]] = []
    model = Other(network("qwen3"), before=lambda tokens, given: passes.append(tuple(tokens.shape)))
    draft = drafter(model, 3)
    rows = [Drafted(prompt(number, 20)) for number in range(3)]
    for row in rows:
        draft.open(row)
    found = ask(draft, rows, 3)
    # Texts, then one pass for each guess.
    assert passes == [(1, 19)] * 3 + [(3, 1)] * 3
    passes.clear()
    for right, (row, guesses) in enumerate(zip(rows, found, strict=True)):
        row.tokens += [*guesses[:right], (guesses[right] + 1) % WORDS, 1]  # two that are not known
    found = ask(draft, rows, 3)
    assert passes == [(3, 2), (3, 1), (3, 1)]  # the guesses that were right are not read again
    for row, guesses in zip(rows, found, strict=True):
        assert guesses == likeliest("qwen3", row.tokens, 3)
    for row, guesses in zip(rows, found, strict=True):
        row.tokens.append(guesses[0])
    draft.promise(rows, [3, 3, 3])
    assert [len(guesses) for guesses in draft.draft(rows, [3, 1, 2]).read()] == [3, 1, 2]
    for row in rows:
        draft.close(row)
    assert not draft._batch.slots


def test_texts_are_read_in_pieces_of_a_chunk_a_step() -> None:
    passes: list[tuple[int, ...]] = []
    model = Other(network("qwen3"), before=lambda tokens, given: passes.append(tuple(tokens.shape)))
    draft = drafter(model, 2, chunk=16)
    rows = [Drafted(prompt(1, 40)), Drafted(prompt(2, 60))]
    for row in rows:
        draft.open(row)
    unread: list[list[int]] = []
    read = -1
    while read:
        unread.append([one.unread_count for one in draft.promise(rows, [2, 2]) if one])
        read = draft.read(rows)
    assert unread == [[39, 59], [23, 59], [0, 59], [0, 43], [0, 27], [0, 0]]
    assert passes == [(1, 16)] * 5
    assert all(draft.draft(rows, [2, 2]).read())


def test_a_text_whose_beginning_was_read_is_not_read_again() -> None:
    passes: list[tuple[int, ...]] = []
    model = Other(network("qwen3"), before=lambda tokens, given: passes.append(tuple(tokens.shape)))
    draft = drafter(model, 2, cache_bytes=2**22)
    first = Drafted(prompt(1, 60))
    draft.open(first)
    for _ in range(8):
        first.tokens += ask(draft, [first], 2)[0]
    draft.close(first)
    passes.clear()
    again = Drafted([*first.tokens, *prompt(2, 20)])
    draft.open(again)
    assert ask(draft, [again], 2)[0] == likeliest("qwen3", again.tokens, 2)
    assert sum(rows * tokens for rows, tokens in passes) < 20 + 8


def test_what_is_kept_is_a_share_of_the_memory_for_prompts() -> None:
    draft = drafter(network("qwen3"), 2, cache_bytes=2**22)
    draft._share = 0.25
    row = Drafted(prompt(1, 60))
    draft.open(row)
    ask(draft, [row], 2)
    assert draft._store.counters()["entries"] > 0
    assert draft.limit(0) == 0
    draft.close(row)
    assert draft._store.counters()["bytes"] == 0
    assert draft.limit(1000) == 750


def test_says_how_much_it_must_read_and_tries_again_after_a_while() -> None:
    draft = drafter(network("qwen3"), 2)
    row, short = Drafted(prompt(1, 30)), Drafted([1])
    draft.open(row)
    draft.open(short)
    promised, nothing = draft.promise([row, short], [9, 9])
    assert nothing is None  # there is nothing to guess from
    assert promised
    assert (promised.tokens, promised.unread_count) == ([], 29)
    assert promised.chances == pytest.approx([0.7, 0.49])
    for _ in range(40):
        guesses = ask(draft, [row], 2)[0]
        row.tokens.append((guesses[0] + 1) % WORDS)
    hopeless = draft.promise([row], [2])[0]
    assert hopeless
    assert hopeless.unread_count == 0
    assert hopeless.chances[0] < 0.1
    for _ in range(501):
        found = draft.promise([row], [2])[0]
    assert found
    assert found.chances == pytest.approx([0.7, 0.49])
    ask(draft, [row], 2)
    found = draft.promise([row], [2])[0]
    assert found
    assert found.chances[0] < 0.1


def test_guesses_also_where_nothing_but_a_guess_has_come() -> None:
    """Its keys and values are held, and it is read once more all the same: what follows it must be computed."""
    draft = drafter(network("qwen3"), 3)
    row = Drafted(prompt(1, 30))
    draft.open(row)
    [guesses] = ask(draft, [row], 3)
    for right in (1, 2, 3, 1):
        row.tokens += guesses[:right]
        draft.promise([row], [3])
        [guesses] = draft.draft([row], [3]).read()
        assert guesses == likeliest("qwen3", row.tokens, 3)


def test_reads_no_token_that_it_does_not_have() -> None:
    seen: list[Any] = []
    model = Other(network("qwen3"), before=lambda tokens, given: seen.append(mx.max(tokens).item()))
    draft = drafter(model, 2)
    row = Drafted([*prompt(1, 20), 10**6])
    draft.open(row)
    row.tokens += [*ask(draft, [row], 2)[0], 10**6, 1]
    ask(draft, [row], 2)
    assert max(seen) == network("qwen3").vocab_size - 1


def test_promises_what_earlier_guesses_were_worth() -> None:
    draft = drafter(network("qwen3"), 2)
    row = Drafted(prompt(1, 30))
    draft.open(row)
    for _ in range(10):
        row.tokens += ask(draft, [row], 2)[0]
    [promised] = draft.promise([row], [2])
    assert promised
    assert promised.chances[1] > 0.8


def test_goes_on_behind_a_pass_that_raised() -> None:
    """Texts are read once more, since nobody knows what the caches hold."""
    broken = [False]

    def breaks(tokens: mx.array, given: dict[str, Any]) -> None:
        if broken[0] and tokens.shape[1] == 1:
            raise RuntimeError("unlucky")

    draft = drafter(Other(network("qwen3"), before=breaks), 3)
    rows = [Drafted(prompt(1, 30)), Drafted(prompt(2, 40))]
    for row in rows:
        draft.open(row)
    ask(draft, rows, 3)
    for row in rows:
        row.tokens.append(1)
    broken[0] = True
    draft.promise(rows, [3, 3])
    with pytest.raises(RuntimeError, match="unlucky"):
        draft.draft(rows, [3, 3])
    broken[0] = False
    assert [one.unread_count for one in draft.promise(rows, [3, 3]) if one] == [30, 40]
    for row, guesses in zip(rows, ask(draft, rows, 3), strict=True):
        assert guesses == likeliest("qwen3", row.tokens, 3)
