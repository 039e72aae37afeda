"""Markers in the places of media, and how much of them a prompt may have."""

import itertools
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from orchard.backends.text.prompt import media
from orchard.backends.text.prompt.documents import DocumentReader
from orchard.backends.text.prompt.media import MediaTask, PromptMedia, mark_media
from orchard.core.errors import OrchardError
from orchard.core.media import MediaKind, MediaPart
from orchard.core.tasks.generate import Generate, Message, Part, ReasoningPart, TextPart, ToolResultPart, task_media

IMAGE, SOUND = (MediaPart(kind, "", f"{kind}", data=b"x") for kind in ("image", "audio"))
DOCUMENTS = DocumentReader()  # it starts no process for a text
NOTE = MediaPart("document", "", "document", data=b"It is blue.")


def marked(*parts: Part) -> list[object]:
    """The parts of a message, with A and B for its media."""
    read = mark_media(Generate((Message("user", parts),)), DOCUMENTS)
    assert not list(task_media(read.task))
    assert list(read.parts) == [part for part in task_media(Generate((Message("user", parts),))) if part is not NOTE]

    def shown(text: str) -> str:
        return "".join(piece if isinstance(piece, str) else "AB"[piece] for piece in read.pieces(text))

    def plain(part: Part) -> object:
        match part:
            case TextPart(text):
                return shown(text)
            case ToolResultPart():
                return [plain(inner) for inner in part.parts]
        return part

    return [plain(part) for part in read.task.messages[0].parts]


def test_nothing_stands_between_a_medium_and_the_texts_around_it() -> None:
    one, other = TextPart("one "), TextPart("other")
    assert marked(one, IMAGE, other) == ["one Aother"]
    assert marked(IMAGE, SOUND) == ["AB"]
    assert marked(IMAGE, one, other, SOUND) == ["Aone ", "otherB"]
    assert marked(one, other) == ["one ", "other"]


def test_media_in_results_and_beside_other_parts() -> None:
    result = ToolResultPart("call", (TextPart("There: "), IMAGE))
    thought = ReasoningPart("Hm.")
    assert marked(result, SOUND, thought, TextPart("more")) == [["There: A"], "B", thought, "more"]


def test_a_document_is_a_text_of_its_own() -> None:
    assert marked(TextPart("one"), NOTE, TextPart("other")) == ["one", "It is blue.", "other"]
    assert marked(NOTE, IMAGE, NOTE) == ["It is blue.AIt is blue."]


def test_no_text_of_a_caller_is_a_marker() -> None:
    first, second = (mark_media(Generate((Message("user", (IMAGE,)),)), DOCUMENTS) for _ in range(2))
    assert isinstance(part := first.task.messages[0].parts[0], TextPart)
    assert list(first.pieces(part.text)) == ["", 0, ""]
    assert list(second.pieces(part.text)) == [part.text]


def test_pictures_are_numbered_where_the_model_numbers_them() -> None:
    picture, sound = SimpleNamespace(text="<image_id>0</image_id>P"), SimpleNamespace(text="S")
    prepared: Any = (picture, picture, sound)
    read = MediaTask(Generate(()), (IMAGE, IMAGE, SOUND), "n", media=prepared)
    prompt: Any = SimpleNamespace()
    text, found = PromptMedia.expand_markers(prompt, read, "a nx0x b nx2x c nx1x")
    assert text == "a <image_id>0</image_id>P b S c <image_id>2</image_id>P"
    assert found == [0, 2, 1]


class Reader:
    """Prepares each medium to a gibibyte, for 10 tokens."""

    kinds = frozenset({"image"})
    feature_ids = frozenset[int]()

    def __init__(self) -> None:
        self.asked = self.reads = 0

    def expand_placeholder(self, kind: MediaKind, placeholder: str) -> str:
        return placeholder

    def usual_placeholders(self, kind: MediaKind) -> Iterator[str]:
        yield "<image>"

    def read(self, part: MediaPart, placeholder: str, check: Callable[[Any], None], salt: bytes) -> Any:
        made = SimpleNamespace(tokens=[0] * 10, bytes=2**30)
        self.asked += 1
        check(made)
        self.reads += 1
        return made


