import pytest

from orchard.core.errors import OrchardError
from orchard.gateway.http.budget import Budget, Share


def test_all_share_it() -> None:
    budget = Budget(10_000, "heads", own=4096)
    first, second, third = Share(budget), Share(budget), Share(budget)
    first.take(4096 + 6000)
    second.take(4096 + 3000)
    assert budget.left == 1000
    with pytest.raises(OrchardError, match="too many bytes of heads") as refused:
        third.take(4096 + 1001)
    assert refused.value.kind == "overloaded"
    third.take(4096)  # its own part is always there
    first.take(0)
    third.take(4096 + 7000)
    assert budget.left == 0


def test_what_one_holds_is_counted_once() -> None:
    budget = Budget(10_000, "heads", own=4096)
    share = Share(budget)
    for size in (5000, 9000, 14_096):
        share.take(size)
    assert budget.left == 0
    share.take(0)
    assert budget.left == 10_000


def test_what_never_fits_is_not_worth_a_retry() -> None:
    budget = Budget(10_000, "bodies", own=4096)
    share = Share(budget)
    with pytest.raises(OrchardError, match="14097 bytes of bodies exceed the limit of 10000 bytes") as refused:
        share.take(14_097)
    assert refused.value.kind == "payload_too_large"
    assert budget.left == 10_000
