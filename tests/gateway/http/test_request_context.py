from contextlib import ExitStack

import pytest

from orchard.core.errors import OrchardError
from orchard.gateway.http.request_context import RequestLimit


def test_a_caller_with_less_than_its_share_is_not_shut_out() -> None:
    in_hand = RequestLimit(4)
    with ExitStack() as stack:
        for _ in range(4):
            stack.enter_context(in_hand.count_request("ann"))
        for _ in range(2):
            stack.enter_context(in_hand.count_request("ben"))
        for caller in ("ann", "ben"):
            with (
                pytest.raises(OrchardError, match="the server is working on 4 requests already"),
                in_hand.count_request(caller),
            ):
                pass
    with in_hand.count_request("ann"):
        pass
