"""Wire the receivers of provider events: webhooks, the SQS queue and the bounce mailbox."""

import asyncio
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from pydantic import SecretStr

from mailwright.app.named_providers import NamedProviders
from mailwright.app.providers import aws_keys, oauth_settings
from mailwright.audience.status import SoftBounces
from mailwright.content.headers import Mailbox
from mailwright.domain import address
from mailwright.domain.clock import Clock, SystemClock
from mailwright.domain.errors import ConfigurationInvalid, MailwrightError
from mailwright.domain.translation import lazy_gettext
from mailwright.events.brevo import BrevoWebhook
from mailwright.events.fetch import AmazonFetcher
from mailwright.events.inbound_webhooks import InboundWebhooks, ProviderReports, ReportRecorder, VendorWebhook
from mailwright.events.mailgun import MailgunWebhook
from mailwright.events.postmark import PostmarkWebhook
from mailwright.events.reports import Reports
from mailwright.events.resend import ResendWebhook
from mailwright.events.sns import AmazonCertificates, FolderCertificates, SnsVerifier
from mailwright.ops.logs import logger
from mailwright.ops.periodic import run_periodically
from mailwright.ops.settings import Settings
from mailwright.outbox.accept import Acceptor
from mailwright.storage.database import Database

if TYPE_CHECKING:
    from mailwright.events.bounce_mail import BounceMailRecorder
    from mailwright.events.bounces.mailbox import BounceMailbox
    from mailwright.events.sendgrid_signature import SendGridSignature

# The pause after a failed poll.
RETRY_SECONDS = 15.0
# The minimum pause after a poll without results.
EMPTY_SECONDS = 1.0

log = logger(__name__)


def make_reports(settings: Settings, database: Database, clock: Clock) -> Reports:
    soft = SoftBounces(settings.soft_bounce_limit, settings.soft_bounce_days)
    return Reports(database, clock, soft, has_other_subscribers=settings.has_supabase)


@dataclass(frozen=True, slots=True)
class NamedWebhook:
    """The webhook of a named provider, with its own secret."""

    kind: str
    webhooks: InboundWebhooks


def make_named_webhooks(named: NamedProviders, reports: Reports, clock: Clock) -> dict[str, NamedWebhook]:
    return {
        each.name: NamedWebhook(each.kind, make_webhooks(each.settings, ProviderReports(reports, each.name), clock))
        for each in named.by_name.values()
        if each.problem is None
    }


def make_webhooks(settings: Settings, reports: ReportRecorder, clock: Clock) -> InboundWebhooks:
    fetch = AmazonFetcher()
    certificates = FolderCertificates(settings.sns_certs) if settings.sns_certs else AmazonCertificates(fetch, clock)
    sns = SnsVerifier(clock, certificates, fetch, settings.sns_topic_arns)
    vendors = {name: make(settings, clock) for name, make in _VENDORS.items()}
    configured = {name: vendor for name, vendor in vendors.items() if vendor is not None}
    return InboundWebhooks(reports, clock, sns, sendgrid_signature(settings, clock), fetch, vendors=configured)


def _vendor(
    field: str, make: Callable[[str, Clock], VendorWebhook]
) -> Callable[[Settings, Clock], VendorWebhook | None]:
    """Return a function that makes the webhook of a provider if its secret is set."""

    def make_configured(settings: Settings, clock: Clock) -> VendorWebhook | None:
        secret: SecretStr | None = getattr(settings, field)
        return None if secret is None else make(secret.get_secret_value(), clock)

    return make_configured


_VENDORS: Mapping[str, Callable[[Settings, Clock], VendorWebhook | None]] = {
    "mailgun": _vendor("mailgun_webhook_signing_key", MailgunWebhook),
    "resend": _vendor("resend_webhook_secret", ResendWebhook),
    "postmark": _vendor("postmark_webhook_secret", PostmarkWebhook),
    "brevo": _vendor("brevo_webhook_secret", BrevoWebhook),
}


