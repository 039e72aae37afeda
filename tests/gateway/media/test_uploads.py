import asyncio
import itertools
import os
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.requests import Request

from orchard.config import Settings
from orchard.core.errors import OrchardError
from orchard.core.media import MediaPart
from orchard.gateway.http.budget import Budget
from orchard.gateway.media import uploads
from orchard.gateway.media.upload_folder import UploadFolder
from orchard.gateway.media.uploads import FileFields, Form, UploadReader
from tests.support.examples import examples
from tests.support.forms import SentForm, forms

SETTINGS = Settings(max_upload_bytes=1000)
RECORDING = FileFields("audio", {"file": 1}, 1000)
PICTURES = FileFields("image", {"image": 2, "mask": 1}, 1000)

CONTENT = st.binary(min_size=1, max_size=300)


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[UploadFolder]:
    made = UploadFolder(tmp_path)
    yield made
    made.close()


def _files(folder: UploadFolder) -> list[Path]:
    return sorted(folder._root.glob("*/upload-*"))


def _encoded(data: dict[str, Any], file: bytes | None, name: str = "file") -> tuple[str, bytes]:
    # A form without a file is still sent as one.
    files = [(name, ("a.wav", file))] if file is not None else [(key, (None, value)) for key, value in data.items()]
    request = httpx.Request("POST", "http://x", data=data if file is not None else None, files=files)
    return request.headers["content-type"], request.read()


async def _read(
    folder: UploadFolder, chunks: Iterable[bytes], fields: FileFields = RECORDING, **headers: str | bytes
) -> Form:
    left = iter(chunks)

    async def receive() -> dict[str, Any]:
        body = next(left, None)
        if body is None:
            return {"type": "http.disconnect"}
        return {"type": "http.request", "body": body, "more_body": body != b""}

    encoded = {name: value.encode() if isinstance(value, str) else value for name, value in headers.items()}
    raw = [(name.replace("_", "-").encode(), value) for name, value in encoded.items()]
    http = Request({"type": "http", "method": "POST", "path": "/", "headers": raw}, receive)
    settings = Settings(max_upload_bytes=fields.largest)
    return await UploadReader(settings, folder, Budget(2**30, "bodies")).read(http, fields)


def _file(form: Form) -> Path:
    (file,) = form.files["file"]
    return Path(file.path)


def _content(file: MediaPart) -> bytes:
    return Path(file.path).read_bytes()


async def _refusal(
    folder: UploadFolder, chunks: Iterable[bytes], fields: FileFields = RECORDING, **headers: str
) -> OrchardError:
    with pytest.raises(OrchardError) as caught:
        await _read(folder, chunks, fields, **headers)
    assert _files(folder) == []
    return caught.value


@examples(50)
@given(CONTENT, st.text(max_size=30), st.lists(st.integers(0, 1000), max_size=8))
async def test_a_form_is_read_the_same_however_it_is_cut(content: bytes, prompt: str, cuts: list[int]) -> None:
    folder = UploadFolder()
    fields = {"model": "whisper", "prompt": prompt, "timestamp_granularities[]": ["word", "segment"]}
    kind, body = _encoded(fields, content)
    places = sorted({0, len(body), *(cut % len(body) for cut in cuts)})
    pieces = [body[begin:end] for begin, end in itertools.pairwise(places)]
    form = await _read(folder, [*pieces, b""], content_type=kind)
    expected = {"model": ["whisper"], "prompt": [prompt], "timestamp_granularities[]": ["word", "segment"]}
    assert form.fields == expected
    assert _file(form).read_bytes() == content
    form.close()
    assert not _file(form).exists()
    folder.close()


