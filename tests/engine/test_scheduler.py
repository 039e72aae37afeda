from typing import Any

import pytest
from msgspec import Struct

from orchard.core.request import Priority
from orchard.engine.prefill_price import LEAST_TOKENS, Chunk, PrefillPrice
from orchard.engine.scheduler import Scheduler, TooLargeRequest
from orchard.engine.ticket import LEAST_CHUNK, Limits, StepWork, Ticket


class Step(Struct, frozen=True):
    """What the scheduler decides for one step."""

    too_large: list[TooLargeRequest]
    preempt: list[str]
    begin: list[str]
    prefill: list[tuple[str, int]]
    pause: list[str] = []
    displace: list[str] = []


def plan_step(it: Scheduler) -> Step:
    plan = it.plan()
    return Step(plan.too_large, plan.preempt, plan.begin, it.plan_prefill(), plan.pause, plan.displace)


def scheduler(**changes: Any) -> Scheduler:
    given: dict[str, Any] = {"max_rows": 4, "memory_bytes": 1000, "chunk": 10, "idle_chunk": 40, "room": 8} | changes
    return Scheduler(Limits(**given))


def ticket(name: str, priority: Priority = "normal", prompt: int = 0, **changes: Any) -> Ticket:
    """One that takes a byte a token, and has nothing to read unless told otherwise."""
    given = {"prompt_tokens": 0, "rows": 1, "max_tokens": 100, "bytes_per_token": 1} | changes
    return Ticket(name, priority, prompt_bytes=prompt, **given)


def reading(name: str, tokens: int, priority: Priority = "normal") -> Ticket:
    return ticket(name, priority, prompt_tokens=tokens)


def admitted(*tickets: Ticket, **limits: Any) -> tuple[Scheduler, Step]:
    """A scheduler with these, after its first plan."""
    it = scheduler(**limits)
    for each in tickets:
        assert it.add(each) is None
    return it, plan_step(it)


def test_nothing_to_do() -> None:
    it = scheduler()
    assert it.is_idle
    assert plan_step(it) == Step([], [], [], [])
    it.cancel("nobody")
    it.end_row("nobody")
    it.set_prompt_tokens("nobody", 3)
    assert it.requeue("nobody", 3, 3) is None
    assert (it.is_idle, it.running, it.waiting, it.used_bytes) == (True, 0, 0, 0)


def test_the_life_of_a_request() -> None:
    it, plan = admitted(ticket("a", prompt=50, prompt_tokens=50, rows=2, fixed_bytes=7))
    assert plan == Step([], [], ["a"], [("a", 40)])
    assert (it.running, it.waiting, it.used_bytes) == (1, 0, 114)
    assert plan_step(it) == Step([], [], [], [("a", 10)])
    assert it.used_bytes == 114
    for step in range(1, 4):
        assert plan_step(it) == Step([], [], [], [])
        assert it.used_bytes == 114 + 2 * step
    it.end_row("a")
    assert (it.running, it.used_bytes) == (1, 60)
    it.end_row("a")
    it.end_row("a")
    assert it.is_idle


def test_a_row_grows_no_further_than_its_last_token() -> None:
    it, _ = admitted(ticket("a", max_tokens=3))
    for _ in range(5):
        plan_step(it)
    assert it.used_bytes == 3


def test_cancelling_at_any_time() -> None:
    it, _ = admitted(ticket("a"), reading("b", 500), ticket("c", rows=4))
    assert (it.running, it.waiting) == (2, 1)
    for left, name in enumerate("cba"):
        it.cancel(name)
        assert it.running + it.waiting == 2 - left
    assert it.is_idle


@pytest.mark.parametrize("rows", [0, 5])
def test_more_rows_than_may_ever_run_are_a_mistake_of_the_caller(rows: int) -> None:
    with pytest.raises(ValueError, match=f"a has {rows} rows; between 1 and 4"):
        scheduler().add(ticket("a", rows=rows))