class Model:
    """Encodes each medium in so many seconds and in as many bytes as it has."""

    def __init__(self, seconds: float) -> None:
        self.reader = Reader()
        self.tokenizer = SimpleNamespace(added_tokens_decoder={})
        self.cost = SimpleNamespace(encoding_seconds=lambda medium: seconds, encoding_bytes=lambda medium: medium.bytes)


def read_of(
    count: int, most_tokens: int, seconds: float = 1.0, memory_bytes: int = 2**31
) -> tuple[Reader, OrchardError | MediaTask]:
    """Let so many pictures be read; return what comes of it."""

    def refuse(tokens: int) -> None:
        if tokens > most_tokens:
            raise OrchardError("context_length_exceeded", f"{tokens}")

    model: Any = Model(seconds)
    template: Any = SimpleNamespace(block_text=lambda block, role="user": "")
    parts = tuple(MediaPart("image", "", f"[{place}]", data=b"x") for place in range(count))
    try:
        read = mark_media(Generate((Message("user", parts),)), DOCUMENTS)
        return model.reader, PromptMedia(model, template, lambda: memory_bytes).read(read, refuse)
    except OrchardError as error:
        return model.reader, error


@pytest.mark.parametrize(
    ("most_tokens", "kind", "reads"), [(15, "context_length_exceeded", 1), (99, "invalid_request", 2)]
)
def test_no_more_is_prepared_than_a_prompt_may_have(most_tokens: int, kind: str, reads: int) -> None:
    """A few bytes may become many megabytes."""
    reader, error = read_of(50, most_tokens)
    assert isinstance(error, OrchardError)
    assert (error.kind, reader.reads, reader.asked) == (kind, reads, reads + 1)
    if kind == "invalid_request":
        assert error.param == "[2]"
        assert "3,221,225,472 bytes" in error.message
    _, read = read_of(1, most_tokens)
    assert isinstance(read, MediaTask)
    assert len(read.media) == 1


def test_what_would_keep_the_encoder_for_long_is_refused() -> None:
    """A worker that is silent for two minutes is killed."""
    reader, error = read_of(2, 99, seconds=41.0)
    assert isinstance(error, OrchardError)
    assert (error.kind, error.param, reader.reads) == ("invalid_request", "[0]", 0)
    assert "about 41 seconds" in error.message


def test_what_no_memory_could_hold_is_refused_with_the_numbers() -> None:
    reader, error = read_of(2, 99, memory_bytes=2**30 - 1)
    assert isinstance(error, OrchardError)
    assert (error.kind, error.param, reader.reads) == ("invalid_request", "[0]", 0)
    assert "encoding this image takes 1,073,741,824 bytes, and models may take 1,073,741,823." in error.message


def slow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let each look at the clock take 30 seconds."""
    clock = itertools.count(0.0, 30.0)
    monkeypatch.setattr(media, "time", SimpleNamespace(monotonic=lambda: next(clock)))


def test_media_that_take_long_together_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each for itself may take long; a worker that is silent for two minutes is killed."""
    slow(monkeypatch)
    reader, error = read_of(3, 99)
    assert isinstance(error, OrchardError)
    assert (error.kind, error.param, reader.reads) == ("invalid_request", "[1]", 1)
    assert error.message == "`[1]` can't be read: what comes before it took more than 40 seconds to read"


def test_documents_that_take_long_together_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    slow(monkeypatch)
    with pytest.raises(OrchardError, match="`document` can't be read: what comes before it took more than 40 seconds"):
        marked(NOTE, NOTE, NOTE)


def test_documents_and_media_share_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    slow(monkeypatch)
    model: Any = Model(1.0)
    template: Any = SimpleNamespace(block_text=lambda block, role="user": "")
    read = mark_media(Generate((Message("user", (NOTE, IMAGE)),)), DOCUMENTS)
    with pytest.raises(OrchardError, match="`image` can't be read: what comes before it"):
        PromptMedia(model, template, lambda: 2**31).read(read, lambda tokens: None)
