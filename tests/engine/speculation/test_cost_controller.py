"""The controller on made-up machines: never slower than without, and nearly as quick as the best fixed width.

Time is counted, not measured, so that each run is the same.
"""

import itertools
import math
import random
from collections.abc import Callable, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from orchard.engine.speculation.acceptance import ModelAcceptance, RowAcceptance
from orchard.engine.speculation.cost_controller import WIDTHS, WIDTHS_ALONE_ON_CUDA, CostController
from orchard.engine.speculation.proposal import Proposal
from tests.support.examples import examples, some

Cost = Callable[[int, int], float]
"""Milliseconds of a pass of so many rows and so many tokens a row."""


def waits_for_memory(rows: int, width: int) -> float:
    """Return what a large GPU takes."""
    return 10 + 0.05 * rows * width


def demo_on_a_cpu(rows: int, width: int) -> float:
    """Return what a CPU takes for a tiny model."""
    return 2 * (1 + 0.35 * math.pow(rows * width - 1, 0.85))


def computes_all_the_time(rows: int, width: int) -> float:
    """Return what a CPU takes for a larger model."""
    return 15 * math.pow(rows * width, 0.85)


def loads_experts(rows: int, width: int) -> float:
    """Return what a mixture of experts takes: each token loads its own, until all of them are loaded."""
    return 5 + 5 * min(rows * width, 60)


def loses_look_ahead(rows: int, width: int) -> float:
    """Return what a step takes where launching ahead hides half of a plain one."""
    return (3 if width == 1 else 6) + 0.1 * rows * width


def has_small_tiles(rows: int, width: int) -> float:
    """Return what a step takes where a ninth token needs another kernel."""
    return 8 if rows * width <= 8 else 8 + 1.0 * rows * width


MACHINES: tuple[Cost, ...] = (
    waits_for_memory,
    demo_on_a_cpu,
    computes_all_the_time,
    loads_experts,
    loses_look_ahead,
    has_small_tiles,
)


STEPS = 1000


class Row:
    """A row whose proposals are right with a chance that may change with the place in its text."""

    def __init__(self, chance: Callable[[int], float], acceptance: ModelAcceptance, seed: int) -> None:
        self.random = random.Random(seed)
        self.chance = chance
        self.acceptance = RowAcceptance(acceptance)
        self.tokens = 0

    def propose(self, most: int) -> Proposal:
        """Propose so many tokens; the right one is 1."""
        right = (self.random.random() < self.chance(self.tokens) for _ in range(most))
        return self.acceptance.propose("ngram", [int(one) for one in right], 8)

    def take(self, proposal: Proposal | None, verified: int) -> int:
        """Take the tokens of a step; return how many they are."""
        guesses = proposal.tokens[:verified] if proposal else []
        accepted = guesses.index(0) if 0 in guesses else len(guesses)
        self.acceptance.take([1] * (accepted + 1))
        self.tokens += accepted + 1
        return accepted + 1


def simulate(
    chances: Sequence[Callable[[int], float]],
    cost: Cost,
    milliseconds: float,
    width: int | None = None,
    *,
    noise: float = 0.0,
    widths: Sequence[int] = WIDTHS,
    present: Sequence[int] = (),
) -> float:
    """Return tokens a millisecond. `width`: a fixed one in place of the controller. `noise`: of the steps' times.

    `widths`: those that the controller may choose. `present`: how many of the rows are in a step, again and again.
    """
    model, now, tokens, before = ModelAcceptance(), 0.0, 0, 0
    all_rows = [Row(chance, model, seed) for seed, chance in enumerate(chances)]
    numbers = itertools.cycle(present or [len(all_rows)])
    jitter = random.Random(9)
    controller = CostController(lambda: now, widths_alone=widths, widths_together=widths)
    while now < milliseconds:
        count, asking = next(numbers), 0.0
        rows = all_rows[:count]
        proposals: list[Proposal | None] = [None] * count
        chosen = [0] * count
        if width is not None:
            most = width - 1
            proposals, chosen = [row.propose(most) for row in rows], [most] * count
        elif most := controller.proposal_limit(count):
            proposals = [row.propose(most) for row in rows]
            asking = 0.02 * count
            now += asking
            chosen = counts(controller.choose([[one] if one else [] for one in proposals]))
        interrupted = 3 if jitter.random() < noise / 10 else 1
        taken = cost(count, 1 + max(chosen)) * jitter.uniform(1, 1 + noise) * interrupted
        now += taken
        tokens += sum(row.take(one, k) for row, one, k in zip(rows, proposals, chosen, strict=True))
        if count == before or not before:
            controller.observe(count, count * (1 + max(chosen)), asking + taken)
        before = count
    return tokens / now


