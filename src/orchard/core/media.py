"""Images, audio, video and documents in a request: their source, and how a model reads them."""

from collections.abc import Collection
from typing import Literal

from msgspec import Struct

from orchard.core.errors import OrchardError

MediaKind = Literal["image", "audio", "video", "document"]

MAX_BYTES: dict[MediaKind, int] = {
    "image": 20 * 2**20,
    "audio": 25 * 2**20,
    "video": 200 * 2**20,
    "document": 32 * 2**20,
}
"""The most bytes that the file of a medium may have, by kind."""
MAX_PIXELS = 50_000_000
"""The most pixels of an image or a video frame."""
MAX_FRAMES = 768
"""The most frames of a video that a model reads."""

_WORDS: dict[MediaKind, str] = {
    "image": "Images",
    "audio": "Audio",
    "video": "Videos",
    "document": "Documents",
}
_READERS = "it takes a vision model, and the extra mlx-orchard[vision]"
_TEXTS_ONLY = "it is a vision model that is served for text only, and the log of its load says why"


class MediaOptions(Struct, frozen=True, kw_only=True):
    """How a model reads a medium; None: as its own processor does.

    `resize_shape` (height, width) in pixels is applied before the model's processor; then `detail` "low" limits an
    image to 512 x 512 pixels. `min_pixels` and `max_pixels` bound height times width of an image or a frame: of the
    processor's input or, if the processor has such bounds for images, of its output. `fps` and `max_frames`: how many
    frames of a video are read, per second and in all.
    """

    detail: Literal["low", "high", "auto"] | None = None
    resize_shape: tuple[int, int] | None = None
    min_pixels: int | None = None
    max_pixels: int | None = None
    fps: float | None = None
    max_frames: int | None = None


class MediaPart(Struct, frozen=True, tag="media"):
    """A medium in a message.

    A dialect sets `url`: a data:, http, https or file URL. `gateway.media` puts the file's bytes into `data` and
    empties `url` before a worker gets the part. A file from a form has neither `url` nor `data`: it is on disk, at
    `path`. `param` is the field to blame if the medium can't be read. `media_type` (RFC 2046) is what the caller, or
    the server of the URL, says; "" if unknown. `name` is a document's title.
    """

    kind: MediaKind
    url: str
    param: str
    data: bytes = b""
    media_type: str = ""
    name: str = ""
    options: MediaOptions = MediaOptions()
    path: str = ""


def is_data_url(text: str) -> bool:
    """Return whether a text is a data: URL (RFC 2397). The case of its scheme does not matter."""
    return text[:5].lower() == "data:"


def unreadable_error(part: MediaPart, takes: Collection[MediaKind] | None = None) -> OrchardError:
    """Return the error of a medium that a model can't read; `takes`: the kinds that a vision model can read."""
    words = " and ".join(_WORDS[kind].lower() for kind in takes or ())
    other = _READERS if takes is None else f"besides text it takes only {words}" if takes else _TEXTS_ONLY
    message = f"{_WORDS[part.kind]} can't be read by this model: {other}."
    return OrchardError("invalid_request", message, param=part.param)


def media_error(part: MediaPart, why: str) -> OrchardError:
    """Return the error of a medium that can't be read because of `why`."""
    return OrchardError("invalid_request", f"`{part.param}` can't be read: {why}", param=part.param)