def sendgrid_signature(settings: Settings, clock: Clock) -> "SendGridSignature | None":
    key = settings.sendgrid_webhook_public_key
    if key is None:
        return None
    from mailwright.events.sendgrid_signature import SendGridSignature  # noqa: PLC0415 - imported only with a key

    return SendGridSignature(key, clock)


def verify_inbound(settings: Settings) -> None:
    """Check the settings of inbound events; report all problems at once."""
    problems: list[str] = []
    for name, check in _CHECKS.items():
        try:
            check(settings)
        except ConfigurationInvalid as error:
            problems += error.of(name).problems
    if problems:
        raise ConfigurationInvalid(*problems)


class InboundSource(Protocol):
    """A source of events that must be polled."""

    @property
    def name(self) -> str: ...

    @property
    def pause_seconds(self) -> float: ...

    async def poll(self) -> int:
        """Process the available events and return how many there were."""
        ...


async def poll_inbound_sources(
    settings: Settings, database: Database, clock: Clock, reports: Reports, acceptor: Acceptor
) -> None:
    """Poll all configured sources until cancelled; return at once if there are none.

    Any number of processes may poll the same source, because a repeated event counts once.
    """
    async with AsyncExitStack() as closing:
        sources = _make_sources(settings, database, clock, reports, acceptor, closing=closing)
        async with asyncio.TaskGroup() as polling:
            for source in sources:
                polling.create_task(poll(source))


async def poll(source: InboundSource) -> None:
    """Poll one source until cancelled. Log errors, because they must not stop the sending of messages."""

    async def poll_once() -> float:
        count = await source.poll()
        return source.pause_seconds if count else max(source.pause_seconds, EMPTY_SECONDS)

    await run_periodically(source.name, poll_once, seconds=RETRY_SECONDS, expected=(MailwrightError,))


def make_recorder(
    settings: Settings, database: Database, clock: Clock, reports: Reports, acceptor: Acceptor
) -> "BounceMailRecorder":
    """Create the recorder of emails to the bounce address. Replies are forwarded through `acceptor`."""
    from mailwright.app.dmarc import make_dmarc_recorder  # noqa: PLC0415
    from mailwright.events.bounce_mail import BounceMailRecorder  # noqa: PLC0415 - imported only if needed
    from mailwright.events.replies import ReplyRecorder, ReplySettings  # noqa: PLC0415

    name, sender = address.split_mailbox(settings.sender)
    replies = ReplySettings(Mailbox(sender, name), settings.reply_forward_to, settings.reply_forward_unmatched)
    recorder = ReplyRecorder(database, clock, reports, acceptor.accept, replies)
    return BounceMailRecorder(reports, clock, recorder, make_dmarc_recorder(settings, database, clock))


def _make_sources(
    settings: Settings,
    database: Database,
    clock: Clock,
    reports: Reports,
    acceptor: Acceptor,
    *,
    closing: AsyncExitStack,
) -> list[InboundSource]:
    """Create the configured sources. Their libraries are imported only if needed."""
    sources: list[InboundSource] = []
    if settings.sqs_queue_url is not None:
        from mailwright.events.sqs import SqsEventSource, SqsQueue  # noqa: PLC0415
        from mailwright.providers.http import HttpClient  # noqa: PLC0415

        http = HttpClient(connections=4)
        closing.push_async_callback(http.close)
        queue = SqsQueue(settings.sqs_queue_url, settings.aws_region, http, clock, aws_keys(settings, clock))
        sources.append(SqsEventSource(queue, reports, clock, settings.sns_topic_arns))
    if settings.bounce_mailbox is not None:
        from mailwright.events.bounce_mail import BounceMailboxReader  # noqa: PLC0415

        mailbox = open_bounce_mailbox(settings.bounce_mailbox.get_secret_value(), settings, clock, closing)
        recorder = make_recorder(settings, database, clock, reports, acceptor)
        sources.append(BounceMailboxReader(mailbox, recorder))
    for source in sources:
        log.info("inbound_source_opened", source=source.name)
    return sources