def test_what_could_never_run_is_refused_with_the_numbers() -> None:
    it = scheduler()
    assert it.add(ticket("a", prompt=495, rows=2, fixed_bytes=5)) == TooLargeRequest("a", 1002, 1000)
    assert it.is_idle
    assert it.add(ticket("b", prompt=494, rows=2, fixed_bytes=5)) is None
    assert plan_step(it).begin == ["b"]


def test_one_that_outgrows_the_memory_alone_is_failed_and_nobody_preempted_for_it() -> None:
    it, _ = admitted(ticket("a", prompt=989), ticket("b", "background"))
    assert (it.running, it.waiting) == (1, 1)  # b waits: a could grow
    for _ in range(10):
        assert plan_step(it) == Step([], [], [], [])
    assert plan_step(it) == Step([TooLargeRequest("a", 1001, 1000)], [], ["b"], [])


def test_rows_bound_admission() -> None:
    it, plan = admitted(ticket("a", rows=3), ticket("b"), ticket("c"))
    assert plan.begin == ["a", "b"]
    assert plan_step(it).begin == []
    it.end_row("a")
    assert plan_step(it).begin == ["c"]


def test_memory_bounds_admission_by_what_rows_may_soon_take() -> None:
    it, plan = admitted(ticket("a", prompt=400), ticket("b", prompt=585), ticket("c", prompt=1, max_tokens=6))
    assert plan.begin == ["a", "c"]  # 408 + 593 are too much; c won't grow by 8
    it.cancel("c")
    it.cancel("a")
    assert plan_step(it).begin == ["b"]


def test_a_reserve_is_kept_from_what_would_run_beside_others_and_from_nothing_that_runs() -> None:
    it = scheduler()
    it.reserve(300)
    for name in "ab":
        it.add(ticket(name, prompt=400))
    assert plan_step(it).begin == ["a"]  # 408 + 408 leave less than 300
    assert all(not plan_step(it).preempt for _ in range(99))  # it grows to 500
    assert plan_step(it).begin == []
    it.reserve(0)
    assert plan_step(it).begin == ["b"]


def test_what_runs_alone_may_take_the_reserve() -> None:
    it = scheduler()
    it.reserve(2**40)
    assert it.reserved_bytes == 500
    it.add(ticket("a", prompt=900))
    assert plan_step(it).begin == ["a"]
    assert it.spare_bytes < it.reserved_bytes


def test_admission_is_in_order_within_a_class() -> None:
    _, plan = admitted(*(ticket(name) for name in "abcdef"))
    assert plan.begin == ["a", "b", "c", "d"]


def test_admission_between_the_classes_is_by_weight() -> None:
    it = scheduler(max_rows=1)
    classes: dict[str, Priority] = {"i": "interactive", "n": "normal", "b": "background"}
    for name, priority in classes.items():
        for number in range(100):
            it.add(ticket(f"{name}{number}", priority))
    begun = []
    for _ in range(2 * 21):
        begun += plan_step(it).begin
        it.cancel(begun[-1])
    assert [sum(name[0] == kind for name in begun) for kind in "inb"] == [32, 8, 2]
    assert begun[:6] == ["i0", "i1", "i2", "i3", "n0", "i4"]


def test_a_class_saves_nothing_up_while_it_has_no_requests() -> None:
    it = scheduler(max_rows=1)
    for number in range(100):
        it.add(ticket(f"i{number}", "interactive"))
    for number in range(50):
        assert plan_step(it).begin == [f"i{number}"]
        it.cancel(f"i{number}")
    for number in range(10):
        it.add(ticket(f"b{number}", "background"))
    begun = []
    for _ in range(34):
        begun += plan_step(it).begin
        it.cancel(begun[-1])
    assert sum(name[0] == "b" for name in begun) == 2


