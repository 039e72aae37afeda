"""Keys are users: what was made with one is not found with another, and an admin key finds everything."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from orchard.core.request import Request, Sender
from orchard.core.tasks.generate import Generate
from orchard.gateway.caller import ANYONE, STRANGER, Callers
from tests.support.serving import Server, serve

ANN, BEN, ROOT = "ann-key", "ben-key", "root-key"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("store")


@pytest.fixture(scope="module")
def locked(folder: Path) -> Iterator[Server]:
    path = str(folder / "responses.db")
    with serve(api_keys=(ANN, BEN), admin_keys=(ROOT,), responses_path=path) as server:
        yield server


def ask(server: Server, key: str | None, method: str, path: str, **body: Any) -> httpx.Response:
    headers = {"authorization": f"Bearer {key}"} if key else {}
    return httpx.request(method, f"{server.url}{path}", json=body or None, headers=headers, timeout=30)


def made(server: Server, key: str, path: str, **body: Any) -> Any:
    response = ask(server, key, "POST", path, **body)
    assert response.status_code == 200, response.text
    return response.json()


def test_responses_and_conversations_belong_to_a_key(locked: Server) -> None:
    response = made(locked, ANN, "/v1/responses", model="fake", input="Hi")
    conversation = made(locked, ANN, "/v1/conversations", items=[{"role": "user", "content": "Hi"}])
    (item,) = ask(locked, ANN, "GET", f"/v1/conversations/{conversation['id']}/items").json()["data"]
    one, other = f"/v1/responses/{response['id']}", f"/v1/conversations/{conversation['id']}"
    asked = [
        ("GET", one, {}),
        ("GET", f"{one}/input_items", {}),
        ("POST", f"{one}/cancel", {}),
        ("POST", "/v1/responses", {"model": "fake", "input": "on", "previous_response_id": response["id"]}),
        ("POST", "/v1/responses", {"model": "fake", "input": "on", "conversation": conversation["id"]}),
        ("POST", "/v1/responses/compact", {"model": "fake", "previous_response_id": response["id"]}),
        ("POST", "/v1/responses/input_tokens", {"model": "fake", "previous_response_id": response["id"]}),
        ("POST", "/v1/responses", {"model": "fake", "input": [reference(response["output"][0]["id"])]}),
        ("GET", other, {}),
        ("POST", other, {"metadata": {"a": "b"}}),
        ("GET", f"{other}/items", {}),
        ("GET", f"{other}/responses", {}),
        ("POST", f"{other}/items", {"items": [{"role": "user", "content": "on"}]}),
        ("GET", f"{other}/items/{item['id']}", {}),
        ("DELETE", f"{other}/items/{item['id']}", {}),
        ("DELETE", other, {}),
        ("DELETE", one, {}),
    ]
    for method, path, body in asked:
        refused = ask(locked, BEN, method, path, **body)
        assert (refused.status_code, refused.json()["error"]["code"][-10:]) == (404, "_not_found"), path
    for key in (ANN, ROOT):
        assert ask(locked, key, "GET", one).json() == response
        assert ask(locked, key, "GET", other).json() == conversation
    refused = ask(locked, ROOT, "POST", "/v1/responses", model="fake", input=[reference(response["output"][0]["id"])])
    assert refused.status_code == 404  # not even an admin's request takes up what somebody else was told
    assert ask(locked, ROOT, "DELETE", one).json()["deleted"]


def test_everybody_lists_and_searches_their_own_conversations(locked: Server) -> None:
    owners = {}
    for key, name in ((ANN, "Ann"), (BEN, "Ben")):
        items = [{"role": "user", "content": f"the plan of {name}"}]
        conversation = made(locked, key, "/v1/conversations", items=items, metadata={"title": f"Plan of {name}"})
        owners[key] = conversation["id"]
    for query in ("plan", "PLAN OF", "the plan"):
        for key in (ANN, BEN):
            found = ask(locked, key, "GET", f"/v1/conversations?query={query}").json()
            assert [one["id"] for one in found["data"]] == [owners[key]]
        found = ask(locked, ROOT, "GET", f"/v1/conversations?query={query}&limit=1").json()
        assert ([one["id"] for one in found["data"]], found["has_more"]) == ([owners[BEN]], True)
    assert found["last_id"] == found["first_id"] == owners[BEN]
    after = ask(locked, ROOT, "GET", f"/v1/conversations?query=plan&after={owners[BEN]}").json()
    assert [one["id"] for one in after["data"]] == [owners[ANN]]
    assert after["data"][0]["metadata"] == {"title": "Plan of Ann"}
    assert ask(locked, BEN, "GET", f"/v1/conversations?after={owners[ANN]}").status_code == 404


def test_a_pinned_conversation_has_branches(locked: Server) -> None:
    conversation = made(locked, ANN, "/v1/conversations", pinned=True)
    assert conversation["pinned"]
    first = made(locked, ANN, "/v1/responses", model="fake", input="one", conversation=conversation["id"])
    for text in ("left", "right"):
        made(locked, ANN, "/v1/responses", model="fake", input=text, previous_response_id=first["id"])
    one = f"/v1/conversations/{conversation['id']}"
    told = ask(locked, ANN, "GET", f"{one}/responses?order=asc").json()
    tree = [(each["previous_response_id"], each["input"][0]["content"][0]["text"]) for each in told["data"]]
    assert tree == [(None, "one"), (first["id"], "left"), (first["id"], "right")]
    assert all(each["output"] for each in told["data"])
    assert made(locked, ANN, one, metadata={"title": "x"})["pinned"]
    assert not made(locked, ANN, one, metadata={"title": "x"}, pinned=False)["pinned"]


def reference(id_: str) -> dict[str, str]:
    return {"type": "item_reference", "id": id_}


def test_chat_completions_belong_to_a_key(locked: Server) -> None:
    asked = {"model": "fake", "store": True, "messages": [{"role": "user", "content": "Hi"}]}
    completion = made(locked, ANN, "/v1/chat/completions", **asked)
    one = f"/v1/chat/completions/{completion['id']}"
    for method, path, body in (
        ("GET", one, {}),
        ("POST", one, {"metadata": {"a": "b"}}),
        ("GET", f"{one}/messages", {}),
        ("DELETE", one, {}),
    ):
        refused = ask(locked, BEN, method, path, **body)
        assert (refused.status_code, refused.json()["error"]["code"]) == (404, "completion_not_found")
    assert ask(locked, BEN, "GET", "/v1/chat/completions").json()["data"] == []
    for key in (ANN, ROOT):
        assert ask(locked, key, "GET", one).json()["choices"] == completion["choices"]
        assert [found["id"] for found in ask(locked, key, "GET", "/v1/chat/completions").json()["data"]] == [
            completion["id"]
        ]


def test_a_run_in_the_background_belongs_to_a_key(locked: Server) -> None:
    script = json.dumps({"pieces": 1000, "interval": 0.02})
    run = made(locked, ANN, "/v1/responses", model="fake", input=script, background=True)
    one = f"/v1/responses/{run['id']}"
    for method, path in (("GET", one), ("GET", f"{one}?stream=true"), ("POST", f"{one}/cancel"), ("DELETE", one)):
        assert ask(locked, BEN, method, path).status_code == 404
    assert ask(locked, ANN, "GET", one).json()["status"] in ("queued", "in_progress")
    assert ask(locked, ROOT, "POST", f"{one}/cancel").json()["status"] == "cancelled"


def test_the_text_of_prompts_is_shown_to_who_sent_them(locked: Server) -> None:
    asked = {}
    for key in (ANN, BEN):
        body = {"model": "fake", "messages": [{"role": "user", "content": f"the secret of {key}"}]}
        asked[key] = ask(locked, key, "POST", "/v1/chat/completions", **body).headers["x-request-id"]
    for key, other in ((ANN, BEN), (BEN, ANN)):
        found = ask(locked, key, "GET", "/v1/cache")
        assert f"the secret of {key}" in found.text
        assert f"the secret of {other}" not in found.text
        (reports,) = (model["reports"] for model in found.json()["models"])
        assert reports[-1]["summary"] == "0 of 1 tokens were cached"
        assert ask(locked, key, "GET", f"/v1/cache?request_id={asked[key]}").status_code == 200
        assert ask(locked, key, "GET", f"/v1/cache?request_id={asked[other]}").status_code == 404
    for secret in (ANN, BEN):
        assert f"the secret of {secret}" in ask(locked, ROOT, "GET", "/v1/cache").text


def test_no_key_is_stored(locked: Server, folder: Path) -> None:
    made(locked, ANN, "/v1/responses", model="fake", input="Hello")
    written = b"".join(file.read_bytes() for file in folder.iterdir())
    assert b"Hello" in written
    assert not any(key.encode() in written for key in (ANN, BEN, ROOT))


def test_health_without_a_key_is_the_status_alone(locked: Server, server: Server) -> None:
    for key in (None, "wrong"):
        assert ask(locked, key, "GET", "/health").json() == {"status": "healthy"}
    for key in (ANN, ROOT):
        health = ask(locked, key, "GET", "/health").json()
        assert health["models"]["fake"]
        assert health["responses"] == "file"
    assert ask(server, None, "GET", "/health").json()["responses"] == "memory"


def signed(callers: Callers, key: bytes, salt: str | None = None, client: tuple[str, int] = ("::1", 7)) -> Request:
    return (
        callers.identify([key])
        .with_address(client)
        .sign(Request("req_1", "fake", Generate(prompt="Hi"), cache_salt=salt))
    )


def test_a_request_is_signed_with_its_sender_and_its_scope() -> None:
    keys = Callers(("a", "b", "c"), ("root",))
    scopes = {signed(keys, key, salt).cache_scope for key in (b"a", b"b", b"root") for salt in (None, "", "x", "y")}
    assert len(scopes) == 12
    assert "" not in scopes
    said = Generate(prompt="Hi").conversation
    assert signed(keys, b"a").sender == Sender(keys.identify([b"a"]).user or "", "::1:7", said)
    assert {signed(Callers(("a", "b"), (), "all"), key).cache_scope for key in (b"a", b"b")} == {""}
    groups = Callers(("a", "b", "c"), ("root",), {"ours": ("a", "b")})
    ann, ben, cem, root = (signed(groups, key).cache_scope for key in (b"a", b"b", b"c", b"root"))
    assert ann == ben
    assert len({ann, cem, root, ""}) == 4
    assert signed(Callers(), b"") == Request(
        "req_1", "fake", Generate(prompt="Hi"), sender=Sender("::1", "::1:7", said), cache_scope=""
    )
    assert signed(Callers(), b"", "x").cache_scope


def test_who_made_a_request_is_forgotten_after_many_others() -> None:
    callers = Callers(("a",), ("root",))
    (ann, root) = callers.identify([b"none", b"a"]), callers.identify([b"root"])
    assert (ann.admin, root.admin, callers.identify([b"b"])) == (False, True, STRANGER)
    callers.remember("req_1", ann)
    assert callers.can_see_request(ann, "req_1-2")
    assert not callers.can_see_request(ann, "req_2")
    assert callers.can_see_request(root, "req_2")
    for number in range(10_000):
        callers.remember(f"req_x{number}", root)
    assert not callers.can_see_request(ann, "req_1")
    assert Callers().can_see_request(ANYONE, "req_1")
