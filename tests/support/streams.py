"""Lawful event streams for property tests."""

from hypothesis import strategies as st

from orchard.core.events import (
    Event,
    Failed,
    Finished,
    FinishReason,
    Logprob,
    Reasoning,
    Started,
    Text,
    TokenLogprob,
    ToolArgs,
    ToolStart,
    Usage,
)

_REASONS: tuple[FinishReason, ...] = ("stop", "length", "tool_calls")
_texts = st.text(min_size=1, max_size=5) | st.sampled_from((" ", "\n"))
_tokens = st.builds(TokenLogprob, st.text(max_size=3), st.binary(max_size=3), st.floats(-50, 0))
_logprobs = st.lists(st.builds(Logprob, _tokens, st.lists(_tokens, max_size=2).map(tuple)), max_size=2).map(tuple)


@st.composite
def lawful_streams(draw: st.DrawFn) -> list[Event]:
    """Any stream that keeps the law: Started, content of up to three choices, Finished or Failed.

    The arguments of a call follow its start, with nothing of the same choice in between.
    """
    choices = draw(st.integers(1, 3))
    calls = [0] * choices
    calling = [False] * choices
    events: list[Event] = [Started(draw(st.integers(0, 100)))]
    for kind in draw(st.lists(st.sampled_from(("text", "reasoning", "start", "args")), max_size=12)):
        choice = draw(st.integers(0, choices - 1))
        if kind == "text":
            events.append(Text(draw(_texts), choice, draw(_logprobs)))
        elif kind == "reasoning":
            events.append(Reasoning(draw(st.text(min_size=1, max_size=5)), choice))
        elif kind == "start":
            events.append(ToolStart(calls[choice], f"call_{choice}_{calls[choice]}", "tool", choice))
            calls[choice] += 1
        elif calling[choice]:
            events.append(ToolArgs(calls[choice] - 1, draw(st.text(min_size=1, max_size=5)), choice))
        calling[choice] = kind == "start" or (kind == "args" and calling[choice])
    reasons = tuple(draw(st.sampled_from(_REASONS)) for _ in range(choices))
    done = Finished(
        reasons,
        Usage(draw(st.integers(0, 100)), draw(st.integers(0, 100)), draw(st.integers(0, 9)), draw(st.integers(0, 9))),
    )
    end: Event = Failed("internal", "a bug") if draw(st.integers(0, 3)) == 3 else done
    return [*events, end]
