"""Decides how many proposed tokens a step verifies, so that the rows' tokens come sooner, or never later, than without.

A step's worth is the tokens that can be expected of it, by the time that it takes. What a step takes is measured while
the model serves; how likely a guess is right, its proposal says. So it needs no table of machines and models: batches
that are full, long contexts, experts that are paid for by the token and poor guesses all show in these numbers.

Two things cost without a certain gain: to ask the proposers in vain, and to measure a width that may turn out too dear.
Each is paid from a credit, a small share of the time that steps take.
"""

import time
from collections.abc import Callable, Sequence

from msgspec import Struct, structs

from orchard.core.speculation_report import SourceTotals, SpeculationReport
from orchard.engine.speculation.pass_costs import PassCosts
from orchard.engine.speculation.proposal import Proposal, Source

WIDTHS = (1, 2, 3, 4, 6, 8, 12, 16)
"""How many tokens a row may bring into a pass: the proposed ones, and the one before them."""
_ASKING_SHARE = 0.015  # of the steps' time
_MEASURING_SHARE = 0.005
_MOST_CREDIT = 16.0  # plain steps
_FIRST_CREDIT = 4.0
_MOST_CHARGED = 5.0  # for one step; what takes longer is no cost of the width
_MARGIN = 1.05  # less is no gain worth the risk
_PROMISE = 1.1  # what an unknown width must promise at best
_STALE = 500  # steps after which a width is worth another look
_ONCE_STALE = 16  # the same for a width that was measured once: a kernel may have been built
_PLAIN_STALE = 64  # the same for plain steps, by which all others are judged
_PLAIN_SAMPLES = 2


class _Choice(Struct):
    """What was chosen for a step: the width of its pass, and what its time must be to be no loss."""

    rows: int
    width: int
    fair_seconds: float
    explores: bool = False


class _Wide(Struct):
    """A step that verified tokens: what was chosen, what it took, and how many were proposed and accepted by source."""

    choice: _Choice
    seconds: float
    verified: dict[Source, tuple[int, int]]


