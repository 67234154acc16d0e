"""Between those who wait for a result and those who are called back with it: each can be had from the other."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Final, TypeVar

from mailwright.domain.outgoing import Outgoing
from mailwright.domain.results import Category, ResultKind, SendResult
from mailwright.ops.logs import logger
from mailwright.providers.protocol import Answered, Sending

log = logger(__name__)

T = TypeVar("T")


class _Over:
    def cancel(self) -> None:
        """Nothing is under way."""


OVER: Final[Sending] = _Over()


def called_back(asking: Coroutine[Any, Any, T], answered: Callable[[T], None]) -> asyncio.Task[T]:
    """In a task of its own, for what cannot be answered without waiting. It must not raise."""
    task = asyncio.create_task(asking)
    task.add_done_callback(lambda done: None if done.cancelled() else answered(done.result()))
    return task


def awaited(carry: Callable[[Outgoing, Answered], Sending], message: Outgoing) -> asyncio.Future[SendResult]:
    answer: asyncio.Future[SendResult] = asyncio.get_running_loop().create_future()
    sending = carry(message, answer.set_result)
    answer.add_done_callback(lambda answer: sending.cancel() if answer.cancelled() else None)
    return answer


def translated(
    meaning: Callable[[T], SendResult], provider: str, message: Outgoing, answered: Answered
) -> Callable[[T], None]:
    """Tells what an answer means, whatever comes of finding that out: a worker waits for it."""

    def tell(reply: T) -> None:
        try:
            result = meaning(reply)
        except Exception as error:
            log.exception("answer_not_understood", outboxId=message.outbox_id, provider=provider)
            result = unexpected(provider, error)
        answered(result)

    return tell


def unexpected(provider: str, error: BaseException) -> SendResult:
    """A provider promises never to raise; one that does has told us nothing."""
    return SendResult(
        ResultKind.IN_DOUBT,
        provider,
        code="PROVIDER_RAISED",
        category=Category.TRANSIENT,
        message=repr(error)[:500],
    )
