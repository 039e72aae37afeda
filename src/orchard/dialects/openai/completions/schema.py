"""The body of a Completions request: https://platform.openai.com/docs/api-reference/completions/create.

A field that isn't here is ignored, whatever its value. For every field, `null` means absent.
"""

from typing import Annotated, Any

from msgspec import Meta

from orchard.dialects.common.fields import BodyType, Natural
from orchard.dialects.openai.fields import Choices, GenerationFields, Limit, StreamOptions

MAX_PROMPTS = 128
MAX_LOGPROBS = 5
MAX_PROMPT_ITEMS = 2**19

IGNORED = ("user",)
"""OpenAI's fields that have no effect here; the documentation lists them."""

Tokens = list[Natural]
Prompt = str | Annotated[list[str | Natural | Tokens], Meta(min_length=1, max_length=MAX_PROMPT_ITEMS)]


class Body(GenerationFields, kw_only=True):
    """A Completions request."""

    prompt: Prompt | None = None
    suffix: str | None = None
    echo: bool | None = None
    max_tokens: Limit | None = None
    n: Choices | None = None
    best_of: Choices | None = None
    logprobs: Annotated[int, Meta(ge=0, le=MAX_LOGPROBS)] | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    messages: Annotated[
        Any, Meta(description="Refused in place of a prompt: Chat Completions take a conversation.")
    ] = None


BODY = BodyType(Body, IGNORED)