def counts(chosen: Sequence[Proposal | None]) -> list[int]:
    return [one.count if one else 0 for one in chosen]


def constant(chance: float) -> Callable[[int], float]:
    return lambda place: chance


def cites(place: int) -> float:
    """Return the chance within a text that is copied for a while, then not."""
    return 0.9 if place % 400 < 150 else 0.05


def cycle(of: Sequence[int], steps: int) -> list[int]:
    return [one for one in of for _ in range(steps)]


CASES = list(itertools.product(MACHINES, (1, 4, 16), (0.0, 0.4, 0.8, 0.95)))


@pytest.mark.parametrize(("cost", "rows", "chance"), some(CASES, 10))
def test_never_slower_and_near_the_best_fixed_width(cost: Cost, rows: int, chance: float) -> None:
    fixed = [rows * (1 - chance**width) / (1 - chance) / cost(rows, width) for width in WIDTHS]
    found = simulate([constant(chance)] * rows, cost, STEPS * cost(rows, 1))
    assert found > 0.97 * fixed[0]
    # What lies behind widths that are worse than none is not searched for.
    reachable = itertools.takewhile(lambda rate: rate > 0.95 * fixed[0], fixed)
    assert found > 0.85 * max(reachable)


# Both numbers of rows for each machine; in the fast profile one for each, in turn.
@pytest.mark.parametrize(
    ("cost", "rows"),
    some([(cost, (1, 8)[(place + turn) % 2]) for place, cost in enumerate(MACHINES) for turn in (0, 1)], 2),
)
def test_is_never_slower_where_chances_change_and_steps_are_interrupted(cost: Cost, rows: int) -> None:
    milliseconds = 2 * STEPS * cost(rows, 1)
    plain = simulate([cites] * rows, cost, milliseconds, width=1, noise=0.5)
    assert simulate([cites] * rows, cost, milliseconds, noise=0.5) > 0.97 * plain


def is_filled_up(rows: int, width: int) -> float:
    """Return what a step takes of a row that is alone on CUDA."""
    return 5 if width == 1 else 9 if width <= 8 else 12


@pytest.mark.parametrize("chance", [0.0, 0.4, 0.6, 0.8, 0.95])
def test_of_few_widths_the_best_is_found_as_well(chance: float) -> None:
    widths = WIDTHS_ALONE_ON_CUDA
    fixed = [(1 - chance**width) / (1 - chance) / is_filled_up(1, width) for width in widths]
    found = simulate([constant(chance)], is_filled_up, STEPS * 5, widths=widths)
    assert found > 0.97 * fixed[0]
    assert found > 0.85 * max(fixed)


def test_a_width_that_is_far_from_one_is_tried_soon() -> None:
    """A pass that is filled up takes what its tokens would take alone only at worst."""
    controller = CostController(lambda: 0.0, widths_alone=(1, 8, 16))
    for _ in range(3):
        step(controller, 1, 0.01)
        controller.costs.add(1, 1, 0.01)
    assert step(controller, 8, 0.01, sure(7)) == [7]


def test_gains_from_a_row_that_copies_beside_rows_that_do_not() -> None:
    chances = [constant(0.95), *[constant(0.0)] * 3]
    assert simulate(chances, waits_for_memory, STEPS * 10) > 1.5 * simulate(chances, waits_for_memory, STEPS * 10, 1)


LEAVES = cycle([8], 80) + cycle([7, 6, 5, 4, 3, 2], 3)
"""Eight rows for a while, which then leave one after the other."""


