"""Asks proposers for the next tokens of rows. If a proposer fails, its rows only lose its proposals.

Out-of-memory errors are no failures of a proposer: all methods may raise them.
"""

import itertools
import logging
import time
from collections.abc import Callable, Sequence
from functools import partial

import mlx.core as mx
from msgspec.structs import replace

from orchard.device.out_of_memory import is_out_of_memory
from orchard.engine.speculation.interface import Controller, Drafter, Proposer, SpeculatingRow
from orchard.engine.speculation.proposal import DraftedTokens, Proposal

log = logging.getLogger("orchard.engine")


class Speculation:
    """The proposers of one engine, in order of preference, and their controller. Only the engine's thread uses it."""

    def __init__(self, proposers: Sequence[Proposer], controller: Controller, vocab_size: int) -> None:
        self.controller = controller
        self._proposers = list(proposers)
        self._vocab_size = vocab_size
        self._open: dict[SpeculatingRow, list[Proposer]] = {}
        self._drafter: Drafter | None = None
        self._drafting: set[SpeculatingRow] = set()

    def adopt(self, drafter: Drafter) -> None:
        """Let a draft model or an MTP head guess, too, for rows that are opened from now on."""
        self._drafter = drafter

    def open(self, row: SpeculatingRow) -> None:
        """Begin with a row."""
        self._open[row] = []
        for proposer in self._proposers:
            if _try_proposer(partial(proposer.open, row)):
                self._open[row].append(proposer)
        if self._drafter and _try_proposer(partial(self._drafter.open, row)):
            self._drafting.add(row)

    def close(self, row: SpeculatingRow) -> None:
        """Forget a row. Unknown rows are ignored."""
        for proposer in self._open.pop(row, ()):
            _try_proposer(partial(proposer.close, row))
        self._leave_drafter([row])

    def drop_all(self) -> None:
        """Forget all rows, and whatever the draft has computed."""
        if self._drafter:
            self._drafter.drop_all()
        for row in list(self._open):
            self.close(row)

    def propose(
        self, rows: Sequence[SpeculatingRow], most: Sequence[int], *, launched: bool = False
    ) -> list[list[Proposal]]:
        """Return each row's proposals: the first that has a token, cut to `most[i]` tokens and before any token that is
        not in the vocabulary, and the draft's.

        Rows that are not open get none. `launched`: the token after each row's text is launched and not read yet; then
        the proposals begin after that token.
        """
        found = self._ask_all(rows, [count and count + launched for count in most])
        promised: Sequence[Proposal | None] = [None] * len(rows)
        if drafting := [place for place, row in enumerate(rows) if most[place] > 0 and row in self._drafting]:
            promised = self._ask_drafter(rows, most, drafting)
        cut = [one.part(1) if one and launched else one for one in found]
        return [[one for one in proposals if one and one.count] for proposals in zip(cut, promised, strict=True)]

    def draft(self, rows: Sequence[SpeculatingRow], counts: Sequence[int]) -> DraftedTokens:
        """Return up to `counts[i]` guesses of the draft for each row; tell the controller how long they took.

        While the draft has not read a row's text, this reads a piece of it and returns no guesses for that row.
        """
        drafter = self._drafter
        guesses = DraftedTokens.from_lists([[] for _ in rows])
        if drafter is None:
            return guesses

        def guess() -> None:
            nonlocal guesses
            begun = time.perf_counter()
            if read := drafter.read(rows):
                self.controller.note_reading(read, time.perf_counter() - begun)
            begun = time.perf_counter()
            given = drafter.draft(rows, counts)
            if (drafted := sum(map(bool, given.counts))) and not given.compiled:
                self.controller.note_drafting(drafted, max(given.counts), time.perf_counter() - begun)
            # A token that isn't in the vocabulary is wrong in any case; replace it by one that is.
            guesses = replace(given, array=mx.minimum(given.array, self._vocab_size - 1))

        if not _try_proposer(guess):
            self._leave_drafter(rows)
        return guesses

    def limit(self, cache_bytes: int) -> int:
        """Limit the draft's own cached prompts to its share of `cache_bytes`; return the bytes that are left."""
        return self._drafter.limit(cache_bytes) if self._drafter else cache_bytes

    def _leave_drafter(self, rows: Sequence[SpeculatingRow]) -> None:
        for row in rows:
            if self._drafter and row in self._drafting:
                self._drafting.remove(row)
                _try_proposer(partial(self._drafter.close, row))

    def _ask_drafter(
        self, rows: Sequence[SpeculatingRow], most: Sequence[int], places: Sequence[int]
    ) -> Sequence[Proposal | None]:
        drafter = self._drafter
        promised: list[Proposal | None] = [None] * len(rows)
        asked = [rows[place] for place in places]

        def ask() -> None:
            assert drafter
            given = drafter.promise(asked, [most[place] for place in places])
            for place, one in zip(places, given, strict=True):
                promised[place] = one

        if not _try_proposer(ask):
            self._leave_drafter(asked)
        return promised

    def _ask_all(self, rows: Sequence[SpeculatingRow], most: Sequence[int]) -> list[Proposal | None]:
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
            proposals.extend(self._cut_proposal(one, count) for one, count in zip(given, most, strict=True))

        if _try_proposer(ask):
            return proposals
        for row in rows:
            self._open[row].remove(proposer)
            _try_proposer(partial(proposer.close, row))
        return [None] * len(rows)

    def _cut_proposal(self, proposal: Proposal | None, most: int) -> Proposal | None:
        if proposal is None:
            return None
        known = len(self._valid_tokens(proposal.tokens, most))
        return proposal.part(0, known) if known else None

    def _valid_tokens(self, tokens: Sequence[int], most: int) -> list[int]:
        """Return up to `most` tokens, ending before the first that is not in the vocabulary."""
        return list(itertools.takewhile(lambda token: 0 <= token < self._vocab_size, tokens[:most]))


def _try_proposer(act: Callable[[], None]) -> bool:
    try:
        act()
    except Exception as error:
        if is_out_of_memory(error):
            raise
        log.warning("a proposer failed; its rows go on without it", exc_info=error)
        return False
    return True
