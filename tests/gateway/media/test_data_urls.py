"""What data: URLs hold, and how they are refused."""

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchard.core.errors import OrchardError
from orchard.core.media import MAX_BYTES, MediaKind, MediaPart
from orchard.gateway.media import data_urls


def part(url: str, kind: MediaKind = "image") -> MediaPart:
    return MediaPart(kind, url, "messages[0].content[0]")


def refused(url: str, kind: MediaKind = "image") -> OrchardError:
    with pytest.raises(OrchardError) as caught:
        data_urls.decode_data_url(part(url, kind))
    assert caught.value.param == "messages[0].content[0]"
    assert "`messages[0].content[0]`" in caught.value.message
    return caught.value


def encoded(data: bytes) -> str:
    return base64.b64encode(data).decode()


@pytest.mark.parametrize(
    ("head", "kind", "media_type"),
    [
        ("data:image/png;base64", "image", "image/png"),
        ("DATA:IMAGE/PNG;charset=x;BASE64", "image", "image/png"),
        ("data:;base64", "image", ""),
        ("data:application/octet-stream;base64", "image", "application/octet-stream"),
        ("data:audio/wav;base64", "audio", "audio/wav"),
        ("data:video/webm;base64", "audio", "video/webm"),
        ("data:video/mp4;base64", "video", "video/mp4"),
        ("data:application/pdf;base64", "document", "application/pdf"),
    ],
)
def test_what_they_hold(head: str, kind: MediaKind, media_type: str) -> None:
    found = data_urls.decode_data_url(part(f"{head},QUJD", kind))
    assert (found.data, found.media_type, found.url) == (b"ABC", media_type, "")


@given(st.binary(min_size=1, max_size=200), st.integers(1, 9))
def test_any_bytes_in_any_steps(data: bytes, step: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(data_urls, "_STEP", 4 * step)
        assert data_urls.decode_data_url(part(f"data:image/png;base64,{encoded(data)}")).data == data


@pytest.mark.parametrize(
    "content",
    [
        "QUJ",
        "QUJDR",
        "Q=JD",
        "QU==JD",
        "QUJDQQ==QUJD",
        "QUJD=",
        "QUJD\n",
        "QU JD",
        "QUJD%3D",
        "-_-_",
        "QUé=",
        "====",
        "\0",
    ],
)
@pytest.mark.parametrize("step", [2**20, 4])
def test_no_base64(content: str, step: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(data_urls, "_STEP", step)
    error = refused(f"data:image/png;base64,{content}")
    assert (error.kind, "base64" in error.message) == ("invalid_request", True)


@pytest.mark.parametrize(
    "url", ["data:", "data:,", "data:,x", "data:image/png,QUJD", "data:image/png;base64", "data:x"]
)
def test_no_data_url_with_base64(url: str) -> None:
    assert "must be a data: URL with base64" in refused(url).message


def test_an_empty_one() -> None:
    assert "is empty" in refused("data:image/png;base64,").message


@pytest.mark.parametrize(
    ("head", "kind"),
    [
        ("text/html", "image"),
        ("audio/wav", "image"),
        ("application/pdf", "image"),
        ("image/svg+xml", "image"),
        ("image/png", "audio"),
        ("image/png", "video"),
    ],
)
def test_another_kind(head: str, kind: MediaKind) -> None:
    error = refused(f"data:{head};base64,QUJD", kind)
    assert (error.kind, repr(head) in error.message) == ("invalid_request", True)


def test_the_size_is_bounded_before_anything_is_decoded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(MAX_BYTES, "image", 6)
    assert data_urls.decode_data_url(part(f"data:;base64,{encoded(b'x' * 6)}")).data == b"x" * 6
    for size in (7, 8, 9, 10):
        error = refused(f"data:;base64,{encoded(b'x' * size)}")
        assert (error.kind, "may have 6 bytes" in error.message) == ("payload_too_large", True)
    monkeypatch.setattr(data_urls, "decode_base64", None)
    assert refused("data:;base64," + "?" * 100).kind == "payload_too_large"
