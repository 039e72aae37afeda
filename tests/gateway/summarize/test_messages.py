"""Where a conversation is cut, and what its summary is made from."""

from hypothesis import given
from hypothesis import strategies as st

from orchard.core.media import MediaPart
from orchard.core.tasks.generate import (
    Generate,
    Message,
    Part,
    ReasoningPart,
    Role,
    TextPart,
    ToolCallPart,
    ToolResultPart,
)
from orchard.core.tasks.text_options import SamplingDefaults
from orchard.gateway.summarize.messages import (
    KEPT,
    LongConversation,
    ReadPosition,
    cut_piece,
    summary_keys,
    summary_task,
)

PARTS = st.one_of(
    st.builds(TextPart, st.text(max_size=20)),
    st.builds(ReasoningPart, st.text(max_size=5)),
    st.just(MediaPart("image", "data:image/png;base64,AAAA", "messages")),
)
# Few ids: they come again, also as results of calls that were never made.
IDS = st.sampled_from(["a", "b", "c"])
CALLS = st.builds(ToolCallPart, IDS, st.just("look"), st.just("{}"))
RESULTS = st.builds(ToolResultPart, IDS, st.tuples(st.builds(TextPart, st.text(max_size=20))))


def _of(role: Role, parts: st.SearchStrategy[Part]) -> st.SearchStrategy[Message]:
    return st.builds(Message, st.just(role), st.lists(parts, min_size=1, max_size=3).map(tuple))


MESSAGES = st.lists(
    st.one_of(
        _of("system", st.builds(TextPart, st.text(max_size=10))),
        _of("user", PARTS),
        _of("assistant", st.one_of(PARTS, CALLS)),
        _of("tool", RESULTS),
    ),
    max_size=30,
)


def said(role: Role, *parts: Part | str) -> Message:
    return Message(role, tuple(TextPart(part) if isinstance(part, str) else part for part in parts))


def talk(turns: int) -> list[Message]:
    return [said("assistant" if i % 2 else "user", f"turn {i}") for i in range(turns)]


def called(*ids: str) -> Message:
    return said("assistant", *(ToolCallPart(id_, "look", '{"at": 1}') for id_ in ids))


def returned(id_: str, text: str = "seen") -> Message:
    return said("tool", ToolResultPart(id_, (TextPart(text),)))


def spoken(messages: list[Message]) -> list[Message]:
    return [message for message in messages if message.role != "system"]


def pairs(messages: list[Message]) -> set[tuple[int, int]]:
    """The places of each result and of its call, which is the last of that id before it."""
    calls: dict[str, int] = {}
    found = set()
    for place, message in enumerate(messages):
        for part in message.parts:
            if isinstance(part, ToolCallPart):
                calls[part.id] = place
            if isinstance(part, ToolResultPart) and part.call_id in calls:
                found.add((calls[part.call_id], place))
    return found


@given(MESSAGES)
def test_no_cut_takes_what_must_stay(messages: list[Message]) -> None:
    conversation = LongConversation(messages)
    turns = spoken(messages)
    for count in filter(conversation.may_replace, range(len(turns) + 1)):
        left = list(conversation.with_summary(count, "Qsummary"))
        place = next(i for i, message in enumerate(left) if "Qsummary" in str(message))
        put = left.pop(place)
        assert put.role == "user"
        # System messages stay, in their order; of the others the last do, six of them at least.
        assert [message for message in left if message.role == "system"] == [m for m in messages if m.role == "system"]
        assert spoken(left) == turns[count:]
        assert len(spoken(left)) >= KEPT
        # It stands where the first message that it replaces stood.
        assert left[:place] == messages[: messages.index(turns[0])]
        assert all((call < count) == (result < count) for call, result in pairs(turns))
        assert not any(isinstance(part, ToolResultPart) for part in turns[count].parts)


@given(MESSAGES)
def test_the_furthest_cut_is_the_last_that_may_be(messages: list[Message]) -> None:
    conversation = LongConversation(messages)
    allowed = [count for count in range(len(messages) + 1) if conversation.may_replace(count)]
    assert conversation.furthest == max(allowed, default=0)
    assert len(conversation.transcript()) == conversation.furthest


