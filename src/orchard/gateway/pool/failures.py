"""The errors of requests that fail because of their model."""

from collections.abc import Mapping

from orchard.core.errors import OrchardError
from orchard.core.events import Failed
from orchard.gateway.memory_status import MemoryStatus

SHUTTING_DOWN = Failed("shutting_down", "the server is shutting down", None, 5)


def not_begun(model: str, seconds: float) -> Failed:
    """Return the failure of a request that a ready model has not begun in time."""
    text = f"model '{model}' did not begin this request within {seconds:g} seconds: too many requests are ahead of it"
    return Failed("overloaded", text, None, 5)


def insufficient_memory(model: str, seconds: float) -> Failed:
    """Return the failure of a request that has waited too long for memory that other models or programs take."""
    text = f"model '{model}' had too little memory for this request for {seconds:g} seconds, "
    return Failed("insufficient_memory", text + "because other models or programs use it", None, 5)


def not_ready(model: str, seconds: float, note: str) -> Failed:
    """Return the failure of a request whose model was not ready in time; `note`: what the model waits for."""
    return Failed("unavailable", f"model '{model}' was not ready within {seconds:g} seconds: {note}", None, 5)


def not_loadable(model: str, reason: str | None, *, lacks_memory: bool) -> Failed:
    """Return the failure of a request whose model can't be loaded; `lacks_memory`: it may be loaded later."""
    text = f"model '{model}' can't be loaded: {reason}"
    return Failed("insufficient_memory", text, None, 30) if lacks_memory else Failed("model_failed", text)


def no_room(model: str, held: Mapping[str, int]) -> Failed:
    """Return the failure of a request for which there is no free memory, and whose model may not evict others.

    `held`: the bytes that each model in memory takes.
    """
    models = f"the models in memory ({_list_sizes(held)})"
    text = f"there is no room for model '{model}' beside {models}, and it evicts none of them"
    return Failed("unavailable", text, None, 5)


def short_of_memory(model: str, held: Mapping[str, int], memory: MemoryStatus) -> Failed:
    """Return the failure of a request whose model is not loaded, because the machine has no memory left.

    `held`: the bytes that each model in memory takes.
    """
    free = f"{memory.available_bytes:,} of {memory.total_bytes:,} bytes are free"
    users = f"other programs use {memory.others_bytes:,}; models in memory: {_list_sizes(held)}"
    advice = "close programs, unload a model, or set load_under_pressure"
    text = f"model '{model}' is not loaded now: the machine is short of memory: {free}; {users}; {advice}"
    return Failed("unavailable", text, None, 30)


def _list_sizes(held: Mapping[str, int]) -> str:
    return ", ".join(f"{id_}: {size:,}" for id_, size in held.items()) or "none"


def in_use(model: str) -> OrchardError:
    """Return the error of a client that asks to unload a model, if a request for it arrives before that begins."""
    text = f"model '{model}' stays in memory, because a request for it has arrived: unload it when no request comes"
    return OrchardError("model_in_use", text)


def process_crashed(model: str, failure: str | None, *, again: bool) -> Failed:
    """Return the failure of a request whose process died; `failure`: why; `again`: it restarts."""
    then = "; it is being started again" if again else ""
    return Failed("worker_crashed", f"the process of model '{model}' ended: {failure}{then}", None, 1)
