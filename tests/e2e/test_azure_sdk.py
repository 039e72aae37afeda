"""The official SDK's Azure clients against a real server with the demo model."""

from collections.abc import Iterator
from contextlib import ExitStack

import openai
import pytest
from openai import AsyncAzureOpenAI, AzureOpenAI
from openai.types.chat import ChatCompletionMessageParam

from tests.support.serving import Server

VERSION = "2024-10-21"
HELLO: list[ChatCompletionMessageParam] = [{"role": "user", "content": "Say hello"}]


def client_of(
    server: Server, key: str = "the-key", version: str = VERSION, deployment: str | None = None
) -> AzureOpenAI:
    endpoint = server.url
    return AzureOpenAI(
        azure_endpoint=endpoint,
        azure_deployment=deployment,
        api_key=key,
        api_version=version,
        max_retries=0,
        timeout=60,
    )


@pytest.fixture
def clients() -> Iterator[ExitStack]:
    """Closes what enters it."""
    with ExitStack() as entered:
        yield entered


@pytest.mark.parametrize("deployment", [None, "demo"])
@pytest.mark.parametrize("version", [VERSION, "no-such-version"])
def test_the_model_or_the_client_names_the_deployment(
    clients: ExitStack, narrow: Server, deployment: str | None, version: str
) -> None:
    client = clients.enter_context(client_of(narrow, deployment=deployment, version=version))
    model = "anything" if deployment else "demo"
    answer = client.chat.completions.create(model=model, messages=HELLO, temperature=0)
    assert "hello" in (answer.choices[0].message.content or "").lower()
    assert answer.model == "demo"
    with client.chat.completions.stream(model=model, messages=HELLO, temperature=0) as stream:
        final = stream.get_final_completion()
    assert final.choices[0].message.content == answer.choices[0].message.content
    text = client.completions.create(model=model, prompt="Once upon", max_tokens=4, temperature=0)
    assert text.choices[0].finish_reason in ("stop", "length")
    assert [entry.id for entry in client.models.list()] == ["demo"]


@pytest.mark.parametrize("deployment", [None, "demo"])
def test_responses(clients: ExitStack, narrow: Server, deployment: str | None) -> None:
    client = clients.enter_context(client_of(narrow, deployment=deployment))
    first = client.responses.create(model="demo", input="My name is Ada.", temperature=0)
    second = client.responses.create(
        model="demo", input="What is my name?", previous_response_id=first.id, temperature=0
    )
    assert "Ada" in second.output_text
    assert client.responses.retrieve(second.id).output_text == second.output_text
    with pytest.raises(openai.NotFoundError):
        client.responses.retrieve("resp_unknown")


async def test_asynchronous(narrow: Server) -> None:
    async with AsyncAzureOpenAI(
        azure_endpoint=narrow.url, api_key="the-key", api_version=VERSION, max_retries=0, timeout=60
    ) as client:
        answer = await client.chat.completions.create(model="demo", messages=HELLO, temperature=0)
        stream = await client.chat.completions.create(model="demo", messages=HELLO, temperature=0, stream=True)
        text = "".join([chunk.choices[0].delta.content or "" async for chunk in stream])
    assert text == answer.choices[0].message.content


def test_a_token_serves_as_key(narrow: Server) -> None:
    with AzureOpenAI(
        azure_endpoint=narrow.url,
        azure_ad_token="the-key",  # noqa: S106
        api_version=VERSION,
        max_retries=0,
    ) as client:
        assert client.chat.completions.create(model="demo", messages=HELLO, max_tokens=2).choices


def test_errors_are_the_sdks_own(clients: ExitStack, narrow: Server) -> None:
    with pytest.raises(openai.AuthenticationError) as wrong:
        clients.enter_context(client_of(narrow, key="wrong")).chat.completions.create(model="demo", messages=HELLO)
    assert wrong.value.code == "401"
    client = clients.enter_context(client_of(narrow))
    with pytest.raises(openai.NotFoundError) as unknown:
        client.chat.completions.create(model="gpt-9", messages=HELLO)
    assert unknown.value.code == "DeploymentNotFound"
    with pytest.raises(openai.BadRequestError) as bad:
        client.chat.completions.create(model="demo", messages=HELLO, temperature=3)
    assert (bad.value.code, bad.value.param) == ("BadRequest", "temperature")
    with pytest.raises(openai.BadRequestError, match="gives text and no embeddings"):
        client.embeddings.create(model="demo", input="hello")


def test_azures_newer_address_takes_the_plain_client(narrow: Server) -> None:
    with openai.OpenAI(base_url=f"{narrow.url}/openai/v1/", api_key="the-key", max_retries=0) as client:
        answer = client.chat.completions.create(model="demo", messages=HELLO, temperature=0)
    assert "hello" in (answer.choices[0].message.content or "").lower()
