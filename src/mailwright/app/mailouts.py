"""Mailouts, put together: Notion, Supabase and the campaign queue meet here, and here is who works on runs."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import fields
from time import perf_counter
from typing import Any, Final, TypeVar
from urllib.parse import urlsplit

from aiohappyeyeballs import AddrInfoType

from mailwright.app.link_checks import public_only
from mailwright.content.images import ImageStore
from mailwright.content.template_store import TemplateStore
from mailwright.domain import address
from mailwright.domain.campaign import QueueStatus
from mailwright.domain.clock import SECOND, Clock, Instant, SteadyClock
from mailwright.domain.errors import ConfigurationInvalid, InvalidInput, NotDurable
from mailwright.domain.message import Source
from mailwright.domain.permits import LimitWindow
from mailwright.ops.logs import logger
from mailwright.ops.periodic import exponential, run_periodically
from mailwright.ops.settings import Settings
from mailwright.outbox import tenants
from mailwright.outbox.ledger import DatabaseLedger
from mailwright.pipeline.compose import parse_mailbox
from mailwright.providers.http import HttpClient, Resolve, addresses_of
from mailwright.sources.campaigns import external, progress
from mailwright.sources.campaigns.definition import CampaignLimits
from mailwright.sources.campaigns.progress import CampaignMessageCounts, QueuePosition
from mailwright.sources.mailouts.audience import ContactAudience, SupabaseAudience
from mailwright.sources.mailouts.notion import ErrorColumns, MailoutColumns, Notion, SharedRateLimit, notion_id
from mailwright.sources.mailouts.prepare import MailoutPreparation
from mailwright.sources.mailouts.queue import MailoutCampaign, MailoutProgress, MailoutRecipient
from mailwright.sources.mailouts.refusals import NOT_CONFIGURED, MailoutRefused
from mailwright.sources.mailouts.rendering import ImageCopier
from mailwright.sources.mailouts.runs import MailoutRun, MailoutRuns
from mailwright.sources.mailouts.sender import MailoutSender
from mailwright.sources.mailouts.setup import FooterDetails, MailoutSetup, NotionStatuses
from mailwright.sources.mailouts.status_sync import StatusSync
from mailwright.sources.mailouts.supabase import Supabase, SupabaseError, find_key_problem
from mailwright.sources.mailouts.write_back import WriteBack
from mailwright.storage.database import Database, Transaction

# How often is looked for something to do, and how long at most after a failure.
IDLE_SECONDS: Final = 1.0
STANDINGS_EVERY: Final = 2 * SECOND
LONGEST_PAUSE_SECONDS: Final = 300.0
# So many times as long as a look took is rested after it: looking never takes more than a twentieth of the time.
REST: Final = 20

Names = TypeVar("Names", MailoutColumns, ErrorColumns, NotionStatuses)

log = logger(__name__)


class CampaignQueue:
    """The queue of campaigns, as mailouts see it."""

    async def enter(self, tx: Transaction, entering: MailoutCampaign, now: Instant) -> int:
        guest = external.ExternalCampaign(
            campaign_id=entering.campaign_id,
            tenant_id=entering.tenant_id,
            name=entering.name,
            subject=entering.subject,
            template_id=entering.template_id,
            template_key=entering.template_key,
            planned=entering.planned,
            limits=CampaignLimits(interval_ms=entering.interval_ms, one_at_a_time=True),
        )
        return await external.enqueue_external(tx, guest, now)

    async def hand_over(
        self, tx: Transaction, campaign_key: int, batch: Sequence[MailoutRecipient], now: Instant
    ) -> bool:
        people = [external.ExternalRecipient(each.email, each.payload) for each in batch]
        return await external.add_recipients(tx, Source.MAILOUT, campaign_key, people, now)

    async def all_handed_over(self, tx: Transaction, campaign_key: int, now: Instant) -> None:
        await external.close_recipients(tx, campaign_key, now)

    async def tally(self, tx: Transaction, campaign_key: int, now: Instant) -> MailoutProgress:
        return (await _tallies(tx, [campaign_key], now))[campaign_key]


async def progress_of(database: Database, clock: Clock, runs: Sequence[MailoutRun]) -> dict[int, MailoutProgress]:
    """By the keys of the runs; none of what is not in line yet."""
    keys = {run.key: run.campaign_key for run in runs if run.campaign_key is not None}
    async with database.read() as tx:
        found = await _tallies(tx, list(keys.values()), clock.now())
    return {key: found[campaign_key] for key, campaign_key in keys.items()}


async def _tallies(tx: Transaction, campaign_keys: Sequence[int], now: Instant) -> dict[int, MailoutProgress]:
    """Of many at once; one that has no place in line is over."""
    found = dict.fromkeys(campaign_keys, MailoutProgress(0, 0, 0, 0, 0, 0, is_over=True))
    places = await progress.find_positions(tx, campaign_keys, now)
    for place, counts in zip(places, await progress.count_messages_of(tx, places), strict=True):
        found[place.campaign_key] = _tally(place, counts)
    return found


def _tally(place: QueuePosition, counts: CampaignMessageCounts) -> MailoutProgress:
    return MailoutProgress(
        sent=counts.sent,
        failed=counts.failed + counts.closed_unknown,
        in_doubt=counts.in_doubt,
        withdrawn=counts.withdrawn,
        waiting=counts.waiting + counts.sending,
        cancelled=counts.cancelled,
        is_over=place.status is QueueStatus.COMPLETED,
    )


class MailoutService:
    """One for each process. Nothing is opened before it is needed."""

    def __init__(
        self,
        settings: Settings,
        database: Database,
        clock: Clock,
        templates: TemplateStore,
        *,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        steady: Clock | None = None,
    ) -> None:
        """`sleep` waits for Notion and Supabase, as the steady clock counts."""
        self.runs = MailoutRuns(database, clock, settings.lock_ttl_seconds * SECOND)
        self.queue = CampaignQueue()
        self.settings = settings
        self._database = database
        self._clock = clock
        self._templates = templates
        self._sleep = sleep
        self._steady = steady or SteadyClock()
        self._http: HttpClient | None = None
        self._careful: HttpClient | None = None
        self._mailouts: MailoutSender | None = None
        self._status_sync: StatusSync | None = None

    @property
    def is_configured(self) -> bool:
        return self.settings.notion_token is not None

    @property
    def has_supabase(self) -> bool:
        return self.settings.supabase_url is not None and self.settings.supabase_service_role_key is not None

    async def open(self) -> MailoutSender:
        if self._mailouts is None:
            self._mailouts = await self._made()
        return self._mailouts

    async def status_sync(self) -> StatusSync | None:
        """None where there is no Supabase to tell."""
        supabase = self._supabase()
        if supabase is None:
            return None
        if self._status_sync is None:
            tenant_id = await self._tenant_id()
            self._status_sync = StatusSync(self._database, self._clock, tenant_id, supabase)
        return self._status_sync

    async def close(self) -> None:
        for http in (self._http, self._careful):
            if http is not None:
                await http.close()

    async def _made(self) -> MailoutSender:
        token = self.settings.notion_token
        if token is None:
            raise MailoutRefused(NOT_CONFIGURED, "Set NOTION_TOKEN to the secret of your integration in Notion.")
        setup = mailout_setup(self.settings, await self._tenant_id())
        http, supabase = self._shared_http(), self._supabase()
        notion = Notion(
            http,
            token.get_secret_value(),
            self._steady,
            url=self.settings.notion_url,
            version=self.settings.notion_version,
            shared=SharedRateLimit(DatabaseLedger(self._database, self._clock), self._clock),
            sleep=self._sleep,
        )
        self._careful = self._careful or HttpClient(connections=4, resolve=_public_or(self.settings.notion_url))
        images = ImageStore(self._database, self._clock, self.settings.images)
        preparing = MailoutPreparation(
            self._database,
            self._clock,
            setup,
            notion=notion,
            pictures=ImageCopier(self._careful, images, public_url_of(self.settings) or self.settings.public_url),
            templates=self._templates,
            readers=ContactAudience(self._database, self._clock) if supabase is None else SupabaseAudience(supabase),
            queue=self.queue,
        )
        reporting = WriteBack(self._database, self._clock, setup, notion=notion, queue=self.queue, supabase=supabase)
        return MailoutSender(setup, self.runs, notion=notion, preparing=preparing, reporting=reporting)

    async def _tenant_id(self) -> int:
        return (await tenants.find(self._database, self.settings.mailout_tenant)).id

    def _supabase(self) -> Supabase | None:
        url, key = self.settings.supabase_url, self.settings.supabase_service_role_key
        if url is None or key is None:
            return None
        return Supabase(self._shared_http(), url, key.get_secret_value(), sleep=self._sleep)

    def _shared_http(self) -> HttpClient:
        self._http = self._http or HttpClient(connections=8)
        return self._http


def mailout_setup(settings: Settings, tenant_id: int) -> MailoutSetup:
    sender = parse_mailbox(settings.sender)
    org_address = settings.org_address or settings.postal_address
    needed: dict[str, object] = {
        "ORG_NAME": settings.org_name,
        "ORG_ADDRESS": org_address,
        "UNSUBSCRIBE_BASE_URL": settings.unsubscribe_base_url or settings.base_url,
        "UNSUBSCRIBE_SECRET": settings.unsubscribe_secret,
    }
    missing = tuple(name for name, value in needed.items() if not value)
    return MailoutSetup(
        tenant_id=tenant_id,
        from_email=settings.from_email or sender.address,
        from_name=settings.from_name or (sender.name if settings.from_email is None else None),
        has_public_url=public_url_of(settings) is not None,
        reply_to=settings.reply_to_email,
        footer=FooterDetails(settings.org_name or "", org_address or "", missing),
        unsubscribe_url=settings.unsubscribe_url,
        test_emails=settings.test_emails,
        rate_per_second=settings.send_rate_per_sec,
        batch_size=settings.batch_size,
        mailouts_database=settings.notion_db_mailouts,
        errors_database=settings.notion_db_errors,
        columns=_named(MailoutColumns, settings.notion_mailout_properties),
        error_columns=_named(ErrorColumns, settings.notion_error_properties),
        statuses=_named(NotionStatuses, settings.notion_statuses),
    )


def public_url_of(settings: Settings) -> str | None:
    """Where readers reach us, as far as it is told: the page of their links to leave is one of our pages."""
    if settings.base_url is not None:
        return settings.public_url
    page = settings.unsubscribe_base_url or ""
    return page.removesuffix("/unsubscribe") if page.endswith("/unsubscribe") else None


def verify_mailouts(settings: Settings) -> None:
    """Everything that is wrong with what mailouts are told, at once."""
    problems: list[str] = []
    for name, look in _CHECKS.items():
        try:
            look(settings)
        except (ConfigurationInvalid, InvalidInput, address.InvalidAddress) as error:
            problems.append(f"{name}: {error}")
    if problems:
        raise ConfigurationInvalid(*problems)


async def run_mailouts(service: MailoutService, database: Database, clock: Clock) -> None:
    """Until it is cancelled; at once over where there is neither Notion nor Supabase."""
    duties: list[Awaitable[None]] = []
    if service.is_configured:
        duties.append(_again_and_again(lambda: work_once(service), "mailouts"))
    if service.has_supabase:
        ledger = DatabaseLedger(database, clock)
        duties.append(_again_and_again(lambda: _tell_in_turn(service, ledger, clock), "standings"))
    await asyncio.gather(*duties)


async def work_once(service: MailoutService) -> bool:
    """One step for one run; true where there may be more."""
    return await (await service.open()).tick()


async def drain_mailouts(service: MailoutService) -> None:
    """All that can be done for runs and standings now; what waits for somebody is left to whoever looks next."""
    if service.is_configured:
        await (await service.open()).check_sending()
        while await work_once(service):
            pass
    standings = await service.status_sync()
    try:
        while standings is not None and await standings.tick():
            pass
    except SupabaseError as error:
        log.warning("standings_postponed", code=error.code, reason=str(error))


async def _tell_in_turn(service: MailoutService, ledger: DatabaseLedger, clock: Clock) -> bool:
    """One process at a time: telling twice does no harm, and costs Supabase twice as much."""
    number = clock.now() // STANDINGS_EVERY
    ends = (number + 1) * STANDINGS_EVERY
    turn = LimitWindow(f"mailer:turn:standings:{number}", 1, ends, "standings_turn", ends)
    standings = await service.status_sync()
    if standings is None or (await ledger.reserve((turn,), 1)).count == 0:
        return False
    return bool(await standings.tick())


async def _again_and_again(work: Callable[[], Awaitable[bool]], name: str) -> None:
    """Run until cancelled; errors are logged, and sending continues."""

    async def run_once() -> float:
        began = perf_counter()
        return 0.0 if await work() else rest_after(perf_counter() - began)

    await run_periodically(
        name,
        run_once,
        seconds=IDLE_SECONDS,
        expected=(NotDurable, SupabaseError, MailoutRefused),
        retry_seconds=exponential(2 * IDLE_SECONDS, LONGEST_PAUSE_SECONDS),
    )


def rest_after(look_seconds: float) -> float:
    """How long nobody looks again after a look that found nothing: looks at many people take their time."""
    return min(max(IDLE_SECONDS, REST * look_seconds), LONGEST_PAUSE_SECONDS)


def _public_or(notion_url: str) -> Resolve:
    """Whoever writes a page chooses what is fetched for it: nothing of our own network, save what is kept by the Notion
    that was set, as in a rehearsal."""
    parts = urlsplit(notion_url)
    known = (parts.hostname, parts.port or (80 if parts.scheme == "http" else 443))
    judged = public_only()

    async def resolve(host: str, port: int) -> Sequence[AddrInfoType]:
        return await (addresses_of if (host, port) == known else judged)(host, port)

    return resolve


def _named(kind: type[Names], given: dict[str, str]) -> Names:
    known = {field.name for field in fields(kind)}
    if unknown := sorted(given.keys() - known):
        raise ConfigurationInvalid(f"knows no {', '.join(unknown)}; there are {', '.join(sorted(known))}")
    return kind(**given)


def _check_address(text: str | None) -> None:
    if text is not None:
        address.parse(text)


def _check_id(text: str | None, name: str) -> None:
    if text is not None:
        notion_id(text, field=name)


def _check_supabase(settings: Settings) -> None:
    key = settings.supabase_service_role_key
    if (settings.supabase_url is None) != (key is None):
        raise ConfigurationInvalid("set it together with SUPABASE_URL, or neither")
    if key is not None and (objection := find_key_problem(key.get_secret_value())):
        raise ConfigurationInvalid(objection)


def _check_supabase_url(settings: Settings) -> None:
    if settings.supabase_url is not None and not settings.supabase_url.startswith(("https://", "http://")):
        raise ConfigurationInvalid("must look like https://abcdefgh.supabase.co")


_CHECKS: dict[str, Callable[[Settings], Any]] = {
    "FROM_EMAIL": lambda settings: _check_address(settings.from_email),
    "REPLY_TO_EMAIL": lambda settings: _check_address(settings.reply_to_email),
    "NOTION_DB_MAILOUTS": lambda settings: _check_id(settings.notion_db_mailouts, "NOTION_DB_MAILOUTS"),
    "NOTION_DB_ERRORS": lambda settings: _check_id(settings.notion_db_errors, "NOTION_DB_ERRORS"),
    "NOTION_MAILOUT_PROPERTIES": lambda settings: _named(MailoutColumns, settings.notion_mailout_properties),
    "NOTION_ERROR_PROPERTIES": lambda settings: _named(ErrorColumns, settings.notion_error_properties),
    "NOTION_STATUSES": lambda settings: _named(NotionStatuses, settings.notion_statuses),
    "SUPABASE_URL": _check_supabase_url,
    "SUPABASE_SERVICE_ROLE_KEY": _check_supabase,
}
