"""Wire the receivers of provider events: webhooks, queues and the bounce mailbox."""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack
from functools import partial
from typing import TYPE_CHECKING, Protocol, cast

from mailwright.audience.status import SoftBounces
from mailwright.content.headers import Mailbox
from mailwright.domain import address
from mailwright.domain.clock import Clock, SystemClock
from mailwright.domain.errors import ConfigurationInvalid, MailwrightError
from mailwright.domain.translation import lazy_gettext
from mailwright.events.inbound_webhooks import InboundWebhooks, ReportRecorder, record_events
from mailwright.events.reports import Reports
from mailwright.ops.logs import logger
from mailwright.ops.periodic import run_periodically
from mailwright.ops.provider_kind import ProviderKind
from mailwright.ops.provider_kinds import KINDS
from mailwright.ops.settings import Settings
from mailwright.ops.stored import variable_of
from mailwright.outbox.accept import Acceptor
from mailwright.providers.inbound.parsed_events import ProviderWebhook
from mailwright.providers.reading_settings import oauth_settings
from mailwright.storage.database import Database

if TYPE_CHECKING:
    from mailwright.events.bounce_mail import BounceMailRecorder
    from mailwright.events.bounces.mailbox import BounceMailbox

# The pause after a failed poll.
RETRY_SECONDS = 15.0
# The minimum pause after a poll without results.
EMPTY_SECONDS = 1.0

log = logger(__name__)


def make_reports(settings: Settings, database: Database, clock: Clock) -> Reports:
    soft = SoftBounces(settings.soft_bounce_limit, settings.soft_bounce_days)
    return Reports(database, clock, soft, has_other_subscribers=settings.has_supabase)


def make_webhooks(settings: Settings, reports: ReportRecorder, clock: Clock) -> InboundWebhooks:
    return InboundWebhooks(reports, make_configured(KINDS.values(), settings, clock))


def make_configured(kinds: Iterable[ProviderKind], settings: Settings, clock: Clock) -> dict[str, ProviderWebhook]:
    """Make the configured webhooks. The code of the others is not imported."""
    made = {
        kind.name: _make_webhook(kind, settings, clock)
        for kind in kinds
        if kind.webhook is not None and (kind.webhook.is_optional or getattr(settings, kind.webhook.setting))
    }
    return {name: webhook for name, webhook in made.items() if webhook is not None}


def _make_webhook(kind: ProviderKind, settings: Settings, clock: Clock) -> ProviderWebhook | None:
    try:
        return cast("ProviderWebhook | None", kind.load_events().make_webhook(settings, clock))
    except Exception as error:
        if kind.plugin_api is None or isinstance(error, ConfigurationInvalid):
            raise
        log.error("plugin_failed", plugin=kind.name, exc_info=error)
        return None


def verify_inbound(settings: Settings) -> None:
    """Check the settings of inbound events; report all problems at once."""
    problems: list[str] = []
    for kind in KINDS.values():
        problems += _event_problems(kind, settings)
    for name, check in _CHECKS.items():
        try:
            check(settings)
        except ConfigurationInvalid as error:
            problems += error.of(name).problems
    if problems:
        raise ConfigurationInvalid(*problems)


def _event_problems(kind: ProviderKind, settings: Settings) -> Sequence[str]:
    if kind.webhook is None:
        return ()
    try:
        if kind.checks_events:
            kind.load_events().check_settings(settings)
        elif getattr(settings, kind.webhook.setting):
            kind.load_events().make_webhook(settings, SystemClock())
    except ConfigurationInvalid as error:
        return error.problems if kind.checks_events else error.of(variable_of(kind.webhook.setting)).problems
    except Exception:
        if kind.plugin_api is None:
            raise
    return ()


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
    for kind in KINDS.values():
        if kind.has_queue:
            record = partial(record_events, reports, kind.name)
            queue = kind.load_events().make_queue(settings, clock, record, closing)
            sources += [] if queue is None else [queue]
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


_CHECKS: Mapping[str, Callable[[Settings], None]] = {
    "MAILWRIGHT_BOUNCE_MAILBOX": _check_mailbox,
    "MAILWRIGHT_REPLY_ADDRESS": lambda settings: _check_address(settings.reply_address),
    "MAILWRIGHT_REPLY_FORWARD_TO": lambda settings: _check_address(settings.reply_forward_to),
}
