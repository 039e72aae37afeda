"""Ollama's routes, over a model that plays scripts."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from msgspec.structs import replace

from tests.support.hub import SIZE, run_hub
from tests.support.model_folders import make_model, some_weights
from tests.support.serving import FAKE, Server, serve, unused_port

KEY, ADMIN = "user-key", "admin-key"
OTHER = replace(FAKE, id="other", on_demand=True, capabilities=("tools", "thinking"), created=1_700_000_000)


@pytest.fixture(scope="module")
def locked() -> Iterator[Server]:
    with serve([FAKE, OTHER], api_keys=(KEY,), admin_keys=(ADMIN,), max_loaded_models=2) as server:
        server.until(state="ready")
        yield server


def ask(server: Server, path: str = "/api/chat", key: str = "", **fields: Any) -> httpx.Response:
    given = {"model": "fake", "stream": False, **fields}
    return httpx.post(server.url + path, json=given, headers={"x-api-key": key}, timeout=30)


def chat(
    server: Server, key: str = "", model: str = "fake", script: dict[str, Any] | None = None, **fields: Any
) -> Any:
    messages = [{"role": "user", "content": json.dumps(script or {})}]
    return ask(server, "/api/chat", key, model=model, messages=messages, **fields)


def lines(response: httpx.Response) -> list[Any]:
    assert response.status_code == 200, response.text
    assert response.headers["content-type"] == "application/x-ndjson"
    return [json.loads(line) for line in response.text.splitlines()]


def test_whole_answers(server: Server) -> None:
    answer = chat(server, script={"pieces": 3, "text": "ab"}).json()
    assert answer["message"] == {"role": "assistant", "content": "ababab"}
    assert (answer["model"], answer["done"], answer["eval_count"]) == ("fake", True, 3)
    answer = ask(server, "/api/generate", prompt="{}", raw=True).json()
    assert (answer["response"], answer["done_reason"]) == ("x", "stop")


@pytest.mark.parametrize("stream", [True, None])
def test_streams_are_lines(server: Server, stream: bool | None) -> None:
    *pieces, last = lines(chat(server, script={"pieces": 3, "text": "ab"}, stream=stream))
    assert "".join(piece["message"]["content"] for piece in pieces) == "ababab"
    assert last["done"]
    *pieces, last = lines(ask(server, "/api/generate", prompt=json.dumps({"pieces": 2}), stream=stream))
    assert "".join(piece["response"] for piece in pieces) == "xx"
    assert last["done"]


def test_curl_needs_no_content_type_but_pages_do(server: Server) -> None:
    url, body = f"{server.url}/api/show", json.dumps({"model": "fake"})
    form = {"content-type": "application/x-www-form-urlencoded"}
    assert httpx.post(url, content=body, headers=form).status_code == 200
    own = {"origin": server.url}
    assert httpx.post(url, content=body, headers=form | own).status_code == 400
    assert httpx.post(url, content=body, headers=form | {"sec-fetch-site": "same-origin"}).status_code == 400


def test_silence_adds_only_spaces() -> None:
    with serve(keep_alive_interval=0.05) as server:
        response = chat(server, script={"delay": 0.3, "pieces": 2, "interval": 0.2}, stream=True)
        assert response.text.startswith(" ")
        assert lines(response)[-1]["done"]


def test_errors(server: Server) -> None:
    unknown = chat(server, model="gpt")
    assert unknown.status_code == 404
    assert "'gpt'" in unknown.json()["error"]
    refused = chat(server, script={"refuse": "overloaded"}, stream=True)
    assert (refused.status_code, list(refused.json())) == (429, ["error"])
    assert lines(chat(server, script={"fail": "internal"}, stream=True))[-1] == {
        "error": "the script fails this request"
    }
    nowhere = httpx.get(f"{server.url}/api/nothing")
    assert (nowhere.status_code, list(nowhere.json())) == (404, ["error"])


def test_thinking_is_refused_where_the_model_does_not_think(locked: Server) -> None:
    refused = chat(locked, KEY, think=True)
    assert (refused.status_code, refused.json()) == (400, {"error": "`think`: model 'fake' does not think."})
    assert chat(locked, KEY, think=False).status_code == 200
    assert chat(locked, KEY, model="other", think="low").status_code == 200


@pytest.mark.parametrize(
    ("method", "path", "status", "words"),
    [
        ("POST", "/api/create", 400, "not made here"),
        ("POST", "/api/copy", 400, "aliases"),
        ("POST", "/api/push", 400, "not uploaded"),
        ("POST", "/api/blobs/sha256:1", 400, "not taken here"),
        ("HEAD", "/api/blobs/sha256:1", 404, ""),
        ("POST", "/api/pull", 403, "--allow-download"),
        ("DELETE", "/api/delete", 403, "--allow-delete"),
    ],
)
def test_what_is_not_served(server: Server, method: str, path: str, status: int, words: str) -> None:
    refused = httpx.request(method, server.url + path, json={"model": "fake"})
    assert refused.status_code == status
    assert words in refused.text


def test_lists(locked: Server) -> None:
    with httpx.Client(base_url=locked.url, headers={"x-api-key": KEY}) as client:
        assert client.get("/api/version").json()["version"].count(".") == 2
        assert client.head("/api/version").status_code == client.head("/api/tags").status_code == 200
        names = {model["name"]: model for model in client.get("/api/tags").json()["models"]}
        assert list(names) == ["fake", "other"]
        assert names["other"]["capabilities"] == ["completion", "tools", "thinking"]
        assert names["other"]["modified_at"] == "2023-11-14T22:13:20.000000Z"
        running = {model["name"]: model for model in client.get("/api/ps").json()["models"]}
        assert running["fake"]["expires_at"].startswith("9999")
        assert (running["fake"]["context_length"], running["fake"]["size_vram"]) == (1000, 0)
        shown = client.post("/api/show", json={"name": "other"}).json()
        assert shown["model_info"]["general.architecture"] == "unknown"
        assert client.post("/api/show", json={"model": "gpt"}).status_code == 404
        assert client.post("/api/show", json={}).json() == {"error": "`model` is required."}


def test_loading_and_unloading() -> None:
    with serve([FAKE, OTHER], max_loaded_models=2) as server:
        server.until(state="ready")
        loaded = ask(server, "/api/generate", model="other", keep_alive="1h").json()
        assert (loaded["done_reason"], loaded["response"]) == ("load", "")
        (running,) = [one for one in httpx.get(f"{server.url}/api/ps").json()["models"] if one["name"] == "other"]
        assert not running["expires_at"].startswith("9999")
        unloaded = ask(server, model="other", messages=[], keep_alive=0).json()
        assert (unloaded["done_reason"], unloaded["message"]["content"]) == ("unload", "")
        assert server.health("other")["state"] == "unloaded"
        assert chat(server, model="other", keep_alive=0).status_code == 200
        server.until("other", state="unloaded")


def test_a_pinned_model_stays() -> None:
    with serve([replace(FAKE, pinned=True)]) as server:
        server.until(state="ready")
        answer = chat(server, keep_alive=0)
        assert "keep_alive has no effect: the model is pinned" in answer.headers["warning"]
        refused = ask(server, "/api/generate", keep_alive=0)
        assert (refused.status_code, "is pinned" in refused.json()["error"]) == (409, True)
        assert server.health()["state"] == "ready"
        assert server.health()["unload_at"] is None


def test_what_takes_an_admin_key(locked: Server) -> None:
    for path, fields in (("/api/generate", {}), ("/api/generate", {"keep_alive": 0}), ("/api/pull", {})):
        refused = ask(locked, path, KEY, model="other", **fields)
        assert (refused.status_code, "admin key" in refused.json()["error"]) == (403, True)
    assert httpx.request("DELETE", f"{locked.url}/api/delete", headers={"x-api-key": KEY}).status_code == 403
    ignored = chat(locked, KEY, keep_alive=0)
    assert (ignored.status_code, ignored.headers["warning"]) == (
        200,
        '199 orchard "keep_alive has no effect: it takes an admin key"',
    )
    kept = chat(locked, ADMIN, keep_alive="1h")
    assert "warning" not in kept.headers
    assert locked.health()["unload_at"] is not None
    assert ask(locked, "/api/generate", ADMIN).json()["done_reason"] == "load"


def test_the_second_port_says_what_ollama_says() -> None:
    port = unused_port()
    with serve(also_port=port) as server:
        second = f"http://127.0.0.1:{port}"
        page = httpx.get(second, headers={"accept": "text/html"})
        assert (page.text, page.headers["content-type"]) == ("Ollama is running", "text/plain; charset=utf-8")
        assert httpx.head(second).status_code == 200
        assert httpx.get(server.url).json()["name"] == "Orchard"
        assert httpx.get(f"{second}/api/tags").json() == httpx.get(f"{server.url}/api/tags").json()
        assert httpx.get(second, headers={"host": "evil.example"}).status_code == 403


def test_pulling_and_deleting(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    folder, cache = tmp_path_factory.mktemp("tiny"), tmp_path / "hub"
    with run_hub() as hub:
        hub.repos["org/tiny"] = make_model(folder, shards=2)
        (folder / "model-00002-of-00002.safetensors").write_bytes(some_weights(SIZE))
        env = {**hub.env, "HF_HOME": str(tmp_path), "HF_HUB_CACHE": str(cache)}
        with serve([], env=env, allow_download=True, allow_delete=True) as server:
            first, *_, last = lines(ask(server, "/api/pull", model="hf.co/org/tiny", stream=True))
            assert (first, last) == ({"status": "pulling manifest"}, {"status": "success"})
            assert ask(server, "/api/pull", model="org/tiny").json() == {"status": "success"}
            failed = lines(ask(server, "/api/pull", model="org/nothing", stream=True))[-1]
            assert "there is no model 'org/nothing'" in failed["error"]
            names = [model["name"] for model in httpx.get(f"{server.url}/api/tags").json()["models"]]
            assert "org/tiny" in names
            delete = httpx.request("DELETE", f"{server.url}/api/delete", json={"model": "org/tiny"}, timeout=30)
            assert (delete.status_code, delete.content) == (200, b"")
            assert not (cache / "models--org--tiny").exists()
            again = httpx.request("DELETE", f"{server.url}/api/delete", json={"model": "org/tiny"}, timeout=30)
            assert (again.status_code, again.json()) == (404, {"error": "model 'org/tiny' is not on this machine"})
            refused = httpx.request("DELETE", f"{server.url}/api/delete", json={"model": "demo"})
            assert (refused.status_code, "can't be deleted" in refused.json()["error"]) == (403, True)


def test_deleting_an_imported_model(tmp_path: Path) -> None:
    imported, others = tmp_path / "imported", tmp_path / "others"
    for folder in (imported / "tiny:1b", imported / "org" / "one", imported / "both", others / "both"):
        folder.mkdir(parents=True)
        make_model(folder)
    env = {"ORCHARD_CACHE_DIR": str(tmp_path), "HF_HUB_CACHE": str(tmp_path / "hub")}
    with serve([], env=env, allow_delete=True, model_dir=str(others)) as server:

        def delete(name: str) -> httpx.Response:
            return httpx.request("DELETE", f"{server.url}/api/delete", json={"model": name}, timeout=30)

        assert delete("tiny:1b").status_code == 200
        assert delete("tiny:1b").status_code == 404
        assert delete("org").status_code == 404
        assert delete("org/one").status_code == 200
        assert delete("both").status_code == 403  # that of --model-dir has the name
        assert "both" in [model["name"] for model in httpx.get(f"{server.url}/api/tags").json()["models"]]
    assert [folder.name for folder in imported.iterdir()] == ["both"]
