"""Recognises MLX's out-of-memory errors, waits until late ones are raised, and tries again with less work."""

import logging
import traceback
from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeVar

import mlx.core as mx

from orchard.core.errors import OrchardError, reports_out_of_memory

log = logging.getLogger("orchard.worker")

R = TypeVar("R")
W = TypeVar("W")

_RETRY_AFTER = 5
_MOST_ERRORS = 16  # the most that MLX keeps: one for each stream and each waiting array


def is_out_of_memory(error: BaseException | None) -> bool:
    """Return whether an error, or what caused it, says that an allocation failed, on the device or on the host."""
    if error is None:
        return False
    if isinstance(error, MemoryError):
        return True
    if isinstance(error, RuntimeError) and reports_out_of_memory(str(error)):
        return True
    return is_out_of_memory(error.__cause__)


def has_late_errors() -> bool:
    """Return whether MLX may report late that work ran out of memory.

    On Metal, such work may leave zeros, and a later call of MLX raises the error. Elsewhere, the call that launches the
    work raises it.
    """
    return mx.default_device() == mx.gpu and mx.metal.is_available()


def raise_late_errors() -> None:
    """Wait for the device; raise the error of earlier work if MLX has kept one: see `has_late_errors`."""
    mx.synchronize()


def free_after_error(error: BaseException) -> None:
    """Free what an out-of-memory error keeps alive, and MLX's cached buffers. Call `wait_for_launched_work` first."""
    found: BaseException | None = error
    while found is not None:
        traceback.clear_frames(found.__traceback__)
        found = found.__cause__ or found.__context__
    mx.clear_cache()


def wait_for_launched_work() -> None:
    """Wait for work that was launched before memory ran out, and for MLX's part of the work that failed.

    Call this while the arrays of that work are alive: on CUDA, kernels that MLX has not launched yet would write to
    freed memory. Raise an error of that work, unless the error says that memory ran out.
    """
    for _ in range(_MOST_ERRORS):
        try:
            raise_late_errors()
            break
        except Exception as late:
            if not is_out_of_memory(late):
                raise


def retry_once(act: Callable[[], R]) -> R:
    """Return what `act` returns. If memory runs out, free what is not needed and try once more.

    Raise OrchardError("insufficient_memory") if it runs out again, and any other error at once.
    """
    ((_, made),) = run_in_parts(lambda _: act(), None, lambda _: ())
    if isinstance(made, OrchardError):
        raise made
    return made


def run_in_parts(act: Callable[[W], R], work: W, halve: Callable[[W], Sequence[W]]) -> list[tuple[W, R | OrchardError]]:
    """Return a piece of work with the result of `act`; if memory runs out, return its parts with their results.

    `halve` returns the parts of a piece, or nothing if it can't be divided: then the piece is tried once more. If
    memory runs out again for a part, its result is an OrchardError("insufficient_memory"). Raise any other error.
    """
    try:
        return [(work, _run_and_surface(partial(act, work)))]
    except Exception as error:
        _free_memory(error)
    if parts := halve(work):
        return [one for part in parts for one in run_in_parts(act, part, halve)]
    try:
        return [(work, _run_and_surface(partial(act, work)))]
    except Exception as error:
        _free_memory(error)
    return [(work, insufficient_memory())]


def insufficient_memory() -> OrchardError:
    """Return the error for a request that lacks memory although everything that is not needed was freed."""
    message = "the device ran out of memory, even with nothing else in it; try again later"
    return OrchardError("insufficient_memory", message, retry_after=_RETRY_AFTER)


def _run_and_surface(act: Callable[[], R]) -> R:
    made = act()
    raise_late_errors()
    return made


def _free_memory(error: Exception) -> None:
    if not is_out_of_memory(error):
        raise error
    log.warning("memory ran out", exc_info=error)
    wait_for_launched_work()
    free_after_error(error)
