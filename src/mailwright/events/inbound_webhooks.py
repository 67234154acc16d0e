"""Verify webhooks of providers and record their events before the response."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol

from mailwright.domain.clock import Clock
from mailwright.domain.report import Report, ReportScope
from mailwright.events import sendgrid, ses
from mailwright.events.fetch import AmazonFetcher
from mailwright.events.parsed_events import ParsedEvents
from mailwright.events.rejected_events import (
    EventRejected,
    MalformedEvent,
    VerificationUnavailable,
    WebhookNotConfigured,
)
from mailwright.events.reports import ReportCounts
from mailwright.events.sns import SnsMessageType, SnsVerifier
from mailwright.events.used_signatures import UsedSignature
from mailwright.ops import metrics
from mailwright.ops.logs import logger

if TYPE_CHECKING:
    from mailwright.events.sendgrid_signature import SendGridSignature

RAW_DELIVERY_HEADER = "x-amz-sns-rawdelivery"

log = logger(__name__)


class VendorWebhook(Protocol):
    """Verifies and parses the webhook of one provider."""

    def parse(self, headers: Mapping[str, str], body: bytes) -> ParsedEvents:
        """Return the events. Raise `EventRejected` if the request is not authentic."""
        ...


# The setting that each webhook needs.
VENDOR_SETTINGS: Mapping[str, str] = {
    "mailgun": "MAILGUN_WEBHOOK_SIGNING_KEY to the HTTP webhook signing key of Mailgun",
    "resend": "RESEND_WEBHOOK_SECRET to the signing secret of the webhook in Resend",
    "postmark": "POSTMARK_WEBHOOK_SECRET to the password in the webhook URL of Postmark",
    "brevo": "BREVO_WEBHOOK_SECRET to the token of the webhook in Brevo",
}


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
    def __init__(
        self,
        reports: ReportRecorder,
        clock: Clock,
        sns: SnsVerifier,
        signature: "SendGridSignature | None",
        fetch: AmazonFetcher,
        *,
        vendors: Mapping[str, VendorWebhook] | None = None,
    ) -> None:
        """Create the receiver. `signature` is None if no SendGrid key is set. `close` also closes `fetch`.

        `vendors` has the configured webhooks of other providers.
        """
        self._vendors = vendors or {}
        self._fetch = fetch
        self._reports = reports
        self._clock = clock
        self._sns = sns
        self._signature = signature

    async def receive_sns(self, headers: Mapping[str, str], body: bytes) -> ReportCounts:
        """Record an SES event from SNS. If it is not authentic, raise `EventRejected` and record nothing."""
        with _count_rejections():
            return await self._from_sns(headers, body)

    async def receive_sendgrid(self, headers: Mapping[str, str], body: bytes) -> ReportCounts:
        with _count_rejections():
            return await self._from_sendgrid(headers, body)

    async def receive_vendor(self, name: str, headers: Mapping[str, str], body: bytes) -> ReportCounts:
        """Record the events of a provider. If they are not authentic, raise `EventRejected` and record nothing."""
        with _count_rejections():
            if (vendor := self._vendors.get(name)) is None:
                setting = VENDOR_SETTINGS.get(name)
                raise WebhookNotConfigured(f"Set {setting}." if setting else f"{name} reports no events.")
            return await self._record_parsed(name, vendor.parse(headers, body))

    async def receive_named(self, kind: str, headers: Mapping[str, str], body: bytes) -> ReportCounts:
        """Record the events of a named provider of this kind."""
        match kind:
            case "ses":
                if not self._sns.has_topics:
                    raise WebhookNotConfigured("Set SNS_TOPIC_ARNS of this provider to its SNS topics.")
                return await self.receive_sns(headers, body)
            case sendgrid.SOURCE:
                return await self.receive_sendgrid(headers, body)
            case _:
                return await self.receive_vendor(kind, headers, body)

    async def close(self) -> None:
        await self._fetch.close()

    async def _from_sns(self, headers: Mapping[str, str], body: bytes) -> ReportCounts:
        if headers.get(RAW_DELIVERY_HEADER, "").strip().lower() == "true":
            raise MalformedEvent(
                "The event has no envelope and no signature. Turn off raw message delivery of the SNS subscription."
            )
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
                    "sns_unsubscribed",
                    topic=envelope.topic,
                    message="The topic sends no more events. To receive them, create the SNS subscription again.",
                )
        return ReportCounts()

    async def _from_sendgrid(self, headers: Mapping[str, str], body: bytes) -> ReportCounts:
        if self._signature is None:
            raise WebhookNotConfigured(
                "Set SENDGRID_WEBHOOK_PUBLIC_KEY to the verification key of SendGrid's signed event webhook."
            )
        self._signature.check(headers, body)
        return await self._record_parsed(sendgrid.SOURCE, sendgrid.parse_events(body, self._clock.now()))

    async def _record_parsed(self, source: str, parsed: ParsedEvents) -> ReportCounts:
        if parsed.signature is not None:
            await self._reports.use_signature(parsed.signature)
        if parsed.skipped:
            log.warning("events_skipped", source=source, events=dict(parsed.skipped))
        return await _record(self._reports, parsed.reports, by_address=True)


async def record_ses_event(reports: ReportRecorder, text: str, clock: Clock, *, by_address: bool) -> ReportCounts:
    """Record an SES event from a webhook or a queue.

    Set `by_address` if the event comes from one of our topics. Then a report without a message ID may be matched by the
    recipient's address.
    """
    parsed = ses.parse_event(text, clock.now())
    if parsed.is_text:
        log.info("event_is_plain_text", source=ses.SOURCE)
    elif not parsed.is_known:
        log.error("unknown_event_type", source=ses.SOURCE, kind=parsed.kind[:40])
    return await _record(reports, parsed.reports, by_address=by_address)


async def _record(reports: ReportRecorder, parsed: Sequence[Report], *, by_address: bool) -> ReportCounts:
    return await reports.receive(parsed, by_address=by_address) if parsed else ReportCounts()


@contextmanager
def _count_rejections() -> Iterator[None]:
    try:
        yield
    except (EventRejected, VerificationUnavailable) as error:
        metrics.WEBHOOKS_REFUSED.labels(error.code).inc()
        raise
