"""Open connections to one server in the background."""

import asyncio
import ssl
from collections.abc import Callable
from dataclasses import replace

from mailwright.domain.results import SendResult
from mailwright.providers.smtp.login import LoginFailed, ServerFeatures, log_in
from mailwright.providers.smtp.responses import NOT_CONNECTED
from mailwright.providers.smtp.settings import SmtpSettings, Timeouts
from mailwright.providers.smtp.transport import SmtpTransport

# A server that rejects an additional connection has a limit, so wait this long before the next attempt.
SECONDS_BETWEEN_REFUSED_CONNECTIONS = 10.0


class ConnectionAttempts:
    """The attempts in progress, and the pause after the server refused a connection."""

    def __init__(
        self,
        settings: SmtpSettings,
        context: ssl.SSLContext | None,
        timeouts: Timeouts,
        hostname: str | None,
        *,
        on_open: Callable[[SmtpTransport, ServerFeatures], None],
        on_failure: Callable[[SendResult], None],
        on_pause_end: Callable[[], None],
    ) -> None:
        self._settings = settings
        self._context = context
        self._timeouts = timeouts
        self._hostname = hostname
        self._on_open = on_open
        self._on_failure = on_failure
        self._on_pause_end = on_pause_end
        self._tasks: set[asyncio.Task[None]] = set()
        self._pause: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return len(self._tasks)

    @property
    def is_paused(self) -> bool:
        return self._pause is not None

    def start(self) -> None:
        self._tasks.add(asyncio.get_running_loop().create_task(self._attempt()))

    def pause(self) -> None:
        loop = asyncio.get_running_loop()
        self._pause = self._pause or loop.call_later(SECONDS_BETWEEN_REFUSED_CONNECTIONS, self._end_pause)

    async def stop(self) -> None:
        if self._pause is not None:
            self._pause.cancel()
        tasks = tuple(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _attempt(self) -> None:
        failure: SendResult | None = None
        try:
            conversation, features = await log_in(self._settings, self._context, self._timeouts, self._hostname)
        except LoginFailed as error:
            # No message was handed over, so a failed login is no attempt of the messages that wait for it.
            failure = replace(error.result, is_completed=False)
        except Exception as error:  # Catch every error, because the waiting messages need a result.
            failure = NOT_CONNECTED.result(f"no connection to {self._settings.host}: {error!r}")
        finally:
            self._tasks.discard(_current_task())
        if failure is None:
            self._on_open(conversation.transport, features)
        else:
            self._on_failure(failure)

    def _end_pause(self) -> None:
        self._pause = None
        self._on_pause_end()


def _current_task() -> asyncio.Task[None]:
    task = asyncio.current_task()
    assert task is not None
    return task
