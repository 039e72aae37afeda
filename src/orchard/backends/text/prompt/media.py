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

from orchard.backends.text.media_room import MOST_BYTES
from orchard.backends.text.prompt.chat_messages import Turn
from orchard.backends.text.prompt.chat_template import Arrange, ChatTemplate
from orchard.backends.text.prompt.documents import DocumentReader
from orchard.backends.text.prompt.media_blocks import MediaBlocks, Placeholder, cores
from orchard.backends.text.prompt.template_probe import ROLES, Role
from orchard.core.errors import OrchardError
from orchard.core.media import MediaKind, MediaPart, media_error
from orchard.core.tasks.generate import Generate, Part, TextPart, ToolResultPart
from orchard.device.lane import check_given_up
from orchard.engine.batching.job import MediaSpan
from orchard.engine.batching.model import Embedded

if TYPE_CHECKING:  # they import mlx-vlm, which a text model doesn't need
    from orchard.backends.vision.encoder import PlacedMedium
    from orchard.backends.vision.inputs import Medium
    from orchard.backends.vision.model import VisionModel

log = logging.getLogger("orchard.worker")

# After so long, no further document or medium of a request is begun. The last one, a video, may take another 60 or 70.
MOST_READING_SECONDS = 40.0
_MOST_SECONDS = 40  # for encoding one medium; a worker that is silent for three times as long is killed


def _numbered(text: str, place: int) -> str:
    """Return the text of a medium with its number in the prompt, if the model numbers media."""
    return text.replace("<image_id>0</image_id>", f"<image_id>{place}</image_id>")


class JobMedia(Struct, frozen=True):
    """What a `Job` says about a prompt's media; see there."""

    spans: tuple[MediaSpan, ...] = ()
    embed: Callable[[int], Embedded] | None = None
    media_bytes: int = 0


class ReadTask(Struct, frozen=True):
    """A conversation whose media have been read; markers have replaced them in its text.

    `task` has markers for `parts`, in order; `media` is what was read of them. Each marker has the `nonce`, so that a
    caller's text can't contain one. `begun`: when reading began, by `time.monotonic`.
    """

    task: Generate
    parts: tuple[MediaPart, ...] = ()
    nonce: str = ""
    begun: float = 0.0
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


def mark(task: Generate, documents: DocumentReader) -> ReadTask:
    """Replace documents by their texts, and other media, which are not read yet, by markers.

    No template changes markers. Raise OrchardError if a document can't be read.
    """
    read = ReadTask(task, nonce=secrets.token_hex(8), begun=time.monotonic())
    media: list[MediaPart] = []

    def marked(parts: Sequence[Part]) -> tuple[Part, ...]:
        written: list[Part] = []
        after_medium = False
        for part in parts:
            if isinstance(part, MediaPart) and part.kind != "document":
                text = read.marker(len(media))
                media.append(part)
                is_medium = True
            elif isinstance(part, MediaPart | TextPart):
                text = _document_text(part, read.begun, documents) if isinstance(part, MediaPart) else part.text
                is_medium = False
            else:
                inner = replace(part, parts=marked(part.parts)) if isinstance(part, ToolResultPart) else part
                written.append(inner)
                after_medium = False
                continue
            # Join a medium with the texts around it, so that nothing comes between them.
            if (is_medium or after_medium) and written and isinstance(before := written[-1], TextPart):
                written[-1] = TextPart(before.text + text)
            else:
                written.append(TextPart(text))
            after_medium = is_medium
        return tuple(written)

    messages = tuple(replace(message, parts=marked(message.parts)) for message in task.messages)
    return replace(read, task=replace(task, messages=messages), parts=tuple(media))


def _document_text(part: MediaPart, begun: float, documents: DocumentReader) -> str:
    _refuse_late(part, begun)
    return documents.text(part)


