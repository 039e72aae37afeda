"""Asks proposers for rows' next tokens; what goes wrong in one costs its rows nothing but its proposals."""

import logging
from collections.abc import Callable, Sequence
from functools import partial

from orchard.engine.speculation.interface import Controller, Proposer, SpeculatingRow
from orchard.engine.speculation.proposal import Proposal

log = logging.getLogger("orchard.engine")


class Speculation:
    """The proposers of one engine, the most trusted first, and their controller. Only the engine's thread calls it."""

    def __init__(self, proposers: Sequence[Proposer], controller: Controller, vocab_size: int) -> None:
        self.controller = controller
        self._proposers = list(proposers)
        self._vocab_size = vocab_size
        self._open: dict[SpeculatingRow, list[Proposer]] = {}

    def open(self, row: SpeculatingRow) -> None:
        """Begin with a row."""
        self._open[row] = []
        for proposer in self._proposers:
            if _try(partial(proposer.open, row)):
                self._open[row].append(proposer)

    def close(self, row: SpeculatingRow) -> None:
        """Forget a row. Unknown ones are fine."""
        for proposer in self._open.pop(row, ()):
            _try(partial(proposer.close, row))

    def propose(self, rows: Sequence[SpeculatingRow], most: Sequence[int]) -> list[Proposal | None]:
        """Return the first proposal of at least a token for each row, cut to `most` tokens that exist; None: none.

        Rows that are not open get none.
        """
        found: list[Proposal | None] = [None] * len(rows)
        for proposer in self._proposers:
            asked = [
                place
                for place, row in enumerate(rows)
                if most[place] > 0 and found[place] is None and proposer in self._open.get(row, ())
            ]
            if not asked:
                continue
            given = self._ask(proposer, [rows[place] for place in asked], [most[place] for place in asked])
            for place, proposal in zip(asked, given, strict=True):
                found[place] = proposal
        return found

    def _ask(
        self, proposer: Proposer, rows: Sequence[SpeculatingRow], most: Sequence[int]
    ) -> Sequence[Proposal | None]:
        proposals: list[Proposal | None] = []

        def ask() -> None:
            given = proposer.propose(rows, most)
            proposals.extend(self._cut(one, count) for one, count in zip(given, most, strict=True))

        if _try(ask):
            return proposals
        for row in rows:
            self._open[row].remove(proposer)
        return [None] * len(rows)

    def _cut(self, proposal: Proposal | None, most: int) -> Proposal | None:
        if proposal is None:
            return None
        known = 0
        for token in proposal.tokens[:most]:
            if not 0 <= token < self._vocab_size:
                break
            known += 1
        return proposal.part(0, known) if known else None


def _try(act: Callable[[], None]) -> bool:
    try:
        act()
    except Exception as error:
        log.warning("a proposer failed; its rows go on without it", exc_info=error)
        return False
    return True
