"""Asking proposers: the first guess counts, it is cut to what may be verified, and what is raised stays here."""

import time
from collections.abc import Sequence
from dataclasses import dataclass

import pytest

from orchard.engine.prefix_cache.values import EVERYBODY, CacheScope
from orchard.engine.sampling.grammar import GrammarState
from orchard.engine.speculation.interface import SpeculatingRow
from orchard.engine.speculation.proposal import DraftedTokens, Proposal
from orchard.engine.speculation.speculation import Speculation
from tests.support.speculation import FixedController

VOCABULARY = 10


@dataclass(eq=False)
class Asked:
    tokens: Sequence[int] = (1, 2)
    prompt_length: int = 1
    cache_scope: CacheScope = EVERYBODY
    prediction: Sequence[int] = ()
    grammar: GrammarState | None = None


class Guesser:
    """Proposes, or promises and then drafts, the same for every row; raises in the methods that are named."""

    def __init__(self, tokens: list[int] | None, raises: Sequence[str] = ()) -> None:
        self.rows: list[SpeculatingRow] = []
        self.calls: list[str] = []
        self._tokens, self._raises = tokens, raises

    def open(self, row: SpeculatingRow) -> None:
        self._do("open")
        self.rows.append(row)

    def close(self, row: SpeculatingRow) -> None:
        self.rows.remove(row)
        self._do("close")

    def propose(self, rows: Sequence[SpeculatingRow], most: Sequence[int]) -> list[Proposal | None]:
        self._do("propose")
        guess = None if self._tokens is None else Proposal("ngram", self._tokens, [0.5] * len(self._tokens))
        return [guess for _ in rows]

    def promise(self, rows: Sequence[SpeculatingRow], most: Sequence[int]) -> list[Proposal | None]:
        self._do("promise")
        return [Proposal("draft", [], [0.5] * count) for count in most]

    def read(self, rows: Sequence[SpeculatingRow]) -> int:
        self._do("read")
        return 5

    def draft(self, rows: Sequence[SpeculatingRow], counts: Sequence[int]) -> DraftedTokens:
        self._do("draft")
        return DraftedTokens.from_lists([(self._tokens or [])[:count] for count in counts])

    def drop_all(self) -> None:
        """Nothing was computed."""

    def limit(self, cache_bytes: int) -> int:
        return cache_bytes // 2

    def _do(self, method: str) -> None:
        self.calls.append(method)
        if method in self._raises:
            raise RuntimeError("unlucky")


def tokens(offers: list[list[Proposal]]) -> list[list[int] | None]:
    assert all(one.count == len(one.tokens) and len(offered) == 1 for offered in offers for one in offered)
    return [list(offered[0].tokens) if offered else None for offered in offers]


def speculation(*proposers: Guesser) -> Speculation:
    return Speculation(proposers, FixedController(4), VOCABULARY)


def test_the_first_that_proposes_anything_counts() -> None:
    silent, empty, first, second = Guesser(None), Guesser([]), Guesser([3, 4]), Guesser([5])
    asking, row = speculation(silent, empty, first, second), Asked()
    asking.open(row)
    assert tokens(asking.propose([row], [4])) == [[3, 4]]
    assert "propose" not in second.calls


def test_no_more_than_may_be_verified_and_no_token_that_there_is_not() -> None:
    asking, rows = speculation(Guesser([3, 4, VOCABULARY, 5])), [Asked() for _ in range(3)]
    for row in rows:
        asking.open(row)
    assert tokens(asking.propose(rows, [4, 1, 0])) == [[3, 4], [3], None]
    asking = speculation(Guesser([-1, 3]))
    asking.open(rows[0])
    assert tokens(asking.propose(rows[:1], [4])) == [None]


def test_behind_a_token_that_is_launched_as_many_are_offered() -> None:
    asking, row = speculation(Guesser([3, 4, 5, 6])), Asked()
    asking.open(row)
    assert tokens(asking.propose([row], [2], launched=True)) == [[4, 5]]


