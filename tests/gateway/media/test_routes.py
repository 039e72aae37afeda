"""Media in every dialect, from the body to the worker: what arrives there, and what callers are told."""

import asyncio
import base64
import hashlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from orchard.gateway.media import fetch
from tests.support.serving import Server, serve
from tests.support.web import Answer, found, web

PNG = b"\x89PNG not really"
DATA = base64.b64encode(PNG).decode()
PDF = b"%PDF-1.4 not really"


def told(kind: str, data: bytes, media_type: str) -> str:
    """What the fake model says of a medium."""
    return f"[{kind}: {len(data)} bytes of {media_type}, sha256 {hashlib.sha256(data).hexdigest()[:8]}]"


PDF_TOLD = told("document", PDF, "application/pdf")
PDF_DATA = f"data:application/pdf;base64,{base64.b64encode(PDF).decode()}"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("media")
    (place / "a.png").write_bytes(PNG)
    return place


@pytest.fixture(scope="module")
def open_server(folder: Path) -> Any:
    with serve(allow_private_media=True, allowed_local_media=str(folder)) as running:
        yield running


def user(*parts: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"role": "user", "content": list(parts)}]


def chat(*parts: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    return "chat/completions", {"model": "fake", "messages": user(*parts)}


def response(*parts: dict[str, Any], **fields: Any) -> tuple[str, dict[str, Any]]:
    return "responses", {"model": "fake", "input": user(*parts), **fields}


def message(*parts: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    return "messages", {"model": "fake", "max_tokens": 9, "messages": user(*parts)}


def said(body: Any) -> str:
    """The text of an answer of any dialect."""
    if "choices" in body:
        return str(body["choices"][0]["message"]["content"])
    blocks = body["output"][0]["content"] if "output" in body else body["content"]
    return "".join(block["text"] for block in blocks)


@asynccontextmanager
async def client_of(server: Server) -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(base_url=f"{server.url}/v1/", timeout=30) as client:
        yield client


async def test_what_arrives_at_a_worker(open_server: Server, folder: Path) -> None:
    pictures: dict[str, Answer] = {"/a.png": found(PNG), "/a.pdf": found(PDF, "application/pdf")}
    async with web(pictures) as site, client_of(open_server) as client:
        links = site.url("/a.png"), f"file://{folder}/a.png", f"data:image/png;base64,{DATA}"
        picture, untyped = told("image", PNG, "image/png"), told("image", PNG, "no type")
        audio = {"type": "input_audio", "input_audio": {"data": DATA, "format": "wav"}}
        sound, video, pdf = told("audio", PNG, "audio/wav"), {"video_url": f"data:video/mp4;base64,{DATA}"}, PDF_TOLD
        source = {"type": "base64", "media_type": "image/png", "data": DATA}
        address, document = {"type": "url", "url": links[0]}, {"type": "url", "url": site.url("/a.pdf")}
        cases: list[tuple[tuple[str, dict[str, Any]], list[str]]] = [
            (chat(*({"type": "image_url", "image_url": {"url": url}} for url in links)), [picture, untyped, picture]),
            (chat(audio, {"type": "video_url", **video}), [sound, told("video", PNG, "video/mp4")]),
            (chat({"type": "file", "file": {"file_data": PDF_DATA}}), [pdf]),
            (response(*({"type": "input_image", "image_url": url} for url in links)), [picture, untyped, picture]),
            (response(audio, {"type": "input_file", "file_url": site.url("/a.pdf")}), [sound, pdf]),
            (response({"type": "input_file", "file_url": links[0]}), [picture]),
            (message({"type": "image", "source": source}, {"type": "image", "source": address}), [picture, picture]),
            (message({"type": "document", "source": document}), [pdf]),
        ]
        for (path, body), expected in cases:
            answer = await client.post(path, json=body)
            assert (answer.status_code, said(answer.json())) == (200, "".join(expected)), answer.text


async def test_a_stream(open_server: Server) -> None:
    async with web({"/a.png": found(PNG)}) as site, client_of(open_server) as client:
        path, body = chat({"type": "image_url", "image_url": site.url("/a.png")})
        answer = await client.post(path, json=body | {"stream": True})
        assert told("image", PNG, "image/png") in answer.text


async def test_every_way_to_ask_resolves_them(open_server: Server) -> None:
    """A medium that isn't there is a 400, in the words of each API."""
    async with web({}) as site, client_of(open_server) as client:
        link = site.url("/none.png")
        part = {"type": "input_image", "image_url": link}
        block = {"type": "image", "source": {"type": "url", "url": link}}
        path, body = message(block)
        cases = [
            (chat({"type": "image_url", "image_url": link}), "messages[0].content[0].image_url"),
            (("chat/completions", chat(part)[1] | {"store": True}), "messages[0].content[0].image_url"),
            (("chat/completions", chat(part)[1] | {"stream": True}), "messages[0].content[0].image_url"),
            (response(part), "input[0].content[0].image_url"),
            (response(part, stream=True), "input[0].content[0].image_url"),
            (response(part, background=True), "input[0].content[0].image_url"),
            (response(part, truncation="auto"), "input[0].content[0].image_url"),
            (("responses/input_tokens", response(part)[1]), "input[0].content[0].image_url"),
            ((path, body), None),
            ((f"{path}/count_tokens", body), None),
        ]
        for (path, body), param in cases:
            answer = await client.post(path, json=body)
            assert answer.status_code == 400, (path, answer.text)
            error = answer.json()["error"]
            assert "can't be fetched: its server answers with status 404" in error["message"]
            assert (param or "messages[0].content[0].source.url") in error["message"]
            assert error.get("param") == param
            assert len(site.requests) == 1
            site.requests.clear()


async def test_nothing_is_fetched_for_a_model_that_is_not_there(open_server: Server) -> None:
    async with web({}) as site, client_of(open_server) as client:
        link = site.url("/a.png")
        for path, body in (
            chat({"type": "image_url", "image_url": link}),
            response({"type": "input_image", "image_url": link}),
            message({"type": "image", "source": {"type": "url", "url": link}}),
        ):
            answer = await client.post(path, json=body | {"model": "none"})
            assert answer.status_code == 404
        assert site.requests == []


async def test_without_permission_nothing_here_is_read(server: Server, folder: Path) -> None:
    async with web({"/a.png": found(PNG)}) as site, client_of(server) as client:
        for link in (site.url("/a.png"), site.url("/a.png", "localhost"), f"file://{folder}/a.png"):
            path, body = chat({"type": "image_url", "image_url": {"url": link}})
            answer = await client.post(path, json=body)
            assert (answer.status_code, answer.json()["error"]["param"]) == (
                400,
                "messages[0].content[0].image_url.url",
            )
        assert site.requests == []


async def test_too_large_is_a_413(open_server: Server) -> None:
    async with web({"/a.png": found(PNG, content_length=str(2**30))}) as site, client_of(open_server) as client:
        path, body = chat({"type": "image_url", "image_url": site.url("/a.png")})
        answer = await client.post(path, json=body)
        assert (answer.status_code, answer.json()["error"]["param"]) == (413, "messages[0].content[0].image_url")


async def test_a_client_that_leaves_ends_its_fetches(open_server: Server) -> None:
    begun = asyncio.Event()

    async def endless(writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
        begun.set()
        await asyncio.Event().wait()

    async with web({"/a.png": endless}) as site, client_of(open_server) as client:
        for path, body in (
            chat({"type": "image_url", "image_url": site.url("/a.png")}),
            response({"type": "input_image", "image_url": site.url("/a.png")}),
        ):
            asked = asyncio.create_task(client.post(path, json=body))
            await begun.wait()
            asked.cancel()
            async with asyncio.timeout(fetch._SILENT_SECONDS / 2):  # the fetch would end by itself then
                assert await site.left.get() == "/a.png"
            begun.clear()


async def test_the_log_shows_neither_urls_nor_headers(tmp_path: Path) -> None:
    file = tmp_path / "orchard.log"
    with serve(allow_private_media=True, log_level="debug", log_file=str(file)) as running:
        answers: dict[str, Answer] = {"/a.png?token=secret": found(PNG, set_cookie="a=secret")}
        async with web(answers) as site, client_of(running) as client:
            path, body = chat({"type": "image_url", "image_url": site.url("/a.png?token=secret")})
            assert (await client.post(path, json=body)).status_code == 200
    assert f"image_url: {len(PNG)} bytes came from 127.0.0.1" in file.read_text()
    assert "secret" not in file.read_text()