@pytest.mark.parametrize(("priority", "times"), [("interactive", 4), ("normal", 16), ("background", 64)])
def test_what_does_not_fit_is_overtaken_only_so_often(priority: Priority, times: int) -> None:
    it, _ = admitted(ticket("first", prompt=500))
    it.add(ticket("large", priority, prompt=600))
    for number in range(times):
        it.add(ticket(f"small{number}", priority))
        assert plan_step(it).begin == [f"small{number}"]
        it.cancel(f"small{number}")
    it.add(ticket("late", priority))
    assert plan_step(it).begin == []
    it.cancel("first")
    assert plan_step(it).begin == ["large", "late"]


def test_short_prompts_share_a_step() -> None:
    it, plan = admitted(*(reading(name, 5) for name in "abcdef"), max_rows=8)
    assert plan.prefill == [("a", 5), ("b", 5), ("c", 5), ("d", 5)]  # no more than four
    assert plan_step(it).prefill == [("e", 5), ("f", 5)]


def test_reading_is_slower_while_a_row_decodes() -> None:
    it, plan = admitted(ticket("a"), reading("b", 100))
    assert plan.prefill == [("b", 10)]
    it.cancel("a")
    assert plan_step(it).prefill == [("b", 40)]


def test_a_small_remainder_goes_only_to_a_prompt_that_it_ends() -> None:
    _, plan = admitted(reading("a", 31), reading("b", 60), reading("c", 9))
    assert plan.prefill == [("c", 9), ("a", 31)]
    _, plan = admitted(reading("a", 31), reading("b", 60))
    assert plan.prefill == [("a", 31)]
    _, plan = admitted(reading("a", 30), reading("b", 60))
    assert plan.prefill == [("a", 30), ("b", 10)]


def test_a_short_prompt_passes_a_long_one() -> None:
    it, _ = admitted(reading("long", 10_000))
    for _ in range(20):
        plan_step(it)
    it.add(reading("short", 30))
    assert plan_step(it).prefill == [("short", 30), ("long", 10)]


def test_equal_prompts_take_turns_and_unequal_ones_by_weight() -> None:
    it, _ = admitted(reading("a", 10_000), reading("b", 10_000))
    assert [plan_step(it).prefill[0][0] for _ in range(5)] == ["b", "a", "b", "a", "b"]
    it, _ = admitted(reading("a", 10_000, "interactive"), reading("b", 10_000))
    assert [plan_step(it).prefill[0][0] for _ in range(9)] == ["a", "a", "a", "b", "a", "a", "a", "a", "b"]


def test_a_new_prompt_makes_nothing_up_for_the_time_before_it() -> None:
    it, _ = admitted(reading("a", 10_000))
    for _ in range(50):
        plan_step(it)
    it.add(reading("b", 10_000))
    assert [plan_step(it).prefill[0][0] for _ in range(4)] == ["a", "b", "a", "b"]


def test_the_prefix_cache_may_change_its_mind() -> None:
    it, _ = admitted(reading("a", 100))
    it.set_prompt_tokens("a", 5)
    assert plan_step(it).prefill == [("a", 5)]
    it.set_prompt_tokens("a", 70)
    assert [plan_step(it).prefill for _ in range(3)] == [[("a", 40)], [("a", 30)], []]


def test_what_is_read_again_takes_as_much_as_before() -> None:
    it, _ = admitted(ticket("a", prompt=20))
    for _ in range(4):
        plan_step(it)
    it.set_prompt_tokens("a", 25)
    assert plan_step(it).prefill == [("a", 25)]
    assert it.used_bytes == 25
    plan_step(it)
    assert it.used_bytes == 26


def full(**priorities: Priority) -> Scheduler:
    """Three with 300 bytes and one with 40, of a kind to grow until the memory is full."""
    sizes = dict(zip(priorities, (300, 300, 300, 40), strict=True))
    it, plan = admitted(*(ticket(name, priority, prompt=sizes[name]) for name, priority in priorities.items()))
    assert len(plan.begin) == 4
    for _ in range(14):
        assert plan_step(it).preempt == []
    assert it.used_bytes == 1000
    return it


