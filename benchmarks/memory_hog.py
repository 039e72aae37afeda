"""Another program for benchmarks.memory_pressure: a process that takes and frees memory at random.

With CUDA it takes the device's memory, with PyTorch if there is one, else with MLX. Elsewhere it takes the machine's,
or that of the memory cgroup that it shares with the server. In random steps it takes between half and all of what is
free beyond --leave bytes, and writes to all of it. It never leaves the machine less than 4 GiB.
"""

import argparse
import contextlib
import json
import mmap
import os
import random
import select
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol

import msgspec
import psutil
from msgspec import Struct

GIB = 2**30
_FLOOR_BYTES = 4 * GIB  # of the machine, for everyone else
_MOST_STEPS = 6
_LEAST_SHARE = 64  # what is free changes all the time, and small blocks would follow it without end
_STOP_SECONDS = 60.0
_STARTED = "from benchmarks import memory_hog; memory_hog.main()"
_JOIN = 'echo $$ > "$0/cgroup.procs" && exec "$@"'
_HIERARCHIES = Path("/sys/fs/cgroup")


class Memory(Protocol):
    """Memory that can be taken in blocks of up to `most` bytes."""

    most: int

    def free(self) -> int:
        """Return the bytes that anyone may take."""

    def take(self, size: int) -> Any:
        """Return a block, all of it written. Raise MemoryError or RuntimeError if there is none."""

    def returned(self) -> None:
        """Give blocks that were dropped back to everyone."""


class Pages:
    """The machine's memory, or a cgroup's."""

    most = 64 * 2**20

    def __init__(self, cgroup: Path | None) -> None:
        self._cgroup = cgroup

    def free(self) -> int:
        machine = psutil.virtual_memory().available - _FLOOR_BYTES
        return min(machine, cgroup_free(self._cgroup)) if self._cgroup else machine

    def take(self, size: int) -> mmap.mmap:
        block = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        block.write(os.urandom(size))  # a system may compress anything else
        return block

    def returned(self) -> None: ...


class TorchMemory:
    """The memory of a CUDA device, taken with PyTorch."""

    most = GIB

    def __init__(self) -> None:
        import torch

        self._torch: Any = torch
        torch.zeros(1, device="cuda")

    def free(self) -> int:
        free: int = self._torch.cuda.mem_get_info()[0]
        return free

    def take(self, size: int) -> Any:
        block = self._torch.full((size,), 1, dtype=self._torch.uint8, device="cuda")
        self._torch.cuda.synchronize()
        return block

    def returned(self) -> None:
        self._torch.cuda.empty_cache()


class MlxMemory:
    """The memory of a CUDA device, taken with MLX."""

    most = GIB

    def __init__(self) -> None:
        import mlx.core as mx

        self._mx = mx

    def free(self) -> int:
        free = self._mx.device_info()["free_memory"]
        assert isinstance(free, int)
        return free

    def take(self, size: int) -> Any:
        block = self._mx.full((size,), 1, dtype=self._mx.uint8)
        self._mx.eval(block)
        return block

    def returned(self) -> None:
        self._mx.clear_cache()


def cuda_memory() -> Memory:
    """Return the device's memory, through the library that is here."""
    with contextlib.suppress(ImportError):
        import torch

        if torch.cuda.is_available():
            return TorchMemory()
    return MlxMemory()


class Report(Struct):
    """What the process held after a step, and what was free then; `time` is that of the system's clock."""

    time: float
    held: int
    free: int


