"""Decides how many proposed tokens a step verifies, so that speculation makes decode faster, and never slower.

It compares steps by their expected tokens per second. The time of a step is measured while the model serves; each
proposal says how likely its guesses are right. So there is no table of machines and models: full batches, long
contexts, mixture-of-experts models and poor guesses all show in these numbers. The time that a draft takes to guess is
added. Of a row's proposals, the controller chooses the one with the most expected tokens per second.

Two things take time without a certain gain: asking the proposers in vain, and measuring a width that may be too slow.
Each is paid for from a credit, which grows by a small share of the time that steps take.
"""

import itertools
import time
from collections.abc import Callable, Sequence

from msgspec import Struct, structs

from orchard.core.speculation_report import SourceTotals, SpeculationReport
from orchard.engine.speculation.pass_costs import DraftCosts, PassCosts
from orchard.engine.speculation.proposal import DRAFTS, Proposal, Source

WIDTHS = (1, 2, 3, 4, 6, 8, 12, 16)
"""How many tokens per row a pass may have: the proposed ones and the one before them. Width 1 is a plain step."""
WIDTHS_ON_CUDA = (1, 2, 4, 8)
"""Fewer widths, since on CUDA each width needs another trace of the pass."""
WIDTHS_ALONE_ON_CUDA = (1, 8, 16)
"""On CUDA, the pass of a single row is padded to a multiple of eight tokens."""
_ASKING_SHARE = 0.015  # of the steps' time
_MEASURING_SHARE = 0.005
_MOST_CREDIT = 16.0  # plain steps
_FIRST_CREDIT = 4.0
_MOST_CHARGED = 5.0  # plain steps, for one step; a longer time has causes other than the width
_MARGIN = 1.05  # a smaller gain is not worth the risk
_PROMISE = 1.1  # the gain that an unknown width must promise at best
_STALE = 500  # steps after which a width is measured again
_ONCE_STALE = 16  # the same for a width that was measured once: a kernel may have been compiled
_PLAIN_STALE = 64  # the same for plain steps, with which all others are compared
_PLAIN_SAMPLES = 2
_JUDGED_BY_OTHERS = 16  # steps in which the costs of another number of rows may stand in for missing ones
_MOST_UNLIKE = 2.0  # the greatest ratio of the two numbers of rows
_READ_FOR = 64  # steps over which the time that a draft needs to read a row's text is spread


class _Plan(Struct):
    """A possible step: its width, what it verifies, the tokens to expect, and the seconds of drafting before it."""

    width: int
    proposals: list[Proposal | None]
    tokens: float
    drafting: float = 0.0


_Pool = list[list[tuple[Proposal, list[float]]]]
"""Each row's proposals; for each, entry n of the list is the expected number of right guesses among its first n."""


class _Choice(Struct):
    """What was chosen for a step: the width of its pass, and the seconds that it may take without a loss.

    `like`: the number of rows whose costs were used for the choice.
    """

    rows: int
    like: int
    width: int
    fair_seconds: float
    explores: bool = False
    proposals: list[Proposal | None] = []


class _WideStep(Struct):
    """A step that verified tokens: the choice, its seconds without drafting, and (proposed, accepted) by source.

    `drafting`: the seconds of drafting.
    """

    choice: _Choice
    seconds: float
    verified: dict[Source, tuple[int, int]]
    drafting: float


