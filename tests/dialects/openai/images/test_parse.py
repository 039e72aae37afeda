import re
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchard.core.errors import OrchardError
from orchard.core.media import MediaPart
from orchard.core.tasks.images import LEAST_SIDE, MOST_PIXELS, SIDE_STEP, EditImages, GenerateImages
from orchard.dialects.openai.images.encode import ImagesCall
from orchard.dialects.openai.images.parse import parse, parse_edit, parse_edit_form
from tests.support.examples import examples


def parsed(**fields: Any) -> ImagesCall:
    return parse(msgspec.json.encode({"model": "painter", "prompt": "a cat", **fields}), "req_1")


def file(param: str) -> MediaPart:
    return MediaPart("image", "", param, path=f"/{param}")


def form(*files: str, **fields: str) -> ImagesCall:
    """The call of a form with files in these fields; without any, in `image`."""
    given = {"model": "painter", "prompt": "a cat", **fields}
    uploaded = {name: [file(name)] for name in files or ("image",)}
    return parse_edit_form({name: [value] for name, value in given.items()}, uploaded, "req_1")


def edited(**fields: Any) -> ImagesCall:
    given = {"model": "painter", "prompt": "a cat", "images": [{"image_url": "https://a/b.png"}], **fields}
    return parse_edit(msgspec.json.encode(given), "req_1")


def test_a_bare_request_gets_the_defaults() -> None:
    call = parsed()
    assert call.task == call.request.task == GenerateImages(prompt="a cat")
    assert (call.request.model, call.request.priority, call.stream, call.urls) == ("painter", "normal", False, False)
    assert form().task == EditImages(prompt="a cat", images=(file("image"),))
    linked = MediaPart("image", "https://a/b.png", "images[0].image_url")
    assert edited().task == EditImages(prompt="a cat", images=(linked,))


def test_every_field_is_read() -> None:
    wishes: dict[str, Any] = {
        "n": 3,
        "size": "640x320",
        "output_format": "webp",
        "output_compression": 50,
        "partial_images": 2,
        "seed": 2**32 - 1,
        "steps": 9,
        "guidance": 2.5,
        "negative_prompt": "dogs",
    }
    same = {
        name: value for name, value in wishes.items() if name not in ("size", "output_format", "output_compression")
    }
    expected = {**same, "prompt": "a cat", "width": 640, "height": 320, "format": "webp", "compression": 50}
    call = parsed(**wishes, stream=True, background="opaque", quality="high", style="vivid", nonsense=[1], ttl=5)
    assert (call.task, call.stream, call.request.ttl) == (GenerateImages(**expected), True, 5)
    texts = {name: str(value) for name, value in wishes.items()}
    call = form("mask", "image[]", "image", **texts, stream="true", response_format="b64_json", quality="", ttl="5")
    assert (call.task, call.stream, call.request.ttl) == (
        EditImages(**expected, images=(file("image"), file("image[]")), mask=file("mask")),
        True,
        5,
    )
    links = {"images": [{"image_url": "https://a/b.png"}, {"image_url": "data:x"}], "mask": {"image_url": "file:///m"}}
    call = edited(**wishes, **links, stream=True, ttl=5, input_fidelity="high", moderation="low", user="u")
    places = {"https://a/b.png": "images[0].image_url", "data:x": "images[1].image_url"}
    images = tuple(MediaPart("image", url, param) for url, param in places.items())
    mask = MediaPart("image", "file:///m", "mask.image_url")
    assert (call.task, call.stream, call.request.ttl) == (EditImages(**expected, images=images, mask=mask), True, 5)


def test_null_and_neutral_values_are_absent() -> None:
    names = ("n", "size", "response_format", "output_format", "seed", "steps", "guidance", "negative_prompt", "stream")
    assert parsed(**dict.fromkeys(names)).task == parsed().task
    neutral = parsed(size="auto", output_compression=100, partial_images=0, negative_prompt="", background="auto")
    assert neutral.task == parsed().task
    assert form(**dict.fromkeys(names, "")).task == form().task
    assert parsed(response_format="url").urls


def test_guidance_has_another_name() -> None:
    assert parsed(guidance_scale=2.5).task == parsed(guidance=2.5).task == GenerateImages(prompt="a cat", guidance=2.5)
    assert form(guidance_scale="0").task == form(guidance="0").task


def test_who_is_asked_and_how_urgently() -> None:
    body = b'{"prompt": "a cat"}'
    assert parse(body, "r", "interactive", default="only").request.model == "only"
    assert parse(body, "r", "interactive", default="only").request.priority == "interactive"
    assert parse(b'{"prompt": "a cat", "model": 5}', "r", model="deployed").request.model == "deployed"
    files = {"image": [file("image")]}
    assert parse_edit_form({"prompt": ["a cat"]}, files, "r", "background", default="only").request.model == "only"
    with pytest.raises(OrchardError, match="unless the server has exactly one image model"):
        parse(body, "r")


