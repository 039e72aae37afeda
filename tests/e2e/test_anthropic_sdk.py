"""The official anthropic SDK against a real server with the demo model."""

from collections.abc import AsyncIterator, Iterator
from typing import Any

import anthropic
import pytest
from anthropic import Anthropic, AsyncAnthropic
from anthropic.types import Message, MessageParam, ToolParam, ToolUseBlock

from tests.support.serving import Server

WEATHER: ToolParam = {
    "name": "get_weather",
    "description": "Get the weather of a city",
    "input_schema": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
}
RULES = "You are a friendly assistant who answers in one short sentence. " * 10


@pytest.fixture
def claude(server: Server) -> Iterator[Anthropic]:
    with Anthropic(base_url=server.url, api_key="none", max_retries=0, timeout=60) as client:
        yield client


@pytest.fixture
async def async_claude(server: Server) -> AsyncIterator[AsyncAnthropic]:
    async with AsyncAnthropic(base_url=server.url, auth_token="none", max_retries=0, timeout=60) as client:  # noqa: S106
        yield client


def ask(client: Anthropic, messages: str | list[MessageParam], streamed: bool = False, **kwargs: Any) -> Message:
    if isinstance(messages, str):
        messages = [{"role": "user", "content": messages}]
    # The newest models take no temperature, and so does the SDK.
    fields: dict[str, Any] = {"model": "demo", "max_tokens": 300, "extra_body": {"temperature": 0}, **kwargs}
    if not streamed:
        answer: Message = client.messages.create(messages=messages, **fields)
        return answer
    with client.messages.stream(messages=messages, **fields) as stream:
        for _ in stream:
            pass
        return stream.get_final_message()


def text_of(answer: Message) -> str:
    return "".join(block.text for block in answer.content if block.type == "text")


def test_a_message(claude: Anthropic) -> None:
    answer = ask(claude, "Say this is a test")
    assert "this is a test" in text_of(answer).lower()
    assert (answer.role, answer.type, answer.model) == ("assistant", "message", "demo")
    assert (answer.stop_reason, answer.stop_sequence) == ("end_turn", None)
    assert answer._request_id
    assert answer.id.removeprefix("msg_") in answer._request_id


def test_streaming_equals_not_streaming(claude: Anthropic) -> None:
    whole, streamed = ask(claude, "Count from 1 to 12"), ask(claude, "Count from 1 to 12", streamed=True)
    assert "12" in text_of(whole)
    assert text_of(streamed) == text_of(whole)
    assert streamed.stop_reason == whole.stop_reason
    assert streamed.usage.output_tokens == whole.usage.output_tokens
    for answer in (whole, streamed):
        cached = answer.usage.cache_read_input_tokens
        assert cached is not None
        assert answer.usage.input_tokens > 0
    first, second = (
        answer.usage.input_tokens + (answer.usage.cache_read_input_tokens or 0) for answer in (whole, streamed)
    )
    assert first == second


@pytest.mark.parametrize("streamed", [False, True])
def test_a_tool_loop(claude: Anthropic, streamed: bool) -> None:
    messages: list[MessageParam] = [{"role": "user", "content": "What's the weather in Paris?"}]
    first = ask(claude, messages, streamed, tools=[WEATHER])
    assert first.stop_reason == "tool_use"
    (call,) = first.content
    assert isinstance(call, ToolUseBlock)
    assert (call.name, call.input) == ("get_weather", {"city": "Paris"})
    result: Any = {"type": "tool_result", "tool_use_id": call.id, "content": "21 degrees and sunny"}
    messages += [first.to_param(), {"role": "user", "content": [result]}]
    second = ask(claude, messages, streamed, tools=[WEATHER])
    assert second.stop_reason == "end_turn"
    assert "21" in text_of(second)


def test_tool_choice_none_calls_nothing(claude: Anthropic) -> None:
    answer = ask(claude, "What's the weather in Paris?", tools=[WEATHER], tool_choice={"type": "none"})
    assert answer.stop_reason == "end_turn"


@pytest.mark.parametrize("streamed", [False, True])
def test_thinking_is_a_block_of_its_own(claude: Anthropic, streamed: bool) -> None:
    answer = ask(claude, "What is 12 + 30?", streamed, thinking={"type": "enabled", "budget_tokens": 300})
    thinking, text = answer.content
    assert thinking.type == "thinking"
    assert thinking.thinking
    assert thinking.signature
    assert text.type == "text"
    assert "42" in text.text
    assert answer.usage.output_tokens_details
    assert answer.usage.output_tokens_details.thinking_tokens > 0
    question: MessageParam = {"role": "user", "content": "What is 12 + 30?"}
    again = ask(claude, [question, answer.to_param(), question], streamed, thinking={"type": "disabled"})
    assert [block.type for block in again.content] == ["text"]


def test_thinking_ends_where_its_budget_does(claude: Anthropic) -> None:
    answer = ask(claude, "What is 12 + 30?", thinking={"type": "enabled", "budget_tokens": 3})
    assert answer.usage.output_tokens_details
    # The tokens that open and end it are counted too: this model opens it itself.
    assert answer.usage.output_tokens_details.thinking_tokens <= 5
    assert text_of(answer)


