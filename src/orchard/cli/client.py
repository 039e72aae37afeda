"""The HTTP side of `orchard chat`: which models a server has, and a streamed answer to a conversation."""

from collections.abc import Generator, Iterator
from typing import Any, Literal, NamedTuple

import httpx
import msgspec

from orchard.cli.endpoint import (
    CONNECT_SECONDS,
    ChatChunk,
    ServerError,
    error_text,
    http_options,
    listed_models,
    refusal,
    root_of,
    sse_data,
)


class AnswerPiece(NamedTuple):
    """A piece of an answer; a "note" says why the answer ended early."""

    kind: Literal["reasoning", "text", "note"]
    text: str


class ChatClient:
    """One server's OpenAI API. Every failure is a ServerError with one sentence."""

    def __init__(self, url: str, api_key: str | None = None) -> None:
        self.url = root_of(url)
        self._http = httpx.Client(**http_options(self.url, api_key))

    def __enter__(self) -> "ChatClient":
        return self

    def __exit__(self, *_: object) -> None:
        self._http.close()

    def models(self) -> list[str]:
        """Return the ids of the models that the server has."""
        try:
            return listed_models(self._http.get("/v1/models", timeout=CONNECT_SECONDS))
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise ServerError(f"no server answers at {self.url} ({error})") from error
        except msgspec.DecodeError as error:
            raise ServerError(f"what answers at {self.url} is no OpenAI API") from error

    def answer(self, body: dict[str, Any]) -> Generator[AnswerPiece, None, None]:
        """Post a chat completion and yield its answer as it comes. Closing the iterator ends the request."""
        try:
            with self._http.stream("POST", "/v1/chat/completions", json={**body, "stream": True}) as response:
                if response.status_code != httpx.codes.OK:
                    response.read()
                    raise ServerError(refusal(response))
                for data in sse_data(response.iter_bytes()):
                    if data == b"[DONE]":
                        return
                    yield from _pieces(msgspec.json.decode(data, type=ChatChunk))
        except httpx.HTTPError as error:
            raise ServerError(f"the connection to {self.url} failed ({error})") from error
        except msgspec.DecodeError as error:
            raise ServerError(f"{self.url} sent something that is no chat completion ({error})") from error
        raise ServerError("the answer broke off")


def _pieces(chunk: ChatChunk) -> Iterator[AnswerPiece]:
    if chunk.error:
        raise ServerError(error_text(chunk.error))
    for choice in chunk.choices:
        if choice.delta and choice.delta.reasoning_content:
            yield AnswerPiece("reasoning", choice.delta.reasoning_content)
        if choice.delta and choice.delta.content:
            yield AnswerPiece("text", choice.delta.content)
        if choice.finish_reason == "length":
            yield AnswerPiece("note", "the answer was cut: the token limit or the context window is reached")