def test_rows_that_are_not_open_are_not_asked_for() -> None:
    guesser = Guesser([3])
    asking, row = speculation(guesser), Asked()
    assert tokens(asking.propose([row], [4])) == [None]
    asking.open(row)
    asking.close(row)
    asking.close(row)
    assert tokens(asking.propose([row], [4])) == [None]
    assert "propose" not in guesser.calls
    assert not guesser.rows


@pytest.mark.parametrize("method", ["open", "close", "propose"])
def test_a_row_goes_on_without_a_proposer_that_raises(method: str) -> None:
    unlucky, other = Guesser([7], [method]), Guesser([3])
    asking, row = speculation(unlucky, other), Asked()
    asking.open(row)
    assert tokens(asking.propose([row], [4])) == [[7] if method == "close" else [3]]
    asking.propose([row], [4])
    assert unlucky.calls.count("propose") == {"open": 0, "close": 2, "propose": 1}[method]
    asking.close(row)
    assert not other.rows
    assert not unlucky.rows


def test_too_few_answers_are_a_failure_too() -> None:
    class Short(Guesser):
        def propose(self, rows: Sequence[SpeculatingRow], most: Sequence[int]) -> list[Proposal | None]:
            return []

    asking, row = speculation(Short([7]), Guesser([3])), Asked()
    asking.open(row)
    assert tokens(asking.propose([row], [4])) == [[3]]


def test_a_draft_is_offered_beside_what_is_known_and_guesses_when_chosen() -> None:
    draft, controller, rows = Guesser([4, VOCABULARY, 5]), FixedController(4), [Asked(), Asked()]
    asking = Speculation([Guesser([3, 4])], controller, VOCABULARY)
    assert asking.limit(100) == 100
    asking.adopt(draft)
    assert asking.limit(100) == 50
    for row in rows:
        asking.open(row)
    offers = asking.propose(rows, [3, 0])
    assert [[(one.source, one.count) for one in offered] for offered in offers] == [[("ngram", 2), ("draft", 3)], []]
    # Behind a token that is launched, the first known guess stands for that one; the draft guesses only later.
    [offered] = asking.propose(rows[:1], [3], launched=True)
    assert [(one.source, one.count) for one in offered] == [("ngram", 1), ("draft", 3)]
    assert asking.draft(rows, [3, 2]).read() == [[4, VOCABULARY - 1, 5], [4, VOCABULARY - 1]]
    assert (controller.read_tokens, controller.drafts) == (5, [(2, 3)])
    for row in rows:
        asking.close(row)
    assert not draft.rows


def test_what_drafting_takes_is_told_without_reading_and_for_rows_with_guesses(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    told: list[tuple[int, float]] = []

    class Slow(Guesser):
        def _do(self, method: str) -> None:
            super()._do(method)
            now[0] += {"read": 100, "draft": 1}.get(method, 0)

    class Noting(FixedController):
        def note_reading(self, tokens: int, seconds: float) -> None:
            told.append((tokens, seconds))

        def note_drafting(self, rows: int, tokens: int, seconds: float) -> None:
            told.append((rows, seconds))

    asking, rows = Speculation([], Noting(4), VOCABULARY), [Asked(), Asked()]
    asking.adopt(Slow([4, 5]))
    for row in rows:
        asking.open(row)
    monkeypatch.setattr(time, "perf_counter", lambda: now[0])
    assert asking.draft(rows, [2, 0]).read() == [[4, 5], []]
    assert told == [(5, 100), (1, 1)]


@pytest.mark.parametrize("method", ["open", "close", "promise", "read", "draft"])
def test_a_row_goes_on_without_a_draft_that_raises(method: str) -> None:
    draft, row = Guesser([4], [method]), Asked()
    asking = Speculation([], FixedController(4), VOCABULARY)
    asking.adopt(draft)
    asking.open(row)
    for _ in range(2):
        if any(asking.propose([row], [3])):
            assert asking.draft([row], [3]).read() == [[4] if method == "close" else []]
    assert draft.calls.count(method) <= 1
    asking.close(row)
    assert not draft.rows