class CostController:
    """Chooses by measured costs; see the module's docstring. All calls come from the engine's thread."""

    def __init__(
        self,
        clock: Callable[[], float] = time.perf_counter,
        *,
        widths_alone: Sequence[int] = WIDTHS,
        widths_together: Sequence[int] = WIDTHS,
    ) -> None:
        """`widths_alone`, `widths_together`: the possible widths for one row and for several, ascending from 1."""
        self._widths_alone, self._widths_together = widths_alone, widths_together
        self.costs = PassCosts()
        self.drafts = DraftCosts()
        self._drafting = 0.0  # seconds, in this step
        self._clock = clock
        self._asked_at: float | None = None  # when the proposers were asked
        self._askings = PassCosts()  # how long that takes
        self._has_chosen = False  # whether this step chose a proposal, perhaps before it read the launched tokens
        self._choice: _Choice | None = None
        self.totals: SpeculationReport = {}
        """Results by source since the model was loaded. Any thread may read it: it is replaced, never changed."""
        self._verifications: dict[Source, tuple[int, int]] = {}
        self._last_wide_step: _WideStep | None = None  # a part of its cost may show in the next step
        self._measuring_credit = 0.0  # credit, in seconds
        self._asking_credit = 0.0
        self._has_credit = False
        self._rows = 0  # in the last step
        self._steps_since_change = 0

    def proposal_limit(self, rows: int) -> int:
        """Return the most tokens to propose for each row in this step; 0: don't ask the proposers."""
        if rows != self._rows:
            self._rows, self._steps_since_change = rows, 0
        like = self._similar_rows(rows) if rows and self._asking_credit >= 0 else None
        # If the last step's time didn't count, its results are still there: drop them.
        self._choice, self._drafting, self._verifications = _Choice(rows, like or rows, 1, 0.0), 0.0, {}
        if like is None:
            return 0
        self._asked_at = self._clock()
        return self._next_width(like) - 1

    def _similar_rows(self, rows: int) -> int | None:
        """Return the number of rows whose costs to use for a step of `rows` rows; None: plain steps must be measured.

        Rows join and leave all the time. Soon after that, the costs of a similar number of rows may be used.
        """
        if self.costs.count(rows, 1) >= _PLAIN_SAMPLES and self.costs.age(rows, 1) <= _PLAIN_STALE:
            return rows
        if self._steps_since_change >= _JUDGED_BY_OTHERS:
            return None
        # The pass of a single row may use other kernels.
        others = [one for one in self.costs.measured_rows(_PLAIN_SAMPLES, _STALE) if (one == 1) == (rows == 1)]
        unlike = {one: max(one, rows) / min(one, rows) for one in others}
        return min((one for one in others if unlike[one] <= _MOST_UNLIKE), key=unlike.__getitem__, default=None)

    def choose(self, offers: Sequence[Sequence[Proposal]]) -> list[Proposal | None]:
        """Return what to verify of each row, see `Controller`."""
        rows = len(offers)
        self._choice = choice = self._best_choice(offers, self._choice.like if self._choice else rows)
        if self._asked_at is not None and choice.width == 1:  # otherwise asking is part of the measured step
            self._askings.add(rows, 1, self._clock() - self._asked_at)
            self._asking_credit -= self._askings.seconds(rows, 1) or 0.0
        self._has_chosen |= choice.width > 1
        self._asked_at = None
        return [one and one.part(0, choice.width - 1) for one in choice.proposals or [None] * rows]

    def observe(self, rows: int, tokens: int, seconds: float) -> None:
        """Note how long a step took, see `Controller`."""
        choice, self._choice = self._choice, None
        self._steps_since_change += 1
        hoped, self._has_chosen = self._has_chosen, False
        if choice is None or choice.rows != rows:
            return
        self._earn(rows, seconds)
        before, self._last_wide_step = self._last_wide_step, None
        if choice.width > 1:
            if before:
                self._note(before)
            self._last_wide_step = _WideStep(choice, seconds - self._drafting, self._verifications, self._drafting)
            self._verifications = {}
        elif tokens == rows:
            if before:
                self._note(before)
            self.costs.add(rows, 1, seconds)
        else:
            # Nothing was launched ahead, or tokens were read again: because the last step was wide, or because this one
            # read the launched tokens to be wide and then found no gain.
            plain = self.costs.seconds(choice.like, 1) or seconds
            extra = max(seconds - plain, 0.0) if tokens or hoped else seconds
            if before:
                self._note(structs.replace(before, seconds=before.seconds + extra))
            else:
                self._asking_credit -= extra

    def note_reading(self, tokens: int, seconds: float) -> None:
        """Note how many seconds the draft took to read `tokens` tokens."""
        self.drafts.add_reading(tokens, seconds)

    def note_drafting(self, rows: int, tokens: int, seconds: float) -> None:
        """Note how many seconds the draft took to guess in this step."""
        self._drafting += seconds
        self.drafts.add(rows, tokens, seconds)

    def note_verification(self, proposal: Proposal, proposed: int, accepted: int) -> None:
        """Note how many of the first `proposed` tokens of a row's proposal were accepted."""
        before = self._verifications.get(proposal.source, (0, 0))
        self._verifications[proposal.source] = before[0] + proposed, before[1] + accepted
        self._add(proposal.source, proposed, accepted, 0.0)

    def _note(self, wide: "_WideStep") -> None:
        choice, seconds = wide.choice, wide.seconds
        self._count_saved(wide)
        self.costs.add(choice.rows, choice.width, seconds)
        if choice.explores:
            plain = self.costs.seconds(choice.like, 1) or seconds
            self._measuring_credit -= min(max(seconds - choice.fair_seconds, 0.0), _MOST_CHARGED * plain)

    def _count_saved(self, wide: "_WideStep") -> None:
        plain = self.costs.seconds(wide.choice.like, 1) or wide.seconds
        all_proposed = sum(proposed for proposed, _ in wide.verified.values())
        for source, (proposed, accepted) in wide.verified.items():
            saved = plain * accepted / wide.choice.rows - (wide.seconds - plain) * proposed / all_proposed
            saved -= wide.drafting if source in DRAFTS else 0.0
            self._add(source, 0, 0, saved)

    def _add(self, source: Source, proposed: int, accepted: int, saved_seconds: float) -> None:
        found = self.totals.get(source, SourceTotals()).plus(proposed, accepted, saved_seconds)
        self.totals = {**self.totals, source: found}

    def _earn(self, rows: int, seconds: float) -> None:
        plain = self.costs.seconds(rows, 1)
        if plain is None:
            return
        if not self._has_credit:
            self._has_credit = True
            self._measuring_credit = _FIRST_CREDIT * plain
        self._measuring_credit = min(self._measuring_credit + _MEASURING_SHARE * seconds, _MOST_CREDIT * plain)
        self._asking_credit = min(self._asking_credit + _ASKING_SHARE * seconds, _MOST_CREDIT * plain)

    def _best_choice(self, offers: Sequence[Sequence[Proposal]], like: int) -> _Choice:
        rows = len(offers)
        chosen = _Choice(rows, like, 1, 0.0)
        plain = self.costs.seconds(like, 1)
        hoped = sum(max((sum(one.chances) for one in offered), default=0.0) for offered in offers)
        if plain is None or rows + hoped <= rows * _MARGIN:  # too little even if a pass cost no more than a plain step
            return chosen
        plans = self._plans(offers)
        best = rows / plain * _MARGIN
        for plan in plans:
            seconds = self.costs.seconds(like, plan.width)
            if seconds is not None and plan.tokens / (seconds + plan.drafting) > best:
                best = plan.tokens / (seconds + plan.drafting)
                chosen = _Choice(rows, like, plan.width, seconds, proposals=plan.proposals)
        return (self._explore(rows, plans, best) if like == rows else None) or chosen

    def _plans(self, offers: Sequence[Sequence[Proposal]]) -> list[_Plan]:
        """Return the best plan for each width, without the draft and with it."""
        summed: _Pool = [[(one, [0.0, *itertools.accumulate(one.chances)]) for one in offered] for offered in offers]
        pools = [[[pair for pair in offered if pair[0].source not in DRAFTS] for offered in summed]]
        if pools[0] != summed:
            self.drafts.ask()
            pools.append(summed)
        plans: list[_Plan] = []
        for pool in pools:
            longest = max((one.count for offered in pool for one, _ in offered), default=0)
            # A width is only worth it for more tokens than the next smaller width takes.
            pairs = itertools.pairwise(self._widths(len(pool)))
            plans += [self._plan(pool, width) for shorter, width in pairs if shorter <= longest]
        return plans

    def _plan(self, pool: _Pool, width: int) -> _Plan:
        tokens = float(len(pool))
        chosen: list[Proposal | None] = []
        for offered in pool:
            best, worth = None, -1.0
            for one, sums in offered:
                if (found := sums[width - 1] if width <= one.count else sums[-1]) > worth:
                    best, worth = one, found
            chosen.append(best)
            tokens += max(worth, 0.0)
        drafts = [one for one in chosen if one and one.source in DRAFTS]
        drafting = 0.0
        if drafts:
            drafting = self.drafts.guessing_seconds(len(drafts), min(max(one.count for one in drafts), width - 1))
            drafting += self.drafts.reading_seconds(sum(one.unread_count for one in drafts)) / _READ_FOR
        return _Plan(width, chosen, tokens, drafting)

    def _least_seconds(self, rows: int, width: int) -> float:
        """Estimate the least seconds of a new width: a further token costs half of what it cost in narrower steps."""
        narrower = [one for one in self.costs.measured_widths(rows) if one < width][-2:]
        first, last = (self.costs.seconds(rows, one) or 0.0 for one in (narrower[0], narrower[-1]))
        slope = max(last - first, 0.0) / (narrower[-1] - narrower[0]) if narrower[0] > 1 and narrower[1:] else 0.0
        return last + slope / 2 * (width - narrower[-1])

    def _steps_trusted(self, rows: int, width: int) -> int:
        """Return for how many steps a measured width is trusted: a single measurement may be an outlier."""
        return _STALE if self.costs.count(rows, width) > 1 else _ONCE_STALE

    def _explore(self, rows: int, plans: Sequence[_Plan], best: float) -> _Choice | None:
        """Return a choice to measure a width that may give more than `best` tokens per second, if the credit allows."""
        known = self.costs.measured_widths(rows)
        for plan in sorted(plans, key=lambda plan: plan.width, reverse=True):
            width = plan.width
            fresh = width in known and self.costs.age(rows, width) <= self._steps_trusted(rows, width)
            if fresh or width > self._next_width(rows):
                continue
            least, fair = self._least_seconds(rows, width), plan.tokens / best - plan.drafting
            below = max(one for one in known if one < width)
            most = (self.costs.seconds(rows, below) or 0.0) * self._most_growth(rows, below, width)
            if least * _PROMISE < fair and most - fair <= self._measuring_credit:
                return _Choice(rows, rows, width, fair, explores=True, proposals=plan.proposals)
        return None

    def _widths(self, rows: int) -> Sequence[int]:
        return self._widths_alone if rows == 1 else self._widths_together

    def _next_width(self, rows: int) -> int:
        """Return the widest pass to try: the next width after the widest measured one, or up to twice that one."""
        widest = max(self.costs.measured_widths(rows))
        widths = self._widths(rows)
        after = next((one for one in widths if one > widest), widths[-1])
        return max(after, *(one for one in widths if one <= 2 * widest))

    def _most_growth(self, rows: int, below: int, width: int) -> float:
        """Return the most time of a pass relative to width `below`: as its tokens, at most doubled for each width."""
        steps = sum(below < one <= width for one in self._widths(rows))
        return min(width / below, 2.0**steps)
