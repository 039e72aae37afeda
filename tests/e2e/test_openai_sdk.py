"""The official openai SDK against a real server with the demo model."""

import asyncio
import json
import os
import signal
from typing import Any, Literal

import httpx
import openai
import pytest
from openai import AsyncOpenAI, OpenAI
from openai.types.chat import ChatCompletion, ChatCompletionMessageParam, ChatCompletionToolParam
from pydantic import BaseModel

from tests.support.serving import Server

WEATHER: ChatCompletionToolParam = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "Get the weather of a city",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    },
}


def ask(client: OpenAI, text: str, **kwargs: Any) -> ChatCompletion:
    create: Any = client.chat.completions.create  # its overloads don't take unknown keywords
    kwargs = {"model": "demo", "temperature": 0} | kwargs
    answer: ChatCompletion = create(messages=[{"role": "user", "content": text}], **kwargs)
    return answer


def test_chat(client: OpenAI) -> None:
    answer = ask(client, "Say this is a test")
    (choice,) = answer.choices
    assert choice.message.content
    assert "this is a test" in choice.message.content.lower()
    assert (choice.message.role, choice.finish_reason) == ("assistant", "stop")
    assert answer.usage
    assert answer.usage.total_tokens == answer.usage.prompt_tokens + answer.usage.completion_tokens


def test_streaming_equals_not_streaming(client: OpenAI) -> None:
    whole = ask(client, "Count from 1 to 12")
    stream = client.chat.completions.create(
        model="demo",
        temperature=0,
        messages=[{"role": "user", "content": "Count from 1 to 12"}],
        stream=True,
        stream_options={"include_usage": True},
    )
    chunks = list(stream)
    text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
    assert text == whole.choices[0].message.content
    assert "12" in text
    assert chunks[-1].usage
    assert whole.usage
    cached = {"prompt_tokens_details"}  # the second finds the first's prompt
    assert chunks[-1].usage.model_dump(exclude=cached) == whole.usage.model_dump(exclude=cached)
    assert chunks[-2].choices[0].finish_reason == "stop"
    assert len({chunk.id for chunk in chunks}) == 1


def test_the_stream_helper(client: OpenAI) -> None:
    messages: list[ChatCompletionMessageParam] = [{"role": "user", "content": "What is 12 + 30?"}]
    with client.chat.completions.stream(model="demo", temperature=0, messages=messages) as stream:
        for _ in stream:
            pass
        answer = stream.get_final_completion()
    assert answer.choices[0].message.content
    assert "42" in answer.choices[0].message.content


def test_a_conversation_remembers(client: OpenAI) -> None:
    messages: list[ChatCompletionMessageParam] = []
    for text in ("My name is Ada.", "What is 2 + 3?", "What is my name?"):
        messages.append({"role": "user", "content": text})
        answer = client.chat.completions.create(model="demo", temperature=0, messages=messages)
        messages.append({"role": "assistant", "content": answer.choices[0].message.content})
    assert "Ada" in str(messages[-1].get("content"))


@pytest.mark.parametrize("streamed", [False, True])
def test_a_tool_loop(client: OpenAI, streamed: bool) -> None:
    messages: list[ChatCompletionMessageParam] = [{"role": "user", "content": "What's the weather in Paris?"}]
    first = _complete(client, messages, streamed)
    assert first.choices[0].finish_reason == "tool_calls"
    message = first.choices[0].message
    assert message.tool_calls
    (call,) = message.tool_calls
    assert call.type == "function"
    assert (call.function.name, json.loads(call.function.arguments)) == ("get_weather", {"city": "Paris"})
    messages.append(message.model_dump(exclude_none=True))  # type: ignore[arg-type]
    messages.append({"role": "tool", "tool_call_id": call.id, "content": "21 degrees and sunny"})
    second = _complete(client, messages, streamed)
    assert second.choices[0].finish_reason == "stop"
    assert "21" in (second.choices[0].message.content or "")


def _complete(client: OpenAI, messages: list[ChatCompletionMessageParam], streamed: bool) -> ChatCompletion:
    if not streamed:
        return client.chat.completions.create(model="demo", temperature=0, messages=messages, tools=[WEATHER])
    with client.chat.completions.stream(model="demo", temperature=0, messages=messages, tools=[WEATHER]) as stream:
        return stream.get_final_completion()


def test_tool_choice_none_calls_nothing(client: OpenAI) -> None:
    answer = ask(client, "What's the weather in Paris?", tools=[WEATHER], tool_choice="none")
    assert answer.choices[0].message.tool_calls is None
    assert answer.choices[0].finish_reason == "stop"


