"""The socket protocol between the gateway and a worker: length-prefixed msgpack.

A frame is a 4-byte big-endian length and that many bytes of msgpack. When one side ends, the other side reads the end
of the stream. All events of an engine step are in one frame.
"""

import asyncio
import secrets

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import replace

from orchard.core.cache_report import CacheState
from orchard.core.device_memory import DeviceMemory, RankReport
from orchard.core.events import Event
from orchard.core.request import Priority, Request, RequestProgress, Sender
from orchard.core.speculation_report import SpeculationReport
from orchard.core.tasks.media import replace_request_media, request_media

MAX_FRAME_BYTES = 256 * 1024 * 1024
_HEADER_BYTES = 4
_LARGE_BYTES = 64 * 1024  # copying fewer bytes takes negligible time
_MARK_BYTES = 16


class Hello(Struct, frozen=True, array_like=True, tag="hello"):
    """Worker to gateway, the first message: the libraries are imported. `memory_bytes` is what models may use.

    `processor`: what they compute with, see `Service.processor`.
    """

    memory_bytes: int
    device: DeviceMemory = DeviceMemory()
    processor: str = ""


class Load(Struct, frozen=True, array_like=True, tag="load"):
    """Gateway to worker: load the model in a folder. The answer is `Loading`s, then `Ready` or `LoadFailed`.

    `name` is the model's name in the log; `options` encodes the `LoadOptions` of the worker's backend.
    """

    name: str
    path: str
    options: Raw


class Loading(Struct, frozen=True, array_like=True, tag="loading"):
    """Worker to gateway: how much of the model is loaded, from 0 to 1."""

    fraction: float


class Unload(Struct, frozen=True, array_like=True, tag="unload"):
    """Gateway to worker: save prompts, for at most a second, and free the model. No request is running.

    The answer is `Unloaded`. Then another `Load`, or the end of the stream, may follow.
    """


class Unloaded(Struct, frozen=True, array_like=True, tag="unloaded"):
    """Worker to gateway: the model is freed; `rss_bytes` is what the process still uses."""

    rss_bytes: int


class LimitMemory(Struct, frozen=True, array_like=True, tag="limit_memory"):
    """Gateway to worker: from now on, this is the limit of weights, KV caches and cached prompts together, in bytes.

    `most_bytes`: the limit if no other model or program took memory.
    """

    memory_bytes: int
    most_bytes: int


class MemoryReport(Struct, frozen=True, array_like=True, tag="memory_report"):
    """Worker to gateway, once a second at most, if something has changed: what holds memory, in bytes.

    All fields but `device` come from `Service.memory_use`; 0 without a model. `ranks`: the model's other ranks.
    """

    device: DeviceMemory = DeviceMemory()
    weights_bytes: int = 0
    rows_bytes: int = 0
    prompts_bytes: int = 0
    wanted_bytes: int = 0
    ranks: tuple[RankReport, ...] = ()


class Ping(Struct, frozen=True, array_like=True, tag="ping"):
    """Gateway to worker: answer with a `Pong` that has the same number."""

    number: int


class Pong(Struct, frozen=True, array_like=True, tag="pong"):
    """Worker to gateway: `silent_seconds` is how long the engine has worked on its current piece of work (0: idle)."""

    number: int
    silent_seconds: float
    mlx_bytes: int
    rss_bytes: int


class Submit(Struct, frozen=True, array_like=True, tag="submit"):
    """Gateway to worker: begin a request; `task` encodes one of the tasks of the worker's backend.

    `sender` and `cache_scope` are the request's.
    """

    request_id: str
    task: Raw
    priority: Priority
    sender: Sender = Sender()
    cache_scope: str = ""

    @classmethod
    def from_request(cls, request: Request) -> "Submit":
        """Return the message that begins a request."""
        return cls(request.id, encode_struct(request.task), request.priority, request.sender, request.cache_scope)


class Cancel(Struct, frozen=True, array_like=True, tag="cancel"):
    """Gateway to worker: drop a request. After reading this, the worker sends no more of its events; events that are
    already sent still arrive."""

    request_id: str


class Pause(Struct, frozen=True, array_like=True, tag="pause"):
    """Gateway to worker: pause a request until `Resume`, because the reader of its events is too slow.

    Events that are already sent still arrive.
    """

    request_id: str


class Resume(Struct, frozen=True, array_like=True, tag="resume"):
    """Gateway to worker: continue a paused request."""

    request_id: str


class AskCache(Struct, frozen=True, array_like=True, tag="ask_cache"):
    """Gateway to worker: report on the cache, or on a single request's use of it. The answer is a `CacheIs`."""

    number: int
    request_id: str | None = None


class CacheIs(Struct, frozen=True, array_like=True, tag="cache_is"):
    """Worker to gateway: the answer to the `AskCache` with the same number."""

    number: int
    state: CacheState


