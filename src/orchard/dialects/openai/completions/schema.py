"""The body of a Completions request: https://platform.openai.com/docs/api-reference/completions/create.

A field that isn't here is ignored, whatever it holds. `null` means absent, for every field.
"""

from typing import Annotated, Any

from msgspec import Meta

from orchard.dialects.common.fields import MAX_CHOICES, Limit, ModelName, Natural, StreamOptions, schema
from orchard.dialects.openai.grammar import GrammarFields

MAX_PROMPTS = 128
MAX_LOGPROBS = 5
MAX_PROMPT_ITEMS = 2**19

IGNORED = ("user",)
"""OpenAI's fields that change nothing in the answer of a local server; the docs list them."""

Tokens = list[Natural]
Prompt = str | Annotated[list[str | Natural | Tokens], Meta(min_length=1, max_length=MAX_PROMPT_ITEMS)]


class Body(GrammarFields, kw_only=True):
    """A Completions request."""

    model: ModelName | None = None
    prompt: Prompt | None = None
    suffix: str | None = None
    echo: bool | None = None
    max_tokens: Limit | None = None
    n: Annotated[int, Meta(ge=1, le=MAX_CHOICES)] | None = None
    best_of: Annotated[int, Meta(ge=1, le=MAX_CHOICES)] | None = None
    logprobs: Annotated[int, Meta(ge=0, le=MAX_LOGPROBS)] | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    messages: Annotated[Any, Meta(description="Refused in place of a prompt: a conversation is Chat Completions'.")] = (
        None
    )


class DeploymentBody(Body, kw_only=True):
    """A request to a deployment, which names the model in the body's stead."""

    model: Any = None


def body_schema(body: type[Body] = Body) -> dict[str, Any]:
    """Give the JSON schema of the body."""
    return schema(body, IGNORED)
