"""How the commands reach a server with the OpenAI API and read its models, answers and errors."""

import json
from collections.abc import Callable, Generator, Iterable, Iterator
from typing import Any, Literal, NamedTuple, TypeVar
from urllib.parse import quote

import httpx
import msgspec
from msgspec import Struct, field

from orchard.core.errors import OrchardError

CONNECT_SECONDS = 10.0
T = TypeVar("T")


class ServerError(OrchardError):
    """A failure of a server or of the connection to it, in one sentence."""

    def __init__(self, message: str) -> None:
        super().__init__("internal", message)


class ChunkDelta(Struct):
    """What a chunk adds. Servers put reasoning into one of two fields; Orchard puts it into both."""

    content: str | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None


class ChunkChoice(Struct):
    """A choice of a chunk."""

    delta: ChunkDelta | None = None
    finish_reason: str | None = None


class CachedTokens(Struct):
    """How many of the prompt's tokens the server took from its cache."""

    cached_tokens: int | None = None


class ChunkUsage(Struct):
    """The token counts of an answer."""

    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    prompt_tokens_details: CachedTokens | None = None


class ChatChunk(Struct):
    """A chunk of a streamed chat completion, or an error in its place. Error bodies have the same form."""

    choices: list[ChunkChoice] = field(default_factory=list)
    usage: ChunkUsage | None = None
    error: Any = None


class ModelCard(Struct):
    """An entry of the list of models. Only an Orchard server says more than its id."""

    id: str
    context_window: int | None = None
    capabilities: list[str] = field(default_factory=list)
    loaded: bool = False


class ModelCards(Struct):
    """The body of `/v1/models`."""

    data: list[ModelCard]


def first_key(keys: str | None) -> str | None:
    """Return the first of comma-separated keys; None if there is none."""
    return (keys or "").split(",")[0].strip() or None


def root_url(url: str) -> str:
    """Return a server's URL without a final /v1, and with http:// if it has no scheme."""
    whole = url if "://" in url else f"http://{url}"
    return whole.rstrip("/").removesuffix("/v1")


def http_options(url: str, api_key: str | None) -> dict[str, Any]:
    """Return the options of an httpx client for the server at `url`."""
    # No read timeout: nothing arrives while a model loads or a long prompt is prefilled. No proxy or .netrc from the
    # environment. Load certificates, which is slow, only for https.
    return {
        "base_url": url,
        "headers": {"authorization": f"Bearer {api_key}"} if api_key else {},
        "timeout": httpx.Timeout(None, connect=CONNECT_SECONDS),
        "trust_env": False,
        "verify": url.startswith("https:"),
    }


def model_cards(response: httpx.Response) -> list[ModelCard]:
    """Return the models in an answer of `/v1/models`.

    Raise ServerError with the server's message if it rejects the key or the Host header, DecodeError for other bodies.
    """
    if response.status_code in (httpx.codes.UNAUTHORIZED, httpx.codes.FORBIDDEN):
        raise ServerError(refusal_text(response))
    return msgspec.json.decode(response.content, type=ModelCards).data


def refusal_text(response: httpx.Response) -> str:
    """Return the message of an error response whose body has been read, else its status."""
    return body_error(response.content) or f"the server answers {response.status_code} {response.reason_phrase}"


def body_error(body: bytes) -> str:
    """Return the message in an error's body; empty if there is none."""
    try:
        error = msgspec.json.decode(body, type=ChatChunk).error
    except msgspec.DecodeError:
        return ""
    return error_text(error) if error else ""


def error_text(error: Any) -> str:
    """Return an error as one line: the message of an object, or the string that some servers send instead."""
    if isinstance(error, dict):
        error = error.get("message") or error
    return " ".join((error if isinstance(error, str) else json.dumps(error)).split())


def sse_data(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the data of each server-sent event, wherever the chunks were cut; skip comments."""
    rest, data = b"", list[bytes]()
    for chunk in chunks:
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            text = line.removesuffix(b"\r")
            if text.startswith(b"data:"):
                data.append(text[5:].removeprefix(b" "))
            elif not text and data:
                yield b"\n".join(data)
                data.clear()


class AnswerPiece(NamedTuple):
    """A piece of an answer. A "note" says why the answer ended early."""

    kind: Literal["reasoning", "text", "note"]
    text: str


class ChatClient:
    """One server's OpenAI API. Every failure is a ServerError with one sentence."""

    def __init__(self, url: str, api_key: str | None = None) -> None:
        self.url = root_url(url)
        self.api_key = api_key
        self._http = httpx.Client(**http_options(self.url, api_key))

    def __enter__(self) -> "ChatClient":
        return self

    def __exit__(self, *_: object) -> None:
        self._http.close()

    def check_reachable(self) -> None:
        """Raise ServerError if no server answers, whatever it says."""
        self._read("/v1/models", lambda _: None)

    def list_models(self) -> list[str]:
        """Return the ids of the models that the server has."""
        return [card.id for card in self.describe_models()]

    def describe_models(self) -> list[ModelCard]:
        """Return the models that the server has."""
        return self._read("/v1/models", model_cards)

    def describe_model(self, name: str) -> ModelCard:
        """Return the model that an Orchard server answers this name with. Raise its ServerError if there is none."""

        def read_card(response: httpx.Response) -> ModelCard:
            if response.status_code != httpx.codes.OK:
                raise ServerError(refusal_text(response))
            return msgspec.json.decode(response.content, type=ModelCard)

        return self._read(f"/v1/models/{quote(name, safe='/')}", read_card)

    def _read(self, path: str, read: Callable[[httpx.Response], T]) -> T:
        try:
            return read(self._http.get(path, timeout=CONNECT_SECONDS))
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise ServerError(f"no server answers at {self.url} ({error})") from error
        except msgspec.DecodeError as error:
            raise ServerError(f"the server at {self.url} does not have OpenAI's API") from error

    def stream_answer(self, body: dict[str, Any]) -> Generator[AnswerPiece, None, None]:
        """Post a chat completion and yield its answer as it arrives. Closing the iterator ends the request."""
        try:
            with self._http.stream("POST", "/v1/chat/completions", json={**body, "stream": True}) as response:
                if response.status_code != httpx.codes.OK:
                    response.read()
                    raise ServerError(refusal_text(response))
                for data in sse_data(response.iter_bytes()):
                    if data == b"[DONE]":
                        return
                    yield from _answer_pieces(msgspec.json.decode(data, type=ChatChunk))
        except httpx.HTTPError as error:
            raise ServerError(f"the connection to {self.url} failed ({error})") from error
        except msgspec.DecodeError as error:
            raise ServerError(f"{self.url} sent something that is not a chat completion ({error})") from error
        raise ServerError("the answer broke off")


def _answer_pieces(chunk: ChatChunk) -> Iterator[AnswerPiece]:
    if chunk.error:
        raise ServerError(error_text(chunk.error))
    for choice in chunk.choices:
        if choice.delta and choice.delta.reasoning_content:
            yield AnswerPiece("reasoning", choice.delta.reasoning_content)
        if choice.delta and choice.delta.content:
            yield AnswerPiece("text", choice.delta.content)
        if choice.finish_reason == "length":
            yield AnswerPiece("note", "the answer was cut: the token limit or the context window is reached")
