import asyncio
import http.client
import json
import re
import socket
from typing import Any

import httpx
import pytest

from orchard import __version__
from orchard.core.tasks.text_options import TextOptions
from tests.support.gateway_client import body, chat, streamed
from tests.support.serving import FAKE, Server, serve


def assert_error(response: httpx.Response, status: int, **fields: str | None) -> None:
    """An error in OpenAI's shape, with a request id."""
    assert response.status_code == status, response.text
    error = response.json()["error"]
    assert set(error) == {"message", "type", "param", "code"}
    assert {key: error[key] for key in fields} == fields
    assert response.headers["x-request-id"].startswith("req_")


async def test_a_whole_answer(server: Server) -> None:
    response = await chat(server, pieces=3, text="ab")
    assert response.status_code == 200
    answer = response.json()
    assert answer["choices"][0]["message"]["content"] == "ababab"
    assert answer["usage"]["completion_tokens"] == 3
    assert response.headers["x-request-id"].startswith("req_")


async def test_a_streamed_answer(server: Server) -> None:
    async with streamed(server, pieces=3, text="ab") as stream:
        await stream.read()
        assert stream.response.headers["content-type"] == "text/event-stream; charset=utf-8"
        assert stream.response.headers["cache-control"] == "no-cache"
        assert stream.response.headers["x-request-id"].startswith("req_")
        assert (stream.text, stream.done) == ("ababab", True)


async def test_request_ids_differ(server: Server) -> None:
    first, second = await chat(server), await chat(server)
    assert first.headers["x-request-id"] != second.headers["x-request-id"]


def test_models(server: Server) -> None:
    server.until(state="ready")
    entries = httpx.get(f"{server.url}/v1/models").json()
    assert entries["object"] == "list"
    (entry,) = entries["data"]
    assert (entry["id"], entry["object"], entry["owned_by"], entry["context_window"]) == (
        "fake",
        "model",
        "orchard",
        1000,
    )
    assert httpx.get(f"{server.url}/v1/models/fake").json() == entry


def test_model_ids_may_hold_slashes() -> None:
    with serve([FAKE.__class__("org/name", "fake", None, "fake")]) as server:
        for path in ("org/name", "org%2Fname"):
            assert httpx.get(f"{server.url}/v1/models/{path}").json()["id"] == "org/name"


def test_the_health_says_who_uses_the_memory(server: Server) -> None:
    health = httpx.get(f"{server.url}/health").json()
    assert health["memory"]["limit_bytes"] == health["memory"]["budget_bytes"] == 2**30
    assert (health["memory"]["total_bytes"], health["memory"]["others_bytes"]) == (2**31, 0)
    assert health["memory"]["reason"] == "device"
    assert health["models"]["fake"]["memory"]["rss"] > 0


def test_a_slash_at_the_end_changes_nothing(server: Server) -> None:
    assert httpx.post(f"{server.url}/v1/chat/completions/", json=body(text="ab"), timeout=30).status_code == 200
    assert httpx.post(f"{server.url}/v1/responses//", json={"model": "fake", "input": "Hi"}, timeout=30).is_success
    for path in ("/health", "/v1/models", "/v1/models/fake", "/anthropic/v1/models", "/"):
        assert httpx.get(f"{server.url}{path}/").status_code == 200
    assert "/nowhere: no such route" in httpx.get(f"{server.url}/nowhere/").json()["error"]["message"]


def test_the_root_says_where_to_read_on(server: Server) -> None:
    root = httpx.get(server.url)
    assert root.json()["name"] == "Orchard"
    assert httpx.get(server.url + root.json()["docs"]).status_code == 200
    assert httpx.get(server.url + root.json()["openapi"]).status_code == 200
    assert httpx.head(server.url).status_code == 200


