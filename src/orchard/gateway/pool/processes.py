"""All worker processes of a server. One is a spare, which has imported its libraries already, so that a load doesn't
wait for them."""

import asyncio
import contextvars
from collections.abc import Callable

from orchard.config import Settings
from orchard.core.device_memory import DeviceMemory
from orchard.gateway.pool.worker_process import Launch, WorkerProcess
from orchard.kinds import Backend

_MOST_LOADS = 64
_MOST_GROWTH_BYTES = 512 * 2**20


class Processes:
    """Starts processes, and reuses them for other models."""

    def __init__(
        self, settings: Settings, on_report: Callable[[], None], launched: tuple[Backend, Launch] | None = None
    ) -> None:
        """`on_report` is called when a process has reported what holds memory. `launched`: one that has started."""
        self.device = DeviceMemory()
        """The newest report on the device that all of them use."""
        self._memory_bytes: int | None = None
        self._on_report = on_report
        self._settings = settings
        self._launched = launched
        self._tasks: dict[WorkerProcess, asyncio.Task[None]] = {}
        self.spare: list[WorkerProcess] = []
        """Processes without a model."""
        self._closing = False

    @property
    def limit(self) -> int | None:
        """The most bytes that all models may ever take together; None until a process has said what there is."""
        for worker in self._tasks:
            self._memory_bytes = worker.memory_bytes or self._memory_bytes
        return self._settings.memory_limit or self._memory_bytes

    @property
    def has_device_memory(self) -> bool:
        """Whether devices have memory of their own, so that each rank of a model has; True as long as nobody knows."""
        return bool(self.device.total_bytes) or not any(worker.memory_bytes for worker in self._tasks)

    @property
    def held_bytes(self) -> int:
        """What MLX holds in all processes."""
        return sum(one.memory.device.active_bytes + one.memory.device.cache_bytes for one in self._tasks)

    @property
    def workers(self) -> list[WorkerProcess]:
        """Every process that has not ended."""
        return list(self._tasks)

    def take(self, backend: Backend) -> WorkerProcess:
        """Return a process to load a model in: a spare one, else a new one."""
        fit = [worker for worker in self.spare if worker.backend == backend]
        if not fit:
            return self._start(backend)
        worker = min(fit, key=_is_starting)
        self.spare.remove(worker)
        return worker

    def give_back(self, worker: WorkerProcess) -> None:
        """Keep an idle process as a spare; end it after too many loads, or if it has not freed enough memory."""
        grown = worker.rss_bytes - worker.empty_rss_bytes
        is_worn = worker.loads >= _MOST_LOADS or grown > _MOST_GROWTH_BYTES or not worker.can_load_again
        if self._closing or is_worn:
            worker.on_change = lambda: None
            worker.close()
        else:
            self._keep_spare(worker)

    def can_load(self, backend: Backend) -> bool:
        """Whether there is a spare process that has started."""
        return any(worker.backend == backend and worker.phase == "idle" for worker in self.spare)

    def refill(self, backend: Backend) -> None:
        """Start a spare process for a backend, unless there is one."""
        if not any(worker.backend == backend for worker in self.spare):
            self._keep_spare(self._start(backend))

    def trim(self) -> None:
        """End all spare processes except one."""
        for worker in sorted(self.spare, key=_is_starting)[1:]:
            worker.close()

    def kill(self) -> None:
        """Kill all processes; prompts that are not saved are lost. `close` waits for their end."""
        self._closing = True
        self._drop_launched()
        for worker in self.workers:
            worker.close()
            worker.kill()

    async def close(self) -> None:
        """End all processes, and wait until they are gone."""
        self._closing = True
        self._drop_launched()
        tasks = list(self._tasks.values())
        for worker in self.workers:
            worker.close()
        await asyncio.gather(*tasks)

    def _drop_launched(self) -> None:
        """End a process that nobody has taken."""
        if self._launched:
            self._launched[1].socket.close()
            self._launched[1].process.kill()  # it reads no socket before it has imported everything

    def _keep_spare(self, worker: WorkerProcess) -> None:
        self.spare.append(worker)
        worker.on_change = lambda: self._drop_ended_spare(worker)

    def _drop_ended_spare(self, worker: WorkerProcess) -> None:
        """Drop a spare process that ends."""
        if worker.phase not in ("starting", "idle") and worker in self.spare:
            self.spare.remove(worker)

    def _start(self, backend: Backend) -> WorkerProcess:
        launched = None
        if self._launched and self._launched[0] == backend:
            (_, launched), self._launched = self._launched, None
        worker = WorkerProcess(backend, self._settings, launched)
        worker.on_report = lambda: self._note_report(worker)
        # In a new context, because log lines about the process's end belong to no request.
        task = asyncio.create_task(worker.run(), context=contextvars.Context())
        self._tasks[worker] = task
        task.add_done_callback(lambda _: self._tasks.pop(worker))
        return worker

    def _note_report(self, worker: WorkerProcess) -> None:
        self.device = worker.memory.device
        self._on_report()


def _is_starting(worker: WorkerProcess) -> bool:
    return worker.phase == "starting"
