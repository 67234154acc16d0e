"""The base class of providers that are used through their SMTP server, under their own name."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import ClassVar

from mailwright.domain.clock import SECOND, Clock, Instant
from mailwright.domain.outgoing import OutgoingMessage
from mailwright.domain.results import SendResult
from mailwright.providers.callbacks import future_of
from mailwright.providers.protocol import ProviderCheck, ResultCallback, SendHandle
from mailwright.providers.smtp.provider import Smtp
from mailwright.providers.smtp.settings import SmtpSettings, Timeouts


class SmtpAccount:
    name: ClassVar[str]
    reports_events = False

    def __init__(
        self,
        settings: SmtpSettings,
        *,
        clock: Clock | None = None,
        timeouts: Timeouts | None = None,
        hostname: str | None = None,
    ) -> None:
        self._smtp = Smtp(settings, clock=clock, timeouts=timeouts, hostname=hostname)

    @property
    def capacity(self) -> int:
        return self._smtp.capacity

    @property
    def bulk_capacity(self) -> int:
        return self._smtp.bulk_capacity

    def watch_capacity(self, on_growth: Callable[[], None]) -> None:
        self._smtp.watch_capacity(on_growth)

    def send_with_callback(self, message: OutgoingMessage, on_result: ResultCallback) -> SendHandle:
        return self._smtp.send_with_callback(message, lambda result: on_result(self._interpret(result)))

    def send(self, message: OutgoingMessage) -> asyncio.Future[SendResult]:
        return future_of(self.send_with_callback, message)

    async def check(self) -> ProviderCheck:
        return await self._smtp.check()

    async def close(self, grace: Instant = 30 * SECOND) -> None:
        await self._smtp.close(grace)

    def _interpret(self, result: SendResult) -> SendResult:
        return replace(result, provider=self.name)
