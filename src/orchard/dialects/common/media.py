"""Read images, audio, video and documents in a body: what all dialects share."""

import re
from pathlib import PurePath
from typing import Annotated, Literal, NamedTuple, Optional, Protocol

from msgspec import Meta
from msgspec.structs import replace

from orchard.core.media import MAX_FRAMES, MAX_PIXELS, MediaKind, MediaOptions, MediaPart, is_data_url
from orchard.dialects.common.json_body import invalid_choice, invalid_field

MAX_SIDE = 16_384
MAX_FPS = 60

Detail = Annotated[
    Literal["low", "high", "auto", "original"],
    Meta(description="'low' shrinks an image to at most 512 x 512 pixels."),
]
ResizeShape = Annotated[
    list[Annotated[int, Meta(ge=1, le=MAX_SIDE)]],
    Meta(min_length=1, max_length=2, description="[side] or [height, width] in pixels: images are resized to it."),
]
Pixels = Annotated[int, Meta(ge=1, le=MAX_PIXELS, description="Height times width of an image after it is resized.")]
FramesPerSecond = Annotated[float, Meta(gt=0, le=MAX_FPS, description="Frames that are read of a second of video.")]
Frames = Annotated[int, Meta(ge=1, le=MAX_FRAMES, description="Frames that are read of a video, at most.")]

_MEDIA_TYPE = re.compile(r"[\w!#$&^.+-]+/[\w!#$&^.+-]+", re.ASCII)
_REFERENCE = re.compile(r"orchard-media:([0-9a-f]{64}) (\S*) (.*)", re.DOTALL)
NOT_A_URL = "must be a data: URL or an http(s) URL."
"""The error of a field that should have the URL of a medium."""
_SCHEMES = ("data:", "http:", "https:", "file:")
_AUDIO_FORMATS = {"wav": "audio/wav", "mp3": "audio/mpeg", "flac": "audio/flac"}
UNKNOWN_TYPES = ("", "application/octet-stream", "binary/octet-stream", "multipart/form-data", "*/*")
"""Media types that say nothing about a file. Some clients send the last two with the files of a form."""
_ENDINGS: dict[MediaKind, tuple[str, ...]] = {
    "image": ("avif", "bmp", "gif", "heic", "jpeg", "jpg", "png", "tif", "tiff", "webp"),
    "audio": ("aac", "flac", "m4a", "mp3", "oga", "ogg", "opus", "wav"),
    "video": ("avi", "m4v", "mkv", "mov", "mp4", "mpeg", "mpg", "webm"),
}
_KINDS = {f".{ending}": kind for kind, endings in _ENDINGS.items() for ending in endings}


class MediaReference(NamedTuple):
    """The reference that replaces a medium in a stored item: the SHA-256 of its bytes, which are stored separately.

    `original` is the replaced http, https or file URL; of a data: URL, the beginning up to the comma; of bare base64,
    nothing. `media_type` is that of the bytes, if known.
    """

    digest: str
    media_type: str
    original: str

    @classmethod
    def parse(cls, value: str) -> Optional["MediaReference"]:
        """Return the medium that a value refers to; None if the value is not such a reference."""
        found = _REFERENCE.fullmatch(value)
        return cls(*found.groups()) if found else None

    @property
    def url(self) -> str:
        """The value in the item."""
        return f"orchard-media:{self.digest} {self.media_type} {self.original}"


class MediaFields(Protocol):
    """The fields that say how a model reads the images and videos of a request."""

    resize_shape: ResizeShape | None
    min_pixels: Pixels | None
    max_pixels: Pixels | None
    fps: FramesPerSecond | None
    max_frames: Frames | None


def media_options(body: MediaFields) -> MediaOptions:
    """Return how a model reads all media of a request. Raise OrchardError if the fields contradict each other."""
    shape = None
    if body.resize_shape:
        height, width = body.resize_shape[0], body.resize_shape[-1]
        if height * width > MAX_PIXELS:
            raise invalid_field("resize_shape", f"must make at most {MAX_PIXELS} pixels, not {height * width}.")
        shape = height, width
    if body.min_pixels and body.max_pixels and body.min_pixels > body.max_pixels:
        raise invalid_field("min_pixels", f"must be at most `max_pixels`, which is {body.max_pixels}.")
    return MediaOptions(
        resize_shape=shape,
        min_pixels=body.min_pixels,
        max_pixels=body.max_pixels,
        fps=body.fps,
        max_frames=body.max_frames,
    )


def with_detail(options: MediaOptions, detail: Detail | None, param: str) -> MediaOptions:
    """Return the options of an image that has its own `detail`. Raise OrchardError if they contradict each other."""
    if detail == "low" and options.min_pixels:
        raise invalid_field(param, "can't have `detail` 'low' together with `min_pixels`.")
    return replace(options, detail="high" if detail == "original" else detail) if detail else options


def media_part(kind: MediaKind, url: str, param: str, options: MediaOptions, name: str = "") -> MediaPart:
    """Return a medium. Raise OrchardError if `url`, the value of the field `param`, has no supported scheme."""
    if not url.lower().startswith(_SCHEMES) and not MediaReference.parse(url):
        raise invalid_field(param, NOT_A_URL)
    return MediaPart(kind, url, param, name=name, options=options)


def encoded_part(kind: MediaKind, data: str, media_type: str, param: str, options: MediaOptions) -> MediaPart:
    """Return a medium from base64, a data: URL or a `MediaReference`, without checking it."""
    if MediaReference.parse(data):
        return MediaPart(kind, data, param, media_type=media_type, options=options)
    url = data if is_data_url(data) else f"data:{media_type};base64,{data}"
    return MediaPart(kind, url, param, options=options)


def check_media_type(media_type: str, param: str) -> str:
    """Return a media type. Raise OrchardError if it is not valid (RFC 6838, 4.2)."""
    if not _MEDIA_TYPE.fullmatch(media_type):
        raise invalid_field(param, "must be a media type such as 'image/png'.")
    return media_type


def audio_part(data: str, format_: str | None, where: str, options: MediaOptions) -> MediaPart:
    """Return audio. `where` is the field that has `data` and `format`. Raise OrchardError for other formats."""
    if format_ not in _AUDIO_FORMATS and not (format_ is None and (is_data_url(data) or MediaReference.parse(data))):
        raise invalid_choice(f"{where}.format", _AUDIO_FORMATS)
    return encoded_part("audio", data, _AUDIO_FORMATS.get(format_ or "", ""), f"{where}.data", options)


def file_part(data: str, name: str, param: str, options: MediaOptions) -> MediaPart:
    """Return a file from base64, a data: URL or a `MediaReference`.

    The kind of medium is determined by its media type, else by its name.
    """
    media_type = ""
    if is_data_url(data):
        media_type = data[len("data:") :].partition(",")[0].partition(";")[0].strip().lower()
    elif kept := MediaReference.parse(data):
        media_type = kept.media_type
    return replace(encoded_part(media_kind(media_type, name), data, media_type, param, options), name=name)


def media_kind(media_type: str, name: str) -> MediaKind:
    """Return the kind of a file by its media type or, if that is unknown, by its name."""
    if media_type in UNKNOWN_TYPES:
        return _KINDS.get(PurePath(name).suffix.lower(), "document")
    return next((kind for kind in _ENDINGS if media_type.startswith(f"{kind}/")), "document")
