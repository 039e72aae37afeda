"""pydantic-ai's agents over Chat Completions, Responses and Anthropic's Messages."""

from typing import Any

import pytest
from pydantic_ai import Agent, ModelHTTPError, NativeOutput, ToolOutput
from pydantic_ai.models import Model
from pydantic_ai.models.anthropic import AnthropicModel
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
from pydantic_ai.providers.anthropic import AnthropicProvider
from pydantic_ai.providers.openai import OpenAIProvider

from tests.clients.prompts import ASK_VERDICT, ASK_WEATHER, COUNT, SUM, SUM_ANSWER, WEATHER, Verdict


def make(dialect: str, url: str, name: str = "demo") -> Model[Any]:
    if dialect == "anthropic":
        return AnthropicModel(name, provider=AnthropicProvider(base_url=url, api_key="none"))
    kind = OpenAIResponsesModel if dialect == "responses" else OpenAIChatModel
    return kind(name, provider=OpenAIProvider(base_url=f"{url}/v1", api_key="none"))


DIALECTS = ["chat", "responses", "anthropic"]


@pytest.fixture(params=DIALECTS)
def model(request: pytest.FixtureRequest, url: str) -> Model[Any]:
    return make(request.param, url)


def agent(model: Model[Any], **options: Any) -> Agent[None, Any]:
    return Agent(model, model_settings={"temperature": 0, "max_tokens": 500}, retries=0, **options)


def get_weather(city: str) -> str:
    """Get the weather of a city"""
    assert city == "Paris"
    return WEATHER


async def test_an_answer(model: Model[Any]) -> None:
    run = await agent(model, instructions="Be brief.").run(SUM)
    assert SUM_ANSWER in run.output
    assert run.usage.output_tokens > 0
    assert run.usage.input_tokens > 0


async def test_streaming(model: Model[Any]) -> None:
    async with agent(model).run_stream(COUNT) as run:
        pieces = [piece async for piece in run.stream_text(delta=True, debounce_by=None)]
    assert len(pieces) > 1
    assert "".join(pieces) == (await agent(model).run(COUNT)).output


async def test_a_conversation(model: Model[Any]) -> None:
    first = await agent(model).run("My name is Ada.")
    second = await agent(model).run("What is my name?", message_history=first.all_messages())
    assert "Ada" in second.output


@pytest.mark.parametrize("streamed", [False, True])
async def test_a_tool_loop(model: Model[Any], streamed: bool) -> None:
    able = agent(model, tools=[get_weather])
    if streamed:
        async with able.run_stream(ASK_WEATHER) as run:
            assert "21" in await run.get_output()
    else:
        assert "21" in (await able.run(ASK_WEATHER)).output


# pydantic-ai knows which of Anthropic's models have native output: ours is none of them.
@pytest.mark.parametrize(
    ("dialect", "kind"),
    [*((name, ToolOutput) for name in DIALECTS), ("chat", NativeOutput), ("responses", NativeOutput)],
)
async def test_structured_output(url: str, dialect: str, kind: Any) -> None:
    run = await agent(make(dialect, url), output_type=kind(Verdict)).run(ASK_VERDICT)
    assert isinstance(run.output, Verdict)


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_errors(dialect: str, url: str) -> None:
    with pytest.raises(ModelHTTPError, match="nothing") as unknown:
        await agent(make(dialect, url, "nothing")).run(SUM)
    assert unknown.value.status_code == 404
