"""The thread that does a model's work."""

import asyncio
import gc
import threading
import weakref

import mlx.core as mx
import pytest

from orchard.device.mlx_thread import MlxThread


class Model:
    """Something with an array, which the thread makes."""

    def __init__(self) -> None:
        self.weights = mx.ones((64, 64))


async def test_work_is_done_in_order_and_in_one_thread_which_the_next_model_gets() -> None:
    names: list[int] = []
    for _ in range(2):
        thread = MlxThread()
        made = await asyncio.gather(*(thread.do(lambda at=at: (at, threading.get_ident())) for at in range(3)))
        await thread.close()
        assert [at for at, _ in made] == [0, 1, 2]
        names += [ident for _, ident in made]
    assert len(set(names)) == 1
    assert threading.get_ident() not in names


async def test_what_work_raises_reaches_its_caller_alone() -> None:
    thread = MlxThread()

    def broken() -> None:
        raise ValueError("of this work")

    with pytest.raises(ValueError, match="of this work"):
        await thread.do(broken)
    assert await thread.do(lambda: 5) == 5
    await thread.close()


async def test_it_is_silent_while_it_works_and_each_advance_is_a_sign_of_life() -> None:
    thread = MlxThread()
    begun, go_on, advanced, end = (threading.Event() for _ in range(4))

    def work() -> None:
        begun.set()
        go_on.wait()
        thread.advance()
        advanced.set()
        end.wait()

    assert thread.silent_seconds == 0
    done = asyncio.create_task(thread.do(work))
    await asyncio.to_thread(begun.wait)
    before = thread._busy_since
    assert before is not None
    assert thread.silent_seconds > 0
    go_on.set()
    await asyncio.to_thread(advanced.wait)
    assert thread._busy_since is not None
    assert thread._busy_since > before
    end.set()
    await done
    assert thread.silent_seconds == 0
    await thread.close()


async def test_work_whose_caller_has_gone_does_not_begin() -> None:
    thread = MlxThread()
    held, done = threading.Event(), list[int]()
    first = asyncio.create_task(thread.do(held.wait))
    second = asyncio.create_task(thread.do(done.append, 2))
    await asyncio.sleep(0)  # both are in the queue now
    second.cancel()
    with pytest.raises(asyncio.CancelledError):
        await second
    held.set()
    await first
    await thread.close()
    assert done == []


async def test_nothing_of_the_work_is_kept_and_closing_frees_what_mlx_has_cached() -> None:
    thread = MlxThread()
    model = await thread.do(Model)
    await thread.do(mx.eval, model.weights)
    gone = weakref.ref(model)
    await thread.do(lambda: None)
    gc.collect()
    assert gone() is model
    del model
    await thread.close()
    assert gone() is None
    assert mx.get_cache_memory() == 0
