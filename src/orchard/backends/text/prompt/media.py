"""Media in prompts: reads them, puts them into the text that a chat template renders, and describes them in jobs."""

import itertools
import logging
import re
import secrets
import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from orchard.backends.text.media_room import MOST_MEDIA_BYTES
from orchard.backends.text.prompt.chat_messages import Turn
from orchard.backends.text.prompt.chat_template import Arrange, ChatTemplate
from orchard.backends.text.prompt.documents import DocumentReader
from orchard.backends.text.prompt.media_blocks import MediaBlocks, Placeholder, placeholder_cores
from orchard.backends.text.prompt.template_probe import ROLES, Role
from orchard.core.errors import OrchardError
from orchard.core.media import MediaKind, MediaPart, media_error
from orchard.core.tasks.generate import Generate, Part, TextPart, ToolResultPart
from orchard.device.lane import check_cancelled
from orchard.engine.batching.job import MediaSpan
from orchard.engine.batching.model import PromptEmbeddings

if TYPE_CHECKING:  # they import mlx-vlm, which a text model doesn't need
    from orchard.backends.vision.encoder import PlacedMedium
    from orchard.backends.vision.inputs import Medium
    from orchard.backends.vision.model import VisionModel

log = logging.getLogger("orchard.worker")

# After this time, no other document or medium of a request is read. The last one, a video, may take 60 or 70 more.
MOST_READING_SECONDS = 40.0
_MOST_SECONDS = 40  # for encoding one medium; a worker that is silent for three times as long is killed


def _number_medium(text: str, place: int) -> str:
    """Return the text of a medium with its number in the prompt, if the model numbers media."""
    return text.replace("<image_id>0</image_id>", f"<image_id>{place}</image_id>")


class JobMedia(Struct, frozen=True):
    """What a `Job` says about a prompt's media; see there."""

    spans: tuple[MediaSpan, ...] = ()
    embed: Callable[[int], PromptEmbeddings] | None = None
    media_bytes: int = 0


class MediaTask(Struct, frozen=True):
    """A conversation whose media have been read; markers have replaced them in its text.

    `task` has markers for `parts`, in order; `media` are those that were read. Each marker has the `nonce`, so that a
    caller's text can't contain one. `start_time`: when reading began, by `time.monotonic`.
    """

    task: Generate
    parts: tuple[MediaPart, ...] = ()
    nonce: str = ""
    start_time: float = 0.0
    media: "tuple[Medium, ...]" = ()

    @property
    def media_bytes(self) -> int:
        """The bytes of the media as the encoder gets them."""
        return sum(medium.bytes for medium in self.media)

    def marker(self, number: int) -> str:
        """Return the marker of a medium."""
        return f"{self.nonce}x{number}x"

    def pieces(self, text: str) -> Iterator[str | int]:
        """Yield a rendered text in pieces: text as a string, and each marker as the number of its medium."""
        for place, piece in enumerate(re.split(rf"{self.nonce}x(\d+)x", text)):
            yield int(piece) if place % 2 else piece


def mark_media(task: Generate, documents: DocumentReader) -> MediaTask:
    """Replace documents by their texts, and other media, which are not read yet, by markers.

    No template changes markers. Raise OrchardError if a document can't be read.
    """
    media_task = MediaTask(task, nonce=secrets.token_hex(8), start_time=time.monotonic())
    media: list[MediaPart] = []

    def mark_parts(parts: Sequence[Part]) -> tuple[Part, ...]:
        marked_parts: list[Part] = []
        after_medium = False
        for part in parts:
            if isinstance(part, MediaPart) and part.kind != "document":
                text = media_task.marker(len(media))
                media.append(part)
                is_medium = True
            elif isinstance(part, MediaPart | TextPart):
                text = (
                    _document_text(part, media_task.start_time, documents) if isinstance(part, MediaPart) else part.text
                )
                is_medium = False
            else:
                marked_part = replace(part, parts=mark_parts(part.parts)) if isinstance(part, ToolResultPart) else part
                marked_parts.append(marked_part)
                after_medium = False
                continue
            # Join a medium with the texts around it, so that nothing comes between them.
            if (is_medium or after_medium) and marked_parts and isinstance(before := marked_parts[-1], TextPart):
                marked_parts[-1] = TextPart(before.text + text)
            else:
                marked_parts.append(TextPart(text))
            after_medium = is_medium
        return tuple(marked_parts)

    messages = tuple(replace(message, parts=mark_parts(message.parts)) for message in task.messages)
    return replace(media_task, task=replace(task, messages=messages), parts=tuple(media))


