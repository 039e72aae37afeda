"""Requests before and after their media are here."""

import asyncio
import base64
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from orchard import wire
from orchard.config import Settings
from orchard.core.errors import OrchardError
from orchard.core.media import MAX_BYTES, MediaKind, MediaOptions, MediaPart
from orchard.core.request import Request
from orchard.core.tasks.generate import Count, Generate, Message, Part, TextPart, ToolResultPart, generate_task
from orchard.core.tasks.images import EditImages
from orchard.dialects.common.media import MediaReference
from orchard.gateway.http.budget import Budget
from orchard.gateway.media import data_urls, resolver
from orchard.gateway.media.errors import MAX_REQUEST_BYTES
from orchard.gateway.media.fetch import Fetcher
from orchard.gateway.media.resolver import MAX_URLS, MediaResolver, unresolved_media
from tests.support.web import found, web

BUDGET = 1000


class Site(Fetcher):
    """Gives what each URL is said to lead to (None: nothing ever comes), and counts how many are fetched at once."""

    def __init__(self, **contents: bytes | OrchardError | None) -> None:
        super().__init__(True)
        self.contents = contents
        self.asked: list[str] = []
        self.cancelled: list[str] = []
        self.now = self.most = 0
        self.begun = asyncio.Semaphore(0)

    async def fetch(self, part: MediaPart, hold: Callable[[int], None]) -> MediaPart:
        self.asked.append(part.url)
        self.now += 1
        self.most = max(self.now, self.most)
        self.begun.release()
        try:
            await asyncio.sleep(0)
            content = self.contents.get(part.url.rpartition("/")[2], b"ABC")
            if content is None:
                await asyncio.Event().wait()
                raise AssertionError("nobody ends this")
            if isinstance(content, OrchardError):
                raise content
            hold(len(content))
            return replace(part, url="", data=content, media_type="image/png")
        except asyncio.CancelledError:
            self.cancelled.append(part.url)
            raise
        finally:
            self.now -= 1


def request(*parts: Part, counted: bool = False) -> Request:
    task = Generate((Message("user", parts),))
    return Request("r", "m", Count(task) if counted else task)


def image(url: str, param: str = "p", kind: MediaKind = "image") -> MediaPart:
    return MediaPart(kind, url, param)


def data_url(data: bytes) -> str:
    return f"data:image/png;base64,{base64.b64encode(data).decode()}"


def edit(*images: MediaPart, mask: MediaPart | None = None) -> Request:
    return Request("r", "m", EditImages(prompt="a cat", images=images, mask=mask))


class Bench:
    def __init__(self, site: Fetcher | None = None, **settings: object) -> None:
        self.budget = Budget(BUDGET, "media")
        self.resolver = MediaResolver(Settings(**settings), self.budget, site)  # type: ignore[arg-type]

    async def parts(self, *parts: Part) -> tuple[Part, ...]:
        found = (await self.resolver.resolve(request(*parts))).request
        assert not list(unresolved_media(found))
        assert self.budget.left == BUDGET
        return generate_task(found).messages[0].parts

    async def refused(self, *parts: Part) -> OrchardError:
        with pytest.raises(OrchardError) as caught:
            await self.resolver.resolve(request(*parts))
        assert self.budget.left == BUDGET
        return caught.value


async def test_a_request_without_media_stays_as_it_is() -> None:
    here = MediaPart("image", "", "p", data=b"ABC")
    for given in (request(TextPart("Hi"), here), Request("r", "m", Generate(prompt="Hi"))):
        assert (await Bench().resolver.resolve(given)).request is given


async def test_everything_else_stays_as_it_is() -> None:
    options = MediaOptions(detail="low")
    first = MediaPart("image", data_url(b"A"), "a", name="n", options=options)
    result = ToolResultPart("c", (TextPart("x"), image("https://x/b"), TextPart("y")), is_error=True)
    here = MediaPart("image", "", "h", data=b"H")
    expected = (
        TextPart("Hi"),
        MediaPart("image", "", "a", b"A", "image/png", "n", options),
        ToolResultPart("c", (TextPart("x"), MediaPart("image", "", "p", b"ABC", "image/png"), TextPart("y")), True),
        here,
        MediaPart("audio", "", "d", b"ABC", "image/png"),
    )
    parts = (TextPart("Hi"), first, result, here, image("https://x/d", "d", "audio"))
    assert await Bench(Site()).parts(*parts) == expected
    for counted in (False, True):
        given = request(*parts, counted=counted)
        found = (await Bench(Site()).resolver.resolve(given)).request
        task = replace(generate_task(given), messages=(Message("user", expected),))
        assert found == replace(given, task=Count(task) if counted else task)


