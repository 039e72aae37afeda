"""The examples of Ollama's own page on its API, one after the other, over a model that plays scripts.

https://github.com/ollama/ollama/blob/main/docs/api.md: each request gets the shape that the page shows, or a refusal
that docs/ollama.md names. Texts of prompts and pictures are shortened.
"""

import json
from collections.abc import Iterator
from typing import Any, NamedTuple

import httpx
import pytest
from msgspec.structs import replace

from tests.support.serving import FAKE, Server, serve

NAMES = ("llama3.2", "llama3.1:8b", "llama3.1", "codellama:code", "llava", "mistral", "deepseek-r1")
SKY = [{"role": "user", "content": "why is the sky blue?"}]
AGE = {
    "type": "object",
    "properties": {"age": {"type": "integer"}, "available": {"type": "boolean"}},
    "required": ["age", "available"],
}
WEATHER = {
    "type": "function",
    "function": {
        "name": "get_current_weather",
        "description": "Get the current weather for a location",
        "parameters": {
            "type": "object",
            "properties": {
                "location": {"type": "string", "description": "The location to get the weather for"},
                "format": {"type": "string", "enum": ["celsius", "fahrenheit"]},
            },
            "required": ["location", "format"],
        },
    },
}
OPTIONS = {
    "num_keep": 5,
    "seed": 42,
    "num_predict": 100,
    "top_k": 20,
    "top_p": 0.9,
    "min_p": 0.0,
    "repeat_last_n": 33,
    "temperature": 0.8,
    "repeat_penalty": 1.2,
    "presence_penalty": 1.5,
    "frequency_penalty": 1.0,
    "penalize_newline": True,
    "stop": ["\n", "user:"],
    "numa": False,
    "num_ctx": 1024,
    "num_batch": 2,
    "num_gpu": 1,
    "main_gpu": 0,
    "low_vram": False,
    "vocab_only": False,
    "use_mmap": True,
    "use_mlock": False,
    "num_thread": 8,
}
PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
STATISTICS = {
    *("total_duration", "load_duration", "prompt_eval_count", "prompt_eval_duration"),
    *("eval_count", "eval_duration"),
}
HEAD = {"model", "created_at", "done"}
CHAT_END = HEAD | {"message", "done_reason"}
GENERATE_END = HEAD | {"response", "done_reason"}
DETAILS = {"parent_model", "format", "family", "families", "parameter_size", "quantization_level"}


class Example(NamedTuple):
    """A request of the page. `pieces`: the fields of each line before the last one; None: it is no stream.

    `fields`: those of the answer, or of the last line.
    """

    path: str
    body: dict[str, Any]
    fields: set[str]
    pieces: set[str] | None = None


GENERATE, CHAT = "/api/generate", "/api/chat"
GENERATE_PIECE, CHAT_PIECE = HEAD | {"response"}, HEAD | {"message"}
WHOLE = {"stream": False}
GENERATED, ANSWERED = GENERATE_END | STATISTICS, CHAT_END | STATISTICS
WITH_CONTEXT = GENERATED | {"context"}

EXAMPLES = {
    "generate, streaming": Example(
        GENERATE, {"model": "llama3.2", "prompt": "Why is the sky blue?"}, WITH_CONTEXT, GENERATE_PIECE
    ),
    "generate, no streaming": Example(GENERATE, {"model": "llama3.2", "prompt": "Why?", **WHOLE}, WITH_CONTEXT),
    "generate, suffix": Example(
        GENERATE,
        {
            "model": "codellama:code",
            "prompt": "def compute_gcd(a, b):",
            "suffix": "    return result",
            "options": {"temperature": 0},
            **WHOLE,
        },
        GENERATED,
    ),
    "generate, structured outputs": Example(
        GENERATE, {"model": "llama3.1:8b", "prompt": "Respond using JSON", **WHOLE, "format": AGE}, WITH_CONTEXT
    ),
    "generate, JSON mode": Example(
        GENERATE, {"model": "llama3.2", "prompt": "Respond using JSON", "format": "json", **WHOLE}, WITH_CONTEXT
    ),
    "generate, images": Example(
        GENERATE, {"model": "llava", "prompt": "What is in this picture?", **WHOLE, "images": [PNG]}, WITH_CONTEXT
    ),
    "generate, raw": Example(
        GENERATE, {"model": "mistral", "prompt": "[INST] why? [/INST]", "raw": True, **WHOLE}, GENERATED
    ),
    "generate, reproducible": Example(
        GENERATE, {"model": "mistral", "prompt": "Why?", "options": {"seed": 123}}, WITH_CONTEXT, GENERATE_PIECE
    ),
    "generate, options": Example(
        GENERATE, {"model": "llama3.2", "prompt": "Why?", **WHOLE, "options": OPTIONS}, WITH_CONTEXT
    ),
    "generate, load": Example(GENERATE, {"model": "llama3.2"}, GENERATE_END),
    "chat, streaming": Example(CHAT, {"model": "llama3.2", "messages": SKY}, ANSWERED, CHAT_PIECE),
    "chat, no streaming": Example(CHAT, {"model": "llama3.2", "messages": SKY, **WHOLE}, ANSWERED),
    "chat, structured outputs": Example(
        CHAT,
        {"model": "llama3.1", "messages": SKY, **WHOLE, "format": AGE, "options": {"temperature": 0}},
        ANSWERED,
    ),
    "chat, history": Example(
        CHAT,
        {
            "model": "llama3.2",
            "messages": [
                *SKY,
                {"role": "assistant", "content": "due to rayleigh scattering."},
                {"role": "user", "content": "how is that different than mie scattering?"},
            ],
        },
        ANSWERED,
        CHAT_PIECE,
    ),
    "chat, images": Example(
        CHAT,
        {"model": "llava", "messages": [{"role": "user", "content": "what is in this image?", "images": [PNG]}]},
        ANSWERED,
        CHAT_PIECE,
    ),
    "chat, reproducible": Example(
        CHAT,
        {"model": "llama3.2", "messages": SKY, "options": {"seed": 101, "temperature": 0}},
        ANSWERED,
        CHAT_PIECE,
    ),
    "chat, tools": Example(CHAT, {"model": "llama3.2", "messages": SKY, **WHOLE, "tools": [WEATHER]}, ANSWERED),
    "chat, tools, streaming": Example(
        CHAT, {"model": "llama3.2", "messages": SKY, "stream": True, "tools": [WEATHER]}, ANSWERED, CHAT_PIECE
    ),
    "chat, history with tools": Example(
        CHAT,
        {
            "model": "llama3.2",
            "messages": [
                {"role": "user", "content": "what is the weather in Toronto?"},
                {
                    "role": "assistant",
                    "content": "",
                    "tool_calls": [{"function": {"name": "get_current_weather", "arguments": {"location": "Toronto"}}}],
                },
                {"role": "tool", "content": "11 degrees celsius", "tool_name": "get_current_weather"},
            ],
            **WHOLE,
            "tools": [WEATHER],
        },
        ANSWERED,
    ),
    "chat, load": Example(CHAT, {"model": "llama3.2", "messages": []}, CHAT_END),
    "show": Example(
        "/api/show",
        {"model": "llava"},
        {"modelfile", "parameters", "template", "details", "model_info", "capabilities", "modified_at"},
    ),
}

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
