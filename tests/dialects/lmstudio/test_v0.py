"""What LM Studio's API adds to OpenAI's answers."""

import json
import time
from typing import Any

import pytest

from orchard.core.events import Collected, Finished, FinishReason, Text, Usage
from orchard.core.tasks.generate import Generate
from orchard.dialects.lmstudio.models import LMStudioModel
from orchard.dialects.lmstudio.v0 import AddedFields, AddingEncoder, list_entry_v0
from orchard.dialects.openai.chat.encode import ChatEncoder
from tests.dialects.openai.chat.test_encode import make_call

MODEL = LMStudioModel(
    name="org/name",
    kind="llm",
    publisher="org",
    architecture="qwen3",
    quantization="4bit",
    context_window=4096,
    size_bytes=2_000,
    parameters=4_000_000_000,
    instance="org/name",
    capabilities=["tools"],
)


def added(max_tokens: int | None = None) -> AddedFields:
    return AddedFields(MODEL, Generate(max_tokens=max_tokens), time.monotonic() - 10)


def finished(reason: FinishReason = "stop", **fields: Any) -> Finished:
    return Finished((reason,), Usage(5, 8), **{"first_token_seconds": {"decode": 1.0}, "later_seconds": 3.0, **fields})


def statistics(end: Finished, max_tokens: int | None = None) -> Any:
    body = added(max_tokens).complete(b'{"id":"a"}', Collected([], end.usage, end=end))
    return json.loads(body)["stats"]


def test_a_whole_answer() -> None:
    body = json.loads(added().complete(b'{"id":"a"}', Collected([], Usage(5, 8), end=finished())))
    assert list(body) == ["id", "stats", "model_info", "runtime"]
    assert body["model_info"] == {"arch": "qwen3", "quant": "4bit", "format": "mlx", "context_length": 4096}
    assert body["runtime"]["supported_formats"] == ["mlx"]
    assert (body["stats"]["tokens_per_second"], body["stats"]["generation_time"]) == (2.0, 4.0)
    assert body["stats"]["time_to_first_token"] == pytest.approx(7, abs=1)


def test_without_times_of_parts_only_the_whole_is_known() -> None:
    found = statistics(finished(first_token_seconds={}, later_seconds=0.0))
    assert found["time_to_first_token"] is None
    assert found["generation_time"] == pytest.approx(10, abs=1)


@pytest.mark.parametrize(
    ("end", "max_tokens", "reason"),
    [
        (finished(), None, "eosFound"),
        (finished(stops=("x",)), None, "stopStringFound"),
        (finished("length"), 8, "maxPredictedTokensReached"),
        (finished("length"), 9, "contextLengthReached"),
        (finished("length"), None, "contextLengthReached"),
        (finished("tool_calls"), None, "toolCalls"),
    ],
)
def test_why_it_ended(end: Finished, max_tokens: int | None, reason: str) -> None:
    assert statistics(end, max_tokens)["stop_reason"] == reason


@pytest.mark.parametrize("fields", [{}, {"stream_options": {"include_usage": True}}])
def test_the_last_chunk_of_a_stream_has_the_fields(fields: dict[str, Any]) -> None:
    call = make_call(stream=True, **fields)
    encoder = AddingEncoder(ChatEncoder(call), added())
    written = encoder.encode([Text("Hi")]) + encoder.encode([]) + encoder.encode([Text("!"), finished()])
    *chunks, done = [line.removeprefix("data: ") for line in written.decode().split("\n\n") if line]
    assert done == "[DONE]"
    assert ["stats" in json.loads(chunk) for chunk in chunks] == [False] * (len(chunks) - 1) + [True]


def test_descriptions() -> None:
    assert list_entry_v0(MODEL) == {
        "id": "org/name",
        "object": "model",
        "type": "llm",
        "publisher": "org",
        "arch": "qwen3",
        "compatibility_type": "mlx",
        "quantization": "4bit",
        "state": "loaded",
        "max_context_length": 4096,
        "loaded_context_length": 4096,
        "capabilities": ["tool_use"],
    }