async def test_a_url_is_fetched_once() -> None:
    site = Site()
    low = replace(image("https://x/a", "second"), options=MediaOptions(detail="low"))
    parts = await Bench(site).parts(image("https://x/a"), low, image("https://x/b"))
    assert sorted(site.asked) == ["https://x/a", "https://x/b"]
    assert parts[1] == MediaPart("image", "", "second", b"ABC", "image/png", options=MediaOptions(detail="low"))


async def test_several_at_once_but_not_too_many() -> None:
    site = Site()
    await Bench(site).parts(*(image(f"https://x/{i}") for i in range(40)))
    assert (len(site.asked), site.most) == (40, 8)


async def test_there_may_be_only_so_many() -> None:
    same = [image("https://x/0")] * 9
    await Bench(Site()).parts(*(image(f"https://x/{i}") for i in range(MAX_URLS)), *same)
    error = await Bench(Site()).refused(*(image(f"https://x/{i}", f"p{i}") for i in range(MAX_URLS + 1)))
    assert (error.param, f"may have {MAX_URLS}" in error.message) == (f"p{MAX_URLS}", True)


async def test_one_that_fails_ends_the_others() -> None:
    site = Site(slow=None, bad=OrchardError("invalid_request", "no", param="b"))
    assert (await Bench(site).refused(image("https://x/slow"), image("https://x/bad", "b"))).param == "b"
    assert site.cancelled == ["https://x/slow"]


async def test_cancelling_ends_the_fetches() -> None:
    site = Site(a=None, b=None)
    bench = Bench(site)
    work = asyncio.create_task(bench.resolver.resolve(request(image("https://x/a"), image("https://x/b"))))
    await site.begun.acquire()
    await site.begun.acquire()
    work.cancel()
    with pytest.raises(asyncio.CancelledError):
        await work
    assert sorted(site.cancelled) == ["https://x/a", "https://x/b"]
    assert bench.budget.left == BUDGET


async def test_what_arrives_counts_until_it_is_here() -> None:
    site = Site(a=b"x" * 600, b=b"x" * 600)
    error = await Bench(site).refused(image("https://x/a"), image("https://x/b"))
    assert (error.kind, error.param) == ("payload_too_large", "p")
    assert len(await Bench(site).parts(image("https://x/a"), image("https://x/a"))) == 2
    assert len(await Bench(site).parts(image(data_url(b"x" * 2000)))) == 1  # that arrived with the body


async def test_files_count_too(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"x" * (BUDGET + 1))
    (tmp_path / "b").write_bytes(b"x" * BUDGET)
    bench = Bench(allowed_local_media=str(tmp_path))
    assert (await bench.refused(image(f"file://{tmp_path}/a"))).kind == "payload_too_large"
    (found,) = await bench.parts(image(f"file://{tmp_path}/b"))
    assert found == MediaPart("image", "", "p", b"x" * BUDGET)
    assert (await Bench().refused(image(f"file://{tmp_path}/b"))).kind == "invalid_request"


