"""The media of a request, whatever its task."""

from collections.abc import Iterator

from msgspec.structs import replace

from orchard.core.media import MediaPart
from orchard.core.request import Request
from orchard.core.tasks.embed import Embed, EmbedInput, MixedInput
from orchard.core.tasks.generate import Count, Generate, TextPart, replace_task_media, task_media
from orchard.core.tasks.images import EditImages
from orchard.core.tasks.transcribe import Transcribe


def request_media(request: Request) -> Iterator[MediaPart]:
    """Yield the media of a request, in order."""
    match request.task:
        case Generate() as task:
            yield from task_media(task)
        case Count(of=task):
            yield from task_media(task)
        case Embed(inputs=inputs):
            for one in inputs:
                yield from input_media(one)
        case EditImages() as task:
            yield from task.media
        case Transcribe(known_speakers=known):
            yield from (one.sample for one in known)


def input_media(given: EmbedInput) -> Iterator[MediaPart]:
    """Yield the media of an input to embed, in order."""
    match given:
        case Generate():
            yield from task_media(given)
        case MixedInput(parts=parts):
            yield from (part for part in parts if isinstance(part, MediaPart))


def replace_request_media(request: Request, found: Iterator[MediaPart | TextPart]) -> Request:
    """Return a request with its media, in the order of `request_media`, replaced by `found`."""
    match request.task:
        case Generate() as task:
            return replace(request, task=replace_task_media(task, found))
        case Count(of=task):
            return replace(request, task=replace(request.task, of=replace_task_media(task, found)))
        case Embed(inputs=inputs) as task:
            return replace(
                request, task=replace(task, inputs=tuple(_replace_input_media(one, found) for one in inputs))
            )
        case EditImages(images=images, mask=mask) as task:
            pictures = [part for part in found if isinstance(part, MediaPart)]  # keeps all: only documents become text
            images = tuple(pictures[: len(images)])
            return replace(request, task=replace(task, images=images, mask=pictures[-1] if mask else None))
        case Transcribe(known_speakers=known) as task if known:
            samples = [part for part in found if isinstance(part, MediaPart)]
            known = tuple(replace(one, sample=sample) for one, sample in zip(known, samples, strict=True))
            return replace(request, task=replace(task, known_speakers=known))
    return request


def _replace_input_media(given: EmbedInput, found: Iterator[MediaPart | TextPart]) -> EmbedInput:
    match given:
        case Generate():
            return replace_task_media(given, found)
        case MixedInput(parts=parts):
            return MixedInput(tuple(next(found) if isinstance(part, MediaPart) else part for part in parts))
    return given
