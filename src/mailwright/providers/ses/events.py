"""Receive SES events by webhook or from a queue."""

from collections.abc import Mapping
from contextlib import AsyncExitStack
from typing import Any

from mailwright.domain.clock import Clock
from mailwright.domain.errors import ConfigurationInvalid
from mailwright.domain.translation import lazy_gettext
from mailwright.ops.logs import logger
from mailwright.providers.inbound.parsed_events import ParsedEvents, RecordEvents
from mailwright.providers.inbound.rejected_events import MalformedEvent
from mailwright.providers.ses.event_format import read_event
from mailwright.providers.ses.fetch import AmazonFetcher
from mailwright.providers.ses.kind import SesFields
from mailwright.providers.ses.sns import AmazonCertificates, FolderCertificates, SnsMessageType, SnsVerifier

RAW_DELIVERY_HEADER = "x-amz-sns-rawdelivery"

log = logger(__name__)


class SesWebhook:
    """Reads SES events from SNS and confirms the subscriptions of configured topics."""

    def __init__(self, sns: SnsVerifier, fetch: AmazonFetcher, clock: Clock) -> None:
        """Create the webhook. `close` also closes `fetch`."""
        self._sns = sns
        self._fetch = fetch
        self._clock = clock

    async def parse(self, headers: Mapping[str, str], body: bytes) -> ParsedEvents:
        """Verify and parse a request. Raise `EventRejected` if it is not authentic."""
        if headers.get(RAW_DELIVERY_HEADER, "").strip().lower() == "true":
            raise MalformedEvent(
                "The event has no envelope and no signature. Turn off raw message delivery of the SNS subscription."
            )
        envelope = await self._sns.verify(body)
        match envelope.kind:
            case SnsMessageType.NOTIFICATION:
                return read_event(envelope.message, self._clock, by_address=self._sns.has_topics)
            case SnsMessageType.SUBSCRIPTION:
                await self._sns.confirm_subscription(envelope)
                log.info("sns_subscribed", topic=envelope.topic)
            case SnsMessageType.UNSUBSCRIPTION:
                log.warning(
                    "sns_unsubscribed",
                    topic=envelope.topic,
                    message="The topic sends no more events. To receive them, create the SNS subscription again.",
                )
        return ParsedEvents()

    async def close(self) -> None:
        await self._fetch.close()


def make_webhook(settings: SesFields, clock: Clock) -> SesWebhook:
    fetch = AmazonFetcher()
    certificates = FolderCertificates(settings.sns_certs) if settings.sns_certs else AmazonCertificates(fetch, clock)
    return SesWebhook(SnsVerifier(clock, certificates, fetch, settings.sns_topic_arns), fetch, clock)


def check_settings(settings: SesFields) -> None:
    """Check the settings of the events; report all problems at once."""
    problems: list[str] = []
    if settings.sns_certs is not None and not settings.sns_certs.is_dir():
        problems += ConfigurationInvalid(lazy_gettext("must be a folder")).of("MAILWRIGHT_SNS_CERTS").problems
    if settings.sqs_queue_url is not None:
        from mailwright.providers.ses.queue import parse_queue_url  # noqa: PLC0415 - imported only with a queue

        try:
            parse_queue_url(settings.sqs_queue_url, settings.aws_region)
        except ConfigurationInvalid as error:
            problems += error.of("MAILWRIGHT_SQS_QUEUE_URL").problems
    if problems:
        raise ConfigurationInvalid(*problems)


def make_queue(settings: SesFields, clock: Clock, record: RecordEvents, closing: AsyncExitStack) -> Any:
    """Return the queue that is polled for events; None if there is none."""
    if settings.sqs_queue_url is None:
        return None
    from mailwright.providers.http import HttpClient  # noqa: PLC0415 - imported only with a queue
    from mailwright.providers.ses.provider import read_keys  # noqa: PLC0415
    from mailwright.providers.ses.queue import SqsEventSource, SqsQueue  # noqa: PLC0415

    http = HttpClient(connections=4)
    closing.push_async_callback(http.close)
    queue = SqsQueue(settings.sqs_queue_url, settings.aws_region, http, clock, read_keys(settings, clock))
    return SqsEventSource(queue, record, clock, settings.sns_topic_arns)
