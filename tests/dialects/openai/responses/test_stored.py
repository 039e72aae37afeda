"""How items and conversations are stored and listed."""

import json
from collections.abc import Sequence
from typing import Any

import pytest
from openai.types.conversations import Conversation, ConversationItem
from openai.types.responses import ResponseItem
from pydantic import TypeAdapter

from orchard.core.errors import OrchardError
from orchard.core.media import MediaOptions, MediaPart
from orchard.dialects.openai.responses.stored import (
    check_items,
    conversation_fields,
    normalise_items,
    parse_added_items,
    parse_conversation,
)
from orchard.dialects.openai.stored import page_of_objects, parse_metadata

ITEM: TypeAdapter[Any] = TypeAdapter(ConversationItem)
INPUT_ITEM: TypeAdapter[Any] = TypeAdapter(ResponseItem)


def test_items_are_listed_with_all_that_the_sdk_expects() -> None:
    given_items: list[dict[str, Any]] = [
        {"role": "user", "content": "Hi", "unheard": {"of": [1]}},
        {"role": "assistant", "content": "Hello", "phase": None},
        {"role": "user", "content": [{"type": "input_image", "image_url": "data:,"}], "id": "msg_mine"},
        {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c", "output": "x", "status": None},
        {"type": "reasoning", "encrypted_content": "x"},
        {"type": "custom_tool_call", "call_id": "d", "name": "f", "input": "x"},
        {"type": "custom_tool_call_output", "call_id": "d", "output": "x"},
    ]
    items = normalise_items(given_items, "12ab", {})
    for item in items:
        ITEM.validate_python(item, strict=True)
    assert [item["id"] for item in items] == [
        "msg_12abi00",
        "msg_12abi01",
        "msg_mine",
        "fc_12abi03",
        "fco_12abi04",
        "rs_12abi05",
        "ctc_12abi06",
        "ctco_12abi07",
    ]
    assert items[0] == {
        "id": "msg_12abi00",
        "type": "message",
        "role": "user",
        "status": "completed",
        "content": [{"type": "input_text", "text": "Hi"}],
        "unheard": {"of": [1]},
    }
    assert items[1]["content"] == [{"type": "output_text", "annotations": [], "logprobs": [], "text": "Hello"}]
    assert normalise_items("Hi", "12ab", {})[0]["content"] == [{"type": "input_text", "text": "Hi"}]
    assert normalise_items(None, "12ab", {}) == []


IN = {"type": "input_text", "text": "x"}
OUT = {"type": "output_text", "text": "x", "annotations": [], "logprobs": []}
PICTURE = {"type": "input_image", "image_url": "data:,", "detail": "auto"}
CITED = {"type": "output_text", "text": "x", "annotations": [{"type": "file_path", "file_id": "f", "index": 0}]}
CALL = {"type": "function_call", "call_id": "c", "name": "f"}
OUTPUT = {"type": "function_call_output", "call_id": "c"}


@pytest.mark.parametrize(
    ("item", "listed"),
    [
        ({"role": "assistant", "content": [{"type": "output_text", "text": "x"}]}, {"content": [OUT]}),
        ({"role": "assistant", "content": [{"type": "input_text", "text": "x"}]}, {"content": [OUT]}),
        ({"role": "assistant", "content": [{"type": "text", "text": "x"}]}, {"content": [OUT]}),
        ({"role": "assistant", "content": [CITED]}, {"content": [CITED | {"logprobs": []}]}),
        ({"role": "assistant", "content": [{"type": "refusal"}]}, {"content": [{"type": "refusal", "refusal": ""}]}),
        ({"role": "user", "content": [{"type": "text", "text": "x"}]}, {"content": [IN]}),
        ({"role": "developer", "content": [{"type": "output_text", "text": "x"}]}, {"content": [IN]}),
        ({"role": "user", "content": [PICTURE | {"image_url": {"url": "data:,"}}]}, {"content": [PICTURE]}),
        ({"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:,"}}]}, {"content": [PICTURE]}),
        (
            {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:,", "detail": "low"}}]},
            {"content": [PICTURE | {"detail": "low"}]},
        ),
        ({"role": "user", "content": "x", "id": ""}, {"id": "msg_12abi00", "content": [IN]}),
        (CALL | {"arguments": {"a": "é"}}, {"arguments": '{"a":"é"}'}),
        (CALL | {"arguments": {}}, {"arguments": "{}"}),
        (CALL, {"arguments": "{}"}),
        ({"type": "custom_tool_call", "call_id": "c", "name": "f"}, {"input": ""}),
        (OUTPUT, {"output": ""}),
        (OUTPUT | {"output": [{"type": "text", "text": "x"}]}, {"output": [IN]}),
        ({"type": "custom_tool_call_output", "call_id": "c"}, {"output": ""}),
        (
            {
                "type": "computer_call_output",
                "call_id": "c",
                "output": {"type": "image_url", "image_url": {"url": "data:,"}},
            },
            {"status": "completed", "output": {"type": "computer_screenshot", "image_url": "data:,"}},
        ),
        ({"type": "computer_call", "call_id": "c"}, {"status": "completed", "pending_safety_checks": []}),
        ({"type": "shell_call", "call_id": "c", "action": {"commands": ["ls"]}}, {"status": "completed"}),
        ({"type": "shell_call_output", "call_id": "c", "output": []}, {"status": "completed"}),
        ({"type": "tool_search_call", "arguments": {}}, {"status": "completed", "execution": "client"}),
        ({"type": "tool_search_output", "tools": []}, {"status": "completed", "execution": "client"}),
        (
            {"type": "tool_search_output", "tools": [], "status": "incomplete", "execution": "server"},
            {"status": "incomplete", "execution": "server"},
        ),
    ],
)
def test_lenient_items_are_listed_in_the_apis_form(item: dict[str, Any], listed: dict[str, Any]) -> None:
    (found,) = normalise_items([item], "12ab", {})
    ITEM.validate_python(found, strict=True)
    INPUT_ITEM.validate_python(found, strict=True)
    assert found == found | listed


