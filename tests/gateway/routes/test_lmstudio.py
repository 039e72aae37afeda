"""LM Studio's routes, over a model that plays scripts."""

import json
from typing import Any

import httpx
import pytest

from tests.support.serving import Server

SCRIPT = json.dumps({"pieces": 3, "text": "ab"})
BODIES: dict[str, dict[str, Any]] = {
    "/api/v0/chat/completions": {"messages": [{"role": "user", "content": SCRIPT}]},
    "/api/v0/completions": {"prompt": SCRIPT},
}


def ask(server: Server, path: str, **fields: Any) -> httpx.Response:
    return httpx.post(server.url + path, json={"model": "fake", **BODIES[path], **fields}, timeout=30)


@pytest.mark.parametrize("path", BODIES)
def test_answers_have_statistics(server: Server, path: str) -> None:
    answer = ask(server, path).json()
    choice = answer["choices"][0]
    assert (choice["message"]["content"] if "message" in choice else choice["text"]) == "ababab"
    assert answer["stats"]["stop_reason"] == "eosFound"
    assert answer["stats"]["tokens_per_second"] > 0
    assert answer["model_info"]["context_length"] == 1000
    *chunks, done = [line[6:] for line in ask(server, path, stream=True).text.splitlines() if line]
    assert done == "[DONE]"
    assert "stats" in json.loads(chunks[-1])
    assert "stats" not in json.loads(chunks[0])


def test_models(server: Server) -> None:
    (listed,) = httpx.get(f"{server.url}/api/v0/models").json()["data"]
    assert (listed["id"], listed["type"], listed["compatibility_type"]) == ("fake", "llm", "mlx")
    assert httpx.get(f"{server.url}/api/v0/models/fake").json()["id"] == "fake"
    assert httpx.get(f"{server.url}/api/v0/models/gpt").status_code == 404


def test_errors_are_openais(server: Server) -> None:
    refused = ask(server, "/api/v0/chat/completions", model="gpt")
    assert (refused.status_code, refused.json()["error"]["code"]) == (404, "model_not_found")
    stored = ask(server, "/api/v0/chat/completions", store=True).json()["error"]
    assert stored["param"] == "store"
    embeddings = httpx.post(f"{server.url}/api/v0/embeddings", json={"model": "fake", "input": "a"})
    assert "no embeddings" in embeddings.json()["error"]["message"]
