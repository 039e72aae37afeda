"""The media of a request, whatever its task."""

from collections.abc import Iterator

from msgspec.structs import replace

from orchard.core.media import MediaPart
from orchard.core.request import Request
from orchard.core.tasks.embed import Embed, EmbedInput, MixedInput
from orchard.core.tasks.generate import Count, Generate, TextPart, changed_media, media_of
from orchard.core.tasks.images import EditImages


def request_media(request: Request) -> Iterator[MediaPart]:
    """Yield the media of a request, in order."""
    match request.task:
        case Generate() as task:
            yield from media_of(task)
        case Count(of=task):
            yield from media_of(task)
        case Embed(inputs=inputs):
            for one in inputs:
                yield from input_media(one)
        case EditImages() as task:
            yield from task.media


def input_media(given: EmbedInput) -> Iterator[MediaPart]:
    """Yield the media of an input to embed, in order."""
    match given:
        case Generate():
            yield from media_of(given)
        case MixedInput(parts=parts):
            yield from (part for part in parts if isinstance(part, MediaPart))


def with_media(request: Request, found: Iterator[MediaPart | TextPart]) -> Request:
    """Return a request with its media, in the order of `request_media`, replaced by `found`."""
    match request.task:
        case Generate() as task:
            return replace(request, task=changed_media(task, found))
        case Count(of=task):
            return replace(request, task=replace(request.task, of=changed_media(task, found)))
        case Embed(inputs=inputs) as task:
            return replace(request, task=replace(task, inputs=tuple(_changed(one, found) for one in inputs)))
        case EditImages(images=images, mask=mask) as task:
            pictures = [part for part in found if isinstance(part, MediaPart)]  # always true: none is a document
            images = tuple(pictures[: len(images)])
            return replace(request, task=replace(task, images=images, mask=pictures[-1] if mask else None))
    return request


def _changed(given: EmbedInput, found: Iterator[MediaPart | TextPart]) -> EmbedInput:
    match given:
        case Generate():
            return changed_media(given, found)
        case MixedInput(parts=parts):
            return MixedInput(tuple(next(found) if isinstance(part, MediaPart) else part for part in parts))
    return given