def test_a_reference_becomes_what_it_refers_to() -> None:
    stored = {"type": "message", "id": "msg_1", "role": "user", "content": []}
    items = [{"type": "item_reference", "id": "msg_1"}, {"type": "item_reference", "id": "msg_2"}]
    assert normalise_items(items, "12ab", {"msg_1": json.dumps(stored).encode()}) == [stored]


def new_items(body: bytes, hex_id: str, related: Sequence[bytes] = ()) -> list[dict[str, Any]]:
    return check_items(parse_added_items(body), body, hex_id, past=related)[0]


def said(text: str, id_: str | None = "x") -> dict[str, Any]:
    return {"id": id_, "type": "message", "role": "user", "content": text}


def test_of_items_with_the_same_id_the_first_keeps_it() -> None:
    call = CALL | {"id": "x"}
    reference = {"type": "item_reference", "id": "x"}
    stored = {"x": json.dumps(said("stored")).encode()}
    items = normalise_items([said("a", None), said("b"), said("c"), call, reference], "12ab", stored)
    assert [item["id"] for item in items] == ["msg_12abi00", "x", "msg_12abi02", "fc_12abi03", "msg_12abi04"]
    items = normalise_items([reference, said("a"), reference], "12ab", stored)
    assert [item["id"] for item in items] == ["x", "msg_12abi01", "msg_12abi02"]


def test_added_items_have_other_ids_than_those_before_them() -> None:
    body = json.dumps({"items": [said("b"), said("c", "y"), said("d", "y")]}).encode()
    assert [item["id"] for item in new_items(body, "12ab", [json.dumps(said("a")).encode()])] == [
        "msg_12abi00",
        "y",
        "msg_12abi02",
    ]
    assert [item["id"] for item in parse_conversation(body, "12ab")[1]] == ["x", "y", "msg_12abi02"]