async def test_all_together_have_a_limit(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("orchard.gateway.media.resolver.MAX_REQUEST_BYTES", 10)
    (tmp_path / "a").write_bytes(b"x" * 6)
    bench = Bench(Site(a=b"x" * 6), allowed_local_media=str(tmp_path))
    places = ("https://x/a", data_url(b"x" * 6), f"file://{tmp_path}/a")
    for first in places:
        for second in places:
            if first != second:
                assert (await bench.refused(image(first), image(second))).kind == "payload_too_large"


async def test_there_is_a_limit_of_time() -> None:
    site = Site(a=None)
    error = await Bench(site, body_timeout=0.01).refused(image("https://x/a"))
    assert (error.kind, error.param, "within 0.01 seconds" in error.message) == ("invalid_request", "p", True)


@pytest.mark.parametrize("size", [3, resolver._SMALL_CHARS])
async def test_long_work_is_done_in_a_thread(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    here: list[bool] = []
    decoded = data_urls.decode_data_url

    def noted(part: MediaPart) -> MediaPart:
        try:
            asyncio.get_running_loop()
            here.append(True)
        except RuntimeError:
            here.append(False)
        return decoded(part)

    monkeypatch.setattr(data_urls, "decode_data_url", noted)
    assert (await Bench().parts(image(data_url(b"x" * size)))) == (
        MediaPart("image", "", "p", b"x" * size, "image/png"),
    )
    assert here == [size == 3]


async def test_over_the_network() -> None:
    async with web({"/a": found(b"x" * 9)}) as site:
        (part,) = await Bench(allow_private_media=True).parts(image(site.url("/a")))
        assert part == MediaPart("image", "", "p", b"x" * 9, "image/png")
        assert (await Bench().refused(image(site.url("/a")))).kind == "invalid_request"
        assert len(site.requests) == 1


def test_the_largest_request_fits_into_a_message_to_a_worker() -> None:
    assert max(MAX_BYTES.values()) < MAX_REQUEST_BYTES < wire.MAX_FRAME_BYTES - Settings().max_body_bytes


@pytest.mark.parametrize(
    ("data", "name", "expected"),
    [
        ("naïve".encode(), "", TextPart("naïve")),
        ("\ufeffnaïve".encode(), "a.txt", TextPart("a.txt:\nnaïve")),
        (b"x" * 99_999, "", TextPart("x" * 99_999)),
        (b"\xff", "a.txt", None),
        (b"a\0b", "", None),
        (b"%PDF-1.7 text", "", None),
        (b"\n\n%PDF-1.7 text", "a.pdf", None),
        (b" " * 1024 + b"%PDF-1.7", "", TextPart(" " * 1024 + "%PDF-1.7")),
    ],
)
async def test_documents_of_text_become_texts(data: bytes, name: str, expected: Part | None) -> None:
    given = MediaPart("document", f"data:;base64,{base64.b64encode(data).decode()}", "p", name=name)
    bench = Bench(Site(a=data[:BUDGET]))
    assert await bench.parts(given) == (expected or replace(given, url="", data=data),)
    if len(data) < BUDGET:
        site = Site(a=data)
        fetched = (expected,) if expected else (MediaPart("document", "", "p", data, "image/png", name),)
        assert await Bench(site).parts(replace(given, url="https://x/a")) == fetched


async def test_a_pdf_by_its_type_and_pictures_of_text_stay() -> None:
    pdf, picture = image("data:application/pdf;base64,QUJD", kind="document"), image(data_url(b"ABC"))
    found = await Bench().parts(pdf, picture, ToolResultPart("c", (replace(pdf, url="data:;base64,QUJD"),)))
    assert [type(part) for part in found] == [MediaPart, MediaPart, ToolResultPart]
    about = data_url(b"A PDF begins with %PDF-1.7").replace("image/png", "text/plain")
    really = data_url(b"%PDF-1.7").replace("image/png", "text/plain")
    told = await Bench().parts(image(about, kind="document"), image(really, kind="document"))
    assert [type(part) for part in told] == [TextPart, MediaPart]
    assert found[2] == ToolResultPart("c", (TextPart("ABC"),))


async def test_kept_media() -> None:
    digest = "0" * 64
    given = image(MediaReference(digest, "image/gif", "https://x/a").url)
    document = MediaPart("document", MediaReference(digest, "image/gif", "https://x/b").url, "p")
    bare = MediaPart("audio", MediaReference(digest, "", "").url, "p", media_type="audio/wav")
    resolver = Bench(Site()).resolver
    found = await resolver.resolve(request(given, document, bare), {digest: b"ABC"})
    assert generate_task(found.request).messages[0].parts == (
        MediaPart("image", "", "p", b"ABC", "image/gif"),
        MediaPart("image", "", "p", b"ABC", "image/gif"),
        MediaPart("audio", "", "p", b"ABC", "audio/wav"),
    )
    assert found.fetched == {}
    error = await Bench().refused(given)
    assert (error.kind, "data: URL or an http(s) URL" in error.message) == ("invalid_request", True)


async def test_what_was_fetched_is_told() -> None:
    found = await Bench(Site()).resolver.resolve(request(image("https://x/a"), image(data_url(b"A"))))
    assert found.fetched == {"https://x/a": MediaPart("image", "", "p", b"ABC", "image/png")}


async def test_pictures_of_an_edit_are_resolved_in_their_places() -> None:
    uploaded = MediaPart("image", "", "image", path="/upload")
    asked = edit(image("http://x/a"), uploaded, image(data_url(b"B")), mask=image("http://x/m"))
    assert [part.url for part in unresolved_media(asked)] == ["http://x/a", data_url(b"B"), "http://x/m"]
    task = (await Bench(Site(a=b"A", m=b"M")).resolver.resolve(asked)).request.task
    assert isinstance(task, EditImages)
    assert [(part.data, part.path) for part in task.media] == [(b"A", ""), (b"", "/upload"), (b"B", ""), (b"M", "")]
    assert task.mask
    without = (await Bench(Site(a=b"A")).resolver.resolve(edit(image("http://x/a")))).request.task
    assert isinstance(without, EditImages)
    assert ([part.data for part in without.images], without.mask) == ([b"A"], None)
