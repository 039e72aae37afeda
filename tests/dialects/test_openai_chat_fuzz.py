"""Whatever arrives, `parse` gives a call that the wire can carry, or says in OpenAI's words what is wrong."""

import copy
import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from orchard import wire
from orchard.core.errors import OrchardError
from orchard.dialects.openai_chat import ChatCall, body_schema, parse

SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.integers(2**62, 2**70),
    st.floats(),
    st.text(max_size=8),
    st.sampled_from(["user", "assistant", "tool", "auto", "none", "text", "function", "call_1", "look_up"]),
)
FIELD_NAMES = st.sampled_from(
    [*body_schema()["properties"], "role", "content", "type", "function", "name", "arguments", "parameters", "id"]
)
JSON = st.recursive(
    SCALARS,
    lambda children: st.one_of(
        st.lists(children, max_size=3),
        st.dictionaries(st.one_of(FIELD_NAMES, st.text(max_size=4)), children, max_size=4),
    ),
    max_leaves=12,
)
REAL: dict[str, Any] = {
    "model": "demo",
    "messages": [
        {"role": "system", "content": [{"type": "text", "text": "Be brief."}]},
        {"role": "user", "content": "Hi", "name": "Ann"},
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
    "tool_choice": "auto",
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
    "logprobs": True,
    "top_logprobs": 2,
    "stream": True,
    "stream_options": {"include_usage": True},
    "reasoning_effort": "low",
    "chat_template_kwargs": {"a": 1},
    "response_format": {"type": "text"},
    "modalities": ["text"],
}


def places(value: Any) -> list[tuple[Any, Any]]:
    """Every (container, key) of a JSON value."""
    keys: list[Any] = []
    if isinstance(value, dict):
        keys = list(value)
    elif isinstance(value, list):
        keys = list(range(len(value)))
    return [(value, key) for key in keys] + [place for key in keys for place in places(value[key])]


PLACES = len(places(REAL))


@st.composite
def mutated(draw: st.DrawFn) -> dict[str, Any]:
    body = copy.deepcopy(REAL)
    for _ in range(draw(st.integers(1, 3))):
        here = places(body)
        container, key = here[draw(st.integers(0, PLACES)) % len(here)]
        if draw(st.booleans()):
            del container[key]
        else:
            container[key] = draw(JSON)
    return body


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
    frame = wire.encode(wire.Submit(outcome.request))
    assert wire._decoder.decode(frame[4:]) == wire.Submit(outcome.request)
    assert outcome.encoder().encode([]) == b""


def test_the_real_body_is_good() -> None:
    parse(json.dumps(REAL).encode(), "request")


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=200))
def test_any_bytes(body: bytes) -> None:
    check(body)


@settings(max_examples=300, deadline=None)
@given(st.one_of(JSON, st.dictionaries(FIELD_NAMES, JSON, max_size=5)))
def test_any_json(value: Any) -> None:
    check(json.dumps(value).encode())
    check(json.dumps(value, ensure_ascii=False).encode(errors="surrogatepass"))


@settings(max_examples=600, deadline=None)
@given(mutated())
def test_a_real_body_with_something_wrong(value: dict[str, Any]) -> None:
    check(json.dumps(value).encode())


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_a_real_body_with_broken_bytes(data: st.DataObject) -> None:
    body = bytearray(json.dumps(REAL).encode())
    for _ in range(data.draw(st.integers(1, 4))):
        body[data.draw(st.integers(0, len(body) - 1))] = data.draw(st.integers(0, 255))
    check(bytes(body))
