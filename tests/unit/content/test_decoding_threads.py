"""Images are decoded in a few threads. One slow image neither fails nor blocks the uploads of others."""

import asyncio
import threading
from collections.abc import Iterator

import pytest

from mailwright.content.decoding_threads import DecodingThreads, DecodingTooSlow
from mailwright.content.image_files import ImagesUnavailable


class SlowDecoder:
    """Decodes nothing until it is released."""

    def __init__(self) -> None:
        self._may_end = threading.Event()

    def __call__(self, content: bytes) -> bytes:
        assert self._may_end.wait(60)
        return content

    def release(self) -> None:
        self._may_end.set()


@pytest.fixture
def decode_slowly() -> Iterator[SlowDecoder]:
    decoder = SlowDecoder()
    yield decoder
    decoder.release()


async def let_others_run() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


async def test_time_limit_does_not_include_waiting(decode_slowly: SlowDecoder) -> None:
    threads = DecodingThreads(threads=1, seconds=0)
    first = asyncio.create_task(threads.run(decode_slowly, b"first"))
    second = asyncio.create_task(threads.run(bytes, b"second"))
    with pytest.raises(DecodingTooSlow):
        await first
    await let_others_run()
    assert not second.done()
    decode_slowly.release()
    await asyncio.gather(second, return_exceptions=True)


async def test_full_queue_refuses_until_an_image_is_done(decode_slowly: SlowDecoder) -> None:
    threads = DecodingThreads(threads=1, max_waiting=1)
    accepted = [asyncio.create_task(threads.run(decode_slowly, content)) for content in (b"1", b"2")]
    await let_others_run()
    with pytest.raises(ImagesUnavailable, match="Too many images"):
        await threads.run(bytes, b"3")
    decode_slowly.release()
    assert await asyncio.gather(*accepted) == [b"1", b"2"]
    assert await threads.run(bytes, b"3") == b"3"


async def test_cancelled_upload_gives_up_its_place(decode_slowly: SlowDecoder) -> None:
    threads = DecodingThreads(threads=1, max_waiting=1)
    running = asyncio.create_task(threads.run(decode_slowly, b"1"))
    waiting = asyncio.create_task(threads.run(bytes, b"2"))
    await let_others_run()
    waiting.cancel()
    await asyncio.wait([waiting])
    next_one = asyncio.create_task(threads.run(bytes, b"3"))
    await let_others_run()
    decode_slowly.release()
    assert await asyncio.gather(running, next_one) == [b"1", b"3"]
    assert waiting.cancelled()


async def test_images_are_decoded_side_by_side() -> None:
    together = threading.Barrier(2, timeout=60)

    def decode(content: bytes) -> bytes:
        together.wait()
        return content

    threads = DecodingThreads(threads=2)
    assert await asyncio.gather(threads.run(decode, b"1"), threads.run(decode, b"2")) == [b"1", b"2"]