@pytest.mark.parametrize(("cost", "chance"), some(list(itertools.product(MACHINES, (0.0, 0.4, 0.8))), 4))
@pytest.mark.parametrize("present", [LEAVES, cycle([3, 8, 5, 1], 3), cycle([1, 2], 30)])
def test_is_never_slower_where_rows_come_and_go(cost: Cost, chance: float, present: list[int]) -> None:
    rows, milliseconds = [constant(chance)] * 8, 2 * STEPS * cost(4, 1)
    plain = simulate(rows, cost, milliseconds, 1, present=present)
    assert simulate(rows, cost, milliseconds, present=present) > 0.97 * plain


@examples(60)
@given(
    st.floats(0.1, 50),
    st.lists(st.floats(0, 30), min_size=len(WIDTHS) - 1, max_size=len(WIDTHS) - 1),
    st.integers(1, 12),
    st.floats(0, 0.99),
)
def test_is_never_slower_on_any_machine(plain: float, more: list[float], rows: int, chance: float) -> None:
    """Passes never get cheaper with their width, and no token is dearer than four alone."""
    table = dict(zip(WIDTHS, itertools.accumulate([plain, *(min(one, 4 * plain) for one in more)]), strict=True))
    widths = lambda rows, width: table[min(one for one in WIDTHS if one >= width)]  # noqa: E731
    assert simulate([constant(chance)] * rows, widths, 2 * STEPS * plain) > 0.97 * rows / plain


def test_a_slow_first_pass_of_a_width_is_forgotten() -> None:
    """A kernel that is built on first use takes as long as many steps."""
    seen: set[int] = set()

    def builds(rows: int, width: int) -> float:
        first = width not in seen
        seen.add(width)
        return waits_for_memory(rows, width) * (100 if first and width > 1 else 1)

    simulate([constant(0.9)], builds, 40_000)
    assert simulate([constant(0.9)], builds, 20_000) > 2 / 10


def test_measures_again_what_has_become_cheap() -> None:
    now = [0.0]

    def busy_at_first(rows: int, width: int) -> float:
        now[0] += 1
        return waits_for_memory(rows, width) * (width if now[0] < 500 else 1)

    assert simulate([constant(0.9)], busy_at_first, 4 * STEPS * 10) > 3 / 10


def known(**seconds: float) -> CostController:
    """A controller that has measured steps of one row, by width."""
    controller = CostController(lambda: 0.0)
    for width, taken in seconds.items():
        for _ in range(3):
            controller.costs.add(1, int(width.removeprefix("w")), taken)
    return controller


def step(controller: CostController, tokens: int, seconds: float, proposal: Proposal | None = None) -> list[int]:
    """Take a step of one row."""
    chosen = counts(controller.choose([[proposal] if proposal else []])) if controller.proposal_limit(1) else [0]
    controller.observe(1, tokens, seconds)
    return chosen


def sure(count: int) -> Proposal:
    return Proposal("ngram", [1] * count, [1.0] * count)


def test_what_a_wide_step_leaves_to_the_next_ones_is_its_cost() -> None:
    controller = known(w1=0.01, w2=0.01)
    assert step(controller, 2, 0.01, sure(1)) == [1]
    step(controller, 0, 0.004)  # nothing was launched ahead
    step(controller, 1, 0.01)
    assert step(controller, 2, 0.012, sure(1)) == [1]
    step(controller, 3, 0.015)  # tokens are read again
    step(controller, 1, 0.01)
    samples = controller.costs._samples[1]
    assert list(samples[2]._seconds)[3:] == pytest.approx([0.014, 0.017])
    assert set(samples[1]._seconds) == {0.01}


def test_looking_ahead_no_more_in_vain_is_charged_to_asking() -> None:
    controller = known(w1=0.01)
    step(controller, 1, 0.01)
    assert controller.proposal_limit(1)
    step(controller, 0, 0.5)
    assert not controller.proposal_limit(1)


def test_reading_what_was_launched_in_vain_costs_what_it_takes_longer() -> None:
    controller = known(w1=0.01, w2=0.011)
    for _ in range(8):
        step(controller, 1, 0.01)
    for _ in range(2):
        assert controller.proposal_limit(1)
        assert counts(controller.choose([[sure(1)]])) == [1]
        assert controller.proposal_limit(1)
        assert controller.choose([[]]) == [None]  # the token that was launched was another one
        controller.observe(1, 0, 0.0102)
    assert controller.proposal_limit(1)


