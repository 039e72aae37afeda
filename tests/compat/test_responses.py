"""What an older version stored is read, gone on from, changed and deleted."""

import json
from typing import Any

import httpx

from tests.compat.bridge import contains, expected

GIVEN = expected("responses.json")
IDS = GIVEN["ids"]
ADA, BEN = GIVEN["keys"]


def ask(client: httpx.Client, path: str, key: str | None = ADA, method: str = "GET", **body: Any) -> httpx.Response:
    headers = {"authorization": f"Bearer {key}"} if key else {}
    return client.request(method, f"/v1/{path}", headers=headers, json=body or None)


def done(client: httpx.Client, path: str, key: str | None = ADA, method: str = "POST", **body: Any) -> Any:
    answer = ask(client, path, key, method, **body)
    assert answer.status_code == 200, answer.text
    return answer.json()


def assert_read(client: httpx.Client, read: dict[str, Any]) -> None:
    answer = ask(client, read["path"], read["key"])
    assert answer.status_code == read["status"], answer.text
    if isinstance(read["body"], str):
        assert told(answer.text) == told(read["body"])
    else:
        assert contains(answer.json(), read["body"]), answer.text


def told(stream: str) -> list[Any]:
    return [json.loads(line[6:]) for line in stream.splitlines() if line.startswith("data: ")]


def test_everything_is_there_for_those_whose_it_is(keyed: httpx.Client) -> None:
    for read in GIVEN["reads"]:
        assert_read(keyed, read)


def test_what_was_stored_without_keys(open_to_all: httpx.Client) -> None:
    for read in GIVEN["open_reads"]:
        assert_read(open_to_all, read)
    assert ask(open_to_all, f"responses/{IDS['first']}", None).status_code == 404
    # Its server died at it.
    assert ask(open_to_all, f"responses/{IDS['broken']}", None).json()["status"] == "failed"
    answer = done(open_to_all, "responses", None, model="fake", previous_response_id=IDS["open"], input="more")
    assert answer["usage"]["input_tokens"] == 3  # the scripted model counts messages


def test_a_chain_goes_on_and_is_deleted(keyed: httpx.Client) -> None:
    def items(id_: str) -> list[Any]:
        found = done(keyed, f"responses/{id_}/input_items?order=asc&limit=100", method="GET")
        return [(item["id"], item["type"]) for item in found["data"]]

    third = done(keyed, f"responses/{IDS['third']}", method="GET")
    before = [*items(IDS["third"]), *((item["id"], item["type"]) for item in third["output"])]
    assert ("function_call" in dict(before).values(), "function_call_output" in dict(before).values()) == (True, True)
    fourth = done(keyed, "responses", model="fake", previous_response_id=IDS["third"], input="and now?")
    assert items(fourth["id"])[:-1] == before
    assert fourth["usage"]["input_tokens"] == len(before) + 1
    other = ask(keyed, "responses", BEN, "POST", model="fake", previous_response_id=IDS["third"], input="mine")
    assert other.status_code == 404
    assert done(keyed, f"responses/{IDS['second']}", method="DELETE")["deleted"] is True
    assert ask(keyed, f"responses/{IDS['second']}").status_code == 404
    assert items(fourth["id"])[:-1] == before
    for id_ in (IDS["first"], IDS["third"], fourth["id"], IDS["background"]):
        done(keyed, f"responses/{id_}", method="DELETE")


def test_a_conversation_goes_on_and_is_deleted(keyed: httpx.Client) -> None:
    path = f"conversations/{IDS['conversation']}"
    assert done(keyed, path, metadata={"topic": "other"})["metadata"] == {"topic": "other"}
    done(keyed, "responses", model="fake", conversation=IDS["conversation"], input="and now?")
    added = done(keyed, f"{path}/items", items=[{"role": "user", "content": "added"}])["data"]
    listed = done(keyed, f"{path}/items?order=asc", method="GET")["data"]
    texts = [item["content"][0]["text"] for item in listed]
    assert texts[:3] == ["My name is Ada.", "Hello, Ada.", "What is my name?"]
    assert texts[4:] == ["and now?", "and now?", "added"]
    done(keyed, f"{path}/items/{added[0]['id']}", method="DELETE")
    assert done(keyed, path, method="DELETE")["deleted"] is True
    assert ask(keyed, path).status_code == 404


def test_a_compacted_conversation_goes_on(keyed: httpx.Client) -> None:
    *_, compaction = compacted = IDS["compacted"]
    answer = done(keyed, "responses", model="fake", input=[*compacted, {"role": "user", "content": "more"}])
    assert answer["usage"]["input_tokens"] == len(compacted) + 1
    sealed = compaction["encrypted_content"]
    altered = compaction | {"encrypted_content": sealed[:-8] + sealed[-4:] + sealed[-8:-4]}
    assert ask(keyed, "responses", ADA, "POST", model="fake", input=[altered]).status_code == 400


def test_a_stored_completion_is_changed_and_deleted(keyed: httpx.Client) -> None:
    path = f"chat/completions/{IDS['completion']}"
    assert done(keyed, path, metadata={"run": "later"})["metadata"] == {"run": "later"}
    listed = done(keyed, "chat/completions?metadata[run]=later", method="GET")["data"]
    assert [one["id"] for one in listed] == [IDS["completion"]]
    assert done(keyed, path, method="DELETE")["deleted"] is True
    assert ask(keyed, path).status_code == 404