@examples(1000)
@given(forms([b"", b"sound", bytes(1001), b"\r\n--b0undary--\r\n"]))
async def test_whatever_is_sent_is_read_or_refused_and_leaves_nothing(sent: SentForm) -> None:
    folder = UploadFolder()
    outcome = ""
    try:
        form = await _read(folder, [*sent.pieces, b""], content_type=sent.kind.encode("latin-1"))
        for file in form.files.get("file", ()):
            assert 0 < len(_content(file)) <= 1000
        form.close()
    except OrchardError as error:
        outcome = error.kind
    assert outcome in ("", "invalid_request", "payload_too_large")
    assert _files(folder) == []
    folder.close()


async def test_a_file_goes_to_the_disk_while_it_arrives_and_only_its_owner_can_read_it(folder: UploadFolder) -> None:
    kind, body = _encoded({}, bytes(5 * 2**20))
    seen: list[int] = []

    def pieces() -> Iterator[bytes]:
        for at in range(0, len(body), 65_536):
            seen.extend(file.stat().st_size for file in _files(folder))
            yield body[at : at + 65_536]
        yield b""

    form = await _read(folder, pieces(), FileFields("audio", {"file": 1}, 2**24), content_type=kind)
    assert seen[-1] >= 4 * 2**20
    assert stat.S_IMODE(_file(form).stat().st_mode) == 0o600
    assert stat.S_IMODE(_file(form).parent.stat().st_mode) == 0o700


async def test_a_file_of_the_limit_is_taken_and_one_byte_more_is_not(folder: UploadFolder) -> None:
    kind, body = _encoded({"model": "m"}, b"x" * 1000)
    assert _file(await _read(folder, [body, b""], content_type=kind)).stat().st_size == 1000
    folder.close()
    kind, body = _encoded({"model": "m"}, b"x" * 1001)
    error = await _refusal(folder, [body, b""], content_type=kind)
    assert (error.kind, error.param) == ("payload_too_large", "file")
    assert error.message == "`file` is too large: audio may have 1000 bytes."


async def test_a_body_that_says_that_it_is_too_large_is_not_stored(folder: UploadFolder) -> None:
    read = []

    def pieces() -> Iterator[bytes]:
        read.append(1)
        yield b""

    error = await _refusal(folder, pieces(), content_type="multipart/form-data; boundary=x", content_length="9" * 12)
    assert error.kind == "payload_too_large"
    assert read, "what has been sent is dropped, so that the client reads the answer"


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("application/json", "must be multipart/form-data, not 'application/json'"),
        ("", "the content type is missing"),
        ("multipart/form-data", "no boundary"),
        ("multipart/form-data; boundary=" + "x" * 71, "no boundary"),
    ],
)
async def test_other_content_types_are_refused(folder: UploadFolder, kind: str, message: str) -> None:
    error = await _refusal(folder, [b"{}", b""], content_type=kind)
    assert error.kind == "invalid_request"
    assert message in error.message


async def test_a_compressed_form_is_refused(folder: UploadFolder) -> None:
    kind, body = _encoded({}, b"x")
    error = await _refusal(folder, [body, b""], content_type=kind, content_encoding="gzip")
    assert "content-encoding 'gzip'" in error.message


@pytest.mark.parametrize(
    ("change", "message", "param"),
    [
        (lambda body: body[:-30], "it ends too early", None),
        (lambda body: b"nonsense" + body, "the form can't be read", None),
        (lambda body: body.replace(b'name="file"', b'name="image"'), "`image` is not a field for files", "image"),
        (lambda body: body.replace(b'name="model"', b'nome="model"'), "a part has no name", None),
        (lambda body: body.replace(b"sound", b""), "`file` is empty.", "file"),
        (lambda body: body.replace(b"audio/x-wav", b"text/html"), "`file` must be audio, not 'text/html'", "file"),
        (lambda body: body.replace(b"whisper", b"\xff\xfe"), "`model` is not UTF-8", "model"),
    ],
)
async def test_a_broken_form_is_refused(folder: UploadFolder, change: Any, message: str, param: str | None) -> None:
    kind, body = _encoded({"model": "whisper"}, b"sound")
    error = await _refusal(folder, [change(body), b""], content_type=kind)
    assert (error.kind, error.param) == ("invalid_request", param)
    assert message in error.message