def test_the_last_admitted_is_preempted_first() -> None:
    it = full(a="normal", b="normal", c="normal", d="normal")
    assert plan_step(it).preempt == ["d"]
    assert (it.running, it.waiting) == (3, 1)


def test_the_lowest_class_is_preempted_first() -> None:
    it = full(a="background", b="normal", c="interactive", d="interactive")
    assert plan_step(it).preempt == ["a"]


def test_as_many_are_preempted_as_it_takes() -> None:
    growing = [ticket(name, prompt=300, bytes_per_token=50) for name in "ab"]
    small = [ticket(name, prompt=20, bytes_per_token=0) for name in "cd"]
    it, plan = admitted(*growing, *small, room=1)
    assert plan.begin == ["a", "b", "c", "d"]
    assert [plan_step(it).preempt for _ in range(3)] == [[], [], ["d", "c"]]
    assert it.used_bytes == 1000


def test_nobody_takes_the_place_of_who_was_preempted() -> None:
    it = full(a="normal", b="normal", c="normal", d="normal")
    it.add(ticket("e", "normal"))
    assert plan_step(it) == Step([], ["d"], [], [])
    it.cancel("a")
    assert plan_step(it).begin == []  # d isn't back yet
    assert it.requeue("d", 55, 15) is None
    assert plan_step(it).begin == ["d", "e"]


def test_a_preempted_request_goes_on_where_it_was() -> None:
    it = full(a="normal", b="normal", c="normal", d="normal")
    it.add(ticket("e"))
    assert plan_step(it).preempt == ["d"]
    assert it.requeue("d", 30, 15) is None
    it.cancel("a")
    plan = plan_step(it)
    assert plan.begin == ["d", "e"]
    assert plan.prefill == [("d", 10)]
    assert it.used_bytes == 2 * 317 + 55 + 1
    for name in "bce":
        it.cancel(name)
    for _ in range(100):
        plan_step(it)
    assert it.used_bytes == 40 + 100  # 15 tokens of its 100 before, 85 since


def test_a_preempted_request_may_end_before_it_is_back() -> None:
    for end in (Scheduler.cancel, Scheduler.end_row):
        it = full(a="normal", b="normal", c="normal", d="normal")
        assert plan_step(it).preempt == ["d"]
        end(it, "d")
        assert it.requeue("d", 55, 15) is None
        assert (it.running, it.waiting) == (3, 0)
        it.add(ticket("e"))
        it.cancel("a")
        assert plan_step(it).begin == ["e"]


def test_one_that_comes_back_too_large_is_refused() -> None:
    it, _ = admitted(ticket("a", prompt=490), ticket("b", prompt=490, max_tokens=2000))
    while not plan_step(it).preempt:
        pass
    assert it.requeue("b", 0, 511) == TooLargeRequest("b", 1002, 1000)
    assert (it.running, it.waiting) == (1, 0)


def test_each_preemption_lifts_a_request_by_a_class() -> None:
    low, high = ticket("low", "background"), ticket("high", "interactive")
    low.seniority, high.seniority = 0, 1
    assert low.rank > high.rank
    low.preemptions = 1
    assert low.rank > high.rank
    for low.preemptions in (2, 3):
        assert low.rank < high.rank  # it was admitted before it


def test_those_who_come_back_keep_their_order_at_the_head() -> None:
    it = scheduler()
    for name, seniority in (("new", -1), ("c", 2), ("a", 0), ("b", 1)):
        it.add(ticket(name, seniority=seniority))
    assert plan_step(it).begin == ["a", "b", "c", "new"]


def test_less_memory_than_there_may_ever_be_refuses_what_can_never_run() -> None:
    it, _ = admitted(ticket("a", prompt=100), ticket("b", prompt=700), ticket("c", prompt=600), ticket("d", prompt=250))
    assert it.limit_memory(650, 650) == []
    assert it.limit_memory(400, 400) == [TooLargeRequest("c", 601, 400)]
    plan = plan_step(it)
    assert plan.too_large == [TooLargeRequest("b", 702, 400)]
    assert (plan.preempt, plan.begin) == ([], ["d"])


