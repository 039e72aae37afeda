"""The interface that a worker's main loop calls: a loaded model that turns requests into events."""

from abc import abstractmethod
from collections.abc import Callable
from typing import Protocol

from msgspec import Struct, field

from orchard.core.cache_report import CacheState
from orchard.core.events import Event
from orchard.core.request import LoadOptions, Request
from orchard.core.speculation_report import SpeculationReport

# emit(events by request id, running, waiting): called on the event loop's thread, once an engine step or less often.
Emit = Callable[[list[tuple[str, list[Event]]], int, int], None]
# progress(fraction from 0 to 1): called on the event loop's thread while a model loads.
Progress = Callable[[float], None]


class Heartbeat(Struct, frozen=True):
    """Signs of life: seconds that the engine has been at its present piece of work (0: idle), and MLX's memory."""

    silent_seconds: float = 0.0
    mlx_bytes: int = 0


class Loaded(Struct, frozen=True):
    """A model that is ready: the bytes that it takes without any request, and what clients are told of it besides."""

    weights_bytes: int
    details: dict[str, str | list[str]] = field(default_factory=dict)


class Service(Protocol):
    """One model, from its load to its end.

    Every method is called on the event loop's thread and none of them blocks it. The service keeps the law of the event
    stream for each request that was submitted and not cancelled. A kind of model whose requests are over in a moment
    inherits what is not abstract.
    """

    @staticmethod
    @abstractmethod
    def prepare() -> int:
        """Import what a load needs, and return the bytes that the device lets models use.

        Called once a process, before anything else; then one service is made for each load.
        """

    @abstractmethod
    def __init__(self, path: str, options: LoadOptions) -> None:
        """Take the model's folder, and the options that the backend's row in `orchard.kinds` names."""

    @abstractmethod
    async def start(self, emit: Emit, progress: Progress) -> Loaded:
        """Load the model, make it warm, and return what it is like.

        Raises OrchardError("model_failed", ...) with the reason; what was loaded by then is freed by `close`.
        """

    @abstractmethod
    def submit(self, request: Request) -> None:
        """Begin a request; whatever is wrong with it comes as a `Failed` event."""

    @abstractmethod
    def cancel(self, request_id: str) -> None:
        """Drop a request before the engine's next step; no event of it is emitted after this. Unknown ids are fine."""

    def pause(self, request_id: str) -> None:
        """Stop working on a request from the engine's next step on, until it is resumed. Unknown ids are fine."""

    def resume(self, request_id: str) -> None:
        """Go on with a paused request where it was; its events are those it would have had. Unknown ids are fine."""

    async def cache(self, request_id: str | None) -> CacheState:
        """Return what is cached; with a request's id, only the report on that one (none where it is unknown).

        May wait for the engine's step under way; without it ever to end, where the service is closed meanwhile.
        """
        return CacheState()

    @abstractmethod
    def signs(self) -> Heartbeat:
        """Return the signs of life, also while the model loads: there, each `progress` ends a piece of work."""

    def speculated(self) -> SpeculationReport:
        """Return what guesses have brought since the load, up to those in what is being emitted."""
        return {}

    def limit_memory(self, memory_bytes: int) -> None:
        """Let the model and its requests take so many bytes together from now on.

        May be called from the first moment of `start` on, and takes the place of the options' `memory_limit`.
        """

    @abstractmethod
    async def close(self, save_seconds: float) -> None:
        """Stop the engine, save what is to be saved, and free the model: its memory is back when this returns.

        Saving takes at most so many seconds. Another service may be made in the same process then.
        """
