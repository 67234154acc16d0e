"""Convert between providers that return a future and providers that call back."""

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
        """Do nothing, because nothing is in flight."""


OVER: Final[SendHandle] = _Over()


def run_with_callback(asking: Coroutine[Any, Any, T], on_result: Callable[[T], None]) -> asyncio.Task[T]:
    """Run a coroutine in a task and pass its result to the callback. The coroutine must not raise."""
    task = asyncio.create_task(asking)
    task.add_done_callback(lambda done: None if done.cancelled() else on_result(done.result()))
    return task


def future_of(
    send_with_callback: Callable[[OutgoingMessage, ResultCallback], SendHandle], message: OutgoingMessage
) -> asyncio.Future[SendResult]:
    answer: asyncio.Future[SendResult] = asyncio.get_running_loop().create_future()
    sending = send_with_callback(message, answer.set_result)
    answer.add_done_callback(lambda answer: sending.cancel() if answer.cancelled() else None)
    return answer


def translating_callback(
    meaning: Callable[[T], SendResult], provider: str, message: OutgoingMessage, on_result: ResultCallback
) -> Callable[[T], None]:
    """Return a callback that interprets the response. It always passes on a result, because a worker waits for it."""

    def tell(reply: T) -> None:
        try:
            result = meaning(reply)
        except Exception as error:
            log.exception("answer_not_understood", outboxId=message.outbox_id, provider=provider)
            result = provider_raised(provider, error)
        on_result(result)

    return tell


def provider_raised(provider: str, error: BaseException) -> SendResult:
    """Return the result for a provider that raised although it must not: the message is in doubt."""
    return SendResult(
        ResultKind.IN_DOUBT,
        provider,
        code="PROVIDER_RAISED",
        category=ErrorCategory.TRANSIENT,
        message=repr(error)[:500],
    )
