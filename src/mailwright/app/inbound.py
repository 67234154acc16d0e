"""What comes in by itself: the parts that take webhooks, and the queue and mailbox that are looked into."""

import asyncio
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Protocol

from mailwright.audience.status import SoftBounces
from mailwright.domain.clock import Clock, SystemClock
from mailwright.domain.errors import ConfigurationInvalid, MailwrightError
from mailwright.events.fetch import Fetch
from mailwright.events.reports import Reports
from mailwright.events.sns import AmazonCertificates, KeptCertificates, Sns
from mailwright.events.webhooks import Webhooks
from mailwright.ops.logs import logger
from mailwright.ops.settings import Settings
from mailwright.storage.database import Database

if TYPE_CHECKING:
    from mailwright.events.sendgrid_signature import SendGridSignature

# A queue or a mailbox that does not answer is asked again after so long.
RETRY_SECONDS = 15.0
# One that answers at once and has nothing must not be asked as fast as it answers.
EMPTY_SECONDS = 1.0

log = logger(__name__)


def make_reports(settings: Settings, database: Database, clock: Clock) -> Reports:
    return Reports(database, clock, SoftBounces(settings.soft_bounce_limit, settings.soft_bounce_days))


def make_webhooks(settings: Settings, reports: Reports, clock: Clock) -> Webhooks:
    fetch = Fetch()
    certificates = KeptCertificates(settings.sns_certs) if settings.sns_certs else AmazonCertificates(fetch, clock)
    sns = Sns(clock, certificates, fetch, settings.sns_topic_arns)
    return Webhooks(reports, clock, sns, sendgrid_signature(settings, clock), fetch)


def sendgrid_signature(settings: Settings, clock: Clock) -> "SendGridSignature | None":
    key = settings.sendgrid_webhook_public_key
    if key is None:
        return None
    from mailwright.events.sendgrid_signature import SendGridSignature  # noqa: PLC0415 - only for those with a key

    return SendGridSignature(key, clock)


def verify_inbound(settings: Settings) -> None:
    """Everything that is wrong with what these parts are told, at once."""
    problems: list[str] = []
    for name, look in _CHECKS.items():
        try:
            look(settings)
        except ConfigurationInvalid as error:
            problems += [f"{name}: {problem}" for problem in error.problems]
    if problems:
        raise ConfigurationInvalid(*problems)


class Inlet(Protocol):
    """Something that is looked into again and again."""

    @property
    def name(self) -> str: ...

    @property
    def pause_seconds(self) -> float: ...

    async def take(self) -> int:
        """One look; how much was there."""
        ...


async def attend_all(settings: Settings, reports: Reports, clock: Clock) -> None:
    """Looks into all that this installation has, until it is cancelled; at once over where it has nothing.

    Any number of processes may look into the same: what is found twice counts once.
    """
    async with AsyncExitStack() as closing:
        inlets = _inlets(settings, reports, clock, closing)
        await asyncio.gather(*(attend(inlet) for inlet in inlets))


async def attend(inlet: Inlet) -> None:
    """Whatever goes wrong is told and tried again: mails are sent whether or not anything comes back."""
    while True:
        pause = RETRY_SECONDS
        try:
            count = await inlet.take()
            pause = inlet.pause_seconds if count else max(inlet.pause_seconds, EMPTY_SECONDS)
        except MailwrightError as error:
            log.warning("inlet_unavailable", inlet=inlet.name, code=error.code, reason=str(error))
        except Exception as error:
            log.error("inlet_failed", inlet=inlet.name, exc_info=error)
        await asyncio.sleep(pause)


def _inlets(settings: Settings, reports: Reports, clock: Clock, closing: AsyncExitStack) -> list[Inlet]:
    """What comes with libraries of its own is imported by those who have it."""
    inlets: list[Inlet] = []
    if settings.sqs_queue_url is not None:
        from mailwright.events.sqs import Queue, QueuedEvents  # noqa: PLC0415
        from mailwright.providers.http import HttpClient  # noqa: PLC0415

        http = HttpClient(connections=4)
        closing.push_async_callback(http.close)
        queue = Queue(settings.sqs_queue_url, settings.aws_region, http, clock)
        inlets.append(QueuedEvents(queue, reports, clock, settings.sns_topic_arns))
    if settings.bounce_mailbox is not None:
        from mailwright.events.bounce_mail import LetterBox, Letters  # noqa: PLC0415
        from mailwright.events.bounces.boxes import open_box  # noqa: PLC0415

        box = open_box(settings.bounce_mailbox.get_secret_value())
        inlets.append(LetterBox(box, Letters(reports, clock)))
    for inlet in inlets:
        log.info("inlet_opened", inlet=inlet.name)
    return inlets


def _check_folder(settings: Settings) -> None:
    if settings.sns_certs is not None and not settings.sns_certs.is_dir():
        raise ConfigurationInvalid("is not a folder")


def _check_queue(settings: Settings) -> None:
    if settings.sqs_queue_url is not None:
        from mailwright.events.sqs import endpoint_of  # noqa: PLC0415

        endpoint_of(settings.sqs_queue_url, settings.aws_region)


def _check_mailbox(settings: Settings) -> None:
    if settings.bounce_mailbox is not None:
        from mailwright.events.bounces.boxes import open_box  # noqa: PLC0415

        open_box(settings.bounce_mailbox.get_secret_value())


def _check_key(settings: Settings) -> None:
    sendgrid_signature(settings, SystemClock())


_CHECKS: Mapping[str, Callable[[Settings], None]] = {
    "SENDGRID_WEBHOOK_PUBLIC_KEY": _check_key,
    "MAILWRIGHT_SNS_CERTS": _check_folder,
    "MAILWRIGHT_SQS_QUEUE_URL": _check_queue,
    "MAILWRIGHT_BOUNCE_MAILBOX": _check_mailbox,
}