def test_what_needs_more_memory_than_there_is_for_now_waits_and_stops_nobody() -> None:
    it, _ = admitted(ticket("a", prompt=100), ticket("b", prompt=700), ticket("c", prompt=600), ticket("d", prompt=250))
    assert it.limit_memory(400, 1000) == []
    assert (it.starved_ids, it.wanted_bytes) == (["c"], 608)
    assert plan_step(it).preempt == ["b"]  # it doesn't fit even alone, so "a" need not make room
    assert it.requeue("b", 700, 1) is None
    assert (it.starved_ids, it.wanted_bytes) == (["c", "b"], 709)  # of the older one, which is "b"
    assert plan_step(it).begin == ["d"]
    it.cancel("a")
    it.cancel("d")
    for number in range(100):  # more than the patience of one that may be overtaken
        assert it.add(ticket(f"small {number}", prompt=20)) is None
        assert plan_step(it).begin == [f"small {number}"]
        it.cancel(f"small {number}")
    assert it.add(ticket("never", prompt=1000)) == TooLargeRequest("never", 1001, 1000)
    assert it.limit_memory(1000, 1000) == []
    assert (it.starved_ids, it.wanted_bytes) == ([], 0)
    assert plan_step(it).begin[0] == "b"


def test_a_starved_request_may_be_cancelled_and_paused_and_lose_choices() -> None:
    it = scheduler()
    it.limit_memory(400, 1000)
    for name in ("cancelled", "paused", "two"):
        assert it.add(ticket(name, prompt=300, rows=2)) is None
    assert (it.starved_ids, it.waiting, it.is_idle) == (["cancelled", "paused", "two"], 3, True)
    it.cancel("cancelled")
    it.pause("paused")
    it.end_row("two")
    assert (it.starved_ids, it.waiting) == ([], 2)
    assert plan_step(it).begin == ["two"]
    assert it.resume("paused") is None
    assert it.starved_ids == ["paused"]


