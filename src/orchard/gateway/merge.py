"""Several requests as one: their events become one stream that keeps the law."""

from collections.abc import Sequence

from msgspec.structs import replace

from orchard.core.events import Event, Failed, Finished, Started, Usage
from orchard.gateway.stream import EventStream


class Merge:
    """Puts the streams of several requests into `stream`: the choices of the first come first, then the second's.

    `Started` comes once all have started, and what comes before it waits for it. One that fails fails all; its failure,
    like closing `stream`, closes the others.
    """

    def __init__(self, choices: Sequence[int]) -> None:
        """`choices[i]` is how many answers request i makes."""
        self.stream = EventStream()
        self.stream.on_drop = self._close
        self.parts = [_Part(self, sum(choices[:place])) for place in range(len(choices))]
        self._held: list[Event] = []
        self._started = False

    def take(self, part: "_Part", events: Sequence[Event]) -> None:
        """Take the next events of one of the requests."""
        for event in events:
            match event:
                case Started():
                    part.started = event
                case Finished():
                    part.finished = event
                case Failed():
                    self.stream.push([event])
                    self._close()
                    return
                case _:
                    self._held.append(replace(event, choice=part.first_choice + event.choice))
        self._give()

    def _give(self) -> None:
        started = [part.started for part in self.parts if part.started]
        finished = [part.finished for part in self.parts if part.finished]
        events: list[Event] = []
        if not self._started and len(started) == len(self.parts):
            self._started = True
            tokens, cached = sum(one.prompt_tokens for one in started), sum(one.cached_tokens for one in started)
            events.append(Started(tokens, cached))
        if self._started:
            events += self._held
            self._held = []
        if len(finished) == len(self.parts):
            events.append(_finished(finished))
        if events:
            self.stream.push(events)

    def _close(self) -> None:
        for part in self.parts:
            part.close()


class _Part(EventStream):
    """The stream of one of the requests; nobody reads it."""

    def __init__(self, merge: Merge, first_choice: int) -> None:
        super().__init__()
        self.first_choice = first_choice
        self.started: Started | None = None
        self.finished: Finished | None = None
        self._merge = merge

    def push(self, events: Sequence[Event]) -> None:
        """Pass events on; whatever comes after the end is dropped."""
        if not self.ended:
            self.ended = isinstance(events[-1], Finished | Failed)
            self._merge.take(self, events)


def _finished(finished: Sequence[Finished]) -> Finished:
    reasons = tuple(reason for one in finished for reason in one.reasons)
    stops = tuple(stop for one in finished for stop in one.stops or (None,) * len(one.reasons))
    usage = Usage(
        sum(one.usage.prompt_tokens for one in finished),
        sum(one.usage.completion_tokens for one in finished),
        sum(one.usage.reasoning_tokens for one in finished),
        sum(one.usage.cached_tokens for one in finished),
    )
    return Finished(reasons, usage, stops if any(stops) else ())
