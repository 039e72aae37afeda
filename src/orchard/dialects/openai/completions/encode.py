"""Encode OpenAI's Completions: turn the events of one request per prompt into chunks, or one whole completion.

Answers are numbered prompt by prompt: answer i of prompt p is choice p * n + i.
"""

import codecs
import itertools
import time
from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import Struct

from orchard.core.events import Choice, Collected, Event, Failed, Finished, Logprob, Text, TokenLogprob, merge
from orchard.core.request import Request
from orchard.dialects.common.output import escape_line_ends
from orchard.dialects.openai.output import SYSTEM_FINGERPRINT, ChunkFrame, failed_chunk, finite_logprob, usage_fields

_json = msgspec.json.Encoder().encode


class CompletionCall(Struct, frozen=True):
    """A parsed body: a request for each prompt; of the answers to each prompt, the best `wanted` ones are returned."""

    id: str
    requests: tuple[Request, ...]
    wanted: int
    top_logprobs: int | None
    stream: bool
    include_usage: bool = False

    def common_fields(self) -> dict[str, Any]:
        """Return the fields that describe the answer, which each chunk repeats."""
        return {
            "id": self.id,
            "object": "text_completion",
            "created": int(time.time()),
            "model": self.requests[0].model,
            "system_fingerprint": SYSTEM_FINGERPRINT,
        }

    def complete(self, result: Collected) -> bytes:
        """Return the body of a non-streamed response."""
        made = self.requests[0].task.choices
        answers = [result.choices[place : place + made] for place in range(0, len(result.choices), made)]
        if made > self.wanted:  # the best answers have the highest mean log-probability per token
            answers = [sorted(choices, key=_mean_logprob, reverse=True)[: self.wanted] for choices in answers]
        shown = []
        for index, choice in enumerate(itertools.chain.from_iterable(answers)):
            found = None if self.top_logprobs is None else completion_logprobs(choice.logprobs, Offsets())
            shown.append(_choice_fields(index, choice.text, found, choice.reason))
        return _json({**self.common_fields(), "choices": shown, "usage": usage_fields(result.usage)})


class CompletionEncoder:
    """Encodes one stream of events as server-sent events."""

    def __init__(self, call: CompletionCall) -> None:
        self._call = call
        self._frame = ChunkFrame(call.common_fields(), include_usage=call.include_usage)
        self._offsets = [Offsets() for _ in range(len(call.requests) * call.wanted)]

    def encode(self, events: Sequence[Event]) -> bytes:
        """Return the server-sent events for the next events; empty if there are none."""
        return escape_line_ends(b"".join(map(self._encode_event, merge(events))))

    def _encode_event(self, event: Event) -> bytes:
        match event:
            case Text(text, choice, drawn) if text or drawn:
                asked = self._call.top_logprobs is not None and drawn
                found = completion_logprobs(drawn, self._offsets[choice]) if asked else None
                return self._encode_chunk(_choice_fields(choice, text, found))
            case Finished(reasons, used):
                ends = (
                    self._encode_chunk(_choice_fields(choice, "", None, reason))
                    for choice, reason in enumerate(reasons)
                )
                return b"".join(ends) + self._frame.end(used)
            case Failed():
                return failed_chunk(event)
        return b""

    def _encode_chunk(self, choice: dict[str, Any]) -> bytes:
        return self._frame.head + _json(choice) + self._frame.tail


def _choice_fields(index: int, text: str, found: dict[str, Any] | None, reason: str | None = None) -> dict[str, Any]:
    """Return an answer, or a piece of it; `reason` is why it ended. Completions have no tool calls."""
    ended = reason and ("length" if reason == "length" else "stop")
    return {"text": text, "index": index, "logprobs": found, "finish_reason": ended}


class Offsets:
    """Computes the character at which each token of an answer begins; a token may be part of a character."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._chars = 0

    def next(self, token: TokenLogprob) -> int:
        """Return the number of the character at which the next token begins."""
        place = self._chars
        self._chars += len(self._decoder.decode(token.bytes))
        return place


def completion_logprobs(found: Sequence[Logprob], offsets: Offsets) -> dict[str, Any]:
    """Return log-probabilities in the form of Completions: for each token, the likeliest tokens and the sampled one."""
    return {
        "tokens": [_token_name(one.token) for one in found],
        "token_logprobs": [finite_logprob(one.token) for one in found],
        "top_logprobs": [
            None
            if one.token.logprob is None
            else {_token_name(token): finite_logprob(token) for token in (*one.top, one.token)}
            for one in found
        ],
        "text_offset": [offsets.next(one.token) for one in found],
    }


def _token_name(token: TokenLogprob) -> str:
    """Return a token's text; as OpenAI does, name a token that is not valid UTF-8 by its bytes."""
    try:
        return token.bytes.decode() or token.text
    except UnicodeDecodeError:
        return "bytes:" + "".join(f"\\x{byte:02x}" for byte in token.bytes)


def _mean_logprob(choice: Choice) -> float:
    values = [finite_logprob(drawn.token) or 0.0 for drawn in choice.logprobs if not drawn.prompt]
    return sum(values) / len(values) if values else float("-inf")