def test_chunks_get_smaller_when_memory_is_short_but_not_to_nothing() -> None:
    it = scheduler(chunk=256, idle_chunk=256, work=StepWork(token=2))
    it.add(ticket("long", prompt=500, prompt_tokens=500, length=500, max_tokens=100))
    it.add(ticket("short", prompt=100, prompt_tokens=100, length=100, max_tokens=100))
    plan = plan_step(it)
    assert plan.begin == ["long"]  # "short" could not be read in chunks of the usual size beside it
    assert plan.prefill == [("long", (1000 - 501 - 2) // 2)]
    assert it.planned_bytes <= 1000
    it.limit_memory(540, 1000)
    assert plan_step(it).prefill == [("long", 18)]
    it.limit_memory(535, 1000)
    assert plan_step(it).prefill == [("long", LEAST_CHUNK)]
    it.limit_memory(534, 1000)
    assert plan_step(it).preempt == ["long"]
    assert it.requeue("long", 500, 0) is None
    assert it.starved_ids == ["long"]


class Priced:
    """A scheduler with a row in decode, on a device that reads 10,000 tokens/s: 50 ms of a gap are left to prefill."""

    def __init__(self, *prompts: int, **changes: Any) -> None:
        self.price = PrefillPrice(10_000, 0.06)
        for _ in range(9):
            self.price.add_decode(0.01)
        limits = Limits(8, 2**40, chunk=64, idle_chunk=2048)
        self.scheduler = Scheduler(limits, self.price)
        self.scheduler.add(ticket("row"))
        plan_step(self.scheduler)
        for number, tokens in enumerate(prompts):
            self.scheduler.add(ticket(f"{number}", prompt_tokens=tokens, length=tokens, **changes))

    def prefill(self) -> list[tuple[str, int]]:
        return plan_step(self.scheduler).prefill


def test_beside_rows_a_step_reads_what_its_time_allows() -> None:
    priced = Priced(8000)
    assert priced.prefill() == [("0", 384)]
    for _ in range(99):
        priced.price.add(Chunk().join(448, 448), 0.01 + 0.0224)
    ((_, faster),) = priced.prefill()
    assert faster >= 768


def test_beside_rows_a_step_reads_at_least_a_few_tokens() -> None:
    priced = Priced(8000, 300)
    for _ in range(99):
        priced.price.add_decode(1.0)
        priced.price.add(Chunk().join(448, 448), 3.0)
    assert [tokens for _, tokens in priced.prefill()] == [LEAST_TOKENS]


def test_beside_rows_several_prompts_share_the_time_of_a_step() -> None:
    priced = Priced(*[100] * 7)
    assert priced.prefill() == [(f"{number}", 100) for number in range(4)]  # `Limits.pieces`
    assert priced.prefill() == [(f"{number}", 100) for number in range(4, 7)]
    priced = Priced(300, 300, 300)
    assert priced.prefill() == [("0", 300), ("1", 192)]
    assert priced.prefill() == [("1", 108), ("2", 300)]


def test_beside_rows_a_prompt_that_must_be_read_whole_is_read_whole() -> None:
    priced = Priced(100, 1500, least=0)
    assert priced.prefill() == [("0", 100)]
    assert priced.prefill() == [("1", 1500)]


def test_without_rows_a_step_reads_as_much_as_ever() -> None:
    priced = Priced(8000)
    priced.scheduler.cancel("row")
    assert priced.prefill() == [("0", 2048)]


def test_what_must_be_read_whole_is_admitted_with_the_bytes_of_that() -> None:
    it = scheduler(chunk=64, work=StepWork(token=2))
    assert it.add(ticket("never", prompt=400, prompt_tokens=400, length=400, least=0)) == TooLargeRequest(
        "never", 1203, 1000
    )
    assert it.add(ticket("whole", prompt=300, prompt_tokens=300, length=300, least=0)) is None
    assert it.add(ticket("other", prompt=150, prompt_tokens=150, length=150)) is None
    assert plan_step(it).begin == ["whole"]


def test_rows_that_join_and_draw_take_memory() -> None:
    it = scheduler(work=StepWork(row=90, copies=0.5))
    for name in ("a", "b", "c"):
        it.add(ticket(name, prompt=200))
    assert plan_step(it).begin == ["a", "b"]  # 1.5 * 201 + 90 each, and room for 7 tokens more
    assert it.planned_bytes == 2 * (301 + 90)
    assert it.room == 1  # another token of each would take 91 bytes


def test_less_memory_preempts_and_more_admits_again() -> None:
    it, _ = admitted(ticket("a", prompt=300), ticket("b", prompt=300))
    it.limit_memory(500, 1000)
    assert plan_step(it).preempt == ["b"]
    assert it.requeue("b", 301, 1) is None
    assert plan_step(it).begin == []
    it.limit_memory(1000, 1000)
    assert plan_step(it).begin == ["b"]


def test_the_bound_of_a_request_counts_what_it_generated_before_it_was_preempted() -> None:
    it, _ = admitted(ticket("a", prompt=300, max_tokens=50), ticket("b", prompt=300, max_tokens=50))
    plan_step(it)
    it.limit_memory(500, 1000)
    plan_step(it)
    it.requeue("b", 0, 2)
    it.limit_memory(1000, 1000)
    it.limit_tokens("b", 5)
    it.limit_tokens("unknown", 5)
    plan_step(it)
    it.cancel("a")
    for _ in range(6):
        plan_step(it)
    assert it.used_bytes == 300 + 5
    it.limit_tokens("b", 7)
    assert it.used_bytes == 300 + 7


def test_a_paused_request_gives_its_memory_back_and_goes_on_where_it_was() -> None:
    it, _ = admitted(ticket("a", prompt=300), ticket("b", prompt=300))
    it.add(ticket("c", prompt=600))
    assert plan_step(it).begin == []
    it.pause("a")
    plan = plan_step(it)
    assert (plan.pause, plan.preempt, plan.begin) == (["a"], [], [])
    assert it.requeue("a", 30, 2) is None
    assert (it.running, it.waiting, it.used_bytes) == (1, 2, 303)
    it.cancel("b")
    assert plan_step(it).begin == ["c"]
    it.cancel("c")
    assert it.is_idle
    assert plan_step(it) == Step([], [], [], [])
    assert it.resume("a") is None
    assert plan_step(it) == Step([], [], ["a"], [("a", 30)])
    assert (it.running, it.waiting, it.used_bytes) == (1, 0, 302)


def test_a_request_that_waits_can_be_paused() -> None:
    it, _ = admitted(ticket("a", rows=4), ticket("b"))
    it.pause("b")
    it.cancel("a")
    assert it.is_idle
    it.resume("b")
    assert plan_step(it).begin == ["b"]


def test_a_pause_may_be_over_before_it_has_begun() -> None:
    it, _ = admitted(ticket("a"))
    it.pause("a")
    it.resume("a")
    assert plan_step(it).pause == []
    assert it.running == 1


def test_a_paused_request_may_be_cancelled() -> None:
    it, _ = admitted(ticket("a"), ticket("b"), ticket("c", rows=4))
    for name in "abc":
        it.pause(name)
    it.cancel("a")
    assert plan_step(it).pause == ["b"]
    it.cancel("b")
    assert it.requeue("b", 1, 1) is None
    it.cancel("c")
    for name in ("a", "b", "c", "nobody"):
        it.pause(name)
        assert it.resume(name) is None
    assert (it.is_idle, it.running, it.waiting) == (True, 0, 0)


def test_a_paused_request_that_has_become_too_large_is_refused() -> None:
    it, _ = admitted(ticket("a", prompt=500))
    it.pause("a")
    plan_step(it)
    it.requeue("a", 500, 0)
    assert it.limit_memory(400, 400) == []
    assert it.resume("a") == TooLargeRequest("a", 501, 400)
    assert it.is_idle


def test_how_far_rows_may_get_in_a_step() -> None:
    """As far as the memory goes once each has its next token; nowhere if no row decodes."""
    limits = Limits(max_rows=9, memory_bytes=1000, chunk=64, idle_chunk=64, room=30)
    scheduler = Scheduler(limits)
    plan_step(scheduler)
    assert scheduler.room == 0
    scheduler.add(Ticket("a", "normal", 0, 2, 50, 100, 4))
    scheduler.add(Ticket("b", "normal", 0, 1, 50, 300, 4))
    plan_step(scheduler)
    assert scheduler.room == 30
    for _ in range(12):
        plan_step(scheduler)
    # 1,000 - 2 * (100 + 13 * 4) - (300 + 13 * 4), by three rows of 4
    assert scheduler.room == 28


def test_states_that_a_step_keeps_for_each_token_take_memory() -> None:
    it = scheduler(memory_bytes=1000, room=30)
    it.add(ticket("a", prompt=100, fixed_bytes=90, state_bytes=90))
    plan_step(it)
    # 1,000 - (100 + 90 + 1), by 1 + 90
    assert it.room == 8


def test_a_row_that_got_several_tokens() -> None:
    limits = Limits(max_rows=9, memory_bytes=1000, chunk=64, idle_chunk=64, room=30)
    scheduler = Scheduler(limits)
    scheduler.add(Ticket("a", "normal", 0, 1, 50, 100, 4))
    plan_step(scheduler)
    scheduler.note_generated("a", 20)
    assert scheduler.used_bytes == 100 + 20 * 4
    scheduler.note_generated("a", 7)
    scheduler.note_generated("nobody", 7)
    assert scheduler.used_bytes == 100 + 20 * 4
    plan_step(scheduler)
    assert scheduler.used_bytes == 100 + 21 * 4