def open_bounce_mailbox(url: str, settings: Settings, clock: Clock, closing: AsyncExitStack) -> "BounceMailbox":
    """Create the bounce mailbox, with access tokens of its user if it needs them."""
    from mailwright.events.bounces.imap import ImapMailbox  # noqa: PLC0415
    from mailwright.events.bounces.mailbox_url import open_mailbox  # noqa: PLC0415

    mailbox = open_mailbox(url)
    if not isinstance(mailbox, ImapMailbox) or not mailbox.needs_token:
        return mailbox
    oauth = oauth_settings(settings, mailbox.user)
    if oauth is None:
        return mailbox
    from mailwright.providers.http import HttpClient  # noqa: PLC0415
    from mailwright.providers.oauth import OAuthTokens  # noqa: PLC0415

    http = HttpClient(connections=1)
    closing.push_async_callback(http.close)
    return open_mailbox(url, OAuthTokens(oauth, http, clock))


def _check_folder(settings: Settings) -> None:
    if settings.sns_certs is not None and not settings.sns_certs.is_dir():
        raise ConfigurationInvalid(lazy_gettext("must be a folder"))


def _check_queue(settings: Settings) -> None:
    if settings.sqs_queue_url is not None:
        from mailwright.events.sqs import parse_queue_url  # noqa: PLC0415

        parse_queue_url(settings.sqs_queue_url, settings.aws_region)


def _check_mailbox(settings: Settings) -> None:
    if settings.bounce_mailbox is not None:
        from mailwright.events.bounces.imap import ImapMailbox  # noqa: PLC0415
        from mailwright.events.bounces.mailbox_url import open_mailbox  # noqa: PLC0415

        mailbox = open_mailbox(settings.bounce_mailbox.get_secret_value())
        if isinstance(mailbox, ImapMailbox) and mailbox.needs_token and oauth_settings(settings, mailbox.user) is None:
            raise ConfigurationInvalid(
                lazy_gettext(
                    "auth=xoauth2 needs MAILWRIGHT_OAUTH_TOKEN_URL and MAILWRIGHT_OAUTH_CLIENT_ID, or "
                    "MAILWRIGHT_OAUTH_SERVICE_ACCOUNT"
                )
            )


def _check_address(text: str | None) -> None:
    try:
        if text is not None:
            address.parse(text)
    except address.InvalidAddress as error:
        raise ConfigurationInvalid(
            lazy_gettext("{error}; use an address such as replies@example.com", error=error)
        ) from error


def _check_key(settings: Settings) -> None:
    sendgrid_signature(settings, SystemClock())


def _check_vendor(name: str) -> Callable[[Settings], None]:
    def check(settings: Settings) -> None:
        _VENDORS[name](settings, SystemClock())

    return check


_CHECKS: Mapping[str, Callable[[Settings], None]] = {
    "SENDGRID_WEBHOOK_PUBLIC_KEY": _check_key,
    "MAILGUN_WEBHOOK_SIGNING_KEY": _check_vendor("mailgun"),
    "RESEND_WEBHOOK_SECRET": _check_vendor("resend"),
    "POSTMARK_WEBHOOK_SECRET": _check_vendor("postmark"),
    "BREVO_WEBHOOK_SECRET": _check_vendor("brevo"),
    "MAILWRIGHT_SNS_CERTS": _check_folder,
    "MAILWRIGHT_SQS_QUEUE_URL": _check_queue,
    "MAILWRIGHT_BOUNCE_MAILBOX": _check_mailbox,
    "MAILWRIGHT_REPLY_ADDRESS": lambda settings: _check_address(settings.reply_address),
    "MAILWRIGHT_REPLY_FORWARD_TO": lambda settings: _check_address(settings.reply_forward_to),
}