def test_the_docs_load_nothing_from_elsewhere(server: Server) -> None:
    page = httpx.get(f"{server.url}/docs")
    assert page.headers["content-type"].startswith("text/html")
    assert "POST /v1/chat/completions" in page.text
    assert "<code>response_format</code>" in page.text
    assert "<code>timestamp_granularities</code>" in page.text
    assert not re.search(r"<script|<link|<img|(src|href)=\"(https?:)?//", page.text)
    assert "default-src 'none'" in page.headers["content-security-policy"]


def test_every_route_says_how_it_fails_and_what_it_takes(server: Server) -> None:
    spec = httpx.get(f"{server.url}/openapi.json").json()
    for path, methods in spec["paths"].items():
        for method, operation in methods.items():
            assert "4XX" in operation["responses"], (method, path)
            assert "422" not in operation["responses"], (method, path)
            if method == "post" and not path.endswith(("/cancel", "/load", "/unload", "/download", "/pin", "/unpin")):
                content = operation["requestBody"]["content"]
                takes_file = path.endswith(
                    ("/transcriptions", "/translations", "/images/edits", "/voices", "/voice_consents")
                )
                takes_json = not takes_file or path.endswith("/images/edits")
                types = ["multipart/form-data"] * takes_file + ["application/json"] * takes_json
                assert list(content) == types, (method, path)
                assert all(one["schema"] for one in content.values()), (method, path)
    form, body = spec["paths"]["/v1/images/edits"]["post"]["requestBody"]["content"].values()
    assert form["schema"]["properties"]["mask"]["format"] == "binary"
    assert "image_url" in body["schema"]["properties"]["images"]["items"]["properties"]


@pytest.mark.parametrize("path", ["/v1/models", "/models", "/openai/models", "/openai/v1/models"])
def test_models_at_every_address(server: Server, path: str) -> None:
    server.until(state="ready")
    (entry,) = httpx.get(server.url + path, params={"api-version": "2024-10-21"}).json()["data"]
    assert httpx.get(f"{server.url}{path}/{entry['id']}").json() == entry


@pytest.mark.parametrize("prefix", ["/v1", "", "/openai", "/openai/v1"])
def test_the_same_dialects_at_every_address(server: Server, prefix: str) -> None:
    chat = httpx.post(f"{server.url}{prefix}/chat/completions", json=body(text="hi"))
    assert chat.json()["choices"][0]["message"]["content"] == "hi"
    prompt = {"model": "fake", "prompt": '{"text": "hi"}'}
    assert httpx.post(f"{server.url}{prefix}/completions", json=prompt).json()["choices"][0]["text"] == "hi"
    refused = httpx.post(f"{server.url}{prefix}/embeddings", json={"model": "fake", "input": "hi"})
    assert refused.status_code == 400
    assert "'fake' gives text and no embeddings" in refused.json()["error"]["message"]
    unknown = httpx.post(f"{server.url}{prefix}/embeddings", json={"model": "other", "input": "hi"})
    assert unknown.status_code == 404


def test_azure_ais_addresses(server: Server) -> None:
    chat = httpx.post(f"{server.url}/models/chat/completions", json=body(text="hi"))
    assert chat.json()["choices"][0]["message"]["content"] == "hi"
    refused = httpx.post(f"{server.url}/models/embeddings", json={"model": "fake", "input": "hi"})
    assert_error(refused, 400, param="model")


def test_docs_describe_the_chat_body(server: Server) -> None:
    spec = httpx.get(f"{server.url}/openapi.json").json()
    assert spec["info"] == {"title": "Orchard", "version": __version__}
    post = spec["paths"]["/v1/chat/completions"]["post"]
    schema = post["requestBody"]["content"]["application/json"]["schema"]
    assert "messages" in json.dumps(schema)
    (priority,) = post["parameters"]
    assert (priority["name"], priority["schema"]["enum"][0]) == ("X-Priority", "interactive")


