"""Speculation, turned off by a request of each dialect, and the answer that a chat request predicts."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from orchard.core.errors import OrchardError
from orchard.core.tasks.generate import Generate, generate_task
from orchard.dialects.anthropic.messages import parse as anthropic_messages
from orchard.dialects.openai.chat import parse as openai_chat
from orchard.dialects.openai.completions import parse as openai_completions
from orchard.dialects.openai.responses import parse as openai_responses

SAID = [{"role": "user", "content": "Hi"}]


def body(**fields: Any) -> bytes:
    return json.dumps({"model": "m", **fields}).encode()


def chat(**fields: Any) -> Generate:
    return generate_task(openai_chat.parse(body(messages=SAID, **fields), "req_1").request)


def messages(**fields: Any) -> Generate:
    return generate_task(anthropic_messages.parse(body(messages=SAID, **fields), "req_1").request)


def completions(**fields: Any) -> Generate:
    return generate_task(openai_completions.parse(body(prompt="Hi", **fields), "req_1").requests[0])


def responses(**fields: Any) -> Generate:
    return generate_task(openai_responses.parse(body(input="Hi", **fields)).make_call("req_1").request)


@pytest.mark.parametrize("ask", [chat, messages, completions, responses])
def test_a_request_may_turn_speculation_off(ask: Callable[..., Generate]) -> None:
    assert ask().speculates
    assert ask(speculation=True).speculates
    assert ask(speculation=None).speculates
    assert not ask(speculation=False).speculates
    with pytest.raises(OrchardError) as caught:
        ask(speculation="off")
    assert caught.value.param == "speculation"


@pytest.mark.parametrize(
    "content", ["a file", [{"type": "text", "text": "a "}, {"type": "text", "text": "file"}]], ids=["text", "parts"]
)
def test_a_prediction_is_text(content: Any) -> None:
    assert chat(prediction={"type": "content", "content": content}).prediction == "a file"
    assert chat().prediction == ""


@pytest.mark.parametrize(
    ("prediction", "param"),
    [
        ("a file", "prediction"),
        ({"type": "file", "content": "a file"}, "prediction.type"),
        ({"type": "content"}, "prediction.content"),
        ({"type": "content", "content": 1}, "prediction.content"),
        ({"type": "content", "content": [{"type": "image_url", "text": "x"}]}, "prediction.content[0].type"),
        ({"type": "content", "content": [{"type": "text"}]}, "prediction.content[0].text"),
    ],
)
def test_a_wrong_prediction_is_named(prediction: Any, param: str) -> None:
    with pytest.raises(OrchardError) as caught:
        chat(prediction=prediction)
    assert caught.value.param == param
