"""Responses over HTTP, by a model that plays scripts."""

import asyncio
import json
import os
import signal
import time
from pathlib import Path
from typing import Any

import httpx
import pytest
from openai import OpenAI
from openai.types.responses import Response

from tests.support.serving import Server, serve


def body(stream: bool = False, text: str | None = None, **fields: Any) -> dict[str, Any]:
    """A request: its last message is a script, of those fields that a script has, or the text."""
    names = ("pieces", "interval", "delay", "refuse", "fail", "crash")
    script = {name: fields.pop(name) for name in names if name in fields}
    played = json.dumps({"text": text or "x", **script}) if script else text or "Hi"
    return {"model": "fake", "stream": stream, "input": played, **fields}


def create(server: Server, **fields: Any) -> httpx.Response:
    return httpx.post(f"{server.url}/v1/responses", json=body(**fields), timeout=30)


def made(server: Server, **fields: Any) -> Any:
    response = create(server, **fields)
    assert response.status_code == 200, response.text
    return response.json()


def get(server: Server, path: str, **params: Any) -> httpx.Response:
    return httpx.get(f"{server.url}/v1/{path}", params=params or None, timeout=30)


def until(server: Server, id_: str, *statuses: str) -> Any:
    """Poll a response until it has one of these statuses."""
    deadline = time.monotonic() + 60
    while (found := get(server, f"responses/{id_}").json())["status"] not in statuses:
        assert time.monotonic() < deadline, found
        time.sleep(0.02)
    return found


def told(stream: str) -> list[Any]:
    return [json.loads(line[6:]) for line in stream.splitlines() if line.startswith("data: ")]


def assert_error(response: httpx.Response, status: int, **fields: str | None) -> None:
    assert response.status_code == status, response.text
    error = response.json()["error"]
    assert set(error) == {"message", "type", "param", "code"}
    assert {key: error[key] for key in fields} == fields


@pytest.mark.parametrize("fields", [{}, {"stream": True}, {"background": True}, {"background": True, "stream": True}])
def test_a_header_and_the_log_name_tools_that_are_left_out(fields: dict[str, Any], capfd: Any) -> None:
    words = "tools that this server can't run, so the model doesn't see them: "
    call = {"type": "function", "name": "look_up", "parameters": {}}
    with serve() as server:
        hosted = [{"type": "web_search"}, {"type": "mcp", "server_label": "x"}, {"type": "web_search"}]
        response = create(server, tools=hosted, **fields)
        assert response.headers["warning"] == f"199 orchard \"{words}'web_search', 'mcp'\""
        beside = create(server, tools=[call, {"type": "web_search"}], **fields)
        assert beside.headers["warning"].endswith(": 'web_search'\"")
        assert "warning" not in create(server, tools=[call], **fields).headers
    logged = capfd.readouterr().err
    assert f"{response.headers['x-request-id']} {words}'web_search', 'mcp'" in logged


def test_a_response_is_kept(server: Server) -> None:
    response = create(server, text="Hello", metadata={"a": "b"})
    found = response.json()
    Response.model_validate(found, strict=True)
    assert found["id"] == "resp_" + response.headers["x-request-id"].removeprefix("req_")
    assert found["output"][0]["content"][0]["text"] == "Hello"
    assert get(server, f"responses/{found['id']}").json() == found
    assert httpx.post(f"{server.url}/responses", json=body()).status_code == 200


def test_a_stream_ends_when_the_response_is_kept(server: Server) -> None:
    response = create(server, stream=True, pieces=3, text="ab")
    assert response.headers["content-type"] == "text/event-stream; charset=utf-8"
    events = told(response.text)
    assert events[0]["type"] == "response.created"
    assert events[-1]["type"] == "response.completed"
    final = events[-1]["response"]
    assert final["output"][0]["content"][0]["text"] == "ababab"
    assert get(server, f"responses/{final['id']}").json() == final


