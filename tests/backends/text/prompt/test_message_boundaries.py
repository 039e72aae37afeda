"""At which ends of messages a later prompt finds a snapshot."""

from hypothesis import given
from hypothesis import strategies as st

from orchard.backends.text.prompt.message_boundaries import choose_boundaries
from orchard.core.tasks.generate import Message, ReasoningPart, TextPart, ToolCallPart, ToolResultPart
from tests.support.examples import examples


def said(role: str, text: str) -> Message:
    return Message(role, (TextPart(text),))  # type: ignore[arg-type]


def call(number: int) -> Message:
    return Message("assistant", (ReasoningPart("hm"), ToolCallPart(f"c{number}", "f", f'{{"n": {number}}}')))


def result(number: int, text: str) -> Message:
    return Message("tool", (ToolResultPart(f"c{number}", (TextPart(text),)),))


def rendered(*texts: str, opening: str = "A") -> tuple[list[int], str]:
    """The places of the characters that end the messages, and the prompt. A text begins with its role."""
    written = "".join(f"{text}#" for text in texts) + opening
    return [place for place, character in enumerate(written) if character == "#"], written


def chosen(ends: list[int], text: str, *messages: Message) -> list[int]:
    """The indices of the messages at whose ends there are boundaries."""
    return [ends.index(place) for place in choose_boundaries(ends, text, ["#"], messages)]


def test_a_short_conversation_has_all() -> None:
    ends, text = rendered("Srules", "Uone", "Aanswer", "Utwo", opening="Athink:")
    messages = said("system", "rules"), said("user", "one"), said("assistant", "answer"), said("user", "two")
    assert chosen(ends, text, *messages) == [0, 1, 2, 3]
    assert chosen([], "", *messages) == []


def test_behind_a_message_that_is_answered_as_earlier_ones_were_is_none() -> None:
    """The end of the prompt is where the next turn goes on."""
    messages = said("user", "one"), said("assistant", "answer"), said("user", "two")
    assert chosen(*rendered("Uone", "Aanswer", "Utwo"), *messages) == [0, 1]
    assert chosen(*rendered("Uone", "Aanswer", "Utwo", opening="A<think>"), *messages) == [0, 1, 2]
    assert chosen(*rendered("Uone", "Aanswer", "Utwo", opening="\nA"), *messages) == [0, 1, 2]  # as of Llama 4
    assert chosen(*rendered("Uone"), messages[0]) == [0]


def test_the_last_question_has_some_however_much_comes_after_it() -> None:
    """Behind it, a template may drop the reasoning when there is another question."""
    for before, count in ((2, 9), (20, 30), (21, 30)):
        earlier = ["Srules", "Uone", "Atwo", *[f"A{number}" for number in range(before)]]
        said_earlier = [said({"S": "system", "U": "user", "A": "assistant"}[text[0]], text[1:]) for text in earlier]
        loop = [text for number in range(count) for text in (f"Acall {number}", f"Tread it {number}")]
        said_in_loop = [
            message for number in range(count) for message in (call(number), result(number, f"read it {number}"))
        ]
        texts = [*earlier, "Uread it", *loop]
        found = chosen(*rendered(*texts, opening="A<think>"), *said_earlier, said("user", "read it"), *said_in_loop)
        assert {len(earlier) - 1, len(earlier)} <= set(found)
        assert {0, 1, 2, len(texts) - 3, len(texts) - 2, len(texts) - 1} <= set(found)
        assert len(found) < 14


def test_a_reminder_in_a_message_of_results_is_a_question() -> None:
    both = Message("user", (ToolResultPart("c1", (TextPart("found"),)), TextPart("Remember.")))
    texts = ["Uone", *["Ax"] * 8, "Acall", "Tfound", "URemember."]
    texts += [text for number in range(20) for text in (f"Acall {number}", f"T{number}")]
    loop = [message for number in range(20) for message in (call(number), result(number, str(number)))]
    found = chosen(*rendered(*texts), said("user", "one"), *[said("assistant", "x")] * 8, call(1), both, *loop)
    assert {10, 11} <= set(found)


@examples(200)
@given(st.lists(st.sampled_from(["U", "A", "T"]), max_size=300), st.integers(0, 5))
def test_there_are_few(roles: list[str], length: int) -> None:
    """A prompt that is read at once is cut at each of them."""
    messages = [said("user" if role == "U" else "assistant", "x" * length) for role in roles]
    ends, text = rendered(*[role + "x" * length for role in roles], opening="A<think>")
    places = choose_boundaries(ends, text, ["#"], messages)
    assert list(places) == sorted(set(places) & set(ends))
    assert len(places) <= 8 + len(ends).bit_length()
    assert places[-1:] == tuple(ends[-1:])
