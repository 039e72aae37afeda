from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

from orchard.backends.bounded_cache import BoundedCache
from tests.support.examples import examples


@dataclass
class Thing:
    bytes: int


@examples(100)
@given(st.lists(st.tuples(st.integers(0, 5), st.integers(1, 8))), st.integers(1, 30))
def test_what_was_asked_for_last_is_kept(asked: list[tuple[int, int]], most: int) -> None:
    kept: BoundedCache[Thing] = BoundedCache(most)
    here: list[tuple[int, Thing]] = []  # the last one asked for comes last
    for key, size in asked:
        known = dict(here).get(key)
        found = kept.get(key, lambda size=size: Thing(size))  # type: ignore[misc]
        if known is not None:
            assert found is known
        here = [*((one, thing) for one, thing in here if one != key), (key, found)]
        while sum(thing.bytes for _, thing in here) > most:
            here.pop(0)


def test_a_result_that_is_made_within_the_making_of_the_same_counts_once() -> None:
    kept: BoundedCache[Thing] = BoundedCache(10)
    first = kept.get(1, lambda: Thing(4))
    outer = kept.get(2, lambda: Thing(kept.get(2, lambda: Thing(6)).bytes))
    assert kept.get(1, lambda: Thing(0)) is first
    assert kept.get(2, lambda: Thing(0)) is outer
