"""Verify webhooks of providers and record their events before the response."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from inspect import isawaitable
from typing import Protocol, runtime_checkable

from mailwright.domain.report import Report, ReportScope
from mailwright.events.reports import ReportCounts
from mailwright.ops import metrics
from mailwright.ops.logs import logger
from mailwright.ops.provider_kinds import KINDS
from mailwright.providers.inbound.parsed_events import ParsedEvents, ProviderWebhook, UsedSignature
from mailwright.providers.inbound.rejected_events import (
    EventRejected,
    VerificationUnavailable,
    WebhookNotConfigured,
)

log = logger(__name__)


class ReportRecorder(Protocol):
    """Records reports; see `Reports`."""

    async def receive(self, reports: Sequence[Report], *, by_address: bool = False) -> ReportCounts: ...

    async def use_signature(self, used: UsedSignature) -> None: ...


class ProviderReports:
    """Records the reports of one named provider, only about messages that this provider sent."""

    def __init__(self, reports: ReportRecorder, provider: str) -> None:
        self._reports = reports
        self._provider = provider

    async def receive(self, reports: Sequence[Report], *, by_address: bool = False) -> ReportCounts:
        """Record the reports. Reports without a message ID are ignored."""
        scope = ReportScope(provider=self._provider)
        return await self._reports.receive([replace(each, source=self._provider, scope=scope) for each in reports])

    async def use_signature(self, used: UsedSignature) -> None:
        await self._reports.use_signature(used)


class InboundWebhooks:
    def __init__(self, reports: ReportRecorder, webhooks: Mapping[str, ProviderWebhook]) -> None:
        """Create the receiver. `webhooks` has the configured webhooks by the kind of their provider."""
        self._reports = reports
        self._webhooks = webhooks

    async def receive(self, kind: str, headers: Mapping[str, str], body: bytes) -> ReportCounts:
        """Record the events of a provider. If they are not authentic, raise `EventRejected` and record nothing."""
        with _count_rejections():
            if (webhook := self._webhooks.get(kind)) is None:
                raise WebhookNotConfigured(_instruction(kind))
            parsed = webhook.parse(headers, body)
            return await record_events(self._reports, kind, await parsed if isawaitable(parsed) else parsed)

    async def close(self) -> None:
        for webhook in self._webhooks.values():
            if isinstance(webhook, ClosableWebhook):
                await webhook.close()


@runtime_checkable
class ClosableWebhook(Protocol):
    """A webhook with its own connections, for example to fetch certificates."""

    async def close(self) -> None: ...


async def record_events(reports: ReportRecorder, source: str, parsed: ParsedEvents) -> ReportCounts:
    if parsed.signature is not None:
        await reports.use_signature(parsed.signature)
    if parsed.skipped:
        log.warning("events_skipped", source=source, events=dict(parsed.skipped))
    return await reports.receive(parsed.reports, by_address=parsed.by_address) if parsed.reports else ReportCounts()


def _instruction(kind: str) -> str:
    webhook = KINDS[kind].webhook if kind in KINDS else None
    return f"{kind} reports no events." if webhook is None else f"Set {webhook.instruction}."


@contextmanager
def _count_rejections() -> Iterator[None]:
    try:
        yield
    except (EventRejected, VerificationUnavailable) as error:
        metrics.WEBHOOKS_REFUSED.labels(error.code).inc()
        raise
