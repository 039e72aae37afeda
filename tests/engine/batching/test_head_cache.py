"""What an MTP head keeps of rows that get several tokens in a pass, of which some may not be kept."""

import mlx.core as mx

from orchard.engine.batching.batched_cache import Lengths
from orchard.engine.batching.head_cache import BatchedLastHiddenState, LastHiddenState


def states(*rows: list[int]) -> mx.array:
    """Hidden states (rows, n, 1)."""
    return mx.array(rows)[..., None]


def test_the_states_before_tokens_and_behind_those_that_are_kept() -> None:
    rows = []
    for state in (10, 20):
        rows.append(LastHiddenState())
        assert rows[-1].push(states([state - 1, state])).tolist() == [[[0], [state - 1]]]
    batched = BatchedLastHiddenState(rows[0])
    batched.rebuild([], rows, 1, [2, 2])
    batched.begin(Lengths([2, 2, 2], 3, real=[3, 2, 3]))
    assert batched.push(states([11, 12, 13], [21, 22, 0], [0, 0, 0]))[:2, :, 0].tolist() == [[10, 11, 12], [20, 21, 22]]
    assert batched.arrays[0][:2, 0, 0].tolist() == [13, 22]
    batched.keep([0, 2, 0])
    assert batched.arrays[0][:2, 0, 0].tolist() == [10, 22]
    assert batched.states_after([2, 0, 2])[:2, 0, 0].tolist() == [12, 22]


def test_a_pass_of_one_token_a_row_is_kept() -> None:
    row = LastHiddenState()
    row.push(states([1]))
    batched = BatchedLastHiddenState(row)
    batched.rebuild([], [row], 0, [1])
    batched.begin(Lengths([1]))
    batched.push(states([2]))
    batched.keep([1])
    assert batched.states_after([0]).tolist() == [[[2]]]
    assert batched.extract(0, 2).cache[0].tolist() == [[[2]]]
