"""Anthropic's routes, over a model that plays scripts."""

import json
from typing import Any

import httpx
import pytest

from tests.support.serving import FAKE, Server, serve

VERSION = {"anthropic-version": "2023-06-01"}


def body(stream: bool = False, model: str = "fake", **script: Any) -> dict[str, Any]:
    return {"model": model, "stream": stream, "messages": [{"role": "user", "content": json.dumps(script)}]}


def ask(server: Server, path: str = "/v1/messages", **kwargs: Any) -> httpx.Response:
    return httpx.post(server.url + path, json=body(**kwargs), timeout=30)


def events(response: httpx.Response) -> list[Any]:
    assert response.status_code == 200, response.text
    assert response.headers["content-type"] == "text/event-stream; charset=utf-8"
    assert response.text.endswith("\n\n")
    return [json.loads(line[6:]) for line in response.text.splitlines() if line.startswith("data: ")]


def assert_error(response: httpx.Response, status: int, kind: str) -> str:
    """An error in Anthropic's shape, with the request's id in it and in the header that the SDK reads."""
    assert response.status_code == status, response.text
    error = response.json()
    assert set(error) == {"type", "error", "request_id"}
    assert set(error["error"]) == {"type", "message"}
    assert (error["type"], error["error"]["type"]) == ("error", kind)
    assert error["request_id"] == response.headers["request-id"] == response.headers["x-request-id"]
    message: str = error["error"]["message"]
    return message


def test_a_whole_answer(server: Server) -> None:
    response = ask(server, pieces=3, text="ab")
    assert response.status_code == 200
    answer = response.json()
    assert answer["content"] == [{"type": "text", "text": "ababab"}]
    assert answer["id"].startswith("msg_")
    assert answer["usage"]["output_tokens"] == 3
    assert response.headers["request-id"].startswith("req_")


def test_a_streamed_answer(server: Server) -> None:
    found = events(ask(server, stream=True, pieces=3, text="ab"))
    assert found[0]["type"] == "message_start"
    assert "".join(e["delta"]["text"] for e in found if e["type"] == "content_block_delta") == "ababab"
    assert found[-1] == {"type": "message_stop"}


def test_the_address_under_a_prefix(server: Server) -> None:
    path = "/anthropic/v1/messages"
    assert ask(server, path, text="hi").json()["content"] == [{"type": "text", "text": "hi"}]
    assert "'gpt'" in assert_error(ask(server, path, model="gpt"), 404, "not_found_error")
    assert httpx.post(f"{server.url}{path}/count_tokens", json=body()).json()["input_tokens"] > 0
    (entry,) = httpx.get(f"{server.url}/anthropic/v1/models").json()["data"]
    assert (entry["type"], entry["id"]) == ("model", "fake")
    assert httpx.get(f"{server.url}/anthropic/v1/models/fake").json() == entry


def test_beta_and_the_header_change_nothing(server: Server) -> None:
    beta = {**VERSION, "anthropic-beta": "a-2025-01-01,b-2025-01-01"}
    response = httpx.post(f"{server.url}/v1/messages?beta=true", json=body(), headers=beta)
    assert response.json()["stop_reason"] == "end_turn"


def test_counting(server: Server) -> None:
    assert ask(server, "/v1/messages/count_tokens").json() == {"input_tokens": 1}
    assert ask(server, "/v1/messages/count_tokens?beta=true", stream=True).json() == {"input_tokens": 1}


def test_silence_before_the_start_is_a_comment_and_later_a_ping() -> None:
    with serve(keep_alive_interval=0.05) as server:
        server.until(state="ready")
        response = ask(server, stream=True, pieces=2, interval=0.3, delay=0.3)
        before, _, after = response.text.partition("event: message_start")
        assert set(before.splitlines()) == {": keep-alive", ""}
        assert after.count("event: ping") > 2
        assert ": keep-alive" not in after
        assert events(response)[-1] == {"type": "message_stop"}


@pytest.mark.parametrize("path", ["/v1/messages", "/v1/messages/count_tokens"])
def test_errors_have_anthropics_shape(server: Server, path: str) -> None:
    assert "'gpt'" in assert_error(ask(server, path, model="gpt"), 404, "not_found_error")
    assert "`messages`" in assert_error(
        httpx.post(server.url + path, json={"model": "fake"}), 400, "invalid_request_error"
    )
    assert_error(httpx.post(server.url + path, json=[]), 400, "invalid_request_error")
    assert_error(httpx.get(server.url + path), 405, "invalid_request_error")
    assert_error(httpx.post(f"{server.url}{path}/nowhere", json={}), 404, "not_found_error")