def test_it_goes_on(server: Server) -> None:
    first = made(server, text="one", instructions="Be brief.")
    assert first["usage"]["input_tokens"] == 2  # the fake model counts messages
    second = made(server, text="two", previous_response_id=first["id"])
    assert second["usage"]["input_tokens"] == 3
    assert second["previous_response_id"] == first["id"]
    third = made(server, text="three", previous_response_id=second["id"], instructions="Be long.")
    assert third["usage"]["input_tokens"] == 6
    items = get(server, f"responses/{third['id']}/input_items", order="asc").json()["data"]
    assert [(item["role"], item["content"][0]["text"]) for item in items] == [
        ("user", "one"),
        ("assistant", "one"),
        ("user", "two"),
        ("assistant", "two"),
        ("user", "three"),
    ]
    page = get(server, f"responses/{third['id']}/input_items", limit=2).json()
    assert ([item["id"] for item in page["data"]], page["has_more"]) == ([items[4]["id"], items[3]["id"]], True)
    rest = get(server, f"responses/{third['id']}/input_items", limit=2, after=page["last_id"]).json()
    assert [item["id"] for item in rest["data"]] == [items[2]["id"], items[1]["id"]]


def test_a_conversation_has_branches(server: Server) -> None:
    """A branch is a chain of previous responses, which begins at the conversation or at one of its responses."""
    conversation = httpx.post(f"{server.url}/v1/conversations", json={}).json()["id"]
    first = made(server, text="one", previous_response_id=conversation)
    second = made(server, text="two", previous_response_id=first["id"], background=True)
    until(server, second["id"], "completed")
    again = made(server, text="two!", previous_response_id=first["id"])
    other = made(server, text="three", previous_response_id=conversation)
    assert [answer["usage"]["input_tokens"] for answer in (first, again, other)] == [1, 3, 1]
    assert made(server, text="four", previous_response_id=other["id"])["usage"]["input_tokens"] == 3
    listed = get(server, f"conversations/{conversation}/responses", order="asc", limit=4).json()
    assert [(found["input"][0]["content"][0]["text"], found["previous_response_id"]) for found in listed["data"]] == [
        ("one", conversation),
        ("two", first["id"]),
        ("two!", first["id"]),
        ("three", conversation),
    ]
    assert listed["has_more"]
    own = get(server, f"responses/{again['id']}").json()
    assert listed["data"][2] == own | {"input": listed["data"][2]["input"]}
    items = get(server, f"responses/{other['id']}/input_items").json()["data"]
    assert [item["content"][0]["text"] for item in items] == ["three"]
    assert httpx.delete(f"{server.url}/v1/conversations/{conversation}").json()["deleted"]
    assert_error(get(server, f"responses/{again['id']}"), 404, code="response_not_found")
    assert_error(create(server, previous_response_id=conversation), 404, code="response_not_found")


def test_what_is_deleted_is_gone(server: Server) -> None:
    first = made(server, text="one")
    second = made(server, text="two", previous_response_id=first["id"])
    url = f"{server.url}/v1/responses/{first['id']}"
    gone = httpx.request("DELETE", url, headers={"content-type": "application/json"})
    assert gone.json() == {"id": first["id"], "object": "response", "deleted": True}
    assert_error(httpx.get(url), 404, code="response_not_found")
    assert_error(httpx.delete(url), 404, code="response_not_found")
    assert made(server, text="three", previous_response_id=second["id"])["usage"]["input_tokens"] == 5


@pytest.mark.parametrize(
    ("method", "path", "code"),
    [
        ("GET", "responses/resp_none", "response_not_found"),
        ("GET", "responses/resp_none?stream=true", "response_not_found"),
        ("DELETE", "responses/resp_none", "response_not_found"),
        ("POST", "responses/resp_none/cancel", "response_not_found"),
        ("GET", "responses/resp_none/input_items", "response_not_found"),
        ("GET", "conversations/conv_none", "conversation_not_found"),
        ("DELETE", "conversations/conv_none", "conversation_not_found"),
        ("GET", "conversations/conv_none/items", "conversation_not_found"),
        ("GET", "conversations/conv_none/responses", "conversation_not_found"),
        ("GET", "conversations/conv_none/items/msg_none", "conversation_not_found"),
        ("DELETE", "conversations/conv_none/items/msg_none", "conversation_not_found"),
    ],
)
def test_what_is_not_there(server: Server, method: str, path: str, code: str) -> None:
    assert_error(httpx.request(method, f"{server.url}/v1/{path}"), 404, code=code)