def _refuse_late(part: MediaPart, begun: float) -> None:
    """Raise OrchardError if reading a request's documents and media has taken too long to begin another one.

    Raise GivenUp if its caller has left.
    """
    check_given_up()
    if time.monotonic() - begun > MOST_READING_SECONDS:
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
        for kind in sorted(model.reader.takes):
            blocks |= self._find(kind, template, tokens)
        self._blocks = MediaBlocks(self._placeholders, blocks)
        log.info("besides text, the model takes %s", ", ".join(self._placeholders) or "nothing")

    @property
    def takes(self) -> tuple[MediaKind, ...]:
        """The kinds of media that the model takes."""
        return tuple(self._placeholders)

    def close(self) -> None:
        """End the process that decodes videos. Any thread may call this."""
        self._reader.close()

    def _find(
        self, kind: MediaKind, template: ChatTemplate, tokens: Sequence[str]
    ) -> dict[tuple[Role, MediaKind], Turn]:
        """Find the placeholder of a medium in the model's prompts, tested with a small one, if one works.

        `tokens` are the tokenizer's added ones. Return the block for which the template writes the placeholder, by the
        roles of messages in which it does.
        """
        for text, block in self._candidates(kind, template):
            expanded = self._reader.expansion(kind, text)
            if expanded is None:
                continue
            split = (Placeholder(*text.partition(core)) for core in (*cores(text, tokens), text))
            same = (one for one in split if one.around(self._reader.expansion(kind, one.core) or "") == expanded)
            self._placeholders[kind] = found = next(same)
            written = {role: template.inserted(block, role) or "" for role in ROLES} if block else {}
            return {(role, kind): block for role, own in written.items() if block and own.count(found.core) == 1}
        log.warning("the model takes no %s: its placeholder in prompts is not known", kind)
        return {}

    def _candidates(self, kind: MediaKind, template: ChatTemplate) -> Iterator[tuple[str, Turn | None]]:
        for block in ({"type": kind}, {"type": f"{kind}_url"}, {"type": kind, kind: ""}):
            if text := template.inserted(block):
                yield text, block
        for text in self._reader.conventions(kind):
            yield text, None

    def read(self, marked: ReadTask, refuse: Callable[[int], None], salt: bytes = b"") -> ReadTask:
        """Read the media of a conversation; `salt`: see `CacheScope`. Raise OrchardError that blames the part if one
        can't be read.

        `refuse` is called with the number of tokens so far, and raises if they are too many: a few bytes may be an
        image of many megabytes, so media that are too large must not be prepared.
        """
        media: list[Medium] = []
        tokens = size = 0
        for part in marked.parts:
            _refuse_late(part, marked.begun)
            check = partial(self._check, part, tokens, size, refuse)
            medium = self._reader.read(part, self._placeholders[part.kind].core, check, salt)
            check(medium)
            media.append(medium)
            tokens, size = tokens + len(medium.tokens), size + medium.bytes
        return replace(marked, media=tuple(media))

    def _check(self, part: MediaPart, tokens: int, size: int, refuse: Callable[[int], None], medium: "Medium") -> None:
        """Raise OrchardError if a medium is too large; the media before it have `tokens` tokens and `size` bytes."""
        model = self._model()
        assert model, "a prompt outlives its model"
        if (seconds := model.cost.seconds(medium)) > _MOST_SECONDS:
            message = f"encoding this {part.kind} would take about {seconds:,.0f} seconds on this machine's CPU; "
            message += f"at most {_MOST_SECONDS} are allowed. Send a smaller one, or set `max_pixels`"
            raise OrchardError("invalid_request", message, param=part.param)
        refuse(tokens + len(medium.tokens))
        if (size := size + medium.bytes) > MOST_BYTES:
            message = f"this {part.kind} and the media before it take {size:,} bytes for the model's encoder; "
            message += f"at most {MOST_BYTES:,} are allowed in a request"
            raise OrchardError("invalid_request", message, param=part.param)
        if (needed := model.cost.encoding(medium)) > (most := self._most_bytes()):
            message = f"encoding this {part.kind} takes {needed:,} bytes, and models may take {most:,}. "
            message += "Send a smaller one, or set `max_pixels`"
            raise OrchardError("invalid_request", message, param=part.param)

    def rendered(self, read: ReadTask, render: Callable[[Arrange | None], str]) -> str:
        """Render a conversation with media as blocks, or else as text. Return it with markers for `expanded`."""
        text = self._blocks.marked(read, render(partial(self._blocks.arranged, read)))
        return self.joined(read, render(None)) if text is None else text

    def joined(self, read: ReadTask, text: str) -> str:
        """Return a text that was not rendered, with markers for `expanded`."""
        return self._blocks.surrounded(read, text)

    def expanded(self, read: ReadTask, text: str) -> tuple[str, list[int]]:
        """Return a rendered text with the processor's text for each medium, ready to tokenise, and the media's numbers.

        Raise OrchardError that blames a part that the template leaves out.
        """
        pieces = list(read.pieces(text))
        for number, part in enumerate(read.parts):
            if number not in pieces:
                message = f"the model's chat template leaves out this {part.kind}"
                raise OrchardError("invalid_request", message, param=part.param)
        found = [piece for piece in pieces if isinstance(piece, int)]
        places = itertools.count()
        written = (
            piece if isinstance(piece, str) else _numbered(read.media[piece].text, next(places)) for piece in pieces
        )
        return "".join(written), found

    def shown(self, read: ReadTask, text: str) -> str:
        """Return a rendered text with the template's placeholder for each medium."""
        shown = (
            piece if isinstance(piece, str) else self._placeholders[read.parts[piece].kind].core
            for piece in read.pieces(text)
        )
        return "".join(shown)

    def of_job(self, tokens: list[int], read: ReadTask, found: Sequence[int], param: str = "messages") -> JobMedia:
        """Return what a job says about the media with the numbers `found`, in the order of the prompt.

        Raise OrchardError, which blames `param`, if a text of the prompt looks like media.
        """
        from orchard.backends.vision.encoder import place

        try:
            placed = place(tokens, [read.media[number] for number in found], self._feature_ids)
        except ValueError as error:
            message = f"`{param}` contains text that stands for media in the model's prompts; leave it out"
            raise OrchardError("invalid_request", message, param=param) from error
        placed = [one._replace(param=read.parts[number].param) for one, number in zip(placed, found, strict=True)]
        model = self._model()
        assert model, "a prompt outlives its model"
        spans = tuple(MediaSpan(one.start, one.stop, one.medium.digest, model.divides(one.medium)) for one in placed)
        return JobMedia(spans, _embedder(self._model, tokens, placed), model.media_bytes(placed))


def _embedder(
    model: "weakref.ref[VisionModel]", tokens: list[int], placed: list["PlacedMedium"]
) -> Callable[[int], Embedded]:
    """Return `Job.embed`. It doesn't keep the model, which the engine's thread frees."""

    def embed(known: int) -> Embedded:
        loaded = model()
        assert loaded, "a job outlives its model"
        return loaded.embed(tokens, placed, known)

    return embed
