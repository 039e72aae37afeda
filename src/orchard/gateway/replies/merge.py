"""Merge the events of several requests into one valid stream."""

from collections.abc import Sequence
from itertools import accumulate

from msgspec.structs import astuple, replace

from orchard.core.events import (
    Event,
    Failed,
    Finished,
    Output,
    Progressed,
    Reasoning,
    Started,
    Text,
    ToolArgs,
    ToolStart,
    Usage,
)
from orchard.gateway.replies.event_stream import EventStream

Content = Text | Reasoning | ToolStart | ToolArgs | Output


class Merge:
    """Merges the streams of several requests into `stream`. The choices are numbered request by request.

    `Started` is sent once all requests have started; earlier content waits for it. If the stream may restart, all
    events wait until all requests have finished. If one request fails, or `stream` is closed, all are closed.
    """

    def __init__(self, choices: Sequence[int]) -> None:
        """`choices[i]` is how many answers request i makes."""
        self.stream = EventStream()
        self.stream.on_drop = self._close
        self.stream.on_lag = self._lag
        self.stream.waits_for = lambda: next(filter(None, (part.waits_for() for part in self.parts)), "")
        ends = list(accumulate(choices))
        self.parts = [_Part(self, range(end - count, end)) for count, end in zip(choices, ends, strict=True)]
        self._held: list[Content] = []
        self._started = False

    def take(self, part: "_Part", events: Sequence[Event]) -> None:
        """Process the next events of one of the requests."""
        for event in events:
            match event:
                case Started():
                    part.started = event
                case Finished():
                    part.done = event
                case Failed():
                    self.stream.push([event])
                    self._close()
                    return
                case Progressed():
                    pass  # of only one of several requests
                case _:
                    self._held.append(replace(event, choice=part.choices[event.choice]))
        self._push_events()

    def drop(self, part: "_Part") -> bool:
        """Drop the events of one of the requests and return True; return False if `Started` has been sent."""
        if self._started:
            return False
        self._held = [event for event in self._held if event.choice not in part.choices]
        part.started = part.done = None
        return True

    def _push_events(self) -> None:
        started = [part.started for part in self.parts if part.started]
        done = [part.done for part in self.parts if part.done]
        whole = len(done) == len(self.parts)
        events: list[Event] = []
        if not self._started and len(started) == len(self.parts) and (whole or not self.stream.forget):
            self._started = True
            tokens, cached = sum(one.prompt_tokens for one in started), sum(one.cached_tokens for one in started)
            events.append(Started(tokens, cached))
        if self._started:
            events += self._held
            self._held = []
        if whole:
            events.append(_merge_finished(done))
        if events:
            self.stream.push(events)

    def _lag(self, lags: bool) -> None:
        for part in self.parts:
            part.tell_lag(lags)

    def _close(self) -> None:
        for part in self.parts:
            part.close()


class _Part(EventStream):
    """The stream of one of the requests; nobody reads it."""

    def __init__(self, merge: Merge, choices: range) -> None:
        super().__init__()
        self._merge = merge
        self.choices = choices
        self.started: Started | None = None
        self.done: Finished | None = None

    def _take(self, events: Sequence[Event]) -> None:
        self._merge.take(self, events)

    def _drop(self) -> bool:
        return self._merge.drop(self)


def _merge_finished(finished: Sequence[Finished]) -> Finished:
    reasons = tuple(reason for one in finished for reason in one.reasons)
    stops = tuple(stop for one in finished for stop in one.stops or (None,) * len(one.reasons))
    usage = [sum(counts) for counts in zip(*(astuple(one.usage) for one in finished), strict=True)]
    return Finished(reasons, Usage(*usage), stops if any(stops) else ())