def test_requests_that_build_on_what_is_not_there(server: Server) -> None:
    previous = create(server, previous_response_id="resp_none")
    assert_error(previous, 404, code="response_not_found", param="previous_response_id")
    assert_error(create(server, conversation="conv_none"), 404, code="conversation_not_found", param="conversation")
    referring = {"input": [{"type": "item_reference", "id": "msg_none"}]}
    assert_error(create(server, **referring), 404, code="item_not_found", param="input")


@pytest.mark.parametrize(
    ("path", "param"),
    [("input_items?limit=0", "limit"), ("input_items?limit=x", "limit"), ("input_items?order=up", "order")],
)
def test_wrong_parameters(server: Server, path: str, param: str) -> None:
    first = made(server)
    assert_error(get(server, f"responses/{first['id']}/{path}"), 400, param=param, type="invalid_request_error")


def test_bad_requests(server: Server) -> None:
    assert_error(create(server, model="gpt"), 404, code="model_not_found", param="model")
    assert_error(create(server, model="gpt", background=True), 404, code="model_not_found", param="model")
    assert_error(create(server, truncation="x"), 400, param="truncation")
    assert_error(httpx.post(f"{server.url}/v1/responses", content=b"{"), 400, param=None)


@pytest.mark.parametrize("stream", [False, True])
def test_a_refusal_before_the_start_is_a_status(server: Server, stream: bool) -> None:
    refused = create(server, stream=stream, refuse="context_length_exceeded")
    assert_error(refused, 400, code="context_length_exceeded", param="input")


def test_a_failure_in_the_stream_is_told_in_it_and_kept(server: Server) -> None:
    events = told(create(server, stream=True, pieces=2, fail="internal").text)
    assert [event["type"] for event in events[-2:]] == ["error", "response.failed"]
    failed = events[-1]["response"]
    assert get(server, f"responses/{failed['id']}").json() == failed
    assert_error(create(server, pieces=2, fail="internal"), 500)


def reference(response: Any) -> dict[str, str]:
    return {"type": "item_reference", "id": response["output"][0]["id"]}


def said(text: str) -> dict[str, str]:
    return {"role": "user", "content": text}


def assert_no_item(response: httpx.Response) -> None:
    assert_error(response, 404, code="item_not_found", param="input", type="invalid_request_error")


def test_a_conversation_of_references(server: Server) -> None:
    """As the Vercel AI SDK sends it: each turn names what every turn before it said."""
    asked: list[dict[str, str]] = []
    for turn, tokens in enumerate((1, 3, 5, 7)):
        asked.append(said(f"turn {turn}"))
        last = made(server, input=asked)
        assert last["usage"]["input_tokens"] == tokens
        asked.append(reference(last))
    listed = get(server, f"responses/{last['id']}/input_items", order="asc").json()["data"]
    assert [item["role"] for item in listed] == ["user", "assistant"] * 3 + ["user"]


def test_references_take_up_one_chain(server: Server) -> None:
    one, other = made(server, text="one"), made(server, text="other")
    for references in ([reference(one), reference(other)], [reference(other), reference(one)]):
        assert_no_item(create(server, input=[*references, said("on")]))
    edited = made(server, input=[said("one"), reference(one), said("two")])
    assert_no_item(create(server, input=[reference(other), reference(edited), said("on")]))
    assert made(server, input=[reference(one), said("another two")])["usage"]["input_tokens"] == 2


