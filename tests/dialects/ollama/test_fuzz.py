"""Whatever arrives, the parsers give calls that the wire can carry, or say what is wrong."""

import copy
import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchard.core.errors import OrchardError
from orchard.core.request import Request
from orchard.core.tasks.generate import Generate
from orchard.dialects.ollama import embed
from orchard.dialects.ollama.chat.parse import parse as parse_chat
from orchard.dialects.ollama.errors import ollama_error_answer
from orchard.dialects.ollama.generate.parse import parse as parse_generate
from tests.support.crossing import crossed
from tests.support.examples import examples

VALUES = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(),
        st.integers(2**62, 2**70),
        st.floats(),
        st.text(max_size=8),
        st.sampled_from(["user", "assistant", "tool", "json", "high", "5m", "-1", "QUJD", 8192.0, -1, 0]),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(
            st.one_of(st.sampled_from(["role", "content", "function", "name", "arguments"]), st.text(max_size=4)),
            inner,
            max_size=4,
        ),
    ),
    max_leaves=12,
)
SHARED: dict[str, Any] = {
    "model": "demo",
    "stream": True,
    "keep_alive": "5m",
    "think": "low",
    "format": {"type": "object", "properties": {"a": {"type": "integer"}}},
    "logprobs": True,
    "top_logprobs": 2,
    "truncate": True,
    "options": {
        "temperature": 0.8,
        "top_k": 20,
        "repeat_last_n": 33,
        "repeat_penalty": 1.2,
        "typical_p": 1.0,
        "mirostat": 0,
        "seed": 42,
        "stop": ["\n", "user:"],
        "num_ctx": 1024,
        "num_predict": 100,
        "numa": False,
    },
}
CHAT: dict[str, Any] = {
    **SHARED,
    "messages": [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Hi", "images": ["QUJD"]},
        {"role": "assistant", "thinking": "Hm.", "tool_calls": [{"function": {"name": "f", "arguments": {"a": 1}}}]},
        {"role": "tool", "tool_name": "f", "content": "1"},
    ],
    "tools": [{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}],
}
GENERATE: dict[str, Any] = {
    **SHARED,
    "prompt": "Hi",
    "system": "Be brief.",
    "images": ["QUJD"],
    "context": [20306, 3, 1, 2],
    "raw": False,
    "suffix": "",
}
EMBED: dict[str, Any] = {**SHARED, "input": ["a", "b"], "dimensions": 4, "prompt": "x"}
KINDS: list[tuple[dict[str, Any], Callable[[bytes, str], Any]]] = [
    (CHAT, parse_chat),
    (GENERATE, parse_generate),
    (EMBED, embed.parse),
    (EMBED, embed.parse_old),
]


def places(value: Any) -> list[tuple[Any, Any]]:
    """Every (container, key) of a JSON value."""
    keys: list[Any] = list(value) if isinstance(value, dict) else list(range(len(value or ())))
    inner = [key for key in keys if isinstance(value[key], dict | list)]
    return [(value, key) for key in keys] + [place for key in inner for place in places(value[key])]


@st.composite
def mutated(draw: st.DrawFn, real: dict[str, Any]) -> dict[str, Any]:
    body = copy.deepcopy(real)
    for _ in range(draw(st.integers(1, 3))):
        here = places(body)
        container, key = here[draw(st.integers(0, 10_000)) % len(here)]
        if draw(st.booleans()):
            del container[key]
        else:
            container[key] = draw(VALUES)
    return body


@pytest.mark.parametrize(("real", "parse"), KINDS, ids=["chat", "generate", "embed", "embeddings"])
@examples(500)
@given(data=st.data())
def test_any_body(real: dict[str, Any], parse: Callable[[bytes, str], Any], data: st.DataObject) -> None:
    body = json.dumps(data.draw(mutated(real))).encode()
    found = outcome_of(parse, body)
    if isinstance(found, OrchardError):
        status, _, told = ollama_error_answer(found)
        assert (found.kind, status) == ("invalid_request", 400)
        assert list(json.loads(told)) == ["error"]
    elif isinstance(found.task, Generate):
        assert crossed(found).task == found.task


def outcome_of(parse: Callable[[bytes, str], Any], body: bytes) -> Request | OrchardError:
    try:
        request: Request = parse(body, "request").request
    except OrchardError as error:
        return error
    return request
