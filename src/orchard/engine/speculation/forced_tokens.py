"""Proposes the tokens that a row's grammar forces, because no others are allowed (jump-forward decoding)."""

from collections.abc import Sequence

from orchard.engine.sampling.grammar import GrammarState
from orchard.engine.speculation.acceptance import ModelAcceptance, RowAcceptance
from orchard.engine.speculation.interface import SpeculatingRow
from orchard.engine.speculation.proposal import Proposal


class _BoundRow:
    """One row with a grammar."""

    def __init__(self, row: SpeculatingRow, grammar: GrammarState, acceptance: RowAcceptance) -> None:
        self._row = row
        self._grammar = grammar
        self._acceptance = acceptance
        self._compared_tokens = len(row.tokens)

    def propose(self, most: int) -> Proposal | None:
        new = self._row.tokens[self._compared_tokens :]
        self._compared_tokens += len(new)
        self._acceptance.take(new)
        forced = self._grammar.forced_tokens()[:most]
        return self._acceptance.propose("grammar", forced) if forced else None


class ForcedProposer:
    """Proposes forced tokens for all rows that have a grammar."""

    def __init__(self) -> None:
        self._acceptance = ModelAcceptance()
        self._rows: dict[SpeculatingRow, _BoundRow] = {}

    def open(self, row: SpeculatingRow) -> None:
        """Begin with a row."""
        if row.grammar:
            self._rows[row] = _BoundRow(row, row.grammar, RowAcceptance(self._acceptance))

    def close(self, row: SpeculatingRow) -> None:
        """Forget a row."""
        self._rows.pop(row, None)

    def propose(self, rows: Sequence[SpeculatingRow], most: Sequence[int]) -> list[Proposal | None]:
        """Propose up to `most[i]` tokens for each row."""
        pairs = zip(rows, most, strict=True)
        return [bound.propose(count) if (bound := self._rows.get(row)) else None for row, count in pairs]
