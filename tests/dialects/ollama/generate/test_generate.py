"""Prompts: what bodies become, how answers look, and how a conversation goes on."""

import contextlib
import json
import zlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import msgpack

from orchard.core.errors import OrchardError
from orchard.core.events import Event, Finished, Reasoning, Started, Text, Usage, collect
from orchard.core.media import MediaPart
from orchard.core.tasks.generate import Generate, Message, TextPart, generate_task
from orchard.dialects.ollama.generate.context import MAX_BYTES, read_context, write_context
from orchard.dialects.ollama.generate.encode import GenerateCall, GenerateEncoder
from orchard.dialects.ollama.generate.parse import parse
from tests.support.examples import examples

EVENTS: list[Event] = [Started(5), Reasoning("Hm."), Text("Yes."), Finished(("length",), Usage(5, 7))]
HI = Message("user", (TextPart("Hi"),))


def make_call(**fields: Any) -> GenerateCall:
    return parse(json.dumps({"model": "demo", "prompt": "Hi", **fields}).encode(), "req_1")


def task(**fields: Any) -> Generate:
    return generate_task(make_call(**fields).request)


def context_of(plain: bytes) -> list[int]:
    packed = zlib.compress(plain)
    padded = packed + b"\0" * (-len(packed) % 3)
    return [0x4F52, len(packed), *(int.from_bytes(padded[i : i + 3], "big") for i in range(0, len(padded), 3))]


def test_a_prompt_is_the_message_of_a_user() -> None:
    assert task() == Generate(messages=(HI,))
    found = task(system="Be brief.", images=["QUJD"]).messages
    assert [message.role for message in found] == ["system", "user"]
    assert isinstance(found[1].parts[0], MediaPart)


def test_raw_prompts_and_suffixes() -> None:
    assert task(raw=True, options={"num_ctx": 64}) == Generate(prompt="Hi", window=64)
    assert task(suffix="there") == Generate(prompt="Hi", suffix="there")
    assert make_call(raw=True).request.overflow == "error"


@pytest.mark.parametrize("fields", [{}, {"prompt": ""}, {"prompt": "", "raw": True}, {"prompt": None}])
def test_no_prompt_only_loads_the_model(fields: dict[str, Any]) -> None:
    body = json.dumps({"model": "demo", **fields}).encode()
    assert parse(body, "r").only_loads
    assert json.loads(parse(body, "r").report_load("load"))["done_reason"] == "load"


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"template": "{{ .Prompt }}"}, "template"),
        ({"width": 512}, "width"),
        ({"steps": 4}, "steps"),
        ({"raw": True, "system": "x"}, "system"),
        ({"suffix": "x", "images": ["QUJD"]}, "images"),
        ({"raw": True, "context": [1]}, "context"),
        ({"raw": True, "think": True}, "think"),
        ({"context": [1, 2, 3]}, "context"),
    ],
)
def test_what_is_refused(fields: dict[str, Any], param: str) -> None:
    with pytest.raises(OrchardError) as caught:
        make_call(**fields)
    assert (caught.value.kind, caught.value.param) == ("invalid_request", param)


def test_empty_values_of_what_is_refused_are_none() -> None:
    assert task(template="", width=0, height=0, steps=0) == task()


def test_answers() -> None:
    whole = json.loads(make_call().complete(collect(EVENTS)))
    assert (whole["response"], whole["thinking"], whole["done_reason"]) == ("Yes.", "Hm.", "length")
    encoder = GenerateEncoder(make_call())
    first, second, last = map(json.loads, b"".join(encoder.encode([one]) for one in EVENTS).splitlines())
    assert (first["thinking"], second["response"], last["response"]) == ("Hm.", "Yes.", "")
    assert (second["done"], last["done"], last["eval_count"]) == (False, True, 7)
    assert last["context"] == whole["context"]
    assert "context" not in json.loads(make_call(raw=True).complete(collect(EVENTS)))


def test_a_conversation_goes_on_from_its_context() -> None:
    context = json.loads(make_call(system="Be brief.").complete(collect(EVENTS)))["context"]
    found = task(prompt="And now?", context=context).messages
    texts = [(message.role, *(part.text for part in message.parts if isinstance(part, TextPart))) for message in found]
    assert texts == [("system", "Be brief."), ("user", "Hi"), ("assistant", "Yes."), ("user", "And now?")]
    again = task(system="Be loud.", context=context).messages
    assert [message.role for message in again] == ["system", "user", "assistant", "user"]
    assert again[0].parts == (TextPart("Be loud."),)


@given(st.lists(st.tuples(st.sampled_from(["system", "user", "assistant"]), st.text(max_size=20)), max_size=5))
@examples(200)
def test_a_context_holds_what_was_said(said: list[tuple[Any, str]]) -> None:
    messages = [Message(role, (TextPart(text),) if text else ()) for role, text in said]
    context = write_context(messages, "Yes.")
    assert context
    assert read_context(context) == (*messages, Message("assistant", (TextPart("Yes."),)))


@given(st.lists(st.integers(0, 2**70), max_size=20))
@examples(300)
def test_any_numbers_are_read_or_refused(numbers: list[int]) -> None:
    for context in (numbers, [0x4F52, *numbers], [0x4F52, 3 * len(numbers), *(one % 2**24 for one in numbers)]):
        with contextlib.suppress(OrchardError):
            assert all(message.role for message in read_context(context))


def test_a_bomb_is_refused_before_it_is_unpacked() -> None:
    turns = msgpack.encode([("user", "x" * (2 * MAX_BYTES))])
    with pytest.raises(OrchardError, match="of an earlier answer"):
        read_context(context_of(turns))
    assert read_context(context_of(msgpack.encode([("user", "x")]))) == (Message("user", (TextPart("x"),)),)


def test_a_long_conversation_has_no_context() -> None:
    assert write_context([Message("user", (TextPart("x" * MAX_BYTES),))], "Yes.") is None
    assert write_context([Message("user", (TextPart("ä" * (MAX_BYTES - 100)),))], "Yes.") is None