REFUSED: list[tuple[dict[str, Any], str, str]] = [
    ({"prompt": ""}, "prompt", "a non-empty string of at most 32000 characters"),
    ({"prompt": " \t\n"}, "prompt", "more than white space"),
    ({"prompt": "x" * 32_001}, "prompt", "at most 32000 characters"),
    ({"prompt": None}, "prompt", "a non-empty string"),
    ({"n": 0}, "n", "from 1 to 10"),
    ({"n": 11}, "n", "from 1 to 10"),
    ({"size": "large"}, "size", "'auto' or a width and a height"),
    ({"size": "1000x1024"}, "size", "multiples of 16 and at least 32, and at most 4,194,304 pixels"),
    ({"size": "16x64"}, "size", "not 16x64"),
    ({"size": "2064x2048"}, "size", "multiples of 16"),
    ({"response_format": "file"}, "response_format", "'b64_json', 'url'"),
    ({"response_format": "url", "stream": True}, "response_format", "for a stream"),
    ({"output_format": "gif"}, "output_format", "'jpeg', 'png', 'webp'"),
    ({"output_compression": 50}, "output_compression", "must be 100 for PNG"),
    ({"output_compression": 101, "output_format": "jpeg"}, "output_compression", "from 0 to 100"),
    ({"background": "transparent"}, "background", "'auto', 'opaque'"),
    ({"partial_images": 4, "stream": True}, "partial_images", "from 0 to 3"),
    ({"partial_images": 1}, "partial_images", "needs `stream` to be true"),
    ({"seed": -1}, "seed", "from 0 to 4294967295"),
    ({"seed": 2**32}, "seed", "from 0 to 4294967295"),
    ({"steps": 0}, "steps", "from 1 to 200"),
    ({"steps": 201}, "steps", "from 1 to 200"),
    ({"guidance": -0.1}, "guidance", "from 0"),
    ({"guidance": 100.5}, "guidance", "to 100"),
    ({"guidance_scale": 100.5}, "guidance_scale", "to 100"),
    ({"guidance": 4, "guidance_scale": 4}, "guidance_scale", "is another name of `guidance`: send one of them"),
    ({"num_inference_steps": 4}, "num_inference_steps", "its name is `steps` here"),
    *(({name: 512}, name, "`size` has both sides") for name in ("width", "height")),
    *(({name: 0.4}, name, "no model here uses it") for name in ("scheduler", "image_strength")),
    ({"negative_prompt": "x" * 32_001}, "negative_prompt", "at most 32000 characters"),
    *(({name: "x"}, name, "/v1/images/edits") for name in ("image", "images", "mask")),
    *(({name: "4"}, name, "a setting") for name in ("config_name", "quantize", "lora_paths", "lora_scales")),
]


@pytest.mark.parametrize(("fields", "param", "words"), REFUSED)
def test_what_is_wrong_is_named(fields: dict[str, Any], param: str, words: str) -> None:
    with pytest.raises(OrchardError) as caught:
        parsed(**fields)
    assert (caught.value.kind, caught.value.param) == ("invalid_request", param)
    assert f"`{param}`" in caught.value.message
    assert words in caught.value.message


def test_an_edit_needs_a_picture() -> None:
    with pytest.raises(OrchardError, match="`image` is required") as caught:
        form("mask")
    assert caught.value.param == "image"
    with pytest.raises(OrchardError, match="`steps` must be an integer from 1 to 200, got a string"):
        form(steps="many")


@pytest.mark.parametrize(
    ("fields", "param", "words"),
    [
        ({"images": None}, "images", "must be a non-empty array of at most 16 items"),
        ({"images": []}, "images", "must be a non-empty array of at most 16 items"),
        ({"images": [{"image_url": "https://a/b.png"}] * 17}, "images", "of at most 16 items"),
        ({"images": ["https://a/b.png"]}, "images[0]", "must be an object"),
        ({"images": [{}]}, "images[0].image_url", "is required"),
        ({"images": [{"image_url": ""}]}, "images[0].image_url", "a non-empty string"),
        ({"images": [{"image_url": "iVBO"}]}, "images[0].image_url", "must be a data: URL or an http(s) URL"),
        ({"images": [{"file_id": "f"}]}, "images[0].file_id", "this server keeps no files"),
        ({"mask": {"image_url": "data:x", "file_id": "f"}}, "mask.file_id", "must be left out"),
        ({"mask": {}}, "mask.image_url", "is required"),
        ({"image": "data:x"}, "image", "as `images` and `mask` of a JSON body"),
        ({"prompt": None}, "prompt", "a non-empty string"),
        ({"steps": 0}, "steps", "from 1 to 200"),
    ],
)
def test_what_is_wrong_with_an_edit_in_json_is_named(fields: dict[str, Any], param: str, words: str) -> None:
    with pytest.raises(OrchardError) as caught:
        edited(**fields)
    assert (caught.value.kind, caught.value.param) == ("invalid_request", param)
    assert words in caught.value.message


def outcome(way: Callable[..., ImagesCall], **fields: str) -> tuple[int | None, int | None] | str | None:
    """The size that is asked for, or the field to blame."""
    try:
        task = way(**fields).task
    except OrchardError as error:
        return error.param
    return task.width, task.height


@examples(300)
@given(st.integers(0, 5000), st.integers(0, 5000), st.sampled_from([1, SIDE_STEP]))
def test_a_size_is_taken_or_refused(width: int, height: int, scale: int) -> None:
    width, height = width * scale, height * scale
    possible = min(width, height) >= LEAST_SIDE and width % SIDE_STEP == height % SIDE_STEP == 0
    possible = possible and width * height <= MOST_PIXELS
    assert outcome(parsed, size=f"{width}x{height}") == ((width, height) if possible else "size")


@examples(500)
@given(st.text(max_size=20) | st.from_regex(r"[0-9 +\-x*.,٣]{1,12}", fullmatch=True))
def test_any_other_size_is_refused(text: str) -> None:
    found = outcome(parsed, size=text)
    if found == (None, None):
        assert text in ("", "auto")
    elif found != "size":
        assert re.fullmatch("0*{}x0*{}".format(*(found or ())), text)


@examples(300)
@given(st.dictionaries(st.sampled_from(sorted({param for _, param, _ in REFUSED} | {"ttl"})), st.text(max_size=12)))
def test_any_form_is_taken_or_refused(fields: dict[str, str]) -> None:
    found = outcome(form, **fields)
    assert isinstance(found, tuple) or found in fields
