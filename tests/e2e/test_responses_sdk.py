"""The Responses API by the official openai SDK, against a real server with the demo model."""

import asyncio
import json
from typing import Any

import pytest
from openai import AsyncOpenAI, NotFoundError, OpenAI
from openai.types.responses import FunctionToolParam, Response, ResponseFunctionToolCall
from pydantic import BaseModel

WEATHER: FunctionToolParam = {
    "type": "function",
    "name": "get_weather",
    "description": "Get the weather of a city",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    "strict": False,
}
ASKED = "What's the weather in Paris?"


def ask(client: OpenAI, streamed: bool, **fields: Any) -> Response:
    fields = {"model": "demo", "temperature": 0, **fields}
    if not streamed:
        created: Response = client.responses.create(**fields)
        return created
    with client.responses.stream(**fields) as stream:
        final: Response = stream.get_final_response()
    return final


def the_call(response: Response) -> ResponseFunctionToolCall:
    (call,) = [item for item in response.output if item.type == "function_call"]
    assert (call.name, json.loads(call.arguments)) == ("get_weather", {"city": "Paris"})
    assert call.call_id != call.id
    return call


def result(call: ResponseFunctionToolCall) -> Any:
    return {"type": "function_call_output", "call_id": call.call_id, "output": "21 degrees and sunny"}


def test_a_text_streamed_and_whole(client: OpenAI) -> None:
    whole = ask(client, False, input="Count from 1 to 12")
    assert "12" in whole.output_text
    assert ask(client, True, input="Count from 1 to 12").output_text == whole.output_text
    assert whole.usage
    assert whole.usage.total_tokens == whole.usage.input_tokens + whole.usage.output_tokens
    counted = client.responses.input_tokens.count(model="demo", input="Count from 1 to 12")
    assert counted.input_tokens == whole.usage.input_tokens


def test_a_stream_of_events(client: OpenAI) -> None:
    events = list(client.responses.create(model="demo", temperature=0, input="Say this is a test", stream=True))
    assert [event.sequence_number for event in events] == list(range(len(events)))
    assert (events[0].type, events[-1].type) == ("response.created", "response.completed")
    text = "".join(event.delta for event in events if event.type == "response.output_text.delta")
    assert "this is a test" in text.lower()


@pytest.mark.parametrize("streamed", [False, True])
def test_a_tool_loop_on_the_server(client: OpenAI, streamed: bool) -> None:
    first = ask(client, streamed, input=ASKED, tools=[WEATHER])
    second = ask(client, streamed, input=[result(the_call(first))], tools=[WEATHER], previous_response_id=first.id)
    assert "21" in second.output_text
    assert first.usage
    assert second.usage
    # What was said is not read again, but for the turn's last marks.
    assert second.usage.input_tokens_details.cached_tokens >= first.usage.input_tokens


@pytest.mark.parametrize("streamed", [False, True])
def test_a_tool_loop_on_the_client(client: OpenAI, streamed: bool) -> None:
    history: list[Any] = [{"role": "user", "content": ASKED}]
    first = ask(client, streamed, input=history, tools=[WEATHER], store=False)
    history += [item.model_dump(exclude_none=True) for item in first.output]
    history.append(result(the_call(first)))
    second = ask(client, streamed, input=history, tools=[WEATHER], store=False)
    assert "21" in second.output_text
    with pytest.raises(NotFoundError):
        client.responses.retrieve(first.id)


def test_a_tool_loop_with_references(client: OpenAI) -> None:
    first = ask(client, False, input=ASKED, tools=[WEATHER])
    call = the_call(first)
    items = [{"role": "user", "content": ASKED}, {"type": "item_reference", "id": call.id}, result(call)]
    assert "21" in ask(client, False, input=items, tools=[WEATHER]).output_text


def test_a_conversation_remembers(client: OpenAI) -> None:
    conversation = client.conversations.create()
    for text in ("My name is Ada.", "What is 2 + 3?"):
        ask(client, False, input=text, conversation=conversation.id)
    assert "Ada" in ask(client, True, input="What is my name?", conversation={"id": conversation.id}).output_text
    items = list(client.conversations.items.list(conversation.id, order="asc"))
    assert [item.role for item in items if item.type == "message"] == ["user", "assistant"] * 3


