"""Which lines of system prompts are dropped or moved, and that nothing else is touched."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchard.core.media import MediaPart
from orchard.core.tasks.generate import Message, Part, Role, TextPart, ToolResultPart
from orchard.dialects.anthropic.messages.stable_prompt import MAX_CHARS, stabilise_prompt

BILLING = "x-anthropic-billing-header: cc_version=2.1.62.023; cc_entrypoint=cli; cch=0a1b2;"
COUNTERS = (
    "<total_tokens>14962655 tokens left</total_tokens>",
    "Token usage: 35,000/200,000; 165,000 remaining",
    "<system_warning>Token usage: 35000/1000000; 965000 remaining</system_warning>",
)
DATES = (
    "Today's date is 2026-01-31.",
    "Today\u2019s date: Sat Jan 31 2026",
    "  Today's date: 2025-09-30",
    "- Current date: January 31, 2026",
    "The current date is 31 January 2026.",
    "Today is Saturday, 31 January 2026.",
)
CLOCKS = ("Current time: 10:41", "The current date and time is 2026-01-31 10:41:07.")
RULES = "You are a coding agent.\nToday is a good day.\nCurrent date formats: ISO.\nToken usage: low"
RESULT = ToolResultPart("call_1", (TextPart("found"),))
PICTURE = MediaPart("image", "data:image/png;base64,QUJD", "messages[0].content[0]")


def message(role: Role, *parts: str | Part) -> Message:
    return Message(role, tuple(TextPart(part) if isinstance(part, str) else part for part in parts))


def system(*texts: str) -> Message:
    return message("system", *texts)


def user(*parts: str | Part) -> Message:
    return message("user", *parts)


def test_a_billing_line_is_dropped_wherever_it_is() -> None:
    messages = (system(BILLING, RULES), user("Hi"), system(BILLING), system(f"a\n{BILLING}\nb"), user("Ho"))
    assert stabilise_prompt(messages) == (system(RULES), user("Hi"), system("a\nb"), user("Ho"))
    assert stabilise_prompt((system(f"{BILLING}\n{RULES}"), user("Hi"))) == (system(RULES), user("Hi"))
    assert stabilise_prompt((system(BILLING), user("Hi"))) == (user("Hi"),)


@pytest.mark.parametrize("counter", COUNTERS)
def test_a_counter_is_dropped_from_the_head_only(counter: str) -> None:
    messages = (system(f"{RULES}\n{counter}"), user("Hi"), system(counter))
    assert stabilise_prompt(messages) == (system(f"{RULES}\n"), user("Hi"), system(counter))


@pytest.mark.parametrize("date", DATES)
def test_a_date_goes_to_the_first_user_message(date: str) -> None:
    messages = (system(f"<env>\n{date}\n</env>", RULES), user("Hi"), message("assistant", "Ho"), user("Bye"))
    expected = (system("<env>\n</env>", RULES), user(date.strip(), "Hi"), message("assistant", "Ho"), user("Bye"))
    assert stabilise_prompt(messages) == expected


@pytest.mark.parametrize("clock", CLOCKS)
def test_a_clock_goes_to_the_last_words_of_the_user(clock: str) -> None:
    messages = (system(RULES, clock), user("Hi"), user("Ho"), message("assistant", "Hm"), message("tool", RESULT))
    expected = (system(RULES), user("Hi"), user("Ho", clock), message("assistant", "Hm"), message("tool", RESULT))
    assert stabilise_prompt(messages) == expected


def test_a_clock_passes_over_a_user_message_of_pictures_alone() -> None:
    picture = user(PICTURE)
    messages = (system(RULES, CLOCKS[0]), user("Hi"), picture)
    assert stabilise_prompt(messages) == (system(RULES), user("Hi", CLOCKS[0]), picture)


def test_the_head_is_the_same_whatever_the_lines_say() -> None:
    def prompt(n: int) -> tuple[Message, ...]:
        counter = f"<total_tokens>{n} tokens left</total_tokens>"
        lines = f"Today's date is 2026-01-{n + 10}.\nCurrent time: 10:{n + 10}\n{counter}"
        return stabilise_prompt((system(f"{BILLING}{n}", RULES, lines), system(f"{lines}\nEnd."), user("Hi")))

    assert prompt(1)[:-1] == prompt(2)[:-1] == (system(RULES), system("End."))
    assert prompt(1)[-1] != prompt(2)[-1]


@pytest.mark.parametrize(
    "messages",
    [
        (system(RULES), user("Hi")),
        (user(BILLING, *DATES, *COUNTERS),),
        (user("Hi"), system(*DATES, *COUNTERS, *CLOCKS)),
        (
            system(f"Say: {DATES[0]}", f"{BILLING[2:]}", f"See {COUNTERS[0]}", "Today is " + "x" * 90 + " 2026"),
            user("Hi"),
        ),
        (message("assistant", "Hi"),),
        (user(PICTURE), message("tool", RESULT)),
        (user(),),
    ],
)
def test_everything_else_is_left_alone(messages: tuple[Message, ...]) -> None:
    assert stabilise_prompt(messages) == messages


@pytest.mark.timeout(60)  # a search in quadratic time takes minutes
def test_a_head_that_is_too_long_is_left_alone() -> None:
    for text in ("Today is ", " \t", "\n", "a line\n", f"{DATES[0]}\n"):
        longest = text * (MAX_CHARS // len(text))
        stabilise_prompt((system(longest), user("Hi")))
        messages = (system(BILLING, longest, text * 100), user("Hi"))
        assert stabilise_prompt(messages) == messages


def test_without_a_user_a_date_stays() -> None:
    messages = (system(RULES, DATES[0]), message("assistant", "Hi"))
    assert stabilise_prompt(messages) == messages


LINES = st.sampled_from((BILLING, *COUNTERS, *DATES, *CLOCKS, "rule", "", "x" * 200))
TEXTS = st.lists(LINES, min_size=1, max_size=4).map("\n".join)
ROLES: tuple[Role, ...] = ("system", "user", "assistant")
MESSAGES = st.lists(st.builds(message, st.sampled_from(ROLES), TEXTS, TEXTS), max_size=6)


@given(MESSAGES)
def test_twice_is_as_good_as_once(messages: list[Message]) -> None:
    once = stabilise_prompt(messages)
    assert stabilise_prompt(once) == once


@given(MESSAGES)
def test_no_other_line_is_lost(messages: list[Message]) -> None:
    def rules(given: tuple[Message, ...]) -> list[str]:
        texts = [part.text for message in given for part in message.parts if isinstance(part, TextPart)]
        return [line for text in texts for line in text.splitlines() if line.startswith(("rule", "x" * 200))]

    assert rules(stabilise_prompt(messages)) == rules(tuple(messages))