def test_a_new_conversation() -> None:
    metadata, items, _, pinned = parse_conversation(
        b'{"metadata": {"a": "b"}, "items": [{"role": "user", "content": "Hi"}]}', "12ab"
    )
    assert (metadata, [item["id"] for item in items]) == ({"a": "b"}, ["msg_12abi00"])
    assert parse_conversation(b"", "12ab") == parse_conversation(b"{}", "12ab") == ({}, [], [], False)
    Conversation.model_validate(conversation_fields("conv_1", 1.5, 2.5, pinned=pinned, metadata=metadata), strict=True)


def test_an_output_added_to_a_conversation_needs_its_call() -> None:
    call, output = CALL | {"arguments": "{}"}, OUTPUT | {"output": "x"}
    late = json.dumps({"items": [output]}).encode()
    assert [item["type"] for item in new_items(late, "12ab", [json.dumps(call).encode()])] == ["function_call_output"]
    whole = json.dumps({"items": [call, output]}).encode()
    assert len(parse_conversation(whole, "12ab")[1]) == len(new_items(whole, "12ab")) == 2
    left = [json.dumps(output | {"call_id": "gone"}).encode()]  # its call was deleted
    assert len(new_items(whole, "12ab", left)) == 2
    for read in (parse_conversation, new_items):
        with pytest.raises(OrchardError, match="earlier call") as caught:
            read(late, "12ab")
        assert caught.value.param == "items[0].call_id"


@pytest.mark.parametrize(
    ("items", "param"),
    [
        ([], "items"),
        ([{"role": "user", "content": "x"}] * 21, "items"),
        ([{"role": "boss"}], "items[0].role"),
        ([{"type": "nonsense"}], "items[0].type"),
        ([{"type": "item_reference", "id": "msg_1"}], "items"),
        ([{"role": "user", "content": [{"type": "input_file", "file_id": "f"}]}], "items[0].content[0].file_data"),
    ],
)
def test_items_that_cannot_be_added(items: list[Any], param: str) -> None:
    with pytest.raises(OrchardError) as caught:
        new_items(json.dumps({"items": items}).encode(), "12ab")
    assert caught.value.param == param
    assert "input[" not in caught.value.message


def test_items_with_a_number_out_of_range() -> None:
    with pytest.raises(OrchardError) as caught:
        new_items(b'{"items": [{"role": "user", "content": "Hi", "more": 1e999}]}', "12ab")
    assert (caught.value.kind, caught.value.param) == ("invalid_request", "items[0]")


def test_new_metadata() -> None:
    assert parse_metadata(b'{"metadata": {"a": "b"}}') == {"a": "b"}
    assert parse_metadata(b'{"metadata": null}') == {}
    with pytest.raises(OrchardError):
        parse_metadata(b"{}")


def test_a_page() -> None:
    items = [("msg_1", b'{"id":"msg_1"}'), ("msg_2", b'{"id":"msg_2"}')]
    found = json.loads(page_of_objects(items, more=True))
    assert (found["data"], found["has_more"]) == ([{"id": "msg_1"}, {"id": "msg_2"}], True)
    assert (found["first_id"], found["last_id"]) == ("msg_1", "msg_2")
    assert json.loads(page_of_objects([])) == {
        "object": "list",
        "data": [],
        "first_id": "",
        "last_id": "",
        "has_more": False,
    }


def test_media_of_items_are_told() -> None:
    past = [json.dumps(item).encode() for item in ({"role": "user", "content": [PICTURE]}, CALL | {"arguments": "{}"})]
    link = PICTURE | {"image_url": "https://x.y/z.png"}
    body = json.dumps({"items": [OUTPUT | {"output": [link]}, {"role": "user", "content": [PICTURE]}]}).encode()
    _, media = check_items(parse_added_items(body), body, "12ab", past=past)
    assert media == [
        MediaPart("image", "https://x.y/z.png", "items[0].output[0].image_url", options=MediaOptions(detail="auto")),
        MediaPart("image", "data:,", "items[1].content[0].image_url", options=MediaOptions(detail="auto")),
    ]
