"""What OpenAI's dialects share of an answer."""

from typing import Any

from orchard import __version__
from orchard.core.events import Summary, TokenLogprob, Usage

SYSTEM_FINGERPRINT = f"fp_orchard_{__version__}"
"""Names what made the answer: with the same, the same seed gives the same tokens."""
DONE = b"data: [DONE]\n\n"

_LEAST_LOGPROB = -9999.0  # what OpenAI writes where a token is next to impossible; JSON has no -Infinity
# Raw in JSON, but a line's end to clients that cut the stream with str.splitlines().
_LINE_ENDS = ((b"\xc2\x85", b"\\u0085"), (b"\xe2\x80\xa8", b"\\u2028"), (b"\xe2\x80\xa9", b"\\u2029"))


def escape_line_ends(encoded: bytes) -> bytes:
    """Escape what stands raw in JSON and ends a line elsewhere."""
    for raw, escaped in _LINE_ENDS:
        encoded = encoded.replace(raw, escaped)
    return encoded


def logprob(token: TokenLogprob) -> float | None:
    """Return a token's log-probability as a number that JSON has; None for the first token of a prompt."""
    if token.logprob is None:
        return None
    # The comparison is false for NaN as well.
    return token.logprob if token.logprob > _LEAST_LOGPROB else _LEAST_LOGPROB


def token_text(token: TokenLogprob) -> str:
    """Return what a token adds to the text, so that the texts of an answer's tokens are the answer."""
    return token.text if token.bytes else ""


def overflow(summary: Summary | None) -> dict[str, Any]:
    """Give the field that tells of messages that a summary took the place of; none where there are none."""
    return {"context_overflow": {"summarized_messages": summary.messages}} if summary else {}


def usage(used: Usage, summary: Summary | None = None) -> dict[str, Any]:
    """Give the usage as Chat Completions and Completions have it; what a summary took is not part of its sums."""
    found: dict[str, Any] = {
        "prompt_tokens": used.prompt_tokens,
        "completion_tokens": used.completion_tokens,
        "total_tokens": used.prompt_tokens + used.completion_tokens,
        "prompt_tokens_details": {"cached_tokens": used.cached_tokens, "audio_tokens": 0},
        "completion_tokens_details": {
            "reasoning_tokens": used.reasoning_tokens,
            "audio_tokens": 0,
            "accepted_prediction_tokens": 0,
            "rejected_prediction_tokens": 0,
        },
    }
    if summary:
        spent = {"prompt_tokens": summary.prompt_tokens, "completion_tokens": summary.completion_tokens}
        found["summary_tokens_details"] = spent
    return found