async def test_a_second_file_many_parts_and_long_fields_are_refused(folder: UploadFolder) -> None:
    request = httpx.Request("POST", "http://x", files=[("file", b"a"), ("file", b"b")])
    error = await _refusal(folder, [request.read(), b""], content_type=request.headers["content-type"])
    assert "`file` may have 1 file" in error.message
    kind, body = _encoded({f"f{number}": "x" for number in range(200)}, b"x")
    assert "more than 128 parts" in (await _refusal(folder, [body, b""], content_type=kind)).message
    kind, body = _encoded({"prompt": "x" * (uploads.MOST_FIELD_BYTES + 1)}, b"x")
    error = await _refusal(folder, [body, b""], content_type=kind)
    assert (error.kind, error.param) == ("payload_too_large", "prompt")


async def test_a_form_without_a_file_has_none(folder: UploadFolder) -> None:
    kind, body = _encoded({"model": "m"}, None)
    form = await _read(folder, [body, b""], content_type=kind)
    assert (form.fields, form.files) == ({"model": ["m"]}, {})
    form.close()


async def test_a_client_that_leaves_leaves_nothing_behind(folder: UploadFolder) -> None:
    kind, body = _encoded({}, b"x" * 900)
    assert (await _refusal(folder, [body[:500]], content_type=kind)).kind == "cancelled"


