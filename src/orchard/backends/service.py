"""The interface that a worker's main loop calls: a loaded model that turns requests into events."""

from abc import abstractmethod
from collections.abc import Callable
from typing import Protocol

from msgspec import Struct, field

from orchard.core.cache_report import CacheState
from orchard.core.device_memory import DeviceMemory, RankReport
from orchard.core.events import Event
from orchard.core.request import LoadOptions, Request, RequestProgress
from orchard.core.speculation_report import SpeculationReport

# emit(events by request id, running, waiting): called on the event loop's thread, once an engine step or less often.
Emit = Callable[[list[tuple[str, list[Event]]], int, int], None]
# progress(fraction from 0 to 1): called on the event loop's thread while a model loads.
Progress = Callable[[float], None]


class Heartbeat(Struct, frozen=True):
    """Signs of life: the seconds of the engine's current piece of work (0: idle), and the bytes that MLX holds."""

    silent_seconds: float = 0.0
    mlx_bytes: int = 0


class MemoryUse(Struct, frozen=True):
    """The bytes that a model takes: its weights, its requests' rows, and its cached prompts.

    `wanted_bytes`: what the model needs in all to run the oldest request that waits for memory; 0: none waits. `ranks`:
    what is known of other processes that have a part of the model.
    """

    weights_bytes: int = 0
    rows_bytes: int = 0
    prompts_bytes: int = 0
    wanted_bytes: int = 0
    ranks: tuple[RankReport, ...] = ()


class LoadResult(Struct, frozen=True):
    """A model that is ready: the bytes that it takes without requests, and other details for clients."""

    weights_bytes: int
    details: dict[str, str | bool | list[str]] = field(default_factory=dict)


class Service(Protocol):
    """One model, from its load to its end.

    The event loop's thread calls all methods, and none of them blocks it. The service emits events in the required
    order for each request that was submitted and not cancelled. A kind of model whose requests take only a moment
    inherits the methods that are not abstract.
    """

    @staticmethod
    @abstractmethod
    def prepare() -> int:
        """Import what a load needs, and return the bytes that the device lets models use.

        This is called once per process, before anything else; then one service is made for each load.
        """

    @staticmethod
    def device_memory(*, has_model: bool) -> DeviceMemory:
        """Return what the device has free and what MLX holds; `has_model`: whether this process has begun a load.

        Unlike other methods, this is called in a thread of its own, also while another thread computes.
        """
        try:
            from orchard.device import memory
        except ModuleNotFoundError:  # a kind of model may do without MLX
            return DeviceMemory()
        return memory.read_device_memory(has_model=has_model)

    @staticmethod
    def processor() -> str:
        """Return which processor models compute with, "gpu" or "cpu"; empty: a kind of model without MLX."""
        try:
            from orchard.device import memory
        except ModuleNotFoundError:
            return ""
        return memory.processor()

    @abstractmethod
    def __init__(self, path: str, options: LoadOptions) -> None:
        """Take the model's folder, and the options that the backend's row in `orchard.kinds` names."""

    @abstractmethod
    async def start(self, emit: Emit, progress: Progress) -> LoadResult:
        """Load the model, warm it up, and return its size and details.

        Raise OrchardError("model_failed", ...) with the reason; `close` frees what was loaded by then.
        """

    @abstractmethod
    def submit(self, request: Request) -> None:
        """Begin a request. If it is wrong, emit a `Failed` event."""

    @abstractmethod
    def cancel(self, request_id: str) -> None:
        """Cancel a request; none of its events are emitted after this. Unknown ids are ignored."""

    def pause(self, request_id: str) -> None:
        """Stop working on a request from the engine's next step on, until it is resumed. Unknown ids are ignored."""

    def resume(self, request_id: str) -> None:
        """Continue a paused request where it was; the pause doesn't change its events. Unknown ids are ignored."""

    async def cache_state(self, request_id: str | None) -> CacheState:
        """Return the prefix cache's counters and all reports; with a request's id, only its report, if it has one.

        This may wait for the engine's current step. If the service is closed meanwhile, it may never return.
        """
        return CacheState()

    def request_progress(self) -> list[RequestProgress]:
        """Return how far the requests are, if that is known of them; a moment old."""
        return []

    @abstractmethod
    def heartbeat(self) -> Heartbeat:
        """Return the signs of life, also while the model loads: then each report of progress ends a piece of work."""

    def speculation(self) -> SpeculationReport:
        """Return the results of speculation since the load."""
        return {}

    def starved_requests(self) -> list[str]:
        """Return the requests that wait because each of them alone needs more memory than the model may take now."""
        return []

    def changing_details(self) -> dict[str, str | bool | list[str]]:
        """Return the details of the ready model that may change without a request."""
        return {}

    def memory_use(self) -> MemoryUse:
        """Return what the model takes now. Any thread may call this."""
        return MemoryUse()

    def limit_memory(self, memory_bytes: int, most_bytes: int) -> None:
        """Limit the model and its requests together to `memory_bytes` from now on.

        `most_bytes`: the limit if nothing else took memory. A request that needs more than `memory_bytes`, but no more
        than `most_bytes`, waits and is not rejected. The limits replace the options' `memory_limit`. They may come as
        soon as `start` has begun.
        """

    @abstractmethod
    async def close(self, save_seconds: float) -> None:
        """Stop the engine, save cached prompts for at most `save_seconds`, and free the model.

        Its memory is free when this returns. Then another service may be made in this process.
        """
