"""The table of a model's states is whole, and the docs show it."""

from pathlib import Path
from typing import get_args

import pytest

from orchard.gateway.model_status import ShownState
from orchard.gateway.pool.lifecycle import TRANSITIONS, ModelState, step

PAGE = Path(__file__).parents[3] / "docs" / "architecture.md"


def diagram() -> str:
    """Return the table as Mermaid's `stateDiagram-v2` (https://mermaid.js.org/syntax/stateDiagram.html)."""
    steps = [
        f"    {old.label} --> {new.label}: {when}"
        for old, follow in TRANSITIONS.items()
        for new, when in follow.items()
    ]
    return "\n".join(["```mermaid", "stateDiagram-v2", "    [*] --> unloaded", *steps, "```"])


def test_the_docs_draw_the_table() -> None:
    _, _, behind = PAGE.read_text().partition("<!-- states: tests/gateway/pool/test_lifecycle.py prints them -->\n")
    assert behind.partition("\n<!-- /states -->")[0] == diagram()


def test_every_state_is_reached_from_unloaded_and_left_again() -> None:
    reached = {ModelState.UNLOADED}
    for _ in ModelState:
        reached |= {new for old in reached for new in TRANSITIONS[old]}
    assert reached == set(ModelState)
    assert all(TRANSITIONS[state] for state in ModelState)


def test_each_state_has_one_of_the_names_that_clients_know() -> None:
    assert {state.shown for state in ModelState} == set(get_args(ShownState))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (ModelState.UNLOADED, ModelState.READY),
        (ModelState.READY, ModelState.UNLOADED),
        (ModelState.LEAVING, ModelState.READY),
        (ModelState.ENDING, ModelState.READY),
    ],
)
def test_a_step_outside_of_the_table_is_refused(old: ModelState, new: ModelState) -> None:
    with pytest.raises(RuntimeError, match=f"from {old.label} to {new.label}"):
        step(old, new)
