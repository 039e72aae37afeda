"""Chats of LM Studio's version 1 become responses, and errors have this API's names of fields."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchard.core.errors import OrchardError
from orchard.core.media import MediaPart
from orchard.core.request import Request
from orchard.core.tasks.generate import Generate, TextPart, generate_task
from orchard.dialects.lmstudio.chat.encode import LMStudioChat
from orchard.dialects.lmstudio.chat.parse import parse
from orchard.dialects.lmstudio.errors import lmstudio_error_answer, rename_field
from orchard.dialects.openai.responses import parse as responses_parse
from tests.support.crossing import crossed
from tests.support.examples import examples
from tests.support.mutation import json_values, mutated

IMAGE = "data:image/png;base64,QUJD"
BODY: dict[str, Any] = {
    "model": "demo",
    "input": [{"type": "message", "content": "Look:"}, {"type": "image", "data_url": IMAGE}],
    "system_prompt": "Be brief.",
    "stream": True,
    "store": True,
    "previous_response_id": "resp_1",
    "temperature": 0.7,
    "top_p": 0.9,
    "top_k": 20,
    "min_p": 0.1,
    "repeat_penalty": 1.1,
    "max_output_tokens": 50,
    "reasoning": "low",
    "context_length": 2048,
}


def read(**fields: Any) -> LMStudioChat:
    return parse(json.dumps({"model": "demo", "input": "Hi", **fields}).encode())


def task_of(chat: LMStudioChat) -> Generate:
    call = responses_parse.parse(chat.response_body).make_call("req_1")
    limited = chat.limit(call.request)
    assert limited.overflow == "drop"
    return generate_task(limited)


def test_every_field_arrives() -> None:
    chat = parse(json.dumps(BODY).encode())
    assert (chat.stream, chat.stored, chat.thinks) == (True, True, True)
    draft = responses_parse.parse(chat.response_body)
    assert (draft.body.previous_response_id, draft.body.store, draft.body.stream) == ("resp_1", True, True)
    task = task_of(chat)
    system, said = task.messages
    assert (system.role, system.parts) == ("system", (TextPart("Be brief."),))
    assert [type(part) for part in said.parts] == [TextPart, MediaPart]
    assert (task.window, task.max_tokens, task.hide_reasoning) == (2048, 50, False)
    sampling = task.sampling
    assert (sampling.temperature, sampling.top_p, sampling.top_k, sampling.min_p) == (0.7, 0.9, 20, 0.1)
    assert sampling.repetition_penalty == 1.1
    assert task.template_args == {"reasoning_effort": "low", "enable_thinking": True}


def test_defaults_are_a_stored_answer_that_is_not_streamed() -> None:
    chat = read(store=None)
    assert (chat.stream, chat.stored, chat.window, chat.thinks) == (False, True, None, False)
    assert not read(store=False).stored


@pytest.mark.parametrize(("word", "thinks"), [("off", False), ("on", True)])
def test_thinking_is_turned_on_or_off(word: str, thinks: bool) -> None:
    task = task_of(read(reasoning=word))
    assert task.template_args == {"enable_thinking": thinks}
    assert task.hide_reasoning is not thinks


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"input": None}, "input"),
        ({"input": []}, "input"),
        ({"input": [{"type": "text", "content": "x"}]}, "input[0].type"),
        ({"input": [{"type": "message"}]}, "input[0].content"),
        ({"input": [{"type": "image"}]}, "input[0].data_url"),
        ({"input": [{"type": "image", "data_url": "https://example.org/a.png"}]}, "input[0].data_url"),
        ({"integrations": ["mcp/playwright"]}, "integrations"),
        ({"previous_response_id": "thread_1"}, "previous_response_id"),
        ({"reasoning": "max"}, "reasoning"),
        ({"temperature": 3}, "temperature"),
        ({"context_length": 0}, "context_length"),
        ({"context_length": True}, "context_length"),
        ({"max_output_tokens": "5"}, "max_output_tokens"),
    ],
)
def test_what_is_wrong_is_named(fields: dict[str, Any], param: str) -> None:
    with pytest.raises(OrchardError) as caught:
        read(**fields)
    assert caught.value.param == param
    status, _, body = lmstudio_error_answer(caught.value)
    told = json.loads(body)["error"]
    assert (status, told["type"], told["code"], told["param"]) == (400, "invalid_request", "invalid_request", param)


def test_no_integrations_are_allowed() -> None:
    assert read(integrations=[]) == read()


@given(st.data())
@examples(200)
def test_whatever_arrives_is_read_or_refused(data: st.DataObject) -> None:
    body = data.draw(mutated(BODY, json_values(["type", "content", "data_url"])))
    found = outcome_of(json.dumps(body).encode())
    if isinstance(found, OrchardError):
        assert found.kind == "invalid_request"
        assert found.param is None or found.param.split("[")[0].split(".")[0] in BODY
    else:
        crossed(found)


def outcome_of(body: bytes) -> Request | OrchardError:
    try:
        chat = parse(body)
        return chat.limit(responses_parse.parse(chat.response_body).make_call("req_1").request)
    except OrchardError as error:
        return rename_field(error)
