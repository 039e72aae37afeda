"""What /v1/models says, and the names that requests may have for a model."""

import json
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from msgspec.structs import replace

from orchard.core.tasks.text_options import TextOptions
from orchard.gateway.model_status import ModelStatus
from orchard.gateway.models.entry import ModelEntry
from orchard.gateway.routes import anthropic, models
from tests.support.serving import Server, serve

FAKE = ModelEntry(
    "org/fake",
    "fake",
    1000,
    "fake",
    aliases=("gpt-4o", "claude-opus-4"),
    capabilities=("tools", "thinking"),
    size_bytes=5,
    repo="org/fake",
    created=1_700_000_000,
)
ADAPTED = ModelEntry("org/fake:poet", "fake", 1000, "fake", base="org/fake", on_demand=True)
PAINTER = ModelEntry("painter", "fake", None, kind="image", on_demand=True)
POET = ModelEntry("base:poet", "fake", 1000, "fake", base="base", on_demand=True)
ANTHROPIC = {"anthropic-version": "2023-06-01"}
SCRIPT = json.dumps({"pieces": 2})
MESSAGES = [{"role": "user", "content": SCRIPT}]
# The dialects by their paths, each with the rest of a body.
DIALECTS: dict[str, dict[str, Any]] = {
    "/v1/chat/completions": {"messages": MESSAGES},
    "/v1/completions": {"prompt": SCRIPT},
    "/v1/responses": {"input": SCRIPT},
    "/openai/deployments/{model}/chat/completions": {"messages": MESSAGES},
    "/v1/messages": {"messages": MESSAGES, "max_tokens": 100},
}


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """A server that knows all names: a fallback answers for those that are not here."""
    with serve([FAKE, ADAPTED, PAINTER], fallback_model="gpt-4o", max_loaded_models=2) as running:
        running.until("org/fake", state="ready")
        yield running


@pytest.fixture(scope="module")
def strict() -> Iterator[Server]:
    with serve([FAKE, ADAPTED, PAINTER]) as running:
        yield running


def ask(server: Server, path: str, model: str, **fields: Any) -> httpx.Response:
    body = {"model": model, **DIALECTS[path], **fields}
    return httpx.post(server.url + path.format(model=model), json=body, timeout=30)


def told_models(response: httpx.Response) -> set[str]:
    """Every name of a model in an answer, streamed or not."""
    lines = response.text.splitlines()
    parts = [line[6:] for line in lines if line.startswith("data: {")] or [response.text]
    return {name for part in parts for name in _names(json.loads(part))}