@pytest.mark.parametrize("path", ["/v1/audio/speech", "/openai/deployments/{deployment}/audio/speech"])
def test_docs_say_that_speech_is_a_file(server: Server, path: str) -> None:
    paths = httpx.get(f"{server.url}/openapi.json").json()["paths"]
    assert list(paths[path]["post"]["responses"]["200"]["content"]) == ["audio/*", "text/event-stream"]


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [("GET", "/nowhere", 404), ("POST", "/v1", 404), ("GET", "/v1/completions", 405), ("DELETE", "/health", 405)],
)
def test_wrong_routes_and_methods(server: Server, method: str, path: str, status: int) -> None:
    response = httpx.request(method, server.url + path)
    assert_error(response, status)
    assert path in response.json()["error"]["message"]


async def test_a_chat_with_an_unknown_model(server: Server) -> None:
    assert_error(await chat(server, model="gpt"), 404, code="model_not_found", param="model")


def test_an_unknown_model_names_those_that_are_here(server: Server) -> None:
    response = httpx.get(f"{server.url}/v1/models/gpt")
    assert_error(response, 404, code="model_not_found")
    assert "'fake'" in response.json()["error"]["message"]


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'"\xff"', b"\x00", b'{"model": NaN}'])
def test_bodies_that_are_no_request(server: Server, content: bytes) -> None:
    assert_error(httpx.post(f"{server.url}/v1/chat/completions", content=content), 400, type="invalid_request_error")


async def test_a_refusal_before_the_start_is_a_status_streamed_or_not(server: Server) -> None:
    whole = await chat(server, refuse="context_length_exceeded")
    assert_error(whole, 400, code="context_length_exceeded")
    async with streamed(server, refuse="context_length_exceeded") as stream:
        await stream.response.aread()
        assert_error(stream.response, 400, code="context_length_exceeded")


async def test_a_failure_in_the_stream_is_an_error_object_in_it(server: Server) -> None:
    async with streamed(server, pieces=2, fail="internal") as stream:
        await stream.read()
        assert stream.text == "xx"
        assert stream.error
        assert stream.error["message"]
    assert_error(await chat(server, pieces=2, fail="internal"), 500)


async def test_a_silent_stream_gets_comments() -> None:
    with serve(keep_alive_interval=0.05) as server:
        async with streamed(server, delay=0.5, text="late") as stream:
            await stream.read()
            assert stream.comments >= 2
            assert stream.text == "late"


def test_a_body_over_the_limit_is_refused(server: Server) -> None:
    response = httpx.post(f"{server.url}/v1/chat/completions", content=b" " * 100_000_000, timeout=30)
    assert_error(response, 413)


def test_a_body_without_a_length_is_cut_off_at_the_limit() -> None:
    with serve(max_body_bytes=1000) as server:
        chunks = (b" " * 600 for _ in range(3))
        assert_error(httpx.post(f"{server.url}/v1/chat/completions", content=chunks), 413)
        assert httpx.post(f"{server.url}/v1/chat/completions", json=body(), timeout=60).status_code == 200


def test_a_body_that_does_not_come_is_not_waited_for() -> None:
    with serve(body_timeout=0.1) as server:
        assert_error(_unfinished(server), 408)


