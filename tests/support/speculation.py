"""Proposers and a controller whose guesses tests decide."""

import random
from collections import Counter
from collections.abc import Sequence
from typing import cast

from orchard.core.speculation_report import SpeculationReport
from orchard.engine.batching.decode import Row
from orchard.engine.speculation.interface import SpeculatingRow
from orchard.engine.speculation.proposal import Proposal
from orchard.engine.speculation.speculation import Speculation
from tests.support.engine_driver import WORDS
from tests.support.tiny_models import network


class FixedController:
    """Verifies up to so many tokens of each row's first proposal, always; notes what it is told."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.observed: list[tuple[int, int, float]] = []
        self.results: list[tuple[Proposal, int, int]] = []
        self.read_tokens = 0
        self.drafts: list[tuple[int, int]] = []

    @property
    def totals(self) -> SpeculationReport:
        return {}

    def proposal_limit(self, rows: int) -> int:
        return self.most

    def choose(self, offers: Sequence[Sequence[Proposal]]) -> list[Proposal | None]:
        return [offered[0].part(0, self.most) if offered else None for offered in offers]

    def observe(self, rows: int, tokens: int, seconds: float) -> None:
        self.observed.append((rows, tokens, seconds))

    def note_reading(self, tokens: int, seconds: float) -> None:
        assert seconds > 0
        self.read_tokens += tokens

    def note_drafting(self, rows: int, tokens: int, seconds: float) -> None:
        assert seconds > 0
        self.drafts.append((rows, tokens))

    def note_verification(self, proposal: Proposal, proposed: int, accepted: int) -> None:
        self.results.append((proposal, proposed, accepted))

    def accepted(self) -> dict[str, int]:
        """By source."""
        found: Counter[str] = Counter()
        for proposal, _, accepted in self.results:
            found[proposal.source] += accepted
        return found


class Oracle:
    """Proposes what its rows will say, each token wrong with some chance; sometimes nothing, sometimes it raises.

    `answers`: those of each job's choices, by the job's id.
    """

    def __init__(
        self, answers: dict[str, list[list[int]]], right: float = 1.0, *, silent: float = 0.0, raises: float = 0.0
    ) -> None:
        self.open_rows: list[SpeculatingRow] = []
        self._answers = answers
        self._right, self._silent, self._raises = right, silent, raises
        self._rng = random.Random(1)

    def open(self, row: SpeculatingRow) -> None:
        self.open_rows.append(row)

    def close(self, row: SpeculatingRow) -> None:
        self.open_rows.remove(row)

    def propose(self, rows: Sequence[SpeculatingRow], most: Sequence[int]) -> list[Proposal | None]:
        if self._rng.random() < self._raises:
            raise RuntimeError("unlucky")
        return [self._one(cast(Row, row), count) for row, count in zip(rows, most, strict=True)]

    def _one(self, row: Row, count: int) -> Proposal | None:
        begun = len(row.tokens) - row.prompt_length
        ahead = self._answers[row.job.id][row.choice][begun : begun + count]
        said = [token if self._rng.random() < self._right else self._rng.randrange(WORDS) for token in ahead]
        return Proposal("ngram", said, [0.5] * len(said)) if self._rng.random() >= self._silent else None


def speculation(
    answers: dict[str, list[list[int]]], most: int = 4, right: float = 1.0, **chances: float
) -> Speculation:
    """An oracle, right with some chance, of whose proposals up to `most` tokens are always verified."""
    return Speculation([Oracle(answers, right, **chances)], FixedController(most), network("qwen3").vocab_size)
