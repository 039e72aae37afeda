"""Whatever arrives, `parse` gives a call that the wire can carry, or says in OpenAI's words what is wrong."""

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from orchard.core.errors import OrchardError
from orchard.dialects.openai.chat.encode import ChatCall, ChatEncoder
from orchard.dialects.openai.chat.parse import parse
from orchard.dialects.openai.chat.schema import BODY
from tests.support.crossing import crossed
from tests.support.examples import examples
from tests.support.mutation import json_values, mutated

FIELD_NAMES = [
    *BODY.schema()["properties"],
    "role",
    "content",
    "type",
    "function",
    "name",
    "arguments",
    "parameters",
    "id",
]
JSON = json_values(FIELD_NAMES)
REAL: dict[str, Any] = {
    "model": "demo",
    "messages": [
        {"role": "system", "content": [{"type": "text", "text": "Be brief."}]},
        {"role": "user", "content": "Hi", "name": "Ann"},
        {
            "role": "user",
            "content": [
                {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA==", "detail": "high"}},
                {"type": "input_audio", "input_audio": {"data": "AA==", "format": "wav"}},
                {"type": "video_url", "video_url": {"url": "https://x.test/a.mp4"}},
                {"type": "file", "file": {"file_data": "JVBERi0=", "filename": "a.pdf"}},
            ],
        },
        {
            "role": "assistant",
            "content": None,
            "reasoning_content": "Hm.",
            "tool_calls": [
                {"id": "call_1", "type": "function", "function": {"name": "look_up", "arguments": {"word": "x"}}}
            ],
        },
        {"role": "tool", "tool_call_id": "call_1", "content": "found"},
        {"role": "assistant", "function_call": {"name": "look_up", "arguments": "{}"}},
        {"role": "function", "name": "look_up", "content": "found"},
    ],
    "tools": [
        {
            "type": "function",
            "function": {
                "name": "look_up",
                "description": "Looks up.",
                "strict": True,
                "parameters": {"type": "object", "properties": {"word": {"type": "string"}}},
            },
        }
    ],
    "tool_choice": {
        "type": "allowed_tools",
        "allowed_tools": {"mode": "auto", "tools": [{"type": "function", "function": {"name": "look_up"}}]},
    },
    "max_tokens": 5,
    "temperature": 0.5,
    "top_p": 0.9,
    "top_k": 5,
    "min_p": 0.0,
    "xtc_probability": 0.5,
    "xtc_threshold": 0.1,
    "repetition_context_size": 20,
    "thinking_budget": 100,
    "priority": "interactive",
    "repetition_penalty": 1.0,
    "presence_penalty": 0.0,
    "frequency_penalty": 0.0,
    "logit_bias": {"1": 5},
    "seed": 1,
    "stop": ["x"],
    "n": 1,
    "resize_shape": [224, 448],
    "min_pixels": 9,
    "max_pixels": 99,
    "fps": 0.5,
    "max_frames": 9,
    "logprobs": True,
    "top_logprobs": 2,
    "stream": True,
    "stream_options": {"include_usage": True},
    "reasoning_effort": "low",
    "chat_template_kwargs": {"a": 1},
    "reasoning": {"effort": "low", "max_tokens": 100, "exclude": False},
    "response_format": {"type": "text", "json_schema": {"name": "a", "schema": {"type": "object"}}},
    "modalities": ["text", "audio"],
    "audio": {"voice": {"id": "alloy"}, "format": "pcm16"},
    "context_overflow": "summarize",
}


def outcome_of(body: bytes) -> ChatCall | OrchardError:
    try:
        return parse(body, "request")
    except OrchardError as error:
        return error


def check(body: bytes) -> None:
    outcome = outcome_of(body)
    if isinstance(outcome, OrchardError):
        assert outcome.kind == "invalid_request"
        assert outcome.message
        return
    assert crossed(outcome.request) == outcome.request
    assert ChatEncoder(outcome).encode([]) == b""


def test_the_real_body_is_good() -> None:
    parse(json.dumps(REAL).encode(), "request")


@examples(300)
@given(st.binary(max_size=200))
def test_any_bytes(body: bytes) -> None:
    check(body)


@examples(300)
@given(st.one_of(JSON, st.dictionaries(st.sampled_from(FIELD_NAMES), JSON, max_size=5)))
def test_any_json(value: Any) -> None:
    check(json.dumps(value).encode())
    check(json.dumps(value, ensure_ascii=False).encode(errors="surrogatepass"))


@examples(600)
@given(mutated(REAL, JSON))
def test_a_real_body_with_something_wrong(value: dict[str, Any]) -> None:
    check(json.dumps(value).encode())


@examples(200)
@given(st.data())
def test_a_real_body_with_broken_bytes(data: st.DataObject) -> None:
    body = bytearray(json.dumps(REAL).encode())
    for _ in range(data.draw(st.integers(1, 4))):
        body[data.draw(st.integers(0, len(body) - 1))] = data.draw(st.integers(0, 255))
    check(bytes(body))
