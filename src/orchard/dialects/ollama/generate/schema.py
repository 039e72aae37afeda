"""The body of a request to continue a prompt: https://docs.ollama.com/api/generate.

A field that isn't here is ignored, whatever its value. For every field, `null` means absent.
"""

from typing import Annotated

from msgspec import Meta

from orchard.dialects.common.fields import BodyType, Natural, Refused
from orchard.dialects.ollama.fields import AnswerFields, Images

MAX_CONTEXT = 2**18

Context = Annotated[
    list[Natural],
    Meta(max_length=MAX_CONTEXT, description="The `context` of an earlier answer, whose conversation goes on."),
]


class Body(AnswerFields, kw_only=True):
    """A prompt to answer or, with `raw` or `suffix`, to continue unchanged."""

    prompt: str | None = None
    suffix: str | None = None
    images: Images | None = None
    system: str | None = None
    raw: bool | None = None
    context: Context | None = None
    template: Refused = None
    width: Refused = None
    height: Refused = None
    steps: Refused = None


BODY = BodyType(Body, ("shift",))
