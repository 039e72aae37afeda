"""The examples of Ollama's own page on its API, one after the other, over a model that plays scripts.

Each request gets the shape that the page shows, or a refusal that docs/ollama.md names.
"""

import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from msgspec.structs import replace

from tests.support.ollama_examples import (
    CHAT,
    CHAT_END,
    DETAILS,
    EXAMPLES,
    GENERATE,
    GENERATE_END,
    NAMES,
    STATISTICS,
)
from tests.support.serving import FAKE, Server, serve

CREATE = {"model": "mario", "from": "llama3.2", "system": "You are Mario from Super Mario Bros."}
BLOB = "/api/blobs/sha256:29fdb92e57cf0827ded04ae6461b5931d01fa595843f55d36f5b275a52087dd2"
REFUSALS = {
    "generate, options of other ways to sample": (
        *("POST", GENERATE, {"model": "llama3.2", "prompt": "Why?", "options": {"typical_p": 0.7, "mirostat": 1}}),
        *(400, "`options.typical_p` must be 1"),
    ),
    "create": ("POST", "/api/create", CREATE, 400, "orchard import"),
    "quantize": ("POST", "/api/create", {"model": "a", "from": "b", "quantize": "q4_K_M"}, 400, "mlx_lm.convert"),
    "check a blob": ("HEAD", BLOB, None, 404, ""),
    "create a blob": ("POST", BLOB, {}, 400, "orchard import"),
    "copy": ("POST", "/api/copy", {"source": "llama3.2", "destination": "llama3-backup"}, 400, "`aliases`"),
    "delete": ("DELETE", "/api/delete", {"model": "llama3:13b"}, 403, "--allow-delete"),
    "pull": ("POST", "/api/pull", {"model": "llama3.2"}, 403, "--allow-download"),
    "push": ("POST", "/api/push", {"model": "mattw/pygmalion:latest"}, 400, "not uploaded"),
    "a model without embeddings": ("POST", "/api/embed", {"model": "llama3.2", "input": "Why?"}, 400, "embeddings"),
    "the older form of embeddings": (
        *("POST", "/api/embeddings", {"model": "llama3.2", "prompt": "Here is an article about llamas..."}),
        *(400, "embeddings"),
    ),
}


@pytest.fixture(scope="module")
def ollama() -> Iterator[Server]:
    with serve([replace(FAKE, aliases=NAMES)]) as server:
        server.until(state="ready")
        yield server


def ask(server: Server, method: str, path: str, body: Any) -> httpx.Response:
    """Send a body as `curl -d` does."""
    content = None if body is None else json.dumps(body)
    form = {"content-type": "application/x-www-form-urlencoded"}
    return httpx.request(method, server.url + path, content=content, headers=form, timeout=30)


@pytest.mark.parametrize("title", EXAMPLES)
def test_an_example_gets_what_the_page_shows(ollama: Server, title: str) -> None:
    example = EXAMPLES[title]
    answer = ask(ollama, "POST", example.path, example.body)
    assert answer.status_code == 200, answer.text
    *pieces, last = map(json.loads, answer.text.splitlines())
    assert last.keys() == example.fields
    assert last.get("model", example.body["model"]) == example.body["model"]
    assert last.get("done", True)
    if example.pieces is None:
        assert not pieces
        assert answer.headers["content-type"] == "application/json"
    else:
        assert pieces
        assert all(piece.keys() == example.pieces and not piece["done"] for piece in pieces)
        assert answer.headers["content-type"] == "application/x-ndjson"
    for name in STATISTICS & last.keys():
        assert isinstance(last[name], int)


@pytest.mark.parametrize("title", REFUSALS)
def test_what_is_not_served_says_why(ollama: Server, title: str) -> None:
    method, path, body, status, words = REFUSALS[title]
    answer = ask(ollama, method, path, body)
    assert answer.status_code == status
    assert method == "HEAD" or words in answer.json()["error"]


def test_lists(ollama: Server) -> None:
    version = httpx.get(f"{ollama.url}/api/version").json()
    assert version.keys() == {"version", "orchard"}
    listed = {model["name"]: model for model in httpx.get(f"{ollama.url}/api/tags").json()["models"]}
    assert listed.keys() == {"fake", *NAMES}
    fields = {"name", "model", "modified_at", "size", "digest", "details", "capabilities"}
    assert all(model.keys() == fields and model["details"].keys() == DETAILS for model in listed.values())
    (running,) = httpx.get(f"{ollama.url}/api/ps").json()["models"]
    assert running.keys() == (fields - {"modified_at", "capabilities"}) | {"expires_at", "size_vram", "context_length"}


def test_unloading(ollama: Server) -> None:
    rows: list[tuple[str, dict[str, Any], set[str]]] = [
        (GENERATE, {}, GENERATE_END),
        (CHAT, {"messages": []}, CHAT_END),
    ]
    for path, more, fields in rows:
        answer = ask(ollama, "POST", path, {"model": "llama3.2", "keep_alive": 0, **more}).json()
        assert (answer.keys(), answer["done_reason"]) == (fields, "unload")
        assert httpx.get(f"{ollama.url}/api/ps").json() == {"models": []}
        ask(ollama, "POST", path, {"model": "llama3.2", **more})
