"""Media in a prompt: where they stand in the text that a chat template renders, and what the engine needs of them."""

import logging
import re
import secrets
import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from orchard.core.errors import OrchardError
from orchard.core.media import MediaKind, MediaPart
from orchard.core.tasks.generate import Generate, Part, TextPart, ToolResultPart
from orchard.engine.batching.job import MediaSpan
from orchard.engine.batching.model import Embedded
from orchard.worker.prompt.chat_template import ChatTemplate

if TYPE_CHECKING:  # they import mlx-vlm, which a model of text doesn't need
    from orchard.backends.vision.encoder import PlacedMedium
    from orchard.backends.vision.inputs import Medium
    from orchard.backends.vision.model import VisionModel

log = logging.getLogger("orchard.worker")


class JobMedia(Struct, frozen=True):
    """What the engine is told of a prompt's media: see `Job`."""

    spans: tuple[MediaSpan, ...] = ()
    embed: Callable[[int], Embedded] | None = None
    media_bytes: int = 0


class MarkedTask(Struct, frozen=True):
    """A conversation in which markers stand for its media.

    `task` has no media any more; `media` are those whose markers it has, in order. `nonce` is in each marker, so that
    no text of a caller can be one.
    """

    task: Generate
    media: tuple[MediaPart, ...]
    nonce: str

    def pieces(self, text: str) -> Iterator[str | int]:
        """Return the pieces of a rendered text: what stands before, between and after markers, and their numbers."""
        for place, piece in enumerate(re.split(rf"{self.nonce}x(\d+)x", text)):
            yield int(piece) if place % 2 else piece


def media_of(task: Generate) -> Iterator[MediaPart]:
    """Return the media of a conversation, in order."""
    for message in task.messages:
        for part in message.parts:
            for piece in part.parts if isinstance(part, ToolResultPart) else (part,):
                if isinstance(piece, MediaPart):
                    yield piece


def has_media(task: Generate) -> bool:
    """Return whether there are any."""
    return next(media_of(task), None) is not None


def mark(task: Generate) -> MarkedTask:
    """Put markers in the places of a conversation's media: whatever a template does to texts, it leaves them whole."""
    nonce = secrets.token_hex(8)
    media: list[MediaPart] = []

    def marked(parts: Sequence[Part]) -> tuple[Part, ...]:
        written: list[Part] = []
        after_medium = False
        for part in parts:
            if isinstance(part, ToolResultPart):
                written.append(replace(part, parts=marked(part.parts)))
                after_medium = False
                continue
            text = part.text if isinstance(part, TextPart) else ""
            if isinstance(part, MediaPart):
                text = f"{nonce}x{len(media)}x"
                media.append(part)
            # Nothing stands between a medium and the texts around it.
            joins = written and isinstance(written[-1], TextPart) and (after_medium or isinstance(part, MediaPart))
            if joins and isinstance(part, TextPart | MediaPart):
                before = written.pop()
                assert isinstance(before, TextPart)
                text = before.text + text
            written.append(TextPart(text) if isinstance(part, TextPart | MediaPart) else part)
            after_medium = isinstance(part, MediaPart)
        return tuple(written)

    messages = tuple(replace(message, parts=marked(message.parts)) for message in task.messages)
    return MarkedTask(replace(task, messages=messages), tuple(media), nonce)


class PromptMedia:
    """Puts the media of prompts in their places, for one model, which is not kept."""

    def __init__(self, model: "VisionModel", template: ChatTemplate) -> None:
        self._model = weakref.ref(model)
        self._reader = model.reader
        self._feature_ids = model.reader.feature_ids
        written = {kind: self._placeholder(kind, template) for kind in sorted(model.reader.takes)}
        self._placeholders = {kind: text for kind, text in written.items() if text is not None}
        log.info("the model takes %s besides text", ", ".join(self._placeholders) or "nothing")

    @property
    def takes(self) -> tuple[MediaKind, ...]:
        """What the model takes besides text."""
        return tuple(self._placeholders)

    def _placeholder(self, kind: MediaKind, template: ChatTemplate) -> str | None:
        """Return what the model's prompts have for a medium, tried out with a small one; None: nothing that works."""
        for text in self._candidates(kind, template):
            if self._reader.expands(kind, text):
                return text
        log.warning("the model takes no %s: nothing is known that stands for it in its prompts", kind)
        return None

    def _candidates(self, kind: MediaKind, template: ChatTemplate) -> Iterator[str]:
        for block in ({"type": kind}, {"type": f"{kind}_url"}, {"type": kind, kind: ""}):
            if text := template.inserted(block):
                yield text
        yield from self._reader.conventions(kind)

    def read(self, marked: MarkedTask, text: str) -> tuple[str, list["Medium"]]:
        """Return a rendered text as it is tokenised, with what the processor writes for each medium, and the media.

        Raise OrchardError that blames the part if a medium can't be read or the template leaves it out.
        """
        read: dict[int, Medium] = {}
        written: list[str] = []
        media: list[Medium] = []
        for piece in marked.pieces(text):
            if isinstance(piece, str):
                written.append(piece)
                continue
            if piece not in read:
                part = marked.media[piece]
                read[piece] = self._reader.read(part, self._placeholders[part.kind])
            media.append(read[piece])
            written.append(read[piece].text)
        for number, part in enumerate(marked.media):
            if number not in read:
                message = f"the model's chat template leaves out this {part.kind}"
                raise OrchardError("invalid_request", message, param=part.param)
        return "".join(written), media

    def shown(self, marked: MarkedTask, text: str) -> str:
        """Return a rendered text with what the template would have written for each medium."""
        shown = (
            piece if isinstance(piece, str) else self._placeholders[marked.media[piece].kind]
            for piece in marked.pieces(text)
        )
        return "".join(shown)

    def of_job(self, tokens: list[int], media: Sequence["Medium"]) -> JobMedia:
        """Return what the engine is told of the media in a prompt. Raise OrchardError if its texts look like media."""
        from orchard.backends.vision.encoder import place

        try:
            placed = place(tokens, media, self._feature_ids)
        except ValueError as error:
            message = "these messages contain text that stands for media in the model's prompts; leave it out"
            raise OrchardError("invalid_request", message, param="messages") from error
        model = self._model()
        assert model, "a prompt outlives its model"
        spans = tuple(MediaSpan(one.start, one.stop, one.medium.digest, model.divides(one.medium)) for one in placed)
        return JobMedia(spans, _embedder(self._model, tokens, placed), model.media_bytes(placed))


def _embedder(
    model: "weakref.ref[VisionModel]", tokens: list[int], placed: list["PlacedMedium"]
) -> Callable[[int], Embedded]:
    """Return what a job calls in the engine's thread; it does not keep the model, which that thread frees."""

    def embed(known: int) -> Embedded:
        loaded = model()
        assert loaded, "a job outlives its model"
        return loaded.embed(tokens, placed, known)

    return embed
