"""Several prompts in one request, through a real server and a scripted model."""

import json
from typing import Any

import httpx

from tests.support.serving import FAKE, Server, serve

PATH = "/v1/completions"


def post(server: Server, *scripts: dict[str, Any], **fields: Any) -> httpx.Response:
    prompts = [json.dumps(script) for script in scripts]
    return httpx.post(server.url + PATH, json={"model": "fake", "prompt": prompts, **fields}, timeout=30)


def test_each_prompt_has_its_answer(server: Server) -> None:
    answer = post(server, {"text": "a", "pieces": 2}, {"text": "b", "delay": 0.05}, {"text": "c"}).json()
    assert [(choice["index"], choice["text"]) for choice in answer["choices"]] == [(0, "aa"), (1, "b"), (2, "c")]
    assert answer["usage"]["completion_tokens"] == 4


def test_they_share_a_stream(server: Server) -> None:
    scripts = {"text": "a", "pieces": 3, "interval": 0.01}, {"text": "b", "pieces": 2}
    lines = post(server, *scripts, stream=True, stream_options={"include_usage": True}).text.split("\n\n")
    assert lines[-2:] == ["data: [DONE]", ""]
    chunks = [json.loads(line.removeprefix("data: ")) for line in lines[:-2]]
    texts = ["", ""]
    for chunk in chunks[:-1]:
        texts[chunk["choices"][0]["index"]] += chunk["choices"][0]["text"]
    assert texts == ["aaa", "bb"]
    assert (chunks[-1]["choices"], chunks[-1]["usage"]["completion_tokens"]) == ([], 5)


def test_one_that_fails_ends_all(server: Server) -> None:
    server.until(state="ready")
    response = post(server, {"pieces": 1000, "interval": 1}, {"refuse": "context_length_exceeded"})
    assert (response.status_code, response.json()["error"]["code"]) == (400, "context_length_exceeded")
    server.until(running=0, waiting=0)
    response = post(server, {"pieces": 1000, "interval": 1}, {"fail": "internal"}, stream=True)
    assert response.status_code == 200
    assert json.loads(response.text.split("\n\n")[-3].removeprefix("data: "))["error"]["code"] == "internal_error"
    server.until(running=0, waiting=0)


def test_a_model_that_cannot_be_loaded_answers_all() -> None:
    with serve([FAKE.__class__("fake", "broken", None, "fake")]) as server:
        response = post(server, {}, {}, {})
        assert (response.status_code, response.json()["error"]["code"]) == (500, "model_failed")
        assert server.health()["waiting"] == 0
