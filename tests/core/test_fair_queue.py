from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from orchard.core.fair_queue import WEIGHTS, FairQueue, has_place
from orchard.core.request import Priority, Sender
from tests.support.examples import examples

PRIORITIES: tuple[Priority, ...] = ("interactive", "normal", "background")
SENDERS = st.builds(Sender, st.sampled_from("ab"), st.sampled_from("12"), st.sampled_from("xy"))


def names(queue: FairQueue[str], count: int) -> str:
    """The items that get the next turns, which take as much as they say."""
    found = ""
    for _ in range(count):
        found += (name := next(iter(queue)))
        queue.charge(name, 1)
    return found


def test_turns_go_round_callers_then_connections_then_conversations_then_items() -> None:
    queue: FairQueue[str] = FairQueue()
    senders = {
        "a": Sender("ann", "1", "x"),
        "b": Sender("ann", "1", "x"),
        "c": Sender("ann", "1", "y"),
        "d": Sender("ann", "2"),
        "e": Sender("ben"),
    }
    for name, sender in senders.items():
        queue.add(name, name, "normal", sender)
    assert "".join(queue) == "abcde"
    assert Counter(names(queue, 160)) == {"e": 80, "d": 40, "c": 20, "a": 10, "b": 10}
    assert names(queue, 4) == "aede"


def test_priorities_have_their_weights_whoever_has_how_many() -> None:
    queue: FairQueue[str] = FairQueue()
    for number, priority in enumerate(PRIORITIES):
        for n in range(3 * number + 1):
            queue.add(f"{priority} {n}", f"{priority} {n}", priority, Sender(str(n)))
    turns: Counter[str] = Counter()
    for _ in range(21 * 8):
        name = next(iter(queue))
        turns[name.partition(" ")[0]] += 1
        queue.charge(name, 1)
    assert turns == {priority: 8 * weight for priority, weight in WEIGHTS.items()}


def test_who_comes_saves_nothing_up_and_small_items_pass_large_ones() -> None:
    queue: FairQueue[str] = FairQueue()
    queue.add("a", "a", "normal", Sender("ann"))
    names(queue, 50)
    queue.add("b", "b", "normal", Sender("ben"))
    assert names(queue, 6) in ("ababab", "bababa")
    queue.add("c", "c", "normal", Sender("cem"), size=0.5)
    assert next(iter(queue)) == "c"


def test_who_holds_less_goes_first_and_what_comes_back_before_what_is_new() -> None:
    queue: FairQueue[str] = FairQueue()
    queue.hold("normal", Sender("ann"), 2)
    queue.add("a", "a", "normal", Sender("ann"))
    queue.add("b", "b", "normal", Sender("ben"))
    queue.add("c", "c", "normal", Sender("ben"), order=3)
    queue.add("d", "d", "normal", Sender("cem"), order=2)
    assert "".join(queue) == "dcba"
    queue.hold("normal", Sender("ben"), 3)
    assert "".join(queue) == "dacb"
    assert list(queue.first_items(1)) == ["d", "a", "c"]
    assert (queue.find("c"), queue.remove("c"), queue.find("c"), queue.remove("c")) == ("c", "c", None, None)
    assert list(queue.drain()) == ["d", "a", "b"]


@examples(200)
@given(
    steps=st.lists(
        st.tuples(
            st.sampled_from(["add", "add", "remove", "charge", "hold", "release"]),
            st.integers(0, 9),
            SENDERS,
            st.sampled_from(PRIORITIES),
        ),
        max_size=60,
    )
)
def test_nothing_is_lost_and_nothing_stays(steps: list[tuple[str, int, Sender, Priority]]) -> None:
    queue: FairQueue[int] = FairQueue()
    inside: set[int] = set()
    held: list[tuple[Priority, Sender]] = []
    for what, number, sender, priority in steps:
        name = str(number)
        if what == "add" and number not in inside:
            queue.add(name, number, priority, sender, size=number + 1)
            inside.add(number)
        elif what == "remove":
            assert queue.remove(name) == (number if number in inside else None)
            inside.discard(number)
        elif what == "charge":
            queue.charge(name, number)
        elif what == "hold":
            queue.hold(priority, sender, 1)
            held.append((priority, sender))
        elif what == "release" and held:
            queue.hold(*held.pop(), -1)
        assert sorted(queue) == sorted(inside)
        assert sorted(queue.first_items(99)) == sorted(inside)
        assert len(queue) == len(inside)
    for priority, sender in held:
        queue.hold(priority, sender, -1)
    assert sorted(queue.drain()) == sorted(inside)
    assert len(queue) == 0
    assert not queue._root.children


def test_a_full_queue_has_places_for_those_with_less_than_their_share() -> None:
    assert has_place(4, "aaa", "a")
    assert not has_place(4, "aaaa", "a")
    assert has_place(4, "aaaa", "b")
    assert has_place(4, "aaaab", "b")
    assert not has_place(4, "aaaabb", "b")
    assert has_place(4, "aaaabb", "c")
    assert not has_place(4, "aaaabbc", "c")
    assert not has_place(0, "", "a")
    assert not has_place(2, "ab", "c")  # all have their shares


@given(most=st.integers(1, 50), callers=st.lists(st.integers(0, 12).map(str)))
def test_a_queue_stays_bounded(most: int, callers: list[str]) -> None:
    inside: list[str] = []
    for caller in callers * 20:
        if has_place(most, inside, caller):
            inside.append(caller)
    assert len(inside) <= most * sum(1 / n for n in range(1, 14))
    assert all(inside.count(caller) >= most // 13 for caller in set(callers))
