"""Version 1 of LM Studio's API, over a model that plays scripts."""

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from msgspec.structs import replace

from tests.support.hub import SIZE, run_hub
from tests.support.model_folders import make_model, some_weights
from tests.support.serving import FAKE, Server, serve

KEY, OTHER_KEY, ADMIN = "user-key", "other-key", "admin-key"
SECOND = replace(FAKE, id="second", on_demand=True)


@pytest.fixture(scope="module")
def locked() -> Iterator[Server]:
    with serve([FAKE, SECOND], api_keys=(KEY, OTHER_KEY), admin_keys=(ADMIN,), max_loaded_models=2) as server:
        server.until(state="ready")
        yield server


def ask(server: Server, path: str = "chat", key: str = "", **fields: Any) -> httpx.Response:
    return httpx.post(f"{server.url}/api/v1/{path}", json=fields, headers={"x-api-key": key}, timeout=30)


def chat(server: Server, text: str = "Hi", key: str = "", **fields: Any) -> Any:
    response = ask(server, key=key, **{"model": "fake", "input": text, **fields})
    assert response.status_code == 200, response.text
    return response.json()


def read_events(response: httpx.Response) -> list[Any]:
    assert response.headers["content-type"].startswith("text/event-stream")
    return [json.loads(line[6:]) for line in response.text.splitlines() if line.startswith("data: ")]


def test_an_answer(server: Server) -> None:
    server.until(state="ready")
    answer = chat(server, json.dumps({"pieces": 3, "text": "ab"}))
    assert answer["output"] == [{"type": "message", "content": "ababab"}]
    assert answer["model_instance_id"] == "fake"
    assert answer["stats"]["total_output_tokens"] == 3
    assert answer["response_id"].startswith("resp_")
    assert "model_load_time_seconds" not in answer["stats"]


def test_a_conversation_goes_on_from_any_of_its_answers(server: Server) -> None:
    first = chat(server, "My favorite color is blue.", system_prompt="Be brief.")
    second = chat(server, "And mine is red.", previous_response_id=first["response_id"])
    stored = httpx.get(f"{server.url}/v1/responses/{second['response_id']}/input_items?order=asc").json()["data"]
    said = ["My favorite color is blue.", "My favorite color is blue.", "And mine is red."]  # the model repeats it
    assert [item["content"][0]["text"] for item in stored] == said
    branch = chat(server, "Or green?", previous_response_id=first["response_id"])
    stored = httpx.get(f"{server.url}/v1/responses/{branch['response_id']}/input_items?order=asc").json()["data"]
    assert [item["content"][0]["text"] for item in stored] == [*said[:2], "Or green?"]


def test_the_system_prompt_stays_until_another_one_is_given(server: Server) -> None:
    previous, kept = None, []
    for prompt in ("Be brief.", None, None, "", None):
        previous = chat(server, system_prompt=prompt, previous_response_id=previous)["response_id"]
        kept.append(httpx.get(f"{server.url}/v1/responses/{previous}").json()["instructions"])
    assert kept == ["Be brief."] * 3 + [""] * 2


def test_an_answer_that_is_not_stored_has_no_id(server: Server) -> None:
    assert "response_id" not in chat(server, store=False)
    last = read_events(ask(server, model="fake", input="Hi", store=False, stream=True))[-1]
    assert "response_id" not in last["result"]