def test_a_reference_that_is_repeated_counts_as_often(server: Server) -> None:
    one = made(server, text="one")
    assert made(server, input=[reference(one)] * 10)["usage"]["input_tokens"] == 10
    long = made(server, text="x" * 2_000_000)
    assert_error(create(server, input=[reference(long)] * 17), 413)


@pytest.mark.parametrize("named", ["previous_response_id", "conversation"])
def test_references_beside_a_chain_or_conversation_are_to_its_own_items(server: Server, named: str) -> None:
    conversation = httpx.post(f"{server.url}/v1/conversations").json()["id"]
    one = made(server, text="one", **({"conversation": conversation} if named == "conversation" else {}))
    other = made(server, text="other")
    begin = {named: one["id"] if named == "previous_response_id" else conversation}
    for path in ("responses", "responses/input_tokens"):
        sent = {"model": "fake", "input": [reference(other), said("on")], **begin}
        assert_no_item(httpx.post(f"{server.url}/v1/{path}", json=sent))
    assert made(server, input=[reference(one), said("on")], **begin)["usage"]["input_tokens"] == 3


def test_what_is_not_to_be_kept_leaves_nothing(tmp_path: Path) -> None:
    path = tmp_path / "responses.db"
    with serve(responses_path=str(path)) as server:
        first = made(server, text="a secret", store=False)
        assert_error(get(server, f"responses/{first['id']}"), 404, code="response_not_found")
        assert_error(create(server, previous_response_id=first["id"]), 404, code="response_not_found")
        told(create(server, text="a secret", store=False, stream=True).text)
        assert not any(b"a secret" in file.read_bytes() for file in tmp_path.iterdir())
        made(server, text="a secret")
        assert any(b"a secret" in file.read_bytes() for file in tmp_path.iterdir())


def test_what_is_kept_outlives_the_server(tmp_path: Path) -> None:
    path = str(tmp_path / "responses.db")
    with serve(responses_path=path) as server:
        first = made(server, text="one")
    with serve(responses_path=path) as server:
        assert get(server, f"responses/{first['id']}").json() == first
        assert made(server, previous_response_id=first["id"])["usage"]["input_tokens"] == 3


def test_what_expires_is_archived(tmp_path: Path) -> None:
    with serve(responses_ttl=0.3, responses_archive_dir=str(tmp_path)) as server:
        first = made(server, text="one")
        archived = archived_as(tmp_path / f"{first['id']}.json")
        assert_error(get(server, f"responses/{first['id']}"), 404, code="response_not_found")
        assert archived["responses"][0]["output"] == first["output"]


def test_what_a_request_uses_outlives_its_time(tmp_path: Path) -> None:
    """Whether it was thrown away too early, the archive tells: then it lacks the response, or its end."""
    with serve(responses_ttl=0.5, responses_archive_dir=str(tmp_path)) as server:
        conversations = [httpx.post(f"{server.url}/v1/conversations").json()["id"] for _ in range(2)]
        for conversation, background in zip(conversations, (True, False), strict=True):
            made(server, conversation=conversation, background=background, text="a", pieces=9, interval=0.1)
        for conversation in conversations:
            archived = archived_as(tmp_path / f"{conversation}.json")
            (response,) = archived["responses"]
            assert response["status"] == "completed"
            assert [item["content"][0]["text"] for item in archived["items"]][1] == "a" * 9


def archived_as(path: Path) -> Any:
    deadline = time.monotonic() + 60
    while not path.exists():
        assert time.monotonic() < deadline
        time.sleep(0.02)
    return json.loads(path.read_text())


def test_counting(server: Server) -> None:
    first = made(server, text="one")
    for fields, tokens in (({}, 1), ({"previous_response_id": first["id"], "instructions": "Be brief."}, 4)):
        counted = httpx.post(f"{server.url}/v1/responses/input_tokens", json=body(**fields))
        assert counted.json() == {"object": "response.input_tokens", "input_tokens": tokens}
    refused = httpx.post(f"{server.url}/v1/responses/input_tokens", json=body(refuse="invalid_request"))
    assert refused.status_code == 400


