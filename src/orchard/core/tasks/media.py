"""The media of a request, whatever it asks for."""

from collections.abc import Iterator

from msgspec.structs import replace

from orchard.core.media import MediaPart
from orchard.core.request import Request
from orchard.core.tasks.embed import Embed, MixedInput
from orchard.core.tasks.generate import Count, Generate, TextPart, changed_media, media_of


def request_media(request: Request) -> Iterator[MediaPart]:
    """Yield the media of a request, in order."""
    match request.task:
        case Generate() as task:
            yield from media_of(task)
        case Count(of=task):
            yield from media_of(task)
        case Embed(inputs=inputs):
            mixed = (one for one in inputs if isinstance(one, MixedInput))
            yield from (part for one in mixed for part in one.parts if isinstance(part, MediaPart))


def with_media(request: Request, found: Iterator[MediaPart | TextPart]) -> Request:
    """Return a request with something else in place of each of its media, in the order of `request_media`."""
    match request.task:
        case Generate() as task:
            return replace(request, task=changed_media(task, found))
        case Count(of=task):
            return replace(request, task=replace(request.task, of=changed_media(task, found)))
        case Embed(inputs=inputs) as task:
            changed = tuple(_changed(one, found) if isinstance(one, MixedInput) else one for one in inputs)
            return replace(request, task=replace(task, inputs=changed))
    return request


def _changed(mixed: MixedInput, found: Iterator[MediaPart | TextPart]) -> MixedInput:
    return MixedInput(tuple(next(found) if isinstance(part, MediaPart) else part for part in mixed.parts))
