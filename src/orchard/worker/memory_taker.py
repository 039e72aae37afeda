"""`python -m orchard.worker.memory_taker`: another program that takes memory, for `orchard verify --long`.

It takes memory until the system's warning level, and never beyond: until a tenth of the memory (4 GiB at most) is free,
and on macOS no more than until the pressure level is not normal any more. It takes nothing if the device has memory of
its own. It prints what it holds as soon as it is at the level, and ends with its input.
"""

import os
import select
import sys
from contextlib import suppress
from pathlib import Path

from orchard.device.memory import read_device_memory
from orchard.system_memory import SystemMemory, read_system_memory

_BLOCK = 64 * 2**20
_FREE_SHARE = 10
_FREE_MOST = 4 * 2**30
_STEP_SECONDS = 0.01
_WATCH_SECONDS = 0.2


class Taker:
    """Takes memory in blocks. `is_full`: it has been at the level, and takes no more, but gives back."""

    def __init__(self) -> None:
        # Random, so that no system compresses it; the same in all blocks, which none of them notices.
        self._pattern = os.urandom(_BLOCK)
        self._blocks: list[bytearray] = []
        self.is_full = False

    @property
    def size(self) -> int:
        """The bytes of all blocks."""
        return len(self._blocks) * _BLOCK

    def step(self, memory: SystemMemory) -> None:
        """Take a block, or give one back if others have taken memory, too."""
        left = memory.available_bytes - min(memory.total_bytes // _FREE_SHARE, _FREE_MOST)
        if memory.warning or left < 0:
            self.is_full = True
            del self._blocks[-1:]
        elif left < _BLOCK:
            self.is_full = True
        elif not self.is_full:
            self._blocks.append(bytearray(self._pattern))


def main() -> None:
    """Take memory until the standard input ends."""
    with suppress(OSError):  # if memory runs out all the same, Linux ends this process first
        Path("/proc/self/oom_score_adj").write_text("1000")
    taker = Taker()
    taker.is_full = bool(read_device_memory(has_model=False).total_bytes)
    told = False
    while not select.select([sys.stdin], [], [], _WATCH_SECONDS if told else _STEP_SECONDS)[0]:
        taker.step(read_system_memory())
        if taker.is_full and not told:
            told = True
            print(taker.size, flush=True)


if __name__ == "__main__":
    main()