def test_an_unknown_adapter_is_refused_in_counting_too(server: Server) -> None:
    for path in ("responses", "responses/input_tokens"):
        refused = httpx.post(f"{server.url}/v1/{path}", json=body(adapters="painter"))
        assert (refused.status_code, refused.json()["error"]["param"]) == (400, "adapters")


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("background", [False, True])
def test_a_prompt_that_is_only_to_be_cached(server: Server, stream: bool, background: bool) -> None:
    response = create(
        server, text="one", pieces=3, prompt_cache_options={"prewarm": True}, stream=stream, background=background
    )
    begun = told(response.text)[-1]["response"] if stream else response.json()
    found = until(server, begun["id"], "completed")
    Response.model_validate(found, strict=True)
    assert (found["output"], found["usage"]["input_tokens"], found["usage"]["output_tokens"]) == ([], 1, 0)
    assert made(server, text="two", previous_response_id=found["id"])["usage"]["input_tokens"] == 2


def test_truncation_drops_the_oldest(tmp_path: Path) -> None:
    """The fake model counts a token a message, and its window is 1000."""
    items = [{"role": "user", "content": f"{i}"} for i in range(1500)]
    with serve() as server:
        whole = made(server, input=items)
        assert whole["usage"]["input_tokens"] == 1500  # it minds no window
        cut = made(server, input=items, truncation="auto", instructions="Be brief.")
        assert cut["usage"]["input_tokens"] == 999
        assert cut["output"][0]["content"][0]["text"] == "1499"


