"""The thread that runs the work of an event loop."""

import asyncio
import threading

import pytest

from mailwright.storage.work_thread import WorkThread


async def test_work_runs_in_order_in_one_other_thread() -> None:
    thread = WorkThread("test")
    found = await asyncio.gather(*(thread.run(threading.get_ident) for _ in range(5)))
    order: list[int] = []
    await asyncio.gather(*(thread.run(lambda number=number: order.append(number)) for number in range(20)))
    thread.stop()
    assert len(set(found)) == 1
    assert threading.get_ident() not in found
    assert order == [*range(20)]


async def test_error_of_work_reaches_its_caller_only() -> None:
    thread = WorkThread("test")
    with pytest.raises(ZeroDivisionError):
        await thread.run(lambda: 1 // 0)
    assert await thread.run(lambda: "next") == "next"
    thread.stop()


async def test_cancelled_work_that_has_not_begun_is_skipped() -> None:
    thread, may_end, done = WorkThread("test"), threading.Event(), []
    first = thread.run(may_end.wait)
    second = thread.run(lambda: done.append("second"))
    second.cancel()
    may_end.set()
    assert await first
    assert await thread.run(lambda: list(done)) == []
    thread.stop()


async def test_cancelled_work_that_has_begun_is_completed() -> None:
    thread, has_begun, may_end, done = WorkThread("test"), threading.Event(), threading.Event(), []

    def work() -> None:
        has_begun.set()
        may_end.wait()
        done.append("work")

    running = thread.run(work)
    await asyncio.to_thread(has_begun.wait)
    running.cancel()
    may_end.set()
    assert await thread.run(lambda: list(done)) == ["work"]
    thread.stop()
