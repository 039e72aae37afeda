"""LlamaIndex's OpenAILike and its Anthropic."""

from typing import Any

import pytest
from llama_index.core.llms import ChatMessage, MessageRole
from llama_index.core.llms.function_calling import FunctionCallingLLM
from llama_index.core.tools import FunctionTool
from llama_index.llms.openai_like import OpenAILike

from tests.clients.prompts import ASK_VERDICT, ASK_WEATHER, COUNT, SUM, SUM_ANSWER, WEATHER, Verdict


def get_weather(city: str) -> str:
    """Get the weather of a city"""
    return WEATHER


TOOL = FunctionTool.from_defaults(get_weather)


@pytest.fixture
def llm(url: str) -> FunctionCallingLLM:
    return OpenAILike(
        model="demo",
        api_base=f"{url}/v1",
        api_key="none",
        temperature=0,
        is_chat_model=True,
        is_function_calling_model=True,
        max_retries=0,
    )


def test_an_answer(llm: FunctionCallingLLM) -> None:
    assert SUM_ANSWER in llm.complete(SUM).text


def test_streaming(llm: FunctionCallingLLM) -> None:
    chunks = list(llm.stream_chat([ChatMessage(COUNT)]))
    assert len(chunks) > 1
    assert "".join(chunk.delta or "" for chunk in chunks) == llm.chat([ChatMessage(COUNT)]).message.content


@pytest.mark.parametrize("streamed", [False, True])
def test_a_tool_loop(llm: FunctionCallingLLM, streamed: bool) -> None:
    def turn(messages: list[ChatMessage]) -> Any:
        if streamed:
            return list(llm.stream_chat_with_tools([TOOL], chat_history=messages))[-1]
        return llm.chat_with_tools([TOOL], chat_history=messages)

    messages = [ChatMessage(ASK_WEATHER)]
    first = turn(messages)
    (call,) = llm.get_tool_calls_from_response(first)
    assert (call.tool_name, call.tool_kwargs) == ("get_weather", {"city": "Paris"})
    told = ChatMessage(WEATHER, role=MessageRole.TOOL, additional_kwargs={"tool_call_id": call.tool_id})
    assert "21" in (turn([*messages, first.message, told]).message.content or "")


def test_structured_output(llm: FunctionCallingLLM) -> None:
    answer = llm.as_structured_llm(Verdict).complete(ASK_VERDICT)
    assert isinstance(answer.raw, Verdict)