class AskProgress(Struct, frozen=True, array_like=True, tag="ask_progress"):
    """Gateway to worker: say how far all requests are. The answer is a `ProgressIs`."""

    number: int


class ProgressIs(Struct, frozen=True, array_like=True, tag="progress_is"):
    """Worker to gateway: the answer to the `AskProgress` with the same number."""

    number: int
    requests: list[RequestProgress]


class Ready(Struct, frozen=True, array_like=True, tag="ready"):
    """Worker to gateway: the model is loaded; `weights_bytes` is what it takes without any request.

    `details` are further facts about the model for clients.
    """

    load_seconds: float
    weights_bytes: int = 0
    details: dict[str, str | bool | list[str]] = {}


class Details(Struct, frozen=True, array_like=True, tag="details"):
    """Worker to gateway: some of the details of a ready model have changed, for example because its warm-up is over."""

    details: dict[str, str | bool | list[str]]


class LoadFailed(Struct, frozen=True, array_like=True, tag="load_failed"):
    """Worker to gateway: the model can't be loaded; `message` says why, for users.

    If it comes before `Hello`, a library of the worker's backend is not installed. `lacks_memory`: memory ran out, so a
    later load may succeed.
    """

    message: str
    lacks_memory: bool = False


class Step(Struct, frozen=True, array_like=True, tag="step"):
    """Worker to gateway: the events of one engine step, and how many requests run and wait in the worker.

    `speculation`: the totals of the model's guesses since it was loaded, including this step's. `starved`: the requests
    that wait because each of them alone needs more memory than the model may take now.
    """

    events: list[tuple[str, list[Event]]]
    running: int
    waiting: int
    speculation: SpeculationReport = {}
    starved: list[str] = []


ToWorker = Load | Unload | LimitMemory | Ping | Submit | Cancel | Pause | Resume | AskCache | AskProgress
FromWorker = (
    Hello | Loading | Ready | Details | LoadFailed | Unloaded | MemoryReport | Pong | Step | CacheIs | ProgressIs
)
_Any = ToWorker | FromWorker

_encoder = msgspec.msgpack.Encoder()
_decoder: msgspec.msgpack.Decoder[_Any] = msgspec.msgpack.Decoder(_Any)


class WireError(Exception):
    """The other side has violated the protocol."""


def encode_struct(value: Struct) -> Raw:
    """Return the encoding of a struct whose type only a worker's backend knows."""
    return Raw(_encoder.encode(value))


def encode(message: _Any) -> bytes:
    """Return the frame of a message. Raise WireError if it would be larger than MAX_FRAME_BYTES."""
    body = _encoder.encode(message)
    return _frame_header(len(body)) + body


def _frame_header(size: int) -> bytes:
    if size > MAX_FRAME_BYTES:
        raise WireError(f"a frame of {size} bytes is over the limit of {MAX_FRAME_BYTES}")
    return size.to_bytes(_HEADER_BYTES, "big")


def encode_submission(request: Request) -> list[bytes]:
    """Return the frame of the message that begins a request, in pieces to write one after the other.

    Large media are pieces that are not copied: copying 200 MiB would block the event loop. Raise WireError as `encode`
    does.
    """
    parts = list(request_media(request))
    large = [part.data for part in parts if len(part.data) > _LARGE_BYTES]
    if not large:
        return [encode(Submit.from_request(request))]
    mark = secrets.token_bytes(_MARK_BYTES)  # random, so that a caller's bytes can't contain it
    marked = (replace(part, data=mark) if len(part.data) > _LARGE_BYTES else part for part in parts)
    body = _encoder.encode(Submit.from_request(replace_request_media(request, marked)))
    first, *others = body.split(b"\xc4" + bytes([_MARK_BYTES]) + mark)  # as msgpack writes it: bin 8
    rest: list[bytes] = []
    for data, after in zip(large, others, strict=True):
        rest += [b"\xc6" + len(data).to_bytes(4, "big"), data, after]  # bin 32
    return [_frame_header(len(first) + sum(map(len, rest))) + first, *rest]


async def read_message(reader: asyncio.StreamReader) -> _Any | None:
    """Read the next message; return None at the end of the stream, even if that is within a frame.

    Raise WireError for a frame that is too large or not a message.
    """
    try:
        size = int.from_bytes(await reader.readexactly(_HEADER_BYTES), "big")
        if size > MAX_FRAME_BYTES:
            raise WireError(f"a frame of {size} bytes is over the limit of {MAX_FRAME_BYTES}")
        return _decoder.decode(await reader.readexactly(size))
    except (asyncio.IncompleteReadError, ConnectionError):
        return None
    except msgspec.DecodeError as error:
        raise WireError(str(error)) from error
