"""The pool with workers that do only what the test says."""

from collections.abc import Callable

import pytest

from orchard.config import Settings
from orchard.core.cache import CacheState
from orchard.core.errors import OrchardError
from orchard.core.events import Failed, Finished, Started, Usage
from orchard.core.request import Generate, Message, Request, TextPart
from orchard.gateway import pool as pool_module
from orchard.gateway.pool import Pool
from orchard.gateway.registry import ModelEntry
from orchard.gateway.stream import EventStream
from tests.serving import FAKE


class StubWorker:
    """A worker whose states the test sets."""

    made: list["StubWorker"]

    def __init__(self, entry: ModelEntry, settings: Settings, on_change: Callable[["StubWorker"], None]) -> None:
        self.ready = self.loaded = False
        self.failure: str | None = None
        self.running = self.waiting = 0
        self.pid = len(self.made)
        self.streams: dict[str, EventStream] = {}
        self._on_change = on_change
        self.made.append(self)

    async def run(self) -> None:
        pass

    def submit(self, request: Request, stream: EventStream) -> None:
        self.streams[request.id] = stream
        stream.on_drop = lambda: self.streams.__delitem__(request.id)

    async def cache(self, request_id: str | None) -> CacheState:
        return CacheState({"asked": 1})

    def close(self) -> None:
        pass

    def become_ready(self) -> None:
        self.ready = self.loaded = True
        self._on_change(self)

    def lose_its_socket(self) -> None:
        self.ready = False

    def be_gone(self, failure: str | None = None) -> None:
        self.ready = False
        self.failure = failure
        self._on_change(self)


@pytest.fixture
def workers(monkeypatch: pytest.MonkeyPatch) -> list[StubWorker]:
    StubWorker.made = []
    monkeypatch.setattr(pool_module, "Worker", StubWorker)
    return StubWorker.made


@pytest.fixture
def pool() -> Pool:
    return Pool([FAKE], Settings())


def request(number: int = 1) -> Request:
    return Request(f"req_{number}", "fake", Generate((Message("user", (TextPart("hi"),)),)))


async def test_requests_wait_for_the_load_they_share(workers: list[StubWorker], pool: Pool) -> None:
    first, second = pool.open(request(1)), pool.open(request(2))
    assert pool.models["fake"].health() == {
        "state": "loading",
        "reason": None,
        "pid": 0,
        "running": 0,
        "waiting": 2,
    }
    (worker,) = workers
    worker.become_ready()
    assert worker.streams == {"req_1": first, "req_2": second}
    assert pool.models["fake"].state == "ready"


async def test_a_request_that_leaves_while_it_waits_never_reaches_the_worker(
    workers: list[StubWorker], pool: Pool
) -> None:
    pool.release(pool.open(request()))
    workers[0].become_ready()
    assert workers[0].streams == {}


async def test_a_dead_worker_is_replaced_by_the_next_request(workers: list[StubWorker], pool: Pool) -> None:
    pool.start()
    workers[0].become_ready()
    workers[0].be_gone()
    assert pool.models["fake"].state == "stopped"
    assert len(workers) == 1
    stream = pool.open(request())
    workers[1].become_ready()
    assert workers[1].streams == {"req_1": stream}


async def test_a_request_that_comes_while_a_worker_dies_goes_to_the_next(workers: list[StubWorker], pool: Pool) -> None:
    pool.start()
    workers[0].become_ready()
    workers[0].lose_its_socket()
    stream = pool.open(request())
    workers[0].be_gone()
    workers[1].become_ready()
    assert workers[1].streams == {"req_1": stream}


async def test_a_failed_load_tells_all_who_wait_and_is_tried_again(workers: list[StubWorker], pool: Pool) -> None:
    streams = [pool.open(request(number)) for number in range(3)]
    workers[0].be_gone("no weights")
    for stream in streams:
        (failed,) = await stream.next(1)
        assert isinstance(failed, Failed)
        assert (failed.kind, "no weights" in failed.message) == ("model_failed", True)
    health = pool.models["fake"].health()
    assert (health["state"], health["reason"]) == ("failed", "no weights")
    pool.open(request())
    workers[1].become_ready()
    assert pool.models["fake"].health()["reason"] is None


async def test_a_worker_that_dies_while_it_loads_has_failed(workers: list[StubWorker], pool: Pool) -> None:
    pool.start()
    workers[0].be_gone()
    assert "died" in str(pool.models["fake"].health()["reason"])


async def test_draining_refuses_new_requests_and_cuts_old_ones(workers: list[StubWorker], pool: Pool) -> None:
    pool.start()
    workers[0].become_ready()
    stream, done = pool.open(request(1)), pool.open(request(2))
    done.push([Started(1), Finished(("stop",), Usage(1, 1))])
    pool.drain(0)
    with pytest.raises(OrchardError, match="shutting down"):
        pool.open(request(3))
    (cut,) = await stream.next(1)
    assert isinstance(cut, Failed)
    assert cut.kind == "shutting_down"
    assert list(workers[0].streams) == ["req_2"]


async def test_only_a_ready_worker_is_asked_what_it_has_cached(workers: list[StubWorker], pool: Pool) -> None:
    model = pool.models["fake"]
    assert await model.cache() == CacheState()
    pool.start()
    assert await model.cache() == CacheState()
    workers[0].become_ready()
    assert await model.cache() == CacheState({"asked": 1})
    workers[0].lose_its_socket()
    assert await model.cache() == CacheState()


async def test_closing_is_no_failed_load(workers: list[StubWorker], pool: Pool) -> None:
    pool.start()
    await pool.close()
    workers[0].be_gone()
    assert pool.models["fake"].state == "stopped"
