"""What a chat's body becomes, and what is refused."""

import json
from typing import Any

import pytest

from orchard.core.errors import OrchardError
from orchard.core.media import MediaPart
from orchard.core.tasks.generate import (
    Generate,
    Message,
    ReasoningPart,
    TextPart,
    ToolCallPart,
    ToolResultPart,
    generate_task,
)
from orchard.dialects.ollama.chat.encode import OllamaChatCall
from orchard.dialects.ollama.chat.parse import parse

USER = {"role": "user", "content": "Hi"}
CALL = {"function": {"name": "add", "arguments": {"a": 1}}}


def make_call(**fields: Any) -> OllamaChatCall:
    return parse(json.dumps({"model": "demo", "messages": [USER], **fields}).encode(), "req_1")


def task(**fields: Any) -> Generate:
    return generate_task(make_call(**fields).request)


def test_a_plain_chat() -> None:
    call = make_call()
    assert call.request.model == call.model == "demo"
    assert call.stream
    assert not call.only_loads
    assert call.request.overflow == "drop"
    assert generate_task(call.request) == Generate(messages=(Message("user", (TextPart("Hi"),)),))


def test_fields() -> None:
    found = task(
        options={"num_predict": 5, "num_ctx": 2048, "stop": ["x"], "no_such_option": 1},
        think=True,
        logprobs=True,
        top_logprobs=3,
        format="json",
    )
    assert (found.max_tokens, found.window, found.stop, found.top_logprobs) == (5, 2048, ("x",), 3)
    assert found.template_args == {"enable_thinking": True}
    assert found.grammar
    assert make_call(stream=False, truncate=False).request.overflow == "error"
    assert make_call(keep_alive="5m").request.ttl == 300
    assert make_call(keep_alive=0).request.ttl == 0
    assert task(think=False).hide_reasoning


@pytest.mark.parametrize("name", ["hf.co/Org/Name", "huggingface.co/Org/Name:latest"])
def test_names_of_the_hub(name: str) -> None:
    call = make_call(model=name)
    assert (call.request.model, call.model) == ("Org/Name", name)


def test_no_messages_only_load_the_model() -> None:
    assert make_call(messages=[]).only_loads
    assert make_call(messages=None).only_loads


def test_a_conversation_with_tools_and_images() -> None:
    messages = [
        {"role": "system", "content": "Be brief."},
        {**USER, "images": ["QUJD"]},
        {"role": "assistant", "content": "", "thinking": "Hm.", "tool_calls": [CALL, CALL]},
        {"role": "tool", "tool_name": "add", "content": "2"},
        {"role": "tool", "content": "3"},
    ]
    system, user, assistant, first, second = task(messages=messages).messages
    assert system == Message("system", (TextPart("Be brief."),))
    assert isinstance(user.parts[0], MediaPart)
    assert assistant.parts[0] == ReasoningPart("Hm.")
    one, two = assistant.parts[1:]
    assert isinstance(one, ToolCallPart)
    assert isinstance(two, ToolCallPart)
    assert (one.name, one.arguments) == ("add", '{"a":1}')
    assert one.id != two.id
    assert first.parts == (ToolResultPart(one.id, (TextPart("2"),)),)
    assert second.parts == (ToolResultPart(two.id, (TextPart("3"),)),)


def test_results_may_name_their_calls() -> None:
    calls = [{**CALL, "id": "a"}, {"id": "b", "function": {"name": "sub"}}]
    messages = [
        USER,
        {"role": "assistant", "tool_calls": calls},
        {"role": "tool", "tool_call_id": "b", "content": "x"},
        {"role": "tool", "tool_name": "add", "content": "y"},
    ]
    found = [message.parts[0] for message in task(messages=messages).messages[2:]]
    assert [part.call_id for part in found if isinstance(part, ToolResultPart)] == ["b", "a"]


def test_a_last_message_of_the_assistant_goes_on() -> None:
    assert task(messages=[USER, {"role": "assistant", "content": "The"}]).continue_last
    assert not task(messages=[USER, {"role": "assistant", "tool_calls": [CALL]}]).continue_last


def test_the_range_of_a_number_is_written_without_a_fraction() -> None:
    with pytest.raises(OrchardError, match=r"`options.num_ctx` must be a number from 1 to 2147483647, got a string\."):
        make_call(options={"num_ctx": "x"})


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"messages": [{"role": "tool", "content": "x"}]}, "messages[0]"),
        ({"messages": [{"role": "judge", "content": "x"}]}, "messages[0].role"),
        ({"messages": [{**USER, "tool_calls": [CALL]}]}, "messages[0].tool_calls"),
        ({"messages": [{"role": "assistant", "images": ["QUJD"]}]}, "messages[0].images"),
        ({"top_logprobs": 2}, "top_logprobs"),
        ({"options": {"temperature": -1}}, "options.temperature"),
        ({"options": {"num_ctx": 0}}, "options.num_ctx"),
        ({"options": {"mirostat": 2}}, "options.mirostat"),
        ({"format": "xml"}, "format"),
        ({"think": "wild"}, "think"),
        ({"keep_alive": "soon"}, "keep_alive"),
        ({"tools": [{"function": {"name": "no way"}}]}, "tools[0].function.name"),
        ({"model": ""}, "model"),
    ],
)
def test_what_is_refused(fields: dict[str, Any], param: str) -> None:
    with pytest.raises(OrchardError) as caught:
        make_call(**fields)
    assert (caught.value.kind, caught.value.param) == ("invalid_request", param)
