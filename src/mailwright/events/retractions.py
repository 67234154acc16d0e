"""Record a bounce if a provider first accepts a message and then rejects it."""

import asyncio

from mailwright.domain.clock import Clock
from mailwright.domain.errors import NotDurable
from mailwright.domain.ids import uuid7
from mailwright.domain.report import ContactVerdict, Report
from mailwright.domain.states import EventType
from mailwright.events.rejections import VERDICTS
from mailwright.events.reports import Reports
from mailwright.ops.logs import logger
from mailwright.providers.protocol import RetractedAcceptance
from mailwright.providers.responses import mask_addresses

log = logger(__name__)

RETRY_SECONDS = 1.0
CLOSE_SECONDS = 5.0


class Retractions:
    """Records retractions in the background. The worker settles its results in other transactions."""

    def __init__(self, reports: Reports, clock: Clock) -> None:
        self._reports = reports
        self._clock = clock
        self._tasks: set[asyncio.Task[None]] = set()

    def record(self, provider: str, retraction: RetractedAcceptance) -> None:
        task = asyncio.create_task(self._record(self._report(provider, retraction)))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def close(self) -> None:
        """Wait until everything is recorded, but only a short time if the database is unavailable."""
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=CLOSE_SECONDS)
        for task in tuple(self._tasks):
            task.cancel()

    async def _record(self, report: Report) -> None:
        """Record a report. Retry after a database outage, because the provider will not repeat this report."""
        log.warning("acceptance_retracted", outboxId=report.outbox_id, provider=report.source, **report.metadata)
        while True:
            try:
                await self._reports.receive([report])
            except NotDurable as error:
                log.warning("retraction_not_recorded", outboxId=report.outbox_id, reason=str(error))
                await asyncio.sleep(RETRY_SECONDS)
            else:
                return

    def _report(self, provider: str, retraction: RetractedAcceptance) -> Report:
        now, rejection = self._clock.now(), retraction.rejection
        code = (rejection.original_code or "").partition(" ")[0]  # Drop the enhanced code, which the message repeats.
        return Report(
            key=f"retracted:{retraction.outbox_id}:{uuid7(now)}",
            source=provider,
            type=EventType.BOUNCED,
            at=now,
            recipient=retraction.recipient,
            outbox_id=retraction.outbox_id,
            verdict=ContactVerdict.NOTHING if rejection.bounce is None else VERDICTS[rejection.bounce],
            bounce_type=rejection.bounce,
            bounce_subtype=rejection.code,
            is_response=True,
            metadata={"errorMessage": f"Accepted, then rejected: {code} {mask_addresses(rejection.message or '')}"},
        )
