"""Azure's addresses and errors."""

import json
from typing import Any

import httpx
import pytest

from tests.support.gateway_client import body
from tests.support.serving import FAKE, Server, serve

DEPLOYMENT = "/openai/deployments/fake"


def post(server: Server, path: str, fields: dict[str, Any], **params: str) -> httpx.Response:
    return httpx.post(server.url + path, json=fields, params=params, timeout=30)


@pytest.mark.parametrize("params", [{}, {"api-version": "2024-10-21"}, {"api-version": "1999-01-01-nonsense"}])
@pytest.mark.parametrize("model", [None, "gpt-9"])
def test_the_deployment_names_the_model(server: Server, params: dict[str, str], model: str | None) -> None:
    chat = post(server, f"{DEPLOYMENT}/chat/completions", body(text="hi") | {"model": model}, **params).json()
    assert (chat["model"], chat["choices"][0]["message"]["content"]) == ("fake", "hi")
    text = post(server, f"{DEPLOYMENT}/completions", {"prompt": '{"text": "ho"}', "model": model}, **params).json()
    assert (text["model"], text["choices"][0]["text"]) == ("fake", "ho")


@pytest.mark.parametrize("body", [{}, {"model": ""}, {"model": 7}, {"model": "gpt-9"}])
def test_responses_of_a_deployment(server: Server, body: dict[str, Any]) -> None:
    answer = post(server, f"{DEPLOYMENT}/responses", {"input": '{"text": "hi"}'} | body).json()
    assert (answer["model"], answer["output"][0]["content"][0]["text"]) == ("fake", "hi")


def test_a_deployment_may_hold_slashes() -> None:
    with serve([FAKE.__class__("org/name", "fake", None, "fake")]) as server:
        for name in ("org/name", "org%2Fname"):
            answer = post(server, f"/openai/deployments/{name}/chat/completions", body()).json()
            assert answer["model"] == "org/name"


@pytest.mark.parametrize(
    ("path", "fields", "status", "code"),
    [
        (f"{DEPLOYMENT}/chat/completions", {"messages": []}, 400, "BadRequest"),
        (f"{DEPLOYMENT}/chat/completions", body(refuse="context_length_exceeded"), 400, "context_length_exceeded"),
        (f"{DEPLOYMENT}/chat/completions", body(refuse="overloaded"), 429, "429"),
        (f"{DEPLOYMENT}/chat/completions", body(fail="internal"), 500, "InternalServerError"),
        (f"{DEPLOYMENT}/embeddings", {"input": "hi"}, 400, "BadRequest"),
        ("/openai/deployments/gpt-9/chat/completions", body(), 404, "DeploymentNotFound"),
        ("/openai/deployments/gpt-9/embeddings", {"input": "hi"}, 404, "DeploymentNotFound"),
        ("/openai/nowhere", {}, 404, "404"),
    ],
)
def test_errors_have_azures_codes(server: Server, path: str, fields: dict[str, Any], status: int, code: str) -> None:
    response = post(server, path, fields)
    assert (response.status_code, response.json()["error"]["code"]) == (status, code)
    assert set(response.json()["error"]) == {"message", "type", "param", "code"}


def test_a_streamed_answer(server: Server) -> None:
    lines = post(server, f"{DEPLOYMENT}/chat/completions", body(stream=True, text="hi")).text.split("\n\n")
    chunks = [json.loads(line.removeprefix("data: ")) for line in lines[:-2]]
    assert "".join(chunk["choices"][0]["delta"].get("content") or "" for chunk in chunks) == "hi"