def test_an_answer_that_cannot_be_stored_is_sent_without_an_id(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with serve(responses_path=str(tmp_path / "file" / "responses.db")) as server:
        whole = ask(server, model="fake", input="Hi")
        assert whole.headers["warning"].startswith('199 orchard "not stored: ')
        assert "response_id" not in whole.json()
        last = read_events(ask(server, model="fake", input="Hi", stream=True))[-1]
        assert last["result"]["output"]
        assert "response_id" not in last["result"]


def test_a_stream(server: Server) -> None:
    told = read_events(ask(server, model="fake", input=json.dumps({"pieces": 2, "text": "ab"}), stream=True))
    types = [event["type"] for event in told]
    assert (types[0], types[-2:]) == ("chat.start", ["message.end", "chat.end"])
    assert "".join(event["content"] for event in told if event["type"] == "message.delta") == "abab"
    result = told[-1]["result"]
    assert result["output"] == [{"type": "message", "content": "abab"}]
    assert chat(server, previous_response_id=result["response_id"])["output"]


def test_a_stream_says_how_far_the_load_and_the_prompt_are() -> None:
    slow = replace(FAKE, id="slow", path=json.dumps({"seconds": 0.6, "steps": 3}), on_demand=True)
    with serve([slow], keep_alive_interval=0.05) as server:
        script = json.dumps({"pieces": 1, "text": "ab", "interval": 0.3})
        told = read_events(ask(server, model="slow", input=script, stream=True))
    types = list(dict.fromkeys(event["type"] for event in told))
    assert types == [
        *("chat.start", "model_load.start", "model_load.progress", "model_load.end"),
        *("prompt_processing.start", "prompt_processing.progress", "prompt_processing.end"),
        *("message.start", "message.delta", "message.end", "chat.end"),
    ]
    shares = [event["progress"] for event in told if event["type"] == "model_load.progress"]
    assert shares == sorted({*shares})
    assert all(0 <= share <= 1 for share in shares)
    assert {event["progress"] for event in told if event["type"] == "prompt_processing.progress"} == {0}


def test_a_load_that_fails_late_is_an_error_in_the_stream() -> None:
    broken = replace(FAKE, id="broken", path=json.dumps({"seconds": 0.6, "end": "it is broken"}), on_demand=True)
    with serve([broken], keep_alive_interval=0.05) as server:
        told = read_events(ask(server, model="broken", input="Hi", stream=True))
    types = [event["type"] for event in told if event["type"] != "model_load.progress"]
    assert types == ["chat.start", "model_load.start", "error", "chat.end"]


@pytest.mark.parametrize("stream", [False, True])
def test_failures(server: Server, stream: bool) -> None:
    server.until(state="ready")
    refused = ask(server, model="fake", input=json.dumps({"refuse": "overloaded"}), stream=stream)
    assert (refused.status_code, refused.json()["error"]["type"]) == (429, "unknown")
    failed = ask(server, model="fake", input=json.dumps({"pieces": 2, "fail": "internal"}), stream=stream)
    if stream:
        *_, error, last = read_events(failed)
        assert (error["type"], last["type"]) == ("error", "chat.end")
        assert last["result"]["output"] == [{"type": "message", "content": "xx"}]
        assert "response_id" not in last["result"]
    else:
        error = failed.json()
        assert failed.status_code == 500
    assert error["error"]["type"] == "internal_error"


def test_errors_are_lm_studios(server: Server) -> None:
    unknown = ask(server, model="gpt", input="Hi")
    assert (unknown.status_code, unknown.json()["error"]["type"]) == (404, "model_not_found")
    wrong = ask(server, model="fake", input="Hi", previous_response_id="resp_none")
    assert (wrong.status_code, wrong.json()["error"]["code"]) == (404, "response_not_found")
    nowhere = httpx.get(f"{server.url}/api/v1/nowhere").json()["error"]
    assert nowhere["type"] == "invalid_request"
    method = httpx.get(f"{server.url}/api/v1/chat")
    assert (method.status_code, method.json()["error"]["code"]) == (405, "method_not_allowed")


def test_an_image_that_is_wrong_is_named_as_it_was_given(server: Server) -> None:
    items = [{"type": "message", "content": "Look:"}, {"type": "image", "data_url": "data:image/png;base64,!!!"}]
    refused = ask(server, model="fake", input=items).json()["error"]
    assert refused["param"] == "input[1].data_url"
    assert "image_url" not in refused["message"]


def test_only_a_model_that_thinks_can_be_told_to(tmp_path: Path) -> None:
    thinks = replace(FAKE, id="thinks", path=str(tmp_path), kind="fake", capabilities=("thinking",))
    with serve([FAKE, thinks]) as server:
        assert chat(server, model="thinks", reasoning="high")["output"]
        assert chat(server, reasoning="off")["output"]
        refused = ask(server, model="fake", input="Hi", reasoning="low").json()["error"]
        assert refused["param"] == "reasoning"


def test_another_key_cannot_go_on(locked: Server) -> None:
    mine = chat(locked, key=KEY)["response_id"]
    theirs = ask(locked, key=OTHER_KEY, model="fake", input="Hi", previous_response_id=mine)
    assert theirs.status_code == 404


def test_models(server: Server) -> None:
    server.until(state="ready")
    (listed,) = httpx.get(f"{server.url}/api/v1/models").json()["models"]
    assert (listed["key"], listed["type"], listed["format"]) == ("fake", "llm", "mlx")
    assert listed["loaded_instances"] == [{"id": "fake", "config": {"context_length": 1000}}]


def test_loads_and_unloads_take_an_admin_key(locked: Server) -> None:
    for path, fields in (("models/load", {"model": "second"}), ("models/unload", {"instance_id": "second"})):
        assert ask(locked, path, KEY, **fields).status_code == 403
    loaded = ask(locked, "models/load", ADMIN, model="second", echo_load_config=True, flash_attention=True)
    assert loaded.json()["load_config"] == {"context_length": 1000}
    assert loaded.json()["status"] == "loaded"
    assert "warning" not in loaded.headers
    smaller = ask(locked, "models/load", ADMIN, model="second", context_length=500)
    assert "context_length has no effect" in smaller.headers["warning"]
    larger = ask(locked, "models/load", ADMIN, model="second", context_length=1001)
    assert (larger.status_code, larger.json()["error"]["param"]) == (400, "context_length")
    assert ask(locked, "models/unload", ADMIN, instance_id="second").json() == {"instance_id": "second"}
    again = ask(locked, "models/unload", ADMIN, instance_id="second")
    assert (again.status_code, again.json()["error"]["param"]) == (404, "instance_id")
    answer = chat(locked, key=KEY, model="second")  # a load for a request, of which the answer tells
    assert answer["stats"]["model_load_time_seconds"] > 0
    ask(locked, "models/unload", ADMIN, instance_id="second")


def test_a_pinned_model_stays(locked: Server) -> None:
    httpx.post(f"{locked.url}/v1/models/fake/pin", headers={"x-api-key": ADMIN})
    try:
        assert ask(locked, "models/unload", ADMIN, instance_id="fake").status_code == 409
    finally:
        httpx.post(f"{locked.url}/v1/models/fake/unpin", headers={"x-api-key": ADMIN})


def test_a_download(tmp_path: Path) -> None:
    with run_hub() as hub:
        hub.repos["org/tiny"] = make_model(tmp_path / "tiny", shards=2)
        (tmp_path / "tiny" / "model-00002-of-00002.safetensors").write_bytes(some_weights(SIZE))
        env = {**hub.env, "HF_HOME": str(tmp_path), "HF_HUB_CACHE": str(tmp_path / "hub")}
        with serve([], env=env, allow_download=True, model_dir=str(tmp_path / "models")) as server:
            hub.goes_on.clear()
            begun = ask(server, "models/download", model="https://huggingface.co/org/tiny").json()
            assert begun["status"] == "downloading"
            assert ask(server, "models/download", model="org/tiny").json()["job_id"] == begun["job_id"]
            hub.goes_on.set()
            status = f"{server.url}/api/v1/models/download/status/"
            while (told := httpx.get(status + begun["job_id"]).json())["status"] == "downloading":
                time.sleep(0.05)
            assert told["status"] == "completed"
            assert told["downloaded_bytes"] == told["total_size_bytes"] > SIZE
            assert told["completed_at"] >= told["started_at"]
            assert ask(server, "models/download", model="org/tiny").json() == {"status": "already_downloaded"}
            unknown = httpx.get(status + "job_0")
            assert (unknown.status_code, unknown.json()["error"]["type"]) == (404, "job_not_found")


def test_downloads_are_off_by_default(server: Server) -> None:
    refused = ask(server, "models/download", model="org/tiny")
    assert (refused.status_code, "--allow-download" in refused.json()["error"]["message"]) == (403, True)
