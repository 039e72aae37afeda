"""A response in the background is told of when it is stored."""

import asyncio
import json
from types import SimpleNamespace
from typing import cast

import pytest

from orchard.config import Settings
from orchard.core.errors import OrchardError
from orchard.core.events import Failed, Finished, Started, Text, Usage
from orchard.dialects.openai.responses.encode import ResponseEncoder
from orchard.dialects.openai.responses.parse import parse as read
from orchard.gateway.caller import ANYONE, Caller
from orchard.gateway.replies.event_stream import EventStream
from orchard.gateway.responses.background import Run
from orchard.gateway.responses.service import Responses, _Answer
from orchard.gateway.store.responses import ResponseRecord


async def test_the_end_is_told_when_it_can_be_found() -> None:
    call = read(b'{"model": "m", "input": "Hi", "background": true}').make_call("req_1")
    stream, kept, may_keep = EventStream(), asyncio.Event(), asyncio.Event()
    stream.push([Started(1), Text("a"), Finished(("stop",), Usage(1, 1))])

    async def begin() -> EventStream:
        return stream

    async def keep(encoder: ResponseEncoder, events: bytes | None) -> None:
        if events is not None:
            kept.set()
            await may_keep.wait()

    run = Run(call, begin, keep, None)
    told: list[bytes] = []

    async def watch() -> None:
        async for piece in run.follow(-1, 60):
            told.append(piece)

    making, following = asyncio.create_task(run.run()), asyncio.create_task(watch())
    await kept.wait()
    for _ in range(10):  # whatever is ready to run has run
        await asyncio.sleep(0)
    assert b"response.queued" in b"".join(told)
    assert b"response.completed" not in b"".join(told)
    may_keep.set()
    await asyncio.gather(making, following)
    assert b"response.completed" in b"".join(told)


async def test_a_run_that_is_followed_before_its_work_begins_does_not_begin_anew() -> None:
    call = read(b'{"model": "m", "input": "Hi", "background": true}').make_call("req_1")
    stream, may_begin = EventStream(), asyncio.Event()

    async def begin() -> EventStream:
        await may_begin.wait()
        return stream

    async def keep(encoder: ResponseEncoder, events: bytes | None) -> None:
        assert encoder

    run = Run(call, begin, keep, None)
    making = asyncio.create_task(run.run())
    await run.stored
    follower = run.follow(-1, 60)
    assert b"response.queued" in await anext(follower)
    may_begin.set()
    stream.push([Started(1), Text("a"), Finished(("stop",), Usage(1, 1))])
    await making
    assert stream.forget is None
    assert b"response.completed" in await anext(follower)


async def test_a_run_restarts_until_somebody_follows_it() -> None:
    call = read(b'{"model": "m", "input": "Hi", "background": true}').make_call("req_1")
    stream = EventStream()

    async def begin() -> EventStream:
        return stream

    async def keep(encoder: ResponseEncoder, events: bytes | None) -> None:
        assert encoder

    async def settled() -> None:
        for _ in range(10):
            await asyncio.sleep(0)

    run = Run(call, begin, keep, None)
    making = asyncio.create_task(run.run())
    stream.push([Started(1), Text("lost")])
    await settled()
    assert b"lost" in run.encoder.body()
    assert stream.restart()
    assert b"lost" not in run.encoder.body()
    stream.push([Started(1), Text("kept")])
    await settled()
    told = await anext(run.follow(-1, 60))
    assert (b"lost" in told, b"kept" in told) == (False, True)
    assert not stream.restart()
    stream.push([Finished(("stop",), Usage(1, 1))])
    await making


async def test_a_whole_response_has_nothing_of_what_came_before_a_restart() -> None:
    call = read(b'{"model": "m", "input": "Hi"}').make_call("req_1")
    stream = EventStream()

    async def keep(*_: object) -> None:
        pass

    responses = SimpleNamespace(settings=Settings(), keep=keep)
    answer = _Answer(cast(Responses, responses), stream, cast(Caller, None), call)
    stream.push([Started(1), Text("lost")])
    making = asyncio.create_task(answer._complete_response(lambda _: b""))
    await asyncio.sleep(0)
    assert stream.restart()
    stream.push([Started(1), Text("kept"), Finished(("stop",), Usage(1, 1))])
    body = bytes((await making).body)
    assert (b"lost" in body, b"kept" in body) == (False, True)


async def test_nothing_is_begun_that_cannot_be_stored() -> None:
    call = read(b'{"model": "m", "input": "Hi", "background": true}').make_call("req_1")
    began: list[str] = []

    async def begin() -> EventStream:
        began.append("it")
        raise OrchardError("internal", "it must not begin")

    async def keep(encoder: ResponseEncoder, events: bytes | None) -> OrchardError:
        return OrchardError("unavailable", "the disk is full")

    run = Run(call, begin, keep, None)
    await run.run()
    with pytest.raises(OrchardError, match="the disk is full"):
        await run.stored
    assert not began


async def test_whoever_waits_for_a_run_hears_of_a_bug_in_storing_it() -> None:
    call = read(b'{"model": "m", "input": "Hi", "background": true}').make_call("req_1")

    async def begin() -> EventStream:
        raise AssertionError("it must not begin")

    async def keep(encoder: ResponseEncoder, events: bytes | None) -> None:
        raise RuntimeError("a bug")

    run = Run(call, begin, keep, None)
    with pytest.raises(RuntimeError, match="a bug"):
        await run.run()
    with pytest.raises(OrchardError, match="could not be stored"):
        await run.stored


@pytest.mark.parametrize("background", [False, True])
async def test_what_nobody_waits_for_any_more_is_stored_only_in_the_background(background: bool) -> None:
    call = read(json.dumps({"model": "m", "input": "Hi", "background": background}).encode()).make_call("req_1")
    encoder = ResponseEncoder(call)
    encoder.encode_list([Started(1), Failed("cancelled", "gone")])
    kept: list[ResponseRecord] = []

    async def unkept(_: object, record: ResponseRecord) -> None:
        kept.append(record)

    responses = SimpleNamespace(try_transact=unkept)
    assert await Responses.keep(cast(Responses, responses), ANYONE, call, encoder) is None
    assert [record.response["status"] for record in kept] == ["cancelled"] * background
