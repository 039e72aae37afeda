"""Media in every dialect that has them: what they become, and what is refused."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from orchard.core.errors import OrchardError
from orchard.core.media import MAX_FRAMES, MAX_PIXELS, MediaOptions, MediaPart
from orchard.core.tasks.generate import Generate, Part, ToolResultPart, generate_task
from orchard.dialects.anthropic.messages import parse as anthropic_messages
from orchard.dialects.common.media import MAX_FPS, MAX_SIDE, MediaReference
from orchard.dialects.openai.chat import parse as openai_chat
from orchard.dialects.openai.responses import parse as openai_responses

Fields = dict[str, Any]
Read = Callable[..., Generate]
ReadFile = Callable[..., tuple[Part, ...]]
PNG = "data:image/png;base64,AA=="


def chat(*parts: Fields, **fields: Any) -> Generate:
    body = {"model": "m", "messages": [{"role": "user", "content": list(parts)}], **fields}
    return generate_task(openai_chat.parse(json.dumps(body).encode(), "r").request)


def responses(*parts: Fields, **fields: Any) -> Generate:
    body = {"model": "m", "input": [{"role": "user", "content": list(parts)}], **fields}
    return generate_task(openai_responses.parse(json.dumps(body).encode()).make_call("r").request)


def anthropic(*parts: Fields, **fields: Any) -> Generate:
    body = {"model": "m", "max_tokens": 5, "messages": [{"role": "user", "content": list(parts)}], **fields}
    return generate_task(anthropic_messages.parse(json.dumps(body).encode(), "r").request)


PICTURES: dict[Read, Fields] = {
    chat: {"type": "image_url", "image_url": PNG},
    responses: {"type": "input_image", "image_url": PNG},
    anthropic: {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AA=="}},
}
every_dialect = pytest.mark.parametrize("read", PICTURES)


def shown(task: Generate) -> tuple[Part, ...]:
    return task.messages[0].parts


def refused(read: Read, *parts: Fields, **fields: Any) -> OrchardError:
    with pytest.raises(OrchardError) as caught:
        read(*parts, **fields)
    assert caught.value.kind == "invalid_request"
    return caught.value


@every_dialect
@pytest.mark.parametrize(
    ("fields", "options"),
    [
        ({}, MediaOptions()),
        ({"resize_shape": [7]}, MediaOptions(resize_shape=(7, 7))),
        ({"resize_shape": [7, 9]}, MediaOptions(resize_shape=(7, 9))),
        ({"min_pixels": 5, "max_pixels": 5}, MediaOptions(min_pixels=5, max_pixels=5)),
        ({"fps": 0.5, "max_frames": 9}, MediaOptions(fps=0.5, max_frames=9)),
    ],
)
def test_how_the_model_looks_at_all_of_them(read: Read, fields: Fields, options: MediaOptions) -> None:
    (first, second) = shown(read(PICTURES[read], PICTURES[read], **fields))
    assert isinstance(first, MediaPart)
    assert isinstance(second, MediaPart)
    assert first.options == second.options == options


@every_dialect
@pytest.mark.parametrize(
    ("name", "value", "told"),
    [
        ("resize_shape", [], "a non-empty array of at most 2 items"),
        ("resize_shape", [1, 2, 3], "a non-empty array of at most 2 items"),
        ("resize_shape", 224, "a non-empty array of at most 2 items"),
        ("resize_shape", "224", "a non-empty array of at most 2 items"),
        ("resize_shape", [0, 5], f"an integer from 1 to {MAX_SIDE}"),
        ("resize_shape", [5, MAX_SIDE + 1], f"an integer from 1 to {MAX_SIDE}"),
        ("resize_shape", [1.5], f"an integer from 1 to {MAX_SIDE}"),
        ("resize_shape", [True], f"an integer from 1 to {MAX_SIDE}"),
        ("resize_shape", [MAX_SIDE], f"at most {MAX_PIXELS} pixels"),
        ("min_pixels", 0, f"an integer from 1 to {MAX_PIXELS}"),
        ("max_pixels", MAX_PIXELS + 1, f"an integer from 1 to {MAX_PIXELS}"),
        ("fps", 0, f"a number above 0 and at most {MAX_FPS}"),
        ("fps", MAX_FPS + 1, f"a number above 0 and at most {MAX_FPS}"),
        ("max_frames", 0, f"an integer from 1 to {MAX_FRAMES}"),
        ("max_frames", MAX_FRAMES + 1, f"an integer from 1 to {MAX_FRAMES}"),
    ],
)
def test_a_value_out_of_range_is_named(read: Read, name: str, value: Any, told: str) -> None:
    error = refused(read, PICTURES[read], **{name: value})
    assert (error.param or "").startswith(name)
    assert told in error.message


@every_dialect
def test_bounds_that_contradict_each_other(read: Read) -> None:
    error = refused(read, PICTURES[read], min_pixels=6, max_pixels=5)
    assert (error.param, "at most `max_pixels`, which is 5" in error.message) == ("min_pixels", True)


@pytest.mark.parametrize(
    ("given", "detail"), [("low", "low"), ("high", "high"), ("auto", "auto"), ("original", "high"), (None, None)]
)
def test_detail(given: str | None, detail: str | None) -> None:
    parts = (
        *shown(chat({"type": "image_url", "image_url": {"url": PNG, "detail": given}}, max_pixels=9)),
        *shown(responses({"type": "input_image", "image_url": PNG, "detail": given}, max_pixels=9)),
        *shown(responses({"type": "image_url", "image_url": {"url": PNG, "detail": given}}, max_pixels=9)),
    )
    for part in parts:
        assert isinstance(part, MediaPart)
        assert (part.options.detail, part.options.max_pixels) == (detail, 9)


def test_low_detail_contradicts_a_least_size() -> None:
    """The one caps a picture at 512 x 512, the other may ask for more."""
    for read, part in (
        (chat, {"type": "image_url", "image_url": {"url": PNG, "detail": "low"}}),
        (responses, {"type": "input_image", "image_url": PNG, "detail": "low"}),
    ):
        error = refused(read, part, min_pixels=480_000)
        assert error.param
        assert error.param.endswith("content[0].image_url")
        assert "min_pixels" in error.message


def test_a_wrong_detail() -> None:
    error = refused(chat, {"type": "image_url", "image_url": {"url": PNG, "detail": "medium"}})
    assert error.param == "messages[0].content[0].image_url.detail"
    assert "'auto', 'high', 'low', 'original', got 'medium'" in error.message
    assert refused(responses, {"type": "input_image", "image_url": PNG, "detail": "x"}).param == (
        "input[0].content[0].detail"
    )


@pytest.mark.parametrize("url", ["http://x/a", "HTTPS://x/a", "file:///a.png", "Data:image/png;base64,AA=="])
def test_addresses(url: str) -> None:
    (part,) = shown(chat({"type": "image_url", "image_url": {"url": url}}))
    assert part == MediaPart("image", url, "messages[0].content[0].image_url.url")


@pytest.mark.parametrize("url", ["ftp://x/a", "/a.png", "x", "javascript:a", " http://x/a"])
def test_addresses_of_another_kind(url: str) -> None:
    for read, part in (
        (chat, {"type": "image_url", "image_url": url}),
        (chat, {"type": "video_url", "video_url": {"url": url}}),
        (responses, {"type": "input_file", "file_url": url}),
        (anthropic, {"type": "image", "source": {"type": "url", "url": url}}),
        (anthropic, {"type": "document", "source": {"type": "url", "url": url}}),
    ):
        error = refused(read, part)
        assert error.param
        assert "url" in error.param
        assert "data: URL or an http(s) URL" in error.message


@pytest.mark.parametrize("read", [chat, responses])
class TestAudio:
    @pytest.mark.parametrize(("format_", "media_type"), [("wav", "wav"), ("mp3", "mpeg"), ("flac", "flac")])
    def test_base64(self, read: Read, format_: str, media_type: str) -> None:
        (part,) = shown(read({"type": "input_audio", "input_audio": {"data": "AA==", "format": format_}}))
        assert isinstance(part, MediaPart)
        assert (part.kind, part.url) == ("audio", f"data:audio/{media_type};base64,AA==")
        assert part.param.endswith("[0].content[0].input_audio.data")

    def test_a_data_url_needs_no_format(self, read: Read) -> None:
        (part,) = shown(read({"type": "input_audio", "input_audio": {"data": "data:audio/wav;base64,AA=="}}))
        assert isinstance(part, MediaPart)
        assert part.url == "data:audio/wav;base64,AA=="

    @pytest.mark.parametrize(
        ("audio", "field", "told"),
        [
            ({"data": "AA=="}, ".format", "'wav', 'mp3', 'flac'"),
            ({"data": "AA==", "format": "ogg"}, ".format", "'wav', 'mp3', 'flac'"),
            ({"data": "data:audio/ogg;base64,AA==", "format": "ogg"}, ".format", "'wav', 'mp3', 'flac'"),
            ({"format": "wav"}, ".data", "required"),
            ({"data": "", "format": "wav"}, ".data", "non-empty"),
            (None, "", "required"),
        ],
    )
    def test_what_is_wrong_is_named(self, read: Read, audio: Fields | None, field: str, told: str) -> None:
        error = refused(read, {"type": "input_audio", "input_audio": audio})
        assert (error.param or "").endswith(f"[0].content[0].input_audio{field}")
        assert told in error.message


@pytest.mark.parametrize("read", [chat, responses])
@pytest.mark.parametrize("kind", ["video_url", "input_video"])
@pytest.mark.parametrize("within", [True, False])
def test_videos(read: Read, kind: str, within: bool) -> None:
    url = "https://x/a.mp4"
    (part,) = shown(read({"type": kind, "video_url": {"url": url} if within else url}, fps=2))
    assert isinstance(part, MediaPart)
    assert (part.kind, part.url, part.options) == ("video", url, MediaOptions(fps=2.0))
    assert ".video_url" in part.param
    assert refused(read, {"type": kind}).param in (
        "messages[0].content[0].video_url",
        "input[0].content[0].video_url",
    )


@pytest.mark.parametrize("read", [chat, responses])
@pytest.mark.parametrize("kind", ["image_url", "video_url"])
def test_a_stored_file_is_refused_beside_a_url_too(read: Read, kind: str) -> None:
    error = refused(read, {"type": kind, kind: "https://x/a", "file_id": "file_1"})
    assert "keeps no files" in error.message
    assert (error.param or "").endswith("[0].content[0].file_id")


def _chat_file(**fields: Any) -> tuple[Part, ...]:
    return shown(chat({"type": "file", "file": fields}))


def _responses_file(**fields: Any) -> tuple[Part, ...]:
    return shown(responses({"type": "input_file", **fields}))


@pytest.mark.parametrize("read", [_chat_file, _responses_file])
class TestFiles:
    @pytest.mark.parametrize(
        ("data", "name", "kind"),
        [
            ("data:image/png;base64,AP8=", "", "image"),
            ("DATA:image/png;base64,AP8=", "", "image"),
            ("data:image/png;base64,AP8=", "a.mp3", "image"),
            ("data:audio/wav;base64,AP8=", "", "audio"),
            ("data:video/mp4;base64,AP8=", "", "video"),
            ("data:application/pdf;base64,JVBERi0=", "", "document"),
            ("data:;base64,AP8=", "a.JPG", "image"),
            ("data:application/octet-stream;base64,AP8=", "b/a.flac", "audio"),
            ("AP8=", "a.webm", "video"),
            ("JVBERi0=", "a.pdf", "document"),
            ("AP8=", "", "document"),
            ("AP8=", "gif", "document"),
            ("data:text/plain;charset=utf-8;base64,QUJD", "a.txt", "document"),
        ],
    )
    def test_the_type_or_the_name_tells_the_kind(self, read: ReadFile, data: str, name: str, kind: str) -> None:
        (part,) = read(file_data=data, filename=name)
        assert isinstance(part, MediaPart)
        assert (part.kind, part.name) == (kind, name)
        assert part.url == (data if ":" in data else f"data:;base64,{data}")
        assert part.param.endswith(".file_data")

    @pytest.mark.parametrize(
        ("fields", "told"),
        [
            ({}, "is required."),
            ({"file_id": "file_1", "filename": "a.png"}, "is required: this server keeps no files."),
        ],
    )
    def test_what_is_wrong_is_named(self, read: ReadFile, fields: Fields, told: str) -> None:
        with pytest.raises(OrchardError) as caught:
            read(**fields)
        assert (caught.value.param or "").endswith("file_data")
        assert told in caught.value.message

    def test_a_stored_file_is_refused_beside_data_too(self, read: ReadFile) -> None:
        with pytest.raises(OrchardError, match="keeps no files") as caught:
            read(file_id="file_1", file_data="QQ==")
        assert (caught.value.param or "").endswith("file_id")


@pytest.mark.parametrize(
    ("url", "name", "kind"),
    [
        ("https://x/a.png?size=5", None, "image"),
        ("https://x/a", "b.mp3", "audio"),
        ("https://x/a.pdf", None, "document"),
        ("https://x.png/", None, "document"),
    ],
)
def test_files_elsewhere(url: str, name: str | None, kind: str) -> None:
    (part,) = _responses_file(file_url=url, filename=name)
    assert part == MediaPart(kind, url, "input[0].content[0].file_url", name=name or "")  # type: ignore[arg-type]


def test_in_results_of_tools() -> None:
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    audio = {"type": "input_audio", "input_audio": {"data": "AA==", "format": "wav"}}
    messages = [
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c", "content": [audio, PICTURES[chat]]},
    ]
    told = chat(messages=messages).messages[2].parts[0]
    output = {"type": "function_call_output", "call_id": "c", "output": [audio, PICTURES[responses]]}
    given = [{"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"}, output]
    answered = responses(input=given).messages[1].parts[0]
    for result in (told, answered):
        assert isinstance(result, ToolResultPart)
        assert [part.kind for part in result.parts if isinstance(part, MediaPart)] == ["audio", "image"]


def test_media_that_are_kept() -> None:
    """What stands in stored items takes the place of every URL and of base64."""
    kept = MediaReference("0" * 64, "image/gif", "https://x/a b.gif")
    assert MediaReference.parse(kept.url) == kept
    found = [
        *shown(chat({"type": "image_url", "image_url": kept.url})),
        *shown(responses({"type": "input_image", "image_url": kept.url})),
        *shown(responses({"type": "input_audio", "input_audio": {"data": kept.url, "format": "mp3"}})),
        *shown(responses({"type": "input_audio", "input_audio": {"data": kept.url}})),
        *shown(responses({"type": "input_file", "file_data": kept.url})),
        *shown(responses({"type": "input_file", "file_url": kept.url})),
    ]
    assert [(part.kind, part.url, part.media_type) for part in found if isinstance(part, MediaPart)] == [
        ("image", kept.url, ""),
        ("image", kept.url, ""),
        ("audio", kept.url, "audio/mpeg"),
        ("audio", kept.url, ""),
        ("image", kept.url, "image/gif"),
        ("image", kept.url, ""),
    ]


@pytest.mark.parametrize("value", ["orchard-media:", "orchard-media:0 a b", f"orchard-media:{'g' * 64} a b", "x"])
def test_what_is_none(value: str) -> None:
    assert MediaReference.parse(value) is None
    assert refused(chat, {"type": "image_url", "image_url": value})
