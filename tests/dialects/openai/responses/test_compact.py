"""Compaction: what is asked for, what comes back, and how it is read when it is sent again."""

import base64
import json
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from openai.types.responses import CompactedResponse

from orchard.core.errors import OrchardError
from orchard.core.events import Usage
from orchard.core.tasks.generate import TextPart, generate_task, summary_message
from orchard.dialects.openai.responses.call import ResponseCall
from orchard.dialects.openai.responses.encode import compaction_body
from orchard.dialects.openai.responses.parse import parse as read
from orchard.dialects.openai.responses.parse import parse_compact as read_compact
from orchard.dialects.openai.responses.seal import seal, unseal
from orchard.dialects.openai.responses.stored import check_items, parse_added_items, parse_conversation

KEY, OTHER = b"k" * 32, b"o" * 32
OPEN = partial(unseal, key=KEY)


def item(sealed: str) -> dict[str, Any]:
    return {"type": "compaction", "id": "cmp_1", "encrypted_content": sealed}


def asked(*items: dict[str, Any], **fields: Any) -> bytes:
    return json.dumps({"model": "m", "input": list(items), **fields}).encode()


def call_of(*items: dict[str, Any]) -> ResponseCall:
    return read(asked(*items)).make_call("req_1", unseal=OPEN)


@given(st.text())
def test_a_summary_comes_back_as_it_was(summary: str) -> None:
    assert unseal(seal(summary, KEY), KEY) == summary
    assert unseal(seal(summary, KEY), OTHER) is None


@given(st.integers(0, 10_000), st.integers(0, 7))
def test_a_summary_of_which_one_bit_was_altered_is_none(place: int, bit: int) -> None:
    mark, _, content = seal("They said hi.", KEY).rpartition(":")
    altered = bytearray(base64.b64decode(content))
    altered[place % len(altered)] ^= 1 << bit
    assert unseal(f"{mark}:{base64.b64encode(altered).decode()}", KEY) is None


@pytest.mark.parametrize("sealed", ["", "abc", "gAAAAABo", "orchard-compaction-1:", "orchard-compaction-1:%", "ü"])
def test_what_is_no_summary_of_ours(sealed: str) -> None:
    assert unseal(sealed, KEY) is None
    with pytest.raises(OrchardError) as caught:
        call_of({"role": "user", "content": "Hi"}, item(sealed))
    assert (caught.value.kind, caught.value.param) == ("invalid_request", "input[1].encrypted_content")


def test_a_mark_is_part_of_what_is_signed() -> None:
    content = seal("They said hi.", KEY).partition(":")[2]
    assert unseal(content, KEY) is None


def test_a_compaction_is_read_as_its_summary() -> None:
    messages = generate_task(
        call_of({"role": "user", "content": "Hi"}, item(seal("They said hi.", KEY))).request
    ).messages
    assert messages[1] == summary_message("They said hi.")
    (part,) = messages[1].parts
    assert isinstance(part, TextPart)
    assert part.text.endswith("\n\nThey said hi.")


def test_a_conversation_takes_no_altered_compaction() -> None:
    good, bad = ({"items": [item(seal("They said hi.", key))]} for key in (KEY, OTHER))
    assert parse_conversation(json.dumps(good).encode(), "12ab", OPEN)[1] == good["items"]
    body = json.dumps(good).encode()
    assert check_items(parse_added_items(body), body, "12ab", OPEN)[0] == good["items"]
    body = json.dumps(bad).encode()
    for reading in (
        lambda: parse_conversation(body, "12ab", OPEN),
        lambda: check_items(parse_added_items(body), body, "1", OPEN),
    ):
        with pytest.raises(OrchardError) as caught:
            reading()
        assert caught.value.param == "items[0].encrypted_content"


def test_a_stored_compaction_of_a_lost_key_is_passed_over() -> None:
    past = [json.dumps(item(seal("They said hi.", OTHER))).encode()]
    call = read(asked({"role": "user", "content": "Hi"})).make_call("req_1", None, past, unseal=OPEN)
    assert len(generate_task(call.request).messages) == 1


def test_the_answer_has_what_others_said_and_then_the_compaction() -> None:
    items = [
        {"role": "developer", "content": "Be brief."},
        {"role": "user", "content": "one"},
        item(seal("Earlier.", KEY)),
        {"role": "assistant", "content": "two"},
        {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c", "output": "x"},
    ]
    past = [json.dumps({"id": "msg_0", "type": "message", "role": "user", "content": []}).encode()]
    call = read_compact(asked(*items, instructions="Mind the numbers.")).make_call("req_12ab", None, past, unseal=OPEN)
    answer = json.loads(compaction_body(call, past, "They counted.", Usage(7, 5), KEY))
    CompactedResponse.construct(**answer)  # as the SDK does: it has no type for what a user said in an output
    assert (answer["id"], answer["object"]) == ("resp_12ab", "response.compaction")
    *kept, last = answer["output"]
    assert [(one["type"], one["role"], one["id"]) for one in kept] == [
        ("message", "user", "msg_0"),
        ("message", "developer", "msg_12abi00"),
        ("message", "user", "msg_12abi01"),
    ]
    assert kept[2]["content"] == [{"type": "input_text", "text": "one"}]
    assert (last["type"], last["id"]) == ("compaction", "cmp_12ab00")
    assert unseal(last["encrypted_content"], KEY) == "They counted."
    assert (answer["usage"]["input_tokens"], answer["usage"]["output_tokens"]) == (7, 5)
    assert generate_task(call.request).messages[0].role == "system"


@pytest.mark.parametrize(
    ("fields", "param"),
    [({}, "input"), ({"input": 1}, "input"), ({"input": [{"type": "x"}]}, "input[0].type"), ({"model": ""}, "model")],
)
def test_what_cannot_be_compacted(fields: dict[str, Any], param: str) -> None:
    with pytest.raises(OrchardError) as caught:
        read_compact(json.dumps({"model": "m"} | fields).encode())
    assert caught.value.param == param


def test_the_model_may_be_clear_without_being_named() -> None:
    assert read_compact(b'{"input": "Hi"}', "only").body.model == "only"