TIME: ChatCompletionToolParam = {
    "type": "function",
    "function": {
        "name": "get_time",
        "strict": True,
        "parameters": {
            "type": "object",
            "properties": {"zone": {"type": "string", "enum": ["UTC", "CET"]}},
            "required": ["zone"],
            "additionalProperties": False,
        },
    },
}


def test_a_forced_call_that_is_cut_off_is_a_call(client: OpenAI) -> None:
    (chosen,) = ask(
        client, "What is the weather in Oslo?", tools=[WEATHER], tool_choice="required", max_tokens=13
    ).choices
    assert (chosen.finish_reason, chosen.message.content) == ("length", None)
    (call,) = chosen.message.tool_calls or []
    assert call.type == "function"
    assert call.function.arguments.startswith('{"')


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize(
    ("choice", "expected"),
    [
        ("required", {"get_weather", "get_time"}),
        ({"type": "function", "function": {"name": "get_time"}}, {"get_time"}),
        (
            {
                "type": "allowed_tools",
                "allowed_tools": {
                    "mode": "required",
                    "tools": [{"type": "function", "function": {"name": "get_time"}}],
                },
            },
            {"get_time"},
        ),
    ],
)
def test_calls_can_be_forced(client: OpenAI, choice: Any, expected: set[str], streamed: bool) -> None:
    fields: Any = {
        "model": "demo",
        "temperature": 0,
        "max_tokens": 200,
        "tools": [WEATHER, TIME],
        "tool_choice": choice,
    }
    messages: list[ChatCompletionMessageParam] = [{"role": "user", "content": "Hello"}]
    if streamed:
        with client.chat.completions.stream(messages=messages, **fields) as stream:
            answer: ChatCompletion = stream.get_final_completion()
    else:
        answer = client.chat.completions.create(messages=messages, **fields)
    (chosen,) = answer.choices
    assert chosen.finish_reason == "tool_calls"
    assert chosen.message.content is None
    assert chosen.message.tool_calls
    for call in chosen.message.tool_calls:
        assert call.type == "function"
        assert call.function.name in expected
        arguments = json.loads(call.function.arguments)
        if call.function.name == "get_time":
            assert arguments in ({"zone": "UTC"}, {"zone": "CET"})


def test_a_tool_that_takes_free_text(client: OpenAI) -> None:
    form: Any = {"type": "grammar", "grammar": {"syntax": "regex", "definition": "go (left|right)"}}
    tool: Any = {"type": "custom", "custom": {"name": "steer", "description": "Steers.", "format": form}}
    messages: list[Any] = [{"role": "user", "content": "Hello"}]
    first = client.chat.completions.create(
        model="demo", temperature=0, max_tokens=100, messages=messages, tools=[tool], tool_choice="required"
    )
    assert first.choices[0].message.tool_calls
    call = first.choices[0].message.tool_calls[0]
    assert call.type == "custom"
    assert call.custom.input in ("go left", "go right")
    messages.append(first.choices[0].message.model_dump(exclude_none=True))
    messages += [
        {"role": "tool", "tool_call_id": call.id, "content": "done"} for call in first.choices[0].message.tool_calls
    ]
    second = client.chat.completions.create(model="demo", temperature=0, messages=messages, tools=[tool])
    assert second.choices[0].finish_reason in ("stop", "tool_calls")


class Verdict(BaseModel):
    """What `parse` asks for."""

    answer: Literal["yes", "no"]
    sure: bool


def test_an_answer_keeps_its_schema(client: OpenAI) -> None:
    messages: list[ChatCompletionMessageParam] = [{"role": "user", "content": "Is 2 + 3 equal to 5?"}]
    whole = client.chat.completions.parse(
        model="demo", temperature=0, messages=messages, response_format=Verdict, max_tokens=200
    )
    assert whole.choices[0].message.parsed
    with client.chat.completions.stream(
        model="demo", temperature=0, messages=messages, response_format=Verdict, max_tokens=200
    ) as stream:
        streamed = stream.get_final_completion()
    assert streamed.choices[0].message.parsed == whole.choices[0].message.parsed
    loose = ask(client, "Hello", response_format={"type": "json_object"}, max_tokens=40)
    assert (loose.choices[0].message.content or "").startswith("{")


