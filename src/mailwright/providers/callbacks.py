"""Between those who wait for a result and those who are called back with it: each can be had from the other."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Final, TypeVar

from mailwright.domain.outgoing import OutgoingMessage
from mailwright.domain.results import ErrorCategory, ResultKind, SendResult
from mailwright.ops.logs import logger
from mailwright.providers.protocol import ResultCallback, SendHandle

log = logger(__name__)

T = TypeVar("T")


class _Over:
    def cancel(self) -> None:
        """Nothing is under way."""


OVER: Final[SendHandle] = _Over()


def run_with_callback(asking: Coroutine[Any, Any, T], answered: Callable[[T], None]) -> asyncio.Task[T]:
    """In a task of its own, for what cannot be answered without waiting. It must not raise."""
    task = asyncio.create_task(asking)
    task.add_done_callback(lambda done: None if done.cancelled() else answered(done.result()))
    return task


def future_of(
    send_with_callback: Callable[[OutgoingMessage, ResultCallback], SendHandle], message: OutgoingMessage
) -> asyncio.Future[SendResult]:
    answer: asyncio.Future[SendResult] = asyncio.get_running_loop().create_future()
    sending = send_with_callback(message, answer.set_result)
    answer.add_done_callback(lambda answer: sending.cancel() if answer.cancelled() else None)
    return answer


def translating_callback(
    meaning: Callable[[T], SendResult], provider: str, message: OutgoingMessage, answered: ResultCallback
) -> Callable[[T], None]:
    """Tells what an answer means, whatever comes of finding that out: a worker waits for it."""

    def tell(reply: T) -> None:
        try:
            result = meaning(reply)
        except Exception as error:
            log.exception("answer_not_understood", outboxId=message.outbox_id, provider=provider)
            result = provider_raised(provider, error)
        answered(result)

    return tell


def provider_raised(provider: str, error: BaseException) -> SendResult:
    """A provider promises never to raise; one that does has told us nothing."""
    return SendResult(
        ResultKind.IN_DOUBT,
        provider,
        code="PROVIDER_RAISED",
        category=ErrorCategory.TRANSIENT,
        message=repr(error)[:500],
    )
