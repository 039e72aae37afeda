from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from orchard.backends.embeddings.waiting import TextPlace, TextQueue
from orchard.core.request import Priority, Request, Sender
from orchard.core.tasks.embed import Embed
from tests.support.examples import examples

BUDGET = 64
LENGTHS = st.lists(st.integers(1, 100), min_size=1, max_size=30)
PRIORITIES: st.SearchStrategy[Priority] = st.sampled_from(["interactive", "normal", "background"])
STEPS: st.SearchStrategy[list[tuple[str, object, Priority]]] = st.lists(
    st.one_of(
        st.tuples(st.just("add"), LENGTHS, PRIORITIES),
        st.tuples(st.sampled_from(["drop", "pause", "resume"]), st.integers(0, 10), st.just("normal")),
        st.tuples(st.just("take"), st.just([]), st.just("normal")),
    ),
    max_size=40,
)


def request(name: str, priority: Priority = "normal", caller: str = "") -> Request:
    return Request(name, "m", Embed(("a",)), priority, sender=Sender(caller))


def fits(rows: int, length: int) -> bool:
    return rows * length <= BUDGET


def everything(waiting: TextQueue) -> list[list[TextPlace]]:
    passes = []
    while waiting:
        passes.append(waiting.take(fits))
    return passes


@examples(200)
@given(STEPS)
def test_each_text_is_taken_once_unless_its_request_is_gone(steps: list[tuple[str, object, Priority]]) -> None:
    waiting, lengths, dropped, paused = TextQueue(), dict[str, list[int]](), set[str](), set[str]()
    taken: Counter[TextPlace] = Counter()

    def take() -> None:
        places = waiting.take(fits)
        assert places
        assert not {place.request_id for place in places} & (dropped | paused)
        sizes = [lengths[place.request_id][place.number] for place in places]
        assert len(places) == 1 or fits(len(places), max(sizes))
        assert min(sizes) >= max(sizes) * 0.6 - 30, "they are alike"
        taken.update(places)

    for what, about, priority in steps:
        name = f"r{about}" if isinstance(about, int) else f"r{len(lengths)}"
        if what == "add" and isinstance(about, list):
            lengths[name] = about
            waiting.add(request(name, priority), about)
        elif isinstance(about, int) and name not in lengths:
            getattr(waiting, what)(name)  # of nobody
        elif what == "drop":
            waiting.drop(name)
            dropped.add(name)
        elif what == "pause":
            waiting.pause(name)
            paused.add(name)
        elif what == "resume":
            waiting.resume(name)
            paused.discard(name)
        elif waiting:
            take()
    for name in list(paused):
        waiting.resume(name)
        paused.discard(name)
    while waiting:
        take()
    assert set(taken.values()) <= {1}
    kept = {TextPlace(name, number) for name in lengths.keys() - dropped for number in range(len(lengths[name]))}
    assert kept <= set(taken)
    assert not waiting._places, "nothing is left of what nobody waits for"
    assert not waiting._lengths


def test_texts_of_like_length_share_a_pass_whoever_sent_them() -> None:
    waiting = TextQueue()
    for name in range(6):
        waiting.add(request(f"r{name}"), [10 + name % 3])
    waiting.add(request("long"), [60])
    assert [len(places) for places in everything(waiting)] == [5, 1, 1]


def test_a_longer_text_joins_a_pass_only_where_the_first_has_room_beside_it() -> None:
    waiting = TextQueue()
    for name, length in {"a": 30, "longer": 40, "b": 30}.items():
        waiting.add(request(name), [length])
    assert [[place.request_id for place in places] for places in everything(waiting)] == [["a", "b"], ["longer"]]


def test_one_request_is_read_from_its_longest_texts_on() -> None:
    waiting = TextQueue()
    waiting.add(request("a"), [4, 60, 4, 30, 28, 4])
    numbers = [sorted(place.number for place in places) for places in everything(waiting)]
    assert numbers == [[1], [3, 4], [0, 2, 5]]


def test_a_short_request_does_not_wait_for_a_large_one() -> None:
    waiting = TextQueue()
    waiting.add(request("large"), [64] * 100)
    waiting.take(fits)
    waiting.add(request("small"), [3])
    assert "small" in {place.request_id for _ in range(3) for place in waiting.take(fits)}


def test_turns_are_as_the_priorities_say_and_nobody_starves() -> None:
    waiting = TextQueue()
    waiting.add(request("background", "background"), [64] * 70)
    waiting.add(request("normal"), [64] * 70)
    waiting.add(request("interactive", "interactive"), [64] * 70)
    turns = Counter(waiting.take(fits)[0].request_id for _ in range(63))
    assert turns == {"interactive": 48, "normal": 12, "background": 3}


def test_callers_have_equal_turns_however_many_requests_they_have() -> None:
    waiting = TextQueue()
    for number in range(9):
        waiting.add(request(f"ann{number}", caller="ann"), [64] * 9)
    waiting.add(request("ben", caller="ben"), [64] * 9)
    turns = Counter(waiting.take(fits)[0].request_id[:3] for _ in range(18))
    assert turns == {"ann": 9, "ben": 9}


def test_who_is_interactive_comes_next() -> None:
    waiting = TextQueue()
    waiting.add(request("normal"), [64] * 3)
    waiting.take(fits)
    waiting.add(request("interactive", "interactive"), [64])
    assert waiting.take(fits) == [TextPlace("interactive", 0)]