def test_other_forms_of_an_answer(client: OpenAI) -> None:
    for extra in ({"guided_choice": ["maybe", "never"]}, {"structured_outputs": {"regex": "maybe|never"}}):
        assert ask(client, "Hello", extra_body=extra).choices[0].message.content in ("maybe", "never")
    with pytest.raises(openai.BadRequestError) as broken:
        ask(client, "Hello", extra_body={"guided_regex": "("})
    assert broken.value.param == "guided_regex"
    schema = {"type": "json_schema", "json_schema": {"name": "x", "schema": {"type": "nothing"}}}
    with pytest.raises(openai.BadRequestError) as impossible:
        ask(client, "Hello", response_format=schema)
    assert impossible.value.param == "response_format"


def test_an_answer_goes_on_with_the_last_message(client: OpenAI) -> None:
    begun: Any = {"role": "assistant", "content": "1, 2, 3,", "prefix": True}
    messages: list[ChatCompletionMessageParam] = [{"role": "user", "content": "Count from 1 to 6"}, begun]
    answer = client.chat.completions.create(model="demo", temperature=0, messages=messages)
    text = answer.choices[0].message.content or ""
    assert "4" in text
    assert "2" not in text


def test_a_picture_is_refused_by_a_model_that_sees_none(client: OpenAI) -> None:
    picture: Any = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}}
    with pytest.raises(openai.BadRequestError, match="Images") as caught:
        client.chat.completions.create(model="demo", messages=[{"role": "user", "content": [picture]}])
    assert (caught.value.param or "").startswith("messages")


def test_thoughts_can_be_hidden(client: OpenAI) -> None:
    for extra in ({"reasoning": "hide"}, {"reasoning": {"exclude": True}}):
        answer = ask(client, "What is 12 + 30?", extra_body={"enable_thinking": True, **extra})
        message = answer.choices[0].message
        assert message.content
        assert "42" in message.content
        assert getattr(message, "reasoning_content", None) is None
        assert getattr(message, "reasoning", None) is None
        assert answer.usage
        assert answer.usage.completion_tokens_details
        assert answer.usage.completion_tokens_details.reasoning_tokens


def test_thinking_is_kept_apart(client: OpenAI) -> None:
    thoughtful = ask(client, "What is 12 + 30?", extra_body={"enable_thinking": True})
    message = thoughtful.choices[0].message
    assert getattr(message, "reasoning_content", None)
    assert message.content
    assert "42" in message.content
    assert "<think>" not in message.content
    assert thoughtful.usage
    assert thoughtful.usage.completion_tokens_details
    assert thoughtful.usage.completion_tokens_details.reasoning_tokens
    plain = ask(client, "What is 12 + 30?")
    assert getattr(plain.choices[0].message, "reasoning_content", None) is None


def test_thinking_ends_where_its_budget_does(client: OpenAI) -> None:
    for budget in (0, 3):
        extra = {"thinking_budget": budget, "enable_thinking": True}
        answer = ask(client, "What is 12 + 30?", extra_body=extra, max_tokens=200)
        assert answer.usage
        assert answer.usage.completion_tokens_details
        # The tokens that open and end it are counted too: this model opens it itself.
        assert (answer.usage.completion_tokens_details.reasoning_tokens or 0) <= budget + 2
        assert answer.choices[0].message.content
        assert "</think>" not in answer.choices[0].message.content


def test_a_conversation_is_read_once(server: Server, client: OpenAI) -> None:
    messages: list[ChatCompletionMessageParam] = [{"role": "user", "content": "My name is Ada. " * 20}]
    first = client.chat.completions.create(model="demo", temperature=0, max_tokens=16, messages=messages)
    messages += [
        {"role": "assistant", "content": first.choices[0].message.content},
        {"role": "user", "content": "What is my name?"},
    ]
    raw = client.chat.completions.with_raw_response.create(
        model="demo", temperature=0, max_tokens=16, messages=messages
    )
    answer = raw.parse()
    assert first.usage
    assert answer.usage
    assert answer.usage.prompt_tokens_details
    cached = answer.usage.prompt_tokens_details.cached_tokens or 0
    assert first.usage.prompt_tokens // 2 < cached < answer.usage.prompt_tokens
    report = httpx.get(f"{server.url}/v1/cache", params={"request_id": raw.headers["x-request-id"]}, timeout=60).json()
    assert (report["object"], report["model"]) == ("cache.report", "demo")
    assert (report["prompt_tokens"], report["cached_tokens"]) == (answer.usage.prompt_tokens, cached)
    (model,) = httpx.get(f"{server.url}/v1/cache", timeout=60).json()["models"]
    assert model["counters"]["hits"] >= 1
    assert model["reports"][-1]["summary"] == report["summary"]


def test_length(client: OpenAI) -> None:
    answer = ask(client, "Count from 1 to 50", max_completion_tokens=10)
    assert answer.choices[0].finish_reason == "length"
    assert answer.usage
    assert answer.usage.completion_tokens == 10


