"""LiteLLM, which turns one interface into Chat Completions, Responses, Anthropic's Messages or Ollama's chats."""

import json
from typing import Any

import litellm
import pytest

from tests.clients.prompts import ASK_VERDICT, ASK_WEATHER, COUNT, SUM, SUM_ANSWER, WEATHER, WEATHER_SCHEMA, Verdict

TOOL = {
    "type": "function",
    "function": {"name": "get_weather", "description": "Get the weather of a city", "parameters": WEATHER_SCHEMA},
}
FORCED = {"type": "function", "function": {"name": "get_weather"}}

# LiteLLM must be told what it knows of famous models: it fakes the streams of others, and doesn't ask them to think.
ABILITIES = {"mode": "chat", "supports_native_streaming": True, "supports_reasoning": True}
litellm.register_model({f"{name}/demo": {"litellm_provider": name, **ABILITIES} for name in ("openai", "anthropic")})
litellm.reasoning_auto_summary = True  # with Responses it reads reasoning from summaries


class Chat:
    """LiteLLM with the model and address of one dialect."""

    def __init__(self, url: str, dialect: str) -> None:
        # For Anthropic LiteLLM adds /v1/messages; "openai/responses/" makes it translate to Responses.
        self._base = f"{url}/v1" if dialect.startswith("openai") else url
        self.dialect = dialect

    def __call__(self, messages: str | list[Any], model: str = "demo", **options: Any) -> Any:
        if isinstance(messages, str):
            messages = [{"role": "user", "content": messages}]
        options = {"temperature": 0, "max_tokens": 500} | options
        return litellm.completion(
            f"{self.dialect}/{model}", messages, api_base=self._base, api_key="none", max_retries=0, **options
        )


@pytest.fixture(params=["openai", "openai/responses", "anthropic", "ollama_chat"])
def chat(request: pytest.FixtureRequest, url: str) -> Chat:
    return Chat(url, request.param)


def test_an_answer(chat: Chat) -> None:
    answer = chat(SUM)
    assert SUM_ANSWER in answer.choices[0].message.content
    assert answer.choices[0].finish_reason == "stop"
    assert answer.usage.total_tokens == answer.usage.prompt_tokens + answer.usage.completion_tokens > 0


def test_streaming(chat: Chat) -> None:
    chunks = list(chat(COUNT, stream=True, stream_options={"include_usage": True}))
    whole = litellm.stream_chunk_builder(chunks)
    assert whole.choices[0].message.content == chat(COUNT).choices[0].message.content
    assert whole.choices[0].finish_reason == "stop"
    assert whole.usage.completion_tokens > 20
    assert len(chunks) > 1


async def test_async(url: str) -> None:
    messages = [{"role": "user", "content": SUM}]
    answer = await litellm.acompletion("openai/demo", messages, api_base=f"{url}/v1", api_key="none", temperature=0)
    assert SUM_ANSWER in answer.choices[0].message.content


@pytest.mark.parametrize("streamed", [False, True])
def test_a_tool_loop(chat: Chat, streamed: bool) -> None:
    def turn(messages: list[Any]) -> Any:
        answer = chat(messages, tools=[TOOL], stream=streamed)
        return (litellm.stream_chunk_builder(list(answer)) if streamed else answer).choices[0]

    messages: list[Any] = [{"role": "user", "content": ASK_WEATHER}]
    first = turn(messages)
    assert first.finish_reason == "tool_calls"
    (call,) = first.message.tool_calls
    assert (call.function.name, json.loads(call.function.arguments)) == ("get_weather", {"city": "Paris"})
    messages += [first.message.model_dump(), {"role": "tool", "tool_call_id": call.id, "content": WEATHER}]
    second = turn(messages)
    assert "21" in second.message.content
    assert second.finish_reason == "stop"


def test_a_forced_call(chat: Chat) -> None:
    if chat.dialect == "ollama_chat":
        pytest.skip("Ollama has no field for it, so LiteLLM leaves it out")
    (call,) = chat("Hello there!", tools=[TOOL], tool_choice=FORCED).choices[0].message.tool_calls
    assert call.function.name == "get_weather"
    assert isinstance(json.loads(call.function.arguments)["city"], str)


def test_structured_output(chat: Chat) -> None:
    answer = chat(ASK_VERDICT, response_format=Verdict)
    assert Verdict.model_validate_json(answer.choices[0].message.content)


def test_length(chat: Chat) -> None:
    assert chat(COUNT, max_tokens=5).choices[0].finish_reason == "length"


def test_thinking(chat: Chat) -> None:
    message = chat(SUM, reasoning_effort="low", max_tokens=2000).choices[0].message
    assert SUM_ANSWER in message.content
    assert message.reasoning_content


def test_errors(chat: Chat) -> None:
    with pytest.raises(litellm.NotFoundError, match="nothing"):
        chat(SUM, model="nothing")
    with pytest.raises(litellm.BadRequestError):
        chat("word " * 480_000)
