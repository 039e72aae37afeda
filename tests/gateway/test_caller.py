"""Who may decide which models are in memory: everybody if no keys are set, else admin keys, or all by a setting."""

from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from websockets.sync.client import connect

from tests.gateway.routes.test_models import DIALECTS
from tests.support.serving import Server, serve

KEY, ROOT = "the-key", "the-admin-key"
LOADING = ["/unload", "/v1/models/fake/unload", "/v1/models/fake/load"]
WITH_TTL = {
    **DIALECTS,
    "/v1/messages/count_tokens": DIALECTS["/v1/messages"],
    "/v1/responses/input_tokens": DIALECTS["/v1/responses"],
    "/v1/embeddings": {"input": "Hi"},
    "/v1/rerank": {"query": "Hi", "documents": ["Hi"]},
    "/v1/audio/speech": {"input": "Hi", "voice": "any"},
    "/v1/images/generations": {"prompt": "Hi"},
}


@pytest.fixture(scope="module")
def locked() -> Iterator[Server]:
    with serve(api_keys=(KEY,), admin_keys=(ROOT,)) as running:
        yield running


def post(server: Server, key: str, path: str, **body: Any) -> httpx.Response:
    return httpx.post(server.url + path, json=body or None, headers={"x-api-key": key}, timeout=30)


def test_only_an_admin_key_loads_and_unloads(locked: Server) -> None:
    before = locked.until(state="ready")["pid"]
    for path in [*LOADING, "/v1/models/nobody/load", "/v1/models/fake/pin", "/v1/models/fake/unpin"]:
        refused = post(locked, KEY, path)
        assert (refused.status_code, refused.json()["error"]["code"]) == (403, "forbidden")
        told = refused.json()["error"]["message"]
        assert "--admin-key" in told
        assert "--keys-may-manage-models" in told
    assert locked.health()["pid"] == before
    for path in LOADING:
        assert post(locked, ROOT, path).json()["status"] in ("success", "no_model_loaded")
    assert post(locked, ROOT, "/unload").json()["status"] == "success"
    for path, pinned in (("pin", True), ("unpin", False)):
        assert post(locked, ROOT, f"/v1/models/fake/{path}").json()["pinned"] is pinned
        assert locked.health()["pinned"] is pinned
    # A request for a model still loads it.
    assert post(locked, KEY, "/v1/chat/completions", model="fake", **DIALECTS["/v1/chat/completions"]).is_success


@pytest.mark.parametrize("path", WITH_TTL)
def test_only_an_admin_key_says_how_long_a_model_stays(locked: Server, path: str) -> None:
    body = {"model": "fake", **WITH_TTL[path], "ttl": 3600}
    refused = post(locked, KEY, path.format(model="fake"), **body)
    assert refused.status_code == 403, refused.text
    assert refused.json()["error"]["message"].startswith("`ttl`, which says how long the model stays in memory,")
    assert refused.json()["error"].get("param", "ttl") == "ttl"  # Anthropic's errors have none
    assert post(locked, ROOT, path.format(model="fake"), **body).status_code != 403


def test_nor_does_a_form_or_a_socket(locked: Server) -> None:
    headers = {"x-api-key": KEY}
    for path, name in (("/v1/audio/transcriptions", "file"), ("/v1/images/edits", "image")):
        form = {"model": "fake", "prompt": "Hi", "ttl": "60"}
        refused = httpx.post(locked.url + path, data=form, files={name: b"data"}, headers=headers, timeout=30)
        assert refused.status_code == 403, refused.text
    with connect(f"ws://127.0.0.1:{locked.port}/v1/responses", additional_headers=headers, proxy=None) as socket:
        socket.send('{"type": "response.create", "model": "fake", "input": "Hi", "ttl": 60}')
        assert '"forbidden"' in str(socket.recv(timeout=30))


@pytest.mark.parametrize(
    "settings", [{}, {"api_keys": (KEY,), "keys_may_manage_models": True}], ids=["no keys", "all keys may"]
)
def test_where_everybody_may(settings: dict[str, Any]) -> None:
    with serve(**settings) as server:
        server.until(state="ready")
        chat = {"model": "fake", **DIALECTS["/v1/chat/completions"], "ttl": 3600}
        assert post(server, KEY, "/v1/chat/completions", **chat).is_success
        for path in reversed(LOADING):
            assert post(server, KEY, path).json()["status"] in ("success", "no_model_loaded")
        assert server.health()["state"] == "unloaded"
