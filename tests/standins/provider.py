"""A scripted provider that records the messages it receives."""

import asyncio
from collections.abc import Callable

from mailwright.domain.clock import Instant
from mailwright.domain.outgoing import OutgoingMessage
from mailwright.domain.results import SendResult, sent
from mailwright.providers.protocol import ProviderCheck

Answer = SendResult | Exception | Callable[[OutgoingMessage], SendResult]


class ScriptedProvider:
    """Return the scripted results in order; after the last one, accept every message."""

    def __init__(
        self, *answers: Answer, reports_events: bool = False, name: str = "scripted", capacity: int = 64
    ) -> None:
        self.name = name
        self.capacity = self.bulk_capacity = capacity
        self.reports_events = reports_events
        self.messages: list[OutgoingMessage] = []  # In the order of the handover.
        self.under_way = 0
        self.most_under_way = 0
        self._answers = list(answers)
        self._is_open = asyncio.Event()
        self._is_open.set()
        self._handed_over = asyncio.Condition()

    @property
    def outbox_ids(self) -> list[str]:
        return [message.outbox_id for message in self.messages]

    def hold(self) -> None:
        """Let messages wait for `let_go` from now on."""
        self._is_open.clear()

    def let_go(self) -> None:
        self._is_open.set()

    async def has(self, count: int) -> None:
        """Wait until this many messages were handed over."""
        async with self._handed_over:
            await self._handed_over.wait_for(lambda: len(self.messages) >= count)

    async def send(self, message: OutgoingMessage) -> SendResult:
        self.under_way += 1
        self.most_under_way = max(self.most_under_way, self.under_way)
        answer = self._answers.pop(0) if self._answers else sent(self.name, f"<{len(self.messages) + 1}@scripted>")
        try:
            async with self._handed_over:
                self.messages.append(message)
                self._handed_over.notify_all()
            await self._is_open.wait()
            await asyncio.sleep(0)  # Like a real provider, it never responds at once.
        finally:
            self.under_way -= 1
        match answer:
            case SendResult():
                return answer
            case Exception():
                raise answer
            case _:
                return answer(message)

    async def check(self) -> ProviderCheck:
        return ProviderCheck(True, "scripted")

    async def close(self, grace: Instant = 0) -> None:
        """Nothing to close."""
