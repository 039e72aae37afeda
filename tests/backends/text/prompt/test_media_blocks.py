"""Media as blocks of contents: what small templates, each with one habit, make of them."""

import pytest

from orchard.backends.text.prompt.media_blocks import Placeholder, placeholder_cores
from orchard.core.errors import OrchardError
from orchard.core.media import MediaPart
from orchard.core.tasks.generate import Generate, Message, Part, Role, TextPart, ToolCallPart, ToolResultPart
from tests.backends.text.prompt.test_vision_prompts import Prompts

IMAGE = MediaPart("image", "", "messages[0]", data=b"")
BODY = (
    "{% for m in messages %}[{{ m.role }}]{% if m.content is string %}{{ m.content }}{% else %}{% for p in m.content %}"
)
END = "{% endfor %}{% endif %}{% endfor %}"
COUNTED = (
    "{% set n = namespace(images=0) %}" + BODY + "{% if p.type == 'image' %}{% set n.images = n.images + 1 %}"
    "Picture {{ n.images }}: <image>\n{% else %}{{ p.text }}{% endif %}" + END
)  # fmt: skip
MEASURED = BODY + "{% if p.type == 'image' %}<image>{% else %}{{ p.text | trim | length }}{% endif %}" + END
PLAIN = BODY + "{{ '<image>' if p.type == 'image' else p.text }}" + END
LAST_ONLY = PLAIN.replace("messages", "messages[-1:]")
BY_ROLE = (
    "{{ tools | tojson if tools }}{% for m in messages %}[{{ m.role }}]{{ m.tool_calls | tojson if m.tool_calls }}"
    "{% if m.content is string or m.role == 'tool' %}{{ m.content }}{% else %}{% for p in m.content %}"
    "{{ '<image>' if p.type == 'image' else p.text }}{% endfor %}{% endif %}{% endfor %}"
)


def said(*parts: Part | str, role: Role = "user") -> Message:
    return Message(role, tuple(TextPart(part) if isinstance(part, str) else part for part in parts))


def shown(template: str, *messages: Message) -> str:
    text, expanded = Prompts(template, {"image": "<image>"})(Generate(messages))
    assert expanded.count("<image>" * 3) == sum(part is IMAGE for one in messages for part in parts_of(one))
    return text


def parts_of(message: Message) -> list[Part]:
    return [inner for part in message.parts for inner in (part.parts if isinstance(part, ToolResultPart) else [part])]


def test_the_template_numbers_images() -> None:
    two = said(IMAGE, "or", IMAGE, "?")
    assert shown(COUNTED, two, said(IMAGE)) == (
        "[user]Picture 1: <image>\norPicture 2: <image>\n?[user]Picture 3: <image>\n"
    )


def test_the_template_sees_what_the_caller_wrote() -> None:
    assert shown(MEASURED, said("  four ", IMAGE, "\n")) == "[user]4<image>0"


def test_a_template_that_prints_blocks_of_a_role_gets_text_there() -> None:
    call = ToolCallPart("call_1", "look", "{}")
    result = said(ToolResultPart("call_1", (TextPart("There:"), IMAGE)), role="tool")
    text = shown(BY_ROLE, said(IMAGE, "?"), said(call, role="assistant"), result)
    assert text.startswith("[user]<image>?")
    assert text.endswith("[tool]There:<image>")


def test_texts_that_spell_a_placeholder_together_are_none() -> None:
    assert shown(PLAIN.replace("[{{ m.role }}]", ""), said("<ima"), said("ge>"), said(IMAGE)) == "<image><image>"


def test_a_medium_that_the_template_drops_is_refused() -> None:
    """Even if the caller's text spells its placeholder."""
    with pytest.raises(OrchardError, match="leaves out this image"):
        shown(LAST_ONLY, said(IMAGE), said("Yes.", role="assistant"), said("<image>"))


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("Picture 1: <image>\n", ["<image>", "Picture 1: <image>"]),
        ("\n\n<start><image><end>\n\n", ["<start><image><end>"] * 2),
        ("[IMG]", ["[IMG]"]),
        ("<image>,<image>", ["<image>,<image>"] * 2),
    ],
)
def test_cores(text: str, found: list[str]) -> None:
    assert placeholder_cores(text, ["\n\n", "<image>", "<start>", "<end>"]) == found


def test_a_core_is_where_it_was() -> None:
    assert Placeholder(*"1: <image>\n".partition("<image>")).surround("x") == "1: x\n"
