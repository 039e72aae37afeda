import asyncio
import contextlib
from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from orchard import wire
from orchard.core.cache_report import CacheReport, CacheState
from orchard.core.device_memory import DeviceMemory
from orchard.core.events import Event
from orchard.core.media import MediaPart
from orchard.core.request import Request, RequestProgress
from orchard.core.speculation_report import SourceTotals
from orchard.core.tasks.generate import (
    Count,
    Generate,
    Grammar,
    Message,
    Sampling,
    TextPart,
    Tool,
    ToolResultPart,
    generate_task,
)
from tests.support.streams import lawful_streams

REQUEST = Request(
    "req_1",
    "demo",
    Generate(
        (Message("user", (TextPart("hé\x00llo"),)),),
        tools=(Tool("add", "adds", {"type": "object"}),),
        grammar=Grammar("json_schema", {"type": "object"}, "response_format"),
        sampling=Sampling(temperature=0.5, logit_bias={7: -100.0}, seed=-1),
        stop=("a", "b"),
        template_args={"deep": [{"x": None}]},
        thinking_budget=0,
    ),
    "background",
)
LARGE, SMALL = bytes(range(256)) * 300, b"small"
WITH_MEDIA = replace(
    REQUEST,
    task=Count(
        Generate(
            (
                Message("user", (TextPart("Look: "), MediaPart("image", "", "a", data=LARGE))),
                Message("tool", (ToolResultPart("1", (MediaPart("video", "", "b", data=LARGE[1:]),)),)),
                Message("user", (MediaPart("image", "", "c", data=SMALL), MediaPart("image", "", "a", data=LARGE))),
            )
        )
    ),
)
CACHE = CacheState({"entries": 2**40}, [CacheReport("req_1", 9, 5, "all of it", 6, 2, "a\ufffd", "b", "")])


async def _read_all(data: bytes, cuts: Sequence[int]) -> Sequence[object]:
    reader = asyncio.StreamReader()
    edges = sorted({0, *(cut % (len(data) + 1) for cut in cuts), len(data)})
    for begin, end in pairwise(edges):
        reader.feed_data(data[begin:end])
    reader.feed_eof()
    messages = []
    while (message := await wire.read_message(reader)) is not None:
        messages.append(message)
    return messages


@given(st.lists(lawful_streams(), max_size=4), st.lists(st.integers(0), max_size=20))
def test_messages_arrive_whole_whatever_the_cuts(streams: list[list[Event]], cuts: list[int]) -> None:
    sent: list[wire.ToWorker | wire.FromWorker] = [
        wire.Submit.from_request(REQUEST),
        wire.Submit.from_request(WITH_MEDIA),
        wire.Step([(f"req_{index}", events) for index, events in enumerate(streams)], len(streams), 2),
        wire.Step([], 0, 0, {"ngram": SourceTotals(20, 15, 1.5)}),
        wire.Cancel("req_1"),
        wire.AskCache(7),
        wire.AskCache(8, "req_1"),
        wire.CacheIs(7, CACHE),
        wire.AskProgress(9),
        wire.ProgressIs(9, [RequestProgress("req_1", 5, 4, 3, 2)]),
        wire.Ready(0.25),
        wire.Hello(2**40, DeviceMemory(1, 2)),
        wire.LimitMemory(2**33, 2**34),
        wire.MemoryReport(DeviceMemory(1, 2, 3, 4, 5), 6, 7, 8, 9),
        wire.LoadFailed("no"),
    ]
    data = b"".join(
        b"".join(wire.encode_submission(WITH_MEDIA))
        if message == wire.Submit.from_request(WITH_MEDIA)
        else wire.encode(message)
        for message in sent
    )
    assert asyncio.run(_read_all(data, cuts)) == sent


def test_large_media_are_sent_as_they_are() -> None:
    """So that the event loop need not copy them."""
    pieces = wire.encode_submission(WITH_MEDIA)
    sent = [message.parts[-1] for message in generate_task(WITH_MEDIA).messages]
    large = [sent[0], sent[1].parts[0], sent[2]]  # type: ignore[union-attr]
    assert [id(piece) for piece in pieces if len(piece) > 64 * 1024] == [id(part.data) for part in large]  # type: ignore[union-attr]
    assert len(wire.encode_submission(REQUEST)) == 1


def test_media_that_are_too_large_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wire, "MAX_FRAME_BYTES", 3 * len(LARGE))
    with pytest.raises(wire.WireError, match="over the limit"):
        wire.encode_submission(WITH_MEDIA)


@given(st.integers(1))
def test_a_frame_cut_short_is_the_end(cut: int) -> None:
    data = wire.encode(wire.Submit.from_request(REQUEST))
    assert asyncio.run(_read_all(data[: -(cut % len(data)) or -1], [])) == []


@given(st.binary(max_size=64))
def test_foreign_bytes_are_a_wire_error_or_the_end(data: bytes) -> None:
    with contextlib.suppress(wire.WireError):
        asyncio.run(_read_all(data, []))


async def test_an_announced_giant_is_refused_before_it_is_read() -> None:
    reader = asyncio.StreamReader()
    reader.feed_data((wire.MAX_FRAME_BYTES + 1).to_bytes(4, "big"))
    with pytest.raises(wire.WireError, match="over the limit"):
        await wire.read_message(reader)