async def test_a_slow_client_is_given_up_unless_it_keeps_the_least_rate(
    folder: UploadFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    kind, body = _encoded({}, b"x" * 900)
    never = asyncio.Event()

    async def receive() -> dict[str, Any]:
        if not sent:
            sent.append(body[:200])
            return {"type": "http.request", "body": body[:200], "more_body": True}
        await never.wait()
        raise AssertionError

    sent: list[bytes] = []
    http = Request({"type": "http", "method": "POST", "headers": [(b"content-type", kind.encode())]}, receive)
    monkeypatch.setattr(uploads, "LEAST_RATE", 10_000)
    settings = Settings(max_upload_bytes=1000, body_timeout=0.01)
    begin = asyncio.get_running_loop().time()
    with pytest.raises(OrchardError, match="at less than") as caught:
        await UploadReader(settings, folder, Budget(2**30, "bodies")).read(http, RECORDING)
    assert caught.value.kind == "timeout"
    assert asyncio.get_running_loop().time() - begin >= 0.01 + 200 / 10_000, "what it sent gave it more time"
    assert _files(folder) == []


def _pictures(*parts: tuple[str, bytes]) -> tuple[str, bytes]:
    files = [(name, (f"{name}.png", content)) for name, content in parts]
    request = httpx.Request("POST", "http://x", data={"prompt": "a cat"}, files=files)
    return request.headers["content-type"], request.read()


@examples(50)
@given(
    st.lists(st.tuples(st.sampled_from(["image", "mask"]), CONTENT), max_size=3),
    st.integers(1, 99),
)
async def test_a_form_may_have_several_files(parts: list[tuple[str, bytes]], step: int) -> None:
    names = [name for name, _ in parts]
    folder = UploadFolder()
    kind, body = _pictures(*parts, ("image", b"last"))
    pieces = [body[at : at + step] for at in range(0, len(body), step)]
    if names.count("image") > 1 or names.count("mask") > 1:
        error = await _refusal(folder, [*pieces, b""], PICTURES, content_type=kind)
        assert error.message in ("`image` may have 2 files.", "`mask` may have 1 file.")
    else:
        form = await _read(folder, [*pieces, b""], PICTURES, content_type=kind)
        found = {name: list(map(_content, files)) for name, files in form.files.items()}
        expected = {name: [content for one, content in (*parts, ("image", b"last")) if one == name] for name in found}
        assert (form.fields, found) == ({"prompt": ["a cat"]}, expected)
        form.close()
    assert _files(folder) == []
    folder.close()


async def test_files_are_written_while_later_ones_arrive(folder: UploadFolder) -> None:
    kind, body = _pictures(("image", b"a" * 2**20), ("image", b"b" * 2**20))
    sizes = []

    def pieces() -> Iterator[bytes]:
        for at in range(0, len(body), 2**19):
            sizes.append(sorted(file.stat().st_size for file in _files(folder)))
            yield body[at : at + 2**19]
        yield b""

    form = await _read(folder, pieces(), FileFields("image", {"image": 2}, 2**20), content_type=kind)
    assert max(sizes[-1]) == 2**20
    assert list(map(_content, form.files["image"])) == [b"a" * 2**20, b"b" * 2**20]


async def test_uploads_together_take_a_bounded_part_of_the_disk(folder: UploadFolder) -> None:
    reader = UploadReader(SETTINGS, folder, Budget(2**30, "bodies"))
    kind, body = _encoded({}, b"x" * 1000)

    async def one() -> Form:
        async def receive() -> dict[str, Any]:
            return {"type": "http.request", "body": body, "more_body": False}

        http = Request({"type": "http", "method": "POST", "headers": [(b"content-type", kind.encode())]}, receive)
        return await reader.read(http, RECORDING)

    forms = [await one() for _ in range(4)]
    with pytest.raises(OrchardError, match="uploads are held already") as caught:
        await one()
    assert caught.value.kind == "overloaded"
    forms.pop().close()
    await one()


@pytest.mark.parametrize(
    ("media_type", "kept"),
    [
        ("audio/wav", "audio/wav"),
        ("Video/WebM; codecs=opus", "video/webm"),
        ("application/mp4", "application/mp4"),
        ("application/octet-stream", "application/octet-stream"),
        ("multipart/form-data", "multipart/form-data"),
        (None, ""),
    ],
)
async def test_types_that_may_be_of_a_recording_are_taken(
    folder: UploadFolder, media_type: str | None, kept: str
) -> None:
    request = httpx.Request("POST", "http://x", files=[("file", ("a", b"sound", media_type or "x/y"))])
    body = request.read() if media_type else request.read().replace(b"Content-Type: x/y\r\n", b"")
    form = await _read(folder, [body, b""], content_type=request.headers["content-type"])
    assert [(file.kind, file.param, file.media_type) for file in form.files["file"]] == [("audio", "file", kept)]


async def test_what_of_forms_is_in_memory_counts_with_bodies(folder: UploadFolder) -> None:
    kind, body = _encoded({"prompt": "x" * 500}, b"x" * 700)
    arriving = Budget(1200, "bodies")
    arriving.left = 1100
    left = []

    def request(*chunks: bytes) -> Request:
        pieces = iter(chunks)

        async def receive() -> dict[str, Any]:
            left.append(arriving.left)
            piece = next(pieces)
            return {"type": "http.request", "body": piece, "more_body": piece != b""}

        return Request({"type": "http", "method": "POST", "headers": [(b"content-type", kind.encode())]}, receive)

    reader = UploadReader(SETTINGS, folder, arriving)
    with pytest.raises(OrchardError, match="bytes of bodies are held already") as caught:
        await reader.read(request(body, b""), RECORDING)
    assert caught.value.kind == "overloaded"
    arriving.left = 1200
    form = await reader.read(request(body, b""), RECORDING)
    assert (left[-1], arriving.left) == (0, 1200)
    form.close()


async def test_a_disk_that_takes_nothing_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    kind, body = _encoded({}, b"x")
    with pytest.raises(OrchardError, match="can't be stored: Not a directory") as caught:
        await _read(UploadFolder(tmp_path / "file" / "uploads"), [body, b""], content_type=kind)
    assert caught.value.kind == "unavailable"
    assert os.listdir(tmp_path) == ["file"]
