"""Conversations that are too long, before a pool whose model counts words."""

import asyncio
from collections.abc import Callable
from typing import Literal, cast

import pytest

from orchard.config import Settings
from orchard.core.errors import OrchardError
from orchard.core.events import Collected, Collector, Event, Failed, Finished, Started, Summary, Text, Usage
from orchard.core.request import Request
from orchard.core.tasks.generate import (
    Count,
    Generate,
    Message,
    Part,
    Role,
    TextPart,
    ToolCallPart,
    ToolResultPart,
    generate_task,
)
from orchard.gateway.models.entry import ModelEntry
from orchard.gateway.pool.pool import Pool
from orchard.gateway.replies.event_stream import EventStream
from orchard.gateway.summarize.overflow import Overflow
from orchard.gateway.summarize.summaries import MadeSummary, Summaries

WINDOW = 400
REFUSED = "too long by far"


class Model:
    def __init__(self, window: int | None) -> None:
        self.entry = ModelEntry("model", "model", window, "fake")


class WordPool:
    """Answers at once, unless it is told to hold summaries back. `fails`: what becomes of a request, if not that.

    `unfinished`: the id of a request whose answer has no end.
    """

    def __init__(self, window: int = WINDOW, known_window: int | None = WINDOW) -> None:
        self.window = window
        self.model = Model(known_window)
        self.requests: list[Request] = []
        self.streams: list[EventStream] = []
        self.holds = False
        self.held: list[tuple[Request, EventStream]] = []
        self.dropped: list[str] = []
        self.fails: Callable[[Request], Failed | None] = lambda _: None
        self.unfinished: str | None = None
        self.summary = "They talked about number {}."

    def find(self, _: str, adapter: str | None = None) -> Model:
        return self.model

    def stream(self, request: Request) -> EventStream:
        stream = EventStream()
        stream.on_drop = lambda: self.dropped.append(request.id)
        self.requests.append(request)
        self.streams.append(stream)
        if self.holds and is_summariser(request):
            self.held.append((request, stream))
        else:
            stream.push(self.answer(request))
        return stream

    @property
    def open_streams(self) -> list[EventStream]:
        return [stream for stream in self.streams if not stream.ended]

    def answer(self, request: Request) -> list[Event]:
        tokens = words(request)
        if failed := self.fails(request):
            return [failed]
        if isinstance(request.task, Count):
            return [Started(tokens), Finished((), Usage(tokens, 0))]
        if tokens >= self.window:
            return [Failed("context_length_exceeded", REFUSED, param="messages")]
        text = self.summary.format(len(self.summarisers)) if is_summariser(request) else "Yes."
        told: list[Event] = [Started(tokens), Text(text), Finished(("stop",), Usage(tokens, 5))]
        return told[:-1] if request.id == self.unfinished else told

    @property
    def summarisers(self) -> list[Request]:
        return [request for request in self.requests if is_summariser(request)]

    @property
    def answered(self) -> Request:
        """The last request that a caller made."""
        return [r for r in self.requests if isinstance(r.task, Generate) and not is_summariser(r)][-1]


def words(request: Request) -> int:
    return sum(len(said.split()) for message in generate_task(request).messages for said in map(shown, message.parts))


def shown(part: Part) -> str:
    match part:
        case ToolCallPart():
            return part.arguments
        case ToolResultPart():
            return " ".join(map(shown, part.parts))
        case TextPart():
            return part.text
    return ""


def text_of(message: Message) -> str:
    return "".join(part.text for part in message.parts if isinstance(part, TextPart))


def is_summariser(request: Request) -> bool:
    return isinstance(request.task, Generate) and "<conversation>" in text_of(generate_task(request).messages[-1])