def test_what_went_before_is_remembered_and_instructions_are_not(client: OpenAI) -> None:
    first = ask(client, False, input="My name is Ada.", instructions="You are a pirate.")
    second = ask(client, False, input="What is my name?", previous_response_id=first.id)
    assert "Ada" in second.output_text
    assert second.instructions is None
    texts = [item.content[0] for item in client.responses.input_items.list(second.id) if item.type == "message"]
    assert "pirate" not in str(texts)


def test_a_run_in_the_background(client: OpenAI) -> None:
    begun = client.responses.create(model="demo", temperature=0, input="Count from 1 to 12", background=True)
    assert begun.status == "queued"
    events = list(client.responses.retrieve(begun.id, stream=True, starting_after=1))
    assert events[0].sequence_number == 2
    final = events[-1]
    assert final.type == "response.completed"
    assert client.responses.retrieve(begun.id) == final.response
    assert "12" in final.response.output_text
    client.responses.delete(begun.id)
    with pytest.raises(NotFoundError):
        client.responses.retrieve(begun.id)


def test_thinking_is_an_item_of_its_own(client: OpenAI) -> None:
    for streamed in (False, True):
        found = ask(
            client, streamed, input="What is 12 + 30?", reasoning={"effort": "medium", "summary": "auto"}, tools=[]
        )
        thought, message = found.output
        assert thought.type == "reasoning"
        assert thought.content
        assert thought.summary[0].text == thought.content[0].text
        assert message.type == "message"
        assert "42" in found.output_text
        assert found.usage
        assert found.usage.output_tokens_details.reasoning_tokens > 0


def test_an_answer_that_is_cut_off(client: OpenAI) -> None:
    found = ask(client, False, input="Count from 1 to 12", max_output_tokens=5)
    assert found.status == "incomplete"
    assert found.incomplete_details
    assert found.incomplete_details.reason == "max_output_tokens"


@pytest.mark.parametrize("streamed", [False, True])
def test_a_call_can_be_forced(client: OpenAI, streamed: bool) -> None:
    one = {"input": "What is 2 + 3?", "parallel_tool_calls": False}
    for choice in ("required", {"type": "function", "name": "get_weather"}):
        (call,) = ask(client, streamed, **one, tools=[WEATHER], tool_choice=choice).output
        assert call.type == "function_call"
        assert isinstance(json.loads(call.arguments)["city"], str)
    note = {"type": "custom", "name": "note", "format": {"type": "grammar", "syntax": "regex", "definition": "a{3}"}}
    forced = {"type": "custom", "name": "note"}
    (custom,) = ask(client, streamed, **one, tools=[note], tool_choice=forced).output
    assert custom.type == "custom_tool_call"
    assert custom.input == "aaa"


class Sum(BaseModel):
    result: int


def test_an_answer_keeps_to_a_schema(client: OpenAI) -> None:
    found = client.responses.parse(model="demo", temperature=0, input="What is 2 + 3?", text_format=Sum)
    assert isinstance(found.output_parsed, Sum)


async def test_async_in_company(async_client: AsyncOpenAI) -> None:
    async def go_on(name: str) -> str:
        first = await async_client.responses.create(model="demo", temperature=0, input=f"My name is {name}.")
        async with async_client.responses.stream(
            model="demo", temperature=0, input="What is my name?", previous_response_id=first.id
        ) as stream:
            return (await stream.get_final_response()).output_text

    names = ["Ada", "Ben", "Tom", "Eve"]
    answers = await asyncio.gather(*map(go_on, names))
    assert all(name in answer for name, answer in zip(names, answers, strict=True))


# The SDK has no type for what a user said in an output, OpenAI's own neither, and says so when it is sent back.
@pytest.mark.filterwarnings("ignore:Pydantic serializer warnings")
def test_a_conversation_is_compacted_and_goes_on(client: OpenAI) -> None:
    said: Any = [
        {"role": "user", "content": "What's the weather in Paris?"},
        {"role": "assistant", "content": "It is 21 degrees and sunny in Paris."},
        {"role": "user", "content": "Thank you."},
    ]
    found = client.responses.compact(model="demo", input=said)
    assert [item.type for item in found.output] == ["message", "message", "compaction"]
    assert found.usage.output_tokens > 0
    # As OpenAI's guide has it: the output as it is, and what the user says next.
    again: Any = [*found.output, {"role": "user", "content": "Count from 1 to 12"}]
    response = ask(client, False, input=again, max_output_tokens=30)
    assert response.usage
    assert response.usage.input_tokens > found.usage.output_tokens
