"""The events of an answer.

The order of a stream: at most one `Started`, which comes first; then any number of content events; then exactly one
`Finished` or `Failed`; then nothing. The arguments of a call follow its start, with nothing of the same choice in
between. A non-streaming answer is `collect(events)` over the same stream, so its content is the same.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Literal, TypeVar

from msgspec import Struct, field, msgpack
from msgspec.structs import replace

from orchard.core.errors import FailureKind, OrchardError
from orchard.core.sampling_values import NEUTRAL
from orchard.core.stopwatch import Part

S = TypeVar("S", bound=Struct)

FinishReason = Literal["stop", "length", "tool_calls"]


class TokenLogprob(Struct, frozen=True, array_like=True):
    """A token's text, its bytes (a token may be part of a character) and its natural log-probability.

    Without bytes, `text` is the name of a token that adds nothing to the text, such as the end of a turn. The first
    token of a prompt has no log-probability, because nothing precedes it.
    """

    text: str
    bytes: bytes
    logprob: float | None


class Logprob(Struct, frozen=True, array_like=True):
    """A sampled token, or a token of an echoed prompt (`prompt`), and the most likely tokens at its place, in order.

    Log-probabilities are those of the model itself, before temperature, penalties and cut-offs.
    """

    token: TokenLogprob
    top: tuple[TokenLogprob, ...] = ()
    prompt: bool = False


class Usage(Struct, frozen=True, array_like=True):
    """Tokens of the prompt, counted once, and of all answers, including reasoning and end-of-turn tokens.

    `cached_tokens`: tokens at the prompt's beginning that did not have to be prefilled. `units`: how much was made or
    read, in the task's `unit`. `accepted_prediction_tokens`: tokens of the request's prediction that are in the
    answers; `rejected_prediction_tokens`: its other tokens, which no other number includes. `audio_tokens`: those of
    the sound in which answers are spoken, which no other number includes either.
    """

    prompt_tokens: int
    completion_tokens: int
    reasoning_tokens: int = 0
    cached_tokens: int = 0
    units: float = 0
    accepted_prediction_tokens: int = 0
    rejected_prediction_tokens: int = 0
    audio_tokens: int = 0


class Summary(Struct, frozen=True, array_like=True):
    """A summary replaced this many of the oldest messages, besides system messages, because they didn't fit.

    `prompt_tokens` and `completion_tokens` were used to make the summary; 0 if it was cached. `dropped`: there is no
    summary; the messages were dropped.
    """

    messages: int
    prompt_tokens: int = 0
    completion_tokens: int = 0
    dropped: bool = False


class SettledSampling(Struct, frozen=True, array_like=True):
    """How tokens are sampled: as the request says, else by the model's own defaults, else by neutral values."""

    temperature: float = NEUTRAL.temperature
    top_p: float = NEUTRAL.top_p
    presence_penalty: float = NEUTRAL.presence_penalty
    frequency_penalty: float = NEUTRAL.frequency_penalty


class Started(Struct, frozen=True, array_like=True, tag="started"):
    """The engine has accepted the request: failures from here on are reported inside the stream.

    `cached_tokens` of the prompt's tokens don't have to be prefilled again. `voice`: the name of the voice that speaks.
    """

    prompt_tokens: int
    cached_tokens: int = 0
    summary: Summary | None = None
    sampling: SettledSampling = SettledSampling()
    voice: str | None = None


class Text(Struct, frozen=True, array_like=True, tag="text"):
    """A piece of the answer, with its tokens' log-probabilities if the request asked for them."""

    text: str
    choice: int = 0
    logprobs: tuple[Logprob, ...] = ()


class Reasoning(Struct, frozen=True, array_like=True, tag="reasoning"):
    """A piece of the reasoning that precedes the answer."""

    text: str
    choice: int = 0


class ToolStart(Struct, frozen=True, array_like=True, tag="tool_start"):
    """The model begins to call a tool; `index` is the number of the call within the choice, from 0."""

    index: int
    id: str
    name: str
    choice: int = 0


class ToolArgs(Struct, frozen=True, array_like=True, tag="tool_args"):
    """A piece of the JSON text of call `index`'s arguments."""

    index: int
    json: str
    choice: int = 0


class Output(Struct, frozen=True, array_like=True, tag="output"):
    """A piece of an output that is not text. `data` encodes a struct that the task's file defines."""

    data: bytes
    choice: int = 0

    @classmethod
    def from_struct(cls, value: Struct, choice: int = 0) -> "Output":
        """Return the event that carries a struct."""
        return cls(msgpack.encode(value), choice)

    def read(self, kind: type[S]) -> S:
        """Return the struct, which must be of that type."""
        return msgpack.decode(self.data, type=kind)


class Progressed(Struct, frozen=True, array_like=True, tag="progressed"):
    """How much of the request is done, in the task's `progress_unit`. It is not part of the answer."""

    done: float
    total: float


class Finished(Struct, frozen=True, array_like=True, tag="finished"):
    """All choices are complete; `reasons[i]` says why choice i ended.

    `stops[i]` is the stop string that ended it, if any; `stops` is empty if no stop string ended a choice.
    `first_token_seconds`: how long each part took in the worker, until it had the first token. `later_seconds`: how
    long the worker took from then on.
    """

    reasons: tuple[FinishReason, ...]
    usage: Usage
    stops: tuple[str | None, ...] = ()
    first_token_seconds: dict[Part, float] = {}
    later_seconds: float = 0.0