def test_a_store_that_cannot_be_used_costs_nobody_an_answer(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with serve(responses_path=str(tmp_path / "file" / "responses.db")) as server:
        assert made(server, text="one", store=False)["store"] is False
        response = create(server, text="one")
        first = response.json()
        assert (first["status"], first["store"]) == ("completed", False)
        warning = response.headers["warning"]
        assert warning == "199 orchard \"not stored: the store of responses can't be used: it can't be reached\""
        events = told(create(server, stream=True).text)
        assert [event["sequence_number"] for event in events] == list(range(len(events)))
        assert [event["type"] for event in events].count("response.completed") == 1
        assert (events[-1]["type"], events[-1]["response"]["store"]) == ("response.completed", False)
        assert_error(get(server, f"responses/{first['id']}"), 503, code="unavailable")
        assert_error(create(server, previous_response_id=first["id"]), 503, code="unavailable")
        assert_error(create(server, background=True), 503, code="unavailable")


def test_a_response_that_has_no_room_says_that_it_is_not_stored() -> None:
    with serve(responses_max_bytes=200_000) as server:
        kept = made(server)
        response = create(server, text="x" * 300_000)
        assert response.json()["store"] is False
        assert "200000" in response.headers["warning"]
        assert_error(get(server, f"responses/{response.json()['id']}"), 404, code="response_not_found")
        assert get(server, f"responses/{kept['id']}").json() == kept
        assert_error(create(server, text="x" * 300_000, background=True), 413, code="payload_too_large")
        items = {"items": [{"role": "user", "content": "x" * 300_000}]}
        refused = httpx.post(f"{server.url}/v1/conversations", json=items)
        assert_error(refused, 413, code="payload_too_large")


def test_a_request_goes_on_from_no_more_than_a_body_may_have() -> None:
    with serve(max_body_bytes=20_000) as server:
        first = made(server, text="x" * 6000)
        refused = create(server, text="x" * 9000, previous_response_id=first["id"])
        assert_error(refused, 413, code="payload_too_large")
        assert "at most 20000" in refused.json()["error"]["message"]
        assert made(server, text="x" * 1000, previous_response_id=first["id"])


# In the background


def test_a_run_whose_end_cannot_be_stored_says_so() -> None:
    """Its input is stored with 3 KB, its end would have 300 KB, and its stream."""
    with serve(responses_max_bytes=200_000) as server:
        events = told(create(server, stream=True, background=True, pieces=100, text="x" * 3000).text)
        assert (events[-1]["type"], events[-1]["response"]["store"]) == ("response.completed", False)
        found = get(server, f"responses/{events[-1]['response']['id']}").json()
        assert (found["status"], found["error"]["code"]) == ("failed", "server_error")


def test_a_run_in_the_background(server: Server) -> None:
    begun = made(server, background=True, pieces=3, interval=0.05, text="ab")
    assert (begun["status"], begun["background"], begun["output"]) == ("queued", True, [])
    done = until(server, begun["id"], "completed")
    Response.model_validate(done, strict=True)
    assert done["output"][0]["content"][0]["text"] == "ababab"
    cancelled = httpx.post(f"{server.url}/v1/responses/{begun['id']}/cancel").json()
    assert cancelled == done  # it is too late


def test_a_run_can_be_followed_from_any_place(server: Server) -> None:
    with httpx.stream(
        "POST", f"{server.url}/v1/responses", json=body(True, background=True, pieces=8, interval=0.05)
    ) as r:
        lines = (json.loads(line[6:]) for line in r.iter_lines() if line.startswith("data: "))
        first = [next(lines) for _ in range(6)]  # and leave
    assert [event["type"] for event in first[:3]] == ["response.created", "response.queued", "response.in_progress"]
    id_ = first[0]["response"]["id"]
    live = told(get(server, f"responses/{id_}", stream=True, starting_after=3).text)
    assert [event["sequence_number"] for event in live] == list(range(4, 4 + len(live)))
    assert live[:2] == first[4:6]
    assert live[-1]["type"] == "response.completed"
    assert live[-1]["response"] == get(server, f"responses/{id_}").json()
    assert told(get(server, f"responses/{id_}", stream=True, starting_after=3).text) == live
    assert told(get(server, f"responses/{id_}", stream=True).text)[:6] == first
    assert told(get(server, f"responses/{id_}", stream=True, starting_after=10_000).text) == []


def test_what_did_not_run_in_the_background_has_no_stream_and_no_cancel(server: Server) -> None:
    first = made(server)
    assert_error(get(server, f"responses/{first['id']}", stream=True), 400, param="stream")
    assert_error(httpx.post(f"{server.url}/v1/responses/{first['id']}/cancel"), 400)


def test_a_run_can_be_cancelled(server: Server) -> None:
    begun = made(server, background=True, pieces=1000, interval=0.02)
    assert_error(create(server, previous_response_id=begun["id"]), 400, param="previous_response_id")
    running = until(server, begun["id"], "in_progress")
    Response.model_validate(running, strict=True)
    cancelled = httpx.post(f"{server.url}/v1/responses/{begun['id']}/cancel").json()
    assert cancelled["status"] == "cancelled"
    assert get(server, f"responses/{begun['id']}").json() == cancelled
    assert httpx.post(f"{server.url}/v1/responses/{begun['id']}/cancel").json() == cancelled
    server.until(running=0)


def test_a_run_can_be_deleted(server: Server) -> None:
    begun = made(server, background=True, pieces=1000, interval=0.02)
    assert httpx.delete(f"{server.url}/v1/responses/{begun['id']}").json()["deleted"]
    assert_error(get(server, f"responses/{begun['id']}"), 404)
    server.until(running=0)


def test_a_run_that_fails(server: Server) -> None:
    for fields, code in (({"fail": "internal"}, "server_error"), ({"refuse": "invalid_request"}, "invalid_prompt")):
        begun = made(server, background=True, **fields)
        failed = until(server, begun["id"], "failed")
        Response.model_validate(failed, strict=True)
        assert failed["error"]["code"] == code


def test_a_run_that_nobody_follows_goes_on_in_the_next_process() -> None:
    with serve() as server:
        begun = made(server, background=True, pieces=60, interval=0.02, text="ab")
        until_it_says_something(server, begun["id"])
        os.kill(server.until(state="ready")["pid"], signal.SIGKILL)
        done = until(server, begun["id"], "completed", "failed")
        assert done["output"][0]["content"][0]["text"] == "ab" * 60
        events = told(get(server, f"responses/{begun['id']}", stream=True).text)
        assert [event["sequence_number"] for event in events] == list(range(len(events)))
        assert "".join(event["delta"] for event in events if event["type"] == "response.output_text.delta") == "ab" * 60


def test_a_run_that_somebody_follows_ends_with_its_process() -> None:
    with serve() as server:
        fields = body(True, background=True, pieces=1000, interval=0.02)
        with httpx.stream("POST", f"{server.url}/v1/responses", json=fields, timeout=30) as response:
            lines = response.iter_lines()
            assert any("output_text.delta" in line for line in lines)
            os.kill(server.until(state="ready")["pid"], signal.SIGKILL)
            *_, last = told("\n".join(lines))
        assert last["type"] == "response.failed"
        assert "ended by SIGKILL" in last["response"]["error"]["message"]
        assert get(server, f"responses/{last['response']['id']}").json() == last["response"]


def until_it_says_something(server: Server, id_: str) -> None:
    deadline = time.monotonic() + 60
    while not get(server, f"responses/{id_}").json()["output"]:
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_runs_have_a_limit() -> None:
    with serve(responses_max_background=1) as server:
        begun = made(server, background=True, pieces=1000, interval=0.02)
        assert_error(create(server, background=True), 429, code="rate_limit_exceeded")
        httpx.post(f"{server.url}/v1/responses/{begun['id']}/cancel")
        assert made(server, background=True)


def test_a_run_ends_with_its_server(tmp_path: Path) -> None:
    path = str(tmp_path / "responses.db")
    with serve(responses_path=path) as server:
        begun = made(server, background=True, pieces=1000, interval=0.05)
        until_it_says_something(server, begun["id"])
    with serve(responses_path=path) as server:
        failed = get(server, f"responses/{begun['id']}").json()
        assert failed["status"] == "failed"
        assert "shut down" in failed["error"]["message"]
        assert failed["output"]


def test_a_run_does_not_outlive_a_server_that_is_killed(tmp_path: Path) -> None:
    path = str(tmp_path / "responses.db")
    with serve(responses_path=path) as other:
        with serve(responses_path=path) as server:
            begun = made(server, background=True, pieces=1000, interval=0.05)
            until(server, begun["id"], "in_progress")
            seen = get(other, f"responses/{begun['id']}").json()
            assert seen["status"] in ("queued", "in_progress")
            assert_error(httpx.post(f"{other.url}/v1/responses/{begun['id']}/cancel"), 400)
            server.process.send_signal(signal.SIGKILL)
            server.process.wait()
        failed = get(other, f"responses/{begun['id']}").json()
        assert (failed["status"], failed["error"]["code"]) == ("failed", "server_error")


@pytest.mark.parametrize("stream", [False, True])
async def test_a_client_that_leaves_ends_its_response(server: Server, stream: bool) -> None:
    async with httpx.AsyncClient(timeout=30) as client:
        request = client.post(f"{server.url}/v1/responses", json=body(stream, pieces=1000, interval=0.02))
        task = asyncio.create_task(request)
        await asyncio.to_thread(server.until, running=1)
        task.cancel()
    server.until(running=0)


# Conversations


def test_a_conversation(server: Server) -> None:
    with OpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=0) as client:
        conversation = client.conversations.create(
            metadata={"a": "b"}, items=[{"role": "user", "content": "one"}, {"role": "assistant", "content": "two"}]
        )
        assert (conversation.object, conversation.metadata) == ("conversation", {"a": "b"})
        for expected in (3, 5):
            response = client.responses.create(model="fake", input="three", conversation=conversation.id)
            assert response.usage
            assert response.usage.input_tokens == expected
            assert response.conversation
            assert response.conversation.id == conversation.id
        listed = list(client.conversations.items.list(conversation.id, order="asc", limit=2))
        texts = [item.content[0].text for item in listed if item.type == "message"]  # type: ignore[union-attr]
        assert texts == ["one", "two", "three", "three", "three", "three"]
        added = client.conversations.items.create(conversation.id, items=[{"role": "user", "content": "four"}])
        (item,) = added.data
        assert item.id
        assert client.conversations.items.retrieve(item.id, conversation_id=conversation.id) == item
        client.conversations.items.delete(item.id, conversation_id=conversation.id)
        assert len(list(client.conversations.items.list(conversation.id))) == 6
        assert client.conversations.update(conversation.id, metadata={"c": "d"}).metadata == {"c": "d"}
        assert client.conversations.retrieve(conversation.id).metadata == {"c": "d"}
        assert client.conversations.delete(conversation.id).deleted
        assert_error(get(server, f"conversations/{conversation.id}"), 404, code="conversation_not_found")


