"""Makes MLX run out of memory at chosen evaluations, as the devices do."""

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import mlx.core as mx
import pytest

SAYS = [
    "cudaMallocAsync(&data, size, stream) failed: out of memory",
    "[METAL] Command buffer execution failed: Insufficient Memory"
    " (00000008:kIOGPUCommandBufferCallbackErrorOutOfMemory)",
    "[malloc] Unable to allocate 8589934592 bytes.",
    "[metal::malloc] Attempting to allocate 8589934592 bytes which is greater than the maximum allowed buffer size.",
]


class Fault(NamedTuple):
    """The `after`-th evaluation from the last fault on fails: at once, or `late` evaluations later.

    Until a late one is told, all that is evaluated becomes zeros. It is told at the latest when MLX is synchronised.
    """

    after: int
    late: int = 0


class MemoryFaults:
    """Counts the calls by which the engine evaluates, and lets some of them fail."""

    def __init__(self) -> None:
        self.late = True
        """Whether the device may be one whose errors come late."""
        self.told = 0
        """How many errors were raised."""
        self._faults: list[Fault] = []
        self._count = 0
        self._late: int | None = None  # evaluations until the error of one that gave zeros
        self._thread = 0  # whose error that is: other engines wait for the device, too
        self._original = mx.eval, mx.async_eval, mx.synchronize, mx.array.tolist

    @contextmanager
    def among(self, faults: Sequence[Fault]) -> Iterator[None]:
        """Let the evaluations in this context fail so."""
        self._faults, self._count, self._late = list(faults), 0, None
        try:
            yield
        finally:
            self._faults, self._late = [], None

    def install(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Replace MLX's functions."""
        evaluate, launch, synchronize, tolist = self._original
        monkeypatch.setattr("orchard.engine.runner.has_late_errors", lambda: self.late)

        def counted_eval(*arrays: Any) -> None:
            self._begin()
            evaluate(*arrays)
            self._spoil(arrays)

        def counted_launch(*arrays: Any) -> None:
            self._begin()
            launch(*arrays)  # type: ignore[no-untyped-call]
            self._spoil(arrays)

        def counted_synchronize(*of: Any) -> None:
            synchronize(*of)
            if self._late is not None and self._thread == threading.get_ident():
                self._tell()

        def counted_tolist(array: mx.array) -> Any:
            self._begin(launches=False)
            self._spoil(array)
            return tolist(array)

        monkeypatch.setattr(mx, "eval", counted_eval)
        monkeypatch.setattr(mx, "async_eval", counted_launch)
        monkeypatch.setattr(mx, "synchronize", counted_synchronize)
        monkeypatch.setattr(mx.array, "tolist", counted_tolist)

    def _begin(self, *, launches: bool = True) -> None:
        if self._late is not None:
            self._late -= self._thread == threading.get_ident()
            if self._late <= 0:
                self._tell()
        elif self._faults:
            self._count += 1
            # What only reads a result gives the device no work that could fail.
            if self._count > self._faults[0].after and (launches or not self._faults[0].late):
                self._late, self._thread = self._faults[0].late, threading.get_ident()
                if not self._late:
                    self._tell()

    def _tell(self) -> None:
        self._late, self._count = None, 0
        self._faults.pop(0)
        self.told += 1
        raise RuntimeError(SAYS[self.told % len(SAYS)])

    def _spoil(self, arrays: Any) -> None:
        """Replace arrays by zeros in place while the error of an evaluation is still to come."""
        if self._late is None or self._thread != threading.get_ident():
            return
        if isinstance(arrays, mx.array):
            arrays[...] = 0
        elif isinstance(arrays, dict):
            self._spoil(list(arrays.values()))
        elif isinstance(arrays, list | tuple):
            for one in arrays:
                self._spoil(one)
