"""Which errors say that memory ran out, and how work goes on with less."""

from contextlib import suppress

import mlx.core as mx
import pytest

from orchard.core.errors import OrchardError
from orchard.device import out_of_memory
from orchard.device.out_of_memory import (
    free_after_error,
    is_out_of_memory,
    raise_late_errors,
    retry_once,
    run_in_parts,
    wait_for_launched_work,
)
from tests.support.memory_faults import SAYS


@pytest.mark.parametrize("message", [*SAYS, "std::bad_alloc", "cublasCreate failed: CUBLAS_STATUS_ALLOC_FAILED"])
def test_mlx_says_so_in_many_ways(message: str) -> None:
    assert is_out_of_memory(RuntimeError(message))
    assert not is_out_of_memory(ValueError(message)), "MLX raises no other class for it"


def test_other_errors_are_others() -> None:
    assert is_out_of_memory(MemoryError())
    assert not is_out_of_memory(RuntimeError("[METAL] Command buffer execution failed: Caused GPU Hang Error"))
    assert not is_out_of_memory(RuntimeError("[matmul] shapes (1,2) and (3,4)"))


def halves(items: list[int]) -> list[list[int]]:
    middle = len(items) // 2
    return [items[:middle], items[middle:]] if middle else []


def test_work_is_halved_until_it_fits() -> None:
    tried: list[list[int]] = []

    def act(items: list[int]) -> int:
        tried.append(items)
        if len(items) > 2 or tried.count([3]) == 1 or 7 in items:
            raise RuntimeError("out of memory")
        return sum(items)

    found = run_in_parts(act, [1, 2, 3, 4, 5, 7], halves)
    assert [part for part, _ in found] == [[1], [2, 3], [4], [5], [7]]
    *made, error = [result for _, result in found]
    assert made == [1, 5, 4, 5]
    assert isinstance(error, OrchardError)
    assert (error.kind, error.retry_after) == ("insufficient_memory", 5)
    assert tried.count([7]) == 2


def test_what_can_not_be_halved_is_tried_twice() -> None:
    tries = 0

    def act() -> int:
        nonlocal tries
        tries += 1
        if tries in failing:
            raise MemoryError
        return tries

    failing = {1}
    assert retry_once(act) == 2
    failing, tries = {1, 2}, 0
    with pytest.raises(OrchardError, match="ran out of memory"):
        retry_once(act)
    assert tries == 2


def test_another_error_is_raised_at_once() -> None:
    def act(items: list[int]) -> int:
        raise RuntimeError("the device is gone")

    with pytest.raises(RuntimeError, match="gone"):
        run_in_parts(act, [1, 2], halves)


def late() -> mx.array:
    """Launch work whose error MLX's CPU tells with a later evaluation, as Metal tells of missing memory.

    Other work before it takes so long that the error is seldom told at once.
    """
    mx.set_memory_limit(2**40)  # at its limit, MLX 0.32.4 waits for ever for CPU work that failed
    for _ in range(5):
        ones = mx.ones((1000, 1000))
        found = mx.linalg.inv(mx.matmul(ones, ones, stream=mx.cpu)[:2, :2], stream=mx.cpu) + 1
        with suppress(RuntimeError):
            mx.async_eval(found)  # type: ignore[no-untyped-call]
            return found
    pytest.fail("the error is always told at once")


def test_late_errors_belong_to_the_work_before_them(monkeypatch: pytest.MonkeyPatch) -> None:
    late()
    with pytest.raises(RuntimeError, match="Inverse"):
        raise_late_errors()
    monkeypatch.setattr(out_of_memory, "reports_out_of_memory", lambda text: "inverse" in text.lower())
    tries: list[int] = []

    def act() -> int:
        tries.append(1)
        if len(tries) == 1:
            late()
        return len(tries)

    assert retry_once(act) == 2
    late()
    wait_for_launched_work()
    free_after_error(RuntimeError("inverse"))
    raise_late_errors()  # the error was let go as well
