"""Work for a caller who waits for it."""

import asyncio
import gc

import pytest
from starlette.requests import Request

from orchard.core.errors import OrchardError
from orchard.gateway.routes.disconnect import cancel_on_disconnect


class Client:
    """One that has sent its body, and may leave."""

    def __init__(self) -> None:
        self.left = asyncio.Event()
        self.http = Request({"type": "http", "method": "POST", "headers": []}, self._receive)

    async def _receive(self) -> dict[str, str]:
        await self.left.wait()
        return {"type": "http.disconnect"}


async def test_work_ends_when_its_caller_leaves() -> None:
    client, begun, ended = Client(), asyncio.Event(), asyncio.Event()

    async def work() -> None:
        begun.set()
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            ended.set()

    waiting = asyncio.create_task(cancel_on_disconnect(client.http, work()))
    await begun.wait()
    assert not waiting.done()
    client.left.set()
    with pytest.raises(OrchardError) as caught:
        await waiting
    assert caught.value.kind == "cancelled"
    await ended.wait()


async def test_a_failure_of_work_whose_caller_has_left_is_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    client = Client()

    async def work() -> None:
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            raise OrchardError("invalid_request", "failed at the same moment")

    client.left.set()
    with pytest.raises(OrchardError, match="closed"):
        await cancel_on_disconnect(client.http, work())
    await asyncio.sleep(0)
    gc.collect()  # asyncio tells when it forgets the work
    assert not caplog.records


async def test_work_that_is_waited_for_brings_its_result_or_its_error() -> None:
    async def work(error: Exception | None = None) -> int:
        if error:
            raise error
        return 7

    assert await cancel_on_disconnect(Client().http, work()) == 7
    with pytest.raises(OrchardError, match="too long"):
        await cancel_on_disconnect(Client().http, work(OrchardError("context_length_exceeded", "too long")))