def test_stop(client: OpenAI) -> None:
    whole = ask(client, "Count from 1 to 12").choices[0].message.content
    assert whole
    answer = ask(client, "Count from 1 to 12", stop=["12", "nowhere"])
    assert answer.choices[0].message.content == whole[: whole.index("12")]
    assert answer.choices[0].finish_reason == "stop"


def test_choices_and_seeds(client: OpenAI) -> None:
    def answers(seed: int) -> list[str | None]:
        answer = ask(client, "Tell me a story about a fox", n=3, temperature=1.5, seed=seed, max_tokens=8)
        assert [choice.index for choice in answer.choices] == [0, 1, 2]
        return [choice.message.content for choice in answer.choices]

    assert answers(1) == answers(1)
    assert len({*answers(1), *answers(2)}) > 1


def test_logprobs(client: OpenAI) -> None:
    answer = ask(client, "Hello", logprobs=True, top_logprobs=2)
    (choice,) = answer.choices
    assert choice.logprobs
    assert choice.logprobs.content
    assert "".join(token.token for token in choice.logprobs.content) == choice.message.content
    for token in choice.logprobs.content:
        assert len(token.top_logprobs) == 2
        assert token.logprob <= 0
        # Greedy: the drawn token is the likeliest.
        assert token.top_logprobs[0].logprob == pytest.approx(token.logprob)


def test_logit_bias(client: OpenAI) -> None:
    plain = ask(client, "Hello", logprobs=True)
    biased = ask(client, "Hello", logit_bias={"5": 100}, max_tokens=3, logprobs=True)
    assert plain.choices[0].message.content != biased.choices[0].message.content
    assert biased.choices[0].logprobs
    assert len({token.token for token in biased.choices[0].logprobs.content or []}) == 1


def test_models(client: OpenAI) -> None:
    (model,) = client.models.list().data
    assert model.id == "demo"
    assert client.models.retrieve("demo") == model
    assert model.model_dump()["context_window"] > 0


async def test_many_at_once_are_answered_as_one_alone(async_client: AsyncOpenAI) -> None:
    async def answer(text: str) -> str | None:
        messages: list[ChatCompletionMessageParam] = [{"role": "user", "content": text}]
        reply = await async_client.chat.completions.create(model="demo", temperature=0, messages=messages)
        return reply.choices[0].message.content

    questions = [f"What is {number} + 7?" for number in range(8)]
    alone = [await answer(question) for question in questions]
    assert await asyncio.gather(*(answer(question) for question in questions)) == alone


async def test_async_streaming(async_client: AsyncOpenAI) -> None:
    messages: list[ChatCompletionMessageParam] = [{"role": "user", "content": "Say hello"}]
    stream = await async_client.chat.completions.create(model="demo", temperature=0, messages=messages, stream=True)
    text = "".join([chunk.choices[0].delta.content or "" async for chunk in stream])
    assert "hello" in text.lower()


def test_errors_are_the_sdks_own(client: OpenAI) -> None:
    with pytest.raises(openai.NotFoundError) as unknown:
        ask(client, "Hello", model="gpt-x")
    assert unknown.value.code == "model_not_found"
    with pytest.raises(openai.BadRequestError) as wrong:
        ask(client, "Hello", temperature=3)
    assert wrong.value.param == "temperature"
    with pytest.raises(openai.BadRequestError) as foreign:
        ask(client, "Hello", logit_bias={"999999999": 1})
    assert foreign.value.param == "logit_bias"
    with pytest.raises(openai.BadRequestError) as long:
        ask(client, "word " * 480_000)
    assert long.value.code == "context_length_exceeded"


def test_a_timeout_frees_the_row(server: Server, client: OpenAI) -> None:
    with pytest.raises(openai.APITimeoutError):
        ask(client.with_options(timeout=0.5), "Count from 1 to 150", logit_bias={}, max_tokens=2000, stop=None)
    server.until("demo", running=0, timeout=2)


def test_a_retry_survives_a_dead_worker(server: Server, client: OpenAI) -> None:
    pid = server.health("demo")["pid"]
    stream = client.chat.completions.create(
        model="demo", messages=[{"role": "user", "content": "Count from 1 to 100"}], stream=True
    )
    next(iter(stream))
    os.kill(pid, signal.SIGKILL)
    with pytest.raises(openai.APIError, match="ended by SIGKILL"):
        list(stream)
    assert "5" in (ask(client.with_options(max_retries=3), "What is 2 + 3?").choices[0].message.content or "")
    server.until("demo", state="ready")  # as it was, for the tests that come after
