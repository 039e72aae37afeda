"""Ollama's own client for Python."""

import json
import re
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import httpx
import ollama
import pytest

from tests.clients.agents import KEY
from tests.clients.prompts import ASK_VERDICT, ASK_WEATHER, COUNT, SUM, SUM_ANSWER, WEATHER, Verdict
from tests.support.ollama_examples import EXAMPLES, WHOLE

SHAPES = Path(__file__).parents[2] / "examples" / "shapes.png"
COLD: dict[str, Any] = {"temperature": 0}
MESSAGES = [{"role": "user", "content": SUM}]


def get_weather(city: str) -> str:
    """
    Get the weather of a city

    Args:
      city: the name of the city
    """
    return WEATHER


@pytest.fixture
def client(url: str) -> Iterator[ollama.Client]:
    with ollama.Client(host=url, timeout=60) as client:
        yield client


@pytest.fixture
async def async_client(url: str) -> AsyncIterator[ollama.AsyncClient]:
    async with ollama.AsyncClient(host=url, timeout=60) as client:
        yield client


def test_a_chat(client: ollama.Client) -> None:
    answer = client.chat("demo", [{"role": "system", "content": "Be brief."}, *MESSAGES], options=COLD)
    assert SUM_ANSWER in (answer.message.content or "")
    assert (answer.done, answer.done_reason) == (True, "stop")
    assert answer.eval_count
    assert answer.prompt_eval_count
    assert answer.total_duration
    assert answer.eval_duration
    assert answer.total_duration >= answer.eval_duration > 0


def test_a_streamed_chat(client: ollama.Client) -> None:
    messages = [{"role": "user", "content": COUNT}]
    chunks = list(client.chat("demo", messages, stream=True, options=COLD))
    texts = [chunk.message.content or "" for chunk in chunks]
    assert sum(map(bool, texts)) > 1
    assert "".join(texts) == client.chat("demo", messages, options=COLD).message.content
    assert [chunk.done for chunk in chunks] == [False] * (len(chunks) - 1) + [True]


async def test_async(async_client: ollama.AsyncClient) -> None:
    assert SUM_ANSWER in ((await async_client.chat("demo", MESSAGES, options=COLD)).message.content or "")
    chunks = [chunk async for chunk in await async_client.generate("demo", SUM, stream=True, options=COLD)]
    assert SUM_ANSWER in "".join(chunk.response or "" for chunk in chunks)


@pytest.mark.parametrize("streamed", [False, True])
def test_a_tool_loop(client: ollama.Client, streamed: bool) -> None:
    messages: list[Any] = [{"role": "user", "content": ASK_WEATHER}]
    if streamed:
        chunks = client.chat("demo", messages, tools=[get_weather], stream=True, options=COLD)
        (call,) = [call for chunk in chunks for call in chunk.message.tool_calls or ()]
        messages.append({"role": "assistant", "content": "", "tool_calls": [call.model_dump()]})
    else:
        message = client.chat("demo", messages, tools=[get_weather], options=COLD).message
        assert message.tool_calls
        (call,) = message.tool_calls
        messages.append(message)
    assert (call.function.name, call.function.arguments) == ("get_weather", {"city": "Paris"})
    messages.append({"role": "tool", "tool_name": "get_weather", "content": get_weather(**call.function.arguments)})
    assert "21" in (client.chat("demo", messages, tools=[get_weather], options=COLD).message.content or "")


def test_structured_output(client: ollama.Client) -> None:
    messages = [{"role": "user", "content": ASK_VERDICT}]
    answer = client.chat("demo", messages, format=Verdict.model_json_schema(), options=COLD)
    assert Verdict.model_validate_json(answer.message.content or "")


def test_a_picture(client: ollama.Client) -> None:
    asked: dict[str, Any] = {"role": "user", "content": "What is in the picture?", "images": [SHAPES]}
    assert "blue square" in (client.chat("demo-vision", [asked], options=COLD).message.content or "")
    answer = client.generate("demo-vision", "What is in the picture?", images=[SHAPES], options=COLD)
    assert "blue square" in (answer.response or "")


