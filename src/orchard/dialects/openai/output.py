"""What the answers of OpenAI's dialects share."""

from collections.abc import Iterable
from typing import Any

import msgspec

from orchard import __version__
from orchard.core.events import Failed, Logprob, Summary, TokenLogprob, Usage
from orchard.dialects.openai.errors import openai_error_body

Fields = dict[str, Any]
SYSTEM_FINGERPRINT = f"fp_orchard_{__version__}"
"""Identifies the software that made the answer: with the same fingerprint, the same seed samples the same tokens."""
DONE = b"data: [DONE]\n\n"
"""The end of every stream of chunks."""

_MIN_LOGPROB = -9999.0  # what OpenAI writes for an almost impossible token; JSON has no -Infinity
_json = msgspec.json.Encoder().encode


def finite_logprob(token: TokenLogprob) -> float | None:
    """Return a token's log-probability as a finite number; None for the first token of a prompt."""
    # No comparison holds for NaN, so max() turns it into the least value, too.
    return None if token.logprob is None else max(_MIN_LOGPROB, token.logprob)


def logprob_entries(sampled: Iterable[Logprob], *, named: bool = False, with_bytes: bool = True) -> list[Fields]:
    """Return log-probabilities in the form of Chat Completions and Responses.

    The texts of the sampled tokens make up the answer, so a sampled token without bytes has no text. With `named`, such
    a token has its name in the lists of likeliest tokens.
    """

    def entry(token: TokenLogprob, named: bool) -> Fields:
        fields = {"token": token.text if named or token.bytes else "", "logprob": finite_logprob(token)}
        return {**fields, "bytes": list(token.bytes)} if with_bytes else fields

    return [entry(one.token, False) | {"top_logprobs": [entry(token, named) for token in one.top]} for one in sampled]


def overflow_fields(summary: Summary | None) -> Fields:
    """Return the field with the number of messages that a summary replaced; empty without a summary."""
    return {"context_overflow": {"summarized_messages": summary.messages}} if summary else {}


def usage_fields(used: Usage, summary: Summary | None = None) -> Fields:
    """Return the usage in the form of Chat Completions and Completions; its sums exclude a summary's tokens."""
    made = used.completion_tokens + used.audio_tokens
    found: Fields = {
        "prompt_tokens": used.prompt_tokens,
        "completion_tokens": made,
        "total_tokens": used.prompt_tokens + made,
        "prompt_tokens_details": {"cached_tokens": used.cached_tokens, "audio_tokens": 0},
        "completion_tokens_details": {
            "reasoning_tokens": used.reasoning_tokens,
            "audio_tokens": used.audio_tokens,
            "accepted_prediction_tokens": used.accepted_prediction_tokens,
            "rejected_prediction_tokens": used.rejected_prediction_tokens,
        },
    }
    if summary:
        spent = {"prompt_tokens": summary.prompt_tokens, "completion_tokens": summary.completion_tokens}
        found["summary_tokens_details"] = spent
    return found


class ChunkFrame:
    """The parts of a chunk before and after its choices, `head` and `tail`, encoded once for a stream."""

    def __init__(self, fields: Fields, *, include_usage: bool) -> None:
        self._include_usage = include_usage
        self.head = b"data: " + _json(fields)[:-1] + b',"choices":['
        self.tail = b'],"usage":null}\n\n' if include_usage else b"]}\n\n"

    def end(self, used: Usage, summary: Summary | None = None) -> bytes:
        """Return the end of a stream, after the last choice's chunk, with the usage if it is requested."""
        if not self._include_usage:
            return DONE
        return self.head + b'],"usage":' + _json(usage_fields(used, summary)) + b"}\n\n" + DONE


def failed_chunk(event: Failed) -> bytes:
    """Return the end of a stream that failed."""
    return b"data: " + _json(openai_error_body(event.error())) + b"\n\n" + DONE
