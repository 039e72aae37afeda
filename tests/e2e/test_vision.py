"""Pictures by the official openai and anthropic SDKs, against a real server with a tiny vision model."""

import base64
from collections.abc import AsyncIterator, Iterator
from typing import Any

import anthropic
import openai
import pytest
from anthropic import AsyncAnthropic
from msgspec.structs import replace
from openai import AsyncOpenAI
from openai.types import CreateEmbeddingResponse
from openai.types.chat import ChatCompletion
from PIL import Image

from orchard.core.tasks.text_options import TextOptions
from orchard.gateway.models.registry import resolve_model
from tests.support.media import picture, png, with_one_pixel
from tests.support.serving import Server, serve
from tests.support.vision_families import FAMILIES
from tests.support.vision_models import make_vision_model
from tests.support.web import found, web

PLACES = 24  # a picture of 32 x 48 pixels is so many tokens
LOOK: dict[str, Any] = {"name": "look", "input_schema": {"type": "object", "properties": {}}}
USED: list[dict[str, Any]] = [{"type": "tool_use", "id": "toolu_1", "name": "look", "input": {}}]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """It takes pictures from this machine's own addresses, too."""
    folder = tmp_path_factory.mktemp("models") / "tiny"
    folder.mkdir()
    make_vision_model(folder, FAMILIES["qwen3_vl"])
    entry = replace(resolve_model(str(folder)), options=TextOptions(embeddings=True))
    with serve([entry], spare=False, allow_private_media=True) as running:
        running.until("tiny", state="ready")
        yield running


@pytest.fixture
async def gpt(server: Server) -> AsyncIterator[AsyncOpenAI]:
    async with AsyncOpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=0, timeout=60) as client:
        yield client


@pytest.fixture
async def claude(server: Server) -> AsyncIterator[AsyncAnthropic]:
    async with AsyncAnthropic(base_url=server.url, api_key="none", max_retries=0, timeout=60) as client:
        yield client


def encoded(image: Image.Image) -> str:
    return base64.b64encode(png(image)).decode()


def link(image: Image.Image | str) -> dict[str, Any]:
    """OpenAI's part for a picture."""
    url = image if isinstance(image, str) else f"data:image/png;base64,{encoded(image)}"
    return {"type": "image_url", "image_url": {"url": url}}


