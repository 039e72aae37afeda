"""How often guesses were right, by their source and their confidence."""

from collections.abc import Sequence

from orchard.engine.speculation.proposal import DRAFTS, Proposal, Source

_EXPECTED = 0.3  # of a guess of a kind that was never seen
EXPECTED_OF_DRAFT = 0.7
"""The same of a draft's: somebody chose it for the model."""
_EXPECTED_OF_GRAMMAR = 0.98  # nothing else may come, unless a reasoning has to end
_EXPECTED_WEIGHT = 2.0
_ROW_WEIGHT = 8.0  # guesses of a row that say as much as all other rows together
_ROW_MEMORY = 24.0  # guesses: a text changes what it is about
_MODEL_MEMORY = 400.0

_Kind = tuple[Source, int]


class _Counts:
    """Right and all guesses of each kind; older ones count less."""

    def __init__(self, memory: float) -> None:
        self._memory = memory
        self._counts: dict[_Kind, tuple[float, float]] = {}

    def add(self, kind: _Kind, right: bool) -> None:
        """Count a guess."""
        hits, tries = self._counts.get(kind, (0.0, 0.0))
        fade = 1 - 1 / self._memory
        self._counts[kind] = hits * fade + right, tries * fade + 1

    def mean(self, kind: _Kind, expected: float, weight: float) -> float:
        """Return the share of right guesses; `expected` counts as much as `weight` guesses."""
        hits, tries = self._counts.get(kind, (0.0, 0.0))
        return (hits + weight * expected) / (tries + weight)


class ModelAcceptance:
    """The guesses for all rows of a model."""

    def __init__(self) -> None:
        self._counts = _Counts(_MODEL_MEMORY)

    def add(self, kind: _Kind, right: bool) -> None:
        """Count a guess."""
        self._counts.add(kind, right)

    def mean(self, kind: _Kind) -> float:
        """Return the share of right guesses; of a kind that is hardly known, what those with less behind them had."""
        source, most = kind
        expected = EXPECTED_OF_DRAFT if source in DRAFTS else _EXPECTED
        if source == "grammar":
            expected = _EXPECTED_OF_GRAMMAR
        for size in range(most + 1):
            expected = self._counts.mean((source, size), expected, _EXPECTED_WEIGHT)
        return expected


class RowAcceptance:
    """The guesses for one row, and what can be expected of the next ones.

    A guess is of a kind: where it came from, and how many tokens before it, in powers of two, speak for it.
    """

    def __init__(self, model: ModelAcceptance) -> None:
        self._model = model
        self._counts = _Counts(_ROW_MEMORY)
        self._guesses: Sequence[int] = ()
        self._source: Source = "ngram"
        self._matched = 0

    def propose(self, source: Source, guesses: Sequence[int], matched: int = 0) -> Proposal:
        """Return a proposal with its chances, and remember it. `matched`: how many tokens speak for its first."""
        self._source, self._guesses, self._matched = source, guesses, matched
        return Proposal(source, list(guesses), self.chances(source, len(guesses), matched))

    def chances(self, source: Source, count: int, matched: int = 0) -> list[float]:
        """Return for each of so many guesses how likely it and all before it are right."""
        chances, chance = [], 1.0
        means: dict[_Kind, float] = {}
        for place in range(count):
            kind = _kind(source, matched, place)
            if kind not in means:
                means[kind] = self._counts.mean(kind, self._model.mean(kind), _ROW_WEIGHT)
            chance *= means[kind]
            chances.append(chance)
        return chances

    def take(self, tokens: Sequence[int]) -> None:
        """Count the last proposal's guesses against the tokens that came; one behind a wrong one says nothing."""
        guesses, self._guesses = self._guesses, ()
        for place, (guess, token) in enumerate(zip(guesses, tokens, strict=False)):
            kind = _kind(self._source, self._matched, place)
            self._counts.add(kind, guess == token)
            self._model.add(kind, guess == token)
            if guess != token:
                return


def _kind(source: Source, matched: int, place: int) -> _Kind:
    return source, (matched + place).bit_length()
