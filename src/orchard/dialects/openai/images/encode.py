"""Encode OpenAI's Images: turn events into a response, or into its stream."""

import time
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
from msgspec import Struct

from orchard.core.events import Collected, Event, Failed, Output, Progressed
from orchard.core.request import Request
from orchard.core.tasks.images import EditImages, GenerateImages, Image, PartialImage, decode_image
from orchard.dialects.openai.errors import openai_error_body

_json = msgspec.json.Encoder().encode  # msgspec writes bytes as base64


class ImagesCall(Struct, frozen=True):
    """A parsed body or form. `urls`: the response has the URLs of the images in place of the images."""

    request: Request
    task: GenerateImages | EditImages
    stream: bool
    urls: bool

    def complete(self, keep: Callable[[bytes, str], str], result: Collected) -> bytes:
        """Return the body of a non-streamed response.

        `keep(image, format)` keeps an image and returns its URL.
        """
        found = sorted(result.outputs, key=lambda output: output.choice)
        images = [image for output in found if isinstance(image := decode_image(output), Image)]
        answer = {
            "created": int(time.time()),
            "background": "opaque",
            "data": [
                ({"url": keep(image.data, self.task.format)} if self.urls else {"b64_json": image.data})
                | {"seed": image.seed}
                for image in images
            ],
            "output_format": self.task.format,
            "size": _size_text(images[0]),
            "usage": _images_usage(),
        }
        return _json(answer)


class ImagesEncoder:
    """Encodes one stream of events as server-sent events, with progress in comments."""

    def __init__(self, call: ImagesCall) -> None:
        self._task = call.task
        self._type = "image_edit" if isinstance(call.task, EditImages) else "image_generation"

    def encode(self, events: Sequence[Event]) -> bytes:
        """Return the server-sent events for these events."""
        return b"".join(map(self._encode_event, events))

    def _encode_event(self, event: Event) -> bytes:
        match event:
            case Output():
                return self._encode_image(decode_image(event), event.choice)
            case Progressed(done, total):
                return f": {done:.0f} of {total:.0f} steps\n\n".encode()
            case Failed():
                return b"data: " + _json(openai_error_body(event.error())) + b"\n\n"
        return b""

    def _encode_image(self, image: Image | PartialImage, number: int) -> bytes:
        kind = f"{self._type}.{'completed' if isinstance(image, Image) else 'partial_image'}"
        told: dict[str, Any] = {
            "type": kind,
            "b64_json": image.data,
            "background": "opaque",
            "created_at": int(time.time()),
            "output_format": self._task.format,
            "quality": "auto",
            "size": _size_text(image),
            "index": number,
        }
        if isinstance(image, PartialImage):
            told["partial_image_index"] = image.index
        else:
            told |= {"seed": image.seed, "usage": _images_usage()}
        return b"event: " + kind.encode() + b"\ndata: " + _json(told) + b"\n\n"


def _size_text(image: Image | PartialImage) -> str:
    return f"{image.width}x{image.height}"


def _images_usage() -> dict[str, Any]:
    """Return a usage of no tokens in OpenAI's form, because images are not counted in tokens here."""
    details = {"image_tokens": 0, "text_tokens": 0}
    return {"input_tokens": 0, "input_tokens_details": details, "output_tokens": 0, "total_tokens": 0}