def block(image: Image.Image) -> dict[str, Any]:
    """Anthropic's block for a picture."""
    return {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": encoded(image)}}


def text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


def user(*content: dict[str, Any]) -> dict[str, Any]:
    return {"role": "user", "content": list(content)}


async def chat(client: AsyncOpenAI, *messages: dict[str, Any]) -> ChatCompletion:
    fields: Any = {"model": "tiny", "messages": messages, "temperature": 0, "logprobs": True, "top_logprobs": 3}
    answer: ChatCompletion = await client.chat.completions.create(max_tokens=6, **fields)
    return answer


def alike(one: ChatCompletion, *others: ChatCompletion) -> bool:
    """Whether the likeliest first tokens are as likely in all answers: they are not for two pictures."""
    heads = []
    for answer in (one, *others):
        logprobs = answer.choices[0].logprobs
        assert logprobs
        assert logprobs.content
        heads.append({each.token: each.logprob for each in logprobs.content[0].top_logprobs})
    return all(heads[0] == pytest.approx(head, abs=1e-3) for head in heads)


def tokens(answer: ChatCompletion) -> tuple[int, int]:
    """How many tokens a prompt has, and how many of them were cached."""
    assert answer.usage
    assert answer.usage.prompt_tokens_details
    return answer.usage.prompt_tokens, answer.usage.prompt_tokens_details.cached_tokens or 0


async def test_a_picture_is_the_same_wherever_it_comes_from(gpt: AsyncOpenAI) -> None:
    """And once it is in the cache, nothing of it is read again."""
    image, question = picture(1), text("What is blue?")
    bare = await chat(gpt, user(question))
    async with web({"/a.png": found(png(image)), "/b.png": found(png(image))}) as site:
        first = await chat(gpt, user(link(image), question))
        fetched = [await chat(gpt, user(link(site.url(path)), question)) for path in ("/a.png", "/b.png")]
        assert len(site.requests) == 2
    whole, cached = tokens(first)
    assert whole == tokens(bare)[0] + PLACES + 2  # the picture's places and the marks around them
    assert cached < PLACES
    assert alike(first, *fetched)
    assert [tokens(one) for one in fetched] == [(whole, whole - 1)] * 2
    assert not alike(bare, first)
    ollamas = await chat(gpt, {"role": "user", "content": "What is blue?", "images": [encoded(image)]})
    assert alike(first, ollamas)
    assert tokens(ollamas) == (whole, whole - 1)


async def test_lists_say_what_the_model_takes(gpt: AsyncOpenAI, claude: AsyncAnthropic) -> None:
    (model,) = [one async for one in gpt.models.list()]
    told = model.model_dump()
    assert told["architecture"]["input_modalities"] == ["text", "image", "video"]
    assert (told["media"], told["capabilities"]) == (["image", "video"], ["vision", "tools", "thinking"])
    described = await claude.models.retrieve("tiny")
    assert described.capabilities
    assert described.capabilities.image_input.supported


async def test_two_pictures_are_told_apart(gpt: AsyncOpenAI) -> None:
    one, other, question = link(picture(2)), link(picture(3)), text("What is blue?")
    first, turned, again = [
        await chat(gpt, user(*parts, question)) for parts in ((one, other), (other, one), (one, other))
    ]
    assert tokens(first)[0] == tokens(turned)[0] > 2 * PLACES
    assert tokens(turned)[1] < PLACES
    assert alike(first, again)
    assert not alike(first, turned)


async def test_one_pixel_makes_another_picture(gpt: AsyncOpenAI) -> None:
    """What comes before it is shared, and nothing behind."""
    before, question = text("The sea is blue and the sky is blue too. "), text("What is blue?")
    image = picture(4)
    first, other = [await chat(gpt, user(before, link(one), question)) for one in (image, with_one_pixel(image))]
    whole, cached = tokens(other)
    assert 0 < cached < whole - PLACES
    assert not alike(first, other)


async def test_a_follow_up_question_reads_only_what_is_new(gpt: AsyncOpenAI) -> None:
    asked = user(link(picture(5)), text("What is blue?"))
    whole, _ = tokens(await chat(gpt, asked))
    follow_up = await chat(gpt, asked, {"role": "assistant", "content": "The sea."}, user(text("And what else?")))
    known = tokens(follow_up)[1]
    assert known >= whole - 1
    assert tokens(follow_up)[0] > known


async def test_a_broken_picture_is_the_callers_fault(gpt: AsyncOpenAI, claude: AsyncAnthropic) -> None:
    """The part is named, and the server goes on."""
    data = base64.b64encode(png(picture(6))[:200]).decode()
    with pytest.raises(openai.BadRequestError) as refused:
        await chat(gpt, user(text("Look."), link(f"data:image/png;base64,{data}")))
    assert refused.value.param == "messages[0].content[1].image_url.url"
    assert "broken or truncated" in refused.value.message
    broken = block(picture(6))
    broken["source"]["data"] = data
    with pytest.raises(anthropic.BadRequestError) as told:
        await tell(claude, [user(text("Look."), broken)])
    assert "messages[0].content[1]" in told.value.message
    assert tokens(await chat(gpt, user(link(picture(6)))))[0] > PLACES


async def tell(client: AsyncAnthropic, messages: list[dict[str, Any]]) -> anthropic.types.Usage:
    asked: Any = {"model": "tiny", "messages": messages, "tools": [LOOK]}
    answer = await client.messages.create(max_tokens=6, **asked)
    counted = await client.messages.count_tokens(**asked)
    usage: anthropic.types.Usage = answer.usage
    read = usage.input_tokens + (usage.cache_read_input_tokens or 0) + (usage.cache_creation_input_tokens or 0)
    assert counted.input_tokens == read
    return usage


async def test_a_picture_as_what_a_tool_found(claude: AsyncAnthropic) -> None:
    """Tokens are counted as they are read, and pictures in results are cached, too."""

    def found_by_tool(*content: dict[str, Any]) -> list[dict[str, Any]]:
        result = {"type": "tool_result", "tool_use_id": "toolu_1", "content": list(content)}
        return [user(text("What is blue?")), {"role": "assistant", "content": USED}, user(result)]

    bare = await tell(claude, found_by_tool(text("There: ")))
    first = await tell(claude, found_by_tool(text("There: "), block(picture(7))))
    again = await tell(claude, found_by_tool(text("There: "), block(picture(7))))
    assert whole(first) == whole(bare) + PLACES + 2
    assert again.cache_read_input_tokens == whole(first) - 1
    assert again.input_tokens == 1


def whole(usage: anthropic.types.Usage) -> int:
    return usage.input_tokens + (usage.cache_read_input_tokens or 0)


async def test_a_chain_of_responses_remembers_its_picture(gpt: AsyncOpenAI) -> None:
    """Its bytes are stored, so its URL is read once."""
    fields: Any = {"model": "tiny", "temperature": 0, "max_output_tokens": 6}
    async with web({"/a.png": found(png(picture(8)))}) as site:
        link_to_it = {"type": "input_image", "image_url": site.url("/a.png")}
        asked: Any = [user({"type": "input_text", "text": "What is blue?"}, link_to_it)]
        counted = await gpt.responses.input_tokens.count(model="tiny", input=asked)
        first = await gpt.responses.create(input=asked, **fields)
        second = await gpt.responses.create(input="And what else?", previous_response_id=first.id, **fields)
        assert len(site.requests) == 2  # to count, and to answer
    assert first.usage
    assert second.usage
    assert counted.input_tokens == first.usage.input_tokens > PLACES
    assert second.usage.input_tokens_details.cached_tokens >= first.usage.input_tokens - 1


async def test_embeddings_of_pictures(gpt: AsyncOpenAI) -> None:
    """As parts, alone and among texts, from data: and http URLs."""
    async with web({"/a.png": found(png(picture(1)))}) as site:
        inputs: list[Any] = [
            link(picture(1)),
            [link(site.url("/a.png"))],
            [{"type": "text", "text": "Blue: "}, link(picture(1))],
            link(with_one_pixel(picture(1))),
            "Blue: ",
            [{"type": "text", "text": "Blue"}, {"type": "text", "text": ": "}],
        ]
        answer = await gpt.embeddings.create(model="tiny", input=inputs)
    same, fetched, captioned, other, text, parts = [one.embedding for one in answer.data]
    assert fetched == pytest.approx(same, abs=1e-5)
    assert parts == pytest.approx(text, abs=1e-5)
    for vector in (captioned, other, text):
        assert vector != pytest.approx(same, abs=1e-3)
    assert answer.usage.prompt_tokens > 4 * PLACES
    alone = await gpt.embeddings.create(model="tiny", input=inputs[0])
    assert alone.data[0].embedding == pytest.approx(same, abs=1e-5)


async def test_embeddings_of_conversations(gpt: AsyncOpenAI) -> None:
    """As vLLM takes them, with pictures."""
    found = []
    for image in (picture(1), picture(1), with_one_pixel(picture(1))):
        body = {"model": "tiny", "messages": [user(text("What is blue?"), link(image))]}
        answer = await gpt.post("/embeddings", body=body, cast_to=CreateEmbeddingResponse)
        found.append(answer.data[0].embedding)
    assert found[0] == pytest.approx(found[1], abs=1e-5)
    assert found[0] != pytest.approx(found[2], abs=1e-3)


async def test_a_picture_that_can_not_be_embedded_is_named(gpt: AsyncOpenAI) -> None:
    broken: Any = ["Blue", link(f"data:image/png;base64,{base64.b64encode(b'none').decode()}")]
    with pytest.raises(openai.BadRequestError, match="can't be read: it is no PNG") as caught:
        await gpt.embeddings.create(model="tiny", input=broken)
    assert caught.value.param == "input[1].image_url.url"
