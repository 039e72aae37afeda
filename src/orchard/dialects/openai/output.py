"""What OpenAI's dialects share of an answer."""

from collections.abc import Iterable
from typing import Any

import msgspec

from orchard import __version__
from orchard.core.events import Failed, Logprob, Summary, TokenLogprob, Usage
from orchard.dialects.openai.errors import error_body

Fields = dict[str, Any]
SYSTEM_FINGERPRINT = f"fp_orchard_{__version__}"
"""Identifies what made the answer: with the same fingerprint, the same seed samples the same tokens."""
DONE = b"data: [DONE]\n\n"
"""Ends every stream of chunks."""

_LEAST_LOGPROB = -9999.0  # what OpenAI writes for an almost impossible token; JSON has no -Infinity
_json = msgspec.json.Encoder().encode


def logprob(token: TokenLogprob) -> float | None:
    """Return a token's log-probability as a number that JSON has; None for the first token of a prompt."""
    # No comparison holds for NaN, so it becomes the least one as well.
    return None if token.logprob is None else max(_LEAST_LOGPROB, token.logprob)


def logprob_entries(sampled: Iterable[Logprob], *, named: bool = False, with_bytes: bool = True) -> list[Fields]:
    """Return log-probabilities as Chat Completions and Responses have them.

    The texts of the sampled tokens make up the answer, so a token without bytes has none. With `named`, such a token
    has its name among the likeliest ones.
    """

    def entry(token: TokenLogprob, named: bool) -> Fields:
        fields = {"token": token.text if named or token.bytes else "", "logprob": logprob(token)}
        return {**fields, "bytes": list(token.bytes)} if with_bytes else fields

    return [entry(one.token, False) | {"top_logprobs": [entry(token, named) for token in one.top]} for one in sampled]


def overflow(summary: Summary | None) -> Fields:
    """Return the field that tells how many messages a summary replaced; no field where there is no summary."""
    return {"context_overflow": {"summarized_messages": summary.messages}} if summary else {}


def usage(used: Usage, summary: Summary | None = None) -> Fields:
    """Return the usage as Chat Completions and Completions have it; its sums exclude what a summary took."""
    found: Fields = {
        "prompt_tokens": used.prompt_tokens,
        "completion_tokens": used.completion_tokens,
        "total_tokens": used.prompt_tokens + used.completion_tokens,
        "prompt_tokens_details": {"cached_tokens": used.cached_tokens, "audio_tokens": 0},
        "completion_tokens_details": {
            "reasoning_tokens": used.reasoning_tokens,
            "audio_tokens": 0,
            "accepted_prediction_tokens": used.accepted_prediction_tokens,
            "rejected_prediction_tokens": used.rejected_prediction_tokens,
        },
    }
    if summary:
        spent = {"prompt_tokens": summary.prompt_tokens, "completion_tokens": summary.completion_tokens}
        found["summary_tokens_details"] = spent
    return found


class ChunkFrame:
    """What surrounds the choices in each chunk of a stream: `head` and `tail`, encoded once."""

    def __init__(self, about: Fields, *, include_usage: bool) -> None:
        self._include_usage = include_usage
        self.head = b"data: " + _json(about)[:-1] + b',"choices":['
        self.tail = b'],"usage":null}\n\n' if include_usage else b"]}\n\n"

    def end(self, used: Usage, summary: Summary | None = None) -> bytes:
        """Return what ends a stream, after the last choice's chunk: the usage, if it is asked for."""
        if not self._include_usage:
            return DONE
        return self.head + b'],"usage":' + _json(usage(used, summary)) + b"}\n\n" + DONE


def failed_chunk(event: Failed) -> bytes:
    """Return what ends a stream that failed."""
    return b"data: " + _json(error_body(event.error())) + b"\n\n" + DONE