def test_counts_what_is_gained_by_source() -> None:
    controller = known(w1=0.01, w2=0.011, w3=0.012, w4=0.015)
    for accepted in (3, 0):
        assert controller.proposal_limit(1)
        assert counts(controller.choose([[sure(3)]])) == [3]
        controller.note_verification(sure(3), 3, accepted)
        controller.observe(1, 4, 0.015)
    step(controller, 1, 0.01)
    found = controller.totals["ngram"]
    assert (found.proposed, found.accepted) == (6, 3)
    assert found.saved_seconds == pytest.approx(3 * 0.01 - 2 * 0.005)


def test_what_a_pass_takes_longer_is_divided_among_the_sources_that_it_verified() -> None:
    controller = CostController(lambda: 0.0)
    for width, seconds in ((1, 0.01), (1, 0.01), (2, 0.012), (3, 0.014), (4, 0.016)):
        controller.costs.add(2, width, seconds)
    forced = Proposal("grammar", [1], [1.0])
    assert controller.proposal_limit(2)
    assert counts(controller.choose([[sure(3)], [forced]])) == [3, 1]
    controller.note_verification(sure(3), 3, 2)
    controller.note_verification(forced, 1, 1)
    controller.observe(2, 8, 0.016)
    controller.proposal_limit(2)
    controller.observe(2, 2, 0.01)
    saved = {source: found.saved_seconds for source, found in controller.totals.items()}
    assert saved == pytest.approx({"ngram": 0.01 - 0.006 * 3 / 4, "grammar": 0.005 - 0.006 / 4})


def test_plain_steps_are_measured_again_among_wide_ones() -> None:
    controller = known(w1=0.01, w2=0.0105, w3=0.011, w4=0.0115)
    plain = 0
    for _ in range(200):
        wide = controller.proposal_limit(1) > 0 and counts(controller.choose([[sure(3)]])) == [3]
        controller.observe(1, 4 if wide else 1, 0.0115 if wide else 0.01)
        plain += not wide
    assert 2 <= plain <= 12


def test_widths_that_were_too_dear_are_measured_again_after_long() -> None:
    controller = known(**{f"w{width}": 0.01 * width for width in WIDTHS})
    wide: list[int] = []
    for number in range(600):
        chosen = controller.proposal_limit(1) and counts(controller.choose([[sure(15)]]))[0]
        controller.observe(1, 1 + chosen, 0.01 * (1 + chosen))
        wide += [number] if chosen else []
    assert wide
    assert min(wide) > 450


def test_the_costs_of_a_lone_row_tell_nothing_of_several() -> None:
    assert not known(w1=0.01, w2=0.011).proposal_limit(2)


def test_so_little_that_it_may_be_chance_is_no_gain() -> None:
    assert step(known(w1=0.01, w2=0.0195), 2, 0.0195, sure(1)) == [0]
    assert step(known(w1=0.01, w2=0.0185), 2, 0.0185, sure(1)) == [1]


def test_counts_guesses_at_once_and_gains_where_steps_were_measured() -> None:
    """A step in which prompts were read, or rows came, says nothing of what its guesses saved."""
    controller = known(w1=0.01, w2=0.011, w3=0.012, w4=0.015)
    for number in range(1, 4):
        assert controller.proposal_limit(1)
        assert counts(controller.choose([[sure(3)]])) == [3]
        controller.note_verification(sure(3), 3, 2)
        assert controller.totals["ngram"].proposed == 3 * number
        assert controller.totals["ngram"].accepted == 2 * number
    controller.observe(1, 4, 0.015)
    step(controller, 1, 0.01)
    found = controller.totals["ngram"]
    assert (found.proposed, found.accepted) == (9, 6)
    assert found.saved_seconds == pytest.approx(2 * 0.01 - 0.005)


def test_asks_nobody_before_it_knows_what_a_plain_step_takes() -> None:
    controller = CostController()
    assert controller.proposal_limit(0) == 0
    for _ in range(2):
        assert controller.proposal_limit(3) == 0
        controller.observe(3, 3, 0.01)
    assert controller.proposal_limit(3) > 0


def test_a_step_that_lost_rows_says_nothing_of_what_passes_cost() -> None:
    controller = CostController()
    controller.proposal_limit(3)
    controller.observe(2, 2, 0.01)
    assert not controller.costs.measured_widths(2)
    assert not controller.costs.measured_widths(3)