def test_a_wrong_key_is_a_401() -> None:
    with serve(api_keys=["secret"]) as server:
        url = f"{server.url}/v1/messages"
        for headers in ({}, {"x-api-key": "wrong"}, {"authorization": "Bearer wrong"}):
            assert_error(httpx.post(url, json=body(), headers=headers), 401, "authentication_error")
        assert_error(httpx.get(f"{server.url}/v1/models", headers=VERSION), 401, "authentication_error")
        for headers in ({"x-api-key": "secret"}, {"authorization": "Bearer secret"}):
            assert httpx.post(url, json=body(), headers=headers).status_code == 200


def test_a_body_that_is_too_large_is_a_413() -> None:
    with serve(max_body_bytes=1000) as server:
        assert_error(ask(server, text="x" * 1000), 413, "request_too_large")


@pytest.mark.parametrize("stream", [False, True])
def test_a_refusal_before_the_start_is_a_status(server: Server, stream: bool) -> None:
    refused = ask(server, stream=stream, refuse="context_length_exceeded")
    assert "prompt is too long" in assert_error(refused, 400, "invalid_request_error")
    busy = ask(server, stream=stream, refuse="overloaded")
    assert_error(busy, 529, "overloaded_error")
    assert int(busy.headers["retry-after"]) >= 1


def test_a_failure_in_the_stream_is_an_error_event(server: Server) -> None:
    response = ask(server, stream=True, pieces=2, fail="internal")
    error = events(response)[-1]
    assert (error["type"], error["error"]["type"]) == ("error", "api_error")
    assert error["request_id"] == response.headers["request-id"]
    assert "event: error\n" in response.text
    assert "[DONE]" not in response.text
    assert_error(ask(server, pieces=2, fail="internal"), 500, "api_error")


class TestModels:
    def test_the_header_says_whose_shape_it_is(self, server: Server) -> None:
        found = httpx.get(f"{server.url}/v1/models", params={"limit": 1000}, headers=VERSION).json()
        assert (found["has_more"], found["first_id"], found["last_id"]) == (False, "fake", "fake")
        (model,) = found["data"]
        assert (model["type"], model["id"], model["max_input_tokens"]) == ("model", "fake", 1000)
        assert httpx.get(f"{server.url}/v1/models/fake", headers=VERSION).json() == model
        assert httpx.get(f"{server.url}/v1/models").json()["object"] == "list"
        assert httpx.get(f"{server.url}/v1/models/fake").json()["object"] == "model"

    def test_pages_and_slashes(self) -> None:
        models = [FAKE.__class__(name, "fake", None, "fake") for name in ("a", "org/b")]
        with serve(models) as server:
            first = httpx.get(f"{server.url}/v1/models", params={"limit": 1}, headers=VERSION).json()
            assert (first["has_more"], first["last_id"]) == (True, "a")
            second = httpx.get(f"{server.url}/v1/models", params={"after_id": "a"}, headers=VERSION).json()
            assert [model["id"] for model in second["data"]] == ["org/b"]
            for path in ("org/b", "org%2Fb"):
                assert httpx.get(f"{server.url}/v1/models/{path}", headers=VERSION).json()["id"] == "org/b"

    def test_errors(self, server: Server) -> None:
        unknown = httpx.get(f"{server.url}/v1/models/gpt", headers=VERSION)
        assert "'fake'" in assert_error(unknown, 404, "not_found_error")
        wrong = httpx.get(f"{server.url}/v1/models", params={"limit": "x"}, headers=VERSION)
        assert "`limit`" in assert_error(wrong, 400, "invalid_request_error")


def test_docs_describe_the_routes(server: Server) -> None:
    paths = httpx.get(f"{server.url}/openapi.json").json()["paths"]
    for path in ("/v1/messages", "/v1/messages/count_tokens"):
        schema = paths[path]["post"]["requestBody"]["content"]["application/json"]["schema"]
        assert {"messages", "system", "thinking"} <= set(schema["properties"])


@pytest.mark.parametrize("stable", [True, False])
def test_volatile_lines_are_dropped_unless_that_is_switched_off(stable: bool) -> None:
    with serve(stable_prompts=stable) as server:
        asked = {**body(), "system": "x-anthropic-billing-header: cch=1;"}
        count = httpx.post(f"{server.url}/v1/messages/count_tokens", json=asked).json()["input_tokens"]
        assert count == (1 if stable else 2)  # the fake model counts messages
