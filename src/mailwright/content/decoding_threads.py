"""Decode images in a few threads, with a queue of limited length."""

import asyncio
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from threading import BoundedSemaphore
from typing import Final, TypeVar

from mailwright.content.image_files import ImagesUnavailable

# Each thread may hold one decoded image, which takes up to 160 MB.
THREADS: Final = 2
# Images that wait for a thread. Each is an upload in memory.
MAX_WAITING: Final = 16
DECODE_SECONDS: Final = 30.0

T = TypeVar("T")


class DecodingTooSlow(Exception):
    """The image takes longer to decode than allowed."""


class DecodingThreads:
    def __init__(self, threads: int = THREADS, max_waiting: int = MAX_WAITING, seconds: float = DECODE_SECONDS) -> None:
        self._executor = ThreadPoolExecutor(max_workers=threads, thread_name_prefix="image")
        self._places = BoundedSemaphore(threads + max_waiting)
        self._seconds = seconds

    async def run(self, decode: Callable[[bytes], T], content: bytes) -> T:
        """Decode in a thread. The time limit begins when a thread takes the image, not while it waits.

        Raise `DecodingTooSlow`, or `ImagesUnavailable` if too many images wait. A thread that exceeds the limit is not
        available to others until it ends.
        """
        if not self._places.acquire(blocking=False):
            raise ImagesUnavailable("Too many images are being processed. Upload the image again in a few seconds.")
        loop, begun = asyncio.get_running_loop(), asyncio.Event()

        def work() -> T:
            loop.call_soon_threadsafe(begun.set)
            return decode(content)

        future = self._executor.submit(work)
        future.add_done_callback(self._release)
        result = asyncio.wrap_future(future)
        try:
            await begun.wait()
        except asyncio.CancelledError:
            result.cancel()
            raise
        try:
            async with asyncio.timeout(self._seconds):
                return await result
        except TimeoutError as error:
            raise DecodingTooSlow from error

    def _release(self, _done: "Future[T]") -> None:
        self._places.release()
