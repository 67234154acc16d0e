"""Webhooks: what a provider posts is believed or refused, and recorded before it is answered."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from mailwright.domain.clock import Clock
from mailwright.domain.report import Report
from mailwright.events import sendgrid, ses
from mailwright.events.fetch import AmazonFetcher
from mailwright.events.rejected_events import (
    EventRejected,
    MalformedEvent,
    VerificationUnavailable,
    WebhookNotConfigured,
)
from mailwright.events.reports import ReportCounts, Reports
from mailwright.events.sns import SnsMessageType, SnsVerifier
from mailwright.ops import metrics
from mailwright.ops.logs import logger

if TYPE_CHECKING:
    from mailwright.events.sendgrid_signature import SendGridSignature

RAW_DELIVERY_HEADER = "x-amz-sns-rawdelivery"

log = logger(__name__)


class InboundWebhooks:
    def __init__(
        self,
        reports: Reports,
        clock: Clock,
        sns: SnsVerifier,
        signature: "SendGridSignature | None",
        fetch: AmazonFetcher,
    ) -> None:
        """`signature`: None where SendGrid's key is not known. `fetch` is closed with this."""
        self._fetch = fetch
        self._reports = reports
        self._clock = clock
        self._sns = sns
        self._signature = signature

    async def receive_sns(self, headers: Mapping[str, str], body: bytes) -> ReportCounts:
        """Raises an `EventRejected` and leaves nothing behind, unless SNS signed it for us."""
        with _counted():
            return await self._from_sns(headers, body)

    async def receive_sendgrid(self, headers: Mapping[str, str], body: bytes) -> ReportCounts:
        with _counted():
            return await self._from_sendgrid(headers, body)

    async def close(self) -> None:
        await self._fetch.close()

    async def _from_sns(self, headers: Mapping[str, str], body: bytes) -> ReportCounts:
        if headers.get(RAW_DELIVERY_HEADER, "").strip().lower() == "true":
            raise MalformedEvent("The event has no envelope and so no signature: switch raw message delivery off.")
        envelope = await self._sns.verify(body)
        match envelope.kind:
            case SnsMessageType.NOTIFICATION:
                return await record_ses_event(
                    self._reports, envelope.message, self._clock, by_address=self._sns.has_topics
                )
            case SnsMessageType.SUBSCRIPTION:
                await self._sns.confirm_subscription(envelope)
                log.info("sns_subscribed", topic=envelope.topic)
            case SnsMessageType.UNSUBSCRIPTION:
                log.warning(
                    "sns_unsubscribed", topic=envelope.topic, message="No more events come from it until it is renewed."
                )
        return ReportCounts()

    async def _from_sendgrid(self, headers: Mapping[str, str], body: bytes) -> ReportCounts:
        if self._signature is None:
            raise WebhookNotConfigured(
                "Set SENDGRID_WEBHOOK_PUBLIC_KEY to the key that SendGrid shows for signed events."
            )
        self._signature.check(headers, body)
        told = sendgrid.parse_events(body, self._clock.now())
        if told.left_out:
            log.warning("events_left_out", source=sendgrid.SOURCE, events=dict(told.left_out))
        return await _record(self._reports, told.reports, by_address=True)


async def record_ses_event(reports: Reports, text: str, clock: Clock, *, by_address: bool) -> ReportCounts:
    """What an event of SES says, whichever way it came. `by_address`: it came from a topic of ours."""
    told = ses.parse_event(text, clock.now())
    if not told.is_known:
        log.info("event_without_meaning", source=ses.SOURCE, kind=told.kind[:40])
    return await _record(reports, told.reports, by_address=by_address)


async def _record(reports: Reports, told: Sequence[Report], *, by_address: bool) -> ReportCounts:
    return await reports.receive(told, by_address=by_address) if told else ReportCounts()


@contextmanager
def _counted() -> Iterator[None]:
    try:
        yield
    except (EventRejected, VerificationUnavailable) as error:
        metrics.WEBHOOKS_REFUSED.labels(error.code).inc()
        raise