@pytest.mark.parametrize("streamed", [False, True])
def test_stop_sequences(claude: Anthropic, streamed: bool) -> None:
    whole = text_of(ask(claude, "Count from 1 to 12"))
    answer = ask(claude, "Count from 1 to 12", streamed, stop_sequences=["nowhere", "12"])
    assert (answer.stop_reason, answer.stop_sequence) == ("stop_sequence", "12")
    assert text_of(answer) == whole[: whole.index("12")]


def test_max_tokens(claude: Anthropic) -> None:
    answer = ask(claude, "Count from 1 to 50", max_tokens=10)
    assert (answer.stop_reason, answer.usage.output_tokens) == ("max_tokens", 10)


def test_counting_equals_what_is_used(claude: Anthropic) -> None:
    messages: list[MessageParam] = [{"role": "user", "content": "Hello"}]
    answer = ask(claude, messages, system=RULES, tools=[WEATHER])
    count = claude.messages.count_tokens(model="demo", messages=messages, system=RULES, tools=[WEATHER])
    assert count.input_tokens == answer.usage.input_tokens + (answer.usage.cache_read_input_tokens or 0)


def test_the_head_of_an_agents_prompt_is_read_once(claude: Anthropic) -> None:
    def turn(number: int, messages: list[MessageParam]) -> Message:
        system: Any = [
            {"type": "text", "text": f"x-anthropic-billing-header: cc_version=2.1.62; cch={number:05x};"},
            {"type": "text", "text": RULES, "cache_control": {"type": "ephemeral"}},
            {"type": "text", "text": f"Today's date is 2026-01-{number + 10}.\nToken usage: {number}/9; 5 remaining"},
        ]
        return ask(claude, messages, system=system, tools=[WEATHER])

    messages: list[MessageParam] = [{"role": "user", "content": "Hello"}]
    first = turn(1, messages)
    second = turn(2, [*messages, first.to_param(), {"role": "user", "content": "What is 2 + 3?"}])
    prompt = second.usage.input_tokens + (second.usage.cache_read_input_tokens or 0)
    assert (second.usage.cache_read_input_tokens or 0) > 0.7 * prompt


def test_the_tool_runner(claude: Anthropic) -> None:
    @anthropic.beta_tool
    def get_weather(city: str) -> str:
        """Get the weather of a city"""
        return f"21 degrees in {city}"

    runner = claude.beta.messages.tool_runner(
        model="demo",
        max_tokens=300,
        tools=[get_weather],
        messages=[{"role": "user", "content": "What's the weather in Paris?"}],
        extra_body={"temperature": 0},
    )
    answers = list(runner)
    assert [answer.stop_reason for answer in answers] == ["tool_use", "end_turn"]
    assert any("21" in block.text for block in answers[-1].content if block.type == "text")


def test_what_a_coding_agent_sends(claude: Anthropic) -> None:
    answer = claude.beta.messages.create(
        model="demo",
        max_tokens=300,
        betas=["claude-code-20250219", "interleaved-thinking-2025-05-14"],
        system=[{"type": "text", "text": RULES, "cache_control": {"type": "ephemeral"}}],
        messages=[
            {"role": "user", "content": "What's the weather in Paris?"},
            {"role": "system", "content": "<total_tokens>15000000 tokens left</total_tokens>"},
            {
                "role": "assistant",
                "content": [
                    {"type": "thinking", "thinking": "I look it up.", "signature": ""},
                    {"type": "tool_use", "id": "toolu_1", "name": "get_weather", "input": {"city": "Paris"}},
                ],
            },
            {
                "role": "user",
                "content": [{"type": "tool_result", "tool_use_id": "toolu_1", "content": "", "is_error": True}],
            },
            {"role": "user", "content": [{"type": "text", "text": "What is 2 + 3?"}]},
        ],
        tools=[{**WEATHER, "defer_loading": False, "strict": False}, {"type": "bash_20250124", "name": "bash"}],
        thinking={"type": "adaptive"},
        context_management={"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]},
        output_config={"effort": "high"},
        metadata={"user_id": "u"},
    )
    assert answer.stop_reason in ("end_turn", "tool_use", "max_tokens")


def test_models(claude: Anthropic) -> None:
    (model,) = claude.models.list(limit=1000)
    assert model.id == "demo"
    assert claude.models.retrieve("demo") == model


async def test_async(async_claude: AsyncAnthropic) -> None:
    async with async_claude.messages.stream(
        model="demo", max_tokens=50, messages=[{"role": "user", "content": "Say hello"}], extra_body={"temperature": 0}
    ) as stream:
        text = "".join([piece async for piece in stream.text_stream])
        answer = await stream.get_final_message()
    assert "hello" in text.lower()
    assert answer.stop_reason == "end_turn"


def test_errors_are_the_sdks_own(claude: Anthropic) -> None:
    with pytest.raises(anthropic.NotFoundError) as unknown:
        ask(claude, "Hello", model="gpt-x")
    assert unknown.value.type == "not_found_error"
    assert unknown.value.request_id
    with pytest.raises(anthropic.BadRequestError, match="`top_p`"):
        ask(claude, "Hello", extra_body={"top_p": 3})
    with pytest.raises(anthropic.BadRequestError, match="prompt is too long"):
        ask(claude, "word " * 480_000)
    with pytest.raises(anthropic.BadRequestError, match="prompt is too long"):
        ask(claude, "word " * 480_000, streamed=True)
