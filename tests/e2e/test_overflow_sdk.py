"""Conversations that are too long for the demo model's window, which is made small here, in the official SDKs."""

import json
import shutil
from collections.abc import Iterator
from typing import Any

import pytest
from anthropic import Anthropic
from openai import BadRequestError, OpenAI

from orchard.backends.text.model import load_text_model
from orchard.core.tasks.text_options import TextOptions
from orchard.demo import MODEL_PATH
from orchard.gateway.models.registry import resolve_model
from tests.support.engine_driver import store_calibration
from tests.support.serving import Server, serve

WINDOW = 480
REPLACED = 7
"""Of the conversation's 13 messages; the last six stay."""
HEADER = "x-orchard-summarized-messages"
LAST = "Say this is a test"
SUMMARIZE = {"context_overflow": "summarize"}


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("models") / "small"
    shutil.copytree(MODEL_PATH, folder)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"max_position_embeddings": WINDOW}))
    store_calibration(load_text_model(str(folder)), TextOptions())
    with serve([resolve_model(str(folder))], spare=False) as running:
        running.until("small", state="ready", timeout=60)
        yield running


@pytest.fixture
def client(small: Server) -> Iterator[OpenAI]:
    with OpenAI(base_url=f"{small.url}/v1", api_key="none", max_retries=0, timeout=60) as client:
        yield client


@pytest.fixture
def claude(small: Server) -> Iterator[Anthropic]:
    with Anthropic(base_url=small.url, api_key="none", max_retries=0, timeout=60) as client:
        yield client


def talk(turns: int = 12) -> list[Any]:
    """A conversation of one message more than that. It is always the same, so that its summary is made only once."""
    said = {"user": "Tell me more of the sea, and of what there is to be seen of it.", "assistant": "I do. " * 8}
    roles = [("user", "assistant")[i % 2] for i in range(turns)]
    return [*({"role": role, "content": f"{i}: {said[role]}"} for i, role in enumerate(roles)), user(LAST)]


def user(text: str) -> Any:
    return {"role": "user", "content": text}


def test_it_is_refused_where_nobody_asks_for_more(client: OpenAI) -> None:
    with pytest.raises(BadRequestError, match=f"maximum context length is {WINDOW} tokens") as caught:
        client.chat.completions.create(model="small", messages=talk())
    assert caught.value.code == "context_length_exceeded"


def test_a_chat(client: OpenAI) -> None:
    rules = {"role": "system", "content": "Answer in one short sentence."}
    fields: dict[str, Any] = {"model": "small", "messages": [rules, *talk()], "max_tokens": 20, "temperature": 0}
    raw = client.chat.completions.with_raw_response.create(**fields, extra_body=SUMMARIZE)
    assert raw.headers[HEADER] == str(REPLACED)
    whole = raw.parse()
    assert whole.model_extra
    assert whole.model_extra["context_overflow"] == {"summarized_messages": REPLACED}
    assert whole.usage
    assert whole.usage.model_extra
    spent = whole.usage.model_extra["summary_tokens_details"]
    assert spent["prompt_tokens"] > spent["completion_tokens"] > 0
    assert whole.usage.prompt_tokens + 20 <= WINDOW
    streamed = client.chat.completions.create(
        **fields, stream=True, stream_options={"include_usage": True}, extra_body=SUMMARIZE
    )
    assert streamed.response.headers[HEADER] == str(REPLACED)
    chunks = list(streamed)
    text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
    assert text == whole.choices[0].message.content
    assert chunks[-1].usage
    assert chunks[-1].usage.model_extra
    # It is known now.
    assert chunks[-1].usage.model_extra["summary_tokens_details"] == {"prompt_tokens": 0, "completion_tokens": 0}


def test_what_must_stay_may_be_too_long(client: OpenAI) -> None:
    with pytest.raises(BadRequestError, match=f"maximum context length is {WINDOW} tokens"):
        client.chat.completions.create(
            model="small", messages=[*talk(), user("So long a word. " * 400)], extra_body=SUMMARIZE
        )


def test_a_message(claude: Anthropic) -> None:
    fields: dict[str, Any] = {"model": "small", "max_tokens": 20, "messages": talk()}
    managed: Any = {"edits": [{"type": "compact_20260112"}]}
    whole = claude.beta.messages.create(**fields, context_management=managed)
    with claude.beta.messages.stream(**fields, extra_body=SUMMARIZE) as stream:
        streamed = stream.get_final_message()
    for message in (whole, streamed):
        assert message.context_management
        (edit,) = message.context_management.applied_edits
        # The SDK has no type of its own for it.
        assert (edit.type, edit.model_extra) == ("summarize_messages", {"summarized_messages": REPLACED})
        assert message.usage.input_tokens + (message.usage.cache_read_input_tokens or 0) + 20 <= WINDOW


def test_a_response(client: OpenAI) -> None:
    fields: dict[str, Any] = {"model": "small", "input": talk(), "max_output_tokens": 20, "extra_body": SUMMARIZE}
    raw = client.responses.with_raw_response.create(**fields)
    assert raw.headers[HEADER] == str(REPLACED)
    begun = client.responses.create(**fields, background=True)
    for _ in client.responses.retrieve(begun.id, stream=True):
        pass
    for id_ in (raw.parse().id, begun.id):
        done = client.responses.retrieve(id_)
        assert done.model_extra
        assert done.model_extra["context_overflow"] == {"summarized_messages": REPLACED}
        assert done.usage
        assert done.usage.model_extra
        assert "summary_tokens_details" in done.usage.model_extra


def test_a_call_and_its_result_stay_together(client: OpenAI) -> None:
    call = {"id": "call_1", "type": "function", "function": {"name": "get_weather", "arguments": '{"city": "Paris"}'}}
    last: list[Any] = [
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "call_1", "content": "21 degrees"},
    ]
    messages = [*talk()[:REPLACED], *last, *talk()[-5:]]
    raw = client.chat.completions.with_raw_response.create(
        model="small", messages=messages, max_tokens=20, extra_body=SUMMARIZE
    )
    # The last six would begin with the result.
    assert raw.headers[HEADER] == str(REPLACED)