def _unfinished(server: Server) -> httpx.Response:
    """Announce ten bytes and send one."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=10)
    connection.putrequest("POST", "/v1/chat/completions")
    connection.putheader("content-length", "10")
    connection.endheaders(b"{")
    reply = connection.getresponse()
    response = httpx.Response(reply.status, headers=reply.getheaders(), content=reply.read())
    connection.close()
    return response


def test_the_rest_of_a_body_that_is_too_large_is_not_read_for_ever() -> None:
    with serve() as server, socket.create_connection(("127.0.0.1", server.port), timeout=30) as sock:
        sock.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\ncontent-length: 999999999999\r\n\r\n")
        with pytest.raises(ConnectionError):
            _flood(sock)


def _flood(sock: socket.socket) -> None:
    for _ in range(1000):
        sock.sendall(b" " * 1_000_000)


def test_a_client_that_asks_first_is_told_at_once(server: Server) -> None:
    head = "POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\n"
    head += "expect: 100-continue\r\ncontent-length: 99999999\r\n\r\n"
    assert_error(_raw(server, head.encode()), 413)


def test_bodies_that_arrive_share_a_budget() -> None:
    with serve(max_body_bytes_in_flight=100) as server:
        for size, status in ((101, 413), (99, 400), (99, 400)):
            assert_error(httpx.post(f"{server.url}/v1/chat/completions", content=b" " * size), status)


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 200),
        ({"content-type": "application/json"}, 200),
        ({"content-type": "Application/JSON; charset=utf-8"}, 200),
        ({"content-type": "application/vnd.api+json"}, 200),
        ({"content-type": "text/plain"}, 400),
        ({"content-type": "application/x-www-form-urlencoded"}, 400),
        ({"content-type": "multipart/form-data; boundary=x"}, 400),
        ({"content-type": ""}, 400),
        ({"content-type": "application/json", "origin": "app://desktop"}, 200),
        ({"origin": "app://desktop"}, 400),
    ],
)
def test_a_body_must_be_said_to_be_json(server: Server, headers: dict[str, str], status: int) -> None:
    """The other content types are those that any web page can send here without being asked."""
    content = json.dumps(body()).encode()
    response = httpx.post(f"{server.url}/v1/chat/completions", content=content, headers=headers)
    assert response.status_code == status
    if status == 400:
        assert_error(response, 400, type="invalid_request_error")
        assert "content-type: application/json" in response.json()["error"]["message"]


def test_a_compressed_body_is_refused(server: Server) -> None:
    headers = {"content-encoding": "gzip"}
    response = httpx.post(f"{server.url}/v1/chat/completions", content=b"\x1f\x8b", headers=headers)
    assert_error(response, 400)
    assert "gzip" in response.json()["error"]["message"]


@pytest.mark.parametrize("noise", [b"GET / HTTP/1.1\r\n\x00: x\r\n\r\n", b"\x16\x03\x01\x02", b"NONSENSE\r\n\r\n"])
def test_what_is_no_http_is_told_so_in_the_same_shape(server: Server, noise: bytes) -> None:
    response = _raw(server, noise)
    assert_error(response, 400, type="invalid_request_error")
    assert "http:// instead" in response.json()["error"]["message"]


def test_a_head_that_does_not_come_is_not_waited_for() -> None:
    with serve(head_timeout=0.2) as server:
        assert_error(_raw(server, b"POST /v1/chat/completions HTTP/1.1\r\n"), 408)


def test_more_connections_than_allowed_are_told_to_come_back() -> None:
    with serve(max_connections=1) as server, socket.create_connection(("127.0.0.1", server.port)):
        assert_error(_raw(server, b""), 429)


def _raw(server: Server, data: bytes) -> httpx.Response:
    """Send bytes and read the answer to its end."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=10) as sock:
        sock.sendall(data)
        with sock.makefile("rb") as file:
            status = int(file.readline().split()[1])
            headers = dict(line.decode().rstrip().split(": ", 1) for line in iter(file.readline, b"\r\n"))
            return httpx.Response(status, headers=headers, content=file.read(int(headers["content-length"])))


def test_paths_cannot_forge_log_lines(capfd: pytest.CaptureFixture[str]) -> None:
    with serve() as server:
        httpx.get(f"{server.url}/%0aINFO%20forged%1b[31m")
    assert "/%0aINFO%20forged%1b" in capfd.readouterr().err


async def test_more_requests_than_allowed_are_told_to_come_back() -> None:
    with serve(max_requests=1) as server:
        async with streamed(server, pieces=10_000, interval=0.01) as stream:
            await stream.read(until=1)
            response = await chat(server)
            assert_error(response, 429)
            assert int(response.headers["retry-after"]) >= 1
            server.until(running=1)  # that one is answered all the same
        await asyncio.to_thread(server.until, running=0)
        assert (await chat(server)).status_code == 200