def message(text: str) -> dict[str, str]:
    return {"type": "message", "role": "user", "content": text, "id": "x"}


def texts(page: Any) -> list[str]:
    return [item["content"][0]["text"] for item in page["data"]]


def test_items_that_claim_the_same_id_are_all_listed(server: Server) -> None:
    first = made(server, input=[message("a"), message("b"), message("c")])
    second = made(server, input=[message("d")], previous_response_id=first["id"])
    with OpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=0) as client:
        pages = client.responses.input_items.list(second["id"], limit=1, order="asc")
        assert [item.model_dump()["content"][0]["text"] for item in pages] == ["a", "b", "c", "c", "d"]


def test_of_items_that_claim_the_same_id_one_is_deleted(server: Server) -> None:
    address = f"{server.url}/v1/conversations"
    id_ = httpx.post(address, json={"items": [message("a"), message("b")]}).json()["id"]
    items = f"{address}/{id_}/items"
    added = httpx.post(items, json={"items": [message("c")]}).json()
    made(server, input=[message("d")], conversation=id_, prompt_cache_options={"prewarm": True})
    assert httpx.delete(f"{items}/x").status_code == 200
    assert texts(get(server, f"conversations/{id_}/items", order="asc").json()) == ["b", "c", "d"]
    assert httpx.get(f"{items}/{added['first_id']}").json() == added["data"][0]


