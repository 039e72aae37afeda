"""Whatever arrives, `parse` gives a call that the wire can carry, or says what is wrong."""

import copy
import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from orchard.core.errors import OrchardError
from orchard.core.request import Request
from orchard.core.tasks.generate import generate_task
from orchard.dialects.anthropic.errors import anthropic_error_answer
from orchard.dialects.anthropic.messages.parse import parse, parse_count
from orchard.dialects.anthropic.messages.schema import BODY
from tests.support.crossing import crossed
from tests.support.examples import examples

SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.integers(2**62, 2**70),
    st.floats(),
    st.text(max_size=8),
    st.sampled_from(["user", "assistant", "system", "text", "image", "document", "tool_use", "tool_result", "toolu_1"]),
    st.sampled_from(["auto", "any", "tool", "enabled", "base64", "url", "x-anthropic-billing-header: x", "2026-01-31"]),
)
FIELD_NAMES = st.sampled_from(
    [*BODY.schema()["properties"], "role", "content", "type", "source", "text", "name", "input", "tool_use_id", "id"]
)
JSON = st.recursive(
    SCALARS,
    lambda children: st.one_of(
        st.lists(children, max_size=3),
        st.dictionaries(st.one_of(FIELD_NAMES, st.text(max_size=4)), children, max_size=4),
    ),
    max_leaves=12,
)
CACHED = {"type": "ephemeral", "ttl": "1h"}
# What a coding agent sends, shortened.
REAL: dict[str, Any] = {
    "model": "demo",
    "max_tokens": 32000,
    "stream": True,
    "system": [
        {"type": "text", "text": "x-anthropic-billing-header: cc_version=2.1.62; cch=0a1b2;"},
        {"type": "text", "text": "You are a coding agent.\nToday's date is 2026-01-31.", "cache_control": CACHED},
    ],
    "messages": [
        {"role": "user", "content": "Hi"},
        {"role": "system", "content": "<total_tokens>15000000 tokens left</total_tokens>"},
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "Hm.", "signature": ""},
                {"type": "redacted_thinking", "data": "xyz"},
                {"type": "text", "text": "Let me see."},
                {"type": "tool_use", "id": "toolu_1", "name": "look_up", "input": {"word": "x"}},
            ],
        },
        {
            "role": "user",
            "content": [
                {
                    "type": "tool_result",
                    "tool_use_id": "toolu_1",
                    "is_error": False,
                    "content": [
                        {"type": "text", "text": "found"},
                        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "QUJD"}},
                    ],
                    "cache_control": CACHED,
                },
                {"type": "text", "text": "Well?"},
                {"type": "document", "title": "Tale", "source": {"type": "text", "data": "Once."}},
                {"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": "QUJD"}},
                {"type": "document", "source": {"type": "url", "url": "https://x.test/a.pdf"}},
                {"type": "search_result", "source": "s", "title": "t", "content": [{"type": "text", "text": "r"}]},
            ],
        },
        {"role": "assistant", "content": "The answer is"},
    ],
    "tools": [
        {
            "name": "look_up",
            "description": "Looks up.",
            "strict": True,
            "input_schema": {"$schema": "x", "type": "object", "properties": {"word": {"type": "string"}}},
            "defer_loading": True,
        },
        {"type": "bash_20250124", "name": "bash"},
        {"type": "web_search_20250305", "name": "web_search"},
    ],
    "tool_choice": {"type": "auto", "disable_parallel_tool_use": True},
    "thinking": {"type": "enabled", "budget_tokens": 32000, "display": "summarized"},
    "stop_sequences": ["x"],
    "temperature": 1.0,
    "top_p": 0.9,
    "top_k": 5,
    "metadata": {"user_id": "u"},
    "context_management": {"edits": [{"type": "clear_thinking_20251015"}, {"type": "compact_20260112"}]},
    "context_overflow": "summarize",
    "output_config": {"effort": "high", "format": {"type": "json_schema", "schema": {"type": "object"}}},
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


def outcome_of(body: bytes, *, count: bool) -> Request | OrchardError:
    try:
        return parse_count(body, "request") if count else parse(body, "request").request
    except OrchardError as error:
        return error


def check(body: bytes) -> None:
    counted, outcome = outcome_of(body, count=True), outcome_of(body, count=False)
    if isinstance(outcome, OrchardError):
        assert outcome.kind in ("invalid_request", "response_not_found")
        assert outcome.message
        assert json.loads(anthropic_error_answer(outcome, "request")[2])["error"]["type"] in (
            "invalid_request_error",
            "not_found_error",
        )
        assert isinstance(counted, OrchardError)
        assert counted.message == outcome.message
        return
    assert crossed(outcome) == outcome
    assert generate_task(outcome).messages
    assert isinstance(counted, Request)


def test_the_real_body_is_good() -> None:
    assert len(generate_task(parse(json.dumps(REAL).encode(), "request").request).messages) == 7


@examples(200)
@given(st.binary(max_size=200))
def test_any_bytes(body: bytes) -> None:
    check(body)


@examples(200)
@given(st.one_of(JSON, st.dictionaries(FIELD_NAMES, JSON, max_size=5)))
def test_any_json(value: Any) -> None:
    check(json.dumps(value).encode())
    check(json.dumps(value, ensure_ascii=False).encode(errors="surrogatepass"))


@examples(600)
@given(mutated())
def test_a_real_body_with_something_wrong(value: dict[str, Any]) -> None:
    check(json.dumps(value).encode())
