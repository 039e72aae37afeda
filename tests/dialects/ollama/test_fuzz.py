"""Whatever arrives, the parsers give calls that the wire can carry, or say what is wrong."""

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
from tests.support.mutation import json_values, mutated

VALUES = st.one_of(
    json_values(["role", "content", "function", "name", "arguments"]),
    st.sampled_from(["json", "high", "5m", "-1", "QUJD", 8192.0, -1, 0]),
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


@pytest.mark.parametrize(("real", "parse"), KINDS, ids=["chat", "generate", "embed", "embeddings"])
@examples(500)
@given(data=st.data())
def test_any_body(real: dict[str, Any], parse: Callable[[bytes, str], Any], data: st.DataObject) -> None:
    body = json.dumps(data.draw(mutated(real, VALUES))).encode()
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
