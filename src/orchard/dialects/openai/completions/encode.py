"""OpenAI's Completions: a body becomes one `Request` a prompt, their events become chunks or one whole completion.

Answers are numbered prompt by prompt: answer i of prompt p is choice p * n + i.
"""

import codecs
import time
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
from msgspec import Struct

from orchard.core.events import Choice, Collected, Event, Failed, Finished, Logprob, Text, TokenLogprob, merge
from orchard.core.request import Request
from orchard.core.tasks.generate import generation
from orchard.dialects.common.fields import PRIORITY_HEADER, decode_for
from orchard.dialects.common.output import DONE, SYSTEM_FINGERPRINT, escape_line_ends, logprob, usage
from orchard.dialects.openai.completions.parse import translate
from orchard.dialects.openai.completions.schema import Body, DeploymentBody, body_schema
from orchard.dialects.openai.errors import error_body

__all__ = ["PRIORITY_HEADER", "CompletionCall", "CompletionEncoder", "DeploymentBody", "body_schema", "parse"]

_decoder = msgspec.json.Decoder(Body)
_deployment_decoder = msgspec.json.Decoder(DeploymentBody)
_json = msgspec.json.Encoder().encode


def parse(
    body: bytes, request_id: str, priority: str | None = None, *, model: str | None = None, default: str | None = None
) -> "CompletionCall":
    """Read the body of a request, and the priority that its header gives; `model` goes before the body's.

    `default` is the model where neither is given. Raises OrchardError (invalid_request), its `param` naming the field
    to blame.
    """
    decoded = decode_for(model, body, _decoder, _deployment_decoder, default)
    return CompletionCall(
        id=f"cmpl-{request_id.removeprefix('req_').replace('-', '')}",
        requests=translate(decoded, request_id, priority),
        wanted=decoded.n or 1,
        top_logprobs=decoded.logprobs,
        stream=bool(decoded.stream),
        include_usage=bool(decoded.stream_options and decoded.stream_options.include_usage),
    )


class CompletionCall(Struct, frozen=True):
    """A parsed body: a request a prompt, and how many of the answers to each are `wanted` (the best of them)."""

    id: str
    requests: tuple[Request, ...]
    wanted: int
    top_logprobs: int | None
    stream: bool
    include_usage: bool = False

    @property
    def model(self) -> str:
        """The model that was asked for."""
        return self.requests[0].model

    def encoder(self) -> "CompletionEncoder":
        """Make the encoder of a streamed answer."""
        return CompletionEncoder(self)

    def complete(self, result: Collected) -> bytes:
        """Give the whole body of an answer that is not streamed."""
        made = generation(self.requests[0]).n
        prompts = [result.choices[place : place + made] for place in range(0, len(result.choices), made)]
        best = [choice for choices in prompts for choice in self._best(choices)]
        return _json(
            {
                "id": self.id,
                "object": "text_completion",
                "created": int(time.time()),
                "model": self.model,
                "choices": [self._choice(index, choice) for index, choice in enumerate(best)],
                "usage": usage(result.usage),
                "system_fingerprint": SYSTEM_FINGERPRINT,
            }
        )

    def _best(self, choices: list[Choice]) -> list[Choice]:
        """Give the wanted answers, those of the highest log-probability per token."""
        return (
            choices if len(choices) == self.wanted else sorted(choices, key=_mean_logprob, reverse=True)[: self.wanted]
        )

    def _choice(self, index: int, choice: Choice) -> dict[str, Any]:
        offsets = Offsets()
        return {
            "text": choice.text,
            "index": index,
            "logprobs": None if self.top_logprobs is None else logprobs(choice.logprobs, offsets),
            "finish_reason": finish_reason(choice.reason),
        }


class CompletionEncoder:
    """Writes one stream of events as server-sent events."""

    def __init__(self, call: CompletionCall) -> None:
        self._call = call
        about = {
            "id": call.id,
            "object": "text_completion",
            "created": int(time.time()),
            "model": call.model,
            "system_fingerprint": SYSTEM_FINGERPRINT,
        }
        self._start = b"data: " + _json(about)[:-1] + b',"choices":['
        self._end = b'],"usage":null}\n\n' if call.include_usage else b"]}\n\n"
        self._offsets = [Offsets() for _ in range(len(call.requests) * call.wanted)]

    def encode(self, events: Sequence[Event]) -> bytes:
        """Write the next events of the stream; empty where they show nothing."""
        return escape_line_ends(b"".join(map(self._event, merge(events))))

    def _event(self, event: Event) -> bytes:
        match event:
            case Text() if event.text or event.logprobs:
                return self._text(event)
            case Finished():
                return self._finished(event)
            case Failed():
                return b"data: " + _json(error_body(event.error())) + b"\n\n" + DONE
        return b""

    def _text(self, event: Text) -> bytes:
        found = b"null"
        if self._call.top_logprobs is not None and event.logprobs:
            found = _json(logprobs(event.logprobs, self._offsets[event.choice]))
        return self._chunk(event.choice, _json(event.text), found, b"null")

    def _finished(self, event: Finished) -> bytes:
        chunks = [
            self._chunk(choice, b'""', b"null", _json(finish_reason(reason)))
            for choice, reason in enumerate(event.reasons)
        ]
        if self._call.include_usage:
            chunks.append(self._start + b'],"usage":' + _json(usage(event.usage)) + b"}\n\n")
        return b"".join(chunks) + DONE

    def _chunk(self, choice: int, text: bytes, found: bytes, reason: bytes) -> bytes:
        fields = b'{"text":%b,"index":%d,"logprobs":%b,"finish_reason":%b}' % (text, choice, found, reason)
        return self._start + fields + self._end


class Offsets:
    """Says at which character of an answer each of its tokens begins; a token may be part of a character."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._chars = 0

    def next(self, token: TokenLogprob) -> int:
        """Take the next token and give its place."""
        place = self._chars
        self._chars += len(self._decoder.decode(token.bytes))
        return place


def logprobs(drawn: Iterable[Logprob], offsets: Offsets) -> dict[str, Any]:
    """Return log-probabilities as Completions have them: at each place the likeliest tokens and the drawn one."""
    found = list(drawn)
    return {
        "tokens": [_name(one.token) for one in found],
        "token_logprobs": [logprob(one.token) for one in found],
        "top_logprobs": [_likeliest(one) for one in found],
        "text_offset": [offsets.next(one.token) for one in found],
    }


def finish_reason(reason: str) -> str:
    """Give OpenAI's word for why a choice ended; a completion makes no calls."""
    return "length" if reason == "length" else "stop"


def _likeliest(drawn: Logprob) -> dict[str, float | None] | None:
    if drawn.token.logprob is None:
        return None
    return {_name(token): logprob(token) for token in (*drawn.top, drawn.token)}


def _name(token: TokenLogprob) -> str:
    """Give a token's text; one that is no text by itself is named by its bytes, as OpenAI does."""
    try:
        return token.bytes.decode() or token.text
    except UnicodeDecodeError:
        return "bytes:" + "".join(f"\\x{byte:02x}" for byte in token.bytes)


def _mean_logprob(choice: Choice) -> float:
    values = [logprob(drawn.token) or 0.0 for drawn in choice.logprobs if not drawn.prompt]
    return sum(values) / len(values) if values else float("-inf")