def at_eight_rows() -> CostController:
    """A controller that knows what steps of eight rows take, plain and 4 wide."""
    controller = CostController(lambda: 0.0, widths_alone=(1, 8), widths_together=(1, 4))
    for width in (1, 4) * 3:
        controller.costs.add(8, width, 0.01 + 0.001 * width)
    return controller


@pytest.mark.parametrize("rows", [7, 4, 11, 16])
def test_after_rows_came_or_went_a_like_number_of_rows_tells_what_is_worth_it(rows: int) -> None:
    """Such a number of rows may be there for too few steps to be measured."""
    controller = at_eight_rows()
    assert controller.proposal_limit(rows) == 3
    assert counts(controller.choose([[sure(3)]] * rows)) == [3] * rows


def test_a_number_of_rows_that_stays_is_measured() -> None:
    controller = at_eight_rows()
    for _ in range(16):
        assert controller.proposal_limit(7) == 3
        controller.choose([[sure(3)]] * 7)
        controller.observe(7, 28, 0.013)
    assert controller.proposal_limit(7) == 0


@pytest.mark.parametrize("rows", [1, 3, 17])
def test_a_number_of_rows_that_is_unlike_those_known_is_measured_first(rows: int) -> None:
    """The pass of a lone row may even be of another kind."""
    assert at_eight_rows().proposal_limit(rows) == 0


def test_a_lone_row_that_comes_again_needs_no_plain_step_first() -> None:
    controller = known(w1=0.01, w2=0.01)
    for _ in range(100):
        controller.costs.add(8, 1, 0.01)
    controller.proposal_limit(8)
    assert step(controller, 2, 0.01, sure(1)) == [1]


def test_what_a_step_that_others_were_asked_about_saves_is_counted_by_their_costs() -> None:
    controller = at_eight_rows()
    assert controller.proposal_limit(4) == 3
    controller.choose([[sure(3)]] * 4)
    for _ in range(4):
        controller.note_verification(sure(3), 3, 3)
    controller.observe(4, 16, 0.014)
    controller.proposal_limit(4)
    controller.choose([[]] * 4)
    controller.observe(4, 4, 0.011)
    # Twelve tokens more than the four of a plain step of 11 ms, in 3 ms more.
    assert controller.totals["ngram"].saved_seconds == pytest.approx(0.011 * 12 / 4 - 0.003)


def test_asking_in_vain_takes_a_small_share_of_the_time() -> None:
    now = 0.0
    controller = CostController(lambda: now)
    asking = 0.0
    for _ in range(5000):
        if controller.proposal_limit(1):
            now += 0.005  # as long as a step
            asking += 0.005
            assert controller.choose([[]]) == [None]
        now += 0.005
        controller.observe(1, 1, 0.005)
    assert 0.005 * now < asking < 0.025 * now


class DraftedRow(Row):
    """A row for which a draft guesses, right with another chance."""

    def __init__(self, drafts: float, acceptance: ModelAcceptance, seed: int) -> None:
        super().__init__(constant(0.0), acceptance, seed)
        self.drafts = drafts

    def promise(self, most: int) -> Proposal:
        return Proposal("draft", [], self.acceptance.chances("draft", most))

    def guess(self, count: int) -> list[int]:
        return self.acceptance.propose("draft", [int(self.random.random() < self.drafts) for _ in range(count)]).tokens


def with_draft(count: int, chance: float, cost: Cost, guess: float, steps: int) -> tuple[float, int]:
    """Return tokens a millisecond, and how many tokens were drafted, where each guess takes so many milliseconds."""
    model, now, tokens, drafted = ModelAcceptance(), 0.0, 0, 0
    rows = [DraftedRow(chance, model, seed) for seed in range(count)]
    controller = CostController(lambda: now)
    while now < steps * cost(count, 1):
        chosen: list[Proposal | None] = [None] * count
        begun = now
        if looks := controller.proposal_limit(count):
            chosen = controller.choose([[row.promise(min(looks, 4))] for row in rows])
            if width := max(counts(chosen)):
                now += guess * width
                drafted += width
                controller.note_drafting(count, width, guess * width)
                chosen = [
                    one and structs.replace(one, tokens=row.guess(one.count))
                    for row, one in zip(rows, chosen, strict=True)
                ]
        width = 1 + max(counts(chosen))
        now += cost(count, width)
        tokens += sum(row.take(one, one.count if one else 0) for row, one in zip(rows, chosen, strict=True))
        controller.observe(count, count * width, now - begun)
    return tokens / now, drafted