def _names(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        if isinstance(value.get("model"), str):
            yield value["model"]
        for inner in value.values():
            yield from _names(inner)


def get(server: Server, path: str, **headers: str) -> Any:
    return httpx.get(server.url + path, headers=headers).json()


@pytest.mark.parametrize("path", ["/v1/models", "/models", "/openai/models", "/openai/v1/models"])
def test_the_list_says_what_is_known(server: Server, path: str) -> None:
    first, *aliases, second, third = get(server, path)["data"]
    assert first == {
        "id": "org/fake",
        "object": "model",
        "created": 1_700_000_000,
        "owned_by": "org",
        "root": "org/fake",
        "base": None,
        "aliases": ["gpt-4o", "claude-opus-4"],
        "kind": "fake",
        "type": "llm",
        "architecture": {"input_modalities": ["text"], "output_modalities": ["text"]},
        "context_window": 1000,
        "context_length": 1000,
        "max_model_len": 1000,
        "size_bytes": 5,
        "capabilities": ["tools", "thinking"],
        "loaded": True,
        "state": "ready",
        "reason": None,
        "pinned": False,
        "unload_at": None,
        "warming_up": False,
        "batching": "together",
        "media": [],
    }
    assert aliases == [first | {"id": name} for name in ("gpt-4o", "claude-opus-4")]
    assert (second["id"], second["base"], second["owned_by"]) == ("org/fake:poet", "org/fake", "orchard")
    assert (third["id"], third["kind"], third["loaded"], third["state"]) == ("painter", "image", False, "unloaded")


@pytest.mark.parametrize(
    ("kind", "type", "outputs"),
    [
        ("text", "llm", "text"),
        ("vision", "vlm", "text"),
        ("embeddings", "embeddings", "embeddings"),
        ("rerank", "rerank", "rerank"),
        ("transcription", "transcription", "transcription"),
        ("speech", "speech", "speech"),
        ("turn_detection", "turn_detection", "turn_detection"),
        ("image", "image", "image"),
    ],
)
def test_pickers_see_what_a_kind_gives(kind: str, type: str, outputs: str) -> None:
    pool: Any = SimpleNamespace(models={})
    told = models.describe_model(pool, ModelEntry("m", "", None, kind), "m")
    assert (told["type"], told["architecture"]["output_modalities"]) == (type, [outputs])


@pytest.mark.parametrize(("media", "sees"), [(None, True), ([], False), (["image"], True)])
def test_a_loaded_model_can_do_what_it_says(media: list[str] | None, sees: bool) -> None:
    """Whatever its files promise."""
    entry = ModelEntry("m", "fake", 1, capabilities=("vision", "tools"))
    status = ModelStatus(state="ready", details={} if media is None else {"media": media})
    pool: Any = SimpleNamespace(models={"m": SimpleNamespace(status=status)})
    told = models.describe_model(pool, entry, "m")
    assert told["capabilities"] == (["vision", "tools"] if sees else ["tools"])
    assert told["media"] == status.health_report()["media"] == media
    site: Any = SimpleNamespace(pool=pool)
    assert anthropic._describe_model(site, entry, "m")["capabilities"]["image_input"] == {"supported": sees}


def test_one_model_by_each_of_its_names(server: Server) -> None:
    for name in ("org/fake", "org%2Ffake", "gpt-4o", "unheard-of"):
        model = get(server, f"/v1/models/{name}")
        assert (model["id"], model["root"]) == (name.replace("%2F", "/"), "org/fake")
        # Anthropic's resolves a name to the id.
        assert get(server, f"/v1/models/{name}", **ANTHROPIC)["id"] == "org/fake"
    assert get(server, "/v1/models/painter")["kind"] == "image"


def test_anthropics_list(server: Server) -> None:
    first, *others = get(server, "/v1/models", **ANTHROPIC)["data"]
    assert [one["id"] for one in others] == ["gpt-4o", "claude-opus-4", "org/fake:poet"]
    assert (first["created_at"], first["max_input_tokens"]) == ("2023-11-14T22:13:20Z", 1000)
    assert first["capabilities"]["thinking"]["supported"] is True
    assert first["capabilities"]["image_input"]["supported"] is False


def test_a_model_that_failed_says_why() -> None:
    broken = ModelEntry("broken", "broken", None, "fake")
    with serve([broken]) as server:
        server.until("broken", state="failed", timeout=60)
        (model,) = get(server, "/v1/models")["data"]
        assert (model["loaded"], model["state"]) == (False, "failed")
        assert model["reason"] == "the script says that this model cannot be loaded"


@pytest.mark.parametrize("path", DIALECTS)
@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("model", ["gpt-4o", "claude-3-5-sonnet-latest", "org/fake"])
def test_answers_have_the_name_that_was_asked_for(server: Server, path: str, stream: bool, model: str) -> None:
    response = ask(server, path, model, stream=stream)
    assert response.status_code == 200
    assert told_models(response) == {model}


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/completions", "/v1/responses", "/v1/messages"])
@pytest.mark.parametrize("stream", [False, True])
def test_the_only_model_need_not_be_named(strict: Server, path: str, stream: bool) -> None:
    response = httpx.post(strict.url + path, json={**DIALECTS[path], "stream": stream}, timeout=30)
    assert response.status_code == 200
    assert told_models(response) == {"org/fake"}


def test_counting_needs_no_model_either(strict: Server) -> None:
    for path in ("/v1/messages/count_tokens", "/v1/responses/input_tokens"):
        body = {"messages": MESSAGES, "input": SCRIPT}
        assert httpx.post(strict.url + path, json=body, timeout=30).json()["input_tokens"] > 0


@pytest.mark.parametrize("path", DIALECTS)
@pytest.mark.parametrize("model", ["openai/gpt-4o", "GPT-4o:latest", "Org/Fake"])
def test_other_spellings_find_the_model(strict: Server, path: str, model: str) -> None:
    assert told_models(ask(strict, path, model)) == {model}


@pytest.mark.parametrize("path", DIALECTS)
def test_unknown_names_are_told_the_closest(strict: Server, path: str) -> None:
    response = ask(strict, path, "gpt-4")
    assert response.status_code == 404
    assert "'gpt-4o'" in response.json()["error"]["message"]


@pytest.mark.parametrize("path", DIALECTS)
def test_other_kinds_are_refused(strict: Server, path: str) -> None:
    response = ask(strict, path, "painter")
    assert response.status_code == 400
    assert "'painter' gives images and edited images and no " in response.json()["error"]["message"]


@pytest.mark.parametrize("path", DIALECTS)
def test_an_adapter_is_another_model(server: Server, path: str) -> None:
    response = ask(server, path, "gpt-4o", adapters="poet", ttl=3600)
    assert response.status_code == 200
    assert told_models(response) == {"gpt-4o"}
    server.until("org/fake:poet", state="ready")
    for field in ("adapters", "adapter_path"):
        unknown = ask(server, path, "gpt-4o", **{field: "painter"})
        assert unknown.status_code == 400
        assert "it has 'poet'" in unknown.json()["error"]["message"]
    assert told_models(ask(server, path, "gpt-4o", adapter_path="poet")) == {"gpt-4o"}


@pytest.mark.parametrize("path", DIALECTS)
@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"adapters": ""}, "`adapters` must be a non-empty string"),
        ({"adapters": ["poet"]}, "`adapters` must be a non-empty string"),
        ({"ttl": 0}, "`ttl` must be a number above 0 and at most"),
        ({"ttl": "1h"}, "`ttl` must be a number above 0 and at most"),
    ],
)
def test_wrong_fields_are_named(server: Server, path: str, fields: dict[str, Any], words: str) -> None:
    response = ask(server, path, "gpt-4o", **fields)
    assert response.status_code == 400
    assert words in response.json()["error"]["message"]


