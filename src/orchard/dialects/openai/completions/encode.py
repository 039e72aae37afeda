"""The way out of OpenAI's Completions: the events of one request a prompt become chunks, or one whole completion.

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
from orchard.dialects.common.output import escape_line_ends
from orchard.dialects.openai.output import SYSTEM_FINGERPRINT, ChunkFrame, failed_chunk, logprob, usage

_json = msgspec.json.Encoder().encode


class CompletionCall(Struct, frozen=True):
    """A parsed body: a request for each prompt, and how many of the answers to each are `wanted` (the best ones)."""

    id: str
    requests: tuple[Request, ...]
    wanted: int
    top_logprobs: int | None
    stream: bool
    include_usage: bool = False

    def about(self) -> dict[str, Any]:
        """Return what the whole answer, and each of its chunks, says about itself."""
        return {
            "id": self.id,
            "object": "text_completion",
            "created": int(time.time()),
            "model": self.requests[0].model,
            "system_fingerprint": SYSTEM_FINGERPRINT,
        }

    def encoder(self) -> "CompletionEncoder":
        """Return an encoder of the answer as a stream."""
        return CompletionEncoder(self)

    def complete(self, result: Collected) -> bytes:
        """Return the body of an answer that is not streamed."""
        made = self.requests[0].task.choices
        prompts = [result.choices[place : place + made] for place in range(0, len(result.choices), made)]
        best = [choice for choices in prompts for choice in self._best(choices)]
        choices = [self._choice(index, choice) for index, choice in enumerate(best)]
        return _json({**self.about(), "choices": choices, "usage": usage(result.usage)})

    def _best(self, choices: list[Choice]) -> list[Choice]:
        """Return the wanted answers: those of the highest log-probability per token."""
        if len(choices) == self.wanted:
            return choices
        return sorted(choices, key=_mean_logprob, reverse=True)[: self.wanted]

    def _choice(self, index: int, choice: Choice) -> dict[str, Any]:
        offsets = Offsets()
        return {
            "text": choice.text,
            "index": index,
            "logprobs": None if self.top_logprobs is None else logprobs(choice.logprobs, offsets),
            "finish_reason": finish_reason(choice.reason),
        }


class CompletionEncoder:
    """An encoder of one stream of events as server-sent events."""

    def __init__(self, call: CompletionCall) -> None:
        self._call = call
        self._frame = ChunkFrame(call.about(), include_usage=call.include_usage)
        self._offsets = [Offsets() for _ in range(len(call.requests) * call.wanted)]

    def encode(self, events: Sequence[Event]) -> bytes:
        """Return the next events of the stream, encoded; empty where they show nothing."""
        return escape_line_ends(b"".join(map(self._event, merge(events))))

    def _event(self, event: Event) -> bytes:
        match event:
            case Text() if event.text or event.logprobs:
                return self._text(event)
            case Finished():
                return self._finished(event)
            case Failed():
                return failed_chunk(event)
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
        return b"".join(chunks) + self._frame.end(event.usage)

    def _chunk(self, choice: int, text: bytes, found: bytes, reason: bytes) -> bytes:
        fields = b'{"text":%b,"index":%d,"logprobs":%b,"finish_reason":%b}' % (text, choice, found, reason)
        return self._frame.head + fields + self._frame.tail


class Offsets:
    """The characters of an answer at which its tokens begin; a token may be part of a character."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._chars = 0

    def next(self, token: TokenLogprob) -> int:
        """Return where the next token begins."""
        place = self._chars
        self._chars += len(self._decoder.decode(token.bytes))
        return place


def logprobs(drawn: Iterable[Logprob], offsets: Offsets) -> dict[str, Any]:
    """Return log-probabilities as Completions have them: at each place the likeliest tokens and the sampled one."""
    found = list(drawn)
    return {
        "tokens": [_name(one.token) for one in found],
        "token_logprobs": [logprob(one.token) for one in found],
        "top_logprobs": [_likeliest(one) for one in found],
        "text_offset": [offsets.next(one.token) for one in found],
    }


def finish_reason(reason: str) -> str:
    """Return OpenAI's word for why a choice ended; a completion makes no calls."""
    return "length" if reason == "length" else "stop"


def _likeliest(drawn: Logprob) -> dict[str, float | None] | None:
    if drawn.token.logprob is None:
        return None
    return {_name(token): logprob(token) for token in (*drawn.top, drawn.token)}


def _name(token: TokenLogprob) -> str:
    """Return a token's text; one that is no text by itself is named by its bytes, as OpenAI does."""
    try:
        return token.bytes.decode() or token.text
    except UnicodeDecodeError:
        return "bytes:" + "".join(f"\\x{byte:02x}" for byte in token.bytes)


def _mean_logprob(choice: Choice) -> float:
    values = [logprob(drawn.token) or 0.0 for drawn in choice.logprobs if not drawn.prompt]
    return sum(values) / len(values) if values else float("-inf")