def _document_text(part: MediaPart, start_time: float, documents: DocumentReader) -> str:
    _refuse_late(part, start_time)
    return documents.read(part)


def _refuse_late(part: MediaPart, start_time: float) -> None:
    """Raise OrchardError if reading a request's documents and media has taken too long to begin another one.

    Raise CallerCancelled if its caller has left.
    """
    check_cancelled()
    if time.monotonic() - start_time > MOST_READING_SECONDS:
        raise media_error(part, f"what comes before it took more than {MOST_READING_SECONDS:g} seconds to read")


class PromptMedia:
    """Reads media and puts them into the prompts of one model, which is not kept."""

    def __init__(self, model: "VisionModel", template: ChatTemplate, most_bytes: Callable[[], int]) -> None:
        """`most_bytes` returns what models may take: a medium whose encoding takes more is rejected."""
        self._model = weakref.ref(model)
        self._most_bytes = most_bytes
        self._reader = model.reader
        self._feature_ids = model.reader.feature_ids
        tokens = [token.content for token in model.tokenizer.added_tokens_decoder.values()]
        self._placeholders: dict[MediaKind, Placeholder] = {}
        blocks: dict[tuple[Role, MediaKind], Turn] = {}
        for kind in sorted(model.reader.kinds):
            blocks |= self._find_placeholder(kind, template, tokens)
        self._blocks = MediaBlocks(self._placeholders, blocks)
        log.info("besides text, the model takes %s", ", ".join(self._placeholders) or "nothing")

    @property
    def media_kinds(self) -> tuple[MediaKind, ...]:
        """The kinds of media that the model takes."""
        return tuple(self._placeholders)

    def close(self) -> None:
        """End the process that decodes videos. Any thread may call this."""
        self._reader.close()

    def _find_placeholder(
        self, kind: MediaKind, template: ChatTemplate, tokens: Sequence[str]
    ) -> dict[tuple[Role, MediaKind], Turn]:
        """Find the placeholder of a kind of media in the model's prompts, and test it with a small medium.

        `tokens` are the tokenizer's added tokens. Return the block for which the template writes the placeholder, by
        kind and by the roles of messages in which it does.
        """
        for text, block in self._placeholder_candidates(kind, template):
            expansion = self._reader.expand_placeholder(kind, text)
            if expansion is None:
                continue
            placeholders = (Placeholder(*text.partition(core)) for core in (*placeholder_cores(text, tokens), text))
            matches = (
                placeholder
                for placeholder in placeholders
                if placeholder.surround(self._reader.expand_placeholder(kind, placeholder.core) or "") == expansion
            )
            self._placeholders[kind] = placeholder = next(matches)
            role_texts = {role: template.block_text(block, role) or "" for role in ROLES} if block else {}
            return {
                (role, kind): block
                for role, role_text in role_texts.items()
                if block and role_text.count(placeholder.core) == 1
            }
        log.warning("the model takes no %s: its placeholder in prompts is not known", kind)
        return {}

    def _placeholder_candidates(self, kind: MediaKind, template: ChatTemplate) -> Iterator[tuple[str, Turn | None]]:
        for block in ({"type": kind}, {"type": f"{kind}_url"}, {"type": kind, kind: ""}):
            if text := template.block_text(block):
                yield text, block
        for text in self._reader.usual_placeholders(kind):
            yield text, None

    def read(self, media_task: MediaTask, refuse: Callable[[int], None], salt: bytes = b"") -> MediaTask:
        """Read the media of a conversation; `salt`: see `CacheScope`. Raise OrchardError that blames the part if one
        can't be read.

        `refuse` is called with the number of tokens so far, and raises if they are too many. A few bytes may be an
        image of many megabytes, so don't prepare media that are too large.
        """
        media: list[Medium] = []
        tokens = media_bytes = 0
        for part in media_task.parts:
            _refuse_late(part, media_task.start_time)
            check = partial(self._check_medium, part, tokens, media_bytes, refuse)
            medium = self._reader.read(part, self._placeholders[part.kind].core, check, salt)
            check(medium)
            media.append(medium)
            tokens, media_bytes = tokens + len(medium.tokens), media_bytes + medium.bytes
        return replace(media_task, media=tuple(media))

    def _check_medium(
        self, part: MediaPart, tokens: int, size: int, refuse: Callable[[int], None], medium: "Medium"
    ) -> None:
        """Raise OrchardError if a medium is too large; the media before it have `tokens` tokens and `size` bytes."""
        model = self._model()
        assert model, "a prompt outlives its model"
        if (seconds := model.cost.encoding_seconds(medium)) > _MOST_SECONDS:
            message = f"encoding this {part.kind} would take about {seconds:,.0f} seconds on this machine's CPU; "
            message += f"at most {_MOST_SECONDS} are allowed. Send a smaller one, or set `max_pixels`"
            raise OrchardError("invalid_request", message, param=part.param)
        refuse(tokens + len(medium.tokens))
        if (size := size + medium.bytes) > MOST_MEDIA_BYTES:
            message = f"this {part.kind} and the media before it take {size:,} bytes for the model's encoder; "
            message += f"at most {MOST_MEDIA_BYTES:,} are allowed in a request"
            raise OrchardError("invalid_request", message, param=part.param)
        if (encoding_bytes := model.cost.encoding_bytes(medium)) > (most := self._most_bytes()):
            message = f"encoding this {part.kind} takes {encoding_bytes:,} bytes, and models may take {most:,}. "
            message += "Send a smaller one, or set `max_pixels`"
            raise OrchardError("invalid_request", message, param=part.param)

    def render(self, media_task: MediaTask, render: Callable[[Arrange | None], str]) -> str:
        """Render a conversation with media as blocks, or else as text. Return it with markers for `expand_markers`."""
        text = self._blocks.restore_markers(media_task, render(partial(self._blocks.arrange, media_task)))
        return self.surround_markers(media_task, render(None)) if text is None else text

    def surround_markers(self, media_task: MediaTask, text: str) -> str:
        """Return a text that was not rendered, with markers for `expand_markers`."""
        return self._blocks.surround_markers(media_task, text)

    def expand_markers(self, media_task: MediaTask, text: str) -> tuple[str, list[int]]:
        """Return a rendered text with the processor's text for each medium, ready to tokenise, and the media's numbers.

        Raise OrchardError that blames a part that the template leaves out.
        """
        pieces = list(media_task.pieces(text))
        for number, part in enumerate(media_task.parts):
            if number not in pieces:
                message = f"the model's chat template leaves out this {part.kind}"
                raise OrchardError("invalid_request", message, param=part.param)
        numbers = [piece for piece in pieces if isinstance(piece, int)]
        places = itertools.count()
        texts = (
            piece if isinstance(piece, str) else _number_medium(media_task.media[piece].text, next(places))
            for piece in pieces
        )
        return "".join(texts), numbers

    def show_placeholders(self, media_task: MediaTask, text: str) -> str:
        """Return a rendered text with the template's placeholder for each medium."""
        texts = (
            piece if isinstance(piece, str) else self._placeholders[media_task.parts[piece].kind].core
            for piece in media_task.pieces(text)
        )
        return "".join(texts)

    def job_media(
        self, tokens: list[int], media_task: MediaTask, numbers: Sequence[int], param: str = "messages"
    ) -> JobMedia:
        """Return what a job says about the media with these numbers, in the order of the prompt.

        Raise OrchardError, which blames `param`, if a text of the prompt looks like media.
        """
        from orchard.backends.vision.encoder import place_media

        try:
            placed_media = place_media(tokens, [media_task.media[number] for number in numbers], self._feature_ids)
        except ValueError as error:
            message = f"`{param}` contains text that stands for media in the model's prompts; leave it out"
            raise OrchardError("invalid_request", message, param=param) from error
        placed_media = [
            item._replace(param=media_task.parts[number].param)
            for item, number in zip(placed_media, numbers, strict=True)
        ]
        model = self._model()
        assert model, "a prompt outlives its model"
        spans = tuple(
            MediaSpan(item.start, item.stop, item.medium.digest, model.can_divide(item.medium)) for item in placed_media
        )
        return JobMedia(spans, _embedder(self._model, tokens, placed_media), model.media_bytes(placed_media))


def _embedder(
    model: "weakref.ref[VisionModel]", tokens: list[int], placed_media: list["PlacedMedium"]
) -> Callable[[int], PromptEmbeddings]:
    """Return `Job.embed`. It doesn't keep the model, which the engine's thread frees."""

    def embed(cached_tokens: int) -> PromptEmbeddings:
        loaded_model = model()
        assert loaded_model, "a job outlives its model"
        return loaded_model.embed(tokens, placed_media, cached_tokens)

    return embed
