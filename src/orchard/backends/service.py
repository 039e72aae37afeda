"""What a worker's main loop drives: a loaded model that turns requests into events.

The module of each service also has a function `prepare() -> int`: it imports what a load needs and gives the bytes that
the device lets models use. It is called once a process, before anything else; then one service is made for each load.
"""

from collections.abc import Callable
from typing import Protocol

from msgspec import Struct

from orchard.core.cache_report import CacheState
from orchard.core.events import Event
from orchard.core.request import Request
from orchard.core.tasks.text_options import Batching

# emit(events by request id, running, waiting): called on the event loop's thread, once an engine step or less often.
Emit = Callable[[list[tuple[str, list[Event]]], int, int], None]
# progress(fraction from 0 to 1): called on the event loop's thread while a model loads.
Progress = Callable[[float], None]


class Heartbeat(Struct, frozen=True):
    """Signs of life: seconds that the engine has been at its present piece of work (0: idle), and MLX's memory."""

    silent_seconds: float = 0.0
    mlx_bytes: int = 0


class Loaded(Struct, frozen=True):
    """A model that is ready: the bytes that it takes without any request, and how its rows are decoded."""

    weights_bytes: int
    batching: Batching


class Service(Protocol):
    """One model, from its load to its end. It is made with the model's folder and its TextOptions.

    Every method is called on the event loop's thread and none of them blocks it. The service keeps the law of the event
    stream for each request that was submitted and not cancelled.
    """

    async def start(self, emit: Emit, progress: Progress) -> Loaded:
        """Load the model, make it warm, and say what it is like.

        Raises OrchardError("model_failed", ...) with the reason; what was loaded by then is freed by `close`.
        """
        ...

    def submit(self, request: Request) -> None:
        """Begin a request; whatever is wrong with it comes as a `Failed` event."""
        ...

    def cancel(self, request_id: str) -> None:
        """Drop a request before the engine's next step; no event of it is emitted after this. Unknown ids are fine."""
        ...

    def pause(self, request_id: str) -> None:
        """Stop working on a request from the engine's next step on, until it is resumed. Unknown ids are fine."""
        ...

    def resume(self, request_id: str) -> None:
        """Go on with a paused request where it was; its events are those it would have had. Unknown ids are fine."""
        ...

    async def cache(self, request_id: str | None) -> CacheState:
        """Say what is cached; with a request's id, give only the report on that one (none where it is unknown).

        May wait for the engine's step under way; without it ever to end, where the service is closed meanwhile.
        """
        ...

    def signs(self) -> Heartbeat:
        """Give the signs of life, also while the model loads: there, each `progress` ends a piece of work."""
        ...

    def limit_memory(self, memory_bytes: int) -> None:
        """Weights, keys and values, and cached prompts may take so many bytes together from now on.

        May be called from the first moment of `start` on, and takes the place of the options' `memory_limit`.
        """
        ...

    async def close(self, save_seconds: float) -> None:
        """Stop the engine, save what is to be saved, and free the model: its memory is back when this returns.

        Saving takes at most so many seconds. Another service may be made in the same process then.
        """
        ...
