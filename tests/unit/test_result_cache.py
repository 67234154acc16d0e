"""Results are computed once for all callers within a few seconds, and dropped after a change."""

import asyncio
from typing import Any

import pytest

from mailwright.web.cache import InvalidateOnWrite, ResultCache


class Counting:
    """Return the number of computations."""

    def __init__(self) -> None:
        self.times = 0
        self.may_answer = asyncio.Event()
        self.may_answer.set()

    async def __call__(self) -> int:
        self.times += 1
        answer = self.times
        await self.may_answer.wait()
        return answer


async def test_concurrent_callers_share_one_computation() -> None:
    kept, ask = ResultCache(), Counting()
    ask.may_answer.clear()
    asking = [asyncio.create_task(kept.get("how many", ask)) for _ in range(3)]
    await asyncio.sleep(0)
    asking[0].cancel()  # A cancelled caller does not cancel the others.
    ask.may_answer.set()
    assert await asyncio.gather(*asking[1:]) == [1, 1]
    assert await kept.get("how many", ask) == 1
    assert await kept.get("how many others", ask) == 2
    assert await ResultCache(seconds=0).get("how many", ask) == 3


async def test_slow_result_is_kept_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    kept, ask, later = ResultCache(), Counting(), [0.0]
    loop = asyncio.get_running_loop()
    real = loop.time
    monkeypatch.setattr(loop, "time", lambda: real() + later[0])

    async def ask_slowly() -> int:
        later[0] += 30
        return await ask()

    assert await kept.get("how many", ask_slowly) == 1
    later[0] += 10 * 30 - 5
    assert await kept.get("how many", ask_slowly) == 1
    later[0] += 10
    assert await kept.get("how many", ask_slowly) == 2


async def test_result_that_takes_long_is_computed_once() -> None:
    kept, ask = ResultCache(seconds=0.001, patience_seconds=0.01), Counting()
    ask.may_answer.clear()
    for _ in range(3):
        with pytest.raises(TimeoutError):
            await kept.get_soon("how many", ask)
    ask.may_answer.set()
    assert await kept.get_soon("how many", ask) == 1
    assert ask.times == 1


async def test_failed_computation_is_not_cached() -> None:
    kept, ask = ResultCache(), Counting()

    async def fail() -> int:
        raise LookupError

    with pytest.raises(LookupError):
        await kept.get("how many", fail)
    assert await kept.get("how many", ask) == 1


@pytest.mark.parametrize(
    ("method", "path", "is_forgotten"),
    [
        ("POST", "/contacts", True),
        ("PATCH", "/v1/lists/news", True),
        ("POST", "/unsubscribe", True),
        ("GET", "/contacts", False),
        ("POST", "/v1/email/batch", False),
        ("POST", "/ses-events", False),
    ],
)
async def test_write_clears_the_cache(method: str, path: str, is_forgotten: bool) -> None:
    kept, ask = ResultCache(), Counting()
    known = await kept.get("how many", ask)

    async def application(scope: Any, receive: Any, send: Any) -> None:
        # A request computes a result that is about to change.
        assert await kept.get("how many", ask) == known
        await send({"type": "http.response.start"})

    async def send(message: Any) -> None:
        """Read the cache as soon as the response arrives."""
        assert (await kept.get("how many", ask) != known) == is_forgotten

    around = InvalidateOnWrite(application, kept)
    await around({"type": "http", "method": method, "path": path}, None, send)  # type: ignore[arg-type]