def talk(turns: int, size: int = 18) -> list[Message]:
    """Messages of two words more than that, which begin with their number."""
    roles: tuple[Role, Role] = ("user", "assistant")
    return [Message(roles[i % 2], (TextPart(f"turn-{i}. " + "and so on " * (size // 3)),)) for i in range(turns)]


RULES = Message("system", (TextPart("Be brief."),))


def asks(messages: list[Message], request_id: str = "req_1", **kwargs: object) -> Request:
    task = Generate((RULES, *messages), max_tokens=20)
    return Request(request_id, "model", task, "interactive", overflow="summarize", **kwargs)  # type: ignore[arg-type]


@pytest.fixture
def pool() -> WordPool:
    return WordPool()


@pytest.fixture
def overflow(pool: WordPool) -> Overflow:
    return Overflow(cast(Pool, pool), Settings())


def begin(overflow: Overflow, request: Request) -> EventStream:
    return overflow.wrap(request, overflow.pool.stream(request))


async def read(stream: EventStream) -> tuple[Started, Collected]:
    events: list[Event] = []
    while not (events and isinstance(events[-1], Finished | Failed)):
        events += await stream.next(10)
    stream.close()
    collector = Collector()
    collector.add(events)
    assert isinstance(events[0], Started)
    assert collector.result
    return events[0], collector.result


async def settled() -> None:
    """Let everybody go as far as they come without news."""
    for _ in range(100):
        await asyncio.sleep(0)


async def made(overflow: Overflow, messages: list[Message], request_id: str = "req_1") -> Summary | None:
    started, result = await read(begin(overflow, asks(messages, request_id)))
    assert result.summary == started.summary
    return started.summary


async def refusal(overflow: Overflow, request: Request) -> OrchardError:
    with pytest.raises(OrchardError) as caught:
        await read(begin(overflow, request))
    return caught.value


async def test_nothing_is_done_where_it_fits(pool: WordPool, overflow: Overflow) -> None:
    assert await made(overflow, talk(10)) is None
    assert [request.id for request in pool.requests] == ["req_1"]
    assert not pool.open_streams


async def test_nothing_is_done_where_it_is_not_wanted(pool: WordPool, overflow: Overflow) -> None:
    task = Generate((RULES, *talk(40)))
    raw = Request("req_2", "model", Generate(prompt="word " * 500), overflow="summarize")
    pool.fails = lambda _: Failed("context_length_exceeded", REFUSED, param="prompt")
    for request in (Request("req_1", "model", task), Request("req_3", "model", Count(task), overflow="summarize"), raw):
        assert (await refusal(overflow, request)).message == REFUSED
    assert len(pool.requests) == 3
    by_default = Overflow(cast(Pool, pool), Settings(context_overflow="summarize"))
    assert (await refusal(by_default, Request("req_4", "model", task, overflow="error"))).message == REFUSED
    assert len(pool.requests) == 4


async def test_what_is_counted_must_fit_where_nothing_would_be_summarised(pool: WordPool) -> None:
    cases: list[tuple[Settings, Literal["error", "summarize"] | None, bool]] = [
        (Settings(), None, True),
        (Settings(), "summarize", False),
        (Settings(context_overflow="summarize"), None, False),
        (Settings(context_overflow="summarize"), "error", True),
    ]
    for settings, own, must_fit in cases:
        task = generate_task(asks(talk(2)))
        counting = Request("req_1", "model", Count(task), overflow=own)
        assert Overflow(cast(Pool, pool), settings).limit_count(counting).task == Count(task, must_fit=must_fit)


async def test_older_messages_are_summarised(pool: WordPool) -> None:
    overflow = Overflow(cast(Pool, pool), Settings(context_overflow="summarize"))
    messages = talk(25)
    started, result = await read(begin(overflow, Request("req_1", "model", Generate((RULES, *messages)))))
    assert started.summary == result.summary
    assert started.summary
    assert started.summary.messages == 19
    spent = pool.summarisers
    assert started.summary.prompt_tokens == sum(map(words, spent))
    assert started.summary.completion_tokens == 5 * len(spent)
    rules, summary, *kept = generate_task(pool.answered).messages
    assert (rules, kept) == (RULES, messages[-6:])
    assert f"number {len(spent)}." in text_of(summary)
    assert pool.answered.id == "req_1"  # the id by which the caller knows it
    assert not pool.open_streams


async def test_what_does_not_fit_is_summarised_in_pieces(pool: WordPool, overflow: Overflow) -> None:
    assert await made(overflow, talk(60))
    seen = [text_of(generate_task(request).messages[0]) for request in pool.summarisers]
    assert len(seen) > 2
    for i in range(54):
        assert sum(f"turn-{i}. " in text for text in seen) == 1
    assert not any("turn-54. " in text for text in seen)
    for before, text in enumerate(seen):
        assert (f"number {before}." in text) == (before > 0)  # the summary so far
    for request in pool.summarisers:
        assert words(request) + (generate_task(request).max_tokens or 0) <= WINDOW
        assert request.priority == "interactive"


async def test_a_message_longer_than_the_window_is_cut(pool: WordPool, overflow: Overflow) -> None:
    messages = [Message("user", (TextPart(" ".join(f"w{i}" for i in range(1000))),)), *talk(7)]
    assert await made(overflow, messages)
    seen = " ".join(text_of(generate_task(request).messages[0]) for request in pool.summarisers)
    assert "w0 " in seen
    assert "w500 " in seen
    assert "w999" in seen


async def test_the_next_turn_pays_nothing_and_keeps_the_cut(pool: WordPool, overflow: Overflow) -> None:
    assert await made(overflow, talk(25))
    first, spent = generate_task(pool.answered).messages, len(pool.summarisers)
    assert await made(overflow, talk(27), "req_2") == Summary(19, 0, 0)
    assert len(pool.summarisers) == spent
    # What was the prompt is its beginning still.
    assert generate_task(pool.answered).messages[: len(first)] == first
    assert len(generate_task(pool.answered).messages) == len(first) + 2


async def test_summaries_are_not_shared_with_other_scopes(pool: WordPool, overflow: Overflow) -> None:
    spent = []
    for scope in ("ann", "ben", "ann"):
        started, _ = await read(begin(overflow, asks(talk(25), cache_scope=scope)))
        assert started.summary
        spent.append(started.summary.prompt_tokens)
    assert spent[0] == spent[1] > spent[2] == 0


async def test_a_summary_goes_on_from_the_one_before(pool: WordPool, overflow: Overflow) -> None:
    assert await made(overflow, talk(25))
    spent = len(pool.summarisers)
    # 19 are known. With 21 others and the summary it would not fit: now 34 are summarised.
    summary = await made(overflow, talk(40), "req_2")
    assert summary
    assert summary.messages == 34
    news = [text_of(generate_task(request).messages[0]) for request in pool.summarisers[spent:]]
    assert f"number {spent}." in news[0]
    assert not any("turn-18. " in text for text in news)
    assert all(any(f"turn-{i}. " in text for text in news) for i in range(19, 34))


async def test_room_is_left_for_the_answer(pool: WordPool, overflow: Overflow) -> None:
    """Where the known summary and what follows it fill the window to the brim, more is summarised."""
    assert await made(overflow, talk(25))
    tail = Message("user", (TextPart("x " * 20),))
    turns = 25
    while words(asks(talk(turns + 1))) < WINDOW * 2 and turns < 45:
        turns += 1
        summary = await made(overflow, [*talk(turns), tail], f"req_{turns}")
        assert summary
        assert words(pool.answered) + 20 <= WINDOW


async def test_two_share_what_they_need_at_once(pool: WordPool, overflow: Overflow) -> None:
    pool.holds = True
    streams = [begin(overflow, asks(talk(25), f"req_{i}")) for i in range(2)]
    waiting = [asyncio.create_task(read(stream)) for stream in streams]
    await settled()
    pool.holds = False
    ((request, held),) = pool.held
    held.push(pool.answer(request))
    await asyncio.wait(waiting)
    first, second = [task.result()[0].summary for task in waiting]
    assert first
    assert second
    assert first.prompt_tokens == sum(map(words, pool.summarisers))
    assert second == Summary(19, 0, 0)
    seen = [text_of(generate_task(request).messages[0]) for request in pool.summarisers]
    assert len(seen) == len(set(seen))


async def test_whoever_leaves_ends_only_what_nobody_waits_for(pool: WordPool, overflow: Overflow) -> None:
    pool.holds = True
    streams = [begin(overflow, asks(talk(25), f"req_{i}")) for i in range(2)]
    waiting = [asyncio.create_task(stream.next(10)) for stream in streams]
    await settled()
    assert streams[0].waits_for() == "summarising earlier messages"
    gone = Failed("cancelled", "the client closed the connection")
    streams[0].close(gone)
    assert await waiting[0] == [gone]
    assert pool.dropped == []
    streams[1].close(gone)
    assert await waiting[1] == [gone]
    await settled()
    assert pool.dropped == [pool.held[0][0].id]
    assert not pool.open_streams
    # Nothing of it is left over: the next one starts again.
    pool.holds = False
    assert await made(overflow, talk(25), "req_3")


async def test_a_reader_that_gives_up_for_a_while_loses_nothing(pool: WordPool, overflow: Overflow) -> None:
    pool.holds = True
    stream = begin(overflow, asks(talk(25)))
    assert await stream.next(0.01) == []
    assert await stream.next(0.01) == []
    pool.holds = False
    request, held = pool.held[0]
    held.push(pool.answer(request))
    started, _ = await read(stream)
    assert started.summary
    assert stream.waits_for() == ""


async def test_an_answer_that_restarts_tells_of_the_summary_again(pool: WordPool, overflow: Overflow) -> None:
    """The process died in the midst of it, and a new one has the request now."""
    request = asks(talk(25))
    stream = begin(overflow, request)
    forgotten: list[str] = []
    stream.may_restart(lambda: forgotten.append("all"))
    pool.unfinished = request.id
    events = await stream.next(10)
    assert isinstance(events[0], Started)
    assert events[0].summary
    inner = pool.streams[-1]
    assert inner.restart()
    pool.unfinished = None
    inner.push(pool.answer(pool.answered))
    again = await stream.next(10)
    assert forgotten == ["all"]
    assert again[:-1] == events
    stream.close()


async def test_what_must_stay_may_be_too_long(pool: WordPool, overflow: Overflow) -> None:
    error = await refusal(overflow, asks(talk(12, size=90)))
    assert (error.kind, error.message, error.param) == ("context_length_exceeded", REFUSED, "messages")
    assert not pool.summarisers  # nothing was spent on it
    assert (await refusal(overflow, asks(talk(6, size=90)))).message == REFUSED


async def test_a_conversation_of_too_many_pieces_is_refused(pool: WordPool, overflow: Overflow) -> None:
    assert (await refusal(overflow, asks(talk(900)))).message == REFUSED
    assert len(pool.summarisers) == 32


async def test_an_empty_summary_is_none(pool: WordPool, overflow: Overflow) -> None:
    pool.summary = " "
    assert (await refusal(overflow, asks(talk(25)))).message == REFUSED


async def test_the_pieces_of_a_summary_that_failed_may_do(pool: WordPool, overflow: Overflow) -> None:
    def falls_silent(request: Request) -> None:
        if is_summariser(request) and len(pool.summarisers) > 1:
            pool.summary = " "

    pool.fails = falls_silent
    found = await made(overflow, talk(27))
    assert found
    assert 0 < found.messages < 21
    assert found.completion_tokens


async def test_a_failure_of_another_kind_is_told_as_it_is(pool: WordPool, overflow: Overflow) -> None:
    busy = Failed("overloaded", "busy", None, 3)
    pool.fails = lambda request: busy if is_summariser(request) else None
    error = await refusal(overflow, asks(talk(25)))
    assert (error.kind, error.retry_after) == ("overloaded", 3)
    assert not pool.open_streams


async def test_what_no_shorter_messages_help_is_refused_at_once(pool: WordPool, overflow: Overflow) -> None:
    long = Failed("context_length_exceeded", "your prediction is too long", param="prediction")
    pool.fails = lambda _: long
    error = await refusal(overflow, asks(talk(25)))
    assert (error.message, error.param) == (long.message, "prediction")
    assert len(pool.requests) == 1


async def test_a_retry_that_is_refused_is_the_last(pool: WordPool, overflow: Overflow) -> None:
    def whole(request: Request) -> Failed | None:
        mine = isinstance(request.task, Generate) and not is_summariser(request)
        return Failed("context_length_exceeded", f"{words(request)} are too many", param="messages") if mine else None

    pool.fails = whole
    request = asks(talk(25))
    assert (await refusal(overflow, request)).message == f"{words(request)} are too many"
    assert [request.id for request in pool.requests].count("req_1") == 2


@pytest.mark.parametrize("known_window", [None, 100_000])
async def test_where_the_memory_is_the_bound(known_window: int | None) -> None:
    """Its refusal names no field, and what would fit is not known."""
    pool = WordPool(known_window=known_window)

    def too_large(request: Request) -> Failed | None:
        if isinstance(request.task, Count) or words(request) < 300:
            return None
        return Failed("context_length_exceeded", "needs more bytes than there are")

    pool.fails = too_large
    summary = await made(Overflow(cast(Pool, pool), Settings()), talk(40))
    assert summary
    assert summary.messages == 34
    assert any(words(request) >= 300 for request in pool.summarisers)


def fail_at(pool: WordPool, number: int) -> None:
    """Let that summary fail, and those after it."""
    busy = Failed("overloaded", "busy")
    pool.fails = lambda request: busy if is_summariser(request) and len(pool.summarisers) >= number else None


@pytest.mark.parametrize("before", [0, 1])
async def test_a_part_that_is_known_may_end_within_a_call(pool: WordPool, overflow: Overflow, before: int) -> None:
    """It is what a summary goes on from, but no place for a cut."""
    messages = talk(before)
    for i in range(20):
        messages.append(Message("assistant", (ToolCallPart(f"{i}", "look", f'"{"and so on " * 6}"'),)))
        messages.append(Message("tool", (ToolResultPart(f"{i}", (TextPart("and so on " * 6),)),)))
    fail_at(pool, 2)
    assert (await refusal(overflow, asks(messages))).kind == "overloaded"
    pool.fails = lambda _: None
    again = [*messages[:16], *talk(6)]
    assert await made(overflow, again)
    assert not any(isinstance(part, ToolResultPart) for part in generate_task(pool.answered).messages[2].parts)


async def test_a_part_of_a_message_is_not_kept(pool: WordPool, overflow: Overflow) -> None:
    long = Message("user", (TextPart(" ".join(f"w{i}" for i in range(1000))),))
    messages = [*talk(1), long, *talk(7)]
    fail_at(pool, 3)
    assert (await refusal(overflow, asks(messages))).kind == "overloaded"
    pool.fails = lambda _: None
    failed = len(pool.summarisers)
    assert await made(overflow, messages)
    retried = text_of(generate_task(pool.summarisers[failed]).messages[0])
    assert "number 1." in retried  # the summary of what comes before the long message
    assert "w0 " in retried


async def test_the_oldest_summaries_are_forgotten() -> None:
    summaries = Summaries(most=2)
    summaries.put(b"a", "a")
    summaries.put(b"b", "b")
    assert summaries.longest([b"-", b"a"], lambda _: True) == (1, "a")
    summaries.put(b"c", "c")
    found = [summaries.longest([b"-", name], lambda _: True) for name in (b"a", b"b", b"c")]
    assert found == [(1, "a"), (0, ""), (1, "c")]
    assert summaries.longest([b"-", b"a", b"c", b"x"], lambda _: True) == (2, "c")
    assert summaries.longest([b"-", b"a", b"c", b"x"], lambda count: count != 2) == (1, "a")
    assert summaries.longest([b"-", b"x"], lambda _: True) == (0, "")


async def test_a_failure_is_not_kept() -> None:
    summaries = Summaries()

    async def failing() -> MadeSummary:
        raise OrchardError("overloaded", "busy")

    async def working() -> MadeSummary:
        return MadeSummary("a summary", 1, 2)

    with pytest.raises(OrchardError):
        await summaries.make_once(b"key", failing)
    assert await summaries.make_once(b"key", working) == MadeSummary("a summary", 1, 2)


async def test_a_whole_conversation_is_summarised_as_its_system_says(pool: WordPool, overflow: Overflow) -> None:
    made = await overflow.summarise(asks(talk(30)))
    assert len(pool.summarisers) > 1
    assert all(text_of(generate_task(one).messages[0]) == "Be brief." for one in pool.summarisers)
    assert all(words(one) < pool.window for one in pool.summarisers)
    assert "turn-29" in text_of(generate_task(pool.summarisers[-1]).messages[1])
    assert made.text == pool.summary.format(len(pool.summarisers))
    assert made.completion_tokens == 5 * len(pool.summarisers)
    again = await overflow.summarise(asks(talk(30)))
    assert (again.text, again.prompt_tokens) == (made.text, 0)
    other = await overflow.summarise(Request("req_2", "model", Generate(tuple(talk(30)))))
    assert other.prompt_tokens > 0  # nobody guides it, so it is another summary
    assert not pool.open_streams
