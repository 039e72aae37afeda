"""Markers in the places of media."""

from orchard.core.media import MediaPart
from orchard.core.tasks.generate import Generate, Message, Part, ReasoningPart, TextPart, ToolResultPart, media_of
from orchard.worker.prompt.media import mark

IMAGE, SOUND = (MediaPart(kind, "", f"{kind}", data=b"x") for kind in ("image", "audio"))
NOTE = MediaPart("document", "", "document", data=b"It is blue.")


def marked(*parts: Part) -> list[object]:
    """The parts of a message, with A and B for its media."""
    read = mark(Generate((Message("user", parts),)))
    assert not list(media_of(read.task))
    assert list(read.parts) == [part for part in media_of(Generate((Message("user", parts),))) if part is not NOTE]

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
    first, second = (mark(Generate((Message("user", (IMAGE,)),))) for _ in range(2))
    assert isinstance(part := first.task.messages[0].parts[0], TextPart)
    assert list(first.pieces(part.text)) == ["", 0, ""]
    assert list(second.pieces(part.text)) == [part.text]
