"""OpenAI's Agents SDK over Chat Completions and Responses."""

from typing import Any

import openai
import pytest
from agents import (
    Agent,
    ModelSettings,
    OpenAIChatCompletionsModel,
    OpenAIResponsesModel,
    Runner,
    function_tool,
    set_tracing_disabled,
)
from openai import AsyncOpenAI
from openai.types.responses import ResponseTextDeltaEvent

from tests.clients.prompts import ASK_VERDICT, ASK_WEATHER, COUNT, SUM, SUM_ANSWER, WEATHER, Verdict

set_tracing_disabled(True)


@function_tool
def get_weather(city: str) -> str:
    """Get the weather of a city"""
    return WEATHER


@function_tool
def look_up(word: str) -> str:
    """Look up a word"""
    return f"{word} is a word"


class Maker:
    """Makes agents that speak one dialect."""

    def __init__(self, url: str, kind: Any) -> None:
        self._client = AsyncOpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0)
        self._kind = kind

    def __call__(self, model: str = "demo", settings: ModelSettings | None = None, **options: Any) -> Agent[None]:
        settings = ModelSettings(temperature=0, include_usage=True).resolve(settings)
        return Agent(
            name="helper", model=self._kind(model, openai_client=self._client), model_settings=settings, **options
        )


@pytest.fixture(params=[OpenAIChatCompletionsModel, OpenAIResponsesModel])
def make(request: pytest.FixtureRequest, url: str) -> Maker:
    return Maker(url, request.param)


async def test_an_answer(make: Maker) -> None:
    run = await Runner.run(make(instructions="Be brief."), SUM)
    assert SUM_ANSWER in run.final_output
    assert run.context_wrapper.usage.output_tokens > 0


async def test_streaming(make: Maker) -> None:
    run = Runner.run_streamed(make(), COUNT)
    deltas = [
        event.data.delta
        async for event in run.stream_events()
        if event.type == "raw_response_event" and isinstance(event.data, ResponseTextDeltaEvent)
    ]
    assert len(deltas) > 1
    assert "".join(deltas) == run.final_output
    assert run.context_wrapper.usage.output_tokens > 20


@pytest.mark.parametrize("streamed", [False, True])
async def test_a_tool_loop(make: Maker, streamed: bool) -> None:
    agent = make(tools=[get_weather, look_up])
    if streamed:
        run: Any = Runner.run_streamed(agent, ASK_WEATHER)
        items = [event.item.type async for event in run.stream_events() if event.type == "run_item_stream_event"]
        assert items == ["tool_call_item", "tool_call_output_item", "message_output_item"]
    else:
        run = await Runner.run(agent, ASK_WEATHER)
    assert "21" in run.final_output
    assert len(run.raw_responses) == 2


async def test_a_forced_call(make: Maker) -> None:
    settings = ModelSettings(tool_choice="look_up")
    agent = make(tools=[get_weather, look_up], settings=settings, tool_use_behavior="stop_on_first_tool")
    run = await Runner.run(agent, "Hello there!")
    assert run.final_output.endswith("is a word")


async def test_structured_output(make: Maker) -> None:
    run = await Runner.run(make(output_type=Verdict), ASK_VERDICT)
    assert isinstance(run.final_output, Verdict)


async def test_errors(make: Maker) -> None:
    with pytest.raises(openai.NotFoundError, match="nothing"):
        await Runner.run(make("nothing"), SUM)


async def test_a_stored_conversation(url: str) -> None:
    make = Maker(url, OpenAIResponsesModel)
    first = await Runner.run(make(), "My name is Ada.")
    second = await Runner.run(make(), "What is my name?", previous_response_id=first.last_response_id)
    assert "Ada" in second.final_output