class Failed(Struct, frozen=True, array_like=True, tag="failed"):
    """The request failed; nothing follows, and what was sent before stays valid."""

    kind: FailureKind
    message: str
    param: str | None = None
    retry_after: int | None = None

    @classmethod
    def from_error(cls, error: OrchardError) -> "Failed":
        """Return the event that reports an error."""
        return cls(error.kind, error.message, error.param, error.retry_after)

    def error(self) -> OrchardError:
        """Return the error that the event reports."""
        return OrchardError(self.kind, self.message, param=self.param, retry_after=self.retry_after)


Event = Started | Text | Reasoning | ToolStart | ToolArgs | Output | Progressed | Finished | Failed


class ToolCall(Struct):
    """A whole tool call; `arguments` is JSON text."""

    id: str
    name: str
    arguments: str = ""


class Choice(Struct):
    """A whole answer. `parts` are its texts, reasonings and calls in order; of these, only calls can be adjacent."""

    parts: list[Text | Reasoning | ToolCall]
    logprobs: list[Logprob]
    reason: FinishReason
    stop: str | None = None

    @property
    def text(self) -> str:
        """All of its text."""
        return "".join(part.text for part in self.parts if isinstance(part, Text))

    @property
    def reasoning(self) -> str:
        """All of its reasoning."""
        return "".join(part.text for part in self.parts if isinstance(part, Reasoning))

    @property
    def tool_calls(self) -> list[ToolCall]:
        """All of its calls."""
        return [part for part in self.parts if isinstance(part, ToolCall)]


class Collected(Struct):
    """All answers of a finished stream, and its last event."""

    choices: list[Choice]
    usage: Usage
    summary: Summary | None = None
    outputs: list[Output] = field(default_factory=list)
    end: Finished | None = None


class _PartialChoice(Struct):
    """A choice so far: each part's constructor and the pieces of its text, and the log-probabilities."""

    parts: list[tuple[Callable[[str], Text | Reasoning | ToolCall], list[str]]] = field(default_factory=list)
    logprobs: list[Logprob] = field(default_factory=list)

    def add(self, event: Text | Reasoning | ToolStart | ToolArgs) -> None:
        if isinstance(event, Text):
            self.logprobs.extend(event.logprobs)
        match event:
            case ToolStart():
                self.parts.append((partial(ToolCall, event.id, event.name), []))
            case ToolArgs():
                self.parts[-1][1].append(event.json)
            case Text() | Reasoning() if event.text:
                if not self.parts or self.parts[-1][0] is not type(event):
                    self.parts.append((type(event), []))
                self.parts[-1][1].append(event.text)

    def choice(self, reason: FinishReason, stop: str | None) -> Choice:
        return Choice([part("".join(pieces)) for part, pieces in self.parts], self.logprobs, reason, stop)


class Collector:
    """Gathers a stream, batch by batch, into whole answers."""

    def __init__(self) -> None:
        self.result: Collected | None = None
        self.clear()

    def clear(self) -> None:
        """Forget all events."""
        self._choices: defaultdict[int, _PartialChoice] = defaultdict(_PartialChoice)
        self._outputs: list[Output] = []
        self._summary: Summary | None = None

    def add(self, events: Iterable[Event]) -> None:
        """Add the next events; `Finished` sets `result`. Raise OrchardError on `Failed`."""
        for event in events:
            match event:
                case Started():
                    self._summary = event.summary
                case Finished(reasons, usage, stops):
                    ends = zip(reasons, stops or [None] * len(reasons), strict=True)
                    choices = [self._choices[index].choice(*end) for index, end in enumerate(ends)]
                    self.result = Collected(choices, usage, self._summary, self._outputs, event)
                case Failed():
                    raise event.error()
                case Output():
                    self._outputs.append(event)
                case Progressed():
                    pass
                case _:
                    self._choices[event.choice].add(event)


def collect(events: Iterable[Event]) -> Collected:
    """Return a complete stream as whole answers. Raise OrchardError if it failed, ValueError if it has no end."""
    collector = Collector()
    collector.add(events)
    if collector.result is None:
        raise ValueError("the stream has no Finished event")
    return collector.result


def merge(events: Sequence[Event]) -> list[Event]:
    """Join neighbouring pieces of the same text, so that a slow client gets fewer, larger ones."""
    if len(events) == 1:  # the usual case
        return list(events)
    merged: list[Event] = []
    for event in events:
        last = merged[-1] if merged else None
        match last, event:
            case Text(), Text() if last.choice == event.choice:
                merged[-1] = replace(last, text=last.text + event.text, logprobs=last.logprobs + event.logprobs)
            case Reasoning(), Reasoning() if last.choice == event.choice:
                merged[-1] = replace(last, text=last.text + event.text)
            case ToolArgs(), ToolArgs() if (last.choice, last.index) == (event.choice, event.index):
                merged[-1] = replace(last, json=last.json + event.json)
            case _:
                merged.append(event)
    return merged