def test_all_but_the_last_six_go() -> None:
    assert LongConversation(talk(6)).furthest == 0
    assert LongConversation(talk(7)).furthest == 1
    assert LongConversation([said("system", "Rules"), *talk(20), said("system", "More")]).furthest == 14


def test_a_call_stays_with_all_of_its_results() -> None:
    messages = [*talk(4), called("a", "b"), returned("a"), said("user", "meanwhile"), returned("b"), *talk(5)]
    # Six from the end would be between the two results.
    assert LongConversation(messages).furthest == 4
    assert LongConversation([*messages, said("user", "more")]).furthest == 8
    # Ids come again: a result belongs to the last call of its id.
    again = [*talk(2), called("a"), returned("a"), *talk(3), called("a"), returned("a"), *talk(4)]
    assert LongConversation(again).furthest == 7


def test_a_result_without_its_call_does_not_come_first() -> None:
    assert LongConversation([*talk(3), returned("x"), *talk(5)]).furthest == 2


def test_the_transcript() -> None:
    messages = [
        said("system", "Rules"),
        said("user", "Look there", MediaPart("image", "data:image/png;base64,AAAA", "messages")),
        said("assistant", ReasoningPart("hm"), "I do.", ToolCallPart("a", "look", '{"at": 1}')),
        said("tool", ToolResultPart("a", (TextPart("x" * 5000 + "the end"),))),
        said("tool", ToolResultPart("a", (TextPart("heard"), MediaPart("audio", "", "messages")))),
        said("assistant", ReasoningPart("only thoughts")),
        said("tool", ToolResultPart("b", (TextPart("no such file"),), is_error=True)),
        Message("user", (TextPart("And?"),), "Ada"),
        *talk(6),
    ]
    transcript = LongConversation(messages).transcript()
    assert transcript[0] == "User: Look there\n[image]\n\n"
    assert transcript[1] == 'Assistant: I do.\n[calls look with {"at": 1}]\n\n'
    assert transcript[2].startswith("Tool: [look returned: xxx")
    assert transcript[2].endswith(" [... 3007 characters ...] " + "x" * 493 + "the end]\n\n")
    assert transcript[3] == "Tool: [look returned: heard\n[audio]]\n\n"
    assert transcript[4:] == ["", "Tool: [a call failed: no such file]\n\n", "User (Ada): And?\n\n"]


@given(st.lists(st.text(max_size=30), max_size=8), st.integers(1, 40))
def test_pieces_are_the_whole(transcript: list[str], chars: int) -> None:
    place, pieces = ReadPosition(0), []
    while place.message < len(transcript):
        text, end = cut_piece(transcript, place, chars)
        assert len(text) <= chars
        assert (place.message, place.char) < (end.message, end.char)
        # A message is cut only where it doesn't fit into a piece.
        assert not end.char or len(transcript[end.message]) > chars
        place = end
        pieces.append(text)
    assert "".join(pieces) == "".join(transcript)


@given(st.lists(st.text(max_size=5), max_size=6), st.lists(st.text(max_size=5), max_size=6))
def test_keys_tell_beginnings_apart(one: list[str], other: list[str]) -> None:
    first, second = summary_keys("model", one), summary_keys("model", other)
    for count in range(min(len(one), len(other)) + 1):
        assert (first[count] == second[count]) == (one[:count] == other[:count])
    assert not set(summary_keys("another", one)) & set(first)


def test_the_summariser_is_asked_plainly() -> None:
    task = summary_task("User: Hi", "They had met.", 100)
    (message,) = task.messages
    (part,) = message.parts
    assert isinstance(part, TextPart)
    assert message.role == "user"
    assert part.text.index("They had met.") < part.text.index("User: Hi") < part.text.index("at most 60 words")
    assert "<summary>" not in str(summary_task("User: Hi", "", 100))
    assert (task.max_tokens, task.sampling.temperature, task.n, task.tools, task.stop) == (100, 0.0, 1, (), ())
    left = [name for name in SamplingDefaults.__struct_fields__ if getattr(task.sampling, name) is None]
    assert left == ["seed"], "only the seed is left to the model's defaults"
    assert task.template_args == {"enable_thinking": False}
    assert Generate().grammar is task.grammar is None
