"""The bodies of OpenAI's image generations and edits, and the form of edits without its files."""

from typing import Annotated, Literal

from msgspec import Meta, Struct

from orchard.core.tasks.images import ImageFormat
from orchard.dialects.common.fields import BodyType, NonEmpty, Refused, ServingFields

MAX_PROMPT_CHARS = 32_000
"""The longest prompt in characters, as in OpenAI's API."""
MAX_IMAGES = 10
MAX_PICTURES = 16
"""The most images of an edit, as in OpenAI's API."""
MAX_SEED = 2**32 - 1
_IGNORED = ("input_fidelity", "moderation", "quality", "safety_identifier", "style", "user")

Prompt = Annotated[str, Meta(min_length=1, max_length=MAX_PROMPT_CHARS)]
Guidance = Annotated[float, Meta(ge=0, le=100)]


class ImagesBody(ServingFields, kw_only=True):
    """A request for images."""

    prompt: Prompt
    n: Annotated[int, Meta(ge=1, le=MAX_IMAGES)] | None = None
    size: Annotated[str, Meta(max_length=32, description="Such as 1024x768, or auto.")] | None = None
    response_format: Literal["b64_json", "url"] | None = None
    output_format: ImageFormat | None = None
    output_compression: Annotated[int, Meta(ge=0, le=100)] | None = None
    background: Literal["auto", "opaque"] | None = None
    stream: bool | None = None
    partial_images: Annotated[int, Meta(ge=0, le=3)] | None = None
    seed: Annotated[int, Meta(ge=0, le=MAX_SEED)] | None = None
    steps: Annotated[int, Meta(ge=1, le=200)] | None = None
    guidance: Guidance | None = None
    guidance_scale: Annotated[Guidance, Meta(description="mlx-openai-server's name for `guidance`.")] | None = None
    negative_prompt: Annotated[str, Meta(max_length=MAX_PROMPT_CHARS)] | None = None

    image: Refused = None
    images: Refused = None
    mask: Refused = None
    config_name: Refused = None
    quantize: Refused = None
    lora_paths: Refused = None
    lora_scales: Refused = None
    num_inference_steps: Refused = None
    width: Refused = None
    height: Refused = None
    scheduler: Refused = None
    image_strength: Refused = None


class PictureReference(Struct, kw_only=True):
    """An image by its URL."""

    image_url: Annotated[NonEmpty, Meta(description="A data: URL with base64, or an http(s) URL.")] | None = None
    file_id: Refused = None


class EditBody(ImagesBody, kw_only=True):
    """A request to edit images, as JSON."""

    images: Annotated[list[PictureReference], Meta(min_length=1, max_length=MAX_PICTURES)]
    mask: PictureReference | None = None


BODY = BodyType(ImagesBody, _IGNORED, model_kind="image model")
EDIT_BODY = BodyType(EditBody, _IGNORED, model_kind="image model")
