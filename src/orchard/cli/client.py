"""The HTTP side of `orchard chat`: which models a server has, and a streamed answer to a conversation."""

from collections.abc import Generator, Iterable, Iterator
from typing import Any, Literal, NamedTuple

import httpx
import msgspec
from msgspec import Struct, field

from orchard.core.errors import OrchardError

_CONNECT_SECONDS = 5.0


class ServerError(OrchardError):
    """What the server, or the way to it, says is wrong."""

    def __init__(self, message: str) -> None:
        super().__init__("internal", message)


class AnswerPiece(NamedTuple):
    """A piece of an answer; a "note" says why the answer ended early."""

    kind: Literal["reasoning", "text", "note"]
    text: str


class _Delta(Struct):
    content: str | None = None
    reasoning_content: str | None = None
    """The field that Orchard, and other servers of open models, put thinking in."""


class _Choice(Struct):
    delta: _Delta
    finish_reason: str | None = None


class _Error(Struct):
    message: str


class _Chunk(Struct):
    choices: list[_Choice] = field(default_factory=list)
    error: _Error | None = None


class _Model(Struct):
    id: str


class _Models(Struct):
    data: list[_Model]


class ChatClient:
    """One server's OpenAI API. Every failure is a ServerError with one sentence."""

    def __init__(self, url: str, api_key: str | None = None) -> None:
        self.url = root_of(url)
        # No read timeout: while a model loads or a long prompt is read, nothing comes. No proxy or .netrc from the
        # environment, and certificates (slow to load) only where they are used.
        self._http = httpx.Client(
            base_url=self.url,
            headers={"authorization": f"Bearer {api_key}"} if api_key else None,
            timeout=httpx.Timeout(None, connect=_CONNECT_SECONDS),
            trust_env=False,
            verify=self.url.startswith("https:"),
        )

    def __enter__(self) -> "ChatClient":
        return self

    def __exit__(self, *_: object) -> None:
        self._http.close()

    def models(self) -> list[str]:
        """Give the ids of the models that the server has."""
        try:
            response = self._http.get("/v1/models", timeout=_CONNECT_SECONDS)
            refuse_callers_not_let_in(response)
            return [model.id for model in msgspec.json.decode(response.content, type=_Models).data]
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise ServerError(f"no server answers at {self.url} ({error})") from error
        except msgspec.DecodeError as error:
            raise ServerError(f"what answers at {self.url} is no OpenAI API") from error

    def answer(self, body: dict[str, Any]) -> Generator[AnswerPiece, None, None]:
        """Post a chat completion and give its answer as it comes. Closing the iterator ends the request."""
        try:
            with self._http.stream("POST", "/v1/chat/completions", json={**body, "stream": True}) as response:
                if response.status_code != httpx.codes.OK:
                    raise ServerError(_reason(response))
                for data in sse_data(response.iter_bytes()):
                    if data == b"[DONE]":
                        return
                    yield from _pieces(msgspec.json.decode(data, type=_Chunk))
        except httpx.HTTPError as error:
            raise ServerError(f"the connection to {self.url} failed ({error})") from error
        except msgspec.DecodeError as error:
            raise ServerError(f"{self.url} sent something that is no chat completion ({error})") from error
        raise ServerError("the answer broke off")


def root_of(url: str) -> str:
    """Return a server's address without the /v1 that SDKs want, and with the http:// that people leave out."""
    whole = url if "://" in url else f"http://{url}"
    return whole.rstrip("/").removesuffix("/v1")


def refuse_callers_not_let_in(response: httpx.Response) -> None:
    """Raise ServerError with the server's own words where it wants another key, or another name for itself."""
    if response.status_code in (httpx.codes.UNAUTHORIZED, httpx.codes.FORBIDDEN):
        raise ServerError(_reason(response))


def sse_data(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Give the data of each server-sent event, however the bytes were cut into chunks; comments are skipped."""
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


def _pieces(chunk: _Chunk) -> Iterator[AnswerPiece]:
    if chunk.error:
        raise ServerError(chunk.error.message)
    for choice in chunk.choices:
        if choice.delta.reasoning_content:
            yield AnswerPiece("reasoning", choice.delta.reasoning_content)
        if choice.delta.content:
            yield AnswerPiece("text", choice.delta.content)
        if choice.finish_reason == "length":
            yield AnswerPiece("note", "the answer was cut: the token limit or the context window is reached")


def _reason(response: httpx.Response) -> str:
    try:
        error = msgspec.json.decode(response.read(), type=_Chunk).error
    except msgspec.DecodeError:
        error = None
    return error.message if error else f"the server answers {response.status_code} {response.reason_phrase}"
