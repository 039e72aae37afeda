from orchard.core.media import MediaPart
from orchard.core.tasks.generate import Generate, Message, TextPart


def said(*texts: str) -> Generate:
    """A conversation that begins with a system message, then user and assistant in turns."""
    roles = ["system", *["user", "assistant"] * len(texts)]
    return Generate(tuple(Message(role, (TextPart(text),)) for role, text in zip(roles, texts, strict=False)))  # type: ignore[arg-type]


def test_a_conversation_is_told_by_its_beginning_from_turn_to_turn() -> None:
    first = said("Be kind.", "Hello")
    assert first.conversation == said("Be kind.", "Hello", "Hi!", "How are you?").conversation
    others = [
        said("Be kind.", "Hallo"),
        said("Be rude.", "Hello"),
        said("Be kind.", "x" * 5000),
        said("Be kind.", "x" * 5001),
        said("Be kind."),
        Generate(prompt="Hello"),
        Generate(prompt=(1, 2)),
        Generate(),
    ]
    assert len({task.conversation for task in [first, *others]}) == len(others) + 1


def test_a_conversation_may_begin_with_anything() -> None:
    image = MediaPart("image", "", "image", b"x")
    assert Generate((Message("user", (image, TextPart("\ud800"))),)).conversation
    assert Generate(prompt="Hello").conversation == Generate(prompt="Hello", n=2).conversation
