"""How often guesses were right, by their source and by the length of the match behind them."""

from collections.abc import Sequence

from orchard.engine.speculation.proposal import DRAFTS, Proposal, Source

_EXPECTED = 0.3  # the chance of a guess of a kind that has no history
EXPECTED_OF_DRAFT = 0.7
"""The same for a draft's guess: somebody chose the draft for the model."""
_EXPECTED_OF_GRAMMAR = 0.98  # no other token is allowed, unless a thinking budget ends the reasoning
_EXPECTED_WEIGHT = 2.0
_ROW_WEIGHT = 8.0  # guesses after which a row's own history counts as much as the model's
_ROW_MEMORY = 24.0  # guesses; it is short because a text changes its subject
_MODEL_MEMORY = 400.0

_Kind = tuple[Source, int]


class _Counts:
    """The numbers of right guesses and of all guesses of each kind; older ones count less."""

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
        """Return the share of right guesses; a kind with little history takes over that of shorter matches."""
        source, most = kind
        expected = EXPECTED_OF_DRAFT if source in DRAFTS else _EXPECTED
        if source == "grammar":
            expected = _EXPECTED_OF_GRAMMAR
        for size in range(most + 1):
            expected = self._counts.mean((source, size), expected, _EXPECTED_WEIGHT)
        return expected


class RowAcceptance:
    """The guesses for one row, and the chances of the next ones.

    The kind of a guess is its source and the number of matching tokens before it, by powers of two.
    """

    def __init__(self, model: ModelAcceptance) -> None:
        self._model = model
        self._counts = _Counts(_ROW_MEMORY)
        self._guesses: Sequence[int] = ()
        self._source: Source = "ngram"
        self._match_length = 0

    def propose(self, source: Source, guesses: Sequence[int], match_length: int = 0) -> Proposal:
        """Return a proposal with its chances, and remember it. `match_length`: how many tokens before it match."""
        self._source, self._guesses, self._match_length = source, guesses, match_length
        return Proposal(source, list(guesses), self.chances(source, len(guesses), match_length))

    def chances(self, source: Source, count: int, match_length: int = 0) -> list[float]:
        """Return, for each of `count` guesses, how likely it and all guesses before it are right."""
        chances, chance = [], 1.0
        means: dict[_Kind, float] = {}
        for place in range(count):
            kind = _guess_kind(source, match_length, place)
            if kind not in means:
                means[kind] = self._counts.mean(kind, self._model.mean(kind), _ROW_WEIGHT)
            chance *= means[kind]
            chances.append(chance)
        return chances

    def take(self, tokens: Sequence[int]) -> None:
        """Compare the last proposal's guesses with the tokens that came; don't count guesses after a wrong one."""
        guesses, self._guesses = self._guesses, ()
        for place, (guess, token) in enumerate(zip(guesses, tokens, strict=False)):
            kind = _guess_kind(self._source, self._match_length, place)
            self._counts.add(kind, guess == token)
            self._model.add(kind, guess == token)
            if guess != token:
                return


def _guess_kind(source: Source, match_length: int, place: int) -> _Kind:
    return source, (match_length + place).bit_length()
