"""OpenAI's Embeddings: https://platform.openai.com/docs/api-reference/embeddings.

`prompt_name` and `truncate` are extensions, named as in sentence-transformers and in other servers. Inputs with images
are another extension: mlx_vlm.server also takes the parts of a message, each as a separate input.
"""

import base64
from collections.abc import Sequence
from typing import Annotated, Literal

import msgspec
from msgspec import Meta, Struct

from orchard.core.events import Collected
from orchard.core.media import MediaOptions, MediaPart
from orchard.core.request import Priority, Request
from orchard.core.tasks.embed import Embed, Embedding, MixedInput
from orchard.core.tasks.generate import Generate, TextPart
from orchard.dialects.common.fields import (
    BodyType,
    Natural,
    NonEmpty,
    ServingFields,
    header_priority,
    make_request,
)
from orchard.dialects.common.json_body import FreeForm, invalid_field, require, type_words
from orchard.dialects.common.media import Detail
from orchard.dialects.common.output import vector_floats
from orchard.dialects.openai.chat.messages import MessageReader
from orchard.dialects.openai.chat.schema import Messages
from orchard.dialects.openai.fields import ImageUrl, image_part

MAX_INPUTS = 2048
MAX_MIXED = 64
"""The most inputs with media, because the media of all of them are in memory."""
_MAX_ITEMS = 2**19

_INPUT_WORDS = (
    f"a string, up to {MAX_INPUTS} strings, a list of token ids, up to {MAX_INPUTS} lists of token ids, "
    "or parts of text and images"
)


class InputPart(Struct):
    """A text or an image, as in a message of Chat Completions. The type may be that of Responses, or absent."""

    type: Literal["text", "image_url", "input_text", "input_image"] | None = None
    text: str | None = None
    image_url: NonEmpty | ImageUrl | None = None
    detail: Detail | None = None


Items = list[Natural | InputPart]
Item = Annotated[
    str | Natural | InputPart | Items,
    type_words("a string, a token id, a list of token ids, or parts of text and images"),
]
Input = Annotated[
    str | InputPart | Annotated[list[Item], Meta(min_length=1, max_length=_MAX_ITEMS)], type_words(_INPUT_WORDS)
]

_json = msgspec.json.Encoder().encode


class EmbeddingsBody(ServingFields, kw_only=True):
    """An Embeddings request."""

    input: Input | None = None
    messages: Annotated[
        Messages | None, Meta(description="A conversation to embed in place of `input`, as the model's answer sees it.")
    ] = None
    continue_final_message: bool | None = None
    encoding_format: Literal["float", "base64"] | None = None
    dimensions: Annotated[int, Meta(ge=1, le=2**20)] | None = None
    prompt_name: Annotated[
        NonEmpty | None, Meta(description="Which of the model's prompts stands before each text.")
    ] = None
    truncate: Annotated[
        bool | None, Meta(description="Cut texts that are longer than the model can read, instead of failing.")
    ] = None
    priority: Priority | None = None


BODY = BodyType(EmbeddingsBody, ("user",), "embedding model")


class EmbeddingsCall(Struct, frozen=True):
    """A parsed body; `base64`: encode the vectors as little-endian float32 in base64."""

    request: Request
    base64: bool

    @property
    def has_tokens(self) -> bool:
        """Whether inputs are token ids."""
        task = self.request.task
        return isinstance(task, Embed) and any(isinstance(one, tuple) for one in task.inputs)

    def complete(self, result: Collected) -> bytes:
        """Return the body of the response."""
        made = sorted(result.outputs, key=lambda output: output.choice)
        write = _vector_base64 if self.base64 else vector_floats
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
    """Read the body of a request; `priority` is from its header.

    The model is `model`, which the URL names, else the body's, else `default`. Raise OrchardError (invalid_request),
    whose `param` names the field to blame.
    """
    decoded = BODY.decode(body, model, default)
    inputs = _embedding_inputs(decoded.input) if decoded.messages is None else (_conversation_input(decoded),)
    task = Embed(inputs, decoded.dimensions, decoded.prompt_name, decoded.truncate)
    turn = decoded.priority or header_priority(priority)
    return EmbeddingsCall(make_request(decoded, request_id, task, turn), decoded.encoding_format == "base64")


