"""Log lines about what goes on failing."""

import logging

import pytest

from orchard.gateway.throttle import Throttle


def test_one_line_a_minute_says_how_many_were_left_out(caplog: pytest.LogCaptureFixture) -> None:
    now = [1000.0]
    throttle = Throttle(logging.getLogger("orchard.test"), lambda: now[0])
    for _ in range(11):
        throttle.error("%s is full", "it")
    now[0] += 60
    throttle.error("%s is full", "it")
    now[0] += 60
    throttle.error("%s is full", "it")
    assert caplog.messages == ["it is full", "it is full (10 more such lines were left out)", "it is full"]