def test_thinking(client: ollama.Client) -> None:
    message = client.chat("demo", MESSAGES, think=True, options=COLD).message
    assert SUM_ANSWER in (message.content or "")
    assert message.thinking
    assert not client.chat("demo", MESSAGES, think=False, options=COLD).message.thinking


def test_a_prompt_and_its_context(client: ollama.Client) -> None:
    first = client.generate("demo", "My name is Ann.", options=COLD)
    assert first.context
    assert "Ann" in (client.generate("demo", "What is my name?", context=first.context, options=COLD).response or "")


def test_log_probabilities(client: ollama.Client) -> None:
    found = client.generate("demo", SUM, logprobs=True, top_logprobs=2, options=COLD).logprobs
    assert found
    assert all(one.logprob <= 0 and len(one.top_logprobs or ()) == 2 for one in found)


def test_models(client: ollama.Client) -> None:
    assert "demo" in [model.model for model in client.list().models]
    shown = client.show("demo")
    assert shown.capabilities
    assert {"completion", "tools"} <= set(shown.capabilities)
    assert shown.modelinfo
    assert shown.modelinfo["qwen3.context_length"] == 32768
    assert shown.details
    assert shown.details.format == "mlx"


def test_loading_and_keep_alive(client: ollama.Client) -> None:
    assert client.generate("demo", keep_alive="10m").done_reason == "load"
    (running,) = [model for model in client.ps().models if model.model == "demo"]
    assert running.expires_at
    assert running.expires_at.year < 9999
    assert running.context_length == 32768
    client.chat("demo", MESSAGES, keep_alive=-1, options=COLD)
    (running,) = [model for model in client.ps().models if model.model == "demo"]
    assert running.expires_at
    assert running.expires_at.year == 9999


def test_errors(client: ollama.Client) -> None:
    with pytest.raises(ollama.ResponseError, match="no model 'nothing' here") as caught:
        client.chat("nothing", MESSAGES)
    assert caught.value.status_code == 404
    with pytest.raises(ollama.ResponseError, match="--allow-delete"):
        client.delete("demo")
    with pytest.raises(ollama.ResponseError, match="--allow-download"):
        list(client.pull("demo", stream=True))
    with pytest.raises(ollama.ResponseError, match="not made here"):
        client.create("mario", from_="demo", system="You are Mario.")


def test_it_asks_for_a_key(keyed_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ollama.ResponseError, match="an API key is needed"):
        ollama.Client(host=keyed_url).list()
    monkeypatch.setenv("OLLAMA_API_KEY", KEY)
    keyed = ollama.Client(host=keyed_url, timeout=60)
    assert SUM_ANSWER in (keyed.chat("demo", MESSAGES, options=COLD).message.content or "")


# As curl sends them: without a content type of JSON. The bundled model takes no pictures and fills no gaps.
DOCUMENTED = {title: example for title, example in EXAMPLES.items() if not re.search("images|suffix", title)}


@pytest.mark.parametrize("title", DOCUMENTED)
@pytest.mark.parametrize("stream", [False, None])
def test_what_its_documentation_shows(url: str, title: str, stream: bool | None) -> None:
    example = DOCUMENTED[title]
    body = example.body | {"model": "demo"} | ({"verbose": True} if example.path == "/api/show" else {})
    body = {name: value for name, value in body.items() if name != "stream"} | ({} if stream is None else WHOLE)
    form = {"content-type": "application/x-www-form-urlencoded"}
    response = httpx.post(url + example.path, content=json.dumps(body), headers=form, timeout=60)
    assert response.status_code == 200, response.text
    lines = [json.loads(line) for line in response.text.splitlines()]
    assert example.fields <= lines[-1].keys()
    assert example.path == "/api/show" or lines[-1]["done"]