def test_a_conversation_of_nothing(server: Server) -> None:
    created = httpx.post(f"{server.url}/v1/conversations")
    assert created.status_code == 200
    items = get(server, f"conversations/{created.json()['id']}/items").json()
    assert items == {"object": "list", "data": [], "first_id": "", "last_id": "", "has_more": False}


def test_an_output_is_added_to_a_conversation_that_has_its_call(server: Server) -> None:
    call = {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"}
    output = {"type": "function_call_output", "call_id": "c", "output": "x"}
    address = f"{server.url}/v1/conversations"
    assert_error(httpx.post(address, json={"items": [output]}), 400, param="items[0].call_id")
    items = f"{address}/{httpx.post(address).json()['id']}/items"
    assert_error(httpx.post(items, json={"items": [output]}), 400, param="items[0].call_id")
    for item in (call, output):
        assert httpx.post(items, json={"items": [item]}).status_code == 200


def test_docs_describe_the_routes(server: Server) -> None:
    paths = httpx.get(f"{server.url}/openapi.json").json()["paths"]
    assert "previous_response_id" in json.dumps(paths["/v1/responses"]["post"]["requestBody"])
    assert {path.removeprefix("/v1/") for path in paths if "responses" in path or "conversations" in path} >= {
        "responses",
        "responses/{response_id}",
        "responses/{response_id}/cancel",
        "responses/{response_id}/input_items",
        "responses/input_tokens",
        "responses/compact",
        "conversations",
        "conversations/{conversation_id}/items/{item_id}",
    }