def _conversation_input(body: EmbeddingsBody) -> Generate:
    if body.input is not None:
        raise invalid_field("messages", "and `input` can't be combined: give only one of them.")
    messages = MessageReader(FreeForm(), MediaOptions()).read(body.messages or ())
    return Generate(messages, continue_last=bool(body.continue_final_message))


def _embedding_inputs(given: Input | None) -> tuple[str | tuple[int, ...] | MixedInput, ...]:
    """Return the inputs: one text, one list of tokens, several of either, or several texts and images."""
    if given is None:
        raise invalid_field("input", f"is required: {_INPUT_WORDS}.")
    if isinstance(given, str | InputPart):
        return (_embedding_input(given, "input", "input"),)
    if all(isinstance(item, int) for item in given):
        return (tuple(item for item in given if isinstance(item, int)),)
    if len(given) > MAX_INPUTS:
        raise invalid_field("input", f"holds {len(given)} inputs; at most {MAX_INPUTS} are allowed.")
    if len({_is_tokens(item) for item in given}) > 1:
        raise invalid_field("input", f"must be {_INPUT_WORDS}; tokens don't mix with other items.")
    paths = [f"input[{index}]" for index in range(len(given))]
    found = tuple(
        _embedding_input(item, path, path if given[1:] else "input") for item, path in zip(given, paths, strict=True)
    )
    if (mixed := sum(isinstance(one, MixedInput) for one in found)) > MAX_MIXED:
        raise invalid_field("input", f"holds {mixed} inputs with images; at most {MAX_MIXED} are allowed.")
    return found


def _is_tokens(item: str | int | InputPart | Items) -> bool:
    return isinstance(item, list) and all(isinstance(one, int) for one in item)


def _embedding_input(item: str | int | InputPart | Items, path: str, param: str) -> str | tuple[int, ...] | MixedInput:
    """Return an input. `path` is its path in the body; `param` is the field that errors of the whole input name."""
    if isinstance(item, int):
        raise invalid_field("input", f"must be {_INPUT_WORDS}; tokens don't mix with other items.")
    found: str | tuple[int, ...] | MixedInput
    if isinstance(item, str):
        found = item
    elif isinstance(item, InputPart):
        found = _join_parts([_input_part(item, path)])
    elif tokens := tuple(one for one in item if isinstance(one, int)):
        if len(tokens) < len(item):
            raise invalid_field(path, "must hold token ids or parts, not both.")
        found = tokens
    else:
        found = _join_parts(
            [_input_part(one, f"{path}[{n}]") for n, one in enumerate(item) if isinstance(one, InputPart)]
        )
    if not found:
        raise invalid_field(param, "must not be empty.")
    return found


def _join_parts(parts: Sequence[TextPart | MediaPart]) -> str | MixedInput:
    """Return parts as one input: a text if none of them is an image."""
    if any(isinstance(part, MediaPart) for part in parts):
        return MixedInput(tuple(parts))
    return "".join(part.text for part in parts if isinstance(part, TextPart))


def _input_part(part: InputPart, path: str) -> TextPart | MediaPart:
    if part.type in ("text", "input_text") or (part.type is None and part.text is not None):
        return TextPart(require(part.text, f"{path}.text"))
    if part.type is None and part.image_url is None:
        raise invalid_field(path, "must have `text` or `image_url`.")
    return image_part(part.image_url, part.detail, f"{path}.image_url", MediaOptions())


def _vector_base64(vector: bytes) -> str:
    return base64.b64encode(vector).decode()
