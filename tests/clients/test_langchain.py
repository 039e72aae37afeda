"""LangChain's ChatOpenAI, by Chat Completions and by Responses, ChatAnthropic and ChatOllama."""

from collections.abc import Callable
from functools import reduce
from operator import add

import anthropic
import ollama
import openai
import pytest
from langchain_anthropic import ChatAnthropic
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.tools import tool
from langchain_ollama import ChatOllama
from langchain_openai import ChatOpenAI
from pydantic import SecretStr

from tests.clients.prompts import ASK_VERDICT, ASK_WEATHER, COUNT, SUM, SUM_ANSWER, WEATHER, Verdict


def by_chat(url: str, model: str = "demo") -> BaseChatModel:
    return ChatOpenAI(
        model=model,
        base_url=f"{url}/v1",
        api_key=SecretStr("none"),
        temperature=0,
        max_retries=0,
        stream_usage=True,  # without it, none is asked for where base_url isn't OpenAI's
    )


def by_responses(url: str, model: str = "demo") -> BaseChatModel:
    return ChatOpenAI(
        model=model,
        base_url=f"{url}/v1",
        api_key=SecretStr("none"),
        temperature=0,
        max_retries=0,
        use_responses_api=True,
    )


def by_messages(url: str, model: str = "demo") -> BaseChatModel:
    return ChatAnthropic(
        model_name=model,
        base_url=url,
        api_key=SecretStr("none"),
        temperature=0,
        max_retries=0,
        max_tokens_to_sample=500,
        timeout=60,
        stop=None,
    )


def by_ollama(url: str, model: str = "demo") -> BaseChatModel:
    return ChatOllama(model=model, base_url=url, temperature=0)


Maker = Callable[..., BaseChatModel]


@pytest.fixture(params=[by_chat, by_responses, by_messages, by_ollama])
def maker(request: pytest.FixtureRequest) -> Maker:
    made: Maker = request.param
    return made


@pytest.fixture
def chat(maker: Maker, url: str) -> BaseChatModel:
    return maker(url)


@tool
def get_weather(city: str) -> str:
    """Get the weather of a city"""
    return WEATHER


def test_an_answer(chat: BaseChatModel) -> None:
    answer = chat.invoke([SystemMessage("Be brief."), HumanMessage(SUM)])
    assert SUM_ANSWER in answer.text
    usage = answer.usage_metadata
    assert usage
    assert usage["total_tokens"] == usage["input_tokens"] + usage["output_tokens"]
    assert usage["output_tokens"] > 0


def test_streaming(chat: BaseChatModel) -> None:
    chunks = list(chat.stream(COUNT))
    assert sum(bool(chunk.text) for chunk in chunks) > 1
    whole = reduce(add, chunks)
    assert whole.text == chat.invoke(COUNT).text
    assert whole.usage_metadata
    assert whole.usage_metadata["output_tokens"] > 20


async def test_async_streaming(chat: BaseChatModel) -> None:
    assert SUM_ANSWER in "".join([chunk.text async for chunk in chat.astream(SUM)])


@pytest.mark.parametrize("streamed", [False, True])
def test_a_tool_loop(chat: BaseChatModel, streamed: bool) -> None:
    able = chat.bind_tools([get_weather])

    def turn(messages: list[BaseMessage]) -> BaseMessage:
        return reduce(add, able.stream(messages)) if streamed else able.invoke(messages)

    messages: list[BaseMessage] = [HumanMessage(ASK_WEATHER)]
    first = turn(messages)
    assert isinstance(first, AIMessage)
    (call,) = first.tool_calls
    assert (call["name"], call["args"]) == ("get_weather", {"city": "Paris"})
    messages += [first, get_weather.invoke(call)]
    assert isinstance(messages[-1], ToolMessage)
    assert "21" in turn(messages).text


@pytest.mark.parametrize("maker", [by_chat, by_responses, by_messages])  # Ollama has no field for it
def test_a_forced_call(chat: BaseChatModel) -> None:
    answer = chat.bind_tools([get_weather], tool_choice="get_weather").invoke("Hello there!")
    assert isinstance(answer, AIMessage)
    assert [call["name"] for call in answer.tool_calls] == ["get_weather"]
    assert isinstance(answer.tool_calls[0]["args"]["city"], str)


@pytest.mark.parametrize("method", ["json_schema", "function_calling"])
def test_structured_output(maker: Maker, chat: BaseChatModel, method: str) -> None:
    if (maker, method) == (by_ollama, "function_calling"):
        pytest.skip("it forces a call, for which Ollama has no field")
    asked = chat.with_structured_output(Verdict, method=method).invoke(ASK_VERDICT)
    assert isinstance(asked, Verdict)


def test_errors(maker: Maker, url: str) -> None:
    with pytest.raises((openai.NotFoundError, anthropic.NotFoundError, ollama.ResponseError), match="nothing"):
        maker(url, "nothing").invoke(SUM)