class CostController:
    """Chooses by measured costs; see the module. All calls come from the engine's thread."""

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self.costs = PassCosts()
        self._clock = clock
        self._asked: float | None = None  # when the proposers were asked
        self._askings = PassCosts()  # what that takes
        self._choice: _Choice | None = None
        self.totals: SpeculationReport = {}
        """By source, since the model was loaded. Another thread may read it: it is replaced, never changed."""
        self._verified: dict[Source, tuple[int, int]] = {}
        self._before: _Wide | None = None  # a wide step, whose cost the next step may show in part
        self._measuring = 0.0  # credit, in seconds
        self._asking = 0.0
        self._credited = False

    def looks(self, rows: int) -> int:
        """Return the most tokens that each row may have proposed in this step; 0: nobody is asked."""
        self._choice = _Choice(rows, 1, 0.0)
        if not rows or self._asking < 0 or self.costs.count(rows, 1) < _PLAIN_SAMPLES:
            return 0
        if self.costs.age(rows, 1) > _PLAIN_STALE:
            return 0
        self._asked = self._clock()
        return _next_width(max(self.costs.known(rows))) - 1

    def choose(self, proposals: Sequence[Proposal | None]) -> list[int]:
        """Return how many tokens of each row's proposal are verified."""
        rows = len(proposals)
        self._choice = choice = self._best(rows, proposals)
        if self._asked is not None and choice.width == 1:  # else this is part of the step, whose time is measured
            self._askings.add(rows, 1, self._clock() - self._asked)
            self._asking -= self._askings.seconds(rows, 1) or 0.0
        self._asked = None
        return [min(choice.width - 1, len(one.tokens)) if one else 0 for one in proposals]

    def observe(self, rows: int, tokens: int, seconds: float) -> None:
        """Note what a step took, see `Controller`."""
        choice, self._choice = self._choice, None
        if choice is None or choice.rows != rows:
            return
        self._earn(rows, seconds)
        before, self._before = self._before, None
        if choice.width > 1:
            if before:
                self._note(before)
            self._before = _Wide(choice, seconds, self._verified)
            self._verified = {}
        elif tokens == rows:
            if before:
                self._note(before)
            self.costs.add(rows, 1, seconds)
        else:
            # Nothing was launched ahead, or tokens were read again: for a wide step, or in the vain hope of one.
            extra = seconds if not tokens else max(seconds - (self.costs.seconds(rows, 1) or seconds), 0.0)
            if before:
                self._note(structs.replace(before, seconds=before.seconds + extra))
            else:
                self._asking -= extra

    def verified(self, proposal: Proposal, proposed: int, accepted: int) -> None:
        """Note how many of the first `proposed` tokens of a row's proposal were accepted."""
        before = self._verified.get(proposal.source, (0, 0))
        self._verified[proposal.source] = before[0] + proposed, before[1] + accepted

    def _note(self, wide: "_Wide") -> None:
        choice, seconds = wide.choice, wide.seconds
        self._count(wide)
        self.costs.add(choice.rows, choice.width, seconds)
        if choice.explores:
            plain = self.costs.seconds(choice.rows, 1) or seconds
            self._measuring -= min(max(seconds - choice.fair_seconds, 0.0), _MOST_CHARGED * plain)

    def _count(self, wide: "_Wide") -> None:
        plain = self.costs.seconds(wide.choice.rows, 1) or wide.seconds
        all_proposed = sum(proposed for proposed, _ in wide.verified.values())
        totals = dict(self.totals)
        for source, (proposed, accepted) in wide.verified.items():
            saved = plain * accepted / wide.choice.rows - (wide.seconds - plain) * proposed / all_proposed
            totals[source] = totals.get(source, SourceTotals()).plus(proposed, accepted, saved)
        self.totals = totals

    def _earn(self, rows: int, seconds: float) -> None:
        plain = self.costs.seconds(rows, 1)
        if plain is None:
            return
        if not self._credited:
            self._credited = True
            self._measuring = _FIRST_CREDIT * plain
        self._measuring = min(self._measuring + _MEASURING_SHARE * seconds, _MOST_CREDIT * plain)
        self._asking = min(self._asking + _ASKING_SHARE * seconds, _MOST_CREDIT * plain)

    def _best(self, rows: int, proposals: Sequence[Proposal | None]) -> _Choice:
        chosen = _Choice(rows, 1, 0.0)
        plain = self.costs.seconds(rows, 1)
        longest = max((len(one.tokens) for one in proposals if one), default=0)
        if plain is None or not longest:
            return chosen
        best = rows / plain * _MARGIN
        expected = {width: _expected(proposals, width) for width in WIDTHS[1:] if _shorter(width) <= longest}
        for width, tokens in expected.items():
            seconds = self.costs.seconds(rows, width)
            if seconds is not None and tokens / seconds > best:
                best, chosen = tokens / seconds, _Choice(rows, width, seconds)
        return self._exploring(rows, expected, best) or chosen

    def _least(self, rows: int, width: int) -> float:
        """Return what a width may take at best: half of what each token more has cost so far, in wide steps."""
        narrower = [one for one in self.costs.known(rows) if one < width][-2:]
        first, last = (self.costs.seconds(rows, one) or 0.0 for one in (narrower[0], narrower[-1]))
        slope = max(last - first, 0.0) / (narrower[-1] - narrower[0]) if narrower[0] > 1 and narrower[1:] else 0.0
        return last + slope / 2 * (width - narrower[-1])

    def _trusted(self, rows: int, width: int) -> int:
        """Return for how many steps a width needs no other look; one measurement may have been bad luck."""
        return _STALE if self.costs.count(rows, width) > 1 else _ONCE_STALE

    def _exploring(self, rows: int, expected: dict[int, float], best: float) -> _Choice | None:
        """Return a width to be measured that may be better than `best` tokens a second, if the credit is enough."""
        known = self.costs.known(rows)
        for width in reversed(expected):
            fresh = width in known and self.costs.age(rows, width) <= self._trusted(rows, width)
            if fresh or width > _next_width(known[-1]):
                continue
            least, fair = self._least(rows, width), expected[width] / best
            below = max(one for one in known if one < width)
            most = (self.costs.seconds(rows, below) or 0.0) * width / below
            if least * _PROMISE < fair and most - fair <= self._measuring:
                return _Choice(rows, width, fair, explores=True)
        return None


def _expected(proposals: Sequence[Proposal | None], width: int) -> float:
    """Return how many tokens a pass of that width brings."""
    return len(proposals) + sum(sum(one.chances[: width - 1]) for one in proposals if one)


def _shorter(width: int) -> int:
    """Return the fewest tokens that must be proposed for a width to be worth more than the one below."""
    return WIDTHS[WIDTHS.index(width) - 1]


def _next_width(width: int) -> int:
    """Return the widest pass that may be tried where one of that width was measured."""
    return max(one for one in WIDTHS if one <= max(2 * width, 2))
