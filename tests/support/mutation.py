"""JSON of any kind, and real bodies with something wrong, for property tests of the dialects."""

import copy
from collections.abc import Iterable
from typing import Any

from hypothesis import strategies as st

SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.integers(2**62, 2**70),
    st.floats(),
    st.text(max_size=8),
    st.sampled_from(["user", "assistant", "tool", "auto", "none", "text", "function", "call_1", "look_up"]),
)


def json_values(names: Iterable[str]) -> st.SearchStrategy[Any]:
    """Any JSON; many of its objects have keys among `names`."""
    keys = st.one_of(st.sampled_from(sorted(names)), st.text(max_size=4))
    return st.recursive(
        SCALARS,
        lambda children: st.one_of(st.lists(children, max_size=3), st.dictionaries(keys, children, max_size=4)),
        max_leaves=12,
    )


def places(value: Any) -> list[tuple[Any, Any]]:
    """Every (container, key) of a JSON value."""
    keys: list[Any] = []
    if isinstance(value, dict):
        keys = list(value)
    elif isinstance(value, list):
        keys = list(range(len(value)))
    return [(value, key) for key in keys] + [place for key in keys for place in places(value[key])]


@st.composite
def mutated(draw: st.DrawFn, real: dict[str, Any], values: st.SearchStrategy[Any]) -> dict[str, Any]:
    """Give a body with one to three of its values taken out or replaced."""
    body = copy.deepcopy(real)
    for _ in range(draw(st.integers(1, 3))):
        here = places(body)
        container, key = here[draw(st.integers(0, 10_000)) % len(here)]
        if draw(st.booleans()):
            del container[key]
        else:
            container[key] = draw(values)
    return body
