import base64
import json
from typing import Any

import pytest

from orchard.core.events import Event, Failed, Finished, Output, Progressed, Started, Usage, collect
from orchard.core.media import MediaPart
from orchard.core.request import Request
from orchard.core.tasks.images import EditImages, GenerateImages, Image, PartialImage
from orchard.dialects.openai.images.encode import ImagesCall, ImagesEncoder

DATA = bytes(range(256))
TASK = GenerateImages(prompt="a cat", n=2, format="jpeg")
EVENTS: list[Event] = [
    Started(0),
    Output.from_struct(PartialImage(b"half", 64, 32, 0), 1),
    Progressed(1, 4),
    Output.from_struct(Image(DATA, 64, 32, 8), 1),
    Output.from_struct(Image(b"first", 64, 32, 7), 0),
    Finished(("stop", "stop"), Usage(0, 0, units=2)),
]


def call(task: GenerateImages | EditImages = TASK, *, urls: bool = False) -> ImagesCall:
    return ImagesCall(Request("r", "painter", task), task, False, urls)


def _never(data: bytes, image_format: str) -> str:
    raise AssertionError


def test_an_answer_has_the_images_in_their_order() -> None:
    answer = json.loads(call().complete(_never, collect(EVENTS)))
    assert answer.pop("created") > 1_700_000_000
    assert answer.pop("usage") == {
        "input_tokens": 0,
        "input_tokens_details": {"image_tokens": 0, "text_tokens": 0},
        "output_tokens": 0,
        "total_tokens": 0,
    }
    images = [
        {"b64_json": base64.b64encode(b"first").decode(), "seed": 7},
        {"b64_json": base64.b64encode(DATA).decode(), "seed": 8},
    ]
    assert answer == {"background": "opaque", "data": images, "output_format": "jpeg", "size": "64x32"}


def test_an_answer_may_have_addresses() -> None:
    answer = json.loads(call(urls=True).complete(lambda data, name: f"{len(data)}.{name}", collect(EVENTS)))
    assert answer["data"] == [{"url": "5.jpeg", "seed": 7}, {"url": "256.jpeg", "seed": 8}]


@pytest.mark.parametrize(
    ("task", "kind"),
    [
        (TASK, "image_generation"),
        (EditImages(prompt="a cat", images=(MediaPart("image", "", "image", path="/a"),), format="jpeg"), "image_edit"),
    ],
)
def test_a_stream_has_openais_events(task: Any, kind: str) -> None:
    encoded = ImagesEncoder(call(task)).encode(EVENTS)
    begun, told, *done, end = encoded.decode().split("\n\n")
    assert (told, end) == (": 1 of 4 steps", "")
    same = {"background": "opaque", "output_format": "jpeg", "quality": "auto", "size": "64x32"}
    found = []
    for block in (begun, *done):
        name, data = block.split("\n")
        found.append(json.loads(data.removeprefix("data: ")))
        assert name == f"event: {found[-1]['type']}"
        assert found[-1].pop("created_at") > 1_700_000_000
        assert {key: found[-1].pop(key) for key in same} == same
    usage = found[1].pop("usage")
    assert (usage, usage["total_tokens"]) == (found[2].pop("usage"), 0)
    half, last, first = (base64.b64encode(data).decode() for data in (b"half", DATA, b"first"))
    assert found == [
        {"type": f"{kind}.partial_image", "b64_json": half, "index": 1, "partial_image_index": 0},
        {"type": f"{kind}.completed", "b64_json": last, "index": 1, "seed": 8},
        {"type": f"{kind}.completed", "b64_json": first, "index": 0, "seed": 7},
    ]


def test_a_failure_is_told_in_the_stream() -> None:
    encoded = ImagesEncoder(call()).encode([Failed("worker_crashed", "it crashed")])
    assert json.loads(encoded.removeprefix(b"data: "))["error"]["code"] == "worker_crashed"