@pytest.mark.parametrize("keys", [(), ("secret",)])
def test_health_and_unload_name_the_model_and_its_adapter(keys: tuple[str, ...]) -> None:
    """By its path, as mlx_vlm.server does; only by its name if the server needs keys."""
    bare = ModelEntry("base", "fake", 1000, "fake", on_demand=True)
    poet = replace(POET, options=TextOptions(adapter_path="/weights/lora-p"))
    plain = replace(bare, id="plain", options=TextOptions(adapter_path="/weights/lora-a"))
    headers = {"authorization": "Bearer secret"} if keys else {}
    with (
        serve([bare, poet, plain], admin_keys=keys) as server,
        httpx.Client(base_url=server.url, headers=headers, timeout=30) as client,
    ):
        health = client.get("/health").json()
        assert (health["status"], health["loaded_model"], health["loaded_adapter"]) == ("healthy", None, None)
        for id_, model, name, path in (
            ("base", "base", None, None),
            ("base:poet", "base", "poet", "/weights/lora-p"),
            ("plain", "plain", "lora-a", "/weights/lora-a"),
        ):
            adapter = name if keys else path
            assert client.post("/v1/chat/completions", json={"model": id_, "messages": MESSAGES}).status_code == 200
            health = client.get("/health").json()
            assert (health["loaded_model"], health["loaded_adapter"]) == (model, adapter)
            unloaded = client.post(f"/v1/models/{id_}/unload").json()["unloaded"]
            assert unloaded == {"model_name": model, "adapter_name": adapter, "models": [id_]}


def test_ready_waits_for_what_is_loaded_with_the_server() -> None:
    slow = ModelEntry("slow", '{"seconds": 0.5}', 1000, "fake")
    with serve([slow, PAINTER, POET]) as server:
        waiting = httpx.get(f"{server.url}/ready")
        assert (waiting.status_code, waiting.json()) == (503, {"status": "not_ready"})
        server.until("slow", state="ready")
        ready = httpx.get(f"{server.url}/ready")
        assert (ready.status_code, ready.json()) == (200, {"status": "ready"})
        httpx.post(f"{server.url}/unload")
        assert httpx.get(f"{server.url}/ready").status_code == 503


def test_a_ttl_unloads_the_model(server: Server) -> None:
    assert ask(server, "/v1/chat/completions", "org/fake:poet", ttl=0.01).status_code == 200
    server.until("org/fake:poet", state="unloaded")


def test_the_fallback_is_not_loaded_or_unloaded_for_another(server: Server) -> None:
    for what in ("load", "unload"):
        answer = httpx.post(f"{server.url}/v1/models/nobody/{what}", timeout=10)
        assert (answer.status_code, answer.json()["error"]["code"]) == (404, "model_not_found")