async def test_a_full_queue_is_told_to_come_back() -> None:
    with serve(text=TextOptions(decode_concurrency=1, queue_size=1)) as server:
        server.until(state="ready")
        async with (
            streamed(server, pieces=10_000, interval=0.01) as first,
            streamed(server, pieces=10_000, interval=0.01) as second,
        ):
            await first.read(until=1)
            async with streamed(server) as refused:
                await refused.response.aread()
            for response in (refused.response, await chat(server)):
                assert_error(response, 429, type="rate_limit_error", code="rate_limit_exceeded")
                assert response.headers["retry-after"] == "5"
            for stream in (first, second):
                await stream.read(until=len(stream.text) + 1)
                assert stream.error is None
        await asyncio.to_thread(server.until, running=0)
        assert (await chat(server)).status_code == 200


def test_what_is_cached(server: Server) -> None:
    response = httpx.post(f"{server.url}/v1/chat/completions", json=body(text="Hi"))
    found = httpx.get(f"{server.url}/v1/cache").json()
    (model,) = found["models"]
    assert (found["object"], model["model"], model["counters"]) == ("cache", "fake", {})
    about = {"request_id": response.headers["x-request-id"]}
    report = httpx.get(f"{server.url}/v1/cache", params=about).json()
    assert report == {"object": "cache.report", "model": "fake", **model["reports"][-1]}
    assert report["given"] == '{"text": "Hi"}'
    unknown = httpx.get(f"{server.url}/v1/cache", params={"request_id": "req_1"})
    assert_error(unknown, 404, code="request_not_found", param="request_id")
    assert "'req_1'" in unknown.json()["error"]["message"]


def test_a_worker_that_does_not_say_what_is_cached_is_not_waited_for() -> None:
    with serve([FAKE.__class__("m", "mute", None, "fake")], cache_timeout=0.1) as server:
        server.until("m", state="ready")
        busy = httpx.get(f"{server.url}/v1/cache")
        assert_error(busy, 503, code="unavailable")
        assert int(busy.headers["retry-after"]) >= 1
        assert httpx.post(f"{server.url}/v1/chat/completions", json=body(model="m")).status_code == 200


def test_a_wrong_priority_is_a_400(server: Server) -> None:
    url = f"{server.url}/v1/chat/completions"
    assert_error(httpx.post(url, json=body() | {"priority": 5}), 400, param="priority")
    assert_error(httpx.post(url, json=body(), headers={"x-priority": "5"}), 400, param="X-Priority")
    assert httpx.post(url, json=body(), headers={"x-priority": "interactive"}).status_code == 200


@pytest.mark.parametrize("path", ["slow", "broken"])
def test_the_server_answers_while_a_model_loads(path: str) -> None:
    with serve([FAKE.__class__("m", path, None, "fake")]) as server:
        begin: dict[str, Any] = server.health("m")
        assert begin["state"] in ("loading", "failed")
        response = httpx.post(f"{server.url}/v1/chat/completions", json=body(model="m", text="hello"), timeout=30)
        if path == "slow":
            assert response.json()["choices"][0]["message"]["content"] == "hello"
            assert server.health("m")["state"] == "ready"
        else:
            assert response.status_code >= 500
            assert "cannot be loaded" in response.json()["error"]["message"]
            assert "cannot be loaded" in server.until("m", state="failed")["reason"]


def test_who_reads_the_settings(server: Server) -> None:
    assert httpx.get(f"{server.url}/v1/settings").json() == {"object": "list", "data": []}
    with serve(api_keys=("user-key",), admin_keys=("admin-key",)) as locked:
        for key, status in (("", 401), ("user-key", 403), ("admin-key", 200)):
            assert httpx.get(f"{locked.url}/v1/settings", headers={"x-api-key": key}).status_code == status