DRAFTED = list(itertools.product((1, 8), (0.5, 3.0, 9.0), (0.0, 0.5, 0.8, 0.95)))


@pytest.mark.parametrize(("rows", "guess", "chance"), some(DRAFTED))
def test_a_draft_is_used_as_far_as_it_gains(rows: int, guess: float, chance: float) -> None:
    """What its own passes take is part of the time, so a draft that is slow or mostly wrong is left alone."""
    cost = waits_for_memory
    fixed = [
        rows * (1 - chance**width) / (1 - chance) / (cost(rows, width) + guess * (width - 1)) for width in (1, 2, 3, 4)
    ]
    found, _ = with_draft(rows, chance, cost, guess, 2 * STEPS)
    assert found > 0.97 * fixed[0]
    reachable = itertools.takewhile(lambda rate: rate > 0.95 * fixed[0], fixed)
    assert found > 0.85 * max(reachable)


def test_a_draft_that_gains_nothing_is_hardly_run() -> None:
    assert with_draft(1, 0.0, waits_for_memory, 1.0, STEPS)[1] < 30


def test_what_a_draft_must_read_first_is_part_of_its_cost() -> None:
    controller = known(w1=0.01, w2=0.011, w3=0.011)
    controller.note_drafting(1, 2, 0.002)
    controller.note_reading(100, 0.01)
    for unread, chosen in ((0, [2]), (100, [2]), (500, [2]), (10_000, [0])):
        assert controller.proposal_limit(1)
        assert counts(controller.choose([[Proposal("draft", [], [0.8, 0.64], unread)]])) == chosen


def test_a_draft_that_was_too_slow_is_asked_again_after_long() -> None:
    controller = known(w1=0.01, w2=0.011, w3=0.011)
    controller.note_drafting(1, 2, 1.0)
    found: list[int] = []
    for _ in range(1001):
        assert controller.proposal_limit(1)
        found += counts(controller.choose([[Proposal("draft", [], [0.8, 0.64])]]))
    assert found == [0] * 1000 + [2]


def test_of_a_rows_proposals_the_one_counts_that_gains_most() -> None:
    """Earlier text and a draft serve different rows of a step."""
    controller = known(w1=0.01, w2=0.0105, w3=0.011, w4=0.0115, w6=0.0125)
    for rows in (1, 2):
        for width in (1, 2, 3, 4, 6):
            for _ in range(3):
                controller.costs.add(rows, width, 0.01 + 0.0005 * width)
    controller.note_drafting(1, 2, 0.002)
    good, bad = Proposal("ngram", [1] * 5, [0.9] * 5), Proposal("ngram", [1] * 5, [0.1, *[0.0] * 4])
    draft = Proposal("draft", [], [0.8, 0.64])
    assert controller.proposal_limit(2)
    found = controller.choose([[good, draft], [bad, draft]])
    assert [(one.source, one.count) for one in found if one] == [("ngram", 5), ("draft", 2)]
    controller.note_drafting(1, 2, 0.05)  # now it is too dear
    for _ in range(20):
        controller.drafts.add(1, 2, 0.05)
    assert controller.proposal_limit(2)
    assert [(one.source, one.count) for one in controller.choose([[good, draft], [bad, draft]]) if one] == [
        ("ngram", 5)
    ] * 2


def test_counts_what_a_draft_takes_against_what_it_saves() -> None:
    controller = known(w1=0.01, w2=0.011, w3=0.012)
    draft = Proposal("draft", [], [0.9, 0.81])
    assert controller.proposal_limit(1)
    assert counts(controller.choose([[draft]])) == [2]
    controller.note_drafting(1, 2, 0.004)
    controller.note_verification(draft, 2, 2)
    controller.observe(1, 3, 0.016)
    step(controller, 1, 0.01)
    assert controller.totals["draft"].saved_seconds == pytest.approx(2 * 0.01 - 0.002 - 0.004)
    assert controller.costs.seconds(1, 3) == pytest.approx(0.012)