class Walk:
    """Takes and frees at random."""

    def __init__(self, memory: Memory, leave: int, seed: int, report: Callable[[Report], None]) -> None:
        self._memory = memory
        self._leave = leave
        self._random = random.Random(seed)  # noqa: S311 - no secret
        self._report = report
        self._blocks: list[tuple[int, Any]] = []

    @property
    def held(self) -> int:
        """The bytes of all blocks."""
        return sum(size for size, _ in self._blocks)

    def run(self, wait: Callable[[float], bool], seconds: float) -> None:
        """Walk until `wait`, which gets up to `seconds`, returns that it is enough."""
        while not self._round(wait, seconds):
            pass

    def _round(self, wait: Callable[[float], bool], seconds: float) -> bool:
        room = self.held + self._memory.free() - self._leave
        target = int(room * self._random.choice((1.0, self._random.uniform(0.5, 1.0))))
        steps = self._random.randint(1, _MOST_STEPS)
        begin = self.held
        for step in range(1, steps + 1):
            self._grow(begin + (target - begin) * step // steps)
            if wait(self._random.uniform(0, seconds / steps)):
                return True
        if wait(self._random.uniform(0, seconds)):
            return True
        self._shrink(self._random.choice((0.0, 0.0, self._random.random())))
        return wait(self._random.uniform(0, seconds))

    def _grow(self, target: int) -> None:
        least = self._memory.most // _LEAST_SHARE
        while (size := min(self._memory.most, target - self.held, self._memory.free() - self._leave)) > least:
            try:
                self._blocks.append((size, self._memory.take(size)))
            except (MemoryError, RuntimeError, OSError):  # another one was faster
                break
        self._tell()

    def _shrink(self, share: float) -> None:
        self._random.shuffle(self._blocks)
        del self._blocks[int(len(self._blocks) * share) :]
        self._memory.returned()
        self._tell()

    def _tell(self) -> None:
        self._report(Report(time.time(), self.held, self._memory.free()))


class Hog:
    """The process, as the benchmark sees it."""

    def __init__(self, *, cuda: bool, cgroup: Path | None, leave: int, seed: int, pause: float) -> None:
        """`pause`: the longest time between two steps, in seconds."""
        self.reports: list[Report] = []
        options = ["--leave", str(leave), "--seed", str(seed), "--pause", str(pause), *(["--cuda"] if cuda else [])]
        options += ["--cgroup", str(cgroup)] if cgroup else []
        command = within(cgroup, [sys.executable, "-c", _STARTED, *options])
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def stop(self) -> int:
        """End it, and return its exit code: 0, unless it failed or was killed."""
        assert self._process.stdin
        self._process.stdin.close()
        try:
            code = self._process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            code = self._process.wait()
        self._reader.join()
        return code

    def _read(self) -> None:
        assert self._process.stdout
        for line in self._process.stdout:
            self.reports.append(msgspec.json.decode(line, type=Report))


def within(cgroup: Path | None, command: Sequence[str]) -> list[str]:
    """Return the command that runs a command in a cgroup."""
    return ["sh", "-c", _JOIN, str(cgroup), *command] if cgroup else list(command)


def cgroup_free(folder: Path) -> int:
    """Return what a cgroup of either version may still take, with what its file pages could give back."""
    second = (folder / "memory.max").exists()
    names = ("memory.max", "memory.current") if second else ("memory.limit_in_bytes", "memory.usage_in_bytes")
    limit, used = (int((folder / name).read_text()) for name in names)
    fields = dict(line.split() for line in (folder / "memory.stat").read_text().splitlines())
    files = ("inactive_file", "active_file") if second else ("total_inactive_file", "total_active_file")
    return limit - used + sum(int(fields[name]) for name in files)


def oom_kills(folder: Path) -> int:
    """Return how many processes of a cgroup the kernel has killed for lack of memory."""
    name = "memory.events" if (folder / "memory.events").exists() else "memory.oom_control"
    fields = dict(line.split() for line in (folder / name).read_text().splitlines())
    return int(fields["oom_kill"])


@contextlib.contextmanager
def limited(limit: int) -> Iterator[Path | None]:
    """Make a memory cgroup with a limit while this lasts, and return its folder; None if none can be made here."""
    if psutil.virtual_memory().available < limit + _FLOOR_BYTES:
        raise RuntimeError(f"{limit / GIB:.1f} GiB beside 4 GiB for other programs are more than this machine has now")
    folder = None
    with contextlib.suppress(OSError, StopIteration):
        folder = _make(limit)
    try:
        yield folder
    finally:
        for _ in range(100 if folder else 0):
            with contextlib.suppress(OSError):  # the last process is still ending
                folder.rmdir()  # type: ignore[union-attr]
                break
            time.sleep(0.1)


def _make(limit: int) -> Path:
    """Make a group in this process's one (version 1), or beside it, since groups with processes have no parts."""
    lines = [line.split(":", 2) for line in Path("/proc/self/cgroup").read_text().splitlines()]
    first = [path for _, controllers, path in lines if "memory" in controllers.split(",")]
    if first:
        folder, name = _HIERARCHIES / "memory" / first[0][1:], "memory.limit_in_bytes"
    else:
        own = _HIERARCHIES / next(path for _, controllers, path in lines if not controllers)[1:]
        folder, name = own.parent if own != _HIERARCHIES else own, "memory.max"
    made = folder / f"orchard-pressure-{os.getpid()}"
    made.mkdir()
    try:
        (made / name).write_text(str(limit))
    except OSError:
        made.rmdir()
        raise
    return made


def main() -> None:
    """Be the process, until the standard input ends."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cuda", action="store_true")
    parser.add_argument("--cgroup", type=Path)
    parser.add_argument("--leave", type=int, required=True)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--pause", type=float, required=True, help="the longest pause between steps, in seconds")
    args = parser.parse_args()
    with contextlib.suppress(OSError):  # in a cgroup, lack of memory is to end the server's processes; else this one
        Path("/proc/self/oom_score_adj").write_text("-1000" if args.cgroup else "1000")
    memory: Memory = cuda_memory() if args.cuda else Pages(args.cgroup)
    walk = Walk(
        memory, args.leave, args.seed, lambda report: print(json.dumps(msgspec.to_builtins(report)), flush=True)
    )
    walk.run(lambda seconds: bool(select.select([sys.stdin], [], [], seconds)[0]), args.pause)
