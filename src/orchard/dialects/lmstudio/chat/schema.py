"""The body of a chat: https://lmstudio.ai/docs/developer/rest/chat.

A field that isn't here is ignored, whatever its value. For every field, `null` means absent.
"""

from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from orchard.dialects.common.fields import INT64_MAX, BodyType, ModelFields, NonEmpty

MAX_ITEMS = 4096

Count = Annotated[int, Meta(ge=1, le=INT64_MAX)]
Fraction = Annotated[float, Meta(ge=0, le=1)]
Reasoning = Literal["off", "low", "medium", "high", "on"]


class InputItem(Struct):
    """A text (`content`) or an image (`data_url`), as the type says."""

    type: Literal["message", "image"]
    content: str | None = None
    data_url: NonEmpty | None = None


class Body(ModelFields, kw_only=True):
    """What a user says, in a new conversation or in one that is stored."""

    input: str | Annotated[list[InputItem], Meta(min_length=1, max_length=MAX_ITEMS)]
    system_prompt: str | None = None
    stream: bool | None = None
    store: bool | None = None
    previous_response_id: Annotated[str, Meta(min_length=1, max_length=256)] | None = None
    temperature: Annotated[float, Meta(ge=0, le=2)] | None = None
    top_p: Fraction | None = None
    top_k: Annotated[int, Meta(ge=-1, le=INT64_MAX)] | None = None
    min_p: Fraction | None = None
    repeat_penalty: Annotated[float, Meta(ge=0, le=10)] | None = None
    max_output_tokens: Count | None = None
    reasoning: Reasoning | None = None
    context_length: (
        Annotated[
            Count, Meta(description="The most tokens of prompt and answer, if fewer than the model's context window.")
        ]
        | None
    ) = None
    integrations: Annotated[Any, Meta(description="Not supported: a request that has some is refused.")] = None


BODY = BodyType(Body)
