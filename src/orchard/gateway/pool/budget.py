"""How much memory all models may take now: what they hold and what is free, within the limit.

The budget shrinks at once when other programs take memory, and grows slowly when they free it. So a program that takes
and frees memory all the time does not make models give up their cached prompts each time.
"""

import logging

from orchard import system_memory
from orchard.core.device_memory import DeviceMemory
from orchard.gateway.memory_status import MemoryStatus

log = logging.getLogger("orchard.gateway")

# This share of the memory, but at most so many bytes, stays free. Other programs may take it between two looks. Workers
# need it for what MLX does not count: their code, tokenizers, pictures and kernels.
_RESERVE_SHARE = 1 / 20
_MOST_RESERVE_BYTES = 2 * 2**30
_CALM_SECONDS = 5.0


class MemoryBudget:
    """Follows what is free on the device that models run on."""

    def __init__(self, memory_limit: int | None) -> None:
        self.bytes: int | None = None
        """What all models may take together now; None: unknown until a process has started."""
        self.elastic = False
        """Whether the system makes room for models that need more than is free."""
        self.critical = False
        """Whether there is no memory for another model, however small."""
        self.slack = 0
        """A change by no more bytes is ignored: half of the reserve, which covers it."""
        self.looked_at = float("-inf")
        """When it last looked."""
        self._memory_limit = memory_limit
        self._limit: int | None = None
        self._total = self._available = self._held = self._room = 0
        self._place = ""
        self._least = 0
        """The least target since the last change."""
        self._changed_at = 0.0

    @property
    def status(self) -> MemoryStatus:
        """What it saw last."""
        others = max(0, self._total - self._available - self._held)
        reason = None
        if self.bytes is not None and self._limit is not None:
            reason = "memory_limit" if self._memory_limit else self._place
            if self.bytes < self._limit:
                reason = f"other programs use {others:,} of {self._total:,} bytes ({self._place})"
        return MemoryStatus(
            total_bytes=self._total,
            available_bytes=self._available,
            others_bytes=others,
            limit_bytes=self._limit,
            budget_bytes=self.bytes,
            reason=reason,
        )

    @property
    def _free_bytes(self) -> int:
        return self._available - 2 * self.slack

    def forget(self) -> None:
        """Forget the budget, because no model is in memory that would have to give up a part of it."""
        self.bytes = None

    def look(self, limit: int | None, held: int, device: DeviceMemory, now: float) -> bool:
        """Read what is free, and return whether the budget has changed. If it can't be read, nothing changes.

        `limit`: the most bytes that all models may ever take, None if unknown; `held`: what they hold; `device`: the
        newest report on it; `now`: the time in seconds.
        """
        self.looked_at = now
        try:
            system = system_memory.read_system_memory()
        except OSError as error:  # as when connections have taken all file descriptors
            log.warning("what is free of the memory can't be read: %s", error)
            return False
        self._total, self._available, self._place = system.total_bytes, system.available_bytes, "device"
        if device.total_bytes:
            self._total, self._available = device.total_bytes, device.free_bytes
        elif system.cgroup:
            self._place = f"cgroup {system.cgroup}"
        self.slack = int(min(self._total * _RESERVE_SHARE, _MOST_RESERVE_BYTES)) // 2
        self.elastic = system.elastic and not device.total_bytes
        self.critical = system.critical or bool(device.total_bytes and self._available < self.slack // 2)
        self._limit, self._held = limit, held
        # What workers hold is known a moment earlier or later than what is free. An error makes only one look too low.
        before, self._room = self._room, held + self._free_bytes
        return limit is not None and self._follow(max(0, min(limit, max(before, self._room))), limit, now)

    def warn_of_need(self, model: str, need: int) -> None:
        """Log it if a model that is being loaded needs more than is free, because of other programs."""
        if self.bytes != self._limit and need > self._free_bytes:
            sizes = (f"{max(0, size):,}" for size in (need, self._free_bytes, self.status.others_bytes))
            log.warning(
                "%s needs %s bytes, %s are free, and other programs use %s; it is loaded all the same", model, *sizes
            )

    def _follow(self, target: int, limit: int, now: float) -> bool:
        before = self.bytes
        if before is None:
            self.bytes, self._least, self._changed_at = max(0, min(limit, self._room)), limit, now
            return True
        self._least = min(self._least, target)
        if target < before - self.slack or limit < before:
            self.bytes = target
        elif (held := min(target, self._held)) > before:  # as after a load that began although little was free
            self.bytes = held
        elif now - self._changed_at < _CALM_SECONDS:
            return False
        elif (grown := self._least - before) > self.slack:
            self.bytes = before + (grown if grown <= 2 * self.slack else grown // 2)
        self._least, self._changed_at = limit, now
        if self.bytes == before:
            return False
        text = "all models may take %s bytes of memory now instead of %s: %s"
        log.info(text, f"{self.bytes:,}", f"{before:,}", self.status.reason)
        return True
