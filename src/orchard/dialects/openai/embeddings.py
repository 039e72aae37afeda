"""OpenAI's Embeddings: https://platform.openai.com/docs/api-reference/embeddings.

`prompt_name` and `truncate` are Orchard's own fields, in the words of sentence-transformers and of other servers.
"""

import base64
import sys
from array import array
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct

from orchard.core.events import Collected
from orchard.core.request import Priority, Request
from orchard.core.tasks.embed import Embed, Embedding
from orchard.dialects.common.fields import (
    BodyType,
    Natural,
    NonEmpty,
    ServingFields,
    header_priority,
    make_request,
)
from orchard.dialects.common.json_body import called, invalid

MAX_INPUTS = 2048
_MAX_ITEMS = 2**19

_WORDS = f"a string, up to {MAX_INPUTS} strings, a list of token ids, or up to {MAX_INPUTS} lists of token ids"

Tokens = list[Natural]
Item = Annotated[str | Natural | Tokens, called("a string, a token id, or a list of token ids")]
Input = Annotated[str | Annotated[list[Item], Meta(min_length=1, max_length=_MAX_ITEMS)], called(_WORDS)]

_json = msgspec.json.Encoder().encode


class EmbeddingsBody(ServingFields, kw_only=True):
    """An Embeddings request."""

    input: Input | None = None
    encoding_format: Literal["float", "base64"] | None = None
    dimensions: Annotated[int, Meta(ge=1, le=2**20)] | None = None
    prompt_name: Annotated[
        NonEmpty | None, Meta(description="Which of the model's prompts stands before each text.")
    ] = None
    truncate: Annotated[
        bool | None, Meta(description="Cut texts that are longer than the model can read, instead of failing.")
    ] = None
    priority: Priority | None = None


BODY = BodyType(EmbeddingsBody, ("user",), "model of embeddings")


class EmbeddingsCall(Struct, frozen=True):
    """A parsed body; `base64`: the vectors are written as little-endian float32 in base64."""

    request: Request
    base64: bool

    def complete(self, result: Collected) -> bytes:
        """Return the body of the answer."""
        made = sorted(result.outputs, key=lambda output: output.choice)
        write = _base64 if self.base64 else _floats
        data = [
            {"object": "embedding", "index": output.choice, "embedding": write(output.read(Embedding).vector)}
            for output in made
        ]
        tokens = result.usage.prompt_tokens
        usage = {"prompt_tokens": tokens, "total_tokens": tokens}
        return _json({"object": "list", "data": data, "model": self.request.model, "usage": usage})


def parse(
    body: bytes, request_id: str, priority: str | None = None, *, model: str | None = None, default: str | None = None
) -> EmbeddingsCall:
    """Read the body of a request; `priority` is its header's.

    The model is `model`, which the address names, else the body's, else `default`. Raise OrchardError
    (invalid_request), whose `param` names the field to blame.
    """
    decoded = BODY.decode(body, model, default)
    task = Embed(_inputs(decoded.input), decoded.dimensions, decoded.prompt_name, bool(decoded.truncate))
    turn = decoded.priority or header_priority(priority)
    return EmbeddingsCall(make_request(decoded, request_id, task, turn), decoded.encoding_format == "base64")


def _inputs(given: Input | None) -> tuple[str | tuple[int, ...], ...]:
    """Return the inputs: one text, one list of tokens, or several of either."""
    if given is None:
        raise invalid("input", f"is required: {_WORDS}.")
    if isinstance(given, str):
        given = [given]
    if all(isinstance(item, int) for item in given):
        return (tuple(item for item in given if isinstance(item, int)),)
    if len(given) > MAX_INPUTS:
        raise invalid("input", f"holds {len(given)} inputs; at most {MAX_INPUTS} are allowed.")
    if len({type(item) for item in given}) > 1:
        raise invalid("input", f"must be {_WORDS}; its items must be of one type.")
    for index, item in enumerate(given):
        if not item:
            param = "input" if len(given) == 1 else f"input[{index}]"
            raise invalid(param, "must not be empty.")
    return tuple(tuple(item) if isinstance(item, list) else str(item) for item in given)


def _base64(vector: bytes) -> str:
    return base64.b64encode(vector).decode()


def _floats(vector: bytes) -> list[float]:
    found: array[Any] = array("f", vector)
    if sys.byteorder == "big":
        found.byteswap()
    return found.tolist()
