"""The content blocks that the model sees: texts, images, documents and search results."""

from collections.abc import Iterator
from typing import Any

from orchard.core.media import MediaOptions, MediaPart, is_data_url
from orchard.core.tasks.generate import TextPart
from orchard.dialects.anthropic.messages import schema as wire
from orchard.dialects.common.json_body import invalid_field, require
from orchard.dialects.common.media import check_media_type, encoded_part, file_part, media_part

VISIBLE_TYPES = ("text", "image", "document", "search_result")
"""The types of blocks that the model sees."""


class BlockReader:
    """Reads blocks of users and tools; `options` says how the model reads their media.

    Methods raise OrchardError, whose `param` names the field that can't be read.
    """

    def __init__(self, options: MediaOptions) -> None:
        self._options = options

    def read(self, block: wire.Block | wire.ResultBlock, where: str) -> Iterator[TextPart | MediaPart]:
        """Yield the text and media parts of a block whose type is in SHOWN."""
        match block.type:
            case "text":
                yield TextPart(require(block.text, f"{where}.text"))
            case "image":
                yield self._read_image(block.source, f"{where}.source")
            case "document":
                yield from (TextPart(block.title or ""), TextPart(block.context or ""))
                yield from self._read_document(block.source, f"{where}.source")
            case _:
                source = block.source if isinstance(block.source, str) else ""
                yield from (TextPart(block.title or ""), TextPart(source))
                yield from self._read_inner_blocks(block.content, f"{where}.content")

    def _read_document(self, source: wire.Source | str | None, where: str) -> Iterator[TextPart | MediaPart]:
        if not isinstance(source, wire.Source):
            raise invalid_field(where, "is required and must be an object.")
        match source.type:
            case "text":
                yield TextPart(require(source.data, f"{where}.data"))
            case "content" if isinstance(source.content, str):
                yield TextPart(source.content)
            case "content":
                yield from self._read_inner_blocks(source.content, f"{where}.content")
            case "base64":
                media_type, data = _source_data(source, where)
                yield file_part(f"data:{media_type};base64,{data}", "", f"{where}.data", self._options)
            case "url":
                yield media_part("document", *_source_url(source, where), self._options)
            case _:
                allowed = "'text', 'content', 'base64' or 'url'"
                raise invalid_field(f"{where}.type", f"must be {allowed}: this server stores no files.")

    def _read_inner_blocks(self, blocks: Any, where: str) -> Iterator[TextPart | MediaPart]:
        if not isinstance(blocks, list):
            raise invalid_field(where, "is required and must be an array of blocks.")
        for i, block in enumerate(blocks):
            if block.type not in ("text", "image"):
                raise invalid_field(f"{where}[{i}].type", f"must be 'text' or 'image', got '{block.type[:64]}'.")
            yield from self.read(block, f"{where}[{i}]")

    def _read_image(self, source: wire.Source | wire.ImageSource | str | None, where: str) -> MediaPart:
        if source is None or isinstance(source, str):
            raise invalid_field(where, "is required and must be an object.")
        match source.type:
            case "base64":
                media_type, data = _source_data(source, where)
                return encoded_part("image", data, media_type, f"{where}.data", self._options)
            case "url":
                return media_part("image", *_source_url(source, where), self._options)
        raise invalid_field(f"{where}.type", "must be 'base64' or 'url': this server stores no files.")


def _source_data(source: wire.ImageSource, where: str) -> tuple[str, str]:
    """Return a source's media type and its base64 data."""
    media_type = require(source.media_type, f"{where}.media_type", empty=False)
    data = require(source.data, f"{where}.data", empty=False)
    return check_media_type(media_type, f"{where}.media_type"), data


def _source_url(source: wire.ImageSource, where: str) -> tuple[str, str]:
    """Return a source's URL, and the field that holds it."""
    url, param = require(source.url, f"{where}.url", empty=False), f"{where}.url"
    if is_data_url(url):
        raise invalid_field(param, "must be an http(s) URL; for data, the source's type is 'base64'.")
    return url, param
